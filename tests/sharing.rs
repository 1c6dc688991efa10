//! A team with one shared store: what is pushed, who may use it, and how it is reported.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use crate::support::{Outcome, Project, copy_folder};

pub(crate) const STUDY: &str = "experiments/dice.yaml";

/// Four measurements of a program that never returns the same number twice.
const DICE: &str = r#"
experiment: dice
question: What does the machine throw?
seed: 7
axes: {rep: [1, 2, 3, 4]}
stages:
  throw:
    kind: run
    over: [rep]
    program: {script: dice.py}
    arguments: ["{out}"]
    tables:
      points: {file: points.jsonl, keys: [die], columns: {die: {type: integer}, points: {type: integer}}}
  made:
    kind: analyze
    needs: [throw]
    tables:
      total: {operator: sql, query: 'select sum(points) as points_sum from "throw.points"'}
  report: {kind: report, needs: [throw, made]}
"#;

const SCRIPT: &str = r#"
import json, random, sys
with open(sys.argv[1] + "/points.jsonl", "w") as file:
    file.write(json.dumps({"die": 1, "points": random.randrange(1 << 50)}) + "\n")
"#;

/// One person at one machine.
pub(crate) struct Seat {
    pub(crate) project: Project,
    name: &'static str,
    host: &'static str,
    pub(crate) shared: PathBuf,
}

