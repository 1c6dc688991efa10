//! Artifacts read once: each is fetched, its digest checked, and kept while it is needed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use artifacts::{Digest, Store, Table};
use pipeline::Json;
use pipeline::record::Record;

use crate::error::TrailError;

/// A store with what was read of it.
#[derive(Debug)]
pub(crate) struct Reader<'store> {
    store: &'store Store,
    tables: RefCell<HashMap<Digest, Rc<Table>>>,
    documents: RefCell<HashMap<Digest, Rc<Json>>>,
    records: RefCell<HashMap<Digest, Rc<Record>>>,
}

impl<'store> Reader<'store> {
    pub(crate) fn new(store: &'store Store) -> Self {
        Self { store, tables: RefCell::default(), documents: RefCell::default(), records: RefCell::default() }
    }

    /// Reads bytes and checks that they are those of the digest.
    pub(crate) fn check(&self, digest: &Digest) -> Result<(), TrailError> {
        self.store.get(digest)?;
        Ok(())
    }

    pub(crate) fn bytes(&self, digest: &Digest) -> Result<Vec<u8>, TrailError> {
        Ok(self.store.get(digest)?)
    }

    pub(crate) fn table(&self, digest: &Digest) -> Result<Rc<Table>, TrailError> {
        self.once(&self.tables, digest, |bytes| Table::from_parquet(bytes).map_err(|e| e.to_string()))
    }

    pub(crate) fn json(&self, digest: &Digest) -> Result<Rc<Json>, TrailError> {
        self.once(&self.documents, digest, |bytes| {
            serde_json::from_slice(&bytes).map_err(|e| format!("not readable JSON: {e}"))
        })
    }

    pub(crate) fn record(&self, digest: &Digest) -> Result<Rc<Record>, TrailError> {
        self.once(&self.records, digest, |bytes| Record::parse(&bytes).map_err(|e| e.to_string()))
    }

    fn once<T>(
        &self,
        kept: &RefCell<HashMap<Digest, Rc<T>>>,
        digest: &Digest,
        parse: impl Fn(Vec<u8>) -> Result<T, String>,
    ) -> Result<Rc<T>, TrailError> {
        if let Some(found) = kept.borrow().get(digest) {
            return Ok(found.clone());
        }
        let bytes = self.store.get(digest)?;
        let read = Rc::new(parse(bytes).map_err(|what| TrailError::Artifact(*digest, what))?);
        kept.borrow_mut().insert(*digest, read.clone());
        Ok(read)
    }
}
