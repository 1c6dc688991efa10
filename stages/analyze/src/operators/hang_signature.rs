//! `hang-signature`: the state of the machine while no answer came.

use artifacts::{Table, TableError};
use pipeline::{CellStatus, Failure, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::columns::Columns;
use crate::frame::{Frame, Spec, spans};
use crate::intake::Rows;
use crate::operator::{Context, Draft, Reads, TypedOperator};
use crate::operators::cells::each_status;
use crate::operators::censored::GIVEN_UP;

pub(crate) struct HangSignature;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The load stage to read, if the stage needs several.
    #[serde(default)]
    load: Option<String>,
    /// The shortest silence that is called a stall, ms.
    #[serde(default = "at_least")]
    at_least_ms: f64,
    /// The mean share of time of a GPU, or the number of processors of the server, from which it is called busy.
    #[serde(default = "busy")]
    busy: f64,
}

fn at_least() -> f64 {
    1000.0
}

fn busy() -> f64 {
    0.9
}

/// The longest silence of a cell, and the samples taken during it.
struct Silence {
    status: CellStatus,
    at_ns: Option<i64>,
    ms: Option<f64>,
    in_flight: usize,
    gpu: Option<f64>,
    power: Option<f64>,
    server_cpu: Option<f64>,
    running: Option<f64>,
    samples: usize,
    signature: &'static str,
}

impl Silence {
    /// No silence, in a cell that ended with this status.
    fn none(status: CellStatus) -> Self {
        Self {
            status,
            at_ns: None,
            ms: None,
            in_flight: 0,
            gpu: None,
            power: None,
            server_cpu: None,
            running: None,
            samples: 0,
            signature: "none",
        }
    }
}

fn columns() -> Columns<'static, Silence> {
    let silence = "longest time without a sign of life on any stream while a request was in flight; a sign is a first or last \
        token, a chunk, or the end of an answer; a request that the client gave up is in flight until then, and its end does not count";
    let signature = "`none` if the silence is shorter than `at-least-ms`, otherwise `busy` if the GPU or the server computed \
        throughout, `idle` if neither did, and `not sampled` without samples";
    let during = |what: &str| format!("{what} during the silence; null if not sampled");
    let status = "how the cell ended: `ok`, or `failed`, `hung` or `timeout`. No gate has judged the rows of a cell that is \
        not ok";
    Columns::new()
        .with(Spec::text("cell_status", status), |s: &Silence| {
            s.status.word()
        })
        .with(Spec::text("signature", signature), |s| s.signature)
        .with(Spec::float("silence_ms", "ms", silence), |s| s.ms)
        .with(
            Spec::float(
                "silence_from_s",
                "s",
                "when it began, since the cell's start",
            ),
            |s| s.at_ns.map(|ns| ns as f64 / 1e9),
        )
        .with(
            Spec::int("in_flight", "requests", "requests in flight when it began"),
            |s| s.in_flight,
        )
        .with(
            Spec::float(
                "gpu_busy",
                "1",
                during("mean share of time in which a kernel ran, all GPUs"),
            ),
            |s| s.gpu,
        )
        .with(
            Spec::float("gpu_power_w", "W", during("mean power of one GPU")),
            |s| s.power,
        )
        .with(
            Spec::float(
                "server_cpu",
                "processors",
                during("processors that the server's processes took together, mean"),
            ),
            |s| s.server_cpu,
        )
        .with(
            Spec::float(
                "slots_busy",
                "1",
                during("share of the server's slots that served a request (llama.cpp)"),
            ),
            |s| s.running,
        )
        .with(
            Spec::int(
                "n_samples",
                "1",
                "samples of GPUs and processes during the silence",
            ),
            |s| s.samples,
        )
}

