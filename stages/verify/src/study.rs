//! The input of gates: every planned cell of the load stages, with its rows.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use artifacts::{Scalar, Store, Table, TableRow};
use contract::{CellRows, RowSource, Word as _};
use pipeline::{CellStatus, Control, Coordinates, Failure, Input, InputCell, Json};
use rayon::prelude::*;

use crate::prompt_caches::PromptCaches;

/// The descriptor of the server on which a load cell was measured.
#[derive(Debug)]
pub(crate) struct Server {
    /// The serve cell.
    pub(crate) stage: String,
    pub(crate) coordinates: Coordinates,
    /// Its output `server`.
    pub(crate) descriptor: Json,
    /// The evidence that its prompt cache is off; `None` if it may be on.
    pub(crate) cache_off: Option<String>,
}

/// One planned cell of a load stage.
#[derive(Clone)]
pub(crate) struct Cell<'a> {
    pub(crate) input: &'a InputCell,
    pub(crate) rows: Rows<'a>,
    /// The server on which it was measured, if the verify stage also needs the serve stage.
    pub(crate) server: Option<Arc<Server>>,
    /// The store with its other outputs; `None` for synthetic cells in memory.
    pub(crate) store: Option<&'a Store>,
}

/// The rows of one cell.
#[derive(Clone)]
pub(crate) enum Rows<'a> {
    /// The cell is not ok.
    None,
    /// Already read.
    Held(Arc<CellRows>),
    /// Read whenever a gate needs them, because the rows of all cells together would not fit.
    Stored(Arc<Stored<'a>>),
}

/// The location of a cell's rows, and what is known of them.
pub(crate) struct Stored<'a> {
    store: &'a Store,
    stage: &'a str,
    /// The row about the cell.
    about: Option<TableRow>,
    /// The answers, once a gate has read them; `None` if those of all cells together would not fit.
    answers: Option<OnceLock<CellRows>>,
    failure: Failed,
}

impl Stored<'_> {
    /// Returns the rows, or keeps the failure and returns `None`.
    fn or_failure(&self, rows: Result<CellRows, Failure>) -> Option<CellRows> {
        let keep = |failure| {
            let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(failure);
        };
        rows.map_err(keep).ok()
    }
}

/// The first failure of reading rows for a gate.
pub(crate) type Failed = Arc<Mutex<Option<Failure>>>;

/// The number of bytes of rows that are held in memory. Above it, gates that judge cells alone receive groups of that
/// size. The others get the answers, which are held if they fit without chunks and samples, and else are read again by
/// each gate. The judgements are the same either way.
pub(crate) const HOLD: u64 = 256 << 20;

/// A stage that judges no rows.
pub(crate) const NO_LOAD: &str = "the stage does not need a load stage";

/// The remedy.
pub(crate) const NEEDS_LOAD: &str = "a verify stage must need the load stages that it judges";

