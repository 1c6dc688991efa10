//! Rules about the values of a column: the largest, within bounds, close to another, on one side of a reference.

use artifacts::Scalar;
use pipeline::place::same_label;
use pipeline::stage::Json;

use super::interval::spans;
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
    if let Some(rival) = rival(view, &r.column, &best, sign)? {
        let rows = rows_text(view, &[best[0], rival], &[&r.column]);
        let reason = format!(
            "the intervals of two rows overlap, so which has the {what} value is open: {rows}"
        );
        return Ok(Judgement::new(view, Truth::Unknown, vec![rival], reason));
    }
    if best.len() > 1 {
        let reason = format!("{} rows share the {what} value: {text}", best.len());
        return Ok(Judgement::new(view, Truth::No, best, reason));
    }
    let is = is_one(view, best[0], &r.are)?;
    let reason = format!("the {what} is {text}");
    let against = if is { Vec::new() } else { best.clone() };
    let mut judgement = Judgement::new(view, Truth::of(is), against, reason);
    judgement.named.push(("row", best[0]));
    Ok(judgement)
}

/// Returns a row whose interval reaches that of the first of the rows with the best value; `None` if there is none. The others
/// with that value share it only if none of them has an interval. Otherwise, their values may differ, and they are rivals.
fn rival(view: &View, column: &str, best: &[usize], sign: f64) -> Result<Option<usize>, Miss> {
    let outward = |(low, high): (f64, f64)| match sign < 0.0 {
        true => (-high, -low),
        false => (low, high),
    };
    let spans = spans(view, column)?;
    let ends: Vec<_> = spans.into_iter().map(|span| span.map(outward)).collect();
    let Some((least, _)) = ends[best[0]] else {
        return Ok(None);
    };
    let is_exact = |row: &usize| ends[*row].is_some_and(|(least, most)| least == most);
    let shared = best.iter().all(is_exact);
    let reaches = |row: &usize| match best.contains(row) {
        true => !shared,
        false => ends[*row].is_none_or(|(_, most)| most >= least),
    };
    Ok((0..ends.len()).filter(|row| *row != best[0]).find(reaches))
}

/// The judgement that some rows are open, because their intervals reach beyond what a rule allows.
fn open(view: &View, what: &str, rows: Vec<usize>, columns: &[&str]) -> Judgement {
    let text = rows_text(view, &rows, columns);
    let reason = format!("the interval of a row reaches {what}, or is withheld: {text}");
    Judgement::new(view, Truth::Unknown, rows, reason)
}

