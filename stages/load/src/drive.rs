//! Runs a load: the measuring thread, the companions, and the watcher of both.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use contract::{Chunk, Phase, Request};
use pipeline::stage::Control;
use rustix::io::Errno;
use serde_json::Value;

use crate::arrival::Arrival;
use crate::generators::{InFlight, conduct};
use crate::measure::{Epoch, Health, Measured, Plan, Shared, Stop, answers, measure};
use crate::peer::Peer;
use crate::plan::plan;
use crate::prompts::FileCounter;
use crate::render::{Renderer, Rendering};
use crate::run::{Ending, LoadError, LoadSpec, Target};
use crate::servers::Servers;
use crate::sheet::TableFile;
use crate::structured::Validator;
use crate::telemetry::{Absent, Companion, Power, Sampled, joined, while_sampling};
use crate::trace::doubt_on_unit;
use crate::watching::{Refused, Watching};
use crate::workload::Tokenizer;

/// The facts known when the clock starts.
pub(crate) struct Start {
    pub(crate) epoch: Epoch,
    pub(crate) started: SystemTime,
    pub(crate) peer: Peer,
}

/// The companions of a load.
pub(crate) struct Companions {
    pub(crate) present: Vec<Box<dyn Companion>>,
    pub(crate) absent: Vec<Absent>,
    pub(crate) interval: Duration,
    /// The sampled power of the GPUs, and the limit in watts below which a silent server counts as hung.
    pub(crate) hung_below: Option<(Arc<Power>, f64)>,
}

/// The results of a run, apart from its rows.
pub(crate) struct Driven {
    pub(crate) ending: Ending,
    /// The start of the measured phase on the cell's clock.
    pub(crate) measured_from_ns: u64,
    /// The health of each generator's measuring thread; `None` for a generator that was lost.
    pub(crate) health: Vec<Option<Health>>,
    /// The bound on the error of each generator's clock against the local clock, ns; `None` on this machine.
    pub(crate) clock_bounds_ns: Vec<Option<i64>>,
    /// The requests in flight over all generators, if there are several.
    pub(crate) in_flight: Option<InFlight>,
    pub(crate) started: SystemTime,
    /// The start on the kernel's monotonic clock, ns since boot.
    pub(crate) started_monotonic_ns: i64,
    pub(crate) connections: u64,
    pub(crate) tables: Vec<TableFile>,
    pub(crate) observations: BTreeMap<String, Value>,
    pub(crate) warnings: Vec<String>,
    /// The number of measured requests planned for the time that passed.
    pub(crate) expected_requests: u64,
    /// Those of them that were not sent because the duration was over.
    pub(crate) unsent_requests: u64,
}

/// Sends the load; `take` gets the rows of each attempt. The rows of one generator come in the order in which attempts
/// ended. Unnamed files go into `scratch`.
///
/// # Errors
/// If the URL is invalid, its host has no address, a thread or a generator cannot be started, or `take` fails.
pub(crate) fn drive(
    spec: &LoadSpec,
    target: &Target,
    control: &Control,
    scratch: &Path,
    companions: impl FnOnce(&Start) -> Companions,
    take: &mut dyn FnMut(Request, Vec<Chunk>) -> io::Result<()>,
) -> Result<Driven, LoadError> {
    let peers = target.peers().map_err(|e| LoadError::new(e.to_string()))?;
    let servers = Servers::new(peers, &spec.prompts);
    let plan = Arc::new(plan(spec, target, servers.clone())?);
    if spec.generators.are_others() {
        return conduct(spec, target, control, scratch, &plan, companions, take);
    }
    let schema = schema(spec)?;
    let counter = own_counter(spec)?;
    let renderer = Renderer {
        spec,
        target,
        servers: servers.clone(),
    };
    let mut rendering = Rendering::new(&renderer, &plan.ahead);
    let rendered = rendering.fill().map_err(|e| unread(&e))?;
    let shared = Arc::new(Shared::start());
    let start = Start::now(shared.epoch, &servers);
    let mut companions = companions(&start);
    let mut notes = Notes::default();
    let present = notes.begin(&mut companions, start.epoch);
    let sending = Sending {
        spec,
        target,
        control,
        renderer: &renderer,
        plan: &plan,
        rendering: (!rendered).then_some(rendering),
        shared: &shared,
        schema: schema.as_ref(),
        counter: counter.as_ref(),
        companions: (present, companions.interval),
        hung_below: companions.hung_below,
        refused: Refused::EndsTheRun,
    };
    let Sent {
        ending,
        measured,
        samples,
        warnings,
    } = sending.send(take)?;
    notes.late(&[&measured]);
    notes.short(spec, &[&measured]);
    notes.warnings.extend(warnings);
    let tables = notes.sampled(samples);
    notes.inexact(spec, target);
    let connections = shared.connections.load(Ordering::Relaxed);
    let expected_requests = expected_requests(spec, &plan, &measured);
    Ok(Driven {
        ending,
        measured_from_ns: measured.measured_from_ns,
        health: vec![Some(measured.health)],
        clock_bounds_ns: vec![None],
        in_flight: None,
        started: start.started,
        started_monotonic_ns: i64::try_from(shared.epoch.monotonic_ns()).unwrap_or(i64::MAX),
        connections,
        tables,
        observations: notes.observations,
        warnings: notes.warnings,
        expected_requests,
        unsent_requests: measured.unsent,
    })
}

