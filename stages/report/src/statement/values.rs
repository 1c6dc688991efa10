//! Rules about the values of a column: the largest, within bounds, close to another, on one side of a reference.

use artifacts::Scalar;
use pipeline::place::same_label;
use pipeline::stage::Json;

use super::interval::{ValueInterval, interval};
use super::judgement::{Judgement, is_one, rows_text};
use super::predicate::Truth;
use super::rule::{Between, Consistent, Extremum, Within};
use crate::data::Miss;
use crate::view::View;

/// The values of a numeric column, and the rows where it is null.
pub(super) fn numbers(view: &View, column: &str) -> Result<(Vec<Option<f64>>, Vec<usize>), Miss> {
    view.table.require(column)?;
    let mut values = Vec::with_capacity(view.rows.len());
    for row in 0..view.rows.len() {
        let value = view.get(row, column)?;
        match value.as_f64() {
            None if value != Scalar::Null => {
                return Err(format!("column `{column}` holds no numbers: `{value}`").into());
            }
            number => values.push(number.filter(|v| !v.is_nan())),
        }
    }
    let null = (0..values.len()).filter(|row| values[*row].is_none());
    let null = null.collect();
    Ok((values, null))
}

/// The judgement for a null in a column: unknown.
pub(super) fn unknown(view: &View, column: &str, null: Vec<usize>) -> Judgement {
    let reason = format!(
        "`{column}` is null in {}",
        rows_text(view, &null, &[column])
    );
    Judgement::new(view, Truth::Unknown, null, reason)
}

/// Judges which row has the largest value after multiplication by `sign`.
pub(super) fn extremum(
    r: &Extremum,
    view: &View,
    what: &str,
    sign: f64,
) -> Result<Judgement, Miss> {
    let (values, null) = numbers(view, &r.column)?;
    if !null.is_empty() {
        return Ok(unknown(view, &r.column, null));
    }
    if values.len() == 1 {
        let reason = format!(
            "a single row cannot be compared: {}",
            rows_text(view, &[0], &[&r.column])
        );
        return Ok(Judgement::new(view, Truth::Unknown, vec![0], reason));
    }
    let best = values
        .iter()
        .flatten()
        .fold(f64::NEG_INFINITY, |best, v| best.max(sign * v));
    let best = rows_where(&values, |v| sign * v == best);
    let text = rows_text(view, &best, &[&r.column]);
    if best.len() > 1 {
        let reason = format!("{} rows share the {what} value: {text}", best.len());
        return Ok(Judgement::new(view, Truth::No, best, reason));
    }
    if let Some(rival) = rival(view, &r.column, best[0], sign, &values)? {
        let rows = rows_text(view, &[best[0], rival], &[&r.column]);
        let reason = format!(
            "the intervals of two rows overlap, so which has the {what} value is open: {rows}"
        );
        return Ok(Judgement::new(view, Truth::Unknown, vec![rival], reason));
    }
    let is = is_one(view, best[0], &r.are)?;
    let reason = format!("the {what} is {text}");
    let against = if is { Vec::new() } else { best.clone() };
    let mut judgement = Judgement::new(view, Truth::of(is), against, reason);
    judgement.named.push(("row", best[0]));
    Ok(judgement)
}

