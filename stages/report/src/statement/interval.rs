//! Intervals behind the values that a claim compares.
//!
//! A claim that a value lies beyond a bound needs more than the value of one study: of two equal systems, either is
//! higher in half of the studies. Where its table has an interval of a value, the whole interval must lie there.

use contract::{NotReplicated, Verdict};
use statistics::Refusal;

use super::predicate::Predicate;
use crate::data::Miss;
use crate::view::View;

/// The interval of a value, as far as its table has one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ValueInterval {
    /// The table has none, or the units have no spread by definition: the value stands for itself.
    Exact,
    /// From the lower to the upper end.
    Between(f64, f64),
    /// It is withheld.
    Withheld,
}

/// The most alternatives among which the level of a 95 % interval can be divided: each of its ends leaves 2.5 %.
const MOST_ALTERNATIVES: usize = 2;

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
    stems.find(has).filter(|_| column != "rank")
}

/// Returns the columns with the ends of the intervals of the columns that a predicate compares with bounds.
pub(super) fn columns(view: &View, predicate: &Predicate) -> Vec<String> {
    let ends = predicate.bounded().into_iter();
    let ends = ends.filter_map(|column| around(view, column));
    ends.flat_map(|[low, high, _]| [low, high]).collect()
}

/// Explains why a claim about values that have intervals is open.
pub(super) fn words(view: &View, that: Option<&str>) -> Option<String> {
    let predicate = Predicate::parse(that?).ok()?;
    if !view.share.intervals || columns(view, &predicate).is_empty() {
        return None;
    }
    Some(match view.share.margin > MOST_ALTERNATIVES {
        true => {
            "a claim counts a value with its interval, and one of 95 % is too short for so many alternatives: \
             use the rule `different`"
        }
        false => "a claim counts a value with its whole interval",
    }
    .to_owned())
}

/// Returns the interval of a value of a row. Only claims take it into account.
///
/// # Errors
/// If a column cannot be read.
pub(super) fn interval(view: &View, index: usize, column: &str) -> Result<ValueInterval, Miss> {
    let Some([low, high, why]) = around(view, column).filter(|_| view.share.intervals) else {
        return Ok(ValueInterval::Exact);
    };
    let number = |column: &str| Ok::<_, Miss>(view.get(index, column)?.as_f64());
    match number(&low)?.zip(number(&high)?) {
        Some(_) if view.share.margin > MOST_ALTERNATIVES => Ok(ValueInterval::Withheld),
        Some(_) if is_undecidable(view, index, column)? => Ok(ValueInterval::Withheld),
        Some((low, high)) => Ok(ValueInterval::Between(low, high)),
        None if !view.table.has(std::slice::from_ref(&why)) => Ok(ValueInterval::Exact),
        None => Ok(match has_no_interval(&view.get(index, &why)?.to_string()) {
            true => ValueInterval::Exact,
            false => ValueInterval::Withheld,
        }),
    }
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
