//! Groups of servers: two replicas of the real engine behind a small balancer.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Project, processes_with};

/// A minimal balancer: each new connection goes to the next worker, and bytes are forwarded. It listens on a second port
/// too, and colours its log.
const STUDY: &str = r#"
experiment: group
title: Two replicas behind a balancer
question: Does load reach both, and does each row say so?
seed: 5
engines:
  balancer:
    title: Round robin
    version: "1"
    requires: {programs: [{name: python3, debian: python3}]}
    launch:
      program:
        python: |
          import asyncio, itertools, sys
          from urllib.parse import urlsplit
          host, port = sys.argv[1].rsplit(":", 1)
          workers = itertools.cycle([urlsplit(url) for url in sys.argv[4:]])
          async def pipe(reader, writer):
              try:
                  while data := await reader.read(65536):
                      writer.write(data)
                      await writer.drain()
              finally:
                  writer.close()
          async def serve(reader, writer):
              worker = next(workers)
              print("\x1b[32mforwarding\x1b[0m to", worker.netloc, flush=True)
              up, down = await asyncio.open_connection(worker.hostname, worker.port)
              await asyncio.gather(pipe(reader, down), pipe(up, writer), return_exceptions=True)
          async def main():
              server = await asyncio.start_server(serve, host, int(port))
              beside = await asyncio.start_server(serve, host, int(sys.argv[2]))
              await asyncio.gather(server.serve_forever(), beside.serve_forever())
          asyncio.run(main())
      arguments: ["{host}:{port}", "{side-port}"]
      peers:
        others: {optional: true, each: ["{url}"]}
        workers: {first: [--workers], each: ["{url}"]}
    log: {events: {forwarded: {line: '^forwarding to (?<worker>\S+)$'}}}
    api: openai-completions
workloads:
  short:
    prompts: {words: {length: 6}}
    output: {tokens: 4, mode: exact}
stages:
  machine: {kind: provision, engine: llama-cpp, model: smollm2-135m-instruct}
  front: {kind: provision, engine: balancer, model: smollm2-135m-instruct}
  server:
    kind: serve
    needs: [machine, front]
    roles:
      replica: {provision: machine, count: 2, settings: {parallel: 2, context: 512, threads: 1}, gpus: ["", ""]}
      router: {provision: front, peers: {workers: replica}}
    load: router
  load:
    kind: load
    needs: [server]
    workload: short
    arrival: {closed-loop: {clients: 4}}
    requests: 16
    telemetry: {interval: 50 ms}
  checks:
    kind: verify
    needs: [server, load]
    gates: [{gate: row-status}, {gate: engine-identity}, {gate: token-accounting}]
  report: {kind: report, needs: [machine, front, server, load, checks]}
"#;

fn project(text: &str) -> Project {
    let project = Project::finished();
    fs::write(project.path().join("experiments/group.yaml"), text).expect("a file");
    project
}

fn ask(project: &Project, query: &str) -> Value {
    let answer = project
        .run(["sql", "experiments/group.yaml", query, "--json"])
        .ok()
        .json();
    answer.get("rows").unwrap_or(&answer).clone()
}

