//! Columns that bound each other, and columns that repeat what the others show: intervals, winners, ranks.

use super::Grid;
use super::summary::above;
use crate::claims::{header_unit, more_is_better};
use crate::finding::{Finding, Rule};
use crate::number::{Quantity, quantities};
use crate::table::Table;
use crate::words::{normal, words};

/// Words of a header whose numbers are never above those of another header with the same other words.
#[rustfmt::skip]
const BELOW: &[(&[&str], &[&str])] = &[
    (&["ttft"], &["e2e"]),
    (&["output", "generated"], &["total"]),
    (&["succeeded", "successful", "completed", "passed", "ok"], &["sent", "total", "issued", "submitted"]),
    (&["used"], &["total"]),
];

/// Words of shares that are at most 100 %. One of each group must be in the header.
#[rustfmt::skip]
const SHARES: &[&[&[&str]]] = &[
    &[&["mfu", "mbu", "availability"]], &[&["hit", "success"], &["rate", "ratio", "share"]], &[&["slo"], &["attainment"]],
    &[&["gpu"], &["util", "utilization", "utilisation"]],
];

/// Words by which a header with those of a share names a change, a ratio of two shares, or a sum of several.
#[rustfmt::skip]
const NO_SHARE: &[&str] = &[
    "change", "changed", "vs", "versu", "versus", "base", "baseline", "sum", "summed", "total", "relative", "gain", "delta",
    "δ", "difference", "diff", "improvement", "growth", "normalized", "normalised", "than", "over", "against", "compared",
];

/// Whether a header names a share that is at most 100 %.
fn is_share(header: &str) -> bool {
    let spoken = words(header);
    let has = |list: &&&[&str]| spoken.iter().any(|word| list.contains(&word.text.as_str()));
    !has(&&NO_SHARE)
        && SHARES
            .iter()
            .any(|groups| groups.iter().all(|group| has(&group)))
}

/// Checks numbers that others of their row bound, and shares above 100 %. Where more than one row is so, the words mean
/// something else.
pub(super) fn pairs(grid: &Grid<'_>, findings: &mut Vec<Finding>) {
    let named = |list: &[&str]| {
        let columns = grid.names.iter().enumerate().filter_map(|(column, name)| {
            let name = name.to_lowercase().replace("end-to-end", "e2e");
            let mut rest: Vec<String> = words(&name).into_iter().map(|word| word.text).collect();
            let at = rest.iter().position(|word| list.contains(&word.as_str()))?;
            rest.remove(at);
            Some((rest, column))
        });
        columns.collect::<Vec<_>>()
    };
    for (lower, upper) in BELOW {
        let uppers = named(upper);
        for (rest, low) in named(lower) {
            let mut fitting = uppers.iter().filter(|(other, _)| *other == rest);
            let (Some((_, high)), None) = (fitting.next(), fitting.next()) else {
                continue;
            };
            let cells = |row: usize| grid.value(row, low).zip(grid.value(row, *high));
            // What completes in a window may have been sent before it.
            let wrong = |(low, high): (&Quantity, &Quantity)| {
                let (own, other) = (low.value * low.measure().1, high.value * high.measure().1);
                low.measure().0 == high.measure().0 && above(low, high) && own > 1.05 * other
            };
            if let Some(row) = only_one(grid, |row| cells(row).map(wrong)) {
                let message = format!("{} is above {}", grid.names[low], grid.names[*high]);
                let (at, cause) = ((row, low), "bound");
                findings.push(grid.finding(Rule::Relation, at, message, cause, &[(row, *high)]));
            }
        }
    }
    for (column, name) in grid.names.iter().enumerate() {
        if !is_share(name) {
            continue;
        }
        let more = |n: &Quantity| n.value - n.half > 100.0;
        let share = |row: usize| {
            grid.value(row, column)
                .filter(|n| n.is_percent() || name.contains('%'))
        };
        if let Some(row) = only_one(grid, |row| share(row).map(more)) {
            let message = "more than 100 %".to_owned();
            findings.push(grid.finding(Rule::Relation, (row, column), message, "bound", &[]));
        }
    }
}

/// The only row that is wrong among at least four that can be.
fn only_one(grid: &Grid<'_>, wrong: impl Fn(usize) -> Option<bool>) -> Option<usize> {
    let judged: Vec<(usize, bool)> = (0..grid.labels.len())
        .filter_map(|row| Some((row, wrong(row)?)))
        .collect();
    let mut rows = judged.iter().filter(|row| row.1);
    match (rows.next(), rows.next()) {
        (Some((row, _)), None) if judged.len() >= 4 => Some(*row),
        _ => None,
    }
}

/// Whether a column may be the estimate of an interval: it has all words of the interval's header, unit included, or is
/// the mean beside a plain `95% CI`.
fn is_estimate(table: &Table, column: usize, interval: usize) -> bool {
    let name = words(table.name(column));
    let has = |word: &str| name.iter().any(|own| own.text == word);
    #[rustfmt::skip]
    let plain = ["ci", "interval", "confidence", "credible", "bootstrap", "of", "the", "90", "95", "99"];
    let header = words(table.name(interval));
    let named = header.iter().map(|word| word.text.as_str());
    let named: Vec<&str> = named.filter(|word| !plain.contains(word)).collect();
    let mean = ["mean", "average", "avg", "estimate"]
        .iter()
        .any(|word| has(word));
    if named.is_empty() {
        mean
    } else {
        named.iter().all(|word| has(word))
    }
}

