//! Relations between columns that hold in all rows but one.

use std::cmp::Reverse;

use super::Grid;
use super::summary::sums;
use crate::finding::{Finding, Rule};
use crate::number::{Quantity, mistaken, spread, unit_named};
use crate::words::words;

/// A relation of a column to one or two others.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Form {
    Sum,
    Difference,
    Product,
    Ratio,
    Change,
    /// The ratio to the same column's value in the first row.
    Base,
    /// The change since the first row.
    Growth,
    /// The difference to the first row.
    Gap,
    /// The share of the first operand in the sum of both.
    Share,
    /// A constant of units by the operand: `1000 / TPOT (ms)`.
    Inverse,
    /// The first row's value against the same column's.
    Faster,
}

impl Form {
    /// The value for two operands.
    pub(super) fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Sum => a + b,
            Self::Difference | Self::Gap => a - b,
            Self::Share => a / (a + b),
            Self::Product => a * b,
            Self::Ratio | Self::Base => a / b,
            Self::Change | Self::Growth => (a - b) / b,
            Self::Inverse => a.recip(),
            Self::Faster => b / a,
        }
    }

    /// Whether it needs only one column, and is relative to the first row.
    pub(super) fn since_first(self) -> bool {
        matches!(self, Self::Base | Self::Growth | Self::Gap | Self::Faster)
    }

    /// The row of its second operand.
    pub(super) fn base(self, row: usize) -> usize {
        if self.since_first() { 0 } else { row }
    }

    /// The powers of ten and signs by which a result may be multiplied.
    pub(super) fn scales(self) -> &'static [f64] {
        match self {
            Self::Sum | Self::Base | Self::Faster => &[1.0],
            Self::Inverse => &[1.0, 1e3, 1e6],
            Self::Difference | Self::Gap => &[1.0, -1.0],
            Self::Growth | Self::Share => &[1.0, 100.0],
            Self::Product | Self::Ratio => &[1.0, 100.0, 1e-3, 1e3],
            Self::Change => &[1.0, 100.0, -1.0, -100.0, 1e-3, 1e3],
        }
    }

    /// The interval of its value in a row, within the rounding of its operands.
    pub(super) fn interval(
        self,
        grid: &Grid<'_>,
        row: usize,
        (a, b): (usize, usize),
        exact: bool,
    ) -> Option<(f64, f64)> {
        let rounded = |row: usize, column: usize| {
            let half = match exact && grid.whole[column] {
                true => 0.0,
                false => grid.half(row, column),
            };
            grid.value(row, column)
                .map(|n| Quantity { half, ..n.clone() })
        };
        let (x, y) = (rounded(row, a)?, rounded(self.base(row), b)?);
        let (low, high) = spread(&x, &y, |x, y| self.of(x, y));
        (low.is_finite() && high.is_finite()).then_some((low, high))
    }

    pub(super) fn said(self, a: &str, b: &str) -> String {
        match self {
            Self::Inverse => format!("1 / `{a}`"),
            Self::Faster => format!("the first row's `{a}` against it"),
            Self::Sum => format!("`{a}` + `{b}`"),
            Self::Difference => format!("`{a}` − `{b}`"),
            Self::Product => format!("`{a}` × `{b}`"),
            Self::Ratio => format!("`{a}` / `{b}`"),
            Self::Change => format!("the change from `{b}` to `{a}`"),
            Self::Base => format!("`{a}` against the first row"),
            Self::Growth => format!("the change of `{a}` against the first row"),
            Self::Gap => format!("the difference of `{a}` to the first row"),
            Self::Share => format!("the share of `{a}` in `{a}` + `{b}`"),
        }
    }
}

