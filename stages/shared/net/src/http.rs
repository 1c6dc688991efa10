//! HTTP off the measured path: readiness, probes, scrapes, token counts, lists of models.
//!
//! A [`Site`] sends one request per connection through `reqwest`. It follows no redirects and uses no proxy, because
//! the server itself must answer. Bodies are read completely, up to a limit. The load generator sends its measured
//! requests itself, because a stamp must mean one read of the socket.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Url};
use serde_json::Value;

use crate::{ApiKey, Tls, TlsError};

/// The largest accepted body.
const MAX_BODY: usize = 16 << 20;

/// The longest wait for a connection, including its handshake.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// The interval at which a watched request calls the caller's watch.
const TICK: Duration = Duration::from_millis(50);

/// A server off the measured path: its address, its trusted authorities, and its API key.
#[derive(Clone, Debug)]
pub struct Site {
    url: String,
    base: Url,
    client: Client,
    api_key: Option<ApiKey>,
}

/// The reason why a URL gives no site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SiteError {
    /// It is not an `http://` or `https://` base URL; one sentence.
    Url(String),
    /// No certificate can be trusted.
    Tls(TlsError),
}

impl fmt::Display for SiteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(message) => f.write_str(message),
            Self::Tls(error) => write!(f, "{error}"),
        }
    }
}

impl Error for SiteError {}

impl Site {
    /// Reads a base URL. With `ca_file`, a PEM file, only its certificates are trusted for an `https://` server.
    ///
    /// # Errors
    /// If it is not a base URL, or no certificate can be trusted.
    pub fn find(
        url: &str,
        ca_file: Option<&Path>,
        api_key: Option<ApiKey>,
    ) -> Result<Self, SiteError> {
        let base = parse(url)?;
        let tls = match base.scheme() {
            "https" => Some(Tls::new(host(&base), ca_file).map_err(SiteError::Tls)?),
            _ => None,
        };
        Self::new(url, tls.as_ref(), &[], api_key)
    }

    /// Makes a site from a base URL whose host and certificates are already resolved. Without `addresses`, each request
    /// resolves the host.
    ///
    /// # Errors
    /// If it is not a base URL.
    pub fn new(
        url: &str,
        tls: Option<&Tls>,
        addresses: &[SocketAddr],
        api_key: Option<ApiKey>,
    ) -> Result<Self, SiteError> {
        let base = parse(url)?;
        let mut builder = Client::builder()
            .tls_backend_preconfigured(tls.map_or_else(Tls::trusting_nobody, Tls::config))
            .user_agent("benchtrail")
            .redirect(Policy::none())
            .no_proxy()
            .referer(false)
            .retry(reqwest::retry::never())
            .pool_max_idle_per_host(0)
            .connect_timeout(CONNECT_LIMIT);
        if !addresses.is_empty() {
            builder = builder.resolve_to_addrs(host(&base), addresses);
        }
        let client = builder
            .build()
            .map_err(|e| SiteError::Url(format!("{url}: {}", root(&e))))?;
        Ok(Self {
            url: url.to_owned(),
            base,
            client,
            api_key,
        })
    }

    /// Returns the base URL as it was given.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Replaces the API key in a text that came from the server.
    pub fn mask(&self, text: &str) -> String {
        self.api_key
            .as_ref()
            .map_or_else(|| text.to_owned(), |key| key.mask(text))
    }

    /// Sends one request and returns the answer.
    ///
    /// # Errors
    /// If there is no complete answer within the limit.
    pub fn ask(&self, ask: &Ask<'_>, limit: Duration) -> Result<Answer, HttpError> {
        let never = self.ask_while::<std::convert::Infallible>(ask, limit, &mut || Ok(()));
        match never {
            Ok(answer) => answer,
            Err(never) => match never {},
        }
    }

