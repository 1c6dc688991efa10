//! `stationarity`: does the server become slower or faster during a cell?

pub(crate) mod lag;

use contract::Settings;
use pipeline::Problem;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::kendall_trend;

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, percent, share_problems, show};
use crate::series::{CellTest, Latency, Series, median, relative_change, settle};
use crate::study::Stage;

pub(crate) struct Stationarity;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The latency to test.
    #[serde(default = "Latency::e2e")]
    metric: Latency,
    /// The probability of any false alarm per load stage: one half for single cells, one half for
    /// all cells together.
    #[serde(default = "percent_one")]
    alpha: f64,
    /// A change from first to last matters if it is at least this share of the median latency.
    #[serde(default = "tenth")]
    effect: f64,
}

fn percent_one() -> f64 {
    0.01
}

fn tenth() -> f64 {
    0.1
}

impl TypedGate for Stationarity {
    type Parameters = Parameters;
    const NAME: &'static str = "stationarity";
    const SUMMARY: &'static str = "\
        The server becomes neither slower nor faster while a cell is measured.\n\n\
        In a closed loop, the gate uses the medians of waves; under open arrivals, it uses the server's pace. \
        `warm-up` defines both. If several requests are in flight, the gate leaves out the first wave, which meets an \
        idle server, and the last, which empties it.\n\n\
        Each cell has a Mann–Kendall test, Holm-adjusted over the cells that have enough values to decide (Tarone's \
        family). The seasonal Kendall test covers all cells together. The size of the change is the Theil–Sen slope \
        over the whole cell.\n\n\
        Values may resemble the one before, as in a queue that empties slowly, and then wander without a drift. The gate \
        estimates the correlation of neighbours in series of at least 20 values, apart from a line or a step. If it is 1.3 standard errors above 0, the \
        variance of the test grows as for a first-order autoregression (Hamed & Rao 1998), and Student's t with fewer \
        degrees of freedom replaces the exact distribution. In simulations of four cells of 60 values, a correlation of \
        0.8 gives 3 % of studies a false alarm instead of 70 %, and one of 0.3 to 0.5 gives 4 to 5 % instead of 10 to 23 %.";
    const SEVERITY: Severity = Severity::Warn;

    fn check(&self, parameters: &Parameters, settings: &Settings<'_>) -> Vec<Problem> {
        share_problems(settings, &[("alpha", parameters.alpha)])
    }

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let expected = format!(
            "{} (under open arrivals the time per token) changes by at most {} from first to last",
            parameters.metric.name(),
            percent(parameters.effect).trim_start_matches('+')
        );
        let cells: Vec<(usize, Series)> = stage
            .cells
            .par_iter()
            .enumerate()
            .filter_map(|(i, cell)| {
                Some((i, parameters.metric.throughout(cell.answers()?.as_ref())))
            })
            .collect();
        let (mut tests, mut findings, mut changes, mut series) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut scatter = Scatter::default();
        for (
            cell,
            Series {
                values: waves,
                called,
                ..
            },
        ) in cells
        {
            let trend = kendall_trend(std::slice::from_ref(&waves));
            let (Some(trend), Some(change)) = (trend, relative_change(&waves)) else {
                let observed = format!("too few {called} for a trend: {}", waves.len());
                findings.push(Assessment::not_judged(observed, &expected).of_cell(cell));
                continue;
            };
            let n = waves.len();
            let slope = change * median(&waves).unwrap_or(0.0) / (n - 1) as f64;
            let rho = lag::around_change(&waves, slope);
            let factor = lag::of_trend(rho, n);
            let widened = |p: f64| lag::widened(p, factor, n as f64 / factor - 2.0);
            scatter.add(n, factor);
            tests.push(CellTest {
                cell,
                p: widened(trend.p),
                least: widened(trend.least),
                matters: change.abs() > parameters.effect,
                observed: format!("{} over {n} {called}{}", percent(change), lag::words(rho)),
            });
            changes.push(change);
            series.push(waves);
        }
        findings.extend(settle(tests, parameters.alpha / 2.0, &expected));
        findings.sort_by_key(|j| j.cell);
        let verdict = match (kendall_trend(&series), median(&changes)) {
            (Some(all), Some(change)) if scatter.widened(all.least) <= parameters.alpha / 2.0 => {
                let p = scatter.widened(all.p);
                let observed = format!(
                    "{}, median of {} cells; p {}",
                    percent(change),
                    series.len(),
                    show(p)
                );
                let drifts = p <= parameters.alpha / 2.0 && change.abs() > parameters.effect;
                Assessment::new(!drifts, observed, &expected)
            }
            _ => Assessment::not_judged("too few values, even with all cells together", &expected),
        };
        findings.push(verdict.of_stage());
        findings
    }
}

/// How much more the seasonal test scatters than for independent values.
#[derive(Default)]
struct Scatter {
    cells: f64,
    values: f64,
    /// The variances of the cells' statistics, up to a factor, if values were independent, and as they are.
    independent: f64,
    actual: f64,
}

impl Scatter {
    fn add(&mut self, n: usize, factor: f64) {
        let n = n as f64;
        let variance = n * (n - 1.0) * (2.0 * n + 5.0);
        self.cells += 1.0;
        self.values += n;
        self.independent += variance;
        self.actual += factor * variance;
    }

    fn widened(&self, p: f64) -> f64 {
        let factor = self.actual / self.independent;
        lag::widened(p, factor, self.values / factor - 2.0 * self.cells)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use statistics::Noise;

    use super::*;
    use crate::finding::Outcome;
    use crate::one_cell;

    #[test]
    fn a_cell_whose_requests_resemble_the_one_before_does_not_drift() {
        let fails = |rho: f64| {
            let failed = (1..=40_u64).filter(|seed| {
                let mut noise = Noise(seed.wrapping_mul(0xd134_2543_de82_ef95));
                let mut last = noise.normal();
                let lasts = (0..60).map(|_| {
                    last = rho * last + (1.0 - rho * rho).sqrt() * noise.normal();
                    (500e6 * (0.15 * last).exp()) as i64
                });
                let rows = one_cell::one_after_another(lasts);
                one_cell::judge(&Stationarity, json!({}), json!({}), rows).outcome == Outcome::Fail
            });
            failed.count()
        };
        // Without counting the correlation, 17 of them fail.
        assert!(fails(0.8) <= 4, "{}", fails(0.8));
        assert_eq!(fails(0.0), 0);
    }
}
