//! R-BASE, R-UNIT, R-BIND, R-ARITH: relative claims compared with tables that compare two systems.

use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Confidence, Evidence, Finding};
use crate::number::{Agreement, Quantity, compare, quantities, shown, spread};
use crate::rules::Rule;
use crate::rules::scope::{Scope, in_prose, in_table};
use crate::rules::words::{names, statistic, words};
use crate::table::Table;
use crate::text::Prose;

static CLAIM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?P<p>[0-9]+(?:\.[0-9]+)?) ?% (?P<dir>slower|lower|less|worse|smaller|fewer|higher|faster|more|better|greater|larger)(?: [a-z]+){0,3} than (?P<e>[A-Za-z][A-Za-z0-9.\-]+)").expect("a regex")
});

/// A row of a table that compares: the label, the value of the one system and of the other.
struct Pair<'a> {
    table: &'a Table,
    row: usize,
    own: usize,
    other: usize,
}

impl Pair<'_> {
    fn values(&self) -> Option<(&Quantity, &Quantity)> {
        Some((
            self.table.value(self.row, self.own)?,
            self.table.value(self.row, self.other)?,
        ))
    }

    fn evidence(&self) -> Vec<Evidence> {
        [self.own, self.other]
            .into_iter()
            .map(|column| self.table.evidence(self.row, column))
            .collect()
    }
}

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    for prose in &scope.report.prose {
        for captures in CLAIM.captures_iter(&prose.text) {
            let Some(whole) = captures.get(0) else {
                continue;
            };
            let Some(sentence) = prose.sentence(whole.start()) else {
                continue;
            };
            let text = &prose.text[sentence.0..sentence.1];
            if let Some((rule, message, evidence)) =
                claim(scope.report.tables_around(prose.line()), &captures, text)
            {
                found.push(in_prose(
                    prose,
                    (whole.start(), whole.end()),
                    rule,
                    message,
                    evidence,
                ));
            }
        }
        growth(scope, prose, found);
        points(scope, prose, found);
    }
    for table in &scope.report.tables {
        for (index, row) in table.rows.iter().enumerate() {
            for (column, cell) in row.cells.iter().enumerate().skip(1) {
                let Some(captures) = CLAIM.captures(&cell.text) else {
                    continue;
                };
                let text = row
                    .cells
                    .iter()
                    .map(|cell| cell.text.as_str())
                    .collect::<Vec<_>>()
                    .join(" | ");
                if let Some((rule, message, evidence)) =
                    claim(scope.report.tables_around(table.line), &captures, &text)
                {
                    found.push(in_table(table, (index, column), rule, message, evidence));
                }
            }
        }
    }
    differences(&scope.report.prose, found);
}

/// Every pair of systems whose second column is named `entity`.
fn pairs<'a>(tables: &'a [Table], entity: &str) -> Vec<Pair<'a>> {
    let mut found = Vec::new();
    for table in tables.iter().filter(|table| table.rows.len() <= 400) {
        let Some(other) = (1..table.columns.len())
            .find(|&c| names(&table.columns[c], entity) || names(entity, &table.columns[c]))
        else {
            continue;
        };
        for own in table
            .numeric_columns()
            .into_iter()
            .filter(|&c| c != other && !is_change(&table.columns[c]))
        {
            found.extend(
                (0..table.rows.len())
                    .map(|row| Pair {
                        table,
                        row,
                        own,
                        other,
                    })
                    .filter(|pair| pair.values().is_some_and(|(a, b)| a.unit == b.unit)),
            );
        }
    }
    found
}

/// Whether a column holds changes rather than values.
pub(crate) fn is_change(name: &str) -> bool {
    let lower = name.to_lowercase();
    name.contains('Δ')
        || [
            "delta",
            "change",
            "diff",
            "improvement",
            "speedup",
            "gain",
            "%",
        ]
        .iter()
        .any(|word| lower.contains(word))
            && !lower.contains("mfu")
}

type Verdict = ((Rule, Confidence), String, Vec<Evidence>);

