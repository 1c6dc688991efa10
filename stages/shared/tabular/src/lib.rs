//! Reads tables that others wrote, from files: CSV, TSV, JSON, JSON Lines and Parquet.
//!
//! A file becomes a [`Sheet`]: named columns of [`Field`]s, with the place of every row in the file, so that each
//! number can be traced back. Units are not guessed: the reader of a sheet supplies them.

mod delimited;
mod field;
mod json;
mod listed;
mod other;
mod parquet;
mod sheet;

pub use artifacts::json::memory;
pub use field::{Field, Unreadable};
pub use json::{Record, bounded, check_objects, read_nested, records};
pub use listed::there_are;
pub use other::{OtherKind, other_kind};
pub use sheet::{Format, Places, Sheet, read, read_texts};
