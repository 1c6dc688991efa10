//! Tables of typed columns with units, and their deterministic Parquet bytes.
//!
//! A [`Table`] is small enough to hold in memory (streamed tables are written row group by row group elsewhere). Equal
//! tables give equal bytes: the writer settings are fixed, and no clock or host name enters. A field's metadata has the
//! column's unit under `unit`, its meaning under `description`, and the parts of a ratio under `numerator` and
//! `denominator`. The schema's metadata has table-wide notes.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::reader::ChunkReader as _;

use crate::column::{Column, ColumnData, Ratio};
use crate::scalar::Scalar;
use crate::table_error::TableError;
use crate::{schemas, untrusted};

/// A table in memory: `rows × columns`, every column typed and nullable.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    batch: RecordBatch,
}

impl Table {
    /// Makes a table of columns of equal length.
    ///
    /// # Errors
    /// If two columns share a name or differ in length, or no column is given.
    pub fn new(columns: Vec<Column>) -> Result<Self, TableError> {
        Self::with_metadata(columns, &[])
    }

    /// Makes a table with table-wide notes (key, value).
    ///
    /// # Errors
    /// Same as [`Table::new`].
    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers build the columns in place"
    )]
    pub fn with_metadata(
        columns: Vec<Column>,
        metadata: &[(&str, &str)],
    ) -> Result<Self, TableError> {
        let Some(first) = columns.first() else {
            return Err(TableError::new("a table needs at least one column"));
        };
        let mut seen = std::collections::BTreeSet::new();
        for column in &columns {
            if column.len() != first.len() {
                return Err(TableError::new(format!(
                    "column `{}` has {} rows, `{}` has {}",
                    column.name,
                    column.len(),
                    first.name,
                    first.len()
                )));
            }
            if !seen.insert(&column.name) {
                return Err(TableError::new(format!(
                    "two columns are named `{}`",
                    column.name
                )));
            }
        }
        let metadata: HashMap<_, _> = metadata
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        let schema = Schema::new_with_metadata(
            columns.iter().map(Column::field).collect::<Vec<_>>(),
            metadata,
        );
        let arrays = columns.iter().map(Column::array).collect();
        let batch = RecordBatch::try_new(Arc::new(schema), arrays)
            .map_err(|e| TableError::new(e.to_string()))?;
        Ok(Self { batch })
    }

    pub(crate) fn of(batch: RecordBatch) -> Self {
        Self { batch }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// Returns the column names in order.
    pub fn names(&self) -> Vec<String> {
        self.batch
            .schema()
            .fields()
            .iter()
            .map(|f| f.name().clone())
            .collect()
    }

    /// Returns whether the table has a column of this name.
    pub fn has(&self, column: &str) -> bool {
        self.batch.schema().index_of(column).is_ok()
    }

    /// Returns the names of the columns that someone asks for; without any, all columns in order.
    ///
    /// # Errors
    /// If the table lacks one of them; the error lists those that it has.
    pub fn chosen(&self, asked: &[String]) -> Result<Vec<String>, TableError> {
        if asked.is_empty() {
            return Ok(self.names());
        }
        match asked.iter().find(|name| !self.has(name)) {
            Some(name) => Err(TableError::no_column(name, &self.names())),
            None => Ok(asked.to_vec()),
        }
    }

    /// Returns the unit of a column, if it states one.
    pub fn unit(&self, column: &str) -> Option<String> {
        self.batch
            .schema()
            .field_with_name(column)
            .ok()?
            .metadata()
            .get("unit")
            .cloned()
    }

    /// Returns the meaning of a column, if it states one.
    pub fn description(&self, column: &str) -> Option<String> {
        self.batch
            .schema()
            .field_with_name(column)
            .ok()?
            .metadata()
            .get("description")
            .cloned()
    }

    /// Returns the numerator and denominator of a column of ratios, if it states them.
    pub fn ratio(&self, column: &str) -> Option<Ratio> {
        let schema = self.batch.schema();
        let notes = schema.field_with_name(column).ok()?.metadata();
        let (numerator, denominator) = (
            notes.get("numerator")?.clone(),
            notes.get("denominator")?.clone(),
        );
        Some(Ratio {
            numerator,
            denominator,
        })
    }

    /// Returns a table-wide note.
    pub fn metadata(&self, key: &str) -> Option<String> {
        self.batch.schema().metadata().get(key).cloned()
    }

    /// Returns the Arrow batch behind the table.
    pub fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    fn array(&self, column: &str) -> Result<&ArrayRef, TableError> {
        self.batch
            .column_by_name(column)
            .ok_or_else(|| TableError::no_column(column, &self.names()))
    }

    fn typed<T: 'static>(&self, column: &str, wanted: &str) -> Result<&T, TableError> {
        let array = self.array(column)?;
        array.as_any().downcast_ref::<T>().ok_or_else(|| {
            TableError::new(format!(
                "column `{column}` holds {}, not {wanted}",
                array.data_type()
            ))
        })
    }

    /// Returns a column of integers (rows long).
    ///
    /// # Errors
    /// If the column does not exist or has another type.
    pub fn int(&self, column: &str) -> Result<Vec<Option<i64>>, TableError> {
        Ok(self
            .typed::<Int64Array>(column, "integers")?
            .iter()
            .collect())
    }

    /// Returns a column of doubles (rows long); a column of integers widens.
    ///
    /// # Errors
    /// If the column does not exist or is not numeric.
    pub fn float(&self, column: &str) -> Result<Vec<Option<f64>>, TableError> {
        if let Ok(ints) = self.typed::<Int64Array>(column, "integers") {
            return Ok(ints.iter().map(|v| v.map(|i| i as f64)).collect());
        }
        Ok(self
            .typed::<Float64Array>(column, "numbers")?
            .iter()
            .collect())
    }

    /// Returns a column of text (rows long).
    ///
    /// # Errors
    /// If the column does not exist or has another type.
    pub fn text(&self, column: &str) -> Result<Vec<Option<&str>>, TableError> {
        Ok(self.typed::<StringArray>(column, "text")?.iter().collect())
    }

    /// Returns a column of Boolean values (rows long).
    ///
    /// # Errors
    /// If the column does not exist or has another type.
    pub fn boolean(&self, column: &str) -> Result<Vec<Option<bool>>, TableError> {
        Ok(self
            .typed::<BooleanArray>(column, "truth values")?
            .iter()
            .collect())
    }

    /// Returns one value.
    ///
    /// # Errors
    /// If the column or row does not exist, or the column's type is not supported.
    pub fn value(&self, column: &str, row: usize) -> Result<Scalar, TableError> {
        scalar_of(column, self.array(column)?, row)
    }

    /// Returns the values of a column in these rows, in the order of `rows`.
    ///
    /// # Errors
    /// Same as [`Table::value`].
    pub fn values(&self, column: &str, rows: &[usize]) -> Result<Vec<Scalar>, TableError> {
        let array = self.array(column)?;
        rows.iter()
            .map(|row| scalar_of(column, array, *row))
            .collect()
    }

    /// Returns a column in its buildable form, with unit and description.
    ///
    /// # Errors
    /// If the column does not exist.
    pub fn column(&self, name: &str) -> Result<Column, TableError> {
        let array = self.array(name)?;
        let data = match array.data_type() {
            DataType::Int64 => ColumnData::Int(self.int(name)?),
            DataType::Float64 => ColumnData::Float(self.float(name)?),
            DataType::Utf8 => ColumnData::Text(
                self.text(name)?
                    .into_iter()
                    .map(|v| v.map(str::to_owned))
                    .collect(),
            ),
            DataType::Boolean => ColumnData::Bool(self.boolean(name)?),
            other => return Err(TableError::new(format!("column `{name}` holds {other}"))),
        };
        Ok(Column {
            name: name.to_owned(),
            unit: self.unit(name),
            description: self.description(name),
            ratio: self.ratio(name),
            data,
        })
    }

    /// Returns the Parquet bytes: equal tables give equal bytes.
    ///
    /// # Errors
    /// If the writer rejects the schema (never for tables built here).
    pub fn to_parquet(&self) -> Result<Vec<u8>, TableError> {
        let mut bytes = Vec::new();
        let schema = self.batch.schema();
        let mut writer = ArrowWriter::try_new(&mut bytes, schema, Some(writer_properties()))
            .map_err(|e| TableError::caused_by(&e))?;
        writer
            .write(&self.batch)
            .map_err(|e| TableError::caused_by(&e))?;
        writer.close().map_err(|e| TableError::caused_by(&e))?;
        Ok(bytes)
    }

    /// Reads a table from Parquet bytes.
    ///
    /// # Errors
    /// If the bytes are not a Parquet file.
    pub fn from_parquet(bytes: impl Into<Bytes>) -> Result<Self, TableError> {
        let bytes = bytes.into();
        let length = bytes.len() as u64;
        let read = || {
            let builder = ParquetRecordBatchReaderBuilder::try_new(bytes.clone())?;
            untrusted::check(builder.metadata(), length)?;
            untrusted::check_values(builder.metadata(), length)?;
            let part = |from: u64, length: usize| bytes.get_bytes(from, length);
            untrusted::check_pages(builder.metadata(), |_, _| true, part)?;
            let schema = builder.schema().clone();
            let rows = usize::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
            let reader = builder
                .with_batch_size(rows.clamp(1, MOST_AT_ONCE))
                .build()?;
            let batches = reader.collect::<Result<Vec<_>, _>>()?;
            Ok((schema, batches))
        };
        let (schema, batches) = untrusted::guarded(read).map_err(unreadable)?;
        let schema = schemas::shared(schema);
        joined(&batches, schema).map_err(unreadable)
    }
}

