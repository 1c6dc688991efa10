//! Proportional columns: their ratio or product is the same in all rows but one.

use super::Grid;
use super::relation::promised;
use crate::finding::{Finding, Rule};
use crate::number::{measure, quantities, shown};
use crate::words::words;

/// The unit anywhere in a header, and its measure.
pub(super) fn unit_of(header: &str) -> String {
    let bare = header.replace(['(', ')', '[', ']', ','], " ");
    let mut words = bare.split_whitespace();
    words
        .find_map(|word| {
            let probe = format!("1 {word}");
            quantities(&probe)
                .first()
                .filter(|n| n.end == probe.len() && !n.unit.is_empty())
                .map(|n| n.unit.clone())
        })
        .unwrap_or_default()
}

/// Checks two columns with one metric in two forms: a time and a rate, whose product is the same in all rows but one,
/// or one measure in two units.
pub(super) fn constants(grid: &Grid<'_>, findings: &mut Vec<Finding>) {
    let units: Vec<String> = grid.names.iter().map(|name| unit_of(name)).collect();
    for a in 0..grid.names.len() {
        for b in a + 1..grid.names.len() {
            let (one, other) = (measure(&units[a]).0, measure(&units[b]).0);
            let product =
                one == "time" && other.ends_with("/s") || other == "time" && one.ends_with("/s");
            if !product && (one != other || units[a] == units[b]) {
                continue;
            }
            let form = |x: f64, y: f64| if product { x * y } else { x / y };
            let values: Vec<(usize, f64)> = (0..grid.labels.len())
                .filter_map(|row| Some((row, grid.value(row, a)?, grid.value(row, b)?)))
                .filter(|(_, x, y)| {
                    [x, y]
                        .iter()
                        .all(|n| n.value > 0.0 && n.half < 0.02 * n.value)
                })
                .map(|(row, x, y)| (row, form(x.value, y.value)))
                .collect();
            let mut sorted: Vec<f64> = values.iter().map(|v| v.1).collect();
            sorted.sort_by(f64::total_cmp);
            let Some(&middle) = sorted.get(sorted.len() / 2) else {
                continue;
            };
            let (same, differ): (Vec<(usize, f64)>, Vec<_>) = values
                .iter()
                .copied()
                .partition(|v| (v.1 / middle - 1.0).abs() < 0.015);
            let operand = |row: usize| grid.value(row, a).map_or(0.0, |v| v.value);
            let most = same.iter().map(|v| operand(v.0)).fold(0.0, f64::max);
            let least = same
                .iter()
                .map(|v| operand(v.0))
                .fold(f64::INFINITY, f64::min);
            let [(row, value)] = *differ.as_slice() else {
                continue;
            };
            if same.len() < 3 || most < 1.2 * least || (value / middle - 1.0).abs() < 0.05 {
                continue;
            }
            let sign = if product { "×" } else { "/" };
            let (first, second) = (&grid.names[a], &grid.names[b]);
            let message = format!(
                "`{first}` {sign} `{second}` is {} in the other rows, here {}",
                shown(middle),
                shown(value)
            );
            if !findings.iter().any(|finding| finding.message == message) {
                findings.push(grid.finding(
                    Rule::Relation,
                    row,
                    a,
                    message,
                    &format!("{first} {sign} {second}"),
                    &[(row, b)],
                ));
            }
        }
    }
}

/// The operands that a column is proportional to.
#[derive(Clone, Copy)]
enum Operands {
    One(usize),
    Product(usize, usize),
    Ratio(usize, usize),
}

impl Operands {
    /// The interval of the operands' value in a row; `None` if it is not positive.
    fn interval(self, grid: &Grid<'_>, row: usize) -> Option<(f64, f64)> {
        let bounds = |column: usize| {
            let (value, half) = (grid.value(row, column)?.value, grid.half(row, column));
            (value - half > 0.0).then_some((value - half, value + half))
        };
        Some(match self {
            Self::One(a) => bounds(a)?,
            Self::Product(a, b) => {
                let (a, b) = (bounds(a)?, bounds(b)?);
                (a.0 * b.0, a.1 * b.1)
            }
            Self::Ratio(a, b) => {
                let (a, b) = (bounds(a)?, bounds(b)?);
                (a.0 / b.1, a.1 / b.0)
            }
        })
    }

    fn columns(self) -> Vec<usize> {
        match self {
            Self::One(a) => vec![a],
            Self::Product(a, b) | Self::Ratio(a, b) => vec![a, b],
        }
    }

    fn in_words(self, grid: &Grid<'_>) -> String {
        let name = |column: usize| format!("`{}`", grid.names[column]);
        match self {
            Self::One(a) => name(a),
            Self::Product(a, b) => format!("{} × {}", name(a), name(b)),
            Self::Ratio(a, b) => format!("{} / {}", name(a), name(b)),
        }
    }
}

