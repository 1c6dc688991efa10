//! Finds the lock that a report belongs to, and the cell that made an artifact.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use artifacts::{Digest, Store};
use pipeline::lock::{Lock, LockCell, LockClass, LockError, LockStage};
use pipeline::place::cell_text;
use pipeline::record::Record;
use serde::Serialize;

use crate::document::{Document, Number};
use crate::error::TrailError;
use crate::explain::Descent;
use crate::lineage::RowRange;
use crate::read::Reader;

/// How the report's files compare with what was rendered according to the lock.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Seal {
    /// The record of the cell that rendered the report.
    pub record: Digest,
    /// The digest of the report as rendered.
    pub report: Digest,
    /// The digest of the trace as rendered.
    pub trace: Option<Digest>,
    /// Whether the report's file has the rendered bytes.
    pub report_intact: bool,
    /// Whether the trace's file has the rendered bytes.
    pub trace_intact: bool,
}

/// A cell and its record.
#[derive(Clone, Debug)]
pub struct Holder {
    /// The digest of the record.
    pub digest: Digest,
    /// The record.
    pub record: Rc<Record>,
}

impl Holder {
    /// Returns the cell's name, as in messages.
    pub fn cell(&self) -> String {
        cell_text(&self.record.stage, &self.record.coordinates.to_string())
    }
}

/// The lock of a report, with the store that holds its records.
#[derive(Debug)]
pub struct Provenance<'store> {
    /// The lock's file; `None` if no lock is known.
    pub file: Option<PathBuf>,
    /// The lock; empty if none is known.
    pub lock: Lock,
    /// How report and trace compare with the lock; `None` if it holds neither.
    pub seal: Option<Seal>,
    /// Problems during the search.
    pub doubts: Vec<String>,
    pub(crate) reader: Reader<'store>,
    kept: Kept,
}

/// What was read or followed once.
#[derive(Debug, Default)]
struct Kept {
    /// The record of the first cell that has an artifact among its outputs, by stage.
    holders: RefCell<BTreeMap<String, Rc<HashMap<Digest, Digest>>>>,
    /// The records by cell.
    places: RefCell<Option<Rc<HashMap<String, Digest>>>>,
    /// The tables of gates.
    judges: RefCell<Option<Rc<[Judge]>>>,
    /// The sources of the last requested rows, because a report prints several numbers of a row in sequence.
    descent: RefCell<Option<(DescentPlace, Rc<Descent>)>>,
}

/// The record of a table's cell, the output, and rows of the output.
type DescentPlace = (Digest, String, Vec<RowRange>);

/// A table of gates, with the cells that it judges by stage.
#[derive(Debug)]
struct Judge {
    gates: Digest,
    checked: HashMap<String, HashSet<String>>,
}

/// Returns whether a lock lies in a published bundle.
fn is_bundled(lock: &Path) -> bool {
    let is_bundle = |folder: &Path| {
        folder.join("manifest.json").is_file() && folder.join("store/objects").is_dir()
    };
    lock.ancestors().skip(1).any(is_bundle)
}

impl<'store> Provenance<'store> {
    /// Chooses the lock that a report belongs to. Its records have as an output the report or, failing that, the trace
    /// or an artifact that the trace names.
    pub fn choose(store: &'store Store, locks: &[PathBuf], document: &Document) -> Self {
        let reader = Reader::new(store);
        let mut doubts = Vec::new();
        let mut read: Vec<(PathBuf, Lock)> = Vec::new();
        // A bundle that was published from the study has a copy of its lock.
        let (bundled, own): (Vec<&PathBuf>, _) = locks.iter().partition(|path| is_bundled(path));
        for path in own.into_iter().chain(bundled) {
            match Lock::read(path) {
                Ok(Some(lock)) => read.push((path.clone(), lock)),
                Ok(None) => {}
                Err(error) => doubts.push(format!("a lock cannot be used: {error}")),
            }
        }
        let mut best: Option<(usize, Seal)> = None;
        for (i, (path, lock)) in read.iter().enumerate() {
            for seal in seals(&reader, lock, document, path, &mut doubts) {
                let rank = |s: &Seal| (s.report_intact, s.trace_intact);
                if best.as_ref().is_none_or(|(_, b)| rank(&seal) > rank(b)) {
                    best = Some((i, seal));
                }
            }
        }
        let none = Self {
            file: None,
            lock: Lock::default(),
            seal: None,
            doubts,
            reader,
            kept: Kept::default(),
        };
        if let Some((i, seal)) = best {
            let (path, lock) = read.swap_remove(i);
            let mut provenance = Self {
                file: Some(path),
                lock,
                ..none
            };
            if seal.report_intact && seal.trace_intact {
                // Problems with other locks do not affect this report.
                provenance.doubts.clear();
            }
            provenance.seal = Some(seal);
            return provenance;
        }
        let Some(named) = document
            .numbers
            .iter()
            .find(|n| n.stage.is_some() && n.artifact.is_some())
        else {
            return none;
        };
        let mut provenance = none;
        for (path, lock) in read {
            provenance.lock = lock;
            provenance.kept = Kept::default();
            if let Ok(Some(_)) = provenance.holder(named) {
                provenance.file = Some(path);
                return provenance;
            }
        }
        Self {
            lock: Lock::default(),
            kept: Kept::default(),
            ..provenance
        }
    }

