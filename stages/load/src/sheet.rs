//! A table written while its rows arrive, a few at a time.

use std::path::{Path, PathBuf};

use artifacts::{TableError, TableWriter};
use contract::Row;

/// The number of rows passed to the writer at once.
const BATCH: usize = 1024;

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
        })
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
