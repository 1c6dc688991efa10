//! Outputs in the store that are missing or changed.

use artifacts::{Digest, Store, StoreError};

use crate::record::outputs_in_use;

/// The damage to the outputs of a cached cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    /// The name of the first output that is missing or has other bytes.
    pub(crate) output: String,
    /// The outputs that exist with other bytes.
    pub(crate) changed: Vec<Digest>,
}

impl Damage {
    /// Checks the bytes of all outputs that the index lists for a cell; `None` if they are unchanged.
    ///
    /// # Errors
    /// If the file system returns an error.
    pub(super) fn of(store: &Store, outputs: &str) -> Result<Option<Self>, StoreError> {
        let mut damage: Option<Self> = None;
        for (name, artifact) in outputs_in_use(outputs) {
            if store.has_its_bytes(&artifact.digest)? {
                continue;
            }
            let damage = damage.get_or_insert_with(|| Self {
                output: name.to_owned(),
                changed: Vec::new(),
            });
            if store.contains(&artifact.digest) {
                damage.changed.push(artifact.digest);
            }
        }
        Ok(damage)
    }

    /// Checks only whether the outputs exist.
    pub(super) fn missing(store: &Store, outputs: &str) -> Option<Self> {
        let outputs = outputs_in_use(outputs);
        let mut gone = outputs
            .into_iter()
            .filter(|(_, artifact)| !store.contains(&artifact.digest));
        gone.next().map(|(name, _)| Self {
            output: name.to_owned(),
            changed: Vec::new(),
        })
    }
}
