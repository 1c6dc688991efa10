//! The senders: the clients of a closed loop, or the dispatcher of an open one.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio::task::JoinSet;

use super::ahead::{Ahead, Planned};
use super::answers::{AnswerSender, MOST_UNREAD};
use super::attempt::{Attempt, End, Read};
use super::clock::Timer;
use super::exchange::{Connection, Seen, exchange};
use super::health::{self, Health, KernelCounts};
use super::limits::Limits;
use super::shared::Shared;
use super::turns::{self, Performed, Turn, World};
use crate::servers::Servers;

/// The measuring thread's input; warm-up requests come first.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) servers: Servers,
    /// The rendered requests.
    pub(crate) ahead: Ahead,
    pub(crate) warmup: usize,
    /// The number of measured sessions, or of requests without sessions.
    pub(crate) units: usize,
    /// Clients of a closed loop; warm-up is always a closed loop.
    pub(crate) clients: Option<u32>,
    pub(crate) think_ns: u64,
    /// For open loops: the offsets of measured requests, or of sessions, from the start of the measured phase.
    pub(crate) offsets: Option<Vec<u64>>,
    /// The time after the start of measuring when no more requests are begun.
    pub(crate) duration_ns: Option<u64>,
    /// The most measured requests in flight.
    pub(crate) max_in_flight: Option<u32>,
    /// When each measured request is given up, by its index among them; empty if none is.
    pub(crate) given_up: Vec<Option<Duration>>,
    /// Connections opened before the clock starts.
    pub(crate) connect_ahead: usize,
    pub(crate) limits: Limits,
    /// Where a generator among several waits for the start of the measured phase.
    pub(crate) gate: Option<Arc<Gate>>,
}

/// Holds a generator that is warm until all of them are.
pub(crate) struct Gate {
    warm: Box<dyn Fn() + Send + Sync>,
    /// When measuring begins, on the cell's clock.
    opens_ns: AtomicU64,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gate({:?})", self.opens_ns)
    }
}

impl Gate {
    /// Makes a gate that is closed; `warm` is called when a client reaches it.
    pub(crate) fn new(warm: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            warm: Box::new(warm),
            opens_ns: AtomicU64::new(u64::MAX),
        }
    }

    /// Says when it opens.
    pub(crate) fn open_at(&self, at_ns: u64) {
        self.opens_ns.store(at_ns, Ordering::Release);
    }
}

/// An ended attempt, with the channel for the session's next turn.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) attempt: Attempt,
    /// Receives the session's next turn; `None` ends the session.
    pub(crate) next: Option<oneshot::Sender<Option<Turn>>>,
}

/// The measuring thread's report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// When the measured phase began.
    pub(crate) measured_from_ns: u64,
    /// The thread's health over the measured phase.
    pub(crate) health: Health,
    /// Requests that were sent late because they had not been rendered yet.
    pub(crate) unrendered: u64,
    /// Requests that were sent late because too many answers were unread.
    pub(crate) held_back: u64,
    /// The number of sessions begun, or of requests without sessions.
    pub(crate) begun: usize,
    /// Requests that were due and were not sent because the duration was over.
    pub(crate) unsent: u64,
    /// Turns of sessions that were never due, because the duration was over before that.
    pub(crate) not_due: u64,
    /// How long before the end of the duration a closed loop ran out of units to begin, if it did.
    pub(crate) short_of_ns: Option<u64>,
}

/// After this many refused connections in a row, the server counts as gone.
const GONE_AFTER: u32 = 8;

struct Loop {
    shared: Arc<Shared>,
    plan: Arc<Plan>,
    timer: Timer,
    /// The observations of each server, in their order.
    seen: Vec<Seen>,
    /// Used buffers, for the next answers.
    buffers: Mutex<Vec<Buffers>>,
    /// How many more units may be taken: requests while warming up, then sessions.
    left: AtomicUsize,
    /// The time after which no request is begun.
    ends_ns: AtomicU64,
    /// When nothing was left to begin, if that happened earlier.
    ran_out_ns: AtomicU64,
    /// The places of requests in flight, if their number is limited.
    places: Option<Semaphore>,
    unrendered: AtomicU64,
    held_back: AtomicU64,
    unsent: AtomicU64,
    not_due: AtomicU64,
    out: AnswerSender,
}