/// The relations that the words of a header promise; `None` if it does not mark its column as derived.
pub(super) fn promised(header: &str) -> Option<&'static [Form]> {
    if header.contains('Δ') {
        return Some(&[Form::Difference, Form::Change, Form::Gap, Form::Growth]);
    }
    words(header).iter().find_map(|word| {
        Some(match word.text.as_str() {
            "total" | "sum" => [Form::Sum].as_slice(),
            "speedup" | "ratio" => &[Form::Ratio, Form::Base],
            "efficiency" | "share" | "percentage" | "fraction" => &[],
            "vs" | "versus" | "relative" => &[Form::Growth, Form::Base, Form::Change],
            "diff" | "difference" | "delta" | "change" | "gain" | "improvement" | "reduction"
            | "overhead" => &[
                Form::Difference,
                Form::Change,
                Form::Ratio,
                Form::Growth,
                Form::Gap,
            ],
            _ => return None,
        })
    })
}

#[derive(Clone)]
struct Kept {
    form: Form,
    a: usize,
    b: usize,
    scale: f64,
    /// The number of rows that confirm the relation.
    holds: usize,
    /// The rows that agree with it, including those that would also agree with many others.
    agrees: Vec<usize>,
    breaks: Vec<usize>,
    /// Whether a row is near the relation, but off by more than rounding.
    inexact: bool,
}

pub(super) fn relations(grid: &Grid<'_>, findings: &mut Vec<Finding>) {
    let mut order: Vec<usize> = (0..grid.names.len()).collect();
    order.sort_by_key(|c| (promised(&grid.names[*c]).is_none(), Reverse(*c)));
    // One relation has as many forms as columns. Columns that are derived by name come first, then those to the right.
    let mut reported: Vec<(usize, [usize; 3])> = Vec::new();
    for result in order {
        let header = &grid.names[result];
        let promised = promised(header);
        let (best, explained) = strongest(grid, result);
        let Some(best) = best else { continue };
        let (form, holds, breaks) = (best.form, best.holds, best.breaks.len());
        let mut columns = [result, best.a, best.b];
        columns.sort_unstable();
        // Columns for levels of one thing (`1 %`, `2 %`) may follow a smooth curve, which is not a relation.
        let is_level = |column: usize| {
            let name = grid.names[column].trim_start();
            name.starts_with(|c: char| c.is_ascii_digit())
        };
        if promised.is_none() && columns.into_iter().all(is_level) {
            continue;
        }
        let unit = unit_of(&grid.names[best.a]);
        // A few rows may agree by chance, so the operands must also have the same unit.
        let alike = form.since_first()
            || unit == unit_of(&grid.names[best.b]) && (!unit.is_empty() || holds >= 3);
        // `Gain (tok/s)` can be a difference, but no share.
        let absolute = !matches!(unit_of(header).as_str(), "" | "%" | "x" | "pp");
        let possible = form == Form::Difference || form == Form::Sum || !absolute;
        let sure = if promised.is_some_and(|forms| forms.contains(&form)) && alike && possible {
            // A form with only one operand agrees by chance more often.
            holds > usize::from(form.since_first()) && breaks <= holds
        } else {
            holds >= 4 && breaks * 4 <= holds
        };
        let mut broken = best.breaks.clone();
        broken.retain(|row| !explained.contains(row) && !is_aggregate(grid, *row, result));
        let typos = holds / if promised.is_some() { 3 } else { 30 };
        if !sure || broken.len() > typos.max(1) {
            continue;
        }
        let back = form == Form::Difference && best.scale < 0.0;
        let (a, b) = if back {
            (best.b, best.a)
        } else {
            (best.a, best.b)
        };
        let relation = form.said(&grid.names[a], &grid.names[b]);
        for row in broken {
            if reported.contains(&(row, columns)) {
                continue;
            }
            reported.push((row, columns));
            let operands = [(row, best.a), (form.base(row), best.b)];
            let [Some(x), Some(y)] = operands.map(|(row, column)| grid.value(row, column)) else {
                continue;
            };
            let at = (row, result);
            let right = best.scale * form.of(x.value, y.value);
            if has_more_parts(grid, row, &columns, &best) || may_be_paired(grid, at, &best, right) {
                continue;
            }
            let message = format!(
                "`{header}` is {relation} in {holds} other {}; here that gives {}",
                if holds == 1 { "row" } else { "rows" },
                grid.shown_like(right, at)
            );
            findings.push(grid.finding(Rule::Relation, at, message, header, &operands));
        }
    }
}

