//! R-MONO, R-IDENT, R-GRAIN: where a curve first falls below a threshold, compared with its values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Confidence, Evidence, Finding};
use crate::number::{Quantity, quantities, shown};
use crate::rules::Rule;
use crate::rules::scope::{Scope, in_prose, in_table};
use crate::rules::words::words;
use crate::table::Table;

static BREAK: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)\b(?:break(?:down|s|ing)?[ -](?:n|at|point)|first n below|crosses the boundary)\b.*$",
    )
    .expect("a regex")
});
static THRESHOLD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?:first[ _]n[ _]below[ _]|\bthreshold (?:of |is |at |fixed ){0,3}|\b(?:falls?|drops?|lies?) below (?:the )?)(?P<t>0?\.[0-9]+)\b|\b(?P<u>0?\.[0-9]+) (?:[a-z-]+ ){0,2}threshold\b").expect("a regex")
});
static LEVEL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\bN ?= ?(?P<n>[0-9]+)\b").expect("a regex"));
static WORST: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)\b(?:worst|lowest|smallest)\b[^.;,]{0,30}\bcells?\b[^.;,0-9]{0,12}(?P<v>0\.[0-9]+)\b",
    )
    .expect("a regex")
});

/// The first level at which a curve lies below the threshold.
struct Break<'a> {
    table: &'a Table,
    row: usize,
    column: usize,
    /// What names the curve: the words of its row and of its column.
    words: BTreeSet<String>,
    /// `None` if it never does.
    level: Option<f64>,
}

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    let breaks = breaks(&scope.report.tables);
    let Some(threshold) = threshold(scope).filter(|_| !breaks.is_empty()) else {
        return;
    };
    for table in &scope.report.tables {
        values(table, &breaks, threshold, found);
    }
    worst(scope, &breaks, threshold, found);
}

fn breaks(tables: &[Table]) -> Vec<Break<'_>> {
    let mut found = Vec::new();
    for table in tables.iter().filter(|table| table.rows.len() <= 400) {
        for column in 1..table.columns.len() {
            let Some(name) = BREAK.find(&table.columns[column]) else {
                continue;
            };
            for (row, cells) in table
                .rows
                .iter()
                .enumerate()
                .filter(|r| r.1.cells.len() == table.columns.len())
            {
                let text = cells.cells[column].text.to_lowercase();
                let level = cells.cells[column]
                    .value
                    .as_ref()
                    .filter(|v| v.is_count())
                    .map(|v| v.value);
                let never = ["never", "–", "—", "-", "none", "nowhere"].contains(&text.as_str());
                if level.is_none() && !never {
                    continue;
                }
                let texts = cells.cells[..column]
                    .iter()
                    .filter(|cell| cell.value.is_none());
                let mut words: BTreeSet<String> =
                    texts.flat_map(|cell| words(&cell.text)).collect();
                words.extend(self::words(&table.columns[column][..name.start()]));
                found.push(Break {
                    table,
                    row,
                    column,
                    words,
                    level,
                });
            }
        }
    }
    found
}

/// The threshold of the report: the number that most often stands as one.
fn threshold(scope: &Scope<'_>) -> Option<f64> {
    let texts = scope.report.prose.iter().map(|prose| prose.text.as_str());
    let headers = scope
        .report
        .tables
        .iter()
        .map(|table| table.header.as_str());
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for captures in texts
        .chain(headers)
        .flat_map(|text| THRESHOLD.captures_iter(text))
    {
        let stated = captures
            .name("t")
            .or(captures.name("u"))
            .map(|m| m.as_str().trim_end_matches('0'));
        *counts.entry(stated?).or_default() += 1;
    }
    let most = counts.iter().max_by_key(|(_, count)| **count)?;
    (most.1 * 2 > counts.values().sum()).then(|| most.0.parse().ok())?
}

/// A cell under the name of a level: is it on the side of the threshold where the break says it is?
fn values(table: &Table, breaks: &[Break<'_>], threshold: f64, found: &mut Vec<Finding>) {
    for column in 1..table.columns.len() {
        let name = &table.columns[column];
        let Some(level) = LEVEL
            .captures(name)
            .and_then(|c| c.name("n")?.as_str().parse::<f64>().ok())
        else {
            continue;
        };
        for row in 0..table.rows.len() {
            let Some(value) = table
                .value(row, column)
                .filter(|v| v.half < 0.5 && v.value <= 1.0)
            else {
                continue;
            };
            let mut here = words(table.label(row));
            here.extend(words(name));
            here.extend(words(&table.rows[row].cells[column].text));
            let mut fitting = breaks
                .iter()
                .filter(|b| b.words.len() >= 2 && b.words.is_subset(&here));
            let (Some(point), None) = (fitting.next(), fitting.next()) else {
                continue;
            };
            let (above, below) = (
                value.value - value.half > threshold,
                value.value + value.half < threshold,
            );
            let (rule, message) = match point.level {
                Some(first) if first <= level && above => (
                    Rule::Mono,
                    format!(
                        "{} at N={} lies above {} again, after the break at N={}",
                        shown(value.value),
                        shown(level),
                        shown(threshold),
                        shown(first)
                    ),
                ),
                Some(first) if first > level && below => (
                    Rule::Ident,
                    format!(
                        "{} at N={} lies below {}, before the break at N={}",
                        shown(value.value),
                        shown(level),
                        shown(threshold),
                        shown(first)
                    ),
                ),
                None if below => (
                    Rule::Ident,
                    format!(
                        "{} is below {}, contrary to the text",
                        shown(value.value),
                        shown(threshold)
                    ),
                ),
                _ => continue,
            };
            let evidence = vec![
                point.table.evidence(point.row, point.column),
                table.evidence(row, column),
            ];
            found.push(in_table(
                table,
                (row, column),
                (rule, Confidence::Medium),
                message,
                evidence,
            ));
        }
    }
}

/// "The worst cell is at 0.787" at a level at which cells break: those lie below the threshold.
fn worst(scope: &Scope<'_>, breaks: &[Break<'_>], threshold: f64, found: &mut Vec<Finding>) {
    for prose in &scope.report.prose {
        for captures in WORST.captures_iter(&prose.text) {
            let (Some(whole), Some(value)) = (captures.get(0), captures.name("v")) else {
                continue;
            };
            let Some((start, end)) = prose.sentence(whole.start()) else {
                continue;
            };
            // The level named last before the value, in its own clause.
            let before = &prose.text[start..value.start()];
            let clause = &before[before.rfind([';', ':']).map_or(0, |at| at)..];
            let level = LEVEL
                .captures_iter(clause)
                .last()
                .and_then(|c| c.name("n")?.as_str().parse::<f64>().ok());
            let number: Option<Quantity> = quantities(value.as_str()).pop();
            let (Some(level), Some(number)) =
                (level, number.filter(|n| n.value - n.half > threshold))
            else {
                continue;
            };
            let lower: Vec<Evidence> = breaks
                .iter()
                .filter(|point| point.level == Some(level))
                .map(|point| point.table.evidence(point.row, point.column))
                .collect();
            if !lower.is_empty() {
                let message = format!(
                    "{} cells break at N={}, so they lie below {}: {} is not the worst cell",
                    lower.len(),
                    shown(level),
                    shown(threshold),
                    shown(number.value)
                );
                let span = (whole.start(), value.end().min(end));
                found.push(in_prose(
                    prose,
                    span,
                    (Rule::Grain, Confidence::Medium),
                    message,
                    lower,
                ));
            }
        }
    }
}
