//! Guards against Parquet files from other parties. The Parquet reader assumes that a writer kept its promises, and
//! panics if not. Here, a broken promise is an error.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use crate::pages;

/// Rejects metadata whose offsets and counts are impossible in a file of this length in bytes, or whose columns share a
/// name.
///
/// # Errors
/// If an offset or count is negative or lies outside the file, or two columns have the same name.
pub(crate) fn check(metadata: &ParquetMetaData, length: u64) -> Result<(), ParquetError> {
    let rows = metadata.file_metadata().num_rows();
    let counted = metadata.row_groups().iter().map(|group| group.num_rows());
    if rows < 0 || counted.clone().any(|n| n < 0) {
        return Err(broken("a number of rows is negative"));
    }
    if counted.map(i128::from).sum::<i128>() != i128::from(rows) {
        return Err(broken("its row groups do not have the rows of the file"));
    }
    // Readers would not agree on which of them a name means.
    let fields = metadata.file_metadata().schema_descr().root_schema();
    let mut names = BTreeSet::new();
    for field in fields.get_fields() {
        if !names.insert(field.name()) {
            return Err(broken(&format!("two columns are named `{}`", field.name())));
        }
    }
    for group in metadata.row_groups() {
        for chunk in group.columns() {
            if !lies_within(chunk, length) {
                return Err(broken("a column does not lie within the file"));
            }
        }
    }
    Ok(())
}

fn lies_within(chunk: &ColumnChunkMetaData, length: u64) -> bool {
    chunk.uncompressed_size() >= 0
        && chunk.num_values() >= 0
        && place(chunk).is_some_and(|place| place.end <= length)
}

/// Returns the byte range of a column's pages, as the Parquet reader determines it: what is kept and checked must be what it
/// reads. `None` if the metadata is inconsistent.
pub(crate) fn place(chunk: &ColumnChunkMetaData) -> Option<Range<u64>> {
    let start = chunk
        .dictionary_page_offset()
        .unwrap_or(chunk.data_page_offset());
    let number = |n: i64| u64::try_from(n).ok();
    let (start, length) = (number(start)?, number(chunk.compressed_size())?);
    Some(start..start.checked_add(length)?)
}

/// Rejects pages, in the row groups and columns to read, that declare more bytes than they can expand to. `bytes` reads
/// a number of bytes at an offset.
///
/// # Errors
/// If a page declares too many bytes, or its header cannot be read.
pub(crate) fn check_pages(
    metadata: &ParquetMetaData,
    reads: impl Fn(usize, usize) -> bool,
    bytes: impl Fn(u64, usize) -> Result<Bytes, ParquetError>,
) -> Result<(), ParquetError> {
    for (n, group) in metadata.row_groups().iter().enumerate() {
        let chunks = group.columns().iter().enumerate();
        for (_, chunk) in chunks.filter(|(i, _)| reads(n, *i)) {
            let place =
                place(chunk).ok_or_else(|| broken("a column does not lie within the file"))?;
            let length = usize::try_from(place.end - place.start);
            let length = length.map_err(|e| broken(&e.to_string()))?;
            pages::check(&bytes(place.start, length)?, chunk.compression()).map_err(broken)?;
        }
    }
    Ok(())
}

/// The most values, rows times columns, that a table in memory may have if its file is small: runs of one value and
/// nulls take no space in a file.
const MOST_VALUES: u64 = 1 << 28;

/// The most values that one byte of a large file may stand for.
const VALUES_OF_A_BYTE: u64 = 8;

/// Rejects a table that declares more values than a file of this length in bytes may have.
///
/// # Errors
/// If the table declares too many values.
pub(crate) fn check_values(metadata: &ParquetMetaData, length: u64) -> Result<(), ParquetError> {
    let file = metadata.file_metadata();
    let columns = file.schema_descr().num_columns() as u64;
    let rows = u64::try_from(file.num_rows()).unwrap_or(u64::MAX);
    let most = MOST_VALUES.max(length.saturating_mul(VALUES_OF_A_BYTE));
    if rows.saturating_mul(columns) > most {
        return Err(broken(&format!(
            "it says that it has {rows} rows of {columns} columns, more than {most} values"
        )));
    }
    Ok(())
}

fn broken(what: &str) -> ParquetError {
    ParquetError::General(what.to_owned())
}

thread_local! {
    /// Whether this thread reads somebody else's file, so that a panic is about the file and not about us.
    static READING: Cell<bool> = const { Cell::new(false) };
}

/// Keeps a panic of the reader off the terminal. The error of the file is all that the user needs.
fn hush() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !READING.get() {
                before(panic);
            }
        }));
    });
}

/// Runs the reader and turns a panic over its input into an error of the file.
///
/// # Errors
/// If `read` fails or panics.
pub(crate) fn guarded<T>(
    read: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T, ParquetError> {
    quietly(read).unwrap_or_else(|| Err(broken("its contents contradict each other")))
}

/// Runs a reader of somebody else's file; `None` if it panics over it. Nothing of the panic is printed.
pub fn quietly<T>(read: impl FnOnce() -> T) -> Option<T> {
    hush();
    let outer = READING.replace(true);
    let done = catch_unwind(AssertUnwindSafe(read));
    READING.set(outer);
    done.ok()
}

#[cfg(test)]
mod tests {
    use parquet::basic::Type;
    use parquet::schema::types::{ColumnDescriptor, ColumnPath, Type as Field};

    use super::*;

    #[test]
    fn the_pages_that_are_checked_are_those_that_the_reader_reads() {
        let field = Field::primitive_type_builder("n", Type::INT64);
        let path = ColumnPath::from("n");
        let column = ColumnDescriptor::new(field.build().unwrap().into(), 0, 0, path);
        let column = std::sync::Arc::new(column);
        // Most writers put the dictionary first. One that hides its pages may not.
        for (dictionary, data) in [
            (None, 4),
            (Some(4), 40),
            (Some(40), 4),
            (Some(4), 0),
            (Some(0), 4),
        ] {
            let chunk = ColumnChunkMetaData::builder(column.clone())
                .set_dictionary_page_offset(dictionary)
                .set_data_page_offset(data)
                .set_total_compressed_size(100)
                .build()
                .unwrap();
            let (from, length) = chunk.byte_range();
            assert_eq!(place(&chunk), Some(from..from + length));
        }
    }
}
