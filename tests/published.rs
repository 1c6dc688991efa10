//! Tables that others published: from their files to a report and back.

use std::fs;

use artifacts::Digest;

use crate::support::Project;

const EXPERIMENT: &str = "experiments/studies/published-tables.yaml";
const REPORT: &str = "reports/published-tables/report.md";

#[test]
fn a_number_recomputed_from_a_published_table_leads_to_the_line_of_its_file() {
    let project = Project::new();
    project.run(["run", EXPERIMENT]).ok();
    let report = fs::read_to_string(project.path().join(REPORT)).expect("a report");
    let row = |starts: &str| {
        let position = report.lines().position(|line| line.starts_with(starts));
        position.unwrap_or_else(|| panic!("no row {starts} in\n{report}")) + 1
    };
    // The values that follow, those that do not, and the number of each.
    assert!(report.contains("| V3: Holm-adjusted p values "), "{report}");
    let holm = report
        .lines()
        .nth(row("| V3: Holm-adjusted") - 1)
        .expect("a row");
    assert!(
        holm.contains("follows") && !holm.contains("in part"),
        "{holm}"
    );
    let steepest = report
        .lines()
        .nth(row("| V3: the last step is the steepest") - 1)
        .expect("a row");
    assert!(steepest.contains("follows in part"), "{steepest}");
    let line = row("| H2: ratios of TPOT");
    let at = format!("{REPORT}:{line}");
    let several = project.run(["why", &at, "--json"]).ok().json();
    let column = several["several"][0]["column_start"].clone();
    let why = project.run(["why", &format!("{at}:{column}")]).ok().stdout;
    let file = fs::read(
        project
            .path()
            .join("experiments/studies/published/h002_tpot_high.csv"),
    )
    .expect("the file");
    for part in [
        "recomputed.tpot_ratios",
        "h002_tpot_high.csv lines 3 to 16",
        "published in harness README, TPOT P99",
        "model,vllm_p99,sglang_p99,ratio_sglang_over_vllm",
        "gemma-2-2b-it,17.6,18.4,1.05×",
        &Digest::of(&file).short(),
    ] {
        assert!(why.contains(part), "no `{part}` in:\n{why}");
    }
    project.run(["audit", REPORT]).ok();
}

#[test]
fn a_published_table_without_a_load_stage_is_a_study() {
    let project = Project::new();
    let write = |name: &str, text: &str| {
        fs::write(project.path().join(name), text).expect("written");
    };
    write(
        "paper.csv",
        "# table 2 of a paper\nengine,clients,tok/s\na,1 users,\"1,100\"\nb,1 users,−5\n",
    );
    write(
        "paper.yaml",
        "experiment: paper\nseed: 1\nstages:\n  results:\n    kind: analyze\n    tables:\n      paper: {file: paper.csv, keys: [engine], units: {clients: users, tok/s: tok/s}}\n  report: {kind: report, needs: [results]}\n",
    );
    project.run(["run", "paper.yaml"]).ok();
    let shown = project
        .run(["show", "paper.yaml", "results.paper"])
        .ok()
        .stdout;
    assert!(shown.contains("1100") && shown.contains("-5"), "{shown}");
    project.edit("paper.csv", "1,100", "eleven hundred");
    let refused = project.run(["plan", "paper.yaml"]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused
            .stderr
            .contains("line 3: `eleven hundred` in the column `tok/s` is not a number in tok/s")
            && refused.stderr.contains("paper.yaml:7:"),
        "{}",
        refused.stderr
    );
}

#[test]
fn facts_of_an_axis_that_no_stage_is_expanded_over_join_a_published_table() {
    let project = Project::new();
    let file = |name: &str, text: &str| {
        fs::write(project.path().join(name), text).expect("a file");
    };
    file("paper.csv", "engine,rate\nvllm,100\nsglang,90\n");
    let study = |operator: &str| {
        format!(
            "experiment: paper\nseed: 1\naxes:\n  engine:\n    - vllm: {{gpus: 2}}\n    - sglang: {{gpus: 1}}\nstages:\n  \
             paper:\n    kind: analyze\n    tables:\n      rates: {{file: paper.csv, keys: [engine], units: {{rate: \
             tok/s}}}}\n{operator}      per_gpu: {{operator: sql, keys: [engine], query: \"select engine, rate * 1.0 as \
             of_each from rates\"}}\n"
        )
    };
    let facts =
        "      known: {operator: facts, axis: engine, fields: {gpus: gpus}, units: {gpus: GPUs}}\n";
    let joined = study(facts).replace(
        "rate * 1.0 as of_each from rates",
        "rate * 1.0 / gpus as of_each from rates join known using (engine)",
    );
    file("paper.yaml", &joined);
    project.run(["run", "paper.yaml", "--quiet"]).ok();
    let answer = project
        .run([
            "sql",
            "paper.yaml",
            "select engine, of_each from \"paper.per_gpu\" order by engine",
            "--csv",
        ])
        .ok();
    assert_eq!(answer.stdout, "engine,of_each\nsglang,90\nvllm,50\n");
    // Without the table of facts, nothing uses the axis.
    file("paper.yaml", &study(""));
    let plan = project.run(["plan", "paper.yaml"]);
    assert!(
        plan.stderr
            .contains("no stage has the axis `engine` in its `over`"),
        "{}",
        plan.stderr
    );
}