    /// Sends one request and calls `watch` every 50 ms until the answer arrives. Gives up when `watch` fails.
    ///
    /// # Errors
    /// The error of `watch`. The inner result fails as [`Site::ask`].
    pub fn ask_while<E>(
        &self,
        ask: &Ask<'_>,
        limit: Duration,
        watch: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<Result<Answer, HttpError>, E> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return Ok(Err(HttpError::Machine(error.to_string()))),
        };
        let answer = runtime.block_on(async {
            let limited = tokio::time::timeout(limit, self.exchange(ask));
            watched(limited, watch).await
        });
        // A name look-up cannot be interrupted, so do not wait for it.
        runtime.shutdown_background();
        Ok(answer?.unwrap_or(Err(HttpError::Late(limit))))
    }

    async fn exchange(&self, ask: &Ask<'_>) -> Result<Answer, HttpError> {
        let mut url = self.base.clone();
        let (path, query) = ask
            .path
            .split_once('?')
            .map_or((ask.path, None), |(path, query)| (path, Some(query)));
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        url.set_query(query);
        let method = if ask.body.is_some() {
            Method::POST
        } else {
            Method::GET
        };
        let mut request = self.client.request(method, url);
        if let Some(accept) = ask.accept {
            request = request.header(ACCEPT, accept);
        }
        if let Some(body) = ask.body {
            let bytes = serde_json::to_vec(body).expect("a JSON value always serializes");
            request = request.header(CONTENT_TYPE, "application/json").body(bytes);
        }
        if let Some(key) = &self.api_key {
            let (name, value) = key.header();
            let mut value = HeaderValue::from_str(&value).expect("an API key is visible ASCII");
            value.set_sensitive(true);
            request = request.header(name, value);
        }
        let mut response = request.send().await.map_err(|e| self.explain(&e))?;
        let encodings = response.headers().get_all(CONTENT_ENCODING).iter();
        for encoding in encodings {
            // The bytes of an encoded text would be taken for a text without contents.
            if !encoding.as_bytes().eq_ignore_ascii_case(b"identity") {
                let encoding = self.mask(&String::from_utf8_lossy(encoding.as_bytes()));
                return Err(HttpError::Answer(format!(
                    "the answer is encoded (Content-Encoding `{encoding}`), which was not requested"
                )));
            }
        }
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|e| self.explain(&e))? {
            if body.len() + piece.len() > MAX_BODY {
                return Err(HttpError::Answer(format!("more than {MAX_BODY} bytes")));
            }
            body.extend_from_slice(&piece);
        }
        Ok(Answer {
            status,
            body,
            path: ask.path.to_owned(),
            api_key: self.api_key.clone(),
        })
    }

    /// Explains why there is no answer. Messages of `reqwest` contain the URL, so only their cause is repeated.
    fn explain(&self, error: &reqwest::Error) -> HttpError {
        if !error.is_connect() {
            return HttpError::Answer(self.mask(&root(error)));
        }
        let late = io::Error::from(io::ErrorKind::TimedOut);
        let encrypted = self.base.scheme() == "https";
        let failed =
            handshake(error).or_else(|| (encrypted && error.is_timeout()).then_some(&late));
        match failed {
            Some(failed) => HttpError::Tls(TlsError::of_handshake(host(&self.base), failed)),
            None => HttpError::Connect(root(error)),
        }
    }
}

/// One request: a GET, or a POST of JSON.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    path: &'a str,
    body: Option<&'a Value>,
    accept: Option<&'a str>,
}

impl<'a> Ask<'a> {
    /// Returns a GET of a path, `/…`.
    pub fn get(path: &'a str) -> Self {
        Self {
            path,
            body: None,
            accept: None,
        }
    }

    /// Returns a POST of a JSON document to a path.
    pub fn post(path: &'a str, body: &'a Value) -> Self {
        Self {
            body: Some(body),
            ..Self::get(path)
        }
    }

    /// Sets the wanted media type.
    #[must_use]
    pub fn accept(self, media: &'a str) -> Self {
        Self {
            accept: Some(media),
            ..self
        }
    }
}

/// An answer with its whole body.
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body as received, which may contain an API key.
    pub body: Vec<u8>,
    path: String,
    api_key: Option<ApiKey>,
}

impl fmt::Debug for Answer {
    /// Shows only what messages may contain.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())
    }
}

impl Answer {
    /// Returns the body as JSON.
    ///
    /// # Errors
    /// If it is not JSON. The error quotes the start of the body.
    pub fn json(&self) -> Result<Value, String> {
        serde_json::from_slice(&self.body)
            .map_err(|e| format!("not JSON ({e}): `{}`", self.start()))
    }

