//! What stops planning or running as a whole; failures of cells are ledger lines instead.

use std::fmt;
use std::io;
use std::path::PathBuf;

use artifacts::StoreError;

use crate::graph::UnknownKind;
use crate::lock::LockError;

/// Planning or running cannot go on.
#[derive(Debug)]
pub enum PipelineError {
    /// The program's mistake: the experiment names a kind that is not registered.
    Kind(UnknownKind),
    /// The user's mistake: an option names a stage or axis that does not exist.
    Selection {
        /// What does not exist.
        message: String,
        /// What was probably meant, or what there is.
        hint: String,
    },
    /// The store refused (the machine's fault).
    Store(StoreError),
    /// The lock is damaged or cannot be written.
    Lock(LockError),
    /// A file that settings name is no longer what it was when the experiment was read.
    Changed(PathBuf),
    /// The file system or `/proc` refused.
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
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for PipelineError {}

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
