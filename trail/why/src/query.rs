//! Finds numbers in a report by place, by text, or by both.

use std::path::PathBuf;

use artifacts::counted;

use crate::document::{Document, Number};
use crate::error::TrailError;

/// A search for numbers in a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// The report's file.
    pub report: PathBuf,
    /// The line, from 1.
    pub line: Option<usize>,
    /// The character in the line, from 1.
    pub column: Option<usize>,
    /// The number as the report prints it.
    pub text: Option<String>,
}

impl Query {
    /// Reads `REPORT`, `REPORT:LINE` or `REPORT:LINE:COLUMN`, and the number's text.
    pub fn parse(report: &str, number: Option<&str>) -> Self {
        let (mut path, mut places) = (report, Vec::new());
        while places.len() < 2 {
            let Some((rest, last)) = path.rsplit_once(':') else {
                break;
            };
            let Ok(place) = last.parse::<usize>() else {
                break;
            };
            places.insert(0, place);
            path = rest;
        }
        let text = number.map(|n| n.trim().to_owned());
        let mut places = places.into_iter();
        Self {
            report: path.into(),
            line: places.next(),
            column: places.next(),
            text,
        }
    }
}

/// The result of a query.
#[derive(Clone, Debug, PartialEq)]
pub enum Found<'a> {
    /// One value, with all its requested places.
    One(&'a Number, Vec<&'a Number>),
    /// Several values: the query needs a more exact place.
    Several(Vec<&'a Number>),
}

/// Finds the numbers that match a query.
///
/// # Errors
/// If none matches; the hint names what is near.
pub fn find<'a>(document: &'a Document, query: &Query) -> Result<Found<'a>, TrailError> {
    let on_line = |n: &&Number| query.line.is_none_or(|line| n.line == line);
    let at_column = |n: &&Number| {
        query
            .column
            .is_none_or(|c| (n.column_start..n.column_end).contains(&c))
    };
    let has_text = |n: &&Number| query.text.as_deref().is_none_or(|text| is_text(n, text));
    let matches: Vec<&Number> = document
        .numbers
        .iter()
        .filter(on_line)
        .filter(at_column)
        .filter(has_text)
        .collect();
    let Some(first) = matches.first().copied() else {
        return Err(nothing(document, query));
    };
    if matches.iter().all(|n| n.same_value(first)) {
        return Ok(Found::One(first, matches));
    }
    Ok(Found::Several(matches))
}

/// Returns whether a number is printed this way, with or without its unit, thousands separators and
/// the typographic minus sign.
fn is_text(number: &Number, wanted: &str) -> bool {
    let plain = |text: &str| text.replace('\u{2212}', "-").replace([',', ' '], "");
    let (printed, wanted) = (plain(&number.text), plain(wanted));
    let bare = plain(number.text.split(' ').next().unwrap_or_default());
    let with_unit = number
        .unit
        .as_ref()
        .map(|unit| plain(&format!("{printed}{unit}")));
    printed == wanted
        || bare.trim_end_matches('×') == wanted
        || with_unit.as_deref() == Some(&wanted)
}

fn nothing(document: &Document, query: &Query) -> TrailError {
    let file = document.path.display();
    let what = query.text.as_ref().map_or_else(
        || "no number".to_owned(),
        |text| format!("no number `{text}`"),
    );
    let place = match (query.line, query.column) {
        (Some(line), Some(column)) => format!(" at {file}:{line}:{column}"),
        (Some(line), None) => format!(" on {file}:{line}"),
        _ => format!(" in {file}"),
    };
    let mut near: Vec<&Number> = document.numbers.iter().collect();
    // Words are traced, too. Whoever asks for a number that is not there has no use for them.
    if near.iter().any(|n| is_numeric(n)) {
        near.retain(|n| is_numeric(n));
    }
    let (line, column) = (query.line.unwrap_or(0), query.column.unwrap_or(0));
    let on_line = query
        .line
        .is_some_and(|line| near.iter().any(|n| n.line == line));
    let hint = match query.line {
        Some(line) if on_line => {
            near.retain(|n| n.line == line);
            near.sort_by_key(|n| n.column_start.abs_diff(column));
            format!("that line has {}", listed(&near))
        }
        Some(_) if !near.is_empty() => {
            near.sort_by_key(|n| n.line.abs_diff(line));
            let lines = document.markdown.lines().count();
            let end = match line > lines {
                true => format!("it has {}; ", counted(lines, "line")),
                false => String::new(),
            };
            format!("{end}the nearest are {}", listed(&near))
        }
        _ if near.is_empty() => "its trace is empty".to_owned(),
        _ => {
            let wanted = query
                .text
                .as_deref()
                .unwrap_or_default()
                .replace('\u{2212}', "-");
            near.retain(|n| is_near(n, &wanted));
            match near.is_empty() {
                true => format!(
                    "it has {}; give a line: {file}:LINE",
                    counted(document.numbers.len(), "traced number")
                ),
                false => format!("the nearest are {}", listed(&near)),
            }
        }
    };
    TrailError::NoNumber {
        asked: format!("{what}{place}"),
        hint,
    }
}

/// Returns whether a traced cell is a number, and not a word.
fn is_numeric(number: &Number) -> bool {
    let value = number.value.as_deref();
    value.is_some_and(|value| value.parse::<f64>().is_ok_and(f64::is_finite))
}

/// Returns whether a number's full value is within 1 % of the wanted one.
fn is_near(number: &Number, wanted: &str) -> bool {
    let value: Option<f64> = number.value.as_ref().and_then(|v| v.parse().ok());
    let wanted: Option<f64> = wanted.replace(',', "").parse().ok();
    match (value, wanted) {
        (Some(value), Some(wanted)) => (value - wanted).abs() <= 0.01 * wanted.abs(),
        _ => false,
    }
}

fn listed(numbers: &[&Number]) -> String {
    let mut shown: Vec<String> = numbers
        .iter()
        .take(5)
        .map(|n| format!("`{}` at {}", n.text, n.place()))
        .collect();
    if numbers.len() > shown.len() {
        shown.push(format!("and {} more", numbers.len() - shown.len()));
    }
    shown.join(", ")
}
