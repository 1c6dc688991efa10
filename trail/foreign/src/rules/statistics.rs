//! R-STAT: the statistic that prose names against the one that the table has for the value.
//!
//! A value is bound by the metric that prose and table both name, by a second number of the same row, or by the
//! place of a caption. The statistic of a row or column is the only one its name says; where prose says two
//! (`the median of the means`), or the table has the value under the statistic said too, nothing is reported.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::finding::{Confidence, Finding};
use crate::number::Quantity;
use crate::rules::Rule;
use crate::rules::keys::{keys, rows_named};
use crate::rules::scope::{Scope, in_prose};
use crate::rules::words::{statistic_at, statistics, words};
use crate::table::Table;
use crate::text::Prose;

pub(crate) fn check(scope: &Scope<'_>, found: &mut Vec<Finding>) {
    for (at, prose) in scope.report.prose.iter().enumerate() {
        let heading = prose
            .section
            .checked_sub(1)
            .and_then(|at| scope.report.headings.get(at));
        let heading = heading.map_or("", |heading| heading.text.as_str());
        let near: Vec<&Table> = scope.report.tables_near(prose.section).collect();
        for &sentence in &prose.sentences {
            siblings(prose, sentence, heading, &near, found);
            rows(scope, prose, sentence, found);
        }
        caption(scope, prose, found);
        if let Some(before) = at.checked_sub(1).and_then(|at| scope.report.prose.get(at)) {
            figure(before, prose, found);
        }
    }
}

/// Words of a name that say neither what is measured nor how it is aggregated.
const UNITS: &[&str] = &[
    "ms", "s", "us", "%", "pp", "x", "tok", "req", "token", "request", "second",
];

/// A statistic and the metric it is of, as the name of a column or row has them.
struct Measure {
    statistic: String,
    metric: BTreeSet<String>,
}

/// What a name says, if it names one statistic of something.
fn measure(name: &str) -> Option<Measure> {
    let name = name.replace('_', " ");
    let statistic = only(statistics(&name))?;
    let mut metric = words(&name);
    metric.retain(|word| *word != statistic && !UNITS.contains(&word.as_str()));
    (!metric.is_empty()).then_some(Measure { statistic, metric })
}

fn only(set: BTreeSet<String>) -> Option<String> {
    let mut set = set.into_iter();
    set.next().filter(|_| set.next().is_none())
}

/// Whether a cell prints the number of the prose: value, precision, and unit where both have one.
fn prints(cell: &Quantity, number: &Quantity) -> bool {
    let unit = cell.unit == number.unit || cell.unit.is_empty() || number.unit.is_empty();
    unit && cell.value == number.value && cell.half == number.half
}

/// Two digits or more.
fn telling(number: &Quantity) -> bool {
    !number.rough && number.value.abs() / (2.0 * number.half) >= 9.5
}

/// A number of a sentence with the one statistic said before it, and where that is.
struct Stated<'a> {
    number: &'a Quantity,
    statistic: String,
    start: usize,
}

impl<'a> Stated<'a> {
    fn all(prose: &'a Prose, (start, end): (usize, usize)) -> Vec<Self> {
        let mut from = start;
        let mut all = Vec::new();
        for number in prose.numbers_in(start, end) {
            let first = from.min(number.start);
            let before = &prose.text[first..number.start];
            from = number.end;
            if let Some(statistic) = only(statistics(before)).filter(|_| telling(number)) {
                all.push(Self {
                    number,
                    statistic,
                    start: first + statistic_at(before).unwrap_or(0),
                });
            }
        }
        all
    }
}

