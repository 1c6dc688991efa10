//! `steady-state`: throughput and latency while every client is busy, or between two declared times.

use std::collections::BTreeMap;

use contract::{CellRows, Timing};
use pipeline::{Failure, Problem, Step};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::columns::Columns;
use crate::frame::{Bounds, Frame, Level, SourceRows, Spec, spans};
use crate::operator::{Context, Draft, Reads, TypedOperator};
use crate::operators::cell_summary::sample;
use crate::operators::cells::each_cell;

pub(crate) struct SteadyState;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The load stage to read, if the stage needs several.
    #[serde(default)]
    load: Option<String>,
    /// The window begins at this time, in seconds from the start of the measured phase, such as the end of a ramp-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    from_s: Option<f64>,
    /// The window ends at this time, in seconds from the start of the measured phase, such as the start of a ramp-down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    until_s: Option<f64>,
}

impl Parameters {
    fn declares(&self) -> bool {
        self.from_s.is_some() || self.until_s.is_some()
    }
}

/// The figures of one cell, overall and in its steady window. Times are in seconds.
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
    ttft_scheduled_ms: Option<f64>,
    e2e_scheduled_ms: Option<f64>,
}

impl Steady {
    fn a_second(&self, amount: f64) -> Option<f64> {
        self.length.map(|length| amount / length)
    }
}

/// Returns the definitions of the columns that depend on where the window comes from: its start, its end, its length, and
/// the requests inside.
fn definitions(is_declared: bool) -> [&'static str; 4] {
    if is_declared {
        [
            "the declared `from-s`, or 0, from the start of the measured phase",
            "the declared `until-s`, or the last done_ns if it came earlier, from the start of the measured phase",
            "steady_end_s − steady_start_s; null if the load ended before the window",
            "ok requests due in the steady window (scheduled_ns), whenever they ended",
        ]
    } else {
        [
            "when the last client had sent its first measured request, from the first sent_ns",
            "when the first client had ended its last, from the first sent_ns",
            "steady_end_s − steady_start_s; null if there was no such time or no clients",
            "ok requests sent and ended in the steady window",
        ]
    }
}

fn columns(is_declared: bool) -> Columns<'static, Steady> {
    let window = "the steady window";
    let tokens = format!(
        "output tokens received in {window} ÷ its length: a request's tokens shared evenly over its chunks; null if a count or the chunks are unknown"
    );
    let median = |column: &str| format!("median (type 7) of {column} of these");
    let [started, ended, length, inside] = definitions(is_declared);
    let columns = Columns::new()
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
        .with(Spec::int("steady_n_inside", "1", inside), |s| {
            s.length.map(|_| s.inside)
        })
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
        );
    let columns = match is_declared {
        true => of_schedule(columns),
        false => columns,
    };
    columns.not_negative()
}

/// Adds the latencies from the scheduled time, which is what selects requests for a declared window.
fn of_schedule(columns: Columns<'static, Steady>) -> Columns<'static, Steady> {
    let spec = |name: &str, metric: &str| {
        Spec::float(name, "ms", format!("median (type 7) of {metric} of these"))
    };
    columns
        .with(
            spec("steady_ttft_scheduled_ms_p50", "ttft_scheduled_ms"),
            |s| s.ttft_scheduled_ms,
        )
        .with(
            spec("steady_e2e_scheduled_ms_p50", "e2e_scheduled_ms"),
            |s| s.e2e_scheduled_ms,
        )
}

impl TypedOperator for SteadyState {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "steady-state";
    const SUMMARY: &'static str = "The window in which all clients of a closed loop are busy, or a window that you declare, and throughput and latency inside it.";
    const SOURCE: &'static str = "\
        The steady window runs from the latest first request of a client to the earliest last answer of a client. \
        Outside it, the server has fewer clients than the cell declares. In a short cell, much of the time is \
        outside.\n\n\
        Open arrivals have no such window. Declare one with `from-s` and `until-s`, for example to leave out a ramp-up \
        and a ramp-down: `{operator: steady-state, from-s: 60, until-s: 360}`. Times count from the start of the \
        measured phase, like those of `steps`. Latencies are then those of requests due in the window, and the table \
        also has `steady_ttft_scheduled_ms_p50` and `steady_e2e_scheduled_ms_p50`.\n\n\
        These columns have other names than those over the whole window (`cell-summary`), which remain the main \
        figures. Without a declared window, latencies are those of requests entirely inside the steady window, which \
        leaves out long requests at its edges.";
    const READS: Reads = Reads::Verified;

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let from = given.from_s.unwrap_or(0.0);
        if let Some(until) = given.until_s.filter(|until| *until <= from) {
            let place = [Step::Key("until-s".to_owned())];
            let message = format!("the window ends at {until} s, and begins at {from} s");
            let hint = "write a later end; both count from the start of the measured phase";
            return Err(vec![draft.settings.problem(&place, message).hint(hint)]);
        }
        Ok(columns(given.declares()).specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let load = context.load(given.load.as_deref())?;
        let columns = columns(given.declares());
        each_cell(context, load, columns.specs(), |at, cell| {
            let (steady, lineage) = summarise(cell, given)?;
            Ok(columns.row(at.to_vec(), &steady, lineage))
        })
    }
}

/// Returns when the measured phase of a cell began: as recorded, or else when its first request was sent.
fn began(cell: &CellRows, first: Option<i64>) -> Option<i64> {
    let recorded = cell
        .cell
        .as_ref()
        .and_then(|cell| cell.int("measured_from_ns"));
    recorded.or(first)
}

fn summarise(cell: &CellRows, given: &Parameters) -> Result<(Steady, Vec<SourceRows>), Failure> {
    let timings = contract::timings(cell);
    let (first, last) = cell.window().unzip();
    let clients = clients(&timings).filter(|_| cell.has_one_clock());
    let seconds = |ns: i64| ns as f64 / 1e9;
    let origin = if given.declares() {
        began(cell, first)
    } else {
        first
    };
    let steady = if given.declares() {
        origin.zip(last).map(|(origin, last)| {
            let after = |s: f64| origin.saturating_add((s * 1e9).round() as i64);
            let end = given.until_s.map_or(last, |until| after(until).min(last));
            (after(given.from_s.unwrap_or(0.0)), end)
        })
    } else {
        clients.as_ref().and_then(|c| {
            let start = c.values().map(|(sent, _)| *sent).max()?;
            let end = c.values().map(|(_, done)| *done).min()?;
            Some((start, end))
        })
    };
    let since = |ns: Option<i64>| ns.zip(origin).map(|(at, origin)| seconds(at - origin));
    let length = steady
        .map(|(start, end)| seconds(end - start))
        .filter(|l| *l > 0.0);
    let whole = cell.window_s();
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
        .filter(|t| match given.declares() {
            true => within(t.request.scheduled_ns.or(t.request.sent_ns)),
            false => within(t.request.sent_ns) && within(t.request.done_ns),
        })
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
        ttft_scheduled_ms: median("ttft_scheduled_ms"),
        e2e_scheduled_ms: median("e2e_scheduled_ms"),
    };
    let mut lineage = spans(cell.requests_source(), timings.iter().map(|t| t.row));
    if let Some(chunks) = cell.chunks_source() {
        let used = ok.iter().flat_map(|t| t.chunk_rows.iter().copied());
        lineage.extend(spans(chunks, used));
    }
    Ok((steady, lineage))
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
