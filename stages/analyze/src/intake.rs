//! Which load cells may enter a statistic: those that ran and that verification let pass.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use artifacts::{Scalar, Store, Table};
use pipeline::{CellStatus, Control, Failure, Input, InputCell};
use rayon::prelude::*;
use rows::{CellRows, Metric, NarrowRows};

use crate::frame::Missing;

/// The rows of one load stage that may be used.
#[derive(Debug)]
pub(crate) struct Load<'a> {
    pub(crate) stage: String,
    /// The names of its axes.
    pub(crate) axes: Vec<String>,
    /// The cells that enter, sorted by coordinates.
    pub(crate) cells: Vec<(Vec<Scalar>, Rows<'a>)>,
    /// Those that do not, with the reason.
    pub(crate) missing: Vec<Missing>,
}

/// The rows of one load cell.
#[derive(Debug)]
pub(crate) enum Rows<'a> {
    /// Read already.
    Held(Box<CellRows>),
    /// Read whenever they are asked for: the rows of all cells together would not fit.
    Stored(&'a Store, &'a InputCell),
}

impl Rows<'_> {
    /// Returns the rows.
    ///
    /// # Errors
    /// As [`CellRows::read`].
    pub(crate) fn get(&self) -> Result<Cow<'_, CellRows>, Failure> {
        match self {
            Self::Held(rows) => Ok(Cow::Borrowed(rows)),
            Self::Stored(store, cell) => CellRows::read(store, cell).map(Cow::Owned),
        }
    }

    /// Reads only what the metrics are computed from, where that is possible and the rows are
    /// not at hand.
    ///
    /// # Errors
    /// As [`NarrowRows::read`].
    pub(crate) fn narrow(&self, metrics: &[&Metric]) -> Result<Option<NarrowRows>, Failure> {
        match self {
            Self::Stored(store, cell) if NarrowRows::fits(cell) => {
                NarrowRows::read(store, cell, metrics).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// How many bytes of rows are held; what is more is read again by every operator on rows. The
/// tables are the same either way.
pub(crate) const HOLD: u64 = 256 << 20;

/// What a request and a chunk take in memory, about, in bytes.
const REQUEST: u64 = 500;
const CHUNK: u64 = 72;

/// Returns what the rows of a cell take in memory, about.
fn weight(cell: &InputCell) -> u64 {
    let rows = |name: &str| {
        cell.outputs
            .get(name)
            .map_or(0, |a| a.rows.unwrap_or(a.bytes))
    };
    rows("requests")
        .saturating_mul(REQUEST)
        .saturating_add(rows("chunks").saturating_mul(CHUNK))
}

/// Why an imported cell without rows cannot enter an operator on rows.
pub(crate) const AGGREGATE: &str =
    "the imported file holds aggregates alone, no request rows: see the cell's table `summary`";

/// Reads every load input through verification.
///
/// # Errors
/// If no verification covers a load stage, a verification did not complete, or an artifact
/// cannot be read. Of cells that together take more than `hold` bytes the rows are read later.
pub(crate) fn loads<'a>(
    inputs: &'a [Input],
    store: &'a Store,
    control: &Control,
    hold: u64,
) -> Result<Vec<Load<'a>>, Failure> {
    let measured: Vec<&Input> = inputs.iter().filter(|i| i.kind == "load").collect();
    if measured.is_empty() {
        return Err(Failure::failed("there is no load stage among `needs`").hint(
            "an analyze stage needs the load stage whose rows it analyzes, and the verify stage over it",
        ));
    }
    let verdicts = verdicts(inputs, store)?;
    let weight = measured
        .iter()
        .flat_map(|i| &i.cells)
        .map(weight)
        .fold(0, u64::saturating_add);
    measured
        .into_iter()
        .map(|input| load(input, &verdicts, store, control, weight <= hold))
        .collect()
}

/// What verification says: the stages it covered, and why a cell may not enter.
#[derive(Default)]
struct Verdicts {
    covered: BTreeSet<String>,
    barred: BTreeMap<(String, String), String>,
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
                    .ok_or_else(|| wrong(&"there is no such output"))?;
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
            let exclusions = table("exclusions")?;
            let column = |name: &str| exclusions.text(name).map_err(wrong);
            let (stage, at, gate, reason) = (
                column("stage")?,
                column("cell")?,
                column("gate")?,
                column("reason")?,
            );
            for row in 0..exclusions.rows() {
                let key = (
                    stage[row].unwrap_or_default().to_owned(),
                    at[row].unwrap_or_default().to_owned(),
                );
                let why = format!(
                    "gate {}: {}",
                    gate[row].unwrap_or_default(),
                    reason[row].unwrap_or_default()
                );
                let earlier = verdicts.barred.entry(key).or_default();
                if !earlier.is_empty() {
                    earlier.push_str("; ");
                }
                earlier.push_str(&why);
            }
        }
    }
    Ok(verdicts)
}

fn load<'a>(
    input: &'a Input,
    verdicts: &Verdicts,
    store: &'a Store,
    control: &Control,
    hold: bool,
) -> Result<Load<'a>, Failure> {
    let stage = &input.stage;
    if !verdicts.covered.contains(stage) {
        return Err(Failure::failed(format!("no verify stage among `needs` covers the load stage `{stage}`"))
            .hint("add a verify stage that needs it, and add that stage to `needs`: rows count only after they are counted"));
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
    };
    let read = read(input, stage, verdicts, store, control, hold);
    for (cell, read) in input.cells.iter().zip(read) {
        let barred = verdicts
            .barred
            .get(&(stage.clone(), cell.coordinates.to_string()));
        let why = match (cell.status, barred) {
            (CellStatus::Ok, None) => {
                let rows = read
                    .transpose()?
                    .map_or(Rows::Stored(store, cell), |r| Rows::Held(Box::new(r)));
                if !matches!(&rows, Rows::Held(rows) if rows.is_aggregate()) {
                    let at = cell
                        .coordinates
                        .0
                        .iter()
                        .map(|(_, value)| value.clone())
                        .collect();
                    load.cells.push((at, rows));
                    continue;
                }
                AGGREGATE.to_owned()
            }
            (CellStatus::Ok, Some(why)) => why.clone(),
            (status, _) => match &cell.reason {
                Some(reason) => format!("{}: {reason}", status.word()),
                None => status.word().to_owned(),
            },
        };
        load.missing.push(Missing {
            at: cell.coordinates.0.clone(),
            why,
        });
    }
    load.cells.sort_by(|a, b| rows::compare_all(&a.0, &b.0));
    load.missing.sort_by(|a, b| {
        let values = |m: &Missing| m.at.iter().map(|(_, v)| v.clone()).collect::<Vec<_>>();
        rows::compare_all(&values(a), &values(b))
    });
    Ok(load)
}

/// Reads the rows of the cells that enter and are to be held (a cell without rows always is, since
/// its facts say why), in parallel; the results stand in the order of the
/// cells, so that who read what decides nothing.
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
        let barred = verdicts
            .barred
            .contains_key(&(stage.to_owned(), cell.coordinates.to_string()));
        let hold = hold
            || cell
                .outputs
                .get("requests")
                .is_none_or(|a| a.rows == Some(0));
        (cell.status == CellStatus::Ok && !barred && hold).then(|| {
            control.check()?;
            let rows = CellRows::read(store, cell);
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
