//! Errors of a bundle as a whole.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::check::Complaint;
use crate::secrets::SecretFinding;

/// The reason why a bundle cannot be written or opened.
#[derive(Debug)]
pub enum BundleError {
    /// A file system error.
    Io(PathBuf, io::Error),
    /// A store error, or a store that does not match the lock.
    Store(artifacts::StoreError),
    /// The bundle's path already exists.
    Exists(PathBuf),
    /// The path is not a bundle.
    NotABundle(PathBuf, String),
    /// A file of the bundle is invalid.
    Malformed(PathBuf, String),
    /// The study cannot be published.
    Study(String),
    /// Secrets or user names would be published.
    Secrets(Vec<SecretFinding>),
    /// The bundle would not hold.
    DoesNotHold(Vec<Complaint>),
    /// A key cannot be used.
    Key(PathBuf, String),
}

impl fmt::Display for BundleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// The most findings or complaints that are listed.
        const SHOWN: usize = 12;
        match self {
            Self::Io(path, error) => {
                write!(f, "{}: {}", path.display(), artifacts::without_path(error))
            }
            Self::Store(error) => error.fmt(f),
            Self::Exists(path) => {
                write!(
                    f,
                    "{} already exists; choose another directory, or remove it first",
                    path.display()
                )
            }
            Self::NotABundle(path, what) => write!(f, "{} is not a bundle: {what}", path.display()),
            Self::Malformed(path, what) => write!(f, "{}: {what}", path.display()),
            Self::Study(what) => f.write_str(what),
            Self::Secrets(findings) => {
                let n = findings.len();
                writeln!(
                    f,
                    "nothing was published: {n} {} would become public",
                    words(n)
                )?;
                for finding in findings.iter().take(SHOWN) {
                    writeln!(f, "  {finding}")?;
                }
                if n > SHOWN {
                    writeln!(f, "  and {} more", n - SHOWN)?;
                }
                f.write_str(
                    "the rule is in brackets; if a finding is meant to be public, pass `--allow RULE`",
                )
            }
            Self::DoesNotHold(complaints) => {
                f.write_str("nothing was published, because `verify` would refuse the bundle:")?;
                for complaint in complaints.iter().take(SHOWN) {
                    write!(f, "\n  {}: {}", complaint.path, complaint.what)?;
                }
                match complaints.len().saturating_sub(SHOWN) {
                    0 => Ok(()),
                    more => write!(f, "\n  and {more} more"),
                }
            }
            Self::Key(path, what) => write!(f, "the key {}: {what}", path.display()),
        }
    }
}

fn words(n: usize) -> &'static str {
    if n == 1 {
        "secret or user name"
    } else {
        "secrets or user names"
    }
}

impl std::error::Error for BundleError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(_, error) => Some(error),
            Self::Store(error) => Some(error),
            _ => None,
        }
    }
}

impl From<artifacts::StoreError> for BundleError {
    fn from(error: artifacts::StoreError) -> Self {
        Self::Store(error)
    }
}
