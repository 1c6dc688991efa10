//! The level of the intervals beside the values of a table, and the level that a claim needs.
//!
//! An interval at level L leaves (1 − L) ÷ 2 beyond each of its ends. A claim that k such ends can license falsely therefore
//! needs k · (1 − L) ÷ 2 ≤ 5 %.

use contract::INTERVAL_LEVEL;
use pipeline::place::Condition;

use super::judge::Look;
use crate::data::Miss;
use crate::view::View;

/// The share of studies in which a claim may be licensed falsely.
const ALPHA: f64 = 0.05;

/// The usual level of intervals.
const USUAL: f64 = 0.95;

/// Opens a table for a claim: its values count with their intervals, and the view has the level of these.
///
/// # Errors
/// If the table cannot be opened.
pub(super) fn claimed(look: Look<'_>, table: &str, condition: &Condition) -> Result<View, Miss> {
    let mut view = look(table, condition)?;
    view.share.intervals = true;
    view.share.level = stated(&view);
    Ok(view)
}

/// Returns the least level that the tables of a view state for their intervals; `None` if one does not.
fn stated(view: &View) -> Option<f64> {
    let levels = view.table.parts.iter().map(|part| {
        let level = part.content.metadata(INTERVAL_LEVEL)?;
        level.parse::<f64>().ok()
    });
    levels.reduce(|a, b| Some(f64::min(a?, b?))).flatten()
}

/// Returns the level of the interval of a value: that of the row, if the table has a column for it. `one_sided` is whether its
/// ends are bounds, each of which holds at the level of the test.
pub(super) fn level(view: &View, index: usize, one_sided: bool) -> Option<f64> {
    let level = match view.table.at(view.rows[index], INTERVAL_LEVEL) {
        Ok(value) => value.as_f64(),
        Err(_) => view.share.level,
    };
    level.map(|level| match one_sided {
        true => 2.0 * level - 1.0,
        false => level,
    })
}

/// Returns the level that the intervals of a claim need if this many of their ends can license it falsely.
pub(super) fn needed(ends: usize) -> f64 {
    1.0 - 2.0 * ALPHA / ends.max(1) as f64
}

/// Whether intervals at a level are too short, or no level is stated.
pub(super) fn is_too_low(level: Option<f64>, ends: usize) -> bool {
    const ROUNDING: f64 = 1e-9;
    level.is_none_or(|level| level.is_nan() || level + ROUNDING < needed(ends))
}

/// Explains why the intervals of a view are too short for a claim, if they are.
pub(super) fn too_low(view: &View, one_sided: bool) -> Option<String> {
    let ends = view.share.values;
    let first = |level: &Option<f64>| is_too_low(*level, ends);
    let level = (0..view.rows.len())
        .map(|index| level(view, index, one_sided))
        .find(first)?;
    let needs = percent(needed(ends));
    let chances = match ends {
        0 | 1 => "a claim".to_owned(),
        n => format!("a claim that {n} ends of intervals could license"),
    };
    Some(match level {
        Some(level) => format!(
            "{chances} needs intervals at {needs}, and these have {}: raise `confidence`, or lower `alpha`, of the operator \
             that makes them so that their level is {needs}, or use the rule `different` on a comparison",
            percent(level)
        ),
        None => format!(
            "{chances} needs intervals at {needs}, and their table does not state their level: use the table that the intervals \
             come from, or add a column `{INTERVAL_LEVEL}`"
        ),
    })
}

/// States the level of the intervals of a view, unless it is the usual one.
pub(super) fn unusual(view: &View) -> Option<String> {
    let usual = |level: &f64| (level - USUAL).abs() > 1e-9;
    let levels = (0..view.rows.len()).filter_map(|index| level(view, index, false));
    let least = levels.reduce(f64::min).filter(usual)?;
    Some(format!("its intervals have the level {}", percent(least)))
}

fn percent(level: f64) -> String {
    format!("{} %", decimals(100.0 * level))
}

/// Writes a number with four decimals at most, rounded up.
fn decimals(value: f64) -> String {
    let up = (value * 1e4 - 1e-6).ceil() / 1e4;
    let text = format!("{up:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