#[test]
fn two_replicas_behind_a_balancer_are_one_server_whose_rows_name_their_members() {
    let project = project(STUDY);
    let ran = project.run(["run", "experiments/group.yaml"]).ok();
    let members = ask(
        &project,
        r#"select member, role, loaded from "load.members" order by member"#,
    );
    assert_eq!(
        members,
        json!([
            {"member": "replica-0", "role": "replica", "loaded": false},
            {"member": "replica-1", "role": "replica", "loaded": false},
            {"member": "router-0", "role": "router", "loaded": true},
        ])
    );
    // The load goes to one member, and its rows say so: a study of 1, 2 and 4 members reads them at every level.
    let loaded = ask(
        &project,
        r#"select s.server, count(*) as n from "load.requests" r
           join "load.request_servers" s on s.request_id = r.request_id where not r.superseded group by 1"#,
    );
    assert_eq!(loaded, json!([{"server": "router-0", "n": 16}]));
    // How long each took to start, step by step. The router was started after the replicas.
    let starts = ask(
        &project,
        r#"select member, proof, healthy_s > 0 and healthy_s <= listed_s and listed_s <= ready_s as in_order,
           rank() over (order by started_unix_ns) as turn from "load.server_starts" order by member"#,
    );
    let start = |member: &str, turn: u32| json!({"member": member, "proof": "token", "in_order": 1, "turn": turn});
    assert_eq!(
        starts,
        json!([
            start("replica-0", 1),
            start("replica-1", 2),
            start("router-0", 3)
        ])
    );
    // Both replicas generated tokens, and their counters together account for every row.
    let counted = ask(
        &project,
        r#"select substr(labels, 1, 18) as member, max(value) - min(value) > 0 as rose
           from "load.server_metrics" where name = 'llamacpp:tokens_predicted_total' group by 1 order by 1"#,
    );
    assert_eq!(
        counted,
        json!([{"member": "member=\"replica-0\"", "rose": 1}, {"member": "member=\"replica-1\"", "rose": 1}])
    );
    let gates = ask(
        &project,
        "select gate, outcome from gates where outcome <> 'pass'",
    );
    assert_eq!(gates, json!([]), "{gates}");
    let sampled = ask(
        &project,
        r#"select distinct member from "load.process_telemetry" where role = 'server' order by 1"#,
    );
    assert_eq!(
        sampled,
        json!([{"member": "replica-0"}, {"member": "replica-1"}, {"member": "router-0"}])
    );
    let events = ask(
        &project,
        r#"select count(distinct member) as n, count(distinct case when event = 'forwarded' then text end) as workers
           from "load.engine_events""#,
    );
    assert_eq!(events, json!([{"n": 3, "workers": 2}]));
    let report = fs::read_to_string(project.path().join("reports/group/report.md"))
        .unwrap_or_else(|e| panic!("{e}: {}", ran.stdout));
    let spaced: Vec<String> = report
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for start in [
        "| Role: replica | 2 × llama.cpp",
        "| Role: router | 1 × Round robin 1, loaded |",
    ] {
        assert!(
            spaced.iter().any(|line| line.starts_with(start)),
            "no `{start}` in:\n{report}"
        );
    }
    let store = project.path().join(".benchtrail");
    assert_eq!(
        processes_with(store.to_str().expect("plain")),
        Vec::<String>::new(),
        "a member was left behind"
    );
}

/// Two replicas without a balancer: requests alternate between them.
const IN_TURN: &str = r#"
experiment: turns
title: Two replicas, loaded in turn
question: Does each replica get every other request?
seed: 5
stages:
  machine: {kind: provision, engine: llama-cpp, model: smollm2-135m-instruct}
  server:
    kind: serve
    needs: [machine]
    roles:
      replica: {count: 2, settings: {parallel: 2, context: 512, threads: 1}, gpus: ["", ""]}
    load: replica
  load:
    kind: load
    needs: [server]
    workload:
      prompts: {words: {length: 6}}
      output: {tokens: 4, mode: exact}
    arrival: {closed-loop: {clients: 4}}
    requests: 12
    warmup: 2
    telemetry: {interval: 50 ms}
  checks:
    kind: verify
    needs: [server, load]
    gates: [{gate: row-status}, {gate: engine-identity}, {gate: token-accounting}, {gate: census}]
  figures:
    kind: analyze
    needs: [load, checks]
    tables:
      by_server:
        operator: sql
        keys: [server]
        units: {requests: "1", tokens: tok}
        query: >-
          select s.server, count(*) as requests, sum(r.output_tokens) as tokens
          from "load.requests" r join "load.request_servers" s on s.request_id = r.request_id
          where r.phase = 'measured' and not r.superseded group by 1 order by 1
  report: {kind: report, needs: [machine, server, load, checks, figures]}
"#;

#[test]
fn replicas_without_a_balancer_get_requests_in_turn_and_their_counters_account_for_all_rows() {
    let project = project(IN_TURN);
    project.run(["run", "experiments/group.yaml"]).ok();
    let members = ask(
        &project,
        r#"select member, loaded from "load.members" order by member"#,
    );
    assert_eq!(
        members,
        json!([{"member": "replica-0", "loaded": true}, {"member": "replica-1", "loaded": true}])
    );
    let rows = ask(
        &project,
        r#"select s.server, r.phase, count(*) as n, sum(r.output_tokens) as tokens
           from "load.requests" r join "load.request_servers" s on s.request_id = r.request_id
           where r.status = 'ok' group by 1, 2 order by 1, 2"#,
    );
    let row = |server: &str, phase: &str, n: u32| json!({"server": server, "phase": phase, "n": n, "tokens": 4 * n});
    assert_eq!(
        rows,
        json!([
            row("replica-0", "measured", 6),
            row("replica-0", "warmup", 1),
            row("replica-1", "measured", 6),
            row("replica-1", "warmup", 1),
        ])
    );
    // The tokens that each server reports match its rows.
    let counted = ask(
        &project,
        r#"select substr(labels, 1, 18) as member, max(value) - min(value) as rose
           from "load.server_metrics" where name = 'llamacpp:tokens_predicted_total' group by 1 order by 1"#,
    );
    assert_eq!(
        counted,
        json!([{"member": "member=\"replica-0\"", "rose": 28.0}, {"member": "member=\"replica-1\"", "rose": 28.0}])
    );
    let gates = ask(
        &project,
        "select gate, outcome from gates where outcome <> 'pass'",
    );
    assert_eq!(gates, json!([]), "{gates}");
    let by_server = ask(&project, "select server, requests, tokens from by_server");
    assert_eq!(
        by_server,
        json!([
            {"server": "replica-0", "requests": 6, "tokens": 24},
            {"server": "replica-1", "requests": 6, "tokens": 24},
        ])
    );
    let report =
        fs::read_to_string(project.path().join("reports/turns/report.md")).expect("a report");
    assert!(report.contains("2 × llama.cpp"), "{report}");
}