impl Cell<'_> {
    /// Returns whether the cell is ok and therefore has rows.
    pub(crate) fn is_ok(&self) -> bool {
        !matches!(self.rows, Rows::None)
    }

    /// Returns everything that was measured, if the cell is ok. This may read the rows; [`Stage::settled`] reports
    /// errors.
    pub(crate) fn rows(&self) -> Option<Cow<'_, CellRows>> {
        match &self.rows {
            Rows::None => None,
            Rows::Held(rows) => Some(Cow::Borrowed(rows)),
            Rows::Stored(from) => {
                let rows = CellRows::read(from.store, from.stage, self.input);
                from.or_failure(rows).map(Cow::Owned)
            }
        }
    }

    /// Returns the requests and the cell's facts about itself, if it is ok. Chunks and samples may be missing.
    pub(crate) fn answers(&self) -> Option<Cow<'_, CellRows>> {
        let from = match &self.rows {
            Rows::None => return None,
            Rows::Held(rows) => return Some(Cow::Borrowed(rows)),
            Rows::Stored(from) => from,
        };
        if let Some(rows) = from.answers.as_ref().and_then(OnceLock::get) {
            return Some(Cow::Borrowed(rows));
        }
        let rows = CellRows::read_answers(from.store, from.stage, self.input);
        let rows = from.or_failure(rows)?;
        Some(match &from.answers {
            Some(kept) => Cow::Borrowed(kept.get_or_init(|| rows)),
            None => Cow::Owned(rows),
        })
    }

    /// Returns the row about the cell itself, if it has one.
    pub(crate) fn about(&self) -> Option<&TableRow> {
        match &self.rows {
            Rows::None => None,
            Rows::Held(rows) => rows.cell.as_ref(),
            Rows::Stored(from) => from.about.as_ref(),
        }
    }

    /// Returns an integer from that row.
    pub(crate) fn fact(&self, column: &str) -> Option<i64> {
        self.about()?.int(column)
    }

    /// Returns a word from that row.
    pub(crate) fn fact_text(&self, column: &str) -> Option<&str> {
        self.about()?.text(column)
    }

    /// Returns where its rows come from; `None` if it does not say.
    pub(crate) fn source(&self) -> Option<RowSource> {
        RowSource::parse(self.fact_text("source")?).ok()
    }

    /// Returns the number of clients of a closed loop: as the cell declares it, or else that of the clients with measured
    /// requests. Returns `None` for open arrivals. This may read the rows.
    pub(crate) fn clients(&self) -> Option<i64> {
        let declared = self.fact("clients").filter(|n| *n > 0);
        declared.or_else(|| {
            let rows = self.answers()?;
            let ids: BTreeSet<i64> = rows.measured().filter_map(|r| r.client_id).collect();
            i64::try_from(ids.len()).ok().filter(|n| *n > 0)
        })
    }

    /// Reads one of the cell's tables; `None` if it has no table of that name.
    ///
    /// # Errors
    /// If the artifact is missing, damaged, or not a table.
    pub(crate) fn table(&self, name: &str) -> Result<Option<Table>, Failure> {
        let Some(store) = self.store else {
            return Ok(None);
        };
        Ok(CellRows::table(store, self.input, name)?.map(|(_, table)| table))
    }

    /// Returns the coordinates without one axis, as text.
    pub(crate) fn without(&self, axis: &str) -> String {
        let rest = self.input.coordinates.without(|name| name == axis);
        rest.to_string()
    }
}

/// Reads a time span as spelled in the load stage's canonical settings, such as `500 ms`.
pub(crate) fn nanoseconds(text: &str) -> Option<f64> {
    let (number, unit) = text.split_once(' ')?;
    let unit_ns = match unit {
        "h" => 3_600e9,
        "min" => 60e9,
        "s" => 1e9,
        "ms" => 1e6,
        "us" => 1e3,
        "ns" => 1.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * unit_ns)
}

/// One load stage, cells sorted by coordinates.
pub(crate) struct Stage<'a> {
    pub(crate) name: &'a str,
    pub(crate) axes: Vec<String>,
    pub(crate) cells: Vec<Cell<'a>>,
    /// The first error in reading rows for a gate.
    pub(crate) failure: Failed,
    /// The range that a calibration of the load generator covers, if one is among the inputs.
    pub(crate) instrument: Option<Json>,
}

