//! The address of a server and the security of connections to it.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

use net::{Tls, TlsError};

use crate::wire::{Address, AddressError, Scheme};

/// The address of a server and the security of connections to it.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: Address,
    /// The addresses of its host; at least one.
    pub(crate) addresses: Vec<SocketAddr>,
    /// For `https://`.
    pub(crate) tls: Option<Tls>,
}

/// Why a URL cannot be used.
#[derive(Debug)]
pub(crate) enum PeerError {
    /// The URL is invalid.
    Url(AddressError),
    /// Its host has no address.
    Host(String),
    /// No certificate can be trusted.
    Tls(TlsError),
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(error) => write!(f, "{error}"),
            Self::Host(message) => f.write_str(message),
            Self::Tls(error) => write!(f, "{error}"),
        }
    }
}

impl Peer {
    /// Parses a base URL and resolves its host. With `ca_file`, only the certificates in it are trusted.
    ///
    /// # Errors
    /// If it is not a URL, its host has no address, or no certificate can be trusted.
    pub(crate) fn find(url: &str, ca_file: Option<&Path>) -> Result<Self, PeerError> {
        let address = Address::parse(url).map_err(PeerError::Url)?;
        let tls = match (address.scheme, ca_file) {
            (Scheme::Https, file) => Some(Tls::new(&address.host, file).map_err(PeerError::Tls)?),
            (Scheme::Http, None) => None,
            (Scheme::Http, Some(file)) => {
                return Err(PeerError::Url(AddressError::NoTls {
                    url: url.to_owned(),
                    file: file.to_owned(),
                }));
            }
        };
        let addresses = (address.host.as_str(), address.port)
            .to_socket_addrs()
            .map_err(|e| PeerError::Host(format!("{address}: {e}")))?
            .collect::<Vec<_>>();
        if addresses.is_empty() {
            return Err(PeerError::Host(format!("{address} has no address")));
        }
        Ok(Self {
            address,
            addresses,
            tls,
        })
    }
}
