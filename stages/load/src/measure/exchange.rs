//! One attempt of one request on one connection.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::{Epoch, Stream, health};
use crate::peer::Peer;
use crate::settings::Timeouts;
use crate::wire::{self, Framing};

/// The longest response body kept.
const MAX_BODY: usize = 256 * 1024 * 1024;

/// The most bytes of answers in progress on all connections together.
const MOST_AT_ONCE: usize = 512 * 1024 * 1024;

/// The most bytes of answers in a cell. Its rows and chunks are kept until its end.
const MOST_IN_A_CELL: usize = 16 * 1024 * 1024 * 1024;

/// The longest time between two checks of a waiting request for its limits and the stop signal.
const LOOK: Duration = Duration::from_millis(500);

/// A request's time limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) connect: Duration,
    pub(crate) first_token: Duration,
    pub(crate) inter_token: Duration,
    pub(crate) total: Duration,
    /// When the sender gives the request up, measured from its first byte.
    pub(crate) cancel: Option<Duration>,
}

impl Limits {
    /// Takes the limits of settings; nobody gives up.
    pub(crate) fn of(timeouts: &Timeouts) -> Self {
        Self {
            connect: timeouts.connect.duration(),
            first_token: timeouts.first_token.duration(),
            inter_token: timeouts.inter_token.duration(),
            total: timeouts.total.duration(),
            cancel: None,
        }
    }
}

/// Why everything stops early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stop {
    /// The user or the cell's time limit.
    Cancelled,
    /// No stream carried a byte for the length of the heartbeat.
    Hung,
    /// The server no longer takes connections.
    Gone,
}

/// The state shared by the measuring thread and its watcher: only numbers.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) epoch: Epoch,
    stop: AtomicU8,
    pub(crate) in_flight: AtomicU32,
    pub(crate) last_sign: AtomicU64,
    pub(crate) connections: AtomicU64,
    /// The index of the server that no longer takes connections.
    gone: AtomicUsize,
    /// Bytes of unfinished answers.
    reading: AtomicUsize,
    /// Bytes of all answers of the cell.
    taken: AtomicUsize,
    /// The most that these may be.
    most_taken: usize,
    /// Whether a request was answered; who watches says so.
    pub(crate) answered: AtomicBool,
}

/// Counts the bytes of one answer while it is read.
struct Reading<'s> {
    shared: &'s Shared,
    bytes: usize,
}

impl Reading<'_> {
    /// Counts further bytes.
    ///
    /// # Errors
    /// A sentence if they exceed the limit for answers in progress, or for a cell.
    fn add(&mut self, bytes: usize) -> Result<(), String> {
        self.bytes += bytes;
        if self.shared.reading.fetch_add(bytes, Ordering::Relaxed) + bytes > MOST_AT_ONCE {
            return Err(format!(
                "the answers that are read at once are longer than {MOST_AT_ONCE} bytes together"
            ));
        }
        let most = self.shared.most_taken;
        if self.shared.taken.fetch_add(bytes, Ordering::Relaxed) + bytes > most {
            return Err(format!(
                "the answers of this cell are longer than {most} bytes together"
            ));
        }
        Ok(())
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.shared.reading.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Shared {
    /// Starts a cell's clock and counters.
    pub(crate) fn start() -> Self {
        Self::on(Epoch::start(), 1)
    }

    /// Takes a cell's clock, and starts the counters of one generator. Each of `generators` has an equal part of a
    /// cell's limits.
    pub(crate) fn on(epoch: Epoch, generators: u32) -> Self {
        Self {
            epoch,
            stop: AtomicU8::new(0),
            in_flight: AtomicU32::new(0),
            last_sign: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            gone: AtomicUsize::new(0),
            reading: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            most_taken: MOST_IN_A_CELL / generators.max(1) as usize,
            answered: AtomicBool::new(false),
        }
    }

    /// Stops everything; the first reason stays.
    pub(crate) fn stop(&self, reason: Stop) {
        let code = match reason {
            Stop::Cancelled => 1,
            Stop::Hung => 2,
            Stop::Gone => 3,
        };
        let _already = self
            .stop
            .compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Stops everything because a server no longer takes connections.
    pub(crate) fn stop_without(&self, server: usize) {
        if self.stopped().is_none() {
            self.gone.store(server, Ordering::Relaxed);
        }
        self.stop(Stop::Gone);
    }

    /// Returns the index of the server that is gone, if that was the reason to stop.
    pub(crate) fn gone(&self) -> usize {
        self.gone.load(Ordering::Relaxed)
    }

    /// Returns why everything must stop, if it must.
    pub(crate) fn stopped(&self) -> Option<Stop> {
        match self.stop.load(Ordering::Relaxed) {
            1 => Some(Stop::Cancelled),
            2 => Some(Stop::Hung),
            3 => Some(Stop::Gone),
            _ => None,
        }
    }
}

/// The observed behaviour of one server, and the idle connections to it.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) idle: Mutex<Vec<Connection>>,
    pub(super) refused_in_a_row: AtomicU32,
    /// Whether it closes connections right after its answers, whatever its heads promise (llama.cpp does). Connections
    /// are then used only once.
    closes_at_once: AtomicBool,
}

/// One socket read: when it returned, and how many bytes of the response had arrived by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) at_ns: u64,
    pub(crate) end: usize,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The response is complete.
    Complete,
    /// The connection ended before the response did.
    Closed,
    /// The connection was reset, or the socket had another error.
    Reset(String),
    /// The server took no connection, or none that can be trusted.
    Refused(String),
    /// A time limit passed: its name.
    Timeout(&'static str),
    /// The response violated HTTP, or our limits.
    Broken(String),
    /// Everything was stopped.
    Stopped(Stop),
    /// The sender gave it up after this long.
    GivenUp(Duration),
    /// It was never sent, because its session could not go on.
    NotSent,
}

/// The raw evidence of one attempt.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// Its index in the plan.
    pub(crate) request: usize,
    /// 1, or 2 for the replay of a stale connection.
    pub(crate) attempt: u32,
    /// The client of a closed loop.
    pub(crate) client: Option<u32>,
    pub(crate) scheduled_ns: u64,
    /// When it could have been sent: its due time or, with a limit on requests in flight, the time when its place
    /// became free.
    pub(crate) free_ns: u64,
    /// How long the connection took, if one was opened for this attempt.
    pub(crate) connect_ns: Option<u64>,
    pub(crate) sent_ns: Option<u64>,
    /// Other requests in flight when this one was sent.
    pub(crate) in_flight: u32,
    pub(crate) bytes: Vec<u8>,
    pub(crate) reads: Vec<Read>,
    pub(crate) headers_ns: Option<u64>,
    pub(crate) done_ns: u64,
    pub(crate) end: End,
    /// Whether a second attempt follows.
    pub(crate) superseded: bool,
}

