//! `audit --foreign`: every flag, every exit code, several inputs, and unreadable data files.

use std::fs;

use serde_json::Value;

use crate::support::{Outcome, Project};

/// A report with a share that does not follow.
const WRONG: &str = "# Report\n\nOf all, 65.0% (12 of 20) passed.\n\n| Engine | Users | Rate |\n|---|---|---|\n| swift | 1 | 48.25 |\n| swift | 8 | 50.75 |\n| robin | 1 | 47.35 |\n| robin | 8 | 47.95 |\n| crane | 1 | 51.15 |\n";
const CSV: &str = "engine,users,rate\nswift,1,48.25\nswift,8,50.75\nrobin,1,47.35\nrobin,8,47.95\ncrane,1,51.15\n";

fn clean() -> String {
    WRONG.replace("65.0%", "60.0%")
}

fn audit(project: &Project, report: &str, more: &[&str]) -> Outcome {
    write(project, "their report.md", report.as_bytes());
    project.run(["audit", "--foreign", "their report.md"].iter().chain(more))
}

fn write(project: &Project, file: &str, bytes: &[u8]) {
    let path = project.path().join(file);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder can be made");
    fs::write(path, bytes).expect("a file can be written");
}

#[test]
fn a_finding_has_place_rule_and_quote_and_exits_with_1() {
    let project = Project::new();
    let outcome = audit(&project, WRONG, &[]);
    assert_eq!(outcome.code, Some(1));
    assert!(
        outcome
            .stdout
            .contains("their report.md:3:9: arithmetic: 65.0% does not follow"),
        "{}",
        outcome.stdout
    );
    assert!(
        outcome.stdout.ends_with(
            "1 finding of 1 cause in their report.md; 1 table read in the document, 0 in the data\n"
        ),
        "{}",
        outcome.stdout
    );
    assert_eq!(audit(&project, &clean(), &[]).code, Some(0));
}

#[test]
fn a_document_that_is_not_audited_exits_with_2_and_harms_no_other() {
    let project = Project::new();
    write(&project, "page.html", b"<p>5 of 4");
    write(&project, "paper.tex", b"\\documentclass{article}");
    write(&project, "book.ipynb", b"{}");
    write(&project, "latin.md", b"M\xfcller\n");
    write(
        &project,
        "prose.md",
        b"Waits fell from 80 ms to 60 ms, a 40% drop.\n",
    );
    for (file, words) in [
        ("page.html", "no table was read"),
        ("paper.tex", "LaTeX is not read"),
        ("book.ipynb", "a notebook is not read"),
        ("latin.md", "not UTF-8"),
        ("prose.md", "no table was read"),
        ("nowhere.md", "nowhere.md"),
    ] {
        let outcome = audit(&project, WRONG, &[file]);
        assert_eq!(outcome.code, Some(2), "{file}");
        assert!(outcome.stderr.contains(words), "{file}: {}", outcome.stderr);
        assert!(
            file == "nowhere.md" || outcome.stdout.contains("their report.md:3:9"),
            "{file}: {}",
            outcome.stdout
        );
    }
    let prose = project.run(["audit", "--foreign", "prose.md"]);
    assert!(
        prose.stdout.contains("prose.md:1:35: arithmetic")
            || prose.stdout.contains("arithmetic: 40%"),
        "what is written out is checked all the same: {}",
        prose.stdout
    );
}

#[test]
fn json_and_sarif_have_every_finding_of_every_report() {
    let project = Project::new();
    write(&project, "other.md", clean().as_bytes());
    let outcome = audit(
        &project,
        WRONG,
        &["other.md", "--json", "--sarif", "findings.sarif"],
    );
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    let document: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let first = &document["audits"][0]["findings"][0];
    assert_eq!(
        (&first["rule"], &first["line"], &first["column"]),
        (&"arithmetic".into(), &3.into(), &9.into()),
        "{document}"
    );
    assert_eq!(document["audits"][1]["report"], "other.md");
    let text = fs::read_to_string(project.path().join("findings.sarif")).expect("the SARIF file");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(document["version"], "2.1.0");
    let run = &document["runs"][0];
    let result = &run["results"][0];
    let index = result["ruleIndex"]
        .as_u64()
        .and_then(|at| usize::try_from(at).ok())
        .expect("an index");
    assert_eq!(
        run["tool"]["driver"]["rules"][index]["id"],
        result["ruleId"]
    );
    assert_eq!(
        (&result["level"], &result["ruleId"]),
        (&"error".into(), &"arithmetic".into())
    );
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(
        place["artifactLocation"]["uri"], "their%20report.md",
        "relative and percent-encoded"
    );
    assert_eq!(
        (
            &place["region"]["startLine"],
            &place["region"]["startColumn"]
        ),
        (&3.into(), &9.into())
    );
    let nowhere = audit(
        &project,
        WRONG,
        &["--sarif", "no/such/folder/findings.sarif"],
    );
    assert_eq!(nowhere.code, Some(4));
    assert!(
        nowhere.stderr.contains("findings.sarif"),
        "{}",
        nowhere.stderr
    );
}

