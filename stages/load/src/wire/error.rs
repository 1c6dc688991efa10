//! What is wrong with a server's URL, or with the bytes of a response.

use std::fmt;
use std::path::PathBuf;

use super::MAX_HEAD;

/// What is wrong with a server's URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressError {
    /// It begins with neither `http://` nor `https://`.
    NoScheme {
        /// The URL.
        url: String,
    },
    /// It has a name or a password, which may be a secret and is not repeated.
    Credentials {
        /// The URL without them.
        shown: String,
    },
    /// It has a query or a fragment.
    Unwanted {
        /// The URL up to there.
        shown: String,
        /// The character: `?` or `#`.
        sign: String,
    },
    /// It has no readable host and port.
    NoHost {
        /// The URL.
        url: String,
    },
    /// Its host is an IPv6 address without brackets.
    NoBrackets {
        /// The URL.
        url: String,
        /// The URL with brackets.
        meant: String,
    },
    /// The port is not a number from 1 to 65535.
    Port {
        /// The URL.
        url: String,
        /// The port.
        port: String,
    },
    /// It is `http://`, and a file of trusted certificates is given.
    NoTls {
        /// The URL.
        url: String,
        /// The file.
        file: PathBuf,
    },
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoScheme { url } => write!(
                f,
                "{url}: a server's URL must begin with http:// or https://"
            ),
            Self::Credentials { shown } => {
                write!(
                    f,
                    "{shown}: a server's URL has no name and no password in it"
                )
            }
            Self::Unwanted { shown, sign } => {
                write!(f, "{shown}: a server's URL has no `{sign}`")
            }
            Self::NoHost { url } => write!(f, "{url}: cannot read a host and port"),
            Self::NoBrackets { url, .. } => {
                write!(f, "{url}: an IPv6 address in a URL is in brackets")
            }
            Self::Port { url, port } => write!(
                f,
                "{url}: the port `{port}` is not a number from 1 to 65535"
            ),
            Self::NoTls { url, file } => {
                let file = file.display();
                write!(f, "{url} is not https://, so {file} has no effect")
            }
        }
    }
}

/// What is wrong with the bytes of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResponseError {
    /// The head is longer than [`MAX_HEAD`].
    LongHead,
    /// The server speaks TLS, and was asked in plain HTTP.
    SpeaksTls,
    /// The head is not HTTP.
    NotHttp(httparse::Error),
    /// The length of the body is not a number.
    NotALength(String),
    /// Two headers give different lengths.
    TwoLengths,
    /// An encoding other than chunked.
    TransferEncoding(String),
    /// A compressed body, which was not requested.
    ContentEncoding(String),
    /// More than [`MAX_HEAD`] bytes between two chunks.
    BetweenChunks,
    /// A chunk's size is too large.
    ChunkSize,
    /// A byte has no place in chunked encoding.
    ChunkByte(u8),
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LongHead => write!(f, "the response head is longer than {MAX_HEAD} bytes"),
            Self::SpeaksTls => {
                f.write_str("the server speaks TLS at this port; write https:// in its URL")
            }
            Self::NotHttp(error) => write!(f, "not an HTTP response: {error}"),
            Self::NotALength(value) => write!(f, "Content-Length `{value}` is not a length"),
            Self::TwoLengths => f.write_str("two Content-Length headers disagree"),
            Self::TransferEncoding(value) => {
                write!(f, "Transfer-Encoding `{value}` is not supported")
            }
            Self::ContentEncoding(value) => {
                write!(f, "Content-Encoding `{value}` was not requested")
            }
            Self::BetweenChunks => write!(
                f,
                "chunked encoding has more than {MAX_HEAD} bytes that are not data, one after the other"
            ),
            Self::ChunkSize => f.write_str("a chunk's size is out of bounds"),
            Self::ChunkByte(byte) => write!(f, "chunked encoding is broken by byte 0x{byte:02x}"),
        }
    }
}
