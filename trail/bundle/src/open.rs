//! Opens a bundle: a directory, or an archive unpacked into a temporary one.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use artifacts::{Digest, Store};
use pipeline::StudyDocument;
use pipeline::lock::Lock;

use crate::archive::unpack;
use crate::catalogue::Catalogue;
use crate::error::BundleError;
use crate::layout;
use crate::manifest::Manifest;
use crate::place::BundlePath;

/// The largest document that is read before the manifest: manifest, statement, envelope, sums. A manifest of a million
/// files has about 250 MB.
pub(crate) const SEAL_BYTES: u64 = 256 << 20;

/// An open bundle. Nothing in it is trusted until [`verify`](crate::verify) has checked it.
#[derive(Debug)]
pub struct Bundle {
    root: PathBuf,
    manifest: Manifest,
    /// A private store over the bundle's objects, and the archive's content. Both are removed on drop.
    work: tempfile::TempDir,
}

impl Bundle {
    /// Opens a directory or a `.tar.zst`.
    ///
    /// # Errors
    /// If it is not a bundle.
    pub fn open(path: &Path) -> Result<Self, BundleError> {
        let work = pipeline::temporary::of_the_system("benchtrail-bundle")
            .map_err(|e| BundleError::Io(tempfile::env::temp_dir(), e))?;
        let root = if path.is_dir() {
            path.to_owned()
        } else if path.is_file() {
            let unpacked = work.path().join("archive");
            fs::create_dir(&unpacked).map_err(|e| BundleError::Io(unpacked.clone(), e))?;
            unpacked.join(unpack(path, &unpacked)?)
        } else {
            let what = "it is neither a directory nor an archive".to_owned();
            return Err(BundleError::NotABundle(path.to_owned(), what));
        };
        let file = root.join(layout::MANIFEST);
        let place = BundlePath::new(layout::MANIFEST).expect("a name is a place");
        let text = place.read(&root, SEAL_BYTES).map_err(|e| {
            let what = format!("{} cannot be read: {e}", layout::MANIFEST);
            BundleError::NotABundle(path.to_owned(), what)
        })?;
        let malformed = |what: String| BundleError::Malformed(file.clone(), what);
        let manifest = Manifest::parse(&text).map_err(malformed)?;
        Ok(Self {
            root,
            manifest,
            work,
        })
    }

    /// Returns the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the path of the lock.
    pub fn lock_file(&self) -> PathBuf {
        self.manifest.lock.below(&self.root)
    }

    /// Returns the reports in Markdown.
    pub fn reports(&self) -> Vec<PathBuf> {
        let reports = self.manifest.files.iter().map(|f| &f.path);
        let is_report =
            |path: &&BundlePath| path.starts_with(layout::REPORT) && path.ends_with("/report.md");
        reports
            .filter(is_report)
            .map(|path| path.below(&self.root))
            .collect()
    }

    /// Reads the lock.
    ///
    /// # Errors
    /// If the lock is missing or was edited.
    pub fn lock(&self) -> Result<Lock, BundleError> {
        let path = self.lock_file();
        self.regular(&self.manifest.lock)?;
        match Lock::read(&path) {
            Ok(Some(lock)) => Ok(lock),
            Ok(None) => Err(BundleError::Malformed(
                path,
                "the lock is missing".to_owned(),
            )),
            // The error names the file itself. Its remedy is for whoever ran the experiment.
            Err(error) => Err(BundleError::Study(format!(
                "{}; get the bundle again from where it was published",
                error.reason()
            ))),
        }
    }

    /// Refuses anything except a regular file of a readable size.
    fn regular(&self, place: &BundlePath) -> Result<(), BundleError> {
        let fault = |e| BundleError::Io(place.below(&self.root), e);
        let (_, size) = place.open(&self.root).map_err(fault)?;
        if size > SEAL_BYTES {
            return Err(fault(io::Error::other(format!("it has {size} bytes"))));
        }
        Ok(())
    }

    /// Reads the study document, the input of the stages that see the study.
    ///
    /// # Errors
    /// If it is missing or cannot be read.
    pub fn study(&self) -> Result<StudyDocument, BundleError> {
        let place = BundlePath::new(layout::STUDY).expect("a name is a place");
        let path = place.below(&self.root);
        let bytes = place
            .read(&self.root, SEAL_BYTES)
            .map_err(|e| BundleError::Io(path.clone(), e))?;
        artifacts::json::parse(&bytes).map_err(|e| BundleError::Malformed(path, e.to_string()))
    }

    /// Reads every record that the bundle's lock names.
    pub(crate) fn catalogue(&self, lock: &Lock, store: &Store) -> Result<Catalogue, BundleError> {
        Catalogue::read(lock, store, &self.manifest.colophon.without)
    }

    /// Returns the artifacts that its author left out of the bundle, except for their digests, and the records of
    /// earlier results that its author no longer had. `publish` states both in the README.
    ///
    /// # Errors
    /// If the lock or one of its records cannot be read.
    pub fn left_out(&self, lock: &Lock, store: &Store) -> Result<BTreeSet<Digest>, BundleError> {
        let Catalogue { left_out, gone, .. } = self.catalogue(lock, store)?;
        Ok(left_out.into_keys().chain(gone.into_keys()).collect())
    }

    /// Opens a store over the bundle's objects. Index and scratch space lie elsewhere, so that the bundle does not
    /// change.
    ///
    /// # Errors
    /// If the objects are missing or the temporary directory cannot be used.
    pub fn store(&self) -> Result<Store, BundleError> {
        open_store(
            &self.root.join(layout::STORE),
            &self.work.path().join("store"),
        )
    }
}

/// Opens a store over the objects of another one, such as a bundle's. Its index and its scratch space lie in `folder`.
/// The other store's own index is never read, and that store does not change.
///
/// # Errors
/// If the objects are missing, or `folder` cannot be written.
pub fn open_store(store: &Path, folder: &Path) -> Result<Store, BundleError> {
    let objects = store.join("objects");
    for folder in [store.to_owned(), objects.clone()] {
        let real = fs::symlink_metadata(&folder).is_ok_and(|m| m.is_dir());
        if !real {
            let what = "it is not a directory".to_owned();
            return Err(BundleError::Malformed(folder, what));
        }
    }
    let objects = objects
        .canonicalize()
        .map_err(|e| BundleError::Io(objects, e))?;
    Ok(Store::open_over(&objects, folder)?)
}
