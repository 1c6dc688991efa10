//! A reference server: a known schedule of tokens, known faults, and a log of its true times.
//!
//! It speaks raw HTTP/1.1 over tokio on a separate thread, so that the load generator can be checked against what was
//! really sent. Token `i` is sent at `arrival + ttft + i · gap` (an absolute schedule), and the log has the moment at
//! which each was really handed to the kernel. It speaks every API of the load, distinguished by path. For tests,
//! calibration and benches; it is not an engine.

mod answers;
mod faults;
mod launcher;
mod process;
mod request;
mod sending;
mod tls;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Notify, Semaphore};

pub use self::tls::Identity;
pub use faults::{Fault, Faults};
pub use launcher::{Launcher, ReferenceProcess};
pub use process::{PROCESS_COMMAND, serve_process};

use crate::measure::{Stream, instant_and_monotonic};

use answers::Dialect;
use request::Request;
use sending::{answer, frame};

/// How many connections may wait to be accepted. If the queue is full, a client's kernel tries again after a second.
const BACKLOG: u32 = 4096;

/// How the server treats a request.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// The time from a request's arrival to its first token.
    pub ttft: Duration,
    /// The time between tokens.
    pub gap: Duration,
    /// The number of tokens in an answer; `None`: as many as requested.
    pub tokens: Option<u32>,
    /// The number of tokens in one event.
    pub tokens_per_chunk: u32,
    /// The number of requests answered at once; `None`: all. The schedule of a request that had to wait begins when a
    /// slot became free. The highest rate is therefore `slots` · 1 s / (ttft + (tokens − 1) · gap) requests per second:
    /// a known knee.
    pub slots: Option<u32>,
    /// The treatment of a request that finds no free slot.
    pub when_full: WhenFull,
    /// The key that every request must carry. HTTP 401 repeats a wrong key to its sender.
    pub api_key: Option<String>,
    /// The faults, and the requests that they affect.
    pub faults: Faults,
    /// The part of each request that the log keeps.
    pub log: Log,
}

/// The treatment of a request that finds no free slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits, in the order of arrival.
    #[default]
    Wait,
    /// It is answered with HTTP 503.
    Refuse,
}

/// The part of each request that a server's log keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Log {
    /// Nothing: for measuring ceilings.
    Nothing,
    /// The times of each request.
    Times,
    /// Times, and the bytes of the request.
    #[default]
    Everything,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            ttft: Duration::ZERO,
            gap: Duration::ZERO,
            tokens: None,
            tokens_per_chunk: 1,
            slots: None,
            when_full: WhenFull::default(),
            api_key: None,
            faults: Faults::default(),
            log: Log::default(),
        }
    }
}

/// The true times of one request, ns since boot on the kernel's monotonic clock, which all processes of a machine
/// share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// The request's index in the order of arrival.
    pub ordinal: u64,
    /// When its last byte had been read.
    pub arrived_ns: u64,
    /// The BLAKE3 digest of its `prompt`, as in the column `prompt_digest` of `requests`; empty
    /// if the body has none.
    pub prompt_digest: String,
    /// When each event with text was handed to the kernel.
    pub sent_ns: Vec<u64>,
    /// The request as received, head and body.
    pub request: Vec<u8>,
}

/// Framed events by dialect and token.
type Events = BTreeMap<(Dialect, u32), Arc<[u8]>>;

#[derive(Debug)]
struct State {
    behaviour: Behaviour,
    /// With TLS: the server's identity.
    identity: Option<Identity>,
    started: Instant,
    /// The start on the monotonic clock.
    started_ns: u64,
    arrivals: AtomicU64,
    slots: Option<Semaphore>,
    log: Mutex<Vec<Truth>>,
    stop: Notify,
    /// The framed events of one token, rendered once, because the ceiling of clients is measured with this server.
    events: Mutex<Events>,
}

impl State {
    fn framed(&self, dialect: Dialect, token: u32) -> Arc<[u8]> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let render = || frame(dialect.event(token, 1, Fault::None).as_bytes()).into();
        events
            .entry((dialect, token))
            .or_insert_with(render)
            .clone()
    }
}