/// `24% slower than X`, with the sentence or row it stands in.
fn claim(tables: &[Table], captures: &regex::Captures<'_>, text: &str) -> Option<Verdict> {
    let stated = quantities(
        captures
            .name("p")
            .map(|m| format!("{}%", m.as_str()))?
            .as_str(),
    )
    .pop()?;
    let direction = captures.name("dir")?.as_str();
    let entity = captures.name("e")?.as_str();
    let mine = captures.get(0)?.as_str();
    let candidates = pairs(tables, entity);
    let numbers: Vec<Quantity> = quantities(text)
        .into_iter()
        .filter(|n| !mine.contains(&text[n.start..n.end]) || n.value != stated.value)
        .collect();
    // By value: a number of the sentence that is this very cell.
    let bound: Vec<&Pair<'_>> = candidates
        .iter()
        .filter(|pair| {
            pair.values().is_some_and(|(own, _)| {
                let telling = own.half < 0.5 || own.value >= 100.0;
                telling
                    && numbers
                        .iter()
                        .any(|n| n.value == own.value && n.unit == own.unit)
            })
        })
        .collect();
    if let [pair] = bound.as_slice() {
        let (own, other) = pair.values()?;
        let relative = spread(own, other, |s, e| 100.0 * ((s - e) / e).abs());
        let reverse = spread(own, other, |s, e| 100.0 * ((s - e) / s).abs());
        let points = spread(own, other, |s, e| (s - e).abs());
        let holds =
            |interval: (f64, f64)| compare(&stated, interval.0, interval.1) == Agreement::Agrees;
        let is = shown(f64::midpoint(relative.0, relative.1));
        let _ = direction;
        return if holds(relative) {
            None
        } else if own.is_percent() && holds(points) {
            Some((
                (Rule::Unit, Confidence::High),
                format!(
                    "{}% are percentage points: relative to {entity} it is {is}%",
                    shown(stated.value)
                ),
                pair.evidence(),
            ))
        } else if holds(reverse) {
            Some((
                (Rule::Base, Confidence::High),
                format!(
                    "{}% is relative to the wrong side: than {entity} it is {is}%",
                    shown(stated.value)
                ),
                pair.evidence(),
            ))
        } else if [relative, reverse]
            .iter()
            .all(|i| compare(&stated, i.0, i.1) == Agreement::Differs)
        {
            Some((
                (Rule::Arith, Confidence::Medium),
                format!("{}% does not follow: it is {is}%", shown(stated.value)),
                pair.evidence(),
            ))
        } else {
            None
        };
    }
    // By words: the same statistic, the same size of change, but under another condition.
    let statistic_here = statistic(text)?;
    let condition = condition(text)?;
    let same: Vec<&Pair<'_>> = candidates
        .iter()
        .filter(|pair| {
            statistic(pair.table.label(pair.row)).as_deref() == Some(statistic_here.as_str())
        })
        .filter(|pair| {
            pair.values().is_some_and(|(own, other)| {
                [
                    spread(own, other, |s, e| 100.0 * ((s - e) / e).abs()),
                    spread(own, other, |s, e| 100.0 * ((s - e) / s).abs()),
                ]
                .iter()
                .any(|i| compare(&stated, i.0, i.1) == Agreement::Agrees)
            })
        })
        .collect();
    let [pair] = same.as_slice() else { return None };
    let measured = self::condition(pair.table.label(pair.row))?;
    (measured != condition).then(|| {
        let message = format!(
            "{}% is the value at {}, not at {}",
            shown(stated.value),
            shown(measured),
            shown(condition)
        );
        ((Rule::Bind, Confidence::Medium), message, pair.evidence())
    })
}

/// The load in a text: `100 users`, `@ 50u`, `N=16`, `concurrency 8`.
fn condition(text: &str) -> Option<f64> {
    static CONDITION: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?i)(?:(?:@|\bat) ?(?P<a>[0-9]+) ?(?:u|users|clients|concurrent[a-z ]*|req/s)\b|\bN ?= ?(?P<b>[0-9]+)|\b(?:concurrency|batch(?: size)?) (?:of )?(?P<c>[0-9]+))").expect("a regex")
    });
    let mut all = CONDITION.captures_iter(text).filter_map(|c| {
        c.name("a")
            .or(c.name("b"))
            .or(c.name("c"))?
            .as_str()
            .parse::<f64>()
            .ok()
    });
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}

