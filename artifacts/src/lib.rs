//! Bytes with names: digests, the content-addressed store, deterministic Parquet tables.
//!
//! This is the bottom of the workspace (`src → stages → pipeline → artifacts`). It knows nothing about experiments or
//! stages. It stores bytes safely, names them by their content, and provides tables whose columns carry units.

mod column;
mod column_reader;
mod digest;
mod disk_fault;
mod document;
pub mod json;
mod key;
mod known_files;
mod mutex;
mod pages;
mod plural;
pub mod regular;
mod resolved;
mod row_reader;
mod scalar;
mod schemas;
mod store;
mod table;
mod table_columns;
mod table_error;
mod table_row;
mod table_writer;
mod untrusted;

pub use column::{Column, ColumnData, Ratio};
pub use column_reader::{ColumnBatch, ColumnReader};
pub use digest::{Digest, DigestParseError, Hasher, hex};
pub use disk_fault::{DiskFault, without_path};
pub use document::at_path;
pub use key::ActionKey;
pub use known_files::{FileDigest, FileStamp, KnownFiles};
pub use mutex::lock;
pub use plural::counted;
pub use resolved::resolved;
pub use scalar::Scalar;
pub use store::{
    Cached, Commit, FsckFinding, FsckFindingKind, FsckMode, FsckOptions, FsckReport, GcMode,
    GcOptions, GcReport, HistoryLine, Hold, Journal, Lookup, MAX_RECORD_BYTES, Maker, Noted,
    ObjectSource, ReadRecord, RebuildReport, RecordView, Root, Store, StoreError, Subset, Tally,
};
pub use table::Table;
pub use table_columns::InPlace;
pub use table_error::TableError;
pub use table_row::TableRow;
pub use table_writer::TableWriter;
pub use untrusted::quietly;
