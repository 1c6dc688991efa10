//! The gate against regressions: each column over all coordinates, by units of replication.

use std::collections::{BTreeMap, BTreeSet};

use contract::Better;
use serde::Serialize;
use statistics::{RegressionGate, UnitEffect, holm, log_margin, mean, permutation_tails_welch};

use crate::dependence::Noted;
use crate::hints;
use crate::requests::Requests;
use crate::results::{Rule, direction};
use crate::surroundings::Unlike;
use crate::units::{Logs, Values, effect, no_units, without_ratio};

/// The power of the smallest detectable worsening.
const POWER: f64 = 0.8;

/// The normal quantile of the power. With that chance, an estimate is less than this many standard errors below the
/// truth.
const Z_OF_POWER: f64 = 0.841_621;

/// The outcome of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The worsening is shown to be below the threshold.
    Pass,
    /// There is a worsening, and its estimate exceeds the threshold.
    Fail,
    /// The units do not decide.
    Undecidable,
}

impl Outcome {
    /// Returns the outcome in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Undecidable => "undecidable",
        }
    }
}

/// One column, judged over all coordinates that both studies have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GateResult {
    /// The table of cells.
    pub table: String,
    /// The column.
    pub column: String,
    /// The direction that is better; `None` if it is unknown.
    #[serde(serialize_with = "direction")]
    pub better: Option<Better>,
    /// The number of coordinates taken together.
    pub coordinates: usize,
    /// The number of units of the older study.
    pub n_a: usize,
    /// The number of units of the newer study.
    pub n_b: usize,
    /// The worsening as a share: 0.1 is a tenth longer, or a tenth less of a rate. `None` if it cannot be judged.
    pub worsening: Option<f64>,
    /// Its one-sided lower bound.
    pub low: Option<f64>,
    /// Its one-sided upper bound.
    pub high: Option<f64>,
    /// The p value of "no worsening".
    pub p: Option<f64>,
    /// The same after Holm's correction over the columns.
    pub holm_p: Option<f64>,
    /// The smallest worsening that this many units with this spread find in 80 % of gates. It accounts for the number
    /// of tested columns and lies above the threshold.
    pub smallest_detectable: Option<f64>,
    /// If the studies have unlike numbers of units: the p value, from exchanging labels, of a worsening of the threshold or
    /// more.
    #[serde(skip)]
    pub exchanged: Option<f64>,
    /// The outcome for the column.
    pub outcome: Outcome,
    /// The reason why it is undecidable or passes without a test, or how units that resemble each other were judged.
    pub reason: Option<String>,
    /// What helps if it is undecidable.
    #[serde(skip)]
    pub hint: Option<&'static str>,
}

impl GateResult {
    /// Adds a reason after the note on dependent units, with what helps.
    fn refused(&mut self, reason: &str, hint: &'static str) {
        self.because(reason);
        self.hint = Some(hint);
    }

    /// Adds a reason after the note on dependent units.
    fn because(&mut self, reason: &str) {
        self.reason = Some(match self.reason.take() {
            Some(note) => format!("{note}; {reason}"),
            None => reason.to_owned(),
        });
    }
}

/// The reason why byte-identical tables pass: there is only one measurement, so there is nothing to compare.
const SAME: &str = "both studies hold the same measurements";

/// The values of one column at every coordinate that both studies have.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) table: String,
    pub(crate) name: String,
    pub(crate) better: Option<Better>,
    pub(crate) replicated: bool,
    /// Whether the tables of both studies are byte-identical.
    pub(crate) same: bool,
    /// Why the values of the two studies cannot be compared.
    pub(crate) unlike: Option<Unlike>,
    /// The older and the newer study's values.
    pub(crate) at: Vec<[Values; 2]>,
    /// The planned cells of each study at coordinates of the other, and how many of them lack a value here.
    pub(crate) lost: [Lost; 2],
    /// Whether `--column` names it, so that it has a line of the gate whatever its values.
    pub(crate) named: bool,
    /// Why there is nothing to compare; `None` if there are values.
    pub(crate) empty: Option<String>,
    /// That the newer study lost more of its requests, which the column does not count.
    pub(crate) flattered: Option<String>,
    /// What holds for all changes of the table.
    pub(crate) note: Option<String>,
    /// The requests of each study, if the column is the share of answered ones.
    pub(crate) requests: Option<[Requests; 2]>,
    /// Why the column has no better direction in these studies; `None` if its name decides.
    pub(crate) undirected: Option<&'static str>,
}

