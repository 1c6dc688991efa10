//! Serves a site over HTTP/1.1, with GET and a single POST, behind its guard, with headers that deny the content all
//! permissions.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Channel, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{Failure, Fault};
use crate::guard::{Asker, Guard};
use crate::live::{self, Tail};
use crate::moving::Moving;
use crate::parameters;
use crate::reply::{Freshness, Reply};
use crate::request::Ask;
use crate::seats::{Answering, Seat, Seats};
use crate::site::Site;
use crate::turns::{Client, Turns};

/// The number of threads that answer questions: at most two, since they may run beside a measurement.
const THREADS: usize = 2;

/// The maximum number of simultaneous connections. A further one takes the place of the one that is idle for longest.
const CONNECTIONS: usize = 64;

/// The maximum number of simultaneous event streams.
const STREAMS: usize = 8;

/// The interval between two reads of a run's event log.
const TICK: Duration = Duration::from_secs(1);

/// The maximum size in bytes of a request body.
const MOST_ASKED: usize = 1 << 10;

/// The time that a connection has to send its request.
const PATIENCE: Duration = Duration::from_secs(20);

/// The time that a client has to take some of an answer, or to send a body.
const STANDSTILL: Duration = Duration::from_secs(20);

/// The permissions of the page: load its own files, and query its own server.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'";

/// The permissions of an external document: display itself.
const FOREIGN_POLICY: &str =
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'";

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Why a server did not start, or ended.
#[derive(Debug)]
pub enum ServeError {
    /// The address is not local to this machine, and there is no token.
    NoToken(SocketAddr),
    /// The system reports an error.
    Io(SocketAddr, io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoToken(address) => {
                write!(
                    f,
                    "{address} can be reached by other machines, so it needs a token"
                )
            }
            Self::Io(address, error) => write!(f, "{address}: {error}"),
        }
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(_, error) => Some(error),
            Self::NoToken(_) => None,
        }
    }
}

/// A site on a socket.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    site: Arc<Site>,
    guard: Guard,
    patience: Duration,
    seats: Arc<Seats>,
    streams: Arc<Semaphore>,
    turns: Turns,
}

impl Server {
    /// Binds an address. Port 0 stands for any free port.
    ///
    /// # Errors
    /// If the address is not a loopback address and there is no token, or the system reports an error.
    pub fn bind(
        site: Arc<Site>,
        address: SocketAddr,
        token: Option<String>,
    ) -> Result<Self, ServeError> {
        if !address.ip().is_loopback() && token.is_none() {
            return Err(ServeError::NoToken(address));
        }
        let fault = |e| ServeError::Io(address, e);
        let listener = TcpListener::bind(address).map_err(fault)?;
        listener.set_nonblocking(true).map_err(fault)?;
        let address = listener.local_addr().map_err(fault)?;
        let shared = Arc::new(Shared {
            site,
            guard: Guard::new(address, token),
            patience: PATIENCE,
            seats: Seats::new(CONNECTIONS),
            streams: Arc::new(Semaphore::new(STREAMS)),
            turns: Turns::new(),
        });
        Ok(Self {
            listener,
            address,
            shared,
        })
    }

    /// Returns the bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the process ends.
    ///
    /// # Errors
    /// If the system reports an error.
    pub fn run(self) -> Result<Infallible, ServeError> {
        let address = self.address;
        let fault = move |e| ServeError::Io(address, e);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(THREADS)
            .build()
            .map_err(fault)?;
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(self.listener).map_err(fault)?;
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let _ignored = stream.set_nodelay(true);
                        let seat = self.shared.seats.take().await;
                        tokio::spawn(connection(stream, seat, Arc::clone(&self.shared)));
                    }
                    // Too many open files, for example; other connections may end soon.
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
        })
    }
}

/// Serves one connection, until it ends or loses its seat.
async fn connection(stream: tokio::net::TcpStream, seat: Seat, shared: Arc<Shared>) {
    let seat = Arc::new(seat);
    let (own, taker) = (Arc::clone(&seat), Arc::clone(&seat));
    let patience = shared.patience;
    let service = service_fn(move |request| {
        let (shared, seat) = (Arc::clone(&shared), Arc::clone(&own));
        async move { Ok::<_, Infallible>(respond(request, shared, seat).await) }
    });
    let stream = Moving::new(stream, STANDSTILL, move || taker.moved());
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), service);
    // Nobody waits for a connection that breaks, so the result is ignored.
    tokio::select! {
        _ended = served => {}
        () = seat.lost() => {}
    }
}

/// Reads who asks. A header that is there twice, or is not text, is as foreign as one of another site.
fn asker(headers: &HeaderMap) -> Asker<'_> {
    let text = |name: &str| {
        let mut all = headers.get_all(name).iter();
        let first = all.next()?;
        let only = all.next().is_none().then_some(first);
        Some(only.and_then(|value| value.to_str().ok()).unwrap_or("?"))
    };
    Asker {
        host: text("host"),
        origin: text("origin"),
        site: text("sec-fetch-site"),
        authorization: text("authorization"),
    }
}

