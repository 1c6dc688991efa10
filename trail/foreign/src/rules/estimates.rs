//! R-IDENT, R-STAT: order of percentiles, intervals, marks of significance.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Confidence, Evidence, Finding};
use crate::number::{Quantity, quantities, shown};
use crate::rules::Rule;
use crate::rules::scope::{Scope, in_table};
use crate::rules::words::words;
use crate::table::Table;

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    for table in &scope.report.tables {
        order(table, found);
        intervals(table, found);
        significance(table, found);
    }
}

/// The place of a statistic in the order min ≤ P50 ≤ P90 ≤ P95 ≤ P99 ≤ max; `None` for others.
pub(crate) fn rank(words: &BTreeSet<String>) -> Option<f64> {
    if words.contains("min") {
        return Some(-1.0);
    }
    if words.contains("max") {
        return Some(101.0);
    }
    if words.contains("median") {
        return Some(50.0);
    }
    words.iter().find_map(|word| {
        word.strip_prefix('p')?
            .parse::<f64>()
            .ok()
            .filter(|p| (1.0..100.0).contains(p))
    })
}

/// Statistics of one metric in a row rise: `min ≤ median ≤ P95 ≤ P99 ≤ max`, `min ≤ mean ≤ max`.
fn order(table: &Table, found: &mut Vec<Finding>) {
    let named: Vec<(usize, BTreeSet<String>)> = table
        .numeric_columns()
        .into_iter()
        .map(|c| (c, words(&table.columns[c])))
        .collect();
    for (a, first) in &named {
        for (b, second) in &named {
            let mean_first = first.contains("mean") && rank(first).is_none();
            let (Some(low), Some(high)) = (
                if mean_first { Some(0.0) } else { rank(first) },
                rank(second),
            ) else {
                continue;
            };
            if low >= high || (mean_first && high < 101.0) {
                continue;
            }
            let rest = |words: &BTreeSet<String>| -> Vec<String> {
                words
                    .iter()
                    .filter(|w| rank(&[(*w).clone()].into()).is_none() && *w != "mean")
                    .cloned()
                    .collect()
            };
            if rest(first) != rest(second) {
                continue;
            }
            for row in 0..table.rows.len() {
                let (Some(x), Some(y)) = (table.value(row, *a), table.value(row, *b)) else {
                    continue;
                };
                // Differences and errors have no order.
                if x.unit == y.unit && !x.signed && !y.signed && x.value - x.half > y.value + y.half
                {
                    let message = format!(
                        "\"{}\" is above \"{}\"",
                        table.columns[*a], table.columns[*b]
                    );
                    let evidence = [*a, *b].map(|column| table.evidence(row, column)).to_vec();
                    found.push(in_table(
                        table,
                        (row, *a),
                        (Rule::Ident, Confidence::High),
                        message,
                        evidence,
                    ));
                }
            }
        }
    }
}

static INTERVAL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\[ ?(?P<a>[+−-]?[0-9.,]+) ?[,;–] ?(?P<b>[+−-]?[0-9.,]+) ?\]").expect("a regex")
});

fn interval(text: &str) -> Option<(Quantity, Quantity)> {
    let captures = INTERVAL.captures(text)?;
    let number = |name: &str| quantities(captures.name(name)?.as_str()).into_iter().next();
    Some((number("a")?, number("b")?))
}

