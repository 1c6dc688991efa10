//! Temporary folders and files named after their process, so that a later process can remove what a killed one left.
//!
//! A number names a process only within its namespace, and containers may share a store. The process therefore also locks
//! its folder or file, and the kernel releases the lock with the process.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::process::ProcessId;

/// Makes an empty folder `PREFIX-PID-START-…` in `parent`, which is removed when dropped, and removes the folders of
/// dead processes.
///
/// # Errors
/// If `parent` cannot be read or written.
pub fn folder(parent: &Path, prefix: &str) -> io::Result<tempfile::TempDir> {
    sweep(parent, prefix)?;
    let ProcessId { pid, start_time } = ProcessId::own()?;
    loop {
        let made = tempfile::Builder::new()
            .prefix(&format!("{prefix}-{pid}-{start_time}-"))
            .tempdir_in(parent)?;
        if claim(made.path())? {
            return Ok(made);
        }
    }
}

/// The folders and files that this process has locked.
static CLAIMS: Mutex<Vec<(PathBuf, File)>> = Mutex::new(Vec::new());

/// Locks a new folder or file of this process until it is removed or the process ends. Returns whether it is still there:
/// another process may have taken it for one of a dead process before it was locked.
///
/// # Errors
/// If it cannot be opened for another reason than its absence.
pub fn claim(folder: &Path) -> io::Result<bool> {
    let missing = |e: &io::Error| e.kind() == io::ErrorKind::NotFound;
    let open = match open_itself(folder) {
        Err(e) if missing(&e) => return Ok(false),
        open => open?,
    };
    // A file system without locks is not shared by containers of one machine.
    let _unsupported = open.lock();
    let (ours, there) = (open.metadata()?, fs::symlink_metadata(folder));
    let same = match there {
        Err(e) if missing(&e) => false,
        there => {
            let there = there?;
            (there.dev(), there.ino()) == (ours.dev(), ours.ino())
        }
    };
    if same {
        let mut claims = artifacts::lock(&CLAIMS);
        claims.retain(|(path, _)| path.exists());
        claims.push((folder.to_owned(), open));
    }
    Ok(same)
}

/// Removes a folder or a file if its process is dead: it is not among those that this process sees, and nobody has locked
/// the folder or file.
///
/// # Errors
/// If `/proc` cannot be read, or it cannot be removed.
pub fn remove_of_dead(path: &Path, owner: ProcessId) -> io::Result<()> {
    if owner.is_alive()? {
        return Ok(());
    }
    // The lock is held until the folder is gone, so that nobody claims it meanwhile.
    let open = open_itself(path);
    let locked = open.as_ref().map(File::try_lock);
    let is_folder = fs::symlink_metadata(path).is_ok_and(|there| there.is_dir());
    match locked {
        Ok(Err(TryLockError::WouldBlock)) => Ok(()),
        _ if is_folder => remove(path),
        _ => unless_gone(fs::remove_file(path)),
    }
}

fn unless_gone(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|e| match e.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(e),
    })
}

/// Removes a folder with everything in it. A program may have left anything there, such as folders that nobody may write,
/// or more nested folders than a process may open files. Another process may also be removing it.
///
/// # Errors
/// If something in it belongs to another user, for example.
pub fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(_) => unless_gone(flatten(folder).and_then(|()| fs::remove_dir(folder))),
    }
}

/// Empties a folder. Moves nested folders up to it one after the other, so that no path becomes long, and at most two
/// folders are open.
fn flatten(folder: &Path) -> io::Result<()> {
    let top = open_folder(rustix::fs::CWD, folder.as_os_str())?;
    let mut moved = 0_u64;
    loop {
        let mut is_empty = true;
        for name in names(&top)? {
            is_empty = false;
            if unlink(&top, &name)? {
                continue;
            }
            let nested = open_folder(&top, &name)?;
            for inner in names(&nested)? {
                if unlink(&nested, &inner)? {
                    continue;
                }
                // A folder must be writable to be moved.
                drop(open_folder(&nested, &inner)?);
                loop {
                    moved += 1;
                    let to = format!("moved-{moved}");
                    match rustix::fs::renameat(&nested, &inner, &top, &to) {
                        Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                        renamed => break renamed?,
                    }
                }
            }
            rustix::fs::unlinkat(&top, &name, AtFlags::REMOVEDIR)?;
        }
        if is_empty {
            return Ok(());
        }
    }
}

/// Opens a folder, but no link, after making it readable and writable.
fn open_folder(parent: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let itself = rustix::fs::openat(parent, name, flags | OFlags::PATH, Mode::empty())?;
    let path = format!("/proc/self/fd/{}", itself.as_raw_fd());
    let _checked_below = fs::set_permissions(&path, fs::Permissions::from_mode(0o700));
    let opened = rustix::fs::openat(&itself, ".", flags | OFlags::RDONLY, Mode::empty())?;
    Ok(opened)
}

/// Returns the names in a folder.
fn names(folder: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(folder)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    Ok(names)
}

