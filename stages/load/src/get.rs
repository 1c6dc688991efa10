//! One request with blocking sockets, off the measuring path: metrics, the list of models, tokens.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tls::{ApiKey, TlsError};

use crate::peer::Peer;
use crate::wire::{self, Framing};

/// The largest answer accepted.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// For connecting, and for each read and write.
const LIMIT: Duration = Duration::from_secs(5);

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum GetError {
    /// No address takes a connection.
    Connect(io::Error),
    /// The server is not to be trusted, or does not speak TLS.
    Tls(TlsError),
    /// What came back is no complete answer.
    Answer(String),
}

impl std::fmt::Display for GetError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Connect(error) => write!(f, "{error}"),
            Self::Tls(error) => write!(f, "{error}"),
            Self::Answer(error) => f.write_str(error),
        }
    }
}

/// A path of a server that is asked again and again.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) peer: Peer,
    pub(crate) path: String,
    pub(crate) api_key: Option<ApiKey>,
}

impl Endpoint {
    /// Gets the path's text.
    ///
    /// # Errors
    /// If there is no answer, or none with status 200; one sentence.
    pub(crate) fn text(&self, accept: &str) -> Result<String, String> {
        let (status, body) = get(&self.peer, &self.path, accept, self.api_key.as_ref())
            .map_err(|e| format!("asking {}: {e}", self.path))?;
        if status == 200 {
            Ok(String::from_utf8_lossy(&body).into_owned())
        } else {
            Err(format!("asking {}: HTTP {status}", self.path))
        }
    }
}

/// Gets a path; returns the status and the body.
///
/// # Errors
/// If there is no complete answer.
pub(crate) fn get(
    peer: &Peer,
    path: &str,
    accept: &str,
    api_key: Option<&ApiKey>,
) -> Result<(u16, Vec<u8>), GetError> {
    let address = &peer.address;
    let head = format!(
        "GET {}{path} HTTP/1.1\r\nHost: {address}\r\nAccept: {accept}\r\n",
        address.prefix
    );
    ask(peer, head, b"", api_key)
}

/// Posts a JSON document to a path; returns the status and the body.
///
/// # Errors
/// If there is no complete answer.
pub(crate) fn post_json(
    peer: &Peer,
    path: &str,
    body: &serde_json::Value,
    api_key: Option<&ApiKey>,
) -> Result<(u16, Vec<u8>), GetError> {
    let body = serde_json::to_vec(body).expect("a JSON value always serializes");
    let address = &peer.address;
    let head = format!(
        "POST {}{path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
        address.prefix,
        body.len()
    );
    ask(peer, head, &body, api_key)
}

/// Sends a request whose head is all but finished, and reads the answer.
fn ask(
    peer: &Peer,
    mut request: String,
    body: &[u8],
    api_key: Option<&ApiKey>,
) -> Result<(u16, Vec<u8>), GetError> {
    let tcp = connect(&peer.addresses).map_err(GetError::Connect)?;
    let broken = |e: io::Error| GetError::Answer(e.to_string());
    tcp.set_read_timeout(Some(LIMIT)).map_err(broken)?;
    tcp.set_write_timeout(Some(LIMIT)).map_err(broken)?;
    if let Some((name, value)) = api_key.map(ApiKey::header) {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str("User-Agent: benchtrail\r\nConnection: close\r\n\r\n");
    let bytes = [request.as_bytes(), body].concat();
    match &peer.tls {
        None => transfer(tcp, &bytes),
        Some(tls) => transfer(tls.connect_blocking(tcp).map_err(GetError::Tls)?, &bytes),
    }
}

/// Writes a request and reads the answer.
fn transfer(mut stream: impl Read + Write, request: &[u8]) -> Result<(u16, Vec<u8>), GetError> {
    let broken = |e: io::Error| match e.kind() {
        // TLS without the message that ends it.
        io::ErrorKind::UnexpectedEof => GetError::Answer("the answer was cut short".to_owned()),
        _ => GetError::Answer(e.to_string()),
    };
    stream.write_all(request).map_err(broken)?;
    let (mut bytes, mut piece) = (Vec::new(), [0_u8; 16 * 1024]);
    // Servers that keep the connection open all the same are left when the answer is complete.
    loop {
        let got = stream.read(&mut piece).map_err(broken)?;
        bytes.extend_from_slice(&piece[..got]);
        match wire::take_apart(&bytes).map_err(GetError::Answer)? {
            Some((head, body, true)) => return Ok((head.status, body)),
            Some((head, body, false)) if got == 0 && head.framing == Framing::UntilClose => {
                return Ok((head.status, body));
            }
            _ if got == 0 => return Err(GetError::Answer("the answer was cut short".to_owned())),
            _ if bytes.len() > MAX_ANSWER => {
                return Err(GetError::Answer(format!("more than {MAX_ANSWER} bytes")));
            }
            _ => {}
        }
    }
}

/// Connects to the first address that takes a connection.
fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut first_error = None;
    for address in addresses {
        match TcpStream::connect_timeout(address, LIMIT) {
            Ok(stream) => return Ok(stream),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.unwrap_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable)))
}
