//! Reads some columns of a stored table, batch by batch. For tables with many rows, when only a few columns are needed.
//!
//! Every byte of the object is hashed, but only the requested columns are kept. The rest passes through a buffer that
//! fits into a processor's cache. Text comes as codes, so that a closure over text runs once per distinct value.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, BooleanArray, DictionaryArray, Float64Array, Int64Array};
use arrow_schema::{DataType, Schema};
use bytes::{Buf, Bytes};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};

use crate::table::unreadable;
use crate::{Digest, InPlace, Store, Table, TableError, untrusted};

/// Rows decoded at once: few enough that their columns stay in a processor's cache until they are used.
const BATCH: usize = 1 << 14;

/// Reads some columns of a table in a store.
pub struct ColumnReader {
    rows: usize,
    names: Vec<String>,
    batches: ParquetRecordBatchReader,
}

impl ColumnReader {
    /// Opens a table to read those of the named columns that exist. Checks its bytes against its digest.
    ///
    /// # Errors
    /// If the object is missing, damaged or not a Parquet file.
    pub fn open(store: &Store, digest: &Digest, columns: &[&str]) -> Result<Self, TableError> {
        let kept = Kept::read(store, digest, |footer| footer.ranges(columns))?;
        Self::over(kept, columns).map_err(unreadable)
    }

    /// From here on, only hashed bytes are used, including the footer.
    fn over(kept: Kept, columns: &[&str]) -> Result<Self, ParquetError> {
        untrusted::guarded(|| Self::over_untrusted(kept, columns))
    }

    fn over_untrusted(kept: Kept, columns: &[&str]) -> Result<Self, ParquetError> {
        let metadata = ArrowReaderMetadata::load(&kept, ArrowReaderOptions::new())?;
        untrusted::check(metadata.metadata(), kept.length)?;
        let options = ArrowReaderOptions::new().with_schema(Arc::new(coded(metadata.schema())));
        let metadata = ArrowReaderMetadata::try_new(metadata.metadata().clone(), options)?;
        let rows = usize::try_from(metadata.metadata().file_metadata().num_rows()).unwrap_or(0);
        let names: Vec<String> = metadata
            .schema()
            .fields()
            .iter()
            .map(|f| f.name().clone())
            .collect();
        let places = (0..names.len()).filter(|i| columns.contains(&names[*i].as_str()));
        let mask = ProjectionMask::roots(metadata.parquet_schema(), places);
        let part = |from: u64, length: usize| kept.get_bytes(from, length);
        untrusted::check_pages(
            metadata.metadata(),
            |_, leaf| mask.leaf_included(leaf),
            part,
        )?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(kept, metadata);
        let batches = builder
            .with_projection(mask)
            .with_batch_size(BATCH)
            .build()?;
        Ok(Self {
            rows,
            names,
            batches,
        })
    }

    /// Returns the table's number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the names of all the table's columns, including those that are not read.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

impl Iterator for ColumnReader {
    type Item = Result<ColumnBatch, TableError>;

    /// Returns the next rows, in table order.
    fn next(&mut self) -> Option<Self::Item> {
        let next =
            untrusted::guarded(|| self.batches.next().transpose().map_err(ParquetError::from));
        next.transpose()
            .map(|batch| batch.map(|b| ColumnBatch(Table::of(b))).map_err(unreadable))
    }
}

impl std::fmt::Debug for ColumnReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ColumnReader")
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

/// Some rows of some columns. A column missing from the table is null throughout.
#[derive(Debug)]
pub struct ColumnBatch(Table);

impl ColumnBatch {
    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.0.rows()
    }

