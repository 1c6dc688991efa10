//! Intervals behind the values that a claim compares.
//!
//! A claim that a value lies beyond a bound needs more than the value of one study: of two equal systems, either is
//! higher in half of the studies. Where its table has an interval of a value, the whole interval must lie there, and its level
//! must be high enough for the claim.

use artifacts::Scalar;
use contract::{NotReplicated, Verdict};
use statistics::Refusal;

use super::confidence;
use super::predicate::Predicate;
use super::rule::Rule;
use crate::data::Miss;
use crate::view::View;

/// The one-sided bounds of a comparison.
const BOUND: &str = "bound";

/// The interval of a value, as far as its table has one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ValueInterval {
    /// The table has none, or the units have no spread by definition: the value stands for itself.
    Exact,
    /// From the lower to the upper end. An end that is withheld is infinite.
    Between(f64, f64),
    /// It is withheld.
    Withheld,
}

impl ValueInterval {
    /// Returns the ends between which a value may lie; `None` if they are withheld, or if the value is not a number.
    pub(super) fn span(&self, value: Option<f64>) -> Option<(f64, f64)> {
        match self {
            Self::Exact => value.map(|value| (value, value)),
            Self::Between(low, high) => Some((*low, *high)),
            Self::Withheld => None,
        }
    }
}

/// The column of a cell's summary with the quantiles whose interval is withheld.
const REFUSED: &str = "intervals_refused";

/// Returns the columns with the ends of the interval of a column, and the one with the reason for withholding it.
fn around(view: &View, column: &str) -> Option<[String; 3]> {
    let named = |stem: &str, why: &str| {
        let ends = ["low", "high"].map(|end| format!("{stem}_{end}"));
        let [low, high] = ends;
        [low, high, why.to_owned()]
    };
    let own = |stem: &str| named(stem, &format!("{stem}_why"));
    let stems = [
        column
            .strip_suffix("_mean")
            .map(|stem| own(&format!("{stem}_ci"))),
        // A comparison names its method instead.
        (column == "effect").then(|| named("adjusted", "ci_method")),
        // A fitted parameter, over the curves of the units.
        (column == "value").then(|| own("unit")),
        // An efficiency is a speedup divided by a constant.
        (column == "parallel_efficiency").then(|| named(column, "speedup_why")),
        Some(own(column)),
    ];
    let has = |[low, high, _]: &[String; 3]| view.table.has(&[low.clone(), high.clone()]);
    // The smallest and the largest rank in a unit are no interval.
    let mut stems = stems.into_iter().flatten();
    let around = stems.find(has).filter(|_| column != "rank");
    around.map(|[low, high, why]| {
        // The quantiles of a cell have one column of reasons for all.
        let named = view.table.has(std::slice::from_ref(&why));
        [low, high, if named { why } else { REFUSED.to_owned() }]
    })
}

/// Returns the interval that a column is an end of, such as `x_ci` for `x_ci_low`.
fn ended(view: &View, column: &str) -> Option<String> {
    let stem = ["_low", "_high"]
        .iter()
        .find_map(|end| column.strip_suffix(end))?;
    let ends = ["low", "high"].map(|end| format!("{stem}_{end}"));
    (view.table.has(&ends) && stem != "rank").then(|| stem.to_owned())
}

/// Returns the name of the interval of a value, or that a column is an end of. Only claims take intervals into account.
pub(super) fn stem(view: &View, column: &str) -> Option<String> {
    if !view.share.intervals {
        return None;
    }
    let own = || {
        let [low, ..] = around(view, column)?;
        low.strip_suffix("_low").map(str::to_owned)
    };
    ended(view, column).or_else(own)
}

/// Whether a value has an interval, or is an end of one.
pub(super) fn has(view: &View, column: &str) -> bool {
    stem(view, column).is_some()
}

/// Whether a rule compares values with intervals.
///
/// # Errors
/// If its predicate cannot be read.
pub(super) fn counts(view: &View, rule: &Rule) -> Result<bool, Miss> {
    Ok(rule.compared()?.iter().any(|column| has(view, column)))
}

/// Returns the columns with the ends of the intervals of the columns that a predicate compares.
pub(super) fn columns(view: &View, predicate: &Predicate) -> Vec<String> {
    let ends = predicate.compared().into_iter();
    let ends = ends.filter_map(|column| around(view, column));
    let read = predicate.columns();
    ends.flat_map(|[low, high, _]| [low, high])
        .filter(|end| !read.contains(&end.as_str()))
        .collect()
}

/// Explains why a claim about values that have intervals is open.
///
/// # Errors
/// If the predicate of the rule cannot be read.
pub(super) fn words(view: &View, rule: &Rule) -> Result<Option<String>, Miss> {
    let compared = rule.compared()?;
    let stems = compared.iter().filter_map(|column| stem(view, column));
    let stems: Vec<String> = stems.collect();
    if stems.is_empty() {
        return Ok(None);
    }
    if let Some(column) = compared
        .iter()
        .find(|column| has_value_outside(view, column))
    {
        return Ok(Some(format!(
            "a value of `{column}` lies outside its own interval, so it shows nothing"
        )));
    }
    let withheld = compared
        .iter()
        .find_map(|column| end_withheld(view, column));
    let too_low = confidence::too_low(view, stems.iter().any(|stem| stem == BOUND));
    let whole = || {
        let predicated = rule.predicate().is_some();
        predicated.then(|| "a claim counts a value with its whole interval".to_owned())
    };
    let words: Vec<String> = too_low.or_else(whole).into_iter().chain(withheld).collect();
    Ok((!words.is_empty()).then(|| words.join("; ")))
}

