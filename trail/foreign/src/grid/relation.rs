//! Relations between columns that all rows keep but one.

use super::Grid;
use crate::finding::{Finding, Rule};
use crate::number::{measure, quantities, shown};
use crate::words::words;

/// A relation of a column to one or two others.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Form {
    Sum,
    Difference,
    Product,
    Ratio,
    Change,
    /// To the same column's value in the first row.
    Base,
}

impl Form {
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Sum => a + b,
            Self::Difference => a - b,
            Self::Product => a * b,
            Self::Ratio | Self::Base => a / b,
            Self::Change => (a - b) / b,
        }
    }

    fn said(self, a: &str, b: &str) -> String {
        match self {
            Self::Sum => format!("`{a}` + `{b}`"),
            Self::Difference => format!("`{a}` − `{b}`"),
            Self::Product => format!("`{a}` × `{b}`"),
            Self::Ratio => format!("`{a}` / `{b}`"),
            Self::Change => format!("the change from `{b}` to `{a}`"),
            Self::Base => format!("`{a}` against the first row"),
        }
    }
}

/// The relations that the words of a header promise; none if it does not say that its column is derived.
pub(super) fn promised(header: &str) -> &'static [Form] {
    if header.contains('Δ') {
        return &[Form::Difference, Form::Change];
    }
    words(header)
        .iter()
        .find_map(|word| match word.text.as_str() {
            "total" | "sum" => Some([Form::Sum].as_slice()),
            "speedup" | "ratio" => Some([Form::Ratio, Form::Base].as_slice()),
            "diff" | "difference" | "delta" | "change" | "gain" | "improvement" | "reduction"
            | "overhead" => Some([Form::Difference, Form::Change, Form::Ratio].as_slice()),
            _ => None,
        })
        .unwrap_or(&[])
}

struct Kept {
    form: Form,
    a: usize,
    b: usize,
    scale: f64,
    /// The rows that show the relation.
    holds: Vec<usize>,
    /// The rows that agree with it, whether they show it or would agree with much else.
    agrees: Vec<usize>,
    breaks: Vec<usize>,
}

pub(super) fn relations(grid: &Grid<'_>, findings: &mut Vec<Finding>) {
    let mut order: Vec<usize> = (0..grid.names.len()).collect();
    order.sort_by_key(|c| promised(&grid.names[*c]).is_empty());
    // One relation has as many forms as columns; what is derived by its name comes first.
    let mut told: Vec<(usize, [usize; 3])> = Vec::new();
    for result in order {
        let header = &grid.names[result];
        let promised = promised(header);
        let mut best: Option<Kept> = None;
        let mut explained: Vec<usize> = Vec::new();
        for a in 0..grid.names.len() {
            for b in 0..grid.names.len() {
                let forms: &[Form] = if a == b {
                    &[Form::Base]
                } else if a < b {
                    &[
                        Form::Sum,
                        Form::Product,
                        Form::Difference,
                        Form::Ratio,
                        Form::Change,
                    ]
                } else {
                    &[Form::Difference, Form::Ratio, Form::Change]
                };
                for form in forms.iter().filter(|_| a != result && b != result) {
                    for scale in [1.0_f64, 100.0, -1.0, -100.0, 1e-3, 1e3] {
                        let plain = matches!(form, Form::Sum | Form::Difference);
                        if plain && scale.abs() != 1.0
                            || !matches!(form, Form::Change | Form::Difference) && scale < 0.0
                            || *form == Form::Base && scale != 1.0
                        {
                            continue;
                        }
                        let Some(kept) = keeps(grid, result, *form, a, b, scale) else {
                            continue;
                        };
                        explained.extend(&kept.agrees);
                        if best
                            .as_ref()
                            .is_none_or(|best| kept.holds.len() > best.holds.len())
                        {
                            best = Some(kept);
                        }
                    }
                }
            }
        }
        let Some(best) = best else { continue };
        let (holds, breaks) = (best.holds.len(), best.breaks.len());
        let unit = unit_of(&grid.names[best.a]);
        // A few rows may agree by chance: then the operands must be of one unit, too.
        let alike = best.form == Form::Base
            || unit == unit_of(&grid.names[best.b]) && (!unit.is_empty() || holds >= 3);
        let sure = if promised.contains(&best.form) && alike {
            holds >= 1 && breaks <= holds
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
        let relation = best.form.said(&grid.names[a], &grid.names[b]);
        for row in broken {
            let base = if best.form == Form::Base { 0 } else { row };
            let mut columns = [result, best.a, best.b];
            columns.sort_unstable();
            if told.contains(&(row, columns)) {
                continue;
            }
            told.push((row, columns));
            let (Some(x), Some(y)) = (grid.value(row, best.a), grid.value(base, best.b)) else {
                continue;
            };
            let message = format!(
                "`{header}` is {relation} in {holds} other {}; here that gives {}",
                if holds == 1 { "row" } else { "rows" },
                shown(best.scale * best.form.of(x.value, y.value))
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
    constants(grid, findings);
}

/// The rows that keep a relation and those that break it; none if it says nothing or few keep it.
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
    let rows = usize::from(form == Form::Base)..grid.labels.len();
    for row in rows {
        let base = if form == Form::Base { 0 } else { row };
        let (Some(stated), Some(x), Some(y)) = (
            grid.value(row, result),
            grid.value(row, a),
            grid.value(base, b),
        ) else {
            continue;
        };
        if form == Form::Base && grid.value(0, result).is_none_or(|first| first.value != 1.0) {
            return None;
        }
        let corner =
            |dx: f64, dy: f64| scale * form.of(x.value + dx * x.half, y.value + dy * y.half);
        let corners = [
            corner(-1.0, -1.0),
            corner(-1.0, 1.0),
            corner(1.0, -1.0),
            corner(1.0, 1.0),
        ];
        let low = corners.iter().copied().fold(f64::INFINITY, f64::min);
        let high = corners.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if !low.is_finite() || !high.is_finite() {
            continue;
        }
        if stated.agrees(low, high) {
            kept.agrees.push(row);
            // A result that any operand would give, or that one operand is already, shows nothing.
            let telling = high - low < 0.2 * stated.value.abs()
                && stated.half < 0.1 * stated.value.abs()
                && (!stated.agrees(x.value * scale, x.value * scale) || form == Form::Base)
                && !stated.agrees(y.value * scale, y.value * scale);
            if telling {
                kept.holds.push(row);
                if !values.contains(&stated.value) {
                    values.push(stated.value);
                }
            }
        } else {
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

/// The unit that a header names anywhere, and what it measures.
fn unit_of(header: &str) -> String {
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

/// Two columns that are one metric in two forms: a time and a rate, whose product is the same in all rows but one;
/// or one measure in two units.
fn constants(grid: &Grid<'_>, findings: &mut Vec<Finding>) {
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
