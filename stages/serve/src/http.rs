//! A small blocking HTTP/1.1 client for probing a server: one request a connection, whole
//! bodies of limited size. The load generator has its own; nothing here is measured.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use pipeline::Json;
use tls::{ApiKey, Tls, TlsError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

const MOST_BYTES: usize = 8 << 20;
const TICK: Duration = Duration::from_millis(50);

/// Where a server is, and how it is spoken to.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// Its base URL, `http://…` or `https://…`.
    pub(crate) url: String,
    /// Host and port.
    authority: String,
    /// The path part of the URL, without its final slash.
    prefix: String,
    /// For `https://`.
    tls: Option<Tls>,
    /// Sent with every request, and masked in what is told of the answers.
    api_key: Option<ApiKey>,
}

impl Site {
    /// Reads a base URL. With `ca_file` only its certificates are trusted of an `https://` server.
    ///
    /// # Errors
    /// If it is no URL, or no certificate is to be trusted; with what to do.
    pub(crate) fn new(
        url: &str,
        ca_file: Option<&Path>,
        api_key: Option<ApiKey>,
    ) -> Result<Self, (String, String)> {
        let told = (
            format!("`{url}` is no http:// or https:// URL"),
            "correct the URL".to_owned(),
        );
        let (scheme, rest) = url.split_once("://").ok_or_else(|| told.clone())?;
        let port = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return Err(told),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let split = authority
            .rsplit_once(':')
            .filter(|(_, port)| port.parse::<u16>().is_ok());
        let host = split.map_or(authority, |(host, _)| host);
        let tls = if scheme == "https" {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            Some(Tls::new(host, ca_file).map_err(|e| (e.reason, e.remedy))?)
        } else {
            None
        };
        Ok(Self {
            url: url.to_owned(),
            authority: if split.is_some() {
                authority.to_owned()
            } else {
                format!("{authority}:{port}")
            },
            prefix: path.trim_end_matches('/').to_owned(),
            tls,
            api_key,
        })
    }

    /// Returns a text that came from the server as it may be told and kept.
    pub(crate) fn mask(&self, text: &str) -> String {
        self.api_key
            .as_ref()
            .map_or_else(|| text.to_owned(), |key| key.mask(text))
    }
}

/// An answer.
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    body: Vec<u8>,
    site: &'a Site,
    path: &'a str,
}

impl Answer<'_> {
    pub(crate) fn json(&self) -> Result<Json, String> {
        serde_json::from_slice(&self.body).map_err(|e| format!("no JSON ({e}): `{}`", self.start()))
    }

    /// The start of the body, for messages.
    pub(crate) fn start(&self) -> String {
        // Masked before it is cut, or the start of a key could be left.
        let text = self.site.mask(&String::from_utf8_lossy(&self.body));
        text.chars().take(200).collect::<String>().trim().to_owned()
    }

    /// What was answered, for messages.
    pub(crate) fn told(&self) -> String {
        format!("{} answered {}: `{}`", self.path, self.status, self.start())
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Error<E> {
    /// The network, the server or the time limit.
    Http(String),
    /// The server is not to be trusted, or does not speak TLS.
    Tls(TlsError),
    /// What the caller watches meanwhile ended the wait.
    Ended(E),
}

/// Sends one request (a POST if there is a body) and returns the answer; calls `watch` every
/// 50 ms meanwhile and gives up when it does.
pub(crate) fn request<'a, E>(
    site: &'a Site,
    path: &'a str,
    body: Option<&Json>,
    limit: Duration,
    watch: &mut dyn FnMut() -> Result<(), E>,
) -> Result<Answer<'a>, Error<E>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|e| Error::Http(format!("no event loop: {e}")))?;
    runtime.block_on(async {
        let exchange = exchange(site, path, body);
        let limited = tokio::time::timeout(limit, exchange);
        let answer = watched(limited, watch).await.map_err(Error::Ended)?;
        let late = |_| {
            Error::Http(format!(
                "no answer to {path} within {} s",
                limit.as_secs_f64()
            ))
        };
        answer.map_err(late)?.map_err(|e| match e {
            Broken::Tls(error) => Error::Tls(error),
            Broken::Http(error) => Error::Http(format!("{path}: {error}")),
        })
    })
}

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

/// Why one exchange failed.
enum Broken {
    Http(String),
    Tls(TlsError),
}

async fn exchange<'a>(
    site: &'a Site,
    path: &'a str,
    body: Option<&Json>,
) -> Result<Answer<'a>, Broken> {
    let stream = TcpStream::connect(&site.authority)
        .await
        .map_err(|e| Broken::Http(e.to_string()))?;
    let answer = match &site.tls {
        None => converse(stream, site, path, body).await,
        Some(tls) => {
            converse(
                tls.connect(stream).await.map_err(Broken::Tls)?,
                site,
                path,
                body,
            )
            .await
        }
    };
    answer.map_err(Broken::Http)
}

async fn converse<'a>(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    site: &'a Site,
    path: &'a str,
    body: Option<&Json>,
) -> Result<Answer<'a>, String> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| e.to_string())?;
    // Ends with the connection; its errors reach the request too.
    let connection = tokio::spawn(async move { drop(connection.await) });
    let method = if body.is_some() {
        Method::POST
    } else {
        Method::GET
    };
    let bytes = body
        .map(|b| serde_json::to_vec(b).expect("JSON always serializes"))
        .unwrap_or_default();
    let mut request = Request::builder()
        .method(method)
        .uri(format!("{}{path}", site.prefix))
        .header(HOST, &site.authority)
        .header(CONTENT_TYPE, "application/json");
    if let Some((name, value)) = site.api_key.as_ref().map(ApiKey::header) {
        request = request.header(name, value);
    }
    let request = request
        .body(Full::new(Bytes::from(bytes)))
        .map_err(|e| e.to_string())?;
    let response = sender
        .send_request(request)
        .await
        .map_err(|e| e.to_string())?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), MOST_BYTES)
        .collect()
        .await
        .map_err(|e| e.to_string())?;
    connection.abort();
    Ok(Answer {
        status,
        body: body.to_bytes().to_vec(),
        site,
        path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_may_have_a_path_and_lack_a_port() {
        let parts = |url| Site::new(url, None, None).map(|site| (site.authority, site.prefix));
        assert_eq!(
            parts("http://a/b/"),
            Ok(("a:80".to_owned(), "/b".to_owned()))
        );
        assert_eq!(parts("http://a:81"), Ok(("a:81".to_owned(), String::new())));
        assert_eq!(
            parts("http://[::1]"),
            Ok(("[::1]:80".to_owned(), String::new()))
        );
        assert!(parts("ftp://a").is_err() && parts("a:80").is_err());
    }

    #[test]
    fn a_refused_connection_is_an_error_that_names_the_path() {
        let free = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let site = Site::new(&format!("http://{free}"), None, None).unwrap();
        let answer = request::<()>(&site, "/x", None, Duration::from_secs(5), &mut || Ok(()));
        assert!(matches!(answer, Err(Error::Http(e)) if e.starts_with("/x: ")));
    }

    #[test]
    fn a_server_that_never_answers_ends_with_the_watch() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let site = Site::new(
            &format!("http://{}", silent.local_addr().unwrap()),
            None,
            None,
        )
        .unwrap();
        let answer = request(&site, "/x", None, Duration::from_secs(60), &mut || {
            Err("dead")
        });
        assert!(matches!(answer, Err(Error::Ended("dead"))));
    }
}