impl Start {
    /// Records the time at which the cell's clock was started; call it right after that start.
    #[expect(
        clippy::disallowed_methods,
        reason = "the record states when the load began"
    )]
    pub(crate) fn now(epoch: Epoch, servers: &Servers) -> Self {
        Self {
            epoch,
            started: SystemTime::now(),
            peer: servers.first().clone(),
        }
    }
}

/// A load that is ready to be sent by this process.
pub(crate) struct Sending<'a> {
    pub(crate) spec: &'a LoadSpec,
    pub(crate) target: &'a Target,
    pub(crate) control: &'a Control,
    pub(crate) renderer: &'a Renderer<'a>,
    pub(crate) plan: &'a Arc<Plan>,
    /// Renders the remaining requests, if not all are rendered yet.
    pub(crate) rendering: Option<Rendering<'a>>,
    pub(crate) shared: &'a Arc<Shared>,
    /// The schema of structured answers.
    pub(crate) schema: Option<&'a Validator>,
    /// The counter for answers without a token count.
    pub(crate) counter: Option<&'a FileCounter>,
    /// The companions, and their sampling interval.
    pub(crate) companions: (Vec<Box<dyn Companion>>, Duration),
    pub(crate) hung_below: Option<(Arc<Power>, f64)>,
    pub(crate) refused: Refused<'a>,
}

/// The results of a load that this process sent, apart from its rows.
pub(crate) struct Sent {
    pub(crate) ending: Ending,
    pub(crate) measured: Measured,
    pub(crate) samples: Vec<Sampled>,
    pub(crate) warnings: Vec<String>,
}

impl<'a> Sending<'a> {
    /// Sends it; `take` gets the rows of each attempt in the order they ended.
    ///
    /// # Errors
    /// If a thread cannot be started, a prompt cannot be read again, or `take` fails.
    pub(crate) fn send(
        self,
        take: &'a mut dyn FnMut(Request, Vec<Chunk>) -> io::Result<()>,
    ) -> Result<Sent, LoadError> {
        let (shared, plan) = (self.shared, self.plan);
        let mut watching = Watching::new(
            (self.spec, self.target, self.control),
            shared,
            self.renderer,
            (self.schema, self.counter),
            self.hung_below,
            self.refused,
            take,
        );
        let (measured, samples) =
            on_threads(&mut watching, shared, plan, self.rendering, self.companions)?;
        let Watching {
            mut ending,
            failed,
            warnings,
            ..
        } = watching;
        if let Some(error) = failed {
            let message = format!("cannot store the rows: {error}");
            return Err(LoadError::caused(message, &error));
        }
        match shared.stopped() {
            Some(Stop::Hung) => ending = Ending::Hung,
            Some(Stop::Gone) => ending = Ending::Gone(shared.gone()),
            Some(Stop::Cancelled) | None => {}
        }
        Ok(Sent {
            ending,
            measured,
            samples,
            warnings,
        })
    }
}

/// Compiles the schema that structured answers must match.
pub(crate) fn schema(spec: &LoadSpec) -> Result<Option<Validator>, LoadError> {
    let structured = spec.workload.structured.as_ref();
    structured
        .and_then(|s| s.schema.as_ref())
        .map(|schema| Validator::new(schema).map_err(LoadError::new))
        .transpose()
}