    /// Returns the body as text, the API key masked.
    pub fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        match &self.api_key {
            Some(key) => key.mask(&text),
            None => text.into_owned(),
        }
    }

    /// Returns the start of the body on one line, for messages; of a page for people, its title.
    pub fn start(&self) -> String {
        // Mask before cutting, or the start of a key could remain.
        quoted(&self.text())
    }

    /// Describes the answer for messages.
    pub fn summary(&self) -> String {
        let (path, status, start) = (&self.path, self.status, self.start());
        match start.is_empty() {
            true => format!("{path} answered {status} without a body"),
            false => format!("{path} answered {status}: `{start}`"),
        }
    }
}

/// Returns the start of a text on one line; of an HTML page, its title.
fn quoted(text: &str) -> String {
    let head = |text: &str| text.chars().take(200).collect::<String>();
    let start = match title(text) {
        Some("") => "a page of HTML".to_owned(),
        Some(title) => format!("a page of HTML, {}", head(title)),
        None => head(text),
    };
    start.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the title of an HTML page, empty if it has none; `None` for any other text.
fn title(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let begins = |word: &str| {
        let start = text.get(..word.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    if !begins("<!doctype html") && !begins("<html") {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    let inside = || {
        let tag = lower.find("<title")?;
        let start = tag + lower[tag..].find('>')? + 1;
        let end = start + lower[start..].find("</title")?;
        Some(text[start..end].trim())
    };
    Some(inside().unwrap_or_default())
}

/// The reason why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpError {
    /// Nothing accepts connections at the address, or the host has no address.
    Connect(String),
    /// The server is not trustworthy or does not speak TLS.
    Tls(TlsError),
    /// The limit passed.
    Late(Duration),
    /// The response is not a complete answer.
    Answer(String),
    /// This machine cannot start an event loop.
    Machine(String),
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) | Self::Answer(error) => f.write_str(error),
            Self::Tls(error) => write!(f, "{error}"),
            Self::Late(limit) => write!(f, "no answer within {} s", limit.as_secs_f64()),
            Self::Machine(error) => write!(f, "cannot start the event loop: {error}"),
        }
    }
}

impl Error for HttpError {}

async fn watched<F: Future, E>(
    future: F,
    watch: &mut dyn FnMut() -> Result<(), E>,
) -> Result<F::Output, E> {
    let mut future = std::pin::pin!(future);
    loop {
        tokio::select! {
            output = &mut future => return Ok(output),
            () = tokio::time::sleep(TICK) => watch()?,
        }
    }
}

fn parse(url: &str) -> Result<Url, SiteError> {
    let wrong = || SiteError::Url(format!("`{url}` is not an http:// or https:// URL"));
    let base = Url::parse(url).map_err(|_| wrong())?;
    if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
        return Err(wrong());
    }
    if !base.username().is_empty() || base.password().is_some() {
        // Not quoted, because it holds a secret.
        return Err(SiteError::Url(
            "a URL with a user name or a password is refused: name the environment variable that holds the API key"
                .to_owned(),
        ));
    }
    Ok(base)
}

