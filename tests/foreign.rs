//! `audit --foreign`: every flag, every exit code, and data files that cannot be read.

use std::fs;

use serde_json::Value;

use crate::support::{Outcome, Project};

/// A report with a share that does not follow (high), a factor on a table (medium) and a twin (low).
const REPORT: &str = "# Report

Of all, 65.0% (12 of 20) passed.

| Metric | Swift | Robin | Winner | Δ% |
|---|---|---|---|---|
| Throughput | 800.0 tok/s | 1000.0 tok/s | Robin | +25.0% |
| Energy | 6.5 tok/W | 7.5 tok/J | Robin | +15.4% |
";

/// Nothing wrong in it.
const CLEAN: &str = "# Report

Of all, 60.0% (12 of 20) passed.

| Engine | Users | Rate |
|---|---|---|
| swift | 1 | 48.25 |
| swift | 8 | 50.75 |
| robin | 1 | 47.35 |
| robin | 8 | 47.95 |
| crane | 1 | 51.15 |
";

fn audit(project: &Project, report: &str, more: &[&str]) -> Outcome {
    fs::write(project.path().join("their report.md"), report).expect("a file can be written");
    project.run(["audit", "--foreign", "their report.md"].iter().chain(more))
}

fn write(project: &Project, file: &str, bytes: &[u8]) {
    let path = project.path().join("tables").join(file);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder can be made");
    fs::write(path, bytes).expect("a file can be written");
}

const CSV: &str = "engine,users,rate\nswift,1,48.25\nswift,8,50.75\nrobin,1,47.35\nrobin,8,47.95\ncrane,1,51.15\n";

#[test]
fn the_exit_code_says_whether_a_finding_is_sure_enough() {
    let project = Project::new();
    let medium = REPORT.replace("65.0%", "60.0%");
    for (report, at_least, code) in [
        (REPORT, "high", 1),
        (REPORT, "medium", 1),
        (medium.as_str(), "high", 0),
        (medium.as_str(), "medium", 1),
        (medium.as_str(), "low", 1),
        (CLEAN, "low", 0),
    ] {
        let outcome = audit(&project, report, &["--at-least", at_least]);
        assert_eq!(outcome.code, Some(code), "{at_least}\n{}", outcome.stdout);
    }
    assert_eq!(
        audit(&project, REPORT, &[]).code,
        Some(1),
        "high is the default"
    );
    assert_eq!(
        audit(&project, REPORT, &["--at-least", "certain"]).code,
        Some(2)
    );
}

#[test]
fn a_finding_is_told_with_place_rule_confidence_and_quote() {
    let project = Project::new();
    let said = audit(&project, REPORT, &[]).stdout;
    assert!(
        said.contains("their report.md:3:9: R-ARITH (high): 65 does not follow: it is 60"),
        "{said}"
    );
    assert!(
        said.contains("R-UNIT (medium)"),
        "findings below the threshold are shown all the same: {said}"
    );
    assert!(
        said.ends_with("1 tables in the report, 0 in the data\n"),
        "{said}"
    );
}

#[test]
fn json_has_every_finding_with_its_evidence() {
    let project = Project::new();
    let outcome = audit(&project, REPORT, &["--json"]);
    assert_eq!(outcome.code, Some(1));
    let document: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let first = &document["findings"][0];
    assert_eq!(
        (&first["rule"], &first["confidence"]),
        (&"R-ARITH".into(), &"high".into()),
        "{document}"
    );
    assert_eq!(
        (&first["line"], &first["column"]),
        (&3.into(), &9.into()),
        "{document}"
    );
    assert!(
        first["evidence"][0]["value"]
            .as_str()
            .is_some_and(|v| v.contains("12 of 20")),
        "{document}"
    );
}

#[test]
fn tables_of_every_format_are_held_against_the_report() {
    let json = "{\"engine\":\"swift\",\"users\":1,\"rate\":48.25}\n{\"engine\":\"swift\",\"users\":8,\"rate\":50.75}\n\n{\"engine\":\"robin\",\"users\":1,\"rate\":47.35}\n{\"engine\":\"robin\",\"users\":8,\"rate\":47.95}\n{\"engine\":\"crane\",\"users\":1,\"rate\":51.15}\n";
    let parquet = artifacts::Table::new(vec![
        artifacts::Column::text(
            "engine",
            ["swift", "swift", "robin", "robin", "crane"].map(Some),
        ),
        artifacts::Column::int("users", [1, 8, 1, 8, 1].map(Some)),
        artifacts::Column::float("rate", [48.25, 50.75, 47.35, 47.95, 51.15].map(Some)),
    ])
    .and_then(|table| table.to_parquet())
    .expect("a table");
    let wrong = CLEAN.replace("50.75", "57.05");
    for (file, bytes) in [
        ("rates.csv", CSV.as_bytes()),
        ("below/rates.tsv", CSV.replace(',', "\t").as_bytes()),
        ("rates.jsonl", json.as_bytes()),
        ("rates.parquet", parquet.as_slice()),
    ] {
        let project = Project::new();
        write(&project, file, bytes);
        let clean = audit(&project, CLEAN, &["--data", "tables", "--at-least", "low"]);
        assert_eq!(clean.code, Some(0), "{file}: {}", clean.stdout);
        assert!(
            clean.stdout.contains("1 in the data"),
            "{file}: {}",
            clean.stdout
        );
        let found = audit(
            &project,
            &wrong,
            &["--data", "tables", "--at-least", "medium"],
        );
        assert_eq!(found.code, Some(1), "{file}: {}", found.stdout);
        let place = if file.ends_with(".parquet") {
            format!("{file}:2")
        } else {
            format!("{file}:")
        };
        assert!(
            found.stdout.contains("R-SAME") && found.stdout.contains(&place),
            "{file}: {}",
            found.stdout
        );
    }
}