#[test]
fn mistakes_in_a_group_are_reported_with_their_places_before_anything_starts() {
    for (from, to, expected) in [
        ("load: router", "load: ruoter", "unknown role `ruoter`"),
        ("load: router\n", "\n", "the role to load is missing"),
        (
            "gpus: [\"\", \"\"]",
            "gpus: [\"0\"]",
            "has 2 members, but `gpus` has 1 texts",
        ),
        (
            "peers: {workers: replica}",
            "peers: {workers: router}",
            "the `peers` of roles form a circle",
        ),
    ] {
        let project = project(&STUDY.replace(from, to));
        let outcome = project.run(["plan", "experiments/group.yaml"]);
        assert_eq!(outcome.code, Some(2), "{expected}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains(expected),
            "{expected}: {}",
            outcome.stderr
        );
        assert!(
            outcome.stderr.contains("experiments/group.yaml:"),
            "{}",
            outcome.stderr
        );
    }
    for (from, to, expected) in [
        (
            "provision: front",
            "provision: machin",
            "runs in `machin`, which the stage does not need",
        ),
        (
            ", peers: {workers: replica}",
            "",
            "needs the other servers as `others` or `workers`",
        ),
        (
            "peers: {workers: replica}",
            "peers: {others: replica}",
            "needs the other servers as `workers`",
        ),
        (
            "each: [\"{url}\"]}\n    log:",
            "each: [\"{url}\", \"{side-port}\"]}\n    log:",
            "the servers of `replica` listen on one only",
        ),
        (
            "peers: {workers: replica}",
            "peers: {worker: replica}",
            "which Round robin does not take",
        ),
    ] {
        let project = project(&STUDY.replace(from, to));
        let outcome = project.run(["run", "experiments/group.yaml"]);
        assert_ne!(outcome.code, Some(0), "{expected}");
        let all = outcome.stdout + &outcome.stderr;
        assert!(all.contains(expected), "{expected}: {all}");
    }
}

/// Writes the number of servers that it was given.
const COUNT: &str = r#"
import sys
with open(sys.argv[2] + "/given.csv", "w") as file:
    file.write("servers\n%d\n" % len(set(sys.argv[1].split(","))))
"#;

#[test]
fn a_program_gets_every_server_that_a_load_would_go_to_and_never_one_of_several() {
    let text = STUDY
        .split("  front:")
        .next()
        .expect("the part before the stages of the balancer");
    let program = |placeholder: &str| {
        format!(
            "{text}  server:\n    kind: serve\n    needs: [machine]\n    roles:\n      replica: \
             {{count: 2, settings: {{parallel: 1, context: 512, threads: 1}}, gpus: [\"\", \"\"]}}\n  \
             count:\n    kind: run\n    needs: [server]\n    program: {{script: count.py}}\n    \
             arguments: [\"{{{placeholder}}}\", \"{{out}}\"]\n    tables: {{given: {{file: given.csv, \
             columns: {{servers: {{type: integer}}}}}}}}\n"
        )
    };
    let project = project(&program("url"));
    fs::write(project.path().join("experiments/count.py"), COUNT).expect("a file");
    let message = project.run(["plan", "experiments/group.yaml"]).stderr;
    let said = "the stage has 2 servers, and `{url}` is the address of one";
    assert!(message.contains(said), "{message}");
    let study = project.path().join("experiments/group.yaml");
    fs::write(study, program("urls")).expect("a file");
    project
        .run(["run", "experiments/group.yaml", "--trust"])
        .ok();
    let given = ask(&project, r#"select servers from "count.given""#);
    assert_eq!(given, json!([{"servers": 2}]));
}

#[test]
fn a_setting_of_a_wrong_definition_is_not_a_second_mistake() {
    let wrong = STUDY
        .replace(
            "    api: openai-completions\n",
            "    api: openai-completions\n    settings: {policy: {type: text, flags: [--policy, \"{}\"]}}\n    ready: {timeout: 3}\n",
        )
        .replace("peers: {workers: replica}}", "peers: {workers: replica}, settings: {policy: fair}}");
    let project = project(&wrong);
    let outcome = project.run(["plan", "experiments/group.yaml"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("`timeout`"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("policy"), "{}", outcome.stderr);
}
