//! Cells that hung: what they left behind is in the tables of operators that diagnose failures, and in no other.

use std::fs;

use crate::support::Project;

const STUDY: &str = r#"
experiment: hung
seed: 3
axes:
  server: LABELS
  rep: {from: 1, to: 2}
stages:
  ladder:
    kind: load
    over: [server, rep]
    workload: short-decode
    arrival: {closed-loop: {clients: 4}}
    requests: 16
    heartbeat: 30 s
    simulate: {server: batching, faults: "${server.faults}"}
"#;

const VERIFIED: &str = r"
  checks: {kind: verify, needs: [ladder]}
  results:
    kind: analyze
    needs: [ladder, checks]
    tables:
      cells: {operator: cell-summary}
      silences: {operator: hang-signature}
  others: {kind: analyze, needs: [ladder, checks], tables: {cells: {operator: cell-summary}}}
  report: {kind: report, needs: [ladder, checks, results]}
";

const STUCK: &str = "stuck: {faults: {hang: {after: 5}}}";

fn project(labels: &str, stages: &str) -> Project {
    let project = Project::new();
    let text = STUDY.replace("LABELS", labels) + stages;
    fs::write(project.path().join("hung.yaml"), text).expect("the study is written");
    project
}

fn silences(project: &Project, stage: &str) -> String {
    let query = format!(
        "select server, rep, cell_status, silence_ms, in_flight from \"{stage}.silences\" order by server, rep"
    );
    let answer = project.run(["sql", "hung.yaml", &query, "--csv"]).ok();
    answer
        .stdout
        .lines()
        .skip(1)
        .map(|l| format!("{l}\n"))
        .collect()
}

#[test]
fn a_cell_that_hung_has_a_signature_and_enters_no_other_table() {
    let project = project(&format!("[fine: {{faults: {{}}}}, {STUCK}]"), VERIFIED);
    let outcome = project.run(["run", "hung.yaml", "--keep-going"]);
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);

    let table = silences(&project, "results");
    assert!(
        table.contains("stuck,1,hung,30000,4\nstuck,2,hung,30000,4\n"),
        "{table}"
    );
    assert!(table.contains("fine,1,ok,"), "{table}");
    let cells = [
        "sql",
        "hung.yaml",
        "select distinct server from \"results.cells\"",
        "--csv",
    ];
    assert_eq!(project.run(cells).ok().stdout, "server\nfine\n");

    // The number is traced to the rows that the cell left behind.
    let report =
        fs::read_to_string(project.path().join("reports/hung/report.md")).expect("the report");
    let line = report
        .lines()
        .position(|l| l.starts_with("| stuck ") && l.contains("30,000"));
    let place = format!(
        "reports/hung/report.md:{}",
        line.expect("the hung cell's row") + 1
    );
    let why = project.run(["why", &place, "30,000"]).ok().stdout;
    assert!(
        why.contains("ladder[server=stuck,rep=1]\n         requests 0..9 "),
        "{why}"
    );
    assert!(
        why.contains("hung: no byte arrived on any stream for 30 s"),
        "{why}"
    );
    project.run(["audit", "reports/hung/report.md"]).ok();

    // The bundle holds these rows, and the tables follow from them.
    project
        .run(["publish", "hung.yaml", "--author", "Ada Lovelace"])
        .ok();
    project.run(["verify", "published/hung"]).ok();
    let again = project.run(["reproduce", "published/hung"]).ok().stdout;
    assert!(again.contains("results: 1 of 1 identical"), "{again}");
    project.run(["fsck"]).ok();
}

/// Returns the names of what the recipe of a stage's only cell says of a cell of the load.
fn read_of(project: &Project, stage: &str, cell: &str) -> Vec<String> {
    let lock = fs::read_to_string(project.path().join("hung.lock")).expect("the lock");
    let after = lock
        .split_once(&format!("stage \"{stage}\""))
        .expect("the stage")
        .1;
    let line = after
        .lines()
        .find(|l| l.starts_with("ok "))
        .expect("an ok cell");
    let record = line.split(' ').nth(3).expect("a record");
    let record = project.run(["show", record, "--json"]).ok().json();
    let cells = record["recipe"]["inputs"][0]["cells"]
        .as_array()
        .expect("the cells of the load");
    let read = cells
        .iter()
        .find(|c| c["coordinates"].to_string().contains(cell));
    let outputs = &read.unwrap_or_else(|| panic!("{cell} in {cells:?}"))["outputs"];
    outputs
        .as_object()
        .expect("outputs")
        .keys()
        .cloned()
        .collect()
}

#[test]
fn only_the_keys_of_stages_that_read_failed_cells_hold_what_these_left() {
    let project = project(&format!("[fine: {{faults: {{}}}}, {STUCK}]"), VERIFIED);
    project.run(["run", "hung.yaml", "--keep-going"]);
    assert!(read_of(&project, "results", "stuck").contains(&"requests".to_owned()));
    assert!(read_of(&project, "others", "fine").contains(&"requests".to_owned()));
    assert_eq!(read_of(&project, "others", "stuck"), Vec::<String>::new());
}

#[test]
fn a_stage_that_only_diagnoses_needs_neither_gates_nor_a_cell_that_is_ok() {
    let diagnosis = "
  diagnosis: {kind: analyze, needs: [ladder], tables: {silences: {operator: hang-signature}}}
";
    let project = project(&format!("[{STUCK}]"), diagnosis);
    project.run(["run", "hung.yaml", "--keep-going"]);
    let table = silences(&project, "diagnosis");
    assert_eq!(table, "stuck,1,hung,30000,4\nstuck,2,hung,30000,4\n");

    // Other operators still need gates.
    project.edit(
        "hung.yaml",
        "{silences: {",
        "{cells: {operator: cell-summary}, silences: {",
    );
    let refused = project.run(["plan", "hung.yaml"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stdout);
    assert!(
        refused
            .stderr
            .contains("no verify stage among `needs` covers"),
        "{}",
        refused.stderr
    );
}
