//! In-process engines through the binary. The workers are stubs: they sleep instead of generating.

use std::fs;

use crate::support::{Outcome, Project, processes_with};

const STUDY: &str = r#"
experiment: inside
seed: 1
engines:
  stub:
    title: A stub of a worker
    version: "1"
    launch:
      program: {worker-file: stub.py}
    settings:
      milliseconds: {type: number, default: 2, help: how long a token takes}
    ready: {timeout-s: 20}
models:
  none:
    title: No weights
    weights: {named: {id: none}}
axes:
  clients: [1, 3]
  rep: {from: 1, to: 2}
stages:
  machine: {kind: provision, engine: stub, model: none}
  server: {kind: serve, needs: [machine], settings: {milliseconds: 1}}
  steps:
    kind: load
    needs: [server]
    over: [clients, rep]
    workload: short-decode
    arrival: {closed-loop: {clients: "${clients}"}}
    requests: 6
    warmup: 1
    heartbeat: 2 s
  checks:
    kind: verify
    needs: [steps, server]
    gates: [{gate: census}, {gate: row-status}, {gate: delivered-length}]
  results:
    kind: analyze
    needs: [steps, checks]
    tables:
      cells: {operator: cell-summary}
      efficiency: {operator: parallel-efficiency, from: cells, ladder: clients}
  report: {kind: report, needs: [machine, server, steps, checks, results], template: report.md}
"#;

/// Sleeps for each token. The text in place of `MISCHIEF` runs before a row is reported.
const STUB: &str = r#"
import json, sys, threading, time, os
spec = json.loads(sys.stdin.readline())
lock = threading.Lock()
def tell(line):
    with lock:
        print(json.dumps(line), flush=True)
tell({"event": "ready"})
def run(requests, clients):
    waiting = list(reversed(requests))
    def client(number):
        while True:
            with lock:
                if not waiting: return
                one = waiting.pop()
            sent = time.monotonic_ns()
            at = []
            for _ in range(one["output_tokens"]):
                time.sleep(spec["settings"]["milliseconds"] / 1000)
                at.append(time.monotonic_ns())
            row = {"event": "request", "id": one["id"], "client": number, "sent_ns": sent, "token_ns": at,
                   "done_ns": time.monotonic_ns(), "output_tokens": len(at), "finish_reason": "length",
                   "prompt_tokens": len(one["prompt"].split()), "text": "tok " * len(at)}
            MISCHIEF
            tell(row)
    threads = [threading.Thread(target=client, args=(n,)) for n in range(clients)]
    [t.start() for t in threads]
    [t.join() for t in threads]
for phase, clients in (("warmup", 1), ("measured", spec["clients"])):
    run([r for r in spec["requests"] if r["phase"] == phase], clients)
"#;

fn with_worker(mischief: &str) -> (Project, Outcome) {
    let project = Project::new();
    fs::write(project.path().join("inside.yaml"), STUDY).unwrap();
    fs::write(
        project.path().join("stub.py"),
        STUB.replace("MISCHIEF", mischief),
    )
    .unwrap();
    let ran = project.run(["run", "inside.yaml"]);
    (project, ran)
}

#[test]
fn a_worker_takes_the_place_of_a_server() {
    let (project, ran) = with_worker("pass");
    let ran = ran.ok();
    assert!(
        ran.stdout.contains(" 0 fail, 0 not judged"),
        "{}",
        ran.stdout
    );
    let report = fs::read_to_string(project.path().join("reports/inside/report.md")).unwrap();
    for expected in ["A stub of a worker", "in-process", "milliseconds: 1"] {
        assert!(report.contains(expected), "{expected}\n{report}");
    }
    // It starts for each cell, and loads its model each time.
    let query = "select count(*) as n, count(distinct started_unix_ns) as launches, min(ready_s) > 0 as took, min(proof) as \
                 proof from \"steps.server_starts\"";
    let starts = project.run(["sql", "inside.yaml", query, "--csv"]).ok();
    assert_eq!(starts.stdout, "n,launches,took,proof\n4,4,1,worker\n");
    let again = project.run(["run", "inside.yaml"]).ok();
    assert!(
        again.stdout.contains("0 cells executed"),
        "{}",
        again.stdout
    );
    // The text of the script is part of the key.
    project.edit(
        "stub.py",
        "\"finish_reason\": \"length\"",
        "\"finish_reason\": 'length'",
    );
    let plan = project.run(["plan", "inside.yaml"]).ok();
    assert!(plan.stdout.contains("machine: run"), "{}", plan.stdout);
}

#[test]
fn the_error_for_a_worker_that_breaks_the_protocol_says_what_it_did() {
    for (mischief, expected) in [
        (
            "print('Loading weights', flush=True)",
            "breaks the protocol: `Loading weights`",
        ),
        (
            "row['sent_ns'] = int(time.time() * 1e9)",
            "breaks the protocol: the times of request 0 are not in order",
        ),
        ("row['sent_ns'] = 0", "on the kernel's monotonic clock"),
        (
            "row['output_tokens'], row['token_ns'] = 4000000000, []",
            "request 0 has 4000000000 output tokens, but 24 were requested and its text has 96 bytes",
        ),
        ("row['id'] += 100", "there is no request 100"),
        (
            "os._exit(3)",
            "ended after 0 of 7 requests (exit status: 3)",
        ),
        ("raise MemoryError('no room')", "its log says:"),
        ("time.sleep(60)", "said nothing for 2 s"),
    ] {
        let (project, ran) = with_worker(mischief);
        assert_eq!(
            ran.code,
            Some(1),
            "{mischief}:\n{}{}",
            ran.stdout,
            ran.stderr
        );
        let all = format!("{}{}", ran.stdout, ran.stderr);
        assert!(all.contains(expected), "{mischief}:\n{all}");
        let left = processes_with(&project.path().to_string_lossy());
        assert!(left.is_empty(), "{mischief}: {left:?}");
    }
}
