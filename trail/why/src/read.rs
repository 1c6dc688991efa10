//! Reads artifacts once: fetches each, checks its digest, and keeps it while it is needed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use artifacts::{ColumnReader, Digest, Store, Table, counted};
use contract::Lineage;
use pipeline::place::Condition;
use pipeline::record::Record;
use pipeline::stage::MissingCell;
use pipeline::{Artifact, Json, Media};

use crate::error::TrailError;
use crate::evidence::GateTable;
use crate::index::{Index, of_table};
use crate::lineage::Lines;
use crate::provenance::Holder;

/// The positions of a cell's inputs in its recipe, by stage and coordinates.
pub(crate) type Inputs = HashMap<(String, String), Vec<(usize, usize)>>;

/// A table and some of its columns.
type TableColumns = (Digest, Vec<String>);

/// A store with a cache of what was read.
#[derive(Debug)]
pub(crate) struct Reader<'store> {
    store: &'store Store,
    tables: RefCell<HashMap<Digest, Rc<Table>>>,
    lineages: RefCell<HashMap<Digest, Rc<Lines>>>,
    gates: RefCell<HashMap<Digest, Rc<GateTable>>>,
    inputs: RefCell<HashMap<Digest, Rc<Inputs>>>,
    documents: RefCell<HashMap<Digest, Rc<Json>>>,
    records: RefCell<HashMap<Digest, Rc<Record>>>,
    indexes: RefCell<HashMap<TableColumns, Rc<Index>>>,
    missing: RefCell<HashMap<Digest, Rc<[MissingCell]>>>,
}

impl<'store> Reader<'store> {
    pub(crate) fn new(store: &'store Store) -> Self {
        Self {
            store,
            tables: RefCell::default(),
            lineages: RefCell::default(),
            gates: RefCell::default(),
            inputs: RefCell::default(),
            documents: RefCell::default(),
            records: RefCell::default(),
            indexes: RefCell::default(),
            missing: RefCell::default(),
        }
    }

    /// Returns the rows of a cell's table that meet a condition. The cell's coordinates count as
    /// columns.
    pub(crate) fn rows(
        &self,
        digest: &Digest,
        condition: &Condition,
        holder: Option<&Holder>,
    ) -> Result<Vec<usize>, TrailError> {
        let table = self.table(digest)?;
        let Some(condition) = of_table(condition, &table, holder) else {
            return Ok(Vec::new());
        };
        let key: TableColumns = (*digest, condition.columns().map(str::to_owned).collect());
        let kept = self.indexes.borrow().get(&key).cloned();
        let index = match kept {
            Some(index) => index,
            None => {
                let index = Index::new(&table, &key.1);
                let index =
                    Rc::new(index.map_err(|e| TrailError::Artifact(*digest, e.to_string()))?);
                self.indexes.borrow_mut().insert(key, index.clone());
                index
            }
        };
        Ok(index.rows(&condition))
    }

    /// Returns how many times all rows of a table were read to evaluate conditions.
    #[cfg(test)]
    pub(crate) fn indexed(&self) -> usize {
        self.indexes.borrow().len()
    }

    /// Reads bytes and checks them against the digest and against what records say about them.
    pub(crate) fn check(&self, digest: &Digest, said: &[Artifact]) -> Result<(), TrailError> {
        let wrong = |what: String| TrailError::Artifact(*digest, what);
        let is_table = |artifact: &&Artifact| artifact.media == Media::Parquet;
        // Fetches it from a shared store if it is only there.
        let length = self.store.get(digest)?.len() as u64;
        let rows = match said.iter().any(|artifact| is_table(&artifact)) {
            true => {
                let table = ColumnReader::open(self.store, digest, &[]);
                Some(table.map_err(|e| wrong(e.to_string()))?.rows() as u64)
            }
            false => None,
        };
        for artifact in said {
            let bytes = artifact.bytes;
            if bytes != length {
                let what = format!(
                    "it has {}, but its record says {bytes}",
                    counted(length, "byte")
                );
                return Err(wrong(what));
            }
            let said = artifact.rows.filter(|_| is_table(&artifact));
            if let (Some(said), Some(rows)) = (said, rows)
                && said != rows
            {
                let what = format!(
                    "it has {}, but its record says {said}",
                    counted(rows, "row")
                );
                return Err(wrong(what));
            }
        }
        Ok(())
    }

