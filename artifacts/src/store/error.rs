//! Errors of the store.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use crate::Digest;

/// The store cannot do what was requested; names the object or path.
#[derive(Debug)]
pub enum StoreError {
    /// The file system returned an error (a fault of the machine, or a full disk).
    Io(PathBuf, io::Error),
    /// The store has no object with this digest.
    Missing(Digest),
    /// The object's bytes do not match its name.
    Damaged(Digest, PathBuf),
    /// The object is to be read as a document, but it has this many bytes, more than the limit after it.
    TooLarge(Digest, u64, u64),
    /// The object is named as a record but is not one.
    NotARecord(Digest),
    /// No store exists at this path.
    NoStore(PathBuf),
    /// A store contains only files of its own, and this is a link.
    Link(PathBuf),
    /// The folder is not a store, and this file or folder in it belongs to something else.
    NotOurs(PathBuf),
    /// The index returned an error. It is derived data, so deleting and rebuilding it is always safe.
    Index(PathBuf, rusqlite::Error),
    /// The index was written by another version of this program.
    IndexVersion(PathBuf, i64),
    /// Another process held this lock longer than the time limit.
    Busy(PathBuf),
    /// The store's source could not provide an object, for this reason.
    Source(String),
}

impl StoreError {
    /// Returns a closure that adds the path to an I/O error.
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io(path.to_owned(), error)
    }

    /// Returns whether the store may be sound but this process cannot write to it.
    pub fn is_read_only(&self) -> bool {
        match self {
            Self::Io(_, error) => {
                matches!(
                    error.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                )
            }
            Self::Index(_, error) => matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied)
            ),
            _ => false,
        }
    }

    /// Returns whether the index is damaged. An index that is locked by another process, or on a full or failing disk,
    /// is only out of reach.
    pub fn is_damaged_index(&self) -> bool {
        let Self::Index(_, error) = self else {
            return false;
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::DiskFull) => {
                false
            }
            Some(ErrorCode::SystemIoFailure) => is_cut(error),
            _ => !self.is_read_only(),
        }
    }
}

/// Returns whether a read ended early because the file is shorter than it declares.
fn is_cut(error: &rusqlite::Error) -> bool {
    error
        .sqlite_error()
        .is_some_and(|e| e.extended_code == rusqlite::ffi::SQLITE_IOERR_SHORT_READ)
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => {
                write!(f, "{}: {}", path.display(), crate::without_path(error))
            }
            Self::Missing(digest) => write!(f, "object {digest} is not in the store"),
            Self::Damaged(digest, path) => {
                write!(
                    f,
                    "object {digest} is damaged: the bytes of {} have another digest",
                    path.display()
                )
            }
            Self::TooLarge(digest, size, most) => write!(
                f,
                "object {digest} has {size} bytes, more than the {most} that a record or another document may have"
            ),
            Self::NotARecord(digest) => {
                write!(
                    f,
                    "object {digest} is listed as a record but cannot be read as one"
                )
            }
            Self::NoStore(path) => {
                write!(
                    f,
                    "{} is not a store: it has no `objects` folder",
                    path.display()
                )
            }
            Self::Link(path) => {
                write!(
                    f,
                    "{} is a symbolic link: a store contains only files of its own, because it overwrites and removes \
                     them",
                    path.display()
                )
            }
            Self::NotOurs(path) => {
                let folder = path.parent().unwrap_or(path);
                let name = path.file_name().unwrap_or_default();
                write!(
                    f,
                    "{} is not a store: it has no `objects` folder, and its `{}` may belong to something else",
                    folder.display(),
                    name.display()
                )
            }
            Self::Index(path, error) => {
                let remedy = match error.sqlite_error_code() {
                    _ if path.is_dir() => {
                        "a folder is in its place: delete the folder, and the next run rebuilds the index"
                    }
                    Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                        "another process uses it: wait for it to end and try again"
                    }
                    Some(ErrorCode::SystemIoFailure) if !is_cut(error) => {
                        "the disk or a limit of this process refused, such as a quota or `ulimit -f`; \
                         the objects already stored are intact"
                    }
                    Some(
                        ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied,
                    ) => "you have no write permission there; choose another store",
                    Some(ErrorCode::DiskFull) => {
                        "free some space and try again; the objects already stored are intact"
                    }
                    _ => "it is derived data: delete it, and the next run rebuilds it",
                };
                write!(
                    f,
                    "cannot open the store's index {}: {error} ({remedy})",
                    path.display()
                )
            }
            Self::IndexVersion(path, version) => write!(
                f,
                "the store's index {} has version {version}, which this version of Benchtrail \
                 cannot read. The index is derived data: delete it, and the next run rebuilds it",
                path.display()
            ),
            Self::Source(why) => f.write_str(why),
            Self::Busy(path) => {
                write!(
                    f,
                    "another process holds {}: wait for it to end and try again",
                    path.display()
                )
            }
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(_, error) => Some(error),
            Self::Index(_, error) => Some(error),
            _ => None,
        }
    }
}
