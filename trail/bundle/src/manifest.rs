//! The manifest: every file of a bundle with its digests.

use std::io::{self, Read as _};
use std::path::Path;

use artifacts::{Digest, hex};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::place::BundlePath;
use crate::sources::LeftOut;

/// The version of the layout.
pub(crate) const FORMAT: u32 = 2;

/// The contents of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the layout.
    pub format: u32,
    /// The experiment's name.
    pub experiment: String,
    /// The lock's file.
    pub lock: BundlePath,
    /// What the derived documents are made from, in addition to lock, records and study.
    pub colophon: Colophon,
    /// The trail digest: one hash for the whole study.
    pub trail: Digest,
    /// Rules of the secret scan that were switched off.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub allowed: Vec<String>,
    /// Every file except the manifest, the statement and its envelope, sorted by path.
    pub files: Vec<Entry>,
}

/// The options of the publication. With them, every document of the bundle can be derived again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Colophon {
    /// The experiment's file.
    pub experiment: BundlePath,
    /// The definitions and files that the plan read.
    pub carried: Vec<BundlePath>,
    /// The files that the plan read but the bundle does not hold.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub left_out: Vec<LeftOut>,
    /// The outputs of measurements that are not in the bundle, only their digests.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub without: Vec<String>,
    /// The authors to cite.
    pub authors: Vec<String>,
    /// The SPDX identifier of the license.
    pub license: String,
    /// The version of the program that published it.
    pub version: String,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The path in the bundle, with `/`.
    pub path: BundlePath,
    /// The size in bytes.
    pub bytes: u64,
    /// The BLAKE3 digest, `b3:` and 64 hexadecimal digits.
    pub blake3: Digest,
    /// The SHA-256 digest, 64 hexadecimal digits.
    pub sha256: String,
}

impl Entry {
    /// Describes bytes.
    pub(crate) fn of_bytes(path: &BundlePath, bytes: &[u8]) -> Self {
        let (blake3, sha256) = (Digest::of(bytes), sha256_of(bytes));
        Self {
            path: path.clone(),
            bytes: bytes.len() as u64,
            blake3,
            sha256,
        }
    }

    /// Describes this entry's file in a bundle. Returns `None` without reading it if its size
    /// differs from this entry's.
    ///
    /// # Errors
    /// If it cannot be read, or is not a regular file.
    pub(crate) fn of_file(&self, root: &Path) -> io::Result<Option<Self>> {
        let (file, size) = self.path.open(root)?;
        if size != self.bytes {
            return Ok(None);
        }
        let (mut blake3, mut sha256) = (blake3::Hasher::new(), Sha256::new());
        let (mut bytes, mut rest) = (0, file.take(size));
        let mut piece = vec![0; 1 << 16];
        loop {
            let read = rest.read(&mut piece)?;
            if read == 0 {
                break;
            }
            blake3.update(&piece[..read]);
            sha256.update(&piece[..read]);
            bytes += read as u64;
        }
        Ok(Some(Self {
            path: self.path.clone(),
            bytes,
            blake3: Digest::from_bytes(*blake3.finalize().as_bytes()),
            sha256: hex(&sha256.finalize()),
        }))
    }
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// A sentence, if the bytes are not a manifest of this format.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        /// The part of a manifest that every version has.
        #[derive(Deserialize)]
        struct Head {
            #[serde(default)]
            format: serde_json::Value,
        }
        let head: Head = artifacts::json::parse(bytes).map_err(|e| e.to_string())?;
        if head.format != FORMAT {
            let format = match head.format {
                serde_json::Value::Number(format) => format!("format {format}"),
                _ => "no format".to_owned(),
            };
            return Err(format!(
                "the bundle has {format}, but this program reads format {FORMAT}"
            ));
        }
        artifacts::json::parse(bytes).map_err(|e| e.to_string())
    }

    /// Returns the total size in bytes of the files that the manifest lists.
    pub(crate) fn total_bytes(&self) -> u64 {
        let sizes = self.files.iter().map(|f| f.bytes);
        sizes.fold(0, u64::saturating_add)
    }

    /// Returns the bytes of the manifest file.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        artifacts::json::pretty(self)
    }
}

/// Returns the SHA-256 of bytes in hexadecimal.
pub(crate) fn sha256_of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}
