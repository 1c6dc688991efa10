//! The units of replication of two studies: launches of the older and of the newer one.
//!
//! Two studies share no blocks, so a change is judged by the units of each side: Welch's t of the logarithms of their
//! values.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::{Scalar, Table};
use contract::NotReplicated;
use pipeline::Coordinates;
use pipeline::design::BLOCK;
use statistics::{
    LEAST_UNITS, UnitEffect, mean, rounding_of_logs, share_interval, student_critical,
    student_two_sided, unit_effect_rounded,
};

use crate::dependence::{Noted, counted};
use crate::gate::Lost;
use crate::requests::Requests;
use crate::tables::{keys, row_key};

/// Explains why nothing can be judged without units.
pub(crate) fn no_units() -> String {
    let reason = format!("the cells have no axis `{BLOCK}`, and no `--unit` is named");
    NotReplicated::Launches.because(reason)
}

/// The axes whose labels are units, and those that only repeat within them.
#[derive(Clone, Debug)]
pub(crate) struct Axes {
    pub(crate) units: Vec<String>,
    replicates: Vec<String>,
}

/// The values of a column at one coordinate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    /// The values by unit, averaged over its repetitions, or by row if there are no units.
    pub(crate) by_unit: BTreeMap<String, f64>,
}

impl Axes {
    /// Returns the named axes, or `block` if both tables have it.
    pub(crate) fn new(named: &[String], replicates: &[String], tables: [&Table; 2]) -> Self {
        let has = |axis: &String| tables.iter().all(|table| keys(table).contains(axis));
        let units = match named.is_empty() {
            true => vec![BLOCK.to_owned()],
            false => named.to_vec(),
        };
        Self {
            units: if units.iter().all(has) {
                units
            } else {
                Vec::new()
            },
            replicates: replicates.to_vec(),
        }
    }

    /// Returns the axes that give a row's coordinate.
    pub(crate) fn places(&self, table: &Table) -> Vec<String> {
        let within = |k: &String| !self.replicates.contains(k) && !self.units.contains(k);
        keys(table).into_iter().filter(within).collect()
    }

    /// Returns a column's values at each coordinate.
    pub(crate) fn values(&self, table: &Table, column: &str) -> BTreeMap<String, Values> {
        let (all, units) = (keys(table), &self.units);
        let places = self.places(table);
        let labels = if units.is_empty() { &all } else { units };
        let mut by_unit: BTreeMap<String, BTreeMap<String, Vec<f64>>> = BTreeMap::new();
        for (row, value) in table
            .float(column)
            .unwrap_or_default()
            .into_iter()
            .enumerate()
        {
            if let Some(value) = value.filter(|v| v.is_finite()) {
                let here = by_unit.entry(row_key(table, &places, row)).or_default();
                here.entry(row_key(table, labels, row))
                    .or_default()
                    .push(value);
            }
        }
        let averaged = |units: BTreeMap<String, Vec<f64>>| Values {
            by_unit: units
                .into_iter()
                .filter_map(|(unit, values)| Some((unit, mean(&values)?)))
                .collect(),
        };
        by_unit
            .into_iter()
            .map(|(at, units)| (at, averaged(units)))
            .collect()
    }
}

impl Axes {
    /// Returns the number of cells that one study planned at the other's coordinates, and how many of them have no
    /// value in a column. Launches and cells outside the plan are not lost.
    pub(crate) fn lost(
        &self,
        planned: &[BTreeSet<String>],
        values: &BTreeMap<String, Values>,
        other: &BTreeSet<String>,
    ) -> Lost {
        let parts = |text: &str| -> BTreeSet<String> {
            let at = text.parse::<Coordinates>().map_or(Vec::new(), |at| at.0);
            let part = |pair: (String, Scalar)| Coordinates(vec![pair]).to_string();
            at.into_iter().map(part).collect()
        };
        let axis = |part: &String| part.split_once('=').map(|(axis, _)| axis.to_owned());
        let is_unit = |part: &&String| axis(part).is_some_and(|a| self.units.contains(&a));
        let mut lost = Lost::default();
        for place in other {
            let at = parts(place);
            let valued: Vec<BTreeSet<String>> = values
                .get(place)
                .map_or(Vec::new(), |v| v.by_unit.keys().map(|u| parts(u)).collect());
            // Count repetitions of one unit only once.
            let units: BTreeSet<BTreeSet<String>> = planned
                .iter()
                .filter(|cell| at.is_subset(cell))
                .map(|cell| cell.iter().filter(is_unit).cloned().collect())
                .collect();
            lost.planned += units.len();
            lost.cells += units.iter().filter(|unit| !valued.contains(unit)).count();
        }
        lost
    }
}

/// The share of a study's units that may have other labels of a unit axis than those of the other study.
const UNLIKE: f64 = 0.15;

