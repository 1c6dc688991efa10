//! Runs without a terminal: `run --detach`, `attach`, `stop`, and how `status` reports them.

use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use pipeline::process::stat;
use serde_json::Value;

use crate::support::{Outcome, Project};

const STUDY: &str = "experiments/slow.yaml";

/// Measurements of a program that waits for a file before it continues.
const SLOW: &str = r#"
experiment: slow
question: Does it go on?
seed: 7
axes: {rep: [1, 2, 3]}
stages:
  wait:
    kind: run
    over: [rep]
    program: {script: wait.py}
    arguments: ["{out}", "GATE"]
    timeout: 5 min
    tables:
      points: {file: points.jsonl, keys: [die], columns: {die: {type: integer}}}
  made:
    kind: analyze
    needs: [wait]
    tables:
      total: {operator: sql, query: 'select count(*) as answers from "wait.points"'}
"#;

const SCRIPT: &str = r#"
import os, sys, time
while not os.path.exists(sys.argv[2]):
    time.sleep(0.05)
open(sys.argv[1] + "/points.jsonl", "w").write('{"die": 1}\n')
"#;

fn project() -> Project {
    let project = Project::new();
    let folder = project.path();
    let gate = folder.join("gate");
    let text = SLOW.replace("GATE", gate.to_str().expect("a plain path"));
    fs::write(folder.join(STUDY), text).expect("a file");
    fs::write(folder.join("experiments/wait.py"), SCRIPT).expect("a file");
    project
}

fn open_gate(project: &Project) {
    fs::write(project.path().join("gate"), "").expect("a file");
}

fn status(project: &Project) -> Value {
    project.run(["status", STUDY, "--json"]).ok().json()
}

/// Polls until a condition holds.
fn until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("it did not come to be within a minute");
}

/// Waits until the run measures.
fn until_it_measures(project: &Project) {
    let events = project.path().join("reports/slow/events.jsonl");
    until(|| fs::read_to_string(&events).is_ok_and(|text| text.contains("cell-started")));
}

fn detach(project: &Project) -> Value {
    project
        .run(["run", STUDY, "--detach", "--json"])
        .ok()
        .json()
}

#[test]
fn a_detached_run_has_a_session_of_its_own_goes_on_alone_and_is_shown_to_its_end() {
    let project = project();
    let begun = detach(&project);
    let pid = u32::try_from(begun["process"].as_u64().expect("a number")).expect("a process");
    let run = stat(pid).expect("/proc").expect("it is at work");
    let us = stat(std::process::id()).expect("/proc").expect("us");
    assert_ne!(run.session, us.session);
    // It does not lead a session, so it cannot acquire a terminal.
    assert_ne!(run.session, pid);
    until_it_measures(&project);
    let answer = status(&project);
    assert_eq!(answer["detached"]["state"], "working", "{answer}");
    assert_eq!(answer["detached"]["process"], pid);
    let again = project.run(["run", STUDY, "--detach"]);
    assert_eq!(again.code, Some(1), "{}", again.stderr);
    assert!(again.stderr.contains("is active"), "{}", again.stderr);

    // Ctrl-C ends the attached command, and the run continues.
    let mut attach = project.command(["attach", STUDY]);
    let attach = attach.stdout(Stdio::piped()).stderr(Stdio::piped());
    let left = attach.spawn().expect("the binary starts");
    thread::sleep(Duration::from_millis(600));
    pipeline::process::interrupt(left.id()).expect("a signal");
    let left: Outcome = left.wait_with_output().expect("it ends").into();
    let left = left.ok();
    assert!(left.stderr.contains("the run continues"), "{}", left.stderr);
    assert_eq!(status(&project)["detached"]["state"], "working");

    let attached = attach.spawn().expect("the binary starts");
    open_gate(&project);
    let attached: Outcome = attached.wait_with_output().expect("it ends").into();
    let attached = attached.ok();
    assert!(
        attached.stderr.contains("wait[rep=3]"),
        "{}",
        attached.stderr
    );
    assert!(attached.stdout.contains("trail"), "{}", attached.stdout);
    let answer = status(&project);
    assert_eq!(
        (&answer["detached"]["state"], &answer["detached"]["exit"]),
        (&"ended".into(), &0.into())
    );
    let ok = answer["cells"]
        .as_array()
        .expect("cells")
        .iter()
        .filter(|c| c["status"] == "ok");
    assert_eq!(ok.count(), 4);
}

