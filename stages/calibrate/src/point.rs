//! One point of the grid: load, join with the server's log, errors.

use std::collections::BTreeMap;

use contract::{Api, Chunk, Phase, Request, RequestStatus};
use load::reference::{Launcher, Truth};
use load::{
    ClientHealth, Distribution, Ending, Generators, LoadError, LoadResult, LoadSpec, Origin,
    Settings, Target, TimeSpan, run_load,
};
use pipeline::stage::Control;
use serde_json::json;

use crate::grid::{Grid, Point};

/// The results at a point.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The point.
    pub point: Point,
    /// Measured requests answered and found in the server's log.
    pub joined: u64,
    /// Measured requests that were not answered or not found.
    pub lost: u64,
    /// Errors by metric, in the order of the documentation.
    pub errors: Vec<(&'static str, Errors)>,
    /// The time from the run's start to its first request, ms. The connections are opened in this
    /// time.
    pub first_sent_ms: Option<f64>,
    /// CPU time of the measuring thread for each chunk, µs.
    pub cpu_per_chunk_us: Option<f64>,
    /// The share of chunks whose stamp is late by at most the run's own stated bound.
    pub bound_covers: Option<f64>,
    /// The health of the client.
    pub health: Option<ClientHealth>,
}

/// Errors of reported values against true ones, ms.
#[derive(Clone, Copy, Debug)]
pub struct Errors {
    /// The mean of reported − true.
    pub bias: f64,
    /// |reported − true|.
    pub absolute: Distribution,
    /// The reported values.
    pub reported: Distribution,
    /// The true values.
    pub truth: Distribution,
}

impl Errors {
    /// Returns the errors of pairs (reported, true); `None` without any.
    fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        let take =
            |side: fn(&(f64, f64)) -> f64| Distribution::of(pairs.iter().map(side).collect());
        Some(Self {
            bias: take(|(reported, truth)| reported - truth)?.mean,
            absolute: take(|(reported, truth)| (reported - truth).abs())?,
            reported: take(|pair| pair.0)?,
            truth: take(|pair| pair.1)?,
        })
    }
}

/// Measures one point.
///
/// # Errors
/// If the server cannot be started, the run is stopped, or the log cannot be read.
pub fn measure_point(
    grid: &Grid,
    point: Point,
    launcher: &Launcher,
    core: Option<usize>,
    origin: &Origin,
    generators: &Generators,
    control: &Control,
) -> Result<Measured, LoadError> {
    let server = launcher
        .start(&options(grid.ttft, point.gap, grid.tokens, core))
        .map_err(|e| LoadError::new(format!("the reference server: {e}")))?;
    let arrival = match (point.concurrency, point.rate) {
        (Some(clients), _) => json!({"closed-loop": {"clients": clients}}),
        (None, Some(rate)) => json!({"constant": {"rate": rate}}),
        (None, None) => json!("sequential"),
    };
    let settings: Settings = serde_json::from_value(json!({
        "workload": {
            // Twenty of hundreds of words: all prompts differ, so they can join rows with the log.
            "prompts": {"words": {"length": 20}},
            "output": {"tokens": grid.tokens, "mode": "exact"},
        },
        "arrival": arrival,
        "requests": point.requests,
        "warmup": point.concurrency.map_or(1, |clients| u64::from(clients).min(point.requests)),
    }))
    .map_err(|e| LoadError::new(format!("the settings of a point: {e}")))?;
    let spec = LoadSpec {
        generators: generators.clone(),
        ..LoadSpec::new(settings, origin.clone()).map_err(|e| LoadError::new(e.to_string()))?
    };
    let target = Target {
        ca_file: launcher.ca_file.clone(),
        ..Target::new(server.url(), "reference", Api::OpenaiCompletions)
    };
    let result = run_load(&spec, &target, control)?;
    ended_well(&result.ending, "the reference server")?;
    let truth = server
        .truth()
        .map_err(|e| LoadError::new(format!("the reference server's log: {e}")))?;
    Ok(judge(point, &result, &truth))
}

/// Returns the server arguments for this timing.
fn options(ttft: TimeSpan, gap: TimeSpan, tokens: u32, core: Option<usize>) -> Vec<String> {
    let ms = |span: TimeSpan| (span.nanoseconds() as f64 / 1e6).to_string();
    let mut options = vec![
        "--ttft-ms".to_owned(),
        ms(ttft),
        "--gap-ms".to_owned(),
        ms(gap),
    ];
    options.extend(["--tokens".to_owned(), tokens.to_string()]);
    if let Some(core) = core {
        options.extend(["--core".to_owned(), core.to_string()]);
    }
    options
}

