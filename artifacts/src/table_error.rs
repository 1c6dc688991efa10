//! Why a table cannot be built or read, or why a request does not fit it.

use std::error::Error;
use std::fmt;

use crate::DiskFault;

/// A table cannot be built or read, or a request does not fit it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableError {
    message: String,
    lacks_column: bool,
    disk_fault: Option<DiskFault>,
}

impl TableError {
    /// Makes an error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            lacks_column: false,
            disk_fault: None,
        }
    }

    /// Makes the error for a failure of the writer or the disk.
    pub(crate) fn caused_by(error: &(dyn Error + 'static)) -> Self {
        Self::caused(error.to_string(), error)
    }

    /// Makes the error for a file that the system refuses.
    pub(crate) fn caused(message: String, error: &(dyn Error + 'static)) -> Self {
        Self {
            disk_fault: DiskFault::behind(error),
            ..Self::new(message)
        }
    }

    /// Returns what the disk refused, if that is the reason.
    pub fn disk_fault(&self) -> Option<DiskFault> {
        self.disk_fault
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
            disk_fault: None,
        }
    }
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for TableError {}
