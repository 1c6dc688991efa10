//! Errors that stop planning or running as a whole; failures of cells are ledger lines instead.

use std::fmt;
use std::io;
use std::path::PathBuf;

use artifacts::StoreError;

use crate::graph::UnknownKind;
use crate::lock::LockError;

/// The reason why planning or running cannot continue.
#[derive(Debug)]
pub enum PipelineError {
    /// The program's mistake: the experiment names a kind that is not registered.
    Kind(UnknownKind),
    /// The user's mistake: an option names a stage or axis that does not exist.
    Selection {
        /// A message that names what does not exist.
        message: String,
        /// The probable intention, or the existing names.
        hint: String,
    },
    /// The store returned an error (the machine's fault).
    Store(StoreError),
    /// The lock is damaged or cannot be written.
    Lock(LockError),
    /// A file that settings name has changed since the experiment was read.
    Changed(PathBuf),
    /// The file system or `/proc` returned an error.
    Io(PathBuf, io::Error),
}

impl fmt::Display for PipelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(error) => error.fmt(f),
            Self::Selection { message, .. } => f.write_str(message),
            Self::Store(error) => error.fmt(f),
            Self::Lock(error) => error.fmt(f),
            Self::Changed(path) => {
                write!(f, "{} changed while the study was planned", path.display())
            }
            Self::Io(path, error) => {
                write!(f, "{}: {}", path.display(), artifacts::without_path(error))
            }
        }
    }
}

impl std::error::Error for PipelineError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            Self::Lock(error) => Some(error),
            Self::Io(_, error) => Some(error),
            Self::Kind(_) | Self::Selection { .. } | Self::Changed(_) => None,
        }
    }
}

impl From<StoreError> for PipelineError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<LockError> for PipelineError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl From<UnknownKind> for PipelineError {
    fn from(error: UnknownKind) -> Self {
        Self::Kind(error)
    }
}
