//! HTTP/1.1 as bytes: writes the request, parses the head, finds the end of the body.
//!
//! Pure code over byte slices, used twice: on the measuring path only to find where a response ends, and later to
//! extract the body from its framing.

mod error;
mod retry_after;

use std::fmt;

pub use error::AddressError;
pub(crate) use error::ResponseError;

/// The longest response head accepted.
pub(crate) const MAX_HEAD: usize = 64 * 1024;

/// The headers for which there is room without an allocation.
const USUAL_HEADERS: usize = 128;

/// The fewest bytes of a header: a letter, a colon, and the end of the line.
const SHORTEST_HEADER: usize = 3;

/// The protocol for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS.
    Https,
}

impl Scheme {
    /// Returns the scheme as it appears in a URL.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// An `http://` or `https://` address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The protocol.
    pub(crate) scheme: Scheme,
    /// Host, without brackets.
    pub(crate) host: String,
    /// Port.
    pub(crate) port: u16,
    /// The prefix of every path: empty, or `/…` without a final slash.
    pub(crate) prefix: String,
}

impl Address {
    /// Parses a base URL such as `http://127.0.0.1:8080`.
    pub(crate) fn parse(url: &str) -> Result<Self, AddressError> {
        let (scheme, rest) = match url.split_once("://") {
            Some(("http", rest)) => (Scheme::Http, rest),
            Some(("https", rest)) => (Scheme::Https, rest),
            Some(_) => return Err(no_scheme(url)),
            // A scheme that lacks a character is not a host.
            None if meant_address(url).is_some() => return Err(no_scheme(url)),
            // If it is not an address even with a scheme, report that problem.
            None => {
                let with_scheme = Self::parse(&format!("http://{url}"));
                return Err(with_scheme.err().unwrap_or_else(|| no_scheme(url)));
            }
        };
        // The part before `@` may be a secret, and is not repeated.
        if let Some((_, host)) = rest.split('/').next().and_then(|a| a.rsplit_once('@')) {
            let shown = format!("{}://…@{host}", scheme.word());
            return Err(AddressError::Credentials { shown });
        }
        if let Some(at) = rest.find(['?', '#']) {
            return Err(AddressError::Unwanted {
                shown: format!("{}://{}", scheme.word(), &rest[..at]),
                sign: rest[at..=at].to_owned(),
            });
        }
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let wrong = || AddressError::NoHost {
            url: url.to_owned(),
        };
        let (host, port) = match authority.strip_prefix('[') {
            Some(inner) => {
                let (host, rest) = inner.split_once(']').ok_or_else(wrong)?;
                (host, rest.strip_prefix(':'))
            }
            None => match authority.rsplit_once(':') {
                Some((host, _)) if host.contains(':') => {
                    return Err(AddressError::NoBrackets {
                        url: url.to_owned(),
                        meant: in_brackets(scheme, authority, path),
                    });
                }
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let port = match port {
            Some(port) => {
                let parsed = port.parse().ok().filter(|port| *port > 0);
                parsed.ok_or_else(|| AddressError::Port {
                    url: url.to_owned(),
                    port: port.to_owned(),
                })?
            }
            None if scheme == Scheme::Https => 443,
            None => 80,
        };
        let unfit = |c: char| c.is_whitespace() || c.is_control();
        if host.is_empty() || url.contains(unfit) {
            return Err(wrong());
        }
        Ok(Self {
            scheme,
            host: host.to_owned(),
            port,
            prefix: path.trim_end_matches('/').to_owned(),
        })
    }
}

/// Returns the URL that a mistyped scheme was meant to begin: `http:/host`, `http//host`, `https:host`, `http:///host`.
pub fn meant_address(url: &str) -> Option<String> {
    let (scheme, rest) = ["https", "http"]
        .iter()
        .find_map(|scheme| Some((scheme, url.strip_prefix(scheme)?)))?;
    let host = rest.trim_start_matches([':', '/']);
    let between = &rest[..rest.len() - host.len()];
    let port = between == ":" && host.split('/').next()?.parse::<u16>().is_ok();
    let meant = format!("{scheme}://{host}");
    (!between.is_empty() && between != "://" && !port && Address::parse(&meant).is_ok())
        .then_some(meant)
}

/// Returns the URL of an IPv6 address with its brackets.
fn in_brackets(scheme: Scheme, authority: &str, path: &str) -> String {
    let is_ip = |text: &str| text.parse::<std::net::Ipv6Addr>().is_ok();
    let scheme = scheme.word();
    match authority.rsplit_once(':') {
        Some((host, port)) if is_ip(host) && port.parse::<u16>().is_ok() => {
            format!("{scheme}://[{host}]:{port}{path}")
        }
        _ if is_ip(authority) => format!("{scheme}://[{authority}]{path}"),
        _ => format!("{scheme}://[ADDRESS]:PORT{path}"),
    }
}

fn no_scheme(url: &str) -> AddressError {
    AddressError::NoScheme {
        url: url.to_owned(),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Returns a POST of a JSON body, head and body in one piece.
pub(crate) fn post(
    address: &Address,
    path: &str,
    headers: &[(String, String)],
    body: &[u8],
) -> Vec<u8> {
    let mut bytes = format!(
        "POST {}{path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: benchtrail\r\nContent-Type: application/json\r\n\
         Accept: text/event-stream, application/json\r\nContent-Length: {}\r\n",
        address.prefix,
        body.len()
    )
    .into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

/// The parts of a response head needed for framing and bookkeeping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head<'a> {
    /// The status code.
    pub(crate) status: u16,
    /// The length of the head, in bytes.
    pub(crate) length: usize,
    /// How the end of the body is found.
    pub(crate) framing: Framing,
    /// Whether the connection may carry another request.
    pub(crate) keep_alive: bool,
    /// Seconds of `Retry-After`, rounded up, if it is present and can be read.
    pub(crate) retry_after: Option<u64>,
    /// The media type of the body without parameters, if present.
    pub(crate) media_type: Option<&'a str>,
}

/// Parses a response head at the start of `bytes`; `None` while it is incomplete. Interim (1xx) heads are skipped and
/// included in the length.
///
/// An error of the server keeps its status, even if the rest of its head is unsupported; its body is then left out.
pub(crate) fn head(bytes: &[u8]) -> Result<Option<Head<'_>>, ResponseError> {
    let mut headers = [httparse::EMPTY_HEADER; USUAL_HEADERS];
    match head_into(bytes, &mut headers) {
        Err(ResponseError::NotHttp(httparse::Error::TooManyHeaders)) => {
            let most = bytes.len().min(MAX_HEAD) / SHORTEST_HEADER + 1;
            head_into(bytes, &mut vec![httparse::EMPTY_HEADER; most])
        }
        read => read,
    }
}

/// Parses a response head with room for some number of headers.
fn head_into<'a>(
    bytes: &'a [u8],
    headers: &mut [httparse::Header<'a>],
) -> Result<Option<Head<'a>>, ResponseError> {
    let mut skipped = 0;
    loop {
        let mut response = httparse::Response::new(&mut *headers);
        let error = match response.parse(&bytes[skipped..]) {
            // A head may arrive whole, in one read.
            Ok(httparse::Status::Complete(length)) if skipped + length > MAX_HEAD => {
                ResponseError::LongHead
            }
            Ok(httparse::Status::Complete(length)) => {
                let status = response.code.unwrap_or(0);
                if (100..200).contains(&status) && status != 101 {
                    skipped += length;
                    headers.fill(httparse::EMPTY_HEADER);
                    continue;
                }
                match read_head(&response, status, skipped + length) {
                    Ok(head) => return Ok(Some(head)),
                    Err(error) => error,
                }
            }
            Ok(httparse::Status::Partial) if bytes.len() > MAX_HEAD => ResponseError::LongHead,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(e @ httparse::Error::TooManyHeaders) => return Err(ResponseError::NotHttp(e)),
            // The start of a TLS alert, with which a TLS server answers plain HTTP.
            Err(_) if bytes.starts_with(&[0x15, 0x03]) => ResponseError::SpeaksTls,
            Err(e) => ResponseError::NotHttp(e),
        };
        return match response.code {
            Some(status @ 300..) => Ok(Some(without_body(&response, status, bytes.len()))),
            _ => Err(error),
        };
    }
}

/// Returns the head of an error whose body cannot be read.
fn without_body<'a>(response: &httparse::Response<'_, 'a>, status: u16, length: usize) -> Head<'a> {
    let value = retry_after::header(response.headers, "retry-after");
    Head {
        status,
        length,
        framing: Framing::Length(0),
        keep_alive: false,
        retry_after: value.and_then(|value| retry_after::seconds(value, response.headers)),
        media_type: None,
    }
}

fn read_head<'a>(
    response: &httparse::Response<'_, 'a>,
    status: u16,
    length: usize,
) -> Result<Head<'a>, ResponseError> {
    let (mut content_length, mut media_type) = (None, None);
    let (mut chunked, mut retry_after) = (false, None);
    let mut keep_alive = response.version == Some(1);
    for header in response.headers.iter() {
        let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
        if header.name.eq_ignore_ascii_case("content-length") {
            let digits = value.bytes().all(|b| b.is_ascii_digit());
            let parsed = value.parse::<u64>().ok().filter(|_| digits);
            let parsed = parsed.ok_or_else(|| ResponseError::NotALength(value.to_owned()))?;
            if content_length.is_some_and(|earlier| earlier != parsed) {
                return Err(ResponseError::TwoLengths);
            }
            content_length = Some(parsed);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.eq_ignore_ascii_case("chunked") {
                return Err(ResponseError::TransferEncoding(value.to_owned()));
            }
            chunked = true;
        } else if header.name.eq_ignore_ascii_case("content-encoding") {
            if !value.eq_ignore_ascii_case("identity") {
                return Err(ResponseError::ContentEncoding(value.to_owned()));
            }
        } else if header.name.eq_ignore_ascii_case("connection") {
            for option in value.split(',').map(str::trim) {
                if option.eq_ignore_ascii_case("close") {
                    keep_alive = false;
                } else if option.eq_ignore_ascii_case("keep-alive") {
                    keep_alive = true;
                }
            }
        } else if header.name.eq_ignore_ascii_case("content-type") {
            media_type = value
                .split(';')
                .next()
                .map(str::trim_end)
                .filter(|media| !media.is_empty());
        } else if header.name.eq_ignore_ascii_case("retry-after") {
            retry_after = retry_after::seconds(value, response.headers);
        }
    }
    let framing = if status == 204 || status == 304 {
        Framing::Length(0)
    } else if chunked {
        Framing::Chunked(Chunked::default())
    } else if let Some(length) = content_length {
        Framing::Length(length)
    } else {
        keep_alive = false;
        Framing::UntilClose
    };
    Ok(Head {
        status,
        length,
        framing,
        keep_alive,
        retry_after,
        media_type,
    })
}

