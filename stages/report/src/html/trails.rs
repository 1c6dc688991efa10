//! The trails of a report's numbers: texts from the same place share one.

use std::collections::BTreeMap;

use artifacts::{Digest, Scalar};

use crate::statement::Recorded;
use crate::trace::{Enclosed, Entry, TraceSource, TracedSpan, full};

/// One trail, and the places where its text appears.
pub(super) struct Trail<'a> {
    /// The text and its origin.
    pub(super) entry: &'a Entry,
    /// The spans that show it, by position.
    pub(super) spans: Vec<usize>,
}

/// All trails, in the order of their first place.
pub(super) struct Trails<'a> {
    pub(super) spans: &'a [TracedSpan],
    pub(super) all: Vec<Trail<'a>>,
    /// The trail of each span.
    of_span: Vec<usize>,
    /// The innermost statement around each span.
    statements: Vec<Option<&'a Recorded>>,
}

/// The identity of a number: two texts with equal keys are the same number from the same place.
type Key<'a> = (
    TraceSource,
    [&'a str; 6],
    Option<[u8; 32]>,
    Option<u64>,
    [Option<String>; 3],
);

fn key(entry: &Entry) -> Key<'_> {
    let unit = entry.unit.as_deref().unwrap_or_default();
    let Entry {
        text,
        stage,
        output,
        column,
        format,
        ..
    } = entry;
    let digest = entry.artifact.map(|d: Digest| *d.as_bytes());
    let cell = entry.coordinates.as_ref().map(ToString::to_string);
    let row_key = Some(entry.row_key.to_string());
    (
        entry.source,
        [text, stage, output, column, format, unit],
        digest,
        entry.row,
        [full(&entry.value), cell, row_key],
    )
}

impl<'a> Trails<'a> {
    pub(super) fn new(
        spans: &'a [TracedSpan],
        enclosed: &[Enclosed],
        recorded: &'a [Recorded],
    ) -> Self {
        let mut all: Vec<Trail<'a>> = Vec::new();
        let mut of_span = Vec::with_capacity(spans.len());
        let mut groups: BTreeMap<Key<'a>, usize> = BTreeMap::new();
        for (number, span) in spans.iter().enumerate() {
            let at = *groups.entry(key(&span.entry)).or_insert_with(|| {
                all.push(Trail {
                    entry: &span.entry,
                    spans: Vec::new(),
                });
                all.len() - 1
            });
            all[at].spans.push(number);
            of_span.push(at);
        }
        let statements = innermost(spans, enclosed);
        let statements = statements.into_iter().map(|at| recorded.get(at?)).collect();
        Self {
            spans,
            all,
            of_span,
            statements,
        }
    }

    /// Returns the number of a span's trail, from 0.
    pub(super) fn of(&self, span: usize) -> usize {
        self.of_span[span]
    }

    /// Returns whether a span is a result: a measured or computed number, not a label, a heading, a setting or a number
    /// written by hand.
    pub(super) fn is_result(&self, span: usize) -> bool {
        let entry = &self.spans[span].entry;
        let source = matches!(
            entry.source,
            TraceSource::Table
                | TraceSource::Json
                | TraceSource::Count
                | TraceSource::Ledger
                | TraceSource::Statement
        );
        source && matches!(entry.value, Scalar::Int(_) | Scalar::Float(_))
    }

    /// Returns the tooltip, with one fact per line.
    pub(super) fn tooltip(&self, span: usize) -> String {
        let entry = &self.spans[span].entry;
        let mut lines = vec![value_line(entry)];
        lines.extend(place_line(entry));
        if let Some(row) = entry.row {
            let key = if entry.row_key.0.is_empty() {
                String::new()
            } else {
                format!(": {:#}", entry.row_key)
            };
            lines.push(format!("row {row}{key}"));
        } else if entry.source == TraceSource::Count && !entry.row_key.0.is_empty() {
            lines.push(format!("rows with {:#}", entry.row_key));
        } else if entry.source == TraceSource::Json && !entry.row_key.0.is_empty() {
            lines.push(format!("cell {:#}", entry.row_key));
        }
        if let Some(digest) = entry.artifact {
            lines.push(digest.short());
        }
        lines.extend(self.statements[span].map(statement_line));
        lines.join("\n")
    }
}

/// The innermost statement around each span. Statements nest and never overlap partially.
fn innermost(spans: &[TracedSpan], enclosed: &[Enclosed]) -> Vec<Option<usize>> {
    let mut around: Vec<Option<usize>> = vec![None; spans.len()];
    // Inner statements end first, so the first to claim a span is the innermost.
    for statement in enclosed {
        let first = spans.partition_point(|s| s.bytes.start < statement.bytes.start);
        for (span, mine) in spans[first..].iter().zip(&mut around[first..]) {
            if span.bytes.start >= statement.bytes.end {
                break;
            }
            mine.get_or_insert(statement.statement);
        }
    }
    around
}

