//! Roots: the files outside the store that name records, and the records that runs have executed since those files were
//! written.
//!
//! Before its first cell, a run registers the file that it will write at its end, and notes every record in a journal
//! beside it. So `gc` knows what depends on the store wherever you start it, and a run that is killed before it writes
//! its file loses nothing.
//!
//! ```text
//! roots/<64 digits>/place     the path of the file
//! roots/<64 digits>/written   exists once the file was written
//! roots/<64 digits>/run-…     the journal of a run; the run keeps it locked while it lives
//! ```

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::commit::sync_path;
use super::walk::list;
use super::{Store, StoreError};
use crate::Digest;

/// The prefix of a path in the folder that holds the store; the file may move together with the store.
const BESIDE: &[u8] = b"benchtrail root 1 beside\n";
/// The prefix of any other path.
const ABSOLUTE: &[u8] = b"benchtrail root 1 at\n";

/// A file outside the store that names records in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The file's path.
    pub file: PathBuf,
    /// Whether a run ever wrote it; if not, the file may be missing.
    pub written: bool,
    /// The records that runs executed since it was written, by run.
    pub journals: Vec<Noted>,
}

/// The records that one run executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// The records, in execution order.
    pub records: Vec<Digest>,
    /// Whether the run is still alive.
    pub live: bool,
}

/// The journal of a run. If dropped without [`Journal::close`], it stays for `gc` and the next run.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    path: PathBuf,
    file: File,
}

impl Store {
    /// Registers a file that will name records of this store, and begins a journal for it.
    ///
    /// # Errors
    /// If the file system returns an error.
    pub fn journal(&self, file: &Path) -> Result<Journal, StoreError> {
        let text = self.place_text(file)?;
        let folder = self.root.join("roots").join(Digest::of(&text).hex());
        fs::create_dir_all(&folder).map_err(StoreError::io(&folder))?;
        let turn = alone(&folder)?;
        let place = folder.join("place");
        if crate::regular::read(&place).ok().as_deref() != Some(text.as_slice()) {
            let mut new =
                tempfile::NamedTempFile::new_in(&folder).map_err(StoreError::io(&place))?;
            new.write_all(&text)
                .and_then(|()| new.as_file().sync_all())
                .map_err(StoreError::io(&place))?;
            new.persist(&place)
                .map_err(|e| StoreError::Io(place.clone(), e.error))?;
        }
        let journal = tempfile::Builder::new()
            .prefix("run-")
            .tempfile_in(&folder)
            .map_err(StoreError::io(&folder))?;
        let (file, path) = journal
            .keep()
            .map_err(|e| StoreError::Io(folder.clone(), e.error))?;
        file.lock().map_err(StoreError::io(&path))?;
        sync_path(&folder)?;
        sync_path(&self.root.join("roots"))?;
        drop(turn);
        Ok(Journal { folder, path, file })
    }

    /// Returns every registered file with its journals, sorted by path, except those of [`Store::broken_roots`]. Several
    /// projects may use one store, and what is wrong with one of them must not stop the others.
    ///
    /// # Errors
    /// If a folder cannot be listed, or a root is a link.
    pub fn roots(&self) -> Result<Vec<Root>, StoreError> {
        let (mut roots, _) = self.all_roots()?;
        roots.sort_by(|a, b| a.file.cmp(&b.file));
        Ok(roots)
    }

    /// Returns the folders of the roots that cannot be read, sorted: the records that they name are unknown, so nothing
    /// may be removed from the store.
    ///
    /// # Errors
    /// Same as [`Store::roots`].
    pub fn broken_roots(&self) -> Result<Vec<PathBuf>, StoreError> {
        let (_, mut broken) = self.all_roots()?;
        broken.sort();
        Ok(broken)
    }

    fn all_roots(&self) -> Result<(Vec<Root>, Vec<PathBuf>), StoreError> {
        let (mut roots, mut broken) = (Vec::new(), Vec::new());
        for folder in list(&self.root.join("roots"))? {
            own(&folder)?;
            match self.root_in(&folder) {
                Ok(Some(root)) => roots.push(root),
                // A run died before it executed anything, or is about to write `place`.
                Ok(None) => {}
                Err(_) => broken.push(folder),
            }
        }
        Ok((roots, broken))
    }

    /// Reads the root in a folder, whose name is the digest of its place; `None` if it has no place.
    fn root_in(&self, folder: &Path) -> io::Result<Option<Root>> {
        let text = match crate::regular::read(&folder.join("place")) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let name = Digest::of(&text).hex();
        let is_its_place = folder.file_name() == Some(OsStr::new(&name));
        let file = self.file_of(&text).filter(|_| is_its_place);
        let file = file.ok_or_else(|| io::Error::other("it is not the place of this folder"))?;
        Ok(Some(Root {
            file,
            written: folder.join("written").exists(),
            journals: journals(folder).map_err(|e| io::Error::other(e.to_string()))?,
        }))
    }

    /// Forgets a root that cannot be read: its folder goes to quarantine. Returns false if it is not one of
    /// [`Store::broken_roots`].
    ///
    /// # Errors
    /// If the file system returns an error, or a run of this root is alive.
    pub fn forget_broken_root(&self, folder: &Path) -> Result<bool, StoreError> {
        let broken = self.broken_roots()?;
        let real = |path: &Path| path.canonicalize().ok();
        let Some(folder) = broken.into_iter().find(|b| real(b) == real(folder)) else {
            return Ok(false);
        };
        let _turn = alone(&folder)?;
        // A run may be alive behind journals that cannot be read.
        if !journals(&folder).is_ok_and(|journals| journals.iter().all(|j| !j.live)) {
            return Err(StoreError::Busy(folder));
        }
        self.quarantine(&folder)?;
        Ok(true)
    }