/// Returns a row whose interval reaches that of the row with the best value; `None` if there is none, or if the values
/// count without intervals.
fn rival(
    view: &View,
    column: &str,
    best: usize,
    sign: f64,
    values: &[Option<f64>],
) -> Result<Option<usize>, Miss> {
    let ends = |row: usize| -> Result<(f64, f64), Miss> {
        let value = values[row].unwrap_or(f64::NAN);
        Ok(match interval(view, row, column)? {
            ValueInterval::Exact => (sign * value, sign * value),
            ValueInterval::Between(low, high) => {
                let (low, high) = (sign * low, sign * high);
                (low.min(high), low.max(high))
            }
            ValueInterval::Withheld => (f64::NEG_INFINITY, f64::INFINITY),
        })
    };
    let (least, _) = ends(best)?;
    for row in (0..values.len()).filter(|row| *row != best) {
        if ends(row)?.1 >= least {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

pub(super) fn between(r: &Between, view: &View) -> Result<Judgement, Miss> {
    let (values, null) = numbers(view, &r.column)?;
    let outside = |v: f64| r.low.is_some_and(|low| v < low) || r.high.is_some_and(|high| v > high);
    let against = rows_where(&values, outside);
    if against.is_empty() && !null.is_empty() {
        return Ok(unknown(view, &r.column, null));
    }
    let defined = || {
        values
            .iter()
            .enumerate()
            .filter_map(|(i, v)| Some((i, (*v)?)))
    };
    let lowest = defined().reduce(|a, b| if b.1 < a.1 { b } else { a });
    let highest = defined().reduce(|a, b| if b.1 > a.1 { b } else { a });
    let reason = match against.is_empty() {
        true => format!(
            "`{}` is within its bounds in all {} rows",
            r.column,
            values.len()
        ),
        false => format!("outside: {}", rows_text(view, &against, &[&r.column])),
    };
    let mut judgement = Judgement::new(view, Truth::of(against.is_empty()), against, reason);
    judgement
        .named
        .extend(lowest.map(|(row, _)| ("lowest", row)));
    judgement
        .named
        .extend(highest.map(|(row, _)| ("highest", row)));
    let unit = view.table.unit(&r.column);
    for (name, bound) in [("low", r.low), ("high", r.high)] {
        judgement
            .values
            .extend(bound.map(|b| (name, Scalar::Float(b), unit.clone())));
    }
    Ok(judgement)
}

pub(super) fn within(r: &Within, view: &View) -> Result<Judgement, Miss> {
    let (values, mut null) = numbers(view, &r.column)?;
    let references = match &r.reference {
        Json::String(column) => {
            let (references, missing) = numbers(view, column)?;
            null.extend(missing);
            references
        }
        other => vec![other.as_f64(); values.len()],
    };
    let far = |value: f64, reference: f64| {
        let allowed =
            r.by.unwrap_or_else(|| r.ratio.unwrap_or(0.0) * reference.abs());
        (value - reference).abs() > allowed
    };
    let pairs = values.iter().zip(&references).enumerate();
    let against: Vec<usize> = pairs
        .filter(|(_, (v, reference))| {
            v.zip(**reference)
                .is_some_and(|(v, reference)| far(v, reference))
        })
        .map(|(i, _)| i)
        .collect();
    if against.is_empty() && !null.is_empty() {
        null.sort_unstable();
        null.dedup();
        return Ok(unknown(view, &r.column, null));
    }
    let mut columns = vec![r.column.as_str()];
    columns.extend(r.reference.as_str());
    let reason = match against.is_empty() {
        true => format!("all {} rows are as close as stated", values.len()),
        false => format!("further away: {}", rows_text(view, &against, &columns)),
    };
    let mut judgement = Judgement::new(view, Truth::of(against.is_empty()), against, reason);
    judgement
        .values
        .extend(r.by.map(|by| ("by", Scalar::Float(by), view.table.unit(&r.column))));
    judgement.values.extend(
        r.ratio
            .map(|by| ("ratio", Scalar::Float(by), Some("1".to_owned()))),
    );
    judgement.values.extend(
        r.reference
            .as_f64()
            .map(|reference| ("of", Scalar::Float(reference), view.table.unit(&r.column))),
    );
    Ok(judgement)
}

pub(super) fn consistent(r: &Consistent, view: &View) -> Result<Judgement, Miss> {
    let (values, null) = numbers(view, &r.column)?;
    for axis in &r.across {
        view.table.require(axis)?;
        let first = view.get(0, axis)?;
        let mut others = (1..view.rows.len()).map(|row| view.get(row, axis));
        if others.all(|v| v.is_ok_and(|v| same_label(&v, &first))) {
            let reason = format!(
                "`{axis}` has a single level here, {first}, so nothing can be consistent across it"
            );
            return Ok(Judgement::new(view, Truth::Unknown, Vec::new(), reason));
        }
    }
    let above = rows_where(&values, |v| v > r.reference);
    let below = rows_where(&values, |v| v < r.reference);
    let on = rows_where(&values, |v| v == r.reference);
    let sides = [&above, &below, &on]
        .into_iter()
        .filter(|side| !side.is_empty())
        .count();
    if sides > 1 || !on.is_empty() {
        // The rows that contradict it are those on the smaller side.
        let mut against = if above.len() >= below.len() {
            below
        } else {
            above
        };
        against.extend(on);
        against.sort_unstable();
        let reason = format!(
            "not all on one side of {}: {}",
            r.reference,
            rows_text(view, &against, &[&r.column])
        );
        return Ok(Judgement::new(view, Truth::No, against, reason));
    }
    if !null.is_empty() {
        return Ok(unknown(view, &r.column, null));
    }
    for row in 0..values.len() {
        let reaches = match interval(view, row, &r.column)? {
            ValueInterval::Exact => false,
            ValueInterval::Between(low, high) => low <= r.reference && r.reference <= high,
            ValueInterval::Withheld => true,
        };
        if reaches {
            let rows = rows_text(view, &[row], &[&r.column]);
            let reason = format!(
                "the interval of a row reaches {}, or is withheld: {rows}",
                r.reference
            );
            return Ok(Judgement::new(view, Truth::Unknown, vec![row], reason));
        }
    }
    let side = if below.is_empty() { "above" } else { "below" };
    let reason = format!("all {} rows lie {side} {}", values.len(), r.reference);
    Ok(Judgement::new(view, Truth::Yes, Vec::new(), reason))
}

/// The rows whose value meets a condition.
fn rows_where(values: &[Option<f64>], is: impl Fn(f64) -> bool) -> Vec<usize> {
    values
        .iter()
        .enumerate()
        .filter(|(_, v)| v.is_some_and(&is))
        .map(|(i, _)| i)
        .collect()
}
