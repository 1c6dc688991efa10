//! Errors planted by seed in reports known to be correct: how many are found in each class, without and with their
//! tables as data. The reports are Benchtrail's own, in which every number is traced; a folder of other documents can
//! be given.
//!
//!     BENCHTRAIL_MUTATIONS=40 BENCHTRAIL_MUTATIONS_DIR=~/docs cargo test -p foreign --test mutations -- --nocapture

#![expect(
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "prints the figures that the docs quote; the environment sets their number"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use foreign::{Audit, Cell, Document, Row, Status, Table, audit};

const REPORTS: &[&str] = &["docs/planted-grid/report.md", "docs/first-report/report.md"];

/// The number of errors of each class in each report by default.
const FEW: usize = 3;

/// A seeded random generator (SplitMix64, Steele et al. 2014).
struct Seed(u64);

impl Seed {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % most.max(1) as u64).unwrap_or(0)
    }
}

/// A number that can be altered: its line from 0, and its character range in the line.
#[derive(Clone)]
struct Spot {
    line: usize,
    start: usize,
    text: String,
    /// Whether it is in a table cell.
    cell: bool,
}

/// The numbers of the prose and of the cells that the line shows exactly as they are read.
fn spots(document: &Document, lines: &[Vec<char>]) -> Vec<Spot> {
    let mut spots = Vec::new();
    let mut add = |line: usize, column: usize, text: &str, cell: bool| {
        let digits = text
            .chars()
            .take_while(|c| c.is_ascii_digit() || *c == '.')
            .collect::<String>();
        let there: Option<String> = lines
            .get(line - 1)
            .and_then(|line| line.get(column - 1..column - 1 + digits.chars().count()))
            .map(|part| part.iter().collect());
        if digits.bytes().filter(u8::is_ascii_digit).count() >= 2 && there.as_ref() == Some(&digits)
        {
            spots.push(Spot {
                line: line - 1,
                start: column - 1,
                text: digits,
                cell,
            });
        }
    };
    for prose in &document.prose {
        for number in &prose.numbers {
            let (line, column) = prose.place(number.start);
            add(line, column, &prose.text[number.start..number.end], false);
        }
    }
    for table in &document.tables {
        for row in &table.rows {
            for cell in row
                .cells
                .iter()
                .skip(1)
                .filter(|cell| cell.plain().is_some())
            {
                add(row.line, cell.column, &cell.text, true);
            }
        }
    }
    spots
}

/// Returns the number with one digit changed, or off by 5 to 40 %, with the same number of decimals.
fn altered(text: &str, class: &str, seed: &mut Seed) -> Option<String> {
    let new = if class.ends_with("digit") {
        let places: Vec<usize> = text
            .char_indices()
            .filter(|(_, c)| c.is_ascii_digit())
            .map(|(at, _)| at)
            .collect();
        let at = places[seed.below(places.len())];
        let old = text[at..].chars().next()?.to_digit(10)?;
        let digit = (old + 1 + u32::try_from(seed.below(9)).ok()?) % 10;
        format!("{}{digit}{}", &text[..at], &text[at + 1..])
    } else {
        let value: f64 = text.parse().ok()?;
        let decimals = text.split_once('.').map_or(0, |(_, part)| part.len());
        let share = 0.05 + 0.35 * seed.below(1000) as f64 / 1000.0;
        let sign = if seed.below(2) == 0 { 1.0 } else { -1.0 };
        format!("{:.decimals$}", value * (1.0 + sign * share))
    };
    (new != text).then_some(new)
}

/// The tables in exported form: values only, without their places in the document.
fn exported(document: &Document) -> Vec<Table> {
    let plain = |row: &Row| Row {
        line: row.line,
        cells: row
            .cells
            .iter()
            .map(|cell| Cell::new(&cell.text, 1))
            .collect(),
    };
    let tables = document.tables.iter().enumerate().map(|(at, table)| Table {
        file: format!("table{at}.csv"),
        title: format!("table{at}"),
        rows: table.rows.iter().map(plain).collect(),
        ..table.clone()
    });
    tables.collect()
}

