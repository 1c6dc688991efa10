//! The index: what was executed and which objects are durable, in SQLite.
//!
//! | table | columns | meaning |
//! |---|---|---|
//! | `objects` | digest, bytes | an object that is durable |
//! | `actions` | key, seq, record, outputs | a cacheable result of an action key; the highest seq is the newest |
//! | `history` | seq, experiment, stage, coordinates, key, record, status, cacheable, seconds | an executed cell, failed ones too |
//! | `uses` | object, record | the record names the object, so the record's rows go when the object goes |
//! | `state` | complete | 1 if the index knows every record, 0 if it was lost and not yet rebuilt |

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use super::StoreError;
use super::commit::sync_path;
use crate::{ActionKey, Digest};

/// One executed cell as the index keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    /// The experiment's name.
    pub experiment: String,
    /// The stage's name.
    pub stage: String,
    /// The cell's coordinates as text, one spelling per cell.
    pub coordinates: String,
    /// The action key.
    pub key: ActionKey,
    /// The record's digest.
    pub record: Digest,
    /// The outputs, the evidence and the record: all that must be there with it.
    pub objects: Vec<Digest>,
    /// The cell's status word.
    pub status: String,
    /// Whether the result may be reused under its key; failures never.
    pub cacheable: bool,
    /// How long the execution took, in seconds.
    pub seconds: f64,
    /// A summary of the outputs, handed back by lookups so that a plan reads no records; its
    /// form is the caller's.
    pub outputs: String,
}

/// A reusable result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached {
    /// The record's digest.
    pub record: Digest,
    /// The summary of the outputs given with the commit.
    pub outputs: String,
}

/// An executed cell of the past.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryLine {
    /// The order of execution: higher is newer.
    pub seq: i64,
    /// The cell's coordinates as text.
    pub coordinates: String,
    /// The action key.
    pub key: ActionKey,
    /// The record's digest.
    pub record: Digest,
    /// The cell's status word.
    pub status: String,
    /// Whether the result may be reused under its key.
    pub cacheable: bool,
    /// How long the execution took, in seconds.
    pub seconds: f64,
}

/// Raised when the tables change; another version is refused, since deleting it is safe.
const VERSION: i64 = 1;

const TABLES: &str = "
    CREATE TABLE objects(digest BLOB PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID, STRICT;
    CREATE TABLE actions(key BLOB NOT NULL, seq INTEGER NOT NULL, record BLOB NOT NULL, outputs TEXT NOT NULL,
        PRIMARY KEY(key, seq)) WITHOUT ROWID, STRICT;
    CREATE INDEX actions_record ON actions(record);
    CREATE TABLE history(seq INTEGER PRIMARY KEY, experiment TEXT NOT NULL, stage TEXT NOT NULL,
        coordinates TEXT NOT NULL, key BLOB NOT NULL, record BLOB NOT NULL, status TEXT NOT NULL,
        cacheable INTEGER NOT NULL, seconds REAL NOT NULL) STRICT;
    CREATE UNIQUE INDEX history_record ON history(record, experiment, stage, coordinates);
    CREATE INDEX history_stage ON history(experiment, stage);
    CREATE INDEX history_cell ON history(experiment, stage, coordinates);
    CREATE TABLE uses(object BLOB NOT NULL, record BLOB NOT NULL, PRIMARY KEY(object, record)) WITHOUT ROWID, STRICT;
    CREATE INDEX uses_record ON uses(record);
    CREATE TABLE state(complete INTEGER NOT NULL) STRICT;
";

/// The connection and where it leads.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) path: PathBuf,
    pub(super) connection: Connection,
}

