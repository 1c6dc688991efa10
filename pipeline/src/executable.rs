//! The files of programs: whether they can be executed, and their digests.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use artifacts::Digest;

/// What differs if a file was written again: its place on the disk, its size, and the times of its changes.
type Stamp = ([u64; 3], [i64; 4]);

/// The digests of the files that this process has read. A plan asks for that of an interpreter once for each set of
/// parameters.
static DIGESTS: Mutex<BTreeMap<PathBuf, (Stamp, Digest)>> = Mutex::new(BTreeMap::new());

/// Returns the digest of a program's file, which may be large. Reads a file again only if it has changed.
///
/// # Errors
/// If the file cannot be read.
pub fn digest_of(path: &Path) -> io::Result<Digest> {
    let path = path.canonicalize()?;
    let stamp = stamp(&fs::metadata(&path)?);
    let kept = digests().get(&path).copied();
    if let Some((then, digest)) = kept
        && then == stamp
    {
        return Ok(digest);
    }
    let digest = Digest::of_large_file(&path)?;
    digests().insert(path, (stamp, digest));
    Ok(digest)
}

/// Returns whether a path leads to a file that someone may execute.
pub fn is_executable(path: &Path) -> bool {
    let permits =
        |metadata: Metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0;
    fs::metadata(path).is_ok_and(permits)
}

fn digests() -> MutexGuard<'static, BTreeMap<PathBuf, (Stamp, Digest)>> {
    DIGESTS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stamp(metadata: &Metadata) -> Stamp {
    let times = [
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec(),
    ];
    ([metadata.dev(), metadata.ino(), metadata.size()], times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_has_changed_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program");
        fs::write(&file, "one").unwrap();
        assert_eq!(digest_of(&file).unwrap(), Digest::of(b"one"));
        assert_eq!(digest_of(&file).unwrap(), Digest::of(b"one"));
        fs::write(&file, "another").unwrap();
        assert_eq!(digest_of(&file).unwrap(), Digest::of(b"another"));
        fs::remove_file(&file).unwrap();
        assert!(digest_of(&file).is_err());
    }
}