/// Opens the workload's own tokenizer. It counts the tokens of answers without a count.
fn own_counter(spec: &LoadSpec) -> Result<Option<FileCounter>, LoadError> {
    match &spec.workload.tokenizer {
        Some(Tokenizer::File(file)) => {
            FileCounter::open(&file.file, file.digest.as_deref(), &spec.files)
                .map(Some)
                .map_err(|e| LoadError::new(e.to_string()))
        }
        Some(Tokenizer::Server(_)) | None => Ok(None),
    }
}

pub(crate) fn unread(e: &io::Error) -> LoadError {
    LoadError::new(format!("the prompts cannot be read again: {e}"))
}

/// Runs the load to its end: the measuring thread, a thread for each companion, and one that renders the remaining
/// requests. The calling thread watches.
///
/// # Errors
/// If a thread cannot be started, or a prompt cannot be read again.
fn on_threads(
    watching: &mut Watching<'_>,
    shared: &Arc<Shared>,
    plan: &Arc<Plan>,
    rendering: Option<Rendering<'_>>,
    (companions, interval): (Vec<Box<dyn Companion>>, Duration),
) -> Result<(Measured, Vec<Sampled>), LoadError> {
    let (sender, receiver) = answers();
    let epoch = shared.epoch;
    std::thread::scope(|scope| {
        let (watched, planned) = (shared.clone(), plan.clone());
        let end_queue = EndQueueOnDrop(plan);
        let render = std::thread::Builder::new().name("render".to_owned());
        let rendering = rendering
            .map(|rendering| render.spawn_scoped(scope, move || rendering.follow()))
            .transpose()
            .map_err(|e| LoadError::new(format!("cannot start the rendering thread: {e}")))?;
        let measuring = std::thread::Builder::new()
            .name("measure".to_owned())
            .spawn_scoped(scope, move || {
                let _ended = end_queue;
                measure(watched, planned, sender)
            })
            .map_err(|e| LoadError::new(format!("cannot start the measuring thread: {e}")))?;
        let ((), samples) = while_sampling(companions, interval, epoch, |_| {
            watching.until_done(&receiver);
        });
        let measured = joined(measuring.join()).map_err(|e| LoadError::new(cannot_run(&e)))?;
        rendering
            .map_or(Ok(()), |rendering| joined(rendering.join()))
            .map_err(|e| unread(&e))?;
        Ok((measured, samples))
    })
}

/// Returns why the measuring thread cannot run, with the remedy if it may open too few files.
fn cannot_run(error: &io::Error) -> String {
    let remedy = match Errno::from_io_error(error) {
        Some(Errno::MFILE) => {
            "; each connection takes an open file: raise the limit (`ulimit -n`), or send fewer requests at once"
        }
        _ => "",
    };
    format!("the measuring thread cannot run: {error}{remedy}")
}

/// The warnings and observations of a load.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) warnings: Vec<String>,
    pub(crate) observations: BTreeMap<String, Value>,
}

impl Notes {
    /// Takes every companion's first sample; returns the companions whose first sample succeeded.
    pub(crate) fn begin(
        &mut self,
        companions: &mut Companions,
        epoch: Epoch,
    ) -> Vec<Box<dyn Companion>> {
        let present = first_samples(companions, epoch);
        self.absent(std::mem::take(&mut companions.absent));
        present
    }

    fn absent(&mut self, tables: Vec<Absent>) {
        for Absent { table, reason } in tables {
            if table == "server_metrics" {
                self.warnings.push(format!("no server metrics: {reason}"));
            }
            let absent = format!("absent: {reason}").into();
            self.observations.insert(table.to_owned(), absent);
        }
    }

    /// Reports requests that were sent late because of the client.
    pub(crate) fn late(&mut self, measured: &[&Measured]) {
        let sum = |read: fn(&Measured) -> u64| measured.iter().map(|one| read(one)).sum::<u64>();
        for (what, why, count) in [
            (
                "requests_unrendered",
                "they had not been rendered yet",
                sum(|one| one.unrendered),
            ),
            (
                "requests_held_back",
                "answers were not parsed fast enough",
                sum(|one| one.held_back),
            ),
        ] {
            if count > 0 {
                self.observations.insert(what.to_owned(), count.into());
                self.warnings.push(format!(
                    "{count} requests were sent late because {why}; their send lag includes the \
                     wait; lower the load, or give the client more cores"
                ));
            }
        }
    }

