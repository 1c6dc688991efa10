//! Temporary folders named after their process, so that a later process can remove what a killed one left.

use std::fs;
use std::io;
use std::path::Path;

use crate::process::ProcessId;

/// Makes an empty folder `PREFIX-PID-START-…` in `parent`, which is removed when dropped, and removes the folders of
/// dead processes.
///
/// # Errors
/// If `parent` cannot be read or written.
pub fn folder(parent: &Path, prefix: &str) -> io::Result<tempfile::TempDir> {
    sweep(parent, prefix)?;
    let ProcessId { pid, start_time } = ProcessId::own()?;
    tempfile::Builder::new()
        .prefix(&format!("{prefix}-{pid}-{start_time}-"))
        .tempdir_in(parent)
}

/// Makes such a folder where the system keeps temporary files.
///
/// # Errors
/// If there is no such place, or it cannot be written; the error names the remedy.
pub fn of_the_system(prefix: &str) -> io::Result<tempfile::TempDir> {
    folder(&std::env::temp_dir(), prefix).map_err(|e| {
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
        if entry.file_type()?.is_dir() && !owner.is_alive()? {
            let _not_ours = fs::remove_dir_all(entry.path());
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
}
