//! Groups whose members run on another host, simulated by a real OpenSSH server on the loopback address.

use std::fs;

use serde_json::{Value, json};

use crate::ssh::{Sshd, await_silence, study};
use crate::support::Project;

/// A balancer that writes for each worker whether it reaches the engine itself, or only the forwarding of its port.
const STUDY: &str = r#"
experiment: elsewhere
question: Do members on one host reach each other?
seed: 5
engines:
  balancer:
    title: Round robin
    version: "1"
    requires: {programs: [{name: python3, debian: python3}]}
    launch:
      program:
        python: |
          import asyncio, glob, itertools, sys
          from urllib.parse import urlsplit
          workers = [urlsplit(url) for url in sys.argv[2:]]
          def serves(path, port):
              try:
                  with open(path, "rb") as file:
                      return str(port).encode() in file.read().split(b"\0")
              except OSError:
                  return False
          def how(worker):
              direct = any(serves(path, worker.port) for path in glob.glob("/proc/[0-9]*/cmdline"))
              return "itself" if direct else "forwarded"
          reached = {worker: how(worker) for worker in workers}
          turns = itertools.cycle(workers)
          async def pipe(reader, writer):
              try:
                  while data := await reader.read(65536):
                      writer.write(data)
                      await writer.drain()
              finally:
                  writer.close()
          async def serve(reader, writer):
              worker = next(turns)
              print("worker", reached[worker], flush=True)
              up, down = await asyncio.open_connection(worker.hostname, worker.port)
              await asyncio.gather(pipe(reader, down), pipe(up, writer), return_exceptions=True)
          async def main():
              server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]))
              await server.serve_forever()
          asyncio.run(main())
      arguments: ["{port}"]
      peers: {workers: {each: ["{url}"]}}
    log: {events: {worker: {line: '^worker (?<how>\S+)$'}}}
    api: openai-completions
workloads:
  short: {prompts: {words: {length: 6}}, output: {tokens: 4, mode: exact}}
stages:
  machine: {kind: provision, engine: llama-cpp, model: smollm2-135m-instruct, PLACE_OF_REPLICAS}
  front: {kind: provision, engine: balancer, model: smollm2-135m-instruct, PLACE_OF_ROUTER}
  server:
    kind: serve
    needs: [machine, front]
    roles:
      replica: {provision: machine, count: 2, settings: {parallel: 2, context: 512, threads: 1}}
      router: {provision: front, peers: {workers: replica}}
    load: router
  load:
    kind: load
    needs: [server]
    workload: short
    arrival: {closed-loop: {clients: 2}}
    requests: 8
    telemetry: {interval: 50 ms}
  checks:
    kind: verify
    needs: [server, load]
    gates: [{gate: row-status}, {gate: engine-identity}, {gate: token-accounting}]
"#;

/// Writes the study over that of a project with an engine on the host.
fn project(sshd: &Sshd, replicas_there: bool, router_there: bool) -> Project {
    let project = study(sshd, 1);
    let folder = sshd.there().display().to_string();
    let place = |there: bool| match there {
        true => format!("place: {{ssh: {{host: box, folder: {folder}, config: ssh_config}}}}"),
        false => "labels: {}".to_owned(),
    };
    let text = STUDY
        .replace("PLACE_OF_REPLICAS", &place(replicas_there))
        .replace("PLACE_OF_ROUTER", &place(router_there))
        .replace(", labels: {}", "");
    fs::write(project.path().join("experiments/elsewhere.yaml"), text).expect("a file");
    project
}

fn ask(project: &Project, query: &str) -> Value {
    let answer = project
        .run(["sql", "experiments/elsewhere.yaml", query, "--json"])
        .ok()
        .json();
    answer.get("rows").unwrap_or(&answer).clone()
}

const RUN: [&str; 3] = ["run", "experiments/elsewhere.yaml", "--no-dry-run"];

#[test]
fn a_router_reaches_servers_on_its_own_host_itself_and_those_of_other_hosts_from_this_machine() {
    for (router_there, how) in [(true, "itself"), (false, "forwarded")] {
        let Some(sshd) = Sshd::start() else { return };
        let project = project(&sshd, true, router_there);
        project.run(RUN).ok();
        let workers = ask(
            &project,
            r#"select distinct text from "load.engine_events" where event = 'worker'"#,
        );
        assert_eq!(workers, json!([{"text": how}]));
        let answered = ask(
            &project,
            r#"select status, count(*) as n from "load.requests" where not superseded group by 1"#,
        );
        assert_eq!(answered, json!([{"status": "ok", "n": 8}]));
        await_silence(&sshd.there());
    }
}

#[test]
fn a_router_that_cannot_reach_its_servers_is_reported_before_anything_starts() {
    let Some(sshd) = Sshd::start() else { return };
    let project = project(&sshd, false, true);
    let outcome = project.run(RUN);
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    let message =
        "the role `router` runs on `box`, and does not reach `replica` on this machine from there";
    assert!(outcome.stderr.contains(message), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("or start `router` on this machine"),
        "{}",
        outcome.stderr
    );
}
