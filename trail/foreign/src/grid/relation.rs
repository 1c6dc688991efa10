//! Relations between columns that hold in all rows but one.

use super::Grid;
use super::proportion::unit_of;
use crate::finding::{Finding, Rule};
use crate::number::{Quantity, shown};
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
    /// The growth of one column since the first row over the growth of another.
    Efficiency,
    /// The change since the first row.
    Growth,
    /// The share of the sum of the column.
    Share,
}

impl Form {
    /// The value for two operands of one row; for an efficiency, the growth of both.
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Sum => a + b,
            Self::Difference => a - b,
            Self::Product => a * b,
            Self::Ratio | Self::Base | Self::Efficiency | Self::Share => a / b,
            Self::Change | Self::Growth => (a - b) / b,
        }
    }

    /// Whether it is relative to the first row.
    fn since_first(self) -> bool {
        matches!(self, Self::Base | Self::Efficiency | Self::Growth)
    }

    /// Whether it needs only one column.
    fn of_one(self) -> bool {
        matches!(self, Self::Base | Self::Growth | Self::Share)
    }

    /// The row of its second operand.
    fn base(self, row: usize) -> usize {
        if matches!(self, Self::Base | Self::Growth) {
            0
        } else {
            row
        }
    }

    /// The powers of ten and signs by which a result may be multiplied.
    fn scales(self) -> &'static [f64] {
        match self {
            Self::Sum => &[1.0],
            Self::Difference => &[1.0, -1.0],
            Self::Base => &[1.0],
            Self::Efficiency | Self::Growth | Self::Share => &[1.0, 100.0],
            Self::Product | Self::Ratio => &[1.0, 100.0, 1e-3, 1e3],
            Self::Change => &[1.0, 100.0, -1.0, -100.0, 1e-3, 1e3],
        }
    }

    /// Its value in a row, with the operands shifted by a number of halves of their last digit.
    fn at(self, grid: &Grid<'_>, row: usize, a: usize, b: usize, halves: [f64; 2]) -> Option<f64> {
        let (x, y) = (grid.value(row, a)?, grid.value(self.base(row), b)?);
        let mut x = x.value + halves[0] * grid.half(row, a);
        let mut y = y.value + halves[1] * grid.half(self.base(row), b);
        if self == Self::Share {
            y = grid.whole(a)?;
        }
        if self == Self::Efficiency {
            x /= grid.value(0, a)?.value;
            // Counts of clients or devices are exact.
            y = grid.value(row, b)?.value / grid.value(0, b)?.value;
        }
        Some(self.of(x, y))
    }

    fn in_words(self, a: &str, b: &str) -> String {
        match self {
            Self::Sum => format!("`{a}` + `{b}`"),
            Self::Difference => format!("`{a}` − `{b}`"),
            Self::Product => format!("`{a}` × `{b}`"),
            Self::Ratio => format!("`{a}` / `{b}`"),
            Self::Change => format!("the change from `{b}` to `{a}`"),
            Self::Base => format!("`{a}` against the first row"),
            Self::Efficiency => format!("the growth of `{a}` over that of `{b}`"),
            Self::Growth => format!("the change of `{a}` against the first row"),
            Self::Share => format!("the share of `{a}` in its sum"),
        }
    }
}

/// The relations that the words of a header promise; empty if it does not mark its column as derived.
pub(super) fn promised(header: &str) -> &'static [Form] {
    if header.contains('Δ') {
        return &[Form::Difference, Form::Change];
    }
    words(header)
        .iter()
        .find_map(|word| match word.text.as_str() {
            "total" | "sum" => Some([Form::Sum].as_slice()),
            "speedup" | "ratio" => Some([Form::Ratio, Form::Base].as_slice()),
            "efficiency" => Some([Form::Efficiency].as_slice()),
            "share" | "percentage" | "fraction" => Some([Form::Share].as_slice()),
            "vs" | "versus" | "relative" => {
                Some([Form::Growth, Form::Base, Form::Change].as_slice())
            }
            "diff" | "difference" | "delta" | "change" | "gain" | "improvement" | "reduction"
            | "overhead" => {
                Some([Form::Difference, Form::Change, Form::Ratio, Form::Growth].as_slice())
            }
            _ => None,
        })
        .unwrap_or(&[])
}

struct Kept {
    form: Form,
    a: usize,
    b: usize,
    scale: f64,
    /// The rows that confirm the relation.
    holds: Vec<usize>,
    /// The rows that agree with it, including those that would also agree with many others.
    agrees: Vec<usize>,
    breaks: Vec<usize>,
}