    /// Returns a column of integers.
    ///
    /// # Errors
    /// If the column has another type.
    pub fn ints(&self, column: &str) -> Result<InPlace<'_, Int64Array>, TableError> {
        self.0.ints(column)
    }

    /// Returns a column of doubles.
    ///
    /// # Errors
    /// If the column has another type.
    pub fn floats(&self, column: &str) -> Result<InPlace<'_, Float64Array>, TableError> {
        self.0.floats(column)
    }

    /// Returns a column of Boolean values.
    ///
    /// # Errors
    /// If the column has another type.
    pub fn booleans(&self, column: &str) -> Result<InPlace<'_, BooleanArray>, TableError> {
        self.0.booleans(column)
    }

    /// Returns the value of `of` for each row's text. Calls `of` once per distinct text, so it must be deterministic.
    ///
    /// # Errors
    /// If the column holds anything other than text.
    pub fn of_each_text<T: Copy>(
        &self,
        column: &str,
        convert: impl Fn(Option<&str>) -> T,
    ) -> Result<Vec<T>, TableError> {
        let coded = |a| AsArray::as_dictionary_opt::<Int32Type>(a);
        let Some(codes): Option<&DictionaryArray<Int32Type>> =
            self.0.in_place(column, "text", coded)?.array()
        else {
            return Ok(vec![convert(None); self.rows()]);
        };
        let words = codes.values().as_string::<i32>();
        let answers: Vec<T> = words.iter().map(&convert).collect();
        let keys = codes.keys();
        Ok(match (answers.as_slice(), keys.null_count()) {
            ([answer], 0) => vec![*answer; self.rows()],
            (answers, 0) => keys
                .values()
                .iter()
                .map(|key| answers[*key as usize])
                .collect(),
            (answers, _) => {
                let null = convert(None);
                keys.iter()
                    .map(|key| key.map_or(null, |key| answers[key as usize]))
                    .collect()
            }
        })
    }
}

/// Returns the schema with text columns as dictionary codes, the usual form in Parquet.
fn coded(schema: &Schema) -> Schema {
    let field = |field: &Arc<arrow_schema::Field>| match field.data_type() {
        DataType::Utf8 => {
            let codes = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
            Arc::new(field.as_ref().clone().with_data_type(codes))
        }
        _ => field.clone(),
    };
    Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>())
}

/// The footer of a Parquet file. It is read before the file is hashed, so it is trusted only to find the bytes to keep.
pub(crate) struct Footer {
    pub(crate) metadata: ParquetMetaData,
    /// The lengths of the file and of the footer, in bytes.
    length: u64,
    size: u64,
}

impl Footer {
    pub(crate) fn read(file: &File) -> Result<Self, ParquetError> {
        let mut reader = ParquetMetaDataReader::new();
        reader.try_parse(file)?;
        let size = reader.metadata_size().unwrap_or(0) as u64;
        Ok(Self {
            metadata: reader.finish()?,
            length: Length::len(file),
            size,
        })
    }

    /// Returns the byte ranges of the columns in each row group, and of the footer.
    fn ranges(&self, columns: &[&str]) -> Vec<Range<u64>> {
        self.ranges_of(|_, column| columns.contains(&column))
    }

    /// Returns the byte ranges of the wanted columns and row groups, and of the footer: ascending, and as few as
    /// possible.
    pub(crate) fn ranges_of(&self, wanted: impl Fn(usize, &str) -> bool) -> Vec<Range<u64>> {
        let groups = self.metadata.row_groups().iter().enumerate();
        let chunks = groups.flat_map(|(n, group)| group.columns().iter().map(move |c| (n, c)));
        let chunks = chunks.filter(|(n, chunk)| {
            let name = chunk.column_path().parts().first();
            name.is_some_and(|name| wanted(*n, name))
        });
        let footer = self.length.saturating_sub(self.size)..self.length;
        let places = chunks.filter_map(|(_, chunk)| untrusted::place(chunk));
        let mut places: Vec<Range<u64>> = places.chain([footer]).collect();
        places.sort_unstable_by_key(|place| place.start);
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for place in places {
            match ranges.last_mut() {
                Some(last) if place.start <= last.end => last.end = last.end.max(place.end),
                _ => ranges.push(place),
            }
        }
        ranges
    }
}