/// A running reference server. Dropping it stops it and breaks its connections.
#[derive(Debug)]
pub struct ReferenceServer {
    address: SocketAddr,
    state: Arc<State>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl ReferenceServer {
    /// Starts a server on a free port of the loopback interface, and logs its requests.
    ///
    /// # Errors
    /// If no port or thread is available.
    pub fn start(behaviour: Behaviour) -> io::Result<Self> {
        Self::start_on(behaviour, 0, None)
    }

    /// Starts a server on a given port of the loopback interface, 0 for any free one. With an identity, it speaks TLS.
    ///
    /// # Errors
    /// If the port or a thread is not available.
    pub fn start_on(
        behaviour: Behaviour,
        port: u16,
        identity: Option<Identity>,
    ) -> io::Result<Self> {
        // If hundreds of tokens are due at once, a request that arrives meanwhile must be read soon, because its time
        // in the kernel is not part of the truth.
        const TURNS_BETWEEN_READS: u32 = 8;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .event_interval(TURNS_BETWEEN_READS)
            .build()?;
        let listener = {
            let _runtime = runtime.enter();
            let socket = TcpSocket::new_v4()?;
            socket.set_reuseaddr(true)?;
            socket.bind((std::net::Ipv4Addr::LOCALHOST, port).into())?;
            socket.listen(BACKLOG)?
        };
        let address = listener.local_addr()?;
        let (started, started_ns) = instant_and_monotonic();
        let slots = behaviour.slots.map(|n| Semaphore::new(n as usize));
        let state = Arc::new(State {
            behaviour,
            identity,
            slots,
            started,
            started_ns,
            arrivals: AtomicU64::new(0),
            log: Mutex::default(),
            stop: Notify::new(),
            events: Mutex::default(),
        });
        let served = state.clone();
        let thread = std::thread::Builder::new()
            .name("reference".to_owned())
            .spawn(move || {
                // A failing listener ends the server, and its clients see refused connections.
                let _ended = runtime.block_on(serve(listener, served));
            })?;
        Ok(Self {
            address,
            state,
            thread: Some(thread),
        })
    }

    /// Returns the server's URL.
    pub fn url(&self) -> String {
        let scheme = if self.state.identity.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}", self.address)
    }

    /// Returns the true times of the first requests in the order of arrival, as soon as this many have ended. An answer
    /// is logged a moment after its last byte was sent. After ten seconds, returns those that exist.
    pub fn truth(&self, requests: usize) -> Vec<Truth> {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let mut log = self
                .state
                .log
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            if log.len() >= requests || Instant::now() >= until {
                log.sort_by_key(|truth| truth.ordinal);
                return log;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Writes the log after every answer in progress has ended. A line per request:
    /// `ordinal prompt_digest arrived_ns sent_ns…`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write_truth(&self, mut out: impl io::Write) -> io::Result<()> {
        let begun = match self.state.behaviour.log {
            Log::Nothing => 0,
            Log::Times | Log::Everything => self.state.arrivals.load(Ordering::Relaxed),
        };
        for truth in self.truth(usize::try_from(begun).unwrap_or(usize::MAX)) {
            write!(
                out,
                "{} {} {}",
                truth.ordinal, truth.prompt_digest, truth.arrived_ns
            )?;
            for sent in truth.sent_ns {
                write!(out, " {sent}")?;
            }
            writeln!(out)?;
        }
        out.flush()
    }
}

impl Drop for ReferenceServer {
    fn drop(&mut self) {
        self.state.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// Reads the output of [`ReferenceServer::write_truth`].
///
/// # Errors
/// If it cannot be read, or a line is not part of a log.
pub(crate) fn read_truth(log: impl io::BufRead) -> io::Result<Vec<Truth>> {
    let mut truths = Vec::new();
    for line in log.lines() {
        let line = line?;
        let mut fields = line.split(' ');
        let (ordinal, digest) = (fields.next().and_then(|f| f.parse().ok()), fields.next());
        let times: Result<Vec<u64>, _> = fields.map(str::parse).collect();
        match (ordinal, digest, times.as_deref()) {
            (Some(ordinal), Some(digest), Ok([arrived_ns, sent_ns @ ..])) => truths.push(Truth {
                ordinal,
                prompt_digest: digest.to_owned(),
                arrived_ns: *arrived_ns,
                sent_ns: sent_ns.to_vec(),
                request: Vec::new(),
            }),
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("no log line: {line}"),
                ));
            }
        }
    }
    Ok(truths)
}

