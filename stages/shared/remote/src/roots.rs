//! What the users of a shared store need from it: a document for each lock whose results were pushed.

use std::collections::BTreeSet;

use artifacts::{Digest, Maker};
use serde::{Deserialize, Serialize};

use crate::condemned::bytes_of;
use crate::error::RemoteError;
use crate::{Remote, side_by_side::each};

/// The version of the document.
const FORMAT: u32 = 1;

/// The number of digits in the name of a root.
const DIGITS: usize = 32;

/// The records that a lock named when its results were last pushed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    format: u32,
    /// The digits that identify the root: derived from the host, the maker, and the path of the lock.
    #[serde(skip)]
    pub name: String,
    /// The experiment.
    pub experiment: String,
    /// The file name of the lock.
    pub lock: String,
    /// Who pushed, and when.
    pub maker: Maker,
    /// The records.
    pub records: BTreeSet<Digest>,
}

impl Root {
    /// Describes a lock at a path on a host.
    pub(crate) fn new(
        place: &std::path::Path,
        experiment: &str,
        maker: Maker,
        records: BTreeSet<Digest>,
    ) -> Self {
        let name = Digest::of(format!("{:?} {:?} {place:?}", maker.host, maker.by).as_bytes());
        let lock = place.file_name().unwrap_or_default();
        Self {
            format: FORMAT,
            name: name.hex()[..DIGITS].to_owned(),
            experiment: experiment.to_owned(),
            lock: lock.to_string_lossy().into_owned(),
            maker,
            records,
        }
    }
}

impl Remote {
    /// Registers the records of a lock. This replaces the lock's earlier root.
    pub(crate) fn register(&self, root: &Root) -> Result<(), RemoteError> {
        let name = format!("roots/{}", root.name);
        self.backend.put_over(&name, &bytes_of(root))?;
        self.backend.settle()
    }

    /// Returns the registered roots.
    ///
    /// # Errors
    /// If one cannot be read, because its needs are then unknown.
    pub fn roots(&self) -> Result<Vec<Root>, RemoteError> {
        let mut names = self.backend.list("roots")?;
        // Names with a leading dot are still being written.
        names.retain(|name| !name.starts_with('.'));
        let roots = each(self.jobs, &names, |name| {
            let at = format!("roots/{name}");
            let root: Option<Root> = self.read_document(&at)?;
            match root {
                Some(root) if root.format != FORMAT => {
                    let what = format!("{at} has version {}, which is unknown", root.format);
                    Err(RemoteError::Broken(self.url.clone(), what))
                }
                Some(root) => Ok(Some(Root {
                    name: name.clone(),
                    ..root
                })),
                None => Ok(None),
            }
        })?;
        Ok(roots.into_iter().flatten().collect())
    }

    pub(crate) fn forget_root(&self, root: &Root) -> Result<(), RemoteError> {
        self.backend.remove(&format!("roots/{}", root.name))
    }
}
