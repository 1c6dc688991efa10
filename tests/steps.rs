//! Killed, or refused by the disk, at each step of writing: between an object and its record, a record and the index,
//! the index and the lock, a file and its archive. A step is a system call, at which `strace` kills the process or
//! makes the call fail. No step can be forgotten.
//!
//! `BENCHTRAIL_KILLS` sets the number of cases, `BENCHTRAIL_SEED` selects them. Without strace, the test reports that
//! it was skipped.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::sharing::{self, Seat};
use crate::skipped::skipped;
use crate::support::{Outcome, Project};
use crate::torture::{Random, count, damage, files_below, reported, results, run};

const STUDY: &str = "experiments/simulated.yaml";

/// The calls that change files or make changes durable.
const CALLS: &str = "rename,renameat,renameat2,write,pwrite64,fsync,fdatasync,syncfs,unlink,unlinkat,rmdir,\
    mkdir,mkdirat,link,linkat,ftruncate,utimensat";

/// The fault at a step.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// The process is killed before the call.
    Killed,
    /// The disk is full from this call on.
    Full,
    /// The file system is read-only from this call on.
    Closed,
    /// Only this call fails.
    Broken,
}

impl Fate {
    const ALL: [Self; 6] = [
        Self::Killed,
        Self::Full,
        Self::Killed,
        Self::Closed,
        Self::Killed,
        Self::Broken,
    ];

    fn at(self, call: &str, number: usize) -> String {
        match self {
            Self::Killed => format!("inject={call}:signal=SIGKILL:when={number}"),
            Self::Full => format!("inject={call}:error=ENOSPC:when={number}+"),
            Self::Closed => format!("inject={call}:error=EROFS:when={number}+"),
            Self::Broken => format!("inject={call}:error=EIO:when={number}"),
        }
    }
}

/// A command that writes, and the check to make after it ended at any step.
struct Act {
    name: &'static str,
    /// Returns the place in which it runs, in its initial state.
    prepare: fn() -> Place,
    command: &'static [&'static str],
    /// Fails the test if something was lost; `case` describes the fault.
    after: fn(&Place, case: &str),
}

/// A project and its surroundings.
struct Place {
    project: Project,
    /// A shared store.
    shared: Option<tempfile::TempDir>,
}

impl Place {
    fn new(project: Project) -> Self {
        Self {
            project,
            shared: None,
        }
    }

    fn copy(&self) -> Self {
        let shared = self.shared.as_ref().map(|shared| {
            let copy = tempfile::tempdir().expect("a folder");
            crate::support::copy_folder(shared.path(), copy.path());
            copy
        });
        Self {
            project: Project::copy_of(&self.project),
            shared,
        }
    }

    fn path(&self) -> &Path {
        self.project.path()
    }

    /// Returns the command, with the shared store for `SHARED`.
    fn words(&self, command: &[&str]) -> Vec<String> {
        let shared = self.shared.as_ref().map(|s| s.path().display().to_string());
        let word = |word: &&str| match (*word, &shared) {
            ("SHARED", Some(shared)) => shared.clone(),
            (word, _) => word.to_owned(),
        };
        command.iter().map(word).collect()
    }

    fn run(&self, command: &[&str]) -> Outcome {
        self.project.run(self.words(command))
    }

