//! R-DUP, R-SHAPE: the rows of a table that is a product of its labels (model × workload × clients).

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{Confidence, Evidence, Finding};
use crate::rules::Rule;
use crate::rules::keys::key;
use crate::rules::scope::{Scope, in_table};
use crate::table::Table;

/// Tables with fewer rows are not grids.
const LEAST_ROWS: usize = 4;

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    for table in scope.report.tables.iter().filter(|table| !table.recovered) {
        if (LEAST_ROWS..=2000).contains(&table.rows.len()) {
            product(table, found);
        }
    }
}

/// The labels from the left: text, then whole numbers, up to the first value.
fn labels(table: &Table) -> Vec<usize> {
    let label = |column: &usize| {
        table.rows.iter().all(|row| {
            row.cells.get(*column).is_some_and(|cell| {
                !cell.text.is_empty()
                    && cell.text.len() < 40
                    && cell.value.as_ref().is_none_or(|v| v.is_count())
            })
        })
    };
    (0..table.columns.len()).take_while(label).collect()
}

/// The fewest leading columns whose labels multiply to about the number of rows: one of them twice, or one missing.
fn product(table: &Table, found: &mut Vec<Finding>) {
    let labels = labels(table);
    for width in 1..=labels.len().min(5) {
        let columns = &labels[..width];
        let rows: Vec<Vec<String>> = (0..table.rows.len())
            .map(|row| key(table, row, columns))
            .collect();
        let distinct: BTreeSet<&Vec<String>> = rows.iter().collect();
        let levels: Vec<BTreeSet<&String>> = (0..width)
            .map(|at| rows.iter().map(|key| &key[at]).collect())
            .collect();
        let size: usize = levels.iter().map(BTreeSet::len).product();
        let grid = width > 1 && levels.iter().all(|level| level.len() > 1);
        let twice = rows.len() - distinct.len();
        if twice == 1 && (grid && size == rows.len() || labels.len() == 1) {
            repeated(table, columns, &rows, found);
            return;
        }
        if twice == 0 {
            if grid && size == rows.len() + 1 && size >= 8 {
                absent(table, columns, &rows, &levels, found);
            }
            return;
        }
    }
}

fn repeated(table: &Table, columns: &[usize], rows: &[Vec<String>], found: &mut Vec<Finding>) {
    let mut seen: BTreeMap<&Vec<String>, usize> = BTreeMap::new();
    for (row, key) in rows.iter().enumerate() {
        if let Some(&first) = seen.get(key) {
            let message = format!(
                "\"{}\" appears twice; one of the rows has the label of another",
                key.join(", ")
            );
            let evidence = [first, row]
                .map(|row| Evidence::new(format!("line {}", table.rows[row].line), key.join(", ")))
                .to_vec();
            let place = (row, columns.last().copied().unwrap_or(0));
            found.push(in_table(
                table,
                place,
                (Rule::Dup, Confidence::Medium),
                message,
                evidence,
            ));
        }
        seen.insert(key, row);
    }
}

fn absent(
    table: &Table,
    columns: &[usize],
    rows: &[Vec<String>],
    levels: &[BTreeSet<&String>],
    found: &mut Vec<Finding>,
) {
    // The label of each column that stands once less often than the others.
    let missing: Vec<&str> = (0..columns.len())
        .filter_map(|at| {
            let count = |level: &&&String| rows.iter().filter(|key| &key[at] == **level).count();
            levels[at]
                .iter()
                .min_by_key(count)
                .map(|level| level.as_str())
        })
        .collect();
    let message = format!(
        "a row is missing: \"{}\" has every other combination of its labels",
        missing.join(", ")
    );
    let near = rows
        .iter()
        .rposition(|key| key[0] == missing[0])
        .unwrap_or(0);
    let evidence = vec![Evidence::new(
        format!("line {}", table.line),
        table.header.clone(),
    )];
    found.push(in_table(
        table,
        (near, 0),
        (Rule::Shape, Confidence::Low),
        message,
        evidence,
    ));
}
