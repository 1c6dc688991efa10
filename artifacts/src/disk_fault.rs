//! What a disk, a limit or a permission refused, read from the types of errors.

use std::error::Error;
use std::io;

use crate::TableError;

/// Why the operating system refused to read or write, where the user can remedy it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// The disk is full.
    Full,
    /// The user's quota is spent.
    Quota,
    /// The file would exceed the process's limit on file sizes.
    FileSize,
    /// The file system is mounted read-only.
    ReadOnly,
    /// The file or its folder does not allow it.
    Permission,
}

impl DiskFault {
    /// Returns the fault of the disk behind an error: its own, or that of an error that caused it.
    pub fn behind(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(fault) = Self::at(error) {
                return Some(fault);
            }
            // `source` of an I/O error skips the error that it wraps.
            let wrapped = error
                .downcast_ref::<io::Error>()
                .and_then(io::Error::get_ref);
            next = match wrapped {
                Some(wrapped) => Some(wrapped),
                None => error.source(),
            };
        }
        None
    }

    fn at(error: &(dyn Error + 'static)) -> Option<Self> {
        if let Some(error) = error.downcast_ref::<TableError>() {
            return error.disk_fault();
        }
        match error.downcast_ref::<io::Error>()?.kind() {
            io::ErrorKind::StorageFull => Some(Self::Full),
            io::ErrorKind::QuotaExceeded => Some(Self::Quota),
            io::ErrorKind::FileTooLarge => Some(Self::FileSize),
            io::ErrorKind::ReadOnlyFilesystem => Some(Self::ReadOnly),
            io::ErrorKind::PermissionDenied => Some(Self::Permission),
            _ => None,
        }
    }
}

/// Returns the text of an I/O error for a message that begins with its path. The crate `tempfile` adds the path of its
/// file to every error, which would be there twice.
pub fn without_path(error: &dyn Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at path \"") {
        Some((reason, path)) if path.ends_with('"') => reason.to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Column, StoreError, Table, TableWriter};

    const CODES: [(i32, DiskFault); 5] = [
        (28, DiskFault::Full),
        (122, DiskFault::Quota),
        (27, DiskFault::FileSize),
        (30, DiskFault::ReadOnly),
        (13, DiskFault::Permission),
    ];

    #[test]
    fn a_fault_is_seen_through_every_error_that_wraps_it() {
        for (code, fault) in CODES {
            let error = || io::Error::from_raw_os_error(code);
            let table = TableError::caused_by(&error());
            let wrapped: [Box<dyn Error>; 5] = [
                Box::new(error()),
                Box::new(io::Error::other(error())),
                Box::new(io::Error::new(error().kind(), "/data: it is refused")),
                Box::new(io::Error::other(table)),
                Box::new(StoreError::Io("/data".into(), error())),
            ];
            for error in wrapped {
                assert_eq!(DiskFault::behind(&*error), Some(fault), "{error:?}");
            }
        }
    }

    #[test]
    fn a_message_has_the_path_of_its_error_once() {
        let nowhere = Path::new("/proc/self/of \"nobody\"");
        let made = tempfile::Builder::new()
            .prefix("run-")
            .tempfile_in(nowhere)
            .expect_err("the folder does not exist");
        let message = StoreError::Io(nowhere.to_owned(), made).to_string();
        assert_eq!(
            message,
            "/proc/self/of \"nobody\": No such file or directory (os error 2)"
        );
        let plain = io::Error::from_raw_os_error(28);
        assert_eq!(without_path(&plain), plain.to_string());
    }

    #[test]
    fn the_text_of_an_error_decides_nothing() {
        let text = io::Error::from_raw_os_error(28).to_string();
        for error in [
            io::Error::other(text),
            io::Error::from_raw_os_error(5),
            io::ErrorKind::NotFound.into(),
        ] {
            assert_eq!(DiskFault::behind(&error), None, "{error}");
        }
    }

    #[test]
    fn a_table_that_does_not_fit_onto_its_disk_says_so() {
        let column = Column::int("n", (0..100_000).map(Some));
        let table = Table::new(vec![column.clone()]).expect("a table");
        let write = || -> Result<u64, TableError> {
            let mut writer = TableWriter::create(Path::new("/dev/full"), &[column])?;
            writer.write(&table)?;
            writer.finish()
        };
        let error = write().expect_err("the disk is full");
        assert_eq!(error.disk_fault(), Some(DiskFault::Full), "{error}");
    }
}
