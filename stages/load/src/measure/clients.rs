//! Who sends when: the clients of a closed loop, or the dispatcher of an open one.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::clock::Timer;
use super::exchange::{Attempt, Connection, End, Limits, Shared, Stop, exchange};
use super::health::{self, Health, KernelCounts};
use super::turns::{self, Performed, World};
use crate::peer::Peer;

/// A request ready to be sent.
#[derive(Clone)]
pub(crate) struct Planned {
    /// Head and body; empty for a turn that needs the answers before it.
    pub(crate) bytes: Vec<u8>,
    /// How long the user thinks before sending it, after the answer to the turn before.
    pub(crate) think_ns: u64,
}

impl std::fmt::Debug for Planned {
    /// Writes no bytes: a head may hold an API key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Planned({} bytes)", self.bytes.len())
    }
}

/// Everything the measuring thread needs; warm-up requests come first.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) peer: Peer,
    pub(crate) requests: Vec<Planned>,
    pub(crate) warmup: usize,
    /// The measured requests of each session, in order; `None` if each stands alone.
    pub(crate) sessions: Option<Vec<Range<usize>>>,
    /// Clients of a closed loop; warm-up is always a closed loop.
    pub(crate) clients: Option<u32>,
    pub(crate) think_ns: u64,
    /// Offsets of measured requests, or of sessions if there are any, from the start of the
    /// measured phase, for open loops.
    pub(crate) offsets: Option<Vec<u64>>,
    /// Connections opened before the clock starts.
    pub(crate) connect_ahead: usize,
    pub(crate) limits: Limits,
}

/// An attempt that has ended, with whom to tell how the session goes on.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) attempt: Attempt,
    /// Where the bytes of the session's next turn are waited for; `None` gives it up.
    pub(crate) next: Option<oneshot::Sender<Option<Vec<u8>>>>,
}

/// What the measuring thread says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// When the measured phase began.
    pub(crate) measured_from_ns: u64,
    /// How the thread fared over the measured phase.
    pub(crate) health: Health,
}

/// After so many refused connections in a row the server is taken to be gone.
const GONE_AFTER: u32 = 8;

struct Loop {
    shared: Arc<Shared>,
    plan: Arc<Plan>,
    idle: Mutex<Vec<Connection>>,
    /// Whose turn it is next, and where that ends: requests while warming up, then sessions.
    next: AtomicUsize,
    end: AtomicUsize,
    measuring: AtomicBool,
    out: Sender<Ended>,
}

/// Runs a cell's requests on this thread; every attempt goes into `out` when it has ended.
///
/// # Errors
/// If the runtime or the timer cannot be made.
pub(crate) fn measure(shared: Arc<Shared>, plan: Arc<Plan>, out: Sender<Ended>) -> io::Result<Measured> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().on_thread_unpark(health::woke).build()?;
    runtime.block_on(async move {
        let timer = Timer::new()?;
        let run = Arc::new(Loop {
            shared,
            plan,
            idle: Mutex::default(),
            next: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            measuring: AtomicBool::new(false),
            out,
        });
        run.connect_ahead().await;
        run.closed_loop(0..run.plan.warmup, run.plan.clients.unwrap_or(1), 0).await;
        let measured_from_ns = run.shared.epoch.now();
        health::begin(run.shared.epoch, measured_from_ns);
        let (cpu_before, kernel_before) = (thread_cpu_ns(), KernelCounts::now());
        // A task like those of the connections: it waits its turn as they do.
        let probe = tokio::spawn(health::probe(run.shared.epoch, Timer::new()?));
        run.measuring.store(true, Ordering::Relaxed);
        let units = run.plan.units();
        if let Some(offsets) = &run.plan.offsets {
            run.open_loop(units, offsets, measured_from_ns, &timer).await?;
        } else {
            run.closed_loop(units, run.plan.clients.unwrap_or(1), run.plan.think_ns).await;
        }
        let cpu_ns = thread_cpu_ns().saturating_sub(cpu_before);
        probe.abort();
        if let Ok(ended) = probe.await {
            ended?;
        }
        let health = health::end(measured_from_ns, run.shared.epoch.now(), cpu_ns, kernel_before);
        Ok(Measured { measured_from_ns, health })
    })
}

fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Plan {
    /// Returns the numbers of what is dispatched while measuring: sessions, or requests.
    fn units(&self) -> Range<usize> {
        match &self.sessions {
            Some(sessions) => 0..sessions.len(),
            None => self.warmup..self.requests.len(),
        }
    }

    /// Returns the requests of such a unit.
    fn requests_of(&self, unit: usize) -> Range<usize> {
        match &self.sessions {
            Some(sessions) => sessions[unit].clone(),
            None => unit..unit + 1,
        }
    }
}

impl Loop {
    /// Opens connections before anything is measured, many at a time: a server that accepts
    /// slowly would otherwise delay the first request by as many times as there are clients. A
    /// failure here is left for the request that needs the connection to report.
    async fn connect_ahead(self: &Arc<Self>) {
        const AT_A_TIME: usize = 64;
        let wanted = self.plan.connect_ahead;
        let mut opening = JoinSet::new();
        for worker in 0..wanted.min(AT_A_TIME) {
            let run = self.clone();
            let share = (wanted - worker).div_ceil(AT_A_TIME);
            opening.spawn(async move {
                for _ in 0..share {
                    let opened = Connection::open(&run.shared, &run.plan.peer, run.plan.limits.connect);
                    match opened.await {
                        Ok(connection) => run.put_idle(connection),
                        Err(_) => return,
                    }
                }
            });
        }
        while opening.join_next().await.is_some() {}
    }

