//! Remembered digests of files that the store does not own, matched by their file-system metadata.
//!
//! Derived data: if the store's file of digests is deleted, the next plan hashes these files again.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::Digest;

/// The file's name in the store, next to the objects.
const FILE: &str = "known-files.json";

/// Hashing a smaller file is as fast as looking it up.
const WORTHWHILE: u64 = 1 << 20;

/// A file changed less than this many nanoseconds ago may change again within one tick of the file system's clock.
const SETTLED_NS: i128 = 2_000_000_000;

/// The metadata that shows whether a file is still the one that was hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified_ns: i64,
    changed_ns: i64,
}

impl FileStamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified_ns: metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec(),
            changed_ns: metadata.ctime() * 1_000_000_000 + metadata.ctime_nsec(),
        }
    }

    /// Returns whether the file is large enough to be remembered, and last changed long enough ago.
    #[expect(
        clippy::disallowed_methods,
        reason = "file ages are measured with the clock that sets their timestamps"
    )]
    fn is_worthwhile(&self) -> bool {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| i128::try_from(since.as_nanos()).unwrap_or(0));
        let last = self.modified_ns.max(self.changed_ns);
        self.bytes >= WORTHWHILE && now - i128::from(last) > SETTLED_NS
    }
}

/// A file's digest, and the stamp to remember it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileDigest {
    /// The digest of the file's bytes.
    pub digest: Digest,
    /// `None` if the file is small or may still change unnoticed.
    pub stamp: Option<FileStamp>,
}

impl FileDigest {
    /// Hashes a regular file of at most `most_bytes` bytes, in chunks.
    ///
    /// # Errors
    /// If the file cannot be read, is larger, is not a regular file, or changes while it is read.
    pub fn of(path: &Path, most_bytes: u64) -> io::Result<Self> {
        let stamp = stamp(path, most_bytes)?;
        let digest = Digest::of_file(path)?;
        if FileStamp::of(&fs::metadata(path)?) != stamp {
            return Err(io::Error::other("it changed while it was read"));
        }
        Ok(Self {
            digest,
            stamp: Some(stamp).filter(FileStamp::is_worthwhile),
        })
    }
}

/// Returns the stamp of a regular file. Reading a FIFO could block for ever, and a device has no end.
fn stamp(path: &Path, most_bytes: u64) -> io::Result<FileStamp> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if metadata.len() > most_bytes {
        let bytes = metadata.len();
        return Err(io::Error::other(format!(
            "it has {bytes} bytes; the limit is {most_bytes}"
        )));
    }
    Ok(FileStamp::of(&metadata))
}

/// The digests that a store remembers.
#[derive(Clone, Debug, Default)]
pub struct KnownFiles(BTreeMap<PathBuf, (FileStamp, Digest)>);

impl KnownFiles {
    /// Reads the digests that the store in a folder remembers; empty if it has no such file or the file cannot be read.
    pub fn of_store(root: &Path) -> Self {
        let bytes = fs::read(root.join(FILE)).unwrap_or_default();
        Self(serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// Returns the digest of a file: the remembered one if the file is unchanged, otherwise that of [`FileDigest::of`].
    ///
    /// # Errors
    /// Same as [`FileDigest::of`].
    pub fn digest(&self, path: &Path, most_bytes: u64) -> io::Result<FileDigest> {
        let remembered = self.0.get(&std::path::absolute(path)?);
        let now = stamp(path, most_bytes)?;
        match remembered {
            Some((stamp, digest)) if *stamp == now => Ok(FileDigest {
                digest: *digest,
                stamp: Some(now),
            }),
            _ => FileDigest::of(path, most_bytes),
        }
    }

    /// Remembers digests for later processes, and forgets files that no longer exist.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn remember<'a>(
        root: &Path,
        files: impl IntoIterator<Item = (&'a Path, FileStamp, Digest)>,
    ) -> io::Result<()> {
        let before = Self::of_store(root).0;
        let mut merged = before.clone();
        // A path that is not UTF-8 cannot be a JSON key.
        for (path, stamp, digest) in files.into_iter().filter(|f| f.0.to_str().is_some()) {
            merged.insert(std::path::absolute(path)?, (stamp, digest));
        }
        if merged == before {
            return Ok(());
        }
        merged.retain(|path, _| path.exists());
        let mut file = tempfile::NamedTempFile::new_in(root)?;
        serde_json::to_writer(&mut file, &merged)?;
        file.persist(root.join(FILE))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    const MOST: u64 = 1 << 30;

    /// A file of 2 MiB.
    fn large(folder: &Path) -> PathBuf {
        let path = folder.join("large");
        fs::write(&path, vec![7; 2 << 20]).unwrap();
        path
    }

    #[test]
    fn a_file_that_is_as_it_was_is_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = large(folder.path());
        let stamp = FileStamp::of(&fs::metadata(&path).unwrap());
        // This digest matches no real content, so returning it shows that the file was not read.
        let digest = Digest::of(b"remembered");
        KnownFiles::remember(folder.path(), [(path.as_path(), stamp, digest)]).unwrap();
        let files = KnownFiles::of_store(folder.path());
        assert_eq!(files.digest(&path, MOST).unwrap().digest, digest);
        // Different bytes of the same length, and the old modification time.
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, vec![8; 2 << 20]).unwrap();
        File::open(&path).unwrap().set_modified(modified).unwrap();
        let now = files.digest(&path, MOST).unwrap();
        assert_eq!(now.digest, Digest::of(&vec![8; 2 << 20]));
        assert_eq!(now.stamp, None, "it was changed just now");
    }

    #[test]
    fn a_file_that_is_gone_is_forgotten_and_nonsense_is_no_knowledge() {
        let folder = tempfile::tempdir().unwrap();
        let path = large(folder.path());
        let stamp = FileStamp::of(&fs::metadata(&path).unwrap());
        let digest = Digest::of(b"x");
        let gone = folder.path().join("gone");
        let both = [(path.as_path(), stamp, digest), (&gone, stamp, digest)];
        KnownFiles::remember(folder.path(), both).unwrap();
        assert_eq!(KnownFiles::of_store(folder.path()).0.len(), 1);
        fs::write(folder.path().join(FILE), "{").unwrap();
        assert!(KnownFiles::of_store(folder.path()).0.is_empty());
    }

    #[test]
    fn what_is_no_file_or_too_large_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = large(folder.path());
        let why = |path: &Path, most| FileDigest::of(path, most).unwrap_err().to_string();
        assert_eq!(why(folder.path(), MOST), "it is not a regular file");
        assert_eq!(why(&path, 5), "it has 2097152 bytes; the limit is 5");
    }
}
