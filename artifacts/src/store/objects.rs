//! Objects: bytes written to files and read back, with checks.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Seek, Write};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use bytes::Bytes;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW};

use super::index::Index;
use super::{HistoryLine, StoreError};
use crate::{ActionKey, Digest, lock};

/// A store of immutable objects under one directory; safe to share between threads, and between processes that each
/// have their own `Store`.
#[derive(Debug)]
pub struct Store {
    pub(super) root: PathBuf,
    /// The folder of the objects. It is elsewhere if this store lies over the objects of another one.
    pub(super) objects: PathBuf,
    /// The index, open from the start unless this process may not write to the store. Reading objects does not need it.
    index: OnceLock<Mutex<Index>>,
    /// Objects of this process that are in place but not yet durable, with their sizes in bytes.
    pub(super) pending: Mutex<BTreeMap<Digest, u64>>,
    /// Serializes commits: a second one finds the work of the first done.
    pub(super) turn: Mutex<()>,
    /// Where missing objects come from.
    source: Option<Arc<dyn ObjectSource>>,
    /// The total bytes of all objects opened for reading; an object counts each time.
    opened: AtomicU64,
}

/// Another store, with objects that this one lacks.
pub trait ObjectSource: std::fmt::Debug + Send + Sync {
    /// Puts an object into a store and checks its bytes against its name.
    ///
    /// # Errors
    /// [`StoreError::Missing`] if the source lacks it too, [`StoreError::Source`] if it cannot be fetched.
    fn fetch(&self, digest: &Digest, into: &Store) -> Result<(), StoreError>;
}

