//! Why a table cannot be built or read, or why a request does not fit it.

use std::fmt;

/// A table cannot be built or read, or a request does not fit it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableError {
    message: String,
    lacks_column: bool,
}

impl TableError {
    /// Makes an error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            lacks_column: false,
        }
    }

    /// Returns whether the table is sound and only lacks the requested column.
    pub fn lacks_column(&self) -> bool {
        self.lacks_column
    }

    /// Makes the error for a missing column; `names` are the table's columns.
    pub fn no_column(column: &str, names: &[String]) -> Self {
        Self {
            message: format!(
                "no column `{column}`; the columns are: {}",
                names.join(", ")
            ),
            lacks_column: true,
        }
    }
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TableError {}
