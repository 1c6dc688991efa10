//! R-DEF, R-PHYS: efficiency against throughput, against the serial server, and its formula.

use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Confidence, Evidence, Finding};
use crate::number::{Agreement, Quantity, compare, leading, shown};
use crate::rules::Rule;
use crate::rules::scope::{Scope, in_prose, in_table};
use crate::table::Table;
use crate::text::Prose;

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    for table in &scope.report.tables {
        efficiency(table, found);
    }
    for prose in &scope.report.prose {
        serial(prose, found);
        formula(prose, found);
    }
}

/// Efficiency is throughput over load, relative to the first row: a column that is so in some rows is so in all.
fn efficiency(table: &Table, found: &mut Vec<Finding>) {
    let name = |c: usize| table.columns[c].to_lowercase();
    let columns = table.numeric_columns();
    let Some(&efficiency) = columns.iter().find(|&&c| name(c).contains("efficien")) else {
        return;
    };
    let rate = |c: &usize| {
        let unit = table.value(0, *c).map_or("", |q| q.unit.as_str());
        let rate = ["tok/s", "tokens/s", "req/s", "throughput"]
            .iter()
            .any(|w| name(*c).contains(w));
        (rate || unit.ends_with("/s"))
            && !["per", "each", "/user"]
                .iter()
                .any(|w| name(*c).contains(w))
    };
    let mut rates = columns.iter().copied().filter(rate);
    let (Some(rate), None) = (rates.next(), rates.next()) else {
        return;
    };
    let loads: Vec<Option<Quantity>> = (0..table.rows.len())
        .map(|row| leading(table.label(row)).filter(|q| q.value >= 1.0))
        .collect();
    let rising = loads
        .windows(2)
        .all(|w| matches!(w, [Some(a), Some(b)] if a.value < b.value));
    let (Some(Some(load)), Some(base), Some(whole)) = (
        loads.first(),
        table.value(0, rate),
        table.value(0, efficiency),
    ) else {
        return;
    };
    let scale = if whole.is_percent() { 100.0 } else { 1.0 };
    if !rising || (whole.value - scale).abs() > whole.half {
        return;
    }
    let (mut holds, mut fails) = (0, Vec::new());
    for row in 1..table.rows.len() {
        let (Some(Some(n)), Some(x), Some(stated)) = (
            loads.get(row),
            table.value(row, rate),
            table.value(row, efficiency),
        ) else {
            continue;
        };
        let expected = |x: f64, base: f64| scale * (x / base) / (n.value / load.value);
        let (low, high) = (
            expected(x.value - x.half, base.value + base.half),
            expected(x.value + x.half, base.value - base.half),
        );
        match compare(stated, low, high) {
            Agreement::Agrees => holds += 1,
            Agreement::Near => {}
            Agreement::Differs => fails.push((row, f64::midpoint(low, high))),
        }
    }
    let Some(&(row, _)) = fails.first().filter(|_| holds > 0) else {
        return;
    };
    let mut evidence: Vec<Evidence> = vec![table.evidence(0, rate)];
    for (row, value) in &fails {
        evidence.push(table.evidence(*row, rate));
        evidence.push(Evidence::new(
            table.cell_place(*row, efficiency),
            format!("{} by throughput", shown(*value)),
        ));
    }
    let message = format!(
        "\"{}\" is throughput over load in {holds} rows and something else in {}: two definitions",
        table.columns[efficiency],
        fails.len()
    );
    found.push(in_table(
        table,
        (row, efficiency),
        (Rule::Def, Confidence::High),
        message,
        evidence,
    ));
}

static POINT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?P<v>0\.[0-9]{2,4}) at N ?= ?(?P<n>[0-9]{1,4})\b").expect("a regex")
});
static SERIAL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:sequential|serial)(?:ized|ised|ly)?\b[^.;]{0,30}\b(?:by|at|from|until) N ?= ?(?P<n>[0-9]+)\b").expect("a regex")
});

/// "0.547 at N=2, … sequential by N=16": a server that works serially has the efficiency 1/N from the first step.
fn serial(prose: &Prose, found: &mut Vec<Finding>) {
    for captures in SERIAL.captures_iter(&prose.text) {
        let Some(whole) = captures.get(0) else {
            continue;
        };
        let Some((start, end)) = prose.sentence(whole.start()) else {
            continue;
        };
        let sentence = &prose.text[start..end];
        let claimed = captures
            .name("n")
            .and_then(|n| n.as_str().parse::<f64>().ok());
        let points: Vec<(f64, f64)> = POINT
            .captures_iter(sentence)
            .filter_map(|c| {
                Some((
                    c.name("v")?.as_str().parse().ok()?,
                    c.name("n")?.as_str().parse().ok()?,
                ))
            })
            .filter(|(_, n)| *n >= 2.0)
            .collect();
        let follows = points
            .iter()
            .all(|(value, n)| (0.8..=1.25).contains(&(value * n)));
        let first = points.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
        if points.len() < 3
            || !follows
            || claimed.is_none_or(|n| n <= first)
            || !sentence.contains("efficiency")
        {
            continue;
        }
        let evidence = points
            .iter()
            .map(|(value, n)| {
                let line = prose.place(start).0;
                Evidence::new(
                    format!("line {line}, N={}", shown(*n)),
                    format!("{value} against 1/N = {}", shown(1.0 / n)),
                )
            })
            .collect();
        let message = format!(
            "the curve is that of a serial server, 1/N, from N={} on",
            shown(first)
        );
        let span = (whole.start(), whole.end());
        found.push(in_prose(
            prose,
            span,
            (Rule::Phys, Confidence::Medium),
            message,
            evidence,
        ));
    }
}

static FORMULA: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)efficiency[^.;]{0,60}?\b(?:is|as|equals|of|=) (?:the ratio of )?\(?N ?[×*·] ?(?P<x>[a-z]+[a-z_]*?)(?:_at)?_N\)? ?(?:/|to|over|divided by) ?\(?(?P<y>[a-z]+[a-z_]*?)(?:_at)?_(?:N ?= ?)?1\b\)?").expect("a regex")
});

/// `efficiency = (N × x_N) / x_1`: at perfect scaling that is N where x is of one client, N² where of all, never 1.
fn formula(prose: &Prose, found: &mut Vec<Finding>) {
    for captures in FORMULA.captures_iter(&prose.text) {
        let (Some(whole), Some(x), Some(y)) =
            (captures.get(0), captures.name("x"), captures.name("y"))
        else {
            continue;
        };
        if x.as_str() != y.as_str() {
            continue;
        }
        let message = format!(
            "by this formula perfect scaling gives N or N², not 1: efficiency is {0}_N / {0}_1 per client, or {0}_N / (N × {0}_1) in all",
            x.as_str()
        );
        let span = (whole.start(), whole.end());
        found.push(in_prose(
            prose,
            span,
            (Rule::Def, Confidence::Medium),
            message,
            Vec::new(),
        ));
    }
}
