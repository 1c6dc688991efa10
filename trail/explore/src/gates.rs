//! The results of gates on cells: the tables of the verify stages, read once per study.

use std::collections::HashMap;

use artifacts::{Store, Table};
use contract::{Exclusions, GateOutcome};
use pipeline::CellStatus;
use pipeline::lock::Lock;
use serde_json::{Value, json};

use crate::catalogue::record_of;
use crate::error::Failure;
use crate::table::scalar;

/// The gate tables of a study, with the rows of each cell.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    tables: Vec<Judged>,
    /// Tables and their rows, by stage and cell.
    rows: HashMap<(String, String), Vec<(usize, usize)>>,
}

/// A gate table, and the cell that made it.
#[derive(Debug)]
struct Judged {
    verify: String,
    at: String,
    table: Table,
}

impl Gates {
    /// Reads the tables of a study, each once.
    pub(crate) fn read(lock: &Lock, store: &Store) -> Result<Self, Failure> {
        let mut gates = Self::default();
        for (verify, at, table) in verified("gates", lock, store)? {
            gates.index(&table)?;
            gates.tables.push(Judged { verify, at, table });
        }
        Ok(gates)
    }

    /// Returns the results of gates on stages as a whole that failed, one line per gate.
    pub(crate) fn failed_on_stages(&self) -> Result<Value, Failure> {
        let mut lines = Vec::new();
        for judged in &self.tables {
            let cells = judged.table.text("cell")?;
            for row in (0..cells.len()).filter(|row| cells[*row].is_none()) {
                let mut line = judged.line(row)?;
                if line["outcome"] == GateOutcome::Fail.word() {
                    line["stage"] = judged.value("stage", row)?;
                    lines.push(line);
                }
            }
        }
        Ok(Value::Array(lines))
    }

    fn index(&mut self, table: &Table) -> Result<(), Failure> {
        let at = self.tables.len();
        let [stages, cells] = [table.text("stage")?, table.text("cell")?];
        for (row, place) in stages.iter().zip(&cells).enumerate() {
            if let (Some(stage), Some(cell)) = place {
                let place = ((*stage).to_owned(), (*cell).to_owned());
                self.rows.entry(place).or_default().push((at, row));
            }
        }
        Ok(())
    }

    /// Returns the results for a cell, one line per gate.
    pub(crate) fn of(&self, stage: &str, cell: &str) -> Result<Value, Failure> {
        let place = (stage.to_owned(), cell.to_owned());
        let rows = self.rows.get(&place).into_iter().flatten();
        let lines = rows.map(|(at, row)| self.tables[*at].line(*row));
        Ok(Value::Array(lines.collect::<Result<_, _>>()?))
    }
}

impl Judged {
    fn value(&self, column: &str, row: usize) -> Result<Value, Failure> {
        Ok(scalar(&self.table.value(column, row)?))
    }

    /// Returns the result of a gate, with the row of the table that holds it.
    fn line(&self, row: usize) -> Result<Value, Failure> {
        Ok(json!({
            "verify": self.verify,
            "at": self.at,
            "row": row,
            "gate": self.value("gate", row)?,
            "severity": self.value("severity", row)?,
            "outcome": self.value("outcome", row)?,
            "observed": self.value("observed", row)?,
            "expected": self.value("expected", row)?,
        }))
    }
}

/// Reads the tables of exclusions of all verify stages.
pub(crate) fn exclusions(lock: &Lock, store: &Store) -> Result<Exclusions, Failure> {
    let mut exclusions = Exclusions::default();
    for (_, _, table) in verified("exclusions", lock, store)? {
        exclusions.add(&table)?;
    }
    Ok(exclusions)
}

/// Returns the number of ok cells of a study that gates exclude from statistics.
pub(crate) fn excluded(lock: &Lock, exclusions: &Exclusions) -> usize {
    let cells = lock.stages.iter().flat_map(|stage| {
        let ok = stage.cells.iter().filter(|c| c.status == CellStatus::Ok);
        ok.filter(|c| exclusions.why(&stage.name, &c.coordinates).is_some())
    });
    cells.count()
}

/// Reads an output of all verify cells: the stage, the cell's coordinates as text, and the table.
fn verified(
    output: &str,
    lock: &Lock,
    store: &Store,
) -> Result<Vec<(String, String, Table)>, Failure> {
    let mut tables = Vec::new();
    for verify in &lock.stages {
        for cell in verify.cells.iter().filter(|c| c.outputs.is_some()) {
            let Some(record) = record_of(store, &verify.name, cell)? else {
                continue;
            };
            let Some(artifact) = record.outputs.get(output) else {
                // All cells of a stage have the same outputs.
                break;
            };
            let table = Table::from_parquet(store.get(&artifact.digest)?)?;
            tables.push((verify.name.clone(), cell.coordinates.clone(), table));
        }
    }
    Ok(tables)
}
