//! TLS for the reference server.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::measure::Stream;

/// The identity of a TLS server: a certificate with its key.
#[derive(Clone, Debug)]
pub struct Identity(Arc<ServerConfig>);

impl Identity {
    /// Makes an identity from a certificate (with those that lead to its authority) and its key, each in PEM.
    ///
    /// # Errors
    /// If either is invalid, or they do not belong together; in one sentence.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, String> {
        let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|e| format!("the certificate: {e}"))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| format!("the key: {e}"))?;
        let config = ServerConfig::builder_with_provider(ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("ring speaks the default versions")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|e| format!("certificate and key: {e}"))?;
        Ok(Self(Arc::new(config)))
    }

    /// Reads certificate and key from PEM files.
    ///
    /// # Errors
    /// As [`Identity::from_pem`], or if a file cannot be read.
    pub(crate) fn from_files(certificate: &Path, key: &Path) -> Result<Self, String> {
        let read =
            |path: &Path| std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()));
        Self::from_pem(&read(certificate)?, &read(key)?)
    }

    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<Stream> {
        TlsAcceptor::from(self.0.clone())
            .accept(stream)
            .await
            .map(Stream::tls)
    }
}
