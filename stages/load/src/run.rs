//! One load run, with or without an experiment around it.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use artifacts::DiskFault;
use contract::{CacheReset, Chunk, Phase, Request, RequestStatus, RowSource, ServerMetric};
use net::ApiKey;
use pipeline::sources::NamedFiles;
use pipeline::stage::{CellStatus, Control};

use crate::arrival::Arrival;
use crate::client_health::ClientHealth;
use crate::drive::{Companions, Driven, Start, drive};
use crate::extent::Extent;
use crate::generators::{ByGenerator, Generators, Lost};
use crate::get::Endpoint;
use crate::named_file;
use crate::peer::{Peer, PeerError};
use crate::prompts::{Amount, Counter, PromptError, PromptSet, ServerCounter};
use crate::random::Origin;
use crate::refused::Refusal;
use crate::scrape::{Held, INTERVAL, Kept, Metrics};
use crate::settings::{Settings, Timeouts, WorkloadChoice};
use crate::span::TimeSpan;
use crate::summarizer::Summarizer;
use crate::summary::{Slo, Summary};
use crate::tally::Tally;
use crate::telemetry::{Absent, Companion};
use crate::workload::{ChatTemplate, Output, Tokenizer, Workload};
use apis::Delivery;
use contract::Api;

/// The requests of a run and their times.
#[derive(Clone, Debug)]
pub struct LoadSpec {
    /// The content of the requests.
    pub workload: Workload,
    /// The prompts, made by [`PromptSet::generate`].
    pub prompts: PromptSet,
    /// When requests arrive.
    pub arrival: Arrival,
    /// Whether answers are streamed.
    pub delivery: Delivery,
    /// The time limits of a request.
    pub timeouts: Timeouts,
    /// If no stream carries a byte for this long, the run ends as hung.
    pub heartbeat: TimeSpan,
    /// The source of random arrivals.
    pub origin: Origin,
    /// How long new requests are begun, how many may be in flight, and which are given up.
    pub extent: Extent,
    /// The files that the workload and the arrivals name by digest.
    pub files: NamedFiles,
    /// The processes that send it.
    pub generators: Generators,
}

/// The destination of the requests.
#[derive(Clone, Debug)]
pub struct Target {
    /// The server's URL, `http://host:port` or `https://host:port`.
    pub base_url: String,
    /// All servers, if requests go to several in turn, with the one at `base_url` first; the only one, if it is a member
    /// of a group; otherwise empty.
    pub servers: Vec<LoadedServer>,
    /// For `https://`: a PEM file with the only trusted certificates. By default, those that the operating system
    /// trusts.
    pub ca_file: Option<PathBuf>,
    /// The model's name in requests.
    pub model: String,
    /// The API to speak.
    pub api: Api,
    /// The path of requests, if it is not the API's usual one.
    pub path: Option<String>,
    /// Headers added to every request.
    pub headers: Vec<(String, String)>,
    /// The key sent as `Authorization: Bearer`. It is masked in everything that comes back.
    pub api_key: Option<ApiKey>,
    /// The path of the Prometheus metrics, if the server has any.
    pub metrics: Option<String>,
    /// The server's log, if it can be read here.
    pub log: Option<PathBuf>,
    /// Whether a usage without cached tokens means that none were cached.
    pub absent_cached_is_zero: bool,
    /// The result of resetting the server's prompt cache before the load.
    pub cache_reset: Option<CacheReset>,
}

/// One of several servers that requests go to in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedServer {
    /// Its name in rows: a member of a group of servers, or its URL.
    pub name: String,
    /// Its URL.
    pub base_url: String,
}