    fn put_idle(&self, connection: Connection) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(mut connection) = idle.pop() {
            if !connection.closed(&self.shared) {
                return Some(connection);
            }
        }
        None
    }

    /// Sends the units of a range with so many clients, each taking the next one when free.
    async fn closed_loop(self: &Arc<Self>, units: Range<usize>, clients: u32, think_ns: u64) {
        self.next.store(units.start, Ordering::Relaxed);
        self.end.store(units.end, Ordering::Relaxed);
        let clients = clients.min(u32::try_from(units.len()).unwrap_or(u32::MAX));
        let free = self.shared.epoch.now();
        let mut all = JoinSet::new();
        for client in 0..clients {
            let run = self.clone();
            all.spawn(async move { turns::client(&*run, client, free, think_ns).await });
        }
        while all.join_next().await.is_some() {}
    }

    /// Begins the units of a range at their offsets from `from`, whatever the server does.
    async fn open_loop(
        self: &Arc<Self>,
        units: Range<usize>,
        offsets: &[u64],
        from: u64,
        timer: &Timer,
    ) -> io::Result<()> {
        const LOOK_NS: u64 = 200_000_000;
        let mut flying = JoinSet::new();
        'dispatch: for (unit, offset) in units.zip(offsets) {
            let scheduled = from + offset;
            loop {
                if self.shared.stopped().is_some() {
                    break 'dispatch;
                }
                let now = self.shared.epoch.now();
                if now >= scheduled {
                    break;
                }
                timer.until(self.shared.epoch, scheduled.min(now + LOOK_NS)).await?;
            }
            let run = self.clone();
            let requests = self.plan.requests_of(unit);
            flying.spawn(async move { turns::session(&*run, requests, None, scheduled).await });
            while flying.try_join_next().is_some() {}
        }
        while flying.join_next().await.is_some() {}
        Ok(())
    }

    /// Hands an attempt out. The receiver outlives this thread; if it is gone, so is the reason
    /// to measure.
    fn tell(&self, attempt: Attempt, next: Option<oneshot::Sender<Option<Vec<u8>>>>) {
        let _gone = self.out.send(Ended { attempt, next });
    }
}

impl World for Loop {
    fn stopped(&self) -> bool {
        self.shared.stopped().is_some()
    }

    fn take(&self) -> Option<Range<usize>> {
        let unit = self.next.fetch_add(1, Ordering::Relaxed);
        if unit >= self.end.load(Ordering::Relaxed) {
            return None;
        }
        let measuring = self.measuring.load(Ordering::Relaxed);
        Some(if measuring { self.plan.requests_of(unit) } else { unit..unit + 1 })
    }

    fn think_ns(&self, request: usize) -> u64 {
        self.plan.requests[request].think_ns
    }

    async fn until(&self, at_ns: u64) {
        const LOOK_NS: u64 = 200_000_000;
        while !self.stopped() {
            let now = self.shared.epoch.now();
            if now >= at_ns {
                return;
            }
            let look = at_ns.min(now + LOOK_NS);
            tokio::time::sleep_until(self.shared.epoch.instant(look).into()).await;
        }
    }

    /// Sends one request and, if its kept-alive connection proves dead before any byte came
    /// back, once more on a fresh one.
    async fn perform(
        &self,
        request: usize,
        client: Option<u32>,
        scheduled_ns: u64,
        bytes: Option<Vec<u8>>,
        goes_on: bool,
    ) -> Performed {
        let bytes = bytes.as_deref().unwrap_or(&self.plan.requests[request].bytes);
        let mut number = 1;
        loop {
            let mut attempt = Attempt::due(request, number, client, scheduled_ns);
            let idle = if number == 1 { self.take_idle() } else { None };
            let reused = idle.is_some();
            let connection = match idle {
                Some(connection) => Ok(connection),
                None => {
                    let from = self.shared.epoch.now();
                    let opened =
                        Connection::open(&self.shared, &self.plan.peer, self.plan.limits.connect).await;
                    attempt.connect_ns = Some(self.shared.epoch.now() - from);
                    opened
                }
            };
            match connection {
                Ok(connection) => {
                    let kept =
                        exchange(&self.shared, &self.plan.limits, connection, bytes, &mut attempt).await;
                    if let Some(connection) = kept {
                        self.put_idle(connection);
                    }
                }
                Err(end) => {
                    attempt.done_ns = self.shared.epoch.now();
                    attempt.end = end;
                    if self.shared.refused_in_a_row.load(Ordering::Relaxed) >= GONE_AFTER {
                        self.shared.stop(Stop::Gone);
                    }
                }
            }
            let done_ns = attempt.done_ns;
            let dead = matches!(attempt.end, End::Closed | End::Reset(_));
            attempt.superseded = reused && dead && attempt.reads.is_empty();
            if attempt.superseded {
                self.tell(attempt, None);
                number += 1;
                continue;
            }
            if !goes_on {
                self.tell(attempt, None);
                return Performed { done_ns, next: None };
            }
            let (asked, next) = oneshot::channel();
            self.tell(attempt, Some(asked));
            return Performed { done_ns, next: next.await.unwrap_or_default() };
        }
    }

    fn give_up(&self, request: usize, client: Option<u32>, at_ns: u64) {
        let due = Attempt::due(request, 1, client, at_ns);
        self.tell(Attempt { done_ns: at_ns, end: End::NotSent, ..due }, None);
    }
}
