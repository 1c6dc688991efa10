//! Distributions of a request metric, and the number of requests that meet bounds on several metrics: from the rows, by
//! the definitions of the crate `contract`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use artifacts::{Scalar, Store};
use contract::{Exclusions, METRICS, Metric, metric};
use pipeline::lock::{LockCell, LockStage};
use pipeline::suggest::remedy;
use pipeline::{Artifact, CellStatus};
use serde_json::{Value, json};

use crate::catalogue::record_of;
use crate::error::{Failure, Fault};
use crate::reply::{Freshness, Reply};
use crate::request::Ask;
use crate::rows::{FROM_CHUNKS, Measured, tells_first_chunks};
use crate::sketch::{Sketch, WIDTH};
use crate::study::{Study, axes_of};
use crate::table::scalar;

/// The number of points in a distribution; with fewer requests, each is a point.
const POINTS: usize = 400;

/// The maximum number of individual values that all curves of an answer keep; beyond it, a curve is given by its bins.
const VALUES: usize = 4_000_000;

/// The maximum number of curves in one answer.
const MOST_GROUPS: usize = 400;

/// The latencies of a request, which an objective bounds.
pub(crate) const LATENCIES: [&str; 3] = ["ttft_ms", "tpot_ms", "e2e_latency_ms"];

/// The possible bounds of an objective in each decade.
const STEPS: [f64; 10] = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0];

/// The cells of a stage that a question selects: `only.AXIS=LABEL` keeps the cells with that label.
pub(crate) struct Chosen<'s> {
    pub(crate) stage: &'s LockStage,
    pub(crate) axes: Vec<String>,
    pub(crate) cells: Vec<(&'s LockCell, Vec<Scalar>)>,
}

impl<'s> Chosen<'s> {
    pub(crate) fn of(study: &'s Study, ask: &Ask) -> Result<Self, Failure> {
        let name = ask.get("stage").ok_or_else(|| {
            Failure::question("`stage` is missing", "`/cells` lists the stages of a study")
        })?;
        let stage = study.stage(name)?;
        let axes = stage.cells.first().map(axes_of).unwrap_or_default();
        let mut only = Vec::new();
        for (parameter, label) in &ask.parameters {
            let Some(axis) = parameter.strip_prefix("only.") else {
                continue;
            };
            only.push((place_of(&axes, axis)?, label.as_str()));
        }
        let mut cells = Vec::new();
        for cell in &stage.cells {
            let at = cell.place().map_err(Failure::store)?;
            let label = |axis: &String| at.get(axis).cloned().unwrap_or(Scalar::Null);
            let labels: Vec<Scalar> = axes.iter().map(label).collect();
            let has = |(i, wanted): &(usize, &str)| labels[*i].to_string() == *wanted;
            if only.iter().all(has) {
                cells.push((cell, labels));
            }
        }
        Ok(Self { stage, axes, cells })
    }
}

fn place_of(axes: &[String], axis: &str) -> Result<usize, Failure> {
    axes.iter().position(|a| a == axis).ok_or_else(|| {
        let message = format!("the stage has no axis `{axis}`");
        Failure::question(message, format!("it has: {}", axes.join(", ")))
    })
}

