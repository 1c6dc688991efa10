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
    let line = report
        .lines()
        .position(|line| line.starts_with("| aiperf | 1 |"))
        .expect("a row")
        + 1;
    let numbers = project
        .run(["why", &format!("{REPORT}:{line}"), "--json"])
        .ok()
        .json();
    let column = numbers["several"]
        .as_array()
        .expect("several numbers")
        .last()
        .expect("one")["column_start"]
        .clone();
    let why = project
        .run(["why", &format!("{REPORT}:{line}:{column}")])
        .ok()
        .stdout;
    let file =
        fs::read(project.path().join("experiments/imported/aiperf-c1.json")).expect("the file");
    let original = Digest::of(&file).short();
    for part in [
        "request rows",
        "imported 20",
        "from a file of aiperf",
        &original,
    ] {
        assert!(why.contains(part), "no `{part}` in:\n{why}");
    }
    project.run(["audit", REPORT]).ok();
}

#[test]
fn renaming_a_file_imports_nothing_again_and_changing_it_imports_it() {
    let project = finished();
    let folder = project.path().join("experiments/imported");
    // Without the report, which depends on the text of the experiment.
    let plan = || {
        let text = project.run(["plan", EXPERIMENT]).ok().stdout;
        let stages = ["results-files ", "checks ", "results "];
        let lines = text
            .lines()
            .filter(|line| stages.iter().any(|stage| line.starts_with(stage)));
        (lines.map(str::to_owned).collect::<Vec<_>>(), text)
    };
    let (cached, _) = plan();
    for entry in fs::read_dir(&folder).expect("the files").flatten() {
        let name = entry.file_name().into_string().expect("a name");
        fs::rename(entry.path(), folder.join(format!("moved-{name}"))).expect("renamed");
    }
    project.edit(EXPERIMENT, "imported/${tool}-c", "imported/moved-${tool}-c");
    assert_eq!(plan().0, cached);
    let file = folder.join("moved-vllm-c4.json");
    let text = fs::read_to_string(&file).expect("the file");
    fs::write(
        &file,
        text.replacen("\"label\": null", "\"label\": \"again\"", 1),
    )
    .expect("changed");
    let (changed, text) = plan();
    assert!(
        changed != cached && text.contains("import.digest"),
        "{text}"
    );
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
    let rows = project
        .run([
            "show",
            EXPERIMENT,
            "results-files[tool=vllm,clients=4].requests",
            "--json",
        ])
        .ok();
    assert_eq!(rows.json()["rows"].as_array().map(Vec::len), Some(8));
}

#[test]
fn workload_and_arrival_are_asked_for_unless_results_are_imported() {
    let project = Project::new();
    let plan = |stage: &str| {
        let text =
            format!("experiment: small\nseed: 1\nstages:\n  files: {{kind: load, {stage}}}\n");
        fs::write(project.path().join("small.yaml"), text).expect("written");
        project.run(["plan", "small.yaml"])
    };
    let without = plan("requests: 4");
    assert_eq!(without.code, Some(2), "{}", without.stderr);
    for key in ["workload", "arrival"] {
        let message = format!("error: missing key `{key}`\n  --> small.yaml:4:3  (stages.files)");
        assert!(without.stderr.contains(&message), "{}", without.stderr);
    }
    plan("import: {tool: vllm, file: experiments/imported/vllm-c1.json}").ok();
    let both = plan(
        "import: {tool: vllm, file: experiments/imported/vllm-c1.json}, workload: short-decode",
    );
    assert!(
        both.stderr
            .contains("`workload` has no meaning for imported results"),
        "{}",
        both.stderr
    );
}

#[test]
fn a_file_of_aggregates_gives_its_summary_and_no_row_to_an_operator() {
    let project = Project::new();
    let path = project.path().join("experiments/imported/vllm-c1.json");
    let mut result: serde_json::Value =
        serde_json::from_slice(&fs::read(&path).expect("the file")).expect("JSON");
    for key in [
        "input_lens",
        "output_lens",
        "start_times",
        "ttfts",
        "itls",
        "generated_texts",
        "errors",
    ] {
        result
            .as_object_mut()
            .expect("an object")
            .remove(key)
            .expect("what --save-detailed adds");
    }
    fs::write(project.path().join("plain.json"), result.to_string()).expect("written");
    let text = "experiment: plain\nseed: 1\nstages:\n  files: {kind: load, import: {tool: vllm, file: plain.json}}\n  \
                checks: {kind: verify, needs: [files], gates: [{gate: census}]}\n  \
                results: {kind: analyze, needs: [files, checks], tables: {cells: {operator: cell-summary}}}\n";
    fs::write(project.path().join("plain.yaml"), text).expect("written");
    // A dry run also reads the file, and stops before anything is executed.
    let early = project.run(["run", "plain.yaml"]);
    assert_eq!(early.code, Some(2));
    assert!(
        early
            .stderr
            .contains("the imported file holds only aggregates"),
        "{}",
        early.stderr
    );
    let outcome = project.run(["run", "plain.yaml", "--no-dry-run"]);
    assert_eq!(outcome.code, Some(1));
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(said.contains("0 with measured rows"), "{said}");
    assert!(
        said.contains("the imported file holds only aggregates"),
        "{said}"
    );
    let summary = project
        .run(["show", "plain.yaml", "files.summary", "--json"])
        .ok()
        .json();
    assert!(
        summary["rows"]
            .as_array()
            .expect("rows")
            .iter()
            .any(|row| row["metric"] == "itl")
    );
}

#[test]
fn names_in_a_file_are_neither_lines_of_a_message_nor_megabytes_of_it() {
    let project = Project::new();
    let study = "experiment: i\nseed: 1\nstages:\n  r:\n    kind: load\n    import:\n      tool: csv\n      \
                 file: f.csv\n      columns: {sent: {from: s, unit: s}, error: e}\n";
    fs::write(project.path().join("i.yaml"), study).expect("a study");
    let many: Vec<String> = (0..20_000).map(|n| format!("column {n}")).collect();
    let forged = "\"a\nhint: run this\nerror: \u{1b}[2K\u{202e}that\"";
    for names in [many.join(","), forged.to_owned(), "x".repeat(1 << 20)] {
        let file = format!("{names}\n1{}\n", ",1".repeat(names.matches(',').count()));
        fs::write(project.path().join("f.csv"), file).expect("a file");
        let text = project.run(["run", "i.yaml"]).stderr;
        assert!(text.contains("no column `e`"), "{text}");
        assert!(text.len() < 20_000, "{} bytes", text.len());
        assert!(
            !text.contains("\nhint: run") && !text.contains("\nerror: \\u"),
            "{text}"
        );
    }
}
