//! A session for tens of thousands of lookups.

use std::marker::PhantomData;
use std::path::PathBuf;

use rusqlite::Connection;

use super::index::{all_newest_first, connect, newest};
use super::{Cached, Store, StoreError};
use crate::ActionKey;

/// Looks up action keys in one unchanging view of the index, on a separate connection, so that lookups and commits
/// never wait for each other. Keep it for one plan, not for a whole run: the index's log cannot shrink while it lives.
#[derive(Debug)]
pub struct Lookup<'store> {
    path: PathBuf,
    connection: Connection,
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
        let connection = open().map_err(|e| StoreError::Index(path.clone(), e))?;
        Ok(Lookup {
            path,
            connection,
            store: PhantomData,
        })
    }
}

impl Lookup<'_> {
    /// Returns the newest cacheable result of a key (about 2 µs; a scan of the table would take a third of that per
    /// row, but for every row ever executed).
    ///
    /// # Errors
    /// If the index returns an error.
    pub fn record_for(&self, key: &ActionKey) -> Result<Option<Cached>, StoreError> {
        newest(&self.connection, key).map_err(|e| StoreError::Index(self.path.clone(), e))
    }

    /// Returns all cacheable results of a key, newest first.
    ///
    /// # Errors
    /// If the index returns an error.
    pub fn records_for(&self, key: &ActionKey) -> Result<Vec<Cached>, StoreError> {
        all_newest_first(&self.connection, key).map_err(|e| StoreError::Index(self.path.clone(), e))
    }
}
