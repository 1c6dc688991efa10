//! Which columns and rows of a table a sentence speaks of.

use std::sync::LazyLock;

use regex::Regex;

use crate::number::Quantity;
use crate::rules::words::{names, words};
use crate::table::Table;
use crate::text::Prose;

/// Words that take something out of a quantifier or a superlative, or make it a wish.
pub(crate) static EXCEPTION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:except|other than|apart from|excluding|besides|but one|almost|nearly|most|save for|unless|if|would|should|target|SLO|goal|must)\b").expect("a regex")
});

/// The table a paragraph speaks of: the nearest before it in its own section, else the nearest after it.
pub(crate) fn beside<'a>(prose: &Prose, near: &[&'a Table]) -> Option<&'a Table> {
    let own = || near.iter().filter(|table| table.section == prose.section);
    own()
        .rfind(|table| table.line < prose.line())
        .or_else(|| own().find(|table| table.line > prose.line()))
        .copied()
}

/// Columns whose name is in a text: as written, or all its words (two at least, or one with a digit).
pub(crate) fn named_columns(table: &Table, text: &str) -> Vec<usize> {
    let here = words(text);
    let candidates: Vec<usize> = table
        .numeric_columns()
        .into_iter()
        .filter(|&c| !table.columns[c].is_empty())
        .collect();
    candidates
        .into_iter()
        .filter(|&c| {
            let name = bare(&table.columns[c]);
            let own = words(&name);
            let special = own.len() >= 2
                || own.iter().any(|w| w.contains(|c: char| c.is_ascii_digit()))
                || name.len() >= 5;
            special
                && !own.is_empty()
                && (names(text, &name) || own.len() >= 2 && own.is_subset(&here))
        })
        .collect()
}

/// A column's name without its unit: `P95 TTFT (ms)` is `P95 TTFT`.
pub(crate) fn bare(name: &str) -> String {
    name.split(" (").next().unwrap_or(name).trim().to_owned()
}

/// Rows whose label, as a whole, is in a text.
pub(crate) fn named_rows(table: &Table, text: &str) -> Vec<usize> {
    (0..table.rows.len())
        .filter(|&row| table.label(row).len() > 1 && names(text, table.label(row)))
        .collect()
}

/// Whether a number can be one of a column: same unit if both have one, same order of magnitude.
pub(crate) fn same_size(table: &Table, column: usize, number: &Quantity) -> bool {
    let values = table.numbers(column);
    let header = table.columns[column].to_lowercase();
    let unit = number.unit.is_empty()
        || values.iter().any(|(_, v)| v.unit == number.unit)
        || header.contains(&format!("({})", number.unit))
        || header.ends_with(&format!(" {}", number.unit));
    let (low, high) = values
        .iter()
        .fold((f64::INFINITY, 0.0f64), |(low, high), (_, v)| {
            (low.min(v.value.abs()), high.max(v.value.abs()))
        });
    // A column of numbers with units says nothing about a bare number of other precision.
    unit && number.value.abs() >= low / 3.0 && number.value.abs() <= high * 3.0
}
