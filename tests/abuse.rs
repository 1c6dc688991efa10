//! External files are data: bundles and projects made to do harm.
//!
//! Every case seals the bundle again after changing it, so that manifest, sums and statement match: only the contents
//! of the files can be at fault.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::support::{Outcome, Project, goes_with_us};

const STUDY: &str = "experiments/simulated.yaml";

/// A project whose simulated study has run, with its bundle.
fn published() -> &'static (Project, PathBuf) {
    static PUBLISHED: OnceLock<(Project, PathBuf)> = OnceLock::new();
    PUBLISHED.get_or_init(|| {
        let project = goes_with_us(Project::new());
        project.run(["run", STUDY]).ok();
        let bundle = project.path().join("bundle");
        let out = bundle.to_str().expect("text");
        project
            .run(["publish", STUDY, "--author", "Ada Lovelace", "--out", out])
            .ok();
        (project, bundle)
    })
}

/// A copy of the bundle that the test may change.
fn copy() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let target = folder.path().join("bundle");
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([&published().1, &target])
        .status();
    assert!(copied.expect("cp starts").success());
    (folder, target)
}

fn command(name: &str, bundle: &Path) -> Outcome {
    Project::new().run([name.as_ref(), bundle.as_os_str()])
}

/// Rewrites manifest, sums and statement for the current files.
fn seal(bundle: &Path) {
    let path = bundle.join("manifest.json");
    let mut manifest: Value =
        serde_json::from_slice(&fs::read(&path).expect("a manifest")).expect("JSON");
    for file in manifest["files"].as_array_mut().expect("files") {
        let place = bundle.join(file["path"].as_str().expect("a path"));
        let Ok(bytes) = fs::read(place) else { continue };
        file["bytes"] = json!(bytes.len());
        file["blake3"] = json!(artifacts::Digest::of(&bytes).to_string());
        file["sha256"] = json!(sha256(&bytes));
    }
    let mut text = serde_json::to_vec_pretty(&manifest).expect("JSON");
    text.push(b'\n');
    fs::write(&path, &text).expect("writable");
    let statement = bundle.join("statement.json");
    let mut value: Value =
        serde_json::from_slice(&fs::read(&statement).expect("a statement")).expect("JSON");
    for subject in value["subject"].as_array_mut().expect("subjects") {
        let place = bundle.join(subject["name"].as_str().expect("a name"));
        let bytes = fs::read(place).expect("a subject");
        subject["digest"]["sha256"] = json!(sha256(&bytes));
        subject["digest"]["blake3"] = json!(artifacts::Digest::of(&bytes).hex());
    }
    let mut text = serde_json::to_vec_pretty(&value).expect("JSON");
    text.push(b'\n');
    fs::write(&statement, text).expect("writable");
    let mut sums = String::new();
    let files = manifest["files"].as_array().expect("files");
    let paths = files.iter().map(|f| f["path"].as_str().expect("a path"));
    for path in paths.chain(["manifest.json", "statement.json"]) {
        let bytes = fs::read(bundle.join(path)).unwrap_or_default();
        sums.push_str(&format!("{}  {path}\n", sha256(&bytes)));
    }
    fs::write(bundle.join("SHA256SUMS"), sums).expect("writable");
}

fn sha256(bytes: &[u8]) -> String {
    use std::io::Write as _;
    use std::process::{Command, Stdio};
    let mut child = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sha256sum starts");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(bytes)
        .expect("written");
    let output = child.wait_with_output().expect("sha256sum ends");
    String::from_utf8(output.stdout).expect("text")[..64].to_owned()
}

fn edit(path: &Path, change: impl FnOnce(String) -> String) {
    let before = fs::read_to_string(path).expect("text");
    let after = change(before.clone());
    assert_ne!(before, after, "{} is to be changed", path.display());
    fs::write(path, after).expect("writable");
}