#[test]
fn stop_ends_a_detached_run_as_ctrl_c_does_and_the_next_goes_on_from_there() {
    let project = project();
    let pid = detach(&project)["process"].as_u64().expect("a number");
    until_it_measures(&project);
    let stopped = project.run(["stop", STUDY, "--json"]).ok().json();
    assert_eq!(stopped["exit"], 130);
    let gone = stat(u32::try_from(pid).expect("a process")).expect("/proc");
    assert!(gone.is_none_or(|stat| !stat.is_running()));
    let again = project.run(["stop", STUDY]);
    assert_eq!(again.code, Some(5), "{}", again.stderr);
    let attached = project.run(["attach", STUDY]);
    assert_eq!(attached.code, Some(130), "{}", attached.stderr);
    open_gate(&project);
    project.run(["run", STUDY]).ok();
}

#[test]
fn a_detached_run_that_was_killed_is_said_to_be_gone_and_nothing_can_be_attached_that_never_was() {
    let project = project();
    let never = project.run(["attach", STUDY]);
    assert_eq!(never.code, Some(5), "{}", never.stderr);
    assert!(never.stderr.contains("--detach"), "{}", never.stderr);
    let pid = detach(&project)["process"].as_u64().expect("a number");
    until_it_measures(&project);
    let killed = std::process::Command::new("kill")
        .args(["-9", &pid.to_string()])
        .status();
    assert!(killed.expect("kill").success());
    until(|| status(&project)["detached"]["state"] == "gone");
    let attached = project.run(["attach", STUDY]);
    assert_eq!(attached.code, Some(1), "{}", attached.stderr);
    assert!(
        attached.stderr.contains("ended without a result"),
        "{}",
        attached.stderr
    );
    open_gate(&project);
    assert!(detach(&project)["process"].is_u64());
    project.run(["attach", STUDY]).ok();
}

#[test]
fn a_mistake_is_reported_before_a_run_is_detached() {
    let project = project();
    let path = project.path().join(STUDY);
    let text = fs::read_to_string(&path).expect("the study");
    fs::write(&path, text.replace("kind: analyze", "kind: analyse")).expect("a file");
    let refused = project.run(["run", STUDY, "--detach"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(!project.path().join(".benchtrail/detached").exists());
}

#[test]
fn a_project_that_names_a_process_of_somebody_else_ends_nothing() {
    let project = project();
    open_gate(&project);
    detach(&project);
    project.run(["attach", STUDY]).ok();
    let runs = project.path().join(".benchtrail/detached");
    let mut runs = fs::read_dir(runs).expect("the folder of detached runs");
    let folder = runs.next().expect("a run").expect("a folder").path();
    fs::remove_file(folder.join("exit.json")).expect("a file");
    let mut other = std::process::Command::new("sleep")
        .arg("600")
        .spawn()
        .expect("sleep starts");
    let process = stat(other.id()).expect("/proc").expect("it runs").id;
    let text = serde_json::to_string(&process).expect("JSON");
    fs::write(folder.join("process.json"), text).expect("a file");
    let stopped = project.run(["stop", STUDY]);
    let lives = stat(other.id()).expect("/proc");
    other.kill().expect("a signal");
    other.wait().expect("it ends");
    assert!(lives.is_some_and(|stat| stat.is_running()));
    assert_eq!(stopped.code, Some(5), "{}", stopped.stderr);
    // Neither does a FIFO keep a command waiting.
    fs::remove_file(folder.join("began.json")).expect("a file");
    let made = std::process::Command::new("mkfifo")
        .arg(folder.join("began.json"))
        .status();
    assert!(made.expect("mkfifo starts").success());
    for command in ["status", "stop", "attach"] {
        let refused = project.run([command, STUDY]);
        assert_eq!(refused.code, Some(4), "{command}: {}", refused.stderr);
    }
}
