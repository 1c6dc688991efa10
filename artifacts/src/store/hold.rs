//! Holds: the records that live runs need. `gc` leaves them alone and does not stop any run.
//!
//! A run plans (looks up keys) under a shared lock on `gc.lock`, writes the records its plan rests on to a locked file
//! of its own in `holds`, and releases the lock. `gc` takes the lock exclusively only while it reads the holds, marks,
//! and removes rows from the index. It removes files after that, when no plan can find them any more. So runs and
//! sweeps proceed side by side, however long they last. The kernel releases both locks when a process dies.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::gc::remove;
use super::walk::{list, metadata_of};
use super::{Store, StoreError};
use crate::Digest;

/// The prefix of the second since the epoch at which the run began. Digests follow, one per line.
const SINCE: &str = "since ";

/// How long planning waits while `gc` marks.
const PATIENCE: Duration = Duration::from_secs(60);

/// A live run's claim on the objects it uses; ends when dropped, or with the process.
#[derive(Debug)]
pub struct Hold {
    file: tempfile::NamedTempFile,
    planning: Option<File>,
}

impl Store {
    /// Begins a run. `gc` waits until [`Hold::keep`], and keeps every object put before the hold is dropped.
    ///
    /// # Errors
    /// If a `gc` marks for longer than a minute, or the file system returns an error.
    #[expect(
        clippy::disallowed_methods,
        reason = "file ages are measured with the clock that sets their timestamps"
    )]
    pub fn hold(&self) -> Result<Hold, StoreError> {
        let folder = self.root.join("holds");
        fs::create_dir_all(&folder).map_err(StoreError::io(&folder))?;
        let planning = lock_file(&self.root.join("gc.lock"), File::try_lock_shared, PATIENCE)?;
        // A second earlier, since file systems use a coarser clock for timestamps. A clock that was never set begins in
        // 1970.
        let began = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs()
            .saturating_sub(1);
        let mut file = loop {
            let file = tempfile::Builder::new()
                .prefix("run-")
                .tempfile_in(&folder)
                .map_err(StoreError::io(&folder))?;
            file.as_file().lock().map_err(StoreError::io(file.path()))?;
            // Another run may have taken it for the file of a dead run before it was locked.
            if is_at(file.as_file(), file.path())? {
                break file;
            }
        };
        self.forget_dead_holds()?;
        writeln!(file, "{SINCE}{began}").map_err(StoreError::io(file.path()))?;
        Ok(Hold {
            file,
            planning: Some(planning),
        })
    }

    /// Removes the files that dead runs left.
    fn forget_dead_holds(&self) -> Result<(), StoreError> {
        for path in list(&self.root.join("holds"))? {
            let Some(file) = open_if_there(&path)? else {
                continue;
            };
            if file.try_lock().is_ok() {
                remove(&path)?;
            }
        }
        Ok(())
    }

    /// Returns the records that live runs hold and when the oldest run began. Removes the files of dead runs. The
    /// caller has `gc.lock` exclusively, so no run is planning.
    pub(super) fn read_holds(&self) -> Result<(Vec<Digest>, Option<SystemTime>), StoreError> {
        let (mut held, mut since) = (Vec::new(), None::<SystemTime>);
        for path in list(&self.root.join("holds"))? {
            // Removed since the listing: its run has ended.
            let Some(file) = open_if_there(&path)? else {
                continue;
            };
            match file.try_lock() {
                Ok(()) => fs::remove_file(&path).map_err(StoreError::io(&path))?,
                Err(TryLockError::Error(e)) => return Err(StoreError::Io(path, e)),
                Err(TryLockError::WouldBlock) => {
                    let text = crate::regular::read_text(&path).map_err(StoreError::io(&path))?;
                    held.extend(text.lines().filter_map(|line| line.parse::<Digest>().ok()));
                    let began = text
                        .lines()
                        .find_map(|line| line.strip_prefix(SINCE)?.parse().ok());
                    let began = UNIX_EPOCH.checked_add(Duration::from_secs(began.unwrap_or(0)));
                    let began = began.unwrap_or(UNIX_EPOCH);
                    since = Some(since.map_or(began, |earlier| earlier.min(began)));
                }
            }
        }
        Ok((held, since))
    }
}

impl Hold {
    /// Ends planning. These records and everything they refer to stay until the hold is dropped, in addition to records
    /// kept before.
    ///
    /// # Errors
    /// If the file system returns an error.
    pub fn keep(&mut self, records: &[Digest]) -> Result<(), StoreError> {
        let mut text = String::new();
        for record in records {
            text.push_str(&format!("{record}\n"));
        }
        self.file
            .write_all(text.as_bytes())
            .map_err(StoreError::io(self.file.path()))?;
        drop(self.planning.take());
        Ok(())
    }
}

/// Returns whether an open file is still the one at its path.
fn is_at(file: &File, path: &Path) -> Result<bool, StoreError> {
    let ours = file.metadata().map_err(StoreError::io(path))?;
    let there = metadata_of(path)?;
    Ok(there.is_some_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())))
}

fn open_if_there(path: &Path) -> Result<Option<File>, StoreError> {
    match crate::regular::open(path) {
        Ok((file, _)) => Ok(Some(file)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(StoreError::Io(path.to_owned(), e)),
    }
}

/// Opens and locks a file, retrying until `patience` runs out.
pub(super) fn lock_file(
    path: &Path,
    attempt: fn(&File) -> Result<(), TryLockError>,
    patience: Duration,
) -> Result<File, StoreError> {
    let mut options = OpenOptions::new();
    let file = options
        .create(true)
        .append(true)
        .open(path)
        .map_err(StoreError::io(path))?;
    let began = Instant::now();
    loop {
        match attempt(&file) {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(e)) => return Err(StoreError::Io(path.to_owned(), e)),
            Err(TryLockError::WouldBlock) if began.elapsed() >= patience => {
                return Err(StoreError::Busy(path.to_owned()));
            }
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(5)),
        }
    }
}
