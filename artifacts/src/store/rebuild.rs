//! Rebuilds the index from the objects.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::objects::hash_file;
use super::{MAX_RECORD_BYTES, ReadRecord, RecordView, Store, StoreError};
use crate::{ActionKey, Digest, lock};

/// The result of a rebuild.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RebuildReport {
    /// The number of whole objects.
    pub objects: u64,
    /// The number of records added to the index.
    pub records: u64,
    /// Objects whose bytes do not match their names, left out.
    pub damaged: Vec<Digest>,
    /// Records left out because something they need is missing or damaged.
    pub incomplete: Vec<Digest>,
}

impl Store {
    /// Returns whether the index was lost while objects existed. If so, cached cells cannot be found until
    /// [`Store::rebuild`] has run.
    ///
    /// # Errors
    /// If the index returns an error.
    pub fn needs_rebuild(&self) -> Result<bool, StoreError> {
        Ok(!self.index()?.is_complete()?)
    }

    /// Rebuilds the index from the records among the objects, hashing and syncing every object. Existing rows stay and
    /// count as newer.
    ///
    /// # Errors
    /// If the file system or the index returns an error.
    pub fn rebuild(&self, read: impl ReadRecord) -> Result<RebuildReport, StoreError> {
        let _turn = lock(&self.turn);
        let (walked, _) = self.walk()?;
        let looked: Vec<(Digest, Option<u64>, Option<RecordView>)> = walked
            .par_iter()
            .map(|f| {
                if f.bytes > MAX_RECORD_BYTES {
                    let (digest, bytes) = hash_file(&f.path)?;
                    return Ok((f.digest, (digest == f.digest).then_some(bytes), None));
                }
                match self.get(&f.digest) {
                    Ok(bytes) => Ok((f.digest, Some(bytes.len() as u64), read(&f.digest, &bytes))),
                    Err(StoreError::Damaged(..)) => Ok((f.digest, None, None)),
                    Err(other) => Err(other),
                }
            })
            .collect::<Result<_, StoreError>>()?;
        let mut report = RebuildReport::default();
        let (mut objects, mut records) = (BTreeMap::new(), Vec::new());
        for (digest, bytes, view) in looked {
            match bytes {
                Some(bytes) => drop(objects.insert(digest, bytes)),
                None => report.damaged.push(digest),
            }
            records.extend(view);
        }
        records.retain(|view| {
            let whole = view.references().all(|digest| objects.contains_key(digest));
            if !whole {
                report.incomplete.push(view.commit.record);
            }
            whole
        });
        records.sort_by_key(|view| (view.finished, view.commit.record));
        self.sync(&objects)?;
        let commits: Vec<_> = records.iter().map(|view| &view.commit).collect();
        self.index()?.write_older(&objects, &commits)?;
        report.objects = objects.len() as u64;
        report.records = commits.len() as u64;
        Ok(report)
    }

    /// Adds records named by a file outside the store, with keys where the file gives them, if the index lacks them or
    /// has another key. Leaves out missing and damaged ones. Returns the number of records added.
    ///
    /// # Errors
    /// If the file system or the index returns an error.
    pub fn adopt(
        &self,
        named: &[(Digest, Option<ActionKey>)],
        read: impl ReadRecord,
    ) -> Result<u64, StoreError> {
        let unknown = self.index()?.unknown(named)?;
        let mut objects = BTreeMap::new();
        let mut records = Vec::new();
        for record in unknown {
            let Some(view) = self.whole(&record, &read, &mut objects)? else {
                continue;
            };
            records.push(view);
        }
        if records.is_empty() {
            return Ok(0);
        }
        let _turn = lock(&self.turn);
        records.sort_by_key(|view| (view.finished, view.commit.record));
        self.sync(&objects)?;
        let commits: Vec<_> = records.iter().map(|view| &view.commit).collect();
        let strangers: Vec<Digest> = commits.iter().map(|c| c.record).collect();
        let mut index = self.index()?;
        // A row that contradicts its record is wrong: the record takes precedence.
        index.retire(&strangers)?;
        index.enter_older(&objects, &commits)?;
        Ok(commits.len() as u64)
    }

    /// Reads a record and hashes every object it names; `None` if any is missing or damaged.
    fn whole(
        &self,
        record: &Digest,
        read: &impl ReadRecord,
        objects: &mut BTreeMap<Digest, u64>,
    ) -> Result<Option<RecordView>, StoreError> {
        let bytes = match self.get(record) {
            Ok(bytes) => bytes,
            Err(StoreError::Missing(_) | StoreError::Damaged(..)) => return Ok(None),
            Err(other) => return Err(other),
        };
        let Some(view) = read(record, &bytes) else {
            return Ok(None);
        };
        for object in view.references() {
            if objects.contains_key(object) {
                continue;
            }
            let path = self.path(object);
            if !path.is_file() {
                return Ok(None);
            }
            let (digest, size) = hash_file(&path)?;
            if digest != *object {
                return Ok(None);
            }
            objects.insert(digest, size);
        }
        Ok(Some(view))
    }
}
