//! One load run, with or without an experiment around it.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pipeline::stage::{CellStatus, Control};

use crate::api::{Api, Delivery, Exchange};
use crate::api_key::ApiKey;
use crate::arrival::Arrival;
use crate::interpret::interpret;
use crate::measure::{Ended, Limits, Measured, Plan, Planned, Shared, Stop, measure};
use crate::prompts::{Amount, Counter, Prompt, PromptError, PromptSet, ServerCounter};
use crate::random::Origin;
use crate::rows::{ChunkRow, Phase, RequestRow, RequestStatus};
use crate::scrape::{MetricRow, Scraper};
use crate::settings::{Settings, Timeouts, WorkloadChoice};
use crate::span::Span;
use crate::structured::Validator;
use crate::talks::Talks;
use crate::wire::{self, Address};
use crate::workload::{OutputMode, Tokenizer, Workload};

/// What is sent, and when.
#[derive(Clone, Debug)]
pub struct LoadSpec {
    /// What a request asks for.
    pub workload: Workload,
    /// The prompts, made by [`PromptSet::generate`].
    pub prompts: PromptSet,
    /// When requests arrive.
    pub arrival: Arrival,
    /// Whether answers are streamed.
    pub delivery: Delivery,
    /// A request's time limits.
    pub timeouts: Timeouts,
    /// No byte on any stream for so long ends the run as hung.
    pub heartbeat: Span,
    /// Where random arrivals come from.
    pub origin: Origin,
}

/// Where requests go.
#[derive(Clone, Debug)]
pub struct Target {
    /// The server's URL, `http://host:port`.
    pub base_url: String,
    /// The model's name in requests.
    pub model: String,
    /// The API to speak.
    pub api: Api,
    /// The path requests go to, if not the API's usual one.
    pub path: Option<String>,
    /// Headers added to every request.
    pub headers: Vec<(String, String)>,
    /// The key sent as `Authorization: Bearer`; masked in all that comes back.
    pub api_key: Option<ApiKey>,
    /// The path of the Prometheus metrics, if there are any.
    pub metrics: Option<String>,
    /// The server's log, if it can be read here.
    pub log: Option<PathBuf>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every request has its row.
    Complete,
    /// No byte on any stream for the heartbeat.
    Hung,
    /// The server takes no connections any more.
    Gone,
    /// Stopped by the user or the cell's time limit.
    Stopped(CellStatus, String),
}

/// What a run leaves.
#[derive(Clone, Debug)]
pub struct LoadResult {
    /// How it ended.
    pub ending: Ending,
    /// One row per attempt, by request and attempt.
    pub requests: Vec<RequestRow>,
    /// One row per event with text.
    pub chunks: Vec<ChunkRow>,
    /// Samples of the server's metrics.
    pub server_metrics: Vec<MetricRow>,
    /// What the server logged during the run, if its log can be read.
    pub engine_log: Option<String>,
    /// Facts of the run.
    pub cell: CellFacts,
    /// Doubts about the result.
    pub warnings: Vec<String>,
}

/// Facts of a run as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct CellFacts {
    /// Measured requests planned.
    pub expected_requests: u64,
    /// Warm-up requests planned.
    pub warmup_requests: u64,
    /// The kind of arrivals.
    pub arrival: &'static str,
    /// Clients of a closed loop.
    pub clients: Option<u32>,
    /// Mean rate of an open loop, requests a second.
    pub rate: Option<f64>,
    /// The API spoken.
    pub api: &'static str,
    /// Whether answers were streamed.
    pub streamed: bool,
    /// Wall-clock time of the cell's start, ns since the Unix epoch.
    pub started_unix_ns: i64,
    /// When the measured phase began, ns since the cell's start.
    pub measured_from_ns: Option<i64>,
    /// First `sent_ns` and last `done_ns` of measured requests.
    pub window: Option<(i64, i64)>,
    /// CPU time of the measuring thread over the measured phase, ns.
    pub client_cpu_ns: Option<i64>,
    /// Connections opened.
    pub connections: u64,
}

/// The run could not begin.
#[derive(Debug)]
pub struct LoadError(pub String);

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LoadError {}

