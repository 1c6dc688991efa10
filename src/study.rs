//! A study that has run, in any place: next to its lock, in a bundle, or in a folder of `load --out`.

use std::path::{Path, PathBuf};

use artifacts::Store;
use bundle::Bundle;
use explore::lock_at;
use pipeline::lock::{Lock, is_lock, lock_file};

use crate::args::Global;
use crate::cells::read_lock;
use crate::exit::Stop;
use crate::given::{Wanted, must_be};
use crate::project::{Project, shown};
use crate::room;
use crate::small::{self, Small};

/// Values that must live while a study is read.
pub(crate) enum Kept {
    Project { _project: Project },
    Bundle { _bundle: Box<Bundle> },
    Small { _work: tempfile::TempDir },
}

/// A study, its lock and its store.
pub(crate) struct Study {
    /// The name that the user gave.
    pub(crate) name: String,
    pub(crate) lock: Lock,
    pub(crate) lock_file: PathBuf,
    /// The folder that its paths are relative to.
    pub(crate) root: PathBuf,
    pub(crate) store: Store,
    pub(crate) kept: Kept,
}

impl Study {
    /// Opens an experiment that has run, a lock, a bundle (a folder or `.tar.zst`), or a folder that
    /// `load --out` wrote.
    ///
    /// # Errors
    /// If the path leads to none of these, the study has not run, or its store is missing.
    pub(crate) fn open(path: &Path, profile: Option<&str>, global: &Global) -> Result<Self, Stop> {
        let study = Self::open_whatever_size(path, profile, global)?;
        let cells = study.lock.records().count();
        room::fits("reading a study", &room::Step::reads(cells))?;
        Ok(study)
    }

    /// Opens a study with its lock as a commit has it; its results must still be in the store.
    ///
    /// # Errors
    /// If the path is not a study with a lock in a git repository, or the commit does not have the lock.
    pub(crate) fn at_commit(
        commit: &str,
        path: &Path,
        profile: Option<&str>,
        global: &Global,
    ) -> Result<Self, Stop> {
        let study = Self::open(path, profile, global)?;
        let Kept::Project { .. } = study.kept else {
            return Err(Stop::usage(format!("{commit}: no such file")).hint(
                "a commit can be named if the other study is an experiment or its lock, in a git repository",
            ));
        };
        let lock = lock_at(&study.lock_file, commit).map_err(|e| {
            let text = e.to_string();
            let first = text.lines().next().unwrap_or_default();
            let message = format!("`{commit}` is neither a file nor a commit with {}: {first}", shown(&study.lock_file));
            Stop::usage(message).hint(
                "give a study, or a commit of the other study's lock; `git log -- LOCK` lists its commits",
            )
        })?;
        Ok(Self {
            name: format!("{} at {commit}", study.name),
            lock,
            ..study
        })
    }

    fn open_whatever_size(
        path: &Path,
        profile: Option<&str>,
        global: &Global,
    ) -> Result<Self, Stop> {
        let name = shown(path);
        must_be(path, Wanted::Study)?;
        if small::is_one(path) {
            let Small {
                lock,
                lock_file,
                store,
                work,
            } = small::open(path)?;
            return Ok(Self {
                name,
                lock,
                lock_file,
                root: work.path().to_owned(),
                store,
                kept: Kept::Small { _work: work },
            });
        }
        if is_bundle(path) {
            let bundle = Bundle::open(path)?;
            return Ok(Self {
                name,
                lock: bundle.lock()?,
                lock_file: bundle.lock_file(),
                root: bundle.root().to_owned(),
                store: bundle.store()?,
                kept: Kept::Bundle {
                    _bundle: Box::new(bundle),
                },
            });
        }
        let (lock, lock_file) = if is_lock(path) {
            let lock = Lock::read(path).map_err(Stop::failed)?;
            let lock = lock.ok_or_else(|| {
                Stop::nothing(format!("{name}: no such lock"))
                    .hint("`benchtrail run EXPERIMENT` writes one beside the experiment")
            })?;
            (lock, path.to_owned())
        } else {
            (read_lock(path, profile)?, lock_file(path, profile))
        };
        let project = Project::of(Some(path), global.store.as_deref())?;
        let store = project.open_existing()?;
        Ok(Self {
            name,
            lock,
            lock_file: std::path::absolute(lock_file).map_err(|e| Stop::refused(&e))?,
            root: std::path::absolute(&project.root).map_err(|e| Stop::refused(&e))?,
            store,
            kept: Kept::Project { _project: project },
        })
    }
}

/// Returns whether a path is a published bundle.
pub(crate) fn is_bundle(path: &Path) -> bool {
    path.join(bundle::MANIFEST).is_file() || path.to_string_lossy().ends_with(".tar.zst")
}
