//! Relations between columns that hold in all rows but one.

use super::Grid;
use super::summary::sums;
use crate::finding::{Finding, Rule};
use crate::number::{Quantity, spread, unit_named};
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
}

impl Form {
    /// The value for two operands.
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Sum => a + b,
            Self::Difference => a - b,
            Self::Product => a * b,
            Self::Ratio | Self::Base => a / b,
            Self::Change | Self::Growth => (a - b) / b,
        }
    }

    /// Whether it needs only one column, and is relative to the first row.
    fn since_first(self) -> bool {
        matches!(self, Self::Base | Self::Growth)
    }

    /// The row of its second operand.
    fn base(self, row: usize) -> usize {
        if self.since_first() { 0 } else { row }
    }

    /// The powers of ten and signs by which a result may be multiplied.
    fn scales(self) -> &'static [f64] {
        match self {
            Self::Sum | Self::Base => &[1.0],
            Self::Difference => &[1.0, -1.0],
            Self::Growth => &[1.0, 100.0],
            Self::Product | Self::Ratio => &[1.0, 100.0, 1e-3, 1e3],
            Self::Change => &[1.0, 100.0, -1.0, -100.0, 1e-3, 1e3],
        }
    }

    /// The interval of its value in a row, within the rounding of its operands.
    fn interval(self, grid: &Grid<'_>, row: usize, a: usize, b: usize) -> Option<(f64, f64)> {
        let rounded = |row: usize, column: usize| {
            let half = grid.half(row, column);
            grid.value(row, column)
                .map(|n| Quantity { half, ..n.clone() })
        };
        let (x, y) = (rounded(row, a)?, rounded(self.base(row), b)?);
        let (low, high) = spread(&x, &y, |x, y| self.of(x, y));
        (low.is_finite() && high.is_finite()).then_some((low, high))
    }

    fn said(self, a: &str, b: &str) -> String {
        match self {
            Self::Sum => format!("`{a}` + `{b}`"),
            Self::Difference => format!("`{a}` − `{b}`"),
            Self::Product => format!("`{a}` × `{b}`"),
            Self::Ratio => format!("`{a}` / `{b}`"),
            Self::Change => format!("the change from `{b}` to `{a}`"),
            Self::Base => format!("`{a}` against the first row"),
            Self::Growth => format!("the change of `{a}` against the first row"),
        }
    }
}

/// The relations that the words of a header promise; `None` if it does not mark its column as derived.
pub(super) fn promised(header: &str) -> Option<&'static [Form]> {
    if header.contains('Δ') {
        return Some(&[Form::Difference, Form::Change]);
    }
    words(header).iter().find_map(|word| {
        Some(match word.text.as_str() {
            "total" | "sum" => [Form::Sum].as_slice(),
            "speedup" | "ratio" => &[Form::Ratio, Form::Base],
            "efficiency" | "share" | "percentage" | "fraction" => &[],
            "vs" | "versus" | "relative" => &[Form::Growth, Form::Base, Form::Change],
            "diff" | "difference" | "delta" | "change" | "gain" | "improvement" | "reduction"
            | "overhead" => &[Form::Difference, Form::Change, Form::Ratio, Form::Growth],
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
}

pub(super) fn relations(grid: &Grid<'_>, findings: &mut Vec<Finding>) {
    let mut order: Vec<usize> = (0..grid.names.len()).collect();
    order.sort_by_key(|c| promised(&grid.names[*c]).is_none());
    // One relation has as many forms as columns. Columns that are derived by name come first.
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
        broken.retain(|row| !explained.contains(row));
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
            if has_more_parts(grid, row, &columns, &best) {
                continue;
            }
            let message = format!(
                "`{header}` is {relation} in {holds} other {}; here that gives {}",
                if holds == 1 { "row" } else { "rows" },
                grid.shown_like(best.scale * form.of(x.value, y.value), at)
            );
            findings.push(grid.finding(Rule::Relation, at, message, header, &operands));
        }
    }
}

/// The relation that holds in most rows of a column, and the rows that another strong one explains.
fn strongest(grid: &Grid<'_>, result: usize) -> (Option<Kept>, Vec<usize>) {
    use Form::{Base, Change, Difference, Growth, Product, Ratio, Sum};
    let mut all: Vec<Kept> = Vec::new();
    for a in (0..grid.names.len()).filter(|a| *a != result) {
        for b in (0..grid.names.len()).filter(|b| *b != result) {
            let forms: &[Form] = match a.cmp(&b) {
                std::cmp::Ordering::Equal => &[Base, Growth],
                std::cmp::Ordering::Less => &[Sum, Product, Difference, Ratio, Change],
                std::cmp::Ordering::Greater => &[Difference, Ratio, Change],
            };
            for form in forms {
                let kept = |scale: &f64| keeps(grid, result, *form, (a, b), *scale);
                all.extend(form.scales().iter().filter_map(kept));
            }
        }
    }
    let most = all.iter().map(|kept| kept.holds).max().unwrap_or(0);
    // A relation shown by few rows may agree with any other by chance.
    let strong = all.iter().filter(|kept| 2 * kept.holds >= most);
    let explained = strong.flat_map(|kept| kept.agrees.clone()).collect();
    let first = all.iter().position(|kept| kept.holds == most);
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
/// derived from unrounded operands, and some are truncated instead of rounded. Sums of counts are exact.
fn near(form: Form, stated: &Quantity, low: f64, high: f64) -> bool {
    let exact = matches!(form, Form::Sum | Form::Difference) && stated.is_count();
    let slack = if exact {
        0.0
    } else {
        0.02 * stated.value.abs()
    };
    low - slack <= stated.value && stated.value <= high + slack
}

/// The rows that keep a relation and those that break it; `None` if it is trivial or few rows keep it.
fn keeps(
    grid: &Grid<'_>,
    result: usize,
    form: Form,
    (a, b): (usize, usize),
    scale: f64,
) -> Option<Kept> {
    if form.since_first() {
        let first = grid.value(0, result).map(|first| first.value);
        let fits = match form {
            // The first row is not compared with itself.
            Form::Growth => first.is_none_or(|first| first == 0.0),
            // A column that begins with 1 is itself a ratio.
            _ => first == Some(1.0) && grid.value(0, a).is_none_or(|base| base.value != 1.0),
        };
        if !fits {
            return None;
        }
    }
    let (mut holds, mut agrees, mut breaks) = (0, Vec::new(), Vec::new());
    let mut values: Vec<f64> = Vec::new();
    for row in usize::from(form.since_first())..grid.labels.len() {
        let (Some(stated), Some(x), Some(y), Some((low, high))) = (
            grid.value(row, result),
            grid.value(row, a),
            grid.value(form.base(row), b),
            form.interval(grid, row, a, b),
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
                if !values.contains(&stated.value) {
                    values.push(stated.value);
                }
            }
        } else if !near(form, stated, low, high) {
            breaks.push(row);
        }
        if breaks.len() > 2 + holds && breaks.len() > 4 {
            return None;
        }
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
    })
}

/// The unit anywhere in a header.
fn unit_of(header: &str) -> String {
    let bare = header.replace(['(', ')', '[', ']', ','], " ");
    bare.split_whitespace()
        .find_map(unit_named)
        .unwrap_or_default()
}
