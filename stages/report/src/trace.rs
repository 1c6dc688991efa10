//! The trace: the artifact, row and column behind each number of the report.
//!
//! While a template renders, every traced text is wrapped in private-use characters that carry the position of its
//! [`Entry`] in the [`Ledger`] of this rendering. Lines of template text are preceded by marks that carry template and
//! line. [`extract`] removes all marks again and returns the clean Markdown, the place of each traced text, and the
//! origins.

use std::ops::Range;
use std::str::Chars;
use std::sync::{Arc, Mutex};

use artifacts::{Digest, Ratio, Scalar, Table, TableError};
use contract::TraceRow;
pub(crate) use contract::TraceSource;
use pipeline::place::{Condition, Coordinates};

use crate::format::clean;
use crate::guard::{Places, guarded, is_guard, unguarded};

const OPEN: char = '\u{e000}';
const MIDDLE: char = '\u{e001}';
const CLOSE: char = '\u{e002}';
const ORIGIN: char = '\u{e003}';
const ORIGIN_END: char = '\u{e004}';
const STATEMENT: char = '\u{e005}';
const STATEMENT_END: char = '\u{e006}';
const DIGIT: u32 = 0xe010;

/// Whether the renderer reserves this character.
pub(crate) fn is_mark(c: char) -> bool {
    ('\u{e000}'..='\u{e01f}').contains(&c)
}

/// A traced text and its origin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The text as rendered.
    pub(crate) text: String,
    /// The kind of its source.
    pub(crate) source: TraceSource,
    /// The stage that the artifact belongs to; empty for spec, ledger, trail and literals.
    pub(crate) stage: String,
    /// The coordinates of the cell that the artifact belongs to; `None` if it does not belong to a single cell, or is
    /// the report's own.
    pub(crate) coordinates: Option<Coordinates>,
    /// The output's name in the stage.
    pub(crate) output: String,
    /// The artifact.
    pub(crate) artifact: Option<Digest>,
    /// The row of the artifact, from 0.
    pub(crate) row: Option<u64>,
    /// The row's key columns; for counts, the condition; for missing cells, their coordinates. May be empty.
    pub(crate) row_key: Condition,
    /// The column, or the path in a JSON artifact or the spec; for literals, the reason.
    pub(crate) column: String,
    /// The value in full precision.
    pub(crate) value: Scalar,
    /// The unit of the column.
    pub(crate) unit: Option<String>,
    /// The sides of the ratio, for a ratio column.
    pub(crate) ratio: Option<Ratio>,
    /// The requested format.
    pub(crate) format: String,
}

impl Entry {
    /// Creates an entry without a place in an artifact.
    pub(crate) fn new(
        source: TraceSource,
        column: impl Into<String>,
        value: Scalar,
        text: impl Into<String>,
    ) -> Self {
        Self {
            text: text.into(),
            source,
            stage: String::new(),
            coordinates: None,
            output: String::new(),
            artifact: None,
            row: None,
            row_key: Condition::default(),
            column: column.into(),
            value,
            unit: None,
            ratio: None,
            format: String::new(),
        }
    }
}

/// The entries of one rendering, shared by everything that creates traced texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger(Arc<Mutex<Vec<Entry>>>);

impl Ledger {
    /// Records an entry and returns its text wrapped in marks.
    pub(crate) fn mark(&self, mut entry: Entry) -> String {
        entry.text = clean(&entry.text);
        let mut entries = self.0.lock().expect("no holder of this lock panics");
        let mut marked = String::from(OPEN);
        push_number(&mut marked, entries.len());
        marked.push(MIDDLE);
        marked.push_str(&guarded(&entry.text));
        marked.push(CLOSE);
        entries.push(entry);
        marked
    }

    /// Returns a statement's text wrapped in marks.
    pub(crate) fn enclose(&self, statement: usize, text: &str) -> String {
        let mut marked = String::from(STATEMENT);
        push_number(&mut marked, statement);
        marked.push(MIDDLE);
        marked.push_str(text);
        marked.push(STATEMENT_END);
        marked
    }