/// Returns an error if a run did not end regularly.
pub(super) fn ended_well(ending: &Ending, server: &str) -> Result<(), LoadError> {
    match ending {
        Ending::Complete => Ok(()),
        Ending::Stopped(_, reason) => Err(LoadError::new(reason.clone())),
        Ending::Refused(words) => Err(LoadError::new(words.to_string())),
        Ending::Lost(lost) => Err(LoadError::new(lost.to_string())),
        Ending::Hung | Ending::Gone(_) => {
            Err(LoadError::new(format!("{server} stopped answering")))
        }
    }
}

/// Joins rows with the log and computes the errors.
fn judge(point: Point, result: &LoadResult, truth: &[Truth]) -> Measured {
    let log: BTreeMap<&str, &Truth> = truth
        .iter()
        .map(|t| (t.prompt_digest.as_str(), t))
        .collect();
    let mut chunks: BTreeMap<(i64, i64), Vec<&Chunk>> = BTreeMap::new();
    for chunk in &result.chunks {
        chunks
            .entry((chunk.request_id, chunk.attempt))
            .or_default()
            .push(chunk);
    }
    let start = result.cell.started_monotonic_ns;
    let (mut pairs, mut joined, mut lost, mut chunk_count) = (Pairs::default(), 0, 0, 0_u64);
    for row in result
        .requests
        .iter()
        .filter(|r| r.phase == Phase::Measured && !r.superseded)
    {
        let own = chunks
            .get(&(row.request_id, row.attempt))
            .map(Vec::as_slice)
            .unwrap_or_default();
        chunk_count += own.len() as u64;
        let digest = row.prompt_digest.as_deref().unwrap_or_default();
        let answered = log.get(digest).copied();
        let matching =
            answered.filter(|t| t.sent_ns.len() == own.len() && row.status == RequestStatus::Ok);
        match matching.and_then(|truth| pairs.add(row, own, truth, start)) {
            Some(()) => joined += 1,
            None => lost += 1,
        }
    }
    let health = result.cell.health.clone();
    let stated = health.as_ref().and_then(|h| h.stamp_error_bound_ms);
    let late: Vec<bool> = stated.map_or(Vec::new(), |bound| {
        pairs.stamp.iter().map(|(r, t)| r - t > bound).collect()
    });
    let covered = late.iter().filter(|late| !**late).count();
    let per_chunk = |ns: i64| (chunk_count > 0).then(|| ns as f64 / 1e3 / chunk_count as f64);
    Measured {
        point,
        joined,
        lost,
        first_sent_ms: result
            .requests
            .iter()
            .filter_map(|r| r.sent_ns)
            .min()
            .map(|ns| ns as f64 / 1e6),
        cpu_per_chunk_us: result.cell.client_cpu_ns.and_then(per_chunk),
        bound_covers: (!late.is_empty()).then(|| covered as f64 / late.len() as f64),
        errors: pairs.errors(),
        health,
    }
}

/// Pairs of reported and true values by metric, ms.
#[derive(Default)]
struct Pairs {
    ttft: Vec<(f64, f64)>,
    e2e: Vec<(f64, f64)>,
    icl: Vec<(f64, f64)>,
    stamp: Vec<(f64, f64)>,
    send_lag: Vec<(f64, f64)>,
}

impl Pairs {
    /// Adds a request. `start` is the client's start on the clock of the log.
    fn add(&mut self, row: &Request, chunks: &[&Chunk], truth: &Truth, start: i64) -> Option<()> {
        let ms = |ns: i64| ns as f64 / 1e6;
        let sent = row.sent_ns?;
        // Converts the log's times to the client's clock.
        let here = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX) - start;
        let read = here(truth.arrived_ns);
        let (first, last) = (here(*truth.sent_ns.first()?), here(*truth.sent_ns.last()?));
        self.ttft
            .push((ms(row.first_token_ns? - sent), ms(first - read)));
        self.e2e
            .push((ms(row.last_token_ns? - sent), ms(last - read)));
        self.send_lag
            .push((ms(row.send_lag_ns?), ms(read - row.scheduled_ns?)));
        for (chunk, handed) in chunks.iter().zip(&truth.sent_ns) {
            self.stamp
                .push((ms(chunk.at_ns - sent), ms(here(*handed) - sent)));
        }
        for (two, handed) in chunks.windows(2).zip(truth.sent_ns.windows(2)) {
            self.icl.push((
                ms(two[1].at_ns - two[0].at_ns),
                (handed[1] - handed[0]) as f64 / 1e6,
            ));
        }
        Some(())
    }

    fn errors(&self) -> Vec<(&'static str, Errors)> {
        [
            ("ttft", &self.ttft),
            ("e2e", &self.e2e),
            ("icl", &self.icl),
            ("stamp", &self.stamp),
            ("send_lag", &self.send_lag),
        ]
        .into_iter()
        .filter_map(|(name, pairs)| Some((name, Errors::of(pairs)?)))
        .collect()
    }
}