/// Answers with the distribution of `metric` over the requests of a stage, with a curve for each combination of labels
/// of the axes `by`.
pub(crate) fn distribution(study: &Study, ask: &Ask, store: &Store) -> Result<Reply, Failure> {
    let wanted = ask.get("metric").unwrap_or("ttft_ms");
    let metric_names: Vec<&str> = METRICS.iter().map(|m| m.name).collect();
    let Some(metric) = metric(wanted) else {
        let message = format!("a request has no metric `{wanted}`");
        return Err(Failure::question(
            message,
            remedy(wanted, "metrics", &metric_names),
        ));
    };
    let chosen = Chosen::of(study, ask)?;
    let by: Vec<&str> = ask.get("by").unwrap_or_default().split(',').collect();
    let by = by.into_iter().filter(|axis| !axis.is_empty());
    let by: Vec<usize> = by
        .map(|axis| place_of(&chosen.axes, axis))
        .collect::<Result<_, _>>()?;
    let key_of = |labels: &[Scalar]| -> Vec<String> {
        let texts = by.iter().map(|i| labels[*i].to_string());
        texts.collect()
    };
    let mut groups: BTreeMap<Vec<String>, Group> = BTreeMap::new();
    let mut order: Vec<Vec<String>> = Vec::new();
    for (_, labels) in &chosen.cells {
        let key = key_of(labels);
        groups.entry(key.clone()).or_insert_with(|| {
            order.push(key);
            let labels = by.iter().map(|i| scalar(&labels[*i]));
            Group::of(labels.collect())
        });
    }
    if order.len() > MOST_GROUPS {
        let message = format!("these axes make {} curves", order.len());
        return Err(Failure::new(
            Fault::TooMuch,
            message,
            "choose fewer axes, or keep one label of some",
        ));
    }
    for group in groups.values_mut() {
        group.values = Sketch::new(VALUES / order.len());
    }
    let (excluded, notes) = exclusions_of(study, store);
    for (cell, labels) in &chosen.cells {
        let Some(group) = groups.get_mut(&key_of(labels)) else {
            continue;
        };
        group.cells += 1;
        if cell.status != CellStatus::Ok {
            group.not_ok += 1;
            continue;
        }
        if excluded
            .why(&chosen.stage.name, &cell.coordinates)
            .is_some()
        {
            group.excluded += 1;
            continue;
        }
        let values = &mut group.values;
        let hear = |metrics: &[Option<f64>]| {
            if let Some(value) = metrics[0] {
                values.add(value);
            }
        };
        if let Some(measured) = Measured::each(&chosen.stage.name, cell, &[metric], store, hear)? {
            group.requests += measured.rows;
            group.ok += measured.ok;
        }
    }
    let lines = order.iter().filter_map(|key| groups.remove(key));
    let names: Vec<&String> = by.iter().map(|i| &chosen.axes[*i]).collect();
    let value = json!({
        "stage": chosen.stage.name,
        "metric": metric.name,
        "unit": metric.unit,
        "definition": metric.definition,
        "by": names,
        "groups": lines.map(Group::into_json).collect::<Vec<_>>(),
        "notes": notes,
    });
    Ok(Reply::json(&value, Freshness::Tagged))
}

/// Returns the cells that a gate excludes: as the operators of an analysis, figures over requests leave them out. If they
/// cannot be read, a note says that nothing is left out, since damage must not hide the requests.
fn exclusions_of<'s>(study: &'s Study, store: &Store) -> (Cow<'s, Exclusions>, Vec<String>) {
    match study.exclusions(store) {
        Ok(exclusions) => (Cow::Borrowed(exclusions), Vec::new()),
        Err(failure) => {
            let note = format!(
                "cells that a gate excluded are not left out, because the exclusions cannot be read: {}",
                failure.message
            );
            (Cow::Owned(Exclusions::default()), vec![note])
        }
    }
}

/// The requests of one curve.
struct Group {
    labels: Vec<Value>,
    cells: usize,
    not_ok: usize,
    excluded: usize,
    requests: usize,
    ok: usize,
    values: Sketch,
}

impl Group {
    fn of(labels: Vec<Value>) -> Self {
        Self {
            labels,
            cells: 0,
            not_ok: 0,
            excluded: 0,
            requests: 0,
            ok: 0,
            values: Sketch::new(0),
        }
    }

    fn into_json(mut self) -> Value {
        let n = self.values.len();
        json!({
            "labels": self.labels,
            "cells": self.cells,
            "cells_not_ok": self.not_ok,
            "cells_excluded": self.excluded,
            "requests": self.requests,
            "ok": self.ok,
            "n": n,
            "within": if self.values.is_exact() { 0.0 } else { WIDTH / 2.0 },
            "points": points(&mut self.values),
        })
    }
}

/// Returns the points of a curve, `[value, rank]` each.
pub(crate) fn points(values: &mut Sketch) -> Vec<(f64, usize)> {
    let n = values.len();
    values.at(ranks(n))
}

/// Returns the ranks, from 1, to show of `n` sorted values: all of them if they are few, otherwise evenly spread ones,
/// and beyond 99 % more closely spaced ones, since that is where readers look.
fn ranks(n: usize) -> impl Iterator<Item = usize> {
    let even = (1..=POINTS).map(move |i| (i * n).div_ceil(POINTS));
    let tail = (1..=POINTS / 4).map(move |i| n - n / 100 + (i * (n / 100)) / (POINTS / 4));
    let mut ranks: Vec<usize> = match n <= POINTS {
        true => (1..=n).collect(),
        false => std::iter::once(1).chain(even).chain(tail).collect(),
    };
    ranks.retain(|rank| (1..=n).contains(rank));
    ranks.sort_unstable();
    ranks.dedup();
    ranks.into_iter()
}

