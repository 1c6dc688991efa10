//! Which mark a document writes before decimals. The rules read English numbers, `1,234.5`. In a text with decimal
//! commas, `1.234,5`, both marks are swapped before it is read; neither changes its length, so all places stay valid.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::number::unit_at;

/// The readings of the numbers of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// `1,234.5`
    Point,
    /// `1.234,5`
    Comma,
    /// Either; only what is wrong in both is reported.
    Either,
}

static BODY: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[0-9]+(?:[.,][0-9]+)+").expect("a regex"));

/// How a number is written.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// Only English writes it: `0.431`, `12.5`, `1,234.5`.
    Point,
    /// Only decimal commas are written so: `12,5`, `1.234,5`.
    Comma,
    /// `1.234`: a decimal fraction or thousands.
    PointThousands,
    /// `1,234`: thousands or a decimal fraction.
    CommaThousands,
    /// A version, a date or a list.
    Other,
}

fn form(body: &str) -> Form {
    let points = body.matches('.').count();
    let commas = body.matches(',').count();
    let first = body.find(['.', ',']).unwrap_or(0);
    let grouped = |mark: char| {
        let mut parts = body.split(mark);
        let lead = parts.next().unwrap_or("");
        (1..=3).contains(&lead.len()) && !lead.starts_with('0') && parts.all(|part| part.len() == 3)
    };
    let both = |group: char, decimal: char| {
        let Some((whole, rest)) = body.split_once(decimal) else {
            return false;
        };
        let mut parts = whole.split(group);
        let lead = parts.next().unwrap_or("");
        !rest.contains(group) && (1..=3).contains(&lead.len()) && parts.all(|part| part.len() == 3)
    };
    match (points, commas) {
        (1, 0) if grouped('.') => Form::PointThousands,
        (1, 0) => Form::Point,
        (0, 1) if grouped(',') => Form::CommaThousands,
        (0, 1) => Form::Comma,
        (0, _) if grouped(',') => Form::Point,
        (_, 0) if grouped('.') => Form::Comma,
        (_, 1) if body[first..].starts_with('.') && both('.', ',') => Form::Comma,
        (1, _) if body[first..].starts_with(',') && both(',', '.') => Form::Point,
        _ => Form::Other,
    }
}

/// The numbers of a text that have a mark, with their places. Parts of names, versions, dates and lists are none.
fn marked(text: &str) -> impl Iterator<Item = regex::Match<'_>> {
    BODY.find_iter(text).filter(|number| {
        let before = text[..number.start()].chars().next_back();
        let mut after = text[number.end()..].chars();
        let (next, second) = (after.next(), after.next());
        let inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ',' | '/' | '#');
        let joined = next.is_some_and(|c| matches!(c, '_' | '.' | ',' | '/'))
            && second.is_some_and(char::is_alphanumeric);
        !before.is_some_and(inside) && !joined
    })
}

/// Whether a number is surely one: a unit follows it, or it fills a cell.
fn is_sure(text: &str, number: &regex::Match<'_>) -> bool {
    let (before, after) = (
        text[..number.start()].trim_end_matches([' ', '*', '-', '+', '−', '$', '€', '~']),
        &text[number.end()..],
    );
    let rest = after.trim_start_matches([' ', '*']);
    let cell = before.ends_with(['|', '>']) && rest.starts_with(['|', '<']);
    cell || unit_at(after)
}

/// Finds the style of a document.
pub(crate) fn of(text: &str) -> Style {
    let (mut point, mut comma, mut weak, mut thousands) = (false, false, false, [false, false]);
    for number in marked(text) {
        let sure = is_sure(text, &number);
        match form(number.as_str()) {
            Form::Point => point |= sure || number.as_str().contains(','),
            Form::Comma if sure || number.as_str().contains('.') => comma = true,
            Form::Comma => weak = true,
            Form::PointThousands => thousands[0] = true,
            Form::CommaThousands => thousands[1] |= sure,
            Form::Other => {}
        }
    }
    match (point, comma) {
        (true, true) => Style::Either,
        (true, false) => Style::Point,
        (false, true) => Style::Comma,
        (false, false) if weak || thousands[0] && !thousands[1] => Style::Either,
        (false, false) => Style::Point,
    }
}

/// Swaps the marks of the numbers of a text with decimal commas.
pub(crate) fn swapped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for number in marked(text) {
        if matches!(
            form(number.as_str()),
            Form::Comma | Form::PointThousands | Form::CommaThousands
        ) {
            out.push_str(&text[from..number.start()]);
            out.push_str(&turned(number.as_str()));
            from = number.end();
        }
    }
    out.push_str(&text[from..]);
    out
}

fn turned(number: &str) -> String {
    let turn = |c| match c {
        ',' => '.',
        '.' => ',',
        other => other,
    };
    number.chars().map(turn).collect()
}

/// The numbers of a document as they are written.
pub(crate) fn written(document: &str) -> BTreeSet<&str> {
    marked(document).map(|number| number.as_str()).collect()
}

/// Writes the numbers of a text about a document as the document does; `kept` are its own.
pub(crate) fn restored(text: &str, kept: &BTreeSet<&str>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for number in BODY.find_iter(text) {
        // What the document has in this form was not swapped.
        if !kept.contains(number.as_str()) {
            out.push_str(&text[from..number.start()]);
            out.push_str(&turned(number.as_str()));
            from = number.end();
        }
    }
    out.push_str(&text[from..]);
    out
}
