//! `clock`: can the stamps be what they say?

use std::collections::BTreeMap;

use rows::CellRows;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::{TypedGate, Verdict, each, listed};
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
    /// By how many ms two exclusive cells may seem to overlap: what setting the wall clock moves
    /// it by.
    #[serde(default = "fifty")]
    tolerance_ms: f64,
}

fn exclusive() -> Windows {
    Windows::Exclusive
}

fn fifty() -> f64 {
    50.0
}

/// 2000-01-01: a wall clock before it was never set.
const SET_SINCE_NS: i64 = 946_684_800_000_000_000;

impl TypedGate for Clock {
    type Parameters = Parameters;
    const NAME: &'static str = "clock";
    const SUMMARY: &'static str = "Stamps can be what they say: chunks arrive in order, a client of a closed loop has one \
                                   request in flight at a time, the wall clock was set, and the time from start to \
                                   last answer of no cell overlaps another's. No test: what it flags cannot happen.";
    const SEVERITY: Severity = Severity::Fail;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let overlaps = match parameters.windows {
            Windows::Exclusive => overlaps(stage, (parameters.tolerance_ms * 1e6) as i64),
            Windows::MayOverlap => BTreeMap::new(),
        };
        each(stage, |cell, rows| {
            let mut wrong = Vec::new();
            let backwards = rows.chunks.windows(2).filter(|w| {
                (w[0].request_id, w[0].attempt) == (w[1].request_id, w[1].attempt)
                    && w[1].at_ns < w[0].at_ns
            });
            let backwards = backwards.count();
            if backwards > 0 {
                wrong.push(format!(
                    "{backwards} chunks stamped before the chunk they follow"
                ));
            }
            let twice = busy_twice(rows);
            if twice > 0 {
                wrong.push(format!(
                    "{twice} requests sent while their client's last one was in flight"
                ));
            }
            let started = cell.fact("started_unix_ns");
            if started.is_some_and(|at| at < SET_SINCE_NS) {
                wrong.push("the wall clock was not set at the start".to_owned());
            }
            let mut evidence = None;
            if let Some(others) = overlaps.get(&cell.input.coordinates.to_string()) {
                wrong.push(format!(
                    "measured at the same time as {} other cells",
                    others.len()
                ));
                evidence = listed(others);
            }
            let observed = match (wrong.is_empty(), started) {
                (false, _) => wrong.join("; "),
                (true, Some(_)) => {
                    format!(
                        "{} stamps and {} chunks in order",
                        rows.requests.len(),
                        rows.chunks.len()
                    )
                }
                (true, None) => "stamps in order; the cell does not say when it started".to_owned(),
            };
            Verdict::new(
                wrong.is_empty(),
                observed,
                "stamps in order, one cell at a time",
            )
            .evidence(evidence)
        })
    }
}

/// Returns how many requests a closed loop's client sent before its last one was done.
fn busy_twice(rows: &CellRows) -> usize {
    let mut of: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
    for r in rows.requests.iter().filter(|r| !r.superseded) {
        if let (Some(client), Some(sent), Some(done)) = (r.client_id, r.sent_ns, r.done_ns) {
            of.entry(client).or_default().push((sent, done));
        }
    }
    let mut twice = 0;
    for spans in of.values_mut() {
        spans.sort_unstable();
        let mut busy_until = i64::MIN;
        for (sent, done) in spans {
            twice += usize::from(*sent < busy_until);
            busy_until = busy_until.max(*done);
        }
    }
    twice
}

/// Returns, for each cell that overlaps another, the others.
fn overlaps(stage: &Stage<'_>, tolerance: i64) -> BTreeMap<String, Vec<String>> {
    let span = |cell: &Cell<'_>| {
        let start = cell.fact("started_unix_ns")?;
        let last = cell
            .rows
            .as_ref()?
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
    let mut spans: Vec<(i64, i64, String)> = stage.cells.iter().filter_map(span).collect();
    spans.sort();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (i, (_, end, a)) in spans.iter().enumerate() {
        for (_, _, b) in spans[i + 1..]
            .iter()
            .take_while(|(start, _, _)| *start < end.saturating_sub(tolerance))
        {
            found.entry(a.clone()).or_default().push(b.clone());
            found.entry(b.clone()).or_default().push(a.clone());
        }
    }
    found
}
