//! The content-addressed store on local disk.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Digest;

/// A store of immutable objects under one directory; safe to share between threads.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
}

/// The store cannot do what it was asked; names the object or path.
#[derive(Debug)]
pub enum StoreError {
    /// The file system refused (the machine's fault, or the disk is full).
    Io(PathBuf, io::Error),
    /// No object of this digest is in the store.
    Missing(Digest),
    /// The object's bytes are not those its name says.
    Damaged(Digest, PathBuf),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Missing(digest) => write!(f, "object {digest} is not in the store"),
            Self::Damaged(digest, path) => {
                write!(f, "object {digest} is damaged: the bytes of {} have another digest", path.display())
            }
        }
    }
}

impl std::error::Error for StoreError {}

impl Store {
    /// Opens the store under `root`, creating it if needed.
    ///
    /// # Errors
    /// If the directory cannot be made.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(root.join("objects")).map_err(|e| StoreError::Io(root.to_owned(), e))?;
        Ok(Self { root: root.to_owned() })
    }

    /// Returns the store's directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns where the object of this digest lies, whether or not it is there.
    pub fn path(&self, digest: &Digest) -> PathBuf {
        let hex = digest.hex();
        self.root.join("objects").join(&hex[..2]).join(&hex[2..])
    }

    /// Returns whether the object is there (its bytes are not checked).
    pub fn contains(&self, digest: &Digest) -> bool {
        self.path(digest).exists()
    }

    /// Keeps bytes and returns their digest.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn put(&self, bytes: &[u8]) -> Result<Digest, StoreError> {
        let digest = Digest::of(bytes);
        let path = self.path(&digest);
        if !path.exists() {
            let folder = path.parent().expect("an object lies in a folder");
            let io = |e| StoreError::Io(path.clone(), e);
            fs::create_dir_all(folder).map_err(io)?;
            let temporary = tempfile::NamedTempFile::new_in(folder).map_err(io)?;
            fs::write(temporary.path(), bytes).map_err(io)?;
            temporary.persist(&path).map_err(|e| StoreError::Io(path.clone(), e.error))?;
        }
        Ok(digest)
    }

    /// Returns the bytes of an object, checked against its name.
    ///
    /// # Errors
    /// If the object is missing or damaged, or the file system refuses.
    pub fn get(&self, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let path = self.path(digest);
        let bytes = fs::read(&path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => StoreError::Missing(*digest),
            _ => StoreError::Io(path.clone(), e),
        })?;
        if Digest::of(&bytes) != *digest {
            return Err(StoreError::Damaged(*digest, path));
        }
        Ok(bytes)
    }
}