pub(super) fn between(r: &Between, view: &View) -> Result<Judgement, Miss> {
    let (values, null) = numbers(view, &r.column)?;
    let (low, high) = (
        r.low.unwrap_or(f64::NEG_INFINITY),
        r.high.unwrap_or(f64::INFINITY),
    );
    let spans = spans(view, &r.column)?;
    let against = rows_where(&spans, |(least, most)| most < low || least > high);
    if against.is_empty() && !null.is_empty() {
        return Ok(unknown(view, &r.column, null));
    }
    let reaching = rows_where(&spans, |(least, most)| least < low || most > high);
    if against.is_empty() && !reaching.is_empty() {
        return Ok(open(view, "beyond a bound", reaching, &[&r.column]));
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
    let spans_of_values = spans(view, &r.column)?;
    let references = match &r.reference {
        Json::String(column) => {
            null.extend(numbers(view, column)?.1);
            spans(view, column)?
        }
        other => vec![other.as_f64().map(|number| (number, number)); values.len()],
    };
    let pairs = spans_of_values.iter().zip(&references);
    let excesses: Vec<Option<(f64, f64)>> = pairs
        .map(|(value, reference)| Some(excess(r, (*value)?, (*reference)?)))
        .collect();
    let against = rows_where(&excesses, |(least, _)| least > 0.0);
    let reaching = rows_where(&excesses, |(_, most)| most > 0.0);
    if against.is_empty() && !null.is_empty() {
        null.sort_unstable();
        null.dedup();
        return Ok(unknown(view, &r.column, null));
    }
    let mut columns = vec![r.column.as_str()];
    columns.extend(r.reference.as_str());
    if against.is_empty() && !reaching.is_empty() {
        return Ok(open(view, "further away", reaching, &columns));
    }
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

/// Returns by how much a value is further from a reference than a rule allows, at least and at most, if both may lie anywhere in
/// their intervals. In each half of the references, the distance beyond what is allowed is extreme at the ends, or where both
/// are equal.
fn excess(r: &Within, value: (f64, f64), reference: (f64, f64)) -> (f64, f64) {
    let beyond = |value: f64, reference: f64| {
        let allowed =
            r.by.unwrap_or_else(|| r.ratio.unwrap_or(0.0) * reference.abs());
        (value - reference).abs() - allowed
    };
    let anywhere = (f64::NEG_INFINITY, f64::INFINITY);
    if value == anywhere || reference == anywhere {
        return anywhere;
    }
    let mut references = vec![reference.0, reference.1];
    if reference.0 < 0.0 && reference.1 > 0.0 {
        references.push(0.0);
    }
    let mut ends: Vec<f64> = references
        .iter()
        .flat_map(|reference| [value.0, value.1].map(|value| beyond(value, *reference)))
        .collect();
    let meeting = (value.0.max(reference.0), value.1.min(reference.1));
    if meeting.0 <= meeting.1 {
        ends.extend([meeting.0, meeting.1].map(|both| beyond(both, both)));
    }
    let least = ends.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ends.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (least, most)
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
    let spans = spans(view, &r.column)?;
    let above = rows_where(&spans, |(low, _)| low > r.reference);
    let below = rows_where(&spans, |(_, high)| high < r.reference);
    let on = rows_where(&spans, |(low, high)| low == high && low == r.reference);
    let sides = [&above, &below]
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
    let reaching = rows_where(&spans, |(low, high)| {
        low <= r.reference && r.reference <= high
    });
    if let Some(row) = reaching.first() {
        let what = r.reference.to_string();
        return Ok(open(view, &what, vec![*row], &[&r.column]));
    }
    let side = if below.is_empty() { "above" } else { "below" };
    let reason = format!("all {} rows lie {side} {}", values.len(), r.reference);
    Ok(Judgement::new(view, Truth::Yes, Vec::new(), reason))
}

/// The rows whose value, or interval, meets a condition.
fn rows_where<T: Copy>(values: &[Option<T>], is: impl Fn(T) -> bool) -> Vec<usize> {
    values
        .iter()
        .enumerate()
        .filter(|(_, v)| v.is_some_and(&is))
        .map(|(i, _)| i)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use artifacts::{Column, Digest, Table};
    use contract::INTERVAL_LEVEL;
    use pipeline::place::Coordinates;
    use serde_json::json;

    use super::super::rule::Rule;
    use super::super::tests_of_intervals::claimed;
    use super::*;
    use crate::trace::TraceSource;
    use crate::view::{Opened, Part};

    /// Judges the claim that the first of some rows has the largest value. A row without an interval has an exact value.
    fn first_is_largest(rows: &[(f64, Option<(f64, f64)>)]) -> Truth {
        let end = |end: fn((f64, f64)) -> f64| rows.iter().map(move |(_, ends)| ends.map(end));
        let columns = vec![
            Column::int("level", (1..).take(rows.len()).map(Some)),
            Column::float("x", rows.iter().map(|(x, _)| Some(*x))),
            Column::float("x_low", end(|ends| ends.0)),
            Column::float("x_high", end(|ends| ends.1)),
        ];
        let notes = [("keys", "level"), (INTERVAL_LEVEL, "0.99")];
        let part = Part {
            coordinates: Coordinates::default(),
            digest: Digest::of(b"ties"),
            content: Arc::new(Table::with_metadata(columns, &notes).unwrap()),
        };
        let table = Arc::new(Opened::new(TraceSource::Table, ("r", "d"), vec![part], &[]));
        let largest = json!({"largest": {"table": "r.d", "column": "x", "are": {"level": 1}}});
        let rule: Rule = serde_json::from_value(largest).unwrap();
        claimed(&rule, &table).truth
    }

    #[test]
    fn rows_with_equal_estimates_share_the_largest_value_only_if_they_have_no_intervals() {
        let wide = Some((4.0, 6.0));
        let point = Some((5.0, 5.0));
        for (rows, truth) in [
            // Equal estimates are no more decided than nearly equal ones.
            (vec![(5.0, wide), (4.99, wide)], Truth::Unknown),
            (vec![(5.0, wide), (5.0, wide)], Truth::Unknown),
            (vec![(5.0, None), (5.0, wide)], Truth::Unknown),
            (vec![(5.0, None), (5.0, None)], Truth::No),
            (vec![(5.0, point), (5.0, point)], Truth::No),
            (
                vec![(5.0, None), (5.0, None), (4.0, Some((3.0, 4.5)))],
                Truth::No,
            ),
            // A third row may have a larger value than both.
            (vec![(5.0, None), (5.0, None), (4.9, wide)], Truth::Unknown),
            (
                vec![(5.0, Some((4.8, 5.2))), (4.0, Some((3.0, 4.5)))],
                Truth::Yes,
            ),
        ] {
            assert_eq!(first_is_largest(&rows), truth, "{rows:?}");
        }
    }
}