/// The kept parts of a file, each with its offset.
pub(crate) struct Kept {
    length: u64,
    parts: Vec<(u64, Bytes)>,
}

impl Kept {
    /// Reads parts of an object in a store, and hashes all of it. The footer determines which bytes to keep. An
    /// unreadable footer is reported only after hashing, which shows whether the object is damaged or was never a
    /// table.
    pub(crate) fn read(
        store: &Store,
        digest: &Digest,
        ranges: impl FnOnce(&Footer) -> Vec<Range<u64>>,
    ) -> Result<Self, TableError> {
        let footer = crate::regular::open(&store.path(digest))
            .map_err(ParquetError::from)
            .and_then(|(file, _)| Footer::read(&file));
        let ranges = footer.as_ref().map_or(Vec::new(), ranges);
        let parts = store
            .get_parts(digest, &ranges)
            .map_err(|e| TableError::new(e.to_string()))?;
        let footer = footer.map_err(unreadable)?;
        let starts = ranges.iter().map(|range| range.start);
        Ok(Self {
            length: footer.length,
            parts: starts.zip(parts).collect(),
        })
    }

    /// Returns the kept bytes from an offset to the end of its part.
    fn from(&self, start: u64) -> Result<Bytes, ParquetError> {
        let within = |(at, part): &(u64, Bytes)| {
            let skip = usize::try_from(start.checked_sub(*at)?).ok()?;
            (skip < part.len()).then(|| part.slice(skip..))
        };
        let chunk = self.parts.iter().find_map(within);
        chunk.ok_or_else(|| {
            ParquetError::EOF(format!(
                "byte {start} does not belong to any \
            column"
            ))
        })
    }
}

impl Length for Kept {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Kept {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(self.from(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let mut part = self.from(start)?;
        if part.len() < length {
            return Err(ParquetError::EOF(format!(
                "{length} bytes from {start} run past the end of the column"
            )));
        }
        part.truncate(length);
        Ok(part)
    }
}

#[cfg(test)]
mod tests {
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::{EnabledStatistics, WriterProperties};

    use super::*;
    use crate::Column;

    /// More rows than fit into a batch: words, numbers and Boolean values, with nulls.
    fn sample() -> Table {
        let rows = || 0..BATCH as i64 + 5;
        let word = |row| (row % 7 != 3).then_some(if row % 5 == 0 { "timeout" } else { "ok" });
        Table::new(vec![
            Column::text("constant", rows().map(|_| Some("measured"))),
            Column::int("n", rows().map(|row| (row % 3 != 0).then_some(row))).unit("tok"),
            Column::text("word", rows().map(word)),
            Column::boolean(
                "flag",
                rows().map(|row| (row % 4 != 1).then_some(row % 2 == 0)),
            ),
        ])
        .unwrap()
    }

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        (folder, store)
    }

    type Read = (Vec<Option<i64>>, Vec<Option<bool>>, Vec<usize>, Vec<usize>);

    /// Reads everything: integers, Boolean values, and the length of each text (0 if null).
    fn read(store: &Store, digest: &Digest) -> Read {
        let (mut ints, mut flags, mut lengths, mut constant) = Read::default();
        let length = |word: Option<&str>| word.map_or(0, str::len);
        for batch in ColumnReader::open(store, digest, &["constant", "n", "word", "flag"]).unwrap()
        {
            let batch = batch.unwrap();
            let (n, flag) = (batch.ints("n").unwrap(), batch.booleans("flag").unwrap());
            ints.extend((0..batch.rows()).map(|row| n.get(row)));
            flags.extend((0..batch.rows()).map(|row| flag.get(row)));
            lengths.extend(batch.of_each_text("word", length).unwrap());
            constant.extend(batch.of_each_text("constant", length).unwrap());
        }
        (ints, flags, lengths, constant)
    }