/// The planned cells of a study without a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) cells: usize,
    pub(crate) planned: usize,
}

impl Lost {
    fn share(self) -> f64 {
        self.cells as f64 / self.planned.max(1) as f64
    }
}

/// Judges the columns and states the smallest worsening that each would find.
pub(crate) fn judge(columns: &[Column], rule: &Rule) -> Vec<GateResult> {
    let shown = |c: &&Column| c.named || c.better.is_some();
    let columns: Vec<&Column> = columns.iter().filter(shown).collect();
    let (mut results, worsenings): (Vec<_>, Vec<_>) =
        columns.iter().map(|column| one(column, rule)).unzip();
    decide(&mut results, &columns, rule);
    let tested = results.iter().filter(|r| r.p.is_some()).count().max(1);
    for ((result, worsening), column) in results.iter_mut().zip(worsenings).zip(columns) {
        let Some(worsening) = worsening else {
            continue;
        };
        // One-sided: the two-sided test at twice the level, in the first step of Holm's procedure.
        let smallest = worsening.smallest_detectable(2.0 * rule.alpha / tested as f64, POWER);
        // The estimate must also exceed the allowed worsening.
        let exceeds = margin(column.better, rule.threshold) + Z_OF_POWER * worsening.error;
        let detectable = Some(smallest.max(exceeds)).filter(|d| d.is_finite());
        result.smallest_detectable = detectable.map(|log| share(column.better, log));
        if let Some(note) = &column.note {
            result.because(note);
        }
    }
    results
}

/// Returns how much worse a column is as a share, given the logarithm of the ratio in the worse direction: of a time, how much
/// longer it is, and of a rate, how much of it is missing.
fn share(better: Option<Better>, log: f64) -> f64 {
    match better {
        Some(Better::Higher) => -(-log).exp_m1(),
        _ => log.exp_m1(),
    }
}

/// The logarithm of a fall that leaves nothing, as far as numbers go.
const WHOLE: f64 = 700.0;

/// Returns an allowed worsening on the same scale of logarithms. A rate cannot fall by more than the whole of it.
fn margin(better: Option<Better>, threshold: f64) -> f64 {
    match better {
        Some(Better::Higher) => (-(-threshold.min(1.0)).ln_1p()).min(WHOLE),
        _ => log_margin(threshold),
    }
}

/// Decides on the tested columns as one family, one-sided.
fn decide(results: &mut [GateResult], columns: &[&Column], rule: &Rule) {
    let tested: Vec<usize> = (0..results.len())
        .filter(|i| results[*i].p.is_some())
        .collect();
    let raw: Vec<f64> = tested.iter().filter_map(|i| results[*i].p).collect();
    for (i, p) in tested.into_iter().zip(holm(&raw)) {
        let (result, [older, newer]) = (&mut results[i], columns[i].lost);
        result.holm_p = Some(p);
        let estimate = result.worsening.unwrap_or(f64::NAN);
        let high = result.high.unwrap_or(f64::INFINITY);
        if p <= rule.alpha && estimate > rule.threshold {
            result.outcome = Outcome::Fail;
        } else if high < rule.threshold && newer.share() > older.share() {
            let reason = format!(
                "the newer study has no value of {} of its {} cells there, the older of {} of {}: the missing cells \
                 may have been slow, so the column cannot pass",
                newer.cells, newer.planned, older.cells, older.planned
            );
            result.refused(&reason, hints::CELLS);
        } else if let Some(flattered) =
            (columns[i].flattered.as_ref()).filter(|_| high < rule.threshold)
        {
            let reason = format!("{flattered}, so the column cannot pass");
            result.refused(&reason, hints::REQUESTS);
        } else if high < rule.threshold && result.exchanged.is_some_and(|p| p > rule.alpha) {
            let [n_a, n_b] = [result.n_a, result.n_b];
            let exchanged = result.exchanged.unwrap_or(1.0);
            let reason = format!(
                "with {} against {} units, a t test finds too much if launches are skewed, and the permutation p of a \
                 worsening of {:.1} % is {:.3}: measure similar numbers of units",
                n_a,
                n_b,
                100.0 * rule.threshold,
                exchanged
            );
            result.refused(&reason, hints::SIMILAR);
        } else if high < rule.threshold {
            result.outcome = Outcome::Pass;
        } else {
            let reason = format!(
                "the column may have worsened by up to {:.1} %, and only {:.1} % is allowed",
                100.0 * high,
                100.0 * rule.threshold
            );
            result.refused(&reason, hints::MORE);
        }
    }
}

