//! What gates look at: every planned cell of the load stages, with its rows.

use std::collections::BTreeSet;

use artifacts::{Scalar, Store};
use pipeline::{CellStatus, Control, Failure, Input, InputCell, Json};
use rows::CellRows;

/// One planned cell of a load stage.
pub(crate) struct Cell<'a> {
    pub(crate) input: &'a InputCell,
    /// Its rows, if it is ok.
    pub(crate) rows: Option<CellRows>,
}

impl Cell<'_> {
    /// Returns a number from the cell's one-row table about itself.
    pub(crate) fn fact(&self, column: &str) -> Option<i64> {
        self.rows.as_ref()?.cell.as_ref()?.int(column).ok()?.first().copied().flatten()
    }
}

/// One load stage, cells sorted by coordinates.
pub(crate) struct Stage<'a> {
    pub(crate) name: &'a str,
    pub(crate) axes: Vec<String>,
    pub(crate) cells: Vec<Cell<'a>>,
    /// What a calibration of the load generator covers, if one is among the inputs.
    pub(crate) instrument: Option<Json>,
}

/// Reads every load stage among the inputs.
///
/// # Errors
/// If there is none, or an artifact cannot be read.
pub(crate) fn stages<'a>(
    inputs: &'a [Input],
    store: &Store,
    control: &Control,
) -> Result<Vec<Stage<'a>>, Failure> {
    let mut stages = Vec::new();
    let instrument = instrument(inputs, store)?;
    for input in inputs.iter().filter(|i| i.kind == "load") {
        let mut cells = Vec::with_capacity(input.cells.len());
        for (done, cell) in input.cells.iter().enumerate() {
            control.check()?;
            control.progress(done as u64, Some(input.cells.len() as u64), "cells read");
            let ok = cell.status == CellStatus::Ok;
            let rows = if ok { Some(CellRows::read(store, cell)?) } else { None };
            cells.push(Cell { input: cell, rows });
        }
        let values = |c: &Cell<'_>| c.input.coordinates.0.iter().map(|(_, v)| v.clone()).collect::<Vec<_>>();
        cells.sort_by(|a, b| rows::compare_all(&values(a), &values(b)));
        let axes = cells.first().map(|c| c.input.coordinates.0.iter().map(|(n, _)| n.clone()).collect());
        let instrument = instrument.clone();
        stages.push(Stage { name: &input.stage, axes: axes.unwrap_or_default(), cells, instrument });
    }
    if stages.is_empty() {
        return Err(Failure::failed("there is no load stage among `needs`")
            .hint("a verify stage needs the load stages whose rows it counts"));
    }
    Ok(stages)
}

/// Reads the document `instrument` of the first ok calibration among the inputs.
fn instrument(inputs: &[Input], store: &Store) -> Result<Option<Json>, Failure> {
    let cells = inputs.iter().filter(|i| i.kind == "calibrate").flat_map(|i| &i.cells);
    let Some(artifact) = cells.filter_map(|c| c.outputs.get("instrument")).next() else { return Ok(None) };
    let wrong = |e: &dyn std::fmt::Display| {
        Failure::failed(format!("`instrument` of the calibration cannot be read: {e}"))
    };
    let bytes = store.get(&artifact.digest).map_err(|e| wrong(&e))?;
    serde_json::from_slice(&bytes).map(Some).map_err(|e| wrong(&e))
}

impl Stage<'_> {
    /// Returns the labels that occur on each axis.
    pub(crate) fn labels(&self) -> Vec<Vec<Scalar>> {
        (0..self.axes.len())
            .map(|axis| {
                let mut labels: Vec<Scalar> =
                    self.cells.iter().map(|c| c.input.coordinates.0[axis].1.clone()).collect();
                labels.sort_by(rows::compare);
                labels.dedup();
                labels
            })
            .collect()
    }

    /// Returns coordinates of the product of the axes that no planned cell has, as text.
    pub(crate) fn unplanned(&self) -> Vec<String> {
        let planned: BTreeSet<String> = self.cells.iter().map(|c| c.input.coordinates.to_string()).collect();
        let mut product = vec![String::new()];
        for (axis, labels) in self.axes.iter().zip(self.labels()) {
            product = product
                .iter()
                .flat_map(|head| {
                    let comma = if head.is_empty() { "" } else { "," };
                    labels.iter().map(move |label| format!("{head}{comma}{axis}={label}"))
                })
                .collect();
        }
        product.into_iter().filter(|at| !planned.contains(at)).collect()
    }
}
