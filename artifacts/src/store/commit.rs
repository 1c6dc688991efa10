//! Commits: makes pending objects durable together, then writes one transaction to the index.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;

use super::objects::{hash_file, size_of};
use super::{Commit, Store, StoreError};
use crate::{Digest, lock};

/// From this many objects on, one sync of the whole file system replaces a sync of each file and its folder. Measured
/// on ext4: 4 files 1.3 ms against 0.4, 16 files 5.5 against 0.8. But it also waits for what other processes have
/// written, so one or two files are better synced alone.
const MANY: usize = 4;

impl Store {
    /// Makes every pending object durable, then enters the executed cells into the index in
    /// one transaction. When it returns, a power loss loses none of them. Committing the same
    /// cells again changes nothing.
    ///
    /// # Errors
    /// If an object that a commit names is missing or damaged, or the disk or the index returns an error. The index is
    /// then unchanged, and pending objects stay pending.
    pub fn commit(&self, commits: &[Commit]) -> Result<(), StoreError> {
        let _turn = lock(&self.turn);
        let mut fresh = lock(&self.pending).clone();
        let pending: Vec<Digest> = fresh.keys().copied().collect();
        let named: BTreeSet<Digest> = commits
            .iter()
            .flat_map(|c| c.objects.iter().chain([&c.record]))
            .copied()
            .collect();
        // Another process may have removed objects that were put but not yet named (`gc` without a hold).
        for digest in &pending {
            if size_of(&self.path(digest))? != fresh.get(digest).copied() {
                fresh.remove(digest);
            }
        }
        for digest in &named {
            if !fresh.contains_key(digest) {
                self.admit(digest, &mut fresh)?;
            }
        }
        self.sync(&fresh)?;
        self.index()?.write(&fresh, commits)?;
        let mut left = lock(&self.pending);
        for digest in &pending {
            left.remove(digest);
        }
        Ok(())
    }

    /// Checks an object that a commit names and that this process has not put. It is durable if the index says so;
    /// otherwise it is hashed and added to the objects to sync.
    fn admit(&self, digest: &Digest, fresh: &mut BTreeMap<Digest, u64>) -> Result<(), StoreError> {
        let path = self.path(digest);
        let size = size_of(&path)?.ok_or(StoreError::Missing(*digest))?;
        if self.index()?.size_of(digest)? == Some(size) {
            return Ok(());
        }
        if hash_file(&path)?.0 != *digest {
            return Err(StoreError::Damaged(*digest, path));
        }
        fresh.insert(*digest, size);
        Ok(())
    }

    /// Makes objects durable, and the folders that lead to them.
    pub(super) fn sync(&self, objects: &BTreeMap<Digest, u64>) -> Result<(), StoreError> {
        if objects.is_empty() {
            return Ok(());
        }
        let root = self.objects.clone();
        if objects.len() >= MANY && sync_file_system(&root).map_err(StoreError::io(&root))? {
            return Ok(());
        }
        let mut folders = BTreeSet::from([root]);
        for digest in objects.keys() {
            let path = self.path(digest);
            sync_path(&path)?;
            folders.extend(path.parent().map(ToOwned::to_owned));
        }
        folders.iter().try_for_each(|folder| sync_path(folder))
    }
}

pub(super) fn sync_path(path: &std::path::Path) -> Result<(), StoreError> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(StoreError::io(path))
}

/// Syncs the file system that holds `path`; returns false if the system has no such call.
#[cfg(target_os = "linux")]
fn sync_file_system(path: &std::path::Path) -> io::Result<bool> {
    rustix::fs::syncfs(File::open(path)?)?;
    Ok(true)
}

/// Syncs the file system that holds `path`; returns false if the system has no such call.
#[cfg(not(target_os = "linux"))]
fn sync_file_system(_: &std::path::Path) -> io::Result<bool> {
    Ok(false)
}
