//! Why a trail cannot be followed.

use std::fmt;
use std::io;
use std::path::PathBuf;

use artifacts::{Digest, StoreError};
use contract::ReadError;

/// Why a trail cannot be followed.
#[derive(Debug)]
pub enum TrailError {
    /// A file cannot be read.
    Io(PathBuf, io::Error),
    /// There is no such report.
    NoReport(PathBuf),
    /// There is no trace beside the report.
    NoTrace(PathBuf),
    /// The file beside the report is not a trace.
    Trace(PathBuf, ReadError),
    /// The store does not give an artifact, or gives a damaged one.
    Store(StoreError),
    /// An artifact is not what the trail says it is.
    Artifact(Digest, String),
    /// No number of the report matches.
    NoNumber {
        /// What was asked for.
        asked: String,
        /// What there is instead.
        hint: String,
    },
}

impl fmt::Display for TrailError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
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

impl std::error::Error for TrailError {}

impl From<StoreError> for TrailError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
