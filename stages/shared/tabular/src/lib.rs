//! Tables that others wrote, read from files: CSV, TSV, JSON, JSON Lines and Parquet.
//!
//! A file becomes a [`Sheet`]: named columns of [`Field`]s, and for every row the place in the file at which
//! it stands, so that a number can be followed back to it. Nothing is guessed about units: whoever reads a
//! sheet says what they are.

mod delimited;
mod field;
mod json;
mod parquet;
mod sheet;

pub use field::{Field, Unreadable};
pub use json::{Record, records};
pub use sheet::{Format, Places, Sheet, read};
