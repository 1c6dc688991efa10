//! Token counts of imported tables that are too high on one side.

use std::fmt::Write as _;
use std::fs;

use crate::support::Project;

/// Two systems that answer the same requests in five blocks, as CSV files without prompts; one side has `factor` times
/// the tokens. The lengths of answers vary widely.
fn project(factor: f64) -> Project {
    let project = Project::new();
    for (system, factor) in [("a", factor), ("b", 1.0)] {
        for block in 1..=3_u64 {
            let (mut text, mut state) = ("start_s,first_s,last_s,tokens\n".to_owned(), block);
            let mut at = 0.0;
            for i in 0..40_u64 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let tokens = 9 + (state >> 33) % 57;
                let counted = (tokens as f64 * factor).round();
                let last = 0.05 + 0.011 * tokens as f64 + 0.000_013 * (i * block % 17) as f64;
                let first =
                    0.051 + 0.000_1 * (i % 7) as f64 + if system == "a" { 0.000_37 } else { 0.0 };
                writeln!(text, "{at:.6},{first:.6},{:.6},{counted}", last + first).unwrap();
                at += last + first + 0.01;
            }
            fs::write(project.path().join(format!("{system}-{block}.csv")), text).expect("a file");
        }
    }
    fs::write(project.path().join("counted.yaml"), STUDY).expect("a file");
    project
}

const STUDY: &str = r#"experiment: counted
title: Tokens of an imported table
question: Does one side count more tokens?
seed: 1
axes:
  system: [a, b]
  block: [1, 2, 3]
stages:
  ladder:
    kind: load
    over: [system, block]
    import:
      tool: csv
      file: "${system}-${block}.csv"
      columns:
        sent: {from: start_s, unit: s}
        ttft: {from: first_s, unit: s}
        e2e_latency: {from: last_s, unit: s}
        output_tokens: {from: tokens}
        status: {value: ok}
  checks:
    kind: verify
    needs: [ladder]
    gates:
      - {gate: census}
      - {gate: token-bias, across: system}
"#;

#[test]
fn a_tenth_too_many_tokens_on_one_side_of_an_imported_table_are_found_without_prompts() {
    for (factor, differs) in [(1.0, false), (1.12, true), (0.9, true)] {
        let project = project(factor);
        let run = project.run(["run", "counted.yaml"]);
        let said = format!("{}{}", run.stdout, run.stderr);
        assert_eq!(said.contains("token-bias"), differs, "{factor}: {said}");
        if differs {
            assert!(said.contains("are biased in one direction"), "{said}");
        }
    }
}
