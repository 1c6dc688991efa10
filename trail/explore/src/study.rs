//! One study: its lock, its cells in the form that a page needs, its tables.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use artifacts::{Digest, Store, Table};
use bytes::Bytes;
use contract::Exclusions;
use pipeline::CellStatus;
use pipeline::design::{Place, Preflight};
use pipeline::lock::{Lock, LockCell, LockClass, LockStage};
use pipeline::place::cell_text;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::about;
use crate::catalogue::{Catalogue, Entry, Known, not_ok, record_of};
use crate::contrast;
use crate::error::{Failure, Fault};
use crate::gates::{Gates, excluded};
use crate::imported::{self, Origin};
use crate::paging::{Piece, Stack};
use crate::reads;
use crate::reply::{Freshness, Reply};
use crate::report;
use crate::request::Ask;
use crate::table::{View, scalar};

/// The maximum number of values held to sort, search, save or query tables.
pub(crate) const MAX_VALUES: usize = 20_000_000;

/// A study of a site.
#[derive(Debug)]
pub(crate) struct Study {
    /// Its id in addresses.
    pub(crate) id: String,
    /// The file of the lock.
    pub(crate) path: PathBuf,
    /// Its path relative to the site's folder.
    place: String,
    /// The digest of the lock's bytes.
    pub(crate) digest: Digest,
    /// The lock.
    pub(crate) lock: Lock,
    cells: OnceLock<Bytes>,
    about: OnceLock<Value>,
    gates: OnceLock<Gates>,
    exclusions: OnceLock<Exclusions>,
    /// The positions of cells in their stages.
    positions: OnceLock<HashMap<(String, String), usize>>,
    /// The outputs of the cells read so far.
    kept: Known,
}

/// The part of a record that a page shows for each cell; the rest is skipped.
#[derive(Deserialize)]
struct Executed {
    started: String,
    seconds: f64,
    order: u64,
    #[serde(default)]
    place: Option<Place>,
    #[serde(default)]
    preflight: Option<Preflight>,
    warnings: Vec<String>,
    attempts: Vec<serde::de::IgnoredAny>,
    #[serde(default)]
    recipe: Origin,
}