impl Target {
    /// Makes a target from a URL, a model and an API alone.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>, api: Api) -> Self {
        Self {
            base_url: base_url.into(),
            servers: Vec::new(),
            ca_file: None,
            model: model.into(),
            api,
            path: None,
            headers: Vec::new(),
            api_key: None,
            metrics: None,
            log: None,
            absent_cached_is_zero: false,
            cache_reset: None,
        }
    }

    /// Makes a target of several servers with the same API; requests go to them in turn.
    #[must_use]
    pub fn in_turn(self, servers: Vec<LoadedServer>) -> Self {
        let several = servers.len() > 1;
        Self {
            base_url: servers
                .first()
                .map_or(self.base_url, |first| first.base_url.clone()),
            servers: if several { servers } else { Vec::new() },
            ..self
        }
    }

    /// Returns the destination of the requests, for people.
    pub fn place(&self) -> String {
        match self.servers.as_slice() {
            [] => self.base_url.clone(),
            servers => {
                let urls = servers.iter().map(|server| server.base_url.as_str());
                urls.collect::<Vec<_>>().join(" ")
            }
        }
    }

    /// Returns the name of the server that a stopped run could not reach, for people.
    pub fn name_of(&self, server: usize) -> String {
        match self.servers.get(server) {
            Some(server) if server.name != server.base_url => {
                format!("{} at {}", server.name, server.base_url)
            }
            Some(server) => server.base_url.clone(),
            None => self.base_url.clone(),
        }
    }

    pub(crate) fn peer(&self) -> Result<Peer, PeerError> {
        Peer::find(&self.base_url, self.ca_file.as_deref())
    }

    /// Returns how to reach each server, in their order.
    ///
    /// # Errors
    /// As [`Peer::find`].
    pub(crate) fn peers(&self) -> Result<Vec<Peer>, PeerError> {
        if self.servers.is_empty() {
            return Ok(vec![self.peer()?]);
        }
        let find = |server: &LoadedServer| Peer::find(&server.base_url, self.ca_file.as_deref());
        self.servers.iter().map(find).collect()
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every request has its row.
    Complete,
    /// No stream carried a byte for the length of the heartbeat.
    Hung,
    /// This server no longer takes connections: its place among the loaded servers, from 0.
    Gone(usize),
    /// Stopped by the user or the cell's time limit.
    Stopped(CellStatus, String),
    /// Ended early, because the server refuses every request.
    Refused(Refusal),
    /// Ended early: one of several generators did not do its part.
    Lost(Lost),
}

/// The output of a run.
#[derive(Clone, Debug)]
pub struct LoadResult {
    /// How it ended.
    pub ending: Ending,
    /// One row per attempt, by request and attempt.
    pub requests: Vec<Request>,
    /// One row per event with text.
    pub chunks: Vec<Chunk>,
    /// Samples of the server's metrics.
    pub server_metrics: Vec<ServerMetric>,
    /// The server's log of the run, if it can be read.
    pub engine_log: Option<String>,
    /// The facts of the run.
    pub cell: CellFacts,
    /// Doubts about the result.
    pub warnings: Vec<String>,
}

/// The facts of a run as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct CellFacts {
    /// The source of the rows.
    pub source: RowSource,
    /// Measured requests planned.
    pub expected_requests: u64,
    /// Warm-up requests planned.
    pub warmup_requests: u64,
    /// Measured requests planned that were not sent because the duration was over.
    pub unsent_requests: u64,
    /// The kind of arrivals.
    pub arrival: &'static str,
    /// Clients of a closed loop.
    pub clients: Option<u32>,
    /// Mean rate of an open loop, requests per second.
    pub rate: Option<f64>,
    /// The API of the requests.
    pub api: &'static str,
    /// Whether answers were streamed.
    pub streamed: bool,
    /// Wall-clock time of the cell's start, ns since the Unix epoch.
    pub started_unix_ns: i64,
    /// When the measured phase began, ns since the cell's start.
    pub measured_from_ns: Option<i64>,
    /// First `sent_ns` and last `done_ns` of measured requests.
    pub window: Option<(i64, i64)>,
    /// CPU time of the measuring thread over the measured phase, of all generators together, ns.
    pub client_cpu_ns: Option<i64>,
    /// Connections opened.
    pub connections: u64,
    /// The cell's start on the kernel's monotonic clock, ns since boot.
    pub started_monotonic_ns: i64,
    /// The client's health; `None` if no client ran.
    pub health: Option<ClientHealth>,
    /// The result of resetting the server's prompt cache before the load.
    pub cache_reset: Option<CacheReset>,
}

/// A run could not begin, or its rows could not be kept.
#[derive(Debug)]
pub struct LoadError {
    /// The reason.
    pub message: String,
    /// Whether the disk or the memory of this machine refused, and nothing is wrong with the settings.
    pub by_machine: bool,
    /// What the disk refused, if that is the reason.
    pub disk_fault: Option<DiskFault>,
}

