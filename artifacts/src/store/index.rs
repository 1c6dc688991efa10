//! The index: what was executed and which objects are durable, in SQLite.
//!
//! | table | columns | meaning |
//! |---|---|---|
//! | `objects` | digest, bytes | an object that is durable |
//! | `history` | seq, key, record, cacheable, outputs, status, seconds, experiment, stage, coordinates | an executed cell, including failed ones; the highest seq is the newest |
//! | `uses` | object, record | the record names the object, so the record's rows go when the object goes |
//! | `origin` | file | inode and time of birth of the index file that the rows were written to; the rows of a copied file are forgotten |
//! | `tally` | rows | the number of rows in `history`: if there are fewer, the index lost some and is read again from the records |
//! | `state` | complete | 1 if the index knows every record, 0 if it was lost and not yet rebuilt |
//!
//! A key is looked up in `history_key`. The rows themselves are in execution order, which is close to plan order, so
//! that ten thousand consecutive lookups read each page about once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use super::StoreError;
use super::commit::sync_path;
use crate::{ActionKey, Digest};

/// One executed cell, as stored in the index.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    /// The experiment's name.
    pub experiment: String,
    /// The stage's name.
    pub stage: String,
    /// The cell's coordinates as text, spelled the same way every time.
    pub coordinates: String,
    /// The action key.
    pub key: ActionKey,
    /// The record's digest.
    pub record: Digest,
    /// The outputs, the evidence and the record: every object that must exist.
    pub objects: Vec<Digest>,
    /// The cell's status word.
    pub status: String,
    /// Whether the result may be reused under its key; never for failures.
    pub cacheable: bool,
    /// The duration of the execution, in seconds.
    pub seconds: f64,
    /// A summary of the outputs in the caller's format. Lookups return it, so that a plan reads no records.
    pub outputs: String,
}

/// A reusable result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached {
    /// The record's digest.
    pub record: Digest,
    /// The summary of the outputs from the commit.
    pub outputs: String,
}

/// A cell executed in the past.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryLine {
    /// The position in execution order: higher is newer.
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
    /// The duration of the execution, in seconds.
    pub seconds: f64,
}

/// Raised when the tables change. An index of another version is rejected, since deleting it is safe.
const VERSION: i64 = 1;

