//! R-STAT: a number that a sentence calls a statistic of a measured column is that statistic of the data.

use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Confidence, Evidence, Finding};
use crate::number::{Agreement, Quantity, compare, shown};
use crate::rules::Rule;
use crate::rules::scope::{Scope, in_prose};
use crate::rules::words::{names, words};
use crate::table::Table;

static CLAIM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?P<s>mean|average|median|maximum|max|minimum|min|p[0-9]{2}(?:\.[0-9])?)[- ](?P<m>[A-Za-z][A-Za-z \-]{1,40}?) (?:is|was|of|reaches|reached|stays at|at|:|=) ?[~≈]?(?P<v>[0-9])").expect("a regex")
});

/// Fewer rows have no percentiles worth the name.
const LEAST_ROWS: usize = 10;

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    let raw: Vec<&Table> = scope
        .data
        .iter()
        .filter(|table| table.rows.len() >= LEAST_ROWS)
        .collect();
    if raw.is_empty() {
        return;
    }
    for prose in &scope.report.prose {
        for captures in CLAIM.captures_iter(&prose.text) {
            let (Some(whole), Some(statistic), Some(metric), Some(value)) = (
                captures.get(0),
                captures.name("s"),
                captures.name("m"),
                captures.name("v"),
            ) else {
                continue;
            };
            let Some(stated) = prose
                .numbers_in(value.start().saturating_sub(2), value.end())
                .last()
            else {
                continue;
            };
            let Some((start, end)) = prose.sentence(whole.start()) else {
                continue;
            };
            let sentence = &prose.text[start..end];
            let mut bound = raw
                .iter()
                .filter_map(|table| Some((*table, measure(table, metric.as_str(), &stated.unit)?)));
            let (Some((table, (column, scale))), None) = (bound.next(), bound.next()) else {
                continue;
            };
            let values = filtered(table, column, scale, sentence);
            if values.len() < LEAST_ROWS {
                continue;
            }
            let wanted = kind(statistic.as_str());
            if agrees(stated, &values, wanted) {
                continue;
            }
            let other = [
                Kind::Mean,
                Kind::At(50.0),
                Kind::At(90.0),
                Kind::At(95.0),
                Kind::At(99.0),
                Kind::At(100.0),
                Kind::At(0.0),
            ]
            .into_iter()
            .find(|kind| *kind != wanted && agrees(stated, &values, *kind));
            let is = shown(statistic_of(&values, wanted).0);
            let (confidence, message) = match other {
                Some(other) => (
                    Confidence::High,
                    format!(
                        "{} is the {}, not the {}, which is {is}",
                        shown(stated.value),
                        other.name(),
                        wanted.name()
                    ),
                ),
                None => (
                    Confidence::Low,
                    format!("the {} of {} rows is {is}", wanted.name(), values.len()),
                ),
            };
            let evidence = vec![Evidence::new(
                format!(
                    "{}, column \"{}\", {} rows",
                    table.file,
                    table.columns[column],
                    values.len()
                ),
                format!(
                    "mean {}, median {}, P95 {}, P99 {}",
                    shown(statistic_of(&values, Kind::Mean).0),
                    shown(statistic_of(&values, Kind::At(50.0)).0),
                    shown(statistic_of(&values, Kind::At(95.0)).0),
                    shown(statistic_of(&values, Kind::At(99.0)).0)
                ),
            )];
            found.push(in_prose(
                prose,
                (whole.start(), stated.end),
                (Rule::Stat, confidence),
                message,
                evidence,
            ));
        }
    }
}

