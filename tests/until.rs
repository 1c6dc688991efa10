//! A study that continues block by block until its precision is reached.

use std::fs;

use crate::support::Project;

const STUDY: &str = r#"experiment: sequential
title: How many blocks it takes
question: Is one simulated server faster than the other?
seed: 7
design:
  blocks: 3
  until: {relative-half-width: 6 %, of: output_throughput, at-most: 12 blocks}
axes:
  configuration:
    fast: {step: 10 ms}
    slow: {step: 14 ms}
workloads:
  short:
    description: Prompts of 8 random words, answers of 8 tokens.
    prompts: {words: {length: 8}}
    output: {tokens: 8}
stages:
  ladder:
    kind: load
    over: [configuration]
    workload: short
    arrival: {closed-loop: {clients: 1}}
    requests: 8
    simulate:
      server:
        slots: 1
        prefill: {fixed: 5 ms}
        decode: {fixed: "${configuration.step}"}
        noise: {launch: 0.02}
  checks:
    kind: verify
    needs: [ladder]
    gates:
      - {gate: census}
      - {gate: expected-rows}
  results:
    kind: analyze
    needs: [ladder, checks]
    tables:
      cells: {operator: cell-summary}
      comparison:
        operator: paired-comparison
        from: cells
        pair: {axis: configuration, a: fast, b: slow}
        columns: [output_throughput]
"#;

fn project() -> Project {
    let project = Project::new();
    fs::write(project.path().join("experiments/until.yaml"), STUDY).expect("it can be written");
    project
}

#[test]
fn a_study_ends_when_its_figure_is_known_and_its_verdict_holds_at_every_look() {
    let project = project();
    let file = "experiments/until.yaml";
    let planned = project.run(["plan", file]).ok().stdout;
    assert!(
        planned.contains(
            "3 blocks or more: no further one once `output_throughput` of every launch is known to ± 6.0 %"
        ),
        "{planned}"
    );
    project.run(["run", file, "--quiet"]).ok();
    let rows = |query: &str| project.run(["sql", file, query, "--json"]).ok().json();
    let cells = rows("select count(*) as n, max(block) as last from cells");
    let last = cells["rows"][0]["last"].as_u64().unwrap();
    assert!(last > 3 && last < 12, "{cells}");
    assert_eq!(cells["rows"][0]["n"], 2 * last);
    let verdict = rows("select verdict, verdict_reason, ci_method, missing from comparison");
    let verdict = &verdict["rows"][0];
    assert_eq!(verdict["verdict"], "different", "{verdict}");
    assert_eq!(
        verdict["verdict_reason"],
        "assumes normality, and holds at every look"
    );
    let method = verdict["ci_method"].as_str().unwrap();
    assert!(method.ends_with(", holds at every look"), "{method}");
    // Cells that were not needed are not missing.
    assert!(verdict["missing"].is_null(), "{verdict}");
    let lock = fs::read_to_string(project.path().join("experiments/until.lock")).unwrap();
    let reason = format!(
        "not needed: after {last} blocks `output_throughput` of every launch is known to ±"
    );
    assert!(lock.contains(&reason), "{lock}");
    // A decision is final.
    let again = project.run(["plan", file, "--json"]).ok().json();
    assert_eq!(again["total"]["run"], 0, "{}", again["total"]);
    assert_eq!(again["total"]["excluded"], 2 * (12 - last));
}

#[test]
fn a_test_that_holds_only_once_is_reported_before_anything_is_measured() {
    let project = project();
    project.edit(
        "experiments/until.yaml",
        "columns: [output_throughput]",
        "columns: [output_throughput]\n        test: wilcoxon",
    );
    let outcome = project.run(["run", "experiments/until.yaml", "--quiet"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    let message =
        "the test `wilcoxon` is not valid for a study that looks at its data after each block";
    assert!(outcome.stderr.contains(message), "{}", outcome.stderr);
}

#[test]
fn a_test_that_does_not_hold_at_every_look_is_a_mistake_with_its_place() {
    for (table, at) in [
        (
            "pair: {axis: configuration, a: fast, b: slow}\n        test: wilcoxon",
            "test: wilcoxon",
        ),
        (
            "pair: {axis: configuration, a: fast, b: slow}\n        test: sign",
            "test: sign",
        ),
    ] {
        let project = Project::new();
        let study = STUDY.replace("pair: {axis: configuration, a: fast, b: slow}", table);
        fs::write(project.path().join("experiments/until.yaml"), study).expect("it can be written");
        let outcome = project.run(["plan", "experiments/until.yaml"]);
        assert_eq!(outcome.code, Some(2), "{}", outcome.stdout);
        let message = outcome.stderr;
        assert!(
            message.contains("is not valid for a study that looks at its data after each block"),
            "{message}"
        );
        assert!(
            message.contains(at) && message.contains("--> experiments/until.yaml:"),
            "{message}"
        );
        assert!(
            message.contains("hint: use `paired-comparison` with its test `paired-t`"),
            "{message}"
        );
    }
}