    /// Returns the root registered for a file; `None` if no run ever registered it.
    ///
    /// # Errors
    /// If the root cannot be read.
    pub fn root_of(&self, file: &Path) -> Result<Option<Root>, StoreError> {
        let text = self.place_text(file)?;
        let folder = self.root.join("roots").join(Digest::of(&text).hex());
        own(&folder)?;
        if !folder.join("place").exists() {
            return Ok(None);
        }
        Ok(Some(Root {
            file: file.to_owned(),
            written: folder.join("written").exists(),
            journals: journals(&folder)?,
        }))
    }

    /// Forgets a registered file and its journals. Objects that nothing else refers to become garbage. Returns whether
    /// the file was registered.
    ///
    /// # Errors
    /// If the file system returns an error, or a run of this file is alive.
    pub fn forget_root(&self, file: &Path) -> Result<bool, StoreError> {
        let text = self.place_text(file)?;
        let folder = self.root.join("roots").join(Digest::of(&text).hex());
        own(&folder)?;
        if !folder.join("place").exists() {
            return Ok(false);
        }
        let _turn = alone(&folder)?;
        if journals(&folder)?.iter().any(|j| j.live) {
            return Err(StoreError::Busy(folder));
        }
        fs::remove_dir_all(&folder).map_err(StoreError::io(&folder))?;
        Ok(true)
    }

    /// Returns the content of `place` for a file. A path below the folder that holds the store is kept relative to it,
    /// because the two may move together.
    fn place_text(&self, file: &Path) -> Result<Vec<u8>, StoreError> {
        // The file's folder may be gone.
        let absolute = crate::resolved(file).map_err(StoreError::io(file))?;
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let root = real(&self.root);
        let relative = root.parent().and_then(|p| absolute.strip_prefix(p).ok());
        let (head, path) = match relative {
            Some(path) => (BESIDE, path),
            None => (ABSOLUTE, absolute.as_path()),
        };
        Ok([head, path.as_os_str().as_bytes()].concat())
    }

    fn file_of(&self, text: &[u8]) -> Option<PathBuf> {
        if let Some(path) = text.strip_prefix(ABSOLUTE) {
            return Some(PathBuf::from(OsString::from_vec(path.to_vec())));
        }
        let path = text.strip_prefix(BESIDE)?;
        let root = self.root.canonicalize().ok()?;
        Some(root.parent()?.join(OsStr::from_bytes(path)))
    }
}

impl Journal {
    /// Notes executed cells before they enter the index.
    ///
    /// # Errors
    /// If the file system returns an error.
    pub fn note<'d>(
        &mut self,
        records: impl IntoIterator<Item = &'d Digest>,
    ) -> Result<(), StoreError> {
        let mut text = String::new();
        for record in records {
            text.push_str(&format!("{record}\n"));
        }
        // A single write, so that a concurrent reader sees whole lines.
        self.file
            .write_all(text.as_bytes())
            .map_err(StoreError::io(&self.path))
    }

    /// Ends the journal, once the file is written and names every record it needs. Also removes the journals of earlier
    /// dead runs, since this run took over the records they had executed.
    ///
    /// # Errors
    /// If the file system returns an error.
    pub fn close(self) -> Result<(), StoreError> {
        let _turn = alone(&self.folder)?;
        let written = self.folder.join("written");
        crate::regular::create(&written).map_err(StoreError::io(&written))?;
        super::gc::remove(&self.path)?;
        for path in journal_files(&self.folder)? {
            let Ok((file, _)) = crate::regular::open(&path) else {
                continue;
            };
            if file.try_lock().is_ok() {
                super::gc::remove(&path)?;
            }
        }
        sync_path(&self.folder)
    }
}

/// Checks that a folder is not a link to files of somebody else.
fn own(folder: &Path) -> Result<(), StoreError> {
    match folder.is_symlink() {
        true => Err(StoreError::Link(folder.to_owned())),
        false => Ok(()),
    }
}

/// Waits for other processes that begin or end a journal in this folder.
fn alone(folder: &Path) -> Result<File, StoreError> {
    own(folder)?;
    let file = File::open(folder).map_err(StoreError::io(folder))?;
    file.lock().map_err(StoreError::io(folder))?;
    Ok(file)
}

fn journal_files(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut files = list(folder)?;
    files.retain(|path| {
        let name = path.file_name().unwrap_or_default();
        name.as_bytes().starts_with(b"run-")
    });
    Ok(files)
}

fn journals(folder: &Path) -> Result<Vec<Noted>, StoreError> {
    let mut journals = Vec::new();
    for path in journal_files(folder)? {
        // Removed since the listing: its run has ended, and its file names the records it executed.
        let Some(text) = read_if_there(&path)? else {
            continue;
        };
        let live = match crate::regular::open(&path).map(|(file, _)| file.try_lock()) {
            Ok(Err(TryLockError::WouldBlock)) => true,
            Ok(Ok(()) | Err(TryLockError::Error(_))) | Err(_) => false,
        };
        // A line cut short by a power loss is ignored.
        let lines = text.split(|b| *b == b'\n').filter_map(|line| {
            let line = std::str::from_utf8(line).ok()?;
            line.parse().ok()
        });
        journals.push(Noted {
            records: lines.collect(),
            live,
        });
    }
    Ok(journals)
}

fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match crate::regular::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(StoreError::Io(path.to_owned(), e)),
    }
}
