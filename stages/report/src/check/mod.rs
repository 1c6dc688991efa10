//! The number check: every numeral of the rendered text is traced, declared, or exempt by a
//! documented rule (`docs/number-check.md`).

mod headings;
mod lexemes;
mod names;
mod numeral;
mod places;
mod seen;
mod units;
mod words;

use std::ops::Range;

use crate::settings::Literal;
use crate::trace::{Entry, TraceSource, TracedSpan};
use artifacts::Scalar;
pub(crate) use lexemes::letter_runs;
use lexemes::{Lexeme, Sort, lexemes};
pub(crate) use names::{is_quantile, like_words, with_names};
pub(crate) use numeral::{Numeral, numerals};
use seen::Seen;
pub(crate) use seen::{hidden, standing};

pub(crate) use units::contradicts_label;
pub(crate) use words::check_words;

/// A numeral without a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    /// The line, from 1.
    pub line: usize,
    /// The character of the line, from 1.
    pub column: usize,
    /// The position of its first byte in the whole text.
    pub at: usize,
    /// The numeral.
    pub text: String,
    /// The whole line.
    pub context: String,
    /// What is wrong.
    pub reason: &'static str,
    /// The remedy.
    pub remedy: &'static str,
}

/// The result of the check.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// Numerals without a trace, in order.
    pub(crate) findings: Vec<Objection>,
    /// Numerals that are allowed because they are declared, as spans for the trace.
    pub(crate) literals: Vec<TracedSpan>,
}

const UNTRACED: &str = "a number written by hand";
const LOOK_UP: &str = "look it up (`value(…)`, `row.show(…)`, `count(…)`, `spec(…)`), or declare it under \
                       `literals:` with the reason why it needs no artifact";
const SCALED: &str =
    "a sign, scale or unit written by hand next to a traced number changes its meaning";
const IN_FORMAT: &str = "write it in the format (`0.0%`, `0.0pp`, `0.00×`, `+0.0`, `0.0u`), where \
    it is checked against the column's unit";
const OTHER_UNIT: &str =
    "a unit written by hand contradicts the unit of the traced number's column";
const OTHER_HEADING: &str = "the heading of its column in the table names another unit";
const CHANGE_HEADING: &str =
    "write the unit of the traced column in the heading, or show it with the number (`0.0u`)";
const TURNED: &str = "a character that reverses the text after it";
const LEAVE_OUT: &str = "leave it out: the digits of numbers would be shown in another order";
const GLUED: &str = "two traced numbers touch and read as one";
const SEPARATE: &str = "separate them";

/// Whether a text contains a number, in digits or in words.
pub(crate) fn has_numeral(text: &str) -> bool {
    !lexemes(text).is_empty()
}

/// Checks a rendered text; `spans` are its traced places in ascending order.
pub(crate) fn check(markdown: &str, spans: &[TracedSpan], literals: &[Literal]) -> Outcome {
    let exempt = places::exempt(markdown);
    let seen = Seen::read(markdown);
    let declared = occurrences(markdown, literals);
    let mut outcome = Outcome::default();
    let mut used = vec![false; declared.len()];
    // The word for null is written by hand, so it does not come from the data.
    let values = spans.iter().filter(|s| s.entry.value != Scalar::Null);
    let values: Vec<&TracedSpan> = values.collect();
    for lexeme in all_lexemes(markdown, &seen) {
        let free = uncovered(markdown, &lexeme, &values);
        if free.is_empty() || free.iter().all(|r| inside(r, &exempt, lexeme.sort)) {
            continue;
        }
        let holder = declared
            .iter()
            .position(|(range, _)| free.iter().all(|r| holds(range, r)));
        match holder {
            Some(at) => used[at] = true,
            None => outcome
                .findings
                .push(finding_of(markdown, &lexeme.range, UNTRACED, LOOK_UP)),
        }
    }
    for (at, turn) in markdown.match_indices(['\u{202d}', '\u{202e}']) {
        let range = at..at + turn.len();
        outcome
            .findings
            .push(finding_of(markdown, &range, TURNED, LEAVE_OUT));
    }
    let is_allowed = |range: &Range<usize>| {
        let by_span = spans.iter().any(|s| holds(&s.bytes, range));
        by_span || declared.iter().any(|(d, _)| holds(d, range))
    };
    let text = Text { markdown, seen };
    let mut before: Option<Shown<'_>> = None;
    for span in spans {
        let shown = text.shown(span);
        if let Some(touching) = before.and_then(|before| before.touches(&shown)) {
            outcome
                .findings
                .push(finding_of(markdown, &touching, GLUED, SEPARATE));
        }
        // A name is not a number, so nothing beside it changes its value.
        let is_name = span.entry.source == TraceSource::Literal;
        if !is_name && span.entry.text.chars().any(char::is_numeric) {
            let changed = text.changed(&shown).filter(|(range, _)| !is_allowed(range));
            let finding = changed.map(|(range, why)| finding_of(markdown, &range, why, IN_FORMAT));
            outcome.findings.extend(finding);
        }
        before = Some(shown);
    }
    let headed = headings::contradicted(markdown, spans).into_iter();
    outcome
        .findings
        .extend(headed.map(|range| finding_of(markdown, &range, OTHER_HEADING, CHANGE_HEADING)));
    outcome.findings.sort_by_key(|f| (f.at, f.text.len()));
    outcome.findings.dedup_by_key(|f| (f.at, f.text.clone()));
    for ((range, literal), _) in declared.iter().zip(&used).filter(|(_, used)| **used) {
        outcome
            .literals
            .push(literal_span(markdown, range, literal));
    }
    outcome
}

