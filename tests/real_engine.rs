//! The load generator on a real engine: every kind of arrival and prompt, prompts that do not fit, and an engine that
//! is killed while it answers.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Project, processes_with};

const CROSS_CHECK: &str = r#"
experiment: cross-check
title: The load generator on a real engine
question: Does every kind of load leave the rows it should?
seed: 164
axes:
  way:
    one: {arrival: {closed-loop: {clients: 1}}, workload: short}
    two: {arrival: {closed-loop: {clients: 2}}, workload: short}
    four: {arrival: {closed-loop: {clients: 4}}, workload: short}
    eight: {arrival: {closed-loop: {clients: 8}}, workload: short}
    poisson: {arrival: {poisson: {rate: 20}}, workload: short}
    burst: {arrival: burst, workload: short}
    prefix: {arrival: {closed-loop: {clients: 4}}, workload: prefix}
    structured: {arrival: {closed-loop: {clients: 2}}, workload: structured}
    too-long: {arrival: {closed-loop: {clients: 2}}, workload: too-long}
workloads:
  short:
    prompts: {words: {length: 8}}
    output: {tokens: 4, mode: exact}
  prefix:
    prompts: {shared-prefix: {prefix: 40, suffix: 8}}
    output: {tokens: 4, mode: exact}
  structured:
    prompts: {words: {length: 8}}
    output: {tokens: 60}
    structured:
      schema: {type: object, properties: {a: {type: boolean}}, required: [a], additionalProperties: false}
  too-long:
    prompts:
      mixture:
        - {name: fits, weight: 1, prompts: {words: {length: 8}}}
        - {name: too-long, weight: 1, prompts: {words: {length: 700}}}
    output: {tokens: 4, mode: exact}
stages:
  machine: {kind: provision, engine: llama-cpp, model: smollm2-135m-instruct}
  server:
    kind: serve
    needs: [machine]
    # 512 tokens a slot.
    settings: {parallel: 4, context: 2048, threads: 1}
  load:
    kind: load
    needs: [server]
    over: [way]
    # Its completions leave `response_format` aside, its chat keeps to it.
    api: openai-chat
    workload: ${way.workload}
    arrival: ${way.arrival}
    requests: 8
  checks:
    kind: verify
    needs: [server, load]
    gates:
      - {gate: census}
      - {gate: expected-rows}
      - {gate: row-status}
"#;

/// Writes an experiment to a project whose engine is already unpacked.
fn project(name: &str, text: &str) -> (Project, String) {
    let project = Project::finished();
    let file = format!("experiments/{name}.yaml");
    fs::write(project.path().join(&file), text).expect("the experiment can be written");
    (project, file)
}

/// Runs an SQL query; returns the rows as JSON.
fn ask(project: &Project, file: &str, query: &str) -> Vec<Value> {
    let answer = project.run(["sql", file, query, "--json"]).ok().json();
    answer
        .as_array()
        .or_else(|| answer["rows"].as_array())
        .expect("rows")
        .clone()
}

#[test]
fn every_kind_of_load_leaves_its_rows_and_prompts_that_do_not_fit_fail_the_gate() {
    let (project, file) = project("cross-check", CROSS_CHECK);
    let outcome = project.run(["run", &file, "--quiet"]);
    assert_eq!(
        outcome.code,
        Some(1),
        "a gate fails:\n{}\n{}",
        outcome.stdout,
        outcome.stderr
    );
    let refused = ask(
        &project,
        &file,
        r#"select way, http_status, count(*) as n from "load.requests" where status <> 'ok' and not superseded group by way, http_status"#,
    );
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(
        (&refused[0]["way"], &refused[0]["http_status"]),
        (&"too-long".into(), &400.into())
    );
    let n = refused[0]["n"].as_i64().expect("a count");
    assert!(0 < n && n < 8, "{n} of 8 prompts did not fit");
    let wrong = ask(
        &project,
        &file,
        r#"select way, count(*) as n from "load.requests" where status = 'ok' and (
               tokens_source <> 'usage' or first_token_ns is null or done_ns < last_token_ns
               or server_prompt_ms > (first_token_ns - sent_ns) / 1e6
               or (way <> 'structured' and output_tokens <> requested_output_tokens)
               or (way = 'structured' and not schema_valid)) group by way"#,
    );
    assert_eq!(wrong, Vec::<Value>::new());
    let cells = ask(
        &project,
        &file,
        r#"select count(*) as n from "load.requests" where not superseded"#,
    );
    assert_eq!(cells[0]["n"], 72);
    // Each cell has its part of the server's log, with the matches of the engine's patterns.
    let answer = ask(
        &project,
        &file,
        r#"select count(distinct way) as n from "load.engine_events""#,
    );
    assert_eq!(answer[0]["n"], 9);
    let failed = ask(
        &project,
        &file,
        "select distinct gate from gates where outcome = 'fail' and way = 'too-long'",
    );
    assert!(
        failed.iter().any(|row| row["gate"] == "row-status"),
        "{failed:?}"
    );
}

