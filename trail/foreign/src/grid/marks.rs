//! The mark that a table gives to its best numbers: bold.

use std::collections::BTreeSet;

use crate::finding::{Finding, Rule};
use crate::table::Table;

/// Checks that the bold number of a column is its largest or smallest, if it is in three other columns.
pub(super) fn check(table: &Table, findings: &mut Vec<Finding>) {
    let (mut extreme, mut inner) = (Vec::new(), Vec::new());
    let rows = 0..table.rows.len();
    for column in (0..table.columns.len()).filter(|column| table.is_numeric(*column)) {
        let bold = |row: &usize| table.cell(*row, column).is_some_and(|cell| cell.bold);
        let marked: Vec<usize> = rows.clone().filter(bold).collect();
        let number = |row| table.plain(row, column).map(|n| n.value);
        let numbers: Option<Vec<f64>> = rows.clone().map(number).collect();
        let (Some(values), [row]) = (numbers, marked.as_slice()) else {
            continue;
        };
        let own = values[*row];
        let end = values.iter().all(|v| *v <= own) || values.iter().all(|v| *v >= own);
        if values.len() >= 3 {
            if end { &mut extreme } else { &mut inner }.push((*row, column));
        }
    }
    // Bold numbers of one row may only mark the row.
    let rows: BTreeSet<usize> = extreme.iter().map(|at| at.0).collect();
    if let ([at], true) = (inner.as_slice(), extreme.len() >= 3 && rows.len() >= 2) {
        let message = format!(
            "bold, but neither the largest nor the smallest of its column, as in the {} other columns",
            extreme.len()
        );
        findings.push(table.finding(Rule::Relation, *at, message, "bold numbers", &[]));
    }
}
