//! The numbers of a report: each leads to rows that reproduce it, and none can be typed by hand.

use std::fs;

use artifacts::Table;
use serde_json::Value;

use crate::support::{Outcome, Project, finished};

const REPORT: &str = "reports/quickstart.smoke/report.md";

/// The type 7 quantile (linear interpolation), implemented again here so that the product's version is not compared
/// with itself.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() - 1) as f64 / 2.0;
    let (low, high) = (values[at.floor() as usize], values[at.ceil() as usize]);
    low + (high - low) * (at - at.floor())
}

/// Returns line, column and full value of every number in the report from this column.
fn numbers_of(project: &Project, column: &str) -> Vec<(i64, i64, f64)> {
    let bytes = fs::read(
        project
            .path()
            .join("reports/quickstart.smoke/report.trace.parquet"),
    )
    .expect("the trace");
    let trace = Table::from_parquet(bytes).expect("a table");
    let columns = trace.text("column").expect("a column");
    let (lines, starts) = (
        trace.int("line").expect("lines"),
        trace.int("column_start").expect("columns"),
    );
    let values = trace.text("value").expect("values");
    (0..trace.rows())
        .filter(|row| columns[*row] == Some(column))
        .map(|row| {
            let value = values[row].expect("a value").parse().expect("a number");
            (
                lines[row].expect("a line"),
                starts[row].expect("a column"),
                value,
            )
        })
        .collect()
}

fn why(project: &Project, line: i64, column: i64) -> Value {
    project
        .run(["why", &format!("{REPORT}:{line}:{column}"), "--json"])
        .ok()
        .json()
}

#[test]
fn why_leads_from_a_median_to_the_request_rows_that_give_it_again() {
    let project = finished();
    let numbers = numbers_of(project, "ttft_ms_p50_mean");
    assert!(
        numbers.len() >= 12,
        "the report lost its times to first token"
    );
    for (line, column, shown) in numbers {
        let answer = why(project, line, column);
        let raw = answer["raw"].as_array().expect("raw rows");
        let mut times = Vec::new();
        for rows in raw.iter().filter(|r| r["output"] == "requests") {
            let digest = rows["artifact"].as_str().expect("a digest");
            let show = project.run(["show", digest, "--json"]).ok().json();
            let all = show["rows"].as_array().expect("rows");
            for span in rows["spans"].as_array().expect("spans") {
                let end =
                    |key: &str| usize::try_from(span[key].as_u64().expect("a row")).expect("a row");
                for row in &all[end("start")..end("end")] {
                    let ns = |key: &str| row[key].as_i64().expect("a time");
                    times.push((ns("first_token_ns") - ns("sent_ns")) as f64 / 1e6);
                }
            }
        }
        let again = median(times);
        assert!(
            (again - shown).abs() <= 1e-9 * shown.abs(),
            "line {line}: {again} from the rows, {shown} in the report"
        );
    }
}

#[test]
fn why_names_engine_host_and_gates_behind_a_number() {
    let project = finished();
    let (line, column, _) = numbers_of(project, "output_throughput_mean")[0];
    let shown = project
        .run(["why", &format!("{REPORT}:{line}:{column}")])
        .ok()
        .stdout;
    for part in [
        "engine llama-cpp",
        "smollm2-135m-instruct",
        "gates:",
        "request rows",
        "benchtrail show b3:",
    ] {
        assert!(shown.contains(part), "no `{part}` in:\n{shown}");
    }
}

#[test]
fn why_names_the_gates_behind_a_number_that_no_analysis_made() {
    let project = finished();
    let (line, column, _) = numbers_of(project, "stamp_error_bound")[0];
    let shown = project
        .run(["why", &format!("{REPORT}:{line}:{column}")])
        .ok()
        .stdout;
    assert!(shown.contains(" in 1 measured cell"), "{shown}");
}

#[test]
fn audit_verifies_every_number_of_the_report() {
    let shown = finished().run(["audit", REPORT]).ok().stdout;
    assert!(
        shown.contains("numbers") && shown.contains("verified"),
        "{shown}"
    );
}

#[test]
fn a_number_changed_in_the_report_is_named_by_audit() {
    let project = Project::finished();
    let (line, _, _) = numbers_of(&project, "output_throughput_mean")[0];
    let path = project.path().join(REPORT);
    let text = fs::read_to_string(&path).expect("the report");
    let lines = text.lines().enumerate().map(|(i, l)| {
        if i64::try_from(i).expect("a line") + 1 == line {
            // A different digit, whatever was measured.
            let other = if l.find(|c: char| c.is_ascii_digit()).map(|at| &l[at..=at]) == Some("9") {
                "1"
            } else {
                "9"
            };
            l.replacen(|c: char| c.is_ascii_digit(), other, 1)
        } else {
            l.to_owned()
        }
    });
    let spoilt = lines.collect::<Vec<_>>().join("\n") + "\n";
    assert_ne!(spoilt, text);
    fs::write(&path, spoilt).expect("the report can be written");
    let outcome = project.run(["audit", REPORT]);
    assert_eq!(outcome.code, Some(1), "{}", outcome.stdout);
    assert!(
        outcome.stdout.contains(&line.to_string()),
        "the line is not named:\n{}",
        outcome.stdout
    );
}

#[test]
fn a_byte_changed_in_a_request_table_is_named_by_audit_and_fsck() {
    let project = Project::finished();
    let (line, column, _) = numbers_of(&project, "output_throughput_mean")[0];
    let answer = why(&project, line, column);
    let raw = answer["raw"].as_array().expect("raw rows");
    let digest = raw
        .iter()
        .find(|r| r["output"] == "requests")
        .expect("requests")["artifact"]
        .as_str()
        .expect("a digest");
    let hex = digest.trim_start_matches("b3:");
    let object = project
        .path()
        .join(".benchtrail/objects")
        .join(&hex[..2])
        .join(&hex[2..]);
    let mut bytes = fs::read(&object).expect("the object");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    // The objects of the copy are hard links, so replace the file instead of writing through it.
    fs::remove_file(&object).expect("the link can be removed");
    fs::write(&object, bytes).expect("the object can be written");
    let message = |outcome: &Outcome| format!("{}{}", outcome.stdout, outcome.stderr);
    let audit = project.run(["audit", REPORT]);
    assert!(
        audit.code != Some(0) && message(&audit).contains(&hex[..12]),
        "{:?}\n{}",
        audit.code,
        message(&audit)
    );
    let fsck = project.run(["fsck"]);
    assert_eq!(fsck.code, Some(3), "{}", message(&fsck));
    assert!(message(&fsck).contains(&hex[2..14]), "{}", message(&fsck));
}

#[test]
fn a_digit_typed_into_a_template_fails_the_report_and_names_its_line() {
    let project = Project::finished();
    project.edit(
        "templates/partials/limits.md",
        "## Limits\n",
        "## Limits\n\nAbout 37 % more.\n",
    );
    let text = fs::read_to_string(project.path().join("templates/partials/limits.md"))
        .expect("the partial");
    let line = text
        .lines()
        .position(|l| l.contains("About 37 %"))
        .expect("the line")
        + 1;
    let outcome = project.run(["run", "experiments/quickstart.yaml", "--smoke"]);
    assert_eq!(
        outcome.code,
        Some(1),
        "{}\n{}",
        outcome.stdout,
        outcome.stderr
    );
    let place = format!("partials/limits.md:{line}");
    assert!(
        outcome.stderr.contains(&place) && outcome.stderr.contains("37"),
        "{}",
        outcome.stderr
    );
}
