//! Killed at any moment: the next run completes unattended and leaves no engine behind.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::steps::executed_cells;
use crate::support::{Project, processes_with};
use crate::torture::{Random, count};

/// Returns a project with a prepared engine and no measurements yet.
fn prepared() -> Project {
    let project = Project::finished();
    fs::remove_file(project.path().join("experiments/quickstart.smoke.lock"))
        .expect("the lock was there");
    // A different seed gives new measurements with the same engine.
    project.edit("experiments/quickstart.yaml", "seed: 164", "seed: 7");
    // Two levels have all kinds of moments.
    let (levels, fewer) = ("concurrency: [1, 2, 4]", "concurrency: [1, 2]");
    project.edit("experiments/quickstart.yaml", levels, fewer);
    project
}

/// The load cells of the prepared project.
const CELLS: u64 = 12;

/// Waits until the event log contains this text `count` times; returns whether it did.
fn wait_for(
    events: &std::path::Path,
    needle: &str,
    count: usize,
    child: &mut std::process::Child,
) -> bool {
    let limit = Instant::now() + Duration::from_secs(300);
    while Instant::now() < limit {
        let text = fs::read_to_string(events).unwrap_or_default();
        if text.matches(needle).count() >= count {
            return true;
        }
        if child.try_wait().expect("the child can be asked").is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("`{needle}` was not seen {count} times");
}

#[test]
fn a_killed_run_resumes_where_it_was_and_leaves_no_engine() {
    let project = prepared();
    let store = project
        .path()
        .join(".benchtrail")
        .to_string_lossy()
        .into_owned();
    let events = project.path().join("events.jsonl");
    let arguments = [
        "run",
        "experiments/quickstart.yaml",
        "--smoke",
        "--quiet",
        "--events",
        events.to_str().expect("plain"),
    ];
    let mut finished_cells = 0;
    // Killed while an engine starts, in the first measurement, and between later ones.
    for (event, count, pause) in [
        ("resource-started", 2, 0),
        ("cell-started", 3, 150),
        ("cell-ended", 3, 20),
    ] {
        fs::remove_file(&events).ok();
        let mut child = project
            .command(arguments)
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        assert!(
            wait_for(
                &events,
                &format!("\"event\":\"{event}\""),
                count,
                &mut child
            ),
            "the run ended before {count} × {event}"
        );
        std::thread::sleep(Duration::from_millis(pause));
        child.kill().expect("SIGKILL");
        child.wait().expect("the child is reaped");
        finished_cells += fs::read_to_string(&events)
            .unwrap_or_default()
            .matches("\"event\":\"cell-ended\"")
            .count();
    }
    let summary = project
        .run(["run", "experiments/quickstart.yaml", "--smoke", "--json"])
        .ok()
        .json();
    let ladder = summary["stages"]["ladder"]
        .as_object()
        .expect("the ladder's counts");
    assert_eq!(ladder["ok"], CELLS, "{summary}");
    assert!(finished_cells > 0, "no kill came after a finished cell");
    assert_eq!(
        processes_with(&store),
        Vec::<String>::new(),
        "an engine was left behind"
    );
    let leases = project.path().join(".benchtrail/leases");
    assert_eq!(
        fs::read_dir(leases).map_or(0, Iterator::count),
        0,
        "a lease was left behind"
    );
    project.run(["fsck"]).ok();
    let again = project
        .run(["run", "experiments/quickstart.yaml", "--smoke", "--json"])
        .ok()
        .json();
    assert_eq!(again["executed"], 0, "{again}");
}

/// `BENCHTRAIL_KILLS` sets the number of kills that `.ci/abuse` tries.
#[test]
fn a_run_of_a_real_engine_killed_at_any_moment_goes_on_and_leaves_no_engine() {
    let mut random = Random::new(77);
    let (mut left, mut landed) = (count("BENCHTRAIL_KILLS", 1), 0);
    while left > 0 {
        let project = prepared();
        let events = project.path().join("events.jsonl");
        let mut measured = BTreeSet::new();
        let mut hear = || {
            for cell in executed_cells(&events, "ladder") {
                assert!(measured.insert(cell.clone()), "{cell} was measured twice");
            }
            fs::remove_file(&events).ok();
        };
        let study = ["run", "experiments/quickstart.yaml", "--smoke"];
        let heard = ["--events", events.to_str().expect("plain")];
        // Several kills in a row, then a run to the end.
        for _ in 0..left.min(20) {
            left -= 1;
            let mut child = project
                .command([&study[..], &["--quiet"], &heard].concat())
                .stderr(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .expect("it starts");
            std::thread::sleep(Duration::from_millis(random.below(8000) as u64));
            landed += usize::from(child.try_wait().expect("the child can be asked").is_none());
            child.kill().expect("SIGKILL");
            child.wait().expect("the child is reaped");
            hear();
        }
        let summary = project.run([&study[..], &["--json"], &heard].concat());
        let summary = summary.ok().json();
        hear();
        assert_eq!(summary["stages"]["ladder"]["ok"], CELLS, "{summary}");
        let store = project.path().join(".benchtrail");
        let processes = processes_with(store.to_str().expect("plain"));
        assert_eq!(processes, Vec::<String>::new(), "an engine was left behind");
        let leases = fs::read_dir(store.join("leases")).map_or(0, Iterator::count);
        assert_eq!(leases, 0, "a lease was left behind");
        project.run(["fsck"]).ok();
    }
    assert!(landed > 0, "every run had ended before it was killed");
}

#[test]
fn ctrl_c_ends_in_order_with_the_cell_in_flight_in_the_ledger() {
    let project = prepared();
    let store = project
        .path()
        .join(".benchtrail")
        .to_string_lossy()
        .into_owned();
    let events = project.path().join("events.jsonl");
    let arguments = [
        "run",
        "experiments/quickstart.yaml",
        "--smoke",
        "--events",
        events.to_str().expect("plain"),
    ];
    let mut child = project
        .command(arguments)
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    // A measurement has started.
    assert!(
        wait_for(
            &events,
            r#""event":"cell-progress","cell":"ladder"#,
            1,
            &mut child
        ),
        "the run ended early"
    );
    let pid =
        rustix::process::Pid::from_raw(i32::try_from(child.id()).expect("a pid")).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("SIGINT");
    let status = child.wait().expect("the child ends");
    assert_eq!(status.code(), Some(130));
    assert_eq!(
        processes_with(&store),
        Vec::<String>::new(),
        "an engine was left behind"
    );
    let status: Value = project
        .run(["status", "experiments/quickstart.yaml", "--smoke", "--json"])
        .ok()
        .json();
    let cells = status["cells"].as_array().expect("cells");
    assert!(
        cells.iter().any(|c| c["status"] == "interrupted"),
        "{status}"
    );
    project
        .run(["run", "experiments/quickstart.yaml", "--smoke", "--quiet"])
        .ok();
}

#[test]
fn the_end_of_the_terminal_ends_a_run_in_order_unless_it_ignores_it() {
    const STUDY: &str = r#"
experiment: ends
seed: 1
stages:
  wait:
    kind: run
    program: {script: wait.sh}
    interpreter: [sh]
    arguments: ["{out}", "SECONDS"]
    tables:
      points: {file: points.jsonl, keys: [die], columns: {die: {type: integer}}}
"#;
    // Whoever started the test may ignore SIGHUP; `env` sets the default again.
    for (ignored, seconds, code) in [(false, "300", 130), (true, "3", 0)] {
        let project = Project::new();
        let text = STUDY.replace("SECONDS", seconds);
        fs::write(project.path().join("ends.yaml"), text).expect("writable");
        let script =
            "echo $$ > \"$1/pid\"\nsleep \"$2\"\nprintf '{\"die\": 1}\\n' > \"$1/points.jsonl\"\n";
        fs::write(project.path().join("wait.sh"), script).expect("writable");
        let events = project.path().join("events.jsonl");
        let plain = project.command([
            "run",
            "ends.yaml",
            "--quiet",
            "--events",
            events.to_str().expect("text"),
        ]);
        let mut command = std::process::Command::new("env");
        command
            .arg(match ignored {
                true => "--ignore-signal=HUP",
                false => "--default-signal=HUP",
            })
            .arg(plain.get_program())
            .args(plain.get_args())
            .current_dir(project.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut child = command.spawn().expect("it starts");
        assert!(wait_for(
            &events,
            r#""event":"cell-started","#,
            1,
            &mut child
        ));
        let pid = i32::try_from(child.id()).expect("a pid");
        let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("SIGHUP");
        let status = child.wait().expect("it ends");
        assert_eq!(status.code(), Some(code), "ignored: {ignored}");
        let folder = project.path().to_string_lossy().into_owned();
        assert_eq!(processes_with(&folder), Vec::<String>::new());
    }
}
