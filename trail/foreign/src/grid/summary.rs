//! Summary rows, and the order of percentiles.

use std::collections::BTreeMap;

use super::Grid;
use super::relation::{promised, unit_of};
use crate::finding::{Finding, Rule};
use crate::number::{Quantity, measure, misprints};
use crate::words::words;

/// Whether a row sums up (`true`) or averages the rows above it, by its label; `None` if it does neither.
pub(super) fn sums(label: &str) -> Option<bool> {
    let words = words(label);
    let first = words.first().filter(|_| words.len() <= 2)?;
    match first.text.as_str() {
        "total" | "sum" => Some(true),
        "average" | "mean" | "avg" => Some(false),
        _ => None,
    }
}

/// Whether a row is the geometric mean of the rows above it.
fn is_geometric(label: &str) -> bool {
    let words = words(label);
    let spoken: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    matches!(
        spoken.as_slice(),
        ["geomean" | "gmean"] | ["geo" | "geometric", "mean" | "average"]
    )
}

/// The number of a part of a sum; a zero may have a remark in brackets, such as `0.0 (cached)`. Other remarks may say that the number
/// does not count.
fn with_remark<'a>(grid: &Grid<'a>, at: (usize, usize)) -> Option<&'a Quantity> {
    let (row, column) = grid.at(at);
    let remark = |number: &&Quantity| {
        let text = grid.table.text(row, column);
        let rest = text.get(number.end..).unwrap_or("").trim_start();
        rest.starts_with('(') && rest.ends_with(')')
    };
    let number = grid.table.value(row, column);
    let zero = number.filter(|number| number.value == 0.0);
    grid.value(at.0, at.1).or_else(|| zero.filter(remark))
}

/// Words of columns whose total need not be their sum: a total latency is a mean, and stages overlap in a total time.
#[rustfmt::skip]
const AVERAGED: &[&str] = &[
    "mean", "average", "avg", "latency", "ttft", "tpot", "itl", "e2e", "time", "wall", "duration", "delay", "rate",
    "utilization", "utilisation", "util", "peak",
];

/// Whether a total row does not sum up a column: its number lies among its parts, or its column is of a time, a rank or
/// an average. In such a column, only what looks like a misprint of the sum is one.
fn averages(name: &str, parts: &[&Quantity], stated: &Quantity, sum: f64) -> bool {
    let among = parts.iter().any(|part| part.value >= stated.value)
        && parts.iter().any(|part| part.value <= stated.value);
    let lower = name.to_lowercase();
    let unit = unit_of(name);
    // GPU-hours are work, and not a time.
    let work = ["-hour", "-second", "-minute", "-day"];
    let time = [stated.unit.as_str(), unit.as_str()]
        .iter()
        .any(|unit| measure(unit).0 == "time")
        && !work.iter().any(|work| lower.contains(work));
    let words = words(name);
    let averaged = words
        .iter()
        .any(|word| AVERAGED.contains(&word.text.as_str()));
    let other = time || averaged || rank(name).is_some();
    among || other && !misprints(stated, sum)
}

/// Checks rows that summarize the rows above them.
pub(super) fn summaries(grid: &Grid<'_>, findings: &mut Vec<Finding>) {
    for (row, label) in grid.labels.iter().enumerate() {
        let geometric = is_geometric(label);
        let Some(sum) = sums(label).or(geometric.then_some(false)) else {
            continue;
        };
        let above: Vec<usize> = (0..row)
            .filter(|r| sums(&grid.labels[*r]).is_none() && !is_geometric(&grid.labels[*r]))
            .collect();
        // Beside a minimum or a percentile, an average is that of the values behind both.
        let ranked = || above.iter().any(|r| rank(&grid.labels[*r]).is_some());
        if above.len() < 2 || above.len() + 1 < row || !sum && ranked() {
            continue;
        }
        let (mut holds, mut breaks) = (0usize, Vec::new());
        for column in 0..grid.names.len() {
            let part = |row: &usize| match sum {
                true => with_remark(grid, (*row, column)),
                false => grid.value(*row, column),
            };
            let parts = above.iter().map(part);
            let parts: Option<Vec<&Quantity>> = parts.collect();
            let (Some(parts), Some(stated)) = (parts, grid.value(row, column)) else {
                continue;
            };
            if parts.iter().any(|part| part.unit != parts[0].unit) {
                continue;
            }
            let n = if sum { 1.0 } else { parts.len() as f64 };
            let total: f64 = parts.iter().map(|part| part.value).sum();
            let half = |part: &&Quantity| if part.is_count() { 0.0 } else { part.half };
            let slack = parts.iter().map(half).sum::<f64>() / n;
            let logs: f64 = parts.iter().map(|part| part.value.ln()).sum();
            let value = if geometric {
                (logs / n).exp()
            } else {
                total / n
            };
            if !value.is_finite() {
                continue;
            }
            // A share or a factor of the whole is not a sum.
            let name = &grid.names[column];
            let share = stated.is_percent() || stated.unit == "x" || name.contains('%');
            let apart = parts.iter().any(|part| part.value != parts[0].value);
            if stated.agrees(value - slack, value + slack) {
                holds += 1;
            } else if apart && !(sum && (share || averages(name, &parts, stated, value))) {
                let counts = stated.is_count() && parts.iter().all(|part| part.is_count());
                let more = parts.iter().all(|part| part.value < stated.value);
                let near = (0.6..1.6).contains(&(stated.value / value));
                breaks.push((column, value, sum && counts && near && more));
            }
        }
        for (column, value, alone) in &breaks {
            // Averages may be weighted, and totals may count other things, so another column must confirm the rule.
            let only = *alone && holds == 0 && grid.names.len() == 1;
            if holds > 0 && holds >= breaks.len() || only {
                let parts = if grid.upright {
                    "the rows above"
                } else {
                    "the cells to its left"
                };
                let at = (row, *column);
                let right = grid.shown_like(*value, at);
                let message = format!("{parts} give {right}, not {}", grid.printed(at));
                findings.push(grid.finding(Rule::Total, at, message, label, &[]));
            }
        }
    }
}