const TABLES: &str = "
    CREATE TABLE objects(digest BLOB PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID, STRICT;
    CREATE TABLE history(seq INTEGER PRIMARY KEY, key BLOB NOT NULL, record BLOB NOT NULL,
        cacheable INTEGER NOT NULL, outputs TEXT NOT NULL, status TEXT NOT NULL, seconds REAL NOT NULL,
        experiment TEXT NOT NULL, stage TEXT NOT NULL, coordinates TEXT NOT NULL) STRICT;
    CREATE INDEX history_key ON history(key, cacheable);
    CREATE UNIQUE INDEX history_record ON history(record, experiment, stage, coordinates);
    CREATE INDEX history_stage ON history(experiment, stage);
    CREATE INDEX history_cell ON history(experiment, stage, coordinates);
    CREATE TABLE uses(object BLOB NOT NULL, record BLOB NOT NULL, PRIMARY KEY(object, record)) WITHOUT ROWID, STRICT;
    CREATE INDEX uses_record ON uses(record);
    CREATE TABLE state(complete INTEGER NOT NULL) STRICT;
";

/// Tables that may be missing from an index of this version.
const ADDED: &str = "
    CREATE TABLE IF NOT EXISTS origin(file TEXT NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS tally(rows INTEGER NOT NULL) STRICT;
";

/// The connection and the path of its database.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) path: PathBuf,
    pub(super) connection: Connection,
}

impl Index {
    pub(super) fn open(root: &Path) -> Result<Self, StoreError> {
        let path = root.join("index.sqlite");
        // One process at a time: SQLite does not wait while another process changes the journal mode. Not the store's own
        // folder, which may be a temporary one that its process has locked.
        let turn = root.join("tmp");
        let _turn = File::open(&turn)
            .and_then(|folder| folder.lock().map(|()| folder))
            .map_err(StoreError::io(&turn))?;
        let connection = connect(&path).map_err(|e| StoreError::Index(path.clone(), e))?;
        let mut index = Self { path, connection };
        if index.version()? == 0 {
            let knows_all = holds_nothing(&root.join("objects"))?;
            index.create(knows_all)?;
            sync_path(root)?;
        }
        match index.version()? {
            VERSION => {
                index.settle(root)?;
                Ok(index)
            }
            other => Err(StoreError::IndexVersion(index.path, other)),
        }
    }

    /// Forgets every row of an index that was not written here, or that lost rows. A copied index may contain anything,
    /// so its rows are read again from the records.
    fn settle(&mut self, root: &Path) -> Result<(), StoreError> {
        let here = origin(&self.path)?;
        if self.known_origin()?.as_deref() == Some(here.as_str()) && self.is_counted()? {
            return Ok(());
        }
        let knows_all = holds_nothing(&root.join("objects"))?;
        self.transaction(|connection| {
            connection.execute_batch(ADDED)?;
            connection.execute_batch(
                "DELETE FROM origin; DELETE FROM tally; DELETE FROM history; DELETE FROM objects;
                 DELETE FROM uses; INSERT INTO tally VALUES(0);",
            )?;
            connection.execute("INSERT INTO origin VALUES(?1)", [here.as_str()])?;
            connection.execute("UPDATE state SET complete = ?1", [knows_all])?;
            Ok(())
        })
    }

    /// Returns the origin of the file that the rows were written to, if the index states one.
    fn known_origin(&self) -> Result<Option<String>, StoreError> {
        if !self.has_table("origin")? {
            return Ok(None);
        }
        let query = || {
            let mut statement = self.connection.prepare("SELECT file FROM origin")?;
            statement.query_row([], |row| row.get(0)).optional()
        };
        query().map_err(|e| self.error(e))
    }

    /// Returns whether the history has as many rows as were entered. An index of an earlier version has no count, so
    /// the rows are counted now.
    fn is_counted(&mut self) -> Result<bool, StoreError> {
        if !self.has_table("tally")? {
            self.transaction(|connection| {
                connection.execute_batch(ADDED)?;
                connection.execute("INSERT INTO tally SELECT count(*) FROM history", [])?;
                Ok(())
            })?;
        }
        let text = "SELECT (SELECT count(*) FROM history) >= (SELECT rows FROM tally)";
        let query = self.connection.query_row(text, [], |row| row.get(0));
        query.map_err(|e| self.error(e))
    }

    fn has_table(&self, name: &str) -> Result<bool, StoreError> {
        let text = "SELECT count(*) > 0 FROM sqlite_schema WHERE type = 'table' AND name = ?1";
        let query = self.connection.query_row(text, [name], |row| row.get(0));
        query.map_err(|e| self.error(e))
    }

    fn version(&self) -> Result<i64, StoreError> {
        let query = self
            .connection
            .query_row("PRAGMA user_version", [], |row| row.get(0));
        query.map_err(|e| self.error(e))
    }

    /// Creates the tables.
    fn create(&mut self, complete: bool) -> Result<(), StoreError> {
        self.connection
            .pragma_update(None, "journal_mode", "WAL")
            .map_err(|e| self.error(e))?;
        self.transaction(|connection| {
            connection.execute_batch(TABLES)?;
            connection.execute("INSERT INTO state VALUES(?1)", [complete])?;
            connection.pragma_update(None, "user_version", VERSION)
        })
    }

    pub(super) fn error(&self, error: rusqlite::Error) -> StoreError {
        StoreError::Index(self.path.clone(), error)
    }

    /// Runs `work` in one immediate transaction, all or nothing.
    pub(super) fn transaction<T>(
        &mut self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        immediate(&mut self.connection, work).map_err(|e| StoreError::Index(self.path.clone(), e))
    }

    /// Returns the size of a durable object in bytes; `None` if the index does not list it as durable.
    pub(super) fn size_of(&self, digest: &Digest) -> Result<Option<u64>, StoreError> {
        let query = || {
            let mut statement = self
                .connection
                .prepare_cached("SELECT bytes FROM objects WHERE digest = ?1")?;
            statement
                .query_row([digest.as_bytes()], |row| row.get::<_, i64>(0))
                .optional()
        };
        Ok(query()
            .map_err(|e| self.error(e))?
            .and_then(|bytes| u64::try_from(bytes).ok()))
    }

    /// Returns the newest cacheable result of a key.
    pub(super) fn record_for(&self, key: &ActionKey) -> Result<Option<Cached>, StoreError> {
        let text = "SELECT record, outputs FROM history WHERE key = ?1 AND cacheable = 1 ORDER BY seq DESC LIMIT 1";
        let query = || {
            let mut statement = self.connection.prepare_cached(text)?;
            statement.query_row([key.0.as_bytes()], cached).optional()
        };
        query().map_err(|e| self.error(e))
    }

    /// Returns all cacheable results of a key, newest first.
    pub(super) fn records_for(&self, key: &ActionKey) -> Result<Vec<Cached>, StoreError> {
        let text = "SELECT record, outputs FROM history WHERE key = ?1 AND cacheable = 1 ORDER BY seq DESC";
        let query = || {
            let mut statement = self.connection.prepare_cached(text)?;
            let all = statement.query_map([key.0.as_bytes()], cached)?;
            all.collect::<rusqlite::Result<_>>()
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
        let columns =
            "SELECT seq, coordinates, key, record, status, cacheable, seconds FROM history";
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
                let text = format!(
                    "{columns} WHERE experiment = ?1 AND stage = ?2 ORDER BY seq DESC LIMIT ?3"
                );
                let mut statement = self.connection.prepare_cached(&text)?;
                statement
                    .query_map(params![experiment, stage, limit], line)?
                    .collect::<rusqlite::Result<_>>()
            }
        };
        query().map_err(|e| self.error(e))
    }

    /// Adds durable objects and executed cells.
    pub(super) fn write(
        &mut self,
        objects: &BTreeMap<Digest, u64>,
        commits: &[Commit],
    ) -> Result<(), StoreError> {
        if objects.is_empty() && commits.is_empty() {
            return Ok(());
        }
        self.transaction(|connection| {
            enter_objects(connection, objects)?;
            commits
                .iter()
                .try_for_each(|commit| enter(connection, commit, None))
        })
    }

    /// Adds the results of a rebuild, oldest record first, as older than all existing rows. Existing rows stay.
    pub(super) fn write_older(
        &mut self,
        objects: &BTreeMap<Digest, u64>,
        commits: &[&Commit],
    ) -> Result<(), StoreError> {
        self.transaction(|connection| {
            enter_all_older(connection, objects, commits)?;
            connection.execute("UPDATE state SET complete = 1", [])?;
            Ok(())
        })
    }

    /// Adds records, oldest first, as older than all existing rows.
    pub(super) fn enter_older(
        &mut self,
        objects: &BTreeMap<Digest, u64>,
        commits: &[&Commit],
    ) -> Result<(), StoreError> {
        self.transaction(|connection| enter_all_older(connection, objects, commits))
    }

    /// Returns whether the index knows every record; false after the index was lost.
    pub(super) fn is_complete(&self) -> Result<bool, StoreError> {
        let query = self
            .connection
            .query_row("SELECT complete FROM state", [], |row| row.get(0));
        query.map_err(|e| self.error(e))
    }

    /// Returns every record in the history.
    pub(super) fn records(&self) -> Result<BTreeSet<Digest>, StoreError> {
        let query = || {
            let mut statement = self
                .connection
                .prepare_cached("SELECT DISTINCT record FROM history")?;
            statement
                .query_map([], |row| digest(row, 0))?
                .collect::<rusqlite::Result<_>>()
        };
        query().map_err(|e| self.error(e))
    }

    /// Returns the records that list any of these objects as their own.
    pub(super) fn records_naming(
        &self,
        objects: &[Digest],
    ) -> Result<BTreeSet<Digest>, StoreError> {
        records_naming(&self.connection, objects).map_err(|e| self.error(e))
    }

    /// Removes every row that names one of these objects, or a record that names one. Returns the number of records.
    pub(super) fn forget(&mut self, objects: &[Digest]) -> Result<u64, StoreError> {
        if objects.is_empty() {
            return Ok(0);
        }
        self.transaction(|connection| {
            let records = records_naming(connection, objects)?;
            records
                .iter()
                .try_for_each(|record| forget_record(connection, record))?;
            for object in objects {
                forget_record(connection, object)?;
                let mut statement =
                    connection.prepare_cached("DELETE FROM objects WHERE digest = ?1")?;
                statement.execute([object.as_bytes()])?;
            }
            Ok(records.len() as u64)
        })
    }

    /// Removes the row that marks an object as durable, so that the next process to keep it checks its bytes.
    pub(super) fn distrust(&mut self, object: &Digest) -> Result<(), StoreError> {
        self.transaction(|connection| {
            let mut statement =
                connection.prepare_cached("DELETE FROM objects WHERE digest = ?1")?;
            statement.execute([object.as_bytes()])
        })?;
        Ok(())
    }

    /// Removes the rows that name these records.
    pub(super) fn retire(&mut self, records: &[Digest]) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        self.transaction(|connection| {
            records
                .iter()
                .try_for_each(|record| forget_record(connection, record))
        })
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

/// Opens a connection with the store's settings. The journal mode is stored in the file.
pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(30))?;
    // Without this, SQLite plans a cached statement again at each execution, in case its parameter values favour
    // another index. That costs five times the lookup itself.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

