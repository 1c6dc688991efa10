//! `warm-up`: is the beginning of a measurement slower than the rest?

use contract::Settings;
use pipeline::Problem;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Continuity, Sample, mann_whitney_u, van_elteren};

use super::stationarity::lag;
use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, percent, share_problems, show};
use crate::series::{CellTest, Latency, Series, median, settle};
use crate::study::Stage;

pub(crate) struct WarmUp;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The latency to test.
    #[serde(default = "Latency::e2e")]
    metric: Latency,
    /// The share of a cell's waves that counts as its beginning.
    #[serde(default = "quarter")]
    start: f64,
    /// The probability of any false alarm per load stage: one half for single cells, one half for
    /// all cells together.
    #[serde(default = "percent_one")]
    alpha: f64,
    /// The beginning matters if it is slower by at least this share of the later median.
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

/// The number of cells from which the normal approximation over all of them is used.
const POOLED_FROM: usize = 5;

impl TypedGate for WarmUp {
    type Parameters = Parameters;
    const NAME: &'static str = "warm-up";
    const SUMMARY: &'static str = "\
        The beginning of a cell is not slower than the rest: the warm-up was long enough.\n\n\
        In a closed loop, the gate divides a cell into waves. A wave is as many consecutive requests as are in flight \
        on average. The median of a wave is one value, because requests in flight together are not independent. Under \
        open arrivals, latency is mostly queueing, so the gate uses the server's pace instead: the time per token of \
        batches of answers, corrected by a straight line for the number of answers generated at the same time.\n\n\
        Each cell has a one-sided Mann–Whitney test, Holm-adjusted over the cells that have enough values to decide \
        (Tarone's family). Van Elteren's test covers all cells together.\n\n\
        Values may resemble the one before, and a slow beginning is then often chance. The gate estimates the correlation \
        of neighbours among at least 20 later values. If it is 1.3 standard errors above 0, the variance of the tests grows as for \
        a first-order autoregression. In simulations of four cells of 60 values, a correlation of 0.8 gives 0.3 % of \
        studies a false alarm instead of 20 %.";
    const SEVERITY: Severity = Severity::Warn;

    fn check(&self, parameters: &Parameters, settings: &Settings<'_>) -> Vec<Problem> {
        share_problems(
            settings,
            &[("start", parameters.start), ("alpha", parameters.alpha)],
        )
    }

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let expected = format!(
            "{} (under open arrivals the time per token) at most {} slower at the start",
            parameters.metric.name(),
            percent(parameters.effect).trim_start_matches('+')
        );
        let split = |rows: &contract::CellRows| {
            let mut series = parameters.metric.since_the_start(rows);
            let n = series.values.len();
            let start = ((n as f64 * parameters.start).ceil() as usize).min(n);
            let later = series.values.split_off(start);
            (series, later)
        };
        let cells: Vec<_> = stage
            .cells
            .par_iter()
            .enumerate()
            .filter_map(|(i, cell)| Some((i, split(cell.answers()?.as_ref()))))
            .collect();
        let (mut tests, mut findings, mut strata, mut changes) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        // The variances of the cells in van Elteren's test, up to a factor, if values were independent, and as they are.
        let (mut independent, mut actual) = (0.0, 0.0);
        for (cell, (start, later)) in cells {
            let Some((change, factor, test)) = test(cell, &start, &later, parameters) else {
                let observed = format!(
                    "too few {} for a beginning: {}",
                    start.called,
                    start.values.len() + later.len()
                );
                findings.push(Assessment::not_judged(observed, &expected).of_cell(cell));
                continue;
            };
            let (a, b) = (start.values.len() as f64, later.len() as f64);
            let variance = a * b / (a + b + 1.0);
            independent += variance;
            actual += factor * variance;
            changes.push(change);
            tests.push(test);
            strata.push((start.values, later));
        }
        findings.extend(settle(tests, parameters.alpha / 2.0, &expected));
        findings.sort_by_key(|j| j.cell);
        let together = van_elteren(&strata).filter(|all| all.strata >= POOLED_FROM);
        let verdict = match (together, median(&changes)) {
            (Some(all), Some(change)) => {
                let both = lag::widened(all.p, actual / independent, lag::NORMAL);
                let p = if all.z > 0.0 {
                    both / 2.0
                } else {
                    1.0 - both / 2.0
                };
                let observed = format!(
                    "{} at the start, median of {} cells; p {}",
                    percent(change),
                    all.strata,
                    show(p)
                );
                Assessment::new(
                    !(p <= parameters.alpha / 2.0 && change > parameters.effect),
                    observed,
                    &expected,
                )
            }
            _ => Assessment::not_judged(
                format!("fewer than {POOLED_FROM} cells for the test of all cells together"),
                &expected,
            ),
        };
        findings.push(verdict.of_stage());
        findings
    }
}

/// Tests one cell, and returns its change and by how much more its statistic scatters than for independent values; `None` if
/// it has no start, fewer than two later waves, or no spread.
fn test(
    cell: usize,
    start: &Series,
    later: &[f64],
    parameters: &Parameters,
) -> Option<(f64, f64, CellTest)> {
    if later.len() < 2 {
        return None;
    }
    let (a, b) = (
        Sample::new(start.values.iter().copied()).ok()?,
        Sample::new(later.iter().copied()).ok()?,
    );
    let test = mann_whitney_u(&a, &b, Continuity::Corrected)?;
    let change = a.median() / b.median() - 1.0;
    let slower = test.u > (a.len() * b.len()) as f64 / 2.0;
    let unit = start.unit;
    let rho = lag::around_level(later);
    let factor = lag::of_beginning(rho, a.len(), b.len());
    let observed = format!(
        "first {} of {} {}: {}{unit}, later {}{unit} ({}){}",
        a.len(),
        a.len() + b.len(),
        start.called,
        show(a.median()),
        show(b.median()),
        percent(change),
        lag::words(rho)
    );
    let widened = |p: f64| lag::widened(p, factor, lag::NORMAL);
    let p = if slower { widened(test.p) / 2.0 } else { 1.0 };
    let least = widened((2.0 / arrangements(a.len(), b.len())).min(1.0)) / 2.0;
    Some((
        change,
        factor,
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

#[cfg(test)]
mod tests {
    use contract::synthetic;
    use serde_json::json;

    use super::*;
    use crate::one_cell;

    #[test]
    fn a_bound_has_no_sign() {
        let rows = synthetic::rows_of(vec![synthetic::request(0)]);
        let judgement = one_cell::judge(&WarmUp, json!({}), json!({}), rows);
        assert!(
            judgement
                .expected
                .ends_with(" at most 20.0 % slower at the start"),
            "{}",
            judgement.expected
        );
    }
}