#[test]
fn a_bundle_as_published_holds_and_says_what_only_a_signature_could_show() {
    let outcome = command("verify", &published().1).ok();
    assert!(
        outcome.stdout.contains("everything holds"),
        "{}",
        outcome.stdout
    );
    assert!(
        outcome
            .stdout
            .contains("nobody vouches for the measurements"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn every_document_that_can_be_derived_is_derived_again_and_compared() {
    let prepend = |text: String| format!("{text}\n");
    type Change = fn(String) -> String;
    let cases: [(&str, Change); 9] = [
        ("README.md", prepend),
        ("CITATION.cff", |t| t.replace("Lovelace", "Nobody")),
        ("prov.json", |t| t.replacen("bt:cell.1", "bt:cell.one", 1)),
        ("ro-crate-metadata.json", |t| {
            t.replacen("Lovelace", "Nobody", 1)
        }),
        ("artifacts.tsv", |t| t.replacen("requests", "inquests", 1)),
        ("study.json", |t| t.replacen("\"ok\"", "\"excluded\"", 1)),
        ("report/report.html", |t| {
            t.replace("</body>", "<script>alert(1)</script></body>")
        }),
        ("report/report.md", |t| t.replacen('1', "7", 1)),
        ("manifest.json", |t| t.replace("Lovelace", "Nobody")),
    ];
    for (file, change) in cases {
        let (_folder, bundle) = copy();
        let path = bundle.join(file);
        if !path.is_file() {
            assert!(file.starts_with("report/"), "{file} is in every bundle");
            continue;
        }
        edit(&path, change);
        seal(&bundle);
        let outcome = command("verify", &bundle);
        assert_eq!(
            outcome.code,
            Some(1),
            "{file}: {}{}",
            outcome.stdout,
            outcome.stderr
        );
        assert!(
            outcome.stdout.contains("does not hold"),
            "{file}: {}",
            outcome.stdout
        );
        // Nothing in an invalid bundle is executed.
        let again = command("reproduce", &bundle);
        assert_ne!(again.code, Some(0), "{file}");
        assert!(
            again.stdout.contains("nothing was executed"),
            "{file}: {}",
            again.stdout
        );
    }
}

/// Replaces an output of a cell in the store with a table in which a column is doubled, as if the cell had given it. Takes
/// away the index and the lock, so that the next run reads the forged record.
fn forge_table(project: &Project, cell: &str, output: &str, column: &str) {
    let objects = project.path().join(".benchtrail/objects");
    let place = |digest: &str| {
        let hex = digest.trim_start_matches("b3:");
        objects.join(&hex[..2]).join(&hex[2..])
    };
    let put = |bytes: &[u8]| {
        let digest = artifacts::Digest::of(bytes).to_string();
        let target = place(&digest);
        fs::create_dir_all(target.parent().expect("a folder")).expect("writable");
        fs::write(target, bytes).expect("writable");
        digest
    };
    let lock = project.path().join("experiments/simulated.lock");
    let text = fs::read_to_string(&lock).expect("a lock");
    let mut lines = text
        .lines()
        .skip_while(|l| !l.starts_with(&format!("stage \"{cell}\"")));
    let line = lines.nth(1).expect("a cell");
    let digest = line.split(' ').nth(3).expect("a record");
    let mut record: Value =
        serde_json::from_slice(&fs::read(place(digest)).expect("a record")).expect("JSON");
    let before = record["outputs"][output]["digest"]
        .as_str()
        .expect("a digest");
    let table = fs::read(place(before)).expect("a table");
    let table = artifacts::Table::from_parquet(table).expect("a table");
    let doubled = table.float(column).expect("numbers");
    let doubled = doubled.iter().map(|value| value.map(|value| value * 2.0));
    let doubled = artifacts::Column::float(column, doubled);
    let columns = table.names().into_iter().map(|name| match name == column {
        true => doubled.clone(),
        false => table.column(&name).expect("a column"),
    });
    let table = artifacts::Table::new(columns.collect()).expect("a table");
    let bytes = table.to_parquet().expect("bytes");
    record["outputs"][output]["bytes"] = json!(bytes.len());
    record["outputs"][output]["digest"] = json!(put(&bytes));
    fs::remove_file(place(digest)).expect("the record");
    let mut bytes = serde_json::to_vec_pretty(&record).expect("JSON");
    bytes.push(b'\n');
    put(&bytes);
    fs::remove_file(lock).expect("the lock");
    fs::remove_file(project.path().join(".benchtrail/index.sqlite")).expect("the index");
}

#[test]
fn a_forged_table_is_found_by_reproduce_and_verify_says_that_it_does_not_compute_it() {
    let project = Project::copy_of(&published().0);
    forge_table(&project, "results", "efficiency", "output_throughput");
    let again = project.run(["run", STUDY]).ok();
    assert!(
        again.stdout.contains("0 cells executed"),
        "{}",
        again.stdout
    );
    let folder = tempfile::tempdir().expect("a temporary folder");
    let bundle = folder.path().join("forged");
    let out = bundle.to_str().expect("text");
    project
        .run(["publish", STUDY, "--author", "Nobody", "--out", out])
        .ok();
    let verified = command("verify", &bundle).ok().stdout;
    assert!(
        verified
            .contains("2 cells of analyses and gates taken as recorded: `benchtrail reproduce`"),
        "{verified}"
    );
    let reproduced = command("reproduce", &bundle);
    assert_eq!(reproduced.code, Some(1), "{}", reproduced.stdout);
    assert!(
        reproduced.stdout.contains("results.efficiency: recorded"),
        "{}",
        reproduced.stdout
    );
}

#[test]
fn a_file_that_nothing_derives_is_named_as_such() {
    let (_folder, bundle) = copy();
    edit(&bundle.join("simulated.yaml"), |text| {
        text.replacen("batching", "beaching", 1)
    });
    let before = fs::read(published().1.join("simulated.yaml")).expect("the experiment");
    let after = fs::read(bundle.join("simulated.yaml")).expect("the experiment");
    // The documents that name its digest are brought up to date, too.
    for place in ["ro-crate-metadata.json", "prov.json", "artifacts.tsv"] {
        let text = fs::read_to_string(bundle.join(place)).expect("text");
        let digest = |bytes: &[u8]| artifacts::Digest::of(bytes).hex();
        let text = text.replace(&sha256(&before), &sha256(&after));
        let text = text.replace(&digest(&before), &digest(&after));
        fs::write(bundle.join(place), text).expect("writable");
    }
    seal(&bundle);
    let verified = command("verify", &bundle);
    let named = "only a checked signature shows whether these files are the author's: \
                 simulated.yaml";
    assert!(
        verified.stdout.contains(named),
        "{}{}",
        verified.stdout,
        verified.stderr
    );
}

#[test]
fn what_is_not_in_the_manifest_is_an_error_and_an_index_is_never_read() {
    let (_folder, bundle) = copy();
    for place in [
        "store/index.sqlite",
        "store/tmp/x",
        "store/leases/x",
        "store/holds/x",
    ] {
        let path = bundle.join(place);
        fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
        fs::write(&path, "SQLite format 3").expect("writable");
        let outcome = command("verify", &bundle);
        assert_eq!(outcome.code, Some(1), "{place}: {}", outcome.stdout);
        assert!(
            outcome
                .stdout
                .contains(&format!("{place}: it is not in the manifest")),
            "{}",
            outcome.stdout
        );
        // Reading continues as if the index were missing, and leaves it unchanged.
        let project = Project::new();
        let plan = project
            .command(["plan", "simulated.yaml"])
            .current_dir(&bundle)
            .output()
            .expect("the binary starts");
        assert!(
            plan.status.success(),
            "{}",
            String::from_utf8_lossy(&plan.stderr)
        );
        assert_eq!(
            fs::read_to_string(&path).expect("still there"),
            "SQLite format 3"
        );
        fs::remove_file(&path).expect("removable");
    }
}

#[test]
fn a_bundle_is_not_changed_by_commands_that_write() {
    let (_folder, bundle) = copy();
    let project = Project::new();
    for arguments in [
        vec!["run", "simulated.yaml"],
        vec!["gc"],
        vec!["fsck", "--repair"],
    ] {
        let output = project.command(&arguments).current_dir(&bundle).output();
        let outcome = Outcome::from(output.expect("the binary starts"));
        assert_eq!(outcome.code, Some(2), "{arguments:?}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains("is a published bundle"),
            "{}",
            outcome.stderr
        );
    }
    command("verify", &bundle).ok();
}

#[test]
fn only_regular_files_below_the_bundle_are_opened() {
    type Plant = fn(&Path);
    let plants: [(&str, Plant); 4] = [
        ("FIFO", |path| {
            let made = std::process::Command::new("mkfifo").arg(path).status();
            assert!(made.expect("mkfifo starts").success());
        }),
        ("symbolic link", |path| {
            symlink("/dev/zero", path).expect("a link");
        }),
        ("symbolic link", |path| {
            symlink("/etc/hostname", path).expect("a link");
        }),
        ("directory", |path| fs::create_dir(path).expect("a folder")),
    ];
    for place in [
        "README.md",
        "manifest.json",
        "SHA256SUMS",
        "statement.json",
        "study.json",
    ] {
        for (what, plant) in plants {
            let (_folder, bundle) = copy();
            let path = bundle.join(place);
            fs::remove_file(&path).expect("removable");
            plant(&path);
            let outcome = command("verify", &bundle);
            let said = format!("{}{}", outcome.stdout, outcome.stderr);
            assert!(
                matches!(outcome.code, Some(1..=4)),
                "{place} {what}: {said}"
            );
            assert!(said.contains(what), "{place} as {what}: {said}");
        }
    }
}

/// Runs a command that must not block on a file. A command that does is ended, and fails the test.
fn unwaiting(project: &Project, line: &str) -> Outcome {
    let plain = project.command(line.split(' '));
    let mut command = std::process::Command::new("timeout");
    command
        .args([
            "-s",
            "KILL",
            "100",
            "sh",
            "-c",
            "ulimit -v 4194304 && exec \"$@\"",
            "sh",
        ])
        .arg(plain.get_program())
        .args(plain.get_args())
        .current_dir(project.path())
        .stdin(std::process::Stdio::null());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.output().expect("timeout starts").into()
}

#[test]
fn a_fifo_or_a_device_in_the_place_of_any_file_that_a_command_reads_ends_it_with_a_reason() {
    let project = Project::copy_of(&published().0);
    let at = |name: &str| project.path().join(name);
    let roots = fs::read_dir(at(".benchtrail/roots")).expect("roots").next();
    let root = roots.expect("a root").expect("readable").path();
    let place = root.join("place");
    let place = place.strip_prefix(project.path()).expect("below");
    let lease = ".benchtrail/leases/1-2.json";
    fs::create_dir_all(at(".benchtrail/leases")).expect("writable");
    fs::create_dir_all(at(".benchtrail/holds")).expect("writable");
    let cases: &[(&str, &[&str])] = &[
        (
            STUDY,
            &[
                "plan experiments/simulated.yaml",
                "run experiments/simulated.yaml",
            ],
        ),
        (
            "experiments/simulated.lock",
            &[
                "plan experiments/simulated.yaml",
                "status experiments/simulated.yaml",
                "run experiments/simulated.yaml",
                "gc --dry-run",
                "diff experiments/simulated.lock bundle",
                "explore experiments/simulated.lock --export out.html",
            ],
        ),
        (place.to_str().expect("text"), &["gc --dry-run"]),
        (".benchtrail/holds/run-1-2-3", &["gc --dry-run"]),
        (
            "x.md",
            &["audit x.md", "why x.md 1", "audit --foreign x.md"],
        ),
        (
            "x.parquet",
            &[
                "show x.parquet",
                "sql x.parquet",
                "audit --foreign bundle/README.md --data x.parquet",
            ],
        ),
        ("x.csv", &["audit --foreign bundle/README.md --data x.csv"]),
        ("x.tar.zst", &["verify x.tar.zst", "reproduce x.tar.zst"]),
        ("x.pem", &["verify bundle --key x.pem"]),
        ("load.json", &["report ."]),
    ];
    for (name, commands) in cases {
        for device in [false, true] {
            let path = at(name);
            let before = fs::read(&path).ok();
            fs::remove_file(&path).ok();
            if device {
                symlink("/dev/zero", &path).expect("a link");
            } else {
                let made = std::process::Command::new("mkfifo").arg(&path).status();
                assert!(made.expect("mkfifo starts").success());
            }
            for line in *commands {
                let outcome = unwaiting(&project, line);
                let said = format!("{}{}", outcome.stdout, outcome.stderr);
                let is_reported =
                    matches!(outcome.code, Some(1..=5)) && outcome.stderr.contains("error: ");
                assert!(
                    is_reported,
                    "{line}, device {device}: {:?} {said}",
                    outcome.code
                );
            }
            fs::remove_file(&path).expect("removable");
            if let Some(before) = before {
                fs::write(&path, before).expect("writable");
            }
        }
    }
    // A lease that is not ours is left alone.
    let made = std::process::Command::new("mkfifo").arg(at(lease)).status();
    assert!(made.expect("mkfifo starts").success());
    let outcome = unwaiting(&project, "run experiments/simulated.yaml --quiet");
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
}

#[test]
fn an_object_that_is_no_regular_file_is_not_read() {
    let (_folder, bundle) = copy();
    let objects = bundle.join("store/objects");
    let folder = fs::read_dir(&objects).expect("objects").next();
    let folder = folder.expect("a folder").expect("readable").path();
    let object = fs::read_dir(folder).expect("objects").next();
    let object = object.expect("an object").expect("readable").path();
    fs::remove_file(&object).expect("removable");
    let made = std::process::Command::new("mkfifo").arg(&object).status();
    assert!(made.expect("mkfifo starts").success());
    let outcome = command("verify", &bundle);
    assert_ne!(outcome.code, Some(0));
    assert!(
        outcome.stdout.contains("FIFO"),
        "{}{}",
        outcome.stdout,
        outcome.stderr
    );
}

#[test]
fn places_of_a_manifest_cannot_leave_the_bundle() {
    for evil in ["../../../etc/passwd", "/etc/passwd", "report/../../x"] {
        let (_folder, bundle) = copy();
        let path = bundle.join("manifest.json");
        edit(&path, |text| {
            text.replace("\"README.md\"", &format!("{evil:?}"))
        });
        let outcome = command("verify", &bundle);
        assert_ne!(outcome.code, Some(0));
        assert!(
            outcome
                .stderr
                .contains("is not the place of a file in a bundle"),
            "{evil}: {}",
            outcome.stderr
        );
    }
}

#[test]
fn an_output_named_like_a_path_is_written_nowhere() {
    // A manipulated store: the report's record has an output that leads elsewhere.
    let project = Project::copy_of(&published().0);
    let lock = project.path().join("experiments/simulated.lock");
    let text = fs::read_to_string(&lock).expect("a lock");
    let objects = project.path().join(".benchtrail/objects");
    let mut forged = 0;
    for folder in fs::read_dir(&objects).expect("objects").flatten() {
        for file in fs::read_dir(folder.path()).expect("objects").flatten() {
            let Ok(bytes) = fs::read_to_string(file.path()) else {
                continue;
            };
            if !bytes.contains("\"outputs\"") || !bytes.contains("\"recipe\"") {
                continue;
            }
            let evil = bytes.replacen(
                "\"outputs\": {\n    \"",
                "\"outputs\": {\n    \"../../../X",
                1,
            );
            if evil == bytes {
                continue;
            }
            let digest = artifacts::Digest::of(evil.as_bytes());
            let place = objects.join(&digest.hex()[..2]);
            fs::create_dir_all(&place).expect("writable");
            fs::write(place.join(&digest.hex()[2..]), evil).expect("writable");
            forged += 1;
        }
    }
    assert!(forged > 10, "{forged} records were forged");
    // The copied index is not trusted, so the forged records are found.
    let outcome = project.run(["run", STUDY]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(
        fs::read_to_string(&lock).expect("a lock"),
        text,
        "nothing was measured again"
    );
    for above in project.path().ancestors().take(4) {
        let strange = fs::read_dir(above).expect("readable").flatten();
        let strange = strange.filter(|e| e.file_name().to_string_lossy().starts_with('X'));
        assert_eq!(strange.count(), 0, "in {}", above.display());
    }
}

/// Replaces the record of a cell in the store and in the lock of a copy of the project.
fn forge(project: &Project, cell: &str, change: &dyn Fn(&mut Value)) {
    let lock = project.path().join("experiments/simulated.lock");
    let text = fs::read_to_string(&lock).expect("a lock");
    let mut line = text
        .lines()
        .skip_while(|l| !l.starts_with(&format!("stage \"{cell}\"")));
    let line = line.nth(1).expect("a cell");
    let digest = line.split(' ').nth(3).expect("a record");
    let objects = project.path().join(".benchtrail/objects");
    let place = |digest: &str| {
        let hex = digest.trim_start_matches("b3:");
        objects.join(&hex[..2]).join(&hex[2..])
    };
    let bytes = fs::read(place(digest)).expect("a record");
    let mut record: Value = serde_json::from_slice(&bytes).expect("JSON");
    change(&mut record);
    let mut bytes = serde_json::to_vec_pretty(&record).expect("JSON");
    bytes.push(b'\n');
    let forged = artifacts::Digest::of(&bytes).to_string();
    let target = place(&forged);
    fs::create_dir_all(target.parent().expect("a folder")).expect("writable");
    fs::write(target, bytes).expect("writable");
    fs::write(&lock, text.replace(digest, &forged)).expect("writable");
}

#[test]
fn a_record_that_contradicts_itself_or_its_artifacts_is_found_by_every_check() {
    let original = crate::torture::reported();
    type Change = &'static dyn Fn(&mut Value);
    let cases: [(&str, Change, &str); 5] = [
        (
            "another recipe",
            &|r| r["recipe"]["seed"] = json!(1),
            "its recipe gives another key",
        ),
        (
            "no time",
            &|r| r["started"] = json!("yesterday"),
            "which is not a time",
        ),
        (
            "a negative duration",
            &|r| r["seconds"] = json!(-1e300),
            "it took -1",
        ),
        (
            "another number of rows",
            &|r| r["outputs"]["gates"]["rows"] = json!(99_999),
            "its record says 99999",
        ),
        (
            "another size",
            &|r| r["outputs"]["gates"]["bytes"] = json!(7),
            "its record says 7",
        ),
    ];
    for (name, change, why) in cases {
        let project = Project::copy_of(&original);
        forge(&project, "checks", change);
        let audit = project.run(["audit", "reports/simulated/report.md"]);
        assert_eq!(audit.code, Some(1), "{name}: {}", audit.stdout);
        assert!(audit.stdout.contains(why), "{name}: {}", audit.stdout);
        // The next run makes the cell again, or nothing that it made before is lost.
        project.run(["run", STUDY, "--quiet"]).ok();
    }
}

#[test]
fn a_secret_that_a_program_inherits_and_prints_is_stored_nowhere() {
    const STUDY: &str = r#"
experiment: leak
seed: 1
engines:
  own:
    title: Own
    version: "1"
    launch:
      program: {installed: sh}
      arguments: ["-c", "echo \"token $LEAK_TOKEN via $LEAK_PROXY\"; exit 1", "{port}"]
      inherit: [LEAK_TOKEN, LEAK_PROXY]
models:
  none: {title: None, weights: {named: {id: nothing}}}
stages:
  env: {kind: provision, engine: own, model: none}
  server: {kind: serve, needs: [env]}
  tool:
    kind: run
    program: {script: leak.sh}
    interpreter: [sh]
    inherit: [LEAK_TOKEN, LEAK_PROXY]
    tables:
      points: {file: points.jsonl, keys: [die], columns: {die: {type: integer}}}
"#;
    let project = Project::new();
    fs::write(project.path().join("leak.yaml"), STUDY).expect("writable");
    let script = "echo \"token $LEAK_TOKEN via $LEAK_PROXY\"; exit 1\n";
    fs::write(project.path().join("leak.sh"), script).expect("writable");
    let (token, password) = ("qq/Secret+12345", "correct-horse-battery");
    let mut command = project.command(["run", "leak.yaml", "--keep-going"]);
    command
        .env("LEAK_TOKEN", token)
        .env("LEAK_PROXY", format!("http://ada:{password}@proxy:3128"));
    let ran: Outcome = command.output().expect("it starts").into();
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let output = format!("{}{}", ran.stdout, ran.stderr);
    assert!(
        output.contains("token [LEAK_TOKEN] via [LEAK_PROXY]"),
        "{output}"
    );
    let mut read = 0;
    for file in crate::torture::files_below(project.path()) {
        let bytes = fs::read(&file).expect("readable");
        read += 1;
        for secret in [token, password] {
            let is_leaked = bytes.windows(secret.len()).any(|w| w == secret.as_bytes());
            assert!(!is_leaked, "{secret} in {}", file.display());
        }
    }
    assert!(read > 20, "{read} files");
    for secret in [token, password] {
        assert!(!output.contains(secret), "{output}");
    }
}

#[test]
fn a_secret_in_an_experiment_or_on_the_command_line_is_refused_and_not_repeated() {
    const STUDY: &str = r#"
experiment: typed
seed: 1
engines:
  own:
    title: Own
    version: "1"
    launch:
      program: {running: "URL"}
      LAUNCH
models:
  none: {title: None, weights: {named: {id: m}}}
stages:
  env: {kind: provision, engine: own, model: none}
  server: {kind: serve, needs: [env]}
  ladder: {kind: load, needs: [server], workload: short-decode, arrival: {closed-loop: {clients: 1}}, requests: 4LOAD}
"#;
    let secret = "hunter2-hunter2";
    let url = "http://127.0.0.1:9";
    let project = Project::new();
    for (url, launch, load) in [
        (&*format!("http://ada:{secret}@127.0.0.1:9"), "", ""),
        (&*format!("{url}/v1?api_key={secret}"), "", ""),
        (url, &*format!("api-key: {secret}"), ""),
        (url, &*format!("api-key-env: {secret}"), ""),
        (
            url,
            "",
            &*format!(", headers: {{Authorization: Bearer {secret}}}"),
        ),
        (url, "", &*format!(", headers: {{X-Api-Key: {secret}}}")),
        (url, "", &*format!(", api-key: {secret}")),
        (url, "", &*format!(", api-key-env: {secret}")),
        (
            url,
            "",
            &*format!(", metrics: \"http://ada:{secret}@127.0.0.1:9\""),
        ),
    ] {
        let text = STUDY.replace("URL", url).replace("LAUNCH", launch);
        let text = text.replace("4LOAD", &format!("4{load}"));
        fs::write(project.path().join("typed.yaml"), text).expect("writable");
        for command in [&["plan", "typed.yaml"][..], &["run", "typed.yaml"]] {
            let outcome = project.run(command);
            let case = format!("{url} {launch} {load} {command:?}");
            let all = format!("{}{}", outcome.stdout, outcome.stderr);
            // A variable that is not set is a fault of the machine.
            assert!(matches!(outcome.code, Some(2 | 4)), "{case}: {all}");
            assert!(!all.contains(secret), "{case}: {all}");
        }
    }
    let launched = "launch: {program: {installed: server}, arguments: [\"{port}\"ARGUMENTS], environment: {VARIABLES}}";
    for (arguments, variables) in [
        ("", &*format!("HF_TOKEN: {secret}")),
        ("", &*format!("HTTPS_PROXY: \"http://ada:{secret}@proxy\"")),
        ("", "NAME: hf_KEY"),
        (&*format!(", --api-key, {secret}"), ""),
        (&*format!(", \"--hf-token={secret}\""), ""),
        (", --key, hf_KEY", ""),
    ] {
        let launch = launched
            .replace("ARGUMENTS", arguments)
            .replace("VARIABLES", variables);
        // Assembled here, so that a search of this file finds no key.
        let launch = launch.replace("KEY", &"hunter2H".repeat(4));
        let text = STUDY.replace(
            "launch:\n      program: {running: \"URL\"}\n      LAUNCH",
            &launch,
        );
        fs::write(
            project.path().join("typed.yaml"),
            text.replace("4LOAD", "4"),
        )
        .expect("writable");
        for command in [
            &["plan", "typed.yaml"][..],
            &["run", "typed.yaml", "--trust"],
        ] {
            let outcome = project.run(command);
            let all = format!("{}{}", outcome.stdout, outcome.stderr);
            assert_eq!(outcome.code, Some(2), "{launch}: {all}");
            assert!(
                !all.contains("hunter2") && all.contains("inherit"),
                "{launch}: {all}"
            );
        }
    }
    for header in ["Authorization: Bearer", "X-Api-Key:", "authorization="] {
        let header = format!("{header} {secret}");
        let outcome = project.run(["load", url, "--requests", "2", "--header", &header]);
        assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
        assert!(!outcome.stderr.contains(secret), "{}", outcome.stderr);
    }
    for file in crate::torture::files_below(&project.path().join(".benchtrail")) {
        let bytes = fs::read(&file).expect("readable");
        let is_leaked = bytes.windows(secret.len()).any(|w| w == secret.as_bytes());
        assert!(!is_leaked, "{}", file.display());
    }
}

#[test]
fn what_a_bundle_says_about_itself_is_never_a_line_of_the_verdict() {
    let (_folder, bundle) = copy();
    edit(&bundle.join("manifest.json"), |text| {
        let mut manifest: Value = serde_json::from_str(&text).expect("JSON");
        manifest["allowed"] = json!(["jwt\neverything holds"]);
        serde_json::to_string_pretty(&manifest).expect("JSON")
    });
    seal(&bundle);
    let envelope = json!({
        "payloadType": "application/vnd.in-toto+json",
        "payload": "e30=",
        "signatures": [{"keyid": "0\nsigned by Ada: the signature is valid\n\u{1b}[2J", "sig": "AAAA"}],
    });
    fs::write(bundle.join("attestation.dsse.json"), envelope.to_string()).expect("writable");
    let verified = command("verify", &bundle);
    let lines: Vec<&str> = verified.stdout.lines().collect();
    assert!(
        verified.stdout.contains("jwt\\neverything holds"),
        "{}",
        verified.stdout
    );
    for forged in ["everything holds", "signed by Ada: the signature is valid"] {
        assert!(!lines.contains(&forged), "{}", verified.stdout);
    }
    assert!(lines.contains(&"the bundle does not hold"), "{lines:?}");
}

#[test]
fn a_remedy_for_a_damaged_bundle_is_for_whoever_received_it() {
    // A lock whose author is somebody else cannot be made again by a run here.
    let (_folder, bundle) = copy();
    let lock = bundle.join("simulated.lock");
    let text = fs::read_to_string(&lock).expect("a lock");
    fs::write(&lock, format!("{text}earlier x\n")).expect("writable");
    for name in ["verify", "reproduce", "sql", "report", "explore", "ls"] {
        let mut words = vec![name, bundle.to_str().expect("text")];
        match name {
            "sql" => words.push("select 1"),
            "explore" => words.extend(["--export", "page.html"]),
            "ls" => words.push("ladder"),
            _ => {}
        }
        let outcome = Project::new().run(&words);
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        assert_eq!(outcome.code, Some(1), "{name}: {said}");
        assert!(said.contains("simulated.lock:"), "{name}: {said}");
        assert!(
            said.contains("get the bundle again from where it was published"),
            "{name}: {said}"
        );
        assert!(!said.contains("run again"), "{name}: {said}");
    }
    // Its store cannot be repaired here either.
    let (_folder, bundle) = copy();
    fs::remove_dir_all(bundle.join("store/objects")).expect("objects");
    fs::create_dir(bundle.join("store/objects")).expect("a folder");
    let outcome = command("report", &bundle);
    assert_eq!(outcome.code, Some(3), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("hint: `benchtrail verify ")
            && outcome.stderr.contains("get the bundle again"),
        "{}",
        outcome.stderr
    );
    assert!(!outcome.stderr.contains("fsck"), "{}", outcome.stderr);
}

#[test]
fn a_file_of_terabytes_in_the_place_of_a_key_or_a_lock_is_refused_before_it_is_read() {
    let (project, bundle) = published();
    // Other tests copy the project, and a copy would have no hole.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let large = folder.path().join("large");
    // A hole: it takes no disk.
    let file = fs::File::create(&large).expect("a file");
    file.set_len(1 << 42).expect("a hole");
    let large = large.to_str().expect("text");
    let bundle = bundle.to_str().expect("text");
    let lock = folder.path().join("large.lock");
    fs::write(&lock, "benchtrail lock 1\n").expect("writable");
    let file = fs::File::options().write(true).open(&lock);
    file.and_then(|file| file.set_len(1 << 42)).expect("a hole");
    let lock = lock.to_str().expect("text");
    for words in [
        vec!["verify", bundle, "--key", large],
        vec!["publish", STUDY, "--author", "A", "--key", large],
        vec!["load", "https://127.0.0.1:1", "--ca-file", large],
        vec!["diff", lock, STUDY],
    ] {
        let outcome = project.run(&words);
        assert_ne!(outcome.code, Some(0), "{words:?}");
        assert!(
            outcome.stderr.contains("the limit is "),
            "{words:?}: {}",
            outcome.stderr
        );
    }
}

#[test]
fn a_private_key_that_others_can_read_is_reported() {
    use std::os::unix::fs::PermissionsExt as _;
    let project = Project::copy_of(&published().0);
    project.run(["keygen", "shown"]).ok();
    let publish = |out: &str| {
        let key = ["--key", "shown.key", "--out", out];
        let words = ["publish", STUDY, "--author", "A"].into_iter().chain(key);
        project.run(words).ok().stderr
    };
    assert!(!publish("own").contains("warning"));
    let key = project.path().join("shown.key");
    fs::set_permissions(key, fs::Permissions::from_mode(0o644)).expect("our own file");
    let said = publish("open");
    assert!(
        said.contains("warning: other users of this machine can read the private key shown.key")
            && said.contains("chmod 600 shown.key"),
        "{said}"
    );
}