/// Whether a ratio may be the median of the ratios of pairs, which is near the ratio of the medians beside it, but
/// another number.
fn may_be_paired(grid: &Grid<'_>, at: (usize, usize), kept: &Kept, right: f64) -> bool {
    use Form::{Base, Change, Faster, Growth, Ratio};
    let Some(stated) = grid.value(at.0, at.1) else {
        return false;
    };
    // A change of 3 % is near one of 2 %: both are those of a factor.
    let percent = |value: f64| 1.0 + value / if kept.scale.abs() > 10.0 { 100.0 } else { 1.0 };
    let (own, other, [exact, inexact]) = match kept.form {
        Ratio | Base | Faster => (stated.value, right, PAIRED),
        Change | Growth => (percent(stated.value), percent(right), PAIRED_CHANGE),
        _ => return false,
    };
    let unsure = kept.inexact || kept.holds < 2;
    let most = if unsure { inexact } else { exact };
    let swapped = swaps(stated, right) && !unsure;
    (own - other).abs() < most * own.abs() && !swapped
}

/// How far the median of ratios may be from the ratio of medians, as a share of it: if several other rows
/// keep the relation exactly, and otherwise. A change is seldom that of pairs.
const PAIRED: [f64; 2] = [0.04, 0.12];
const PAIRED_CHANGE: [f64; 2] = [0.02, 0.08];

/// Whether a number has two neighbouring digits of another swapped.
pub(super) fn swaps(stated: &Quantity, right: f64) -> bool {
    let digits = format!("{:.0}", (stated.value.abs() / (2.0 * stated.half)).round());
    digits.len() >= 3 && mistaken(&digits, right, stated) == Some(true)
}

/// Whether a relation that holds in most rows of a column also holds in one of its rows.
pub(super) fn agrees_otherwise(grid: &Grid<'_>, result: usize, row: usize) -> bool {
    let (best, explained) = strongest(grid, result);
    best.is_some_and(|best| best.holds >= 4) && explained.contains(&row)
}

/// Whether a row sums up or averages others, and its number lies among theirs: a mean of ratios differs from the ratio of means.
pub(super) fn is_aggregate(grid: &Grid<'_>, row: usize, column: usize) -> bool {
    let names = words(&grid.labels[row]);
    #[rustfmt::skip]
    let aggregates = ["total", "sum", "average", "mean", "avg", "median", "geomean", "overall", "all", "combined", "geometric"];
    let aggregate = names.len() <= 4
        && names
            .iter()
            .any(|word| aggregates.contains(&word.text.as_str()));
    let Some(own) = grid.value(row, column).filter(|_| aggregate) else {
        return false;
    };
    let others = (0..grid.labels.len()).filter(|other| *other != row);
    let others: Vec<f64> = others
        .filter_map(|other| Some(grid.value(other, column)?.value))
        .collect();
    others.iter().any(|v| *v <= own.value) && others.iter().any(|v| *v >= own.value)
}

/// Whether a header names a cap of the load, such as `Max concurrency`, which may not be reached.
pub(super) fn is_cap(header: &str) -> bool {
    let words = words(header);
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.text.as_str()));
    #[rustfmt::skip]
    let load = ["concurrency", "client", "user", "request", "load", "rate", "qps", "rps", "seq", "batch", "session", "inflight"];
    has(&[
        "max", "maximum", "limit", "cap", "capped", "allowed", "upto",
    ]) && has(&load)
}

