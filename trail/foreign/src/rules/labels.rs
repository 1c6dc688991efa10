//! R-STAT: one value under two statistics (`peak throughput` here, `sustained throughput` there).

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{Confidence, Finding};
use crate::number::Quantity;
use crate::rules::Rule;
use crate::rules::scope::{Scope, in_table};
use crate::rules::words::words;
use crate::table::Table;

/// What a label may say about the statistic; a value cannot be two of them but by chance.
const STATISTICS: &[&str] = &[
    "peak",
    "max",
    "min",
    "mean",
    "median",
    "sustained",
    "p90",
    "p95",
    "p99",
    "std",
    "worst",
    "best",
];

/// Statistics that may be one: two words for the extreme.
fn compatible(a: &str, b: &str) -> bool {
    let extreme = |s: &str| matches!(s, "peak" | "max" | "min" | "worst" | "best");
    a == b || extreme(a) && extreme(b)
}

/// A cell whose row says the statistic.
struct Labelled<'a> {
    table: &'a Table,
    row: usize,
    column: usize,
    statistic: String,
    metric: BTreeSet<String>,
    value: &'a Quantity,
}

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    let mut seen: BTreeMap<(u64, String), Vec<Labelled<'_>>> = BTreeMap::new();
    for table in scope
        .report
        .tables
        .iter()
        .filter(|table| table.rows.len() <= 400)
    {
        for row in 0..table.rows.len() {
            let mut metric = words(table.label(row));
            let named: Vec<String> = metric
                .iter()
                .filter(|w| STATISTICS.contains(&w.as_str()))
                .cloned()
                .collect();
            let [statistic] = named.as_slice() else {
                continue;
            };
            metric.remove(statistic);
            metric.retain(|word| !word.starts_with(|c: char| c.is_ascii_digit()));
            for column in 1..table.rows[row].cells.len() {
                let Some(value) = table.value(row, column) else {
                    continue;
                };
                // Short numbers meet by chance.
                if metric.is_empty()
                    || value.unit.is_empty()
                    || value.value.abs() / (2.0 * value.half) < 1000.0
                {
                    continue;
                }
                let here = Labelled {
                    table,
                    row,
                    column,
                    statistic: statistic.clone(),
                    metric: metric.clone(),
                    value,
                };
                seen.entry((value.value.to_bits(), value.unit.clone()))
                    .or_default()
                    .push(here);
            }
        }
    }
    for cells in seen.values() {
        for (at, later) in cells.iter().enumerate() {
            let other = cells[..at].iter().find(|earlier| {
                !compatible(&earlier.statistic, &later.statistic)
                    && earlier.value.half == later.value.half
                    && (earlier.metric.is_subset(&later.metric)
                        || later.metric.is_subset(&earlier.metric))
            });
            let Some(earlier) = other else { continue };
            let message = format!(
                "{} is \"{}\" here and \"{}\" in line {}: which statistic is it?",
                later.table.rows[later.row].cells[later.column].text,
                later.table.label(later.row),
                earlier.table.label(earlier.row),
                earlier.table.rows[earlier.row].line
            );
            let evidence = vec![
                earlier.table.evidence(earlier.row, earlier.column),
                later.table.evidence(later.row, later.column),
            ];
            let place = (later.row, later.column);
            found.push(in_table(
                later.table,
                place,
                (Rule::Stat, Confidence::Medium),
                message,
                evidence,
            ));
        }
    }
}
