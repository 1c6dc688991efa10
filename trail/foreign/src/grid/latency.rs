//! The latencies of one request: the end is not before the first token, and the mean time to the end equals the mean
//! time to the first token plus a number of times the time per further token.

use super::Grid;
use super::summary::rank;
use crate::finding::{Finding, Rule};
use crate::number::{Quantity, shown};
use crate::words::words;

/// The kind of latency that a name stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    First,
    Each,
    End,
}

/// The latency that a name stands for, and its statistic; `mean` if the name has none.
fn kind(name: &str) -> Option<(Kind, String)> {
    let words: Vec<String> = words(name).into_iter().map(|word| word.text).collect();
    let has = |word: &str| words.iter().any(|w| w == word);
    let kind = if has("ttft") || has("first") && has("token") {
        Kind::First
    } else if has("tpot")
        || has("itl")
        || has("token") && (has("inter") || has("per") && has("time"))
    {
        Kind::Each
    } else if has("e2e") || has("end") && words.iter().filter(|w| *w == "end").count() == 2 {
        Kind::End
    } else {
        return None;
    };
    let statistic = rank(name).map_or("mean".to_owned(), |(rank, _)| shown(rank));
    let other = has("std") || has("sd") || has("slo") || has("target") || has("limit");
    (!other && !name.contains('%')).then_some((kind, statistic))
}

/// Checks the latencies of every row.
pub(super) fn check(grid: &Grid<'_>, findings: &mut Vec<Finding>) {
    let kinds: Vec<_> = grid.names.iter().map(|name| kind(name)).collect();
    let find = |wanted: Kind, statistic: &str| {
        let mut columns = (0..kinds.len()).filter(|c| {
            kinds[*c]
                .as_ref()
                .is_some_and(|k| k.0 == wanted && k.1 == statistic)
        });
        columns.next().filter(|_| columns.next().is_none())
    };
    for (end, kind) in kinds.iter().enumerate() {
        let Some((Kind::End, statistic)) = kind else {
            continue;
        };
        let Some(first) = find(Kind::First, statistic) else {
            continue;
        };
        not_before(grid, first, end, findings);
        if let (Some(each), "mean") = (find(Kind::Each, statistic), statistic.as_str()) {
            sums(grid, [first, each, end], findings);
        }
    }
}

/// The value of a cell in seconds, by the unit of the cell or of its column or row.
fn seconds(grid: &Grid<'_>, row: usize, column: usize) -> Option<Quantity> {
    let value = grid.value(row, column)?;
    let unit = [grid.names[column].as_str(), grid.labels[row].as_str()]
        .into_iter()
        .map(super::proportion::unit_of)
        .find(|unit| !unit.is_empty());
    let unit = if value.unit.is_empty() {
        unit?
    } else {
        value.unit.clone()
    };
    let (kind, factor) = crate::number::measure(&unit);
    (kind == "time").then(|| Quantity {
        value: value.value * factor,
        half: value.half * factor,
        unit: "s".to_owned(),
        ..value.clone()
    })
}

/// Checks that the last token does not precede the first.
fn not_before(grid: &Grid<'_>, first: usize, end: usize, findings: &mut Vec<Finding>) {
    for row in 0..grid.labels.len() {
        let (Some(a), Some(b)) = (seconds(grid, row, first), seconds(grid, row, end)) else {
            continue;
        };
        if a.value - a.half > b.value + b.half && a.value > 0.0 {
            let message = format!("{} is above {}", grid.names[first], grid.names[end]);
            let evidence = [(row, first)];
            findings.push(grid.finding(
                Rule::Relation,
                row,
                end,
                message,
                "order of latencies",
                &evidence,
            ));
        }
    }
}

/// Checks that the number of further tokens that follows from the three latencies is the same in all rows but one.
fn sums(grid: &Grid<'_>, [first, each, end]: [usize; 3], findings: &mut Vec<Finding>) {
    let mut tokens: Vec<(usize, f64, f64)> = Vec::new();
    for row in 0..grid.labels.len() {
        let at = |column| seconds(grid, row, column);
        let (Some(a), Some(b), Some(c)) = (at(first), at(each), at(end)) else {
            continue;
        };
        let rest = c.value - a.value;
        let slack = c.half + a.half;
        if b.value - b.half <= 0.0 || rest <= slack {
            return;
        }
        tokens.push((
            row,
            (rest - slack) / (b.value + b.half),
            (rest + slack) / (b.value - b.half),
        ));
    }
    if tokens.len() < 3 {
        return;
    }
    let odd: Vec<(usize, f64)> = tokens
        .iter()
        .filter_map(|own| {
            let others = || tokens.iter().filter(|other| other.0 != own.0);
            let low = others().map(|t| t.1).fold(0.0, f64::max);
            let high = others().map(|t| t.2).fold(f64::INFINITY, f64::min);
            let width = others().map(|t| t.2 / t.1 - 1.0).fold(0.0, f64::max);
            let off = own.1 > 1.05 * high || own.2 < 0.95 * low;
            (low <= high && width < 0.03 && off).then_some((own.0, f64::midpoint(low, high)))
        })
        .collect();
    let [(row, wanted)] = *odd.as_slice() else {
        return;
    };
    let message = format!(
        "in the {} other rows `{}` is `{}` and {} times `{}`; not here",
        tokens.len() - 1,
        grid.names[end],
        grid.names[first],
        shown(wanted),
        grid.names[each]
    );
    findings.push(grid.finding(
        Rule::Relation,
        row,
        end,
        message,
        "sum of latencies",
        &[(row, first), (row, each)],
    ));
}
