//! A cell's latencies in sending order, cut into waves: the data of the tests for trend.
//!
//! Requests in flight at the same time share the server. Their latencies are therefore not
//! independent, and a rank test over requests would raise false alarms. A *wave* is as many
//! consecutive requests as are in flight on average; its median is one value. Under open arrivals,
//! latency is mostly the queue, which remembers a burst for longer than a wave. There the tests use
//! the server's pace instead (see `pace`).

use std::collections::BTreeMap;

use contract::{CellRows, ChunkGaps, Request, Timing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Sample, holm, tarone_family};

use crate::finding::Judgement;
use crate::gate::{Assessment, show};
use crate::pace::{is_open, paces};

/// Which latency is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) enum Latency {
    /// Time to the first token.
    #[serde(rename = "ttft_ms")]
    Ttft,
    /// The end-to-end latency.
    #[serde(rename = "e2e_latency_ms")]
    E2e,
}

impl Latency {
    pub(crate) fn e2e() -> Self {
        Self::E2e
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ttft => "ttft_ms",
            Self::E2e => "e2e_latency_ms",
        }
    }

    fn of(self, request: &Request) -> Option<f64> {
        let timing = Timing {
            row: 0,
            request,
            gaps: ChunkGaps::default(),
            chunk_rows: Vec::new(),
        };
        contract::metric(self.name()).and_then(|metric| metric.of(&timing))
    }

    /// Returns the measured ok requests of a cell that have this latency, in sending order.
    fn sent(self, rows: &CellRows) -> Vec<(&Request, f64)> {
        let mut sent: Vec<_> = rows
            .measured()
            .filter(|r| r.is_ok())
            .filter_map(|r| Some((r.sent_ns?, r, self.of(r)?)))
            .collect();
        sent.sort_by_key(|(at, r, _)| (*at, r.request_id));
        sent.into_iter().map(|(_, r, value)| (r, value)).collect()
    }

    /// Returns the logarithms of the lengths of answer and prompt for the latencies of `in_order`.
    pub(crate) fn lengths_in_order(self, rows: &CellRows) -> Vec<[f64; 2]> {
        let log = |n: i64| (n.max(0) as f64).ln_1p();
        let lengths = |(r, _): (&Request, f64)| {
            let prompt = r.prompt_tokens.unwrap_or(0) - r.cached_prompt_tokens.unwrap_or(0);
            [log(r.output_tokens.unwrap_or(0)), log(prompt)]
        };
        self.sent(rows).into_iter().map(lengths).collect()
    }

    /// Returns the latencies of a cell's measured ok requests, in sending order. A later turn of a
    /// session has a longer prompt, so its latencies are scaled to the median of all turns.
    pub(crate) fn in_order(self, rows: &CellRows) -> Vec<f64> {
        let sent = self.sent(rows).into_iter();
        let sent: Vec<_> = sent.map(|(r, value)| (r.turn, value)).collect();
        let mut turns: BTreeMap<Option<i64>, Vec<f64>> = BTreeMap::new();
        for (turn, latency) in &sent {
            turns.entry(*turn).or_default().push(*latency);
        }
        if turns.len() < 2 {
            return sent.into_iter().map(|(_, latency)| latency).collect();
        }
        let all: Vec<f64> = sent.iter().map(|(_, latency)| *latency).collect();
        let middle = median(&all).unwrap_or(1.0);
        let middles: BTreeMap<_, _> = turns
            .into_iter()
            .filter_map(|(turn, values)| Some((turn, median(&values).filter(|m| *m > 0.0)?)))
            .collect();
        let scaled = |(turn, latency): (Option<i64>, f64)| {
            latency * middle / middles.get(&turn).copied().unwrap_or(middle)
        };
        sent.into_iter().map(scaled).collect()
    }

    /// Returns the series for the test of a slow start: the medians of all whole waves in a closed
    /// loop, or the paces of batches under open arrivals.
    pub(crate) fn since_the_start(self, rows: &CellRows) -> Series {
        Series::of(rows, || self.waves(rows))
    }

    /// Returns the series for the test of a trend: the medians of the inner waves in a closed loop,
    /// or the paces of batches under open arrivals.
    pub(crate) fn throughout(self, rows: &CellRows) -> Series {
        Series::of(rows, || self.inner_waves(rows))
    }

    /// Returns the medians of a cell's waves, in sending order. The last wave counts only if it is
    /// whole.
    fn waves(self, rows: &CellRows) -> Vec<f64> {
        self.in_order(rows)
            .chunks_exact(rows.in_flight())
            .filter_map(median)
            .collect()
    }

    /// Returns the same without the first and the last wave if several requests are in flight. The
    /// first wave finds an idle server and the last one a server that empties; neither is drift.
    fn inner_waves(self, rows: &CellRows) -> Vec<f64> {
        inner_waves(&self.in_order(rows), rows)
    }
}

