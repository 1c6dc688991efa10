//! Every rule finds an error planted in a report of our own and is silent on its twin without the error.

use foreign::{Cell, Confidence, Row, Rule, Table, audit};

mod families;
mod statements;
mod tables;

/// A clean report, what is replaced in it, by what, and the rule that must find it.
struct Case {
    rule: Rule,
    report: &'static str,
    from: &'static str,
    to: &'static str,
}

fn cases() -> Vec<(Case, String)> {
    families::cases()
        .into_iter()
        .chain(tables::cases())
        .chain(statements::cases())
        .collect()
}

#[test]
fn a_planted_error_is_found_by_its_rule_and_the_clean_twin_is_silent() {
    let mut wrong = Vec::new();
    for (case, clean) in cases() {
        assert!(
            clean.contains(case.from),
            "{:?} is not in\n{clean}",
            case.from
        );
        let quiet = audit("clean.md", &clean, &[], Vec::new());
        if !quiet.findings.is_empty() {
            wrong.push(format!("{} cries wolf on\n{clean}\n{quiet}", case.rule));
        }
        let planted = clean.replacen(case.from, case.to, 1);
        let found = audit("planted.md", &planted, &[], Vec::new());
        if !found
            .findings
            .iter()
            .any(|finding| finding.rule == case.rule)
        {
            wrong.push(format!("{} misses\n{planted}\n{found}", case.rule));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n====\n"));
}

#[test]
fn every_rule_has_a_planted_error() {
    let planted: Vec<Rule> = cases().into_iter().map(|(case, _)| case.rule).collect();
    for rule in Rule::ALL {
        assert!(planted.contains(rule), "{rule} has no case");
    }
}

fn data(file: &str, text: &str) -> Table {
    let mut lines = text.lines();
    let split = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    Table {
        file: file.to_owned(),
        columns: split(lines.next().unwrap_or("")),
        rows: lines
            .enumerate()
            .map(|(at, line)| Row {
                line: at + 2,
                cells: split(line).iter().map(|cell| Cell::new(cell, 1)).collect(),
            })
            .collect(),
        ..Table::default()
    }
}

#[test]
fn a_cell_that_differs_from_a_long_data_table_is_found() {
    let table = data(
        "curves.csv",
        "engine,model,n,efficiency\nswift,ash-3b,1,1.000\nswift,ash-3b,2,0.981\nswift,ash-3b,4,0.902\nswift,oak-7b,1,1.000\nswift,oak-7b,2,0.951\nswift,oak-7b,4,0.853\n\
         robin,ash-3b,1,1.000\nrobin,ash-3b,2,0.881\nrobin,ash-3b,4,0.802\nrobin,oak-7b,1,1.000\nrobin,oak-7b,2,0.851\nrobin,oak-7b,4,0.753",
    );
    let clean = "The swift curves:\n\n| Model | N=1 | N=2 | N=4 |\n|---|---|---|---|\n| ash-3b | 1.000 | 0.981 | 0.902 |\n| oak-7b | 1.000 | 0.951 | 0.853 |\n";
    let quiet = audit("r.md", clean, std::slice::from_ref(&table), Vec::new());
    assert!(quiet.findings.is_empty(), "{quiet}");
    let found = audit(
        "r.md",
        &clean.replace("0.853", "0.835"),
        &[table],
        Vec::new(),
    );
    let finding = found.findings.first().expect("the changed cell is found");
    assert_eq!((finding.rule, finding.line), (Rule::Same, 6), "{found}");
    assert!(
        finding
            .evidence
            .iter()
            .any(|e| e.place.contains("curves.csv:7") && e.value == "0.853"),
        "{found}"
    );
}

#[test]
fn a_mean_called_a_median_is_found_in_raw_rows() {
    let rows: String = (1..=40)
        .map(|i| format!("\nswift,{},{}", i % 2, if i > 36 { 1000 } else { 100 + i }))
        .collect();
    let table = data("requests.csv", &format!("engine,rep,ttft_ms{rows}"));
    // 36 values of 101 to 136 and four of 1000.
    let clean = "For swift the mean TTFT is 206.7 ms and the median TTFT is 120 ms.\n";
    let quiet = audit("r.md", clean, std::slice::from_ref(&table), Vec::new());
    assert!(quiet.findings.is_empty(), "{quiet}");
    let planted = clean.replace("median TTFT is 120", "median TTFT is 206.7");
    let found = audit("r.md", &planted, &[table], Vec::new());
    assert_eq!(
        found.findings.first().map(|f| (f.rule, f.confidence)),
        Some((Rule::Stat, Confidence::High)),
        "{found}"
    );
}

#[test]
fn a_place_counts_characters_and_survives_emphasis() {
    let text = "Überall *galt*: **60.0%** nicht. Of all, 65.0% (12 of 20) passed.\n";
    let found = audit("r.md", text, &[], Vec::new());
    let finding = found.findings.first().expect("the share is wrong");
    let column = text
        .chars()
        .collect::<String>()
        .split("65.0")
        .next()
        .map_or(0, |before| before.chars().count() + 1);
    assert_eq!((finding.line, finding.column), (1, column), "{found}");
}

const RATES: &str = "| Engine | Users | Rate |\n|---|---|---|\n| swift | 1 | 48.25 |\n| swift | 8 | 50.75 |\n| robin | 1 | 47.35 |\n| robin | 8 | 47.95 |\n| crane | 1 | 51.15 |\n";

#[test]
fn a_row_that_the_data_have_and_the_table_lacks_is_found() {
    let table = data(
        "rates.csv",
        "engine,users,rate\nswift,1,48.25\nswift,8,50.75\nrobin,1,47.35\nrobin,8,47.95\ncrane,1,51.15",
    );
    let quiet = audit("r.md", RATES, std::slice::from_ref(&table), Vec::new());
    assert!(quiet.findings.is_empty(), "{quiet}");
    let found = audit(
        "r.md",
        &RATES.replace("| robin | 8 | 47.95 |\n", ""),
        &[table],
        Vec::new(),
    );
    let finding = found.findings.first().expect("the missing row is found");
    assert_eq!(
        (
            finding.rule,
            finding.evidence[0].place.contains("rates.csv:5")
        ),
        (Rule::Shape, true),
        "{found}"
    );
}

#[test]
fn a_row_with_the_label_of_another_is_found_in_the_data() {
    let table = data(
        "rates.csv",
        "engine,users,rate\nswift,1,48.25\nswift,8,50.75\nrobin,1,47.35\nrobin,8,47.95\ncrane,1,51.15",
    );
    let altered = RATES.replace("| robin | 8", "| swift | 8");
    let found = audit("r.md", &altered, &[table], Vec::new());
    assert!(
        found
            .findings
            .iter()
            .any(|f| f.rule == Rule::Same && f.line == 6),
        "{found}"
    );
}

#[test]
fn a_footnote_mark_is_no_part_of_a_label_or_a_number() {
    let text = RATES.replace("| swift | 8 | 50.75 |", "| swiftᵃ | 8 | 50.75 † |");
    let clean = format!("{text}\nᵃ One repetition.\n\nAt 8 users swift has a rate of 50.75.\n");
    let quiet = audit("r.md", &clean, &[], Vec::new());
    assert!(quiet.findings.is_empty(), "{quiet}");
    let found = audit(
        "r.md",
        &clean.replace("a rate of 50.75", "a rate of 47.95"),
        &[],
        Vec::new(),
    );
    assert!(
        found.findings.iter().any(|f| f.rule == Rule::Bind),
        "{found}"
    );
}
