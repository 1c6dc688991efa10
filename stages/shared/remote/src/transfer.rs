//! Moves one object between stores, hashed on the way.

use std::io::{self, Write};

use artifacts::{Digest, Hasher, Store, StoreError};

use crate::error::RemoteError;
use crate::{Remote, Watch};

/// The result of uploading an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It existed already.
    Was,
    /// It was uploaded: its bytes.
    Bytes(u64),
    /// It existed with different bytes, and was replaced: its bytes.
    Replaced(u64),
}

/// Objects up to this size (bytes) are held in memory; larger ones go through a file.
const SMALL: usize = 8 << 20;

impl Remote {
    /// Uploads an object of the local store unless it exists there, and saves it from collections. With `verify`, an
    /// existing object is read and compared.
    pub(crate) fn send(
        &self,
        local: &Store,
        digest: &Digest,
        verify: bool,
        watch: Watch<'_>,
    ) -> Result<Sent, RemoteError> {
        let size = local.size(digest)?.ok_or(StoreError::Missing(*digest))?;
        let name = self.keep_object(digest, watch)?;
        let there = self.backend.size(&name)?;
        if there == Some(size) && (!verify || self.is_sound(&name, digest)?) {
            return Ok(Sent::Was);
        }
        // Others must not come to rely on an object that is damaged here.
        if Digest::of_file(&local.path(digest))
            .map_err(|e| StoreError::Io(local.path(digest), e))?
            != *digest
        {
            return Err(StoreError::Damaged(*digest, local.path(digest)).into());
        }
        self.backend.put_file(&name, &local.path(digest))?;
        Ok(match there {
            None => Sent::Bytes(size),
            Some(_) => Sent::Replaced(size),
        })
    }

    /// Returns whether the bytes of an object in the shared store have its digest.
    fn is_sound(&self, name: &str, digest: &Digest) -> Result<bool, RemoteError> {
        let mut hasher = Hasher::default();
        let there = self.backend.read(name, &mut |bytes| {
            hasher.update(bytes);
            Ok(())
        })?;
        Ok(there && hasher.finish() == *digest)
    }

    /// Downloads an object into the local store; returns its size in bytes. An object of more than `most` bytes is
    /// damaged, and is not read further: otherwise it could fill the disk.
    pub(crate) fn receive(
        &self,
        local: &Store,
        digest: &Digest,
        most: Option<u64>,
    ) -> Result<u64, RemoteError> {
        let folder = local.root().join("tmp");
        let at_folder = |e| RemoteError::Store(StoreError::Io(folder.clone(), e));
        let (mut hasher, mut size) = (Hasher::default(), 0);
        let mut kept = Vec::new();
        let mut file: Option<tempfile::NamedTempFile> = None;
        let there = self.read_object(digest, &mut |bytes| {
            size += bytes.len() as u64;
            if most.is_some_and(|most| size > most) {
                return Err(RemoteError::Damaged(self.url.clone(), *digest));
            }
            hasher.update(bytes);
            kept.extend_from_slice(bytes);
            if kept.len() > SMALL {
                let file = match &mut file {
                    Some(file) => file,
                    None => {
                        // A declared size was compared with the disk before the download.
                        if most.is_none() {
                            let there = self.backend.size(&object(digest))?;
                            room_for(local, there.unwrap_or(0))?;
                        }
                        let new = tempfile::Builder::new()
                            .prefix("pull-")
                            .tempfile_in(&folder);
                        file.insert(new.map_err(at_folder)?)
                    }
                };
                file.write_all(&kept).map_err(at_folder)?;
                kept.clear();
            }
            Ok(())
        })?;
        if !there {
            return Err(RemoteError::Missing(self.url.clone(), *digest));
        }
        if hasher.finish() != *digest {
            return Err(RemoteError::Damaged(self.url.clone(), *digest));
        }
        match file {
            None => drop(local.put(&kept)?),
            Some(mut file) => {
                file.write_all(&kept).map_err(at_folder)?;
                let path = file
                    .into_temp_path()
                    .keep()
                    .map_err(|e| at_folder(e.error))?;
                local.put_file(&path)?;
            }
        }
        Ok(size)
    }
}

/// Fails if the disk of the local store has no room for so many bytes.
pub(crate) fn room_for(local: &Store, bytes: u64) -> Result<(), RemoteError> {
    let folder = local.root();
    let at_folder = |e| RemoteError::Store(StoreError::Io(folder.to_owned(), e));
    let disk = rustix::fs::statvfs(folder).map_err(|e| at_folder(e.into()))?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if bytes <= free {
        return Ok(());
    }
    let text = format!("what is to be downloaded has {bytes} bytes, and this disk has {free} free");
    Err(at_folder(io::Error::new(io::ErrorKind::StorageFull, text)))
}

/// Returns the name of an object.
pub(crate) fn object(digest: &Digest) -> String {
    let hex = digest.hex();
    format!("objects/{}/{}", &hex[..2], &hex[2..])
}
