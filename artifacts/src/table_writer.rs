//! Tables too long to hold in memory, written to a Parquet file batch by batch.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_select::coalesce::BatchCoalescer;
use parquet::arrow::ArrowWriter;

use crate::table::writer_properties;
use crate::{Column, Table, TableError};

/// Rows passed to the Parquet writer at once. A page ends where a write ends. With writes of constant length, the bytes
/// depend only on the rows and not on how the rows arrived.
const ROWS: usize = 8192;

/// A row group ends when its encoded pages reach this size, however few rows it has, because they all stay in memory
/// until then.
const GROUP_BYTES: usize = 16 * 1024 * 1024;

/// Writes a table to a file, holding at most one row group in memory: 2²⁰ rows or 16 MiB, encoded.
///
/// Equal rows give equal bytes however they are divided into batches. The file is a table
/// only after [`TableWriter::finish`].
pub struct TableWriter {
    writer: ArrowWriter<BufWriter<File>>,
    waiting: BatchCoalescer,
    rows: u64,
}

impl TableWriter {
    /// Creates the file. `columns` give names, types, units and meanings; their values are ignored.
    ///
    /// # Errors
    /// If two columns share a name, no column is given, or the file cannot be created.
    pub fn create(path: &Path, columns: &[Column]) -> Result<Self, TableError> {
        Self::create_with_metadata(path, columns, &[])
    }

    /// Creates the file with table-wide notes (key, value).
    ///
    /// # Errors
    /// Same as [`TableWriter::create`].
    pub fn create_with_metadata(
        path: &Path,
        columns: &[Column],
        metadata: &[(&str, &str)],
    ) -> Result<Self, TableError> {
        let empty = columns.iter().map(Column::without_values).collect();
        let schema = Table::with_metadata(empty, metadata)?.batch().schema();
        let file = File::create(path)
            .map_err(|e| TableError::caused(format!("{}: {e}", path.display()), &e))?;
        let writer = ArrowWriter::try_new(
            BufWriter::new(file),
            schema.clone(),
            Some(writer_properties()),
        )
        .map_err(|e| TableError::caused_by(&e))?;
        Ok(Self {
            writer,
            waiting: BatchCoalescer::new(schema, ROWS),
            rows: 0,
        })
    }

    /// Appends rows.
    ///
    /// # Errors
    /// If the table's columns are not those declared (name, type, unit, meaning, order), or the write fails.
    pub fn write(&mut self, table: &Table) -> Result<(), TableError> {
        let schema = self.waiting.schema();
        if table.batch().schema().fields() != schema.fields() {
            return Err(TableError::new(format!(
                "the rows have the columns {}, but {} were declared (units and meanings must also \
                 match)",
                table.names().join(", "),
                schema
                    .fields()
                    .iter()
                    .map(|f| f.name().as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            )));
        }
        let batch = RecordBatch::try_new(schema, table.batch().columns().to_vec())
            .map_err(|e| TableError::caused_by(&e))?;
        self.rows += table.rows() as u64;
        self.waiting
            .push_batch(batch)
            .map_err(|e| TableError::caused_by(&e))?;
        self.drain()
    }

    /// Returns about how many bytes the file has with the rows that were passed so far.
    pub fn bytes(&self) -> u64 {
        (self.writer.bytes_written() + self.writer.in_progress_size()) as u64
    }

    /// Writes the remaining rows and the footer; returns the number of rows.
    ///
    /// # Errors
    /// If the write fails.
    pub fn finish(mut self) -> Result<u64, TableError> {
        self.waiting
            .finish_buffered_batch()
            .map_err(|e| TableError::caused_by(&e))?;
        self.drain()?;
        let mut file = self
            .writer
            .into_inner()
            .map_err(|e| TableError::caused_by(&e))?;
        file.flush().map_err(|e| TableError::caused_by(&e))?;
        Ok(self.rows)
    }

    fn drain(&mut self) -> Result<(), TableError> {
        while let Some(batch) = self.waiting.next_completed_batch() {
            self.writer
                .write(&batch)
                .map_err(|e| TableError::caused_by(&e))?;
            if self.writer.in_progress_size() > GROUP_BYTES {
                self.writer.flush().map_err(|e| TableError::caused_by(&e))?;
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for TableWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableWriter")
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}