impl Attempt {
    /// Makes an attempt with only its due time known.
    pub(crate) fn due(
        request: usize,
        attempt: u32,
        client: Option<u32>,
        scheduled_ns: u64,
    ) -> Self {
        Self {
            request,
            attempt,
            client,
            scheduled_ns,
            free_ns: scheduled_ns,
            connect_ns: None,
            sent_ns: None,
            in_flight: 0,
            bytes: Vec::new(),
            reads: Vec::new(),
            headers_ns: None,
            done_ns: 0,
            end: End::Closed,
            superseded: false,
        }
    }

    /// Returns its size in memory, bytes.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity() + self.reads.capacity() * size_of::<Read>()
    }
}

/// An open connection.
pub(crate) struct Connection {
    stream: Stream,
    /// When its last answer was complete; `None` before the first.
    served_ns: Option<u64>,
}

/// A connection that closes sooner than this after an answer was not closed for being idle.
const AT_ONCE_NS: u64 = 1_000_000_000;

impl Connection {
    /// Opens a connection; the limit includes the TLS handshake.
    pub(super) async fn open(
        shared: &Shared,
        seen: &Seen,
        peer: &Peer,
        limit: Duration,
    ) -> Result<Self, End> {
        let until = Instant::now() + limit;
        let connecting = connect(peer);
        tokio::pin!(connecting);
        let connected = loop {
            let look = until.min(Instant::now() + LOOK);
            match tokio::time::timeout_at(look, &mut connecting).await {
                Ok(connected) => break Ok(connected),
                Err(elapsed) if look == until => break Err(elapsed),
                Err(_) => {
                    if let Some(stop) = shared.stopped() {
                        return Err(End::Stopped(stop));
                    }
                }
            }
        };
        match connected {
            Ok(Ok(stream)) => {
                shared.connections.fetch_add(1, Ordering::Relaxed);
                seen.refused_in_a_row.store(0, Ordering::Relaxed);
                Ok(Self {
                    stream,
                    served_ns: None,
                })
            }
            Ok(Err(end)) => {
                if matches!(end, End::Refused(_)) {
                    seen.refused_in_a_row.fetch_add(1, Ordering::Relaxed);
                }
                Err(end)
            }
            Err(_) => Err(End::Timeout("connect")),
        }
    }

    /// Returns whether the server is known to have closed an idle connection.
    pub(super) fn closed(&mut self, shared: &Shared, seen: &Seen) -> bool {
        // Everything but silence counts as closed, including an unexpected byte.
        let open = self.stream.is_silent();
        if !open {
            self.note_closed(shared, seen);
        }
        !open
    }

