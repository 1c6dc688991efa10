//! A certificate for the reference server, created for one calibration.

use std::io;
use std::path::PathBuf;

/// A certificate of 127.0.0.1 and its key, as files that are removed on drop.
#[derive(Debug)]
pub struct Certificate {
    folder: tempfile::TempDir,
}

impl Certificate {
    /// Creates a self-signed certificate.
    ///
    /// # Errors
    /// If the key cannot be created or the files cannot be written.
    pub fn throw_away() -> io::Result<Self> {
        let key = rcgen::KeyPair::generate().map_err(io::Error::other)?;
        let made = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()])
            .and_then(|parameters| parameters.self_signed(&key))
            .map_err(io::Error::other)?;
        // Only the owner can open the folder.
        let certificate = Self {
            folder: tempfile::tempdir()?,
        };
        std::fs::write(certificate.file(), made.pem())?;
        std::fs::write(certificate.key_file(), key.serialize_pem())?;
        Ok(certificate)
    }

    /// Returns the path of the certificate, PEM.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("certificate.pem")
    }

    /// Returns the path of its key, PEM.
    pub fn key_file(&self) -> PathBuf {
        self.folder.path().join("key.pem")
    }
}