/// Checks a column that is a constant times another, or times a product or ratio of two others, in all rows but one:
/// requests of equally long runs, or a cost per token from a price and a rate. The constant is unknown, so the rows
/// must agree more closely than unrelated columns do by chance.
pub(super) fn proportions(grid: &Grid<'_>, findings: &mut Vec<Finding>) {
    let n = grid.names.len();
    if n > 10 || grid.labels.len() < 4 {
        return;
    }
    // On a ladder of levels, nothing else changes from row to row.
    let ladder = grid.labels.iter().all(|label| {
        let label = label.trim_start();
        label.starts_with(|c: char| c.is_ascii_digit()) || label.contains('=')
    });
    // A count is chosen, and does not follow from other columns.
    for result in (0..n).filter(|column| !grid.counted[*column]) {
        let money = words(&grid.names[result])
            .iter()
            .any(|word| matches!(word.text.as_str(), "cost" | "price"));
        let others: Vec<usize> = (0..n).filter(|c| *c != result).collect();
        let mut tried: Vec<Operands> = Vec::new();
        if ladder {
            tried.extend(others.iter().map(|a| Operands::One(*a)));
        }
        for (at, a) in others.iter().enumerate() {
            for b in &others[at + 1..] {
                tried.extend([
                    Operands::Product(*a, *b),
                    Operands::Ratio(*a, *b),
                    Operands::Ratio(*b, *a),
                ]);
            }
        }
        let pairs = tried.len() as f64;
        for operands in tried {
            let simple = matches!(operands, Operands::One(_));
            let least = if simple || money { 3 } else { 4 };
            let chance = if money { 0.05 } else { 1e-3 };
            let Some((row, wanted, others)) =
                odd_row(grid, result, operands, least, chance / pairs)
            else {
                continue;
            };
            let mut columns = operands.columns();
            columns.push(result);
            // The row was already reported, for another form of the same relation or for another relation.
            let line = grid.place(row, result).map(|place| place.0);
            let is_reported = findings.iter().any(|finding| {
                finding.rule == Rule::Relation && Some(finding.line) == line
                    || columns
                        .iter()
                        .any(|c| grid.place(row, *c) == Some((finding.line, finding.column)))
            });
            if is_reported || columns.iter().any(|c| promised_elsewhere(grid, *c)) {
                continue;
            }
            let message = format!(
                "`{}` is in proportion to {} in {others} other rows; here that gives {}",
                grid.names[result],
                operands.in_words(grid),
                shown(wanted)
            );
            let evidence: Vec<(usize, usize)> =
                operands.columns().into_iter().map(|c| (row, c)).collect();
            findings.push(grid.finding(
                Rule::Relation,
                row,
                result,
                message,
                &grid.names[result],
                &evidence,
            ));
        }
    }
}

/// Whether a header promises a relation of another kind.
fn promised_elsewhere(grid: &Grid<'_>, column: usize) -> bool {
    !promised(&grid.names[column]).is_empty()
}

/// The only row whose factor lies outside that of all others, its expected value, and the number of others.
fn odd_row(
    grid: &Grid<'_>,
    result: usize,
    operands: Operands,
    least: usize,
    chance: f64,
) -> Option<(usize, f64, usize)> {
    let mut factors: Vec<(usize, f64, f64)> = Vec::new();
    for row in 0..grid.labels.len() {
        let Some(stated) = grid.value(row, result) else {
            continue;
        };
        let half = grid.half(row, result);
        let (from, to) = operands.interval(grid, row)?;
        if stated.value - half <= 0.0 {
            return None;
        }
        factors.push((
            row,
            (stated.value - half) / to,
            (stated.value + half) / from,
        ));
        // At most one of three rows is odd, so the other two agree.
        if let [x, y, z] = factors.as_slice() {
            let meet = |x: &(usize, f64, f64), y: &(usize, f64, f64)| x.1 <= y.2 && y.1 <= x.2;
            if !(meet(x, y) || meet(y, z) || meet(x, z)) {
                return None;
            }
        }
    }
    let meet = |without: Option<usize>| {
        let rest = factors.iter().filter(|f| Some(f.0) != without);
        rest.fold((0.0f64, f64::INFINITY), |(low, high), f| {
            (low.max(f.1), high.min(f.2))
        })
    };
    let all = meet(None);
    if factors.len() < least + 1 || all.0 <= all.1 {
        return None;
    }
    let odd: Vec<(usize, f64, f64)> = factors
        .iter()
        .map(|f| (f.0, meet(Some(f.0))))
        .filter(|(_, (low, high))| low <= high)
        .map(|(row, (low, high))| (row, low, high))
        .collect();
    let [(row, low, high)] = *odd.as_slice() else {
        return None;
    };
    let own = factors.iter().find(|f| f.0 == row)?;
    // The deviation must exceed rounding, or a run that ended late.
    if own.1 < 1.03 * high && own.2 > 0.97 * low {
        return None;
    }
    let values: Vec<f64> = factors
        .iter()
        .filter(|f| f.0 != row)
        .filter_map(|f| grid.value(f.0, result))
        .map(|value| value.value)
        .collect();
    let most = values.iter().copied().fold(0.0, f64::max);
    let fewest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let range = (most / fewest).ln();
    // The probability that an unrelated column has its factor in the interval of the narrowest row, in every other row.
    let mut widths: Vec<f64> = factors
        .iter()
        .filter(|f| f.0 != row)
        .map(|f| (f.2 / f.1).ln())
        .collect();
    widths.sort_by(f64::total_cmp);
    let luck: f64 = widths[1..]
        .iter()
        .map(|width| (2.0 * width / range).min(1.0))
        .product();
    if range < 0.2 || luck > chance {
        return None;
    }
    let (from, to) = operands.interval(grid, row)?;
    let wanted = f64::midpoint(low, high) * f64::midpoint(from, to);
    Some((row, wanted, factors.len() - 1))
}
