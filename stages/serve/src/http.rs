//! A small blocking HTTP/1.1 client for probing a server: one request a connection, whole
//! bodies of limited size. The load generator has its own; nothing here is measured.

use std::future::Future;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use pipeline::Json;
use tokio::net::TcpStream;

const MOST_BYTES: usize = 8 << 20;
const TICK: Duration = Duration::from_millis(50);

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Result<Json, String> {
        serde_json::from_slice(&self.body).map_err(|e| format!("no JSON ({e}): `{}`", self.start()))
    }

    /// The start of the body, for messages.
    pub(crate) fn start(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        text.chars().take(200).collect::<String>().trim().to_owned()
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Error<E> {
    /// The network, the server or the time limit.
    Http(String),
    /// What the caller watches meanwhile ended the wait.
    Ended(E),
}

/// Sends one request (a POST if there is a body) and returns the answer; calls `watch` every
/// 50 ms meanwhile and gives up when it does.
pub(crate) fn request<E>(
    base_url: &str,
    path: &str,
    body: Option<&Json>,
    limit: Duration,
    watch: &mut dyn FnMut() -> Result<(), E>,
) -> Result<Answer, Error<E>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Error::Http(format!("no event loop: {e}")))?;
    runtime.block_on(async {
        let exchange = exchange(base_url, path, body);
        let limited = tokio::time::timeout(limit, exchange);
        let answer = watched(limited, watch).await.map_err(Error::Ended)?;
        let late = |_| Error::Http(format!("no answer to {path} within {} s", limit.as_secs_f64()));
        answer.map_err(late)?.map_err(|e| Error::Http(format!("{path}: {e}")))
    })
}

async fn watched<F: Future, E>(future: F, watch: &mut dyn FnMut() -> Result<(), E>) -> Result<F::Output, E> {
    let mut future = std::pin::pin!(future);
    loop {
        tokio::select! {
            output = &mut future => return Ok(output),
            () = tokio::time::sleep(TICK) => watch()?,
        }
    }
}

async fn exchange(base_url: &str, path: &str, body: Option<&Json>) -> Result<Answer, String> {
    let authority = authority(base_url)?;
    let stream = TcpStream::connect(&authority).await.map_err(|e| e.to_string())?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| e.to_string())?;
    // Ends with the connection; its errors reach the request too.
    let connection = tokio::spawn(async move { drop(connection.await) });
    let method = if body.is_some() { Method::POST } else { Method::GET };
    let bytes = body.map(|b| serde_json::to_vec(b).expect("JSON always serializes")).unwrap_or_default();
    let request = Request::builder()
        .method(method)
        .uri(format!("{}{path}", prefix(base_url)))
        .header(HOST, &authority)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(bytes)))
        .map_err(|e| e.to_string())?;
    let response = sender.send_request(request).await.map_err(|e| e.to_string())?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), MOST_BYTES).collect().await.map_err(|e| e.to_string())?;
    connection.abort();
    Ok(Answer { status, body: body.to_bytes().to_vec() })
}

fn rest(base_url: &str) -> Result<&str, String> {
    base_url.strip_prefix("http://").ok_or_else(|| format!("`{base_url}` is no http:// URL"))
}

fn authority(base_url: &str) -> Result<String, String> {
    let rest = rest(base_url)?;
    let authority = rest.split('/').next().unwrap_or(rest);
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Ok(if has_port { authority.to_owned() } else { format!("{authority}:80") })
}

/// The path part of a base URL, without its final slash.
fn prefix(base_url: &str) -> &str {
    let path = rest(base_url).ok().and_then(|r| r.find('/').map(|at| &r[at..]));
    path.unwrap_or_default().trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_may_have_a_path_and_lack_a_port() {
        assert_eq!(authority("http://a/b").unwrap(), "a:80");
        assert_eq!(authority("http://a:81").unwrap(), "a:81");
        assert_eq!((prefix("http://a:81"), prefix("http://a/b/")), ("", "/b"));
        assert!(authority("https://a").is_err());
    }

    #[test]
    fn a_refused_connection_is_an_error_that_names_the_path() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let answer =
            request::<()>(&format!("http://{free}"), "/x", None, Duration::from_secs(5), &mut || Ok(()));
        assert!(matches!(answer, Err(Error::Http(e)) if e.starts_with("/x: ")));
    }

    #[test]
    fn a_server_that_never_answers_ends_with_the_watch() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let answer = request(&url, "/x", None, Duration::from_secs(60), &mut || Err("dead"));
        assert!(matches!(answer, Err(Error::Ended("dead"))));
    }
}