/// The relation that holds in most rows of a column, and the rows that another strong one explains.
fn strongest(grid: &Grid<'_>, result: usize) -> (Option<Kept>, Vec<usize>) {
    use Form::{Base, Change, Difference, Gap, Growth, Product, Ratio, Share, Sum};
    let caps: Vec<bool> = grid.names.iter().map(|name| is_cap(name)).collect();
    let mut all: Vec<Kept> = Vec::new();
    for a in (0..grid.names.len()).filter(|a| *a != result) {
        for b in (0..grid.names.len()).filter(|b| *b != result) {
            let forms: &[Form] = match a.cmp(&b) {
                std::cmp::Ordering::Equal => &[Base, Growth, Gap],
                std::cmp::Ordering::Less => &[Sum, Product, Difference, Ratio, Change, Share],
                std::cmp::Ordering::Greater => &[Difference, Ratio, Change, Share],
            };
            let capped = caps[result] || caps[a] || caps[b];
            for form in forms {
                if capped && matches!(form, Product | Ratio) {
                    continue;
                }
                for exact in [false, true] {
                    let kept = |scale: &f64| keeps(grid, result, (*form, exact), (a, b), *scale);
                    all.extend(form.scales().iter().filter_map(kept));
                }
            }
        }
    }
    let most = all.iter().map(|kept| kept.holds).max().unwrap_or(0);
    let first = all.iter().position(|kept| kept.holds == most);
    // The same relation of rounded numbers says less than that of exact ones.
    let same = |kept: &&Kept, best: &Kept| {
        (kept.form, kept.a, kept.b, kept.scale) == (best.form, best.a, best.b, best.scale)
    };
    let best_of_all = first.map(|at| &all[at]);
    // A relation shown by few rows may agree with any other by chance.
    let strong = all.iter().filter(|kept| {
        2 * kept.holds >= most
            && !best_of_all.is_some_and(|best| same(kept, best) && kept.holds < best.holds)
    });
    let explained = strong.flat_map(|kept| kept.agrees.clone()).collect();
    let best = first.map(|at| {
        let best = &all[at];
        // Small changes are alike in both directions. Tables have the old column before the new one.
        let alike = |kept: &&Kept| {
            kept.form == best.form
                && kept.holds == most
                && kept.breaks == best.breaks
                && [kept.a, kept.b]
                    .iter()
                    .all(|c| [best.a, best.b].contains(c))
        };
        let rank = |kept: &&Kept| (kept.b > kept.a, kept.scale < 0.0);
        let changes = all.iter().filter(alike);
        let old_to_new = changes.min_by_key(rank).filter(|_| best.form == Change);
        old_to_new.unwrap_or(best).clone()
    });
    (best, explained)
}

/// Whether a further column of counts accounts for what a sum lacks, as `Errored` does in `Completed` + `Incomplete` of
/// `Total`: it is 0 in the rows that keep the relation, or the total sums up all columns before it.
fn has_more_parts(grid: &Grid<'_>, row: usize, columns: &[usize; 3], kept: &Kept) -> bool {
    if !matches!(kept.form, Form::Sum | Form::Difference) {
        return false;
    }
    let counts = columns.map(|column| grid.value(row, column).filter(|n| n.is_count()));
    let [Some(a), Some(b), Some(c)] = counts else {
        return false;
    };
    let mut sizes = [a.value, b.value, c.value];
    sizes.sort_by(f64::total_cmp);
    let gap = (sizes[2] - sizes[0] - sizes[1]).abs();
    let value = |row: usize, column: usize| grid.value(row, column).map(|n| n.value);
    let mut others = (0..grid.names.len()).filter(|column| !columns.contains(column));
    let missing = |column: usize| {
        value(row, column) == Some(gap)
            && kept
                .agrees
                .iter()
                .all(|row| value(*row, column) == Some(0.0))
    };
    // Whether a row sums up to its total; one without a number in each column does not count.
    let total = columns[2];
    let adds = |row: &usize| {
        let parts: Option<f64> = (0..total).map(|column| value(*row, column)).sum();
        value(*row, total) == parts && parts.is_some()
    };
    let rows = (0..grid.labels.len()).filter(|other| *other != row);
    others.any(missing)
        || sums(&grid.names[total]) == Some(true)
            && total > 2
            && rows.clone().count() > 1
            && rows.clone().all(|row| adds(&row))
}