#[test]
fn tables_of_every_format_are_files_or_in_folders_and_yield_the_numbers() {
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
    for (file, argument, bytes) in [
        ("tables/rates.csv", "tables/rates.csv", CSV.as_bytes()),
        (
            "tables/below/rates.tsv",
            "tables",
            CSV.replace(',', "\t").as_bytes(),
        ),
        ("rates.jsonl", "rates.jsonl", json.as_bytes()),
        ("rates.parquet", "rates.parquet", parquet.as_slice()),
    ] {
        let project = Project::new();
        write(&project, file, bytes);
        let right = audit(&project, &clean(), &["--data", argument]);
        assert_eq!(right.code, Some(0), "{file}: {}", right.stdout);
        assert!(
            right.stdout.contains("5 cell") && right.stdout.contains("1 in the data"),
            "{file}: {}",
            right.stdout
        );
        let wrong = audit(
            &project,
            &clean().replace("50.75", "57.05"),
            &["--data", argument, "--page", "sources.html"],
        );
        assert_eq!(wrong.code, Some(1), "{file}: {}", wrong.stdout);
        assert!(
            wrong.stdout.contains("data: the data gives 50.75") && wrong.stdout.contains(file),
            "{file}: {}",
            wrong.stdout
        );
        let page = fs::read_to_string(project.path().join("sources.html")).expect("the page");
        assert!(
            page.contains("Differs from the data") && page.contains("50.75"),
            "{page}"
        );
    }
}

#[test]
fn a_data_file_that_cannot_be_read_is_named_with_its_line_and_harms_no_other() {
    let project = Project::new();
    for (file, bytes) in [
        ("rates.csv", CSV.as_bytes()),
        ("empty.csv", b""),
        ("ragged.csv", b"a,b\n1,2\n3\n"),
        ("latin.csv", b"a,b\n1,2\nM\xfcller,3\n"),
        ("broken.jsonl", b"{\"a\": 1}\n{\"a\": \n"),
        ("list.jsonl", b"[1, 2]\n"),
        ("corrupt.parquet", b"PAR1 and no more"),
        ("notes.txt", b"not a table"),
    ] {
        write(&project, &format!("tables/{file}"), bytes);
    }
    let outcome = audit(&project, &clean(), &["--data", "tables"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stdout);
    for wanted in [
        "empty.csv: the file is empty",
        "ragged.csv:3: 1 field, but 2 headings",
        "latin.csv:3: the line is not UTF-8 text",
        "broken.jsonl:2: ",
        "list.jsonl:1: ",
        "corrupt.parquet: ",
    ] {
        assert!(
            outcome
                .stdout
                .contains(&format!("not read: tables/{wanted}")),
            "{wanted}\n{}",
            outcome.stdout
        );
    }
    assert!(
        !outcome.stdout.contains("notes.txt") && outcome.stdout.contains("1 in the data"),
        "{}",
        outcome.stdout
    );
    for (argument, words) in [
        ("tables/notes.txt", "not a table"),
        ("nowhere", "nowhere"),
        ("tables/empty.csv", "no table was read"),
    ] {
        let outcome = audit(&project, &clean(), &["--data", argument]);
        assert_eq!(outcome.code, Some(2), "{argument}");
        assert!(
            outcome.stderr.contains(words),
            "{argument}: {}",
            outcome.stderr
        );
    }
}

#[test]
fn flags_of_foreign_reports_need_foreign_and_own_reports_come_one_at_a_time() {
    let project = Project::new();
    for flag in [
        ["--data", "tables"],
        ["--sarif", "out.sarif"],
        ["--page", "page.md"],
    ] {
        let outcome = project.run(["audit", "report.md"].iter().chain(&flag));
        assert_eq!(outcome.code, Some(2), "{flag:?} needs --foreign");
    }
    let two = project.run(["audit", "one.md", "two.md"]);
    assert_eq!(two.code, Some(2));
    assert!(two.stderr.contains("--foreign"), "{}", two.stderr);
}

#[test]
fn a_report_and_data_beyond_the_limits_are_refused_before_they_are_read() {
    let project = Project::new();
    let sparse = |name: &str, size: u64| {
        let file = fs::File::create(project.path().join(name)).expect("a file");
        file.set_len(size).expect("a size");
    };
    sparse("large.md", 1 << 40);
    let refused = project.run(["audit", "--foreign", "large.md"]);
    assert_eq!(refused.code, Some(2));
    for part in [
        "large.md: it has 1099511627776 bytes; the limit is 16777216",
        "divide it",
    ] {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    sparse("large.csv", 1 << 40);
    let refused = audit(&project, &clean(), &["--data", "large.csv"]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.stderr.contains("the limit is 268435456"),
        "{}",
        refused.stderr
    );
    // Empty fields: more values than bytes.
    let many = [
        &b"a,b,c,d,e,f,g,h\n"[..],
        &b",,,,,,,\n".repeat((16 << 20) / 8 + 1),
    ]
    .concat();
    write(&project, "many.csv", &many);
    let refused = audit(&project, &clean(), &["--data", "many.csv"]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.stderr.contains("more than 16777216"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_sentence_that_is_too_long_is_named() {
    let project = Project::new();
    let long = format!("{}{}\n", clean(), "\na 1 b 2 c 3".repeat(200));
    let outcome = audit(&project, &long, &[]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(
        outcome
            .stdout
            .contains("not read: their report.md: sentences or cells with more than 300 numbers"),
        "{}",
        outcome.stdout
    );
}
