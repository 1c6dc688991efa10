//! Which load cells may enter a statistic: those that ran and that verification let pass.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::{Scalar, Store, Table};
use pipeline::{CellStatus, Control, Failure, Input};
use rows::CellRows;

use crate::frame::Missing;

/// The rows of one load stage that may be used.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) stage: String,
    /// The names of its axes.
    pub(crate) axes: Vec<String>,
    /// The cells that enter, sorted by coordinates.
    pub(crate) cells: Vec<(Vec<Scalar>, CellRows)>,
    /// Those that do not, with the reason.
    pub(crate) missing: Vec<Missing>,
}

/// Why an imported cell without rows cannot enter an operator on rows.
pub(crate) const AGGREGATE: &str =
    "the imported file holds aggregates alone, no request rows: see the cell's table `summary`";

/// Reads every load input through verification.
///
/// # Errors
/// If no verification covers a load stage, a verification did not complete, or an artifact
/// cannot be read.
pub(crate) fn loads(inputs: &[Input], store: &Store, control: &Control) -> Result<Vec<Load>, Failure> {
    let measured: Vec<&Input> = inputs.iter().filter(|i| i.kind == "load").collect();
    if measured.is_empty() {
        return Err(Failure::failed("there is no load stage among `needs`").hint(
            "an analyze stage needs the load stage whose rows it analyzes, and the verify stage over it",
        ));
    }
    let verdicts = verdicts(inputs, store)?;
    measured.into_iter().map(|input| load(input, &verdicts, store, control)).collect()
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
                return Err(Failure::failed(format!("the verification {} did not complete", place.trim())));
            }
            let table = |name: &str| -> Result<Table, Failure> {
                let wrong = |e: &dyn std::fmt::Display| {
                    Failure::failed(format!("`{name}` of {} cannot be read: {e}", place.trim()))
                };
                let artifact = cell.outputs.get(name).ok_or_else(|| wrong(&"there is no such output"))?;
                let bytes = store.get(&artifact.digest).map_err(|e| wrong(&e))?;
                Table::from_parquet(bytes).map_err(|e| wrong(&e))
            };
            let wrong = |e: artifacts::TableError| Failure::failed(e.to_string());
            let census = table("census")?;
            verdicts
                .covered
                .extend(census.text("stage").map_err(wrong)?.into_iter().flatten().map(str::to_owned));
            let exclusions = table("exclusions")?;
            let column = |name: &str| exclusions.text(name).map_err(wrong);
            let (stage, at, gate, reason) =
                (column("stage")?, column("cell")?, column("gate")?, column("reason")?);
            for row in 0..exclusions.rows() {
                let key = (stage[row].unwrap_or_default().to_owned(), at[row].unwrap_or_default().to_owned());
                let why =
                    format!("gate {}: {}", gate[row].unwrap_or_default(), reason[row].unwrap_or_default());
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

fn load(input: &Input, verdicts: &Verdicts, store: &Store, control: &Control) -> Result<Load, Failure> {
    let stage = &input.stage;
    if !verdicts.covered.contains(stage) {
        return Err(Failure::failed(format!("no verify stage among `needs` covers the load stage `{stage}`"))
            .hint("add a verify stage that needs it, and add that stage to `needs`: rows count only after they are counted"));
    }
    let axes: Vec<String> = input
        .cells
        .first()
        .map(|c| c.coordinates.0.iter().map(|(name, _)| name.clone()).collect())
        .unwrap_or_default();
    let mut load = Load { stage: stage.clone(), axes, cells: Vec::new(), missing: Vec::new() };
    for (done, cell) in input.cells.iter().enumerate() {
        control.check()?;
        control.progress(done as u64, Some(input.cells.len() as u64), "cells read");
        let barred = verdicts.barred.get(&(stage.clone(), cell.coordinates.to_string()));
        let why = match (cell.status, barred) {
            (CellStatus::Ok, None) => {
                let rows = CellRows::read(store, cell)?;
                if !rows.is_aggregate() {
                    let at = cell.coordinates.0.iter().map(|(_, value)| value.clone()).collect();
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
        load.missing.push(Missing { at: cell.coordinates.0.clone(), why });
    }
    load.cells.sort_by(|a, b| rows::compare_all(&a.0, &b.0));
    load.missing.sort_by(|a, b| {
        let values = |m: &Missing| m.at.iter().map(|(_, v)| v.clone()).collect::<Vec<_>>();
        rows::compare_all(&values(a), &values(b))
    });
    Ok(load)
}