/// Returns the joint outcome of the columns. One failure fails; without any judged column, nothing passes.
pub(crate) fn outcome(results: &[GateResult]) -> Outcome {
    let any = |outcome: Outcome| results.iter().any(|r| r.outcome == outcome);
    if any(Outcome::Fail) {
        Outcome::Fail
    } else if results.is_empty() || any(Outcome::Undecidable) {
        Outcome::Undecidable
    } else {
        Outcome::Pass
    }
}

/// Why a column cannot be judged, and what helps.
type Refused = (String, Option<&'static str>);

/// Returns the log ratio of the newer over the older units, or the reason why it cannot be judged. `logs` has the units of the
/// column; `None` if a value has no logarithm.
fn effect_of(column: &Column, logs: Option<&[Logs; 2]>) -> Result<Noted, Refused> {
    if let Some(empty) = &column.empty {
        return Err((empty.clone(), Some(hints::VALUES)));
    }
    if let Some(reason) = column.undirected {
        return Err((reason.to_owned(), None));
    }
    if column.better.is_none() {
        let reason = "no better direction is known, so nothing is a worsening";
        return Err((reason.to_owned(), Some(hints::DIRECTION)));
    }
    if !column.replicated {
        return Err((no_units(), Some(hints::UNITS)));
    }
    if let Some(unlike) = &column.unlike {
        return Err((unlike.reason().to_owned(), hints::of_unlike(unlike)));
    }
    if column.at.is_empty() {
        return Err(nowhere(column));
    }
    let Some([older, newer]) = logs else {
        let sides = column.at.iter().flatten();
        let values: Vec<f64> = sides
            .flat_map(|side| side.by_unit.values().copied())
            .collect();
        return Err((without_ratio(&column.name, &values), None));
    };
    if column.at.iter().any(|sides| column.is_shared(sides)) {
        let hint = hints::of_units(older.units.len().min(newer.units.len()));
        return effect(older, newer).map_err(|reason| (reason, hint));
    }
    let reason = "no coordinate was measured in at least half of the units of each study, so differences between coordinates \
                  cannot be told from those between units";
    Err((reason.to_owned(), None))
}

/// Explains that the studies have values at no common coordinate. If a study lost every cell there, that is the reason.
fn nowhere(column: &Column) -> Refused {
    let reason = "the two studies have values of it at no common coordinate";
    let mut lost = ["older", "newer"].into_iter().zip(column.lost);
    let all = lost.find(|(_, lost)| lost.planned > 0 && lost.cells == lost.planned);
    match all {
        Some((study, lost)) => {
            let planned = lost.planned;
            let reason = format!(
                "{reason}: the {study} study has no value in any of its {planned} cells there"
            );
            (reason, Some(hints::CELLS))
        }
        None => (reason.to_owned(), Some(hints::COORDINATES)),
    }
}

impl Column {
    /// Returns whether at least half of the units of each side have a value at a coordinate. Each value is taken
    /// relative to the mean of its coordinate; if few units share that mean, it hides their differences.
    fn is_shared(&self, sides: &[Values; 2]) -> bool {
        (0..2).all(|side| {
            let all = self.at.iter().flat_map(|at| at[side].by_unit.keys());
            let units = all.collect::<BTreeSet<_>>().len();
            let here = sides[side].by_unit.len();
            here > 0 && 2 * here >= units
        })
    }
}

/// The number of random assignments of units to studies of unlike sizes, and their seed.
const ASSIGNMENTS: usize = 1_999;
const SEED: u64 = 1;

/// Returns the p values, from exchanging the labels of units, of "no worsening" and of "a worsening of the threshold or
/// more"; `None` if the numbers of units are alike. Welch's t finds too much if few skewed launches are compared with many.
fn exchanged([older, newer]: &[Logs; 2], better: Option<Better>, rule: &Rule) -> Option<[f64; 2]> {
    let (a, b) = (older.units.len(), newer.units.len());
    let (few, many) = (a.min(b), a.max(b));
    // With three against five, the smallest p of an exchange leaves nothing to find among several columns.
    let unlike = many >= 2 * few || (few > 3 && 2 * many >= 3 * few);
    if !unlike {
        return None;
    }
    let sign = match better {
        Some(Better::Higher) => -1.0,
        _ => 1.0,
    };
    let worse = |units: &[f64], by: f64| units.iter().map(|v| sign * v - by).collect::<Vec<f64>>();
    let tails = |by: f64| {
        let (newer, older) = (worse(&newer.units, by), worse(&older.units, 0.0));
        permutation_tails_welch(&newer, &older, ASSIGNMENTS, SEED)
    };
    let ([_, none], [allowed, _]) = tails(0.0).zip(tails(margin(better, rule.threshold)))?;
    Some([none, allowed])
}

/// Returns the result of one column by itself, and the logarithm of its worsening; `None` if nothing was tested.
fn one(column: &Column, rule: &Rule) -> (GateResult, Option<UnitEffect>) {
    let logs = units(column);
    let n = |side: usize| logs.as_ref().map_or(0, |logs| logs[side].units.len());
    let mut result = GateResult {
        table: column.table.clone(),
        column: column.name.clone(),
        better: column.better,
        coordinates: column.at.iter().filter(|s| column.is_shared(s)).count(),
        n_a: if column.replicated { n(0) } else { 0 },
        n_b: if column.replicated { n(1) } else { 0 },
        worsening: None,
        low: None,
        high: None,
        p: None,
        holm_p: None,
        smallest_detectable: None,
        exchanged: None,
        outcome: Outcome::Undecidable,
        reason: None,
        hint: None,
    };
    if column.same && column.empty.is_none() {
        result = GateResult {
            worsening: Some(0.0),
            outcome: Outcome::Pass,
            reason: Some(SAME.to_owned()),
            ..result
        };
        return (result, None);
    }
    let (effect, note) = match effect_of(column, logs.as_ref()) {
        Ok(noted) => noted,
        Err((reason, hint)) => {
            (result.reason, result.hint) = (Some(reason), hint);
            return (result, None);
        }
    };
    result.reason = note;
    let exchanged = logs.and_then(|logs| exchanged(&logs, column.better, rule));
    let worsening = match column.better {
        Some(Better::Higher) => effect.negated(),
        _ => effect,
    };
    let regression = worsening.regression(&RegressionGate {
        allowed: margin(column.better, rule.threshold),
        fails_above: 0.0,
        alpha: rule.alpha,
    });
    result.worsening = Some(share(column.better, worsening.mean));
    result.low = Some(share(column.better, regression.worsening.low));
    result.high = Some(share(column.better, regression.worsening.high));
    result.p = Some(match exchanged {
        Some([worse, _]) => regression.p_worse.max(worse),
        None => regression.p_worse,
    });
    result.exchanged = exchanged.map(|[_, allowed]| allowed);
    (result, Some(worsening))
}

/// Returns one value per unit of each side: the mean of its logarithms over the coordinates that most units have. Each
/// logarithm is taken relative to the mean of its coordinate, so that a unit with a missing coordinate is not shifted.
/// `None` if a value has no logarithm.
fn units(column: &Column) -> Option<[Logs; 2]> {
    let shared: Vec<&[Values; 2]> = column.at.iter().filter(|s| column.is_shared(s)).collect();
    let mut apart: [BTreeMap<&str, Vec<f64>>; 2] = Default::default();
    let mut centres = Vec::new();
    for sides in &shared {
        let logs = [sides[0].logs()?, sides[1].logs()?];
        let centre = |logs: &BTreeMap<&str, f64>| mean(&logs.values().copied().collect::<Vec<_>>());
        let base = f64::midpoint(centre(&logs[0])?, centre(&logs[1])?);
        centres.push(base);
        for (apart, logs) in apart.iter_mut().zip(logs) {
            for (unit, log) in logs {
                apart.entry(unit).or_default().push(log - base);
            }
        }
    }
    let all = mean(&centres).unwrap_or(0.0);
    // The rounding of a mean over coordinates.
    let rounding = [0, 1].map(|side| {
        let variance = shared.iter().map(|sides| sides[side].rounding().powi(2));
        variance.sum::<f64>().sqrt() / shared.len().max(1) as f64
    });
    let side = |units: BTreeMap<&str, Vec<f64>>, study: usize| {
        let values = units.values().map(|values| Some(all + mean(values)?));
        Some(Logs {
            labels: units.keys().map(|label| (*label).to_owned()).collect(),
            units: values.collect::<Option<_>>()?,
            rounding: rounding[study],
            requests: column.requests.map(|requests| requests[study]),
        })
    };
    let [older, newer] = apart;
    Some([side(older, 0)?, side(newer, 1)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::operating::{Pair, pairs};

    /// Returns a latency at four coordinates in `blocks` launches per side; the newer side is slower by a factor.
    fn study(number: u64, blocks: usize, factor: f64, launch: f64) -> Column {
        let pair = Pair {
            units: [blocks; 2],
            launch: [launch; 2],
            ..pairs()[0]
        };
        pair.drawn(number, factor).remove(0)
    }

    #[test]
    fn few_units_or_none_are_undecidable_with_a_reason() {
        let rule = Rule::default();
        let two = study(1, 2, 3.0, 0.01);
        let verdict = &judge(std::slice::from_ref(&two), &rule)[0];
        assert_eq!(verdict.outcome, Outcome::Undecidable);
        assert_eq!(
            verdict.reason.as_deref(),
            Some("the newer study: 2 units, and at least 3 are needed")
        );
        let unreplicated = Column {
            replicated: false,
            ..study(2, 5, 3.0, 0.01)
        };
        let verdict = &judge(&[unreplicated], &rule)[0];
        assert_eq!(
            (verdict.outcome, verdict.reason.clone()),
            (Outcome::Undecidable, Some(no_units()))
        );
        assert_eq!(outcome(&[]), Outcome::Undecidable);
    }

    #[test]
    fn the_same_measurements_pass_however_noisy_they_are() {
        let mut noisy = Column {
            same: true,
            ..study(3, 5, 1.0, 0.5)
        };
        for sides in &mut noisy.at {
            sides[1] = sides[0].clone();
        }
        let verdict = &judge(std::slice::from_ref(&noisy), &Rule::default())[0];
        assert_eq!(
            (
                verdict.outcome,
                verdict.worsening,
                verdict.reason.as_deref()
            ),
            (Outcome::Pass, Some(0.0), Some(SAME))
        );
        // Equal values with different bytes are two measurements, and noise hides a worsening.
        let other = Column {
            same: false,
            ..noisy
        };
        assert_eq!(
            judge(&[other], &Rule::default())[0].outcome,
            Outcome::Undecidable
        );
    }

    /// Returns the share of 300 gates in which a column fails that is worse by the stated smallest detectable
    /// worsening, beside columns that are not worse.
    fn found_at_the_stated(columns: usize, threshold: f64) -> f64 {
        let mut number = 1_000 * columns as u64;
        let rule = Rule {
            threshold,
            ..Rule::default()
        };
        let mut gate = |factor: f64| {
            let others = (1..columns).map(|_| 1.0);
            let studies: Vec<Column> = std::iter::once(factor)
                .chain(others)
                .map(|factor| {
                    number += 1;
                    study(number, 5, factor, 0.03)
                })
                .collect();
            judge(&studies, &rule).swap_remove(0)
        };
        let stated: Vec<f64> = (0..300)
            .filter_map(|_| gate(1.0).smallest_detectable)
            .collect();
        let stated = stated.iter().sum::<f64>() / stated.len() as f64;
        let failed = (0..300).filter(|_| gate(1.0 + stated).outcome == Outcome::Fail);
        failed.count() as f64 / 300.0
    }

    #[test]
    fn the_smallest_worsening_stated_is_found_in_four_of_five_gates() {
        // Four standard errors of 300 gates are 9 points. A mean of estimates from five units per side states slightly
        // less than the truth.
        for (columns, threshold) in [(1, 0.0), (1, 0.05), (4, 0.05), (4, 0.1)] {
            let share = found_at_the_stated(columns, threshold);
            assert!(
                (0.68..0.9).contains(&share),
                "{columns}, {threshold}: {share}"
            );
        }
    }

    #[test]
    fn a_column_states_the_smallest_worsening_it_finds() {
        let verdict = &judge(&[study(7, 5, 1.0, 0.03)], &Rule::default())[0];
        let detectable = verdict.smallest_detectable.unwrap();
        assert!(detectable > 0.01 && detectable < 0.2, "{detectable}");
        assert_eq!((verdict.n_a, verdict.n_b, verdict.coordinates), (5, 5, 4));
    }
}