    /// Uses a given lock, for values that no report prints.
    ///
    /// # Errors
    /// If the lock cannot be read.
    pub fn of_lock(store: &'store Store, path: &Path) -> Result<Self, LockError> {
        Ok(Self {
            file: Some(path.to_owned()),
            lock: Lock::read(path)?.unwrap_or_default(),
            seal: None,
            doubts: Vec::new(),
            reader: Reader::new(store),
            kept: Kept::default(),
        })
    }

    /// Returns whether a lock is known.
    pub(crate) fn is_known(&self) -> bool {
        self.file.is_some()
    }

    /// Returns the ok cells of a stage, each with its record.
    ///
    /// # Errors
    /// If a record cannot be read.
    pub fn cells(&self, stage: &str) -> Result<Vec<Holder>, TrailError> {
        let stages = self.lock.stages.iter().filter(|s| s.name == stage);
        let records = stages
            .flat_map(|s| &s.cells)
            .filter(|c| c.outputs.is_some())
            .filter_map(|c| c.record);
        records.map(|digest| self.holder_of(digest)).collect()
    }

    /// Returns the cell of a record.
    fn holder_of(&self, digest: Digest) -> Result<Holder, TrailError> {
        let record = self.reader.record(&digest)?;
        Ok(Holder { digest, record })
    }

    /// Returns the cell that a number was read from. Returns `None` if the lock does not have the cell, or if the cell
    /// no longer has the number's artifact among its outputs.
    ///
    /// # Errors
    /// If a record cannot be read.
    pub fn holder(&self, number: &Number) -> Result<Option<Holder>, TrailError> {
        let (Some(stage), Some(artifact)) = (&number.stage, &number.artifact) else {
            return Ok(None);
        };
        let has = |holder: &Holder| {
            holder
                .record
                .outputs
                .values()
                .any(|o| o.digest == *artifact)
        };
        if let Some(coordinates) = &number.coordinates {
            let cell = self.at(stage, &coordinates.to_string())?;
            return Ok(cell.filter(has));
        }
        // The report itself made this table.
        if let Some(seal) = &self.seal {
            let own = self.holder_of(seal.record)?;
            if own.record.stage == *stage && has(&own) {
                return Ok(Some(own));
            }
        }
        self.some_holder(stage, artifact)
    }

    /// Returns any cell of a stage that has an artifact among its outputs.
    fn some_holder(&self, stage: &str, artifact: &Digest) -> Result<Option<Holder>, TrailError> {
        let kept = self.kept.holders.borrow().get(stage).cloned();
        let holders = match kept {
            Some(holders) => holders,
            None => {
                let mut holders = HashMap::new();
                for Holder { digest, record } in self.cells(stage)? {
                    for output in record.outputs.values() {
                        holders.entry(output.digest).or_insert(digest);
                    }
                }
                let holders = Rc::new(holders);
                self.kept
                    .holders
                    .borrow_mut()
                    .insert(stage.to_owned(), holders.clone());
                holders
            }
        };
        let digest = holders.get(artifact).copied();
        digest.map(|digest| self.holder_of(digest)).transpose()
    }