/// How the end of a body is found, and the progress so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// This many bytes are still to come.
    Length(u64),
    /// Chunked transfer encoding.
    Chunked(Chunked),
    /// The body ends with the connection.
    UntilClose,
}

/// The state of a chunked body between two bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunked {
    state: ChunkState,
    /// The remaining bytes of the present chunk, or the size parsed so far.
    left: u64,
    /// Bytes read since the last byte of data: a size, its extension, trailers.
    between: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ChunkState {
    /// Before the first digit of a size.
    #[default]
    Start,
    /// Within a size.
    Size,
    /// Within a chunk extension, or white space after a size.
    Extension,
    /// Within the chunk's data.
    Data,
    /// Between the data and its line end.
    AfterData,
    /// At the start of a trailer line.
    TrailerStart,
    /// Within a trailer line.
    Trailer,
    /// After the last line.
    Done,
}

impl Framing {
    /// Processes the next bytes. Passes the body's bytes among them to `sink` and returns how many were used: all,
    /// unless the body ended earlier.
    ///
    /// # Errors
    /// If the chunked encoding is broken.
    pub(crate) fn advance(
        &mut self,
        bytes: &[u8],
        mut sink: impl FnMut(&[u8]),
    ) -> Result<usize, ResponseError> {
        match self {
            Self::UntilClose => {
                sink(bytes);
                Ok(bytes.len())
            }
            Self::Length(left) => {
                let taken = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len());
                sink(&bytes[..taken]);
                *left -= taken as u64;
                Ok(taken)
            }
            Self::Chunked(chunked) => chunked.advance(bytes, sink),
        }
    }

    /// Returns whether the body is complete.
    pub(crate) fn done(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(chunked) => chunked.state == ChunkState::Done,
            Self::UntilClose => false,
        }
    }
}

