//! `steady-state`: throughput and latency while every client is busy.

use std::collections::BTreeMap;

use contract::{CellRows, Timing};
use pipeline::{Failure, Problem};

use crate::columns::Columns;
use crate::frame::{Bounds, Frame, Level, SourceRows, Spec, spans};
use crate::operator::{Context, Draft, Reads, TypedOperator};
use crate::operators::cell_summary::sample;
use crate::operators::cells::{OfLoad, each_cell};

pub(crate) struct SteadyState;

/// The figures of one cell, overall and while every client was busy. Times are in seconds.
struct Steady {
    clients: Option<usize>,
    window: Option<f64>,
    start: Option<f64>,
    end: Option<f64>,
    /// The length of the steady window; everything below is null without it.
    length: Option<f64>,
    ended: usize,
    tokens: Option<f64>,
    inside: usize,
    ttft_ms: Option<f64>,
    e2e_latency_ms: Option<f64>,
    tpot_ms: Option<f64>,
}

impl Steady {
    fn a_second(&self, amount: f64) -> Option<f64> {
        self.length.map(|length| amount / length)
    }
}

fn columns() -> Columns<'static, Steady> {
    let window = "the steady window";
    let tokens = format!(
        "output tokens received in {window} ÷ its length: a request's tokens shared evenly over its chunks; null if a count or the chunks are unknown"
    );
    let median = |column: &str| format!("median (type 7) of {column} of these");
    let started =
        "when the last client had sent its first measured request, from the first sent_ns";
    let ended = "when the first client had ended its last, from the first sent_ns";
    let length = "steady_end_s − steady_start_s; null if there was no such time or no clients";
    Columns::new()
        .with(
            Spec::text("level", "what a row represents: a cell"),
            |_: &Steady| Level::Cell.word(),
        )
        .with(
            Spec::int(
                "n_clients",
                "1",
                "clients of the closed loop; null for open arrivals",
            ),
            |s| s.clients,
        )
        .with(
            Spec::float(
                "window_s",
                "s",
                "first sent_ns to last done_ns of the measured requests",
            ),
            |s| s.window,
        )
        .with(Spec::float("steady_start_s", "s", started), |s| s.start)
        .with(Spec::float("steady_end_s", "s", ended), |s| s.end)
        .with(Spec::float("steady_window_s", "s", length), |s| s.length)
        .with(
            Spec::float("steady_share", "1", "steady_window_s ÷ window_s").within(Bounds::Share),
            |s| Some(s.length? / s.window?),
        )
        .with(
            Spec::int(
                "steady_n_ok",
                "1",
                format!("ok requests that ended in {window}"),
            ),
            |s| s.length.map(|_| s.ended),
        )
        .with(
            Spec::float(
                "steady_request_throughput",
                "req/s",
                format!("steady_n_ok ÷ {window}"),
            ),
            |s| s.a_second(s.ended as f64),
        )
        .with(
            Spec::float("steady_output_throughput", "tok/s", tokens),
            |s| s.tokens.and_then(|tokens| s.a_second(tokens)),
        )
        .with(
            Spec::int(
                "steady_n_inside",
                "1",
                format!("ok requests sent and ended in {window}"),
            ),
            |s| s.length.map(|_| s.inside),
        )
        .with(
            Spec::float("steady_ttft_ms_p50", "ms", median("ttft_ms")),
            |s| s.ttft_ms,
        )
        .with(
            Spec::float("steady_e2e_latency_ms_p50", "ms", median("e2e_latency_ms")),
            |s| s.e2e_latency_ms,
        )
        .with(
            Spec::float("steady_tpot_ms_p50", "ms/tok", median("tpot_ms")),
            |s| s.tpot_ms,
        )
        .not_negative()
}

impl TypedOperator for SteadyState {
    type Parameters = OfLoad;
    type Made = Frame;
    const NAME: &'static str = "steady-state";
    const SUMMARY: &'static str = "The window in which all clients of a closed loop are busy, and throughput and latency inside it.";
    const SOURCE: &'static str = "\
        The steady window runs from the latest first request of a client to the earliest last answer of a client. \
        Outside it, the server has fewer clients than the cell declares. In a short cell, much of the time is \
        outside.\n\n\
        These columns have other names than those over the whole window (`cell-summary`), which remain the main \
        figures. Latencies are those of requests entirely inside the steady window, which leaves out long requests at \
        its edges.";
    const READS: Reads = Reads::Verified;

    fn plan(_: &mut OfLoad, _: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        Ok(columns().specs())
    }

    fn run(given: &OfLoad, context: &Context<'_>) -> Result<Frame, Failure> {
        let load = context.load(given.load.as_deref())?;
        let columns = columns();
        each_cell(context, load, columns.specs(), |at, cell| {
            let (steady, lineage) = summarise(cell);
            Ok(columns.row(at.to_vec(), &steady, lineage))
        })
    }
}

fn summarise(cell: &CellRows) -> (Steady, Vec<SourceRows>) {
    let timings = contract::timings(cell);
    let first = timings.iter().filter_map(|t| t.request.sent_ns).min();
    let last = timings.iter().filter_map(|t| t.request.done_ns).max();
    let clients = clients(&timings);
    let steady = clients.as_ref().and_then(|c| {
        let start = c.values().map(|(sent, _)| *sent).max()?;
        let end = c.values().map(|(_, done)| *done).min()?;
        Some((start, end))
    });
    let seconds = |ns: i64| ns as f64 / 1e9;
    let since = |ns: Option<i64>| ns.zip(first).map(|(at, first)| seconds(at - first));
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
    let median = |name: &str| {
        let metric = contract::metric(name)?;
        sample(inside.iter().filter_map(|t| metric.of(t))).map(|s| s.median())
    };
    let steady = Steady {
        clients: clients.as_ref().map(BTreeMap::len),
        window: whole,
        start: since(steady.map(|s| s.0)),
        end: since(steady.map(|s| s.1)),
        length,
        ended,
        tokens,
        inside: inside.len(),
        ttft_ms: median("ttft_ms"),
        e2e_latency_ms: median("e2e_latency_ms"),
        tpot_ms: median("tpot_ms"),
    };
    let mut lineage = spans(cell.requests_source(), timings.iter().map(|t| t.row));
    if let Some(chunks) = cell.chunks_source() {
        let used = ok.iter().flat_map(|t| t.chunk_rows.iter().copied());
        lineage.extend(spans(chunks, used));
    }
    (steady, lineage)
}

/// The first `sent` and last `done` time of each client; `None` if a request has no client or no times.
fn clients(timings: &[Timing<'_>]) -> Option<BTreeMap<i64, (i64, i64)>> {
    let mut clients: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for t in timings {
        let (sent, done) = (t.request.sent_ns?, t.request.done_ns?);
        let entry = clients.entry(t.request.client_id?).or_insert((sent, done));
        *entry = (entry.0.min(sent), entry.1.max(done));
    }
    (!clients.is_empty()).then_some(clients)
}