impl Index {
    pub(super) fn open(root: &Path) -> Result<Self, StoreError> {
        let path = root.join("index.sqlite");
        let connection = connect(&path).map_err(|e| StoreError::Index(path.clone(), e))?;
        let mut index = Self { path, connection };
        if index.version()? == 0 {
            let knows_all = holds_nothing(&root.join("objects"))?;
            index.create(knows_all)?;
            sync_path(root)?;
        }
        match index.version()? {
            VERSION => Ok(index),
            other => Err(StoreError::IndexVersion(index.path, other)),
        }
    }

    fn version(&self) -> Result<i64, StoreError> {
        let query = self.connection.query_row("PRAGMA user_version", [], |row| row.get(0));
        query.map_err(|e| self.error(e))
    }

    /// Makes the tables, unless another process was faster.
    fn create(&mut self, complete: bool) -> Result<(), StoreError> {
        self.transaction(|connection| {
            if connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))? == 0 {
                connection.execute_batch(TABLES)?;
                connection.execute("INSERT INTO state VALUES(?1)", [complete])?;
                connection.pragma_update(None, "user_version", VERSION)?;
            }
            Ok(())
        })
    }

    pub(super) fn error(&self, error: rusqlite::Error) -> StoreError {
        StoreError::Index(self.path.clone(), error)
    }

    /// Runs `work` in one immediate transaction: all of it or nothing.
    pub(super) fn transaction<T>(
        &mut self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        immediate(&mut self.connection, work).map_err(|e| StoreError::Index(self.path.clone(), e))
    }

    /// Returns the size of a durable object in bytes, `None` if it is not known durable.
    pub(super) fn size_of(&self, digest: &Digest) -> Result<Option<u64>, StoreError> {
        let query = || {
            let mut statement =
                self.connection.prepare_cached("SELECT bytes FROM objects WHERE digest = ?1")?;
            statement.query_row([digest.as_bytes()], |row| row.get::<_, i64>(0)).optional()
        };
        Ok(query().map_err(|e| self.error(e))?.and_then(|bytes| u64::try_from(bytes).ok()))
    }

    pub(super) fn record_for(&self, key: &ActionKey) -> Result<Option<Cached>, StoreError> {
        newest(&self.connection, key).map_err(|e| self.error(e))
    }

    pub(super) fn records_for(&self, key: &ActionKey) -> Result<Vec<Cached>, StoreError> {
        let query = || {
            let mut statement = self
                .connection
                .prepare_cached("SELECT record, outputs FROM actions WHERE key = ?1 ORDER BY seq DESC")?;
            statement.query_map([key.0.as_bytes()], cached)?.collect::<rusqlite::Result<_>>()
        };
        query().map_err(|e| self.error(e))
    }

    pub(super) fn history(
        &self,
        experiment: &str,
        stage: &str,
        coordinates: Option<&str>,
        limit: usize,
    ) -> Result<Vec<HistoryLine>, StoreError> {
        let columns = "SELECT seq, coordinates, key, record, status, cacheable, seconds FROM history";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let query = || match coordinates {
            Some(coordinates) => {
                let text = format!(
                    "{columns} WHERE experiment = ?1 AND stage = ?2 AND coordinates = ?3 ORDER BY seq DESC LIMIT ?4"
                );
                let mut statement = self.connection.prepare_cached(&text)?;
                statement
                    .query_map(params![experiment, stage, coordinates, limit], line)?
                    .collect::<rusqlite::Result<_>>()
            }
            None => {
                let text =
                    format!("{columns} WHERE experiment = ?1 AND stage = ?2 ORDER BY seq DESC LIMIT ?3");
                let mut statement = self.connection.prepare_cached(&text)?;
                statement.query_map(params![experiment, stage, limit], line)?.collect::<rusqlite::Result<_>>()
            }
        };
        query().map_err(|e| self.error(e))
    }

    /// Enters durable objects and executed cells.
    pub(super) fn write(
        &mut self,
        objects: &BTreeMap<Digest, u64>,
        commits: &[Commit],
    ) -> Result<(), StoreError> {
        if objects.is_empty() && commits.is_empty() {
            return Ok(());
        }
        self.transaction(|connection| {
            let mut object = connection.prepare_cached("INSERT OR REPLACE INTO objects VALUES(?1, ?2)")?;
            for (digest, bytes) in objects {
                let bytes = i64::try_from(*bytes).unwrap_or(i64::MAX);
                object.execute(params![digest.as_bytes(), bytes])?;
            }
            for commit in commits {
                enter(connection, commit)?;
            }
            Ok(())
        })
    }

    /// Removes the rows that name these records.
    pub(super) fn retire(&mut self, records: &[Digest]) -> Result<(), StoreError> {
        self.transaction(|connection| records.iter().try_for_each(|record| forget_record(connection, record)))
    }
}