/// The column that holds a metric, and the factor to the unit of the text.
fn measure(table: &Table, metric: &str, unit: &str) -> Option<(usize, f64)> {
    let wanted = words(metric);
    let mut fitting = (0..table.columns.len()).filter_map(|column| {
        let spaced = table.columns[column].replace(['_', '-'], " ");
        let (name, own_unit) = match spaced.rsplit_once(' ') {
            Some((name, unit)) if matches!(unit, "ms" | "s" | "us" | "ns") => {
                (name.to_owned(), unit.to_owned())
            }
            _ => (spaced.clone(), String::new()),
        };
        let fractions = table.numbers(column).len() * 10 >= table.rows.len() * 9;
        (words(&name) == wanted && fractions).then_some((column, own_unit))
    });
    let (column, own_unit) = fitting.next()?;
    if fitting.next().is_some() {
        return None;
    }
    let seconds = |unit: &str| match unit {
        "s" => Some(1.0),
        "ms" => Some(1e-3),
        "us" => Some(1e-6),
        "ns" => Some(1e-9),
        _ => None,
    };
    match (seconds(&own_unit), seconds(unit)) {
        (Some(own), Some(stated)) => Some((column, own / stated)),
        (None, None) => Some((column, 1.0)),
        _ => None,
    }
}

/// The values of the rows that the sentence speaks of: those whose names it says, if it says any.
fn filtered(table: &Table, column: usize, scale: f64, sentence: &str) -> Vec<f64> {
    let mut keep = vec![true; table.rows.len()];
    for key in (0..table.columns.len()).filter(|&c| c != column) {
        let name = table.columns[key].replace('_', " ");
        let said: Vec<bool> = table
            .rows
            .iter()
            .map(|row| {
                let Some(cell) = row.cells.get(key) else {
                    return false;
                };
                match &cell.value {
                    None => cell.text.len() > 1 && names(sentence, &cell.text),
                    Some(q) if q.is_count() => {
                        let n = shown(q.value);
                        names(sentence, &format!("{name} {n}"))
                            || names(sentence, &format!("{name}={n}"))
                            || names(sentence, &format!("{n} {name}"))
                            || names(sentence, &format!("{name} of {n}"))
                    }
                    Some(_) => false,
                }
            })
            .collect();
        if said.iter().any(|said| *said) {
            keep.iter_mut()
                .zip(said)
                .for_each(|(keep, said)| *keep &= said);
        }
    }
    let mut values: Vec<f64> = table
        .numbers(column)
        .into_iter()
        .filter(|(row, _)| keep[*row])
        .map(|(_, q)| q.value * scale)
        .collect();
    values.sort_by(f64::total_cmp);
    values
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Mean,
    At(f64),
}

impl Kind {
    fn name(self) -> String {
        match self {
            Self::Mean => "mean".to_owned(),
            Self::At(0.0) => "minimum".to_owned(),
            Self::At(50.0) => "median".to_owned(),
            Self::At(100.0) => "maximum".to_owned(),
            Self::At(p) => format!("P{}", shown(p)),
        }
    }
}

fn kind(word: &str) -> Kind {
    let word = word.to_lowercase();
    match word.as_str() {
        "mean" | "average" => Kind::Mean,
        "median" => Kind::At(50.0),
        "max" | "maximum" => Kind::At(100.0),
        "min" | "minimum" => Kind::At(0.0),
        other => Kind::At(other.trim_start_matches('p').parse().unwrap_or(50.0)),
    }
}

/// The statistic of sorted values, for percentiles between the neighbours of the rank: every usual definition
/// (nearest rank, linear interpolation) lies there.
fn statistic_of(sorted: &[f64], kind: Kind) -> (f64, f64, f64) {
    let count = sorted.len();
    let size = u32::try_from(count).map_or(f64::MAX, f64::from);
    match kind {
        Kind::Mean => {
            let mean = sorted.iter().sum::<f64>() / size;
            (mean, mean, mean)
        }
        Kind::At(p) => {
            let position = p.clamp(0.0, 100.0) / 100.0 * (size - 1.0);
            // In range by the clamp; the truncation is the rank below.
            let below = (position.floor() as usize).min(count - 1);
            let above = (below + 1).min(count - 1);
            let middle =
                sorted[below] + (sorted[above] - sorted[below]) * (position - position.floor());
            if matches!(p, 0.0 | 100.0) {
                (middle, middle, middle)
            } else {
                (middle, sorted[below], sorted[above])
            }
        }
    }
}

fn agrees(stated: &Quantity, sorted: &[f64], kind: Kind) -> bool {
    let (_, low, high) = statistic_of(sorted, kind);
    compare(stated, low, high) == Agreement::Agrees
}