impl Store {
    /// Opens the store under `root`, creating it if needed. A store that this process may not write can still be read;
    /// every call that needs the index fails.
    ///
    /// # Errors
    /// If the folder contains links or files of another program, the folders cannot be created, or the index cannot be
    /// opened.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        super::own::check(root)?;
        let objects = root.join("objects");
        fs::create_dir_all(&objects).map_err(StoreError::io(&objects))?;
        Self::open_checked(root)
    }

    /// Opens the store under `root`.
    ///
    /// # Errors
    /// If no store exists, it contains links, or the index cannot be opened.
    pub fn open_existing(root: &Path) -> Result<Self, StoreError> {
        super::own::check(root)?;
        Self::open_checked(root)
    }

    /// Opens the store under `root`, which was checked.
    pub(super) fn open_checked(root: &Path) -> Result<Self, StoreError> {
        let objects = root.join("objects");
        if !objects.is_dir() {
            return Err(StoreError::NoStore(root.to_owned()));
        }
        // Messages name the place where the objects are.
        let objects = fs::read_link(&objects).unwrap_or(objects);
        let temporary = root.join("tmp");
        let index = fs::create_dir_all(&temporary)
            .map_err(StoreError::io(&temporary))
            .and_then(|()| Index::open(root));
        let index = match index {
            Ok(index) => OnceLock::from(Mutex::new(index)),
            Err(error) if error.is_read_only() => OnceLock::new(),
            Err(error) => return Err(error),
        };
        Ok(Self {
            root: root.to_owned(),
            objects,
            index,
            pending: Mutex::default(),
            turn: Mutex::default(),
            source: None,
            opened: AtomicU64::new(0),
        })
    }

    /// Reads through to `source`: an object that is missing when it is read is fetched from there and kept.
    #[must_use]
    pub fn with_source(mut self, source: Arc<dyn ObjectSource>) -> Self {
        self.source = Some(source);
        self
    }

    /// Opens the file of an object for reading; fetches the object first if it is missing.
    fn open_object(&self, digest: &Digest, path: &Path) -> Result<(File, u64), StoreError> {
        let opened = match (open_regular(path), &self.source) {
            (Err(e), Some(source)) if e.kind() == io::ErrorKind::NotFound => {
                source.fetch(digest, self)?;
                open_regular(path).map_err(|e| unread(digest, path, e))
            }
            (opened, _) => opened.map_err(|e| unread(digest, path, e)),
        }?;
        self.opened.fetch_add(opened.1, Ordering::Relaxed);
        Ok(opened)
    }

    /// Returns the total bytes of the objects read since the store was opened; an object counts each time it is read.
    /// Tests use it to see whether work grows with the part of the data it concerns.
    pub fn bytes_read(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Returns the index.
    ///
    /// # Errors
    /// If the index is not open yet and cannot be opened.
    pub(super) fn index(&self) -> Result<MutexGuard<'_, Index>, StoreError> {
        if let Some(open) = self.index.get() {
            return Ok(lock(open));
        }
        let opened = Index::open(&self.root)?;
        Ok(lock(self.index.get_or_init(|| Mutex::new(opened))))
    }

    /// Returns the store's directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of the object with this digest, whether or not it exists.
    pub fn path(&self, digest: &Digest) -> PathBuf {
        let hex = digest.hex();
        self.objects.join(&hex[..2]).join(&hex[2..])
    }

    /// Returns whether the object exists (does not check its bytes).
    pub fn contains(&self, digest: &Digest) -> bool {
        fs::symlink_metadata(self.path(digest)).is_ok_and(|m| m.is_file())
    }

    /// Returns whether the object exists and its bytes match its name. An object that the index lists as durable is not
    /// hashed again.
    ///
    /// # Errors
    /// If the file system or the index returns an error.
    pub fn is_whole(&self, digest: &Digest) -> Result<bool, StoreError> {
        match self.size(digest)? {
            None => Ok(false),
            Some(size) => self.is_kept(digest, size),
        }
    }

    /// Returns the size of an object in bytes; `None` if it is missing.
    ///
    /// # Errors
    /// If the file system returns an error.
    pub fn size(&self, digest: &Digest) -> Result<Option<u64>, StoreError> {
        size_of(&self.path(digest))
    }

    /// Stores bytes and returns their digest. They are durable after the next [`Store::commit`].
    ///
    /// # Errors
    /// If the file system returns an error.
    pub fn put(&self, bytes: &[u8]) -> Result<Digest, StoreError> {
        let digest = hash_bytes(bytes);
        let size = bytes.len() as u64;
        if !self.is_kept(&digest, size)? {
            let mut file = self.temporary()?;
            file.write_all(bytes).map_err(StoreError::io(file.path()))?;
            let path = self.place_for(&digest)?;
            file.persist(&path)
                .map_err(|e| StoreError::Io(path, e.error))?;
            self.add_pending(digest, size);
        }
        Ok(digest)
    }

    /// Moves a file into the store and returns the digest of its bytes. Renames a regular file with one name on the
    /// same file system; copies and removes any other.
    ///
    /// The caller gives up the file: nothing may write to it afterwards.
    ///
    /// # Errors
    /// If the file cannot be read or moved.
    pub fn put_file(&self, source: &Path) -> Result<Digest, StoreError> {
        let at_source = |e| StoreError::Io(source.to_owned(), e);
        let metadata = fs::symlink_metadata(source).map_err(at_source)?;
        if metadata.is_file() && metadata.nlink() == 1 {
            let (digest, size) = hash_file(source)?;
            if self.is_kept(&digest, size)? {
                fs::remove_file(source).map_err(at_source)?;
                return Ok(digest);
            }
            if touch(source).is_ok() {
                let path = self.place_for(&digest)?;
                fs::set_permissions(source, Permissions::from_mode(0o444)).map_err(at_source)?;
                match fs::rename(source, &path) {
                    Ok(()) => {
                        self.add_pending(digest, size);
                        return Ok(digest);
                    }
                    Err(e) if e.kind() == io::ErrorKind::CrossesDevices => {}
                    Err(e) => return Err(StoreError::Io(path, e)),
                }
            }
        }
        self.copy_in(source)
    }

    /// Moves a file into the store by copying it.
    fn copy_in(&self, source: &Path) -> Result<Digest, StoreError> {
        let digest = self.put_copy(source)?;
        fs::remove_file(source).map_err(|e| StoreError::Io(source.to_owned(), e))?;
        Ok(digest)
    }

    /// Copies a file that its owner keeps, and returns the digest of the copy. So the digest is right even if the
    /// source changes meanwhile. Only one chunk of the file is in memory at a time.
    ///
    /// # Errors
    /// If the file cannot be read or the store cannot be written.
    pub fn put_copy(&self, source: &Path) -> Result<Digest, StoreError> {
        let at_source = |e| StoreError::Io(source.to_owned(), e);
        let mut copy = self.temporary()?;
        let mut original = File::open(source).map_err(at_source)?;
        io::copy(&mut original, copy.as_file_mut()).map_err(StoreError::io(copy.path()))?;
        let (digest, size) = hash_file(copy.path())?;
        if !self.is_kept(&digest, size)? {
            let path = self.place_for(&digest)?;
            copy.persist(&path)
                .map_err(|e| StoreError::Io(path, e.error))?;
            self.add_pending(digest, size);
        }
        Ok(digest)
    }

    /// Returns whether an object exists and is whole, without reading it if it is durable. From now on, a collection in
    /// progress spares it.
    ///
    /// # Errors
    /// If the file system or the index returns an error.
    pub fn keeps(&self, digest: &Digest) -> Result<bool, StoreError> {
        match self.size(digest)? {
            Some(size) => self.is_kept(digest, size),
            None => Ok(false),
        }
    }

    /// Returns the bytes of an object, after checking them against its name.
    ///
    /// # Errors
    /// If the object is missing or damaged, or the file system returns an error.
    pub fn get(&self, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        self.get_at_most(digest, u64::MAX)
    }

    /// Returns the bytes of a record or another JSON document, as [`Store::get`] does.
    ///
    /// # Errors
    /// Same as [`Store::get`], and if it has more than 256 MiB.
    pub fn get_document(&self, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        self.get_at_most(digest, DOCUMENT_BYTES)
    }

    fn get_at_most(&self, digest: &Digest, most: u64) -> Result<Vec<u8>, StoreError> {
        let path = self.path(digest);
        let wrong = |e| unread(digest, &path, e);
        let (mut file, size) = self.open_object(digest, &path)?;
        if size > most {
            return Err(StoreError::TooLarge(*digest, size, most));
        }
        if size > HASHED_FIRST {
            let mut hasher = blake3::Hasher::new();
            hasher
                .update_reader((&mut file).take(size))
                .map_err(wrong)?;
            if hasher.finalize().as_bytes() != digest.as_bytes() {
                return Err(StoreError::Damaged(*digest, path));
            }
            file.rewind().map_err(wrong)?;
        }
        let mut bytes = crate::regular::reserved(size).map_err(wrong)?;
        file.take(size).read_to_end(&mut bytes).map_err(wrong)?;
        if hash_bytes(&bytes) != *digest {
            return Err(StoreError::Damaged(*digest, path));
        }
        Ok(bytes)
    }

    /// Returns parts of an object. Checks all of its bytes against its name, but keeps only the parts. The ranges must
    /// ascend and not overlap; a part that exceeds the object ends where the object ends.
    ///
    /// # Errors
    /// Same as [`Store::get`].
    pub fn get_parts(
        &self,
        digest: &Digest,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Bytes>, StoreError> {
        let path = self.path(digest);
        let wrong = |e| unread(digest, &path, e);
        // The requested ranges may come from bytes that are not yet checked, so they are limited to the file's size.
        let (file, size) = self.open_object(digest, &path)?;
        let length = |range: &Range<u64>| range.end.min(size).saturating_sub(range.start) as usize;
        // One allocation: an allocator tends to return several large blocks to the system, and faulting fresh pages in
        // costs as much as hashing.
        let mut kept = Vec::with_capacity(ranges.iter().map(length).sum());
        let (mut hasher, mut at) = (blake3::Hasher::new(), 0);
        let mut piece = Vec::with_capacity(PIECE);
        while (&file)
            .take(PIECE as u64)
            .read_to_end(&mut piece)
            .map_err(wrong)?
            > 0
        {
            hasher.update(&piece);
            let end = at + piece.len() as u64;
            for range in ranges {
                let (from, to) = (range.start.max(at), range.end.min(end));
                if from < to {
                    kept.extend_from_slice(&piece[(from - at) as usize..(to - at) as usize]);
                }
            }
            at = end;
            piece.clear();
        }
        if hasher.finalize().as_bytes() != digest.as_bytes() {
            return Err(StoreError::Damaged(*digest, path));
        }
        let mut kept = Bytes::from(kept);
        Ok(ranges
            .iter()
            .map(|range| kept.split_to(length(range).min(kept.len())))
            .collect())
    }

    /// Returns whether an object exists and its bytes match its digest. Ignores the index, and does not keep the bytes
    /// in memory.
    ///
    /// # Errors
    /// If the file system returns an error.
    pub fn has_its_bytes(&self, digest: &Digest) -> Result<bool, StoreError> {
        let path = self.path(digest);
        if !self.contains(digest) {
            return Ok(false);
        }
        Ok(hash_file(&path)?.0 == *digest)
    }

    /// Moves a damaged object to quarantine, so that the same bytes are written again the next time they are put. Does
    /// nothing if the object is whole or missing.
    ///
    /// # Errors
    /// If the file system or the index returns an error.
    pub fn set_aside(&self, digest: &Digest) -> Result<(), StoreError> {
        let path = self.path(digest);
        if self.has_its_bytes(digest)? || fs::symlink_metadata(&path).is_err() {
            return Ok(());
        }
        self.quarantine(&path)?;
        self.index()?.distrust(digest)
    }

    /// Returns the newest cacheable result of a key.
    ///
    /// # Errors
    /// If the index returns an error.
    pub fn record_for(&self, key: &ActionKey) -> Result<Option<super::Cached>, StoreError> {
        self.index()?.record_for(key)
    }

    /// Returns all cacheable results of a key, newest first.
    ///
    /// # Errors
    /// If the index returns an error.
    pub fn records_for(&self, key: &ActionKey) -> Result<Vec<super::Cached>, StoreError> {
        self.index()?.records_for(key)
    }

    /// Returns the executions of a stage (at the given coordinates, or at any), newest first, including failures; at
    /// most `limit` lines.
    ///
    /// # Errors
    /// If the index returns an error.
    pub fn history(
        &self,
        experiment: &str,
        stage: &str,
        coordinates: Option<&str>,
        limit: usize,
    ) -> Result<Vec<HistoryLine>, StoreError> {
        self.index()?.history(experiment, stage, coordinates, limit)
    }

    /// Returns every record that the index names, including failures.
    ///
    /// # Errors
    /// If the index returns an error.
    pub fn records(&self) -> Result<Vec<Digest>, StoreError> {
        Ok(self.index()?.records()?.into_iter().collect())
    }

    /// Removes the rows that name a record, so that it can never be a cache hit again. The record itself stays until
    /// `gc`.
    ///
    /// # Errors
    /// If the index returns an error.
    pub fn retire(&self, record: &Digest) -> Result<(), StoreError> {
        self.index()?.retire(&[*record])
    }

    /// Returns whether the object is in place and trusted. Hashes it first if it is neither pending in this process nor
    /// durable in the index; the caller replaces a damaged one.
    ///
    /// Touches the file before checking it, because `gc` spares files touched since it marked.
    fn is_kept(&self, digest: &Digest, size: u64) -> Result<bool, StoreError> {
        let path = self.path(digest);
        // A file that is missing, or that belongs to another user, is written again.
        if touch(&path).is_err() || size_of(&path)? != Some(size) {
            return Ok(false);
        }
        if lock(&self.pending).contains_key(digest) || self.index()?.size_of(digest)? == Some(size)
        {
            return Ok(true);
        }
        if hash_file(&path)?.0 != *digest {
            return Ok(false);
        }
        self.add_pending(*digest, size);
        Ok(true)
    }

    fn add_pending(&self, digest: Digest, size: u64) {
        lock(&self.pending).insert(digest, size);
    }

    fn temporary(&self) -> Result<tempfile::NamedTempFile, StoreError> {
        let folder = self.root.join("tmp");
        tempfile::Builder::new()
            .prefix("put-")
            .permissions(Permissions::from_mode(0o444))
            .tempfile_in(&folder)
            .map_err(StoreError::io(&folder))
    }

    /// Returns the object's path, and creates its folder.
    fn place_for(&self, digest: &Digest) -> Result<PathBuf, StoreError> {
        let path = self.path(digest);
        let folder = path.parent().expect("an object lies in a folder");
        match fs::create_dir(folder) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                Err(StoreError::Io(folder.to_owned(), e))
            }
            _ => Ok(path),
        }
    }
}