fn immediate<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let value = work(&transaction)?;
    transaction.commit()?;
    Ok(value)
}

/// Opens a connection with the store's settings.
pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(30))?;
    // Without it SQLite prepares a statement anew whenever a bound value changes (`STAT4`).
    connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

/// Returns the newest cacheable result of a key.
pub(super) fn newest(connection: &Connection, key: &ActionKey) -> rusqlite::Result<Option<Cached>> {
    let text = "SELECT record, outputs FROM actions WHERE key = ?1 ORDER BY seq DESC LIMIT 1";
    connection.prepare_cached(text)?.query_row([key.0.as_bytes()], cached).optional()
}

fn cached(row: &Row<'_>) -> rusqlite::Result<Cached> {
    Ok(Cached { record: digest(row, 0)?, outputs: row.get(1)? })
}

fn line(row: &Row<'_>) -> rusqlite::Result<HistoryLine> {
    Ok(HistoryLine {
        seq: row.get(0)?,
        coordinates: row.get(1)?,
        key: ActionKey(digest(row, 2)?),
        record: digest(row, 3)?,
        status: row.get(4)?,
        cacheable: row.get(5)?,
        seconds: row.get(6)?,
    })
}

/// Returns the digest in a column of a row.
pub(super) fn digest(row: &Row<'_>, column: usize) -> rusqlite::Result<Digest> {
    row.get(column).map(Digest::from_bytes)
}

fn enter(connection: &Connection, commit: &Commit) -> rusqlite::Result<()> {
    let (key, record) = (commit.key.0.as_bytes(), commit.record.as_bytes());
    let new = connection
        .prepare_cached(
            "INSERT OR IGNORE INTO history(experiment, stage, coordinates, key, record, status, cacheable, seconds)
             VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            commit.experiment,
            commit.stage,
            commit.coordinates,
            key,
            record,
            commit.status,
            commit.cacheable,
            commit.seconds
        ])?;
    if new == 0 {
        return Ok(());
    }
    let seq = connection.last_insert_rowid();
    if commit.cacheable {
        connection.prepare_cached("INSERT INTO actions VALUES(?1, ?2, ?3, ?4)")?.execute(params![
            key,
            seq,
            record,
            commit.outputs
        ])?;
    }
    let mut uses = connection.prepare_cached("INSERT OR IGNORE INTO uses VALUES(?1, ?2)")?;
    for object in commit.objects.iter().chain([&commit.record]) {
        uses.execute(params![object.as_bytes(), record])?;
    }
    Ok(())
}

/// Removes the rows that name a record.
pub(super) fn forget_record(connection: &Connection, record: &Digest) -> rusqlite::Result<()> {
    for text in [
        "DELETE FROM actions WHERE record = ?1",
        "DELETE FROM history WHERE record = ?1",
        "DELETE FROM uses WHERE record = ?1",
    ] {
        connection.prepare_cached(text)?.execute([record.as_bytes()])?;
    }
    Ok(())
}

/// Returns whether there is no object folder yet.
fn holds_nothing(objects: &Path) -> Result<bool, StoreError> {
    Ok(std::fs::read_dir(objects).map_err(StoreError::io(objects))?.next().is_none())
}
