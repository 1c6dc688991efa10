//! Selects the load cells that may enter a statistic: those that ran and passed verification. Keeps the others that
//! have rows apart, for operators that diagnose failures.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use artifacts::{Scalar, Store, Table};
use contract::{CellRows, Exclusions, LineageSource, Metric, NarrowRows, SourceArtifact};
use pipeline::place::CellName;
use pipeline::{Cause, CellStatus, Control, Coordinates, Failure, Input, InputCell, Media};
use rayon::prelude::*;

use crate::frame::{Absence, Missing};

/// The usable rows of one load stage.
#[derive(Debug)]
pub(crate) struct Load<'a> {
    pub(crate) stage: String,
    /// The names of its axes.
    pub(crate) axes: Vec<String>,
    /// The cells that enter, sorted by coordinates.
    pub(crate) cells: Vec<(Vec<Scalar>, Rows<'a>)>,
    /// The cells that do not enter, with the reason.
    pub(crate) missing: Vec<Missing>,
    /// The cells among `missing` that left request rows, sorted by coordinates. Only operators that
    /// [read failed cells](crate::Reads::AlsoFailed) may use them.
    pub(crate) failed: Vec<(Vec<Scalar>, CellStatus, Rows<'a>)>,
}

/// The rows of one load cell.
#[derive(Debug)]
pub(crate) enum Rows<'a> {
    /// Already read.
    Held(Box<CellRows>, Origin<'a>),
    /// Read on demand, because the rows of all cells together would not fit.
    Stored(Origin<'a>, Answers),
}

/// The answers of a cell, once an operator has read them; `None` if those of all cells together would not fit.
type Answers = Option<Box<OnceLock<CellRows>>>;

/// The location of the tables of a load cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    store: &'a Store,
    stage: &'a str,
    cell: &'a InputCell,
}

impl Load<'_> {
    /// Returns the names of the tables that any cell has.
    pub(crate) fn tables(&self) -> BTreeSet<String> {
        let outputs = self.cells.iter().flat_map(|(_, rows)| {
            let (Rows::Held(_, from) | Rows::Stored(from, _)) = rows;
            &from.cell.outputs
        });
        outputs
            .filter(|(_, artifact)| artifact.media == Media::Parquet)
            .map(|(name, _)| name.clone())
            .collect()
    }
}

