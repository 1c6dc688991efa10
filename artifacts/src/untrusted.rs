//! Parquet files that somebody else made. The reader takes for granted what a writer promises, and
//! asserts it; here a broken promise is an error.

use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

/// Refuses metadata whose places and counts cannot be those of a file of this length in bytes.
///
/// # Errors
/// If one is negative or lies outside the file.
pub(crate) fn check(metadata: &ParquetMetaData, length: u64) -> Result<(), ParquetError> {
    let rows = metadata.file_metadata().num_rows();
    let counted = metadata.row_groups().iter().map(|group| group.num_rows());
    if rows < 0 || counted.clone().any(|n| n < 0) {
        return Err(broken("a number of rows is negative"));
    }
    if counted.map(i128::from).sum::<i128>() != i128::from(rows) {
        return Err(broken("its row groups do not have the rows of the file"));
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
    let start = chunk
        .dictionary_page_offset()
        .unwrap_or(i64::MAX)
        .min(chunk.data_page_offset());
    let place = |n: i64| u64::try_from(n).ok();
    let (Some(from), Some(bytes)) = (place(start), place(chunk.compressed_size())) else {
        return false;
    };
    chunk.uncompressed_size() >= 0
        && chunk.num_values() >= 0
        && from.checked_add(bytes).is_some_and(|end| end <= length)
}

fn broken(what: &str) -> ParquetError {
    ParquetError::General(what.to_owned())
}

/// Runs the reader; where it panics over what it reads, that is an error of the file.
///
/// # Errors
/// As `read`, and if it panics.
pub(crate) fn guarded<T>(
    read: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T, ParquetError> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(broken("its contents contradict each other")))
}
