//! Claims that something is not worse: licensed by a bound within a margin, refused by one beyond it, otherwise
//! undecided.

use std::fs;

use crate::support::Project;

/// Two simulated servers in six blocks; the new one takes `step` per token.
pub(crate) fn study(step: &str, margin: &str) -> String {
    format!(
        r#"experiment: release
title: Whether a release is slower
question: Is the new release slower than the old one by more than the margin?
seed: 11
design:
  blocks: 6
axes:
  release:
    new: {{step: {step}}}
    old: {{step: 10 ms}}
workloads:
  short:
    description: Prompts of 8 random words, answers of 8 tokens.
    prompts: {{words: {{length: 8}}}}
    output: {{tokens: 8}}
claims:
  not-slower:
    says: The new release is not slower than the old one by more than the margin.
    rule:
      not-worse: {{table: results.comparison, where: {{metric: output_throughput}}, better: higher}}
stages:
  ladder:
    kind: load
    over: [release]
    workload: short
    arrival: {{closed-loop: {{clients: 1}}}}
    requests: 8
    simulate:
      server:
        slots: 1
        prefill: {{fixed: 5 ms}}
        decode: {{fixed: "${{release.step}}"}}
        noise: {{launch: 0.02}}
  checks:
    kind: verify
    needs: [ladder]
    gates:
      - {{gate: census}}
  results:
    kind: analyze
    needs: [ladder, checks]
    tables:
      cells: {{operator: cell-summary}}
      comparison:
        operator: paired-comparison
        from: cells
        pair: {{axis: release, a: new, b: old}}
        columns: [output_throughput]
        {margin}
  report: {{kind: report, needs: [ladder, checks, results]}}
"#
    )
}

/// Returns the verdict of a run on the claim.
fn claim_line(step: &str, margin: &str) -> String {
    let project = Project::new();
    fs::write(project.path().join("release.yaml"), study(step, margin)).expect("it can be written");
    let run = project.run(["run", "release.yaml"]).ok();
    let said = format!("{}{}", run.stdout, run.stderr);
    let line = said.lines().find(|line| line.contains("not-slower:"));
    line.unwrap_or_else(|| panic!("no claim: {said}"))
        .to_owned()
}

#[test]
fn a_claim_that_something_is_not_worse_is_licensed_refused_or_undecided_by_the_bound() {
    let margin = "margin: {output_throughput: 0.1}";
    let same = claim_line("10.01 ms", margin);
    assert!(
        same.contains("not-slower: licensed: The new release is not slower"),
        "{same}"
    );
    let slower = claim_line("14 ms", margin);
    assert!(
        slower.contains("refused") && slower.contains("lower by more than the margin"),
        "{slower}"
    );
    let open = claim_line("11 ms", margin);
    assert!(
        open.contains("undecided") && open.contains("×, beyond the margin, which ends at 0.9091×"),
        "{open}"
    );
    let without = claim_line("10.01 ms", "family: study");
    assert!(
        without.contains("undecided") && without.contains("declare `margin`"),
        "{without}"
    );
}

#[test]
fn blocks_that_are_added_after_a_run_leave_a_mark_in_the_report() {
    let project = Project::new();
    let file = project.path().join("release.yaml");
    let margin = "margin: {output_throughput: 0.1}";
    let report = |blocks: u32| {
        let design = format!("blocks: {blocks}");
        let text = study("10.01 ms", margin).replace("blocks: 6", &design);
        fs::write(&file, text).expect("it can be written");
        project.run(["run", "release.yaml"]).ok();
        let path = project.path().join("reports/release/report.md");
        fs::read_to_string(path).expect("a report is text")
    };
    let first = report(4);
    assert!(!first.contains("blocks were added"), "{first}");
    let more = report(6);
    assert!(more.contains("blocks were added after all 4 blocks of an earlier plan were measured; the plan now has 6, and no `until`"), "{more}");
    assert!(
        more.contains("It is licensed after blocks were added to a plan of 4"),
        "{more}"
    );
    let fewer = report(5);
    assert!(
        fewer.contains("some measurements were planned with 6 blocks, and the plan now has 5"),
        "{fewer}"
    );
}