/// Answers with the number of requests of each cell that meet bounds on latencies, for every possible bound. The page
/// adds them up as its reader moves a bound.
///
/// A request lies in the bin of the smallest step that is at least the value of the metric, for each metric. A value
/// that is undefined or beyond the last step lies in the bin after it, so that it meets no bound, as in the operator
/// `goodput`. A bound that the question names (`bound.METRIC`) is a step, too, so that any bound is counted exactly.
pub(crate) fn objective(study: &Study, ask: &Ask, store: &Store) -> Result<Reply, Failure> {
    let chosen = Chosen::of(study, ask)?;
    let ladders = Ladder::of_each(ask)?;
    let bounded = LATENCIES.map(|name| metric(name).expect("it is one of the metrics"));
    let (metrics, mut notes) = readable(&chosen, &bounded, store)?;
    let (exclusions, unread) = exclusions_of(study, store);
    notes.extend(unread);
    let mut read = Vec::new();
    let mut ranges = [(f64::INFINITY, f64::NEG_INFINITY); LATENCIES.len()];
    for (cell, labels) in &chosen.cells {
        let mut counts = Counts::new();
        let hear = |measured: &[Option<f64>]| {
            let value_of = |bound: &Metric| {
                let place = metrics.iter().position(|m| m.name == bound.name);
                place.and_then(|place| measured[place])
            };
            let values = bounded.map(value_of);
            for (range, value) in ranges.iter_mut().zip(values) {
                if let Some(value) = value.filter(|v| *v > 0.0 && v.is_finite()) {
                    *range = (range.0.min(value), range.1.max(value));
                }
            }
            let notches = std::array::from_fn(|i| ladders[i].notch(values[i]));
            *counts.entry(notches).or_default() += 1;
        };
        let excluded = exclusions.why(&chosen.stage.name, &cell.coordinates);
        let excluded = excluded.filter(|_| cell.status == CellStatus::Ok);
        let measured = match (cell.status, excluded) {
            (CellStatus::Ok, None) => {
                Measured::each(&chosen.stage.name, cell, &metrics, store, hear)?
            }
            _ => None,
        };
        read.push((cell, labels, (measured, excluded), counts));
    }
    let steps = ladders.iter().zip(ranges);
    let steps: Vec<&[f64]> = steps.map(|(ladder, range)| ladder.steps(range)).collect();
    let cells = read
        .into_iter()
        .map(|(cell, labels, (measured, excluded), counts)| {
            let labels: Vec<Value> = labels.iter().map(scalar).collect();
            let mut line =
                json!({"at": cell.coordinates, "labels": labels, "status": cell.status.word()});
            if let Some(reason) = excluded {
                line["excluded"] = json!(reason);
            }
            if let Some(measured) = measured {
                line["requests"] = json!(measured.rows);
                line["ok"] = json!(measured.ok);
                line["window_s"] = json!(measured.window_s());
                line["bins"] = json!(bins(&counts, &ladders, &steps));
            }
            line
        });
    let described = bounded.iter().zip(&steps).map(|(metric, steps)| {
        json!({"name": metric.name, "unit": metric.unit, "definition": metric.definition, "steps": steps})
    });
    let value = json!({
        "stage": chosen.stage.name,
        "axes": chosen.axes,
        "metrics": described.collect::<Vec<_>>(),
        "notes": notes,
        "cells": cells.collect::<Vec<_>>(),
    });
    Ok(Reply::json(&value, Freshness::Tagged))
}

/// Returns the metrics that the store can supply, and why one is missing. Older request rows do not hold the tokens of
/// their first chunk, and a bundle may have been published without the chunks.
fn readable<'m>(
    chosen: &Chosen<'_>,
    metrics: &[&'m Metric],
    store: &Store,
) -> Result<(Vec<&'m Metric>, Vec<String>), Failure> {
    let (mut kept, mut notes) = (metrics.to_vec(), Vec::new());
    for (cell, _) in &chosen.cells {
        let Some(record) = record_of(store, &chosen.stage.name, cell)? else {
            continue;
        };
        let is_gone = |chunks: &&Artifact| matches!(store.size(&chunks.digest), Ok(None));
        let Some(chunks) = record.outputs.get("chunks").filter(is_gone) else {
            continue;
        };
        let requests = record.outputs.get("requests");
        if requests.is_some_and(|r| tells_first_chunks(&r.digest, store).unwrap_or(true)) {
            continue;
        }
        let needs = |m: &&Metric| m.columns().any(|column| column == FROM_CHUNKS);
        for metric in kept.iter().copied().filter(needs) {
            let (name, digest) = (metric.name, chunks.digest);
            notes.push(format!(
                "{name} has no bound: it needs the chunks of the answers, and object {digest} is not in the store"
            ));
        }
        kept.retain(|m| !needs(m));
        break;
    }
    Ok((kept, notes))
}