    /// Returns the entries so far.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.0
            .lock()
            .expect("no holder of this lock panics")
            .clone()
    }
}

/// Returns the mark that gives the following text's place in a template.
pub(crate) fn origin_mark(template: usize, line: usize, column: usize) -> String {
    let mut mark = String::from(ORIGIN);
    push_number(&mut mark, template);
    mark.push(MIDDLE);
    push_number(&mut mark, line);
    mark.push(MIDDLE);
    push_number(&mut mark, column);
    mark.push(ORIGIN_END);
    mark
}

/// Returns text without any marks.
pub(crate) fn unmarked(marked: &str) -> String {
    let mut plain = String::with_capacity(marked.len());
    let mut chars = marked.chars();
    while let Some(c) = chars.next() {
        match c {
            OPEN | STATEMENT => chars.by_ref().take_while(|c| *c != MIDDLE).for_each(drop),
            ORIGIN => chars
                .by_ref()
                .take_while(|c| *c != ORIGIN_END)
                .for_each(drop),
            c if is_mark(c) => {}
            c => plain.push(c),
        }
    }
    plain
}

fn push_number(text: &mut String, mut number: usize) {
    loop {
        let nibble = u32::try_from(number & 15).expect("four bits");
        text.push(char::from_u32(DIGIT + nibble).expect("a private-use character"));
        number >>= 4;
        if number == 0 {
            return;
        }
    }
}

fn take_number(chars: &mut Chars<'_>, end: char) -> Option<usize> {
    let mut number = 0usize;
    for position in 0.. {
        let c = chars.next()?;
        if c == end {
            return Some(number);
        }
        let nibble = u32::from(c).checked_sub(DIGIT).filter(|n| *n < 16)?;
        number |= usize::try_from(nibble).ok()?.checked_shl(4 * position)?;
    }
    None
}

/// The place of a traced text in the Markdown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TracedSpan {
    /// The line, from 1.
    pub(crate) line: usize,
    /// The first character on the line, from 1.
    pub(crate) column_start: usize,
    /// One past the last character.
    pub(crate) column_end: usize,
    /// The same place in bytes of the whole text.
    pub(crate) bytes: Range<usize>,
    /// The traced number or statement.
    pub(crate) entry: Entry,
}

/// A place in a template, which is given by its position among the rendered ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The start in the Markdown of the text from this line, in bytes.
    pub at: usize,
    /// The template.
    pub template: usize,
    /// The line, from 1.
    pub line: usize,
    /// The character of the line, from 1.
    pub column: usize,
}

/// The place of a statement's words in the Markdown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Enclosed {
    /// The position of the statement among the recorded ones.
    pub statement: usize,
    /// The place in bytes of the whole text.
    pub bytes: Range<usize>,
    /// Line and character of the first character, from 1.
    pub start: (usize, usize),
    /// Line and character one past the last, from 1.
    pub end: (usize, usize),
    /// The place of the words in a template.
    pub origin: Option<Origin>,
}

/// A rendering without its marks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Extracted {
    /// The Markdown.
    pub markdown: String,
    /// The traced texts, in order of position.
    pub spans: Vec<TracedSpan>,
    /// The starts of text from each template line, ascending.
    pub origins: Vec<Origin>,
    /// The statements, in order of their ends.
    pub statements: Vec<Enclosed>,
}

impl Extracted {
    /// Returns the place in a template behind the text at a byte.
    pub(crate) fn origin(&self, at: usize) -> Option<Origin> {
        let after = self.origins.partition_point(|o| o.at <= at);
        let origin = after.checked_sub(1).map(|i| self.origins[i])?;
        // Up to the next tag, plain text is the same here as in the template.
        let between = &self.markdown[origin.at..at];
        let column = if between.contains('\n') {
            0
        } else {
            between.chars().count()
        };
        Some(Origin {
            column: origin.column + column,
            ..origin
        })
    }
}

