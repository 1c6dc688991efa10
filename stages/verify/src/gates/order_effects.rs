//! `order-effects`: does a result depend on when its cell was measured?

use std::collections::BTreeMap;

use artifacts::Scalar;
use conditions::{IN_TURNS, Order, Start};
use pipeline::design::BLOCK;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::kendall_trend;

use crate::finding::{Judgement, Outcome, Severity};
use crate::gate::{TypedGate, listed, percent, share, show};
use crate::replicates;
use crate::series::{Latency, median, relative_change};
use crate::study::{Cell, Stage};

pub(crate) struct OrderEffects;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The axis of repetitions: cells that differ only on this axis should be alike. By default,
    /// `block` and `rep`, if the stage has them.
    #[serde(default)]
    axis: Option<String>,
    /// The latency whose median represents a cell.
    #[serde(default = "Latency::e2e")]
    metric: Latency,
    /// The probability of a false alarm per load stage.
    #[serde(default = "fiftieth")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    alpha: f64,
    /// A change from the first repetition to the last matters if it is at least this share of the
    /// latency.
    #[serde(default = "twentieth")]
    #[schemars(range(min = 0, max = 1))]
    effect: f64,
    /// The axis compared across. Its labels must then also be measured in turns: if one label is
    /// measured after the other, a drift looks like a difference.
    #[serde(default)]
    across: Option<String>,
    /// With `across`: the share of pairs of cells, one of each label, in which the same label may
    /// come first. 0.5 is a perfect mixture; 1 means one label after the other.
    #[serde(default = "most")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    separation: f64,
}

fn fiftieth() -> f64 {
    0.02
}

fn twentieth() -> f64 {
    0.05
}

fn most() -> f64 {
    IN_TURNS
}

impl TypedGate for OrderEffects {
    type Parameters = Parameters;
    const NAME: &'static str = "order-effects";
    const SUMMARY: &'static str = "\
        Later cells are neither slower nor faster than earlier ones.\n\n\
        Without blocks, the gate applies the exact seasonal Kendall test to the cells' median latencies in the order \
        of their start times. It compares each coordinate with itself. Cells of a coordinate that start at the same \
        time count as one.\n\n\
        With an axis `block`, the cells of a block share launches, so each block is one value: the mean distance of \
        its cells from their coordinates, on the log scale. The Mann–Kendall test is then over blocks, and needs at \
        least five.";
    const SEVERITY: Severity = Severity::Warn;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let axes = replicates::axes(stage, parameters.axis.as_deref());
        let mut expected = format!(
            "{} changes by at most {} from the first repetition to the last",
            parameters.metric.name(),
            share(parameters.effect)
        );
        let series = if axes.first().is_some_and(|axis| axis == BLOCK) {
            by_block(stage, &axes, parameters.metric)
        } else {
            by_coordinate(stage, &axes, parameters.metric)
        };
        let (mut changes, mut evidence) = (Vec::new(), Vec::new());
        for (at, values) in &series {
            if let Some(change) = relative_change(values) {
                changes.push(change);
                evidence.push((change, format!("{at}: {}", percent(change))));
            }
        }
        let values: Vec<Vec<f64>> = series.into_iter().map(|(_, values)| values).collect();
        let trend = kendall_trend(&values).filter(|t| t.least <= parameters.alpha);
        let (mut outcome, mut observed) = match (trend, median(&changes)) {
            (Some(all), Some(change)) => {
                let drifts = all.p <= parameters.alpha && change.abs() > parameters.effect;
                let what = format!(
                    "{}, median over {} series of repetitions; p {}",
                    percent(change),
                    changes.len(),
                    show(all.p)
                );
                (Outcome::of(!drifts), what)
            }
            _ => {
                let over = replicates::named(&axes);
                let what = format!("too few repetitions over {over} whose order is known");
                (Outcome::NotJudged, what)
            }
        };
        if let Some(across) = &parameters.across {
            expected.push_str(&format!("; the labels of {across} measured in turns"));
            if let Some((share, what)) = separation(stage, across) {
                let mixed = share <= parameters.separation;
                outcome = if mixed { outcome } else { Outcome::Fail };
                observed.push_str(&format!("; {what}"));
            }
        }
        evidence.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()).then_with(|| a.1.cmp(&b.1)));
        let evidence: Vec<String> = evidence.into_iter().map(|(_, text)| text).collect();
        let evidence = listed(&evidence).filter(|_| outcome == Outcome::Fail);
        vec![Judgement {
            cell: None,
            outcome,
            observed,
            expected,
            evidence,
        }]
    }
}

