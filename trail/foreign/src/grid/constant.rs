//! Relations with one constant that no column has: the price of a node in `cost = k / throughput`, the number of tokens
//! in `tokens = k × requests`, the number sent in `met + missed = k`.

use super::Grid;
use super::relation::agrees_otherwise;
use crate::finding::{Finding, Rule};
use crate::number::{Quantity, misprints, spread};

/// A relation of a result to one or two columns by a constant k.
#[derive(Clone, Copy)]
enum Form {
    /// `k × a`
    Multiple,
    /// `k / a`
    Inverse,
    /// `k − a`
    Rest,
    /// `a + k × b`, all of one unit
    Line,
    /// `k × a / b`
    Rate,
}

impl Form {
    /// The constant for a result and its operands.
    fn constant(self, v: f64, a: f64, b: f64) -> f64 {
        match self {
            Self::Multiple => v / a,
            Self::Inverse => v * a,
            Self::Rest => v + a,
            Self::Line => (v - a) / b,
            Self::Rate => v * b / a,
        }
    }

    /// The result for a constant and operands.
    fn result(self, k: f64, a: f64, b: f64) -> f64 {
        match self {
            Self::Multiple => k * a,
            Self::Inverse => k / a,
            Self::Rest => k - a,
            Self::Line => a + k * b,
            Self::Rate => k * a / b,
        }
    }

    fn takes_two(self) -> bool {
        matches!(self, Self::Line | Self::Rate)
    }

    fn said(self, k: &str, a: &str, b: &str) -> String {
        match self {
            Self::Multiple => format!("{k} × `{a}`"),
            Self::Inverse => format!("{k} / `{a}`"),
            Self::Rest => format!("{k} − `{a}`"),
            Self::Line => format!("`{a}` + {k} × `{b}`"),
            Self::Rate => format!("{k} × `{a}` / `{b}`"),
        }
    }
}

/// The possible values of a constant in one row.
struct Range {
    row: usize,
    low: f64,
    high: f64,
}

/// The rows that must have one constant.
const LEAST: usize = 4;

/// Reports the only number of a column that breaks such a relation, if it looks like a misprint of the right one. A
/// ladder may leave the relation at its end, so the row must lie between others.
pub(super) fn constants(grid: &Grid<'_>, findings: &mut Vec<Finding>) {
    use Form::{Inverse, Line, Multiple, Rate, Rest};
    let n = grid.names.len();
    if grid.labels.len() <= LEAST {
        return;
    }
    for result in (0..n).rev() {
        for a in (0..n).filter(|a| *a != result) {
            for b in (0..n).filter(|b| *b != result) {
                let forms: &[Form] = if a == b {
                    &[Multiple, Inverse, Rest]
                } else {
                    &[Line, Rate]
                };
                for form in forms.iter().filter(|form| applies(grid, **form, result, a)) {
                    findings.extend(broken(grid, *form, result, (a, b), findings));
                }
            }
        }
    }
}

fn broken(
    grid: &Grid<'_>,
    form: Form,
    result: usize,
    (a, b): (usize, usize),
    findings: &[Finding],
) -> Option<Finding> {
    // `8 (spot)`: a row with a remark was measured another way.
    let ranges: Vec<Range> = (0..grid.labels.len())
        .filter(|row| !grid.labels[*row].contains(['(', '[']))
        .filter_map(|row| range(grid, form, row, [result, a, b]))
        .collect();
    let (low, high, row) = all_but_one(&ranges)?;
    let narrow = |range: &&Range| {
        range.row != row
            && range.high - range.low < 0.05 * f64::midpoint(range.low, range.high).abs()
    };
    let others: Vec<usize> = ranges
        .iter()
        .filter(narrow)
        .map(|range| range.row)
        .collect();
    let distinct = |column: usize| {
        let values = others.iter().filter_map(|row| grid.value(*row, column));
        let mut values: Vec<f64> = values.map(|n| n.value).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values.len() >= LEAST
    };
    let last = if form.takes_two() { b } else { a };
    let value = |row: usize, column: usize| grid.value(row, column).map(|n| n.value);
    let own = value(row, last)?;
    let inner = others.iter().any(|row| value(*row, last) < Some(own))
        && others.iter().any(|row| value(*row, last) > Some(own));
    // A constant of 1 is another relation, or none: most of what is planned is done.
    let trivial = low < 1.01 && 0.99 < high && !matches!(form, Form::Inverse | Form::Rest);
    if !inner || trivial || !distinct(result) || !distinct(a) || form.takes_two() && !distinct(b) {
        return None;
    }
    let (stated, x, y) = (
        grid.value(row, result)?,
        grid.value(row, a)?,
        grid.value(row, b)?,
    );
    let ends = [low, high].map(|k| form.result(k, x.value, y.value));
    let (least, most) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
    let middle = f64::midpoint(least, most);
    let off = (stated.value - middle).abs() - 0.5 * (most - least);
    let misprint = is_misprint(stated, (least, most));
    let at = (row, result);
    let spot = |finding: &Finding| {
        finding.rule == Rule::Relation
            && finding.line == grid.table.spot(grid.at(at).0, grid.at(at).1).0
    };
    if off < 0.02 * stated.value.abs()
        || !misprint
        || findings.iter().any(spot)
        || agrees_otherwise(grid, result, row)
    {
        return None;
    }
    let name = |column: usize| grid.names[column].as_str();
    let k = crate::number::brief(f64::midpoint(low, high));
    let message = format!(
        "`{}` is {} in {} other rows; here that gives {}",
        name(result),
        form.said(&k, name(a), name(b)),
        others.len(),
        grid.shown_like(middle, at)
    );
    let evidence: &[(usize, usize)] = if form.takes_two() {
        &[(row, a), (row, b)]
    } else {
        &[(row, a)]
    };
    Some(grid.finding(Rule::Relation, at, message, name(result), evidence))
}