impl Rows<'_> {
    /// Returns the coordinates of the cell.
    pub(crate) fn coordinates(&self) -> &Coordinates {
        let (Self::Held(_, from) | Self::Stored(from, _)) = self;
        &from.cell.coordinates
    }

    /// Returns whether the load abandons requests on purpose, by its setting `cancel`.
    pub(crate) fn abandons(&self) -> bool {
        let (Self::Held(_, from) | Self::Stored(from, _)) = self;
        contract::abandons(&from.cell.parameters)
    }

    /// Returns the rows.
    ///
    /// # Errors
    /// As [`CellRows::read`].
    pub(crate) fn get(&self) -> Result<Cow<'_, CellRows>, Failure> {
        match self {
            Self::Held(rows, _) => Ok(Cow::Borrowed(rows)),
            Self::Stored(from, _) => {
                CellRows::read(from.store, from.stage, from.cell).map(Cow::Owned)
            }
        }
    }

    /// Returns the requests without their chunks and without samples.
    ///
    /// # Errors
    /// As [`CellRows::read_answers`].
    pub(crate) fn answers(&self) -> Result<Cow<'_, CellRows>, Failure> {
        let (from, kept) = match self {
            Self::Held(rows, _) => return Ok(Cow::Borrowed(rows)),
            Self::Stored(from, kept) => (from, kept.as_deref()),
        };
        if let Some(rows) = kept.and_then(OnceLock::get) {
            return Ok(Cow::Borrowed(rows));
        }
        let rows = CellRows::read_answers(from.store, from.stage, from.cell)?;
        Ok(match kept {
            Some(kept) => Cow::Borrowed(kept.get_or_init(|| rows)),
            None => Cow::Owned(rows),
        })
    }

    /// Returns a table of the cell and its location; `None` if the cell has no table of this name.
    ///
    /// # Errors
    /// If the artifact is missing, damaged, or not a table.
    pub(crate) fn table(&self, name: &str) -> Result<Option<(LineageSource, Table)>, Failure> {
        let (Self::Held(_, from) | Self::Stored(from, _)) = self;
        let Some(artifact) = from.cell.outputs.get(name) else {
            return Ok(None);
        };
        let at = &from.cell.coordinates;
        let wrong = |e: &dyn std::fmt::Display| {
            Failure::failed(format!(
                "`{name}` of the cell {at} of `{}` cannot be read: {e}",
                from.stage
            ))
        };
        let bytes = from.store.get(&artifact.digest).map_err(|e| wrong(&e))?;
        let table = Table::from_parquet(bytes).map_err(|e| wrong(&e))?;
        let source = SourceArtifact {
            cell: CellName {
                stage: from.stage.to_owned(),
                coordinates: at.clone(),
            },
            output: name.to_owned(),
            digest: artifact.digest,
        };
        Ok(Some((LineageSource::Artifact(Arc::new(source)), table)))
    }

    /// Reads only the columns that the metrics need, where possible and where the rows are not already in memory.
    ///
    /// # Errors
    /// As [`NarrowRows::read`].
    pub(crate) fn narrow(&self, metrics: &[&Metric]) -> Result<Option<NarrowRows>, Failure> {
        match self {
            Self::Stored(from, _) if NarrowRows::fits(from.cell) => {
                NarrowRows::read(from.store, from.stage, from.cell, metrics).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// How many bytes of rows are held in memory. Above it, the answers alone are held if they fit, and every operator on
/// rows reads the rest again. The tables are the same either way.
pub(crate) const HOLD: u64 = 256 << 20;

/// The error for a stage that reads no rows.
pub(crate) const NO_LOAD: &str = "the stage does not need a load stage";

/// The remedy for [`NO_LOAD`].
pub(crate) const NEEDS_LOAD: &str = "an analyze stage needs the load stage whose rows it analyzes, and a verify stage over it; or a run stage whose \
    tables a query reads";

/// The remedy for a load stage that [no verify stage covers](unverified_load).
pub(crate) const NEEDS_VERIFY: &str = "add a verify stage that needs it, and add that verify stage to `needs`; only verified rows enter tables";

/// The error for a table that reads one load stage when there are several.
pub(crate) const SEVERAL_LOADS: &str = "the stage needs several load stages";

/// The remedy for [`SEVERAL_LOADS`].
pub(crate) fn choose(loads: &[&str]) -> String {
    format!("choose one with `load:`: {}", loads.join(", "))
}

/// The error for a table that names a load stage its own stage does not need.
pub(crate) fn no_such_load(name: &str) -> String {
    format!("the stage does not need a load stage `{name}`")
}

/// The error for rows that no gate has judged.
pub(crate) fn unverified_load(stage: &str) -> String {
    format!("no verify stage among `needs` covers the load stage `{stage}`")
}

/// The reason why an imported cell without rows cannot enter an operator on rows.
pub(crate) const AGGREGATE: &str =
    "the imported file holds only aggregates and no request rows; see the cell's table `summary`";

/// Reads every load input through verification. Tables that only diagnose failures need none.
///
/// # Errors
/// If no verification covers a load stage, a verification did not complete, or an artifact cannot be read. If the cells
/// together take more than `hold` bytes, their rows are read later.
pub(crate) fn loads<'a>(
    inputs: &'a [Input],
    store: &'a Store,
    control: &Control,
    hold: u64,
    diagnoses: bool,
) -> Result<Vec<Load<'a>>, Failure> {
    let measured: Vec<&Input> = inputs.iter().filter(|i| i.kind == "load").collect();
    if measured.is_empty() {
        // Queries read the tables of programs, and no gate applies to them.
        if inputs.iter().any(|i| i.kind == "run") {
            return Ok(Vec::new());
        }
        return Err(Failure::failed(NO_LOAD).hint(NEEDS_LOAD));
    }
    let mut verdicts = verdicts(inputs, store)?;
    if diagnoses {
        let stages = measured.iter().map(|input| input.stage.clone());
        verdicts.covered.extend(stages);
    }
    let fits = |weight: fn(&InputCell) -> u64| {
        let weights = measured.iter().flat_map(|i| &i.cells).map(weight);
        weights.fold(0, u64::saturating_add) <= hold
    };
    let holds = Holds {
        everything: fits(CellRows::weight),
        answers: fits(CellRows::weight_of_answers),
    };
    measured
        .into_iter()
        .map(|input| load(input, &verdicts, store, control, holds))
        .collect()
}

/// Reads the locations of the tables of programs. No gate applies to them: the status that a program reports decides
/// whether its cell is ok.
pub(crate) fn programs<'a>(inputs: &'a [Input], store: &'a Store) -> Vec<Load<'a>> {
    let program = |input: &'a Input| {
        let axes = input.cells.first().map(|cell| cell.coordinates.axes());
        let mut program = Load {
            stage: input.stage.clone(),
            axes: axes.unwrap_or_default(),
            cells: Vec::new(),
            missing: Vec::new(),
            failed: Vec::new(),
        };
        for cell in &input.cells {
            let reason = cell.reason.as_deref().unwrap_or_default();
            if cell.status == CellStatus::Ok {
                let stage = &input.stage;
                program.cells.push((
                    cell.coordinates.labels(),
                    Rows::Stored(Origin { store, stage, cell }, None),
                ));
            } else if !(cell.status == CellStatus::Excluded && Cause::read(reason).is_not_needed())
            {
                program.missing.push(Missing {
                    at: cell.coordinates.0.clone(),
                    why: format!("{}: {reason}", cell.status.word()),
                    absence: Absence::Ended(cell.status),
                });
            }
        }
        program
            .cells
            .sort_by(|a, b| contract::compare_all(&a.0, &b.0));
        program
    };
    let programs = inputs.iter().filter(|i| i.kind == "run");
    programs.map(program).collect()
}

