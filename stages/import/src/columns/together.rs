//! Several mistakes of a file as one error, so that one look at the file mends them all.

use contract::{Phase, TokenSource};
use tabular::{Field, Sheet, there_are};

use super::{COUNTS, Map, is_time};
use crate::json::ImportError;

/// The number of further mistakes that an error lists.
const LISTED: usize = 4;

/// Joins mistakes into one error; `None` if there are none.
pub(super) fn several(errors: Vec<ImportError>) -> Option<ImportError> {
    let mut errors = errors.into_iter();
    let mut first = errors.next()?;
    let others: Vec<ImportError> = errors.collect();
    for other in others.iter().take(LISTED) {
        first.message.push_str(&format!("; {other}"));
        if !other.hint.is_empty() && !first.hint.contains(&other.hint) {
            first.hint.push_str(&format!("; {}", other.hint));
        }
    }
    if others.len() > LISTED {
        let more = others.len() - LISTED;
        first.message.push_str(&format!("; and {more} more"));
    }
    Some(first)
}

/// Adds the first mistake of every other column to the first mistake of a table.
pub(super) fn together(first: ImportError, map: &Map<'_>, rows: &[usize]) -> ImportError {
    let columns = map.import.columns.keys();
    let each = columns.filter_map(|name| rows.iter().find_map(|row| map.value(name, *row).err()));
    let mut errors = vec![first];
    for error in each {
        if !errors.contains(&error) {
            errors.push(error);
        }
    }
    several(errors).expect("there is at least one")
}

/// Returns the columns of a table, and where its rows probably are if it has only one.
pub(super) fn columns_hint(sheet: &Sheet) -> String {
    let names = there_are(sheet.names.iter().map(String::as_str));
    let list = |column: &&Vec<Field>| matches!(column.as_slice(), [Field::Other("a list")]);
    let mut lists = sheet
        .columns
        .iter()
        .zip(&sheet.names)
        .filter(|(column, _)| list(column));
    match (lists.next(), lists.next()) {
        (Some((_, name)), None) => {
            format!("{names}; if the requests are the items of `{name}`, write `rows: {name}`")
        }
        _ => names,
    }
}

impl Map<'_> {
    /// Reads one value, only to see whether it can be read.
    fn value(&self, name: &str, row: usize) -> Result<(), ImportError> {
        match name {
            "phase" => self.word::<Phase>(name, row).map(drop),
            "tokens_source" => self.word::<TokenSource>(name, row).map(drop),
            name if is_time(name) => self.time(name, row).map(drop),
            name if COUNTS.contains(&name) => self.count(name, row).map(drop),
            name => self.text(name, row).map(drop),
        }
    }
}
