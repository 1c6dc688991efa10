//! Queries of the index that only a check needs.

use std::collections::BTreeSet;

use super::index::{Index, digest};
use super::{Commit, StoreError};
use crate::{ActionKey, Digest};

impl Index {
    /// Returns the problems that SQLite's own check finds.
    pub(super) fn inconsistencies(&self) -> Result<Vec<String>, StoreError> {
        let query = || {
            let mut statement = self.connection.prepare("PRAGMA integrity_check")?;
            let mut lines: Vec<String> = statement
                .query_map([], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            lines.retain(|line| line != "ok");
            Ok(lines)
        };
        query().map_err(|e| self.error(e))
    }

    /// Returns the durable objects with their sizes in bytes.
    pub(super) fn objects(&self) -> Result<Vec<(Digest, Option<u64>)>, StoreError> {
        let query = || {
            let mut statement = self
                .connection
                .prepare_cached("SELECT digest, bytes FROM objects")?;
            let rows = statement.query_map([], |row| {
                Ok((digest(row, 0)?, u64::try_from(row.get::<_, i64>(1)?).ok()))
            })?;
            rows.collect::<rusqlite::Result<_>>()
        };
        query().map_err(|e| self.error(e))
    }

    /// Returns every object named in rows outside `objects`.
    pub(super) fn named(&self) -> Result<BTreeSet<Digest>, StoreError> {
        let text = "SELECT record FROM history UNION SELECT object FROM uses UNION SELECT record FROM uses";
        let query = || {
            let mut statement = self.connection.prepare(text)?;
            statement
                .query_map([], |row| digest(row, 0))?
                .collect::<rusqlite::Result<_>>()
        };
        query().map_err(|e| self.error(e))
    }

    /// Returns whether any row outside `objects` names this object.
    pub(super) fn names(&self, object: &Digest) -> Result<bool, StoreError> {
        let text = "SELECT EXISTS (SELECT 1 FROM history WHERE record = ?1)
                        OR EXISTS (SELECT 1 FROM uses WHERE object = ?1 OR record = ?1)";
        let query = self.connection.prepare_cached(text);
        query
            .and_then(|mut q| q.query_row([object.as_bytes()], |row| row.get(0)))
            .map_err(|e| self.error(e))
    }

    /// Returns how a row of the index differs from the record it names, if any does.
    pub(super) fn forgery(&self, truth: &Commit) -> Result<Option<String>, StoreError> {
        let query = || {
            let text = "SELECT key, status, cacheable, outputs FROM history WHERE record = ?1";
            let mut statement = self.connection.prepare_cached(text)?;
            let mut rows = statement.query([truth.record.as_bytes()])?;
            while let Some(row) = rows.next()? {
                let (key, status) = (ActionKey(digest(row, 0)?), row.get::<_, String>(1)?);
                let same = key == truth.key
                    && status == truth.status
                    && row.get::<_, bool>(2)? == truth.cacheable
                    && row.get::<_, String>(3)? == truth.outputs;
                if !same {
                    return Ok(Some(format!(
                        "the index has it as {status} under {key}; the record differs"
                    )));
                }
            }
            Ok(None)
        };
        query().map_err(|e| self.error(e))
    }
}