/// Returns a cell's start and its median latency.
fn measured(cell: &Cell<'_>, metric: Latency) -> Option<(Option<i64>, f64)> {
    let middle = median(&metric.in_order(cell.answers()?.as_ref()))?;
    Some((cell.fact("started_unix_ns"), middle))
}

/// Returns the repetitions of each coordinate in start order. Repetitions with the same start have
/// no order, so their mean is one value.
fn by_coordinate(stage: &Stage<'_>, axes: &[String], metric: Latency) -> Vec<(String, Vec<f64>)> {
    let in_order = |cells: Vec<usize>| {
        let mut starts: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
        for cell in cells {
            if let Some((Some(started), middle)) = measured(&stage.cells[cell], metric) {
                starts.entry(started).or_default().push(middle);
            }
        }
        starts.into_values().map(|v| mean(&v)).collect()
    };
    replicates::groups(stage, axes)
        .into_iter()
        .map(|(at, cells)| (at, in_order(cells)))
        .collect()
}

/// Returns one series, with a value for each block in execution order: how much slower its cells
/// are than the average of their coordinates, where 1 is the average. Blocks run one after the
/// other, so their labels decide if start times do not.
fn by_block(stage: &Stage<'_>, axes: &[String], metric: Latency) -> Vec<(String, Vec<f64>)> {
    let mut blocks: BTreeMap<String, (i64, Scalar, Vec<f64>)> = BTreeMap::new();
    for cells in replicates::groups(stage, axes).into_values() {
        let medians: Vec<(usize, Option<i64>, f64)> = cells
            .into_iter()
            .filter_map(|c| measured(&stage.cells[c], metric).map(|(at, middle)| (c, at, middle)))
            .filter(|(.., middle)| *middle > 0.0)
            .collect();
        let logs: Vec<f64> = medians.iter().map(|(.., middle)| middle.ln()).collect();
        let centre = mean(&logs);
        for ((cell, started, _), log) in medians.into_iter().zip(&logs) {
            let Some(label) = stage.cells[cell].input.coordinates.get(BLOCK) else {
                continue;
            };
            let block = blocks
                .entry(label.to_string())
                .or_insert_with(|| (i64::MAX, label.clone(), Vec::new()));
            block.0 = block.0.min(started.unwrap_or(i64::MAX));
            block.2.push(log - centre);
        }
    }
    let mut blocks: Vec<_> = blocks.into_values().collect();
    blocks.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| contract::compare(&a.1, &b.1)));
    let values = blocks.iter().map(|(.., logs)| mean(logs).exp()).collect();
    vec![("all coordinates".to_owned(), values)]
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns the largest share of pairs of cells of two labels in which one label comes first, with a
/// description. A pair with the same start counts half for each.
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
            let start = |first: bool| {
                move |unix_ns: &i64| Start {
                    unit: None,
                    first,
                    at: String::new(),
                    unix_ns: *unix_ns,
                }
            };
            let starts: Vec<Start> = of_a
                .iter()
                .map(start(true))
                .chain(of_b.iter().map(start(false)))
                .collect();
            let Some(order) = Order::of(&starts) else {
                continue;
            };
            let ([first, second], share) = (order.sorted([a, b]), order.share);
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
