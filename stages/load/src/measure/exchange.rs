//! One attempt of one request on one connection.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::attempt::{Attempt, End, Read};
use super::limits::{LOOK, Limits, Watch};
use super::shared::{Reading, Shared};
use super::{Stream, health};
use crate::peer::Peer;
use crate::wire::{self, Framing};

/// The longest response body kept.
const MAX_BODY: usize = 256 * 1024 * 1024;

/// The observed behaviour of one server, and the idle connections to it.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) idle: Mutex<Vec<Connection>>,
    pub(super) refused_in_a_row: AtomicU32,
    /// Whether it closes connections right after its answers, whatever its heads promise (llama.cpp does). Connections
    /// are then used only once.
    closes_at_once: AtomicBool,
}

/// An open connection.
pub(crate) struct Connection {
    stream: Stream,
    /// When its last answer was complete; `None` before the first.
    served_ns: Option<u64>,
    /// How long it took to open.
    opened_within_ns: u64,
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
        let (from, until) = (shared.epoch.now(), Instant::now() + limit);
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
                    opened_within_ns: shared.epoch.now().saturating_sub(from),
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

/// Returns whether a connection could not be opened for a reason that lies in this client: its open files or its memory.
fn is_of_client(error: &io::Error) -> bool {
    let own = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|error| own.contains(&error))
}

async fn connect(peer: &Peer) -> Result<Stream, End> {
    let tcp = TcpStream::connect(peer.addresses.as_slice())
        .await
        .map_err(|e| match e.kind() {
            io::ErrorKind::ConnectionRefused => End::Refused(e.to_string()),
            _ if is_of_client(&e) => End::NoConnection(e.to_string()),
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
    attempt.note_opening(connection.opened_within_ns);
    attempt.bytes.reserve(8 * 1024);
    attempt.reads.reserve(64);
    let sent = shared.epoch.now();
    attempt.sent_ns = Some(sent);
    attempt.sent_bytes = request.len();
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
        if attempt.met_a_close() {
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
    let watch = Watch::from(sent, shared, limits);
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
    let mut watch = Watch::from(sent, shared, limits);
    let sleep = tokio::time::sleep_until(watch.next_look(shared, limits));
    tokio::pin!(sleep);
    let mut framing: Option<Framing> = None;
    let mut reading = Reading::of(shared);
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
        if watch.is_late(at_ns)
            && let Some(end) = watch.passed(shared, limits)
        {
            attempt.bytes.truncate(start);
            return end;
        }
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
        if !watch.body && body_start < end {
            watch.body = true;
            // From now on another limit counts, which may pass before the next look.
            if limits.inter_token < LOOK {
                sleep.as_mut().reset(watch.next_look(shared, limits));
            }
        }
        match framing.advance(&attempt.bytes[body_start..end], |_| ()) {
            // Bytes after the response's end: the connection is out of step.
            Ok(taken) if framing.done() => {
                *keep &= body_start + taken == end;
                return End::Complete;
            }
            Ok(_) if end > MAX_BODY => {
                return End::Broken(format!("the response is longer than {MAX_BODY} bytes"));
            }
            // A server that sends without a pause never lets the timer run out.
            Ok(_) if sleep.deadline() <= Instant::from_std(shared.epoch.instant(at_ns)) => {
                if let Some(end) = watch.passed(shared, limits) {
                    return end;
                }
                sleep.as_mut().reset(watch.next_look(shared, limits));
            }
            Ok(_) => {}
            Err(error) => return End::Broken(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_files_is_of_the_client_and_a_refusal_is_not() {
        let is_own = |errno: Errno| is_of_client(&io::Error::from(errno));
        assert!(is_own(Errno::MFILE) && is_own(Errno::NFILE));
        // A host without IPv6 reports this for `::1` after the server is gone.
        assert!(
            !is_own(Errno::ADDRNOTAVAIL)
                && !is_own(Errno::CONNREFUSED)
                && !is_own(Errno::HOSTUNREACH)
        );
    }
}