fn cached(row: &Row<'_>) -> rusqlite::Result<Cached> {
    Ok(Cached {
        record: digest(row, 0)?,
        outputs: row.get(1)?,
    })
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

fn records_naming(
    connection: &Connection,
    objects: &[Digest],
) -> rusqlite::Result<BTreeSet<Digest>> {
    let mut statement = connection.prepare_cached("SELECT record FROM uses WHERE object = ?1")?;
    let mut records = BTreeSet::new();
    for object in objects {
        for record in statement.query_map([object.as_bytes()], |row| digest(row, 0))? {
            records.insert(record?);
        }
    }
    Ok(records)
}

fn enter_objects(connection: &Connection, objects: &BTreeMap<Digest, u64>) -> rusqlite::Result<()> {
    let mut statement =
        connection.prepare_cached("INSERT OR REPLACE INTO objects VALUES(?1, ?2)")?;
    for (digest, bytes) in objects {
        let bytes = i64::try_from(*bytes).unwrap_or(i64::MAX);
        statement.execute(params![digest.as_bytes(), bytes])?;
    }
    Ok(())
}

/// Adds executed cells, oldest first, as older than all existing rows.
fn enter_all_older(
    connection: &Connection,
    objects: &BTreeMap<Digest, u64>,
    commits: &[&Commit],
) -> rusqlite::Result<()> {
    enter_objects(connection, objects)?;
    let oldest: Option<i64> =
        connection.query_row("SELECT min(seq) FROM history", [], |row| row.get(0))?;
    let count = i64::try_from(commits.len()).unwrap_or(i64::MAX);
    let first = oldest.map_or(1, |seq| seq.saturating_sub(count));
    for (seq, commit) in (first..).zip(commits) {
        enter(connection, commit, Some(seq))?;
    }
    Ok(())
}

/// Adds an executed cell, as the newest unless `seq` is given.
fn enter(connection: &Connection, commit: &Commit, seq: Option<i64>) -> rusqlite::Result<()> {
    let (key, record) = (commit.key.0.as_bytes(), commit.record.as_bytes());
    let text = "INSERT OR IGNORE INTO history VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    let new = connection.prepare_cached(text)?.execute(params![
        seq,
        key,
        record,
        commit.cacheable,
        commit.outputs,
        commit.status,
        commit.seconds,
        commit.experiment,
        commit.stage,
        commit.coordinates,
    ])?;
    if new == 0 {
        return Ok(());
    }
    connection
        .prepare_cached("UPDATE tally SET rows = rows + 1")?
        .execute([])?;
    let mut uses = connection.prepare_cached("INSERT OR IGNORE INTO uses VALUES(?1, ?2)")?;
    for object in commit.objects.iter().chain([&commit.record]) {
        uses.execute(params![object.as_bytes(), record])?;
    }
    Ok(())
}

/// Removes the rows that name a record.
pub(super) fn forget_record(connection: &Connection, record: &Digest) -> rusqlite::Result<()> {
    let gone = connection
        .prepare_cached("DELETE FROM history WHERE record = ?1")?
        .execute([record.as_bytes()])?;
    connection
        .prepare_cached("UPDATE tally SET rows = rows - ?1")?
        .execute([i64::try_from(gone).unwrap_or(i64::MAX)])?;
    connection
        .prepare_cached("DELETE FROM uses WHERE record = ?1")?
        .execute([record.as_bytes()])?;
    Ok(())
}

/// Identifies the index file by inode number and time of birth, so that a copy has another identity.
fn origin(path: &Path) -> Result<String, StoreError> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = std::fs::metadata(path).map_err(StoreError::io(path))?;
    // Not every file system records when a file was created.
    let born = metadata.created().ok();
    let born = born.and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
    let born = born.map_or(0, |since| since.as_nanos());
    Ok(format!("{} {born}", metadata.ino()))
}

/// Returns whether no object folder exists yet.
fn holds_nothing(objects: &Path) -> Result<bool, StoreError> {
    Ok(std::fs::read_dir(objects)
        .map_err(StoreError::io(objects))?
        .next()
        .is_none())
}
