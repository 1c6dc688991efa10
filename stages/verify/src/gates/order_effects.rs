//! `order-effects`: does it matter when a cell was measured?

use std::collections::BTreeMap;

use pipeline::Problem;
use rows::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::kendall_trend;

use crate::finding::{Judgement, Severity};
use crate::gate::{TypedGate, listed, percent, share_problems, show};
use crate::series::{Latency, median, relative_change};
use crate::study::Stage;

pub(crate) struct OrderEffects;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The axis of repetitions: cells that differ only there should be alike.
    #[serde(default = "rep")]
    axis: String,
    /// The latency whose median stands for a cell.
    #[serde(default = "Latency::e2e")]
    metric: Latency,
    /// The chance of a false alarm in a load stage.
    #[serde(default = "percent_one")]
    alpha: f64,
    /// By what share the latency must change from the first repetition to the last to matter.
    #[serde(default = "twentieth")]
    effect: f64,
    /// The axis compared across. If given, its labels must also have been measured in turns: in
    /// one block after the other, a drift and a difference look the same.
    #[serde(default)]
    across: Option<String>,
    /// With `across`: the share of pairs of cells, one of each label, in which the same label may
    /// come first; 0.5 is a perfect mixture, 1 one block after the other.
    #[serde(default = "most")]
    separation: f64,
}

fn rep() -> String {
    "rep".to_owned()
}

fn percent_one() -> f64 {
    0.01
}

fn twentieth() -> f64 {
    0.05
}

fn most() -> f64 {
    0.9
}

impl TypedGate for OrderEffects {
    type Parameters = Parameters;
    const NAME: &'static str = "order-effects";
    const SUMMARY: &'static str = "Repetitions measured later are neither slower nor faster than earlier ones: seasonal \
                                   Kendall test of the cells' median latencies in the order of their start times, \
                                   each coordinate compared with itself, exact without ties.";
    const SEVERITY: Severity = Severity::Warn;

    fn check(&self, parameters: &Parameters, settings: &Settings<'_>) -> Vec<Problem> {
        let shares = [
            ("alpha", parameters.alpha),
            ("separation", parameters.separation),
        ];
        share_problems(settings, &shares)
    }

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let mut expected = format!(
            "{} changes by no more than {} from the first repetition to the last",
            parameters.metric.name(),
            percent(parameters.effect).trim_start_matches('+')
        );
        let mut groups: BTreeMap<String, Vec<(i64, f64)>> = BTreeMap::new();
        for cell in &stage.cells {
            let Some(rows) = &cell.rows else { continue };
            let middle = median(&parameters.metric.in_order(rows));
            if let (Some(started), Some(middle)) = (cell.fact("started_unix_ns"), middle) {
                groups
                    .entry(cell.without(&parameters.axis))
                    .or_default()
                    .push((started, middle));
            }
        }
        let (mut series, mut changes, mut evidence) = (Vec::new(), Vec::new(), Vec::new());
        for (at, mut group) in groups {
            group.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
            let values: Vec<f64> = group.into_iter().map(|(_, middle)| middle).collect();
            if let Some(change) = relative_change(&values) {
                changes.push(change);
                evidence.push((change, format!("{at}: {}", percent(change))));
            }
            series.push(values);
        }
        let trend = kendall_trend(&series).filter(|t| t.least <= parameters.alpha);
        let (mut passed, mut observed) = match (trend, median(&changes)) {
            (Some(all), Some(change)) => {
                let drifts = all.p <= parameters.alpha && change.abs() > parameters.effect;
                let what = format!(
                    "{}, median of {} coordinates; p {}",
                    percent(change),
                    changes.len(),
                    show(all.p)
                );
                (Some(!drifts), what)
            }
            _ => (
                None,
                "too few repetitions with a start time to tell".to_owned(),
            ),
        };
        if let Some(across) = &parameters.across {
            expected.push_str(&format!("; the labels of {across} measured in turns"));
            if let Some((share, what)) = separation(stage, across) {
                let mixed = share <= parameters.separation;
                passed = if mixed { passed } else { Some(false) };
                observed.push_str(&format!("; {what}"));
            }
        }
        evidence.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()).then_with(|| a.1.cmp(&b.1)));
        let evidence: Vec<String> = evidence.into_iter().map(|(_, text)| text).collect();
        let evidence = listed(&evidence).filter(|_| passed == Some(false));
        vec![Judgement {
            cell: None,
            passed,
            observed,
            expected,
            evidence,
        }]
    }
}

/// Returns the largest share of pairs of cells of two labels in which one label comes first, and
/// says which.
fn separation(stage: &Stage<'_>, across: &str) -> Option<(f64, String)> {
    let mut starts: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for cell in &stage.cells {
        if let (Some(label), Some(started)) = (
            cell.input.coordinates.get(across),
            cell.fact("started_unix_ns"),
        ) {
            starts.entry(label.to_string()).or_default().push(started);
        }
    }
    let labels: Vec<(&String, &Vec<i64>)> = starts.iter().collect();
    let mut worst: Option<(f64, String)> = None;
    for (i, (a, of_a)) in labels.iter().enumerate() {
        for (b, of_b) in &labels[i + 1..] {
            let pairs = (of_a.len() * of_b.len()) as f64;
            let before = of_a
                .iter()
                .map(|x| of_b.iter().filter(|y| x < y).count())
                .sum::<usize>() as f64
                / pairs;
            let (share, first, second) = if before >= 0.5 {
                (before, a, b)
            } else {
                (1.0 - before, b, a)
            };
            if worst.as_ref().is_none_or(|(w, _)| share > *w) {
                let what = format!(
                    "{first} before {second} in {:.0} % of the pairs",
                    100.0 * share
                );
                worst = Some((share, what));
            }
        }
    }
    worst
}