    /// Runs a command under strace with the given options.
    fn traced(&self, command: &[&str], options: &[&str]) -> Option<Outcome> {
        let plain = self.project.command(self.words(command));
        let mut traced = Command::new("strace");
        traced
            .args(["-f", "--seccomp-bpf", "-qq"])
            .args(options)
            .arg(plain.get_program())
            .args(plain.get_args())
            .current_dir(self.path())
            .stdin(std::process::Stdio::null());
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => traced.env(name, value),
                None => traced.env_remove(name),
            };
        }
        traced.output().ok().map(Outcome::from)
    }

    /// Returns the largest number of times that a thread makes each call; `None` if tracing is not possible here.
    fn calls(&self, command: &[&str]) -> Option<Vec<(String, usize)>> {
        let log = tempfile::NamedTempFile::new().expect("a file");
        let path = log.path().to_str().expect("text");
        let trace = format!("trace={CALLS}");
        let outcome = self.traced(command, &["-e", &trace, "-o", path])?;
        if outcome.code != Some(0) {
            // In a container that forbids tracing.
            assert!(outcome.stderr.contains("ptrace"), "{}", outcome.stderr);
            return None;
        }
        let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
        for line in fs::read_to_string(path).expect("a log").lines() {
            let (process, rest) = line.split_once(' ').unwrap_or_default();
            let Some((call, _)) = rest.trim_start().split_once('(') else {
                continue;
            };
            if call.bytes().all(|b| b.is_ascii_alphanumeric()) {
                *counts
                    .entry((call.to_owned(), process.to_owned()))
                    .or_default() += 1;
            }
        }
        let mut most: BTreeMap<String, usize> = BTreeMap::new();
        for ((call, _), count) in counts {
            let most = most.entry(call).or_default();
            *most = count.max(*most);
        }
        Some(most.into_iter().collect())
    }
}

const ACTS: [Act; 6] = [
    Act {
        name: "run",
        prepare: || Place::new(Project::new()),
        command: &["run", STUDY, "--quiet", "--events", "first.jsonl"],
        after: after_run,
    },
    Act {
        name: "publish",
        prepare: || Place::new(reported()),
        command: &[
            "publish",
            STUDY,
            "--author",
            "Ada",
            "--archive",
            "--out",
            "out/bundle",
        ],
        after: after_publish,
    },
    Act {
        name: "gc",
        prepare: || Place::new(with_garbage()),
        command: &["gc", "--measurements"],
        after: after_gc,
    },
    Act {
        name: "fsck --repair",
        prepare: || Place::new(with_damage()),
        command: &["fsck", "--repair"],
        after: after_repair,
    },
    Act {
        name: "push",
        prepare: || team(false),
        command: &["push", "SHARED"],
        after: after_push,
    },
    Act {
        name: "pull",
        prepare: || team(true),
        command: &["pull", "SHARED"],
        after: after_pull,
    },
];

#[test]
fn whatever_ends_a_command_at_whatever_step_loses_nothing_and_measures_nothing_twice() {
    let mut random = Random::new(2025);
    let mut prepared: BTreeMap<usize, (Place, Vec<(String, usize)>)> = BTreeMap::new();
    let mut ended = 0;
    for number in 0..count("BENCHTRAIL_KILLS", 12) {
        let (which, act) = (number % ACTS.len(), &ACTS[number % ACTS.len()]);
        if let Entry::Vacant(empty) = prepared.entry(which) {
            let place = (act.prepare)();
            let Some(calls) = place.copy().calls(act.command) else {
                skipped("strace", "there is no strace here that may trace");
                return;
            };
            empty.insert((place, calls));
        }
        let (original, calls) = &prepared[&which];
        let place = original.copy();
        let (call, most) = &calls[random.below(calls.len())];
        let fate = Fate::ALL[(number / ACTS.len() + number) % Fate::ALL.len()];
        let fault = fate.at(call, 1 + random.below(*most));
        let trace = format!("trace={call}");
        let outcome = place
            .traced(
                act.command,
                &["-o", "/dev/null", "-e", &trace, "-e", &fault],
            )
            .expect("strace starts");
        let case = format!(
            "case {number}, {} with {fault}: {:?}\n{}{}",
            act.name, outcome.code, outcome.stdout, outcome.stderr
        );
        match fate {
            Fate::Killed => assert!(matches!(outcome.code, None | Some(0)), "{case}"),
            // The message itself may be what could not be written.
            _ => assert!(matches!(outcome.code, Some(0..=4)), "{case}"),
        }
        assert!(!outcome.stderr.contains("panicked"), "{case}");
        ended += usize::from(outcome.code != Some(0));
        (act.after)(&place, &case);
    }
    assert!(ended > 0, "nothing was ended or refused");
}

