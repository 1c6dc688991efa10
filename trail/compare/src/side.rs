//! One of the two studies.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use artifacts::{Digest, Store, Table};
use pipeline::lock::{Lock, LockClass};
use pipeline::place::{cell_text, plain_label};
use pipeline::record::Record;
use pipeline::suggest::remedy;
use pipeline::{Coordinates, Json, Media};

/// Two studies that cannot be compared.
#[derive(Debug)]
pub enum CompareError {
    /// A study cannot be read. The text names it and the reason.
    Study(String),
    /// The user's mistake: a column that no table of cells in both studies has.
    Column {
        /// The column.
        column: String,
        /// The columns that can be compared.
        names: Vec<String>,
    },
    /// The user's mistake: an axis of launches that no table of cells in both studies has.
    Unit {
        /// The axis.
        axis: String,
        /// The axes that tables of cells in both studies have.
        names: Vec<String>,
    },
}

impl CompareError {
    /// Returns the remedy, if it is the user's mistake.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Study(_) => None,
            Self::Column { names, .. } if names.is_empty() => Some(
                "`diff` compares tables of the operator `cell-summary`; name one in both studies"
                    .to_owned(),
            ),
            Self::Unit { axis, names } => {
                Some(remedy(axis, "axes", names.iter().map(String::as_str)))
            }
            Self::Column { column, names } => Some(remedy(
                &contract::usual_name(column),
                "columns",
                names.iter().map(String::as_str),
            )),
        }
    }
}

impl fmt::Display for CompareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Study(text) => f.write_str(text),
            Self::Unit { axis, .. } => {
                write!(f, "no table of cells in both studies has the axis `{axis}`")
            }
            Self::Column { column, .. } => {
                write!(
                    f,
                    "no table of cells in both studies has the column `{column}`"
                )
            }
        }
    }
}

impl std::error::Error for CompareError {}

/// An executed cell.
#[derive(Debug)]
pub(crate) struct Executed {
    pub(crate) stage: String,
    pub(crate) coordinates: String,
    pub(crate) record: Record,
}

impl Executed {
    pub(crate) fn name(&self) -> String {
        cell_text(&self.stage, &self.coordinates)
    }
}

/// A lock with the store that holds its records.
#[derive(Debug)]
pub struct Side<'s> {
    /// The name of the study in messages.
    pub name: String,
    pub(crate) lock: Lock,
    store: &'s Store,
    pub(crate) cells: Vec<Executed>,
}

impl<'s> Side<'s> {
    /// Reads every record of a lock.
    ///
    /// # Errors
    /// If a record is missing or damaged.
    pub fn read(
        name: impl Into<String>,
        lock: Lock,
        store: &'s Store,
    ) -> Result<Self, CompareError> {
        let name = name.into();
        let mut cells = Vec::new();
        for stage in &lock.stages {
            for line in &stage.cells {
                let Some(digest) = line.record else { continue };
                let read = || -> Result<Record, String> {
                    let bytes = store.get_document(&digest).map_err(|e| e.to_string())?;
                    Record::parse(&bytes).map_err(|e| e.to_string())
                };
                let record = read().map_err(|e| {
                    let cell = cell_text(&stage.name, &line.coordinates);
                    CompareError::Study(format!("{name}: the record of {cell}: {e}"))
                })?;
                cells.push(Executed {
                    stage: stage.name.clone(),
                    coordinates: line.coordinates.clone(),
                    record,
                });
            }
        }
        Ok(Self {
            name,
            lock,
            store,
            cells,
        })
    }

    /// Returns the axes that only distinguish repetitions.
    pub(crate) fn replicates(&self) -> Vec<String> {
        let mut axes: Vec<String> = self
            .cells
            .iter()
            .flat_map(|c| {
                c.record
                    .recipe
                    .replicate
                    .0
                    .iter()
                    .map(|(axis, _)| axis.clone())
            })
            .collect();
        axes.sort();
        axes.dedup();
        axes
    }

    /// Returns the coordinates of every planned measurement, whatever its result, each axis as `axis=label`.
    pub(crate) fn measured(&self) -> Vec<BTreeSet<String>> {
        let stages = self.lock.stages.iter();
        let measuring = stages.filter(|stage| stage.class == LockClass::Measurement);
        let parts = |text: &str| -> Option<BTreeSet<String>> {
            let at: Coordinates = text.parse().ok()?;
            let part = |(axis, label)| Coordinates(vec![(axis, plain_label(label))]).to_string();
            Some(at.0.into_iter().map(part).collect())
        };
        measuring
            .flat_map(|stage| stage.cells.iter())
            .filter_map(|cell| parts(&cell.coordinates))
            .collect()
    }

    /// Returns the tables of a kind's cells by `CELL.OUTPUT`, without lineages.
    pub(crate) fn tables(&self, kinds: &[&str]) -> Result<BTreeMap<String, Table>, CompareError> {
        let mut values = BTreeMap::new();
        for cell in self
            .cells
            .iter()
            .filter(|c| kinds.contains(&c.record.recipe.kind.as_str()))
        {
            for (output, artifact) in &cell.record.outputs {
                if artifact.media == Media::Parquet && !output.ends_with(".lineage") {
                    let name = format!("{}.{output}", cell.name());
                    let table = Table::from_parquet(self.bytes(&name, &artifact.digest)?)
                        .map_err(|e| CompareError::Study(format!("{}: {name}: {e}", self.name)))?;
                    values.insert(name, table);
                }
            }
        }
        Ok(values)
    }

    /// Returns the digest of an output by its `CELL.OUTPUT`.
    pub(crate) fn output(&self, name: &str) -> Option<Digest> {
        self.cells.iter().find_map(|cell| {
            let output = name.strip_prefix(&cell.name())?.strip_prefix('.')?;
            Some(cell.record.outputs.get(output)?.digest)
        })
    }

    pub(crate) fn json(&self, what: &str, digest: &Digest) -> Result<Json, CompareError> {
        artifacts::json::parse(&self.bytes(what, digest)?)
            .map_err(|e| CompareError::Study(format!("{}: {what}: {e}", self.name)))
    }

    /// Returns the content of an artifact if it is JSON.
    pub(crate) fn peek(&self, digest: &Digest) -> Option<Json> {
        artifacts::json::parse(&self.store.get_document(digest).ok()?).ok()
    }

    pub(crate) fn bytes(&self, what: &str, digest: &Digest) -> Result<Vec<u8>, CompareError> {
        self.store
            .get(digest)
            .map_err(|e| CompareError::Study(format!("{}: {what}: {e}", self.name)))
    }
}
