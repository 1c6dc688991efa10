//! External files are data: bundles and projects made to do harm.
//!
//! Every case seals the bundle again after changing it, so that manifest, sums and statement match: only the contents
//! of the files can be at fault.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::support::{Outcome, Project, goes_with_us};

pub(crate) const STUDY: &str = "experiments/simulated.yaml";

/// A project whose simulated study has run, with its bundle.
pub(crate) fn published() -> &'static (Project, PathBuf) {
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
pub(crate) fn copy() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let target = folder.path().join("bundle");
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([&published().1, &target])
        .status();
    assert!(copied.expect("cp starts").success());
    (folder, target)
}

pub(crate) fn command(name: &str, bundle: &Path) -> Outcome {
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
fn a_file_whose_name_is_not_text_is_a_fault_of_the_bundle_and_begins_no_line() {
    use std::os::unix::ffi::OsStrExt as _;
    let (_folder, bundle) = copy();
    let name = std::ffi::OsStr::from_bytes(b"\xff\neverything holds");
    fs::write(bundle.join(name), "x").expect("writable");
    let outcome = command("verify", &bundle);
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    let said = r#""\xFF\neverything holds": its name is not text"#;
    assert!(outcome.stdout.contains(said), "{}", outcome.stdout);
    let forged = |line: &str| line.starts_with("everything holds");
    assert!(!outcome.stdout.lines().any(forged), "{}", outcome.stdout);
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
