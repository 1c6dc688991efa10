//! Who sends when: the clients of a closed loop, or the dispatcher of an open one.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinSet;

use super::clock::Timer;
use super::exchange::{Attempt, Connection, End, Limits, Shared, Stop, exchange};
use super::health::{self, Health, KernelCounts};

/// A request ready to be sent.
#[derive(Clone)]
pub(crate) struct Planned {
    /// Head and body.
    pub(crate) bytes: Vec<u8>,
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
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) requests: Vec<Planned>,
    pub(crate) warmup: usize,
    /// Clients of a closed loop; warm-up is always a closed loop.
    pub(crate) clients: Option<u32>,
    pub(crate) think_ns: u64,
    /// Offsets of measured requests from the start of the measured phase, for open loops.
    pub(crate) offsets: Option<Vec<u64>>,
    /// Connections opened before the clock starts.
    pub(crate) connect_ahead: usize,
    pub(crate) limits: Limits,
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
    next: AtomicUsize,
    out: Sender<Attempt>,
}

/// Runs a cell's requests on this thread; every attempt goes into `out` when it has ended.
///
/// # Errors
/// If the runtime or the timer cannot be made.
pub(crate) fn measure(shared: Arc<Shared>, plan: Arc<Plan>, out: Sender<Attempt>) -> io::Result<Measured> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().on_thread_unpark(health::woke).build()?;
    runtime.block_on(async move {
        let timer = Timer::new()?;
        let run = Arc::new(Loop { shared, plan, idle: Mutex::default(), next: AtomicUsize::new(0), out });
        run.connect_ahead().await;
        run.closed_loop(0..run.plan.warmup, run.plan.clients.unwrap_or(1), 0).await;
        let measured_from_ns = run.shared.epoch.now();
        health::begin(run.shared.epoch, measured_from_ns);
        let (cpu_before, kernel_before) = (thread_cpu_ns(), KernelCounts::now());
        // A task like those of the connections: it waits its turn as they do.
        let probe = tokio::spawn(health::probe(run.shared.epoch, Timer::new()?));
        let measured = run.plan.warmup..run.plan.requests.len();
        if let Some(offsets) = &run.plan.offsets {
            run.open_loop(measured, offsets, measured_from_ns, &timer).await?;
        } else {
            run.closed_loop(measured, run.plan.clients.unwrap_or(1), run.plan.think_ns).await;
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

impl Loop {
    /// Opens connections before anything is measured. A failure here is left for the request
    /// that needs the connection to report.
    async fn connect_ahead(&self) {
        for _ in 0..self.plan.connect_ahead {
            match Connection::open(&self.shared, &self.plan.addresses, self.plan.limits.connect).await {
                Ok(connection) => self.put_idle(connection),
                Err(_) => return,
            }
        }
    }

    fn put_idle(&self, connection: Connection) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(connection) = idle.pop() {
            if !connection.closed(&self.shared) {
                return Some(connection);
            }
        }
        None
    }

    /// Sends the requests of a range with so many clients, each taking the next one when free.
    async fn closed_loop(self: &Arc<Self>, requests: std::ops::Range<usize>, clients: u32, think_ns: u64) {
        self.next.store(requests.start, Ordering::Relaxed);
        let clients = clients.min(u32::try_from(requests.len()).unwrap_or(u32::MAX));
        let free = self.shared.epoch.now();
        let mut all = JoinSet::new();
        for client in 0..clients {
            let (run, end) = (self.clone(), requests.end);
            all.spawn(async move { run.client(client, end, free, think_ns).await });
        }
        while all.join_next().await.is_some() {}
    }

    async fn client(&self, client: u32, end: usize, mut scheduled: u64, think_ns: u64) {
        loop {
            if self.shared.stopped().is_some() {
                return;
            }
            let request = self.next.fetch_add(1, Ordering::Relaxed);
            if request >= end {
                return;
            }
            let done = self.perform(request, Some(client), scheduled).await;
            scheduled = done.saturating_add(think_ns);
            if think_ns > 0 {
                tokio::time::sleep_until(self.shared.epoch.instant(scheduled).into()).await;
            }
        }
    }

    /// Sends the requests of a range at their offsets from `from`, whatever the server does.
    async fn open_loop(
        self: &Arc<Self>,
        requests: std::ops::Range<usize>,
        offsets: &[u64],
        from: u64,
        timer: &Timer,
    ) -> io::Result<()> {
        const LOOK_NS: u64 = 200_000_000;
        let mut flying = JoinSet::new();
        'dispatch: for (request, offset) in requests.zip(offsets) {
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
            flying.spawn(async move { run.perform(request, None, scheduled).await });
            while flying.try_join_next().is_some() {}
        }
        while flying.join_next().await.is_some() {}
        Ok(())
    }

    /// Sends one request and, if its kept-alive connection proves dead before any byte came
    /// back, once more on a fresh one. Returns when it was done.
    async fn perform(&self, request: usize, client: Option<u32>, scheduled_ns: u64) -> u64 {
        let mut number = 1;
        loop {
            let mut attempt = Attempt {
                request,
                attempt: number,
                client,
                scheduled_ns,
                connect_ns: None,
                sent_ns: None,
                in_flight: 0,
                bytes: Vec::new(),
                reads: Vec::new(),
                headers_ns: None,
                done_ns: 0,
                end: End::Closed,
                superseded: false,
            };
            let idle = if number == 1 { self.take_idle() } else { None };
            let reused = idle.is_some();
            let connection = match idle {
                Some(connection) => Ok(connection),
                None => {
                    let from = self.shared.epoch.now();
                    let opened =
                        Connection::open(&self.shared, &self.plan.addresses, self.plan.limits.connect).await;
                    attempt.connect_ns = Some(self.shared.epoch.now() - from);
                    opened
                }
            };
            match connection {
                Ok(connection) => {
                    let bytes = &self.plan.requests[request].bytes;
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
            let done = attempt.done_ns;
            let dead = matches!(attempt.end, End::Closed | End::Reset(_));
            attempt.superseded = reused && dead && attempt.reads.is_empty();
            let again = attempt.superseded;
            // The receiver outlives this thread; if it is gone, so is the reason to measure.
            let _gone = self.out.send(attempt);
            if !again {
                return done;
            }
            number += 1;
        }
    }
}