    /// Records whether the server closed this connection right after an answer.
    fn note_closed(&self, shared: &Shared, seen: &Seen) {
        if self
            .served_ns
            .is_some_and(|at| shared.epoch.now().saturating_sub(at) < AT_ONCE_NS)
        {
            seen.closes_at_once.store(true, Ordering::Relaxed);
        }
    }
}

async fn connect(peer: &Peer) -> Result<Stream, End> {
    let tcp = TcpStream::connect(peer.addresses.as_slice())
        .await
        .map_err(|e| match e.kind() {
            io::ErrorKind::ConnectionRefused => End::Refused(e.to_string()),
            _ => End::Reset(format!("connecting: {e}")),
        })?;
    tcp.set_nodelay(true)
        .map_err(|e| End::Reset(e.to_string()))?;
    match &peer.tls {
        None => Ok(Stream::Plain(tcp)),
        Some(tls) => tls
            .connect(tcp)
            .await
            .map(Stream::tls)
            .map_err(|e| End::Refused(e.to_string())),
    }
}

/// Sends a request and reads its response into `attempt`. Returns the connection if it can carry another request.
pub(super) async fn exchange(
    shared: &Shared,
    seen: &Seen,
    limits: &Limits,
    mut connection: Connection,
    request: &[u8],
    attempt: &mut Attempt,
) -> Option<Connection> {
    attempt.in_flight = shared.in_flight.fetch_add(1, Ordering::Relaxed);
    attempt.bytes.reserve(8 * 1024);
    attempt.reads.reserve(64);
    let sent = shared.epoch.now();
    attempt.sent_ns = Some(sent);
    shared.last_sign.store(sent, Ordering::Relaxed);
    let mut keep = false;
    let end = match send(shared, limits, &mut connection.stream, request, sent).await {
        Ok(()) => {
            receive(
                shared,
                limits,
                &mut connection.stream,
                attempt,
                sent,
                &mut keep,
            )
            .await
        }
        // A server may answer and close before it has read the whole request, so read its answer.
        Err(End::Reset(error)) => {
            let end = receive(
                shared,
                limits,
                &mut connection.stream,
                attempt,
                sent,
                &mut keep,
            )
            .await;
            if end == End::Complete {
                end
            } else {
                End::Reset(error)
            }
        }
        Err(end) => end,
    };
    attempt.done_ns = match attempt.reads.last() {
        Some(last) if end == End::Complete => last.at_ns,
        _ => shared.epoch.now(),
    };
    attempt.end = end;
    shared.in_flight.fetch_sub(1, Ordering::Relaxed);
    if attempt.end != End::Complete {
        if attempt.reads.is_empty() {
            connection.note_closed(shared, seen);
        }
        return None;
    }
    connection.served_ns = Some(attempt.done_ns);
    (keep && !seen.closes_at_once.load(Ordering::Relaxed)).then_some(connection)
}

/// Writes the request.
async fn send(
    shared: &Shared,
    limits: &Limits,
    stream: &mut Stream,
    request: &[u8],
    sent: u64,
) -> Result<(), End> {
    // The kernel nearly always takes everything at once.
    let written = stream
        .write_now(request)
        .map_err(|e| End::Reset(e.to_string()))?;
    health::note_write(shared.epoch.now() - sent);
    if written == request.len() && stream.is_flushed() {
        return Ok(());
    }
    let watch = Watch {
        sent,
        last: sent,
        body: false,
    };
    let rest = stream.send(&request[written..]);
    tokio::pin!(rest);
    loop {
        let look = Instant::now() + LOOK;
        match tokio::time::timeout_at(look, &mut rest).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(e)) => return Err(End::Reset(e.to_string())),
            Err(_) => {
                if let Some(end) = watch.passed(shared, limits) {
                    return Err(end);
                }
            }
        }
    }
}

