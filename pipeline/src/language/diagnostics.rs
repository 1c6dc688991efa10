//! Mistakes in experiment files and their display: what is wrong, where, and what to do.
//!
//! While an experiment is compiled, every mistake goes into a [`Sink`]. At the end, it returns them all, without
//! duplicates and sorted by place.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::hidden;
use crate::stage::Step;

/// A place in one of the texts of a [`Sink`]; line 0 means the whole text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Span {
    /// The number of the text.
    pub(crate) source: u32,
    /// The line, from 1.
    pub(crate) line: u32,
    /// The column, from 1, in characters.
    pub(crate) column: u32,
    /// The number of characters.
    pub(crate) width: u32,
}

/// Every mistake found in an experiment and the files it refers to.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

/// One mistake, with its place and its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The mistake, in one sentence without a final stop.
    pub message: String,
    /// The place.
    pub place: Place,
    /// The remedy.
    pub hint: Option<String>,
}

/// The place of a mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A whole file.
    File(PathBuf),
    /// Part of one line of a file.
    Text {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column, from 1, in characters.
        column: usize,
        /// The number of characters.
        width: usize,
        /// The keys and indices that lead there (`stages.ladder.needs[0]`); may be empty.
        route: String,
        /// The text of the line.
        text: String,
    },
    /// A command-line argument, as typed.
    Argument(String),
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", self.message)?;
        match &self.place {
            Place::File(file) => writeln!(f, "  --> {}", file.display())?,
            Place::Argument(argument) => writeln!(f, "  --> {argument}")?,
            Place::Text {
                file,
                line,
                column,
                width,
                route,
                text,
            } => {
                write!(f, "  --> {}:{line}:{column}", file.display())?;
                if !route.is_empty() {
                    write!(f, "  ({route})")?;
                }
                let number = line.to_string();
                let (text, column) = window(text, *column);
                let before: String = text
                    .chars()
                    .take(column - 1)
                    .map(|c| if c == '\t' { '\t' } else { ' ' })
                    .collect();
                writeln!(f, "\n{number} | {text}")?;
                writeln!(
                    f,
                    "{} | {before}{}",
                    " ".repeat(number.len()),
                    "^".repeat((*width).min(WINDOW / 2))
                )?;
            }
        }
        match &self.hint {
            Some(hint) => writeln!(f, "hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// The largest number of listed mistakes.
pub(super) const MOST: usize = 100;

/// The length of the longest message, in characters. The parts that it quotes from a file can be megabytes long.
const LONGEST: usize = 2000;

/// Returns a text, with its middle left out if it has more than `most` characters.
pub(crate) fn shortened(text: String, most: usize) -> String {
    let half = most / 2;
    match (
        text.char_indices().nth(half),
        text.char_indices().nth_back(half),
    ) {
        (Some((end, _)), Some((from, _))) if text.chars().nth(most).is_some() => {
            format!("{}…{}", &text[..end], &text[from..])
        }
        _ => text,
    }
}

/// The largest number of characters shown of a line.
const WINDOW: usize = 160;

/// Returns the part of a long line around a column, and the column in that part.
fn window(text: &str, column: usize) -> (String, usize) {
    let length = text.chars().count();
    if length <= WINDOW {
        return (text.to_owned(), column);
    }
    let start = (column - 1).saturating_sub(WINDOW / 4);
    let part: String = text.chars().skip(start).take(WINDOW).collect();
    let before = if start > 0 { "…" } else { "" };
    let after = if start + WINDOW < length { "…" } else { "" };
    (
        format!("{before}{part}{after}"),
        column - start + before.chars().count(),
    )
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, diagnostic) in self.0.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{diagnostic}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// The kind of a mistake, where other code depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MistakeKind {
    /// A required key is missing.
    MissingKey,
    /// A key that nothing reads.
    UnknownKey,
    /// A placeholder that names an axis in a place where axes have no value.
    NoValue,
    /// A key without a value.
    NoText,
    /// Any other mistake.
    Other,
}

/// A mistake before its text is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    pub(crate) kind: MistakeKind,
    pub(crate) span: Span,
    pub(crate) route: Vec<Step>,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// The labels with which the mistake occurs first, if the settings depend on labels.
    pub(crate) labels: Option<Box<str>>,
    /// The text at the place, and the bytes of it that are wrong.
    pub(crate) part: Option<Box<(String, Range<usize>)>>,
}

