//! `stationarity`: does the server become slower or faster while a cell is measured?

use pipeline::Problem;
use rayon::prelude::*;
use rows::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::kendall_trend;

use crate::finding::{Judgement, Severity};
use crate::gate::{TypedGate, Verdict, percent, share_problems, show};
use crate::series::{CellTest, Latency, median, relative_change, settle};
use crate::study::Stage;

pub(crate) struct Stationarity;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The latency looked at.
    #[serde(default = "Latency::e2e")]
    metric: Latency,
    /// The chance of any false alarm in a load stage: half for the cells one by one, half for
    /// all of them together.
    #[serde(default = "percent_one")]
    alpha: f64,
    /// By what share of its median the latency must change from first to last to matter.
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
    const SUMMARY: &'static str = "Latency has no trend over the measurement of a cell. Mann–Kendall test over the medians \
                                   of waves (see `warm-up`; where several requests are in flight without the first wave, which finds an idle server, and the last, which empties it), Holm-adjusted over the cells that have waves enough to \
                                   tell (Tarone's family), and the seasonal Kendall test over all cells together; the \
                                   change is the Theil–Sen slope over the whole cell.";
    const SEVERITY: Severity = Severity::Warn;

    fn check(&self, parameters: &Parameters, settings: &Settings<'_>) -> Vec<Problem> {
        share_problems(settings, &[("alpha", parameters.alpha)])
    }

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let expected = format!(
            "{} changes by no more than {} from first to last",
            parameters.metric.name(),
            percent(parameters.effect).trim_start_matches('+')
        );
        let cells: Vec<(usize, Vec<f64>)> = stage
            .cells
            .par_iter()
            .enumerate()
            .filter_map(|(i, cell)| Some((i, parameters.metric.inner_waves(cell.rows.as_ref()?))))
            .collect();
        let (mut tests, mut found, mut changes, mut series) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (cell, waves) in cells {
            let trend = kendall_trend(std::slice::from_ref(&waves));
            let (Some(trend), Some(change)) = (trend, relative_change(&waves)) else {
                let observed = format!("{} waves have no trend to speak of", waves.len());
                found.push(Verdict::none(observed, &expected).of_cell(cell));
                continue;
            };
            tests.push(CellTest {
                cell,
                p: trend.p,
                least: trend.least,
                matters: change.abs() > parameters.effect,
                observed: format!("{} over {} waves", percent(change), waves.len()),
            });
            changes.push(change);
            series.push(waves);
        }
        found.extend(settle(tests, parameters.alpha / 2.0, &expected));
        found.sort_by_key(|j| j.cell);
        let verdict = match (kendall_trend(&series), median(&changes)) {
            (Some(all), Some(change)) if all.least <= parameters.alpha / 2.0 => {
                let observed = format!(
                    "{}, median of {} cells; p {}",
                    percent(change),
                    series.len(),
                    show(all.p)
                );
                let drifts = all.p <= parameters.alpha / 2.0 && change.abs() > parameters.effect;
                Verdict::new(!drifts, observed, &expected)
            }
            _ => Verdict::none("too few waves, even of all cells together", &expected),
        };
        found.push(verdict.of_stage());
        found
    }
}
