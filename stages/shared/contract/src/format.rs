//! Format versions of tables that other stages and the reading side read.

use std::fmt;

use artifacts::{Table, TableError};

/// The note of a table that names its format.
const NOTE: &str = "format";

/// The format of a table and its version. The version rises when columns or their meanings change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFormat {
    /// The name of the format.
    pub name: &'static str,
    /// The version that is written and read.
    pub version: u32,
}

impl fmt::Display for TableFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

impl TableFormat {
    /// Returns the note that a table of this format carries.
    pub fn note(self) -> (&'static str, String) {
        (NOTE, self.to_string())
    }

    /// Checks that a table has this format.
    ///
    /// # Errors
    /// If the table has another format or another version.
    pub fn check(self, table: &Table) -> Result<(), ReadError> {
        match table.metadata(NOTE) {
            Some(note) if note == self.to_string() => Ok(()),
            note => Err(ReadError::Format {
                expected: self,
                actual: note,
            }),
        }
    }
}

/// The reason why a table cannot be read as expected.
#[derive(Debug)]
pub enum ReadError {
    /// The table has another format, or another version of it.
    Format {
        /// The format that can be read.
        expected: TableFormat,
        /// The format that the table states; `None` if it states none.
        actual: Option<String>,
    },
    /// A column is missing or has another type.
    Table(TableError),
    /// A row is malformed.
    Row {
        /// The row, from 0.
        row: usize,
        /// The problem.
        what: String,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format {
                expected,
                actual: Some(actual),
            } => write!(
                f,
                "its format is `{actual}`, this benchtrail reads `{expected}`"
            ),
            Self::Format { expected, .. } => write!(
                f,
                "it does not say its format: it is not a {}, or an older benchtrail wrote it; this one reads \
                 `{expected}`",
                expected.name
            ),
            Self::Table(error) => error.fmt(f),
            Self::Row { row, what } => write!(f, "row {row}: {what}"),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<TableError> for ReadError {
    fn from(error: TableError) -> Self {
        Self::Table(error)
    }
}