/// Returns a regular file's size in bytes; `None` if no file exists.
pub(super) fn size_of(path: &Path) -> Result<Option<u64>, StoreError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(Some(metadata.len())),
        Ok(_) => Ok(None),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(StoreError::Io(path.to_owned(), e)),
    }
}

/// Opens an object's file and returns its size in bytes. A store may come from another party, so a link, a FIFO or a
/// device in an object's place is never read.
fn open_regular(path: &Path) -> io::Result<(File, u64)> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

/// Returns the error for an object's file that cannot be read.
fn unread(digest: &Digest, path: &Path, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::NotFound => StoreError::Missing(*digest),
        _ => StoreError::Io(path.to_owned(), error),
    }
}

/// Bytes read and hashed at once: few enough to stay in a processor's cache until the wanted part is copied.
const PIECE: usize = 1 << 18;

/// The size in bytes of the largest record or other JSON document.
const DOCUMENT_BYTES: u64 = 256 << 20;

/// The size in bytes from which an object is hashed before room is made for it in memory. A damaged file, or one with a
/// hole, can have any size.
const HASHED_FIRST: u64 = 256 << 20;

/// The size in bytes from which hashing uses all cores.
const LARGE: usize = 1 << 17;

/// Returns the digest of bytes in memory; uses all cores for large inputs.
pub(super) fn hash_bytes(bytes: &[u8]) -> Digest {
    if bytes.len() < LARGE {
        return Digest::of(bytes);
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update_rayon(bytes);
    Digest::from_bytes(*hasher.finalize().as_bytes())
}

/// Returns the digest and size of a file. A large file is mapped and hashed on all cores.
pub(super) fn hash_file(path: &Path) -> Result<(Digest, u64), StoreError> {
    let (_, size) = open_regular(path).map_err(StoreError::io(path))?;
    if size < LARGE as u64 {
        let bytes = fs::read(path).map_err(StoreError::io(path))?;
        return Ok((Digest::of(&bytes), bytes.len() as u64));
    }
    let mut hasher = blake3::Hasher::new();
    hasher
        .update_mmap_rayon(path)
        .map_err(StoreError::io(path))?;
    Ok((
        Digest::from_bytes(*hasher.finalize().as_bytes()),
        hasher.count(),
    ))
}

/// Sets a file's modification time to now.
fn touch(path: &Path) -> io::Result<()> {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    let times = Timestamps {
        last_access: now,
        last_modification: now,
    };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(())
}
