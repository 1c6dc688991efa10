//! Kills and faults, drawn from a seed: a few in every test run, many with `.ci/abuse large`.
//!
//! `BENCHTRAIL_KILLS` and `BENCHTRAIL_FAULTS` set their number, `BENCHTRAIL_SEED` selects them. The kernel limits the
//! memory and processor time of every command. A command that exceeds a limit fails, and with it the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::{BINARY, Outcome, Project};

const STUDY: &str = "experiments/simulated.yaml";

/// The limits of a command: address space in KiB, and processor time in seconds.
const LIMITS: (u64, u64) = (6 << 20, 120);

#[expect(
    clippy::disallowed_methods,
    reason = "the environment sets how much is tested"
)]
pub(crate) fn count(variable: &str, usual: usize) -> usize {
    let given = std::env::var(variable).ok();
    given.map_or(usual, |n| n.parse().expect("a number"))
}

/// A small random generator, so that failures are reproducible.
pub(crate) struct Random(u64);

impl Random {
    /// Starts from a seed; `BENCHTRAIL_SEED` selects other cases, so that several processes can share them.
    pub(crate) fn new(seed: u64) -> Self {
        let moved = count("BENCHTRAIL_SEED", 0) as u64;
        Self(seed.wrapping_add(moved.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % limit
    }
}

/// Returns a command of the binary under the limits.
pub(crate) fn limited(project: &Project, arguments: &[&str]) -> Command {
    let plain = project.command(arguments);
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "ulimit -v $1 && ulimit -t $2 && shift 2 && exec \"$@\"",
            "sh",
        ])
        .args([LIMITS.0.to_string(), LIMITS.1.to_string()])
        .arg(BINARY)
        .args(arguments)
        .current_dir(project.path())
        .stdin(Stdio::null());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

pub(crate) fn run(project: &Project, arguments: &[&str]) -> Outcome {
    let output = limited(project, arguments).output();
    output.expect("sh starts").into()
}

/// The results of the study in its tables, which are the same whenever and however often it was measured.
pub(crate) fn results(project: &Project) -> Value {
    let query = "select * from \"results.cells\"";
    run(
        project,
        &["sql", STUDY, query, "--json", "--rows", "0..1000"],
    )
    .ok()
    .json()["rows"]
        .clone()
}

#[test]
fn a_run_killed_at_any_moment_goes_on_and_finds_the_same() {
    let whole = Project::new();
    run(&whole, &["run", STUDY, "--quiet"]).ok();
    let expected = results(&whole);
    assert!(expected.as_array().is_some_and(|rows| !rows.is_empty()));
    let mut random = Random::new(13);
    let (mut left, mut landed) = (count("BENCHTRAIL_KILLS", 6), 0);
    while left > 0 {
        let project = Project::new();
        // Several kills in a row, then a run to the end.
        for _ in 0..left.min(5) {
            left -= 1;
            let mut child = limited(&project, &["run", STUDY, "--quiet"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("sh starts");
            std::thread::sleep(Duration::from_millis(random.below(1200) as u64));
            landed += usize::from(child.try_wait().expect("the child can be asked").is_none());
            child.kill().expect("SIGKILL");
            child.wait().expect("the child is reaped");
            // Whatever the killed run left, nothing it reported is missing or damaged.
            if project.path().join(".benchtrail/objects").is_dir() {
                let outcome = run(&project, &["fsck"]);
                assert_eq!(
                    outcome.code,
                    Some(0),
                    "{}{}",
                    outcome.stdout,
                    outcome.stderr
                );
            }
        }
        run(&project, &["run", STUDY, "--quiet"]).ok();
        assert_eq!(results(&project), expected);
        run(&project, &["fsck"]).ok();
        let again = run(&project, &["run", STUDY, "--json"]).ok().json();
        assert_eq!(again["executed"], 0, "{again}");
        let scratch = project.path().join(".benchtrail/scratch");
        let rest = fs::read_dir(scratch).map_or(0, Iterator::count);
        assert_eq!(rest, 0, "what killed runs left was removed");
    }
    assert!(landed > 0, "every run had ended before it was killed");
}

/// Returns a project with an executed study and a report.
pub(crate) fn reported() -> Project {
    let project = Project::new();
    let file = project.path().join(STUDY);
    let text = fs::read_to_string(&file).expect("the study");
    let report = "\n  report: {kind: report, needs: [ladder, checks, results]}\n";
    fs::write(&file, text + report).expect("writable");
    run(&project, &["run", STUDY, "--quiet"]).ok();
    project
}

/// A place for a fault, and the command that has to find it.
struct Target {
    name: &'static str,
    files: Vec<PathBuf>,
    command: Vec<String>,
}

pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let (mut files, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => open.push(path),
                path => files.push(path),
            }
        }
    }
    files.sort();
    files
}

