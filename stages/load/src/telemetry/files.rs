//! Reads the small files of /proc and /sys, and counts the reads.

use std::cell::Cell;
use std::path::{Path, PathBuf};

/// A root to read below: `/`, or a folder that replaces it in tests.
#[derive(Debug)]
pub(crate) struct Files {
    root: PathBuf,
    reads: Cell<u64>,
}

impl Files {
    /// Reads below the root of this machine.
    pub(crate) fn of_this_machine() -> Self {
        Self::below(Path::new("/"))
    }

    /// Reads below a folder.
    pub(crate) fn below(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            reads: Cell::new(0),
        }
    }

    /// Returns a file's text; `None` if it cannot be read.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        self.reads.set(self.reads.get() + 1);
        std::fs::read(self.root.join(path))
            .ok()
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the names in a folder, sorted; empty if it cannot be read.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        self.reads.set(self.reads.get() + 1);
        let Ok(entries) = std::fs::read_dir(self.root.join(path)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort_unstable();
        names
    }

    /// Returns a file's whole number.
    pub(crate) fn number(&self, path: &str) -> Option<i64> {
        self.text(path)?.trim().parse().ok()
    }

    /// Returns the number of files and folders read so far.
    #[cfg(test)]
    pub(crate) fn reads(&self) -> u64 {
        self.reads.get()
    }
}
