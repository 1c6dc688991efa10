//! Counts in cells, and rows that are missing from one of several similar tables.

use std::collections::BTreeMap;

use crate::finding::{Evidence, Finding, Rule};
use crate::number::shown;
use crate::table::{Table, is_missing};
use crate::words::normal;

/// Checks cells `k / m` whose part exceeds the whole, and cells with a product whose count is in another column.
pub(super) fn counted_cells(table: &Table, findings: &mut Vec<Finding>) {
    let report = |row: usize, column: usize, message: String, cause: &str| Finding {
        rule: Rule::Total,
        line: table.spot(row, column).0,
        column: table.spot(row, column).1,
        quote: format!(
            "{} | {}",
            table.label(row),
            table.cell(row, column).map_or("", |cell| &cell.text)
        ),
        message,
        cause: format!("line {}: {cause}", table.line),
        evidence: Vec::new(),
    };
    for column in 0..table.columns.len() {
        let parts: Vec<Option<(f64, f64)>> = (0..table.rows.len())
            .map(|row| part_of(table.cell(row, column).map_or("", |cell| &cell.text)))
            .collect();
        let filled = (0..table.rows.len())
            .filter(|row| !is_missing(table.cell(*row, column).map_or("", |cell| &cell.text)))
            .count();
        let pairs: Vec<(usize, f64, f64)> = parts
            .iter()
            .enumerate()
            .filter_map(|(row, part)| part.map(|(k, m)| (row, k, m)))
            .collect();
        let (over, within): (Vec<(usize, f64, f64)>, Vec<_>) =
            pairs.iter().copied().partition(|pair| pair.1 > pair.2);
        if pairs.len() == filled
            && over.len() == 1
            && within.iter().any(|pair| pair.1 == pair.2)
            && !table.name(column).contains('/')
        {
            let (row, k, m) = over[0];
            findings.push(report(
                row,
                column,
                format!("{} of {}: a part above its whole", shown(k), shown(m)),
                table.name(column),
            ));
        }
        let products: Vec<(usize, f64)> = (0..table.rows.len())
            .filter_map(|row| Some((row, product(&table.cell(row, column)?.text)?)))
            .filter(|(_, value)| *value >= 10.0)
            .collect();
        if products.len() < 2 {
            continue;
        }
        for other in (0..table.columns.len()).filter(|other| *other != column) {
            let count = |row: usize| {
                let text = &table.cell(row, other)?.text;
                part_of(text).map(|part| part.1).or_else(|| {
                    table
                        .plain(row, other)
                        .filter(|n| n.is_count())
                        .map(|n| n.value)
                })
            };
            let (same, differ): (Vec<_>, Vec<_>) = products
                .iter()
                .filter(|(row, _)| count(*row).is_some())
                .partition(|(row, value)| count(*row) == Some(*value));
            if let ([(row, value)], false) = (differ.as_slice(), same.is_empty()) {
                let message = format!(
                    "`{}` gives {}",
                    table.cell(*row, column).map_or("", |cell| &cell.text),
                    shown(*value)
                );
                findings.push(report(*row, other, message, table.name(column)));
            }
        }
    }
}

