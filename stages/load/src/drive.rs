//! Runs a load: the measuring thread, the companions, and the watcher of both.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, SystemTime};

use contract::{Chunk, Phase, Request};
use pipeline::stage::Control;
use serde_json::Value;

use crate::interpret::{Interpreted, interpret};
use crate::measure::{
    AnswerReceiver, Attempt, Ended, Epoch, Measured, Plan, Shared, Stop, Turn, answers, measure,
};
use crate::peer::Peer;
use crate::plan::plan;
use crate::prompts::FileCounter;
use crate::refused::Refusals;
use crate::render::{Renderer, Rendering};
use crate::rolling::{Look, Rolling};
use crate::run::{Ending, LoadError, LoadSpec, Target};
use crate::servers::Servers;
use crate::session_history::SessionHistory;
use crate::sheet::TableFile;
use crate::structured::Validator;
use crate::telemetry::{Absent, Companion, Halt, Power, Sampled, watch};
use crate::workload::Tokenizer;

/// Answers are parsed after the run, so that parsing takes no processor time from the client or from a server on the
/// same machine. Above this many bytes the oldest are parsed in a lull, because answers that end trigger further
/// requests.
const WAITING_BYTES: usize = 4 * 1024 * 1024;

/// Above this many bytes, which a load without lulls reaches, each new answer causes the oldest to be parsed.
const MOST_WAITING_BYTES: usize = 3 * WAITING_BYTES;

/// The time without a finished answer after which a lull begins.
const LULL: Duration = Duration::from_millis(2);

/// The number of answers parsed in a lull before the next check whether it is over.
const IN_A_LULL: usize = 16;

/// The longest time between two checks whether the run must end.
const LOOK: Duration = Duration::from_millis(50);

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
    /// The GPUs' power, and the limit in watts below which a silent server counts as hung.
    pub(crate) hung_below: Option<(Arc<Power>, f64)>,
}

/// The results of a run beside its rows.
pub(crate) struct Driven {
    pub(crate) ending: Ending,
    pub(crate) measured: Measured,
    pub(crate) started: SystemTime,
    /// The start on the kernel's monotonic clock, ns since boot.
    pub(crate) started_monotonic_ns: i64,
    pub(crate) connections: u64,
    pub(crate) tables: Vec<TableFile>,
    pub(crate) observations: BTreeMap<String, Value>,
    pub(crate) warnings: Vec<String>,
    /// The number of measured requests planned for the time that passed.
    pub(crate) expected_requests: u64,
}

/// Sends the load; `take` gets the rows of each attempt in the order in which they ended.
///
/// # Errors
/// If the URL is invalid, its host has no address, a thread cannot be started, or `take` fails.
#[expect(
    clippy::disallowed_methods,
    reason = "the record states when the load began"
)]
pub(crate) fn drive(
    spec: &LoadSpec,
    target: &Target,
    control: &Control,
    companions: impl FnOnce(&Start) -> Companions,
    take: &mut dyn FnMut(Request, Vec<Chunk>) -> io::Result<()>,
) -> Result<Driven, LoadError> {
    let peers = target.peers().map_err(|e| LoadError(e.to_string()))?;
    let servers = Servers::new(peers, &spec.prompts);
    let structured = spec.workload.structured.as_ref();
    let schema = structured
        .and_then(|s| s.schema.as_ref())
        .map(|schema| Validator::new(schema).map_err(LoadError))
        .transpose()?;
    let counter = own_counter(spec)?;
    let renderer = Renderer {
        spec,
        target,
        servers: servers.clone(),
    };
    let plan = Arc::new(plan(spec, target, servers.clone())?);
    let mut rendering = Rendering::new(&renderer, &plan.ahead);
    let rendered = rendering.fill().map_err(|e| unread(&e))?;
    let shared = Arc::new(Shared::start());
    let start = Start {
        epoch: shared.epoch,
        started: SystemTime::now(),
        peer: servers.first().clone(),
    };
    let mut companions = companions(&start);
    let mut beside = Beside::default();
    let present = first_samples(&mut companions, start.epoch);
    beside.absent(companions.absent);
    let mut watching = Watching {
        spec,
        target,
        control,
        shared: &shared,
        renderer: &renderer,
        schema: schema.as_ref(),
        counter: counter.as_ref(),
        history: SessionHistory::default(),
        hung_below: companions.hung_below,
        take,
        refusals: Refusals::default(),
        rolling: Rolling::default(),
        ending: Ending::Complete,
        warnings: Vec::new(),
        failed: None,
    };
    let rendering = (!rendered).then_some(rendering);
    let (measured, samples) = on_threads(
        &mut watching,
        &shared,
        &plan,
        rendering,
        (present, companions.interval),
    )?;
    let Watching {
        mut ending,
        failed,
        warnings,
        ..
    } = watching;
    if let Some(error) = failed {
        return Err(LoadError(format!("cannot store the rows: {error}")));
    }
    match shared.stopped() {
        Some(Stop::Hung) => ending = Ending::Hung,
        Some(Stop::Gone) => ending = Ending::Gone(shared.gone()),
        Some(Stop::Cancelled) | None => {}
    }
    beside.late(&measured);
    beside.warnings.extend(short_of_prompts(spec, &measured));
    beside.warnings.extend(short_of_sessions(spec));
    beside.warnings.extend(warnings);
    let tables = beside.sampled(samples);
    if spec.prompts.exact && !target.api.can_be_exact() {
        beside.warnings.push(format!(
            "{} cannot ignore the end of sequence, so exact output lengths are only caps here",
            target.api.word()
        ));
    }
    let connections = shared.connections.load(Ordering::Relaxed);
    let expected_requests = expected_requests(spec, &plan, &measured);
    Ok(Driven {
        ending,
        measured,
        started: start.started,
        started_monotonic_ns: i64::try_from(shared.epoch.monotonic_ns()).unwrap_or(i64::MAX),
        connections,
        tables,
        observations: beside.observations,
        warnings: beside.warnings,
        expected_requests,
    })
}

