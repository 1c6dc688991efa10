//! A study as a single file.

use std::fs;
use std::path::Path;

use super::files_below;
use crate::planted::grid;
use crate::support::Project;

#[test]
fn a_study_as_a_file_asks_nobody_and_says_what_did_not_fit() {
    let project = Project::new();
    let simulated = ["experiments/simulated.yaml", "--smoke"];
    project
        .run(["run", simulated[0], simulated[1], "--quiet"])
        .ok();
    let export = |project: &Project, study: [&str; 2], limit: &str| {
        let file = project.path().join("study.html");
        let arguments = ["explore", study[0], study[1], "--export", "study.html"];
        let all = arguments.into_iter().chain(["--limit", limit, "--json"]);
        let summary = project.run(all).ok().json();
        let html = fs::read_to_string(&file).expect("the file");
        fs::remove_file(file).expect("it is ours");
        (summary, html)
    };
    let (summary, html) = export(&project, simulated, "24");
    assert_eq!(summary["left_out"], serde_json::json!([]), "{summary}");
    assert!(html.contains("script-src 'sha256-") && html.contains("default-src 'none'"));
    assert!(!html.contains("src=\"") && !html.contains("<link rel=\"stylesheet\""));
    assert!(!html.contains("\nimport ") && !html.contains("\nexport "));
    let large = Project::copy_of(grid());
    let (summary, html) = export(&large, ["experiments/planted-grid.yaml", "--smoke"], "1");
    assert!(html.len() <= 1 << 20, "{}", html.len());
    assert!(
        !summary["left_out"].as_array().expect("a list").is_empty(),
        "{summary}"
    );
    let without_study = project.run(["explore", "--export", "all.html"]);
    assert_eq!(without_study.code, Some(2));
}

#[test]
fn a_file_reads_each_object_a_few_times_however_many_cells_there_are() {
    let project = Project::copy_of(grid());
    let study = ["experiments/planted-grid.yaml", "--smoke"];
    let summary = project
        .run([
            "explore",
            study[0],
            study[1],
            "--export",
            "study.html",
            "--json",
        ])
        .ok()
        .json();
    let bytes_of = |folder: &Path| -> u64 {
        let files = files_below(folder).into_iter();
        files
            .map(|file| fs::metadata(file).map_or(0, |m| m.len()))
            .sum()
    };
    let stored = bytes_of(&project.path().join(".benchtrail/objects"));
    let read = summary["bytes_read"].as_u64().expect("a number");
    // For each cell, the record is read once per table, and the rows once per metric. The gate tables and the records
    // that name every cell are read once in total, not once per cell.
    assert!(read < 18 * stored, "{read} of {stored}");
    assert!(summary["replies"].as_u64() > Some(1_000), "{summary}");
}
