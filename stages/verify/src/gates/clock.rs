//! `clock`: are the stamps plausible?

use std::collections::BTreeMap;

use artifacts::counted;
use contract::{CellRows, RowSource};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, NO_CLOCK, SHOWN, TypedGate, each, listed_of, show};
use crate::study::{Cell, Stage};

pub(crate) struct Clock;

/// Whether cells may be measured at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Windows {
    Exclusive,
    MayOverlap,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// Whether cells were measured one at a time: `exclusive`, or `may-overlap`.
    #[serde(default = "exclusive")]
    windows: Windows,
    /// The largest apparent overlap of two exclusive cells, ms, because setting the wall clock
    /// moves it. Also the largest lead, ms, with which an open arrival may be sent out of order.
    #[serde(default = "fifty")]
    #[schemars(range(min = 0))]
    tolerance_ms: f64,
}

fn exclusive() -> Windows {
    Windows::Exclusive
}

fn fifty() -> f64 {
    50.0
}

/// 2000-01-01: a wall clock before this date was never set.
const SET_SINCE_NS: i64 = 946_684_800_000_000_000;

impl TypedGate for Clock {
    type Parameters = Parameters;
    const NAME: &'static str = "clock";
    const SUMMARY: &'static str = "\
        Stamps are plausible. This is not a test: the gate flags only what cannot happen.\n\n\
        Within a cell:\n\n\
        - Chunks arrive in order.\n\
        - A client of a closed loop sends its next request after its last one is done.\n\
        - Open arrivals are sent in the order of their scheduled times. Otherwise, the clock stepped back.\n\n\
        Between cells:\n\n\
        - The wall clock was set, and it did not step against the monotonic clock.\n\
        - Two measured cells do not overlap in time, from start to last answer. Simulated cells each have their own \
        clock.\n\n\
        A step forward looks like a silence of the server: see `stalls`.";
    const SEVERITY: Severity = Severity::Fail;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let tolerance = (parameters.tolerance_ms * 1e6) as i64;
        let steps = wall_steps(stage);
        let overlaps = match parameters.windows {
            Windows::Exclusive => overlaps(stage, tolerance),
            Windows::MayOverlap => BTreeMap::new(),
        };
        each(stage, &|cell, rows| {
            let mut wrong = Vec::new();
            let backwards = rows.chunks.windows(2).filter(|w| {
                (w[0].request_id, w[0].attempt) == (w[1].request_id, w[1].attempt)
                    && w[1].at_ns < w[0].at_ns
            });
            let backwards = backwards.count();
            if backwards > 0 {
                wrong.push(format!(
                    "{} stamped before the one in front of it",
                    counted(backwards, "chunk")
                ));
            }
            let twice = busy_twice(rows);
            if twice > 0 {
                wrong.push(format!(
                    "{} sent before the last request of the same client was done: \
                     the clock stepped back, or two clients share a number",
                    counted(twice, "request")
                ));
            }
            let imported = cell.source() == Some(RowSource::Imported);
            let back = if imported { 0 } else { sent_back(rows) };
            if back > tolerance {
                wrong.push(format!(
                    "a request sent {} ms before its predecessor: the clock stepped back",
                    back / 1_000_000
                ));
            }
            if let Some(step) = steps.get(&cell.input.coordinates.to_string()) {
                wrong.push(format!(
                    "the wall clock moved by {} s against the monotonic clock since the previous \
                     cell: it was set, or the machine slept",
                    show(*step as f64 / 1e9)
                ));
            }
            let started = cell.fact("started_unix_ns");
            if started.is_some_and(|at| at < SET_SINCE_NS) {
                wrong.push("the wall clock was not set at the start".to_owned());
            }
            let mut evidence = None;
            if let Some(others) = overlaps.get(&cell.input.coordinates.to_string()) {
                wrong.push(format!(
                    "measured at the same time as {}",
                    counted(others.count, "other cell")
                ));
                evidence = listed_of(&others.first, others.count);
            }
            let expected = "stamps in order, one cell at a time";
            if wrong.is_empty()
                && let Some(why) = shows_nothing(rows, imported)
            {
                return Assessment::not_judged(why, expected);
            }
            let observed = match (wrong.is_empty(), started) {
                (false, _) => wrong.join("; "),
                (true, Some(_)) => {
                    format!(
                        "{} and {} in order",
                        counted(rows.requests.len(), "stamp"),
                        counted(rows.chunks.len(), "chunk")
                    )
                }
                (true, None) => "stamps in order; the cell does not say when it started".to_owned(),
            };
            Assessment::new(wrong.is_empty(), observed, expected).evidence(evidence)
        })
    }
}

