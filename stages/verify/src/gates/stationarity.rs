//! `stationarity`: does the server become slower or faster during a cell?

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
        over the whole cell.";
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
            tests.push(CellTest {
                cell,
                p: trend.p,
                least: trend.least,
                matters: change.abs() > parameters.effect,
                observed: format!("{} over {} {called}", percent(change), waves.len()),
            });
            changes.push(change);
            series.push(waves);
        }
        findings.extend(settle(tests, parameters.alpha / 2.0, &expected));
        findings.sort_by_key(|j| j.cell);
        let verdict = match (kendall_trend(&series), median(&changes)) {
            (Some(all), Some(change)) if all.least <= parameters.alpha / 2.0 => {
                let observed = format!(
                    "{}, median of {} cells; p {}",
                    percent(change),
                    series.len(),
                    show(all.p)
                );
                let drifts = all.p <= parameters.alpha / 2.0 && change.abs() > parameters.effect;
                Assessment::new(!drifts, observed, &expected)
            }
            _ => Assessment::not_judged("too few values, even with all cells together", &expected),
        };
        findings.push(verdict.of_stage());
        findings
    }
}