static GROWTH: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?P<m>[A-Za-z][A-Za-z0-9 \-]{1,40}?) (?:increases?d?|grows?|grew|rises?|rose|drops?|dropped|falls?|fell|decreases?d?|degrades?d?)(?: by)? (?P<p>[0-9]+(?:\.[0-9]+)?) ?% (?:when going |going )?from (?:N ?= ?)?(?P<a>[0-9]+) ?(?:→|->|to|–) ?(?:N ?= ?)?(?P<b>[0-9]+)\b").expect("a regex")
});

/// `TTFT increases 60% from 10→100 users`: a column between two rows.
fn growth(scope: &Scope<'_>, prose: &Prose, found: &mut Vec<Finding>) {
    for captures in GROWTH.captures_iter(&prose.text) {
        let (Some(whole), Some(metric), Some(p)) =
            (captures.get(0), captures.name("m"), captures.name("p"))
        else {
            continue;
        };
        let level = |name| {
            captures
                .name(name)
                .and_then(|m| m.as_str().parse::<f64>().ok())
        };
        let (Some(from), Some(to)) = (level("a"), level("b")) else {
            continue;
        };
        let Some(stated) = quantities(&format!("{}%", p.as_str())).pop() else {
            continue;
        };
        let wanted = words(metric.as_str());
        for table in scope.report.tables_near(prose.section) {
            let row = |value: f64| {
                (0..table.rows.len()).find(|&row| {
                    let label = quantities(table.label(row));
                    label.len() == 1 && label[0].value == value
                })
            };
            let (Some(first), Some(last)) = (row(from), row(to)) else {
                continue;
            };
            let (mut named, mut others) = (Vec::new(), Vec::new());
            let mut holds = false;
            for column in table.numeric_columns() {
                let (Some(a), Some(b)) = (table.value(first, column), table.value(last, column))
                else {
                    continue;
                };
                let change = spread(a, b, |a, b| 100.0 * ((b - a) / a).abs());
                let agrees = compare(&stated, change.0, change.1) == Agreement::Agrees;
                let evidence = Evidence::new(
                    format!(
                        "line {}–{}, \"{}\"",
                        table.rows[first].line, table.rows[last].line, table.columns[column]
                    ),
                    format!("{}%", shown(f64::midpoint(change.0, change.1))),
                );
                if words(&table.columns[column])
                    .intersection(&wanted)
                    .next()
                    .is_some()
                {
                    holds |= agrees;
                    named.push(evidence);
                } else if agrees {
                    others.push(evidence);
                }
            }
            if !holds && !named.is_empty() {
                let rule = if others.is_empty() {
                    Rule::Arith
                } else {
                    Rule::Bind
                };
                named.extend(others);
                let message = format!(
                    "no column of \"{}\" changes by {}% between these rows",
                    metric.as_str().trim(),
                    shown(stated.value)
                );
                found.push(in_prose(
                    prose,
                    (whole.start(), whole.end()),
                    (rule, Confidence::High),
                    message,
                    named,
                ));
                break;
            }
        }
    }
}

static POINTS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?:(?:costs?|loses?|lost|gains?|drops?|saves?) (?P<p>[0-9]+(?:\.[0-9]+)?)|(?:^|[ (])[+−-](?P<q>[0-9]+(?:\.[0-9]+)?)) ?% (?P<m>[A-Z][A-Za-z]{2,}(?: [a-z]+)?)\b").expect("a regex")
});

