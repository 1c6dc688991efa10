//! Opening a bundle: a directory, or an archive unpacked into a temporary one.

use std::fs;
use std::path::{Path, PathBuf};

use artifacts::Store;
use pipeline::StudyDocument;
use pipeline::lock::Lock;

use crate::archive::unpack;
use crate::error::BundleError;
use crate::layout;
use crate::manifest::{FORMAT, Manifest};

/// An open bundle. Nothing in it is trusted until [`verify`](crate::verify) has checked it.
#[derive(Debug)]
pub struct Bundle {
    root: PathBuf,
    manifest: Manifest,
    /// A store of its own over the bundle's objects, and the archive's content: both go with it.
    work: tempfile::TempDir,
}

impl Bundle {
    /// Opens a directory or a `.tar.zst`.
    ///
    /// # Errors
    /// If it is no bundle.
    pub fn open(path: &Path) -> Result<Self, BundleError> {
        let work = tempfile::tempdir().map_err(|e| BundleError::Io(std::env::temp_dir(), e))?;
        let root = if path.is_dir() {
            path.to_owned()
        } else if path.is_file() {
            let unpacked = work.path().join("archive");
            fs::create_dir(&unpacked).map_err(|e| BundleError::Io(unpacked.clone(), e))?;
            unpacked.join(unpack(path, &unpacked)?)
        } else {
            let what = "there is neither a directory nor an archive".to_owned();
            return Err(BundleError::NotABundle(path.to_owned(), what));
        };
        let file = root.join(layout::MANIFEST);
        let text = fs::read(&file).map_err(|e| {
            let what = format!("{} cannot be read: {e}", layout::MANIFEST);
            BundleError::NotABundle(path.to_owned(), what)
        })?;
        let malformed = |what: String| BundleError::Malformed(file.clone(), what);
        let value: serde_json::Value =
            serde_json::from_slice(&text).map_err(|e| malformed(e.to_string()))?;
        if value["format"] != FORMAT {
            let what = format!(
                "the bundle has format {}, this program reads format {FORMAT}",
                value["format"]
            );
            return Err(malformed(what));
        }
        let manifest = serde_json::from_value(value).map_err(|e| malformed(e.to_string()))?;
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

    /// Returns where the lock lies.
    pub fn lock_file(&self) -> PathBuf {
        self.root.join(&self.manifest.lock)
    }

    /// Returns the reports in Markdown.
    pub fn reports(&self) -> Vec<PathBuf> {
        let reports = self.manifest.files.iter().map(|f| f.path.as_str());
        let is_report =
            |path: &&str| path.starts_with(layout::REPORT) && path.ends_with("/report.md");
        reports
            .filter(is_report)
            .map(|path| self.root.join(path))
            .collect()
    }

    /// Reads the lock.
    ///
    /// # Errors
    /// If it is not there or was edited.
    pub fn lock(&self) -> Result<Lock, BundleError> {
        let path = self.lock_file();
        match Lock::read(&path) {
            Ok(Some(lock)) => Ok(lock),
            Ok(None) => Err(BundleError::Malformed(
                path,
                "the lock is not there".to_owned(),
            )),
            // The error names the file itself.
            Err(error) => Err(BundleError::Study(error.to_string())),
        }
    }

    /// Reads what the stages that see the study saw of it.
    ///
    /// # Errors
    /// If it is not there or cannot be read.
    pub fn study(&self) -> Result<StudyDocument, BundleError> {
        let path = self.root.join(layout::STUDY);
        let bytes = fs::read(&path).map_err(|e| BundleError::Io(path.clone(), e))?;
        serde_json::from_slice(&bytes).map_err(|e| BundleError::Malformed(path, e.to_string()))
    }

    /// Opens a store over the bundle's objects. Index and scratch space lie elsewhere, so that
    /// the bundle stays as it is.
    ///
    /// # Errors
    /// If the objects are not there or the temporary directory refuses.
    pub fn store(&self) -> Result<Store, BundleError> {
        let folder = self.work.path().join("store");
        let objects = self.root.join(layout::STORE).join("objects");
        let objects = objects
            .canonicalize()
            .map_err(|e| BundleError::Io(objects, e))?;
        let make = || {
            fs::create_dir_all(&folder)?;
            let link = folder.join("objects");
            if link.is_symlink() {
                Ok(())
            } else {
                std::os::unix::fs::symlink(&objects, link)
            }
        };
        make().map_err(|e| BundleError::Io(folder.clone(), e))?;
        Ok(Store::open(&folder)?)
    }
}