/// Sends the load to a server and returns every row. Blocks until the end; asks `control`
/// twenty times a second whether to go on, and tells it how many requests are done.
///
/// # Errors
/// If the URL is none, its host has no address, or a thread cannot be made. What the server
/// does wrong is never an error but rows.
pub fn run_load(spec: &LoadSpec, target: &Target, control: &Control) -> Result<LoadResult, LoadError> {
    let address = Address::parse(&target.base_url).map_err(LoadError)?;
    let addresses = resolve(&address)?;
    let prompts: Vec<&crate::prompts::Prompt> =
        spec.prompts.warmup.iter().chain(&spec.prompts.measured).collect();
    let schema = match spec.workload.structured.as_ref().and_then(|s| s.schema.as_ref()) {
        Some(schema) => Some(Validator::new(schema).map_err(LoadError)?),
        None => None,
    };
    let renderer = Renderer { spec, target, address: address.clone() };
    let plan = Arc::new(plan(spec, target, &renderer, addresses.clone(), &prompts)?);
    let log_from = target.log.as_deref().map(file_length).unwrap_or_default();
    let shared = Arc::new(Shared::start());
    let started = SystemTime::now();
    let scraper =
        target.metrics.clone().map(|path| Scraper { address, addresses, path, epoch: shared.epoch });
    let mut warnings = Vec::new();
    let mut server_metrics = Vec::new();
    let scraped = match &scraper {
        Some(scraper) => match scraper.scrape() {
            Ok(rows) => {
                server_metrics.extend(rows);
                true
            }
            Err(error) => {
                warnings.push(format!("no server metrics: {error}"));
                false
            }
        },
        None => false,
    };

    let (sender, receiver) = channel();
    let (stop_scraping, scraping_stops) = channel();
    let (mut requests, mut chunks) = (Vec::with_capacity(prompts.len()), Vec::new());
    let mut ending = Ending::Complete;
    let heartbeat = spec.heartbeat.nanoseconds();
    let total = spec.prompts.measured.len() as u64;
    let mut done = 0;
    let (mut waiting, mut waiting_bytes) = (Vec::new(), 0);
    let mut talks = Talks::default();
    let mut take_apart = |ended: Ended| {
        let Ended { mut attempt, next } = ended;
        if let Some(key) = &target.api_key {
            key.mask_bytes(&mut attempt.bytes);
        }
        let prompt = prompts[attempt.request];
        let (row, more, answer) = interpret(&attempt, prompt, target.api, spec.delivery, schema.as_ref());
        if let Some(asked) = next {
            let history = talks.after(prompt, row.status, answer);
            let bytes = history.map(|history| renderer.render(prompts[attempt.request + 1], history));
            // The measuring thread may have been stopped in the meantime.
            let _nobody_waits = asked.send(bytes);
        } else if prompt.session.is_some() && !row.superseded {
            talks.end(prompt);
        }
        requests.push(row);
        chunks.extend(more);
    };

    let measured = std::thread::scope(|scope| {
        let (watched, planned) = (shared.clone(), plan.clone());
        let measuring = std::thread::Builder::new()
            .name("measure".to_owned())
            .spawn_scoped(scope, move || measure(watched, planned, sender))
            .map_err(|e| LoadError(format!("no thread to measure on: {e}")))?;
        let scraping = scraper
            .as_ref()
            .filter(|_| scraped)
            .map(|scraper| scope.spawn(move || scraper.watch(&scraping_stops)));
        loop {
            match receiver.recv_timeout(Duration::from_millis(50)) {
                Ok(ended) => {
                    let attempt = &ended.attempt;
                    if prompts[attempt.request].phase == Phase::Measured && !attempt.superseded {
                        done += 1;
                        control.progress(done, Some(total), "requests");
                    }
                    waiting_bytes += attempt.bytes.capacity();
                    if prompts[attempt.request].session.is_some() {
                        // The next turn needs this answer.
                        take_apart(ended);
                        continue;
                    }
                    waiting.push(ended);
                    if waiting_bytes > WAITING_BYTES {
                        waiting_bytes = 0;
                        waiting.drain(..).for_each(&mut take_apart);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if shared.stopped().is_some() {
                continue;
            }
            if let Err(failure) = control.check() {
                ending = Ending::Stopped(failure.status, failure.reason);
                shared.stop(Stop::Cancelled);
            } else if heartbeat > 0
                && shared.in_flight.load(Ordering::Relaxed) > 0
                && shared.epoch.now().saturating_sub(shared.last_sign.load(Ordering::Relaxed)) > heartbeat
            {
                shared.stop(Stop::Hung);
            }
        }
        let _scraper_may_be_gone = stop_scraping.send(());
        match scraping.map(std::thread::ScopedJoinHandle::join) {
            Some(Ok((rows, problem))) => {
                server_metrics.extend(rows);
                warnings.extend(problem.map(|p| format!("a scrape of the server's metrics failed: {p}")));
            }
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => {}
        }
        match measuring.join() {
            Ok(Ok(measured)) => Ok(measured),
            Ok(Err(e)) => Err(LoadError(format!("the measuring thread cannot run: {e}"))),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })?;
    match shared.stopped() {
        Some(Stop::Hung) => ending = Ending::Hung,
        Some(Stop::Gone) => ending = Ending::Gone,
        Some(Stop::Cancelled) | None => {}
    }
    waiting.into_iter().for_each(&mut take_apart);
    requests.sort_by_key(|row| (row.request_id, row.attempt));
    chunks.sort_by_key(|chunk| (chunk.request_id, chunk.attempt, chunk.at_ns));
    let cell = facts(spec, target, &requests, measured, started, shared.connections.load(Ordering::Relaxed));
    let engine_log = target.log.as_deref().and_then(|path| read_from(path, log_from).ok());
    let wants_exact = prompts.iter().any(|p| p.output_mode == OutputMode::Exact);
    if wants_exact && !target.api.can_be_exact() {
        warnings.push(format!(
            "{} cannot ignore the end of sequence: exact output lengths are caps here",
            target.api.word()
        ));
    }
    let mut result = LoadResult { ending, requests, chunks, server_metrics, engine_log, cell, warnings };
    if let Some(key) = &target.api_key {
        result.mask(key);
    }
    Ok(result)
}

pub(crate) fn resolve(address: &Address) -> Result<Vec<SocketAddr>, LoadError> {
    let found = (address.host.as_str(), address.port)
        .to_socket_addrs()
        .map_err(|e| LoadError(format!("{address}: {e}")))?
        .collect::<Vec<_>>();
    if found.is_empty() { Err(LoadError(format!("{address} has no address"))) } else { Ok(found) }
}

/// Answers wait to be taken apart until the run is over, so as not to take processor time from
/// the client and a server on the same machine; above so many bytes they are taken apart at once.
const WAITING_BYTES: usize = 64 * 1024 * 1024;

/// Connections opened ahead at most.
const CONNECT_AHEAD: usize = 4096;

/// Renders requests to bytes.
struct Renderer<'a> {
    spec: &'a LoadSpec,
    target: &'a Target,
    address: Address,
}

impl Renderer<'_> {
    fn render(&self, prompt: &Prompt, history: &[Exchange]) -> Vec<u8> {
        let (spec, target) = (self.spec, self.target);
        let path = target.path.as_deref().unwrap_or(target.api.path(spec.delivery));
        let headers: Vec<_> =
            target.headers.iter().cloned().chain(target.api_key.as_ref().map(ApiKey::header)).collect();
        let body = target.api.body(&target.model, &spec.workload, prompt, history, spec.delivery);
        let body = serde_json::to_vec(&body).expect("a JSON value always serializes");
        wire::post(&self.address, path, &headers, &body)
    }
}

fn plan(
    spec: &LoadSpec,
    target: &Target,
    renderer: &Renderer<'_>,
    addresses: Vec<SocketAddr>,
    prompts: &[&Prompt],
) -> Result<Plan, LoadError> {
    let warmup = spec.prompts.warmup.len();
    let sessions = spec
        .prompts
        .sessions()
        .map(|sessions| sessions.into_iter().map(|s| warmup + s.start..warmup + s.end).collect::<Vec<_>>());
    // What arrives: sessions, or requests.
    let measured = sessions.as_ref().map_or(spec.prompts.measured.len(), Vec::len);
    let content = serde_json::to_value(&spec.arrival).expect("an arrival always serializes");
    let offsets = spec
        .arrival
        .offsets(measured, &spec.origin.stream("load arrivals v1", &content))
        .map_err(LoadError)?;
    let render = |prompt: &&Prompt| {
        let later = prompt.turn.is_some_and(|turn| turn > 1);
        let bytes = if later { Vec::new() } else { renderer.render(prompt, &[]) };
        Planned { bytes, think_ns: prompt.think_ns }
    };
    let requests = prompts.iter().map(render).collect();
    if let Some((name, _)) = target.headers.iter().find(|(n, v)| (n.clone() + v).contains(['\r', '\n'])) {
        return Err(LoadError(format!("header {name}: a header holds no line breaks")));
    }
    let wanted = match (&spec.arrival, spec.arrival.clients(), spec.arrival.peak_rate()) {
        (Arrival::Burst, _, _) => measured,
        (_, Some(clients), _) => clients as usize,
        (_, _, Some(rate)) => rate.ceil() as usize,
        // The most that arrive within one second.
        (Arrival::Trace(_), _, _) => most_within_a_second(offsets.as_deref().unwrap_or_default()),
        _ => 1,
    };
    Ok(Plan {
        addresses,
        requests,
        warmup,
        sessions,
        clients: spec.arrival.clients(),
        think_ns: spec.arrival.think_time().nanoseconds(),
        offsets,
        connect_ahead: wanted.min(measured.max(1)).min(CONNECT_AHEAD),
        limits: Limits {
            connect: spec.timeouts.connect.duration(),
            first_token: spec.timeouts.first_token.duration(),
            inter_token: spec.timeouts.inter_token.duration(),
            total: spec.timeouts.total.duration(),
        },
    })
}

fn most_within_a_second(offsets: &[u64]) -> usize {
    let until = |i: usize| offsets.partition_point(|at| *at <= offsets[i].saturating_add(1_000_000_000));
    (0..offsets.len()).map(|i| until(i) - i).max().unwrap_or(1)
}

fn facts(
    spec: &LoadSpec,
    target: &Target,
    requests: &[RequestRow],
    measured: Measured,
    started: SystemTime,
    connections: u64,
) -> CellFacts {
    let sent = requests.iter().filter(|r| r.phase == Phase::Measured);
    let from = sent.clone().filter_map(|r| r.sent_ns).min();
    let to = sent.map(|r| r.done_ns).max();
    let unix = started.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    CellFacts {
        expected_requests: spec.prompts.measured.len() as u64,
        warmup_requests: spec.prompts.warmup.len() as u64,
        arrival: spec.arrival.word(),
        clients: spec.arrival.clients(),
        rate: spec.arrival.rate(),
        api: target.api.word(),
        streamed: spec.delivery == Delivery::Streamed,
        started_unix_ns: i64::try_from(unix).unwrap_or(i64::MAX),
        measured_from_ns: i64::try_from(measured.measured_from_ns).ok(),
        window: from.zip(to),
        client_cpu_ns: i64::try_from(measured.cpu_ns).ok(),
        connections,
    }
}

impl LoadSpec {
    /// Makes what a stage's canonical settings ask for, prompts included.
    ///
    /// # Errors
    /// If the workload is still a name, or the prompts cannot be made.
    pub fn new(settings: Settings, origin: Origin) -> Result<Self, PromptError> {
        Self::counted(settings, origin, None)
    }

    /// Makes what settings ask for, where the server of `target` may be asked to count tokens.
    ///
    /// # Errors
    /// As [`LoadSpec::new`], or if the server cannot count, or counts otherwise than declared.
    pub fn for_target(settings: Settings, origin: Origin, target: &Target) -> Result<Self, PromptError> {
        let tokenizer = match &settings.workload {
            Some(WorkloadChoice::Inline(workload)) => workload.tokenizer.clone(),
            Some(WorkloadChoice::Name(_)) | None => None,
        };
        let Some(Tokenizer::Server(declared)) = tokenizer else {
            return Self::counted(settings, origin, None);
        };
        let address = Address::parse(&target.base_url).map_err(PromptError)?;
        let addresses = resolve(&address).map_err(|e| PromptError(e.0))?;
        let expected = declared.server.fingerprint.as_deref();
        let server =
            ServerCounter::open(address, addresses, &target.model, target.api_key.as_ref(), expected)?;
        Self::counted(settings, origin, Some(&server))
    }

    fn counted(
        settings: Settings,
        origin: Origin,
        server: Option<&dyn Counter>,
    ) -> Result<Self, PromptError> {
        let (Some(WorkloadChoice::Inline(workload)), Some(arrival)) = (settings.workload, settings.arrival)
        else {
            return Err(PromptError(
                "workload or arrival is missing, or the workload still a name".to_owned(),
            ));
        };
        let amount = match settings.sessions {
            Some(sessions) => Amount::Sessions(sessions as usize),
            None => Amount::Requests(settings.requests.unwrap_or_default() as usize),
        };
        Ok(Self {
            prompts: PromptSet::with_counter(&workload, &origin, settings.warmup as usize, amount, server)?,
            workload: *workload,
            arrival,
            delivery: settings.delivery,
            timeouts: settings.timeouts,
            heartbeat: settings.heartbeat,
            origin,
        })
    }
}

impl LoadResult {
    /// Takes the key out of every text that came from the server.
    fn mask(&mut self, key: &ApiKey) {
        let mask = |text: &mut String| *text = key.mask(text);
        for row in &mut self.requests {
            row.error.iter_mut().chain(&mut row.finish_reason).for_each(mask);
        }
        for row in &mut self.server_metrics {
            mask(&mut row.name);
            mask(&mut row.labels);
        }
        self.engine_log.iter_mut().chain(&mut self.warnings).for_each(mask);
    }

    /// Counts measured requests by status, superseded attempts left out.
    pub fn statuses(&self) -> BTreeMap<RequestStatus, u64> {
        let mut counts = BTreeMap::new();
        for row in self.requests.iter().filter(|r| r.phase == Phase::Measured && !r.superseded) {
            *counts.entry(row.status).or_default() += 1;
        }
        counts
    }
}

fn file_length(path: &Path) -> u64 {
    std::fs::metadata(path).map(|m| m.len()).unwrap_or_default()
}

/// The longest slice of a log kept.
const MAX_LOG: u64 = 16 * 1024 * 1024;

fn read_from(path: &Path, from: u64) -> std::io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(MAX_LOG).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
