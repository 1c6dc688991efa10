//! The locks of a project.

use std::path::{Path, PathBuf};

use pipeline::lock::is_lock;

use crate::exit::Stop;

/// Folders that contain no locks and are not searched.
const NOT_SEARCHED: [&str; 4] = [".git", ".benchtrail", "target", "node_modules"];

/// Collects the locks of this program below a folder.
///
/// # Errors
/// If a folder or a lock cannot be read.
pub(crate) fn find_locks(folder: &Path, locks: &mut Vec<PathBuf>) -> Result<(), Stop> {
    let fault = |e: std::io::Error| Stop::refused_at(folder.display(), &e);
    let mut entries = std::fs::read_dir(folder)
        .map_err(fault)?
        .collect::<Result<Vec<_>, _>>()
        .map_err(fault)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let kind = entry.file_type().map_err(fault)?;
        if kind.is_dir() {
            if !NOT_SEARCHED.iter().any(|name| entry.file_name() == *name) {
                find_locks(&path, locks)?;
            }
        } else if is_lock(&path) {
            let bytes = artifacts::regular::read(&path)
                .map_err(|e| Stop::refused_at(path.display(), &e))?;
            if bytes.starts_with(b"benchtrail lock ") {
                locks.push(path);
            }
        }
    }
    Ok(())
}