/// Answers a request.
async fn respond(
    request: Request<Incoming>,
    shared: Arc<Shared>,
    seat: Arc<Seat>,
) -> Response<Body> {
    seat.moved();
    let asker = asker(request.headers());
    let target = request.uri().path_and_query().map_or("/", |t| t.as_str());
    let ask = Ask::parse(target);
    if let Err(refused) = guarded(&request, ask.as_ref(), &asker, &shared.guard) {
        let (status, words) = refused.words();
        return of_reply(&refusal(status, words), request.headers());
    }
    let Some(ask) = ask else {
        return of_reply(
            &refusal(400, "the address cannot be read"),
            request.headers(),
        );
    };
    if request.method() == Method::POST {
        return stop(request, &ask, shared).await;
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut response = of_reply(&refusal(405, "only GET is served"), request.headers());
        response
            .headers_mut()
            .insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    let answering = seat.answering();
    let path: Vec<&str> = ask.path.iter().map(String::as_str).collect();
    if let ["api", "v1", "runs", id, "events"] = path.as_slice() {
        return events(id, &ask, shared, answering);
    }
    let turn = match ask.may_be_long() {
        false => None,
        true => match shared.turns.take().await {
            Some(turn) => Some(turn),
            None => {
                let reply = Failure::new(
                    Fault::Busy,
                    "too many queries wait for their turn, and the explorer answers one at a time",
                    "ask again in a minute, or use `benchtrail sql`",
                );
                return of_reply(&reply.reply(), request.headers());
            }
        },
    };
    let site = Arc::clone(&shared.site);
    // If the connection ends, the future of this function is dropped.
    let client = Client::default();
    let left = client.left();
    let answered = tokio::task::spawn_blocking(move || {
        let _until_the_end = turn;
        site.answer(&ask, &left)
    });
    let answered = answered.await;
    drop((client, answering));
    let reply = answered.unwrap_or_else(|_| {
        Failure::store("the question could not be answered; this is a bug").reply()
    });
    of_reply(&reply, request.headers())
}

/// Answers the only request that changes anything: `POST /api/v1/runs/ID/stop`, with the run's token as `{"token": …}`.
/// A form on another site cannot send JSON, and its origin was rejected before.
async fn stop(request: Request<Incoming>, ask: &Ask, shared: Arc<Shared>) -> Response<Body> {
    let nothing = HeaderMap::new();
    let path: Vec<&str> = ask.path.iter().map(String::as_str).collect();
    let ["api", "v1", "runs", id, "stop"] = path.as_slice() else {
        let mut response = of_reply(&refusal(405, "only GET is served here"), &nothing);
        let allowed = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(header::ALLOW, allowed);
        return response;
    };
    let json = request.headers().get(header::CONTENT_TYPE);
    let is_json = json.and_then(|v| v.to_str().ok()) == Some("application/json");
    // An unread body could reset the connection before the answer has arrived.
    let body = Limited::new(request.into_body(), MOST_ASKED).collect();
    let Ok(body) = tokio::time::timeout(STANDSTILL, body).await else {
        return of_reply(&refusal(408, "the body took too long"), &nothing);
    };
    if !is_json {
        let reason = "the token comes as JSON: {\"token\": …}";
        return of_reply(&refusal(415, reason), &nothing);
    }
    let value = body.ok().map(http_body_util::Collected::to_bytes);
    let value: Option<serde_json::Value> = value.and_then(|b| serde_json::from_slice(&b).ok());
    let Some(token) = value.as_ref().and_then(|v| v["token"].as_str()) else {
        return of_reply(
            &refusal(400, "the run's token is missing: {\"token\": …}"),
            &nothing,
        );
    };
    let answer = live::stop(shared.site.root(), id, token);
    of_reply(&answer.unwrap_or_else(|failure| failure.reply()), &nothing)
}

/// Checks the sender. The page's own files contain no data and need no token.
///
/// The address is judged as it is answered, without its escapes: `/%61pi` is `/api`.
fn guarded(
    request: &Request<Incoming>,
    ask: Option<&Ask>,
    asker: &Asker<'_>,
    guard: &Guard,
) -> Result<(), crate::Refused> {
    guard.check(asker).or_else(|refused| {
        // A link on another site, or in an e-mail, may open the page itself.
        let opened = request.uri().path() == "/"
            && request.headers().get("sec-fetch-mode")
                == Some(&HeaderValue::from_static("navigate"));
        let without = Asker {
            site: None,
            ..*asker
        };
        if opened {
            guard.check(&without)
        } else {
            Err(refused)
        }
    })?;
    match ask {
        Some(ask) if !ask.is_file() => guard.check_token(asker),
        _ => Ok(()),
    }
}

fn refusal(status: u16, words: &str) -> Reply {
    let body = serde_json::json!({"error": words, "hint": ""});
    Reply {
        status,
        ..Reply::json(&body, Freshness::Never)
    }
}

/// Converts a reply to a response: not modified, partial, or full.
fn of_reply(reply: &Reply, asked: &HeaderMap) -> Response<Body> {
    let mut response = Response::new(full(reply.body.clone()));
    *response.status_mut() =
        StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    let policy = if reply.foreign {
        FOREIGN_POLICY
    } else {
        PAGE_POLICY
    };
    protect(headers, policy);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(reply.media));
    let cache = match reply.freshness {
        Freshness::Always => "private, max-age=31536000, immutable",
        Freshness::Tagged => "private, no-cache",
        Freshness::Never => "no-store",
    };
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    let Some(tag) = &reply.tag else {
        return response;
    };
    let tag = format!("\"{tag}\"");
    if let Ok(value) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, value);
    }
    let text = |name| asked.get(name).and_then(|v: &HeaderValue| v.to_str().ok());
    let tags = text(header::IF_NONE_MATCH);
    if tags.is_some_and(|given| given.split(',').any(|k| k.trim() == tag)) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.body_mut() = full(Bytes::new());
        return response;
    }
    if reply.freshness != Freshness::Always {
        return response;
    }
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    let stale = text(header::IF_RANGE).is_some_and(|condition| condition != tag);
    let size = reply.body.len();
    match text(header::RANGE)
        .filter(|_| !stale)
        .map(|r| range(r, size))
    {
        None | Some(Range::Whole) => {}
        Some(Range::Part(from, to)) => {
            let content_range = format!("bytes {from}-{}/{size}", to - 1);
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            *response.body_mut() = full(reply.body.slice(from..to));
            insert(
                response.headers_mut(),
                header::CONTENT_RANGE,
                &content_range,
            );
        }
        Some(Range::Outside) => {
            *response.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
            *response.body_mut() = full(Bytes::new());
            let content_range = format!("bytes */{size}");
            insert(
                response.headers_mut(),
                header::CONTENT_RANGE,
                &content_range,
            );
        }
    }
    response
}