/// Removes a file; returns `false` for a folder.
fn unlink(folder: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        // Linux says the first, other systems the second.
        Err(Errno::ISDIR | Errno::PERM) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Opens a folder or a file, but no link, and without waiting for the other end of a FIFO.
fn open_itself(folder: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let mut options = File::options();
    options.custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    options.read(true).open(folder)
}

/// Lets an empty `TMPDIR` count as none, as most programs do. The standard library takes it for the working folder.
pub fn settle() {
    if std::env::temp_dir().as_os_str().is_empty() {
        // It fails only if a place was chosen before.
        let _settled = tempfile::env::override_temp_dir(Path::new("/tmp"));
    }
}

/// Makes such a folder where the system keeps temporary files.
///
/// # Errors
/// If there is no such place, or it cannot be written; the error names the remedy.
pub fn of_the_system(prefix: &str) -> io::Result<tempfile::TempDir> {
    folder(&tempfile::env::temp_dir(), prefix).map_err(|e| {
        let message = format!(
            "temporary files cannot be written here ({e}); set `TMPDIR` to a folder that can be written"
        );
        io::Error::new(e.kind(), message)
    })
}

/// Removes the folders of dead processes.
pub(crate) fn sweep(parent: &Path, prefix: &str) -> io::Result<()> {
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let name = entry.file_name();
        let rest = name.to_str().and_then(|n| n.strip_prefix(prefix));
        let Some(owner) = rest.and_then(|r| owner(r.strip_prefix('-')?)) else {
            continue;
        };
        // Ignores a link or another user's folder with such a name.
        if entry.file_type()?.is_dir() {
            let _not_ours = remove_of_dead(&entry.path(), owner);
        }
    }
    Ok(())
}

/// Reads `PID-START-…`.
fn owner(text: &str) -> Option<ProcessId> {
    let mut parts = text.splitn(3, '-');
    let (pid, start_time) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next()?;
    Some(ProcessId { pid, start_time })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_dead_process_goes_and_that_of_a_living_one_stays() {
        let parent = tempfile::tempdir().unwrap();
        let ProcessId { pid, start_time } = ProcessId::own().unwrap();
        let living = parent.path().join(format!("work-{pid}-{start_time}-x"));
        let dead = parent
            .path()
            .join(format!("work-{pid}-{}-x", start_time + 1));
        let other = parent
            .path()
            .join(format!("other-{pid}-{}-x", start_time + 1));
        let strange = parent.path().join("work-1-notes");
        for path in [&living, &dead, &other, &strange] {
            fs::create_dir(path).unwrap();
            fs::write(path.join("file"), "").unwrap();
        }
        let made = folder(parent.path(), "work").unwrap();
        assert!(made.path().is_dir());
        assert_eq!(
            [
                living.exists(),
                dead.exists(),
                other.exists(),
                strange.exists()
            ],
            [true, false, true, true]
        );
    }

    #[test]
    fn a_folder_that_nobody_may_write_and_one_nested_a_thousand_times_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("work");
        let locked = folder.join("locked/inner");
        fs::create_dir_all(&locked).unwrap();
        fs::write(locked.join("file"), "").unwrap();
        // Names that the removal itself uses.
        fs::create_dir_all(folder.join("moved-1/full")).unwrap();
        fs::write(folder.join("moved-2"), "").unwrap();
        // A link is removed, and what it leads to stays.
        let kept = parent.path().join("kept");
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "").unwrap();
        std::os::unix::fs::symlink(&kept, locked.join("link")).unwrap();
        let mut deep = open_folder(rustix::fs::CWD, folder.as_os_str()).unwrap();
        for _ in 0..5000 {
            rustix::fs::mkdirat(&deep, "d", Mode::RWXU).unwrap();
            deep = open_folder(&deep, OsStr::new("d")).unwrap();
        }
        for path in [locked.as_path(), locked.parent().unwrap()] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
        }
        flatten(&folder).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        remove(&folder).unwrap();
        assert!(!folder.exists());
        remove(&folder).unwrap();
        assert!(kept.join("file").exists());
    }

    #[test]
    fn the_folder_of_a_process_in_another_namespace_stays_while_it_lives() {
        let parent = tempfile::tempdir().unwrap();
        let dead = ProcessId {
            pid: 1,
            start_time: u64::MAX,
        };
        let path = parent.path().join("work-1-1-x");
        fs::create_dir(&path).unwrap();
        // As a process of another container does, whose number means nothing here.
        let claimed = File::open(&path).unwrap();
        claimed.lock().unwrap();
        remove_of_dead(&path, dead).unwrap();
        assert!(path.is_dir());
        drop(claimed);
        remove_of_dead(&path, dead).unwrap();
        assert!(!path.exists());
        remove_of_dead(&path, dead).unwrap();
        assert!(!claim(&path).unwrap());
        let own = folder(parent.path(), "work").unwrap();
        remove_of_dead(own.path(), dead).unwrap();
        assert!(own.path().is_dir());
    }
}
