//! Trust in servers, and the TLS handshake.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::error::TlsError;

/// A connection of the event loop.
pub type Stream = tokio_rustls::client::TlsStream<TcpStream>;

/// The TLS setup for one host.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// Prepares connections to a host, given as a DNS name or an IP address without brackets. With `ca_file`, a PEM
    /// file, only its certificates are trusted; otherwise the operating system's.
    ///
    /// # Errors
    /// If no certificate can name such a host, or no certificates can be trusted.
    pub fn new(host: &str, ca_file: Option<&Path>) -> Result<Self, TlsError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            TlsError::new(
                format!("`{host}` is not a name that a certificate can cover"),
                "give the server's DNS name or IP address",
            )
        })?;
        let roots = match ca_file {
            Some(file) => from_file(file)?,
            None => of_the_system()?,
        };
        Ok(Self {
            config: Arc::new(configure(roots)),
            name,
        })
    }

    /// Performs the handshake over an open connection.
    ///
    /// # Errors
    /// If the server is not trustworthy or does not speak TLS.
    pub async fn connect(&self, stream: TcpStream) -> Result<Stream, TlsError> {
        let connector = TlsConnector::from(self.config.clone());
        connector
            .connect(self.name.clone(), stream)
            .await
            .map_err(|e| self.explain(&e))
    }

    /// Returns the configuration for another client.
    pub(crate) fn config(&self) -> ClientConfig {
        (*self.config).clone()
    }

    /// Returns a configuration that trusts no server, for clients that speak plain HTTP.
    pub(crate) fn trusting_nobody() -> ClientConfig {
        configure(RootCertStore::empty())
    }

    fn explain(&self, error: &io::Error) -> TlsError {
        TlsError::of_handshake(&self.name.to_str(), error)
    }
}

/// Returns an HTTP client for servers whose certificates the operating system trusts. It keeps connections and follows
/// no redirects. It gives up a connection that is not established in the given time, and a server that is silent for 30
/// s. It uses the proxy from the environment, if any.
///
/// # Errors
/// If the client cannot be created.
pub fn client(connect: Duration) -> Result<reqwest::Client, reqwest::Error> {
    // Plain HTTP works without any certificate.
    let roots = of_the_system().unwrap_or_else(|_| RootCertStore::empty());
    reqwest::Client::builder()
        .tls_backend_preconfigured(configure(roots))
        .user_agent("benchtrail")
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .connect_timeout(connect)
        .read_timeout(Duration::from_secs(30))
        .build()
}

fn configure(roots: RootCertStore) -> ClientConfig {
    let mut config = ClientConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("ring speaks the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config
}

/// The largest file of certificates, in bytes. That of a system with all authorities has a few hundred thousand.
const MOST_BYTES: u64 = 64 << 20;

fn from_file(file: &Path) -> Result<RootCertStore, TlsError> {
    let wrong = |message: String| {
        TlsError::new(
            format!("certificates of {}: {message}", file.display()),
            "give a PEM file with the certificate of the server's authority (BEGIN CERTIFICATE)",
        )
    };
    // A FIFO could block for ever.
    let metadata = std::fs::metadata(file).map_err(|e| wrong(e.to_string()))?;
    if !metadata.is_file() {
        return Err(wrong("it is not a regular file".to_owned()));
    }
    if metadata.len() > MOST_BYTES {
        let size = metadata.len();
        return Err(wrong(format!(
            "it has {size} bytes; the limit is {MOST_BYTES}"
        )));
    }
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(file).map_err(|e| wrong(e.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|e| wrong(e.to_string()))?;
        roots.add(certificate).map_err(|e| wrong(e.to_string()))?;
    }
    if roots.is_empty() {
        Err(wrong("there are none".to_owned()))
    } else {
        Ok(roots)
    }
}

/// Reads the valid certificates of the system. Broken ones are ignored.
fn of_the_system() -> Result<RootCertStore, TlsError> {
    let native = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _broken) = roots.add_parsable_certificates(native.certs);
    if added > 0 {
        return Ok(roots);
    }
    let first_error = native
        .errors
        .first()
        .map(|e| format!(": {e}"))
        .unwrap_or_default();
    Err(TlsError::new(
        format!("this machine trusts no certificate authority{first_error}"),
        format!(
            "install its package of certificates (Debian: ca-certificates), or {}",
            crate::error::GIVE
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_regular_file_or_far_too_large_holds_no_certificates() {
        let folder = tempfile::tempdir().unwrap();
        let large = folder.path().join("large.pem");
        // A hole: it takes no disk.
        std::fs::File::create(&large)
            .unwrap()
            .set_len(1 << 40)
            .unwrap();
        for (file, word) in [
            (Path::new("/dev/zero"), "not a regular file"),
            (folder.path(), "not a regular file"),
            (large.as_path(), "the limit is 67108864"),
        ] {
            let error = from_file(file).unwrap_err();
            assert!(error.reason.contains(word), "{}", error.reason);
        }
    }
}
