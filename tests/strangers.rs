//! Mistakes of a stranger in the first hours: names in queries, operators and templates, options of other commands, and
//! words of the environment. Planning reports what it can know, at the place of the word.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;

use crate::mistakes::{hinted, planned, written};
use crate::support::{Outcome, Project};

const MEANS: &str = "over: [block], columns: [output_throughput, ttft_ms_p50, tpot_ms_p50]";
const CELLS: &str = "cells: {operator: cell-summary}";
const CHECKS: &str = "checks: {kind: verify, needs: [server, ladder]}";

#[test]
fn a_misspelt_variable_is_reported() {
    let project = written();
    let outcome: Outcome = project
        .command(["plan", "mine.yaml"])
        .env("BENCHTRAIL_STOR", "elsewhere")
        .output()
        .expect("the binary starts")
        .into();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains(
            "warning: the variable BENCHTRAIL_STOR is not read; did you mean BENCHTRAIL_STORE?\n"
        ),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_store_that_cannot_be_made_is_reported_by_doctor_and_by_run() {
    let project = written();
    fs::write(project.path().join("file"), "text").unwrap();
    let run = project.run(["--store", "file/store", "plan", "mine.yaml"]);
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    assert!(
        run.stderr.contains("hint: the store is a folder: "),
        "{}",
        run.stderr
    );
    let doctor = project.run(["--store", "file/store", "doctor"]);
    assert_eq!(doctor.code, Some(4), "{}", doctor.stdout);
    assert!(
        doctor.stdout.contains("file is not a folder"),
        "{}",
        doctor.stdout
    );
    // No file can be made in this folder, not even by root.
    let doctor = project.run(["--store", "/proc/self/store", "doctor"]);
    assert_eq!(doctor.code, Some(4), "{}", doctor.stdout);
    assert!(
        doctor.stdout.contains("cannot be written: "),
        "{}",
        doctor.stdout
    );
    assert!(
        doctor
            .stdout
            .contains("put the store elsewhere with `--store DIR`"),
        "{}",
        doctor.stdout
    );
    let well = project.run(["--store", "new", "doctor"]);
    assert!(
        well.stdout.contains("can be created by the first run"),
        "{}",
        well.stdout
    );
    assert!(
        !project.path().join("new").exists(),
        "doctor makes no store"
    );
}

#[test]
fn doctor_names_the_variable_of_a_key_that_is_not_set() {
    let project = written();
    let study = fs::read_to_string(project.path().join("mine.yaml")).unwrap();
    let keyed = study.replace(
        "requests: 16",
        "requests: 16\n    api-key-env: NO_SUCH_KEY_HERE",
    );
    fs::write(project.path().join("keyed.yaml"), keyed).unwrap();
    let doctor = project.run(["doctor", "keyed.yaml"]);
    assert!(
        doctor
            .stdout
            .contains("`NO_SUCH_KEY_HERE`, which should hold the API key, is not set"),
        "{}",
        doctor.stdout
    );
    assert!(
        doctor.stdout.contains("stage `ladder`"),
        "{}",
        doctor.stdout
    );
}

/// A server that lists a model and never answers a request for text. It says on a channel when it has this many of them.
fn silent(requests: usize) -> (String, mpsc::Receiver<()>) {
    const MODELS: &str =
        "{\"object\": \"list\", \"data\": [{\"id\": \"any\", \"object\": \"model\"}]}";
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut start = [0; 4];
            if stream.read_exact(&mut start).is_err() {
                continue;
            }
            if start.starts_with(b"POST") {
                open.push(stream);
                if open.len() == requests {
                    sender.send(()).expect("the test listens");
                }
                continue;
            }
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
                MODELS.len()
            );
            let answer = format!("{head}connection: close\r\n\r\n{MODELS}");
            stream
                .write_all(answer.as_bytes())
                .expect("it takes the answer");
        }
    });
    (url, receiver)
}

#[test]
fn requests_that_ctrl_c_cuts_off_are_cancelled_and_not_failed() {
    let project = Project::new();
    let (url, sent) = silent(2);
    let arguments = [
        "load",
        &url,
        "--model",
        "any",
        "--concurrency",
        "2",
        "--requests",
        "4",
        "--no-preflight",
        "--quiet",
    ];
    let child = project
        .command(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    sent.recv().expect("both clients send");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("SIGINT");
    let outcome: Outcome = child.wait_with_output().expect("it ends").into();
    assert_eq!(
        outcome.code,
        Some(130),
        "{}{}",
        outcome.stdout,
        outcome.stderr
    );
    let lines: Vec<String> = outcome
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for line in [
        "Successful requests 0",
        "Failed requests 0",
        "Cancelled requests 2 neither successful nor failed; the first: stopped",
        "Requests never sent 2",
    ] {
        assert!(
            lines.iter().any(|l| l == line),
            "{line}: {}",
            outcome.stdout
        );
    }
    assert!(!outcome.stdout.contains("errors"), "{}", outcome.stdout);
}

#[test]
fn names_on_the_command_line_are_met_with_those_that_exist() {
    let project = written();
    let none = project.run(["plan", "mine.yaml", "--only", "ladder[block=1,clients=3]"]);
    assert_eq!(none.code, Some(2), "{}", none.stderr);
    assert!(
        none.stderr
            .contains("hint: the labels of `clients` are `1`, `2`, `4`\n"),
        "{}",
        none.stderr
    );
    project
        .run(["run", "experiments/simulated.yaml", "--only", "ladder"])
        .ok();
    let sql = project.run(["sql", "experiments/simulated.yaml", "select * from cells"]);
    assert_eq!(sql.code, Some(5), "{}", sql.stderr);
    assert!(
        sql.stderr.contains(
            "these stages have no tables, because none of their cells is ok: `checks`, `results`"
        ),
        "{}",
        sql.stderr
    );
}