/// `costs 4.1% MFU` where the MFU is 17.5% against 21.6%: points, not percent.
fn points(scope: &Scope<'_>, prose: &Prose, found: &mut Vec<Finding>) {
    for captures in POINTS.captures_iter(&prose.text) {
        let (Some(whole), Some(p), Some(metric)) = (
            captures.get(0),
            captures.name("p").or(captures.name("q")),
            captures.name("m"),
        ) else {
            continue;
        };
        let Some(stated) = quantities(&format!("{}%", p.as_str())).pop() else {
            continue;
        };
        let name = metric.as_str().split(' ').next().unwrap_or("");
        for table in scope
            .report
            .tables_around(prose.line())
            .iter()
            .filter(|table| table.rows.len() <= 400)
        {
            let columns: Vec<usize> = table
                .numeric_columns()
                .into_iter()
                .filter(|&c| !is_change(&table.columns[c]))
                .collect();
            let Some(pair) = columns
                .first()
                .zip(columns.get(1))
                .and_then(|(&own, &other)| {
                    (0..table.rows.len())
                        .filter(|&row| names(table.label(row), name))
                        .map(|row| Pair {
                            table,
                            row,
                            own,
                            other,
                        })
                        .find(|pair| {
                            pair.values()
                                .is_some_and(|(a, b)| a.is_percent() && b.is_percent())
                        })
                })
            else {
                continue;
            };
            let Some((own, other)) = pair.values() else {
                continue;
            };
            let holds = |i: (f64, f64)| compare(&stated, i.0, i.1) == Agreement::Agrees;
            let relative = [
                spread(own, other, |a, b| 100.0 * ((a - b) / b).abs()),
                spread(own, other, |a, b| 100.0 * ((a - b) / a).abs()),
            ];
            if holds(spread(own, other, |a, b| (a - b).abs()))
                && !relative.iter().any(|i| holds(*i))
            {
                let message = format!(
                    "{}% are percentage points: relatively it is {}% or {}%",
                    shown(stated.value),
                    shown(f64::midpoint(relative[0].0, relative[0].1)),
                    shown(f64::midpoint(relative[1].0, relative[1].1))
                );
                found.push(in_prose(
                    prose,
                    (whole.start(), whole.end()),
                    (Rule::Unit, Confidence::Medium),
                    message,
                    pair.evidence(),
                ));
                break;
            }
        }
    }
}

static DIFFERENCE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?:difference|gap|delta|improvement|change): ?(?P<p>[+−-]?[0-9]+(?:\.[0-9]+)?) ?%(?P<rest>.{0,60})").expect("a regex")
});

/// Two items with a quantity each, and a third: `Difference: 13% better`.
fn differences(prose: &[Prose], found: &mut Vec<Finding>) {
    for window in prose.windows(3) {
        let [a, b, third] = window else { continue };
        let Some(captures) = DIFFERENCE.captures(&third.text) else {
            continue;
        };
        let Some(whole) = captures.get(0) else {
            continue;
        };
        let adjacent = a.item
            && b.item
            && third.item
            && a.section == third.section
            && b.line() == a.line() + 1
            && third.line() == b.line() + 1;
        let Some(stated) = third.numbers.first().filter(|_| adjacent) else {
            continue;
        };
        let stated = Quantity {
            value: stated.value.abs(),
            ..stated.clone()
        };
        let mut relative = Vec::new();
        let mut points = Vec::new();
        for (x, y) in a
            .numbers
            .iter()
            .take(12)
            .flat_map(|x| b.numbers.iter().take(12).map(move |y| (x, y)))
            .filter(|(x, y)| x.unit == y.unit && x.value != 0.0 && y.value != 0.0)
        {
            relative.push(spread(x, y, |x, y| 100.0 * ((x - y) / x).abs()));
            relative.push(spread(x, y, |x, y| 100.0 * ((x - y) / y).abs()));
            if x.is_percent() {
                points.push(spread(x, y, |x, y| (x - y).abs()));
            }
        }
        let holds = |i: &(f64, f64)| compare(&stated, i.0, i.1) == Agreement::Agrees;
        let near = |i: &(f64, f64)| compare(&stated, i.0, i.1) != Agreement::Differs;
        let worded = captures
            .name("rest")
            .is_some_and(|rest| rest.as_str().contains("point"));
        if relative.is_empty() || relative.iter().any(near) || worded {
            continue;
        }
        let evidence = vec![
            Evidence::new(format!("line {}", a.line()), a.text.clone()),
            Evidence::new(format!("line {}", b.line()), b.text.clone()),
        ];
        let is = shown(f64::midpoint(relative[0].0, relative[0].1));
        let other = shown(f64::midpoint(relative[1].0, relative[1].1));
        if points.iter().any(holds) {
            let message = format!(
                "{}% are percentage points: relatively it is {is}% or {other}%",
                shown(stated.value)
            );
            found.push(in_prose(
                third,
                (whole.start(), whole.end()),
                (Rule::Unit, Confidence::High),
                message,
                evidence,
            ));
        } else {
            let message = format!(
                "{}% does not follow: it is {is}% or {other}%",
                shown(stated.value)
            );
            found.push(in_prose(
                third,
                (whole.start(), whole.end()),
                (Rule::Arith, Confidence::Medium),
                message,
                evidence,
            ));
        }
    }
}
