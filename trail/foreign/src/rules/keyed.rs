//! R-SAME: rows of two tables with the same keys have the same values.
//!
//! Columns are joined by their values and not by their names: a column belongs to the one it agrees with in most
//! rows, so that `Output tok/s` meets `output_throughput_mean`.

use std::collections::BTreeMap;

use crate::finding::{Confidence, Finding};
use crate::number::Quantity;
use crate::rules::Rule;
use crate::rules::keys::{key, keys};
use crate::rules::scope::{Scope, in_table};
use crate::rules::words::words;
use crate::table::Table;

/// Columns are joined if this many rows agree for each that does not.
const AGREEING: usize = 3;

/// Earlier tables of the report that a table is compared with.
const REACH: usize = 12;

/// Factors between the units of two columns: percent of a share, milliseconds of a second.
const SCALES: &[f64] = &[1.0, 100.0, 1000.0, 0.01, 0.001];

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    let tables = &scope.report.tables;
    let own: Vec<Option<Vec<usize>>> = tables.iter().map(keys).collect();
    let data = scope.data.iter().filter(|table| table.rows.len() <= 20_000);
    let data: Vec<(&Table, Option<Vec<usize>>)> = data.map(|table| (table, keys(table))).collect();
    for (at, table) in tables.iter().enumerate() {
        let earlier = at.saturating_sub(REACH)..at;
        let known = earlier.clone().map(|at| (&tables[at], &own[at]));
        for (other, their_keys) in known.chain(data.iter().map(|(table, keys)| (*table, keys))) {
            match &own[at] {
                Some(keys) => join(table, keys, other, found),
                // A label that stands twice tells no rows apart: the other table's keys do, by their names.
                None => {
                    let keys = their_keys
                        .as_ref()
                        .and_then(|keys| named_alike(table, other, keys));
                    keys.into_iter()
                        .for_each(|keys| join(table, &keys, other, found));
                }
            }
        }
    }
}

/// The columns of a table with the names of the other's keys.
fn named_alike(table: &Table, other: &Table, keys: &[usize]) -> Option<Vec<usize>> {
    keys.iter()
        .map(|&key| table.column(other.columns.get(key).filter(|name| !name.is_empty())?))
        .collect()
}

/// A column of the other table: how many rows agree, which column it is, and the pairs of rows that differ.
type Match = (usize, usize, Vec<(usize, usize)>);

fn join(table: &Table, keys: &[usize], other: &Table, found: &mut Vec<Finding>) {
    let Some(pairs) = rows(table, keys, other).filter(|pairs| pairs.len() > AGREEING) else {
        return;
    };
    absent(table, other, &pairs, found);
    for column in table
        .numeric_columns()
        .into_iter()
        .filter(|column| !keys.contains(column))
    {
        let mut best: Option<Match> = None;
        for theirs in 0..other.columns.len() {
            for scale in SCALES {
                let (mut agree, mut telling, mut differ) = (0, Vec::new(), Vec::new());
                for &(row, there) in &pairs {
                    let (Some(a), Some(b)) = (table.value(row, column), other.value(there, theirs))
                    else {
                        continue;
                    };
                    if equal(a, b, *scale) {
                        agree += 1;
                        // Zeros and ones agree with anything.
                        if [a, b]
                            .iter()
                            .all(|q| q.value.abs() / (2.0 * q.half) >= 20.0)
                        {
                            telling.push(a.value);
                        }
                    } else {
                        differ.push((row, there));
                    }
                }
                telling.sort_by(f64::total_cmp);
                telling.dedup();
                if telling.len() >= AGREEING
                    && agree >= AGREEING * differ.len()
                    && best.as_ref().is_none_or(|best| agree > best.0)
                {
                    best = Some((agree, theirs, differ));
                }
            }
        }
        let Some((agree, theirs, differ)) = best else {
            continue;
        };
        for (row, there) in differ {
            let text = |table: &Table, row: usize, column: usize| {
                table.rows[row].cells[column].text.clone()
            };
            let message = format!(
                "{} here, {} there; {agree} other rows of the two tables agree in this column",
                text(table, row, column),
                text(other, there, theirs)
            );
            let evidence = vec![table.evidence(row, column), other.evidence(there, theirs)];
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
}

/// The one row of a data table that the report's table, which has all others, lacks.
fn absent(table: &Table, data: &Table, pairs: &[(usize, usize)], found: &mut Vec<Finding>) {
    let whole = pairs.len() == table.rows.len() && data.rows.len() == table.rows.len() + 1;
    if data.file.is_empty() || !whole {
        return;
    }
    let missing = (0..data.rows.len()).find(|row| !pairs.iter().any(|pair| pair.1 == *row));
    let Some(row) = missing else { return };
    let before = pairs
        .iter()
        .filter(|pair| pair.1 < row)
        .map(|pair| pair.0)
        .max()
        .unwrap_or(0);
    let message = format!("the data have one more row: \"{}\"", data.label(row));
    let evidence = vec![data.evidence(row, 0)];
    found.push(in_table(
        table,
        (before, 0),
        (Rule::Shape, Confidence::Low),
        message,
        evidence,
    ));
}

/// Rows of both tables that have the same keys. Every key must be a column of the other table, by its labels;
/// rows of the other table that the keys do not tell apart are left out.
fn rows(table: &Table, keys: &[usize], other: &Table) -> Option<Vec<(usize, usize)>> {
    let mut theirs = Vec::new();
    for &own in keys {
        let labels: Vec<String> = (0..table.rows.len())
            .flat_map(|row| key(table, row, &[own]))
            .collect();
        let number = labels.iter().any(|label| label.parse::<f64>().is_ok());
        let name = words(&table.columns[own].replace('_', " "));
        let fitting = (0..other.columns.len()).find(|&column| {
            if theirs.contains(&column) {
                return false;
            }
            // Whole numbers are everywhere: there the names must have a word in common.
            let named = words(&other.columns[column].replace('_', " "))
                .intersection(&name)
                .next()
                .is_some();
            let there: Vec<String> = (0..other.rows.len())
                .flat_map(|row| key(other, row, &[column]))
                .collect();
            let shared = labels.iter().filter(|label| there.contains(label)).count();
            (named || !number) && shared * 2 > labels.len()
        });
        theirs.push(fitting?);
    }
    let mut index: BTreeMap<Vec<String>, Option<usize>> = BTreeMap::new();
    for row in 0..other.rows.len() {
        index
            .entry(key(other, row, &theirs))
            .and_modify(|row| *row = None)
            .or_insert(Some(row));
    }
    let pairs = (0..table.rows.len())
        .filter_map(|row| Some((row, index.get(&key(table, row, keys)).copied().flatten()?)));
    Some(pairs.collect())
}

/// Whether two printed numbers can be one: equal within the rounding of both.
fn equal(a: &Quantity, b: &Quantity, scale: f64) -> bool {
    (a.value - scale * b.value).abs() <= (a.half + scale * b.half) * 1.0001
}
