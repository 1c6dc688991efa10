//! A rendered report and the trace beside it.

use std::io;
use std::path::{Path, PathBuf};

use artifacts::{Digest, Table};
use contract::{ReadError, read_trace};

use crate::error::TrailError;

/// A traced number (or word) of a report: its place and its stated source.
pub use contract::TraceRow as Number;

/// A rendered report with its trace.
#[derive(Clone, Debug)]
pub struct Document {
    /// The report's file.
    pub path: PathBuf,
    /// The report's text.
    pub markdown: String,
    /// The digest of the report's bytes.
    pub report: Digest,
    /// The digest of the trace's bytes.
    pub trace: Digest,
    /// The numbers in the order of the text.
    pub numbers: Vec<Number>,
}

impl Document {
    /// Reads a report and its trace.
    ///
    /// # Errors
    /// If one of them is missing or unreadable.
    pub fn open(report: &Path, trace: &Path) -> Result<Self, TrailError> {
        let read = |path: &Path, missing: fn(PathBuf) -> TrailError| {
            artifacts::regular::read(path).map_err(|e| match e.kind() {
                io::ErrorKind::NotFound => missing(path.to_owned()),
                _ => TrailError::Io(path.to_owned(), e),
            })
        };
        let markdown = read(report, TrailError::NoReport)?;
        let table = read(trace, TrailError::NoTrace)?;
        Self::of(report, &markdown, &table).map_err(|e| TrailError::Trace(trace.to_owned(), e))
    }

    /// Makes a document from the bytes of a report and its trace.
    ///
    /// # Errors
    /// If the trace's bytes are not a trace, or have another format version.
    pub fn of(path: &Path, report: &[u8], trace: &[u8]) -> Result<Self, ReadError> {
        Ok(Self {
            path: path.to_owned(),
            markdown: String::from_utf8_lossy(report).into_owned(),
            report: Digest::of(report),
            trace: Digest::of(trace),
            numbers: read_trace(&Table::from_parquet(trace.to_vec())?)?,
        })
    }
}