/// Requests of a cell, by the ladder position of each metric.
type Counts = BTreeMap<[usize; LATENCIES.len()], usize>;

/// All possible bounds in ascending order: ten per decade, from 10⁻⁶ to 10¹² ms. All cells share one ladder, so that a
/// single pass over the rows is enough, whatever their range.
static LADDER: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let all = (-6..12).flat_map(|decade| STEPS.map(|step| step * 10_f64.powi(decade)));
    // 1.2 · 10⁻¹ is not a double. Parsing its digits gives the same value as a reader's input.
    let typed = |step: f64| format!("{step:.6e}").parse().unwrap_or(step);
    all.map(typed).collect()
});

/// The possible bounds on one latency: [`LADDER`], and the bound that a question names.
struct Ladder(Cow<'static, [f64]>);

impl Ladder {
    /// Returns the ladder of each latency.
    fn of_each(ask: &Ask) -> Result<[Self; LATENCIES.len()], Failure> {
        let mut ladders = LATENCIES.map(|_| Self(Cow::Borrowed(LADDER.as_slice())));
        for (parameter, value) in &ask.parameters {
            let Some(name) = parameter.strip_prefix("bound.") else {
                continue;
            };
            let bound = value.parse::<f64>().ok().filter(|bound| bound.is_finite());
            let place = LATENCIES.iter().position(|latency| *latency == name);
            let Some((place, bound)) = place.zip(bound) else {
                let message = format!("`{parameter}={value}` is not a bound");
                let hint = format!("a number for one of: {}", LATENCIES.join(", "));
                return Err(Failure::question(message, hint));
            };
            ladders[place] = Self::with(bound);
        }
        Ok(ladders)
    }

    /// Returns the ladder with one more step.
    fn with(bound: f64) -> Self {
        let mut steps = LADDER.clone();
        let at = steps.partition_point(|step| *step < bound);
        if steps.get(at) != Some(&bound) {
            steps.insert(at, bound);
        }
        Self(Cow::Owned(steps))
    }

    /// Returns the position of the smallest step that is at least a value; beyond all steps if it is undefined.
    fn notch(&self, value: Option<f64>) -> usize {
        let defined = value.filter(|value| !value.is_nan());
        defined.map_or(self.0.len(), |value| {
            self.0.partition_point(|step| *step < value)
        })
    }

    /// Returns the steps from the first at or above the smallest value to the first at or above the largest one.
    fn steps(&self, (least, most): (f64, f64)) -> &[f64] {
        if least > most {
            return &[];
        }
        let end = (self.notch(Some(most)) + 1).min(self.0.len());
        &self.0[self.notch(Some(least)).min(end)..end]
    }
}

/// Returns the number of requests of a cell in each combination of bins of their metrics, `[bin, …, count]`. The bins
/// of a metric are its steps and one beyond.
fn bins(counts: &Counts, ladders: &[Ladder], steps: &[&[f64]]) -> Vec<Vec<usize>> {
    // Values below the first step are in its bin; without steps, every value is beyond.
    let first = |(ladder, steps): (&Ladder, &&[f64])| ladder.notch(steps.first().copied());
    let firsts: Vec<usize> = ladders.iter().zip(steps).map(first).collect();
    let mut merged: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
    for (notches, count) in counts {
        let bin = |((notch, steps), first): ((&usize, &&[f64]), &usize)| {
            notch.saturating_sub(*first).min(steps.len())
        };
        let key = notches.iter().zip(steps).zip(&firsts).map(bin).collect();
        *merged.entry(key).or_default() += count;
    }
    let line = |(mut key, count): (Vec<usize>, usize)| {
        key.push(count);
        key
    };
    merged.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_all_shown_and_of_many_both_ends() {
        assert_eq!(ranks(0).count(), 0);
        assert_eq!(ranks(3).collect::<Vec<_>>(), [1, 2, 3]);
        let many: Vec<usize> = ranks(1_000_000).collect();
        assert_eq!((many[0], many[many.len() - 1]), (1, 1_000_000));
        assert!(many.len() <= POINTS + POINTS / 4 + 1, "{}", many.len());
        assert!(many.iter().filter(|rank| **rank > 990_000).count() > POINTS / 5);
    }

    fn plain() -> Ladder {
        Ladder(Cow::Borrowed(LADDER.as_slice()))
    }

    #[test]
    fn the_bounds_that_can_be_set_are_round_and_cover_all_values() {
        let all = plain();
        let ladder = all.steps((18.0, 131.0));
        assert_eq!(ladder.first(), Some(&20.0));
        assert_eq!(ladder.last(), Some(&150.0));
        assert!(
            ladder.contains(&25.0) && ladder.contains(&100.0),
            "{ladder:?}"
        );
        assert_eq!(all.steps((0.12, 0.12)), [0.12]);
        assert_eq!(all.steps((f64::INFINITY, f64::NEG_INFINITY)), [0.0; 0]);
    }

    #[test]
    fn every_value_lies_at_or_below_its_step_and_above_the_one_before() {
        let ladder = plain();
        for i in -40..40_i32 {
            let value = 1.13_f64.powi(i);
            let notch = ladder.notch(Some(value));
            assert!(
                LADDER[notch] >= value && LADDER[notch - 1] < value,
                "{value}"
            );
        }
        let ends = (ladder.notch(None), ladder.notch(Some(0.0)));
        assert_eq!(ends, (LADDER.len(), 0));
        assert!(LADDER.is_sorted() && LADDER.contains(&0.12));
    }

    #[test]
    fn requests_that_meet_bounds_can_be_added_up_from_the_bins() {
        let rows = [
            [Some(10.0), Some(1.0)],
            [Some(20.0), Some(2.0)],
            [Some(20.1), Some(1.0)],
            [None, Some(1.0)],
        ];
        let ladders = [plain(), plain(), plain()];
        let mut counts = Counts::new();
        for row in rows {
            let [first, second] = row.map(|value| ladders[0].notch(value));
            *counts.entry([first, second, 0]).or_default() += 1;
        }
        let steps = [
            ladders[0].steps((10.0, 20.1)),
            ladders[1].steps((1.0, 2.0)),
            &LADDER[..1],
        ];
        let merged = bins(&counts, &ladders, &steps);
        let met = |first: f64, second: f64| -> usize {
            let below = |i: usize, bound: f64| steps[i].iter().filter(|s| **s < bound).count();
            let (first, second) = (below(0, first), below(1, second));
            let inside = |bin: &&Vec<usize>| bin[0] <= first && bin[1] <= second;
            merged.iter().filter(inside).map(|bin| bin[3]).sum()
        };
        // At most 20 and 2: the first two. At most 25 and 1: two. An undefined value meets no bound.
        assert_eq!((met(20.0, 2.0), met(25.0, 1.0), met(25.0, 2.0)), (2, 2, 3));
        let all: usize = merged.iter().map(|bin| bin[3]).sum();
        assert_eq!(all, 4);
    }

    #[test]
    fn a_bound_between_two_steps_is_counted_exactly() {
        let ask = |query: &str| Ask::parse(&format!("/t?{query}")).unwrap();
        let ladders = Ladder::of_each(&ask("bound.ttft_ms=20.05&stage=s")).unwrap();
        let mut counts = Counts::new();
        for value in [10.0, 20.0, 20.05, 20.1, 24.0] {
            let notches = [ladders[0].notch(Some(value)), 0, 0];
            *counts.entry(notches).or_default() += 1;
        }
        let steps = [ladders[0].steps((10.0, 24.0)), &[], &[]];
        let place = steps[0].iter().position(|step| *step == 20.05).unwrap();
        let merged = bins(&counts, &ladders, &steps);
        let met = merged.iter().filter(|bin| bin[0] <= place);
        assert_eq!(met.map(|bin| bin[3]).sum::<usize>(), 3);
        // A step stays one step.
        assert_eq!(Ladder::with(20.0).0.len(), LADDER.len());
        for wrong in ["bound.itl_ms=5", "bound.ttft_ms=inf", "bound.ttft_ms=x"] {
            assert!(Ladder::of_each(&ask(wrong)).is_err(), "{wrong}");
        }
    }
}