impl Seat {
    pub(crate) fn new(name: &'static str, host: &'static str, shared: &Path) -> Self {
        let project = Project::new();
        fs::write(project.path().join(STUDY), DICE).expect("a file");
        fs::write(project.path().join("experiments/dice.py"), SCRIPT).expect("a file");
        Self {
            project,
            name,
            host,
            shared: shared.to_owned(),
        }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.project.command(arguments);
        command
            .env("BENCHTRAIL_AS", self.name)
            .env("BENCHTRAIL_HOST", self.host);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Outcome {
        self.command(arguments)
            .output()
            .expect("the binary starts")
            .into()
    }

    /// Runs a command with the shared store.
    pub(crate) fn with(&self, arguments: &[&str]) -> Outcome {
        let mut command = self.command(arguments);
        command.env("BENCHTRAIL_REMOTE", &self.shared);
        command.output().expect("the binary starts").into()
    }

    pub(crate) fn push(&self, more: &[&str]) -> Outcome {
        let shared = self.shared.to_str().expect("a plain path");
        self.run(&[&["push", shared], more].concat())
    }

    pub(crate) fn pull(&self, more: &[&str]) -> Outcome {
        let shared = self.shared.to_str().expect("a plain path");
        self.run(&[&["pull", shared], more].concat())
    }

    fn lock(&self) -> String {
        fs::read_to_string(self.project.path().join("experiments/dice.lock")).expect("the lock")
    }

    pub(crate) fn report(&self) -> String {
        fs::read_to_string(self.project.path().join("reports/dice/report.md")).expect("the report")
    }
}

/// Returns the number of cells that were executed.
pub(crate) fn executed(outcome: &Outcome) -> u64 {
    outcome.json()["executed"].as_u64().expect("a number")
}

/// Returns the records of the measurements that a lock names.
pub(crate) fn records(seat: &Seat) -> Vec<String> {
    let lock = seat.lock();
    let lines = lock.lines().filter(|line| line.starts_with("ok rep="));
    lines
        .map(|line| line.split(' ').nth(3).expect("a record").to_owned())
        .collect()
}

fn shared() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[test]
fn what_one_measured_and_pushed_another_pulls_and_computes_again_to_the_same_trail() {
    let team = shared();
    let ada = Seat::new("Ada", "left-box", team.path());
    ada.run(&["run", STUDY]).ok();
    let pushed = ada.push(&["--json"]).ok().json();
    assert_eq!(pushed["completed"], 6, "{pushed}");
    let bob = Seat::new("Bob", "right-box", team.path());
    let lock = ada.project.path().join("experiments/dice.lock");
    fs::copy(lock, bob.project.path().join("experiments/dice.lock"))
        .expect("the lock is in the repository");
    let pulled = bob.pull(&["--json"]).ok().json();
    assert_eq!(pulled["entered"], 6, "{pulled}");
    let ran = bob.run(&["run", STUDY, "--locked", "--json"]).ok();
    assert_eq!(executed(&ran), 0);
    assert_eq!(bob.lock(), ada.lock());
    assert_eq!(bob.report(), ada.report());
    bob.run(&["audit", "reports/dice/report.md"]).ok();
    bob.run(&["fsck"]).ok();
}

#[test]
fn measurements_of_others_are_offered_and_used_only_if_the_policy_permits_it() {
    let team = shared();
    let ada = Seat::new("Ada", "left-box", team.path());
    assert_eq!(executed(&ada.with(&["run", STUDY, "--json"]).ok()), 6);
    let bob = Seat::new("Bob", "right-box", team.path());

    let plan = bob.with(&["plan", STUDY]);
    assert_eq!(plan.code, Some(0), "{}", plan.stderr);
    let note = "note: 4 results of `throw` from Ada (host left-box, ";
    let line = plan.stdout.lines().find(|line| line.starts_with(note));
    let line = line.unwrap_or_else(|| panic!("{}", plan.stdout));
    assert!(
        line.ends_with("left out (`reuse: never`); `--reuse same-facets` uses them"),
        "{line}"
    );
    let narrow = bob
        .with(&["plan", STUDY, "--reuse", "same-host", "--json"])
        .ok()
        .json();
    assert_eq!(narrow["total"]["cached"], 0, "{narrow}");

    let wide = bob
        .with(&["run", STUDY, "--reuse", "same-facets", "--json"])
        .ok();
    assert_eq!(executed(&wide), 0, "{}", wide.stderr);
    assert_eq!(
        bob.report(),
        ada.report(),
        "the report follows from the measurements"
    );
    assert!(
        bob.report().contains(", by Ada: 4 cells on left-box"),
        "{}",
        bob.report()
    );
    // The lock now names them, which is Bob's decision and holds without the option.
    let again = bob.run(&["plan", STUDY, "--json"]).ok().json();
    assert_eq!(again["total"]["cached"], 6, "{again}");
    let message = bob.run(&["plan", STUDY]).ok().stdout;
    assert!(
        message.contains("note: 4 results of `throw` from Ada (host left-box, "),
        "{message}"
    );

    // Without the lock, nothing records this decision.
    fs::remove_file(bob.project.path().join("experiments/dice.lock")).expect("the lock is there");
    let alone = bob.run(&["plan", STUDY, "--json"]).ok().json();
    assert_eq!(alone["total"]["run"], 4, "{alone}");
}

#[test]
fn the_policy_may_stand_in_the_experiment() {
    let team = shared();
    let ada = Seat::new("Ada", "left-box", team.path());
    ada.with(&["run", STUDY]).ok();
    let eve = Seat::new("Eve", "left-box", team.path());
    eve.project
        .edit(STUDY, "seed: 7", "seed: 7\nreuse: same-host");
    let ran = eve.with(&["run", STUDY, "--json"]).ok();
    // Only the report executes: it quotes the experiment, which has changed.
    assert_eq!(executed(&ran), 1, "{}", ran.stderr);
    let wrong = Seat::new("Eve", "left-box", team.path());
    wrong
        .project
        .edit(STUDY, "seed: 7", "seed: 7\nreuse: sometimes");
    let refused = wrong.run(&["plan", STUDY]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("same-facets"), "{}", refused.stderr);
}

#[test]
fn two_measurements_of_the_same_cell_are_both_kept_and_reported() {
    let team = shared();
    let ada = Seat::new("Ada", "left-box", team.path());
    let bob = Seat::new("Bob", "right-box", team.path());
    ada.with(&["run", STUDY]).ok();
    let ran = bob.with(&["run", STUDY]).ok();
    let twin = "throw[rep=1] has another result, from Ada (host left-box, ";
    assert!(ran.stdout.contains(twin), "{}", ran.stdout);
    assert!(ran.stdout.contains("both are kept"), "{}", ran.stdout);
    let eve = Seat::new("Eve", "left-box", team.path());
    let pulled = eve.pull(&["--study", "dice", "--json"]).ok().json();
    // Four measurements, their sum and the report, from two people.
    assert_eq!(pulled["entered"], 12, "{pulled}");
    // Only Ada's were made on this host.
    eve.run(&["run", STUDY, "--reuse", "same-host"]).ok();
    assert_eq!(records(&eve), records(&ada));
}

#[test]
fn why_audit_and_publish_read_from_the_shared_store_what_is_not_here() {
    let team = shared();
    let ada = Seat::new("Ada", "left-box", team.path());
    ada.with(&["run", STUDY]).ok();
    let bob = Seat::new("Bob", "right-box", team.path());
    copy_folder(
        &ada.project.path().join("reports"),
        &bob.project.path().join("reports"),
    );
    let lock = "experiments/dice.lock";
    fs::copy(ada.project.path().join(lock), bob.project.path().join(lock))
        .expect("the lock is in the repository");
    let audit = bob.run(&["audit", "reports/dice/report.md"]);
    assert_ne!(audit.code, Some(0), "nothing is here yet");
    bob.with(&["audit", "reports/dice/report.md"]).ok();
    let line = bob
        .report()
        .lines()
        .position(|line| line.contains("4 cells on left-box"))
        .expect("the ledger")
        + 1;
    bob.with(&["why", &format!("reports/dice/report.md:{line}"), "4"])
        .ok();
    let published = bob.with(&["publish", STUDY, "--author", "Ada Lovelace", "--json"]);
    assert_eq!(published.code, Some(0), "{}", published.stderr);
    bob.run(&["verify", "published/dice"]).ok();
}

#[test]
fn a_damaged_object_is_named_and_a_push_with_verify_mends_it() {
    let team = shared();
    let ada = Seat::new("Ada", "left-box", team.path());
    ada.with(&["run", STUDY]).ok();
    let digest = records(&ada).remove(0);
    let hex = digest.strip_prefix("b3:").expect("a digest");
    let path = team.path().join("objects").join(&hex[..2]).join(&hex[2..]);
    let mut bytes = fs::read(&path).expect("the object is there");
    bytes[0] ^= 1;
    fs::remove_file(&path).expect("the object can be replaced");
    fs::write(&path, bytes).expect("the object can be replaced");
    let bob = Seat::new("Bob", "right-box", team.path());
    let pulled = bob.pull(&["--study", "dice"]);
    assert_eq!(pulled.code, Some(3), "{}", pulled.stdout);
    assert!(
        pulled.stderr.contains(&digest) && pulled.stderr.contains("--verify"),
        "{}",
        pulled.stderr
    );
    let mended = ada.push(&["--verify"]).ok();
    assert!(
        mended
            .stdout
            .contains(&format!("damaged object {digest} replaced")),
        "{}",
        mended.stdout
    );
    bob.pull(&["--study", "dice"]).ok();
}

#[test]
fn a_damaged_completion_is_named_and_its_cell_measured_while_the_rest_is_used() {
    let team = shared();
    let ada = Seat::new("Ada", "left-box", team.path());
    ada.with(&["run", STUDY]).ok();
    let lock = ada.lock();
    let line = lock.lines().find(|line| line.starts_with("ok rep="));
    let key = line.and_then(|line| line.split(' ').nth(2)).expect("a key");
    let hex = key.strip_prefix("b3:").expect("a key");
    let path = team.path().join("cells").join(&hex[..2]).join(&hex[2..]);
    let path = path.join("1");
    fs::remove_file(&path).expect("the completion can be replaced");
    fs::write(&path, "{\"format\": 1}").expect("the completion can be replaced");
    let bob = Seat::new("Bob", "right-box", team.path());
    let pulled = bob.pull(&["--study", "dice"]);
    assert_eq!(pulled.code, Some(3), "{}", pulled.stdout);
    assert!(
        pulled.stderr.contains("1 result is incomplete"),
        "{}",
        pulled.stderr
    );
    let run = bob.with(&["run", STUDY, "--reuse", "same-facets"]).ok();
    for said in [&hex[2..], "counts as absent", "hint:"] {
        assert!(run.stderr.contains(said), "{said}: {}", run.stderr);
    }
    let (ours, theirs) = (records(&ada), records(&bob));
    let same = ours.iter().filter(|record| theirs.contains(record)).count();
    assert_eq!(same, ours.len() - 1, "{ours:?} {theirs:?}");
    let again = team.path().join("cells").join(&hex[..2]).join(&hex[2..]);
    assert!(again.join("2").is_file(), "the new result is shared");
}

#[test]
fn a_push_that_was_killed_goes_on_where_it_was() {
    let team = shared();
    let ada = Seat::new("Ada", "left-box", team.path());
    ada.run(&["run", STUDY]).ok();
    for pause in [1, 5, 20] {
        let mut push = ada.command(&["push", team.path().to_str().expect("a plain path")]);
        let mut push = push
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        thread::sleep(Duration::from_millis(pause));
        // It may have ended already.
        let _ = push.kill();
        push.wait().expect("it ends");
    }
    let done = ada.push(&["--json"]).ok().json();
    assert_eq!(
        done["completed"]
            .as_u64()
            .zip(done["known"].as_u64())
            .map(|(a, b)| a + b),
        Some(6),
        "{done}"
    );
    let bob = Seat::new("Bob", "right-box", team.path());
    assert_eq!(
        bob.pull(&["--study", "dice", "--json"]).ok().json()["entered"],
        6
    );
}

#[test]
fn a_shared_store_that_is_not_there_or_refuses_is_said_before_anything_is_measured() {
    let team = shared();
    let ada = Seat::new("Ada", "left-box", team.path());
    let nowhere = team.path().join("nowhere");
    let nowhere = nowhere.to_str().expect("a plain path");
    let plan = ada.run(&["plan", STUDY, "--remote", nowhere]);
    assert_eq!(plan.code, Some(5), "{}", plan.stderr);
    assert!(
        plan.stderr.contains("there is no shared store at"),
        "{}",
        plan.stderr
    );
    let file = team.path().join("file");
    fs::write(&file, "").expect("a file");
    let run = ada.run(&[
        "run",
        STUDY,
        "--remote",
        file.join("x").to_str().expect("a plain path"),
    ]);
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    assert!(!ada.project.path().join("experiments/dice.lock").exists());
    let scheme = ada.run(&["push", "ftp://me:secret@host/x"]);
    assert_eq!(scheme.code, Some(2), "{}", scheme.stderr);
    assert!(!scheme.stderr.contains("secret"), "{}", scheme.stderr);
    let none = ada.pull(&["--study", "dice"]);
    assert_eq!(none.code, Some(5), "{}", none.stderr);
}
