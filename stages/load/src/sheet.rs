//! A table written while its rows arrive, a few at a time.

use std::path::{Path, PathBuf};

use artifacts::{TableError, TableWriter};
use contract::Row;

/// The number of rows passed to the writer at once.
const BATCH: usize = 1024;

/// The largest file of a table of samples, in bytes. A server chooses what its metrics, its state and its log contain,
/// and a cell may take days.
const MOST_BYTES: u64 = 1 << 30;

/// A table of a run as a finished Parquet file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFile {
    /// The table's name.
    pub name: &'static str,
    /// Its path.
    pub path: PathBuf,
    /// The number of its rows.
    pub rows: u64,
}

/// A table in the process of being written.
pub(crate) struct Sheet<R> {
    path: PathBuf,
    waiting: Vec<R>,
    writer: TableWriter,
    /// The size at which no further sample is accepted.
    most: u64,
}

impl<R: Row> Sheet<R> {
    /// Creates the file of the table in a folder, with notes.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub(crate) fn create(folder: &Path, notes: &[(&str, &str)]) -> Result<Self, TableError> {
        let path = folder.join(format!("{}.parquet", R::TABLE.name));
        let columns = R::TABLE.empty_columns();
        let writer = TableWriter::create_with_metadata(&path, &columns, notes)?;
        Ok(Self {
            path,
            waiting: Vec::new(),
            writer,
            most: MOST_BYTES,
        })
    }

    /// Limits the file to fewer bytes.
    #[cfg(test)]
    pub(crate) fn limited(mut self, most: u64) -> Self {
        self.most = most;
        self
    }

    /// Checks, before a sample is taken, that the table may still grow. A sample is stored as a whole or not at all.
    ///
    /// # Errors
    /// If the file has reached the limit; one sentence.
    pub(crate) fn room(&self) -> Result<(), String> {
        if self.writer.bytes() < self.most {
            return Ok(());
        }
        let (name, most) = (R::TABLE.name, self.most >> 20);
        Err(format!(
            "the file of `{name}` reached {most} MiB, so later samples are left out: sample less often (`telemetry: {{interval: …}}`), or measure shorter cells"
        ))
    }

    /// Appends a row.
    ///
    /// # Errors
    /// If the disk refuses.
    pub(crate) fn push(&mut self, row: R) -> Result<(), TableError> {
        self.waiting.push(row);
        if self.waiting.len() < BATCH {
            return Ok(());
        }
        self.drain()
    }

    fn drain(&mut self) -> Result<(), TableError> {
        self.writer.write(&R::table(&self.waiting)?)?;
        self.waiting.clear();
        Ok(())
    }

    /// Completes the file.
    ///
    /// # Errors
    /// If the disk refuses.
    pub(crate) fn finish(mut self) -> Result<TableFile, TableError> {
        self.drain()?;
        let rows = self.writer.finish()?;
        Ok(TableFile {
            name: R::TABLE.name,
            path: self.path,
            rows,
        })
    }
}
