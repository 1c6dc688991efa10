//! The requests that load cells lost, and how far they could move an effect.
//!
//! A statistic over answered requests leaves out those that failed. If they failed because they were slow, the others flatter
//! their side. Nothing tells how slow they were, so the worst is assumed: each counts as if it had been as slow as the slowest
//! answer of either side at its place, or had taken the whole time that its client waited. If everything above a limit was lost,
//! the slowest answer of its own side is too fast.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use artifacts::Scalar;
use contract::{CellRows, METRICS, Metric, Timing};
use pipeline::{Coordinates, Failure};
use rayon::prelude::*;
use statistics::Sample;

use crate::clock_steps::ClockSteps;
use crate::intake::Load;
use crate::operators::units::Scale;

/// The name of a cell: its stage and coordinates.
pub(crate) type Name = (String, String);

/// The requests of one cell.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) coordinates: Coordinates,
    /// Its place among the loads and their cells.
    place: (usize, usize),
    /// Measured requests, answered or not.
    rows: usize,
    /// Those that were not answered, and those that were planned and have no row.
    lost: usize,
    /// Whether nothing tells how many requests were planned.
    unplanned: bool,
    /// The most requests that could be missing between the others; `None` where the times do not tell.
    gaps: Option<usize>,
    /// The time from the first request sent to the last one done, ns.
    pub(crate) window: Option<f64>,
    /// The spans whose times were recorded in steps.
    pub(crate) steps: ClockSteps,
}

impl Asked {
    /// Reads all its rows.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn rows<'l>(&self, loads: &'l [Load<'_>]) -> Result<Cow<'l, CellRows>, Failure> {
        loads[self.place.0].cells[self.place.1].1.get()
    }

    /// Whether another cell has the same coordinates, except on one axis.
    fn is_beside(&self, other: &Self, axis: &str) -> bool {
        let without = |cell: &Self| -> Vec<(String, String)> {
            let others = cell.coordinates.0.iter().filter(|(name, _)| name != axis);
            others
                .map(|(name, label)| (name.clone(), label.to_string()))
                .collect()
        };
        without(self) == without(other)
    }
}

