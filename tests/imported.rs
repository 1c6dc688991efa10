//! Results of other tools, from their files to a report and back.

use std::fs;

use artifacts::Digest;

use crate::support::Project;

const EXPERIMENT: &str = "experiments/imported.yaml";
const REPORT: &str = "reports/imported/report.md";

fn finished() -> Project {
    let project = Project::new();
    project.run(["run", EXPERIMENT]).ok();
    project
}

#[test]
fn a_number_from_an_imported_file_leads_back_to_its_rows_and_to_the_file() {
    let project = finished();
    let report = fs::read_to_string(project.path().join(REPORT)).expect("a report");
    let line = report.lines().position(|line| line.starts_with("| aiperf | 1 |")).expect("a row") + 1;
    let numbers = project.run(["why", &format!("{REPORT}:{line}"), "--json"]).ok().json();
    let column = numbers.as_array().expect("several numbers").last().expect("one")["column_start"].clone();
    let why = project.run(["why", &format!("{REPORT}:{line}:{column}")]).ok().stdout;
    let file = fs::read(project.path().join("experiments/imported/aiperf-c1.json")).expect("the file");
    let original = Digest::of(&file).short();
    for part in ["request rows", "imported 20", "from a file of aiperf", &original] {
        assert!(why.contains(part), "no `{part}` in:\n{why}");
    }
    project.run(["audit", REPORT]).ok();
}

#[test]
fn renaming_a_file_runs_nothing_and_changing_it_runs_its_cell() {
    let project = finished();
    let folder = project.path().join("experiments/imported");
    let plan = || project.run(["plan", EXPERIMENT]).ok().stdout;
    let cached = plan();
    for entry in fs::read_dir(&folder).expect("the files").flatten() {
        let name = entry.file_name().into_string().expect("a name");
        fs::rename(entry.path(), folder.join(format!("moved-{name}"))).expect("renamed");
    }
    project.edit(EXPERIMENT, "imported/${tool}-c", "imported/moved-${tool}-c");
    assert_eq!(plan(), cached);
    let file = folder.join("moved-vllm-c4.json");
    let text = fs::read_to_string(&file).expect("the file");
    fs::write(&file, text.replacen("\"label\": null", "\"label\": \"again\"", 1)).expect("changed");
    let changed = plan();
    assert!(changed != cached && changed.contains("import.digest"), "{changed}");
}

#[test]
fn a_file_that_is_cut_off_fails_its_cell_and_no_other() {
    let project = Project::new();
    let file = project.path().join("experiments/imported/guidellm-c4.json");
    let bytes = fs::read(&file).expect("the file");
    fs::write(&file, &bytes[..bytes.len() / 2]).expect("cut");
    let outcome = project.run(["run", EXPERIMENT]);
    assert_eq!(outcome.code, Some(1));
    let status = project.run(["status", EXPERIMENT]).stdout;
    assert!(status.contains("ends in the middle"), "{status}");
    let rows =
        project.run(["show", EXPERIMENT, "results-files[tool=vllm,clients=4].requests", "--json"]).ok();
    assert_eq!(rows.json()["rows"].as_array().map(Vec::len), Some(8));
}