    /// Warns about too few prompts or sessions, and about a trace that may have been misread.
    pub(crate) fn short(&mut self, spec: &LoadSpec, measured: &[&Measured]) {
        if let Arrival::Trace(replay) = &spec.arrival {
            self.warnings.extend(doubt_on_unit(replay, &spec.files));
        }
        self.warnings.extend(short_of_prompts(spec, measured));
        self.warnings.extend(short_of_sessions(spec));
    }

    /// Warns if output lengths are only caps.
    pub(crate) fn inexact(&mut self, spec: &LoadSpec, target: &Target) {
        if spec.prompts.exact && !target.api.can_be_exact() {
            self.warnings.push(format!(
                "{} cannot ignore the end of sequence, so exact output lengths are only caps here",
                target.api.word()
            ));
        }
    }

    /// Takes in the companions' reports, and returns their tables.
    pub(crate) fn sampled(&mut self, samples: Vec<Sampled>) -> Vec<TableFile> {
        let mut tables = Vec::new();
        for sampled in samples {
            tables.extend(sampled.tables);
            self.warnings.extend(sampled.warnings);
            self.observations.extend(sampled.observations);
        }
        tables
    }
}

/// Returns the number of planned measured requests. For a load that ends after a set time, these are the arrivals
/// within that time, or the requests that a closed loop began, without the turns of their sessions that were never due.
pub(crate) fn expected_requests(spec: &LoadSpec, plan: &Plan, measured: &Measured) -> u64 {
    let units = match (spec.extent.duration, &plan.offsets) {
        (None, _) => return spec.prompts.count(Phase::Measured) as u64,
        (Some(_), Some(offsets)) => offsets.len(),
        (Some(_), None) => measured.begun,
    };
    let in_sessions = |sessions: &[std::ops::Range<usize>]| {
        let begun = sessions.iter().take(units);
        begun.map(|session| session.len() as u64).sum()
    };
    let begun = spec.prompts.sessions().map_or(units as u64, in_sessions);
    begun.saturating_sub(measured.not_due)
}

/// Warns if a closed loop, or one of its generators, sent all its prompts before its time was over.
fn short_of_prompts(spec: &LoadSpec, measured: &[&Measured]) -> Option<String> {
    let duration = spec.extent.duration?;
    let short: Vec<u64> = measured.iter().filter_map(|one| one.short_of_ns).collect();
    let seconds = *short.iter().max()? as f64 / 1e9;
    let who = match (short.len(), measured.len()) {
        (some, all) if some < all => format!("all requests of {some} of {all} generators"),
        _ => format!("all {} requests", spec.prompts.count(Phase::Measured)),
    };
    Some(format!(
        "{who} were begun {seconds:.3} s before the end of the {duration} they are sent for; to let the time end \
         the load, raise `requests`"
    ))
}

/// Warns if a closed loop has fewer sessions than clients.
fn short_of_sessions(spec: &LoadSpec) -> Option<String> {
    let clients = spec.arrival.clients()?;
    let sessions = spec.prompts.sessions()?.len();
    (sessions < clients as usize).then(|| {
        format!(
            "the load has fewer sessions ({sessions}) than clients ({clients}): the other clients never sent a request"
        )
    })
}

/// Ends the queue of rendered requests when the measuring thread ends for any reason. Otherwise the rendering thread
/// would wait for room forever.
struct EndQueueOnDrop<'a>(&'a Plan);

impl Drop for EndQueueOnDrop<'_> {
    fn drop(&mut self) {
        self.0.ahead.end();
    }
}

/// Takes the first sample of every companion. A companion whose first sample fails is absent, and leaves no table.
fn first_samples(companions: &mut Companions, epoch: Epoch) -> Vec<Box<dyn Companion>> {
    let mut present = Vec::new();
    for mut companion in companions.present.drain(..) {
        let table = companion.name();
        match companion.sample(i64::try_from(epoch.now()).unwrap_or(i64::MAX)) {
            Ok(()) => present.push(companion),
            Err(reason) => {
                companions.absent.push(Absent { table, reason });
                for unused in companion.finish().tables {
                    // A file whose table is not named is never read.
                    let _may_stay = std::fs::remove_file(unused.path);
                }
            }
        }
    }
    present
}
