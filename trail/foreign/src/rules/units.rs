//! R-UNIT: ratio labels, dimensions.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Confidence, Evidence, Finding};
use crate::number::{Quantity, quantities, shown};
use crate::rules::Rule;
use crate::rules::scope::{Scope, in_prose, in_table};

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    ratios(scope, found);
    dimensions(scope, found);
}

static RATIO: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(?P<r>[0-9]*\.[0-9]+) (?P<a>[A-Z][A-Za-z0-9\-]*)/(?P<b>[A-Z][A-Za-z0-9\-]*)(?: [A-Za-z]+){0,3} ratio\b|\b(?P<c>[A-Z][A-Za-z0-9\-]*)/(?P<d>[A-Z][A-Za-z0-9\-]*)(?: [A-Za-z]+){0,3} ratio (?:of|is|=) (?P<s>[0-9]*\.[0-9]+)\b").expect("a regex")
});
static VALUE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(?P<n>[A-Z][A-Za-z0-9\-]*) (?:\(|at |reaches |has |: |= )[~≈]?(?P<v>[0-9][0-9.,]* ?[A-Za-z]+(?:/[a-z]+)?)").expect("a regex")
});

/// A paragraph, and the first and last byte of a claim in it.
type Place = (usize, usize, usize);

/// `the 0.75 A/B ratio` where the values of A and B are in the report: is it A/B, or B/A?
fn ratios(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    let mut claims: BTreeMap<(String, String, String), Vec<Place>> = BTreeMap::new();
    for (index, prose) in scope.report.prose.iter().enumerate() {
        for captures in RATIO.captures_iter(&prose.text) {
            let group = |first: &str, second: &str| {
                captures
                    .name(first)
                    .or(captures.name(second))
                    .map_or(String::new(), |m| m.as_str().to_owned())
            };
            let whole = captures.get(0).map_or((0, 0), |m| (m.start(), m.end()));
            claims
                .entry((group("a", "c"), group("b", "d"), group("r", "s")))
                .or_default()
                .push((index, whole.0, whole.1));
        }
    }
    if claims.is_empty() {
        return;
    }
    let mut values: BTreeMap<String, Vec<(Quantity, usize)>> = BTreeMap::new();
    for prose in &scope.report.prose {
        for captures in VALUE.captures_iter(&prose.text) {
            let (Some(name), Some(value)) = (captures.name("n"), captures.name("v")) else {
                continue;
            };
            if let Some(quantity) = quantities(value.as_str())
                .into_iter()
                .next()
                .filter(|q| !q.unit.is_empty() && !q.is_percent())
            {
                let known = values.entry(name.as_str().to_owned()).or_default();
                // A name with more values than these is not a constant.
                if known.len() < 30 {
                    known.push((quantity, prose.place(name.start()).0));
                }
            }
        }
    }
    for ((a, b, ratio), places) in claims {
        let Ok(stated) = ratio.parse::<f64>() else {
            continue;
        };
        let (Some(first), Some(second)) = (values.get(&a), values.get(&b)) else {
            continue;
        };
        let pairs: Vec<_> = first
            .iter()
            .flat_map(|x| second.iter().map(move |y| (x, y)))
            .filter(|(x, y)| x.0.unit == y.0.unit && y.0.value > 0.0 && x.0.value > 0.0)
            .collect();
        let near = |value: f64| (value / stated - 1.0).abs() < 0.04;
        let right = pairs.iter().any(|(x, y)| near(x.0.value / y.0.value));
        let Some((x, y)) = pairs
            .iter()
            .find(|(x, y)| near(y.0.value / x.0.value))
            .filter(|_| !right)
        else {
            continue;
        };
        let Some(&(index, start, end)) = places.first() else {
            continue;
        };
        let mut evidence = vec![
            Evidence::new(
                format!("line {}", x.1),
                format!("{a}: {} {}", shown(x.0.value), x.0.unit),
            ),
            Evidence::new(
                format!("line {}", y.1),
                format!("{b}: {} {}", shown(y.0.value), y.0.unit),
            ),
        ];
        evidence.extend(places.iter().skip(1).map(|place| {
            Evidence::new(
                format!("line {}", scope.report.prose[place.0].place(place.1).0),
                "said again",
            )
        }));
        let message = format!(
            "{ratio} is {b}/{a}; {a}/{b} is {}",
            shown(x.0.value / y.0.value)
        );
        found.push(in_prose(
            &scope.report.prose[index],
            (start, end),
            (Rule::Unit, Confidence::High),
            message,
            evidence,
        ));
    }
}

/// `tok/W`: a rate per power is work per energy; the seconds got lost.
fn dimensions(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    let wrong = |unit: &str| unit.ends_with("/w") && !unit.contains("/s/");
    let message = || "per watt a rate is needed: (tok/s)/W, which is tok/J".to_owned();
    for table in &scope.report.tables {
        for (row, cells) in table.rows.iter().enumerate() {
            if let Some(column) = (1..cells.cells.len())
                .find(|&c| table.value(row, c).is_some_and(|q| wrong(&q.unit)))
            {
                found.push(in_table(
                    table,
                    (row, column),
                    (Rule::Unit, Confidence::Medium),
                    message(),
                    Vec::new(),
                ));
                return;
            }
        }
    }
    for prose in &scope.report.prose {
        if let Some(number) = prose.numbers.iter().find(|n| wrong(&n.unit)) {
            found.push(in_prose(
                prose,
                (number.start, number.end),
                (Rule::Unit, Confidence::Medium),
                message(),
                Vec::new(),
            ));
            return;
        }
    }
}
