//! Reads some rows of a stored table, to show one page of a table too large for memory. Only the row groups that
//! contain the rows are kept.

use std::ops::Range;

use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{ChunkReader, Length};

use crate::column_reader::Kept;
use crate::table::{joined, unreadable};
use crate::{Digest, Store, Table, TableError, schemas, untrusted};

impl Table {
    /// Reads a half-open range of rows of a table in a store, clipped to the table's end. Also returns the table's
    /// number of rows. Checks all of the object's bytes against its digest.
    ///
    /// # Errors
    /// If the object is missing, damaged or not a Parquet file.
    pub fn read_rows(
        store: &Store,
        digest: &Digest,
        rows: Range<usize>,
    ) -> Result<(Self, usize), TableError> {
        read(store, digest, &[rows])
    }

    /// Reads single rows of a table in a store, given in ascending order and each once. A row past the end is left out.
    /// Checks all of the object's bytes against its digest.
    ///
    /// # Errors
    /// If the object is missing, damaged or not a Parquet file.
    pub fn read_chosen(store: &Store, digest: &Digest, rows: &[usize]) -> Result<Self, TableError> {
        let runs: Vec<Range<usize>> = rows
            .chunk_by(|row, next| row + 1 == *next)
            .map(|run| run[0]..run[run.len() - 1] + 1)
            .collect();
        Ok(read(store, digest, &runs)?.0)
    }
}

/// Reads ascending ranges of rows. Also returns the table's number of rows.
fn read(
    store: &Store,
    digest: &Digest,
    rows: &[Range<usize>],
) -> Result<(Table, usize), TableError> {
    let kept = Kept::read(store, digest, |footer| {
        let groups = groups_with(&footer.metadata, rows);
        footer.ranges_of(|group, _| has(&groups, group))
    })?;
    untrusted::guarded(|| read_kept(kept, rows)).map_err(unreadable)
}

fn read_kept(kept: Kept, rows: &[Range<usize>]) -> Result<(Table, usize), ParquetError> {
    let metadata = ArrowReaderMetadata::load(&kept, ArrowReaderOptions::new())?;
    untrusted::check(metadata.metadata(), kept.len())?;
    untrusted::check_values(metadata.metadata(), kept.len())?;
    let groups = groups_with(metadata.metadata(), rows);
    let part = |from: u64, length: usize| kept.get_bytes(from, length);
    untrusted::check_pages(metadata.metadata(), |group, _| has(&groups, group), part)?;
    let all = usize::try_from(metadata.metadata().file_metadata().num_rows()).unwrap_or(0);
    // The reader counts rows within the groups that it reads, one after another.
    let (mut before, mut wanted, mut runs) = (0, 0, Vec::new());
    for (_, own) in &groups {
        for run in &rows[rows.partition_point(|run| run.end <= own.start)..] {
            if run.start >= own.end {
                break;
            }
            let (from, to) = (run.start.max(own.start), run.end.min(own.end));
            wanted += to - from;
            runs.push(before + from - own.start..before + to - own.start);
        }
        before += own.len();
    }
    let selection = RowSelection::from_consecutive_ranges(runs.into_iter(), before);
    let schema = schemas::shared(metadata.schema().clone());
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(kept, metadata)
        .with_row_groups(groups.iter().map(|(group, _)| *group).collect())
        .with_row_selection(selection)
        .with_batch_size(wanted.clamp(1, 1 << 14))
        .build()?;
    let batches = reader.collect::<Result<Vec<_>, _>>()?;
    Ok((joined(&batches, schema)?, all))
}

/// Returns the row groups that contain any of the ascending rows, each with its range of rows.
fn groups_with(metadata: &ParquetMetaData, rows: &[Range<usize>]) -> Vec<(usize, Range<usize>)> {
    let (mut at, mut groups) = (0, Vec::new());
    for group in 0..metadata.num_row_groups() {
        let own = at..at + size(metadata, group);
        at = own.end;
        let next = rows.get(rows.partition_point(|run| run.end <= own.start));
        if next.is_some_and(|run| run.start.max(own.start) < run.end.min(own.end)) {
            groups.push((group, own));
        }
    }
    groups
}