/// Whether a number looks like a misprint of one within an interval. The fewer digits it has, the fewer candidates the
/// interval may hold, because a true number is then more often like a misprint of one of many.
pub(super) fn is_misprint(stated: &Quantity, (least, most): (f64, f64)) -> bool {
    let step = 2.0 * stated.half;
    let candidates = ((most - least) / step).ceil() + 1.0;
    let most_candidates = match stated.value.abs() / step {
        ..1e3 => 8.0,
        1e3..1e4 => 16.0,
        _ => 40.0,
    };
    candidates <= most_candidates
        && (0..=candidates as usize).any(|i| misprints(stated, least + i as f64 * step))
}

/// Whether a form may hold of a table. Where a further column counts things, the rest is what that column counts.
fn applies(grid: &Grid<'_>, form: Form, result: usize, a: usize) -> bool {
    // A first column of numbers labels the rows.
    let label = |column: usize| grid.upright && grid.numeric[column] == 0;
    let further = |column: &usize| ![result, a].contains(column) && !label(*column);
    let counts = |column: usize| grid.whole[column];
    !matches!(form, Form::Rest) || !(0..grid.names.len()).filter(further).any(counts)
}

/// The possible constants of a row, within the rounding of its numbers.
fn range(grid: &Grid<'_>, form: Form, row: usize, columns: [usize; 3]) -> Option<Range> {
    let rounded = |column: usize| {
        let half = grid.half(row, column);
        grid.value(row, column)
            .map(|n| Quantity { half, ..n.clone() })
    };
    let [v, a, b] = columns.map(rounded);
    let (v, a, b) = (v?, a?, b?);
    let alike = |n: &Quantity| !n.unit.is_empty() && n.measure().0 == v.measure().0;
    let is_line = matches!(form, Form::Line);
    if is_line && !(alike(&a) && alike(&b)) {
        return None;
    }
    let at = |end: f64| {
        let b = b.value + end * b.half;
        spread(&v, &a, |v, a| form.constant(v, a, b))
    };
    let ends = if form.takes_two() {
        vec![-1.0, 1.0]
    } else {
        vec![0.0]
    };
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for end in ends {
        let (least, most) = at(end);
        (low, high) = (low.min(least), high.max(most));
    }
    let signed = low * high > 0.0 && (!is_line || low > 0.0);
    (low.is_finite() && high.is_finite() && signed).then_some(Range { row, low, high })
}

/// The range that all rows but one share, and that row; `None` if all share one, or more than one is off.
fn all_but_one(ranges: &[Range]) -> Option<(f64, f64, usize)> {
    if ranges.len() <= LEAST {
        return None;
    }
    let shared = |without: Option<usize>| {
        let rest = || ranges.iter().filter(|range| Some(range.row) != without);
        let low = rest()
            .map(|range| range.low)
            .fold(f64::NEG_INFINITY, f64::max);
        let high = rest().map(|range| range.high).fold(f64::INFINITY, f64::min);
        (low <= high).then_some((low, high))
    };
    if shared(None).is_some() {
        return None;
    }
    let highest = ranges.iter().max_by(|a, b| a.low.total_cmp(&b.low))?.row;
    let lowest = ranges.iter().min_by(|a, b| a.high.total_cmp(&b.high))?.row;
    let with = |row: usize| shared(Some(row)).map(|(low, high)| (low, high, row));
    match (with(highest), with(lowest)) {
        (Some(range), None) | (None, Some(range)) => Some(range),
        _ => None,
    }
}