pub(super) fn relations(grid: &Grid<'_>, findings: &mut Vec<Finding>) {
    let mut order: Vec<usize> = (0..grid.names.len()).collect();
    order.sort_by_key(|c| promised(&grid.names[*c]).is_empty());
    // One relation has as many forms as columns. Columns that are derived by name come first.
    let mut reported: Vec<(usize, [usize; 3])> = Vec::new();
    for result in order {
        let header = &grid.names[result];
        let promised = promised(header);
        let (best, explained) = strongest(grid, result);
        let Some(best) = best else { continue };
        let (holds, breaks) = (best.holds.len(), best.breaks.len());
        // Columns for levels of one thing (`1 %`, `2 %`) may follow a smooth curve, which is not a relation.
        let is_level = |column: usize| {
            let name = grid.names[column].trim_start();
            name.starts_with(|c: char| c.is_ascii_digit())
        };
        if promised.is_empty() && [result, best.a, best.b].into_iter().all(is_level) {
            continue;
        }
        let unit = unit_of(&grid.names[best.a]);
        // A few rows may agree by chance, so the operands must also have the same unit.
        let alike = best.form.of_one()
            || best.form == Form::Efficiency
            || unit == unit_of(&grid.names[best.b]) && (!unit.is_empty() || holds >= 3);
        let sure = if promised.contains(&best.form) && alike {
            // A form with only one operand agrees by chance more often.
            let least = if best.form.of_one() { 2 } else { 1 };
            holds >= least && breaks <= holds
        } else {
            holds >= 4 && breaks * 4 <= holds
        };
        let broken: Vec<usize> = best
            .breaks
            .iter()
            .copied()
            .filter(|row| !explained.contains(row))
            .collect();
        let typos = if promised.is_empty() {
            1.max(holds / 30)
        } else {
            1.max(holds / 3)
        };
        if !sure || broken.len() > typos {
            continue;
        }
        let (a, b) = match best.form == Form::Difference && best.scale < 0.0 {
            true => (best.b, best.a),
            false => (best.a, best.b),
        };
        let relation = best.form.in_words(&grid.names[a], &grid.names[b]);
        for row in broken {
            let mut columns = [result, best.a, best.b];
            columns.sort_unstable();
            if reported.contains(&(row, columns)) {
                continue;
            }
            reported.push((row, columns));
            let base = best.form.base(row);
            let Some(value) = best.form.at(grid, row, best.a, best.b, [0.0; 2]) else {
                continue;
            };
            let message = format!(
                "`{header}` is {relation} in {holds} other {}; here that gives {}",
                if holds == 1 { "row" } else { "rows" },
                shown(best.scale * value)
            );
            findings.push(grid.finding(
                Rule::Relation,
                row,
                result,
                message,
                header,
                &[(row, best.a), (base, best.b)],
            ));
        }
    }
}

/// The relation that holds in most rows of a column, and the rows that another strong one explains.
fn strongest(grid: &Grid<'_>, result: usize) -> (Option<Kept>, Vec<usize>) {
    let mut all: Vec<Kept> = Vec::new();
    let share = promised(&grid.names[result]).contains(&Form::Share);
    for a in (0..grid.names.len()).filter(|a| *a != result) {
        for b in (0..grid.names.len()).filter(|b| *b != result) {
            let forms: &[Form] = if a == b {
                &[Form::Base, Form::Growth, Form::Share]
            } else if a < b {
                &[
                    Form::Sum,
                    Form::Product,
                    Form::Difference,
                    Form::Ratio,
                    Form::Change,
                    Form::Efficiency,
                ]
            } else {
                &[
                    Form::Difference,
                    Form::Ratio,
                    Form::Change,
                    Form::Efficiency,
                ]
            };
            for form in forms.iter().filter(|form| share || **form != Form::Share) {
                all.extend(
                    form.scales()
                        .iter()
                        .filter_map(|scale| keeps(grid, result, *form, a, b, *scale)),
                );
            }
        }
    }
    let most = all.iter().map(|kept| kept.holds.len()).max().unwrap_or(0);
    // A relation shown by few rows may agree with any other by chance.
    let explained = all
        .iter()
        .filter(|kept| 2 * kept.holds.len() >= most)
        .flat_map(|kept| kept.agrees.iter().copied())
        .collect();
    let best = all.into_iter().find(|kept| kept.holds.len() == most);
    (best, explained)
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
    a: usize,
    b: usize,
    scale: f64,
) -> Option<Kept> {
    let mut kept = Kept {
        form,
        a,
        b,
        scale,
        holds: Vec::new(),
        agrees: Vec::new(),
        breaks: Vec::new(),
    };
    let mut values: Vec<f64> = Vec::new();
    if form.since_first() {
        let first = grid.value(0, result).map(|first| first.value);
        let fits = match form {
            Form::Efficiency => first == Some(scale),
            // The first row is not compared with itself.
            Form::Growth => first.is_none_or(|first| first == 0.0),
            // A column that begins with 1 is itself a ratio.
            _ => first == Some(1.0) && grid.value(0, a).is_none_or(|base| base.value != 1.0),
        };
        if !fits {
            return None;
        }
    }
    for row in usize::from(form.since_first())..grid.labels.len() {
        let base = form.base(row);
        let (Some(stated), Some(x), Some(y)) = (
            grid.value(row, result),
            grid.value(row, a),
            grid.value(base, b),
        ) else {
            continue;
        };
        let corners = [[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]]
            .map(|halves| form.at(grid, row, a, b, halves));
        let [Some(first), Some(second), Some(third), Some(last)] = corners else {
            continue;
        };
        let corners = [first, second, third, last].map(|corner| scale * corner);
        let low = corners.iter().copied().fold(f64::INFINITY, f64::min);
        let high = corners.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if !low.is_finite() || !high.is_finite() {
            continue;
        }
        if stated.agrees(low, high) {
            kept.agrees.push(row);
            // A result that any operand would give, or that equals one operand, shows nothing.
            let telling = high - low < 0.2 * stated.value.abs()
                && stated.half < 0.1 * stated.value.abs()
                && (!stated.agrees(x.value * scale, x.value * scale)
                    || form.since_first()
                    || form == Form::Share)
                && !stated.agrees(y.value * scale, y.value * scale);
            if telling {
                kept.holds.push(row);
                if !values.contains(&stated.value) {
                    values.push(stated.value);
                }
            }
        } else if !near(form, stated, low, high) {
            kept.breaks.push(row);
        }
        if kept.breaks.len() > 2 + kept.holds.len() && kept.breaks.len() > 4 {
            return None;
        }
    }
    (!kept.holds.is_empty()
        && (values.len() >= 3 || kept.holds.len() <= 2 && values.len() == kept.holds.len())
        && kept.breaks.len() <= kept.holds.len())
    .then_some(kept)
}
