//! A comparison whose sides were measured one after the other: the report says what that means.

use crate::support::Project;

const STUDY: &str = r#"experiment: drift
seed: 7
simulated-servers:
  one: {slots: 4, prefill: {fixed: 5 ms}, decode: {fixed: 10 ms}, noise: {cell: 0.01}}
axes:
  configuration:
    first: {at: 0 h}
    second: {at: 3 h}
  rep: {from: 1, to: 6}
workloads:
  words: {description: words, prompts: {words: {length: 32}}, output: {tokens: 32}}
stages:
  ladder:
    kind: load
    over: [configuration, rep]
    workload: words
    arrival: {closed-loop: {clients: 4}}
    requests: 40
    simulate:
      server: one
      name: ${configuration}
      clock: {start: "${configuration.at}", spread: 1 h, drift: 0.03}
  checks:
    kind: verify
    needs: [ladder]
    gates: [{gate: census}, {gate: row-status}]
  figures:
    kind: analyze
    needs: [ladder, checks]
    tables:
      cells: {operator: cell-summary}
      compared:
        operator: paired-comparison
        from: cells
        columns: [output_throughput]
        pair: {axis: configuration, a: second, b: first}
        unit: [rep]
  report:
    kind: report
    needs: [ladder, checks, figures]
"#;

/// Returns the report of the study after changes.
fn report(changes: &[(&str, &str)]) -> String {
    let project = Project::new();
    let file = project.path().join("experiments/drift.yaml");
    let study = changes.iter().fold(STUDY.to_owned(), |study, (from, to)| {
        assert!(study.contains(from), "{from}");
        study.replace(from, to)
    });
    std::fs::write(file, study).expect("a file");
    project.run(["run", "experiments/drift.yaml"]).ok();
    let report = project.path().join("reports/drift/report.md");
    std::fs::read_to_string(report).expect("a report")
}

#[test]
fn a_report_says_that_one_side_was_measured_after_the_other() {
    let report = report(&[]);
    // Equal servers on a machine that slows down.
    assert!(
        report.contains("*different*, higher and so better on *first*"),
        "{report}"
    );
    let note = "first was measured before second, so the effect contains any drift of the machine.";
    assert!(report.contains(note), "{report}");
    let limit = "- *order* (ladder): the cells of configuration second were measured after those of configuration first, so \
                 a comparison of the two contains any drift of the machine; `design: {blocks: N}` measures them in turns.";
    assert!(report.contains(limit), "{report}");
}

#[test]
fn a_report_on_sides_measured_in_turns_does_not() {
    let report = report(&[("second: {at: 3 h}", "second: {at: 0 h}")]);
    assert!(!report.contains("drift of the machine"), "{report}");
}

#[test]
fn a_report_says_that_one_side_came_first_in_each_block() {
    let in_blocks = [
        ("seed: 7", "seed: 7\ndesign: {blocks: 6}"),
        ("  rep: {from: 1, to: 6}\n", ""),
        ("[configuration, rep]", "[configuration]"),
        ("        unit: [rep]\n", ""),
    ];
    let limit = "- *order* (ladder): in each of the 6 blocks, the cells of configuration second were measured after those of \
                 configuration first, so a comparison of the two contains any drift of the machine within a block; `order: abba` \
                 in `design` changes their order from block to block.";
    let one_first = report(&in_blocks);
    assert!(one_first.contains(limit), "{one_first}");
    let together = ("second: {at: 3 h}", "second: {at: 0 h}");
    let mixed = report(&[&in_blocks[..], &[together]].concat());
    assert!(!mixed.contains("*order*"), "{mixed}");
}