/// Runs a cell's requests on this thread; sends every attempt to `out` when it ends.
///
/// # Errors
/// If the runtime or the timer cannot be created.
pub(crate) fn measure(
    shared: Arc<Shared>,
    plan: Arc<Plan>,
    out: AnswerSender,
) -> io::Result<Measured> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_unpark(health::woke)
        .build()?;
    runtime.block_on(async move {
        let places = plan.max_in_flight.map(|most| Semaphore::new(most as usize));
        let seen = (0..plan.servers.count()).map(|_| Seen::default());
        let run = Arc::new(Loop {
            shared,
            seen: seen.collect(),
            plan,
            timer: Timer::new()?,
            buffers: Mutex::default(),
            left: AtomicUsize::new(0),
            ends_ns: AtomicU64::new(u64::MAX),
            ran_out_ns: AtomicU64::new(u64::MAX),
            places,
            unrendered: AtomicU64::new(0),
            held_back: AtomicU64::new(0),
            unsent: AtomicU64::new(0),
            not_due: AtomicU64::new(0),
            out,
        });
        run.connect_ahead().await;
        run.closed_loop(run.plan.warmup, run.plan.clients.unwrap_or(1), 0)
            .await;
        let measured_from_ns = match &run.plan.gate {
            Some(gate) => run.pass(gate).await?,
            None => run.shared.epoch.now(),
        };
        if let Some(duration_ns) = run.plan.duration_ns {
            let ends_ns = measured_from_ns.saturating_add(duration_ns);
            run.ends_ns.store(ends_ns, Ordering::Relaxed);
        }
        run.ran_out_ns.store(u64::MAX, Ordering::Relaxed);
        health::begin(run.shared.epoch, measured_from_ns);
        let (cpu_before, kernel_before) = (thread_cpu_ns(), KernelCounts::now());
        // A task like those of the connections: it is scheduled in the same way.
        let probe = tokio::spawn(health::probe(run.shared.epoch, Timer::new()?));
        if let Some(offsets) = &run.plan.offsets {
            run.open_loop(offsets, measured_from_ns).await?;
        } else {
            run.closed_loop(
                run.plan.units,
                run.plan.clients.unwrap_or(1),
                run.plan.think_ns,
            )
            .await;
        }
        let cpu_ns = thread_cpu_ns().saturating_sub(cpu_before);
        probe.abort();
        if let Ok(ended) = probe.await {
            ended?;
        }
        let health = health::end(
            measured_from_ns,
            run.shared.epoch.now(),
            cpu_ns,
            kernel_before,
        );
        let (unrendered, held_back) = (&run.unrendered, &run.held_back);
        Ok(Measured {
            measured_from_ns,
            health,
            unrendered: unrendered.load(Ordering::Relaxed),
            held_back: held_back.load(Ordering::Relaxed),
            begun: run.plan.units - run.left.load(Ordering::Relaxed).min(run.plan.units),
            unsent: run.unsent.load(Ordering::Relaxed),
            not_due: run.not_due.load(Ordering::Relaxed),
            short_of_ns: run.short_of(),
        })
    })
}

fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Loop {
    /// Opens connections before the measurement, many at a time. Otherwise, a server that accepts slowly would delay
    /// the first request once for each client. Errors are ignored here, because the request that needs the connection
    /// reports them.
    async fn connect_ahead(self: &Arc<Self>) {
        const AT_A_TIME: usize = 64;
        let wanted = self.plan.connect_ahead;
        let mut opening = JoinSet::new();
        for worker in 0..wanted.min(AT_A_TIME) {
            let run = self.clone();
            let share = (wanted - worker).div_ceil(AT_A_TIME);
            opening.spawn(async move {
                // In the order of the requests: from one server to the next.
                for number in (worker..).step_by(AT_A_TIME).take(share) {
                    let server = run.plan.servers.of_connection(number);
                    match run.open(server).await {
                        Ok(connection) => run.put_idle(server, connection),
                        Err(_) => return,
                    }
                }
            });
        }
        while opening.join_next().await.is_some() {}
    }

    /// Waits until the gate has opened, or everything is to stop; returns when that was to be.
    async fn pass(&self, gate: &Gate) -> io::Result<u64> {
        const LOOK: Duration = Duration::from_millis(1);
        (gate.warm)();
        loop {
            let opens_ns = gate.opens_ns.load(Ordering::Acquire);
            if self.stopped() {
                return Ok(self.shared.epoch.now());
            }
            if opens_ns != u64::MAX {
                self.until_due(opens_ns).await?;
                return Ok(opens_ns);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn open(&self, server: usize) -> Result<Connection, End> {
        let (seen, peer) = (&self.seen[server], self.plan.servers.at(server));
        Connection::open(&self.shared, seen, peer, self.plan.limits.connect).await
    }

    fn put_idle(&self, server: usize, connection: Connection) {
        self.seen[server]
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(connection);
    }

    fn take_idle(&self, server: usize) -> Option<Connection> {
        let seen = &self.seen[server];
        let mut idle = seen.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(mut connection) = idle.pop() {
            if !connection.closed(&self.shared, seen) {
                return Some(connection);
            }
        }
        None
    }

    /// Sends this many units with this many clients. Each client takes the next one when it is free.
    async fn closed_loop(self: &Arc<Self>, units: usize, clients: u32, think_ns: u64) {
        self.left.store(units, Ordering::Relaxed);
        let clients = clients.min(u32::try_from(units).unwrap_or(u32::MAX));
        let free = self.shared.epoch.now();
        let mut all = JoinSet::new();
        for client in 0..clients {
            let run = self.clone();
            all.spawn(async move { turns::client(&*run, client, free, think_ns).await });
        }
        while all.join_next().await.is_some() {}
    }

    /// Begins a unit at each offset from `from`, whatever the server does.
    async fn open_loop(self: &Arc<Self>, offsets: &[u64], from: u64) -> io::Result<()> {
        self.left.store(offsets.len(), Ordering::Relaxed);
        let mut flying = JoinSet::new();
        turns::dispatch(&**self, offsets, from, |planned, scheduled| {
            let run = self.clone();
            flying.spawn(async move { turns::session(&*run, planned, None, scheduled).await });
            while flying.try_join_next().is_some() {}
        })
        .await?;
        while flying.join_next().await.is_some() {}
        Ok(())
    }

    /// Returns how long before the end of its duration a closed loop ran out of requests.
    fn short_of(&self) -> Option<u64> {
        self.plan
            .duration_ns
            .filter(|_| self.plan.offsets.is_none())?;
        let ends_ns = self.ends_ns.load(Ordering::Relaxed);
        ends_ns
            .checked_sub(self.ran_out_ns.load(Ordering::Relaxed))
            .filter(|short| *short > 0)
    }

    /// Waits for a place in flight if their number is limited. Only measured requests wait, in the order of their
    /// arrival. Returns `None` if everything must stop, or the time is over after which nothing is begun.
    async fn place(&self, request: usize) -> Option<Place<'_>> {
        let at_once = |permit| Place {
            _permit: permit,
            free_ns: 0,
        };
        let Some(places) = self.places.as_ref().filter(|_| request >= self.plan.warmup) else {
            return Some(at_once(None));
        };
        if let Ok(free) = places.try_acquire() {
            return Some(at_once(Some(free)));
        }
        let mut waiting = std::pin::pin!(places.acquire());
        while !self.stopped() {
            let left = self.ends_ns().saturating_sub(self.shared.epoch.now());
            let look = Duration::from_nanos(left.min(LOOK_NS));
            let free = tokio::time::timeout(look, waiting.as_mut()).await;
            let now = self.shared.epoch.now();
            if now >= self.ends_ns() {
                return None;
            }
            if let Ok(free) = free {
                return Some(Place {
                    _permit: free.ok(),
                    free_ns: now,
                });
            }
        }
        None
    }

    /// Waits while too many answers are unread; returns whether it waited.
    async fn answers_read(&self) -> bool {
        const LOOK: Duration = Duration::from_millis(1);
        if self.out.unread() <= MOST_UNREAD {
            return false;
        }
        // Waits until half are read, so that not every later request is held back.
        while self.out.unread() > MOST_UNREAD / 2 && !self.stopped() {
            tokio::time::sleep(LOOK).await;
        }
        true
    }

    /// Returns the time limits of a request, including its sender's own.
    fn limits(&self, request: usize) -> Limits {
        let measured = request.checked_sub(self.plan.warmup);
        let cancel = measured.and_then(|place| *self.plan.given_up.get(place)?);
        Limits {
            cancel,
            ..self.plan.limits
        }
    }

    /// Gives an attempt buffers to read into.
    fn give_buffers(&self, attempt: &mut Attempt) {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        (attempt.bytes, attempt.reads) = buffers.pop().unwrap_or_default();
    }

    /// Replaces an attempt's buffers with copies of the exact size. Shrinking them would leave holes that fit no other
    /// buffer, and memory use would be several times the data.
    fn take_buffers(&self, attempt: &mut Attempt) {
        const LARGE: usize = 256 * 1024;
        let exact = (
            attempt.bytes.as_slice().to_vec(),
            attempt.reads.as_slice().to_vec(),
        );
        let mut used = (
            std::mem::replace(&mut attempt.bytes, exact.0),
            std::mem::replace(&mut attempt.reads, exact.1),
        );
        if used.0.capacity() <= LARGE {
            used.0.clear();
            used.1.clear();
            self.buffers
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(used);
        }
    }

    fn tell(&self, mut attempt: Attempt, next: Option<oneshot::Sender<Option<Turn>>>) {
        if attempt.bytes.capacity() > 0 {
            self.take_buffers(&mut attempt);
        }
        self.out.send(Ended { attempt, next });
    }
}

/// The buffers for an answer: its bytes, and its reads.
type Buffers = (Vec<u8>, Vec<Read>);

/// A place in flight.
struct Place<'l> {
    /// Released when the request is done.
    _permit: Option<SemaphorePermit<'l>>,
    /// When the place became free for a request that waited, or 0.
    free_ns: u64,
}

/// The longest time between two checks for the stop signal during a wait.
const LOOK_NS: u64 = 200_000_000;

impl World for Loop {
    fn stopped(&self) -> bool {
        self.shared.stopped().is_some()
    }

    fn ends_ns(&self) -> u64 {
        self.ends_ns.load(Ordering::Relaxed)
    }

    async fn take(&self, due_ns: u64) -> Option<Planned> {
        if due_ns >= self.ends_ns() {
            return None;
        }
        let one_less = |left: usize| left.checked_sub(1);
        if self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
            .is_err()
        {
            self.ran_out_ns
                .fetch_min(self.shared.epoch.now(), Ordering::Relaxed);
            return None;
        }
        let held_back = self.answers_read().await;
        let (planned, unrendered) = match self.plan.ahead.ready() {
            Some(planned) => (planned, false),
            None => (self.plan.ahead.next(|| self.stopped()).await?, true),
        };
        // After a wait, a request is late only if its time has passed.
        if (held_back || unrendered) && self.shared.epoch.now() > due_ns {
            self.held_back
                .fetch_add(u64::from(held_back), Ordering::Relaxed);
            self.unrendered
                .fetch_add(u64::from(unrendered), Ordering::Relaxed);
        }
        Some(planned)
    }

    async fn until(&self, at_ns: u64) {
        while !self.stopped() {
            let now = self.shared.epoch.now();
            if now >= at_ns {
                return;
            }
            let look = at_ns.min(now + LOOK_NS);
            tokio::time::sleep_until(self.shared.epoch.instant(look).into()).await;
        }
    }

    async fn until_due(&self, at_ns: u64) -> io::Result<()> {
        while !self.stopped() {
            let now = self.shared.epoch.now();
            if now >= at_ns {
                break;
            }
            self.timer
                .until(self.shared.epoch, at_ns.min(now + LOOK_NS))
                .await?;
        }
        Ok(())
    }

    /// Sends one request. If its kept-alive connection proves dead right away, before any byte came back, sends it again
    /// on a new connection.
    async fn perform(
        &self,
        request: usize,
        client: Option<u32>,
        scheduled_ns: u64,
        bytes: Vec<u8>,
        goes_on: bool,
    ) -> Option<Performed> {
        let mut number = 1;
        let place = self.place(request).await?;
        let mut free_ns = place.free_ns.max(scheduled_ns);
        let limits = self.limits(request);
        let server = self.plan.servers.of(request);
        let seen = &self.seen[server];
        loop {
            let mut attempt = Attempt::due(request, number, client, scheduled_ns);
            attempt.free_ns = free_ns;
            let idle = if number == 1 {
                self.take_idle(server)
            } else {
                None
            };
            let reused = idle.is_some();
            let connection = match idle {
                Some(connection) => Ok(connection),
                None => {
                    let from = self.shared.epoch.now();
                    let opened = self.open(server).await;
                    attempt.connect_ns = Some(self.shared.epoch.now() - from);
                    opened
                }
            };
            match connection {
                Ok(connection) => {
                    self.give_buffers(&mut attempt);
                    let kept = exchange(
                        &self.shared,
                        seen,
                        &limits,
                        connection,
                        &bytes,
                        &mut attempt,
                    )
                    .await;
                    if let Some(connection) = kept {
                        self.put_idle(server, connection);
                    }
                }
                Err(end) => {
                    attempt.done_ns = self.shared.epoch.now();
                    attempt.end = end;
                    if seen.refused_in_a_row.load(Ordering::Relaxed) >= GONE_AFTER {
                        self.shared.stop_without(server);
                    }
                }
            }
            let done_ns = attempt.done_ns;
            attempt.superseded = reused && attempt.met_a_close();
            if attempt.superseded {
                self.tell(attempt, None);
                number += 1;
                // The time that the dead connection took is not this client's own delay.
                free_ns = done_ns;
                continue;
            }
            if !goes_on {
                self.tell(attempt, None);
                return Some(Performed {
                    done_ns,
                    next: None,
                });
            }
            let (asked, next) = oneshot::channel();
            self.tell(attempt, Some(asked));
            return Some(Performed {
                done_ns,
                next: next.await.unwrap_or_default(),
            });
        }
    }

    fn leave(&self) {
        self.unsent.fetch_add(1, Ordering::Relaxed);
    }

    fn not_due(&self, turns: usize) {
        self.not_due.fetch_add(turns as u64, Ordering::Relaxed);
    }

    fn give_up(&self, request: usize, client: Option<u32>, at_ns: u64) {
        let due = Attempt::due(request, 1, client, at_ns);
        self.tell(
            Attempt {
                done_ns: at_ns,
                end: End::NotSent,
                ..due
            },
            None,
        );
    }
}
