//! Scratch directories: `<store>/scratch/PID-START/N`, one for each attempt.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::process::ProcessId;

/// The scratch directory of this run; removed when dropped.
pub(super) struct Scratch {
    folder: PathBuf,
    next: AtomicU64,
}

impl Scratch {
    /// Makes the directory, and removes those of dead processes.
    pub(super) fn new(store_root: &Path) -> io::Result<Self> {
        let parent = store_root.join("scratch");
        fs::create_dir_all(&parent)?;
        for entry in fs::read_dir(&parent)? {
            let entry = entry?;
            let name = entry.file_name();
            let owner = name.to_str().and_then(|n| {
                let mut parts = n.splitn(3, '-');
                Some(ProcessId {
                    pid: parts.next()?.parse().ok()?,
                    start_time: parts.next()?.parse().ok()?,
                })
            });
            if let Some(owner) = owner {
                // What belongs to another user stays, and does not stop this run.
                let _not_ours = crate::temporary::remove_of_dead(&entry.path(), owner);
            }
        }
        crate::temporary::sweep(&parent, crate::dry_run::SCRATCH)?;
        let own = ProcessId::own()?;
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("{}-{}-{run}", own.pid, own.start_time));
        loop {
            fs::create_dir_all(&folder)?;
            if crate::temporary::claim(&folder)? {
                break;
            }
        }
        Ok(Self {
            folder,
            next: AtomicU64::new(0),
        })
    }

    /// Makes an empty directory.
    pub(super) fn make(&self) -> io::Result<PathBuf> {
        let path = self
            .folder
            .join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        fs::create_dir(&path)?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The next run removes what stays.
        let _ = crate::temporary::remove(&self.folder);
    }
}
