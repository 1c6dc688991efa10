//! Files for the user that are there as a whole or not at all: a disk that fills up leaves the file that was there.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempPath;

/// Writes a file in place of the one that is there, in one step. A link still leads to the file that it leads to. What is
/// no regular file, such as a pipe, takes the bytes as they come.
///
/// # Errors
/// If the disk refuses; the file that was there is still there.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let there = match fs::metadata(path) {
        Ok(metadata) => Some(metadata),
        // A link that leads nowhere leads there afterwards.
        Err(_) if fs::symlink_metadata(path).is_ok() => return fs::write(path, bytes),
        Err(_) => None,
    };
    if there.as_ref().is_some_and(|metadata| !metadata.is_file()) {
        return fs::write(path, bytes);
    }
    let target = match there {
        Some(_) => {
            // What must not be written must not be replaced either.
            let _writable = File::options().write(true).open(path)?;
            fs::canonicalize(path)?
        }
        None => path.to_owned(),
    };
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let (mut file, beside) = match create_beside(folder) {
        Ok(created) => created,
        // A file can be writable in a folder that is not.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied && there.is_some() => {
            return fs::write(path, bytes);
        }
        Err(e) => return Err(e),
    };
    file.write_all(bytes)?;
    if let Some(there) = there {
        file.set_permissions(there.permissions())?;
    }
    file.sync_all()?;
    beside.persist(&target).map_err(|e| e.error)?;
    Ok(())
}

/// Creates a file with a name of its own, which is removed unless it gets another name. The library would put that name into
/// its errors, and it says nothing to the user.
fn create_beside(folder: &Path) -> io::Result<(File, TempPath)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!(".benchtrail-{}-{count}", std::process::id());
        let path = folder.join(name);
        match File::create_new(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
            Ok(file) => {
                let kept = TempPath::try_from_path(path)?;
                return Ok((file, kept));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_and_keeps_its_permissions_and_links() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        write(&file, b"one").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        write(&link, b"two").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"two");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        let names = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(names, 2, "nothing is left beside it");
    }

    #[test]
    fn a_device_takes_the_bytes_and_a_folder_that_is_missing_is_an_error() {
        write(Path::new("/dev/null"), b"x").unwrap();
        assert!(fs::metadata("/dev/null").is_ok_and(|m| !m.is_file()));
        let error = write(Path::new("/nowhere/at/all"), b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(!error.to_string().contains("nowhere"), "{error}");
    }
}