const KILLED: &str = r#"
experiment: killed
title: An engine that dies
question: Is the next cell unharmed?
seed: 164
axes:
  # Long enough that the first is still running when its first answer was seen.
  rep: [1, 2, 3]
workloads:
  short:
    prompts: {words: {length: 8}}
    output: {tokens: 8, mode: exact}
stages:
  machine: {kind: provision, engine: llama-cpp, model: smollm2-135m-instruct}
  server:
    kind: serve
    needs: [machine]
    settings: {parallel: 4, context: 2048, threads: 1}
  load:
    kind: load
    needs: [server]
    over: [rep]
    workload: short
    arrival: {closed-loop: {clients: 4}}
    requests: 200
"#;

#[test]
fn an_engine_killed_under_load_leaves_its_rows_and_the_next_cell_unharmed() {
    let (project, file) = project("killed", KILLED);
    let store = project
        .path()
        .join(".benchtrail")
        .to_string_lossy()
        .into_owned();
    let events = project.path().join("killed.jsonl");
    let arguments = [
        "run",
        &file,
        "--keep-going",
        "--no-dry-run",
        "--events",
        events.to_str().expect("plain"),
    ];
    let mut child = project
        .command(arguments)
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let limit = Instant::now() + Duration::from_secs(300);
    // A request of a load was answered; progress is also reported before that.
    let answered = |line: &str| {
        serde_json::from_str::<Value>(line).is_ok_and(|event| {
            event["event"] == "cell-progress"
                && event["cell"]
                    .as_str()
                    .is_some_and(|c| c.starts_with("load["))
                && event["done"].as_u64() > Some(0)
        })
    };
    while !fs::read_to_string(&events)
        .unwrap_or_default()
        .lines()
        .any(answered)
    {
        assert!(Instant::now() < limit, "no request was answered");
        assert!(
            child.try_wait().expect("the child can be asked").is_none(),
            "the run ended early"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut killed = 0;
    for entry in fs::read_dir("/proc").expect("/proc is there").flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<i32>().ok())
        else {
            continue;
        };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        if line.contains(&store) && line.contains("--model") {
            let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("SIGKILL");
            killed += 1;
        }
    }
    assert_eq!(killed, 1, "the engine is one process");
    let code = child.wait().expect("the child ends").code();
    assert_eq!(code, Some(1), "a cell failed");
    let status = project
        .run(["status", &file, "--cells", "--json"])
        .ok()
        .json();
    let cells = status["cells"].as_array().expect("cells");
    let with_status = |status: &str| -> Vec<&str> {
        let load = cells
            .iter()
            .filter(|c| c["stage"] == "load" && c["status"] == status);
        load.filter_map(|c| c["coordinates"].as_str()).collect()
    };
    let failed = with_status("failed");
    assert_eq!((failed.len(), with_status("ok").len()), (1, 2), "{status}");
    let reason = cells
        .iter()
        .find_map(|c| c["reason"].as_str())
        .unwrap_or_default();
    assert!(reason.contains("no longer accepts connections"), "{status}");
    // Earlier answers are kept as evidence.
    let rows = format!("load[{}].requests", failed[0]);
    let rows = project
        .run(["show", &file, &rows, "--columns", "status"])
        .ok()
        .stdout;
    assert!(rows.contains(" ok"), "{rows}");
    assert_eq!(
        processes_with(&store),
        Vec::<String>::new(),
        "an engine was left behind"
    );
}

const WRONG_WEIGHTS: &str = r#"
experiment: wrong-weights
title: Weights that are not a model
question: Does the reason name the cause?
seed: 14
models:
  text: {title: Text, weights: {local: {path: text.gguf, sha256: SHA256}}, parameters: 1, context: 512, format: gguf}
stages:
  machine: {kind: provision, engine: llama-cpp, model: text}
  server: {kind: serve, needs: [machine], settings: {context: 512}}
  load:
    kind: load
    needs: [server]
    workload: short
    arrival: {closed-loop: {clients: 1}}
    requests: 8
workloads:
  short:
    prompts: {words: {length: 8}}
    output: {tokens: 4}
"#;

#[test]
fn an_engine_that_cannot_read_its_weights_fails_with_the_cause_and_a_remedy() {
    let sha256 = "2396a697e4bb20e18ac8f116919898d03a941af9b2b6b597d24df74c44b1af50";
    let (project, file) = project("wrong-weights", &WRONG_WEIGHTS.replace("SHA256", sha256));
    fs::write(
        project.path().join("experiments/text.gguf"),
        "This is a text.\n",
    )
    .expect("it can be written");
    let outcome = project.run(["run", &file, "--quiet", "--no-dry-run"]);
    let shown = format!("{}\n{}", outcome.stdout, outcome.stderr);
    assert!(shown.contains("invalid magic characters"), "{shown}");
    assert!(shown.contains("must be a whole GGUF file"), "{shown}");
}