/// Opens the workload's own tokenizer. It counts the tokens of answers without a count.
fn own_counter(spec: &LoadSpec) -> Result<Option<FileCounter>, LoadError> {
    match &spec.workload.tokenizer {
        Some(Tokenizer::File(file)) => {
            FileCounter::open(&file.file, file.digest.as_deref(), &spec.files)
                .map(Some)
                .map_err(|e| LoadError(e.to_string()))
        }
        Some(Tokenizer::Server(_)) | None => Ok(None),
    }
}

fn unread(e: &io::Error) -> LoadError {
    LoadError(format!("the prompts cannot be read again: {e}"))
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
    let halt = Halt::default();
    let (sender, receiver) = answers();
    let epoch = shared.epoch;
    std::thread::scope(|scope| {
        let (watched, planned) = (shared.clone(), plan.clone());
        let end_queue = EndQueueOnDrop(plan);
        let render = std::thread::Builder::new().name("render".to_owned());
        let rendering = rendering
            .map(|rendering| render.spawn_scoped(scope, move || rendering.follow()))
            .transpose()
            .map_err(|e| LoadError(format!("cannot start the rendering thread: {e}")))?;
        let measuring = std::thread::Builder::new()
            .name("measure".to_owned())
            .spawn_scoped(scope, move || {
                let _ended = end_queue;
                measure(watched, planned, sender)
            })
            .map_err(|e| LoadError(format!("cannot start the measuring thread: {e}")))?;
        let mut threads = Vec::new();
        for companion in companions {
            let halt = &halt;
            let thread = std::thread::Builder::new()
                .name(companion.name().to_owned())
                .spawn_scoped(scope, move || watch(companion, interval, epoch, halt));
            match thread {
                Ok(thread) => threads.push(thread),
                Err(e) => watching
                    .warnings
                    .push(format!("cannot start the sampling thread: {e}")),
            }
        }
        watching.until_done(&receiver);
        halt.ring();
        let samples = threads.into_iter().map(|thread| joined(thread.join()));
        let samples = samples.collect();
        let measured = joined(measuring.join())
            .map_err(|e| LoadError(format!("the measuring thread cannot run: {e}")))?;
        rendering
            .map_or(Ok(()), |rendering| joined(rendering.join()))
            .map_err(|e| unread(&e))?;
        Ok((measured, samples))
    })
}

/// The warnings and observations of a load.
#[derive(Default)]
struct Beside {
    warnings: Vec<String>,
    observations: BTreeMap<String, Value>,
}