    /// Returns the cell with these coordinates, if the lock has its record.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub fn at(&self, stage: &str, coordinates: &str) -> Result<Option<Holder>, TrailError> {
        let kept = self.kept.places.borrow().clone();
        let places = kept.unwrap_or_else(|| {
            let stages = self.lock.stages.iter();
            let cells = stages.flat_map(|s| s.cells.iter().map(move |c| (s, c)));
            let place = |(s, c): (&LockStage, &LockCell)| {
                Some((cell_text(&s.name, &c.coordinates), c.record?))
            };
            let places: Rc<HashMap<String, Digest>> = Rc::new(cells.filter_map(place).collect());
            self.kept.places.replace(Some(places.clone()));
            places
        });
        let digest = places.get(&cell_text(stage, coordinates)).copied();
        digest.map(|digest| self.holder_of(digest)).transpose()
    }

    /// Returns the sources of rows of an output. Follows the rows unless they are the last requested ones.
    ///
    /// # Errors
    /// If they cannot be followed.
    pub(crate) fn descent(
        &self,
        (record, output, spans): (Digest, &str, &[RowRange]),
        follow: impl FnOnce() -> Result<Descent, TrailError>,
    ) -> Result<Rc<Descent>, TrailError> {
        let is_same = |(place, _): &&(DescentPlace, Rc<Descent>)| {
            place.0 == record && place.1 == output && place.2 == spans
        };
        if let Some((_, descent)) = self.kept.descent.borrow().as_ref().filter(is_same) {
            return Ok(descent.clone());
        }
        let descent = Rc::new(follow()?);
        let place = (record, output.to_owned(), spans.to_vec());
        self.kept.descent.replace(Some((place, descent.clone())));
        Ok(descent)
    }

    /// Returns the study's tables of gates about any of these cells, which are given as stage and coordinates.
    ///
    /// # Errors
    /// If a record cannot be read.
    pub(crate) fn gates_of(&self, places: &[(&str, &str)]) -> Result<Vec<Digest>, TrailError> {
        let kept = self.kept.judges.borrow().clone();
        let judges = match kept {
            Some(judges) => judges,
            None => {
                let judges: Rc<[Judge]> = self.judges()?.into();
                self.kept.judges.replace(Some(judges.clone()));
                judges
            }
        };
        let has_checked = |judge: &&Judge| {
            let checked = |(stage, cell): &(&str, &str)| {
                let cells = judge.checked.get(*stage);
                cells.is_some_and(|cells| cells.contains(*cell))
            };
            places.iter().any(checked)
        };
        let tables = judges.iter().filter(has_checked);
        Ok(tables.map(|judge| judge.gates).collect())
    }

    /// Returns every table of gates, with the cells that it judges.
    fn judges(&self) -> Result<Vec<Judge>, TrailError> {
        let mut judges = Vec::new();
        for stage in &self.lock.stages {
            let records = stage.cells.iter().filter(|c| c.outputs.is_some());
            for digest in records.filter_map(|c| c.record) {
                let record = self.reader.record(&digest)?;
                // All cells of a stage have the same outputs.
                let Some(gates) = record.outputs.get("gates") else {
                    break;
                };
                let mut checked: HashMap<String, HashSet<String>> = HashMap::new();
                for input in &record.recipe.inputs {
                    let cells = input.cells.iter().map(|cell| cell.coordinates.to_string());
                    checked
                        .entry(input.stage.clone())
                        .or_default()
                        .extend(cells);
                }
                judges.push(Judge {
                    gates: gates.digest,
                    checked,
                });
            }
        }
        Ok(judges)
    }
}

/// Returns the reports of a lock that match the document, or matched it before it was edited.
fn seals(
    reader: &Reader<'_>,
    lock: &Lock,
    document: &Document,
    path: &Path,
    doubts: &mut Vec<String>,
) -> Vec<Seal> {
    let mut documents = Vec::new();
    let studies = lock.stages.iter().filter(|s| s.class == LockClass::Study);
    for record in studies.flat_map(|s| &s.cells).filter_map(|c| c.record) {
        let outputs = match reader.record(&record) {
            Ok(read) => read.outputs.clone(),
            Err(error) => {
                doubts.push(format!(
                    "{}: the record of its report: {error}",
                    path.display()
                ));
                continue;
            }
        };
        let Some(report) = outputs.get("report").map(|a| a.digest) else {
            continue;
        };
        let trace = outputs.get("trace").map(|a| a.digest);
        let (report_intact, trace_intact) =
            (report == document.report, trace == Some(document.trace));
        if report_intact || trace_intact {
            documents.push(Seal {
                record,
                report,
                trace,
                report_intact,
                trace_intact,
            });
        }
    }
    documents
}