/// Returns the batches of a file as one table, with the file's own schema. That of the batches lacks the table-wide notes, so
/// that a table read back would not equal the table written. A batch may end with a row group, so there may be several.
pub(crate) fn joined(batches: &[RecordBatch], schema: SchemaRef) -> Result<Table, ArrowError> {
    let batch = match batches.first() {
        None => RecordBatch::new_empty(schema.clone()),
        Some(first) => concat_batches(&first.schema(), batches)?,
    };
    Ok(Table::of(batch.with_schema(schema)?))
}

/// The most rows in one batch: as many as in one of our row groups. A file may declare any number of rows, and the
/// reader allocates a whole batch.
const MOST_AT_ONCE: usize = 1 << 20;

pub(crate) fn unreadable(error: impl fmt::Display) -> TableError {
    TableError::new(format!("not a readable Parquet table: {error}"))
}

/// The writer settings of artifact format version 1. A change to any setting, or to the writer's major version, may
/// change bytes and requires a new format version.
pub(crate) fn writer_properties() -> WriterProperties {
    WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by("benchtrail artifact format 1".to_owned())
        .set_max_row_group_row_count(Some(1 << 20))
        .build()
}

fn scalar_of(column: &str, array: &ArrayRef, row: usize) -> Result<Scalar, TableError> {
    if row >= array.len() {
        return Err(TableError::new(format!("row {row} of {}", array.len())));
    }
    if array.is_null(row) {
        return Ok(Scalar::Null);
    }
    let any = array.as_any();
    if let Some(values) = any.downcast_ref::<Int64Array>() {
        Ok(Scalar::Int(values.value(row)))
    } else if let Some(values) = any.downcast_ref::<Float64Array>() {
        Ok(Scalar::Float(values.value(row)))
    } else if let Some(values) = any.downcast_ref::<StringArray>() {
        Ok(Scalar::Text(values.value(row).to_owned()))
    } else if let Some(values) = any.downcast_ref::<BooleanArray>() {
        Ok(Scalar::Bool(values.value(row)))
    } else {
        Err(TableError::new(format!(
            "column `{column}` holds {}",
            array.data_type()
        )))
    }
}

#[cfg(test)]
mod tests;