impl Mistake {
    /// Makes a mistake without a remedy.
    pub(crate) fn new(span: Span, route: &[Step], message: impl Into<String>) -> Self {
        Self {
            kind: MistakeKind::Other,
            span,
            route: route.to_vec(),
            message: message.into(),
            hint: None,
            labels: None,
            part: None,
        }
    }

    /// Sets the kind.
    pub(crate) fn kind(mut self, kind: MistakeKind) -> Self {
        self.kind = kind;
        self
    }

    /// Adds the remedy.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Collects the mistakes found while an experiment is compiled, and the texts that contain them.
#[derive(Default)]
pub(crate) struct Sink {
    sources: RefCell<Vec<(PathBuf, String)>>,
    mistakes: RefCell<Vec<Mistake>>,
    arguments: RefCell<Vec<Diagnostic>>,
}

impl Sink {
    /// Adds a text that may contain mistakes, and returns its number.
    pub(crate) fn add_source(&self, file: &Path, text: &str) -> u32 {
        let mut sources = self.sources.borrow_mut();
        sources.push((file.to_owned(), text.to_owned()));
        u32::try_from(sources.len() - 1).expect("far fewer than 2^32 files are read")
    }

    /// Adds a mistake.
    pub(crate) fn add(&self, mistake: Mistake) {
        self.mistakes.borrow_mut().push(mistake);
    }

    /// Adds a mistake in a command-line argument.
    pub(crate) fn argument(
        &self,
        argument: &str,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        let diagnostic = Diagnostic {
            message: hidden::in_line(&message.into()),
            place: Place::Argument(hidden::in_line(argument)),
            hint: hint.map(|hint| hidden::in_line(&hint)),
        };
        self.arguments.borrow_mut().push(diagnostic);
    }

    /// Returns the number of mistakes so far.
    pub(crate) fn count(&self) -> usize {
        self.mistakes.borrow().len() + self.arguments.borrow().len()
    }