fn insert(headers: &mut HeaderMap, name: header::HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}

fn protect(headers: &mut HeaderMap, policy: &'static str) {
    for (name, value) in [
        ("content-security-policy", policy),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("x-frame-options", "DENY"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).boxed_unsync()
}

/// The range that a header `Range` requests.
#[derive(Debug, PartialEq, Eq)]
enum Range {
    /// Not a range that is served, so everything is sent.
    Whole,
    /// A half-open range.
    Part(usize, usize),
    Outside,
}

/// Parses a single byte range; several ranges at once are answered in full, as the standard allows.
fn range(text: &str, size: usize) -> Range {
    let Some((from, to)) = text.strip_prefix("bytes=").and_then(|r| r.split_once('-')) else {
        return Range::Whole;
    };
    let number = |t: &str| t.trim().parse::<usize>().ok();
    match (number(from), number(to)) {
        (None, Some(last)) if from.is_empty() => match size.saturating_sub(last) {
            _ if last == 0 => Range::Outside,
            from => Range::Part(from, size),
        },
        (Some(from), _) if from >= size => Range::Outside,
        (Some(from), None) if to.is_empty() => Range::Part(from, size),
        (Some(from), Some(to)) if to >= from => Range::Part(from, size.min(to.saturating_add(1))),
        _ => Range::Whole,
    }
}

/// Streams a run's events as they are written.
fn events(id: &str, ask: &Ask, shared: Arc<Shared>, answering: Answering) -> Response<Body> {
    let nothing = HeaderMap::new();
    if let Err(failure) = parameters::check(ask) {
        return of_reply(&failure.reply(), &nothing);
    }
    let from = ask.get("from").and_then(|f| f.parse().ok()).unwrap_or(0);
    let tail = match Tail::open(shared.site.root(), id, from) {
        Ok(tail) => tail,
        Err(failure) => return of_reply(&failure.reply(), &nothing),
    };
    let Ok(permit) = Arc::clone(&shared.streams).try_acquire_owned() else {
        return of_reply(
            &refusal(503, "too many pages follow a run; close one"),
            &nothing,
        );
    };
    let (sender, body) = Channel::<Bytes, Infallible>::new(8);
    tokio::spawn(follow(tail, sender, shared, (permit, answering)));
    let mut response = Response::new(body.boxed_unsync());
    let headers = response.headers_mut();
    protect(headers, PAGE_POLICY);
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Sends new events once a second, until the page is closed.
async fn follow(
    tail: Tail,
    mut sender: http_body_util::channel::Sender<Bytes, Infallible>,
    shared: Arc<Shared>,
    _held: (OwnedSemaphorePermit, Answering),
) {
    let mut tail = tail;
    loop {
        let site = Arc::clone(&shared.site);
        let step = tokio::task::spawn_blocking(move || {
            let mut tail = tail;
            let text = tail.step(&site);
            (tail, text)
        });
        let Ok((stepped, text)) = step.await else {
            return;
        };
        tail = stepped;
        if sender.send_data(Bytes::from(text)).await.is_err() {
            return;
        }
        if !tail.has_more() {
            tokio::time::sleep(TICK).await;
        }
    }
}

#[cfg(test)]
mod tests;