/// Counts the requests of every cell that enters.
///
/// # Errors
/// If rows cannot be read.
pub(crate) fn asked(loads: &[Load<'_>]) -> Result<BTreeMap<Name, Asked>, Failure> {
    let mut all = BTreeMap::new();
    for (l, load) in loads.iter().enumerate() {
        let one = |(c, (at, rows)): (usize, &(Vec<Scalar>, crate::intake::Rows<'_>))| {
            let at = load.axes.iter().cloned().zip(at.iter().cloned());
            let coordinates = Coordinates(at.collect());
            let answers = rows.answers()?;
            let measured = answers.requests.iter().filter(|r| r.is_measured());
            let (mut count, mut failed) = (0, 0);
            let mut times = Vec::new();
            for request in measured {
                count += 1;
                failed += usize::from(!request.is_ok());
                times.push(request.sent_ns.zip(request.done_ns));
            }
            let planned = answers
                .cell
                .as_ref()
                .and_then(|cell| usize::try_from(cell.int("expected_requests")?).ok());
            let name = (load.stage.clone(), coordinates.to_string());
            let asked = Asked {
                window: answers.window().map(|(first, last)| (last - first) as f64),
                steps: ClockSteps::of(&answers),
                coordinates,
                place: (l, c),
                rows: count,
                lost: failed + planned.map_or(0, |planned| planned.saturating_sub(count)),
                unplanned: planned.is_none(),
                gaps: times.into_iter().collect::<Option<_>>().and_then(gaps),
            };
            Ok((name, asked))
        };
        let cells: Vec<Result<_, Failure>> = load.cells.par_iter().enumerate().map(one).collect();
        for cell in cells {
            all.extend([cell?]);
        }
    }
    Ok(all)
}

/// The requests that each of two sides lost.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LostRequests {
    pub(crate) lost: [usize; 2],
    pub(crate) asked: [usize; 2],
    /// By how much the effect of the first side over the second would change if every lost request had been as slow as
    /// the slowest answer of either side at its place, on the scale; `None` where the column does not tell.
    pub(crate) shift: Option<f64>,
}

impl LostRequests {
    /// Counts the requests that the sides lost in some cells; `None` if none was lost.
    ///
    /// # Errors
    /// If rows cannot be read.
    pub(crate) fn of(
        loads: &[Load<'_>],
        cells: &[&Asked],
        (axis, sides): (&str, [&str; 2]),
        units: &[String],
        (column, scale): (&str, Scale),
    ) -> Result<Option<Self>, Failure> {
        let label = |cell: &Asked| cell.coordinates.get(axis).map(ToString::to_string);
        let side_of = |cell: &Asked| {
            let label = label(cell)?;
            sides.iter().position(|side| *side == label)
        };
        let unrecorded = unrecorded(cells, axis, units);
        let mut total = Self {
            lost: [0; 2],
            asked: [0; 2],
            shift: None,
        };
        let (mut shifts, mut counts) = ([Some(0.0), Some(0.0)], [0_usize; 2]);
        for (cell, absent) in cells.iter().zip(unrecorded) {
            let Some(side) = side_of(cell) else { continue };
            let lost = cell.lost + absent;
            counts[side] += 1;
            total.lost[side] += lost;
            total.asked[side] += cell.rows + absent;
            if lost > 0 {
                let mut top = f64::NEG_INFINITY;
                let beside = cells.iter().filter(|other| side_of(other).is_some());
                for other in beside.filter(|other| other.is_beside(cell, axis)) {
                    top = top.max(slowest(&*other.rows(loads)?, column).unwrap_or(top));
                }
                let moved = shift(&*cell.rows(loads)?, (lost, top), column, scale);
                shifts[side] = shifts[side].zip(moved).map(|(sum, moved)| sum + moved);
            }
        }
        if total.lost == [0; 2] {
            return Ok(None);
        }
        let mean = |side: usize| shifts[side].map(|sum: f64| sum / counts[side].max(1) as f64);
        total.shift = mean(0).zip(mean(1)).map(|(a, b)| a - b);
        Ok(Some(total))
    }
}

/// Returns for each cell how many requests its file seems to lack. A file that another tool wrote may hold answered requests
/// only, and does not tell how many were planned. If the cells of a side at one coordinate differ in their number of rows,
/// the largest number at this coordinate, of either side, counts as planned. A load that ended after a time has another number
/// in each cell, and none is missing: in a closed loop, a client waits for its answer, so a missing request leaves a gap.
fn unrecorded(cells: &[&Asked], axis: &str, units: &[String]) -> Vec<usize> {
    let place = |cell: &Asked| -> Vec<String> {
        let others = cell.coordinates.0.iter();
        let others = others.filter(|(name, _)| name != axis && !units.contains(name));
        others.map(|(_, label)| label.to_string()).collect()
    };
    let side = |cell: &Asked| cell.coordinates.get(axis).map(ToString::to_string);
    let mut rows: BTreeMap<Vec<String>, BTreeMap<Option<String>, BTreeSet<usize>>> =
        BTreeMap::new();
    for cell in cells.iter().filter(|cell| cell.unplanned) {
        let here = rows.entry(place(cell)).or_default();
        here.entry(side(cell)).or_default().insert(cell.rows);
    }
    let absent = |cell: &&Asked| {
        let here = rows.get(&place(cell)).filter(|_| cell.unplanned)?;
        let own = here.get(&side(cell)).filter(|own| own.len() > 1)?;
        let most = here.values().flatten().max().or(own.last())?;
        let fewer = most - cell.rows;
        Some(cell.gaps.map_or(fewer, |gaps| fewer.min(gaps)))
    };
    cells
        .iter()
        .map(|cell| absent(cell).unwrap_or_default())
        .collect()
}

/// The shortest time, as a share of the median duration, for which a number of requests in flight counts. Stamps of a send and
/// of the answer before it may be a little out of order.
const SHORTEST: f64 = 0.02;

/// Returns how many requests of median duration would fit between those of a load, given as their times of sending and ending,
/// ns, while fewer than the usual number were in flight. `None` where the times do not tell.
fn gaps(mut times: Vec<(i64, i64)>) -> Option<usize> {
    let mut durations: Vec<f64> = times.iter().map(|(from, to)| (to - from) as f64).collect();
    durations.sort_by(f64::total_cmp);
    let median = *durations.get(durations.len() / 2)?;
    times.sort_unstable();
    let (first, last) = (times.first()?.0, times.last()?.0);
    let sides = times
        .iter()
        .flat_map(|(from, to)| [(*from, 1_i64), ((*to).min(last), -1)]);
    let mut sides: Vec<(i64, i64)> = sides.collect();
    sides.sort_unstable();
    if median <= 0.0 || last <= first {
        return None;
    }
    let (mut busy, mut flying, mut most) = (0.0, 0_i64, 0_i64);
    for pair in sides.windows(2) {
        let ((from, change), (to, _)) = (pair[0], pair[1]);
        flying += change;
        let lasted = (to - from) as f64;
        busy += lasted * flying as f64;
        if lasted >= SHORTEST * median {
            most = most.max(flying);
        }
    }
    let idle = most as f64 * (last - first) as f64 - busy;
    Some((idle / median).max(0.0).round() as usize)
}

/// A statistic of the answered requests of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Statistic {
    Mean,
    Quantile(f64),
}

impl Statistic {
    pub(crate) fn of(self, sample: &Sample) -> f64 {
        match self {
            Self::Mean => sample.mean(),
            Self::Quantile(p) => sample.quantile(p),
        }
    }

    /// Returns the statistic of a metric that a column's name stands for; `None` for another metric or statistic.
    pub(crate) fn behind(column: &str, metric: &str) -> Option<Self> {
        let rest = column.strip_prefix(metric)?.strip_prefix('_')?;
        let mut words = rest.split('_');
        let first = words.next()?;
        if first == "mean" {
            return Some(Self::Mean);
        }
        let is_number = |word: &&str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
        let whole = first.strip_prefix('p').filter(is_number)?;
        let fraction = words.next().filter(is_number).unwrap_or("0");
        let percent: f64 = format!("{whole}.{fraction}").parse().ok()?;
        (percent < 100.0).then_some(Self::Quantile(percent / 100.0))
    }
}

/// Returns the metric and the statistic that a column's name stands for, such as `ttft_ms_p50` or `e2e_latency_ms_mean`.
pub(crate) fn statistic_of(column: &str) -> Option<(&'static Metric, Statistic)> {
    METRICS
        .iter()
        .find_map(|metric| Some((metric, Statistic::behind(column, metric.name)?)))
}

/// Returns the metric whose slowest answer bounds what a column would be.
fn metric_of(column: &str) -> Option<&'static Metric> {
    match statistic_of(column) {
        Some((metric, _)) => Some(metric),
        None if column.contains("_throughput") => contract::metric("e2e_latency_ms"),
        None => None,
    }
}