#[test]
fn a_data_file_that_cannot_be_read_is_named_with_its_line_and_harms_no_other() {
    let project = Project::new();
    write(&project, "rates.csv", CSV.as_bytes());
    write(&project, "empty.csv", b"");
    write(&project, "ragged.csv", b"a,b\n1,2\n3\n");
    write(&project, "latin.csv", b"a,b\n1,2\nM\xfcller,3\n");
    write(&project, "broken.jsonl", b"{\"a\": 1}\n{\"a\": \n");
    write(&project, "list.jsonl", b"[1, 2]\n");
    write(&project, "corrupt.parquet", b"PAR1 and no more");
    write(&project, "notes.txt", b"not a table");
    let outcome = audit(&project, CLEAN, &["--data", "tables"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stdout);
    for wanted in [
        "not read: empty.csv:1: no header",
        "not read: ragged.csv:3: 1 cells under a header of 2",
        "not read: latin.csv:3: not UTF-8 text",
        "not read: broken.jsonl:2: ",
        "not read: list.jsonl:1: not an object",
        "not read: corrupt.parquet: ",
    ] {
        assert!(
            outcome.stdout.contains(wanted),
            "{wanted}\n{}",
            outcome.stdout
        );
    }
    assert!(
        !outcome.stdout.contains("notes.txt") && outcome.stdout.contains("1 in the data"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn a_report_or_folder_that_is_not_there_is_an_error_of_the_command_line() {
    let project = Project::new();
    let missing = project.run(["audit", "--foreign", "nowhere.md"]);
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.contains("nowhere.md"), "{}", missing.stderr);
    fs::write(project.path().join("latin.md"), b"M\xfcller\n").expect("a file can be written");
    let latin = project.run(["audit", "--foreign", "latin.md"]);
    assert_eq!(latin.code, Some(2));
    assert!(
        latin.stderr.contains("not UTF-8") && latin.stderr.contains("hint"),
        "{}",
        latin.stderr
    );
    let folder = audit(&project, CLEAN, &["--data", "nowhere"]);
    assert_eq!(folder.code, Some(2));
    assert!(folder.stderr.contains("nowhere"), "{}", folder.stderr);
    for flag in [
        ["--data", "tables"],
        ["--sarif", "out.sarif"],
        ["--at-least", "low"],
    ] {
        let outcome = project.run(["audit", "report.md"].iter().chain(&flag));
        assert_eq!(outcome.code, Some(2), "{flag:?} needs --foreign");
        assert!(outcome.stderr.contains("--foreign"), "{}", outcome.stderr);
    }
}

#[test]
fn sarif_has_the_structure_of_the_standard() {
    let project = Project::new();
    let outcome = audit(&project, REPORT, &["--sarif", "findings.sarif"]);
    assert_eq!(outcome.code, Some(1));
    let text = fs::read_to_string(project.path().join("findings.sarif")).expect("the SARIF file");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(document["version"], "2.1.0");
    assert!(
        document["$schema"]
            .as_str()
            .is_some_and(|uri| uri.contains("sarif") && uri.contains("2.1.0"))
    );
    let runs = document["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 1);
    let driver = &runs[0]["tool"]["driver"];
    assert_eq!(driver["name"], "benchtrail");
    let rules = driver["rules"].as_array().expect("rules");
    assert!(
        rules
            .iter()
            .all(|rule| rule["shortDescription"]["text"].is_string()),
        "{rules:?}"
    );
    let results = runs[0]["results"].as_array().expect("results");
    assert!(results.len() >= 2, "{text}");
    for result in results {
        let index = result["ruleIndex"]
            .as_u64()
            .and_then(|at| usize::try_from(at).ok())
            .expect("an index");
        assert_eq!(result["ruleId"], rules[index]["id"], "{result}");
        assert!(
            ["error", "warning", "note"].contains(&result["level"].as_str().unwrap_or("")),
            "{result}"
        );
        assert!(
            result["message"]["text"]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
            "{result}"
        );
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(
            place["artifactLocation"]["uri"], "their%20report.md",
            "relative and percent-encoded"
        );
        let region = &place["region"];
        assert!(
            ["startLine", "startColumn"]
                .iter()
                .all(|at| region[*at].as_u64() >= Some(1)),
            "{result}"
        );
        assert!(region["snippet"]["text"].is_string(), "{result}");
    }
    let nowhere = audit(
        &project,
        REPORT,
        &["--sarif", "no/such/folder/findings.sarif"],
    );
    assert!(
        nowhere.code != Some(0) && nowhere.code != Some(1),
        "{:?}",
        nowhere.code
    );
    assert!(
        nowhere.stderr.contains("findings.sarif"),
        "{}",
        nowhere.stderr
    );
}
