//! What stands between us and a server: TLS (whom to trust, the handshake, what is wrong in
//! words), the key it may ask for, [`ApiKey`], and HTTP off the measured path, [`Site`].
//!
//! A server is trusted if its certificate leads to an authority that the operating system
//! trusts or, where a file of certificates is given, to one in that file and no other. Its name
//! must be the host of the URL, a DNS name or an IP address. There is no way to go without these
//! checks. HTTP/1.1 is the only protocol offered (ALPN).

mod api_key;
mod client;
mod error;
mod http;

pub use api_key::ApiKey;
pub use client::{Stream, Tls, client};
pub use error::TlsError;
pub use http::{Answer, Ask, HttpError, Site, SiteError};
