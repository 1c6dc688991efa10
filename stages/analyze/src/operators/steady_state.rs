//! `steady-state`: throughput and latency while every client is busy.

use artifacts::Scalar;
use pipeline::Failure;
use rows::{CellRows, Timing};
use std::collections::BTreeMap;

use crate::frame::{Level, Row, Spec, count, number, spans, text};
use crate::operators::cell_summary::sample;
use crate::operators::cells::OfEachCell;

pub(crate) struct SteadyState;

fn columns() -> Vec<Spec> {
    let window = "the steady window";
    vec![
        Spec::text("level", "what a row stands for: a cell"),
        Spec::int(
            "n_clients",
            "1",
            "clients of the closed loop; null for open arrivals",
        ),
        Spec::float(
            "window_s",
            "s",
            "first sent_ns to last done_ns of the measured requests",
        ),
        Spec::float(
            "steady_start_s",
            "s",
            "when the last client had sent its first measured request, from the first sent_ns",
        ),
        Spec::float(
            "steady_end_s",
            "s",
            "when the first client had ended its last, from the first sent_ns",
        ),
        Spec::float(
            "steady_window_s",
            "s",
            "steady_end_s − steady_start_s; null if there was no such time or no clients",
        ),
        Spec::float("steady_share", "1", "steady_window_s ÷ window_s"),
        Spec::int(
            "steady_n_ok",
            "1",
            format!("ok requests that ended in {window}"),
        ),
        Spec::float(
            "steady_request_throughput",
            "req/s",
            format!("steady_n_ok ÷ {window}"),
        ),
        Spec::float(
            "steady_output_throughput",
            "tok/s",
            format!(
                "output tokens received in {window} ÷ its length: a request's tokens shared evenly over its chunks; null if a count or the chunks are unknown"
            ),
        ),
        Spec::int(
            "steady_n_inside",
            "1",
            format!("ok requests sent and ended in {window}"),
        ),
        Spec::float(
            "steady_ttft_ms_p50",
            "ms",
            "median (type 7) of ttft_ms of these",
        ),
        Spec::float(
            "steady_e2e_latency_ms_p50",
            "ms",
            "median (type 7) of e2e_latency_ms of these",
        ),
        Spec::float(
            "steady_tpot_ms_p50",
            "ms/tok",
            "median (type 7) of tpot_ms of these",
        ),
    ]
}

impl OfEachCell for SteadyState {
    const NAME: &'static str = "steady-state";
    const SUMMARY: &'static str = "The window in which all clients of a closed loop are busy, and throughput and latency inside it.";
    const SOURCE: &'static str = "From the latest first request of a client to the earliest last answer: outside it the server has fewer clients than the cell says, and a short cell is mostly outside. Its columns are named apart from those over the whole window (`cell-summary`), which stay the headline. Inside, latencies are those of requests wholly inside, which leaves out long ones at the edges.";

    fn columns() -> Vec<Spec> {
        columns()
    }

    fn row(at: &[Scalar], cell: &CellRows) -> Result<Row, Failure> {
        Ok(summarise(at.to_vec(), cell))
    }
}

fn summarise(key: Vec<Scalar>, cell: &CellRows) -> Row {
    let timings = rows::timings(cell);
    let first = timings.iter().filter_map(|t| t.request.sent_ns).min();
    let last = timings.iter().filter_map(|t| t.request.done_ns).max();
    let clients = clients(&timings);
    let steady = clients.as_ref().and_then(|c| {
        let start = c.values().map(|(sent, _)| *sent).max()?;
        let end = c.values().map(|(_, done)| *done).min()?;
        Some((start, end))
    });
    let seconds = |ns: i64| ns as f64 / 1e9;
    let since = |ns: Option<i64>| number(ns.zip(first).map(|(at, first)| seconds(at - first)));
    let length = steady
        .map(|(start, end)| seconds(end - start))
        .filter(|l| *l > 0.0);
    let whole = first
        .zip(last)
        .map(|(a, b)| seconds(b - a))
        .filter(|w| *w > 0.0);
    let steady_then = steady.filter(|_| length.is_some());
    let within = |at: Option<i64>| {
        steady_then
            .zip(at)
            .is_some_and(|((a, b), at)| a <= at && at <= b)
    };
    let ok: Vec<&Timing<'_>> = timings.iter().filter(|t| t.request.is_ok()).collect();
    let ended = ok.iter().filter(|t| within(t.request.done_ns)).count();
    let inside: Vec<&&Timing<'_>> = ok
        .iter()
        .filter(|t| within(t.request.sent_ns) && within(t.request.done_ns))
        .collect();
    let tokens: Option<f64> = ok
        .iter()
        .map(|t| {
            let received = t
                .chunk_rows
                .iter()
                .filter(|row| within(Some(cell.chunks[**row].at_ns)))
                .count();
            let all = t.chunk_rows.len();
            Some(t.request.output_tokens? as f64 * received as f64 / all as f64).filter(|_| all > 0)
        })
        .sum();
    let per_second = |amount: Option<f64>| number(amount.zip(length).map(|(a, l)| a / l));
    let known = |n: usize| {
        if length.is_some() {
            count(n)
        } else {
            Scalar::Null
        }
    };
    let median = |name: &str| {
        let values = rows::metric(name).and_then(|m| sample(inside.iter().filter_map(|t| m.of(t))));
        number(values.map(|s| s.median()))
    };
    let values = vec![
        text(Level::Cell.word()),
        clients.as_ref().map_or(Scalar::Null, |c| count(c.len())),
        number(whole),
        since(steady.map(|s| s.0)),
        since(steady.map(|s| s.1)),
        number(length),
        number(length.zip(whole).map(|(l, w)| l / w)),
        known(ended),
        per_second(Some(ended as f64)),
        per_second(tokens),
        known(inside.len()),
        median("ttft_ms"),
        median("e2e_latency_ms"),
        median("tpot_ms"),
    ];
    let mut lineage = spans(
        &cell.requests_digest.to_string(),
        timings.iter().map(|t| t.row),
    );
    if let Some(digest) = cell.chunks_digest {
        let used = ok.iter().flat_map(|t| t.chunk_rows.iter().copied());
        lineage.extend(spans(&digest.to_string(), used));
    }
    Row {
        key,
        values,
        lineage,
    }
}

/// First sent and last done of each client; `None` if a request has no client or no times.
fn clients(timings: &[Timing<'_>]) -> Option<BTreeMap<i64, (i64, i64)>> {
    let mut clients: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for t in timings {
        let (sent, done) = (t.request.sent_ns?, t.request.done_ns?);
        let entry = clients.entry(t.request.client_id?).or_insert((sent, done));
        *entry = (entry.0.min(sent), entry.1.max(done));
    }
    (!clients.is_empty()).then_some(clients)
}