/// An interval holds its estimate and is not turned around.
fn intervals(table: &Table, found: &mut Vec<Finding>) {
    let width = table
        .rows
        .iter()
        .map(|row| row.cells.len())
        .max()
        .unwrap_or(0);
    for column in 1..width {
        let bounds: Vec<Option<(Quantity, Quantity)>> = table
            .rows
            .iter()
            .map(|row| interval(&row.cells.get(column)?.text))
            .collect();
        if bounds.iter().flatten().count() < 2 {
            continue;
        }
        for (row, bound) in bounds.iter().enumerate() {
            if let Some((low, high)) = bound
                && low.value > high.value
            {
                found.push(in_table(
                    table,
                    (row, column),
                    (Rule::Ident, Confidence::High),
                    "the interval is turned around".to_owned(),
                    Vec::new(),
                ));
            }
        }
        // The estimate: the column in the interval in most rows, a mean or estimate by name if it has one.
        let inside = |row: usize, other: usize| -> Option<bool> {
            let (low, high) = bounds.get(row)?.as_ref()?;
            let value = table.value(row, other)?;
            Some(
                value.value >= low.value - low.half - value.half
                    && value.value <= high.value + high.half + value.half,
            )
        };
        let named = |other: usize| {
            let name = table
                .columns
                .get(other)
                .map(|name| name.to_lowercase())
                .unwrap_or_default();
            name.contains("median") || name.starts_with("p ") || name.contains("p-")
        };
        let estimate = (1..column).rev().filter(|&o| !named(o)).find(|&other| {
            let all: Vec<bool> = (0..table.rows.len())
                .filter_map(|row| inside(row, other))
                .collect();
            let yes = all.iter().filter(|y| **y).count();
            all.len() >= 3 && yes * 4 >= all.len() * 3
        });
        let Some(estimate) = estimate else { continue };
        for row in 0..table.rows.len() {
            if inside(row, estimate) == Some(false) {
                let message = "the estimate lies outside its interval".to_owned();
                let evidence = [estimate, column].map(|c| table.evidence(row, c)).to_vec();
                found.push(in_table(
                    table,
                    (row, estimate),
                    (Rule::Ident, Confidence::High),
                    message,
                    evidence,
                ));
            }
        }
    }
}

static ALPHA: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)sig[a-z.]*(?: ?[@(]? ?(?:α ?= ?|p ?< ?)?(?P<a>0?\.[0-9]+))?").expect("a regex")
});

/// A mark of significance beside a p-value: `0.0018 … no`.
fn significance(table: &Table, found: &mut Vec<Finding>) {
    let Some(captures) = ALPHA.captures(&table.header) else {
        return;
    };
    let alpha: f64 = captures
        .name("a")
        .and_then(|a| a.as_str().parse().ok())
        .unwrap_or(0.05);
    let p_name = Regex::new(
        r"(?i)(?:^|[\s|(])(?:p|p[- ]?val(?:ue)?s?|[a-z]+[- ]?adj(?:usted)? p|holm p)(?:$|[\s|)_(])",
    )
    .expect("a regex");
    if !p_name.is_match(&table.header) {
        return;
    }
    let mut contrary = Vec::new();
    let mut first = None;
    for (row, cells) in table.rows.iter().enumerate() {
        let mark = cells
            .cells
            .iter()
            .enumerate()
            .skip(1)
            .find_map(|(at, cell)| {
                let name = table.columns.get(at).map_or("", String::as_str);
                let meant = name.is_empty() || name.to_lowercase().contains("sig");
                match cell.text.to_lowercase().as_str() {
                    "yes" | "✓" | "✅" | "true" if meant => Some((at, true)),
                    "no" | "✗" | "❌" | "false" if meant => Some((at, false)),
                    _ => None,
                }
            });
        let Some((at, stated)) = mark else { continue };
        let named = (1..cells.cells.len()).rev().find(|&c| {
            table
                .columns
                .get(c)
                .is_some_and(|name| p_name.is_match(name))
                && table.value(row, c).is_some()
        });
        // Without names: the last plain number before the mark.
        let p = named.or_else(|| {
            (table.recovered)
                .then(|| at.checked_sub(1))
                .flatten()
                .filter(|&c| c > 0 && table.value(row, c).is_some())
        });
        let Some(p) = p.and_then(|c| table.value(row, c).map(|value| (c, value))) else {
            continue;
        };
        if !(0.0..=1.0).contains(&p.1.value)
            || (p.1.value < alpha) == stated
            || (p.1.value - alpha).abs() <= p.1.half
        {
            continue;
        }
        first.get_or_insert((row, at));
        contrary.push(Evidence::new(
            format!("line {}, \"{}\"", cells.line, table.label(row)),
            format!(
                "p = {}, marked \"{}\"",
                shown(p.1.value),
                cells.cells[at].text
            ),
        ));
    }
    if let Some(cell) = first {
        let message = format!(
            "the mark is not that of p < {} in {} rows; a column may be lost or misplaced",
            shown(alpha),
            contrary.len()
        );
        found.push(in_table(
            table,
            cell,
            (Rule::Stat, Confidence::High),
            message,
            contrary,
        ));
    }
}