/// Returns the host without the brackets of an IPv6 address.
fn host(base: &Url) -> &str {
    let host = base.host_str().unwrap_or_default();
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Returns the text of the innermost cause.
fn root(error: &(dyn Error + 'static)) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

/// Returns the error of a handshake: among the connection errors, the one nested in another I/O error.
fn handshake<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e io::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        let inner = error
            .downcast_ref::<io::Error>()
            .and_then(|outer| outer.get_ref()?.downcast_ref::<io::Error>());
        if inner.is_some() {
            return inner;
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    const LIMIT: Duration = Duration::from_secs(60);

    /// Answers one connection with these bytes. Returns the base URL and a thread that ends with the received request.
    fn once(answer: &'static str) -> (String, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
                head.push(byte[0]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(head).unwrap()
        });
        (url, asked)
    }

    #[test]
    fn a_base_url_may_have_a_path_and_lack_a_port() {
        let (url, asked) = once("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
        let site = Site::find(&format!("{url}/b/"), None, None).unwrap();
        let answer = site.ask(
            &Ask::get("/v1/models?x=1").accept("application/json"),
            LIMIT,
        );
        assert_eq!(answer.unwrap().json(), Ok(serde_json::json!({})));
        let head = asked.join().unwrap().to_lowercase();
        assert!(
            head.starts_with("get /b/v1/models?x=1 http/1.1\r\n"),
            "{head}"
        );
        assert!(
            head.contains("accept: application/json\r\n")
                && head.contains("user-agent: benchtrail\r\n")
        );
        for url in ["ftp://a", "a:80", "http://", "x", "/p"] {
            assert!(
                matches!(Site::find(url, None, None), Err(SiteError::Url(_))),
                "{url}"
            );
        }
        assert!(Site::find("http://[::1]", None, None).is_ok());
    }

    #[test]
    fn a_url_with_a_password_is_refused_without_repeating_it() {
        let error = Site::find("http://me:hunter2@a", None, None).unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    #[test]
    fn a_refused_connection_is_reported_with_its_cause() {
        let free = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let site = Site::find(&format!("http://{free}"), None, ApiKey::new("sk-1")).unwrap();
        let error = site.ask(&Ask::get("/x"), LIMIT).unwrap_err();
        assert!(
            matches!(&error, HttpError::Connect(e) if e.contains("refused")),
            "{error:?}"
        );
    }

    #[test]
    fn a_page_for_people_is_quoted_by_its_title() {
        for (body, said) in [
            (
                "<html>\n<head><title>502 Bad\n Gateway</title></head>",
                "a page of HTML, 502 Bad Gateway",
            ),
            (
                "\n<!DOCTYPE html><Title lang=x>A</TITLE><body>much</body>",
                "a page of HTML, A",
            ),
            ("<html><body>much</body></html>", "a page of HTML"),
            ("<html><title>never closed", "a page of HTML"),
            ("<xml>x</xml>", "<xml>x</xml>"),
        ] {
            assert_eq!(quoted(body), said);
        }
    }

    #[test]
    fn the_key_is_sent_and_masked_and_in_no_debug_text() {
        let (url, asked) = once("HTTP/1.1 401 No\r\nContent-Length: 13\r\n\r\nnot sk-123 ok");
        let site = Site::find(&url, None, ApiKey::new("sk-123")).unwrap();
        let answer = site.ask(&Ask::get("/x"), LIMIT).unwrap();
        assert_eq!(answer.summary(), "/x answered 401: `not [API key] ok`");
        assert!(!format!("{site:?} {answer:?}").contains("sk-123"));
        assert!(asked.join().unwrap().contains("Bearer sk-123"));
    }

    #[test]
    fn a_redirect_is_an_answer_and_is_not_followed() {
        let (url, _asked) = once(
            "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n",
        );
        let answer = Site::find(&url, None, None)
            .unwrap()
            .ask(&Ask::get("/x"), LIMIT);
        assert_eq!(answer.unwrap().status, 302);
    }

    #[test]
    fn an_answer_in_an_encoding_that_was_not_requested_is_an_error() {
        let ask = |answer| {
            let (url, _asked) = once(answer);
            Site::find(&url, None, None)
                .unwrap()
                .ask(&Ask::get("/x"), LIMIT)
        };
        let packed =
            ask("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x7f");
        let error = packed.unwrap_err().to_string();
        assert!(
            error.contains("`gzip`") && error.contains("not requested"),
            "{error}"
        );
        let plain =
            ask("HTTP/1.1 200 OK\r\nContent-Encoding: Identity\r\nContent-Length: 2\r\n\r\nhi");
        assert_eq!(plain.unwrap().body, b"hi");
    }

    #[test]
    fn an_answer_that_is_cut_short_is_an_error() {
        let (url, _asked) = once("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
        let answer = Site::find(&url, None, None)
            .unwrap()
            .ask(&Ask::get("/x"), LIMIT);
        assert!(matches!(answer, Err(HttpError::Answer(_))), "{answer:?}");
    }

    #[test]
    fn a_server_that_never_answers_ends_with_the_watch_or_the_limit() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let site = Site::find(&url, None, None).unwrap();
        let ended = site.ask_while(&Ask::get("/x"), LIMIT, &mut || Err("dead"));
        assert_eq!(ended.map(|_| ()), Err("dead"));
        let short = Duration::from_millis(20);
        assert_eq!(
            site.ask(&Ask::get("/x"), short).unwrap_err(),
            HttpError::Late(short)
        );
    }
}