async fn serve(listener: TcpListener, state: Arc<State>) -> io::Result<()> {
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // Connections that break before they are accepted, or too many connections, must not end the server for
                // other clients.
                let Ok((stream, _)) = accepted else {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    continue;
                };
                if stream.set_nodelay(true).is_err() {
                    continue;
                }
                let state = state.clone();
                tokio::spawn(async move {
                    let stream = match &state.identity {
                        None => Ok(Stream::Plain(stream)),
                        Some(identity) => identity.accept(stream).await,
                    };
                    // A client may leave at any time.
                    if let Ok(stream) = stream {
                        let _gone = connection(stream, &state).await;
                    }
                });
            }
            () = state.stop.notified() => return Ok(()),
        }
    }
}

async fn connection(mut stream: Stream, state: &State) -> io::Result<()> {
    let mut pending = Vec::new();
    while let Some((request, arrived)) = read_request(&mut stream, &mut pending).await? {
        if let Some(key) = &state.behaviour.api_key {
            let sent = request.header("authorization").unwrap_or("nothing");
            if sent.strip_prefix("Bearer ") != Some(key) {
                stream
                    .send(&answers::error(401, "", &format!("wrong key: {sent}")))
                    .await?;
                continue;
            }
        }
        if request.path() == "/metrics" {
            let count = state.arrivals.load(Ordering::Relaxed);
            let text = format!(
                "# TYPE reference_requests counter\nreference_requests{{server=\"x\"}} {count}\n"
            );
            stream
                .send(&answers::whole(200, "", "text/plain", text.as_bytes()))
                .await?;
            continue;
        }
        if request.path() == "/v1/models" {
            let models = br#"{"object":"list","data":[{"id":"reference","object":"model"}]}"#;
            stream
                .send(&answers::whole(200, "", "application/json", models))
                .await?;
            continue;
        }
        let ordinal = state.arrivals.fetch_add(1, Ordering::Relaxed);
        let fault = state.behaviour.faults.of(ordinal);
        let mut truth = Truth {
            ordinal,
            arrived_ns: since(state, arrived),
            ..Truth::default()
        };
        let kept = answer(&mut stream, state, &request, fault, arrived, &mut truth).await;
        if state.behaviour.log != Log::Nothing {
            truth.prompt_digest = request.prompt_digest().unwrap_or_default();
        }
        if state.behaviour.log == Log::Everything {
            truth.request = request.bytes;
        }
        if state.behaviour.log != Log::Nothing {
            state
                .log
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(truth);
        }
        if !kept? {
            return if fault == Fault::CloseAfterAnswer {
                stream.shutdown().await
            } else {
                Ok(())
            };
        }
    }
    Ok(())
}

fn since(state: &State, at: Instant) -> u64 {
    let since = u64::try_from(at.duration_since(state.started).as_nanos()).unwrap_or(u64::MAX);
    state.started_ns.saturating_add(since)
}

/// Reads a request; returns it with the time at which its last byte had been read.
async fn read_request(
    stream: &mut Stream,
    pending: &mut Vec<u8>,
) -> io::Result<Option<(Request, Instant)>> {
    /// The size of a read: most requests then need only one.
    const ROOM: usize = 4096;
    let mut arrived = Instant::now();
    loop {
        if let Some(end) = pending.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&pending[..end]).to_ascii_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length:"))
                .and_then(|value| value.trim().parse::<usize>().ok())
                .unwrap_or(0);
            let total = end + 4 + length;
            if pending.len() >= total {
                let rest = pending.split_off(total);
                let bytes = std::mem::replace(pending, rest);
                let path_end = bytes.iter().position(|&b| b == b'\r').unwrap_or(0);
                return Ok(Some((
                    Request {
                        bytes,
                        path_end,
                        body_start: end + 4,
                    },
                    arrived,
                )));
            }
        }
        pending.reserve(ROOM);
        if stream.read_buf(pending).await? == 0 {
            return Ok(None);
        }
        arrived = Instant::now();
    }
}
