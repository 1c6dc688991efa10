//! Compares words in tables: verdicts of an analysis, and gates.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::{Scalar, Table};
use pipeline::Coordinates;
use pipeline::place::plain_label;
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
    /// Whether a study lacks the table, or its column.
    #[serde(skip)]
    pub(crate) alone: bool,
}

/// The columns of an analysis whose words are verdicts.
const ANALYSIS: [&str; 3] = ["verdict", "winner", "breakdown_n"];
const GATES: [&str; 1] = ["outcome"];

/// Returns every verdict that differs, and every gate with a different outcome. Those of a table that only one study has
/// differ too: a verdict that was removed is not the same.
pub(crate) fn verdicts(a: &Side<'_>, b: &Side<'_>) -> Result<Vec<VerdictChange>, CompareError> {
    let mut tables = Vec::new();
    for (kinds, columns) in [(["analyze"], &ANALYSIS[..]), (["verify"], &GATES[..])] {
        let (before, after) = (a.tables(&kinds)?, b.tables(&kinds)?);
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for name in names {
            let both = [before.get(name), after.get(name)];
            let has = |column: &&&str| both.map(|table| table.is_some_and(|t| t.has(column)));
            for column in columns.iter().filter(|c| has(c).contains(&true)) {
                let alone = has(&column).contains(&false);
                let [was, is] = both.map(|table| match table.filter(|t| t.has(column)) {
                    Some(table) => words(table, column),
                    None => BTreeMap::new(),
                });
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
                            alone,
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
    // The column of one study may have whole numbers only, and that of the other not.
    let label = |k: &String| plain_label(table.value(k, row).unwrap_or(Scalar::Null));
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
