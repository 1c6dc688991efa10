//! The placements of shards, each parsed once for all shards that share it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pipeline::{Json, Shard};
use places::Placement;
use serde::Deserialize;

use crate::error::ClusterError;

/// The placements parsed so far.
#[derive(Debug, Default)]
pub struct Placements {
    /// By the address of the document that the shards of one plan share. The document is kept, so no other can get the
    /// address.
    shared: HashMap<usize, (Arc<Json>, Arc<Placement>)>,
    /// By the text, because another plan has new copies of the documents.
    read: BTreeMap<String, Arc<Placement>>,
}

impl Placements {
    /// Returns the placement of a shard.
    ///
    /// # Errors
    /// If it cannot be parsed.
    pub fn of(&mut self, shard: &Shard) -> Result<Arc<Placement>, ClusterError> {
        let address = Arc::as_ptr(&shard.placement).addr();
        if let Some((_, placement)) = self.shared.get(&address) {
            return Ok(Arc::clone(placement));
        }
        let text = shard.placement.to_string();
        let placement = match self.read.get(&text) {
            Some(placement) => Arc::clone(placement),
            None => {
                let read = Placement::deserialize(&*shard.placement).map_err(|e| {
                    ClusterError::Broken(format!(
                        "the place of `{}` cannot be read: {e}",
                        shard.stage
                    ))
                })?;
                let read = Arc::new(read);
                self.read.insert(text, Arc::clone(&read));
                read
            }
        };
        let entry = (Arc::clone(&shard.placement), Arc::clone(&placement));
        self.shared.insert(address, entry);
        Ok(placement)
    }
}