/// The numerals of the Markdown, and those that only its visible text has, by their places in the Markdown.
fn all_lexemes(markdown: &str, seen: &Seen) -> Vec<Lexeme> {
    let mut all = lexemes(markdown);
    let ranges: Vec<Range<usize>> = all.iter().map(|lexeme| lexeme.range.clone()).collect();
    let in_seen = lexemes(&seen.text).into_iter();
    let ranges = in_seen
        .filter_map(|lexeme| seen.source(&lexeme.range))
        .filter(|range| !overlaps(&ranges, range));
    // Their characters are not numeric in the Markdown.
    let sort = Sort::Word;
    let hidden: Vec<Lexeme> = ranges.map(|range| Lexeme { range, sort }).collect();
    all.extend(hidden);
    all.sort_by_key(|lexeme| lexeme.range.start);
    all
}

/// The Markdown and its visible text.
struct Text<'a> {
    markdown: &'a str,
    seen: Seen,
}

/// A traced text, and its place in the visible text.
struct Shown<'a> {
    span: &'a TracedSpan,
    seen: Option<Range<usize>>,
}

impl<'a> Text<'a> {
    fn shown(&self, span: &'a TracedSpan) -> Shown<'a> {
        let seen = self.seen.place(&span.bytes);
        Shown { span, seen }
    }

    /// Returns what is written beside a traced number and changes its meaning, and why.
    fn changed(&self, shown: &Shown<'_>) -> Option<(Range<usize>, &'static str)> {
        let Shown { span, seen } = shown;
        if let Some(range) = lexemes::altered(self.markdown, &span.bytes, true) {
            return Some((range, SCALED));
        }
        let seen = seen.as_ref()?;
        let source = |range| self.seen.source(&range);
        if let Some(range) = lexemes::altered(&self.seen.text, seen, false).and_then(source) {
            return Some((range, SCALED));
        }
        // A format may have written the unit of the column.
        let unit = bare_unit(&span.entry)?;
        let other = units::beside(&self.seen.text, seen, unit)?;
        source(other).map(|range| (range, OTHER_UNIT))
    }
}

impl Shown<'_> {
    /// Returns the range of two traced numbers if they read as one.
    fn touches(&self, next: &Self) -> Option<Range<usize>> {
        let seen = self.seen.as_ref().zip(next.seen.as_ref());
        let adjacent = self.span.bytes.end == next.span.bytes.start
            || seen.is_some_and(|(one, other)| one.end == other.start);
        let last = self.span.entry.text.chars().next_back();
        let first = next.span.entry.text.chars().next();
        let touch = adjacent
            && last.is_some_and(char::is_alphanumeric)
            && first.is_some_and(|c| c.is_alphanumeric() || c == '.')
            && self.is_number();
        touch.then_some(self.span.bytes.start..next.span.bytes.end)
    }

    fn is_number(&self) -> bool {
        let entry = &self.span.entry;
        entry.source != TraceSource::Literal && entry.text.chars().any(char::is_numeric)
    }
}

/// The unit of a number that is shown without it.
fn bare_unit(entry: &Entry) -> Option<&str> {
    let is_bare = entry.text.ends_with(|c: char| c.is_numeric() || c == ']');
    entry.unit.as_deref().filter(|_| is_bare)
}

