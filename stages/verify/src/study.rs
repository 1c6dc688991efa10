//! What gates look at: every planned cell of the load stages, with its rows.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use artifacts::{Scalar, Store, Table};
use contract::CellRows;
use pipeline::{CellStatus, Control, Coordinates, Failure, Input, InputCell, Json};
use rayon::prelude::*;

/// The descriptor of the server a load cell was measured on.
#[derive(Debug)]
pub(crate) struct Server {
    /// The serve cell.
    pub(crate) stage: String,
    pub(crate) coordinates: Coordinates,
    /// Its output `server`.
    pub(crate) descriptor: Json,
}

/// One planned cell of a load stage.
pub(crate) struct Cell<'a> {
    pub(crate) input: &'a InputCell,
    /// Its rows, if it is ok.
    pub(crate) rows: Option<CellRows>,
    /// The server it was measured on, if the verify stage needs the serve stage, too.
    pub(crate) server: Option<Arc<Server>>,
    /// Where its other outputs lie; `None` for cells made up in memory.
    pub(crate) store: Option<&'a Store>,
}

impl Cell<'_> {
    /// Returns a number from the cell's one-row table about itself.
    pub(crate) fn fact(&self, column: &str) -> Option<i64> {
        self.rows
            .as_ref()?
            .cell
            .as_ref()?
            .int(column)
            .ok()?
            .first()
            .copied()
            .flatten()
    }

    /// Returns a word from the cell's one-row table about itself.
    pub(crate) fn fact_text(&self, column: &str) -> Option<String> {
        self.rows
            .as_ref()?
            .cell
            .as_ref()?
            .text(column)
            .ok()?
            .first()
            .copied()
            .flatten()
            .map(str::to_owned)
    }

    /// Reads one of the cell's tables; `None` if it has none of that name.
    ///
    /// # Errors
    /// If the artifact is missing, damaged, or no table.
    pub(crate) fn table(&self, name: &str) -> Result<Option<Table>, Failure> {
        let (Some(store), Some(artifact)) = (self.store, self.input.outputs.get(name)) else {
            return Ok(None);
        };
        let at = &self.input.coordinates;
        let wrong = |e: &dyn std::fmt::Display| {
            Failure::failed(format!(
                "`{name}` of the load cell {at} cannot be read: {e}"
            ))
        };
        let bytes = store.get(&artifact.digest).map_err(|e| wrong(&e))?;
        Table::from_parquet(bytes).map(Some).map_err(|e| wrong(&e))
    }

    /// Returns the coordinates without one axis, as text.
    pub(crate) fn without(&self, axis: &str) -> String {
        let rest = self.input.coordinates.without(|name| name == axis);
        rest.to_string()
    }
}

/// Reads a span of time as the load stage's canonical settings write it, such as `500 ms`.
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
    /// What a calibration of the load generator covers, if one is among the inputs.
    pub(crate) instrument: Option<Json>,
}

/// Reads every load stage among the inputs, cells in parallel: the result does not depend on
/// the number of threads.
///
/// # Errors
/// If there is none, or an artifact cannot be read.
pub(crate) fn stages<'a>(
    inputs: &'a [Input],
    store: &'a Store,
    control: &Control,
) -> Result<Vec<Stage<'a>>, Failure> {
    let servers = servers(inputs, store)?;
    let mut stages = Vec::new();
    let instrument = instrument(inputs, store)?;
    for input in inputs.iter().filter(|i| i.kind == "load") {
        let (done, total) = (AtomicU64::new(0), input.cells.len() as u64);
        let read = |cell: &'a InputCell| -> Result<Cell<'a>, Failure> {
            control.check()?;
            let ok = cell.status == CellStatus::Ok;
            let rows = if ok {
                Some(CellRows::read(store, &input.stage, cell)?)
            } else {
                None
            };
            control.progress(
                done.fetch_add(1, Ordering::Relaxed) + 1,
                Some(total),
                "cells read",
            );
            Ok(Cell {
                input: cell,
                rows,
                server: server_of(&servers, cell),
                store: Some(store),
            })
        };
        let cells: Vec<Result<Cell<'a>, Failure>> = input.cells.par_iter().map(read).collect();
        // Of several failures the first in order is told, whichever thread met one first.
        let mut cells = cells.into_iter().collect::<Result<Vec<_>, _>>()?;
        let values = |c: &Cell<'_>| {
            c.input
                .coordinates
                .0
                .iter()
                .map(|(_, v)| v.clone())
                .collect::<Vec<_>>()
        };
        cells.sort_by(|a, b| contract::compare_all(&values(a), &values(b)));
        let axes = cells.first().map(|c| {
            c.input
                .coordinates
                .0
                .iter()
                .map(|(n, _)| n.clone())
                .collect()
        });
        let instrument = instrument.clone();
        stages.push(Stage {
            name: &input.stage,
            axes: axes.unwrap_or_default(),
            cells,
            instrument,
        });
    }
    if stages.is_empty() {
        return Err(Failure::failed("the stage does not need a load stage")
            .hint("a verify stage needs the load stages whose rows it counts"));
    }
    Ok(stages)
}

/// Reads the descriptors of the serve stages among the inputs.
fn servers(inputs: &[Input], store: &Store) -> Result<Vec<Arc<Server>>, Failure> {
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
            let descriptor = serde_json::from_slice(&bytes).map_err(|e| wrong(&e))?;
            let (stage, coordinates) = (input.stage.clone(), cell.coordinates.clone());
            servers.push(Arc::new(Server {
                stage,
                coordinates,
                descriptor,
            }));
        }
    }
    Ok(servers)
}

/// Returns the one server whose coordinates a load cell has; `None` if none or several do.
fn server_of(servers: &[Arc<Server>], cell: &InputCell) -> Option<Arc<Server>> {
    let shares = |s: &&Arc<Server>| {
        s.coordinates
            .0
            .iter()
            .all(|(a, v)| cell.coordinates.get(a) == Some(v))
    };
    let mut found = servers.iter().filter(shares);
    let first = found.next()?;
    if found.next().is_some() {
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

impl Stage<'_> {
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

    /// Returns coordinates of the product of the axes that no planned cell has, as text.
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