/// Puts a fault into a file: a flipped bit, an inverted range, an inserted byte, a truncation, or removal.
pub(crate) fn damage(path: &Path, random: &mut Random) -> String {
    let mut bytes = fs::read(path).expect("readable");
    if bytes.is_empty() {
        fs::write(path, "x").expect("writable");
        return "written to".to_owned();
    }
    let at = random.below(bytes.len());
    let what = match random.below(6) {
        0 => {
            bytes.truncate(at);
            format!("cut at {at}")
        }
        1 => {
            fs::remove_file(path).expect("removable");
            return "removed".to_owned();
        }
        2 => {
            let end = bytes.len().min(at + 1 + random.below(64));
            bytes[at..end].iter_mut().for_each(|b| *b = !*b);
            format!("bytes {at} to {end} turned")
        }
        3 => {
            bytes.insert(at, b'7');
            format!("a byte more at {at}")
        }
        _ => {
            bytes[at] ^= 1 << random.below(8);
            format!("a bit of byte {at} turned")
        }
    };
    // Objects are linked into copies of a project, and may be read-only.
    fs::remove_file(path).expect("removable");
    fs::write(path, bytes).expect("writable");
    what
}

#[test]
fn a_fault_anywhere_in_a_store_a_report_a_lock_or_a_bundle_is_found() {
    let project = reported();
    // In another folder, since a report that does not match its lock may match that of a bundle beside it.
    let elsewhere = tempfile::tempdir().expect("a temporary folder");
    let bundle = elsewhere.path().join("bundle");
    let bundle = bundle.to_str().expect("text");
    run(
        &project,
        &[
            "publish",
            STUDY,
            "--author",
            "Ada Lovelace",
            "--out",
            bundle,
        ],
    )
    .ok();
    let path = |name: &str| project.path().join(name);
    let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
    let report = "reports/simulated/report.md";
    let beside = files_below(&path("reports/simulated"));
    let traced = |p: &PathBuf| !p.ends_with("events.jsonl");
    let targets = [
        Target {
            name: "objects",
            files: files_below(&path(".benchtrail/objects")),
            command: words("fsck"),
        },
        Target {
            name: "lock",
            files: vec![path("experiments/simulated.lock")],
            command: words(&format!("audit {report}")),
        },
        Target {
            name: "report",
            files: beside.into_iter().filter(traced).collect(),
            command: words(&format!("audit {report}")),
        },
        Target {
            name: "bundle",
            files: files_below(Path::new(bundle)),
            command: words(&format!("verify {bundle}")),
        },
    ];
    for target in &targets {
        let command: Vec<&str> = target.command.iter().map(String::as_str).collect();
        run(&project, &command).ok();
        assert!(!target.files.is_empty(), "{}", target.name);
    }
    let mut random = Random::new(170);
    for number in 0..count("BENCHTRAIL_FAULTS", 16) {
        let target = &targets[number % targets.len()];
        let file = &target.files[random.below(target.files.len())];
        let before = fs::read(file).expect("readable");
        let what = damage(file, &mut random);
        let command: Vec<&str> = target.command.iter().map(String::as_str).collect();
        let outcome = run(&project, &command);
        assert!(
            matches!(outcome.code, Some(1..=5)),
            "{}: {} {what}, and {command:?} ended with {:?}:\n{}{}",
            target.name,
            file.display(),
            outcome.code,
            outcome.stdout,
            outcome.stderr
        );
        fs::remove_file(file).ok();
        fs::write(file, before).expect("writable");
    }
}

#[test]
fn a_fault_in_the_index_is_found_or_changes_no_answer() {
    let project = Project::new();
    run(&project, &["run", STUDY, "--quiet"]).ok();
    let lock = fs::read(project.path().join("experiments/simulated.lock")).expect("a lock");
    let index = project.path().join(".benchtrail/index.sqlite");
    let mut random = Random::new(590);
    for _ in 0..count("BENCHTRAIL_FAULTS", 16) / 4 {
        // Data that was not written back yet is in a file beside it.
        let before: Vec<(PathBuf, Vec<u8>)> = ["", "-wal", "-shm"]
            .map(|end| PathBuf::from(format!("{}{end}", index.display())))
            .into_iter()
            .filter_map(|file| Some((file.clone(), fs::read(&file).ok()?)))
            .collect();
        let what = damage(&index, &mut random);
        let outcome = run(&project, &["run", STUDY, "--json"]);
        if outcome.code == Some(0) {
            // Nothing was measured again, so every answer of the index was correct or came from records.
            let now = fs::read(project.path().join("experiments/simulated.lock")).expect("a lock");
            assert!(now == lock, "{what}: {}", outcome.stdout);
        } else {
            let is_reported =
                matches!(outcome.code, Some(1..=4)) && outcome.stderr.contains("index");
            assert!(is_reported, "{what}: {:?} {}", outcome.code, outcome.stderr);
        }
        for (file, bytes) in before {
            fs::write(file, bytes).expect("writable");
        }
    }
}
