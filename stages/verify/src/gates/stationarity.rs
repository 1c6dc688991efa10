//! `stationarity`: does the server become slower or faster during a cell?

pub(crate) mod lag;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::kendall_trend;

use crate::defaults;
use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, percent, share, show};
use crate::same_prompts::{self, first_prompt, together};
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
    #[serde(default = "defaults::alpha")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    alpha: f64,
    /// A change from first to last matters if it is at least this share of the median latency.
    #[serde(default = "defaults::effect")]
    #[schemars(range(min = 0, max = 1))]
    effect: f64,
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
        family). The seasonal Kendall test covers all cells together. Cells with the same prompts share their chance, so \
        their mean is one series of this test. The size of the change is the Theil–Sen slope over the whole cell.\n\n\
        Values may resemble the one before, as in a queue that empties slowly, and then wander without a drift. The gate \
        estimates the correlation of neighbours in series of at least 20 values, apart from a line or a step. If it is 1.3 standard errors above 0, the \
        variance of the test grows as for a first-order autoregression (Hamed & Rao 1998), and Student's t with fewer \
        degrees of freedom replaces the exact distribution. In simulations of four cells of 60 values, a correlation of \
        0.8 gives 3 % of studies a false alarm instead of 70 %, and one of 0.3 to 0.5 gives 4 to 5 % instead of 10 to 23 %.";
    const SEVERITY: Severity = Severity::Warn;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let expected = format!(
            "{} (under open arrivals the time per token) changes by at most {} from first to last",
            parameters.metric.name(),
            share(parameters.effect)
        );
        let cells: Vec<(usize, Option<String>, Series)> = stage
            .cells
            .par_iter()
            .enumerate()
            .filter_map(|(i, cell)| {
                let rows = cell.answers()?;
                Some((i, first_prompt(&rows), parameters.metric.throughout(&rows)))
            })
            .collect();
        let (mut tests, mut findings, mut changes, mut series) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (cell, prompt, Series { values, called, .. }) in cells {
            let n = values.len();
            let Some(trend) = Trend::of(&values) else {
                let observed = format!("too few {called} for a trend: {n}");
                findings.push(Assessment::not_judged(observed, &expected).of_cell(cell));
                continue;
            };
            let widened = |p: f64| lag::widened(p, trend.factor, n as f64 / trend.factor - 2.0);
            tests.push(CellTest {
                cell,
                p: widened(trend.test.p),
                least: widened(trend.test.least),
                matters: trend.change.abs() > parameters.effect,
                observed: format!(
                    "{} over {n} {called}{}",
                    percent(trend.change),
                    lag::words(trend.rho)
                ),
            });
            changes.push(trend.change);
            series.push((prompt, values));
        }
        findings.extend(settle(tests, parameters.alpha / 2.0, &expected));
        findings.sort_by_key(|j| j.cell);
        let groups = together(&series);
        let mut scatter = Scatter::default();
        for values in &groups {
            if let Some(trend) = Trend::of(values) {
                scatter.add(values.len(), trend.factor);
            }
        }
        let verdict = match (kendall_trend(&groups), median(&changes)) {
            (Some(all), Some(change)) if scatter.widened(all.least) <= parameters.alpha / 2.0 => {
                let p = scatter.widened(all.p);
                let observed = format!(
                    "{}, median of {} cells{}; p {}",
                    percent(change),
                    series.len(),
                    same_prompts::words(series.len(), groups.len()),
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

/// The trend of one series.
struct Trend {
    test: statistics::Trend,
    /// The relative change from first to last.
    change: f64,
    /// The correlation of neighbours.
    rho: f64,
    /// By how much more its statistic scatters than for independent values.
    factor: f64,
}

impl Trend {
    /// Tests one series; `None` if it has too few values.
    fn of(values: &[f64]) -> Option<Self> {
        let test = kendall_trend(std::slice::from_ref(&values.to_vec()))?;
        let change = relative_change(values)?;
        let n = values.len();
        let slope = change * median(values).unwrap_or(0.0) / (n - 1) as f64;
        let rho = lag::around_change(values, slope);
        Some(Self {
            test,
            change,
            rho,
            factor: lag::of_trend(rho, n),
        })
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
    use contract::CellRows;
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

    #[test]
    fn cells_whose_answers_are_long_by_the_same_chance_do_not_drift_together() {
        let fails = (1..=40_u64).filter(|seed| {
            let mut noise = Noise(seed.wrapping_mul(0xd134_2543_de82_ef95));
            let lengths: Vec<f64> = (0..24).map(|_| (0.4 * noise.normal()).exp()).collect();
            let cells: Vec<CellRows> = (0..8)
                .map(|_| {
                    let lasts = lengths
                        .iter()
                        .map(|n| 500e6 * n * (0.05 * noise.normal()).exp());
                    one_cell::one_after_another(lasts.map(|ns| ns as i64).collect::<Vec<_>>())
                })
                .collect();
            let judged = one_cell::judge_cells(&Stationarity, json!({}), cells);
            judged
                .last()
                .is_some_and(|whole| whole.outcome == Outcome::Fail)
        });
        // If every cell counted for itself, 12 of them would fail.
        let fails = fails.count();
        assert!(fails <= 2, "{fails}");
    }
}
