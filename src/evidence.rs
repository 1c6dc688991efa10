//! Finds the artifacts of a report: in the project's store, or in a bundle next to the report.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use artifacts::{Digest, Store};
use bundle::Bundle;
use why::{Document, Provenance};

use crate::args::{Global, RemoteArgs};
use crate::exit::Stop;
use crate::locks::find_locks;
use crate::project::{Project, shown};
use crate::room;
use crate::shared::{Shared, reading_through};

/// The store and the locks used to trace a report's numbers.
pub(crate) struct Evidence {
    /// The folder whose locks are searched.
    root: PathBuf,
    store: Store,
    /// Artifacts that the bundle's author declared as left out, so that the bundle has only their digests.
    pub(crate) left_out: BTreeSet<Digest>,
    /// The bundle that contains the store, kept as long as this value.
    bundle: Option<Bundle>,
    /// The archive that the bundle was unpacked from.
    archive: Option<PathBuf>,
    _project: Option<Project>,
}

impl Evidence {
    /// Finds the evidence of a report: in an archive next to it that was published with it, otherwise in the project,
    /// which may itself be a published bundle. A store that the user names takes precedence.
    ///
    /// # Errors
    /// If no evidence exists, or it cannot be read.
    pub(crate) fn of(
        document: &Document,
        remote: &RemoteArgs,
        global: &Global,
    ) -> Result<Self, Stop> {
        if global.store.is_none()
            && let Some(archive) = archive_beside(document)
        {
            let evidence = Self::of_bundle(Bundle::open(&archive)?)?;
            return Ok(Self {
                archive: Some(archive),
                ..evidence
            });
        }
        let project = Project::of(Some(&document.path), global.store.as_deref())?;
        if project.is_published() {
            return Self::of_bundle(Bundle::open(&project.root)?);
        }
        let shared = Shared::of(remote)?;
        let store = match shared {
            // Missing objects are fetched, so the store need not exist yet.
            Some(_) => project.open()?,
            None => project.open_existing()?,
        };
        Ok(Self {
            root: project.root.clone(),
            store: reading_through(store, shared),
            left_out: BTreeSet::new(),
            bundle: None,
            archive: None,
            _project: Some(project),
        })
    }

    fn of_bundle(bundle: Bundle) -> Result<Self, Stop> {
        let store = bundle.store()?;
        let left_out = bundle.left_out(&bundle.lock()?, &store)?;
        Ok(Self {
            root: bundle.root().to_owned(),
            store,
            left_out,
            bundle: Some(bundle),
            archive: None,
            _project: None,
        })
    }

    /// Returns the display name of a lock: its path in the archive, if it was unpacked from one.
    pub(crate) fn shown_lock(&self, lock: &Path) -> String {
        let inside = self
            .bundle
            .as_ref()
            .and_then(|b| lock.strip_prefix(b.root()).ok());
        match (&self.archive, inside) {
            (Some(archive), Some(inside)) => format!("{}: {}", shown(archive), inside.display()),
            _ => shown(lock),
        }
    }

    /// Finds the report's lock.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub(crate) fn provenance(&self, document: &Document) -> Result<Provenance<'_>, Stop> {
        let mut locks = Vec::new();
        find_locks(&self.root, &mut locks)?;
        // `run` puts the lock next to the experiment, which may be in another project than the report.
        let registered = self.store.roots()?.into_iter().map(|root| root.file);
        locks.extend(registered.filter(|file| file.is_file()));
        let provenance = Provenance::choose(&self.store, &locks, document);
        let cells = provenance.lock.records().count();
        room::fits("reading a study", &room::Step::reads(cells))?;
        Ok(provenance)
    }
}

/// Returns the archive of a bundle in the report's folder that contains this report, or, if the report was edited, its
/// trace. Skips other archives, and files that only have such a name.
fn archive_beside(document: &Document) -> Option<PathBuf> {
    let folder = document.path.parent().filter(|p| !p.as_os_str().is_empty());
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?;
    let mut archives: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().ends_with(".tar.zst"))
        .collect();
    archives.sort();
    let holds = |archive: &PathBuf, digest: Digest| {
        let manifest = bundle::manifest_of(archive);
        manifest.is_ok_and(|m| m.files.iter().any(|file| file.blake3 == digest))
    };
    let with = |digest| archives.iter().find(|path| holds(path, digest)).cloned();
    with(document.report).or_else(|| with(document.trace))
}
