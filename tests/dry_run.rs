//! The dry run: errors in an analysis or a report show before anything is measured, while errors that only synthetic
//! rows cause do not block it.

use std::fs;

use crate::support::{Project, assert_snapshot};

const QUICKSTART: &str = "experiments/quickstart.yaml";
const TEMPLATE: &str = "templates/quickstart.md";

/// Returns a project with an additional line at the end of its report.
fn with_line(line: &str) -> Project {
    let project = Project::new();
    let path = project.path().join(TEMPLATE);
    let text = fs::read_to_string(&path).expect("the template");
    fs::write(&path, format!("{text}\n{line}\n")).expect("the template can be written");
    project
}

/// Returns the findings of a dry run: whether each is certain, and its reason.
fn findings(project: &Project, experiment: &str) -> Vec<(bool, String)> {
    let plan = project
        .run(["plan", experiment, "--dry-run", "--json"])
        .json();
    let list = plan["dry_run"]["findings"]
        .as_array()
        .expect("a list of findings")
        .iter();
    list.map(|f| {
        (
            f["certain"] == true,
            f["reason"].as_str().expect("a reason").to_owned(),
        )
    })
    .collect()
}

#[test]
fn the_shipped_experiments_hold_on_made_up_rows_and_nothing_is_kept() {
    let project = Project::new();
    for experiment in [
        "quickstart",
        "prompt-cache",
        "open-loop",
        "sessions",
        "simulated",
        "instrument",
    ] {
        let file = format!("experiments/{experiment}.yaml");
        let plan = project.run(["plan", &file, "--dry-run"]).ok();
        let message = "of verification, analysis and report work with synthetic rows";
        assert!(
            plan.stdout.contains(message),
            "{experiment}: {}{}",
            plan.stdout,
            plan.stderr
        );
        assert!(
            !project
                .path()
                .join(format!("experiments/{experiment}.lock"))
                .exists()
        );
    }
    let objects = project.path().join(".benchtrail/objects");
    assert_eq!(
        fs::read_dir(objects).expect("the store").count(),
        0,
        "the dry run left objects"
    );
}

