//! Counts in cells, and rows that one of several like tables lacks.

use std::collections::BTreeMap;

use crate::finding::{Finding, Rule};
use crate::number::shown;
use crate::table::{Table, is_missing};
use crate::words::normal;

/// Cells `k / m` with a part above its whole, and cells with a product whose count stands in another column.
pub(super) fn counted_cells(table: &Table, findings: &mut Vec<Finding>) {
    let report = |row: usize, column: usize, message: String, cause: &str| Finding {
        rule: Rule::Total,
        line: table.rows[row].line,
        column: table.cell(row, column).map_or(1, |cell| cell.column).max(1),
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

/// `84 / 84`.
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

/// Tables with the same columns of which one lacks a row that all others have.
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