/// Returns the medians of the inner waves of values in sending order.
pub(crate) fn inner_waves(values: &[f64], rows: &CellRows) -> Vec<f64> {
    let size = rows.in_flight();
    let outer = if size > 1 { size } else { 0 };
    let inner = values
        .get(outer..values.len().saturating_sub(outer))
        .unwrap_or_default();
    inner.chunks_exact(size).filter_map(median).collect()
}

/// The data of a test for trend: values that would be exchangeable without one.
pub(crate) struct Series {
    pub(crate) values: Vec<f64>,
    /// The name of one value.
    pub(crate) called: &'static str,
    /// The unit after a value, with a space in front.
    pub(crate) unit: &'static str,
}

impl Series {
    fn of(rows: &CellRows, waves: impl FnOnce() -> Vec<f64>) -> Self {
        if is_open(rows) {
            Self {
                values: paces(rows),
                called: "batches",
                unit: "× the usual time per token",
            }
        } else {
            Self {
                values: waves(),
                called: "waves",
                unit: " ms",
            }
        }
    }
}

/// Returns the median; `None` without values.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    Sample::new(values.iter().copied()).ok().map(|s| s.median())
}

/// Returns the relative change of a series from its first to its last value: the Theil–Sen slope
/// (the median of all pairwise slopes; Sen 1968, JASA 63, 1379) times the steps, over the median.
/// `None` for fewer than two values or median 0.
pub(crate) fn relative_change(values: &[f64]) -> Option<f64> {
    let mut slopes = Vec::new();
    for (i, a) in values.iter().enumerate() {
        slopes.extend(
            values[i + 1..]
                .iter()
                .enumerate()
                .map(|(j, b)| (b - a) / (j + 1) as f64),
        );
    }
    let middle = median(values).filter(|m| *m != 0.0)?;
    Some(median(&slopes)? * (values.len() - 1) as f64 / middle)
}

/// The test of one cell, before the number of other tests is known.
pub(crate) struct CellTest {
    pub(crate) cell: usize,
    pub(crate) p: f64,
    /// The smallest p value that this number of rows can give.
    pub(crate) least: f64,
    /// Whether the effect is large enough to be relevant.
    pub(crate) matters: bool,
    pub(crate) observed: String,
}

/// Turns tests of cells into judgements that jointly raise a false alarm with a chance of at most
/// `alpha`: Holm's adjustment over Tarone's family. Cells outside the family have too few rows to
/// show anything among so many tests, and are not judged.
pub(crate) fn settle(tests: Vec<CellTest>, alpha: f64, expected: &str) -> Vec<Judgement> {
    let least: Vec<f64> = tests.iter().map(|t| t.least).collect();
    let members = tarone_family(&least, alpha);
    let p: Vec<f64> = tests
        .iter()
        .zip(&members)
        .filter(|(_, m)| **m)
        .map(|(t, _)| t.p)
        .collect();
    let mut adjusted = holm(&p).into_iter();
    let settled = tests.into_iter().zip(members).map(|(test, member)| {
        let verdict = match member.then(|| adjusted.next()).flatten() {
            Some(adjusted) => {
                let observed = format!(
                    "{}; p {} adjusted over {} cells",
                    test.observed,
                    show(adjusted),
                    p.len()
                );
                Assessment::new(!(adjusted <= alpha && test.matters), observed, expected)
            }
            None => Assessment::not_judged(
                format!("{}; too few values to judge this cell alone", test.observed),
                expected,
            ),
        };
        verdict.of_cell(test.cell)
    });
    settled.collect()
}
