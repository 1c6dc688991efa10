//! Names that contain digits: a study may use any names for its stages, axes and labels, and its default report passes
//! the checks.

use std::fs;

use crate::support::Project;

const STUDY: &str = r#"experiment: study-3
title: Two slots of 2, 7 ways
question: Is 2 better than 1?
seed: 164
design: {blocks: 5, noise: 3 %}
axes:
  tp-2: [1, 2]
  p95: [0.5, 1.5]
  clients: [2, 4]
workloads:
  w16:
    description: Prompts of 8 random words, answers of 8 tokens.
    prompts: {words: {length: 8}}
    output: {tokens: 8}
stages:
  load-2:
    kind: load
    description: The 2nd load.
    over: [tp-2, p95, clients]
    workload: w16
    arrival: {closed-loop: {clients: "${clients}"}}
    requests-per-client: 4
    simulate:
      server: {slots: "${tp-2}", prefill: {fixed: 5 ms}, decode: {fixed: 8 ms}, noise: {launch: 0.02}}
  checks-1:
    kind: verify
    needs: [load-2]
    gates:
      - {gate: census}
      - {gate: same-prompts, across: tp-2}
  results-1:
    kind: analyze
    needs: [load-2, checks-1]
    tables:
      cells_1: {operator: cell-summary}
      means_2: {operator: aggregate, from: cells_1, over: [block], columns: [output_throughput, e2e_latency_ms_p50]}
      vs_1: {operator: paired-comparison, from: cells_1, by: [p95], pair: {axis: tp-2, a: 2, b: 1}, columns: [output_throughput]}
      rank_1: {operator: ranking, from: cells_1, among: tp-2, column: output_throughput, better: higher}
  report-1:
    kind: report
    needs: [load-2, checks-1, results-1]
"#;

#[test]
fn names_and_labels_with_digits_need_no_literals_in_a_default_report() {
    let project = Project::new();
    fs::write(project.path().join("experiments/digits.yaml"), STUDY).expect("it can be written");
    project.run(["run", "experiments/digits.yaml"]).ok();
    let path = "reports/study-3/report.md";
    let report = fs::read_to_string(project.path().join(path)).expect("a report");
    // The sentence that names the winner by its label, which is a number.
    assert!(
        report.contains("*different*, higher and so better on *2*"),
        "{report}"
    );
    project.run(["audit", path]).ok();
}
