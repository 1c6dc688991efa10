//! R-SAME: a cell that is in two tables, of the report or of the data, has one value.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{Confidence, Evidence, Finding};
use crate::number::Quantity;
use crate::rules::Rule;
use crate::rules::scope::{Scope, in_table};
use crate::rules::words::words;
use crate::table::Table;

/// Tables are joined only if this many cells agree for one that does not.
const AGREEING: usize = 3;

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    let tables = &scope.report.tables;
    let cells: Vec<Cells> = tables.iter().map(wide).collect();
    // Tables that share a cell's words; of words that recur everywhere only the last few tables.
    let mut holders: BTreeMap<&(BTreeSet<String>, BTreeSet<String>), Vec<usize>> = BTreeMap::new();
    let mut pairs: BTreeSet<(usize, usize)> = BTreeSet::new();
    for (index, own) in cells.iter().enumerate() {
        for key in own.keys() {
            let known = holders.entry(key).or_default();
            pairs.extend(known.iter().rev().take(8).map(|&earlier| (index, earlier)));
            known.push(index);
        }
    }
    for (later, earlier) in pairs {
        join(
            &tables[later],
            &cells[later],
            &tables[earlier],
            &cells[earlier],
            found,
        );
    }
    for data in scope.data.iter().filter(|data| data.rows.len() <= 20_000) {
        let wide_data = wide(data);
        let long_data = long(data);
        for (table, own) in tables.iter().zip(&cells) {
            let before = found.len();
            join(table, own, data, &wide_data, found);
            if found.len() == before {
                join_long(table, data, long_data.as_ref(), found);
            }
        }
    }
}

/// The cells of a table by the words of their row and column; cells that share their words are dropped.
type Cells = BTreeMap<(BTreeSet<String>, BTreeSet<String>), Option<(usize, usize)>>;

fn wide(table: &Table) -> Cells {
    let mut cells = Cells::new();
    for column in table.numeric_columns() {
        let name = words(&table.columns[column].replace('_', " "));
        if name.is_empty() {
            continue;
        }
        for (row, _) in table.numbers(column) {
            // A label that is filler (`a`) is still a label.
            let mut label = words(table.label(row));
            if label.is_empty() {
                label.insert(table.label(row).to_lowercase());
            }
            if !table.label(row).is_empty() {
                cells
                    .entry((label, name.clone()))
                    .and_modify(|cell| *cell = None)
                    .or_insert(Some((row, column)));
            }
        }
    }
    cells
}

/// Whether two printed numbers can be one: equal within the rounding of the coarser.
fn equal(a: &Quantity, b: &Quantity) -> bool {
    (a.value - b.value).abs() <= (a.half + b.half) * 1.0001
}

fn join(table: &Table, own: &Cells, other: &Table, theirs: &Cells, found: &mut Vec<Finding>) {
    let mut agree = 0;
    let mut differ = Vec::new();
    for (key, cell) in own {
        let (Some((row, column)), Some(Some((r, c)))) = (cell, theirs.get(key)) else {
            continue;
        };
        let (Some(a), Some(b)) = (table.value(*row, *column), other.value(*r, *c)) else {
            continue;
        };
        if !a.unit.is_empty() && !b.unit.is_empty() && a.unit != b.unit {
            continue;
        }
        if equal(a, b) {
            agree += 1;
        } else {
            differ.push(((*row, *column), (*r, *c)));
        }
    }
    report(table, other, agree, differ, found);
}

fn report(
    table: &Table,
    other: &Table,
    agree: usize,
    differ: Vec<((usize, usize), (usize, usize))>,
    found: &mut Vec<Finding>,
) {
    if differ.is_empty() || agree < AGREEING || agree < AGREEING * differ.len() {
        return;
    }
    for ((row, column), (r, c)) in differ {
        let text =
            |table: &Table, row: usize, column: usize| table.rows[row].cells[column].text.clone();
        let message = format!(
            "{} here, {} there; {agree} other cells of the two tables agree",
            text(table, row, column),
            text(other, r, c)
        );
        let evidence = vec![
            Evidence::new(table.cell_place(row, column), text(table, row, column)),
            Evidence::new(other.cell_place(r, c), text(other, r, c)),
        ];
        let confidence = if agree >= 8 {
            Confidence::High
        } else {
            Confidence::Medium
        };
        found.push(in_table(
            table,
            (row, column),
            (Rule::Same, confidence),
            message,
            evidence,
        ));
    }
}

