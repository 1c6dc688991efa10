//! Reasons why a trail cannot be followed.

use std::fmt;
use std::io;
use std::path::PathBuf;

use artifacts::{Digest, StoreError};
use contract::ReadError;

/// The reason why a trail cannot be followed.
#[derive(Debug)]
pub enum TrailError {
    /// A file cannot be read.
    Io(PathBuf, io::Error),
    /// The report does not exist.
    NoReport(PathBuf),
    /// The report has no trace beside it.
    NoTrace(PathBuf),
    /// The file beside the report is not a trace.
    Trace(PathBuf, ReadError),
    /// The store lacks an artifact or holds a damaged one.
    Store(StoreError),
    /// An artifact does not match the trail.
    Artifact(Digest, String),
    /// No number of the report matches.
    NoNumber {
        /// The requested number.
        asked: String,
        /// The numbers that exist instead.
        hint: String,
    },
}

impl fmt::Display for TrailError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => {
                write!(f, "{}: {}", path.display(), artifacts::without_path(error))
            }
            Self::NoReport(path) => write!(f, "{}: there is no such report", path.display()),
            Self::NoTrace(path) => {
                write!(
                    f,
                    "{}: there is no trace next to the report",
                    path.display()
                )
            }
            Self::Trace(path, error) => write!(
                f,
                "{}: not a trace that can be read: {error}",
                path.display()
            ),
            Self::Store(error) => error.fmt(f),
            Self::Artifact(digest, what) => write!(f, "{}: {what}", digest.short()),
            Self::NoNumber { asked, .. } => f.write_str(asked),
        }
    }
}

impl std::error::Error for TrailError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(_, error) => Some(error),
            Self::Store(error) => Some(error),
            _ => None,
        }
    }
}

impl From<StoreError> for TrailError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