fn documents() -> Vec<(PathBuf, String)> {
    let mut paths: Vec<PathBuf> = Vec::new();
    if let Ok(folder) = std::env::var("BENCHTRAIL_MUTATIONS_DIR") {
        let mut open = vec![PathBuf::from(folder)];
        while let Some(next) = open.pop() {
            for entry in std::fs::read_dir(next).expect("a folder").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    open.push(path);
                } else if path.extension().is_some_and(|extension| extension == "md") {
                    paths.push(path);
                }
            }
        }
        paths.sort();
    } else {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        paths.extend(REPORTS.iter().map(|report| root.join(report)));
    }
    paths
        .into_iter()
        .filter_map(|path| Some((path.clone(), std::fs::read_to_string(path).ok()?)))
        .collect()
}

/// Whether there is a finding at a line that the unaltered document does not have.
fn has_new_finding(before: &Audit, after: &Audit, line: usize) -> bool {
    let reported = |audit: &Audit| {
        audit
            .findings
            .iter()
            .filter(|finding| finding.line == line + 1)
            .count()
    };
    reported(after) > reported(before)
}

/// Counts the numbers in a line that have neither cell nor derivation on the page.
fn untraced(audit: &Audit, line: usize) -> usize {
    let numbers = audit.coverage.iter().flat_map(|coverage| &coverage.numbers);
    let open = |status| !matches!(status, Status::Cell | Status::Derived);
    numbers
        .filter(|number| number.line == line + 1 && open(number.status))
        .count()
}

#[test]
fn planted_errors_are_found_and_unaltered_reports_have_no_finding() {
    let each: usize = std::env::var("BENCHTRAIL_MUTATIONS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(FEW);
    let own = std::env::var("BENCHTRAIL_MUTATIONS_DIR").is_err();
    let mut seed = Seed(2025);
    let mut tally: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    for (path, text) in documents() {
        let document = Document::parse(&text);
        let data = exported(&document);
        let name = path.display().to_string();
        let (alone, traced) = (audit(&name, &text, &[]), audit(&name, &text, &data));
        if own {
            assert!(
                alone.findings.is_empty() && traced.findings.is_empty(),
                "{alone}\n{traced}"
            );
        }
        let lines: Vec<Vec<char>> = text.lines().map(|line| line.chars().collect()).collect();
        let spots = spots(&document, &lines);
        // The longer report is altered only when figures are requested.
        if own && each == FEW && lines.len() > 500 {
            continue;
        }
        for class in [
            "cell: one digit",
            "cell: off by 5 to 40 %",
            "prose: one digit",
            "prose: off by 5 to 40 %",
        ] {
            let of_class: Vec<&Spot> = spots
                .iter()
                .filter(|spot| spot.cell == class.starts_with("cell"))
                .collect();
            for _ in 0..each.min(of_class.len()) {
                let spot = of_class[seed.below(of_class.len())];
                let Some(new) = altered(&spot.text, class, &mut seed) else {
                    continue;
                };
                let mut changed = lines.clone();
                changed[spot.line].splice(
                    spot.start..spot.start + spot.text.chars().count(),
                    new.chars(),
                );
                let changed: Vec<String> = changed
                    .into_iter()
                    .map(|line| line.into_iter().collect())
                    .collect();
                let changed = changed.join("\n");
                let counts = tally.entry(class).or_default();
                counts[0] += 1;
                counts[1] += usize::from(has_new_finding(
                    &alone,
                    &audit(&name, &changed, &[]),
                    spot.line,
                ));
                let after = audit(&name, &changed, &data);
                counts[2] += usize::from(has_new_finding(&traced, &after, spot.line));
                counts[3] +=
                    usize::from(untraced(&after, spot.line) > untraced(&traced, spot.line));
            }
        }
    }
    for (class, [made, alone, traced, shown]) in &tally {
        eprintln!(
            "{class}: {made} made; found from the document alone {alone}, with its tables as data {traced}; shown as untraced {shown}"
        );
    }
    let traced: usize = tally
        .iter()
        .filter(|(class, _)| class.starts_with("cell"))
        .map(|(_, counts)| counts[2])
        .sum();
    assert!(
        traced > 0,
        "a cell that differs from its data is found: {tally:?}"
    );
}
