//! A thorough check of unpacked packages: hashes every file, whatever its times are.
//!
//! Each use compares only sizes and stamps. That finds accidental and most deliberate changes. A
//! disk that flips a bit changes no stamp; this check finds it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use artifacts::Digest;

use crate::environment::{FILES, FOLDER, MANIFEST, Manifest, own_temporary};

/// The result of checking one folder of unpacked packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// The folder.
    pub folder: PathBuf,
    /// The number of files that it should have.
    pub files: usize,
    /// The number of hashed bytes.
    pub bytes: u64,
    /// The problems, one sentence per file; empty if the files are as unpacked.
    pub wrong: Vec<String>,
}

/// The layout of one kind of folder below the store.
struct Layout {
    folder: &'static str,
    manifest: &'static str,
    files: &'static str,
    /// Whether the folder may contain only what the manifest names.
    closed: bool,
}

const LAYOUTS: [Layout; 2] = [
    Layout {
        folder: FOLDER,
        manifest: MANIFEST,
        files: FILES,
        closed: true,
    },
    // Python writes its caches during runs.
    Layout {
        folder: "venvs",
        manifest: "complete.json",
        files: "env",
        closed: false,
    },
];

/// Hashes every file in the store that was unpacked or installed from a package.
///
/// # Errors
/// If such a folder cannot be listed.
pub fn check_unpacked(store: &Path) -> io::Result<Vec<Unpacked>> {
    let mut damage = Vec::new();
    for layout in &LAYOUTS {
        let entries = match fs::read_dir(store.join(layout.folder)) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(e),
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let named = |n: &str| n.len() == 64 && n.bytes().all(|b| b.is_ascii_hexdigit());
            // An unfinished folder has another name, or no manifest yet.
            let made = layout.closed || entry.path().join(layout.manifest).exists();
            if made && name.to_str().is_some_and(named) {
                damage.push(look(&entry.path(), layout));
            }
        }
    }
    damage.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok(damage)
}

/// Removes a damaged folder, so that the next run rebuilds it.
///
/// # Errors
/// If it cannot be moved or removed.
pub fn remove_unpacked(damaged: &Unpacked) -> io::Result<()> {
    let all = damaged.folder.parent().unwrap_or(Path::new("."));
    // Move it aside first: an interrupted removal must not leave a folder that looks complete.
    let aside = own_temporary(all)?;
    fs::rename(&damaged.folder, aside.path().join("damaged"))?;
    aside.close()
}

fn look(folder: &Path, layout: &Layout) -> Unpacked {
    let mut look = Unpacked {
        folder: folder.to_owned(),
        files: 0,
        bytes: 0,
        wrong: Vec::new(),
    };
    let read = fs::read(folder.join(layout.manifest)).map_err(|e| e.to_string());
    let manifest: Result<Manifest, String> =
        read.and_then(|bytes| serde_json::from_slice(&bytes).map_err(|e| e.to_string()));
    let manifest = match manifest {
        Ok(manifest) => manifest,
        Err(why) => {
            let name = layout.manifest;
            look.wrong.push(format!("{name} cannot be read: {why}"));
            return look;
        }
    };
    look.files = manifest.files.len();
    for (name, entry) in &manifest.files {
        let path = folder.join(layout.files).join(name);
        let metadata = match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_file() => metadata,
            // A virtual environment links to its interpreter.
            Ok(metadata) if metadata.is_symlink() && !layout.closed => continue,
            Ok(_) => {
                look.wrong.push(format!("{name} is not a regular file"));
                continue;
            }
            Err(e) => {
                look.wrong.push(format!("{name} cannot be read: {e}"));
                continue;
            }
        };
        look.bytes += metadata.len();
        match Digest::of_large_file(&path) {
            Ok(digest) if digest == entry.digest => {}
            Ok(_) => look.wrong.push(format!("{name} was changed")),
            Err(e) => look.wrong.push(format!("{name} cannot be read: {e}")),
        }
    }
    let listed: BTreeSet<&str> = manifest.files.keys().map(String::as_str).collect();
    let more = match layout.closed {
        true => strangers(&folder.join(layout.files), &listed),
        false => Vec::new(),
    };
    look.wrong
        .extend(more.into_iter().map(|name| format!("{name} was added")));
    look
}

/// Returns the files that the manifest does not name.
fn strangers(files: &Path, listed: &BTreeSet<&str>) -> Vec<String> {
    let (mut strange, mut open) = (Vec::new(), vec![files.to_owned()]);
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                open.push(path);
                continue;
            }
            let name = path.strip_prefix(files).unwrap_or(&path).to_string_lossy();
            if !listed.contains(&*name) {
                strange.push(name.into_owned());
            }
        }
    }
    strange.sort();
    strange
}

#[cfg(test)]
mod tests {
    use std::fs::FileTimes;
    use std::io::{Read as _, Seek as _, Write as _};

    use super::*;
    use crate::environment::manifest_of;

    /// Makes a store with one folder of two files.
    fn store() -> (tempfile::TempDir, PathBuf) {
        let store = tempfile::tempdir().unwrap();
        let folder = store.path().join(FOLDER).join("a".repeat(64));
        let files = folder.join(FILES);
        fs::create_dir_all(files.join("bin")).unwrap();
        fs::write(files.join("bin/server"), vec![7_u8; 9000]).unwrap();
        fs::write(files.join("weights"), vec![1_u8; 70_000]).unwrap();
        fs::write(folder.join(MANIFEST), manifest_of(&files).unwrap()).unwrap();
        (store, files)
    }

    #[test]
    fn one_bit_flipped_in_place_with_all_times_as_they_were_is_found() {
        let (store, files) = store();
        assert_eq!(check_unpacked(store.path()).unwrap()[0].wrong, [""; 0]);
        let path = files.join("weights");
        let times = fs::metadata(&path).unwrap().modified().unwrap();
        let mut file = fs::File::options()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        let mut byte = [0];
        file.seek(io::SeekFrom::Start(40_000)).unwrap();
        file.read_exact(&mut byte).unwrap();
        file.seek(io::SeekFrom::Start(40_000)).unwrap();
        file.write_all(&[byte[0] ^ 4]).unwrap();
        file.set_times(FileTimes::new().set_modified(times))
            .unwrap();
        let damage = check_unpacked(store.path()).unwrap();
        assert_eq!(damage[0].wrong, ["weights was changed"]);
        assert_eq!((damage[0].files, damage[0].bytes), (2, 79_000));
        remove_unpacked(&damage[0]).unwrap();
        assert_eq!(check_unpacked(store.path()).unwrap(), []);
        assert_eq!(fs::read_dir(store.path().join(FOLDER)).unwrap().count(), 0);
    }

    #[test]
    fn files_added_removed_and_replaced_by_links_are_found() {
        let (store, files) = store();
        fs::write(files.join("bin/more"), "x").unwrap();
        fs::remove_file(files.join("bin/server")).unwrap();
        std::os::unix::fs::symlink("/bin/sh", files.join("bin/server")).unwrap();
        fs::remove_file(files.join("weights")).unwrap();
        let wrong = &check_unpacked(store.path()).unwrap()[0].wrong;
        assert_eq!(wrong[0], "bin/server is not a regular file");
        assert!(wrong[1].starts_with("weights cannot be read"), "{wrong:?}");
        assert_eq!(wrong[2], "bin/more was added");
        assert_eq!(wrong.len(), 3, "{wrong:?}");
    }
}
