//! Small documents and single objects, for code that arranges work through a shared store.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use artifacts::{Digest, Store};

use crate::error::RemoteError;
use crate::side_by_side::each;
use crate::{Remote, Watch};

impl Remote {
    /// Returns the store's folder as an absolute path; `None` for a bucket.
    ///
    /// # Errors
    /// If it cannot be found.
    pub fn folder(&self) -> Result<Option<PathBuf>, RemoteError> {
        let Some(folder) = crate::place::folder(&self.url)? else {
            return Ok(None);
        };
        folder
            .canonicalize()
            .map(Some)
            .map_err(|e| RemoteError::Other(self.url.clone(), format!("{}: {e}", folder.display())))
    }

    /// Puts a document under a name if it is free; returns false if it is taken.
    ///
    /// # Errors
    /// If the shared store refuses.
    pub fn put_document(&self, name: &str, bytes: &[u8]) -> Result<bool, RemoteError> {
        let put = self.backend.put_new(name, bytes)?;
        self.backend.settle()?;
        Ok(put)
    }

    /// Reads a document; `None` if it does not exist.
    ///
    /// # Errors
    /// If the shared store cannot be read, or the document is larger than 1 MiB.
    pub fn document(&self, name: &str) -> Result<Option<Vec<u8>>, RemoteError> {
        self.read_small(name)
    }

    /// Reads documents in parallel, in the order of their names.
    ///
    /// # Errors
    /// As [`Remote::document`].
    pub fn read_documents(&self, names: &[String]) -> Result<Vec<Option<Vec<u8>>>, RemoteError> {
        match names {
            [name] => Ok(vec![self.read_small(name)?]),
            names => each(self.jobs, names, |name| self.read_small(name)),
        }
    }

    /// Returns the last segments of the names of documents that begin with these segments, sorted. A new document may
    /// be missing for a while.
    ///
    /// # Errors
    /// If the shared store cannot be listed.
    pub fn documents(&self, folder: &str) -> Result<Vec<String>, RemoteError> {
        self.backend.list(folder)
    }

    /// Uploads an object unless the shared store has it.
    ///
    /// # Errors
    /// If it is missing or damaged here, or the shared store refuses.
    pub fn upload(&self, local: &Store, digest: &Digest) -> Result<(), RemoteError> {
        self.look_at_collections()?;
        let watch = Watch {
            cancelled: &AtomicBool::new(false),
            listener: &|_| {},
        };
        self.send(local, digest, false, watch).map(drop)
    }

    /// Downloads an object unless the local store has it.
    ///
    /// # Errors
    /// If it is missing or damaged there, or the local store refuses.
    pub fn download(&self, local: &Store, digest: &Digest) -> Result<(), RemoteError> {
        match local.is_whole(digest)? {
            true => Ok(()),
            false => self.receive(local, digest, None).map(drop),
        }
    }
}
