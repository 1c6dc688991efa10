//! In-process engines: a worker is a program that holds the model and generates by itself, without a server. It is
//! started for each load cell, reads one line of JSON from its standard input (what to generate, and with how many
//! clients), and writes a line of JSON for each request.
//!
//! Its stamps are those of the kernel's monotonic clock, which we also use. Each must be between the time at which we
//! wrote the line and the time at which we read the answer. A worker with another clock is refused. `docs/engines.md`
//! describes the protocol.

mod lines;
mod process;
mod rows;

use std::time::Duration;

use contract::{LiveServer, LiveWorker, Phase, ReadyProof, Row, RowSource, ServerStart};
use pipeline::stage::{CellStatus, Done, Failure, Job, Media, Output};
use serde_json::{Value, json};

use self::process::{Process, Said};
use self::rows::Rows;
use crate::extent::Extent;
use crate::prompts::Prompt;
use crate::random::Origin;
use crate::run::{CellFacts, Ending, LoadResult, LoadSpec};
use crate::settings::Settings;
use crate::tables::tables;

/// The version of the protocol.
const PROTOCOL: u32 = 1;

/// Returns the worker that replaces the server, if there is one.
pub(crate) fn of(job: &Job<'_>) -> Option<(LiveWorker, String)> {
    let [cell] = job.input_of_kind("serve")?.cells.as_slice() else {
        return None;
    };
    let live: LiveServer = serde_json::from_value(cell.live.clone()?).ok()?;
    Some((live.worker?, live.model))
}

/// Lets a worker generate the requests of a cell.
///
/// # Errors
/// If the worker cannot be started, breaks the protocol, is silent for too long or leaves requests out, or if the cell
/// is stopped.
pub(crate) fn run(
    job: &Job<'_>,
    settings: Settings,
    worker: &LiveWorker,
    model: &str,
) -> Result<Done, Failure> {
    let generators = settings.generators.is_some();
    let spec =
        LoadSpec::new(settings, Origin::of(job)).map_err(|e| Failure::failed(e.to_string()))?;
    for (given, what) in [
        (spec.workload.sessions.is_some(), "sessions"),
        (spec.workload.structured.is_some(), "structured output"),
        (
            spec.extent != Extent::default(),
            "`duration`, `max-in-flight` and `cancel`",
        ),
        (generators, "`generators`"),
    ] {
        if given {
            let message = format!("in-process engines do not support {what}");
            return Err(
                Failure::failed(message).hint("leave them out, or use an engine that is a server")
            );
        }
    }
    let prompts = prompts(&spec)?;
    let line = request(&spec, worker, model, &prompts, job.seed)?;
    let mut process = Process::start(worker, line, job)?;
    let mut rows = Rows::new(&prompts, process.began());
    let ended = follow(&mut process, &mut rows, &spec, worker, job);
    let log = process.stop();
    let result = LoadResult {
        ending: Ending::Complete,
        cell: facts(&spec, &rows, &process),
        requests: rows.requests(),
        chunks: rows.chunks(),
        server_metrics: Vec::new(),
        engine_log: None,
        warnings: warnings(&process),
    };
    let made = tables(&spec, &result).map_err(|e| Failure::failed(e.to_string()))?;
    let mut outputs = made
        .iter()
        .map(|(name, table)| Output::table(*name, table))
        .collect::<Result<Vec<_>, _>>()?;
    let starts: Vec<ServerStart> = start(&rows, &process).into_iter().collect();
    let starts = ServerStart::table(&starts).map_err(|e| Failure::failed(e.to_string()))?;
    outputs.push(Output::table(ServerStart::TABLE.name, &starts)?);
    outputs.push(Output::text("engine_log", Media::Text, log));
    if let Err(failure) = ended {
        return Err(outputs.into_iter().fold(failure, Failure::evidence));
    }
    if !result.requests.iter().any(contract::Request::is_ok) {
        let first = result
            .requests
            .iter()
            .find_map(|r| r.error.clone())
            .unwrap_or_default();
        let failure = Failure::failed(format!("no request was answered; the first error: {first}"));
        return Err(outputs.into_iter().fold(failure, Failure::evidence));
    }
    Ok(Done {
        outputs,
        warnings: result.warnings,
        ..Done::default()
    })
}

/// Returns the prompts of the warm-up, then the measured ones.
fn prompts(spec: &LoadSpec) -> Result<Vec<Prompt>, Failure> {
    let texts = |phase| {
        let prompts = spec.prompts.of(phase);
        prompts.map_err(|e| Failure::failed(format!("the prompts cannot be read again: {e}")))
    };
    let mut all = texts(Phase::Warmup)?;
    all.extend(texts(Phase::Measured)?);
    Ok(all)
}