/// Reads every load stage among the inputs, with cells in parallel. The result does not depend on the number of
/// threads. If the cells together exceed `hold` bytes, their rows are read later.
///
/// # Errors
/// If there is no load stage, or an artifact cannot be read.
pub(crate) fn stages<'a>(
    inputs: &'a [Input],
    store: &'a Store,
    control: &Control,
    hold: u64,
    caches: &PromptCaches,
) -> Result<Vec<Stage<'a>>, Failure> {
    let servers = servers(inputs, store, caches)?;
    let mut stages = Vec::new();
    let instrument = instrument(inputs, store)?;
    let loads = || inputs.iter().filter(|i| i.kind == "load");
    let fits = |weight: fn(&InputCell) -> u64| {
        let weights = loads().flat_map(|i| &i.cells).map(weight);
        weights.fold(0, u64::saturating_add) <= hold
    };
    let (held, answers_fit) = (fits(CellRows::weight), fits(CellRows::weight_of_answers));
    for input in loads() {
        let (done, total) = (AtomicU64::new(0), input.cells.len() as u64);
        let failure = Failed::default();
        let read = |cell: &'a InputCell| -> Result<Cell<'a>, Failure> {
            control.check()?;
            let rows = match cell.status {
                CellStatus::Ok if held => {
                    Rows::Held(Arc::new(CellRows::read(store, &input.stage, cell)?))
                }
                CellStatus::Ok => Rows::Stored(Arc::new(Stored {
                    store,
                    stage: &input.stage,
                    about: CellRows::about(store, cell)?,
                    answers: answers_fit.then(OnceLock::new),
                    failure: Arc::clone(&failure),
                })),
                _ => Rows::None,
            };
            control.progress(
                done.fetch_add(1, Ordering::Relaxed) + 1,
                Some(total),
                "cells read",
            );
            Ok(Cell {
                input: cell,
                rows,
                server: server_of(&servers, input, cell),
                store: Some(store),
            })
        };
        let cells: Vec<Result<Cell<'a>, Failure>> = input.cells.par_iter().map(read).collect();
        // Report the first failure in cell order, whichever thread found one first.
        let mut cells = cells.into_iter().collect::<Result<Vec<_>, _>>()?;
        let labels = |cell: &Cell<'_>| cell.input.coordinates.labels();
        cells.sort_by(|a, b| contract::compare_all(&labels(a), &labels(b)));
        let axes = cells.first().map(|cell| cell.input.coordinates.axes());
        let instrument = instrument.clone();
        stages.push(Stage {
            name: &input.stage,
            axes: axes.unwrap_or_default(),
            cells,
            failure,
            instrument,
        });
    }
    if stages.is_empty() {
        return Err(Failure::failed(NO_LOAD).hint(NEEDS_LOAD));
    }
    Ok(stages)
}

/// Reads the descriptors of the serve stages among the inputs.
fn servers(
    inputs: &[Input],
    store: &Store,
    caches: &PromptCaches,
) -> Result<Vec<Arc<Server>>, Failure> {
    let mut servers = Vec::new();
    for input in inputs.iter().filter(|i| i.kind == "serve") {
        for cell in &input.cells {
            let Some(artifact) = cell.outputs.get("server") else {
                continue;
            };
            let wrong = |e: &dyn std::fmt::Display| {
                let place = format!("{} {}", input.stage, cell.coordinates);
                Failure::failed(format!(
                    "the descriptor of {} cannot be read: {e}",
                    place.trim()
                ))
            };
            let bytes = store.get(&artifact.digest).map_err(|e| wrong(&e))?;
            let descriptor: Json = serde_json::from_slice(&bytes).map_err(|e| wrong(&e))?;
            let (stage, coordinates) = (input.stage.clone(), cell.coordinates.clone());
            servers.push(Arc::new(Server {
                stage,
                coordinates,
                cache_off: caches.off(&descriptor),
                descriptor,
            }));
        }
    }
    Ok(servers)
}

/// Returns the one server that a load needs and whose coordinates match those of its cell; `None` if none or several match.
fn server_of(servers: &[Arc<Server>], load: &Input, cell: &InputCell) -> Option<Arc<Server>> {
    let shares = |s: &&Arc<Server>| {
        let place = &s.coordinates.0;
        load.needs.contains(&s.stage)
            && place
                .iter()
                .all(|(a, v)| cell.coordinates.get(a) == Some(v))
    };
    let mut fitting = servers.iter().filter(shares);
    let first = fitting.next()?;
    if fitting.next().is_some() {
        None
    } else {
        Some(Arc::clone(first))
    }
}

