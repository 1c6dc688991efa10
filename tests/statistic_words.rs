//! Words of statistics where operators, gates, kinds of figures and numbers belong, and slips in the names of sections. Each
//! mistake gets one message, with a remedy that works.

use std::fs;

use crate::mistakes::{hinted, planned, written};

const CELLS: &str = "cells: {operator: cell-summary}";
const MEANS: &str = "{operator: aggregate, from: cells, over: [block], columns: [output_throughput, ttft_ms_p50, tpot_ms_p50]}";
const CHECKS: &str = "checks: {kind: verify, needs: [server, ladder]}";
const REPORT: &str = "report: {kind: report, needs: [machine, server, ladder, checks, results]}";
const SERVER: &str = "server: {kind: serve, needs: [machine]}";

/// Plans each changed study. Its only message must have the hint.
fn each(cases: &[(&str, &str, &str)]) {
    let project = written();
    for (from, to, hint) in cases {
        let message = hinted(&project, from, to, &format!("hint: {hint}"));
        assert_eq!(message.matches("error: ").count(), 1, "{to}: {message}");
    }
}

#[test]
fn a_statistic_in_place_of_an_operator_gets_the_operator_and_its_quantile() {
    for (word, hint) in [
        ("p99", "write `distribution`, with `quantiles: [0.99]`, "),
        ("p99.9", "write `distribution`, with `quantiles: [0.999]`, "),
        ("P50", "write `distribution`, with `quantiles: [0.5]`, "),
        ("95th", "write `distribution`, with `quantiles: [0.95]`, "),
        ("median", "write `aggregate`, with `quantiles: [0.5]`, "),
        (
            "percentile",
            "write `distribution`, with its `quantiles` as ",
        ),
        ("mean", "write `aggregate`: its table has n, mean, std, "),
        ("max", "write `aggregate`: its table has n, mean, std, "),
        ("count", "write `aggregate`: its table has n, mean, std, "),
        ("iqr", "write `aggregate`, with `quantiles: [0.25, 0.75]`"),
        ("ci", "write `aggregate`: its table has the interval "),
        ("sum", "write `sql`, with a `query` "),
        ("p99-ttft", "write `cell-summary`: its table has a column "),
    ] {
        let table = format!("cells: {{operator: {word}}}\n      more: {{operator: cell-summary}}");
        let message = planned(&written(), CELLS, &table);
        assert!(
            message.contains(&format!("hint: {hint}")),
            "{word}: {message}"
        );
    }
    // What the hints say is accepted.
    let aggregate =
        |rest: &str| format!("{{operator: aggregate, from: cells, over: [block], {rest}}}");
    let project = written();
    let study = fs::read_to_string(project.path().join("mine.yaml")).expect("it is written");
    for table in [
        aggregate("columns: [ttft_ms_p50], quantiles: [0.25, 0.75]"),
        "{operator: distribution, quantiles: [0.999]}".to_owned(),
    ] {
        let own = study.replace(MEANS, &table);
        fs::write(project.path().join("own.yaml"), own).expect("a file");
        assert_eq!(project.run(["plan", "own.yaml"]).code, Some(0), "{table}");
    }
}

#[test]
fn quantiles_under_other_names_get_probabilities() {
    let aggregate = |rest: &str| {
        format!(
            "{{operator: aggregate, from: cells, over: [block], columns: [ttft_ms_p50], {rest}}}"
        )
    };
    for (rest, hint) in [
        ("quantiles: [p99]", "write `0.99`\n"),
        ("quantiles: [99%]", "write `0.99`\n"),
        ("quantiles: [0.5, p99_9]", "write `0.999`\n"),
        ("quantiles: [median]", "write `0.5`\n"),
        ("percentiles: [99]", "write `quantiles`, as probabilities: "),
        (
            "statistics: [mean]",
            "it is not needed: each statistic has ",
        ),
        ("agg: mean", "it is not needed: each statistic has "),
    ] {
        each(&[(MEANS, &aggregate(rest), hint)]);
    }
}

#[test]
fn a_statistic_in_place_of_a_gate_or_a_kind_of_figure_gets_what_it_is() {
    let gate =
        |word: &str| CHECKS.replace("ladder]", &format!("ladder], gates: [{{gate: {word}}}]"));
    for word in ["p99", "median", "mean", "max", "percentile"] {
        each(&[(CHECKS, &gate(word), "it is not a gate but a figure: ")]);
    }
    let figure = |word: &str| {
        let figures = format!(
            "figures: {{f: {{kind: {word}, table: results.cells, x: clients, y: ttft_ms_p50, title: T, caption: C}}}}"
        );
        REPORT.replace("results]", &format!("results], {figures}"))
    };
    for word in ["p99", "median", "mean", "latency"] {
        each(&[(REPORT, &figure(word), "it is not a kind but a column: ")]);
    }
    each(&[
        (REPORT, &figure("table"), "it is not a figure but a table: "),
        (REPORT, &figure("gantt"), "write `timeline`\n"),
    ]);
}

#[test]
fn a_section_with_a_slip_is_one_mistake() {
    each(&[
        ("axes:\n", "axis:\n", "did you mean `axes`?\n"),
        ("axes:\n", "axess:\n", "did you mean `axes`?\n"),
        ("stages:\n", "stage:\n", "did you mean `stages`?\n"),
        (
            "axes:\n  clients: [1, 2, 4]",
            "axes: [clients]",
            "name each axis with its labels: ",
        ),
        ("kind: load", "kind: Load", "write `load`\n"),
        ("kind: verify", "kind: VERIFY", "write `verify`\n"),
        (
            SERVER,
            "server: {kind: serve, needs: [machine], settings: [context: 4096, threads: 2]}",
            "write it as one mapping: `{context: 4096, threads: 2}`\n",
        ),
        (
            "workload: short-decode",
            "workload: prompts.jsonl",
            "for the prompts of a file, write `workload: {prompts: {dataset: {file: prompts.jsonl}}, output: {tokens: 128}}`\n",
        ),
        (
            "model: smollm2-135m-instruct",
            "model: Qwen/Qwen3-0.6B",
            "define its file under `models:`, for example ",
        ),
    ]);
}
