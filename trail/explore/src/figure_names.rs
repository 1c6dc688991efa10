//! The remedies for names that are not figures of a study.

use artifacts::{ColumnData, Store, Table};
use pipeline::lock::Lock;
use pipeline::suggest::{did_you_mean, list, remedy};

use crate::catalogue::{Catalogue, Entry};

/// Returns the remedy for a text that does not have the form STAGE.OUTPUT.COLUMN, by the tables of a study; `None` if the
/// study has no table of such a name.
pub fn figure_remedy(lock: &Lock, store: &Store, text: &str) -> Option<String> {
    let catalogue = Catalogue::read(lock, store).ok()?;
    let full = |table: &str| {
        let pair = catalogue.tables.get_key_value(table);
        pair.map(|(name, _)| name).or(catalogue.short.get(table))
    };
    let columns = |table: &str| {
        let entry = catalogue.tables.get(table);
        entry.map_or_else(Vec::new, |entry| numbers(entry, store))
    };
    if let Some(table) = full(text) {
        return match columns(table).as_slice() {
            [] => Some(format!("`{table}` has no column of numbers")),
            [first, ..] => Some(format!(
                "`{table}` is a table: name one of its columns too, such as `{table}.{first}`"
            )),
        };
    }
    if let Some((table, column)) = text.rsplit_once('.')
        && let Some(table) = full(table)
    {
        let columns = columns(table);
        return match columns.iter().any(|name| name == column) {
            true => Some(did_you_mean(format!("{table}.{column}"))),
            false => Some(format!(
                "in `{table}`, {}",
                remedy(column, "columns", columns)
            )),
        };
    }
    let of_stage = |name: &&String| name.split('.').next() == Some(text) && !is_lineage(name);
    let tables: Vec<&str> = (catalogue.tables.keys())
        .filter(of_stage)
        .map(String::as_str)
        .collect();
    if !tables.is_empty() {
        return Some(format!(
            "`{text}` is a stage: write STAGE.OUTPUT.COLUMN; its tables are {}",
            list(tables)
        ));
    }
    let has = |name: &&String| columns(name).iter().any(|column| column == text);
    let figures: Vec<String> = (catalogue.tables.keys())
        .filter(|name| !is_lineage(name))
        .filter(has)
        .map(|table| format!("{table}.{text}"))
        .collect();
    let figures = figures.iter().map(String::as_str);
    (figures.len() > 0).then(|| format!("`{text}` is a column: write {}", list(figures)))
}

fn is_lineage(table: &str) -> bool {
    table.ends_with(".lineage")
}

/// Returns the columns of numbers of a table: first measured ones, those with a unit in front.
fn numbers(entry: &Entry<'_>, store: &Store) -> Vec<String> {
    let Ok((table, _)) = Table::read_rows(store, &entry.sample.digest, 0..1) else {
        return Vec::new();
    };
    let kind = |name: &String| table.column(name).map(|column| column.data);
    let is_float = |name: &String| matches!(kind(name), Ok(ColumnData::Float(_)));
    let is_number = |name: &String| is_float(name) || matches!(kind(name), Ok(ColumnData::Int(_)));
    let mut names: Vec<String> = table.names().into_iter().filter(is_number).collect();
    names.sort_by_cached_key(|name| (!is_float(name), table.unit(name).is_none()));
    names
}

/// Returns why a table has no figure of this name, and the remedy.
pub(crate) fn not_a_figure(table_name: &str, table: &Table, column: &str) -> String {
    if table.has(column) {
        return format!("the column `{column}` of `{table_name}` does not hold numbers");
    }
    let remedy = remedy(column, "columns", table.names());
    format!("`{table_name}` has no column `{column}`; {remedy}")
}