impl Chunked {
    fn advance(
        &mut self,
        bytes: &[u8],
        mut sink: impl FnMut(&[u8]),
    ) -> Result<usize, ResponseError> {
        let mut at = 0;
        while at < bytes.len() && self.state != ChunkState::Done {
            let byte = bytes[at];
            if self.state == ChunkState::Data {
                let taken = usize::try_from(self.left)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len() - at);
                sink(&bytes[at..at + taken]);
                at += taken;
                self.between = 0;
                self.left -= taken as u64;
                if self.left == 0 {
                    self.state = ChunkState::AfterData;
                }
                continue;
            }
            at += 1;
            self.between += 1;
            if self.between > MAX_HEAD {
                return Err(ResponseError::BetweenChunks);
            }
            self.state = match (self.state, byte) {
                (ChunkState::Start | ChunkState::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                    let digit = (byte as char)
                        .to_digit(16)
                        .expect("matched a hexadecimal digit");
                    if self.left >> 56 != 0 {
                        return Err(ResponseError::ChunkSize);
                    }
                    self.left = self.left << 4 | u64::from(digit);
                    ChunkState::Size
                }
                (ChunkState::Size | ChunkState::Extension, b'\n') => {
                    if self.left == 0 {
                        ChunkState::TrailerStart
                    } else {
                        ChunkState::Data
                    }
                }
                (ChunkState::Size | ChunkState::Extension, b'\r') => ChunkState::Extension,
                (ChunkState::Size, b';' | b' ' | b'\t') => ChunkState::Extension,
                (ChunkState::Extension, _) => ChunkState::Extension,
                (ChunkState::AfterData, b'\r') => ChunkState::AfterData,
                (ChunkState::AfterData, b'\n') => ChunkState::Start,
                (ChunkState::TrailerStart, b'\n') => ChunkState::Done,
                (ChunkState::TrailerStart, b'\r') => ChunkState::TrailerStart,
                (ChunkState::Trailer, b'\n') => ChunkState::TrailerStart,
                (ChunkState::TrailerStart | ChunkState::Trailer, _) => ChunkState::Trailer,
                _ => return Err(ResponseError::ChunkByte(byte)),
            };
        }
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_read_with_and_without_port_path_and_brackets() {
        let parse = |url| Address::parse(url).map(|a| (a.host, a.port, a.prefix));
        assert_eq!(
            parse("http://127.0.0.1:81/"),
            Ok(("127.0.0.1".into(), 81, String::new()))
        );
        assert_eq!(
            parse("http://box/a/b/"),
            Ok(("box".into(), 80, "/a/b".into()))
        );
        assert_eq!(
            parse("http://[::1]:9"),
            Ok(("::1".into(), 9, String::new()))
        );
        assert_eq!(parse("https://box/a"), Ok(("box".into(), 443, "/a".into())));
        assert_eq!(
            Address::parse("https://box:8443").map(|a| a.scheme),
            Ok(Scheme::Https)
        );
        for url in [
            "https://",
            "ftp://x",
            "x",
            "http://",
            "http://x:port",
            "http://x y",
            "http://u@x",
        ] {
            assert!(Address::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn what_lies_between_chunks_cannot_go_on_for_ever() {
        let rest = vec![b'0'; 2 * MAX_HEAD];
        for begin in ["", "5;", "5\r\nabcde\r\n0;", "0\r\n", "0\r\nA: b\r\n"] {
            let mut framing = Framing::Chunked(Chunked::default());
            let text = [begin.as_bytes(), &rest].concat();
            let refused = framing.advance(&text, |_| ()).unwrap_err();
            assert_eq!(refused, ResponseError::BetweenChunks, "{begin:?}");
        }
        // Each chunk may have an extension.
        let mut framing = Framing::Chunked(Chunked::default());
        let chunk = format!("1;{}\r\nx\r\n", "e".repeat(1000));
        for _ in 0..100 {
            assert_eq!(framing.advance(chunk.as_bytes(), |_| ()), Ok(chunk.len()));
        }
    }

    #[test]
    fn a_length_is_written_with_digits_alone() {
        for length in ["+5", "-5", "5, 5", "0x5", "5.0", "18446744073709551616", ""] {
            let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            let refused = head(text.as_bytes()).unwrap_err();
            assert!(
                matches!(refused, ResponseError::NotALength(_)),
                "{length:?}: {refused}"
            );
        }
    }

    #[test]
    fn a_head_that_is_too_long_is_refused_also_if_it_arrives_whole() {
        let line = format!("X: {}\r\n", "a".repeat(1000));
        for lines in [
            vec![line.repeat(66)],
            vec![line.repeat(33), line.repeat(33)],
        ] {
            // One head, or two of which the first is an interim one.
            let last = lines.len() - 1;
            let heads = lines.iter().enumerate().map(|(at, lines)| {
                let status = if at == last {
                    "200 OK"
                } else {
                    "103 Early Hints"
                };
                format!("HTTP/1.1 {status}\r\n{lines}\r\n")
            });
            let text: String = heads.collect();
            assert_eq!(head(text.as_bytes()).unwrap_err(), ResponseError::LongHead);
        }
    }

    #[test]
    fn interim_heads_are_skipped() {
        let text = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 Slow\r\nRetry-After: 3\r\nContent-Length: 2\r\n\r\nno";
        let head = head(text).unwrap().unwrap();
        assert_eq!(
            (head.status, head.retry_after, head.framing),
            (429, Some(3), Framing::Length(2))
        );
    }

    #[test]
    fn an_error_keeps_its_status_and_its_wait_whatever_else_is_in_its_head() {
        let many: String = (0..150).map(|i| format!("X-{i}: y\r\n")).collect();
        let long = format!("X: {}\r\n", "a".repeat(MAX_HEAD));
        for (more, framing) in [
            (many.as_str(), Framing::Length(2)),
            ("Content-Encoding: gzip\r\n", Framing::Length(0)),
            ("Transfer-Encoding: gzip, chunked\r\n", Framing::Length(0)),
            ("Content-Length: 3\r\n", Framing::Length(0)),
            ("Content-Length: x\r\n", Framing::Length(0)),
            ("a header: with a space\r\n", Framing::Length(0)),
            (&long, Framing::Length(0)),
        ] {
            let text =
                format!("HTTP/1.1 503 X\r\nRetry-After: 1.5\r\nContent-Length: 2\r\n{more}\r\nno");
            let start: String = more.chars().take(40).collect();
            let head = head(text.as_bytes()).unwrap().expect(&start);
            assert_eq!((head.status, head.retry_after), (503, Some(2)), "{start}");
            assert_eq!(head.framing, framing, "{start}");
            assert!(head.length <= text.len());
            // Only a body that was read to its end leaves the connection in step.
            assert_eq!(head.keep_alive, framing == Framing::Length(2), "{start}");
        }
        let interim = b"HTTP/1.1 103 X\r\nRetry-After: 9\r\n\r\nHTTP/1.1 429 X\r\nno name\r\n\r\n";
        let after_interim = head(interim).unwrap().unwrap();
        assert_eq!(
            (after_interim.status, after_interim.retry_after),
            (429, None)
        );
    }

    #[test]
    fn an_answer_may_have_any_number_of_headers_but_no_encoding() {
        let many: String = (0..1000).map(|i| format!("X-{i}: y\r\n")).collect();
        let text = format!("HTTP/1.1 200 OK\r\n{many}Content-Length: 2\r\n\r\n{{}}");
        let head_of_many = head(text.as_bytes()).unwrap().unwrap();
        assert_eq!(head_of_many.framing, Framing::Length(2));
        assert_eq!(head(&text.as_bytes()[..5000]), Ok(None));
        let encoded = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n";
        let refused = head(encoded).unwrap_err();
        assert_eq!(refused, ResponseError::ContentEncoding("gzip".to_owned()));
    }

    #[test]
    fn broken_heads_are_errors() {
        for text in [
            "nonsense\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            "\x15\x03\x01\0\x02\x02\x46",
        ] {
            assert!(head(text.as_bytes()).is_err(), "{text}");
        }
        assert!(head(b"HT").unwrap().is_none());
    }

    #[test]
    fn a_broken_chunk_size_is_an_error() {
        let mut framing = Framing::Chunked(Chunked::default());
        assert!(framing.advance(b"xyz\r\n", |_| ()).is_err());
        let mut framing = Framing::Chunked(Chunked::default());
        assert!(framing.advance(b"fffffffffffffffff\r\n", |_| ()).is_err());
    }

    proptest! {
        /// Wherever reads cut a chunked body, the result has the same bytes and the end is found.
        #[test]
        fn reads_may_cut_a_chunked_body_anywhere(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..8),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let mut encoded = Vec::new();
            for chunk in &chunks {
                encoded.extend(format!("{:x};ext=1\r\n", chunk.len()).into_bytes());
                encoded.extend(chunk);
                encoded.extend(b"\r\n");
            }
            encoded.extend(b"0\r\nTrailer: x\r\n\r\n");
            let body_end = encoded.len();
            encoded.extend(b"next");
            let mut at: Vec<usize> = cuts.iter().map(|c| c.index(encoded.len())).collect();
            at.extend([0, encoded.len()]);
            at.sort_unstable();
            let (mut framing, mut body, mut taken) = (Framing::Chunked(Chunked::default()), Vec::new(), 0);
            for pair in at.windows(2) {
                taken += framing.advance(&encoded[pair[0]..pair[1]], |p| body.extend_from_slice(p)).unwrap();
            }
            prop_assert!(framing.done());
            prop_assert_eq!(taken, body_end);
            prop_assert_eq!(body, chunks.concat());
        }
    }
}