#[test]
fn a_number_without_a_trace_is_an_error_before_anything_is_measured() {
    let project = with_line("It is 3.14 times as fast.");
    let outcome = project.run(["run", QUICKSTART, "--smoke"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stdout);
    // What the report lists of this machine decides the number of its line.
    let (before, rest) = outcome.stderr.split_once("(report ").expect("a place");
    let (line, after) = rest.split_once(':').expect("a line and a column");
    assert!(line.parse::<u32>().is_ok(), "{line}");
    let message = format!("{before}(report LINE:{after}");
    assert_snapshot("errors/dry-run.txt", &message, &project);
    assert!(
        !project
            .path()
            .join("experiments/quickstart.smoke.lock")
            .exists()
    );
}

#[test]
fn a_name_that_no_table_has_is_an_error() {
    for line in [
        "{% set t = \"results.comparison\" %}{{ row(t, {\"metric\": \"output_throughput\"}).show(\"holm_q\") }}",
        "{% set t = \"results.ladder\" %}{{ row(t, {\"workload\": \"shortdecode\", \"concurrency\": 1}).show(\"n\") }}",
    ] {
        let project = with_line(line);
        let list = findings(&project, QUICKSTART);
        assert!(matches!(list.as_slice(), [(true, _)]), "{line}: {list:?}");
        assert_eq!(project.run(["plan", QUICKSTART, "--dry-run"]).code, Some(2));
    }
    // What the text of the template names is known without a dry run.
    for (line, message) in [
        (
            "{{ value(\"results.laddr\", none, \"n\") }}",
            "the stage `results` has no table `laddr`",
        ),
        (
            "{{ row(\"results.comparison\", {\"metric\": \"output_throughput\"}).show(\"holm_q\") }}",
            "the table `results.comparison` has no column `holm_q`",
        ),
        (
            "{{ row(\"results.ladder\", {\"workload\": \"shortdecode\", \"concurrency\": 1}).show(\"n\") }}",
            "`shortdecode` is not a label of the axis `workload`",
        ),
    ] {
        let outcome = with_line(line).run(["plan", QUICKSTART]);
        assert_eq!(outcome.code, Some(2), "{line}");
        assert!(outcome.stderr.contains(message), "{}", outcome.stderr);
    }
}

#[test]
fn a_lookup_that_fails_by_what_was_made_up_is_a_doubt() {
    let line = "{{ row(\"results.comparison\", {\"metric\": \"output_throughput\", \"higher\": \"batched\"})\
                .show(\"verdict\") }}";
    let project = with_line(line);
    let list = findings(&project, QUICKSTART);
    assert!(matches!(list.as_slice(), [(false, _)]), "{list:?}");
    project.run(["plan", QUICKSTART, "--dry-run"]).ok();
}

#[test]
fn an_analysis_that_cannot_be_computed_is_reported_with_its_place() {
    let project = Project::new();
    // Whether its rows have a key is unknown until the query runs.
    project.edit(
        "experiments/simulated.yaml",
        "      efficiency: {operator: parallel-efficiency",
        "      twice: {operator: sql, keys: [configuration], query: select configuration from means}\n      \
         efficiency: {operator: parallel-efficiency",
    );
    let outcome = project.run(["run", "experiments/simulated.yaml"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stdout);
    assert!(
        outcome.stderr.contains("experiments/simulated.yaml:"),
        "{}",
        outcome.stderr
    );
    assert!(
        outcome.stderr.contains("(stages.results.tables.twice)"),
        "{}",
        outcome.stderr
    );
    let all_the_same = project.run(["run", "experiments/simulated.yaml", "--no-dry-run"]);
    assert_eq!(all_the_same.code, Some(1), "{}", all_the_same.stderr);
    assert!(project.path().join("experiments/simulated.lock").exists());
}

#[test]
fn gates_that_made_up_rows_do_not_pass_are_no_errors() {
    let project = Project::new();
    project.edit(
        "experiments/simulated.yaml",
        "      - {gate: repeats}",
        "      - {gate: sql, name: never, query: \"select 0 as passed\"}",
    );
    let plan = project
        .run(["plan", "experiments/simulated.yaml", "--dry-run"])
        .ok();
    assert!(
        plan.stdout.contains("work with synthetic rows"),
        "{}",
        plan.stdout
    );
}

#[test]
fn figures_of_what_is_sampled_beside_a_load_hold_on_any_machine() {
    let project = Project::new();
    let path = project.path().join("experiments/sampled.yaml");
    let study = r#"
experiment: sampled
title: What is sampled beside a load
seed: 1
workloads:
  short: {prompts: {words: {length: 8}}, output: {tokens: 8}}
stages:
  machine: {kind: provision, engine: llama-cpp, model: smollm2-135m-instruct}
  server: {kind: serve, needs: [machine]}
  ladder:
    kind: load
    needs: [server]
    workload: short
    arrival: {closed-loop: {clients: 1}}
    requests: 4
  checks: {kind: verify, needs: [machine, server, ladder], gates: [{gate: census}, {gate: throttling}]}
  results:
    kind: analyze
    needs: [ladder, checks]
    tables:
      cells: {operator: cell-summary}
      joules: {operator: energy}
      beside: {operator: telemetry-summary}
  report:
    kind: report
    needs: [machine, server, ladder, checks, results]
    figures:
      watts: {kind: timeline, table: ladder.gpu_telemetry, x: at_ns, y: power_w, title: Power, caption: Over time.}
      busy: {kind: timeline, table: ladder.host_telemetry, x: at_ns, y: cpu_busy, title: Load, caption: Over time.}
      slots: {kind: timeline, table: ladder.slots, x: at_ns, y: decoded_tokens, title: Slots, caption: Over time.}
"#;
    fs::write(&path, study).expect("the study can be written");
    assert_eq!(findings(&project, "experiments/sampled.yaml"), []);
}