    pub(crate) fn bytes(&self, digest: &Digest) -> Result<Vec<u8>, TrailError> {
        Ok(self.store.get(digest)?)
    }

    pub(crate) fn table(&self, digest: &Digest) -> Result<Rc<Table>, TrailError> {
        self.once(&self.tables, digest, |bytes| {
            Table::from_parquet(bytes).map_err(|e| e.to_string())
        })
    }

    pub(crate) fn lineage(&self, digest: &Digest) -> Result<Rc<Lines>, TrailError> {
        self.once(&self.lineages, digest, |bytes| {
            let table = Table::from_parquet(bytes).map_err(|e| e.to_string())?;
            let lineage = Lineage::read(&table);
            lineage
                .map(Lines::new)
                .map_err(|e| format!("not a lineage that can be read: {e}"))
        })
    }

    /// Returns a table of gates.
    pub(crate) fn gates(&self, digest: &Digest) -> Result<Rc<GateTable>, TrailError> {
        self.once(&self.gates, digest, |bytes| {
            let table = Table::from_parquet(bytes).map_err(|e| e.to_string())?;
            GateTable::read(&table).map_err(|e| e.to_string())
        })
    }

    /// Returns the cells that a table lacks, from its note `missing`.
    pub(crate) fn missing(&self, digest: &Digest) -> Result<Rc<[MissingCell]>, TrailError> {
        if let Some(cells) = self.missing.borrow().get(digest) {
            return Ok(cells.clone());
        }
        let note = self.table(digest)?.metadata("missing");
        let cells: Vec<MissingCell> = match note.filter(|note| !note.is_empty()) {
            Some(note) => serde_json::from_str(&note).map_err(|e| {
                TrailError::Artifact(*digest, format!("its note `missing` cannot be read: {e}"))
            })?,
            None => Vec::new(),
        };
        let cells: Rc<[MissingCell]> = cells.into();
        self.missing.borrow_mut().insert(*digest, cells.clone());
        Ok(cells)
    }

    /// Returns the positions of the inputs of a cell in its recipe.
    pub(crate) fn inputs(&self, holder: &Holder) -> Rc<Inputs> {
        let mut inputs = self.inputs.borrow_mut();
        let places = inputs.entry(holder.digest).or_insert_with(|| {
            let mut places = Inputs::new();
            for (i, input) in holder.record.recipe.inputs.iter().enumerate() {
                for (j, cell) in input.cells.iter().enumerate() {
                    let place = (input.stage.clone(), cell.coordinates.to_string());
                    places.entry(place).or_default().push((i, j));
                }
            }
            Rc::new(places)
        });
        places.clone()
    }

    pub(crate) fn json(&self, digest: &Digest) -> Result<Rc<Json>, TrailError> {
        self.once(&self.documents, digest, |bytes| {
            artifacts::json::parse(&bytes).map_err(|e| format!("not readable JSON: {e}"))
        })
    }

    pub(crate) fn record(&self, digest: &Digest) -> Result<Rc<Record>, TrailError> {
        self.once(&self.records, digest, |bytes| {
            Record::parse(&bytes).map_err(|e| e.to_string())
        })
    }

    fn once<T>(
        &self,
        kept: &RefCell<HashMap<Digest, Rc<T>>>,
        digest: &Digest,
        parse: impl Fn(Vec<u8>) -> Result<T, String>,
    ) -> Result<Rc<T>, TrailError> {
        if let Some(value) = kept.borrow().get(digest) {
            return Ok(value.clone());
        }
        let bytes = self.store.get(digest)?;
        let read = Rc::new(parse(bytes).map_err(|what| TrailError::Artifact(*digest, what))?);
        kept.borrow_mut().insert(*digest, read.clone());
        Ok(read)
    }
}
