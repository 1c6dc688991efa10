//! Named exclusive resources, held across processes by locks on `<store>/locks/NAME.lock`.
//!
//! The kernel releases the lock of a dead process, so nothing needs unlocking by hand. Within this process, a name may
//! be held several times at once: a server and the cells that measure it share the host.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::PipelineError;
use crate::event::Event;

/// How often to retry a name held by another process.
const RETRY: Duration = Duration::from_millis(100);

pub(super) struct Exclusives {
    folder: PathBuf,
    held: BTreeMap<String, (File, usize)>,
}

impl Exclusives {
    pub(super) fn new(store_root: &Path) -> Self {
        Self {
            folder: store_root.join("locks"),
            held: BTreeMap::new(),
        }
    }

    /// Acquires names, waiting for other processes; returns false if the user stopped the wait.
    pub(super) fn acquire(
        &mut self,
        names: &[String],
        cancelled: &AtomicBool,
        listener: &dyn Fn(&Event),
    ) -> Result<bool, PipelineError> {
        let mut sorted: Vec<&String> = names.iter().collect();
        sorted.sort();
        for (i, name) in sorted.iter().enumerate() {
            if !self.acquire_one(name, cancelled, listener)? {
                let taken: Vec<String> = sorted[..i].iter().map(|n| (*n).clone()).collect();
                self.release(&taken);
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn acquire_one(
        &mut self,
        name: &str,
        cancelled: &AtomicBool,
        listener: &dyn Fn(&Event),
    ) -> Result<bool, PipelineError> {
        if let Some((_, count)) = self.held.get_mut(name) {
            *count += 1;
            return Ok(true);
        }
        let path = self.folder.join(format!("{}.lock", file_name(name)));
        let error = |e| PipelineError::Io(path.clone(), e);
        fs::create_dir_all(&self.folder).map_err(error)?;
        let file = artifacts::regular::unlinked()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(error)?;
        let mut announced = false;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(e)) => return Err(error(e)),
                Err(TryLockError::WouldBlock) => {}
            }
            if !std::mem::replace(&mut announced, true) {
                listener(&Event::Waiting {
                    exclusive: name.to_owned(),
                });
            }
            if cancelled.load(Ordering::Relaxed) {
                return Ok(false);
            }
            std::thread::sleep(RETRY);
        }
        self.held.insert(name.to_owned(), (file, 1));
        Ok(true)
    }

    pub(super) fn release(&mut self, names: &[String]) {
        for name in names {
            if let Some((_, count)) = self.held.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    self.held.remove(name);
                }
            }
        }
    }
}

/// Returns a unique file name for any name.
fn file_name(name: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    name.bytes()
        .map(|b| {
            if plain(b) {
                char::from(b).to_string()
            } else {
                format!("%{b:02x}")
            }
        })
        .collect()
}
