//! A launch unlike its siblings: the run names it with its figures, and it stays in the study.

use std::fs;

use crate::support::Project;

/// Five launches of one simulated server; the third one takes `third` times as long.
fn study(third: &str, gate: &str) -> String {
    format!(
        r#"experiment: launches
title: Whether all launches are alike
question: Is one launch unlike the others?
seed: 5
axes:
  launch:
    a: {{factor: 1.00}}
    b: {{factor: 1.01}}
    c: {{factor: {third}}}
    d: {{factor: 1.02}}
    e: {{factor: 0.99}}
  clients: [1, 2]
workloads:
  short:
    description: Prompts of 8 random words, answers of 8 tokens.
    prompts: {{words: {{length: 8}}}}
    output: {{tokens: 8}}
stages:
  ladder:
    kind: load
    over: [launch, clients]
    workload: short
    arrival: {{closed-loop: {{clients: "${{clients}}"}}}}
    requests: 8
    simulate:
      slowdown: ${{launch.factor}}
      server:
        slots: 2
        prefill: {{fixed: 5 ms}}
        decode: {{fixed: 10 ms}}
  checks:
    kind: verify
    needs: [ladder]
    gates:
      - {gate}
  results:
    kind: analyze
    needs: [ladder, checks]
    tables:
      cells: {{operator: cell-summary}}
  report: {{kind: report, needs: [ladder, checks, results]}}
"#
    )
}

const GATE: &str =
    "{gate: outlying-launches, axis: launch, columns: [output_throughput, e2e_latency_ms_p50]}";

/// Runs the study, and returns everything that it printed.
fn run_output(project: &Project, third: &str, gate: &str) -> String {
    let file = project.path().join("launches.yaml");
    fs::write(file, study(third, gate)).expect("it can be written");
    let run = project.run(["run", "launches.yaml"]).ok();
    format!("{}{}", run.stdout, run.stderr)
}

#[test]
fn a_run_names_the_launch_that_is_unlike_its_siblings_and_keeps_it() {
    let project = Project::new();
    let alike = run_output(&project, "1.005", GATE);
    assert!(!alike.contains("outlying-launches (warn)"), "{alike}");
    let unlike = run_output(&project, "1.8", GATE);
    let warned: Vec<&str> = unlike
        .lines()
        .filter(|line| line.contains("outlying-launches (warn)"))
        .collect();
    assert!(
        !warned.is_empty() && warned.iter().all(|line| line.contains("launch=c")),
        "{unlike}"
    );
    for part in [
        "from the median of the 4 other launches of clients=1",
        "times their range beyond the nearest",
        "If you leave this one out, name it in the report",
    ] {
        assert!(unlike.contains(part), "{part}: {unlike}");
    }
    let query = "select count(*) as n from \"results.cells\"";
    let counted = project.run(["sql", "launches.yaml", query]).ok();
    assert!(counted.stdout.contains("10"), "{}", counted.stdout);
}
