//! The files that an experiment consists of, as the language reads them.

use std::fmt;
use std::io;
use std::path::Path;
use std::string::FromUtf8Error;

use artifacts::FileDigest;

use super::parse::MAX_BYTES;
use crate::sources::MOST_BYTES;

/// The language's access to files; no other part of it reads any.
pub trait Files {
    /// Returns the text of a file; `None` if the file does not exist.
    ///
    /// # Errors
    /// If the file exists but cannot be read as text.
    fn read(&self, path: &Path) -> Result<Option<String>, FileError>;
    /// Returns the names of the files in a folder; empty if the folder does not exist.
    fn list(&self, folder: &Path) -> Vec<String>;
    /// Returns the digest of a file that settings name.
    ///
    /// # Errors
    /// If the file cannot be read, is not a regular file, or is too large.
    fn digest(&self, path: &Path) -> io::Result<FileDigest> {
        FileDigest::of(path, MOST_BYTES)
    }
}

/// Why a file cannot be read as text. The user named it, or put it there.
#[derive(Debug)]
pub enum FileError {
    /// It is a folder.
    Folder,
    /// It is a device or a pipe.
    NotRegular,
    /// It is too large.
    TooLarge {
        /// Its size, bytes.
        bytes: u64,
    },
    /// It is not UTF-8.
    NotText(FromUtf8Error),
    /// The system cannot read it.
    Unreadable(io::Error),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder => f.write_str("this is a folder, not a file"),
            Self::NotRegular => f.write_str("this is not a regular file, but a device or a pipe"),
            Self::TooLarge { bytes } => {
                write!(f, "the file has {bytes} bytes; the limit is {MAX_BYTES}")
            }
            Self::NotText(error) => {
                let valid = error.utf8_error().valid_up_to();
                write!(f, "the file is not UTF-8 after byte {valid}")
            }
            Self::Unreadable(error) => write!(f, "the file cannot be read: {error}"),
        }
    }
}

/// No files at all, for self-contained texts.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _: &Path) -> Result<Option<String>, FileError> {
        Ok(None)
    }

    fn list(&self, _: &Path) -> Vec<String> {
        Vec::new()
    }
}
