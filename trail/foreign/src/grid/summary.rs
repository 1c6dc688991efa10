//! Summary rows, and the order of percentiles.

use std::collections::BTreeMap;

use super::Grid;
use super::relation::promised;
use crate::finding::{Finding, Rule};
use crate::number::{Quantity, shown};
use crate::words::words;

/// How a row summarizes the rows above it, by its label.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Summary {
    Sum,
    PerhapsSum,
    Mean,
}

/// Returns how a row summarizes the rows above it, by its label; `None` if it does not.
pub(super) fn kind(label: &str) -> Option<Summary> {
    let words = words(label);
    let first = words.first().map(|word| word.text.as_str());
    match first {
        Some("total" | "sum") if words.len() <= 2 => Some(Summary::Sum),
        // Such a row may also describe something else, so more columns must show that it is a sum.
        Some("all" | "overall" | "together" | "combined") if words.len() == 1 => {
            Some(Summary::PerhapsSum)
        }
        Some("average" | "mean" | "avg") if words.len() <= 2 => Some(Summary::Mean),
        _ => None,
    }
}

/// Checks rows that summarize the rows above them.
pub(super) fn summaries(grid: &Grid<'_>, findings: &mut Vec<Finding>) {
    for (row, label) in grid.labels.iter().enumerate() {
        let Some(kind_of_row) = kind(label) else {
            continue;
        };
        let sum = kind_of_row != Summary::Mean;
        let above: Vec<usize> = (0..row)
            .filter(|r| kind(&grid.labels[*r]).is_none())
            .collect();
        if above.len() < 2 || above.len() + 1 < row {
            continue;
        }
        // Beside a minimum or a percentile, an average is that of the values behind both.
        if !sum && above.iter().any(|r| rank(&grid.labels[*r]).is_some()) {
            continue;
        }
        let (mut holds, mut breaks) = (0usize, Vec::new());
        for column in 0..grid.names.len() {
            let parts: Vec<&Quantity> = above
                .iter()
                .filter_map(|r| grid.value(*r, column))
                .collect();
            let Some(stated) = grid
                .value(row, column)
                .filter(|_| parts.len() == above.len())
            else {
                continue;
            };
            if parts.iter().any(|part| part.unit != parts[0].unit) {
                continue;
            }
            let total: f64 = parts.iter().map(|part| part.value).sum();
            let slack: f64 = parts
                .iter()
                .map(|part| if part.is_count() { 0.0 } else { part.half })
                .sum();
            let n = parts.len() as f64;
            let (value, slack) = if sum {
                (total, slack)
            } else {
                (total / n, slack / n)
            };
            if stated.agrees(value - slack, value + slack) {
                holds += 1;
            } else if !parts.iter().all(|part| part.value == parts[0].value) {
                let counts = parts.iter().all(|part| part.is_count()) && stated.is_count();
                let most = parts.iter().map(|part| part.value).fold(f64::MIN, f64::max);
                let near = (0.6..1.6).contains(&(stated.value / value)) && stated.value > most;
                // A share or a factor of the whole is not a sum, and in a row that may describe something else only
                // counts are.
                let share =
                    stated.is_percent() || stated.unit == "x" || grid.names[column].contains('%');
                let summed = !sum || !share && (kind_of_row == Summary::Sum || counts && near);
                if summed {
                    breaks.push((column, value, sum && counts && near));
                }
            }
        }
        for (column, value, alone) in &breaks {
            // Averages may be weighted, and totals may count other things, so another column must confirm the rule.
            let shown_twice = holds >= 2 || kind_of_row != Summary::PerhapsSum;
            if holds > breaks.len() && shown_twice
                || holds == breaks.len() && holds > 0 && kind_of_row != Summary::PerhapsSum
                || *alone
                    && kind_of_row != Summary::PerhapsSum
                    && breaks.len() == 1
                    && holds == 0
                    && grid.names.len() == 1
            {
                let message = format!(
                    "the rows above give {}, not {}",
                    shown(*value),
                    grid.value(row, *column)
                        .map_or(String::new(), |v| shown(v.value))
                );
                findings.push(grid.finding(Rule::Total, row, *column, message, label, &[]));
            }
        }
    }
}

/// The rank of a statistic among others: minimum, percentiles, maximum.
pub(super) fn rank(name: &str) -> Option<(f64, String)> {
    let words = words(name);
    let at = words
        .iter()
        .position(|word| rank_word(&word.text).is_some())?;
    let rank = rank_word(&words[at].text)?;
    let rest: Vec<&str> = words
        .iter()
        .enumerate()
        .filter(|(i, _)| *i != at)
        .map(|(_, word)| word.text.as_str())
        .collect();
    Some((rank, rest.join(" ")))
}

fn rank_word(word: &str) -> Option<f64> {
    match word {
        "min" | "minimum" => Some(0.0),
        "median" => Some(50.0),
        "max" | "maximum" => Some(100.0),
        _ => word
            .strip_prefix('p')?
            .parse()
            .ok()
            .filter(|p| (0.0..=100.0).contains(p)),
    }
}

/// Checks that minimum, percentiles and maximum of one metric rise.
pub(super) fn percentiles(grid: &Grid<'_>, findings: &mut Vec<Finding>) {
    let mut metrics: BTreeMap<String, Vec<(f64, usize)>> = BTreeMap::new();
    for (column, name) in grid.names.iter().enumerate() {
        if let Some((rank, metric)) = rank(name) {
            metrics.entry(metric).or_default().push((rank, column));
        }
    }
    for columns in metrics.values_mut() {
        columns.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut rising, mut falling) = (0usize, Vec::new());
        for row in 0..grid.labels.len() {
            // Changes of percentiles have no order.
            let derived = !promised(&grid.labels[row]).is_empty()
                || columns.iter().any(|(_, column)| {
                    let cell = grid.value(row, *column);
                    cell.is_some_and(|cell| cell.signed || cell.value < 0.0)
                });
            if derived {
                continue;
            }
            for pair in columns.windows(2) {
                if let (Some(a), Some(b)) = (grid.value(row, pair[0].1), grid.value(row, pair[1].1))
                    && a.unit == b.unit
                    && pair[0].0 < pair[1].0
                {
                    if a.value - a.half > b.value + b.half {
                        falling.push((row, pair[0].1, pair[1].1));
                    } else {
                        rising += 1;
                    }
                }
            }
        }
        // For a rate, a worse percentile is a lower number, so all of them fall.
        if falling.len() * 3 > rising {
            continue;
        }
        for (row, low, high) in falling {
            let message = format!("{} is above {}", grid.names[low], grid.names[high]);
            findings.push(grid.finding(
                Rule::Relation,
                row,
                high,
                message,
                "order of percentiles",
                &[(row, low)],
            ));
        }
    }
}