/// Returns the interval of a value of a row. Only claims take it into account. An end of an interval stands for itself, unless
/// the interval is too short for the claim.
///
/// # Errors
/// If a column cannot be read.
pub(super) fn interval(view: &View, index: usize, column: &str) -> Result<ValueInterval, Miss> {
    let Some(stem) = stem(view, column) else {
        return Ok(ValueInterval::Exact);
    };
    let level = confidence::level(view, index, stem == BOUND);
    let too_low = confidence::is_too_low(level, view.share.values);
    if ended(view, column).is_some() {
        return Ok(match too_low {
            true => ValueInterval::Withheld,
            false => ValueInterval::Exact,
        });
    }
    let Some([low, high, why]) = around(view, column) else {
        return Ok(ValueInterval::Exact);
    };
    let number = |column: &str| Ok::<_, Miss>(view.get(index, column)?.as_f64());
    match (number(&low)?, number(&high)?) {
        (None, None) if !view.table.has(std::slice::from_ref(&why)) => Ok(ValueInterval::Exact),
        (None, None) => Ok(match view.get(index, &why)? {
            Scalar::Null if why == REFUSED => ValueInterval::Exact,
            reason if has_no_interval(&reason.to_string()) => ValueInterval::Exact,
            _ => ValueInterval::Withheld,
        }),
        _ if too_low => Ok(ValueInterval::Withheld),
        _ if is_undecidable(view, index, column)? => Ok(ValueInterval::Withheld),
        (low, high) => {
            let ends = (
                low.unwrap_or(f64::NEG_INFINITY),
                high.unwrap_or(f64::INFINITY),
            );
            Ok(
                match number(column)?.is_some_and(|value| is_outside(value, ends)) {
                    true => ValueInterval::Withheld,
                    false => ValueInterval::Between(ends.0, ends.1),
                },
            )
        }
    }
}

/// Whether a value lies outside an interval by more than rounding. Such an interval is of something else, so neither shows
/// anything.
fn is_outside(value: f64, (low, high): (f64, f64)) -> bool {
    const ROUNDING: f64 = 1e-9;
    let slack = ROUNDING * value.abs();
    value < low - slack || value > high + slack
}

/// Explains why a row of a view lacks one end of the interval of a column, if it does.
fn end_withheld(view: &View, column: &str) -> Option<String> {
    let [low, high, why] = around(view, column).filter(|_| ended(view, column).is_none())?;
    let is_null = |row: usize, end: &str| view.value(row, end) == Some(Scalar::Null);
    let row = (0..view.rows.len()).find(|row| is_null(*row, &low) != is_null(*row, &high))?;
    match view.value(row, &why)? {
        Scalar::Null => None,
        why => Some(format!(
            "an end of the interval of `{column}` is withheld: {why}"
        )),
    }
}

/// Whether a row of a view has a value of a column outside its own interval.
fn has_value_outside(view: &View, column: &str) -> bool {
    let Some([low, high, _]) = around(view, column).filter(|_| ended(view, column).is_none())
    else {
        return false;
    };
    let number = |row: usize, column: &str| view.value(row, column)?.as_f64();
    (0..view.rows.len()).any(|row| {
        let ends = (
            number(row, &low).unwrap_or(f64::NEG_INFINITY),
            number(row, &high).unwrap_or(f64::INFINITY),
        );
        number(row, column).is_some_and(|value| is_outside(value, ends))
    })
}

/// Returns the ends between which each value of a column may lie; `None` where the value is null. All rules that compare the
/// numbers of a column read them here.
///
/// # Errors
/// If the column has no numbers, or cannot be read.
pub(super) fn spans(view: &View, column: &str) -> Result<Vec<Option<(f64, f64)>>, Miss> {
    let (values, _) = super::values::numbers(view, column)?;
    let anywhere = (f64::NEG_INFINITY, f64::INFINITY);
    let span = |(row, value): (usize, &Option<f64>)| {
        let Some(value) = *value else { return Ok(None) };
        let span = interval(view, row, column)?.span(Some(value));
        Ok(Some(span.unwrap_or(anywhere)))
    };
    values.iter().enumerate().map(span).collect()
}

/// Whether the reason for a missing interval leaves the value as it is: the table was not meant to have any, or all units
/// have the same value.
fn has_no_interval(why: &str) -> bool {
    NotReplicated::read(why).is_some() || Refusal::says_no_spread(why)
}

/// Whether a comparison could not judge its effect, for example because its sides were measured under other conditions. Its
/// interval shows nothing then.
fn is_undecidable(view: &View, index: usize, column: &str) -> Result<bool, Miss> {
    if column != "effect" || !view.table.has(&["verdict".to_owned()]) {
        return Ok(false);
    }
    Ok(view.get(index, "verdict")?.to_string() == Verdict::Undecidable.word())
}