/// Returns the verdict on a statement or claim in one line.
pub(super) fn statement_line(recorded: &Recorded) -> String {
    let what = match (&recorded.claim, &recorded.rule) {
        (Some(claim), _) => format!("claim {claim}"),
        (None, Some(rule)) => format!("statement `{}`", rule.word()),
        (None, None) => "statement".to_owned(),
    };
    let table = recorded
        .rule
        .as_ref()
        .and_then(|r| r.place())
        .map(|(table, _)| format!(" over {table}"));
    let reason = if recorded.reason.is_empty() {
        String::new()
    } else {
        format!(": {}", recorded.reason)
    };
    format!(
        "{what}{}: {}{reason}",
        table.unwrap_or_default(),
        recorded.outcome.word()
    )
}

/// Returns the value in full precision with its unit.
fn value_line(entry: &Entry) -> String {
    let value = full(&entry.value).unwrap_or_else(|| "null".to_owned());
    match (entry.unit.as_deref(), &entry.ratio) {
        (_, Some(ratio)) => format!("{value} ({ratio})"),
        (None, None) => value,
        // A count is a number of things, not a ratio.
        (Some("1"), None) if matches!(entry.value, Scalar::Int(_)) => value,
        (Some("1"), None) => format!("{value} (ratio)"),
        (Some(unit), None) => format!("{value} {unit}"),
    }
}

fn place_line(entry: &Entry) -> Option<String> {
    let column = &entry.column;
    Some(match entry.source {
        TraceSource::Heading => format!(
            "heading of column {column}, {}.{}",
            entry.stage, entry.output
        ),
        TraceSource::Sides => format!("sides of column {column}, {}.{}", entry.stage, entry.output),
        TraceSource::Missing => format!(
            "the note of missing cells: {}, {}.{}",
            entry.row_key, entry.stage, entry.output
        ),
        TraceSource::Table => format!("{}.{}, column {column}", entry.stage, entry.output),
        TraceSource::Count if entry.stage.is_empty() => {
            format!("count of rows of {}", entry.output)
        }
        TraceSource::Count => format!("count of rows of {}.{}", entry.stage, entry.output),
        TraceSource::Json => format!("{}.{}, at {column}", entry.stage, entry.output),
        TraceSource::Spec => format!("the experiment, at {column}"),
        TraceSource::Ledger => format!("the ledger of planned cells: {} {column}", entry.output),
        TraceSource::Trail => "one hash over the study".to_owned(),
        TraceSource::Structure => format!("the number of `{column}` in this report"),
        TraceSource::Statement => format!("found by the statement {column}"),
        TraceSource::Literal => format!("written by hand: {column}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: usize, entry: Entry) -> TracedSpan {
        TracedSpan {
            line: 1,
            column_start: start + 1,
            column_end: start + 2,
            bytes: start..start + 1,
            entry,
        }
    }

    #[test]
    fn counts_have_no_unit_and_ratios_say_so() {
        let trail = |value: Scalar| {
            let mut entry = Entry::new(TraceSource::Table, "n", value, "8");
            entry.unit = Some("1".to_owned());
            value_line(&entry)
        };
        assert_eq!(trail(Scalar::Int(8)), "8");
        assert_eq!(trail(Scalar::Float(8.5)), "8.5 (ratio)");
    }

    #[test]
    fn only_measured_and_computed_numbers_are_results() {
        let entries = [
            Entry::new(TraceSource::Table, "ttft_ms_p50", Scalar::Float(8.5), "8.5"),
            Entry::new(
                TraceSource::Table,
                "concurrency",
                Scalar::Text("8".into()),
                "8",
            ),
            Entry::new(
                TraceSource::Literal,
                "the name of a quantile",
                Scalar::Null,
                "p50",
            ),
            Entry::new(TraceSource::Spec, "seed", Scalar::Int(7), "7"),
        ];
        let spans: Vec<TracedSpan> = entries
            .into_iter()
            .enumerate()
            .map(|(i, e)| span(i, e))
            .collect();
        let trails = Trails::new(&spans, &[], &[]);
        let results: Vec<bool> = (0..spans.len()).map(|i| trails.is_result(i)).collect();
        assert_eq!(results, [true, false, false, false]);
    }

    #[test]
    fn the_same_number_from_the_same_place_has_one_trail() {
        let entry = Entry::new(TraceSource::Spec, "seed", Scalar::Int(7), "7");
        let other = Entry {
            format: "0.0".to_owned(),
            ..entry.clone()
        };
        let spans = [span(0, entry.clone()), span(5, other), span(9, entry)];
        let trails = Trails::new(&spans, &[], &[]);
        assert_eq!(trails.all.len(), 2);
        assert_eq!(trails.all[0].spans, [0, 2]);
        assert_eq!(trails.of(1), 1);
        assert_eq!(trails.tooltip(0), "7\nthe experiment, at seed");
    }
}
