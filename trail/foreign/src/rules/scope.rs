//! What a rule sees, and how it reports.

use crate::finding::{Confidence, Evidence, Finding};
use crate::rules::Rule;
use crate::table::Table;
use crate::text::{Prose, Report};

/// A report and the data it is compared with.
pub(crate) struct Scope<'a> {
    pub(crate) report: &'a Report,
    pub(crate) data: &'a [Table],
}

/// A finding about a part of a paragraph.
pub(crate) fn in_prose(
    prose: &Prose,
    (start, end): (usize, usize),
    (rule, confidence): (Rule, Confidence),
    message: String,
    evidence: Vec<Evidence>,
) -> Finding {
    let (line, column) = prose.place(start);
    Finding {
        rule,
        confidence,
        line,
        column,
        quote: clip(prose.text.get(start..end).unwrap_or("")),
        message,
        evidence,
    }
}

/// A finding about a cell or, with column 0, a row's label.
pub(crate) fn in_table(
    table: &Table,
    (row, column): (usize, usize),
    (rule, confidence): (Rule, Confidence),
    message: String,
    evidence: Vec<Evidence>,
) -> Finding {
    let line = table.rows.get(row).map_or(table.line, |row| row.line);
    let cell = table.rows.get(row).and_then(|row| row.cells.get(column));
    let quote = table.rows.get(row).map_or(String::new(), |row| {
        row.cells
            .iter()
            .map(|cell| cell.text.as_str())
            .collect::<Vec<_>>()
            .join(" | ")
    });
    Finding {
        rule,
        confidence,
        line,
        column: cell.map_or(1, |cell| cell.column),
        quote: clip(&quote),
        message,
        evidence,
    }
}

/// At most 200 characters.
pub(crate) fn clip(text: &str) -> String {
    if text.chars().count() <= 200 {
        return text.to_owned();
    }
    let mut clipped: String = text.chars().take(199).collect();
    clipped.push('…');
    clipped
}
