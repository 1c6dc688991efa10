//! Compares words in tables: verdicts of an analysis, and gates.

use std::collections::BTreeMap;

use artifacts::{Scalar, Table};
use pipeline::Coordinates;
use serde::Serialize;

use crate::side::{CompareError, Side};

/// A verdict that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerdictChange {
    /// The table.
    pub table: String,
    /// The row, by its key columns.
    pub row: String,
    /// The column.
    pub column: String,
    /// The word in the older study; `None` if the row is missing.
    pub a: Option<String>,
    /// The word in the newer study; `None` if the row is missing.
    pub b: Option<String>,
}

/// The columns of an analysis whose words are verdicts.
const ANALYSIS: [&str; 3] = ["verdict", "winner", "breakdown_n"];
const GATES: [&str; 1] = ["outcome"];

/// Returns every verdict that differs, and every gate with a different outcome.
pub(crate) fn verdicts(a: &Side<'_>, b: &Side<'_>) -> Result<Vec<VerdictChange>, CompareError> {
    let mut tables = Vec::new();
    for (kinds, columns) in [(["analyze"], &ANALYSIS[..]), (["verify"], &GATES[..])] {
        let (before, after) = (a.tables(&kinds)?, b.tables(&kinds)?);
        for (name, newer) in &after {
            let Some(older) = before.get(name) else {
                continue;
            };
            for column in columns.iter().filter(|c| newer.has(c) && older.has(c)) {
                let (was, is) = (words(older, column), words(newer, column));
                let mut rows: Vec<&String> = was.keys().chain(is.keys()).collect();
                rows.sort();
                rows.dedup();
                for row in rows {
                    let (a, b) = (was.get(row).cloned(), is.get(row).cloned());
                    if a != b {
                        let (table, row, column) =
                            (name.clone(), row.clone(), (*column).to_owned());
                        tables.push(VerdictChange {
                            table,
                            row,
                            column,
                            a,
                            b,
                        });
                    }
                }
            }
        }
    }
    Ok(tables)
}

/// Returns the columns that distinguish the rows of a table.
pub(crate) fn keys(table: &Table) -> Vec<String> {
    let declared = table.metadata("keys").unwrap_or_default();
    declared
        .split(',')
        .filter(|k| !k.is_empty() && table.has(k))
        .map(str::to_owned)
        .collect()
}

/// Returns a row's key, formatted like coordinates.
pub(crate) fn row_key(table: &Table, keys: &[String], row: usize) -> String {
    let label = |k: &String| table.value(k, row).unwrap_or(Scalar::Null);
    Coordinates(keys.iter().map(|k| (k.clone(), label(k))).collect()).to_string()
}

fn words(table: &Table, column: &str) -> BTreeMap<String, String> {
    let keys = keys(table);
    let value = |row| match table.value(column, row) {
        Ok(Scalar::Null) | Err(_) => "null".to_owned(),
        Ok(value) => value.to_string(),
    };
    (0..table.rows())
        .map(|row| (row_key(table, &keys, row), value(row)))
        .collect()
}
