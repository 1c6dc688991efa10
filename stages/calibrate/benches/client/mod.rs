//! The bare client that the load generator is compared with: hyper alone. It parses no events, counts no tokens and
//! writes nothing.

use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use serde_json::json;

pub(crate) type Failure = Box<dyn std::error::Error>;

/// An open connection to the reference server, and the request to send on it.
pub(crate) struct BareClient {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    body: Bytes,
}

impl BareClient {
    /// Returns a request for a streamed answer of `tokens` tokens to a prompt of `words` words.
    pub(crate) fn body(words: usize, tokens: u32) -> Result<Bytes, Failure> {
        let body = json!({
            "model": "reference",
            "prompt": vec!["word"; words].join(" "),
            "max_tokens": tokens,
            "stream": true,
            "ignore_eos": true,
        });
        Ok(Bytes::from(serde_json::to_vec(&body)?))
    }

    /// Opens a connection. The current runtime drives it.
    pub(crate) async fn connect(url: &str, body: Bytes) -> Result<Self, Failure> {
        let host = url.trim_start_matches("http://").to_owned();
        let socket = tokio::net::TcpStream::connect(&host).await?;
        socket.set_nodelay(true)?;
        let socket = hyper_util::rt::TokioIo::new(socket);
        let (sender, connection) = handshake(socket).await?;
        tokio::spawn(connection);
        Ok(Self { sender, host, body })
    }

    /// Sends the request and reads the whole answer; returns the time to its first data.
    pub(crate) async fn answer(&mut self) -> Result<Duration, Failure> {
        self.sender.ready().await?;
        let request = hyper::Request::post("/v1/completions")
            .header("host", &self.host)
            .header("content-type", "application/json")
            .body(Full::new(self.body.clone()))?;
        let sent = now();
        let mut answer = self.sender.send_request(request).await?;
        let mut first = None;
        while let Some(frame) = answer.frame().await {
            if frame?.is_data() {
                first.get_or_insert_with(|| sent.elapsed());
            }
        }
        first.ok_or_else(|| "an answer without data".into())
    }
}

fn now() -> Instant {
    Instant::now()
}