impl Axes {
    /// Explains that the units of two studies lie within labels of their own, such as launches on days of their own. The
    /// last unit axis numbers the units within the others. If each study has a single label, such as its own machine, the
    /// label belongs to the study.
    pub(crate) fn on_unlike_labels(
        &self,
        studies: [&BTreeMap<String, Values>; 2],
    ) -> Option<String> {
        let (_, around) = self.units.split_last()?;
        let units = studies.map(|values| {
            let units = values.values().flat_map(|values| values.by_unit.keys());
            units.collect::<BTreeSet<&String>>()
        });
        let unlike = |axis: &&String| {
            let labels = units.each_ref().map(|units| {
                let mut labels: BTreeMap<String, f64> = BTreeMap::new();
                for unit in units {
                    let at: Option<Coordinates> = unit.parse().ok();
                    let label = at.and_then(|at| at.get(axis).map(ToString::to_string));
                    *labels.entry(label.unwrap_or_default()).or_default() += 1.0;
                }
                labels
            });
            let several = labels.iter().flat_map(BTreeMap::values).any(|n| *n > 1.0);
            let single = labels.iter().all(|labels| labels.len() == 1);
            let share = |study: usize, label: &str| {
                labels[study].get(label).unwrap_or(&0.0) / units[study].len().max(1) as f64
            };
            let all: BTreeSet<&String> = labels.iter().flat_map(BTreeMap::keys).collect();
            let apart = all
                .iter()
                .map(|label| (share(0, label) - share(1, label)).abs());
            several && !single && apart.sum::<f64>() / 2.0 > UNLIKE
        };
        let axis = around.iter().find(unlike)?;
        Some(format!(
            "the units of the two studies have unlike shares of the labels of `{axis}`, so a difference between labels looks \
             like a change: name `--unit {axis}` alone"
        ))
    }
}

impl Values {
    pub(crate) fn n(&self) -> usize {
        self.by_unit.len()
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        mean(&self.by_unit.values().copied().collect::<Vec<_>>())
    }

    /// Returns the spread that rounding alone gives to the logarithm of one unit's value.
    pub(crate) fn rounding(&self) -> f64 {
        rounding_of_logs(&self.by_unit.values().copied().collect::<Vec<_>>())
    }

    /// Returns the logarithms of the units' values; `None` if a value has none.
    pub(crate) fn logs(&self) -> Option<BTreeMap<&str, f64>> {
        let log = |value: f64| (value > 0.0).then(|| value.ln());
        self.by_unit
            .iter()
            .map(|(unit, value)| Some((unit.as_str(), log(*value)?)))
            .collect()
    }
}

/// Explains why values of a column cannot be compared: `diff` compares ratios.
pub(crate) fn without_ratio(column: &str, values: &[f64]) -> String {
    contract::without_ratio(column, values, "`diff` compares ratios only")
}

/// The logarithms of one side's units, with their labels, and the spread that rounding alone gives to one of them.
pub(crate) struct Logs {
    pub(crate) labels: Vec<String>,
    pub(crate) units: Vec<f64>,
    pub(crate) rounding: f64,
    /// The requests behind the units, if their values are shares of them.
    pub(crate) requests: Option<Requests>,
}

/// Returns the log ratio of the newer over the older units, with a note if they resemble each other, or the reason why there
/// is none.
pub(crate) fn effect(older: &Logs, newer: &Logs) -> Result<Noted, String> {
    let side = |name: &str, logs: &Logs| {
        let effect =
            of_requests(logs).map_or_else(|| unit_effect_rounded(&logs.units, logs.rounding), Ok);
        effect.map_err(|refusal| format!("the {name} study: {refusal}"))
    };
    let effects = (side("newer", newer)?, side("older", older)?);
    counted([older, newer], [&effects.1, &effects.0])
}

/// The level of each end of the interval of a share that is the same in all units.
const TAIL: f64 = 0.05;

/// Returns the effect of units that all have the same share of answered requests, such as all of them. Launches then show no
/// spread, but the number of requests limits how many others could fail (Clopper & Pearson). The standard error is such that
/// the lower bound is theirs. `None` if the units differ, or are too few, or no request was answered.
fn of_requests(logs: &Logs) -> Option<UnitEffect> {
    let n = logs.units.len();
    let Requests { all, answered } = logs.requests?;
    if n < LEAST_UNITS || answered < 1.0 {
        return None;
    }
    let mean = *logs.units.first()?;
    let same = logs.units.iter().all(|log| (log - mean).abs() < 1e-9);
    if !same {
        return None;
    }
    let low = share_interval(answered as u64, all as u64, 1.0 - 2.0 * TAIL).low;
    let df = (n - 1) as f64;
    let error = ((answered / all).ln() - low.ln()) / student_critical(TAIL, df);
    let t = mean / error;
    Some(UnitEffect {
        n,
        mean,
        sd: error * (n as f64).sqrt(),
        error,
        df,
        t,
        p: student_two_sided(t, df),
        sign_flip_p: None,
    })
}