impl LoadError {
    /// The run could not begin.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            by_machine: false,
            disk_fault: None,
        }
    }

    /// This machine refuses because of this error.
    pub(crate) fn caused(
        message: impl Into<String>,
        error: &(dyn std::error::Error + 'static),
    ) -> Self {
        Self {
            by_machine: true,
            disk_fault: DiskFault::behind(error),
            ..Self::new(message)
        }
    }
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LoadError {}

/// Sends the load to a server and returns every row, in memory: for small runs. Blocks until the end. Asks `control`
/// twenty times a second whether to go on, and reports the number of finished requests to it. Beside the load, only the
/// server's metrics are sampled.
///
/// # Errors
/// If the URL is invalid, its host has no address, or a thread cannot be started. The server's errors appear as rows.
pub fn run_load(
    spec: &LoadSpec,
    target: &Target,
    control: &Control,
) -> Result<LoadResult, LoadError> {
    let log_from = target.log.as_deref().map(file_length).unwrap_or_default();
    let (mut requests, mut chunks) = (Vec::new(), Vec::new());
    let metrics = Arc::new(Mutex::new(Held::default()));
    let companions = |start: &Start| {
        let mut companions: Vec<Box<dyn Companion>> = Vec::new();
        let mut absent = Vec::new();
        if let Some(path) = &target.metrics {
            let kept = Kept::Rows(metrics.clone());
            match endpoint(start, target, path) {
                Ok(endpoint) => {
                    companions.push(Box::new(Metrics::kept_in(vec![(None, endpoint)], kept)));
                }
                Err(reason) => absent.push(Absent {
                    table: "server_metrics",
                    reason,
                }),
            }
        }
        Companions {
            present: companions,
            absent,
            interval: INTERVAL,
            hung_below: None,
        }
    };
    let scratch = std::env::temp_dir();
    let take = &mut |row, more: Vec<Chunk>| {
        requests.push(row);
        chunks.extend(more);
        Ok(())
    };
    let driven = drive(spec, target, control, &scratch, companions, take)?;
    requests.sort_by_key(|row| (row.request_id, row.attempt));
    chunks.sort_by_key(|chunk| (chunk.request_id, chunk.attempt, chunk.at_ns));
    if let Some(in_flight) = &driven.in_flight {
        requests.iter_mut().for_each(|row| in_flight.enter(row));
    }
    let tally = Tally::of(&requests, &chunks);
    let health = match &driven.health[..] {
        [one] if !spec.generators.are_others() => {
            one.as_ref().map(|health| ClientHealth::of(health, &tally))
        }
        several => {
            let fared =
                ByGenerator::fared(spec, several, &driven.clock_bounds_ns, &requests, &chunks);
            ClientHealth::worst_of(&fared, &tally)
        }
    };
    let cell = facts(spec, target, &tally, &driven, health);
    let mask = |text: String| {
        target
            .api_key
            .as_ref()
            .map_or(text.clone(), |key| key.mask(&text))
    };
    let server_metrics =
        std::mem::take(&mut metrics.lock().unwrap_or_else(PoisonError::into_inner).rows);
    Ok(LoadResult {
        ending: driven.ending,
        requests,
        chunks,
        server_metrics,
        engine_log: target
            .log
            .as_deref()
            .and_then(|path| read_from(path, log_from).ok())
            .map(mask),
        cell,
        warnings: driven
            .warnings
            .into_iter()
            .map(mask)
            .chain(tally.doubts(spec.delivery == Delivery::Streamed))
            .collect(),
    })
}

/// Returns the endpoint for a path of the loaded server, for queries beside the load.
///
/// # Errors
/// If its URL cannot be queried; one sentence.
pub(crate) fn endpoint(start: &Start, target: &Target, path: &str) -> Result<Endpoint, String> {
    let site = start.peer.site(target.api_key.as_ref());
    Ok(Endpoint {
        site: site.map_err(|e| e.to_string())?,
        path: path.to_owned(),
    })
}

pub(crate) fn facts(
    spec: &LoadSpec,
    target: &Target,
    tally: &Tally,
    driven: &Driven,
    health: Option<ClientHealth>,
) -> CellFacts {
    let cpu_ns = driven.health.iter().flatten().map(|health| health.cpu_ns);
    CellFacts {
        source: RowSource::Measured,
        expected_requests: driven.expected_requests,
        warmup_requests: spec.prompts.count(Phase::Warmup) as u64,
        unsent_requests: driven.unsent_requests,
        arrival: spec.arrival.word(),
        clients: spec.arrival.clients(),
        rate: spec.arrival.rate(),
        api: target.api.word(),
        streamed: spec.delivery == Delivery::Streamed,
        started_unix_ns: pipeline::unix_ns(driven.started),
        measured_from_ns: i64::try_from(driven.measured_from_ns).ok(),
        window: tally.window(),
        client_cpu_ns: i64::try_from(cpu_ns.sum::<u64>()).ok(),
        connections: driven.connections,
        started_monotonic_ns: driven.started_monotonic_ns,
        health,
        cache_reset: target.cache_reset,
    }
}

impl LoadSpec {
    /// Makes the spec of a stage's canonical settings. The prompts are in the system's temporary folder.
    ///
    /// # Errors
    /// If the workload is still a name, or the prompts cannot be made.
    pub fn new(settings: Settings, origin: Origin) -> Result<Self, PromptError> {
        Self::counted(settings, origin, None, &std::env::temp_dir())
    }

    /// Makes the spec of some settings; the server of `target` may be asked to count tokens. The prompts are in an
    /// unnamed file in `folder`.
    ///
    /// # Errors
    /// As [`LoadSpec::new`], or if the server cannot count, or counts differently than declared.
    pub fn for_target(
        settings: Settings,
        origin: Origin,
        target: &Target,
        folder: &Path,
    ) -> Result<Self, PromptError> {
        let mut settings = settings;
        if !target.api.generates() {
            settings.delivery = Delivery::Whole;
            if let Some(WorkloadChoice::Inline(workload)) = &mut settings.workload {
                workload.output = Output::NONE;
            }
        }
        let (declared, workload) = match &settings.workload {
            Some(WorkloadChoice::Inline(workload)) => match &workload.tokenizer {
                Some(Tokenizer::Server(declared)) => (declared, workload),
                _ => return Self::counted(settings, origin, None, folder),
            },
            Some(WorkloadChoice::Name(_)) | None => {
                return Self::counted(settings, origin, None, folder);
            }
        };
        let peer = target
            .peer()
            .map_err(|e| PromptError::wrong(e.to_string()))?;
        let expected = declared.server.fingerprint.as_deref();
        let mut server =
            ServerCounter::open(&peer, &target.model, target.api_key.as_ref(), expected)?;
        let counted = declared.server.template == ChatTemplate::Counted;
        // A turn of a session is sent with those before it, whose answers are not known yet.
        if counted && target.api == Api::OpenaiChat && workload.sessions.is_none() {
            server = server.with_template(workload.system.clone())?;
        }
        Self::counted(settings, origin, Some(&server), folder)
    }

    fn counted(
        settings: Settings,
        origin: Origin,
        server: Option<&dyn Counter>,
        folder: &Path,
    ) -> Result<Self, PromptError> {
        let extent = Extent::of(&settings);
        let (Some(WorkloadChoice::Inline(workload)), Some(arrival)) =
            (settings.workload, settings.arrival)
        else {
            return Err(PromptError::wrong(
                "workload or arrival is missing, or the workload still a name".to_owned(),
            ));
        };
        let amount = match settings.sessions {
            Some(sessions) => Amount::Sessions(sessions as usize),
            None => Amount::Requests(settings.requests.unwrap_or_default() as usize),
        };
        let warmup = settings.warmup as usize;
        Ok(Self {
            prompts: PromptSet::with_counter(
                &workload,
                &origin,
                warmup,
                amount,
                server,
                folder,
                &settings.files,
            )?,
            workload: *workload,
            arrival,
            delivery: settings.delivery,
            timeouts: settings.timeouts,
            heartbeat: settings.heartbeat,
            origin,
            extent,
            files: settings.files,
            generators: Generators::of(settings.generators.map_or(1, |choice| choice.count())),
        })
    }

    /// Returns the bytes of the workload's own tokenizer, if it has one.
    ///
    /// # Errors
    /// In one sentence, if they cannot be read.
    pub(crate) fn tokenizer_file(&self) -> Result<Option<Vec<u8>>, String> {
        let Some(Tokenizer::File(file)) = &self.workload.tokenizer else {
            return Ok(None);
        };
        let digest = file.digest.as_deref();
        named_file::read("tokenizer", &file.file, digest, &self.files)
            .map(|(_, bytes, _)| Some(bytes))
    }
}

impl LoadResult {
    /// Returns the usual table of the run.
    ///
    /// # Errors
    /// If the number of rows requires files, and the disk refuses.
    pub fn summary(&self, slo: &Slo) -> std::io::Result<Summary> {
        Summarizer::of(&self.requests, &self.chunks, slo)
    }

    /// Counts measured requests by status, superseded attempts left out.
    pub fn statuses(&self) -> BTreeMap<RequestStatus, u64> {
        Tally::of(&self.requests, &self.chunks).statuses
    }
}

pub(crate) fn file_length(path: &Path) -> u64 {
    std::fs::metadata(path).map(|m| m.len()).unwrap_or_default()
}

/// The longest part of a log that is kept.
const MAX_LOG: u64 = 16 * 1024 * 1024;

pub(crate) fn read_from(path: &Path, from: u64) -> std::io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(MAX_LOG).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