/// Runs a command that must succeed.
fn well(place: &Place, command: &[&str], case: &str) -> Outcome {
    let outcome = place.run(command);
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.code, Some(0), "{case}\nthen {command:?}:\n{said}");
    outcome
}

/// Returns the cells of a stage that a run reported as executed.
pub(crate) fn executed_cells(events: &Path, stage: &str) -> Vec<String> {
    let text = fs::read_to_string(events).unwrap_or_default();
    let lines = text
        .lines()
        .filter_map(|l| serde_json::from_str::<Value>(l).ok());
    lines
        .filter(|e| e["event"] == "cell-ended" && e["status"] == "ok" && e["cached"] == false)
        .filter(|e| e["stage"] == stage)
        .map(|e| e["cell"].as_str().expect("a cell").to_owned())
        .collect()
}

fn after_run(place: &Place, case: &str) {
    if place.path().join(".benchtrail/objects").is_dir() {
        well(place, &["fsck"], case);
    }
    well(
        place,
        &["run", STUDY, "--quiet", "--events", "second.jsonl"],
        case,
    );
    // Results that can be recomputed may be.
    let first = executed_cells(&place.path().join("first.jsonl"), "ladder");
    for cell in executed_cells(&place.path().join("second.jsonl"), "ladder") {
        assert!(!first.contains(&cell), "{case}\n{cell} was measured twice");
    }
    assert_eq!(&results(&place.project), expected(), "{case}");
    well(place, &["fsck"], case);
    let again = well(place, &["run", STUDY, "--json"], case).json();
    assert_eq!(again["executed"], 0, "{case}\n{again}");
}

/// The results of the study if nothing interrupts it.
fn expected() -> &'static Value {
    static EXPECTED: std::sync::OnceLock<Value> = std::sync::OnceLock::new();
    EXPECTED.get_or_init(|| {
        let project = Project::new();
        run(&project, &["run", STUDY, "--quiet"]).ok();
        results(&project)
    })
}

fn after_publish(place: &Place, case: &str) {
    // Anything under the name of a bundle is a complete one.
    let bundle = place.path().join("out/bundle");
    if bundle.exists() {
        well(place, &["verify", "out/bundle"], case);
    }
    let archive = place.path().join("out/bundle.tar.zst");
    if archive.exists() {
        well(place, &["verify", "out/bundle.tar.zst"], case);
    }
    fs::remove_dir_all(&bundle).ok();
    fs::remove_file(&archive).ok();
    well(place, ACTS[1].command, case);
    well(place, &["verify", "out/bundle"], case);
    well(place, &["verify", "out/bundle.tar.zst"], case);
    let left: Vec<PathBuf> = fs::read_dir(place.path().join("out"))
        .expect("a folder")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| *path != bundle && *path != archive)
        .collect();
    assert!(left.is_empty(), "{case}\nleft beside the bundle: {left:?}");
}

#[expect(clippy::disallowed_methods, reason = "files are made to look old")]
fn age(project: &Project) {
    let past = SystemTime::now() - Duration::from_secs(2 * 24 * 3600);
    for object in files_below(&project.path().join(".benchtrail/objects")) {
        let file = fs::File::open(object).expect("readable");
        file.set_modified(past).expect("ours");
    }
}

/// Returns a project whose store has both needed and unneeded objects.
fn with_garbage() -> Project {
    let project = reported();
    fs::remove_file(project.path().join("experiments/simulated.lock")).expect("a lock");
    project.edit(STUDY, "seed: 164", "seed: 165");
    run(&project, &["run", STUDY, "--quiet"]).ok();
    age(&project);
    project
}