/// Removes the marks. Consecutive blank lines become one, and the text ends in exactly one line break.
///
/// # Errors
/// If a filter of the template changed a traced text or cut a mark in half.
pub(crate) fn extract(rendered: &str, ledger: &Ledger) -> Result<Extracted, String> {
    let entries = ledger.entries();
    let mut extractor = Extractor {
        out: Extracted::default(),
        line: 1,
        column: 1,
        open: Vec::new(),
        places: Places::default(),
    };
    let mut chars = rendered.chars();
    while let Some(c) = chars.next() {
        match c {
            OPEN => extractor.traced(&mut chars, &entries)?,
            ORIGIN => extractor.origin(&mut chars)?,
            STATEMENT => {
                let statement = take_number(&mut chars, MIDDLE).ok_or_else(broken)?;
                extractor.begin(statement);
            }
            STATEMENT_END => extractor.end()?,
            c if is_guard(c) => {
                let guarded: String = [c].into_iter().chain(chars.next()).collect();
                extractor.put(&guarded);
            }
            c if is_mark(c) => return Err(broken()),
            c => extractor.pass(c),
        }
    }
    extractor.finish()
}

fn broken() -> String {
    "a filter cut a traced text in two; filters must not change traced texts".to_owned()
}

/// The text without marks so far, and the statements that have not ended.
struct Extractor {
    out: Extracted,
    line: usize,
    column: usize,
    open: Vec<Enclosed>,
    places: Places,
}

impl Extractor {
    /// Appends a value with its marks; returns its place in the Markdown.
    fn put(&mut self, guarded: &str) -> Range<usize> {
        let start = self.out.markdown.len();
        put(guarded, &mut self.places, &mut self.out.markdown);
        self.column += self.out.markdown[start..].chars().count();
        start..self.out.markdown.len()
    }

    /// Takes a traced text, up to its end.
    fn traced(&mut self, chars: &mut Chars<'_>, entries: &[Entry]) -> Result<(), String> {
        let index = take_number(chars, MIDDLE).ok_or_else(broken)?;
        let entry = entries.get(index).ok_or_else(broken)?;
        let marked: String = chars.by_ref().take_while(|c| *c != CLOSE).collect();
        let plain = unguarded(&marked);
        // A bar inside a table cell was escaped after the text was made.
        if plain != entry.text && plain.replace("\\|", "|") != entry.text {
            return Err(format!(
                "a filter changed the traced text `{}` to `{}`",
                entry.text,
                unmarked(&plain)
            ));
        }
        let column_start = self.column;
        let bytes = self.put(&marked);
        let text = self.out.markdown[bytes.clone()].to_owned();
        self.out.spans.push(TracedSpan {
            line: self.line,
            column_start,
            column_end: self.column,
            bytes,
            entry: Entry {
                text,
                ..entry.clone()
            },
        });
        Ok(())
    }

    /// Takes the place in a template that the next text comes from.
    fn origin(&mut self, chars: &mut Chars<'_>) -> Result<(), String> {
        let origin = Origin {
            at: self.out.markdown.len(),
            template: take_number(chars, MIDDLE).ok_or_else(broken)?,
            line: take_number(chars, MIDDLE).ok_or_else(broken)?,
            column: take_number(chars, ORIGIN_END).ok_or_else(broken)?,
        };
        self.out.origins.push(origin);
        for statement in self.open.iter_mut().filter(|s| s.origin.is_none()) {
            statement.origin = Some(origin);
        }
        Ok(())
    }

    fn begin(&mut self, statement: usize) {
        let at = self.out.markdown.len();
        self.open.push(Enclosed {
            statement,
            bytes: at..at,
            start: (self.line, self.column),
            end: (self.line, self.column),
            origin: None,
        });
    }

    fn end(&mut self) -> Result<(), String> {
        let mut statement = self.open.pop().ok_or_else(broken)?;
        statement.bytes.end = self.out.markdown.len();
        statement.end = (self.line, self.column);
        self.out.statements.push(statement);
        Ok(())
    }