/// A data table with one value per row: the other columns are the key.
struct Long {
    /// The measure.
    value: usize,
    /// Rows by the whole key.
    rows: Vec<(Vec<String>, usize)>,
    /// Rows by each part of their key.
    by_part: BTreeMap<String, Vec<usize>>,
}

/// Text columns and whole numbers are the key, if exactly one column holds fractions.
fn long(data: &Table) -> Option<Long> {
    let columns = 0..data.columns.len();
    let fractions: Vec<usize> = columns
        .clone()
        .filter(|&c| data.numbers(c).iter().any(|(_, q)| q.half < 0.5))
        .collect();
    let plain = |c: usize| {
        data.rows.iter().all(|row| {
            row.cells
                .get(c)
                .is_some_and(|cell| cell.text.len() < 60 && !cell.text.contains(' '))
        })
    };
    let numeric = |c: usize| {
        data.numbers(c).len() == data.rows.len()
            && data.numbers(c).iter().all(|(_, q)| q.is_count())
    };
    let text = |c: usize| data.numbers(c).is_empty();
    let [value] = fractions.as_slice() else {
        return None;
    };
    let keys: Vec<usize> = columns
        .filter(|c| c != value && plain(*c) && (numeric(*c) || text(*c)))
        .collect();
    if keys.len() < 2 || keys.len() + 1 < data.columns.len() {
        return None;
    }
    let mut rows = Vec::new();
    let mut by_part: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, row) in data.rows.iter().enumerate() {
        let key: Vec<String> = keys
            .iter()
            .map(|&c| row.cells[c].text.to_lowercase())
            .collect();
        for part in &key {
            by_part.entry(part.clone()).or_default().push(rows.len());
        }
        rows.push((key, index));
    }
    Some(Long {
        value: *value,
        rows,
        by_part,
    })
}

/// Joins a table of the report with a long data table: every part of a row's key must be in the label, in
/// the name of the column or in the words before the table, and only one row may fit.
fn join_long(table: &Table, data: &Table, long: Option<&Long>, found: &mut Vec<Finding>) {
    let Some(long) = long else { return };
    let loose = |text: &str| -> BTreeSet<String> {
        text.split(|c: char| {
            c.is_whitespace()
                || matches!(c, '=' | ',' | ':' | ';' | '(' | ')' | '@' | '|' | '·' | '×')
        })
        .map(|word| word.trim_matches(['.', '"', '\'']).to_lowercase())
        .filter(|word| !word.is_empty())
        .collect()
    };
    let last = table.context.rsplit(". ").next().unwrap_or("");
    let context = loose(last);
    let mut agree = 0;
    let mut differ = Vec::new();
    for row in 0..table.rows.len() {
        let label = loose(table.label(row));
        let Some(candidates) = label
            .iter()
            .filter_map(|part| long.by_part.get(part))
            .min_by_key(|rows| rows.len())
        else {
            continue;
        };
        for column in table.numeric_columns() {
            let name = loose(&table.columns[column]);
            let Some(a) = table.value(row, column).filter(|_| !name.is_empty()) else {
                continue;
            };
            let fits = |key: &[String]| {
                key.iter().all(|part| {
                    label.contains(part) || name.contains(part) || context.contains(part)
                }) && key.iter().any(|part| name.contains(part))
                    && key.iter().any(|part| label.contains(part))
            };
            let mut matching = candidates.iter().filter(|&&at| fits(&long.rows[at].0));
            let (Some(&at), None) = (matching.next(), matching.next()) else {
                continue;
            };
            let r = long.rows[at].1;
            let Some(b) = data.value(r, long.value) else {
                continue;
            };
            if equal(a, b) {
                agree += 1;
            } else {
                differ.push(((row, column), (r, long.value)));
            }
        }
    }
    report(table, data, agree, differ, found);
}
