//! `warm-up`: is the beginning of the measurement slower than the rest?

use pipeline::Problem;
use rayon::prelude::*;
use rows::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Continuity, Sample, mann_whitney_u, van_elteren};

use crate::finding::{Judgement, Severity};
use crate::gate::{TypedGate, Verdict, percent, share_problems, show};
use crate::series::{CellTest, Latency, median, settle};
use crate::study::Stage;

pub(crate) struct WarmUp;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The latency looked at.
    #[serde(default = "Latency::e2e")]
    metric: Latency,
    /// The share of a cell's waves that counts as its start.
    #[serde(default = "quarter")]
    start: f64,
    /// The chance of any false alarm in a load stage: half for the cells one by one, half for
    /// all of them together.
    #[serde(default = "percent_one")]
    alpha: f64,
    /// By what share of the later median the start must be slower to matter.
    #[serde(default = "fifth")]
    effect: f64,
}

fn quarter() -> f64 {
    0.25
}

fn percent_one() -> f64 {
    0.01
}

fn fifth() -> f64 {
    0.2
}

/// From how many cells on the normal approximation over all of them is trusted.
const POOLED_FROM: usize = 5;

impl TypedGate for WarmUp {
    type Parameters = Parameters;
    const NAME: &'static str = "warm-up";
    const SUMMARY: &'static str = "The first waves of a cell are not slower than the later ones: enough requests were \
                                   sent to warm up. A wave is as many consecutive requests as are in flight on \
                                   average; its median is one value, since requests in flight together are not \
                                   independent. One-sided Mann–Whitney test of each cell, Holm-adjusted over the cells \
                                   that have waves enough to tell (Tarone's family), and van Elteren's test over all \
                                   cells together.";
    const SEVERITY: Severity = Severity::Warn;

    fn check(&self, parameters: &Parameters, settings: &Settings<'_>) -> Vec<Problem> {
        share_problems(
            settings,
            &[("start", parameters.start), ("alpha", parameters.alpha)],
        )
    }

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let expected = format!(
            "{} not more than {} slower at the start",
            parameters.metric.name(),
            percent(parameters.effect)
        );
        let split = |rows| {
            let waves = parameters.metric.waves(rows);
            let start = ((waves.len() as f64 * parameters.start).ceil() as usize).min(waves.len());
            let later = waves[start..].to_vec();
            (waves[..start].to_vec(), later)
        };
        let cells: Vec<_> = stage
            .cells
            .par_iter()
            .enumerate()
            .filter_map(|(i, cell)| Some((i, split(cell.rows.as_ref()?))))
            .collect();
        let (mut tests, mut found, mut strata, mut changes) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (cell, (start, later)) in cells {
            let Some((change, test)) = test(cell, &start, &later, parameters) else {
                let observed = format!(
                    "{} waves are too few to have a start",
                    start.len() + later.len()
                );
                found.push(Verdict::none(observed, &expected).of_cell(cell));
                continue;
            };
            changes.push(change);
            tests.push(test);
            strata.push((start, later));
        }
        found.extend(settle(tests, parameters.alpha / 2.0, &expected));
        found.sort_by_key(|j| j.cell);
        let together = van_elteren(&strata).filter(|all| all.strata >= POOLED_FROM);
        let verdict = match (together, median(&changes)) {
            (Some(all), Some(change)) => {
                let p = if all.z > 0.0 {
                    all.p / 2.0
                } else {
                    1.0 - all.p / 2.0
                };
                let observed = format!(
                    "{} at the start, median of {} cells; p {}",
                    percent(change),
                    all.strata,
                    show(p)
                );
                Verdict::new(
                    !(p <= parameters.alpha / 2.0 && change > parameters.effect),
                    observed,
                    &expected,
                )
            }
            _ => Verdict::none(
                format!("fewer than {POOLED_FROM} cells to look at together"),
                &expected,
            ),
        };
        found.push(verdict.of_stage());
        found
    }
}

/// Tests one cell; `None` if it has no start, fewer than two later waves, or no spread.
fn test(
    cell: usize,
    start: &[f64],
    later: &[f64],
    parameters: &Parameters,
) -> Option<(f64, CellTest)> {
    if later.len() < 2 {
        return None;
    }
    let (a, b) = (
        Sample::new(start.iter().copied()).ok()?,
        Sample::new(later.iter().copied()).ok()?,
    );
    let test = mann_whitney_u(&a, &b, Continuity::Corrected)?;
    let change = a.median() / b.median() - 1.0;
    let slower = test.u > (a.len() * b.len()) as f64 / 2.0;
    let observed = format!(
        "first {} of {} waves {} ms, later {} ms ({})",
        a.len(),
        a.len() + b.len(),
        show(a.median()),
        show(b.median()),
        percent(change)
    );
    let p = if slower { test.p / 2.0 } else { 1.0 };
    let least = 1.0 / arrangements(a.len(), b.len());
    Some((
        change,
        CellTest {
            cell,
            p,
            least,
            matters: change > parameters.effect,
            observed,
        },
    ))
}

/// Returns the number of ways to choose n of n + m.
fn arrangements(n: usize, m: usize) -> f64 {
    (1..=n).map(|i| (m + i) as f64 / i as f64).product()
}