/// The result of verification: the stages it covered, and why a cell may not enter.
#[derive(Default)]
struct Verdicts {
    covered: BTreeSet<String>,
    barred: Exclusions,
}

fn verdicts(inputs: &[Input], store: &Store) -> Result<Verdicts, Failure> {
    let mut verdicts = Verdicts::default();
    for input in inputs.iter().filter(|i| i.kind == "verify") {
        for cell in &input.cells {
            let place = format!("{} {}", input.stage, cell.coordinates);
            if cell.status != CellStatus::Ok {
                return Err(Failure::failed(format!(
                    "the verification {} did not complete",
                    place.trim()
                )));
            }
            let table = |name: &str| -> Result<Table, Failure> {
                let wrong = |e: &dyn std::fmt::Display| {
                    Failure::failed(format!("`{name}` of {} cannot be read: {e}", place.trim()))
                };
                let artifact = cell
                    .outputs
                    .get(name)
                    .ok_or_else(|| wrong(&"no such output"))?;
                let bytes = store.get(&artifact.digest).map_err(|e| wrong(&e))?;
                Table::from_parquet(bytes).map_err(|e| wrong(&e))
            };
            let wrong = |e: artifacts::TableError| Failure::failed(e.to_string());
            let census = table("census")?;
            verdicts.covered.extend(
                census
                    .text("stage")
                    .map_err(wrong)?
                    .into_iter()
                    .flatten()
                    .map(str::to_owned),
            );
            verdicts.barred.add(&table("exclusions")?).map_err(wrong)?;
        }
    }
    Ok(verdicts)
}

/// What of the rows of all cells together fits into memory.
#[derive(Clone, Copy)]
struct Holds {
    everything: bool,
    answers: bool,
}

