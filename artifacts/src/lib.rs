//! Bytes with names: digests, the content-addressed store, deterministic Parquet tables.
//!
//! This is the bottom of the workspace (`src → stages → pipeline → artifacts`). It knows
//! nothing of experiments or stages; it keeps bytes safe, names them by what they are, and
//! gives tables whose columns carry their units.

mod digest;
mod key;
mod store;
mod table;

pub use digest::{Digest, DigestParseError};
pub use key::ActionKey;
pub use store::{Cached, Commit, HistoryLine, Lookup, Store, StoreError};
pub use table::{Column, ColumnData, Scalar, Table, TableError};
