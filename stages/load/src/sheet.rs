//! A table written while its rows come, a few at a time.

use std::path::{Path, PathBuf};

use artifacts::{Table, TableError, TableWriter};

/// Rows handed to the writer at once.
const BATCH: usize = 1024;

/// A table of a run as a finished Parquet file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFile {
    /// The table's name.
    pub name: &'static str,
    /// Where it lies.
    pub path: PathBuf,
    /// How many rows it has.
    pub rows: u64,
}

/// A table while it is written.
pub(crate) struct Sheet<R> {
    name: &'static str,
    path: PathBuf,
    table: fn(&[R]) -> Result<Table, TableError>,
    waiting: Vec<R>,
    writer: TableWriter,
}

impl<R> Sheet<R> {
    /// Creates `NAME.parquet` in a folder, with notes; `table` turns rows into a table.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub(crate) fn create(
        folder: &Path,
        name: &'static str,
        table: fn(&[R]) -> Result<Table, TableError>,
        notes: &[(&str, &str)],
    ) -> Result<Self, TableError> {
        let empty = table(&[])?;
        let columns = empty
            .names()
            .iter()
            .map(|name| empty.column(name))
            .collect::<Result<Vec<_>, _>>()?;
        let path = folder.join(format!("{name}.parquet"));
        let writer = TableWriter::create_with_metadata(&path, &columns, notes)?;
        Ok(Self {
            name,
            path,
            table,
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
        self.writer.write(&(self.table)(&self.waiting)?)?;
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
            name: self.name,
            path: self.path,
            rows,
        })
    }
}
