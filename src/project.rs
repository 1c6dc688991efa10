//! The places of files: the project's folder, the store, the lock, the rendered report.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use artifacts::{DiskFault, KnownFiles, Store};
use tempfile::TempDir;

use crate::effect_text::to_copy;
use crate::exit::Stop;
use crate::terminal::in_line;

/// The folder that a set of experiments shares, and the store in it.
#[derive(Debug)]
pub(crate) struct Project {
    /// The nearest folder above the experiment with a store or a repository, otherwise the experiment's own folder.
    pub(crate) root: PathBuf,
    /// The store's folder.
    pub(crate) store: PathBuf,
    /// The folder of the index over a bundle's objects, kept as long as this value.
    work: OnceCell<TempDir>,
}

impl Project {
    /// Finds the project of a file (or of the working directory), with the store in the folder that the user names, or
    /// in `.benchtrail`.
    ///
    /// # Errors
    /// If the working directory cannot be read.
    pub(crate) fn of(file: Option<&Path>, store: Option<&Path>) -> Result<Self, Stop> {
        let here =
            std::env::current_dir().map_err(|e| Stop::refused_at("the working directory", &e))?;
        let start = match file {
            Some(file) => here
                .join(file)
                .parent()
                .map_or_else(|| here.clone(), Path::to_owned),
            None => here.clone(),
        };
        let marked = |folder: &&Path| {
            folder.join(".benchtrail").is_dir() || folder.join(".git").exists() || is_bundle(folder)
        };
        let root = start.ancestors().find(marked).unwrap_or(&start).to_owned();
        let own = if is_bundle(&root) {
            "store"
        } else {
            ".benchtrail"
        };
        // Engines are started in their own folders, where a relative path would lead elsewhere.
        let store = store.map_or_else(|| root.join(own), |store| here.join(store));
        Ok(Self {
            root,
            store,
            work: OnceCell::new(),
        })
    }

    /// Returns whether the store is ours to write to.
    pub(crate) fn is_ours(&self) -> bool {
        !self.is_published() && !self.is_read_only()
    }

    /// Returns the digests of large files that the store remembers; none for a bundle, because its digests come from
    /// another party.
    pub(crate) fn known_files(&self) -> KnownFiles {
        match self.is_published() {
            true => KnownFiles::default(),
            false => KnownFiles::of_store(&self.store),
        }
    }

    /// Returns whether the store is that of a published bundle, which nothing may change.
    pub(crate) fn is_published(&self) -> bool {
        self.store == self.root.join("store") && is_bundle(&self.root)
    }

    /// Rejects a command that would write to a bundle.
    ///
    /// # Errors
    /// If the project is a published bundle.
    pub(crate) fn must_not_be_published(&self, command: &str) -> Result<(), Stop> {
        if !self.is_published() {
            return self.must_be_writable(command);
        }
        let folder = shown(&self.root);
        Err(Stop::usage(format!(
            "{folder} is a published bundle, and `{command}` would change it"
        ))
        .hint(
            "copy everything except `store/` and `manifest.json` to another folder, and work there; the bundle's \
             README says how",
        ))
    }

    /// Rejects a command that would write to a store that this process cannot write.
    fn must_be_writable(&self, command: &str) -> Result<(), Stop> {
        if !self.is_read_only() {
            return Ok(());
        }
        let store = shown(&self.store);
        Err(Stop::machine(format!(
            "the store {store} cannot be written, and `{command}` would write to it"
        ))
        .hint("use `--store DIR` with your own folder, or change the permissions of this one"))
    }

    /// Returns whether the store exists and this process may not write to it.
    fn is_read_only(&self) -> bool {
        let writable = |path: &Path| {
            let access = rustix::fs::Access::WRITE_OK;
            rustix::fs::access(path, access).is_ok()
        };
        let index = self.store.join("index.sqlite");
        self.store.join("objects").is_dir()
            && !(writable(&self.store) && (!index.exists() || writable(&index)))
    }

    /// Opens the store, creating it if needed.
    ///
    /// # Errors
    /// If the folder cannot be created or its index cannot be opened.
    pub(crate) fn open(&self) -> Result<Store, Stop> {
        if self.is_ours() {
            // A folder of somebody else may become the store, and may hold files of theirs.
            let is_new = !self.store.exists()
                || (self.store.ends_with(".benchtrail") && !self.store.join("objects").exists());
            let opened = Store::open(&self.store);
            if is_new && opened.is_ok() {
                keep_out_of_git(&self.store);
            }
            return opened.map_err(|error| match DiskFault::behind(&error) {
                None if !self.store.join("objects").is_dir() => Stop::from(error)
                    .hint("the store is a folder: name one that you can make or write with `--store DIR` or BENCHTRAIL_STORE"),
                Some(DiskFault::ReadOnly | DiskFault::Permission) => Stop::from(error).hint(
                    "make the folder writable for you, or put the store elsewhere with `--store DIR`",
                ),
                _ => Stop::from(error),
            });
        }
        // A bundle's own index, if any, was made by another party and is never read. The index of a store that is not
        // writable cannot be opened. A temporary index serves for both.
        let machine = |e: std::io::Error| Stop::refused_at(tempfile::env::temp_dir().display(), &e);
        let work = match self.work.get() {
            Some(work) => work,
            None => {
                let work = pipeline::temporary::of_the_system("benchtrail-index");
                let work = work.map_err(machine)?;
                self.work.get_or_init(|| work)
            }
        };
        Ok(bundle::open_store(&self.store, work.path())?)
    }