fn load<'a>(
    input: &'a Input,
    verdicts: &Verdicts,
    store: &'a Store,
    control: &Control,
    holds: Holds,
) -> Result<Load<'a>, Failure> {
    let stage = &input.stage;
    if !verdicts.covered.contains(stage) {
        return Err(Failure::failed(unverified_load(stage)).hint(NEEDS_VERIFY));
    }
    let axes: Vec<String> = input
        .cells
        .first()
        .map(|c| {
            c.coordinates
                .0
                .iter()
                .map(|(name, _)| name.clone())
                .collect()
        })
        .unwrap_or_default();
    let mut load = Load {
        stage: stage.clone(),
        axes,
        cells: Vec::new(),
        missing: Vec::new(),
        failed: Vec::new(),
    };
    let read = read(input, stage, verdicts, store, control, holds.everything);
    let keeps = || holds.answers.then(Box::default);
    for (cell, read) in input.cells.iter().zip(read) {
        // A study that stopped with enough data does not miss the cells it did not need.
        let reason = cell.reason.as_deref().unwrap_or_default();
        if cell.status == CellStatus::Excluded && Cause::read(reason).is_not_needed() {
            continue;
        }
        let barred = verdicts.barred.why(stage, &cell.coordinates.to_string());
        let (why, absence) = match (cell.status, barred) {
            (CellStatus::Ok, None) => {
                let from = Origin { store, stage, cell };
                let rows = match read.transpose()? {
                    Some(rows) => Rows::Held(Box::new(rows), from),
                    None => Rows::Stored(from, keeps()),
                };
                if !matches!(&rows, Rows::Held(rows, _) if rows.is_aggregate()) {
                    load.cells.push((cell.coordinates.labels(), rows));
                    continue;
                }
                (AGGREGATE.to_owned(), Absence::Aggregate)
            }
            (CellStatus::Ok, Some(why)) => (why.to_owned(), Absence::Barred),
            (status, _) => {
                if cell.outputs.contains_key("requests") {
                    let rows = Rows::Stored(Origin { store, stage, cell }, keeps());
                    load.failed.push((cell.coordinates.labels(), status, rows));
                }
                let why = match &cell.reason {
                    Some(reason) => format!("{}: {reason}", status.word()),
                    None => status.word().to_owned(),
                };
                (why, Absence::Ended(status))
            }
        };
        load.missing.push(Missing {
            at: cell.coordinates.0.clone(),
            why,
            absence,
        });
    }
    load.cells.sort_by(|a, b| contract::compare_all(&a.0, &b.0));
    load.failed
        .sort_by(|a, b| contract::compare_all(&a.0, &b.0));
    load.missing.sort_by(|a, b| {
        let values = |m: &Missing| m.at.iter().map(|(_, v)| v.clone()).collect::<Vec<_>>();
        contract::compare_all(&values(a), &values(b))
    });
    Ok(load)
}

/// Reads, in parallel, the rows of the cells that enter and are to be held. A cell without rows is always held, since
/// its facts say why. The results are in the order of the cells, whichever thread read them.
fn read(
    input: &Input,
    stage: &str,
    verdicts: &Verdicts,
    store: &Store,
    control: &Control,
    hold: bool,
) -> Vec<Option<Result<CellRows, Failure>>> {
    let (all, done) = (input.cells.len() as u64, AtomicU64::new(0));
    let one = |cell: &InputCell| {
        let barred = verdicts.barred.why(stage, &cell.coordinates.to_string());
        let hold = hold
            || cell
                .outputs
                .get("requests")
                .is_none_or(|a| a.rows == Some(0));
        (cell.status == CellStatus::Ok && barred.is_none() && hold).then(|| {
            control.check()?;
            let rows = CellRows::read(store, stage, cell);
            control.progress(
                done.fetch_add(1, Ordering::Relaxed) + 1,
                Some(all),
                "cells read",
            );
            rows
        })
    };
    input.cells.par_iter().map(one).collect()
}
