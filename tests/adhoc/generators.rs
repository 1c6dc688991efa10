//! A load that several processes of the binary send, as a user sees it.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use load::reference::Behaviour;
use rustix::process::{Pid, Signal, kill_process};

use super::{Outcome, command, outcome, run, server, table};

fn slow() -> Behaviour {
    Behaviour {
        ttft: Duration::from_millis(20),
        ..Behaviour::default()
    }
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(number.try_into().expect("a process id")).expect("a process id")
}

/// Returns the generators of a running command, once all of them send.
fn generators(child: &Child, count: usize) -> BTreeSet<u32> {
    loop {
        let mut threads = BTreeSet::new();
        let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).expect("it runs");
        for task in tasks.flatten() {
            let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            threads.extend(
                text.split_whitespace()
                    .filter_map(|pid| pid.parse::<u32>().ok()),
            );
        }
        threads.retain(|pid| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&words).contains(load::GENERATOR_COMMAND)
        });
        if threads.len() == count {
            return threads;
        }
        sleep(Duration::from_millis(10));
    }
}

/// Waits until none of these processes exists. One that stays fails the test by its time limit.
fn until_gone(pids: &BTreeSet<u32>) {
    let there = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    while pids.iter().any(there) {
        sleep(Duration::from_millis(10));
    }
}

fn endless(url: &str, more: &[&str]) -> Child {
    let mut command = command(
        url,
        &[
            "--generators",
            "3",
            "--concurrency",
            "6",
            "--requests",
            "100000",
        ],
    );
    command
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("the binary starts")
}

fn ended(child: Child) -> Outcome {
    let output = child.wait_with_output().expect("it ends");
    Outcome {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

#[test]
fn several_generators_leave_one_result_that_names_the_worst_of_them() {
    let (server, folder) = (server(slow()), tempfile::tempdir().expect("a folder"));
    let out = folder.path().join("rows");
    let more = [
        "--generators",
        "3",
        "--concurrency",
        "6",
        "--requests",
        "60",
        "--json",
        "--out",
    ];
    let mut more = more.to_vec();
    let shown = out.display().to_string();
    more.push(&shown);
    let result = run(&server.url(), &more).ok().json();
    assert_eq!(
        (
            result["requests_ok"].as_u64(),
            result["generators"].as_u64()
        ),
        (Some(60), Some(3))
    );
    let generators = table(&out, "generators");
    let each = generators.int("requests").expect("a column");
    assert_eq!(each, [Some(20), Some(20), Some(20)]);
    let bounds = generators.float("stamp_error_bound").expect("a column");
    let worst = bounds.into_iter().flatten().reduce(f64::max);
    assert_eq!(result["client"]["stamp_error_bound_ms"].as_f64(), worst);
}

#[test]
fn what_generators_cannot_share_is_refused_with_the_remedy() {
    let server = server(slow());
    let message = |more: &[&str]| {
        let refused = run(&server.url(), more);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        refused.stderr
    };
    let capped = message(&[
        "--generators",
        "2",
        "--rate",
        "10",
        "--max-concurrency",
        "4",
    ]);
    assert!(
        capped.contains("cannot keep one limit of --max-concurrency"),
        "{capped}"
    );
    let few = message(&["--generators", "2", "--concurrency", "1"]);
    assert!(
        few.contains("2 generators need at least 2 clients, and this load has 1"),
        "{few}"
    );
    let searched = message(&[
        "--generators",
        "2",
        "--concurrency",
        "2",
        "--search",
        "8",
        "--slo",
        "ttft=50",
    ]);
    assert!(searched.contains("--search"), "{searched}");
    let many = message(&["--generators", "65", "--concurrency", "80"]);
    assert!(many.contains("64"), "{many}");
}

#[test]
fn ctrl_c_ends_all_generators_in_order() {
    let server = server(slow());
    let child = endless(&server.url(), &["--json"]);
    let own = generators(&child, 3);
    while server.truth(0).len() < 30 {
        sleep(Duration::from_millis(10));
    }
    kill_process(pid(child.id()), Signal::INT).expect("it runs");
    let ended = ended(child);
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert!(ended.json()["requests_ok"].as_u64().is_some_and(|n| n > 0));
    until_gone(&own);
}

#[test]
fn generators_end_when_the_command_is_killed_even_one_that_stands_still() {
    let server = server(slow());
    let mut child = endless(&server.url(), &["--quiet"]);
    let own = generators(&child, 3);
    let first = own.first().copied().expect("three");
    kill_process(pid(first), Signal::STOP).expect("it runs");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    until_gone(&own);
}

#[test]
fn a_generator_that_is_killed_fails_the_command_with_its_number() {
    let server = server(slow());
    let child = endless(&server.url(), &["--quiet"]);
    let own = generators(&child, 3);
    while server.truth(0).len() < 30 {
        sleep(Duration::from_millis(10));
    }
    let last = own.last().copied().expect("three");
    kill_process(pid(last), Signal::KILL).expect("it runs");
    let ended = ended(child);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let message = "ended before its work was done: signal: 9 (SIGKILL)";
    assert!(ended.stderr.contains(message), "{}", ended.stderr);
    until_gone(&own);
}

#[test]
fn an_experiment_with_generators_runs_to_its_report_and_its_audit_holds() {
    let (server, folder) = (server(slow()), tempfile::tempdir().expect("a folder"));
    let url = server.url();
    let experiment = format!(
        "experiment: several\nseed: 1\naxes: {{rep: [1, 2]}}\nengines:\n  elsewhere:\n    title: Elsewhere\n    version: \"1\"\n    \
         endpoints: {{health: null}}\n    launch: {{program: {{running: {url}}}}}\nmodels:\n  reference:\n    \
         title: Reference\n    weights: {{named: {{id: reference}}}}\nstages:\n  machine: {{kind: provision, \
         engine: elsewhere, model: reference}}\n  server: {{kind: serve, needs: [machine]}}\n  steps: {{kind: \
         load, needs: [server], over: [rep], workload: short-decode, arrival: {{closed-loop: {{clients: 4}}}}, \
requests: 24, warmup: 4, generators: 2}}\n  checks: {{kind: verify, needs: [server, steps], gates: [\
         {{gate: census}}, {{gate: digests}}, {{gate: expected-rows}}, {{gate: row-status}}, {{gate: identities}}, \
         {{gate: duplicates}}, {{gate: plausible-ttft}}, {{gate: delivered-length}}]}}\n  \
         numbers: {{kind: analyze, needs: [steps, checks], tables: {{cells: {{operator: cell-summary}}}}}}\n  \
         report: {{kind: report, needs: [numbers, checks, steps]}}\n"
    );
    fs::write(folder.path().join("several.yaml"), experiment).expect("a file");
    fs::create_dir_all(folder.path().join(".benchtrail")).expect("a folder");
    let benchtrail = |words: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_benchtrail"));
        command
            .args(words)
            .current_dir(folder.path())
            .env("XDG_CONFIG_HOME", "/nowhere");
        outcome(&mut command).ok()
    };
    benchtrail(&["run", "several.yaml", "--trust"]);
    benchtrail(&["audit", "reports/several/report.md"]);
    let rows = benchtrail(&[
        "sql",
        "several.yaml",
        "select g.generator, count(*) as n from \"steps.requests\" r join \"steps.request_generators\" g \
         using (rep, request_id) where r.phase = 'measured' group by 1",
        "--json",
    ]);
    assert!(rows.stdout.contains("24"), "{}", rows.stdout);
}
