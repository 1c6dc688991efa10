//! R-ARITH, R-ROWSUM, R-DEF: columns and rows of a table that follow from others.

use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Confidence, Evidence, Finding};
use crate::number::{Agreement, Quantity, compare, shown, spread};
use crate::rules::Rule;
use crate::rules::scope::{Scope, in_table};
use crate::rules::words::words;
use crate::table::Table;

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    for table in &scope.report.tables {
        derived_columns(table, found);
        sums(table, found);
        totals(table, found);
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
                        let (Some(x), Some(y), Some(z)) = (
                            table.value(row, a),
                            table.value(row, b),
                            table.value(row, c),
                        ) else {
                            continue;
                        };
                        let (low, high) = spread(x, y, formula);
                        if !low.is_finite() || !high.is_finite() {
                            continue;
                        }
                        // An interval wider than the value says nothing.
                        if compare(z, low, high) == Agreement::Agrees {
                            holds += 1;
                            // Nor does `a + 0`, which is `a` itself.
                            let own = [x, y].iter().all(|operand| {
                                (operand.value - z.value).abs() > operand.half + z.half
                            });
                            tells +=
                                usize::from(own && telling(z) && high - low < 0.2 * z.value.abs());
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
        let Some((index, fails, a, b, holds)) = best else {
            continue;
        };
        for row in fails {
            let (Some(x), Some(y), Some(z)) = (
                table.value(row, a),
                table.value(row, b),
                table.value(row, c),
            ) else {
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
            let evidence = [a, b].map(|column| table.evidence(row, column)).to_vec();
            found.push(in_table(
                table,
                (row, c),
                (Rule::Arith, confidence),
                message,
                evidence,
            ));
        }
    }
}

/// A column of counts that is the sum of three or more neighbouring columns in most rows must be in all:
/// `judged = passed + failed + skipped`.
fn sums(table: &Table, found: &mut Vec<Finding>) {
    let counts = |c: &usize| table.numbers(*c).iter().all(|(_, q)| q.is_count());
    let columns: Vec<usize> = table.numeric_columns().into_iter().filter(counts).collect();
    if columns.len() < 4 || columns.len() > 12 || table.rows.len() > 400 {
        return;
    }
    for &whole in &columns {
        let mut best: Option<(usize, Vec<usize>, &[usize])> = None;
        let runs = (3..columns.len())
            .flat_map(|length| columns.windows(length))
            .filter(|run| {
                !run.contains(&whole) && run.windows(2).all(|pair| pair[1] == pair[0] + 1)
            });
        for run in runs {
            let (mut holds, mut telling, mut fails) = (0, false, Vec::new());
            for row in 0..table.rows.len() {
                let parts: Option<Vec<f64>> = run
                    .iter()
                    .map(|&c| table.value(row, c).map(|q| q.value))
                    .collect();
                let (Some(parts), Some(stated)) = (parts, table.value(row, whole)) else {
                    continue;
                };
                if parts.iter().sum::<f64>() == stated.value {
                    holds += 1;
                    telling |= parts.iter().filter(|part| **part > 0.0).count() >= 2;
                } else {
                    fails.push(row);
                }
            }
            if telling
                && holds >= 3
                && holds >= 3 * fails.len()
                && best.as_ref().is_none_or(|b| fails.len() < b.1.len())
            {
                best = Some((holds, fails, run));
            }
        }
        let Some((holds, fails, run)) = best else {
            continue;
        };
        for row in fails {
            let sum: f64 = run
                .iter()
                .filter_map(|&c| table.value(row, c))
                .map(|q| q.value)
                .sum();
            let message = format!(
                "the columns beside it sum to {}, as they do to their whole in {holds} rows",
                shown(sum)
            );
            let evidence = run
                .iter()
                .map(|&column| table.evidence(row, column))
                .collect();
            found.push(in_table(
                table,
                (row, whole),
                (Rule::Count, Confidence::High),
                message,
                evidence,
            ));
        }
    }
}

/// A row called total is the sum of the rows above it.
fn totals(table: &Table, found: &mut Vec<Finding>) {
    let Some(last) = table.rows.len().checked_sub(1).filter(|last| *last >= 2) else {
        return;
    };
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
        let slack: f64 = if whole {
            0.0
        } else {
            parts.iter().map(|q| q.half).sum()
        };
        (stated.unit == parts[0].unit).then(|| (stated, parts.iter().map(|q| q.value).sum(), slack))
    };
    let agrees = |column: usize| {
        sums(column).is_some_and(|(stated, sum, slack)| {
            compare(stated, sum - slack, sum + slack) != Agreement::Differs
        })
    };
    let summed = columns.iter().filter(|&&c| agrees(c)).count();
    for &column in &columns {
        let Some((stated, sum, slack)) = sums(column) else {
            continue;
        };
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
        let message = format!(
            "the rows sum to {}, not {}",
            shown(sum),
            shown(stated.value)
        );
        let _ = slack;
        let evidence = (0..last)
            .take(20)
            .map(|row| table.evidence(row, column))
            .collect();
        found.push(in_table(
            table,
            (last, column),
            (Rule::RowSum, Confidence::High),
            message,
            evidence,
        ));
    }
}

static HEADER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\((?P<a>[A-Za-z][A-Za-z0-9]*) ?[-−–] ?(?P<b>[A-Za-z][A-Za-z0-9]*)\)")
        .expect("a regex")
});

/// A header that is a formula, `Jitter (P99-Avg)`: both operands are columns, of one metric, and the values follow.
fn header_formula(table: &Table, found: &mut Vec<Finding>) {
    for column in table.numeric_columns() {
        let Some(captures) = HEADER.captures(&table.columns[column]) else {
            continue;
        };
        let (Some(a), Some(b)) = (captures.name("a"), captures.name("b")) else {
            continue;
        };
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
                    let (Some(p), Some(q), Some(d)) = (
                        table.value(row, x),
                        table.value(row, y),
                        table.value(row, column),
                    ) else {
                        return true;
                    };
                    let (low, high) = spread(p, q, |p, q| p - q);
                    compare(d, low, high) == Agreement::Agrees
                };
                let failing: Vec<usize> =
                    rows.iter().copied().filter(|&row| !follows(row)).collect();
                pairs.push((x, y, rows.len(), failing));
            }
        }
        pairs.sort_by_key(|pair| pair.3.len());
        let Some((x, y, rows, failing)) = pairs.first() else {
            continue;
        };
        let rest = |column: usize, own: &std::collections::BTreeSet<String>| -> Vec<String> {
            words(&table.columns[column])
                .difference(own)
                .cloned()
                .collect()
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
            let mut finding = in_table(
                table,
                (0, column),
                (Rule::Def, Confidence::High),
                message,
                evidence(),
            );
            finding.line = table.line;
            finding.quote = table.columns[column].clone();
            found.push(finding);
        } else if *rows >= 3 && failing.len() * 3 <= *rows {
            for &row in failing {
                let message = format!(
                    "\"{}\" does not follow from its header",
                    table.columns[column]
                );
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