/// Whether a number is so close to the expected one that unprinted digits may explain the difference: columns are
/// derived from unrounded operands, and some are truncated instead of rounded. Sums of counts are exact; those of whole
/// milliseconds are not.
pub(super) fn near(
    form: Form,
    stated: &Quantity,
    header: &str,
    size: f64,
    (low, high): (f64, f64),
) -> bool {
    let counts = stated.is_count() && unit_of(header).is_empty();
    let exact = matches!(form, Form::Sum | Form::Difference) && counts;
    // A part of a sum is off by as much as the sum is.
    let part = form == Form::Difference && promised(header).is_none();
    let slack = match (exact, part) {
        (true, _) => 0.0,
        (false, true) => 0.02 * size.max(stated.value.abs()),
        (false, false) => 0.02 * stated.value.abs(),
    };
    low - slack <= stated.value && stated.value <= high + slack
}

/// The rows that keep a relation and those that break it; `None` if it is trivial or few rows keep it.
fn keeps(
    grid: &Grid<'_>,
    result: usize,
    (form, exact): (Form, bool),
    (a, b): (usize, usize),
    scale: f64,
) -> Option<Kept> {
    let whole = [a, b].map(|column| grid.whole[column] && !grid.counted[column]);
    if exact && whole == [false, false] {
        return None;
    }
    if form.since_first() {
        let first = grid.value(0, result).map(|first| first.value);
        let fits = match form {
            // The first row is not compared with itself.
            Form::Growth | Form::Gap => first.is_none_or(|first| first == 0.0),
            // A column that begins with 1 is itself a ratio.
            _ => first == Some(1.0) && grid.value(0, a).is_none_or(|base| base.value != 1.0),
        };
        if !fits {
            return None;
        }
    }
    let (mut holds, mut agrees, mut breaks, mut inexact) = (0, Vec::new(), Vec::new(), false);
    let mut smallest = [f64::INFINITY; 2];
    let mut values: Vec<f64> = Vec::new();
    for row in usize::from(form.since_first())..grid.labels.len() {
        let (Some(stated), Some(x), Some(y), Some((low, high))) = (
            grid.value(row, result),
            grid.value(row, a),
            grid.value(form.base(row), b),
            form.interval(grid, row, (a, b), exact),
        ) else {
            continue;
        };
        let (low, high) = if scale < 0.0 {
            (high * scale, low * scale)
        } else {
            (low * scale, high * scale)
        };
        let size = stated.value.abs();
        if stated.agrees(low, high) {
            agrees.push(row);
            // A result that any operand would give, or that equals one operand, shows nothing.
            let equals = |operand: &Quantity| {
                let value = operand.value * scale;
                stated.agrees(value, value)
            };
            if high - low < 0.2 * size
                && stated.half < 0.1 * size
                && (!equals(x) || form.since_first())
                && !equals(y)
            {
                holds += 1;
                smallest = [
                    smallest[0].min(x.value.abs()),
                    smallest[1].min(y.value.abs()),
                ];
                if !values.contains(&stated.value) {
                    values.push(stated.value);
                }
            }
        } else if !near(
            form,
            stated,
            &grid.names[result],
            x.value.abs().max(y.value.abs()),
            (low, high),
        ) {
            breaks.push(row);
        } else {
            inexact = true;
        }
        if breaks.len() > 2 + holds && breaks.len() > 4 {
            return None;
        }
    }
    // Whole numbers are exact if one as small as these keeps the relation; otherwise, they may be rounded.
    if exact {
        breaks.retain(|row| {
            let size = |column: usize| grid.value(*row, column).map_or(0.0, |n| n.value.abs());
            (0..2).all(|i| !whole[i] || size([a, b][i]) >= smallest[i])
        });
    }
    let distinct = values.len() >= 3 || holds <= 2 && values.len() == holds;
    (holds > 0 && distinct && breaks.len() <= holds).then_some(Kept {
        form,
        a,
        b,
        scale,
        holds,
        agrees,
        breaks,
        inexact,
    })
}

/// The unit anywhere in a header.
pub(super) fn unit_of(header: &str) -> String {
    let bare = header.replace(['(', ')', '[', ']', ','], " ");
    bare.split_whitespace()
        .find_map(unit_named)
        .unwrap_or_default()
}