/// A cell in the form that a page needs.
#[derive(Serialize)]
struct CellLine<'a> {
    at: &'a str,
    labels: Vec<Value>,
    status: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<Digest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<usize>,
    /// The load per core before its run, if it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    load: Option<f64>,
    #[serde(skip_serializing_if = "is_zero")]
    warnings: usize,
    #[serde(skip_serializing_if = "is_zero")]
    earlier: usize,
    #[serde(skip_serializing_if = "is_zero")]
    retries: usize,
    /// The reason why a gate excludes an ok cell from statistics.
    #[serde(skip_serializing_if = "Option::is_none")]
    excluded: Option<&'a str>,
    /// The reason why its record cannot be read; the lock has the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    unread: Option<String>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Study {
    /// Reads a lock.
    pub(crate) fn read(
        id: String,
        path: &Path,
        root: &Path,
        bytes: &[u8],
    ) -> Result<Self, Failure> {
        let text = std::str::from_utf8(bytes)
            .map_err(|_| Failure::store(format!("{}: it is not text", path.display())))?;
        // An error in a lock already includes its remedy.
        let lock = Lock::parse(text, path).map_err(|e| Failure::new(Fault::Store, e, ""))?;
        Ok(Self {
            id,
            path: path.to_owned(),
            place: path
                .strip_prefix(root)
                .unwrap_or(path)
                .display()
                .to_string(),
            digest: Digest::of(bytes),
            lock,
            cells: OnceLock::new(),
            about: OnceLock::new(),
            gates: OnceLock::new(),
            exclusions: OnceLock::new(),
            positions: OnceLock::new(),
            kept: Known::default(),
        })
    }

    /// Returns the entry of the study in a list.
    pub(crate) fn summary(&self) -> Value {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for cell in self.lock.stages.iter().flat_map(|s| &s.cells) {
            *counts.entry(cell.status.word()).or_default() += 1;
        }
        let repeated = |c: &&LockCell| !c.earlier.is_empty();
        let measured = self.lock.stages.iter();
        let measured = measured.filter(|s| s.class == LockClass::Measurement);
        let (mut cells, mut again) = (0, 0);
        for stage in measured {
            cells += stage.cells.len();
            again += stage.cells.iter().filter(repeated).count();
        }
        json!({
            "id": self.id,
            "experiment": self.lock.experiment,
            "profile": self.lock.profile,
            "seed": self.lock.seed,
            "trail": self.lock.trail(),
            "lock": self.place,
            "counts": counts,
            "measurements": cells,
            "measured_again": again,
        })
    }

    /// Returns the summary, with the subject of the study.
    pub(crate) fn line(&self, store: &Store) -> Value {
        let about = self
            .about
            .get_or_init(|| about::about(&self.lock, &self.path, store));
        let mut value = self.summary();
        value["about"] = about.clone();
        value["report"] = json!(report::has_report(&self.lock, store, &self.kept));
        // Damaged exclusions must not hide the study.
        if let Ok(exclusions) = self.exclusions(store) {
            value["excluded"] = json!(excluded(&self.lock, exclusions));
        }
        value
    }

    /// Answers with the study, its stages and its tables.
    pub(crate) fn overview(&self, store: &Store) -> Result<Reply, Failure> {
        let mut value = self.line(store);
        let stages = self.lock.stages.iter().map(|stage| {
            json!({
                "name": stage.name,
                "class": class_word(stage.class),
                "cells": stage.cells.len(),
            })
        });
        value["stages"] = stages.collect();
        // Damage is reported where the data are requested, and by the tables below.
        value["replicates"] = json!(contrast::replicates(self, store).unwrap_or_default());
        let (tables, unread) = self.tables(store);
        // A page that has older answers notices a change.
        value["lock_digest"] = json!(self.digest);
        value["tables"] = tables;
        value["unread"] = json!(unread);
        // A failed gate on a stage as a whole belongs to no cell.
        let gates = self.gates(store).and_then(Gates::failed_on_stages);
        value["failed_on_stages"] = gates.unwrap_or_default();
        Ok(Reply::json(&value, Freshness::Tagged))
    }

    /// Returns the tables by their names in queries.
    pub(crate) fn catalogue(&self, store: &Store) -> Result<Catalogue<'_>, Failure> {
        Ok(Catalogue::knowing(&self.lock, store, &self.kept)?)
    }

    /// Returns the tables with their columns, and the reasons why those of a stage cannot be listed.
    fn tables(&self, store: &Store) -> (Value, Vec<String>) {
        let (catalogue, unread) = Catalogue::readable(&self.lock, store, &self.kept);
        let mut tables = Vec::new();
        for (name, entry) in &catalogue.tables {
            let ok = entry.stage.cells.iter();
            let ok: Vec<&LockCell> = ok.filter(|c| c.status == CellStatus::Ok).collect();
            let axes: Vec<String> = ok.first().map(|c| axes_of(c)).unwrap_or_default();
            tables.push(json!({
                "name": name,
                "stage": entry.stage.name,
                "output": entry.output,
                "cells": ok.len(),
                "axes": axes,
                "rows_of_first": entry.sample.rows,
                "lineage": name.ends_with(".lineage"),
                "operator": operator_of(entry, store),
                "reads": reads::loads_of(name, &catalogue, store),
                "artifact": (ok.len() == 1).then_some(entry.sample.digest),
            }));
        }
        (Value::Array(tables), unread)
    }

    /// Answers with every cell: coordinates, status, and time of execution.
    pub(crate) fn cells(&self, store: &Store) -> Result<Reply, Failure> {
        let bytes = match self.cells.get() {
            Some(bytes) => bytes.clone(),
            None => {
                // Damaged exclusions must not hide the cells.
                let none = Exclusions::default();
                let exclusions = self.exclusions(store);
                let readable = exclusions.is_ok();
                let exclusions = exclusions.unwrap_or(&none);
                let mut stages = Vec::new();
                for stage in &self.lock.stages {
                    stages.push(stage_lines(stage, exclusions, store)?);
                }
                let bytes = Bytes::from(json!({"id": self.id, "stages": stages}).to_string());
                let mut lines = stages
                    .iter()
                    .filter_map(|s| s["cells"].as_array())
                    .flatten();
                match !readable || lines.any(|line| line.get("unread").is_some()) {
                    // The store may be repaired while the lock stays the same.
                    true => bytes,
                    false => self.cells.get_or_init(|| bytes).clone(),
                }
            }
        };
        Ok(Reply::new("application/json", bytes, Freshness::Tagged))
    }

    /// Answers with rows of a table: of one cell with `cell=`, otherwise of all ok cells of its stage.
    pub(crate) fn table(&self, name: &str, ask: &Ask, store: &Store) -> Result<Reply, Failure> {
        let view = View::of(ask)?;
        if let Some(at) = ask.get("cell") {
            return self.table_of_cell(name, at, &view, store);
        }
        let catalogue = self.catalogue(store)?;
        let full = catalogue.short.get(name).map_or(name, String::as_str);
        let Some(entry) = catalogue.tables.get(full) else {
            let message = format!("unknown table `{name}`");
            return Err(Failure::nothing(message, catalogue.hint(name)));
        };
        self.stack(full, entry, store)?
            .reply(&view, &left_out(entry), store)
    }

    /// Returns the rows of a table of all ok cells, preceded by their coordinates.
    fn stack(&self, name: &str, entry: &Entry<'_>, store: &Store) -> Result<Stack, Failure> {
        let ok = entry.stage.cells.iter();
        let ok: Vec<&LockCell> = ok.filter(|c| c.status == CellStatus::Ok).collect();
        let mut pieces = Vec::new();
        for cell in &ok {
            let outputs = self.kept.outputs_of(store, &entry.stage.name, cell)?;
            let artifact = outputs.as_ref().and_then(|o| o.get(&entry.output[..]));
            if let Some(artifact) = artifact {
                pieces.push(Piece {
                    cell: cell.coordinates.clone(),
                    at: cell.place().map_err(Failure::store)?.0,
                    digest: artifact.digest,
                    rows: usize::try_from(artifact.rows.unwrap_or(0)).unwrap_or(usize::MAX),
                });
            }
        }
        Ok(Stack {
            owner: format!("{} cells", ok.len()),
            name: name.to_owned(),
            class: entry.stage.class,
            pieces,
        })
    }

    fn table_of_cell(
        &self,
        name: &str,
        at: &str,
        view: &View,
        store: &Store,
    ) -> Result<Reply, Failure> {
        let (stage, output) = name.split_once('.').ok_or_else(|| {
            Failure::question(
                format!("`{name}` does not say its stage"),
                "write STAGE.OUTPUT, for example `ladder.requests`",
            )
        })?;
        let (declared, cell) = self.find(stage, at)?;
        let record = record_of(store, stage, cell)?;
        let artifact = record.as_ref().and_then(|record| {
            let outputs = &record.outputs;
            outputs.get(output).or_else(|| record.evidence.get(output))
        });
        let Some(artifact) = artifact else {
            let message = format!("{} has no `{output}`", cell_text(stage, at));
            return Err(Failure::nothing(message, "the cell lists what it has"));
        };
        let stack = Stack {
            owner: cell_text(stage, at),
            name: name.to_owned(),
            class: declared.class,
            pieces: vec![Piece {
                cell: at.to_owned(),
                at: Vec::new(),
                digest: artifact.digest,
                rows: usize::try_from(artifact.rows.unwrap_or(0)).unwrap_or(usize::MAX),
            }],
        };
        let mut notes = Vec::new();
        if cell.status != CellStatus::Ok {
            notes.push(format!(
                "the cell is {}: these rows are evidence, and enter no statistic",
                cell.status.word()
            ));
        }
        stack.reply(view, &notes, store)
    }

    /// Returns the gate results of its cells. The first call reads the gate tables.
    pub(crate) fn gates(&self, store: &Store) -> Result<&Gates, Failure> {
        match self.gates.get() {
            Some(gates) => Ok(gates),
            None => {
                let gates = Gates::read(&self.lock, store)?;
                Ok(self.gates.get_or_init(|| gates))
            }
        }
    }

    /// Returns the cells that a gate excludes from statistics. The first call reads the tables of exclusions.
    pub(crate) fn exclusions(&self, store: &Store) -> Result<&Exclusions, Failure> {
        match self.exclusions.get() {
            Some(exclusions) => Ok(exclusions),
            None => {
                let exclusions = crate::gates::exclusions(&self.lock, store)?;
                Ok(self.exclusions.get_or_init(|| exclusions))
            }
        }
    }

    /// Returns a stage.
    pub(crate) fn stage(&self, name: &str) -> Result<&LockStage, Failure> {
        let names = || -> Vec<&str> { self.lock.stages.iter().map(|s| s.name.as_str()).collect() };
        self.lock
            .stages
            .iter()
            .find(|s| s.name == name)
            .ok_or_else(|| {
                Failure::nothing(
                    format!("the lock has no stage `{name}`"),
                    format!("it has: {}", names().join(", ")),
                )
            })
    }

    /// Returns a stage and one of its cells.
    pub(crate) fn find(&self, stage: &str, at: &str) -> Result<(&LockStage, &LockCell), Failure> {
        let declared = self.stage(stage)?;
        let positions = self.positions.get_or_init(|| {
            let stages = self.lock.stages.iter();
            let cells = stages.flat_map(|s| s.cells.iter().enumerate().map(move |c| (s, c)));
            let place = |(s, (i, c)): (&LockStage, (usize, &LockCell))| {
                ((s.name.clone(), c.coordinates.clone()), i)
            };
            cells.map(place).collect()
        });
        let position = positions.get(&(stage.to_owned(), at.to_owned()));
        let cell = position.map(|position| &declared.cells[*position]);
        let missing = || {
            let first = declared
                .cells
                .first()
                .map_or("", |c| c.coordinates.as_str());
            Failure::nothing(
                format!("there is no cell {}", cell_text(stage, at)),
                format!("its first cell is {}", cell_text(stage, first)),
            )
        };
        Ok((declared, cell.ok_or_else(missing)?))
    }
}