/// The rank of a statistic among others: minimum, percentiles, maximum.
pub(super) fn rank(name: &str) -> Option<(f64, String)> {
    let mut words: Vec<String> = words(name).into_iter().map(|word| word.text).collect();
    let at = words.iter().position(|word| rank_word(word).is_some())?;
    let rank = rank_word(&words.remove(at))?;
    Some((rank, words.join(" ")))
}

fn rank_word(word: &str) -> Option<f64> {
    match word {
        "min" | "minimum" => Some(0.0),
        "median" => Some(50.0),
        "max" | "maximum" => Some(100.0),
        _ => {
            let percentile = word.strip_prefix('p')?.parse().ok();
            percentile.filter(|p| (0.0..=100.0).contains(p))
        }
    }
}

/// Whether a number is above another of its measure, beyond the rounding of both.
pub(super) fn above(a: &Quantity, b: &Quantity) -> bool {
    let (own, other) = (a.measure().1, b.measure().1);
    (a.value - a.half) * own > (b.value + b.half) * other
}

/// Checks that means lie between the minimum and the maximum beside them.
pub(super) fn means(grid: &Grid<'_>, findings: &mut Vec<Finding>) {
    let named = |list: &[&str]| {
        let columns = grid.names.iter().enumerate().filter_map(|(column, name)| {
            let mut rest: Vec<String> = words(name).into_iter().map(|word| word.text).collect();
            let at = rest.iter().position(|word| list.contains(&word.as_str()))?;
            rest.remove(at);
            Some((rest, column))
        });
        columns.collect::<BTreeMap<Vec<String>, usize>>()
    };
    let (lowest, highest) = (named(&["min", "minimum"]), named(&["max", "maximum"]));
    for (rest, mean) in named(&["mean", "average", "avg", "median"]) {
        let ends = [(lowest.get(&rest), false), (highest.get(&rest), true)];
        for (end, upper) in ends {
            let Some(end) = end.copied() else { continue };
            let cells = |row: usize| grid.value(row, mean).zip(grid.value(row, end));
            let rows = (0..grid.labels.len()).filter(|row| promised(&grid.labels[*row]).is_none());
            let rows: Vec<usize> = rows.filter(|row| cells(*row).is_some()).collect();
            let mut wrong = rows.clone();
            wrong.retain(|row| {
                cells(*row).is_some_and(|(mean, end)| {
                    let (low, high) = if upper { (mean, end) } else { (end, mean) };
                    low.measure().0 == high.measure().0 && above(low, high)
                })
            });
            if wrong.len() * 3 > rows.len() {
                continue;
            }
            for row in wrong {
                let way = if upper { "above" } else { "below" };
                let message = format!("{} is {way} {}", grid.names[mean], grid.names[end]);
                let (at, cause) = ((row, mean), "order of statistics");
                findings.push(grid.finding(Rule::Relation, at, message, cause, &[(row, end)]));
            }
        }
    }
}

/// Checks that minimum, percentiles and maximum of one metric rise.
pub(super) fn percentiles(grid: &Grid<'_>, findings: &mut Vec<Finding>) {
    let mut metrics: BTreeMap<String, Vec<(f64, usize)>> = BTreeMap::new();
    // A bare `p95` is of the metric to its left.
    let mut last: Option<(String, f64)> = None;
    for (column, name) in grid.names.iter().enumerate() {
        last = rank(name).map(|(rank, metric)| match last.take() {
            Some((left, below)) if metric.is_empty() && below < rank => (left, rank),
            _ => (metric, rank),
        });
        if let Some((metric, rank)) = &last {
            let columns = metrics.entry(metric.clone()).or_default();
            columns.push((*rank, column));
        }
    }
    for columns in metrics.values_mut() {
        columns.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut rising, mut falling) = (0usize, Vec::new());
        for row in 0..grid.labels.len() {
            // Changes of percentiles have no order, and neither have shares, such as the coverage of a percentile.
            let change = |(_, column): &(f64, usize)| {
                let cell = grid.value(row, *column);
                cell.is_some_and(|cell| cell.signed || cell.value < 0.0 || cell.is_percent())
            };
            if promised(&grid.labels[row]).is_some() || columns.iter().any(change) {
                continue;
            }
            for pair in columns.windows(2) {
                if let (Some(a), Some(b)) = (grid.value(row, pair[0].1), grid.value(row, pair[1].1))
                    && a.measure().0 == b.measure().0
                    && pair[0].0 < pair[1].0
                {
                    if above(a, b) {
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
            let (at, cause) = ((row, high), "order of percentiles");
            findings.push(grid.finding(Rule::Relation, at, message, cause, &[(row, low)]));
        }
    }
}