/// Reads the document `instrument` of the first ok calibration among the inputs.
fn instrument(inputs: &[Input], store: &Store) -> Result<Option<Json>, Failure> {
    let cells = inputs
        .iter()
        .filter(|i| i.kind == "calibrate")
        .flat_map(|i| &i.cells);
    let Some(artifact) = cells.filter_map(|c| c.outputs.get("instrument")).next() else {
        return Ok(None);
    };
    let wrong = |e: &dyn std::fmt::Display| {
        Failure::failed(format!(
            "`instrument` of the calibration cannot be read: {e}"
        ))
    };
    let bytes = store.get(&artifact.digest).map_err(|e| wrong(&e))?;
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|e| wrong(&e))
}

impl<'a> Stage<'a> {
    /// Returns the error of reading rows for a gate.
    ///
    /// # Errors
    /// If there was one.
    pub(crate) fn settled(&self) -> Result<(), Failure> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.take().map_or(Ok(()), Err)
    }

    /// Passes the stage in groups of cells with rows in memory, each with the position of its first cell. If the rows
    /// are already in memory, there is one group.
    ///
    /// # Errors
    /// As `look`, and if rows cannot be read.
    pub(crate) fn in_groups(
        &self,
        control: &Control,
        hold: u64,
        mut look: impl FnMut(usize, &Stage<'a>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let stored = |cell: &Cell<'_>| matches!(cell.rows, Rows::Stored(_));
        if !self.cells.iter().any(stored) {
            return look(0, self);
        }
        let mut from = 0;
        while from < self.cells.len() {
            let mut weight = 0_u64;
            let fits = |cell: &&Cell<'_>| {
                weight = weight.saturating_add(CellRows::weight(cell.input));
                weight <= hold
            };
            let rest = &self.cells[from..];
            let group = &rest[..rest.iter().take_while(fits).count().max(1)];
            let read = |cell: &Cell<'a>| -> Result<Cell<'a>, Failure> {
                control.check()?;
                let rows = match &cell.rows {
                    Rows::Stored(at) => {
                        Rows::Held(Arc::new(CellRows::read(at.store, at.stage, cell.input)?))
                    }
                    held => held.clone(),
                };
                Ok(Cell {
                    rows,
                    ..cell.clone()
                })
            };
            let cells: Vec<Result<Cell<'a>, Failure>> = group.par_iter().map(read).collect();
            let group = Stage {
                name: self.name,
                axes: self.axes.clone(),
                cells: cells.into_iter().collect::<Result<_, _>>()?,
                failure: Arc::clone(&self.failure),
                instrument: self.instrument.clone(),
            };
            look(from, &group)?;
            from += group.cells.len();
        }
        Ok(())
    }

    /// Returns the labels that occur on each axis.
    pub(crate) fn labels(&self) -> Vec<Vec<Scalar>> {
        (0..self.axes.len())
            .map(|axis| {
                let mut labels: Vec<Scalar> = self
                    .cells
                    .iter()
                    .map(|c| c.input.coordinates.0[axis].1.clone())
                    .collect();
                labels.sort_by(contract::compare);
                labels.dedup();
                labels
            })
            .collect()
    }

    /// Returns the coordinates in the product of the axes that no planned cell has, as text.
    pub(crate) fn unplanned(&self) -> Vec<String> {
        let planned: BTreeSet<String> = self
            .cells
            .iter()
            .map(|c| c.input.coordinates.to_string())
            .collect();
        let mut product = vec![Coordinates::default()];
        for (axis, labels) in self.axes.iter().zip(self.labels()) {
            let longer = |head: &Coordinates| -> Vec<Coordinates> {
                let with = |label: &Scalar| {
                    let mut pairs = head.0.clone();
                    pairs.push((axis.clone(), label.clone()));
                    Coordinates(pairs)
                };
                labels.iter().map(with).collect()
            };
            product = product.iter().flat_map(longer).collect();
        }
        product
            .iter()
            .map(ToString::to_string)
            .filter(|at| !planned.contains(at))
            .collect()
    }
}