/// Returns why the rows of an imported file can neither be in order nor out of order; `None` if they can. The order of such rows is
/// not that of sending.
fn shows_nothing(rows: &CellRows, imported: bool) -> Option<&'static str> {
    let started = || rows.cell.as_ref()?.int("started_unix_ns");
    if !imported || !rows.chunks.is_empty() || started().is_some() {
        return None;
    }
    let clients = rows.requests.iter().any(|r| r.client_id.is_some());
    match (rows.has_one_clock(), clients) {
        (true, true) => None,
        (true, false) => Some("the file has no chunks, no clients and no time of day"),
        (false, _) => Some(NO_CLOCK),
    }
}

/// Returns the number of requests that a closed loop's client sent before its previous one was
/// done. A client takes requests in the order of their numbers; the order of stamps would hide a
/// step back. Rows that count from their own sends show none.
fn busy_twice(rows: &CellRows) -> usize {
    let mut by_client: BTreeMap<i64, Vec<(i64, i64, i64)>> = BTreeMap::new();
    let comparable = rows.has_one_clock();
    for r in rows.requests.iter().filter(|r| comparable && !r.superseded) {
        if let (Some(client), Some(sent), Some(done)) = (r.client_id, r.sent_ns, r.done_ns) {
            by_client
                .entry(client)
                .or_default()
                .push((r.request_id, sent, done));
        }
    }
    let mut twice = 0;
    for spans in by_client.values_mut() {
        spans.sort_unstable();
        let mut busy_until = i64::MIN;
        for (_, sent, done) in spans {
            twice += usize::from(*sent < busy_until);
            busy_until = busy_until.max(*done);
        }
    }
    twice
}

/// Returns the largest time, in ns, by which an open arrival was sent before one with a smaller
/// number.
fn sent_back(rows: &CellRows) -> i64 {
    let measured = || rows.measured().filter(|r| r.turn.is_none());
    let mut sent: Vec<(i64, i64)> = measured()
        .filter(|r| r.client_id.is_none())
        .filter_map(|r| Some((r.request_id, r.sent_ns?)))
        .collect();
    sent.sort_unstable();
    let (mut latest, mut back) = (i64::MIN, 0);
    for (_, at) in sent {
        back = back.max(latest.saturating_sub(at));
        latest = latest.max(at);
    }
    back
}

/// A wall-clock change that is more than a correction, ns.
const STEP_NS: i64 = 1_000_000_000;

/// The distance in ns above which the machine may have restarted between two cells.
const NEIGHBOURS_NS: i64 = 600_000_000_000;

/// Returns the steps of the wall clock against the monotonic one between the starts of consecutive
/// cells, for each cell that started soon after another.
fn wall_steps(stage: &Stage<'_>) -> BTreeMap<String, i64> {
    let mut starts: Vec<(i64, i64, String)> = stage
        .cells
        .iter()
        .filter_map(|cell| {
            let monotonic = cell.fact("started_monotonic_ns").filter(|t| *t > 0)?;
            let wall = cell.fact("started_unix_ns")?;
            Some((monotonic, wall, cell.input.coordinates.to_string()))
        })
        .collect();
    starts.sort();
    let step = |w: &[(i64, i64, String)]| {
        let passed = w[1].0 - w[0].0;
        let step = w[1].1.saturating_sub(w[0].1).saturating_sub(passed);
        let near = passed < NEIGHBOURS_NS && step.abs() < 6 * NEIGHBOURS_NS;
        (near && step.abs() > STEP_NS).then(|| (w[1].2.clone(), step))
    };
    starts.windows(2).filter_map(step).collect()
}

/// The cells that overlap another cell: their number and the first few.
#[derive(Default)]
struct Others {
    count: usize,
    first: Vec<String>,
}

impl Others {
    fn add(&mut self, cell: &str) {
        self.count += 1;
        if self.first.len() < SHOWN {
            self.first.push(cell.to_owned());
        }
    }
}

/// Returns the overlapping cells of each cell that has any.
fn overlaps(stage: &Stage<'_>, tolerance: i64) -> BTreeMap<String, Others> {
    let span = |cell: &Cell<'_>| {
        // The clock of a simulated cell starts at the time in its settings, whatever ran before.
        let simulated = cell.source() == Some(RowSource::Simulated);
        let start = cell.fact("started_unix_ns").filter(|_| !simulated)?;
        let last = cell
            .answers()?
            .requests
            .iter()
            .filter_map(|r| r.done_ns)
            .max()?;
        Some((
            start,
            start.checked_add(last)?,
            cell.input.coordinates.to_string(),
        ))
    };
    let mut spans: Vec<(i64, i64, String)> = stage.cells.par_iter().filter_map(span).collect();
    spans.sort();
    let mut others: BTreeMap<String, Others> = BTreeMap::new();
    for (i, (_, end, a)) in spans.iter().enumerate() {
        for (_, _, b) in spans[i + 1..]
            .iter()
            .take_while(|(start, _, _)| *start < end.saturating_sub(tolerance))
        {
            others.entry(a.clone()).or_default().add(b);
            others.entry(b.clone()).or_default().add(a);
        }
    }
    others
}