/// Returns whether a column counts each lost request as one that met nothing, so that a loss cannot flatter its side.
fn counts_losses(column: &str) -> bool {
    let own = column.strip_suffix("_mean").unwrap_or(column);
    ["n_ok", "ok_rate", "n_met", "slo_pass_rate"].contains(&own)
}

/// Returns the slowest answer of a cell by the metric behind a column.
fn slowest(cell: &CellRows, column: &str) -> Option<f64> {
    let metric = metric_of(column)?;
    let timings = contract::timings(cell);
    let ok = timings.iter().filter(|t| t.request.is_ok());
    ok.filter_map(|t| metric.of(t)).reduce(f64::max)
}

/// Returns by how much the value of a column would change if the lost requests of a cell had been answered as slowly as
/// `top`, or had taken the whole time that the client waited. Returns `None` if no request was answered, or the column is
/// neither a mean or quantile of a time nor a throughput, nor counts the lost requests itself.
fn shift(cell: &CellRows, (lost, top): (usize, f64), column: &str, scale: Scale) -> Option<f64> {
    let timings = contract::timings(cell);
    let (ok, failed): (Vec<&Timing<'_>>, Vec<&Timing<'_>>) =
        timings.iter().partition(|t| t.request.is_ok());
    let waited = |t: &&Timing<'_>| {
        let (sent, done) = (t.request.sent_ns?, t.request.done_ns?);
        Some((done - sent) as f64 / 1e6)
    };
    if counts_losses(column) {
        // A request without a row is in no count.
        return (failed.len() >= lost).then_some(0.0);
    }
    let waits: Vec<f64> = failed.iter().map(|t| waited(t).unwrap_or(0.0)).collect();
    let waits = waits.into_iter().chain(std::iter::repeat(0.0)).take(lost);
    if !top.is_finite() {
        return None;
    }
    if let Some((metric, statistic)) = statistic_of(column) {
        let mut all: Vec<f64> = ok.iter().filter_map(|t| metric.of(t)).collect();
        let mean_of = |values: &[f64]| {
            let sample = Sample::new(values.iter().copied()).ok()?;
            Some(statistic.of(&sample))
        };
        let before = mean_of(&all)?;
        // A time per token does not grow with a wait.
        let whole = metric.unit == "ms";
        all.extend(waits.map(|wait| if whole { top.max(wait) } else { top }));
        return scale.effect(mean_of(&all)?, before);
    }
    if scale == Scale::Ratio {
        let clients: BTreeSet<i64> = timings.iter().filter_map(|t| t.request.client_id).collect();
        if clients.is_empty() {
            // Arrivals decide how long an open loop takes.
            return Some(0.0);
        }
        let (first, last) = cell.window()?;
        let window = (last - first) as f64 / 1e6;
        // A client waits for its answer, so the load would have taken longer by what is left of it.
        let more: f64 = waits.map(|wait| (top - wait).max(0.0)).sum();
        return scale.effect(window, window + more / clients.len() as f64);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_missing_from_a_closed_loop_leaves_a_gap() {
        // Four clients, each with requests of 90 to 130 ms, one after the other, for two seconds.
        let mut all = Vec::new();
        for client in 0..4_i64 {
            let (mut at, mut number) = (client, 0);
            while at < 2_000 {
                let lasts = 90 + (7 * number + 13 * client) % 41;
                all.push((1_000_000 * at, 1_000_000 * (at + lasts)));
                (at, number) = (at + lasts, number + 1);
            }
        }
        assert_eq!(gaps(all.clone()), Some(0));
        let without = |share: usize| {
            let kept = all.iter().enumerate().filter(|(i, _)| i % share != 0);
            gaps(kept.map(|(_, times)| *times).collect()).unwrap()
        };
        let missing = all.len().div_ceil(5);
        assert!(
            (missing - 2..=missing + 2).contains(&without(5)),
            "{} {missing}",
            without(5)
        );
        // Under open arrivals, the number in flight varies, and the gaps tell nothing.
        let open: Vec<(i64, i64)> = (0..50)
            .map(|i| (i * 100 + (i * i) % 90, i * 100 + (i * i) % 90 + 120))
            .collect();
        assert!(gaps(open).unwrap() > 10);
        assert_eq!(gaps(Vec::new()), None);
        assert_eq!(gaps(vec![(0, 5), (0, 7)]), None);
    }

    #[test]
    fn a_column_that_counts_lost_requests_cannot_hide_them() {
        let mut failed = contract::synthetic::request(1);
        failed.status = contract::RequestStatus::Timeout;
        let rows = contract::synthetic::rows_of(vec![contract::synthetic::request(0), failed]);
        let moved = |lost: usize, column: &str| {
            shift(&rows, (lost, f64::NEG_INFINITY), column, Scale::Difference)
        };
        for column in ["slo_pass_rate", "ok_rate_mean"] {
            assert_eq!(moved(1, column), Some(0.0));
            // The second lost request has no row.
            assert_eq!(moved(2, column), None);
        }
        assert_eq!(moved(1, "goodput"), None);
    }

    #[test]
    fn the_statistic_of_a_column_is_in_its_name() {
        let read_from = |column: &str| {
            statistic_of(column).map(|(metric, statistic)| match statistic {
                Statistic::Mean => (metric.name, None),
                Statistic::Quantile(p) => (metric.name, Some((1000.0 * p).round())),
            })
        };
        assert_eq!(read_from("ttft_ms_mean"), Some(("ttft_ms", None)));
        assert_eq!(read_from("ttft_ms_p50"), Some(("ttft_ms", Some(500.0))));
        assert_eq!(
            read_from("tpot_ms_p99_9_mean"),
            Some(("tpot_ms", Some(999.0)))
        );
        assert_eq!(
            read_from("ttft_ms_p50_mean"),
            Some(("ttft_ms", Some(500.0)))
        );
        assert_eq!(read_from("ttft_ms_std"), None);
        assert_eq!(read_from("output_throughput"), None);
        assert!(metric_of("output_throughput").is_some() && metric_of("ok_rate").is_none());
    }
}
