//! The manifest: every file of a bundle with its digests.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use artifacts::Digest;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The version of the layout.
pub(crate) const FORMAT: u32 = 1;

/// What a bundle holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the layout.
    pub format: u32,
    /// The experiment's name.
    pub experiment: String,
    /// The lock's file.
    pub lock: String,
    /// The trail digest: one hash for the whole study.
    pub trail: Digest,
    /// Rules of the secret scan that were switched off.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub allowed: Vec<String>,
    /// Every file but the manifest, the statement and its envelope, sorted by path.
    pub files: Vec<Entry>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The path in the bundle, with `/`.
    pub path: String,
    /// How many bytes.
    pub bytes: u64,
    /// The BLAKE3 digest, `b3:` and 64 hexadecimal digits.
    pub blake3: Digest,
    /// The SHA-256 digest, 64 hexadecimal digits.
    pub sha256: String,
}

impl Entry {
    /// Describes bytes.
    pub(crate) fn of_bytes(path: impl Into<String>, bytes: &[u8]) -> Self {
        let (blake3, sha256) = (Digest::of(bytes), sha256_of(bytes));
        Self {
            path: path.into(),
            bytes: bytes.len() as u64,
            blake3,
            sha256,
        }
    }

    /// Describes a file of a bundle.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn of_file(root: &Path, path: &str) -> io::Result<Self> {
        // A file of a bundle is an object or a document; the largest are rows of one cell.
        let mut bytes = Vec::new();
        fs::File::open(root.join(path))?.read_to_end(&mut bytes)?;
        Ok(Self::of_bytes(path, &bytes))
    }
}

impl Manifest {
    /// Returns the file's bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("a manifest always serializes");
        bytes.push(b'\n');
        bytes
    }
}

/// Returns the SHA-256 of bytes in hexadecimal.
pub(crate) fn sha256_of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns bytes in lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            write!(text, "{byte:02x}").expect("writing to a string never fails");
            text
        })
}