impl Beside {
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
    fn late(&mut self, measured: &Measured) {
        for (what, why, count) in [
            (
                "requests_unrendered",
                "they had not been rendered yet",
                measured.unrendered,
            ),
            (
                "requests_held_back",
                "answers were not parsed fast enough",
                measured.held_back,
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

    /// Takes in the companions' reports, and returns their tables.
    fn sampled(&mut self, samples: Vec<Sampled>) -> Vec<TableFile> {
        let mut tables = Vec::new();
        for sampled in samples {
            tables.extend(sampled.tables);
            self.warnings.extend(sampled.warnings);
            self.observations.extend(sampled.observations);
        }
        tables
    }
}

/// Returns the number of planned measured requests. For a load that ends with time, these are the arrivals within that
/// time, or the requests begun by a closed loop.
fn expected_requests(spec: &LoadSpec, plan: &Plan, measured: &Measured) -> u64 {
    let units = match (spec.extent.duration, &plan.offsets) {
        (None, _) => return spec.prompts.count(Phase::Measured) as u64,
        (Some(_), Some(offsets)) => offsets.len(),
        (Some(_), None) => measured.begun,
    };
    let in_sessions = |sessions: &[std::ops::Range<usize>]| {
        let begun = sessions.iter().take(units);
        begun.map(|session| session.len() as u64).sum()
    };
    spec.prompts.sessions().map_or(units as u64, in_sessions)
}

/// Warns if a closed loop sent all its prompts before its time was over.
fn short_of_prompts(spec: &LoadSpec, measured: &Measured) -> Option<String> {
    let (duration, short) = (spec.extent.duration?, measured.short_of_ns?);
    Some(format!(
        "all {} requests were begun {:.3} s before the end of the {duration} they are sent for; if the \
         time is to end the load, raise `requests`",
        spec.prompts.count(Phase::Measured),
        short as f64 / 1e9,
    ))
}

/// Warns if a closed loop has fewer conversations than users.
fn short_of_sessions(spec: &LoadSpec) -> Option<String> {
    let clients = spec.arrival.clients()?;
    let sessions = spec.prompts.sessions()?.len();
    (sessions < clients as usize).then(|| {
        format!(
            "the load has fewer sessions ({sessions}) than clients ({clients}): the clients beyond them \
             never sent"
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

/// Returns a thread's result, or resumes its panic.
fn joined<T>(result: std::thread::Result<T>) -> T {
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
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

/// The thread that parses answers and watches the run.
struct Watching<'a> {
    spec: &'a LoadSpec,
    target: &'a Target,
    control: &'a Control,
    shared: &'a Shared,
    renderer: &'a Renderer<'a>,
    /// The schema of structured answers.
    schema: Option<&'a Validator>,
    /// The counter for answers without a token count.
    counter: Option<&'a FileCounter>,
    /// The conversations of the sessions in progress.
    history: SessionHistory,
    hung_below: Option<(Arc<Power>, f64)>,
    take: &'a mut dyn FnMut(Request, Vec<Chunk>) -> io::Result<()>,
    refusals: Refusals,
    rolling: Rolling,
    ending: Ending,
    warnings: Vec<String>,
    failed: Option<io::Error>,
}

impl Watching<'_> {
    /// Returns when every attempt has ended and is parsed.
    fn until_done(&mut self, receiver: &AnswerReceiver) {
        let prompts = &self.spec.prompts;
        let (warmup, total) = (
            prompts.count(Phase::Warmup),
            prompts.count(Phase::Measured) as u64,
        );
        let in_sessions = prompts.sessions().is_some();
        let mut done = 0;
        let (mut waiting, mut bytes) = (VecDeque::<Ended>::new(), 0);
        loop {
            match receiver.recv_timeout(if bytes > WAITING_BYTES { LULL } else { LOOK }) {
                Ok(ended) => {
                    let attempt = &ended.attempt;
                    let measured = attempt.request >= warmup;
                    if measured && !attempt.superseded {
                        done += 1;
                        self.look_into(attempt);
                        if done == total {
                            self.tell(done, total);
                        }
                    }
                    if measured && in_sessions || self.refusals.is_open() {
                        // The next turn needs this answer, or it may decide about all other requests.
                        self.take_apart(ended);
                    } else {
                        bytes += attempt.size();
                        waiting.push_back(ended);
                    }
                    while bytes > MOST_WAITING_BYTES {
                        self.take_oldest(&mut waiting, &mut bytes);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    for _ in 0..IN_A_LULL {
                        if bytes > WAITING_BYTES {
                            self.take_oldest(&mut waiting, &mut bytes);
                        }
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.shared.stopped().is_none() {
                self.look();
            }
            if done < total && self.rolling.is_due(self.shared.epoch.now()) {
                self.tell(done, total);
            }
        }
        waiting.into_iter().for_each(|ended| self.take_apart(ended));
    }

    /// Counts an attempt for the rolling figures, and parses its answer if it was selected.
    fn look_into(&mut self, attempt: &Attempt) {
        let now = self.shared.epoch.now();
        if !self.rolling.ended(attempt, now) {
            return;
        }
        let Ok(prompt) = self.spec.prompts.at(attempt.request) else {
            return;
        };
        let (api, delivery) = (self.target.api, self.spec.delivery);
        let Interpreted { row, .. } = interpret(attempt, &prompt, api, delivery, None, None);
        let spans = row.sent_ns.zip(row.first_token_ns);
        let look = Look {
            ttft_ns: spans.map(|(sent, first)| first - sent),
            output_tokens: row.output_tokens,
        };
        if row.is_ok() {
            self.rolling.looked_into(look, now);
        }
    }

    fn tell(&mut self, done: u64, total: u64) {
        let in_flight = self.shared.in_flight.load(Ordering::Relaxed);
        let rates = self.rolling.rates(self.shared.epoch.now(), in_flight);
        self.control.rates(done, total, rates);
    }

    fn take_oldest(&mut self, waiting: &mut VecDeque<Ended>, bytes: &mut usize) {
        let oldest = waiting
            .pop_front()
            .expect("their bytes are those that are counted");
        *bytes -= oldest.attempt.size();
        self.take_apart(oldest);
    }

    fn take_apart(&mut self, ended: Ended) {
        if self.failed.is_some() {
            return;
        }
        if let Err(error) = self.rows_of(ended) {
            self.failed = Some(error);
            self.shared.stop(Stop::Cancelled);
        }
    }

    fn rows_of(&mut self, ended: Ended) -> io::Result<()> {
        let Ended { mut attempt, next } = ended;
        if let Some(key) = &self.target.api_key {
            key.mask_bytes(&mut attempt.bytes);
        }
        let prompt = self.spec.prompts.at(attempt.request)?;
        let (api, delivery) = (self.target.api, self.spec.delivery);
        let Interpreted {
            mut row,
            chunks,
            text,
            form,
        } = interpret(&attempt, &prompt, api, delivery, self.schema, self.counter);
        if self.target.absent_cached_is_zero && row.is_ok() && row.prompt_tokens.is_some() {
            row.cached_prompt_tokens.get_or_insert(0);
        }
        if let Some(asked) = next {
            let turn = match self.history.after(&prompt, row.status, text) {
                Some(history) => {
                    let next = self.spec.prompts.at(attempt.request + 1)?;
                    Some(Turn {
                        bytes: self.renderer.render(attempt.request + 1, &next, history),
                        think_ns: next.think_ns,
                    })
                }
                None => None,
            };
            // The measuring thread may have stopped in the meantime.
            let _nobody_waits = asked.send(turn);
        } else if prompt.session.is_some() && !row.superseded {
            self.history.end(&prompt);
        }
        if let Some(key) = &self.target.api_key {
            let texts = row.error.iter_mut().chain(&mut row.finish_reason);
            texts.for_each(|text| *text = key.mask(text));
        }
        let refused = self.refusals.after(&row, form);
        if let Some(refusal) = refused.filter(|_| self.shared.stopped().is_none()) {
            self.ending = Ending::Refused(refusal);
            self.shared.stop(Stop::Cancelled);
        }
        (self.take)(row, chunks)
    }

    /// Ends the run if it was stopped, or hangs.
    fn look(&mut self) {
        if let Err(failure) = self.control.check() {
            self.ending = Ending::Stopped(failure.status, failure.reason);
            self.shared.stop(Stop::Cancelled);
            return;
        }
        let heartbeat = self.spec.heartbeat.nanoseconds();
        if heartbeat == 0 || self.shared.in_flight.load(Ordering::Relaxed) == 0 {
            return;
        }
        let last_sign = self.shared.last_sign.load(Ordering::Relaxed);
        if self.shared.epoch.now().saturating_sub(last_sign) <= heartbeat {
            return;
        }
        let Some((power, limit)) = &self.hung_below else {
            self.shared.stop(Stop::Hung);
            return;
        };
        match power.since(i64::try_from(last_sign).unwrap_or(i64::MAX)) {
            // Silent, but computing.
            Some(watts) if watts >= *limit => return,
            Some(watts) => self.warnings.push(format!(
                "no byte arrived on any stream, and the busiest GPU drew {watts:.1} W on average \
                 meanwhile, below {limit} W"
            )),
            None => self.warnings.push(
                "GPU power could not be read, so silence alone \
                decided"
                    .to_owned(),
            ),
        }
        self.shared.stop(Stop::Hung);
    }
}
