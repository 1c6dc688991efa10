//! R-IDENT: latency and its first token, rates and the requests in flight.

use crate::finding::{Confidence, Evidence, Finding};
use crate::number::{quantities, shown};
use crate::rules::Rule;
use crate::rules::estimates::rank;
use crate::rules::scope::{Scope, in_table};
use crate::rules::words::words;
use crate::table::Table;

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    for table in &scope.report.tables {
        first_token(table, found);
        in_flight(table, found);
    }
}

/// Time to first token as long as the whole answer: the client did not stream.
fn first_token(table: &Table, found: &mut Vec<Finding>) {
    let columns = table.numeric_columns();
    let word = |c: usize, w: &[&str]| {
        w.iter()
            .any(|w| table.columns[c].to_lowercase().contains(w))
    };
    for &first in columns
        .iter()
        .filter(|&&c| word(c, &["ttft", "first token"]))
    {
        let rank_first = rank(&words(&table.columns[first]));
        for &whole in columns.iter().filter(|&&c| {
            word(c, &["latency", "e2e"])
                && !word(
                    c,
                    &[
                        "ttft",
                        "first",
                        "inter",
                        "itl",
                        "tpot",
                        "per token",
                        "per-token",
                    ],
                )
        }) {
            let rank_whole = rank(&words(&table.columns[whole]));
            // The statistic of the whole must be at least as high, or the pair says nothing.
            let comparable = match (rank_first, rank_whole) {
                (Some(a), Some(b)) => b >= a,
                (a, b) => a == b,
            };
            if !comparable {
                continue;
            }
            let both: Vec<(usize, f64)> = (0..table.rows.len())
                .filter_map(|row| {
                    let (a, b) = (table.value(row, first)?, table.value(row, whole)?);
                    (a.unit == b.unit && b.value > 0.0).then_some((row, a.value / b.value))
                })
                .collect();
            let close: Vec<&(usize, f64)> =
                both.iter().filter(|(_, ratio)| *ratio >= 0.95).collect();
            if close.is_empty() || close.len() * 2 < both.len() {
                continue;
            }
            let evidence = close
                .iter()
                .map(|(row, ratio)| {
                    Evidence::new(
                        format!("line {}, \"{}\"", table.rows[*row].line, table.label(*row)),
                        format!(
                            "{} against {}: {}%",
                            shown(table.value(*row, first).map_or(0.0, |q| q.value)),
                            shown(table.value(*row, whole).map_or(0.0, |q| q.value)),
                            shown(100.0 * ratio)
                        ),
                    )
                })
                .collect();
            let message = format!(
                "\"{}\" leaves no time for the other tokens in \"{}\": was the answer streamed?",
                table.columns[first], table.columns[whole]
            );
            found.push(in_table(
                table,
                (close[0].0, first),
                (Rule::Ident, Confidence::Medium),
                message,
                evidence,
            ));
        }
    }
}

/// Throughput of one request times the requests in flight is the throughput of all.
fn in_flight(table: &Table, found: &mut Vec<Finding>) {
    let columns = table.numeric_columns();
    let named = |c: usize, wanted: &[&str]| {
        wanted
            .iter()
            .any(|w| table.columns[c].to_lowercase().contains(w))
    };
    let rate = |c: usize| {
        named(c, &["tok/s", "tokens/s", "tps", "throughput"])
            || table.value(0, c).is_some_and(|q| q.unit.contains("tok/s"))
    };
    let Some(&each) = columns.iter().find(|&&c| {
        named(
            c,
            &[
                "per-request",
                "per request",
                "per user",
                "per-user",
                "/user",
            ],
        ) && rate(c)
    }) else {
        return;
    };
    let Some(&all) = columns
        .iter()
        .find(|&&c| c != each && named(c, &["aggregate", "total", "system", "overall"]) && rate(c))
    else {
        return;
    };
    let load_header = table
        .columns
        .first()
        .map(|name| name.to_lowercase())
        .unwrap_or_default();
    if !["concurren", "users", "clients", "agents", "batch"]
        .iter()
        .any(|word| load_header.contains(word))
    {
        return;
    }
    let mut contrary = Vec::new();
    let mut rows = Vec::new();
    for row in 0..table.rows.len() {
        let load = quantities(table.label(row));
        let ([load], Some(each), Some(all)) = (
            load.as_slice(),
            table.value(row, each),
            table.value(row, all),
        ) else {
            continue;
        };
        let ratio = load.value * each.value / all.value;
        if ratio.is_finite() && !(0.9..=1.1).contains(&ratio) {
            rows.push(row);
            contrary.push(Evidence::new(
                format!("line {}, \"{}\"", table.rows[row].line, table.label(row)),
                format!(
                    "{} × {} = {}, not {}",
                    shown(load.value),
                    shown(each.value),
                    shown(load.value * each.value),
                    shown(all.value)
                ),
            ));
        }
    }
    if let Some(&row) = rows.first() {
        let message = "requests in flight times the rate of one is not the rate of all; state the \
            concurrency that was reached"
            .to_owned();
        found.push(in_table(
            table,
            (row, each),
            (Rule::Ident, Confidence::Medium),
            message,
            contrary,
        ));
    }
}