/// Makes the worker's input line.
fn request(
    spec: &LoadSpec,
    worker: &LiveWorker,
    model: &str,
    prompts: &[Prompt],
    seed: u64,
) -> Result<String, Failure> {
    let measured = prompts
        .iter()
        .filter(|p| p.phase == Phase::Measured)
        .count();
    let arrivals = serde_json::to_value(&spec.arrival).expect("an arrival always serializes");
    let offsets = spec
        .arrival
        .offsets(
            measured,
            &spec.origin.stream("load arrivals v1", &arrivals),
            &spec.files,
        )
        .map_err(Failure::failed)?;
    let asked: Vec<Value> = prompts
        .iter()
        .enumerate()
        .map(|(id, prompt)| {
            json!({
                "id": id,
                "phase": if prompt.phase == Phase::Warmup { "warmup" } else { "measured" },
                "prompt": prompt.text,
                "output_tokens": prompt.output_tokens,
                "exact": prompt.output_mode == contract::OutputMode::Exact,
            })
        })
        .collect();
    let line = json!({
        "protocol": PROTOCOL,
        "model": worker.model_path,
        "model_name": model,
        "settings": worker.settings,
        "seed": seed,
        "sampling": spec.workload.sampling,
        "clients": spec.arrival.clients(),
        "think_ns": spec.arrival.think_time().nanoseconds(),
        "offsets_ns": offsets,
        "requests": asked,
    });
    Ok(line.to_string() + "\n")
}

/// Reads the worker's output until every request has its row.
fn follow(
    process: &mut Process,
    rows: &mut Rows<'_>,
    spec: &LoadSpec,
    worker: &LiveWorker,
    job: &Job<'_>,
) -> Result<(), Failure> {
    let ready_ns = u64::from(worker.ready_s) * 1_000_000_000;
    let heartbeat_ns = spec.heartbeat.nanoseconds();
    let mut ready = false;
    let mut heard = process.began();
    loop {
        job.control.check()?;
        let wrong = |what: String| {
            Failure::failed(format!("the worker breaks the protocol: {what}"))
                .hint("docs/engines.md describes what a worker reads and writes")
        };
        match process.next() {
            Said::Line(text, at) => {
                heard = at;
                match rows.take(&text, at).map_err(wrong)? {
                    rows::Event::Ready => ready = true,
                    rows::Event::Alive => {}
                    rows::Event::Row => ready = true,
                }
                let (done, all) = rows.counts();
                job.control.progress(done, Some(all), "requests");
                if done == all {
                    return rows.check_order().map_err(wrong);
                }
            }
            Said::Nothing(now) => {
                let (limit, what) = match ready {
                    false => (ready_ns, "was not ready"),
                    true => (heartbeat_ns, "said nothing"),
                };
                if now.saturating_sub(heard) > limit {
                    let reason = format!(
                        "the worker {what} for {} s{}",
                        limit / 1_000_000_000,
                        process.last_words()
                    );
                    return Err(Failure::new(CellStatus::Hung, reason));
                }
            }
            Said::Broken(reason) => return Err(wrong(reason)),
            Said::End => {
                let (done, all) = rows.counts();
                let how = process.how_it_ended();
                let reason = format!(
                    "the worker ended after {done} of {all} requests ({how}){}",
                    process.last_words()
                );
                return Err(Failure::failed(reason));
            }
        }
    }
}

/// Returns what may have distorted the worker's figures.
fn warnings(process: &Process) -> Vec<String> {
    let waited = "the worker wrote lines faster than they were read, so it may have waited in the middle of its work; \
                  run fewer programs beside it";
    let warning = process.had_to_wait().then(|| waited.to_owned());
    warning.into_iter().collect()
}

/// Returns how long the worker took to load the model; none if it did not say that it had.
fn start(rows: &Rows<'_>, process: &Process) -> Option<ServerStart> {
    let (started, started_unix_ns) = process.started();
    let ready = Duration::from_nanos(rows.ready()?.saturating_sub(started));
    Some(ServerStart {
        started_unix_ns,
        ready_s: ready.as_secs_f64(),
        proof: ReadyProof::Worker,
        ..ServerStart::default()
    })
}

fn facts(spec: &LoadSpec, rows: &Rows<'_>, process: &Process) -> CellFacts {
    CellFacts {
        source: RowSource::Measured,
        expected_requests: spec.prompts.count(Phase::Measured) as u64,
        warmup_requests: spec.prompts.count(Phase::Warmup) as u64,
        unsent_requests: 0,
        arrival: spec.arrival.word(),
        clients: spec.arrival.clients(),
        rate: spec.arrival.rate(),
        api: "in-process",
        streamed: rows.any_streamed(),
        started_unix_ns: process.began_unix_ns(),
        measured_from_ns: rows.measured_from(),
        window: rows.window(),
        client_cpu_ns: None,
        connections: 0,
        started_monotonic_ns: i64::try_from(process.began()).unwrap_or(i64::MAX),
        health: None,
        cache_reset: None,
    }
}
