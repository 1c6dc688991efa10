//! R-SHAPE, R-DUP: rows and cells.

use crate::finding::{Confidence, Evidence, Finding};
use crate::rules::Rule;
use crate::rules::scope::{Scope, in_table};
use crate::table::{Cell, Row, Table};

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    for table in &scope.report.tables {
        if table.recovered {
            missing_values(table, found);
        } else {
            ragged(table, found);
        }
        twins(table, found);
    }
}

fn ragged(table: &Table, found: &mut Vec<Finding>) {
    for (index, row) in table.rows.iter().enumerate() {
        if row.cells.len() != table.columns.len() {
            let message = format!(
                "{} cells under a header of {}",
                row.cells.len(),
                table.columns.len()
            );
            let evidence = vec![Evidence::new(
                format!("line {}", table.line),
                table.header.clone(),
            )];
            found.push(in_table(
                table,
                (index, 0),
                (Rule::Shape, Confidence::High),
                message,
                evidence,
            ));
        }
    }
}

/// Rows of a table without bars that have fewer values than the others: which column lacks its value?
fn missing_values(table: &Table, found: &mut Vec<Finding>) {
    let counts: Vec<usize> = table.rows.iter().map(values).collect();
    let usual = counts.iter().copied().max().unwrap_or(0);
    let full = counts.iter().filter(|count| **count == usual).count();
    // A single value beside words may just as well be a sentence.
    if full * 2 <= counts.len() || usual < 2 {
        return;
    }
    let header = || {
        vec![Evidence::new(
            format!("line {}", table.line),
            table.header.clone(),
        )]
    };
    let empty: Vec<usize> = (0..counts.len()).filter(|&row| counts[row] == 0).collect();
    for (row, &count) in counts.iter().enumerate() {
        if count > 0 && count < usual && !doubtful(&table.rows[row], usual) {
            let message = format!(
                "{count} values where the other rows have {usual}: which column is absent? Write an explicit token for null"
            );
            found.push(in_table(
                table,
                (row, 0),
                (Rule::Shape, Confidence::High),
                message,
                header(),
            ));
        }
    }
    if let Some(&first) = empty.first() {
        let lines = empty
            .iter()
            .map(|&row| table.rows[row].line.to_string())
            .collect::<Vec<_>>()
            .join(", ");
        let message = format!(
            "rows without any value (lines {lines}) where the others have {usual}: write an explicit token for null"
        );
        found.push(in_table(
            table,
            (first, 0),
            (Rule::Shape, Confidence::Medium),
            message,
            header(),
        ));
    }
}

/// Values of a row; a remark behind the last one is none, a remark in brackets may stand for the next cell.
fn values(row: &Row) -> usize {
    let value = |cell: &Cell| {
        cell.value.is_some()
            || cell.text.starts_with('[')
            || cell.text.starts_with("N=")
            || !cell.text.contains(' ') && !cell.text.is_empty()
            || cell.text.starts_with("never")
    };
    row.cells.iter().skip(1).filter(|cell| value(cell)).count()
}

/// Whether a remark may hold a value: then the row is not to be judged.
fn doubtful(row: &Row, usual: usize) -> bool {
    let remark = row.cells.last().is_some_and(|cell| {
        cell.value.is_none()
            && cell.text.contains(' ')
            && cell.text.contains(|c: char| c.is_ascii_digit())
    });
    let bracket = row
        .cells
        .iter()
        .skip(1)
        .any(|cell| cell.value.is_some() && cell.text.contains(" ("));
    let count = values(row);
    (remark && count > 0) || (bracket && count + 1 >= usual)
}

/// A value of at least three digits that is in two neighbouring rows while their other values differ.
fn twins(table: &Table, found: &mut Vec<Finding>) {
    for column in table.numeric_columns() {
        for row in 1..table.rows.len() {
            let (Some(above), Some(here)) =
                (table.value(row - 1, column), table.value(row, column))
            else {
                continue;
            };
            let digits = (here.value.abs() / (2.0 * here.half)).round();
            if above.value != here.value
                || here.half >= 0.5
                || digits < 200.0
                || digits % 10.0 == 0.0
            {
                continue;
            }
            let value = |row: usize, column: usize| table.value(row, column).map(|q| q.value);
            let others = (1..table.columns.len()).filter(|&other| other != column);
            let differ = others
                .filter(|&o| {
                    value(row, o)
                        .zip(value(row - 1, o))
                        .is_some_and(|(a, b)| a != b)
                })
                .count();
            let around = row.saturating_sub(50)..(row + 50).min(table.rows.len());
            let repeats = around
                .filter(|&r| value(r, column) == Some(here.value))
                .count();
            if differ >= 2 && repeats == 2 {
                let message = format!(
                    "\"{}\" and \"{}\" have the same value to the last digit; confirm that it is not a copy",
                    table.label(row - 1),
                    table.label(row)
                );
                let evidence = vec![table.evidence(row - 1, column), table.evidence(row, column)];
                found.push(in_table(
                    table,
                    (row, column),
                    (Rule::Dup, Confidence::Low),
                    message,
                    evidence,
                ));
            }
        }
    }
}
