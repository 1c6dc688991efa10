//! Parquet files whose pages and footers declare gigabytes are rejected before memory is allocated for them. The
//! process is limited to 1 GiB; an allocation beyond that ends it, and with it the test.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use artifacts::{Column, ColumnReader, Digest, Store, Table};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, ParquetMetaData, ParquetMetaDataReader,
    ParquetMetaDataWriter, RowGroupMetaData,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn bound_memory() {
    let limit = Rlimit {
        current: Some(1 << 30),
        maximum: getrlimit(Resource::As).maximum,
    };
    setrlimit(Resource::As, limit).expect("a lower limit can always be set");
}

/// A table with one Boolean column, which has no dictionary: one page.
fn sample() -> Vec<u8> {
    let column = Column::boolean("ok", (0..5000).map(|i| Some(i % 3 == 0)));
    Table::new(vec![column]).unwrap().to_parquet().unwrap()
}

fn metadata(bytes: &[u8]) -> ParquetMetaData {
    let bytes = bytes::Bytes::copy_from_slice(bytes);
    ParquetMetaDataReader::new()
        .parse_and_finish(&bytes)
        .unwrap()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// Returns a file around the pages of a column, whose headers may declare anything.
fn file(pages: &[u8], like: &ParquetMetaData, rows: i64) -> Vec<u8> {
    placed(pages, like, rows, (None, 4))
}

/// Returns such a file whose footer says that the dictionary and the data pages are at these offsets.
fn placed(pages: &[u8], like: &ParquetMetaData, rows: i64, at: (Option<i64>, i64)) -> Vec<u8> {
    let group = &like.row_groups()[0];
    let chunk: ColumnChunkMetaData = group
        .column(0)
        .clone()
        .into_builder()
        .set_dictionary_page_offset(at.0)
        .set_data_page_offset(at.1)
        .set_total_compressed_size(pages.len() as i64)
        .set_num_values(rows)
        .build()
        .unwrap();
    let group = RowGroupMetaData::builder(group.schema_descr_ptr())
        .set_num_rows(rows)
        .set_column_metadata(vec![chunk])
        .build()
        .unwrap();
    let file = like.file_metadata();
    let file = FileMetaData::new(
        file.version(),
        rows,
        file.created_by().map(str::to_owned),
        file.key_value_metadata().cloned(),
        Arc::clone(&file.schema_descr_ptr()),
        None,
    );
    let mut bytes = b"PAR1".to_vec();
    bytes.extend(pages);
    let metadata = ParquetMetaData::new(file, vec![group]);
    ParquetMetaDataWriter::new(&mut bytes, &metadata)
        .finish()
        .unwrap();
    bytes
}

/// Returns the sample's page with a different size in its header.
fn declaring(full: u64) -> Vec<u8> {
    let bytes = sample();
    let chunk = metadata(&bytes).row_groups()[0].column(0).clone();
    let from = chunk.data_page_offset() as usize;
    let page = &bytes[from..from + chunk.compressed_size() as usize];
    // Field 1, the type, and field 2, the size: both are numbers.
    assert_eq!((page[0], page[2]), (0x15, 0x15), "{:x?}", &page[..4]);
    let size = page[3..].iter().position(|b| b & 0x80 == 0).unwrap() + 1;
    [&page[..3], &varint(full << 1), &page[3 + size..]].concat()
}

fn refused(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let digest: Digest = store.put(bytes).unwrap();
    let whole = Table::from_parquet(bytes.to_vec()).unwrap_err().to_string();
    let some = ColumnReader::open(&store, &digest, &["ok"]);
    let some = some.and_then(|batches| batches.collect::<Result<Vec<_>, _>>());
    assert!(some.is_err(), "the other reader: {whole}");
    whole
}

#[test]
fn the_forger_of_these_tests_makes_files_that_can_be_read() {
    let bytes = sample();
    let like = metadata(&bytes);
    let full = like.row_groups()[0].column(0).uncompressed_size();
    // The header's size covers only the page; a wrong size that is accepted fails later.
    let page = declaring(u64::try_from(full).unwrap().min(700));
    let made = file(&page, &like, 5000);
    let error = Table::from_parquet(made).err().map(|e| e.to_string());
    let declared = "declares more bytes";
    assert!(error.is_none_or(|e| !e.contains(declared)));
}

#[test]
fn a_page_that_declares_gigabytes_is_refused_before_room_is_made_for_them() {
    bound_memory();
    let like = metadata(&sample());
    for full in [i32::MAX as u64, 1 << 30, 3 << 28, 100_000_000] {
        let error = refused(&file(&declaring(full), &like, 5000));
        assert!(error.contains("declares more bytes"), "{full}: {error}");
    }
}

#[test]
fn rows_that_a_footer_only_declares_take_no_memory() {
    bound_memory();
    let bytes = sample();
    let like = metadata(&bytes);
    let chunk = like.row_groups()[0].column(0).clone();
    let from = chunk.data_page_offset() as usize;
    let page = &bytes[from..from + chunk.compressed_size() as usize];
    for rows in [1_i64 << 29, 1 << 40, i64::MAX] {
        let made = file(page, &like, rows);
        let error = Table::from_parquet(made).unwrap_err().to_string();
        assert!(error.contains("values"), "{rows}: {error}");
    }
}

/// The page of a dictionary without entries: its header, and one byte of snappy.
const EMPTY_DICTIONARY: &[u8] = b"\x15\x04\x15\x00\x15\x02\x4c\x15\x00\x15\x00\x12\x00\x00\x00";

#[test]
fn a_table_without_rows_as_others_write_it_is_a_table() {
    // Arrow in C++ writes the offset 0 for data pages that do not exist.
    let column = Column::text("word", [Some("a"), Some("b")]);
    let like = metadata(&Table::new(vec![column]).unwrap().to_parquet().unwrap());
    let made = placed(EMPTY_DICTIONARY, &like, 0, (Some(4), 0));
    let table = Table::from_parquet(made).unwrap();
    assert_eq!((table.rows(), table.names()), (0, vec!["word".to_owned()]));
}

#[test]
fn two_columns_of_one_name_are_no_table() {
    let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let field = |name: &str| Field::new(name, DataType::Int64, true);
    let schema = Arc::new(Schema::new(vec![field("ok"), field("n"), field("ok")]));
    let columns = vec![column(vec![1, 2]), column(vec![3, 4]), column(vec![5, 6])];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, schema, None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let error = refused(&bytes);
    assert!(error.contains("two columns are named `ok`"), "{error}");
}
