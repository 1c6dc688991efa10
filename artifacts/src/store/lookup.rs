//! A session for tens of thousands of lookups.

use std::marker::PhantomData;

use super::index::{Index, connect};
use super::{Cached, Store, StoreError};
use crate::ActionKey;

/// Looks up action keys in one unchanging view of the index, on a separate connection, so that lookups and commits
/// never wait for each other. Keep it for one plan, not for a whole run: the index's log cannot shrink while it lives.
#[derive(Debug)]
pub struct Lookup<'store> {
    index: Index,
    store: PhantomData<&'store Store>,
}

impl Store {
    /// Opens a session of lookups.
    ///
    /// # Errors
    /// If the index returns an error.
    pub fn lookup(&self) -> Result<Lookup<'_>, StoreError> {
        let path = self.index()?.path.clone();
        let open = || {
            let connection = connect(&path)?;
            // Keys arrive in no particular order, so without a large cache each page would be read repeatedly.
            connection.execute_batch("PRAGMA query_only = 1; PRAGMA cache_size = -16384; BEGIN")?;
            Ok(connection)
        };
        match open() {
            Ok(connection) => Ok(Lookup {
                index: Index { path, connection },
                store: PhantomData,
            }),
            Err(e) => Err(StoreError::Index(path, e)),
        }
    }
}

impl Lookup<'_> {
    /// Returns the newest cacheable result of a key (about 2 µs; a scan of the table would take a third of that per
    /// row, but for every row ever executed).
    ///
    /// # Errors
    /// If the index returns an error.
    pub fn record_for(&self, key: &ActionKey) -> Result<Option<Cached>, StoreError> {
        self.index.record_for(key)
    }

    /// Returns all cacheable results of a key, newest first.
    ///
    /// # Errors
    /// If the index returns an error.
    pub fn records_for(&self, key: &ActionKey) -> Result<Vec<Cached>, StoreError> {
        self.index.records_for(key)
    }
}
