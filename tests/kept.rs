//! Nothing is lost: data that a lock or study needs stays in the store, wherever `gc` is started.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::support::{Outcome, Project};

const STUDY: &str = "ladder.yaml";

/// A study with simulated measurements only.
fn study(folder: &Path, repetitions: u32) {
    let text = format!(
        "experiment: kept
title: Kept
question: What stays?
seed: 1
axes:
  clients: [1, 2]
  rep: {{from: 1, to: {repetitions}}}
workloads:
  short:
    description: Prompts of 40 random words, answers of 16 tokens.
    prompts: {{words: {{length: 40}}}}
    output: {{tokens: 16}}
stages:
  ladder:
    kind: load
    over: [clients, rep]
    workload: short
    arrival: {{closed-loop: {{clients: \"${{clients}}\"}}}}
    requests-per-client: 4
    simulate: {{server: batching}}
"
    );
    fs::create_dir_all(folder).expect("a folder");
    fs::write(folder.join(STUDY), text).expect("writable");
}

/// A folder outside any project, and a store that several projects share.
struct Shared {
    folder: tempfile::TempDir,
    store: PathBuf,
}

impl Shared {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = folder.path().join("shared/store");
        fs::create_dir_all(&store).expect("a folder");
        Self { folder, store }
    }

    fn project(&self, name: &str, repetitions: u32) -> PathBuf {
        let folder = self.folder.path().join(name);
        study(&folder, repetitions);
        folder
    }

    fn run(&self, folder: &Path, arguments: &[&str]) -> Outcome {
        let command = Project::new()
            .command(arguments)
            .current_dir(folder)
            .output_with(&self.store);
        command.into()
    }

    /// Makes every object look two days old.
    fn age(&self) {
        let past = before();
        for folder in fs::read_dir(self.store.join("objects"))
            .expect("objects")
            .flatten()
        {
            for object in fs::read_dir(folder.path()).expect("objects").flatten() {
                let file = fs::File::open(object.path()).expect("readable");
                file.set_modified(past).expect("ours");
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a file is made to look old")]
fn before() -> SystemTime {
    SystemTime::now() - Duration::from_secs(2 * 24 * 3600)
}

trait OutputWith {
    fn output_with(&mut self, store: &Path) -> std::process::Output;
}

impl OutputWith for Command {
    fn output_with(&mut self, store: &Path) -> std::process::Output {
        self.env("BENCHTRAIL_STORE", store)
            .output()
            .expect("the binary starts")
    }
}

#[test]
fn a_collection_started_elsewhere_keeps_what_the_locks_of_other_projects_need() {
    let shared = Shared::new();
    let (one, empty) = (shared.project("one", 3), shared.folder.path().join("empty"));
    fs::create_dir(&empty).expect("a folder");
    shared.run(&one, &["run", STUDY]).ok();
    shared.age();
    for more in [&["gc"][..], &["gc", "--measurements"]] {
        let said = shared.run(&empty, more).ok().stdout;
        assert!(said.contains("ladder.lock reaches"), "{said}");
        assert!(said.contains("removed: 0 objects"), "{said}");
        let again = shared.run(&one, &["run", STUDY, "--json"]).ok().json();
        assert_eq!(again["executed"], 0, "{again}");
    }

    // The lock is missing for an unknown reason, so nothing is removed until a user confirms that it is gone.
    let (lock, aside) = (one.join("ladder.lock"), one.join("aside"));
    fs::rename(&lock, &aside).expect("renamed");
    let refused = shared.run(&empty, &["gc", "--measurements"]);
    assert_eq!(refused.code, Some(1), "{}", refused.stdout);
    assert!(
        refused.stderr.contains("nothing was removed"),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.contains("gc --forget"), "{}", refused.stderr);
    fs::rename(&aside, &lock).expect("renamed");
    let named = lock.to_str().expect("text");
    let there = shared.run(&empty, &["gc", "--forget", named]);
    assert_eq!(there.code, Some(2), "{}", there.stderr);

    // An unreadable lock may name anything.
    let text = fs::read_to_string(&lock).expect("a lock");
    fs::write(
        &lock,
        text.replacen("seed 1", "seed 2", 1)
            .replacen("ok ", "ko ", 1),
    )
    .expect("writable");
    let refused = shared.run(&empty, &["gc", "--measurements"]);
    assert_eq!(refused.code, Some(1), "{}", refused.stdout);

    fs::remove_file(&lock).expect("removable");
    let kept = shared.run(&empty, &["gc", "--forget", named]).ok().stdout;
    assert!(kept.contains("kept: all measurements"), "{kept}");
    assert!(kept.contains("removed: 0 objects"), "{kept}");
    let would = shared
        .run(&empty, &["gc", "--measurements", "--dry-run"])
        .ok()
        .stdout;
    assert!(
        would.contains("would be lost: 6 measurements of kept"),
        "{would}"
    );
    let lost = shared.run(&empty, &["gc", "--measurements"]).ok().stdout;
    assert!(lost.contains("lost: 6 measurements of kept"), "{lost}");
    assert!(!lost.contains("removed: 0 objects"), "{lost}");
}

#[test]
fn a_run_killed_before_its_first_lock_loses_nothing() {
    let shared = Shared::new();
    let (one, empty) = (
        shared.project("one", 40),
        shared.folder.path().join("empty"),
    );
    fs::create_dir(&empty).expect("a folder");
    let events = shared.folder.path().join("events");
    let path = events.to_str().expect("text");
    let mut child = Project::new()
        .command(["run", STUDY, "--quiet", "--events", path])
        .current_dir(&one)
        .env("BENCHTRAIL_STORE", &shared.store)
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let ended = || {
        fs::read_to_string(&events)
            .unwrap_or_default()
            .matches("cell-ended")
            .count()
    };
    while ended() < 5 && child.try_wait().expect("asked").is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().expect("SIGKILL");
    child.wait().expect("reaped");
    assert!(
        !one.join("ladder.lock").exists(),
        "the run ended before it was killed"
    );
    shared.age();

    let status = shared.run(&one, &["status", STUDY]).ok().stdout;
    assert!(
        status.contains("a run ended before it could write the lock"),
        "{status}"
    );
    let unfinished = shared.run(&one, &["status", STUDY, "--json"]).ok().json();
    let had = unfinished["unfinished"][0]["stages"]["ladder"]["ok"]
        .as_u64()
        .expect("a count");
    assert!(had >= 4, "{unfinished}");

    let said = shared.run(&empty, &["gc", "--measurements"]).ok().stdout;
    assert!(said.contains("of runs that have not written"), "{said}");
    let resumed = shared.run(&one, &["run", STUDY, "--json"]).ok().json();
    let executed = resumed["executed"].as_u64().expect("a count");
    assert_eq!(executed + had, 80, "{resumed}");
    let status = shared.run(&one, &["status", STUDY, "--json"]).ok().json();
    assert_eq!(
        status["unfinished"].as_array().map(Vec::len),
        Some(0),
        "{status}"
    );
}

#[test]
fn a_project_that_moved_with_its_store_is_collected_where_it_is() {
    let project = Project::new();
    let before = project.path().join("before");
    study(&before, 2);
    fs::create_dir(before.join(".benchtrail")).expect("a folder");
    let run = |folder: &Path, arguments: &[&str]| -> Outcome {
        let output = project.command(arguments).current_dir(folder).output();
        output.expect("the binary starts").into()
    };
    run(&before, &["run", STUDY]).ok();
    let after = project.path().join("after");
    fs::rename(&before, &after).expect("renamed");
    let said = run(&after, &["gc"]).ok().stdout;
    assert!(
        said.contains("kept: everything that ladder.lock reaches"),
        "{said}"
    );
}

#[test]
fn runs_of_one_study_at_the_same_time_measure_each_cell_once() {
    let shared = Shared::new();
    let one = shared.project("one", 20);
    let children: Vec<_> = (0..4)
        .map(|_| {
            let mut command = Project::new().command(["run", STUDY, "--json"]);
            command
                .current_dir(&one)
                .env("BENCHTRAIL_STORE", &shared.store);
            command.stdout(Stdio::piped()).stderr(Stdio::null());
            command.spawn().expect("it starts")
        })
        .collect();
    let mut executed = 0;
    for child in children {
        let outcome = Outcome::from(child.wait_with_output().expect("it ends")).ok();
        executed += outcome.json()["executed"].as_u64().expect("a count");
    }
    assert_eq!(executed, 40, "two levels and twenty repetitions");
}

/// Returns the object of an output, at the place that `ls` reports.
fn object(project: &Project, study: &[&str], output: &str) -> PathBuf {
    let list = project
        .run([&["ls"], study, &["--json"]].concat())
        .ok()
        .json();
    let entry = list
        .as_array()
        .expect("a list")
        .iter()
        .find(|a| a["output"] == output);
    let digest =
        entry.unwrap_or_else(|| panic!("{output} in {list}"))["artifact"]["digest"].clone();
    let hex = digest
        .as_str()
        .expect("a digest")
        .trim_start_matches("b3:")
        .to_owned();
    let objects = project.path().join(".benchtrail/objects");
    objects.join(&hex[..2]).join(&hex[2..])
}

#[test]
fn a_report_whose_object_is_missing_or_damaged_is_made_again() {
    let project = Project::finished();
    let study = ["experiments/quickstart.yaml", "--smoke"];
    let report = project.path().join("reports/quickstart.smoke/report.md");
    let before = fs::read(&report).expect("a report");
    let kept = object(&project, &study, "report");
    for bytes in [None, Some(b"other" as &[u8])] {
        fs::remove_file(&kept).expect("removable");
        if let Some(bytes) = bytes {
            fs::write(&kept, bytes).expect("writable");
        }
        fs::remove_file(&report).expect("removable");
        let summary = project
            .run([&["run"], &study[..], &["--json"]].concat())
            .ok()
            .json();
        assert_eq!(summary["executed"], 1, "{summary}");
        assert_eq!(fs::read(&report).expect("a report"), before);
        project.run(["fsck"]).ok();
    }
}

#[test]
fn a_missing_object_is_damage_with_a_remedy() {
    let project = Project::new();
    let study = ["experiments/simulated.yaml"];
    project.run([&["run"], &study[..]].concat()).ok();
    let what = "ladder[configuration=batched,clients=1,rep=1].requests";
    let all = project.run(["ls", study[0], what, "--json"]).ok().json();
    let digest = all[0]["artifact"]["digest"].as_str().expect("a digest");
    let hex = digest.trim_start_matches("b3:");
    let objects = project.path().join(".benchtrail/objects");
    fs::remove_file(objects.join(&hex[..2]).join(&hex[2..])).expect("removable");
    for arguments in [&["show", study[0], what][..], &["fsck"]] {
        let outcome = project.run(arguments);
        assert_eq!(
            outcome.code,
            Some(3),
            "{arguments:?}: {}{}",
            outcome.stdout,
            outcome.stderr
        );
    }
    let message = project.run(["show", study[0], what]).stderr;
    assert!(message.contains("hint: `benchtrail fsck`"), "{message}");
}

#[test]
fn a_report_finds_its_lock_wherever_run_put_it() {
    let project = Project::finished();
    let elsewhere = tempfile::tempdir().expect("a folder");
    let report = elsewhere.path().join("report.md");
    let file = report.to_str().expect("text");
    let study = ["run", "experiments/quickstart.yaml", "--smoke"];
    project.run([&study[..], &["--report", file]].concat()).ok();
    let store = project.path().join(".benchtrail");
    let audited = project
        .run(["audit", file, "--store", store.to_str().expect("text")])
        .ok()
        .stdout;
    assert!(audited.contains("quickstart.smoke.lock"), "{audited}");
}

#[test]
fn a_store_that_cannot_be_written_can_be_read_by_everything_that_only_reads() {
    use std::os::unix::fs::PermissionsExt as _;
    let project = Project::finished();
    let study = "experiments/quickstart.yaml";
    let store = project.path().join(".benchtrail");
    // If the tests run as root, which can write everywhere, another user reads.
    let everything = Command::new("chmod")
        .args(["-R", "a+rX"])
        .arg(project.path())
        .status();
    assert!(everything.expect("chmod starts").success());
    let closed = Command::new("chmod")
        .args(["-R", "a-w"])
        .arg(&store)
        .status();
    assert!(closed.expect("chmod starts").success());
    let root = rustix::process::geteuid().is_root();
    let run = |arguments: &[&str]| -> Outcome {
        let mut command = match root {
            true => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
                command.arg(crate::support::BINARY);
                command
            }
            false => Command::new(crate::support::BINARY),
        };
        command
            .args(arguments)
            .current_dir(project.path())
            .env("HOME", project.path())
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("BENCHTRAIL_STORE");
        command.output().expect("it starts").into()
    };
    let plan = run(&["plan", study, "--smoke", "--json"]).ok().json();
    assert!(plan.to_string().contains("cached"), "{plan}");
    run(&["fsck"]).ok();
    run(&["audit", "reports/quickstart.smoke/report.md"]).ok();
    let out = tempfile::tempdir().expect("a folder");
    fs::set_permissions(out.path(), fs::Permissions::from_mode(0o777)).expect("ours");
    let bundle = out.path().join("bundle");
    let bundle = bundle.to_str().expect("text");
    run(&[
        "publish",
        study,
        "--smoke",
        "--author",
        "Ada Lovelace",
        "--out",
        bundle,
    ])
    .ok();
    run(&["verify", bundle]).ok();
    for arguments in [
        &["run", study, "--smoke"][..],
        &["gc"],
        &["fsck", "--repair"],
    ] {
        let refused = run(arguments);
        assert_eq!(refused.code, Some(4), "{arguments:?}: {}", refused.stderr);
        assert!(
            refused.stderr.contains("cannot be written"),
            "{}",
            refused.stderr
        );
    }
    let opened = Command::new("chmod")
        .args(["-R", "u+w"])
        .arg(&store)
        .status();
    assert!(opened.expect("chmod starts").success());
}

#[test]
fn the_log_of_a_server_that_ended_well_is_named_by_its_record() {
    let project = crate::support::finished();
    let study = ["experiments/quickstart.yaml", "--smoke"];
    let list = project
        .run([&["ls"], &study[..], &["--json"]].concat())
        .ok()
        .json();
    let list = list.as_array().expect("a list");
    let logs: Vec<_> = list.iter().filter(|a| a["output"] == "log").collect();
    assert!(!logs.is_empty(), "{list:?}");
    let log = object(project, &study, "log");
    let text = fs::read_to_string(log).expect("a log");
    assert!(!text.is_empty());
    let folder = project.path().to_str().expect("text");
    assert!(
        !text.contains(folder),
        "where the store lies is nobody's business:\n{text}"
    );
}

#[test]
fn a_relative_store_serves_packaged_engines() {
    let project = Project::finished();
    fs::remove_file(project.path().join("experiments/quickstart.smoke.lock")).expect("a lock");
    project.edit("experiments/quickstart.yaml", "seed: 164", "seed: 9");
    let study = [
        "run",
        "experiments/quickstart.yaml",
        "--smoke",
        "--store",
        ".benchtrail",
    ];
    let only = ["--only", "ladder[concurrency=1]", "--json"];
    let summary = project.run([&study[..], &only[..]].concat());
    assert!(
        matches!(summary.code, Some(0)),
        "{}{}",
        summary.stdout,
        summary.stderr
    );
}
