//! Questions about the index that only a check asks.

use std::collections::BTreeSet;

use rusqlite::types::FromSql;

use super::StoreError;
use super::index::{Index, digest};
use crate::{ActionKey, Digest};

/// What the index says about one record.
pub(super) struct RowsOf {
    /// Key, status and whether it may be reused.
    pub(super) history: Vec<(ActionKey, String, bool)>,
    /// Key and summary of the outputs.
    pub(super) actions: Vec<(ActionKey, String)>,
}

impl Index {
    /// Returns what SQLite's own check and the relations between the tables find wrong.
    pub(super) fn inconsistencies(&self) -> Result<Vec<String>, StoreError> {
        let query = || {
            let mut wrong: Vec<String> = self.column("PRAGMA quick_check")?;
            wrong.retain(|line| line != "ok");
            wrong.extend(self.column::<String>(
                "SELECT 'the action ' || hex(key) || ' has no cacheable line of history' FROM actions a
                 WHERE NOT EXISTS (SELECT 1 FROM history h
                    WHERE h.seq = a.seq AND h.record = a.record AND h.key = a.key AND h.cacheable)",
            )?);
            Ok(wrong)
        };
        query().map_err(|e| self.error(e))
    }

    /// Returns the durable objects with their sizes in bytes.
    pub(super) fn objects(&self) -> Result<Vec<(Digest, Option<u64>)>, StoreError> {
        let query = || {
            let mut statement = self.connection.prepare_cached("SELECT digest, bytes FROM objects")?;
            let row =
                |row: &rusqlite::Row<'_>| Ok((digest(row, 0)?, u64::try_from(row.get::<_, i64>(1)?).ok()));
            statement.query_map([], row)?.collect::<rusqlite::Result<_>>()
        };
        query().map_err(|e| self.error(e))
    }

    /// Returns every object that rows other than those of `objects` name.
    pub(super) fn named(&self) -> Result<BTreeSet<Digest>, StoreError> {
        let text = "SELECT record FROM actions UNION SELECT record FROM history
                    UNION SELECT object FROM uses UNION SELECT record FROM uses";
        let named = self.column::<[u8; 32]>(text).map_err(|e| self.error(e))?;
        Ok(named.into_iter().map(Digest::from_bytes).collect())
    }

    /// Returns whether any row other than those of `objects` names this object.
    pub(super) fn names(&self, object: &Digest) -> Result<bool, StoreError> {
        let text = "SELECT EXISTS (SELECT 1 FROM actions WHERE record = ?1)
                        OR EXISTS (SELECT 1 FROM history WHERE record = ?1)
                        OR EXISTS (SELECT 1 FROM uses WHERE object = ?1 OR record = ?1)";
        let query = self.connection.prepare_cached(text);
        query.and_then(|mut q| q.query_row([object.as_bytes()], |row| row.get(0))).map_err(|e| self.error(e))
    }

    /// Returns what the index says about a record.
    pub(super) fn rows_of(&self, record: &Digest) -> Result<RowsOf, StoreError> {
        let query = || {
            let record = [record.as_bytes()];
            let mut statement = self
                .connection
                .prepare_cached("SELECT key, status, cacheable FROM history WHERE record = ?1")?;
            let history = statement
                .query_map(record, |row| Ok((ActionKey(digest(row, 0)?), row.get(1)?, row.get(2)?)))?
                .collect::<rusqlite::Result<_>>()?;
            let mut statement =
                self.connection.prepare_cached("SELECT key, outputs FROM actions WHERE record = ?1")?;
            let actions = statement
                .query_map(record, |row| Ok((ActionKey(digest(row, 0)?), row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            Ok(RowsOf { history, actions })
        };
        query().map_err(|e| self.error(e))
    }

    fn column<T: FromSql>(&self, text: &str) -> rusqlite::Result<Vec<T>> {
        self.connection.prepare(text)?.query_map([], |row| row.get(0))?.collect()
    }
}