    fn expected(table: &Table) -> Read {
        let lengths = |name: &str| {
            table
                .text(name)
                .unwrap()
                .into_iter()
                .map(|w| w.map_or(0, str::len))
                .collect()
        };
        (
            table.int("n").unwrap(),
            table.boolean("flag").unwrap(),
            lengths("word"),
            lengths("constant"),
        )
    }

    #[test]
    fn columns_read_batch_by_batch_are_those_of_the_table() {
        let (_folder, store) = store();
        let digest = store.put(&sample().to_parquet().unwrap()).unwrap();
        let reader = ColumnReader::open(&store, &digest, &["n"]).unwrap();
        assert_eq!(
            (reader.rows(), reader.names()),
            (BATCH + 5, sample().names().as_slice())
        );
        assert_eq!(
            reader
                .map(|batch| batch.unwrap().rows())
                .collect::<Vec<_>>(),
            [BATCH, 5]
        );
        assert_eq!(read(&store, &digest), expected(&sample()));
    }

    #[test]
    fn files_of_several_row_groups_with_dictionaries_or_without_are_read_alike() {
        let (_folder, store) = store();
        let table = sample();
        for dictionaries in [true, false] {
            let foreign = WriterProperties::builder()
                .set_dictionary_enabled(dictionaries)
                .set_statistics_enabled(EnabledStatistics::None)
                .set_max_row_group_row_count(Some(1000))
                .build();
            let mut bytes = Vec::new();
            let mut writer =
                ArrowWriter::try_new(&mut bytes, table.batch().schema(), Some(foreign)).unwrap();
            writer.write(table.batch()).unwrap();
            writer.close().unwrap();
            let values = read(&store, &store.put(&bytes).unwrap());
            assert!(values == expected(&table), "dictionaries: {dictionaries}");
        }
    }

    #[test]
    fn a_column_not_there_is_null_and_one_of_another_type_is_refused() {
        let (_folder, store) = store();
        let digest = store.put(&sample().to_parquet().unwrap()).unwrap();
        let batch = ColumnReader::open(&store, &digest, &["n"])
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        assert_eq!(batch.ints("nothing").unwrap().get(1), None);
        // A column that was not requested reads like a missing one.
        assert!(
            batch
                .of_each_text("word", |word| word.is_none())
                .unwrap()
                .into_iter()
                .all(|null| null)
        );
        let error = batch.of_each_text("n", |_| ()).unwrap_err().to_string();
        assert_eq!(error, "column `n` holds Int64, not text");
        let none: Vec<_> = ColumnReader::open(&store, &digest, &[]).unwrap().collect();
        assert_eq!(
            none.into_iter()
                .map(|batch| batch.unwrap().rows())
                .sum::<usize>(),
            BATCH + 5
        );
    }

    #[test]
    fn a_changed_byte_in_any_part_of_the_file_is_found_whichever_columns_are_read() {
        let (_folder, store) = store();
        let bytes = sample().to_parquet().unwrap();
        let digest = store.put(&bytes).unwrap();
        let path = store.path(&digest);
        for at in (0..bytes.len())
            .step_by(bytes.len() / 50)
            .chain(bytes.len() - 12..bytes.len())
        {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, &damaged).unwrap();
            let error = ColumnReader::open(&store, &digest, &["n"])
                .unwrap_err()
                .to_string();
            assert!(error.contains("is damaged"), "byte {at}: {error}");
        }
    }

    #[test]
    fn a_missing_object_and_one_that_is_not_a_table_are_distinguished() {
        let (_folder, store) = store();
        let open = |digest: &Digest| {
            ColumnReader::open(&store, digest, &["n"])
                .unwrap_err()
                .to_string()
        };
        let missing = open(&Digest::of(b"nothing"));
        assert!(missing.ends_with("is not in the store"), "{missing}");
        for bytes in [b"".as_slice(), b"PAR1", b"PAR1 nonsense PAR1"] {
            let error = open(&store.put(bytes).unwrap());
            assert!(
                error.starts_with("not a readable Parquet table: "),
                "{error}"
            );
        }
    }
}
