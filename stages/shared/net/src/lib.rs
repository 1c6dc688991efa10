//! Everything between Benchtrail and a server: TLS (trust, the handshake, error messages), the API
//! key, [`ApiKey`], and HTTP off the measured path, [`Site`].
//!
//! A server is trusted if its certificate leads to an authority that the operating system trusts.
//! If a file of certificates is given, only the authorities in that file count. The certificate's
//! name must be the host of the URL, a DNS name or an IP address. These checks cannot be switched
//! off. HTTP/1.1 is the only protocol offered (ALPN).

mod api_key;
mod client;
mod error;
mod http;
mod secrets;

pub use api_key::ApiKey;
pub use client::{Stream, Tls, client};
pub use error::TlsError;
pub use http::{Answer, Ask, HttpError, Site, SiteError};
pub use secrets::{Secrets, may_be_secret};
