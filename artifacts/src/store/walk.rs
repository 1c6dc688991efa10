//! Walks over the files of a store.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{Store, StoreError};
use crate::Digest;

/// A file under `objects` at an object's path.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) digest: Digest,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) modified: SystemTime,
}

impl Store {
    /// Returns the objects, sorted by digest, and any other paths under `objects`.
    pub(super) fn walk(&self) -> Result<(Vec<Found>, Vec<PathBuf>), StoreError> {
        let (mut objects, mut strangers) = (Vec::new(), Vec::new());
        for folder in list(&self.objects)? {
            let metadata = fs::symlink_metadata(&folder).map_err(StoreError::io(&folder))?;
            let Some(prefix) = hex_name(&folder, 2).filter(|_| metadata.is_dir()) else {
                strangers.push(folder);
                continue;
            };
            for path in list(&folder)? {
                // Removed since the listing, by `gc` in another process.
                let Some(metadata) = metadata_of(&path)? else {
                    continue;
                };
                let digest =
                    hex_name(&path, 62).and_then(|rest| format!("b3:{prefix}{rest}").parse().ok());
                match (digest, metadata.is_file()) {
                    (Some(digest), true) => {
                        let modified = metadata.modified().map_err(StoreError::io(&path))?;
                        objects.push(Found {
                            digest,
                            bytes: metadata.len(),
                            modified,
                            path,
                        });
                    }
                    _ => strangers.push(path),
                }
            }
        }
        objects.sort_by_key(|object| object.digest);
        strangers.sort();
        Ok((objects, strangers))
    }

    /// Returns the files in `tmp` that no process has written to for a day.
    #[expect(
        clippy::disallowed_methods,
        reason = "file ages are measured with the clock that sets their timestamps"
    )]
    pub(super) fn leftovers(&self) -> Result<Vec<PathBuf>, StoreError> {
        let day_ago = SystemTime::now() - LEFTOVER_AGE;
        let mut left = Vec::new();
        for path in list(&self.root.join("tmp"))? {
            let Some(metadata) = metadata_of(&path)? else {
                continue;
            };
            if metadata.modified().map_err(StoreError::io(&path))? < day_ago {
                left.push(path);
            }
        }
        Ok(left)
    }
}

/// A file in `tmp` of this age or older is left over from a dead process.
pub(super) const LEFTOVER_AGE: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

/// Returns the paths in a folder, sorted; empty if the folder does not exist.
///
/// # Errors
/// If the folder is a link, because the files behind it are not those of the store, or cannot be read.
pub(super) fn list(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    if folder.is_symlink() {
        return Err(StoreError::Link(folder.to_owned()));
    }
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(StoreError::Io(folder.to_owned(), e)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(StoreError::io(folder))?.path());
    }
    paths.sort();
    Ok(paths)
}

/// Returns a file's metadata; `None` if the file does not exist (any more).
pub(super) fn metadata_of(path: &Path) -> Result<Option<fs::Metadata>, StoreError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(StoreError::Io(path.to_owned(), e)),
    }
}

/// Returns the file name if it consists of `digits` lower-case hexadecimal digits.
fn hex_name(path: &Path, digits: usize) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    let lower_hex = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
    (name.len() == digits && name.bytes().all(lower_hex)).then_some(name)
}