/// "The mean TTFT is 480 ms" beside `| Mean TTFT | P95 TTFT |` where 480 is the P95.
fn siblings(
    prose: &Prose,
    sentence: (usize, usize),
    heading: &str,
    near: &[&Table],
    found: &mut Vec<Finding>,
) {
    let numbers = Stated::all(prose, sentence);
    if numbers.is_empty() {
        return;
    }
    let said = words(&prose.text[sentence.0..sentence.1]);
    let tables: Vec<_> = near
        .iter()
        .map(|table| {
            let keys = keys(table).unwrap_or_default();
            let named = rows_named(table, &keys, prose, sentence, heading).map(|named| named.rows);
            let mut pairs = pairs(table);
            pairs.retain(|pair| pair.metric.is_subset(&said));
            (*table, named, pairs)
        })
        .collect();
    for Stated {
        number,
        statistic,
        start,
    } in numbers
    {
        let value = |table: &Table, (row, column): (usize, usize)| {
            table.value(row, column).map(|value| prints(value, number))
        };
        let holders: Vec<_> = tables
            .iter()
            .flat_map(|(table, named, pairs)| pairs.iter().map(move |pair| (*table, named, pair)))
            .filter(|(table, _, pair)| value(table, pair.cell) == Some(true))
            .collect();
        if holders.iter().any(|(_, _, pair)| pair.own == statistic) {
            continue;
        }
        let wrong = holders.iter().find(|(table, named, pair)| {
            let meant = named
                .as_ref()
                .is_none_or(|rows| rows.contains(&pair.cell.0));
            meant && pair.other == statistic && value(table, pair.sibling) == Some(false)
        });
        let Some((table, _, pair)) = wrong else {
            continue;
        };
        let message = format!("called {statistic} here; the table has it as {}", pair.own);
        let evidence = [pair.cell, pair.sibling].map(|(row, column)| table.evidence(row, column));
        let span = (start, number.end);
        found.push(in_prose(
            prose,
            span,
            (Rule::Stat, Confidence::Medium),
            message,
            evidence.into(),
        ));
    }
}

/// Two cells of one row or one column that have different statistics of one metric.
struct Pair {
    metric: BTreeSet<String>,
    own: String,
    other: String,
    /// Row and column of the cell with `own`.
    cell: (usize, usize),
    /// Row and column of the cell with `other`.
    sibling: (usize, usize),
}

/// Tables whose rows are statistics are short.
const MOST_LABELS: usize = 60;

fn pairs(table: &Table) -> Vec<Pair> {
    let named = |at: usize, name: &str| Some((at, measure(name)?));
    let columns: Vec<_> = table
        .numeric_columns()
        .into_iter()
        .filter_map(|c| named(c, &table.columns[c]))
        .collect();
    let labels: Vec<_> = (0..table.rows.len().min(MOST_LABELS))
        .filter_map(|row| named(row, table.label(row)))
        .collect();
    let across = of_one_metric(&columns).flat_map(|(a, b)| {
        (0..table.rows.len()).map(move |row| pair((a, (row, a.0)), (b, (row, b.0))))
    });
    let down = of_one_metric(&labels).flat_map(|(a, b)| {
        (1..table.columns.len()).map(move |column| pair((a, (a.0, column)), (b, (b.0, column))))
    });
    across.chain(down).collect()
}

type Named = (usize, Measure);

fn of_one_metric(names: &[Named]) -> impl Iterator<Item = (&Named, &Named)> {
    let all = names.iter().flat_map(|a| names.iter().map(move |b| (a, b)));
    all.filter(|((_, a), (_, b))| a.metric == b.metric && a.statistic != b.statistic)
}

fn pair((own, cell): (&Named, (usize, usize)), (other, sibling): (&Named, (usize, usize))) -> Pair {
    let (own, other) = (&own.1, &other.1);
    let (metric, own, other) = (
        own.metric.clone(),
        own.statistic.clone(),
        other.statistic.clone(),
    );
    Pair {
        metric,
        own,
        other,
        cell,
        sibling,
    }
}

/// "The mean wait is 0.58× (p 0.008)" where the only row with both numbers is that of a median.
fn rows(scope: &Scope<'_>, prose: &Prose, (start, end): (usize, usize), found: &mut Vec<Finding>) {
    let sentence = &prose.text[start..end];
    let numbers: Vec<&Quantity> = prose
        .numbers_in(start, end)
        .iter()
        .filter(|n| !n.rough && n.half < 0.5 && n.value.abs() > 0.0)
        .collect();
    let Some(stated) = only(statistics(sentence)).filter(|_| numbers.len() >= 2) else {
        return;
    };
    let mut holders = Vec::new();
    for table in scope
        .report
        .tables_around(prose.line())
        .iter()
        .filter(|table| table.rows.len() <= 400)
    {
        for (row, cells) in table.rows.iter().enumerate() {
            let column = |number: &&Quantity| {
                cells
                    .cells
                    .iter()
                    .position(|c| c.value.as_ref().is_some_and(|v| prints(v, number)))
            };
            let columns: BTreeSet<usize> = numbers.iter().filter_map(column).collect();
            if columns.len() >= 2 {
                holders.push((table, row, columns));
            }
        }
    }
    let [(table, row, columns)] = holders.as_slice() else {
        return;
    };
    let Some(own) = measure(table.label(*row)).filter(|own| own.statistic != stated) else {
        return;
    };
    let named = |column: &usize| {
        table
            .columns
            .get(*column)
            .is_some_and(|c| statistics(c).contains(&stated))
    };
    if columns.iter().any(named) {
        return;
    }
    let message = format!(
        "called {stated} here; the row with these numbers is of the {}",
        own.statistic
    );
    let evidence = columns
        .iter()
        .map(|&column| table.evidence(*row, column))
        .collect();
    let span = (start + statistic_at(sentence).unwrap_or(0), end);
    found.push(in_prose(
        prose,
        span,
        (Rule::Stat, Confidence::Medium),
        message,
        evidence,
    ));
}