/// Checks confidence intervals: the low end comes first, and the estimate to their left lies within, as in all other
/// rows.
pub(super) fn intervals(table: &Table, findings: &mut Vec<Finding>) {
    for column in 0..table.columns.len() {
        let header = words(table.name(column));
        if !header
            .iter()
            .any(|word| matches!(word.text.as_str(), "ci" | "interval"))
        {
            continue;
        }
        let ends = |row: usize| {
            let text = table.text(row, column).trim();
            let inner = text.strip_prefix(['[', '('])?.strip_suffix([']', ')'])?;
            match quantities(inner).as_slice() {
                [low, high] => Some((low.clone(), high.clone())),
                _ => None,
            }
        };
        let rows: Vec<usize> = (0..table.rows.len())
            .filter(|row| ends(*row).is_some())
            .collect();
        let finding = |row: usize, message: &str, beside: &[(usize, usize)]| {
            let at = (row, column);
            table.finding(Rule::Relation, at, message.to_owned(), "interval", beside)
        };
        let turned = |row: &usize| ends(*row).is_some_and(|(low, high)| low.value > high.value);
        let turned: Vec<usize> = rows.iter().copied().filter(turned).collect();
        if let ([row], true) = (turned.as_slice(), rows.len() >= 2) {
            findings.push(finding(*row, "the low end is above the high end", &[]));
            continue;
        }
        let estimate = (0..column).rev().find(|c| table.is_numeric(*c));
        let Some(estimate) = estimate.filter(|c| is_estimate(table, *c, column)) else {
            continue;
        };
        let outside = |row: &usize| {
            let (low, high) = ends(*row)?;
            let own = table.plain(*row, estimate)?;
            Some(
                own.value + own.half < low.value - low.half
                    || own.value - own.half > high.value + high.half,
            )
        };
        let judged: Vec<(usize, bool)> = rows
            .iter()
            .filter_map(|row| Some((*row, outside(row)?)))
            .collect();
        let wrong: Vec<usize> = judged.iter().filter(|row| row.1).map(|row| row.0).collect();
        if let ([row], true) = (wrong.as_slice(), judged.len() >= 3) {
            let name = table.name(estimate);
            let message = format!("it does not contain `{name}`, as in the other rows");
            findings.push(finding(*row, &message, &[(*row, estimate)]));
        }
    }
}

/// Checks a column that names the better of the other columns. Their unit must tell which one that is.
pub(super) fn winners(table: &Table, findings: &mut Vec<Finding>) {
    let columns = 0..table.columns.len();
    let sides: Vec<(usize, String, String)> = columns
        .clone()
        .filter(|column| table.is_numeric(*column))
        .map(|column| {
            let (name, unit) = header_unit(table.name(column));
            (column, normal(&name), unit)
        })
        .collect();
    for column in columns {
        let header = words(table.name(column));
        let mut winner = header.iter().filter(|_| header.len() <= 2);
        if !winner.any(|word| {
            matches!(
                word.text.as_str(),
                "winner" | "best" | "faster" | "fastest" | "win"
            )
        }) {
            continue;
        }
        let verdict = |row: usize| -> Option<bool> {
            let own = normal(table.text(row, column));
            let (at, _, unit) = sides.iter().find(|side| side.1 == own && !own.is_empty())?;
            let more = more_is_better(unit, &[])?;
            let own = table.plain(row, *at)?;
            let rivals = sides.iter().filter(|side| side.2 == *unit && side.0 != *at);
            let rivals: Option<Vec<&Quantity>> =
                rivals.map(|side| table.plain(row, side.0)).collect();
            let rivals = rivals.filter(|rivals| !rivals.is_empty())?;
            Some(rivals.iter().any(|rival| match more {
                // Within 2 % both may be called the best.
                true => rival.value - rival.half > 1.02 * (own.value + own.half),
                false => 1.02 * (rival.value + rival.half) < own.value - own.half,
            }))
        };
        let judged: Vec<(usize, bool)> = (0..table.rows.len())
            .filter_map(|row| Some((row, verdict(row)?)))
            .collect();
        let wrong: Vec<usize> = judged.iter().filter(|row| row.1).map(|row| row.0).collect();
        if let ([row], true) = (wrong.as_slice(), judged.len() >= 4) {
            let message = "another column of its row is better".to_owned();
            findings.push(table.finding(Rule::Relation, (*row, column), message, "winner", &[]));
        }
    }
}

/// Checks that scores follow the ranks beside them. A rank may follow a number that the table does not have, so the
/// only other column must be a score.
pub(super) fn scores(table: &Table, findings: &mut Vec<Finding>) {
    let numeric: Vec<usize> = (0..table.columns.len())
        .filter(|c| table.is_numeric(*c))
        .collect();
    let is = |column: usize, list: &[&str]| {
        let header = words(table.name(column));
        header.iter().any(|word| list.contains(&word.text.as_str()))
    };
    let &[rank, score] = numeric.as_slice() else {
        return;
    };
    let rows = 0..table.rows.len();
    let number = |row: usize, column: usize| table.plain(row, column).map(|n| n.value);
    let ranked = rows
        .clone()
        .all(|row| number(row, rank) == Some(row as f64 + 1.0));
    let scores: Option<Vec<f64>> = rows.map(|row| number(row, score)).collect();
    let Some(scores) = scores.filter(|scores| scores.len() >= 4 && ranked) else {
        return;
    };
    if !is(rank, &["rank", "place", "position"]) || !is(score, &["score", "point", "rating", "elo"])
    {
        return;
    }
    let wrong: Vec<usize> = (1..scores.len())
        .filter(|row| scores[*row] > scores[row - 1])
        .collect();
    if let [row] = wrong.as_slice() {
        let message = format!("above the {} of the rank before", table.name(score));
        let at = (*row, score);
        findings.push(table.finding(Rule::Relation, at, message, "rank", &[(row - 1, score)]));
    }
}