    /// Opens the store, which must exist.
    ///
    /// # Errors
    /// If the store does not exist.
    pub(crate) fn open_existing(&self) -> Result<Store, Stop> {
        if !self.store.is_dir() {
            let missing = Stop::nothing(format!("no store found at {}", self.store.display()));
            return Err(missing.hint(match self.stores_below().as_slice() {
                [] => "create one with `benchtrail run EXPERIMENT`, or choose another with `--store DIR`".to_owned(),
                [below] => format!("there is one below this folder: use `--store {below}`"),
                several => format!(
                    "there are some below this folder; choose with `--store DIR`: {}",
                    several.join(", ")
                ),
            }));
        }
        self.open()
    }

    /// Returns the stores of the folders in the project's folder, sorted. Without a repository, `run FOLDER/FILE` makes
    /// its store in FOLDER.
    fn stores_below(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(&self.root) else {
            return Vec::new();
        };
        let stores = entries
            .filter_map(|entry| Some(entry.ok()?.path().join(".benchtrail")))
            .filter(|store| store.join("objects").is_dir());
        let mut stores: Vec<String> = stores.map(|store| shown(&store)).collect();
        stores.sort_unstable();
        stores
    }

    /// Returns the default path of an experiment's report.
    pub(crate) fn report_file(&self, name: &str, profile: Option<&str>) -> PathBuf {
        report_file(&self.root, name, profile)
    }
}

/// Returns the default path of a study's report in a folder.
pub(crate) fn report_file(folder: &Path, name: &str, profile: Option<&str>) -> PathBuf {
    let study = profile.map_or_else(|| name.to_owned(), |p| format!("{name}.{p}"));
    folder.join("reports").join(study).join("report.md")
}

/// Keeps a new store out of git: it holds many objects that no diff can show.
fn keep_out_of_git(store: &Path) {
    use std::io::Write as _;

    let file = std::fs::File::create_new(store.join(".gitignore"));
    // The store works without it, and another process may have just written it.
    if let Ok(mut file) = file {
        let _ = file.write_all(b"*\n");
    }
}

/// Returns whether a folder is a published bundle, whose reports can be queried like any others.
fn is_bundle(folder: &Path) -> bool {
    folder.join(bundle::MANIFEST).is_file() && folder.join("store/objects").is_dir()
}

/// Returns the arguments that name an experiment and its profile again, for a command to copy.
pub(crate) fn again(experiment: &Path, profile: Option<&str>) -> String {
    let file = in_shell(experiment);
    match profile {
        Some("smoke") => format!("{file} --smoke"),
        Some(profile) => format!("{file} --profile {}", to_copy(profile)),
        None => file,
    }
}

/// Returns the shortest form of a path from the working directory, in one line: a name of others may have line breaks.
pub(crate) fn shown(path: &Path) -> String {
    in_line(&shortest(path))
}

/// Returns the same form of a path as one word of a command to copy.
pub(crate) fn in_shell(path: &Path) -> String {
    let path = shortest(path);
    // It is not an option.
    let own = if path.starts_with('-') { "./" } else { "" };
    to_copy(&format!("{own}{path}"))
}

fn shortest(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    match path.strip_prefix(&here) {
        Ok(own) if own.as_os_str().is_empty() => ".".to_owned(),
        Ok(below) => below.display().to_string(),
        Err(_) => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_shown_in_one_line() {
        let path = Path::new("/of others/a\neverything holds.yaml");
        assert_eq!(shown(path), "/of others/a\\neverything holds.yaml");
    }

    #[test]
    fn git_passes_over_a_store_that_is_new_and_sees_a_folder_that_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let opened = |store: &Path| {
            let project = Project::of(Some(&folder.path().join("a.yaml")), Some(store));
            drop(project.and_then(|project| project.open()).expect("a store"));
            std::fs::read_to_string(store.join(".gitignore")).ok()
        };
        for name in [".benchtrail", "shared"] {
            let store = folder.path().join(name);
            assert_eq!(opened(&store).as_deref(), Some("*\n"), "{name}");
            // Whoever removes it wants it so.
            std::fs::remove_file(store.join(".gitignore")).expect("it is there");
            assert_eq!(opened(&store), None, "{name}");
        }
        let theirs = folder.path().join("theirs");
        std::fs::create_dir(&theirs).expect("a folder");
        assert_eq!(opened(&theirs), None);
    }

    #[test]
    fn a_shell_reads_a_path_of_a_command_as_it_is() {
        for (path, word) in [
            ("a/b.yaml", "a/b.yaml"),
            ("of others/it's", "'of others/it'\\''s'"),
            ("$(id)", "'$(id)'"),
            ("-x", "./-x"),
            ("a\u{1b}7'\\b\n", "$'a\\0337\\'\\\\b\\012'"),
            ("a\u{202e}b", "$'a\\342\\200\\256b'"),
        ] {
            assert_eq!(in_shell(Path::new(path)), word);
            let printed = std::process::Command::new("bash")
                .args(["-c", &format!("printf %s {word}")])
                .output()
                .expect("bash starts");
            let read = String::from_utf8(printed.stdout).expect("text");
            assert_eq!(read.strip_prefix("./").unwrap_or(&read), path);
        }
    }
}
