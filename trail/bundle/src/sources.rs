//! The files that a plan read in addition to the experiment: which of them a bundle carries, and where.
//!
//! Each file keeps its place relative to the experiment, so that all paths in it remain valid. Files below the
//! experiment's folder go below the bundle's root. If the plan read something from the folder above, where definitions
//! are also searched, that folder becomes the root.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use artifacts::Digest;
use pipeline::Experiment;
use serde::{Deserialize, Serialize};

use crate::error::BundleError;
use crate::layout;
use crate::place::BundlePath;

/// The largest file that a bundle carries.
const LARGEST: u64 = 64 << 20;

/// The files of a study that are not artifacts.
#[derive(Debug)]
pub struct Sources {
    /// The path of the experiment in the bundle.
    pub(crate) experiment: BundlePath,
    /// The path of the lock in the bundle.
    pub(crate) lock: BundlePath,
    /// The carried files: their paths in the bundle, their paths on disk, and their digests.
    pub(crate) carried: Vec<(BundlePath, PathBuf, Digest)>,
    /// The files that are not carried.
    pub(crate) left_out: Vec<LeftOut>,
}

/// A file that the plan read but the bundle does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The path as the settings name it, or `COLLECTION/NAME` for a definition.
    pub name: String,
    /// The digest of its bytes.
    pub digest: Digest,
    /// The reason why it is not included.
    pub reason: String,
}

impl Sources {
    /// Assigns paths to all files that the plan of an experiment read. Files in `leave_out` are only named.
    ///
    /// # Errors
    /// If a file is missing, has a path that the bundle reserves, or a file to leave out was not read.
    pub fn of(
        experiment: &Experiment,
        lock: &Path,
        leave_out: &[PathBuf],
    ) -> Result<Self, BundleError> {
        let file = real(&experiment.file)?;
        let folder = file.parent().expect("a file lies in a folder").to_owned();
        let above = folder
            .parent()
            .map_or_else(|| folder.clone(), Path::to_owned);
        let unwanted = leave_out
            .iter()
            .map(|path| real(path))
            .collect::<Result<Vec<_>, _>>()?;
        let mut met = vec![false; unwanted.len()];
        let mut carried: BTreeMap<PathBuf, Digest> = BTreeMap::new();
        let mut left_out = Vec::new();
        for source in &experiment.sources {
            let path = real(&source.path)?;
            let bytes = fs::metadata(&path)
                .map_err(|e| BundleError::Io(path.clone(), e))?
                .len();
            let reason = if let Some(i) = unwanted.iter().position(|p| *p == path) {
                met[i] = true;
                "the author left it out".to_owned()
            } else if !path.starts_with(&above) {
                "it is outside the experiment's folder and its parent folder".to_owned()
            } else if bytes > LARGEST {
                format!(
                    "it has {} MiB; the limit for a bundle is {} MiB",
                    bytes >> 20,
                    LARGEST >> 20
                )
            } else {
                carried.insert(path, source.digest);
                continue;
            };
            left_out.push(LeftOut {
                name: source.name.clone(),
                digest: source.digest,
                reason,
            });
        }
        if let Some(i) = met.iter().position(|met| !met) {
            let what = format!(
                "the study does not read the file {}, so there is nothing to leave out",
                leave_out[i].display()
            );
            return Err(BundleError::Study(what));
        }
        left_out.dedup();
        let root = if carried.keys().all(|path| path.starts_with(&folder)) {
            folder
        } else {
            above
        };
        let place = |path: &Path| -> Result<BundlePath, BundleError> {
            let place = path.strip_prefix(&root).ok().and_then(Path::to_str);
            let place = place.ok_or_else(|| {
                BundleError::Study(format!("the name of {} is not text", path.display()))
            })?;
            BundlePath::new(place).map_err(|e| {
                BundleError::Study(format!(
                    "{e}: rename the file; names in a bundle have no hidden characters, no `\\` and at most 64 folders"
                ))
            })
        };
        let mut placed = Vec::new();
        for (path, digest) in carried {
            let at = place(&path)?;
            if layout::is_own(at.as_str()) {
                let what =
                    format!("`{at}` has the name of one of the bundle's own files; rename it");
                return Err(BundleError::Study(what));
            }
            placed.push((at, path, digest));
        }
        let lock = file.with_file_name(lock.file_name().unwrap_or_default());
        Ok(Self {
            experiment: place(&file)?,
            lock: place(&lock)?,
            carried: placed,
            left_out,
        })
    }

    /// Returns the files that the bundle does not hold.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }
}

/// Returns a path without links and `..`, except for its last part: a linked file is carried under its own name.
fn real(path: &Path) -> Result<PathBuf, BundleError> {
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let folder = folder
        .canonicalize()
        .map_err(|e| BundleError::Io(path.to_owned(), e))?;
    Ok(folder.join(path.file_name().unwrap_or_default()))
}
