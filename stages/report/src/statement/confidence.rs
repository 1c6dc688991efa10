//! The level of the intervals beside the values of a table, and the level that a claim needs.
//!
//! An interval at level L leaves (1 − L) ÷ 2 beyond each of its ends. A claim that k such ends can license falsely therefore
//! needs k · (1 − L) ÷ 2 ≤ 5 %.

use artifacts::Table;
use pipeline::place::Condition;
use pipeline::stage::Json;

use super::judge::Look;
use crate::data::Miss;
use crate::view::View;

/// The share of studies in which a claim may be licensed falsely.
const ALPHA: f64 = 0.05;

/// The operators without a setting for the level of their intervals, and that level.
const FIXED: ([&str; 7], f64) = (
    [
        "breakdown",
        "cell-summary",
        "distribution",
        "latency-multipliers",
        "paired-deltas",
        "parallel-efficiency",
        "per-client-efficiency",
    ],
    0.95,
);

/// The operators whose intervals have the level of those that they read.
const INHERITED: [&str; 2] = ["cost", "mfu"];

/// The most tables through which a level is inherited.
const STEPS: usize = 16;

/// The column in which a table can state the level of its intervals itself.
const COLUMN: &str = "interval_level";

/// Opens a table for a claim: its values count with their intervals, and the view has the level of these.
///
/// # Errors
/// If the table, or one whose intervals it has, cannot be opened.
pub(super) fn claimed(look: Look<'_>, table: &str, condition: &Condition) -> Result<View, Miss> {
    let mut view = look(table, condition)?;
    view.share.intervals = true;
    view.share.level = stated(&view, look, STEPS)?;
    Ok(view)
}

/// Returns the least level that the tables of a view state for their intervals; `None` if one does not.
fn stated(view: &View, look: Look<'_>, steps: usize) -> Result<Option<f64>, Miss> {
    let mut least = Some(1.0);
    for part in &view.table.parts {
        let level = match stated_in(&part.content) {
            Stated::Level(level) => Some(level),
            Stated::Inherited(from) if steps > 0 => {
                let from = match from.contains('.') {
                    true => from,
                    false => format!("{}.{from}", view.table.stage),
                };
                match look(&from, &Condition::default()) {
                    Ok(source) => stated(&source, look, steps - 1)?,
                    Err(Miss::Unread) => return Err(Miss::Unread),
                    Err(Miss::Wrong(_)) => None,
                }
            }
            Stated::Inherited(_) | Stated::Nowhere => None,
        };
        least = least.zip(level).map(|(a, b)| f64::min(a, b));
    }
    Ok(least)
}

/// Where the level of the intervals of a table is stated.
#[derive(Debug, PartialEq)]
enum Stated {
    /// In the table.
    Level(f64),
    /// In the table of this name.
    Inherited(String),
    /// Nowhere.
    Nowhere,
}

fn stated_in(table: &Table) -> Stated {
    let parameters = table.metadata("parameters");
    let parameters = parameters.and_then(|text| serde_json::from_str::<Json>(&text).ok());
    let parameters = parameters.unwrap_or_default();
    let operator = table.metadata("operator").unwrap_or_default();
    if let Some(level) = parameters["confidence"].as_f64() {
        return Stated::Level(level);
    }
    if let Some(alpha) = parameters["alpha"].as_f64() {
        return Stated::Level(1.0 - alpha);
    }
    if FIXED.0.contains(&operator.as_str()) {
        return Stated::Level(FIXED.1);
    }
    match parameters["from"].as_str() {
        Some(from) if INHERITED.contains(&operator.as_str()) => Stated::Inherited(from.to_owned()),
        _ => Stated::Nowhere,
    }
}

/// Returns the level of the interval of a value: that of the row, if the table has a column for it. `one_sided` is whether its
/// ends are bounds, each of which holds at the level of the test.
pub(super) fn level(view: &View, index: usize, one_sided: bool) -> Option<f64> {
    let level = match view.table.at(view.rows[index], COLUMN) {
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
            "{chances} needs intervals at {needs}, and these have {}: set `confidence` in their operator to {} or more, or use \
             the rule `different` on a comparison",
            percent(level),
            decimals(needed(ends))
        ),
        None => format!(
            "{chances} needs intervals at {needs}, and their table does not state their level: use the table that the intervals \
             come from, or add a column `{COLUMN}`"
        ),
    })
}

/// States the level of the intervals of a view, unless it is the usual one.
pub(super) fn unusual(view: &View) -> Option<String> {
    let usual = |level: &f64| (level - FIXED.1).abs() > 1e-9;
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