/// Returns whether a row group is one of these, in ascending order.
fn has(groups: &[(usize, Range<usize>)], group: usize) -> bool {
    groups.binary_search_by_key(&group, |(own, _)| *own).is_ok()
}

fn size(metadata: &ParquetMetaData, group: usize) -> usize {
    usize::try_from(metadata.row_group(group).num_rows()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::WriterProperties;

    use super::*;
    use crate::Column;

    /// 2,500 rows in groups of 1,000.
    fn stored() -> (tempfile::TempDir, Store, Digest, Vec<u8>) {
        let table = Table::new(vec![
            Column::int("n", (0..2_500).map(Some)).unit("tok"),
            Column::text(
                "word",
                (0..2_500).map(|n| (n % 3 > 0).then(|| format!("w{n}"))),
            ),
        ])
        .unwrap();
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(1000))
            .build();
        let mut bytes = Vec::new();
        let mut writer =
            ArrowWriter::try_new(&mut bytes, table.batch().schema(), Some(properties)).unwrap();
        writer.write(table.batch()).unwrap();
        writer.close().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let digest = store.put(&bytes).unwrap();
        (folder, store, digest, bytes)
    }

    #[test]
    fn rows_of_a_page_are_those_of_the_table_wherever_its_groups_end() {
        let (_folder, store, digest, bytes) = stored();
        let whole = Table::from_parquet(bytes).unwrap();
        for rows in [
            0..5,
            998..1_003,
            500..2_400,
            2_499..2_500,
            2_490..9_000,
            7..7,
            3_000..4_000,
            0..2_500,
        ] {
            let (page, all) = Table::read_rows(&store, &digest, rows.clone()).unwrap();
            let (from, to) = (rows.start.min(2_500), rows.end.min(2_500));
            assert_eq!((page.rows(), all), (to - from, 2_500), "{rows:?}");
            assert_eq!(page.int("n").unwrap(), whole.int("n").unwrap()[from..to]);
            assert_eq!(
                page.text("word").unwrap(),
                whole.text("word").unwrap()[from..to]
            );
            assert_eq!(page.unit("n").as_deref(), Some("tok"));
        }
    }

    #[test]
    fn single_rows_are_those_of_the_table_wherever_its_groups_end() {
        let (_folder, store, digest, bytes) = stored();
        let whole = Table::from_parquet(bytes).unwrap();
        for rows in [
            vec![],
            vec![0],
            vec![999, 1_000],
            vec![3, 4, 5, 2_400, 2_499],
            vec![1_500, 2_500, 9_000],
            (0..2_500).collect(),
            (0..2_500).step_by(7).collect(),
        ] {
            let page = Table::read_chosen(&store, &digest, &rows).unwrap();
            let there: Vec<usize> = rows.into_iter().filter(|row| *row < 2_500).collect();
            let values = |table: &Table, rows: &[usize]| table.values("word", rows).unwrap();
            let all: Vec<usize> = (0..page.rows()).collect();
            assert_eq!(values(&page, &all), values(&whole, &there));
            assert_eq!(page.unit("n").as_deref(), Some("tok"));
        }
    }

    #[test]
    fn a_changed_byte_is_found_in_whatever_group_it_lies() {
        let (_folder, store, digest, bytes) = stored();
        for at in (0..bytes.len()).step_by(bytes.len() / 20) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            std::fs::remove_file(store.path(&digest)).unwrap();
            std::fs::write(store.path(&digest), &damaged).unwrap();
            let error = Table::read_rows(&store, &digest, 0..1).unwrap_err();
            assert!(
                error.to_string().contains("is damaged"),
                "byte {at}: {error}"
            );
        }
    }
}
