//! A certificate for the reference server, made for one calibration.

use std::io;
use std::path::PathBuf;

/// A certificate of 127.0.0.1 and its key, as files that are gone when this is dropped.
#[derive(Debug)]
pub struct Certificate {
    folder: tempfile::TempDir,
}

impl Certificate {
    /// Makes one that nobody has signed but itself.
    ///
    /// # Errors
    /// If no key can be made, or the files cannot be written.
    pub fn throw_away() -> io::Result<Self> {
        let key = rcgen::KeyPair::generate().map_err(io::Error::other)?;
        let made = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()])
            .and_then(|parameters| parameters.self_signed(&key))
            .map_err(io::Error::other)?;
        // The folder is open to its owner alone.
        let certificate = Self {
            folder: tempfile::tempdir()?,
        };
        std::fs::write(certificate.file(), made.pem())?;
        std::fs::write(certificate.key_file(), key.serialize_pem())?;
        Ok(certificate)
    }

    /// Returns where the certificate is, PEM.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("certificate.pem")
    }

    /// Returns where its key is, PEM.
    pub fn key_file(&self) -> PathBuf {
        self.folder.path().join("key.pem")
    }
}
