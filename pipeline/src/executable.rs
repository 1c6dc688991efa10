//! The files of programs: where they are, whether they can be executed, and their digests.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use artifacts::{Digest, lock};
use rustix::fs::{Access, access};

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
    let kept = lock(&DIGESTS).get(&path).copied();
    if let Some((then, digest)) = kept
        && then == stamp
    {
        return Ok(digest);
    }
    let digest = Digest::of_large_file(&path)?;
    lock(&DIGESTS).insert(path, (stamp, digest));
    Ok(digest)
}

/// Returns whether a path leads to a file that this process may execute.
pub fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

/// Returns the path of a program in the first of these folders that has it. Like a shell, it skips files that cannot be
/// executed. A name with a slash is a path: the program is that file, and the attempt to execute it says what is wrong
/// with it.
pub fn find(name: &str, folders: impl IntoIterator<Item = impl AsRef<Path>>) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    folders
        .into_iter()
        .map(|folder| folder.as_ref().join(name))
        .find(|path| is_executable(path))
}

/// Puts a command into a virtual environment: its programs come first on the search path, before those on `path`.
///
/// # Errors
/// If the path of the environment cannot be on a search path.
pub fn activate(command: &mut Command, venv: &Path, path: &OsStr) -> io::Result<()> {
    let folders = std::iter::once(venv.join("bin")).chain(std::env::split_paths(path));
    let path = std::env::join_paths(folders).map_err(io::Error::other)?;
    command.env("PATH", path).env("VIRTUAL_ENV", venv);
    Ok(())
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
    use std::os::unix::fs::PermissionsExt as _;

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

    #[test]
    fn a_file_that_cannot_be_executed_does_not_hide_a_program_behind_it() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folders = [first.path(), second.path()];
        assert_eq!(find("program", folders), None);
        fs::write(first.path().join("program"), "").unwrap();
        assert_eq!(find("program", folders), None);
        let program = second.path().join("program");
        fs::write(&program, "").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find("program", folders), Some(program));
        let path = first.path().join("program");
        assert_eq!(find(path.to_str().unwrap(), folders), Some(path));
        assert_eq!(find("./no-such-program", folders), None);
    }
}