impl TypedOperator for HangSignature {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "hang-signature";
    const SUMMARY: &'static str = "One row per load cell: its longest silence while requests were in flight, and \
                                   whether GPU and server computed during it.";
    const SOURCE: &'static str = "\
        A server that computes without answering hangs in a different way from one that waits. \"GPU 99 %, no rows \
        for hours\" is `busy`; a lost wake-up is `idle`. A kernel that spins counts as busy, so `busy` does not mean \
        progress.\n\n\
        The load generator measures the silence over all streams together; the samples come from telemetry. In a cell \
        that hung, the silence lasts until the cell was ended. A cell that left no request rows, for example because \
        its server did not start, is listed as missing, with its reason.\n\n\
        A stage that has only tables of this operator needs no verify stage, and runs even if no cell is ok. To judge \
        whether a silence is unusual, use the gate `stalls`.";
    const READS: Reads = Reads::AlsoFailed;

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let positive = |key: &str, value: f64| {
            let wrong = !(value > 0.0 && value.is_finite());
            wrong.then(|| draft.problem(key, format!("`{key}` must be above 0, got {value}")))
        };
        let problems = [
            positive("at-least-ms", given.at_least_ms),
            positive("busy", given.busy),
        ];
        let problems: Vec<Problem> = problems.into_iter().flatten().collect();
        crate::operator::unless(problems, || columns().specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let load = context.load(given.load.as_deref())?;
        let columns = columns();
        each_status(context, load, columns.specs(), |at, status, rows| {
            let cell = rows.get()?;
            let sent = cell.requests.iter().filter(|r| !r.superseded);
            let flights: Vec<Flight> = sent
                .filter_map(|r| {
                    Some(Flight {
                        sent: r.sent_ns?,
                        done: r.done_ns?,
                        answered: !GIVEN_UP.contains(&r.status),
                    })
                })
                .collect();
            let of_requests = cell
                .requests
                .iter()
                .flat_map(|r| [r.first_token_ns, r.last_token_ns].into_iter().flatten());
            let signs: Vec<i64> = of_requests
                .chain(cell.chunks.iter().map(|c| c.at_ns))
                .collect();
            let mut silence = Silence::none(status);
            let mut lineage = spans(
                cell.source("requests", cell.requests_digest),
                0..cell.requests.len(),
            );
            let longest = longest(&flights, &signs).filter(|_| cell.has_one_clock());
            if let Some((from, to)) = longest {
                silence.at_ns = Some(from);
                silence.ms = Some((to - from) as f64 / 1e6);
                silence.in_flight = flights
                    .iter()
                    .filter(|f| f.sent <= from && f.done > from)
                    .count();
                sampled(rows, (from, to), &mut silence, &mut lineage)?;
                silence.signature = signature(&silence, given);
            }
            Ok(columns.row(at.to_vec(), &silence, lineage))
        })
    }
}

fn signature(silence: &Silence, given: &Parameters) -> &'static str {
    let shares = [silence.gpu, silence.server_cpu];
    match silence.ms {
        Some(ms) if ms >= given.at_least_ms => match shares {
            [None, None] => "not sampled",
            shares
                if shares
                    .into_iter()
                    .flatten()
                    .any(|share| share >= given.busy) =>
            {
                "busy"
            }
            _ => "idle",
        },
        _ => "none",
    }
}

/// A request between its first byte and its end.
struct Flight {
    sent: i64,
    done: i64,
    /// Whether the server ended it. The client ends a request that it gives up.
    answered: bool,
}

/// Returns the longest time between two signs of life, in ns, that some request spans. A time with no request in flight
/// is not silence.
fn longest(flights: &[Flight], signs: &[i64]) -> Option<(i64, i64)> {
    // A request sent to an idle server begins a silence. A request sent during a silence does not end it.
    let ends = |f: &Flight| (f.done, -1, f.answered);
    let mut events: Vec<(i64, i64, bool)> = flights
        .iter()
        .flat_map(|f| [(f.sent, 1, false), ends(f)])
        .collect();
    events.extend(signs.iter().map(|at| (*at, 0, true)));
    events.sort_unstable();
    let (mut open, mut since) = (0, None);
    let mut longest: Option<(i64, i64)> = None;
    for (at, change, sign) in events {
        if change <= 0
            && let Some(from) = since
            && longest.is_none_or(|(a, b)| at - from > b - a)
        {
            longest = Some((from, at));
        }
        let before = open;
        open += change;
        since = match open {
            0 => None,
            _ if sign || before == 0 => Some(at),
            _ => since,
        };
    }
    longest.filter(|(from, to)| to > from)
}

