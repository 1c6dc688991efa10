//! The origin of records that were executed elsewhere: who, when, where. It is stored next to the objects because the
//! index is derived data, and losing the index must not make these records look like our own.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;

use serde::{Deserialize, Serialize};

use super::commit::sync_path;
use super::walk::list;
use super::{Store, StoreError};
use crate::Digest;

/// Who executed a cell, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Maker {
    /// The host, by a name that distinguishes hosts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub host: Option<String>,
    /// The name of the person or account that executed it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub by: Option<String>,
    /// When execution began: wall clock, RFC 3339, UTC.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started: Option<String>,
}

impl Store {
    /// Notes that another party executed a record's cell. Call it before the record is entered into the index.
    ///
    /// # Errors
    /// If the file system returns an error.
    pub fn note_import(&self, record: &Digest, maker: &Maker) -> Result<(), StoreError> {
        let folder = self.root.join("imports");
        fs::create_dir_all(&folder).map_err(StoreError::io(&folder))?;
        let path = folder.join(record.hex());
        let mut file = tempfile::NamedTempFile::new_in(self.root.join("tmp"))
            .map_err(StoreError::io(&path))?;
        let text = serde_json::to_vec(maker).expect("a maker always serializes");
        file.write_all(&text)
            .and_then(|()| file.as_file().sync_all())
            .map_err(StoreError::io(&path))?;
        file.persist(&path)
            .map_err(|e| StoreError::Io(path.clone(), e.error))?;
        Ok(())
    }

    /// Makes the notes durable.
    ///
    /// # Errors
    /// If the file system returns an error.
    pub fn settle_imports(&self) -> Result<(), StoreError> {
        let folder = self.root.join("imports");
        match folder.is_dir() {
            true => sync_path(&folder),
            false => Ok(()),
        }
    }

    /// Returns the records that another party executed, except those no longer in the store. A malformed note gives an
    /// empty maker.
    ///
    /// # Errors
    /// If a note cannot be read from disk.
    pub fn imports(&self) -> Result<BTreeMap<Digest, Maker>, StoreError> {
        let mut imports = BTreeMap::new();
        for path in list(&self.root.join("imports"))? {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let Ok(record) = format!("b3:{name}").parse::<Digest>() else {
                continue;
            };
            if self.contains(&record) {
                let text = fs::read(&path).map_err(StoreError::io(&path))?;
                imports.insert(record, serde_json::from_slice(&text).unwrap_or_default());
            }
        }
        Ok(imports)
    }

    /// Deletes the import notes whose records the store no longer contains.
    pub(super) fn forget_imports(&self) -> Result<(), StoreError> {
        for path in list(&self.root.join("imports"))? {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if let Ok(record) = format!("b3:{name}").parse::<Digest>()
                && !self.contains(&record)
            {
                super::gc::remove(&path)?;
            }
        }
        Ok(())
    }
}