/// The parts of a lexeme's numeric characters that no span covers.
fn uncovered(markdown: &str, lexeme: &Lexeme, spans: &[&TracedSpan]) -> Vec<Range<usize>> {
    let covered = |range: &Range<usize>| {
        let after = spans.partition_point(|s| s.bytes.end <= range.start);
        spans.get(after).is_some_and(|s| holds(&s.bytes, range))
    };
    if lexeme.sort == Sort::Word {
        return if covered(&lexeme.range) {
            Vec::new()
        } else {
            vec![lexeme.range.clone()]
        };
    }
    let text = &markdown[lexeme.range.clone()];
    let numeric = text.char_indices().filter(|(_, c)| c.is_numeric());
    let ranges = numeric.map(|(i, c)| {
        let start = lexeme.range.start + i;
        start..start + c.len_utf8()
    });
    ranges.filter(|r| !covered(r)).collect()
}

fn inside(range: &Range<usize>, exempt: &places::Exempt, sort: Sort) -> bool {
    covers(&exempt.everything, range) || (sort == Sort::Word && covers(&exempt.words, range))
}

/// Whether one of several ascending ranges contains another range.
fn covers(ranges: &[Range<usize>], range: &Range<usize>) -> bool {
    let after = ranges.partition_point(|e| e.end <= range.start);
    ranges.get(after).is_some_and(|e| holds(e, range))
}

/// Whether a range has bytes of one of several ascending ranges.
fn overlaps(ranges: &[Range<usize>], range: &Range<usize>) -> bool {
    let after = ranges.partition_point(|one| one.end <= range.start);
    ranges.get(after).is_some_and(|one| one.start < range.end)
}

fn holds(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// Every occurrence of a declared literal by itself, rather than as part of a longer number or word.
fn occurrences<'a>(markdown: &str, literals: &'a [Literal]) -> Vec<(Range<usize>, &'a Literal)> {
    let mut problems = Vec::new();
    for literal in literals.iter().filter(|l| !l.text.is_empty()) {
        for (at, text) in markdown.match_indices(&literal.text) {
            let range = at..at + text.len();
            if stands_alone(markdown, &range) {
                problems.push((range, literal));
            }
        }
    }
    problems.sort_by_key(|(range, _)| (range.start, range.end));
    problems
}

fn stands_alone(markdown: &str, range: &Range<usize>) -> bool {
    let mut before = markdown[..range.start].chars().rev();
    let mut after = markdown[range.end..].chars();
    let joins = |c: char, next: Option<char>| {
        c.is_alphanumeric()
            || matches!(c, '%' | '‰' | '×')
            || (matches!(c, '.' | ',' | '\'' | '/' | '\u{2044}')
                && next.is_some_and(char::is_numeric))
    };
    let sign = |c: char, next: Option<char>| {
        matches!(c, '+' | '\u{2212}' | '±')
            || (c == '-' && !next.is_some_and(char::is_alphanumeric))
    };
    let first = markdown[range.clone()].chars().next();
    let left = before.next().is_none_or(|c| {
        let next = before.next();
        !(joins(c, next) || first.is_some_and(char::is_numeric) && sign(c, next))
    });
    let right = after.next().is_none_or(|c| {
        let next = after.next();
        !joins(c, next)
    });
    left && right
}

fn literal_span(markdown: &str, range: &Range<usize>, literal: &Literal) -> TracedSpan {
    let (line, column) = place(markdown, range.start);
    let text = markdown[range.clone()].to_owned();
    let length = text.chars().count();
    let entry = Entry::new(
        TraceSource::Literal,
        literal.reason.clone(),
        Scalar::Text(text.clone()),
        text,
    );
    TracedSpan {
        line,
        column_start: column,
        column_end: column + length,
        bytes: range.clone(),
        entry,
    }
}

pub(crate) fn finding_of(
    markdown: &str,
    range: &Range<usize>,
    reason: &'static str,
    remedy: &'static str,
) -> Objection {
    let (line, column) = place(markdown, range.start);
    let context = markdown.lines().nth(line - 1).unwrap_or("").to_owned();
    Objection {
        line,
        column,
        at: range.start,
        text: markdown[range.clone()].to_owned(),
        context,
        reason,
        remedy,
    }
}

/// Returns the line and character of a byte, both from 1.
pub(crate) fn place(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |i| i + 1);
    (line, before[start..].chars().count() + 1)
}
