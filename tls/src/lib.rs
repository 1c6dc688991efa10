//! TLS to a server: whom to trust, the handshake, and what is wrong in words.
//!
//! A server is trusted if its certificate leads to an authority that the operating system
//! trusts or, where a file of certificates is given, to one in that file and no other. Its name
//! must be the host of the URL, a DNS name or an IP address. There is no way to go without these
//! checks. HTTP/1.1 is the only protocol offered (ALPN).

mod client;
mod error;

pub use client::{BlockingStream, Stream, Tls};
pub use error::TlsError;