    /// Takes a character of the template. Consecutive blank lines become one.
    fn pass(&mut self, c: char) {
        let markdown = &mut self.out.markdown;
        if c == '\n' && (markdown.is_empty() || markdown.ends_with("\n\n")) {
            return;
        }
        self.places.pass(c);
        markdown.push(c);
        if c == '\n' {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += 1;
        }
    }

    fn finish(self) -> Result<Extracted, String> {
        let mut out = self.out;
        while out.markdown.ends_with('\n') {
            out.markdown.pop();
        }
        out.markdown.push('\n');
        if !self.open.is_empty() {
            return Err(broken());
        }
        for statement in &mut out.statements {
            statement.bytes.end = statement.bytes.end.min(out.markdown.len());
        }
        Ok(out)
    }
}

/// Appends a value with its marks to a text, as Markdown.
fn put(guarded: &str, places: &mut Places, out: &mut String) {
    let mut chars = guarded.chars();
    while let Some(c) = chars.next() {
        let (slash, c) = match chars.as_str().chars().next() {
            Some(next) if is_guard(c) => {
                chars.next();
                places.put(c, next)
            }
            _ => (None, c),
        };
        for c in slash.into_iter().chain([c]) {
            places.pass(c);
            out.push(c);
        }
    }
}

/// Returns the trace as a table, one row per span, in order of position.
///
/// # Errors
/// Never for spans; passes on the errors of the table type.
pub(crate) fn trace_table(spans: &[TracedSpan]) -> Result<Table, TableError> {
    let row = |span: &TracedSpan| {
        let entry = &span.entry;
        TraceRow {
            line: span.line,
            column_start: span.column_start,
            column_end: span.column_end,
            text: entry.text.clone(),
            source: entry.source,
            stage: non_empty(&entry.stage),
            coordinates: entry.coordinates.clone(),
            output: non_empty(&entry.output),
            artifact: entry.artifact,
            row: entry.row.and_then(|r| usize::try_from(r).ok()),
            row_key: Some(entry.row_key.clone()).filter(|key| !key.0.is_empty()),
            column: non_empty(&entry.column),
            value: full(&entry.value),
            unit: entry.unit.clone(),
            ratio: entry.ratio.clone(),
            format: entry.format.clone(),
        }
    };
    contract::trace_table(&spans.iter().map(row).collect::<Vec<_>>())
}

fn non_empty(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|t| !t.is_empty())
}

/// Returns a value in full precision; `None` for null.
pub(crate) fn full(value: &Scalar) -> Option<String> {
    match value {
        Scalar::Null => None,
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_out_and_places_are_right() {
        let ledger = Ledger::default();
        let a = ledger.mark(Entry::new(TraceSource::Spec, "a", Scalar::Int(8), "8"));
        let b = ledger.mark(Entry::new(
            TraceSource::Spec,
            "b",
            Scalar::Float(0.5),
            "0.50",
        ));
        let rendered = format!("{}N = {a},\n\n\n\né {b}!", origin_mark(2, 17, 1));
        let out = extract(&rendered, &ledger).unwrap();
        assert_eq!(out.markdown, "N = 8,\n\né 0.50!\n");
        assert_eq!(
            (
                out.spans[0].line,
                out.spans[0].column_start,
                out.spans[0].column_end
            ),
            (1, 5, 6)
        );
        assert_eq!(
            (
                out.spans[1].line,
                out.spans[1].column_start,
                out.spans[1].column_end
            ),
            (3, 3, 7)
        );
        assert_eq!(&out.markdown[out.spans[1].bytes.clone()], "0.50");
        assert_eq!(
            out.origin(5),
            Some(Origin {
                at: 0,
                template: 2,
                line: 17,
                column: 6
            })
        );
    }

    #[test]
    fn a_filter_that_changes_a_traced_text_is_caught() {
        let ledger = Ledger::default();
        let marked = ledger.mark(Entry::new(TraceSource::Spec, "a", Scalar::Int(18), "18"));
        let error = extract(&marked.replace('8', "9"), &ledger).unwrap_err();
        assert_eq!(error, "a filter changed the traced text `18` to `19`");
    }
}
