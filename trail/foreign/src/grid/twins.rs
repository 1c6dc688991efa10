//! Cells that two tables of a document share.

use crate::finding::{Evidence, Finding, Rule};
use crate::table::Table;
use crate::words::normal;

/// The maximum number of rows of a table that are compared, and the maximum distance between the tables.
const MOST_TWINS: usize = 100;
const NEAR_TABLES: usize = 30;

/// Compares cells with the same row label and header in two tables of a document. If all such cells but one are equal,
/// the tables show one measurement, and the cell that differs contradicts its twin.
pub(super) fn check(tables: &[Table]) -> Vec<Finding> {
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
            let text = first.text(one.0, one.1);
            let message = format!(
                "another table has {text} for this cell, and the same as here for the {} others",
                same.len()
            );
            let mut finding = second.finding(Rule::Restated, other, message, "twin", &[]);
            finding.evidence = vec![Evidence::new(first.place(one.0, one.1), text)];
            findings.push(finding);
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