/// Reads the samples taken during a silence.
fn sampled(
    rows: &Rows<'_>,
    window: (i64, i64),
    silence: &mut Silence,
    lineage: &mut Vec<crate::frame::SourceRows>,
) -> Result<(), Failure> {
    let wrong = |e: TableError| Failure::failed(format!("samples: {e}"));
    if let Some((source, table)) = rows.table("gpu_telemetry")? {
        let within = within(&table, window).map_err(wrong)?;
        silence.gpu = mean(&table, "sm_utilisation", &within).map_err(wrong)?;
        silence.power = mean(&table, "power_w", &within).map_err(wrong)?;
        silence.samples += within.len();
        lineage.extend(spans(&source, within));
    }
    if let Some((source, table)) = rows.table("process_telemetry")? {
        let roles = table.text("role").map_err(wrong)?;
        let mut within = within(&table, window).map_err(wrong)?;
        within.retain(|row| roles[*row] == Some("server"));
        let stamps = table.int("at_ns").map_err(wrong)?;
        let mut at: Vec<Option<i64>> = within.iter().map(|row| stamps[*row]).collect();
        at.dedup();
        let each = mean(&table, "cpu", &within).map_err(wrong)?;
        // The mean over a sample's processes, times their number, is their sum.
        let together = within.len() as f64 / at.len().max(1) as f64;
        silence.server_cpu = each.map(|mean| mean * together);
        silence.samples += within.len();
        lineage.extend(spans(&source, within));
    }
    if let Some((source, table)) = rows.table("slots")? {
        let within = within(&table, window).map_err(wrong)?;
        let processing = table.boolean("processing").map_err(wrong)?;
        let states: Vec<bool> = within.iter().filter_map(|row| processing[*row]).collect();
        let busy = states.iter().filter(|busy| **busy).count();
        silence.running = (!states.is_empty()).then(|| busy as f64 / states.len() as f64);
        lineage.extend(spans(&source, within));
    }
    Ok(())
}

fn within(table: &Table, (from, to): (i64, i64)) -> Result<Vec<usize>, TableError> {
    let stamps = table.int("at_ns")?.into_iter().enumerate();
    let inside = |at: Option<i64>| at.is_some_and(|at| (from..=to).contains(&at));
    Ok(stamps
        .filter(|(_, at)| inside(*at))
        .map(|(row, _)| row)
        .collect())
}

fn mean(table: &Table, column: &str, rows: &[usize]) -> Result<Option<f64>, TableError> {
    if !table.has(column) {
        return Ok(None);
    }
    let values = table.float(column)?;
    let measured = statistics::Sample::new(rows.iter().filter_map(|row| values[*row]));
    Ok(measured.ok().map(|sample| sample.mean()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_lies_between_two_signs_and_needs_a_request_in_flight() {
        // Two requests overlap; the server is idle from 50 to 90.
        let flights = [answered(0, 40), answered(5, 50), answered(90, 120)];
        assert_eq!(longest(&flights, &[10, 20, 38, 50, 100]), Some((100, 120)));
        assert_eq!(longest(&flights, &[10, 48]), Some((10, 40)));
        // A second request sent during a silence does not end it.
        let flights = [answered(0, 100), answered(60, 110)];
        assert_eq!(longest(&flights, &[10]), Some((10, 100)));
        assert_eq!(longest(&[], &[1, 5]), None);
    }

    #[test]
    fn the_end_of_a_request_that_the_client_gave_up_is_no_sign_of_life() {
        // The server falls silent at 10. The client gives up one request at 60 and the other at 90.
        let flights = [given_up(0, 60), given_up(5, 90)];
        assert_eq!(longest(&flights, &[10]), Some((10, 90)));
        // Between them, an answer would have been a sign.
        let flights = [answered(0, 60), given_up(5, 90)];
        assert_eq!(longest(&flights, &[10]), Some((10, 60)));
    }

    fn answered(sent: i64, done: i64) -> Flight {
        let answered = true;
        Flight {
            sent,
            done,
            answered,
        }
    }

    fn given_up(sent: i64, done: i64) -> Flight {
        Flight {
            answered: false,
            ..answered(sent, done)
        }
    }

    #[test]
    fn what_computes_in_silence_is_busy() {
        let given = Parameters {
            load: None,
            at_least_ms: 100.0,
            busy: 0.9,
        };
        let signature = |ms, gpu, server_cpu| {
            let silence = Silence {
                ms: Some(ms),
                gpu,
                server_cpu,
                ..Silence::none(CellStatus::Ok)
            };
            signature(&silence, &given)
        };
        assert_eq!(signature(50.0, Some(1.0), None), "none");
        assert_eq!(signature(500.0, Some(0.99), Some(0.1)), "busy");
        assert_eq!(signature(500.0, Some(0.0), Some(0.1)), "idle");
        assert_eq!(signature(500.0, None, None), "not sampled");
    }
}