    /// Returns the mistakes without duplicates, arguments first, then by place. Lists at most [`MOST`] and counts the
    /// rest, because a file of other content can have a mistake on every line.
    pub(crate) fn finish(self) -> Diagnostics {
        let sources = self.sources.into_inner();
        let mut mistakes = self.mistakes.into_inner();
        for mistake in &mut mistakes {
            let (_, text) = &sources[mistake.span.source as usize];
            if let Some(span) = mistake
                .part
                .take()
                .and_then(|part| narrow(text, mistake.span, &part))
            {
                mistake.span = span;
            }
        }
        mistakes.sort_by_key(|m| m.span);
        let mistakes = ends_of_series(mistakes);
        let mut all = self.arguments.into_inner();
        // The messages without labels: a mistake that several labels have is listed once.
        let mut messages = vec![String::new(); all.len()];
        let total = mistakes.len();
        for (number, mistake) in mistakes.into_iter().enumerate() {
            let (file, text) = &sources[mistake.span.source as usize];
            if all.len() >= MOST {
                all.push(Diagnostic {
                    message: format!("there are up to {} more mistakes", total - number),
                    place: Place::File(file.clone()),
                    hint: Some("correct those above first".to_owned()),
                });
                break;
            }
            let place = place(file, text, &mistake);
            let mut earlier = all.iter().zip(&messages).rev().take(50);
            if earlier
                .any(|(d, message)| *message == mistake.message && same_place(&d.place, &place))
            {
                continue;
            }
            let hint = commented(&place, mistake.kind).or(mistake.hint);
            let message = match &mistake.labels {
                Some(labels) => format!("{} (with {labels})", mistake.message),
                None => mistake.message.clone(),
            };
            messages.push(mistake.message);
            all.push(Diagnostic {
                place,
                message: hidden::in_text(&shortened(message, LONGEST)),
                hint: hint.map(|hint| hidden::in_text(&shortened(hint, LONGEST))),
            });
        }
        Diagnostics(all)
    }
}

/// Lists a mistake once, and only the first and the last of more than two at one place that differ only in their numbers.
/// An axis of fifty levels would otherwise give fifty mistakes for one cause.
fn ends_of_series(mut mistakes: Vec<Mistake>) -> Vec<Mistake> {
    let mut texts = HashSet::new();
    mistakes.retain(|mistake| texts.insert((mistake.span, mistake.message.clone())));
    let mut series: BTreeMap<(Span, String), Vec<usize>> = BTreeMap::new();
    for (number, mistake) in mistakes.iter().enumerate() {
        let form = (mistake.span, without_numbers(&mistake.message));
        series.entry(form).or_default().push(number);
    }
    let mut dropped: BTreeSet<usize> = BTreeSet::new();
    for members in series.into_values().filter(|members| members.len() > 2) {
        let count = members.len();
        for (member, which) in [(members[0], "first"), (members[count - 1], "last")] {
            let note = format!("the {which} of {count} such mistakes here");
            let mistake = &mut mistakes[member];
            match &mut mistake.labels {
                Some(labels) => *labels = format!("{labels}; {note}").into(),
                None => mistake.message.push_str(&format!(" ({note})")),
            }
        }
        dropped.extend(&members[1..count - 1]);
    }
    let all = mistakes.into_iter().enumerate();
    all.filter(|(number, _)| !dropped.contains(number))
        .map(|(_, mistake)| mistake)
        .collect()
}

/// Replaces each number of a message by one sign, except in names, which are between backticks.
fn without_numbers(message: &str) -> String {
    let mut text = String::new();
    for (part, words) in message.split('`').enumerate() {
        let is_name = part % 2 == 1;
        for character in words.chars() {
            match character.is_ascii_digit() && !is_name {
                true if text.ends_with('#') => {}
                true => text.push('#'),
                false => text.push(character),
            }
        }
        text.push('`');
    }
    text
}

/// Writes a route as `stages.ladder.exclude[0].where`.
pub(crate) fn route_text(route: &[Step]) -> String {
    let mut text = String::new();
    for step in route {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => text.extend([".", key]),
            Step::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

fn place(file: &Path, text: &str, mistake: &Mistake) -> Place {
    let span = mistake.span;
    if span.line == 0 {
        return Place::File(file.to_owned());
    }
    let line_text = text
        .lines()
        .nth(span.line as usize - 1)
        .unwrap_or("")
        .trim_end();
    let length = line_text.chars().count();
    let column = (span.column as usize).clamp(1, length + 1);
    let width = (span.width as usize).clamp(1, (length + 1 - column).max(1));
    Place::Text {
        file: file.to_owned(),
        line: span.line as usize,
        column,
        width,
        route: shortened(route_text(&mistake.route), LONGEST),
        text: without_secrets(line_text, column),
    }
}

/// Returns the place of a part of a value. A value and its text in the file differ in blanks, quotes and escapes, so
/// all other characters before the part are compared. `None` if they differ, for example because of a placeholder.
fn narrow(text: &str, span: Span, (value, part): &(String, Range<usize>)) -> Option<Span> {
    let skipped = |c: &char| c.is_whitespace() || matches!(c, '"' | '\'' | '\\');
    let (before, part) = (value.get(..part.start)?, value.get(part.clone())?);
    let (mut line, mut column) = (span.line, span.column);
    let lines = text
        .split_inclusive('\n')
        .take(line.checked_sub(1)? as usize);
    let above: usize = lines.map(str::len).sum();
    let mut columns = text[above..].char_indices();
    let begin = above + columns.nth(column.checked_sub(1)? as usize)?.0;
    let mut before = before.chars().filter(|c| !skipped(c));
    let mut next = before.next();
    for (at, c) in text[begin..].char_indices() {
        if !skipped(&c) {
            match next {
                Some(expected) if expected == c => next = before.next(),
                Some(_) => return None,
                None => {
                    let same = text[begin + at..].starts_with(part);
                    let width = u32::try_from(part.chars().count()).ok()?;
                    return same.then_some(Span {
                        line,
                        column,
                        width,
                        ..span
                    });
                }
            }
        }
        match c {
            '\n' => (line, column) = (line + 1, 1),
            _ => column += 1,
        }
    }
    None
}

/// The number of characters around a column in which secrets are hidden; only these are shown.
const NEAR: usize = 2000;

/// Returns a line with its secrets hidden near a column.
fn without_secrets(line: &str, column: usize) -> String {
    let from = column.saturating_sub(NEAR);
    let part = |from: usize, most: usize| line.chars().skip(from).take(most).collect::<String>();
    let near = hidden::in_line(&part(from, 2 * NEAR));
    [part(0, from), near, part(from + 2 * NEAR, usize::MAX)].concat()
}

/// Returns the remedy for a value that YAML reads as a comment: `workload: #mine`.
fn commented(place: &Place, kind: MistakeKind) -> Option<String> {
    let (MistakeKind::NoText, Place::Text { text, column, .. }) = (kind, place) else {
        return None;
    };
    let rest: String = text.chars().skip(column - 1).collect();
    let after = rest.split_once(':')?.1.trim_start();
    let word = after.strip_prefix('#')?.split_whitespace().next()?;
    // A comment usually has a space after its `#`.
    after[1..].starts_with(word).then(|| {
        format!(
            "`#` begins a comment: write `{word}`, or `\"#{word}\"` if the `#` belongs to the value"
        )
    })
}

fn same_place(a: &Place, b: &Place) -> bool {
    match (a, b) {
        (
            Place::Text {
                file, line, column, ..
            },
            Place::Text {
                file: file_b,
                line: line_b,
                column: column_b,
                ..
            },
        ) => (file, line, column) == (file_b, line_b, column_b),
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(messages: impl IntoIterator<Item = (u32, String)>) -> Vec<String> {
        let mistake = |(line, message): (u32, String)| {
            let span = Span {
                line,
                ..Span::default()
            };
            Mistake::new(span, &[], message)
        };
        let all = messages.into_iter().map(mistake).collect();
        ends_of_series(all).into_iter().map(|m| m.message).collect()
    }

    #[test]
    fn of_mistakes_at_one_place_that_differ_only_in_numbers_the_first_and_the_last_are_listed() {
        let few = |clients: u32| {
            (
                3,
                format!("4 requests are fewer than the {clients} clients"),
            )
        };
        let other = (3, "`rate` is missing".to_owned());
        let listed = mistakes(
            (5..=12)
                .map(few)
                .chain([other.clone(), few(5), other.clone()]),
        );
        assert_eq!(
            listed,
            [
                "4 requests are fewer than the 5 clients (the first of 8 such mistakes here)",
                "4 requests are fewer than the 12 clients (the last of 8 such mistakes here)",
                "`rate` is missing",
            ]
        );
    }

    #[test]
    fn two_mistakes_and_those_at_other_places_or_with_other_names_are_all_listed() {
        let text = |line, message: &str| (line, message.to_owned());
        let all = [
            text(1, "4 is too few"),
            text(1, "5 is too few"),
            text(2, "6 is too few"),
            text(3, "`m1` is not a model"),
            text(3, "`m2` is not a model"),
            text(3, "`m3` is not a model"),
        ];
        assert_eq!(mistakes(all.clone()), all.map(|(_, message)| message));
    }

    #[test]
    fn numbers_of_any_length_are_one_sign_and_names_stay() {
        assert_eq!(without_numbers("12 of 3 or 0.5"), "# of # or #.#`");
        assert_eq!(without_numbers("7 in `v10`"), "# in `v10``");
    }
}
