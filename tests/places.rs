//! Cells whose labels need quotes, and cells with equal bytes: every number leads to its own cell.

use std::fs;

use crate::support::{Outcome, Project};

const STUDY: &str = r#"experiment: places
title: Labels that need quotes
question: Does every number lead to its own cell?
seed: 7
axes:
  model: [c, "(z)", "é", "1.0", "Llama 3"]
  server:
    wide: {slots: 64}
    narrow: {slots: 32}
workloads:
  short:
    description: Four words.
    prompts: {words: {length: 4}}
    output: {tokens: 4}
stages:
  ladder:
    kind: load
    over: [model, server]
    workload: short
    arrival: {closed-loop: {clients: 1}}
    requests: 2
    simulate: {server: {slots: "${server.slots}", prefill: {fixed: 1 ms}, decode: {fixed: 1 ms}}}
  checks:
    kind: verify
    needs: [ladder]
    gates: [{gate: census}, {gate: row-status}]
  results:
    kind: analyze
    needs: [ladder, checks]
    tables: {cells: {operator: cell-summary}}
  report: {kind: report, needs: [ladder, checks, results], template: places.md}
"#;

const TEMPLATE: &str = r#"# {{ title() }}

{{ count("checks.gates", {"cell": "model=c,server=wide"}) }} gates of one cell.
{{ count("ledger", {"stage": "ladder", "cell": ['model="(z)",server=wide', "model=c,server=wide"]}) }} cells.

{% for row in rows("results.cells") %}
{{ value("results.cells", row.only(), "output_throughput", "0.0") }} tokens in {{ row.show("model") }} {{ row.show("server") }}
{% endfor %}
"#;

fn finished() -> Project {
    let project = Project::new();
    fs::write(project.path().join("places.yaml"), STUDY).unwrap();
    fs::write(project.path().join("templates/places.md"), TEMPLATE).unwrap();
    project.run(["run", "places.yaml"]).ok();
    project
}

const REPORT: &str = "reports/places/report.md";

/// Returns line and column of the first number in the line with this ending.
fn place_of(project: &Project, ending: &str) -> String {
    let text = fs::read_to_string(project.path().join(REPORT)).unwrap();
    let line = text.lines().position(|line| line.ends_with(ending));
    let line = line.unwrap_or_else(|| panic!("no line ends in `{ending}`:\n{text}"));
    format!("{REPORT}:{}:1", line + 1)
}

fn select(project: &Project, cell: &str) -> Outcome {
    project.run(["plan", "places.yaml", "--only", cell, "--json"])
}

#[test]
fn an_untouched_report_passes_its_audit_whatever_its_labels_are() {
    let project = finished();
    let audit = project.run(["audit", REPORT]).ok().stdout;
    assert!(audit.contains("everything holds"), "{audit}");
    let counted = project
        .run(["why", &place_of(&project, "gates of one cell.")])
        .ok()
        .stdout;
    assert!(
        counted.contains("the number of rows of a table with cell=\"model=c,server=wide\""),
        "{counted}"
    );
}

#[test]
fn why_names_the_cell_of_a_number_among_cells_of_equal_bytes() {
    let project = finished();
    let digest = |cell: &str| {
        let list = project.run(["ls", "places.yaml", cell, "--json"]).ok();
        list.stdout
    };
    let artifact = |cell: &str| {
        let list = digest(cell);
        let at = list.find("b3:").expect("an artifact");
        list[at..at + 67].to_owned()
    };
    assert_eq!(
        artifact("ladder[model=c,server=wide].requests"),
        artifact("ladder[model=c,server=narrow].requests"),
        "the two cells no longer have equal bytes, so this test shows nothing"
    );
    for (ending, cell) in [
        ("in c wide", "ladder[model=c,server=wide]"),
        ("in c narrow", "ladder[model=c,server=narrow]"),
        (
            "in Llama 3 narrow",
            "ladder[model=\"Llama 3\",server=narrow]",
        ),
        ("in 1.0 wide", "ladder[model=\"1.0\",server=wide]"),
    ] {
        let answer = project
            .run(["why", &place_of(&project, ending), "--json"])
            .ok()
            .json();
        let cells = answer["cells"].as_array().expect("cells");
        let cells: Vec<&str> = cells.iter().filter_map(|c| c["cell"].as_str()).collect();
        assert_eq!(cells, [cell], "{ending}");
    }
}

#[test]
fn cells_are_chosen_by_labels_as_they_are_typed() {
    let project = finished();
    for cell in [
        "ladder[model=c]",
        "ladder[model=\"1.0\",server=wide]",
        "ladder[model=1.0]",
        "ladder[model=Llama 3]",
        "ladder[model=(z),server=wide|narrow]",
        "ladder[model=c\"]",
    ] {
        let outcome = select(&project, cell);
        let expected = if cell.ends_with("c\"]") {
            Some(2)
        } else {
            Some(0)
        };
        assert_eq!(outcome.code, expected, "{cell}: {}", outcome.stderr);
    }
    let refused = select(&project, "ladder[modle=c]");
    assert!(
        refused.stderr.contains("has no axis `modle`"),
        "{}",
        refused.stderr
    );
}