static CAPTION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^Table [0-9]+[.:] (?:[A-Za-z]+ ){0,2}?(?P<p>[Pp][0-9]{2}(?:\.[0-9]+)?)\b")
        .expect("a regex")
});
static PERCENTILE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)\bp[0-9]{2}(?:\.[0-9]+)?\b").expect("a regex"));

/// "Table 2. The p50 of …" over columns of which one is a p95 and none a p50.
fn caption(scope: &Scope<'_>, prose: &Prose, found: &mut Vec<Finding>) {
    let Some(stated) = CAPTION
        .captures(&prose.text)
        .and_then(|captures| captures.name("p"))
    else {
        return;
    };
    let tables = &scope.report.tables;
    let next = tables.partition_point(|table| table.line < prose.line());
    let Some(table) = tables
        .get(next)
        .filter(|table| table.section == prose.section)
    else {
        return;
    };
    let percentiles = |text: &str| -> Vec<String> {
        PERCENTILE
            .find_iter(&text.replace('_', " "))
            .map(|m| m.as_str().to_lowercase())
            .collect()
    };
    let own: BTreeSet<String> = table
        .columns
        .iter()
        .flat_map(|name| percentiles(name))
        .collect();
    let labels: BTreeSet<String> = (0..table.rows.len())
        .flat_map(|row| percentiles(table.label(row)))
        .collect();
    let stated_name = stated.as_str().to_lowercase();
    let [other] = own.iter().collect::<Vec<_>>()[..] else {
        return;
    };
    if !labels.is_empty() || *other == stated_name {
        return;
    }
    let message = format!("the caption says {stated_name}, the table {other}");
    let column = table
        .columns
        .iter()
        .position(|name| percentiles(name).contains(other))
        .unwrap_or(0);
    let span = (stated.start(), stated.end());
    let evidence = vec![table.evidence(0, column)];
    found.push(in_prose(
        prose,
        span,
        (Rule::Stat, Confidence::Medium),
        message,
        evidence,
    ));
}

static ALT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^!\[(?P<alt>[^\]]{12,})\]\(").expect("a regex"));
static STATISTIC: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:mean|median|average|maximum|minimum|p[0-9]{2}(?:\.[0-9]+)?)\b")
        .expect("a regex")
});

/// A caption that repeats the text of its figure with another statistic.
fn figure(before: &Prose, prose: &Prose, found: &mut Vec<Finding>) {
    let Some(alt) = ALT
        .captures(&before.text)
        .and_then(|captures| captures.name("alt"))
    else {
        return;
    };
    let Some(in_alt) = STATISTIC.find(alt.as_str()) else {
        return;
    };
    let (left, right) = (
        &alt.as_str()[..in_alt.start()],
        &alt.as_str()[in_alt.end()..],
    );
    for stated in STATISTIC.find_iter(&prose.text) {
        let same = stated.as_str().eq_ignore_ascii_case(in_alt.as_str());
        let around = prose.text[..stated.start()].ends_with(left)
            && prose.text[stated.end()..].starts_with(right);
        if around && !same {
            let message = format!(
                "{} here, {} in the text of the figure",
                stated.as_str(),
                in_alt.as_str()
            );
            let span = (stated.start(), stated.end());
            found.push(in_prose(
                prose,
                span,
                (Rule::Stat, Confidence::Medium),
                message,
                Vec::new(),
            ));
        }
    }
}