fn after_gc(place: &Place, case: &str) {
    // An object that was moved aside for removal is reported as such, and keeps its age.
    let checked = place.run(&["fsck"]);
    let aside = |line: &str| line.contains("left by a process that died");
    let said = format!("{case}\n{}{}", checked.stdout, checked.stderr);
    match checked.code {
        Some(3) => {
            let findings = checked
                .stdout
                .lines()
                .filter(|line| line.contains(".benchtrail"));
            assert!(
                findings.clone().count() > 0 && findings.clone().all(aside),
                "{said}"
            );
        }
        code => assert_eq!(code, Some(0), "{said}"),
    }
    let kept = well(place, &["run", STUDY, "--json"], case).json();
    assert_eq!(kept["executed"], 0, "{case}\n{kept}");
    let collected = well(place, &["gc", "--measurements"], case).stdout;
    assert!(!collected.contains("missing"), "{case}\n{collected}");
    let kept = well(place, &["run", STUDY, "--json"], case).json();
    assert_eq!(kept["executed"], 0, "{case}\n{kept}");
    well(place, &["audit", "reports/simulated/report.md"], case);
}

/// Returns a project with some damaged objects.
fn with_damage() -> Project {
    let project = reported();
    let objects = files_below(&project.path().join(".benchtrail/objects"));
    let mut random = Random::new(3);
    for _ in 0..5 {
        let object = &objects[random.below(objects.len())];
        if object.exists() {
            damage(object, &mut random);
        }
    }
    project
}

fn after_repair(place: &Place, case: &str) {
    // Objects that cannot be repaired are listed, with code 3.
    let repaired = place.run(&["fsck", "--repair"]);
    assert!(
        matches!(repaired.code, Some(0 | 3)),
        "{case}\n{}",
        repaired.stderr
    );
    well(place, &["run", STUDY, "--quiet"], case);
    well(place, &["fsck"], case);
    let again = well(place, &["run", STUDY, "--json"], case).json();
    assert_eq!(again["executed"], 0, "{case}\n{again}");
}

/// Returns a seat that has results to push, or one that can pull the results of another.
fn team(pushed: bool) -> Place {
    let shared = tempfile::tempdir().expect("a folder");
    let ada = Seat::new("Ada", "left-box", shared.path());
    ada.run(&["run", sharing::STUDY, "--quiet"]).ok();
    if !pushed {
        return Place {
            project: ada.project,
            shared: Some(shared),
        };
    }
    ada.push(&[]).ok();
    let bob = Seat::new("Bob", "right-box", shared.path());
    let lock = "experiments/dice.lock";
    fs::copy(ada.project.path().join(lock), bob.project.path().join(lock)).expect("a lock");
    Place {
        project: bob.project,
        shared: Some(shared),
    }
}

fn after_push(place: &Place, case: &str) {
    let run = ["run", sharing::STUDY, "--json"];
    assert_eq!(well(place, &run, case).json()["executed"], 0, "{case}");
    well(place, &["push", "SHARED"], case);
    // Another person gets all of it.
    let other = Place {
        project: Project::new(),
        shared: None,
    };
    for file in ["dice.yaml", "dice.py", "dice.lock"] {
        let file = Path::new("experiments").join(file);
        fs::copy(place.path().join(&file), other.path().join(&file)).expect("a file");
    }
    let shared = place.words(&["SHARED"]).remove(0);
    well(&other, &["pull", &shared], case);
    let run = ["run", sharing::STUDY, "--locked", "--json"];
    assert_eq!(well(&other, &run, case).json()["executed"], 0, "{case}");
    well(&other, &["fsck"], case);
}

fn after_pull(place: &Place, case: &str) {
    well(place, &["fsck"], case);
    well(place, &["pull", "SHARED"], case);
    let run = ["run", sharing::STUDY, "--locked", "--json"];
    assert_eq!(well(place, &run, case).json()["executed"], 0, "{case}");
    well(place, &["fsck"], case);
}
