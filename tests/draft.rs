//! Draft models, which are a second pinned model that drafts tokens for the first; and weights that a hub gives only to
//! certain users.

use std::fs;

use serde_json::{Value, json};

use crate::skipped::skipped;
use crate::support::Project;

/// The smallest available weights draft for themselves, so every token they draft is accepted.
const STUDY: &str = r#"
experiment: drafts
question: Does the engine get its draft model?
seed: 3
engines:
  drafting:
    extends: llama-cpp
    launch:
      draft-arguments: [--spec-type, draft-simple, --spec-draft-model, "{draft}", --spec-draft-device, none]
workloads:
  short: {prompts: {words: {length: 6}}, output: {tokens: 12, mode: exact}, sampling: {temperature: 0}}
stages:
  machine: {kind: provision, engine: drafting, model: smollm2-135m-instruct, draft: smollm2-135m-instruct}
  server: {kind: serve, needs: [machine], settings: {parallel: 1, context: 512, threads: 1}}
  load:
    kind: load
    needs: [server]
    workload: short
    arrival: {closed-loop: {clients: 1}}
    requests: 2
    telemetry: {interval: 50 ms}
  checks: {kind: verify, needs: [machine, server, load], gates: [{gate: row-status}]}
  report: {kind: report, needs: [machine, server, load, checks]}
"#;

const FILE: &str = "experiments/drafts.yaml";

fn project(text: &str) -> Project {
    let project = Project::finished();
    fs::write(project.path().join(FILE), text).expect("a file");
    project
}

fn ask(project: &Project, query: &str) -> Value {
    let answer = project.run(["sql", FILE, query, "--json"]).ok().json();
    answer.get("rows").unwrap_or(&answer).clone()
}

#[test]
fn a_draft_model_is_pinned_passed_on_and_reported() {
    let project = project(STUDY);
    let ran = project.run(["run", FILE]);
    if ran.stderr.contains("`drafting`: the processor lacks ") {
        skipped(
            "llama-cpp",
            "the processor lacks what the build of `llama-cpp` needs",
        );
        return;
    }
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    let drafted = ask(
        &project,
        r#"select max(value) > min(value) as rose from "load.server_metrics"
           where name = 'llamacpp:spec_decode_num_accepted_tokens_total'"#,
    );
    assert_eq!(drafted, json!([{"rose": 1}]));
    let commands = ask(&project, "select command from commands");
    let command = commands[0]["command"].as_str().expect("a command");
    assert!(command.contains("--spec-draft-model {draft}"), "{command}");
    assert!(
        command.starts_with("GOMP_SPINCOUNT=0 "),
        "variables are told: {command}"
    );

    // Without the draft model, the same engine counts as a different one.
    let alone = STUDY.replace(", draft: smollm2-135m-instruct", "");
    fs::write(project.path().join(FILE), alone).expect("a file");
    let planned = project.run(["plan", FILE]).ok();
    assert!(planned.stdout.contains("draft"), "{}", planned.stdout);
}

#[test]
fn an_engine_that_takes_no_draft_model_is_reported_while_planning() {
    let project = project(&STUDY.replace("engine: drafting", "engine: llama-cpp"));
    let outcome = project.run(["plan", FILE]);
    let said = "the definition of the engine `llama-cpp` does not say how to pass a draft model";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("draft-arguments"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_missing_token_for_gated_weights_is_reported_while_planning() {
    let text = STUDY.replace(
        "workloads:",
        "models:\n  closed: {title: Closed, weights: {named: {id: org/closed, revision: abc, gated: true}}}\nworkloads:",
    );
    let text = text.replace(
        "model: smollm2-135m-instruct, draft: smollm2-135m-instruct",
        "model: closed",
    );
    let project = project(&text);
    let home = tempfile::tempdir().expect("a folder");
    let plan = |set: &[(&str, &str)]| {
        let mut command = project.command(["plan", FILE]);
        for name in [
            "HF_TOKEN",
            "HUGGING_FACE_HUB_TOKEN",
            "HF_HOME",
            "HF_HUB_CACHE",
            "HF_TOKEN_PATH",
            "XDG_CACHE_HOME",
        ] {
            command.env_remove(name);
        }
        command.env("HOME", home.path()).envs(set.iter().copied());
        let said = command.output().expect("it runs");
        format!(
            "{}{}",
            String::from_utf8_lossy(&said.stdout),
            String::from_utf8_lossy(&said.stderr)
        )
    };
    let message = plan(&[]);
    let said = "the weights `org/closed` are gated on the hub, and there is no token";
    assert!(message.contains(said), "{message}");
    let message = plan(&[("HF_TOKEN", "hf_secret")]);
    assert!(
        message.contains("the engine does not inherit `HF_TOKEN`"),
        "{message}"
    );
    assert!(!message.contains("hf_secret"), "{message}");
    fs::create_dir_all(
        home.path()
            .join(".cache/huggingface/hub/models--org--closed/snapshots/abc"),
    )
    .expect("a folder");
    let message = plan(&[]);
    assert!(
        !message.contains("org/closed` to certain users"),
        "{message}"
    );
}