/// Reads the response to its end, a limit or a stop.
async fn receive(
    shared: &Shared,
    limits: &Limits,
    stream: &mut Stream,
    attempt: &mut Attempt,
    sent: u64,
    keep: &mut bool,
) -> End {
    let mut watch = Watch {
        sent,
        last: sent,
        body: false,
    };
    let sleep = tokio::time::sleep_until(watch.next_look(shared, limits));
    tokio::pin!(sleep);
    let mut framing: Option<Framing> = None;
    let mut reading = Reading { shared, bytes: 0 };
    loop {
        if attempt.bytes.capacity() - attempt.bytes.len() < 1024 {
            attempt.bytes.reserve(8 * 1024);
        }
        let start = attempt.bytes.len();
        let got = tokio::select! {
            biased;
            got = stream.read_buf(&mut attempt.bytes) => got,
            () = &mut sleep => {
                if let Some(end) = watch.passed(shared, limits) {
                    return end;
                }
                sleep.as_mut().reset(watch.next_look(shared, limits));
                continue;
            }
        };
        let at_ns = shared.epoch.now();
        match got {
            Ok(0) if framing == Some(Framing::UntilClose) => return End::Complete,
            Ok(0) => return End::Closed,
            Ok(_) => {}
            // TLS ended without its closing message.
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return End::Closed,
            Err(e) => return End::Reset(e.to_string()),
        }
        health::note_read(at_ns);
        let end = attempt.bytes.len();
        if let Err(too_long) = reading.add(end - start) {
            return End::Broken(too_long);
        }
        attempt.reads.push(Read { at_ns, end });
        watch.last = at_ns;
        shared.last_sign.store(at_ns, Ordering::Relaxed);
        let mut body_start = start;
        if framing.is_none() {
            match wire::head(&attempt.bytes) {
                Ok(None) => continue,
                Ok(Some(head)) => {
                    attempt.headers_ns = Some(at_ns);
                    body_start = head.length;
                    *keep = head.keep_alive;
                    framing = Some(head.framing);
                }
                Err(error) => return End::Broken(error.to_string()),
            }
        }
        let Some(framing) = &mut framing else {
            continue;
        };
        watch.body |= body_start < end;
        match framing.advance(&attempt.bytes[body_start..end], |_| ()) {
            // Bytes after the response's end: the connection is out of step.
            Ok(taken) if framing.done() => {
                *keep &= body_start + taken == end;
                return End::Complete;
            }
            Ok(_) if end > MAX_BODY => {
                return End::Broken(format!("the response is longer than {MAX_BODY} bytes"));
            }
            Ok(_) => {}
            Err(error) => return End::Broken(error.to_string()),
        }
    }
}

/// The name of the limit that a request's sender sets.
const CANCEL: &str = "cancel";

/// The starting points of the time limits.
struct Watch {
    sent: u64,
    /// The last sign of life.
    last: u64,
    /// Whether a byte of the body has arrived.
    body: bool,
}

impl Watch {
    fn nearest(&self, limits: &Limits) -> (u64, &'static str) {
        let after = |from: u64, limit: Duration| {
            from.saturating_add(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX))
        };
        let total = (after(self.sent, limits.total), "total");
        let silence = if self.body {
            (after(self.last, limits.inter_token), "inter-token")
        } else {
            (after(self.sent, limits.first_token), "first-token")
        };
        let cancel = limits.cancel.map(|limit| (after(self.sent, limit), CANCEL));
        [Some(silence), cancel]
            .into_iter()
            .flatten()
            .fold(
                total,
                |nearest, other| if other.0 < nearest.0 { other } else { nearest },
            )
    }

    /// Returns the end if a limit has passed or everything must stop.
    fn passed(&self, shared: &Shared, limits: &Limits) -> Option<End> {
        if let Some(stop) = shared.stopped() {
            return Some(End::Stopped(stop));
        }
        let (at, which) = self.nearest(limits);
        (shared.epoch.now() >= at).then(|| match limits.cancel {
            Some(after) if which == CANCEL => End::GivenUp(after),
            _ => End::Timeout(which),
        })
    }

    fn next_look(&self, shared: &Shared, limits: &Limits) -> Instant {
        let (at, _) = self.nearest(limits);
        let look = Instant::now() + LOOK;
        let now = shared.epoch.now();
        if at.saturating_sub(now) < u64::try_from(LOOK.as_nanos()).unwrap_or(u64::MAX) {
            Instant::from_std(shared.epoch.instant(at))
        } else {
            look
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_bounded_at_once_and_over_a_whole_cell() {
        let shared = Shared::start();
        // One after the other: never too much at once, but too much in total.
        for _ in 0..MOST_IN_A_CELL / MOST_AT_ONCE {
            let mut reading = Reading {
                shared: &shared,
                bytes: 0,
            };
            assert_eq!(reading.add(MOST_AT_ONCE), Ok(()));
        }
        let mut last = Reading {
            shared: &shared,
            bytes: 0,
        };
        assert!(last.add(1).unwrap_err().contains("of this cell"));

        let shared = Shared::start();
        let mut one = Reading {
            shared: &shared,
            bytes: 0,
        };
        assert_eq!(one.add(MOST_AT_ONCE), Ok(()));
        let mut other = Reading {
            shared: &shared,
            bytes: 0,
        };
        assert!(other.add(1).unwrap_err().contains("at once"));
        drop((one, other));
        let mut next = Reading {
            shared: &shared,
            bytes: 0,
        };
        assert_eq!(next.add(1), Ok(()), "what has ended does not count");
    }
}