/// Says how many cells have no rows in a table over cells.
fn left_out(entry: &Entry<'_>) -> Vec<String> {
    let cells = entry.stage.cells.iter();
    let absent = cells.filter(|c| c.status != CellStatus::Ok).count();
    match absent {
        0 => Vec::new(),
        _ => vec![not_ok(absent, entry.stage)],
    }
}

/// Returns a stage with its cells.
fn stage_lines(
    stage: &LockStage,
    exclusions: &Exclusions,
    store: &Store,
) -> Result<Value, Failure> {
    let mut axes: Vec<String> = Vec::new();
    for cell in &stage.cells {
        for axis in axes_of(cell) {
            if !axes.contains(&axis) {
                axes.push(axis);
            }
        }
    }
    let mut lines = Vec::with_capacity(stage.cells.len());
    for cell in &stage.cells {
        lines.push(cell_line(stage, cell, &axes, (exclusions, store))?);
    }
    Ok(json!({
        "name": stage.name,
        "class": class_word(stage.class),
        "axes": axes,
        "cells": lines,
    }))
}

fn cell_line(
    stage: &LockStage,
    cell: &LockCell,
    axes: &[String],
    (exclusions, store): (&Exclusions, &Store),
) -> Result<Value, Failure> {
    // One damaged record must not hide the other cells.
    let (executed, unread) = match executed(stage, cell, store) {
        Ok(executed) => (executed, None),
        Err(failure) => (None, Some(failure.message)),
    };
    let place = cell.place().map_err(Failure::store)?;
    let labels = axes.iter();
    let labels = labels.map(|axis| place.get(axis).map_or(Value::Null, scalar));
    // The record of imported rows says when they were read, and not when they were measured.
    let is_own = executed.as_ref().filter(|e| !e.recipe.is_imported());
    let started = match (is_own, &executed) {
        (Some(own), _) => Some(own.started.clone()),
        (None, Some(_)) => imported::started(&stage.name, cell, store),
        (None, None) => None,
    };
    let line = CellLine {
        at: &cell.coordinates,
        labels: labels.collect(),
        status: cell.status.word(),
        reason: cell.reason.as_deref(),
        record: cell.record,
        started,
        seconds: is_own.map(|e| e.seconds),
        order: is_own.map(|e| e.order),
        block: executed
            .as_ref()
            .and_then(|e| e.place.as_ref())
            .map(|p| p.block),
        load: executed
            .as_ref()
            .and_then(|e| e.preflight.as_ref()?.seen.load_per_core),
        warnings: executed.as_ref().map_or(0, |e| e.warnings.len()),
        earlier: cell.earlier.len(),
        retries: executed
            .as_ref()
            .map_or(0, |e| e.attempts.len().saturating_sub(1)),
        excluded: match cell.status {
            CellStatus::Ok => exclusions.why(&stage.name, &cell.coordinates),
            _ => None,
        },
        unread,
    };
    serde_json::to_value(line).map_err(Failure::store)
}