/// Parses `84 / 84`.
pub(crate) fn part_of(text: &str) -> Option<(f64, f64)> {
    let (k, m) = text.split_once('/')?;
    let number = |part: &str| {
        let part = part.trim().replace(',', "");
        (!part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
            .then(|| part.parse().ok())
            .flatten()
    };
    Some((number(k)?, number(m)?))
}

/// The value of `7 models × 4 loads × 3 repeats`.
fn product(text: &str) -> Option<f64> {
    let factors: Vec<&str> = text.split('×').collect();
    if factors.len() < 2 {
        return None;
    }
    factors.iter().try_fold(1.0, |product, factor| {
        let mut words = factor.split_whitespace();
        let number: f64 = words.next()?.replace(',', "").parse().ok()?;
        words
            .all(|word| word.chars().all(char::is_alphabetic))
            .then_some(product * number)
    })
}

/// Finds tables that lack a row which all others with the same columns have.
pub(crate) fn missing_rows(tables: &[Table]) -> Vec<Finding> {
    let mut groups: BTreeMap<&[String], Vec<&Table>> = BTreeMap::new();
    for table in tables {
        if (0..table.columns.len()).any(|column| table.is_numeric(column)) {
            groups.entry(&table.columns).or_default().push(table);
        }
    }
    let mut findings = Vec::new();
    for group in groups.values().filter(|group| group.len() >= 3) {
        let labels = |table: &Table| -> Vec<String> {
            (0..table.rows.len())
                .map(|row| normal(table.label(row)))
                .collect()
        };
        let lists: Vec<Vec<String>> = group.iter().map(|table| labels(table)).collect();
        let Some(full) = lists.iter().max_by_key(|list| list.len()) else {
            continue;
        };
        let shorter: Vec<usize> = (0..lists.len()).filter(|at| lists[*at] != *full).collect();
        let [short] = shorter.as_slice() else {
            continue;
        };
        let lacking: Vec<&String> = full
            .iter()
            .filter(|label| !lists[*short].contains(label))
            .collect();
        let rest: Vec<&String> = full
            .iter()
            .filter(|label| lists[*short].contains(label))
            .collect();
        if let ([label], true) = (
            lacking.as_slice(),
            rest.iter().copied().eq(lists[*short].iter()) && !rest.is_empty(),
        ) {
            findings.push(Finding {
                rule: Rule::Restated,
                line: group[*short].line,
                column: 1,
                quote: group[*short].columns.join(" | "),
                message: format!(
                    "no row `{label}`, which the {} other tables with these columns have",
                    group.len() - 1
                ),
                cause: format!("line {}: rows", group[*short].line),
                evidence: Vec::new(),
            });
        }
    }
    findings
}

/// The maximum number of rows of a table that are compared, and the maximum distance between the tables.
const MOST_TWINS: usize = 100;
const NEAR_TABLES: usize = 30;

/// Compares cells with the same row label and header in two tables of a document. If all such cells but one are equal,
/// the tables show one measurement, and the cell that differs contradicts its twin.
pub(super) fn twins(tables: &[Table]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let labels: Vec<Vec<String>> = tables
        .iter()
        .map(|table| {
            let rows = 0..table.rows.len().min(MOST_TWINS);
            rows.map(|row| normal(table.label(row))).collect()
        })
        .collect();
    for (at, second) in tables.iter().enumerate() {
        for before in at.saturating_sub(NEAR_TABLES)..at {
            let first = &tables[before];
            let (same, differ) = shared((first, &labels[before]), (second, &labels[at]));
            let mut values: Vec<f64> = same.clone();
            values.sort_by(f64::total_cmp);
            values.dedup();
            let [(one, other)] = *differ.as_slice() else {
                continue;
            };
            // Two tables of one shape may describe two things that differ in one setting; an extract has fewer cells.
            let shape = |table: &Table, labels: &[String]| (table.columns.clone(), labels.to_vec());
            let extract = shape(first, &labels[before]) != shape(second, &labels[at]);
            let setting = |table: &Table, column: usize| {
                let name = normal(table.name(column));
                matches!(name.as_str(), "value" | "setting" | "default")
            };
            if values.len() < 3 || !extract || setting(second, other.1) {
                continue;
            }
            let text = |table: &Table, (row, column): (usize, usize)| {
                table
                    .cell(row, column)
                    .map_or(String::new(), |cell| cell.text.clone())
            };
            findings.push(Finding {
                rule: Rule::Restated,
                line: second.spot(other.0, other.1).0,
                column: second.spot(other.0, other.1).1,
                quote: format!("{} | {}", second.label(other.0), text(second, other)),
                message: format!(
                    "another table has {} for this cell, and the same as here for the {} others",
                    text(first, one),
                    same.len()
                ),
                cause: format!("line {}: twin", second.line),
                evidence: vec![Evidence::new(first.place(one.0, one.1), text(first, one))],
            });
        }
    }
    findings
}

/// The cell of one table, and its twin in another.
type Twin = ((usize, usize), (usize, usize));

/// The equal values of two tables at the same label and header, and the cells that differ by more than rounding.
fn shared(
    (first, labels): (&Table, &[String]),
    (second, others): (&Table, &[String]),
) -> (Vec<f64>, Vec<Twin>) {
    let (mut same, mut differ) = (Vec::new(), Vec::new());
    let unique = |list: &[String], label: &String| list.iter().filter(|l| *l == label).count() == 1;
    for (column, name) in first.columns.iter().enumerate().skip(1) {
        let mut twins =
            (1..second.columns.len()).filter(|c| !name.is_empty() && second.columns[*c] == *name);
        let (Some(twin), None) = (twins.next(), twins.next()) else {
            continue;
        };
        for (row, label) in labels.iter().enumerate() {
            let Some(other) = others.iter().position(|l| l == label) else {
                continue;
            };
            if label.is_empty() || !unique(labels, label) || !unique(others, label) {
                continue;
            }
            let (Some(a), Some(b)) = (first.plain(row, column), second.plain(other, twin)) else {
                continue;
            };
            // Small counts may be equal by chance.
            let telling = a.half * 20.0 < a.value.abs() && b.half * 20.0 < b.value.abs();
            if (a.value - b.value).abs() > 1.001 * (a.half + b.half) {
                differ.push(((row, column), (other, twin)));
            } else if telling {
                same.push(a.value);
            }
        }
    }
    (same, differ)
}
