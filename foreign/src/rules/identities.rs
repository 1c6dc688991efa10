//! R-IDENT, R-ARITH, R-ROWSUM, R-STAT, R-DEF: what columns of one table owe each other.

use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Confidence, Evidence, Finding};
use crate::number::{Agreement, Quantity, compare, quantities, shown, spread};
use crate::rules::Rule;
use crate::rules::scope::{Scope, in_table};
use crate::rules::words::words;
use crate::table::Table;

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    for table in &scope.report.tables {
        derived_columns(table, found);
        order(table, found);
        intervals(table, found);
        totals(table, found);
        significance(table, found);
        first_token(table, found);
        in_flight(table, found);
        header_formula(table, found);
    }
}

type Formula = (&'static str, fn(f64, f64) -> f64);

const FORMULAS: &[Formula] = &[
    ("a − b", |a, b| a - b),
    ("a + b", |a, b| a + b),
    ("a / b", |a, b| a / b),
    ("100 · (a − b) / b", |a, b| 100.0 * (a - b) / b),
    ("100 · a / b", |a, b| 100.0 * a / b),
    ("a · b", |a, b| a * b),
];

/// A column that follows from two others in most rows must in all: `spread = best − worst`, `Δ% = (b − a) / a`.
fn derived_columns(table: &Table, found: &mut Vec<Finding>) {
    let columns = table.numeric_columns();
    if columns.len() < 3 || columns.len() > 12 || table.rows.len() < 4 || table.rows.len() > 200 {
        return;
    }
    let telling = |q: &Quantity| q.value.abs() / (2.0 * q.half) >= 9.5;
    for &c in &columns {
        let mut best: Option<(usize, Vec<usize>, usize, usize, usize)> = None;
        for &a in columns.iter().filter(|&&a| a != c) {
            for &b in columns.iter().filter(|&&b| b != a && b != c) {
                for (index, (_, formula)) in FORMULAS.iter().enumerate() {
                    if matches!(index, 1 | 5) && a > b {
                        continue;
                    }
                    let (mut holds, mut fails, mut tells) = (0, Vec::new(), 0);
                    for row in 0..table.rows.len() {
                        let (Some(x), Some(y), Some(z)) =
                            (table.value(row, a), table.value(row, b), table.value(row, c))
                        else {
                            continue;
                        };
                        let (low, high) = spread(x, y, formula);
                        if !low.is_finite() || !high.is_finite() {
                            continue;
                        }
                        // An interval wider than the value says nothing.
                        if compare(z, low, high) == Agreement::Agrees {
                            holds += 1;
                            tells += usize::from(telling(z) && high - low < 0.2 * z.value.abs());
                        } else {
                            fails.push(row);
                        }
                    }
                    let enough = holds >= 3 && tells >= 3 && holds >= 3 * fails.len();
                    if enough && best.as_ref().is_none_or(|b| fails.len() < b.1.len()) {
                        best = Some((index, fails, a, b, holds));
                    }
                }
            }
        }
        let Some((index, fails, a, b, holds)) = best else { continue };
        for row in fails {
            let (Some(x), Some(y), Some(z)) = (table.value(row, a), table.value(row, b), table.value(row, c))
            else {
                continue;
            };
            let (low, high) = spread(x, y, FORMULAS[index].1);
            let confidence = match compare(z, low, high) {
                Agreement::Differs => Confidence::High,
                _ => Confidence::Medium,
            };
            let message = format!(
                "{} does not follow as in the {holds} other rows ({} with a, b = the cells below): it is {}",
                shown(z.value),
                FORMULAS[index].0,
                shown(f64::midpoint(low, high))
            );
            let evidence = [a, b]
                .map(|column| {
                    Evidence::new(table.cell_place(row, column), table.rows[row].cells[column].text.clone())
                })
                .to_vec();
            found.push(in_table(table, (row, c), (Rule::Arith, confidence), message, evidence));
        }
    }
}

/// The place of a statistic in the order min ≤ P50 ≤ P90 ≤ P95 ≤ P99 ≤ max; `None` for others.
fn rank(words: &std::collections::BTreeSet<String>) -> Option<f64> {
    if words.contains("min") {
        return Some(-1.0);
    }
    if words.contains("max") {
        return Some(101.0);
    }
    if words.contains("median") {
        return Some(50.0);
    }
    words
        .iter()
        .find_map(|word| word.strip_prefix('p')?.parse::<f64>().ok().filter(|p| (1.0..100.0).contains(p)))
}

/// Statistics of one metric in a row rise: `min ≤ median ≤ P95 ≤ P99 ≤ max`, `min ≤ mean ≤ max`.
fn order(table: &Table, found: &mut Vec<Finding>) {
    let named: Vec<(usize, std::collections::BTreeSet<String>)> =
        table.numeric_columns().into_iter().map(|c| (c, words(&table.columns[c]))).collect();
    for (a, first) in &named {
        for (b, second) in &named {
            let mean_first = first.contains("mean") && rank(first).is_none();
            let (Some(low), Some(high)) = (if mean_first { Some(0.0) } else { rank(first) }, rank(second))
            else {
                continue;
            };
            if low >= high || (mean_first && high < 101.0) {
                continue;
            }
            let rest = |words: &std::collections::BTreeSet<String>| -> Vec<String> {
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
                let (Some(x), Some(y)) = (table.value(row, *a), table.value(row, *b)) else { continue };
                if x.unit == y.unit && x.value - x.half > y.value + y.half {
                    let message = format!("\"{}\" is above \"{}\"", table.columns[*a], table.columns[*b]);
                    let evidence = [*a, *b]
                        .map(|column| {
                            Evidence::new(
                                table.cell_place(row, column),
                                table.rows[row].cells[column].text.clone(),
                            )
                        })
                        .to_vec();
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
    let width = table.rows.iter().map(|row| row.cells.len()).max().unwrap_or(0);
    for column in 1..width {
        let bounds: Vec<Option<(Quantity, Quantity)>> =
            table.rows.iter().map(|row| interval(&row.cells.get(column)?.text)).collect();
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
            let name = table.columns.get(other).map(|name| name.to_lowercase()).unwrap_or_default();
            name.contains("median") || name.starts_with("p ") || name.contains("p-")
        };
        let estimate = (1..column).rev().filter(|&o| !named(o)).find(|&other| {
            let all: Vec<bool> = (0..table.rows.len()).filter_map(|row| inside(row, other)).collect();
            let yes = all.iter().filter(|y| **y).count();
            all.len() >= 3 && yes * 4 >= all.len() * 3
        });
        let Some(estimate) = estimate else { continue };
        for row in 0..table.rows.len() {
            if inside(row, estimate) == Some(false) {
                let message = "the estimate lies outside its interval".to_owned();
                let evidence = [estimate, column]
                    .map(|c| Evidence::new(table.cell_place(row, c), table.rows[row].cells[c].text.clone()))
                    .to_vec();
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

/// A row called total is the sum of the rows above it.
fn totals(table: &Table, found: &mut Vec<Finding>) {
    let Some(last) = table.rows.len().checked_sub(1).filter(|last| *last >= 2) else { return };
    let label = table.label(last).to_lowercase();
    if !matches!(
        label.split(' ').next().unwrap_or("").trim_end_matches(':'),
        "total" | "sum" | "totals" | "overall" | "all"
    ) {
        return;
    }
    let certain = label.starts_with("total") || label.starts_with("sum");
    let columns = table.numeric_columns();
    let sums = |column: usize| -> Option<(&Quantity, f64, f64)> {
        let stated = table.value(last, column)?;
        let parts: Option<Vec<&Quantity>> = (0..last).map(|row| table.value(row, column)).collect();
        let parts = parts?;
        let whole = parts.iter().all(|q| q.is_count() || q.half == 0.5);
        let slack: f64 = if whole { 0.0 } else { parts.iter().map(|q| q.half).sum() };
        (stated.unit == parts[0].unit).then(|| (stated, parts.iter().map(|q| q.value).sum(), slack))
    };
    let agrees = |column: usize| {
        sums(column).is_some_and(|(stated, sum, slack)| {
            compare(stated, sum - slack, sum + slack) != Agreement::Differs
        })
    };
    let summed = columns.iter().filter(|&&c| agrees(c)).count();
    for &column in &columns {
        let Some((stated, sum, slack)) = sums(column) else { continue };
        let additive = ![
            "mean",
            "avg",
            "rate",
            "ratio",
            "%",
            "latency",
            "ttft",
            "tpot",
            "p9",
            "p5",
            "median",
            "efficiency",
            "accuracy",
            "score",
            "/s",
        ]
        .iter()
        .any(|word| table.columns[column].to_lowercase().contains(word));
        if agrees(column)
            || stated.is_percent()
            || !(summed > 0 || certain && additive && stated.half == 0.5)
            || !additive
        {
            continue;
        }
        let message = format!("the rows sum to {}, not {}", shown(sum), shown(stated.value));
        let _ = slack;
        let evidence = (0..last)
            .take(20)
            .map(|row| {
                Evidence::new(table.cell_place(row, column), table.rows[row].cells[column].text.clone())
            })
            .collect();
        found.push(in_table(table, (last, column), (Rule::RowSum, Confidence::High), message, evidence));
    }
}

static ALPHA: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)sig[a-z.]*(?: ?[@(]? ?(?:α ?= ?|p ?< ?)?(?P<a>0?\.[0-9]+))?").expect("a regex")
});

/// A mark of significance beside a p-value: `0.0018 … no`.
fn significance(table: &Table, found: &mut Vec<Finding>) {
    let Some(captures) = ALPHA.captures(&table.header) else { return };
    let alpha: f64 = captures.name("a").and_then(|a| a.as_str().parse().ok()).unwrap_or(0.05);
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
        let mark = cells.cells.iter().enumerate().skip(1).find_map(|(at, cell)| {
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
            table.columns.get(c).is_some_and(|name| p_name.is_match(name)) && table.value(row, c).is_some()
        });
        // Without names: the last plain number before the mark.
        let p = named.or_else(|| {
            (table.recovered)
                .then(|| at.checked_sub(1))
                .flatten()
                .filter(|&c| c > 0 && table.value(row, c).is_some())
        });
        let Some(p) = p.and_then(|c| table.value(row, c).map(|value| (c, value))) else { continue };
        if !(0.0..=1.0).contains(&p.1.value)
            || (p.1.value < alpha) == stated
            || (p.1.value - alpha).abs() <= p.1.half
        {
            continue;
        }
        first.get_or_insert((row, at));
        contrary.push(Evidence::new(
            format!("line {}, \"{}\"", cells.line, table.label(row)),
            format!("p = {}, marked \"{}\"", shown(p.1.value), cells.cells[at].text),
        ));
    }
    if let Some(cell) = first {
        let message = format!(
            "the mark is not that of p < {} in {} rows; a column may be lost or misplaced",
            shown(alpha),
            contrary.len()
        );
        found.push(in_table(table, cell, (Rule::Stat, Confidence::High), message, contrary));
    }
}

/// Time to first token as long as the whole answer: the client did not stream.
fn first_token(table: &Table, found: &mut Vec<Finding>) {
    let columns = table.numeric_columns();
    let word = |c: usize, w: &[&str]| w.iter().any(|w| table.columns[c].to_lowercase().contains(w));
    for &first in columns.iter().filter(|&&c| word(c, &["ttft", "first token"])) {
        let rank_first = rank(&words(&table.columns[first]));
        for &whole in columns.iter().filter(|&&c| {
            word(c, &["latency", "e2e"])
                && !word(c, &["ttft", "first", "inter", "itl", "tpot", "per token", "per-token"])
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
            let close: Vec<&(usize, f64)> = both.iter().filter(|(_, ratio)| *ratio >= 0.95).collect();
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
    let named =
        |c: usize, wanted: &[&str]| wanted.iter().any(|w| table.columns[c].to_lowercase().contains(w));
    let rate = |c: usize| {
        named(c, &["tok/s", "tokens/s", "tps", "throughput"])
            || table.value(0, c).is_some_and(|q| q.unit.contains("tok/s"))
    };
    let Some(&each) = columns
        .iter()
        .find(|&&c| named(c, &["per-request", "per request", "per user", "per-user", "/user"]) && rate(c))
    else {
        return;
    };
    let Some(&all) = columns
        .iter()
        .find(|&&c| c != each && named(c, &["aggregate", "total", "system", "overall"]) && rate(c))
    else {
        return;
    };
    let load_header = table.columns.first().map(|name| name.to_lowercase()).unwrap_or_default();
    if !["concurren", "users", "clients", "agents", "batch"].iter().any(|word| load_header.contains(word)) {
        return;
    }
    let mut contrary = Vec::new();
    let mut rows = Vec::new();
    for row in 0..table.rows.len() {
        let load = quantities(table.label(row));
        let ([load], Some(each), Some(all)) =
            (load.as_slice(), table.value(row, each), table.value(row, all))
        else {
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
        let message = "requests in flight times the rate of one is not the rate of all: state the concurrency that was reached".to_owned();
        found.push(in_table(table, (row, each), (Rule::Ident, Confidence::Medium), message, contrary));
    }
}

static HEADER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\((?P<a>[A-Za-z][A-Za-z0-9]*) ?[-−–] ?(?P<b>[A-Za-z][A-Za-z0-9]*)\)").expect("a regex")
});

/// A header that is a formula, `Jitter (P99-Avg)`: both operands are columns, of one metric, and the values follow.
fn header_formula(table: &Table, found: &mut Vec<Finding>) {
    for column in table.numeric_columns() {
        let Some(captures) = HEADER.captures(&table.columns[column]) else { continue };
        let (Some(a), Some(b)) = (captures.name("a"), captures.name("b")) else { continue };
        let (first, second) = (words(a.as_str()), words(b.as_str()));
        let with = |wanted: &std::collections::BTreeSet<String>| -> Vec<usize> {
            table
                .numeric_columns()
                .into_iter()
                .filter(|&c| c != column && wanted.is_subset(&words(&table.columns[c])))
                .collect()
        };
        let mut pairs = Vec::new();
        for x in with(&first) {
            for y in with(&second) {
                let rows: Vec<usize> = (0..table.rows.len())
                    .filter(|&row| {
                        table.value(row, x).is_some()
                            && table.value(row, y).is_some()
                            && table.value(row, column).is_some()
                    })
                    .collect();
                let follows = |row: usize| {
                    let (Some(p), Some(q), Some(d)) =
                        (table.value(row, x), table.value(row, y), table.value(row, column))
                    else {
                        return true;
                    };
                    let (low, high) = spread(p, q, |p, q| p - q);
                    compare(d, low, high) == Agreement::Agrees
                };
                let failing: Vec<usize> = rows.iter().copied().filter(|&row| !follows(row)).collect();
                pairs.push((x, y, rows.len(), failing));
            }
        }
        pairs.sort_by_key(|pair| pair.3.len());
        let Some((x, y, rows, failing)) = pairs.first() else { continue };
        let rest = |column: usize, own: &std::collections::BTreeSet<String>| -> Vec<String> {
            words(&table.columns[column]).difference(own).cloned().collect()
        };
        let evidence = || {
            vec![Evidence::new(
                format!("line {}", table.line),
                format!("\"{}\" and \"{}\"", table.columns[*x], table.columns[*y]),
            )]
        };
        if failing.is_empty() && *rows >= 2 && rest(*x, &first) != rest(*y, &second) {
            let message = format!(
                "\"{}\" is the difference of two metrics: \"{}\" and \"{}\"",
                table.columns[column], table.columns[*x], table.columns[*y]
            );
            let mut finding =
                in_table(table, (0, column), (Rule::Def, Confidence::High), message, evidence());
            finding.line = table.line;
            finding.quote = table.columns[column].clone();
            found.push(finding);
        } else if *rows >= 3 && failing.len() * 3 <= *rows {
            for &row in failing {
                let message = format!("\"{}\" does not follow from its header", table.columns[column]);
                found.push(in_table(
                    table,
                    (row, column),
                    (Rule::Arith, Confidence::High),
                    message,
                    evidence(),
                ));
            }
        }
    }
}