/// Returns the part of a cell's record that a page shows; `None` if the cell was not executed.
fn executed(
    stage: &LockStage,
    cell: &LockCell,
    store: &Store,
) -> Result<Option<Executed>, Failure> {
    let Some(digest) = cell.record else {
        return Ok(None);
    };
    let name = cell_text(&stage.name, &cell.coordinates);
    let wrong = |e: String| Failure::store(format!("the record {digest} of {name}: {e}"));
    let bytes = store
        .get_document(&digest)
        .map_err(|e| wrong(e.to_string()))?;
    let executed = artifacts::json::parse(&bytes).map_err(|e| wrong(e.to_string()))?;
    Ok(Some(executed))
}

/// Returns the operator behind a table of an analysis, from the table of the first cell.
fn operator_of(entry: &Entry<'_>, store: &Store) -> Option<String> {
    let pure = entry.stage.class == LockClass::Pure && !entry.output.ends_with(".lineage");
    let head = pure.then(|| Table::read_rows(store, &entry.sample.digest, 0..0).ok())??;
    head.0.metadata("operator")
}

/// Returns the names of a cell's axes.
pub(crate) fn axes_of(cell: &LockCell) -> Vec<String> {
    cell.place().unwrap_or_default().axes()
}

fn class_word(class: LockClass) -> &'static str {
    match class {
        LockClass::Resource => "resource",
        LockClass::Measurement => "measurement",
        LockClass::Pure => "pure",
        LockClass::Study => "study",
    }
}
