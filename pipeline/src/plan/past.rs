//! The executions of measurements before a session: those in the lock, and those in the store's history.

use std::collections::HashMap;

use artifacts::{Digest, Store};
use typed_index_collections::TiSlice;

use super::lines::lock_cell;
use super::session::Session;
use crate::error::PipelineError;
use crate::graph::Graph;
use crate::ids::CellId;
use crate::lock::{Earlier, Lock, LockCell, LockClass};
use crate::stage::CellStatus;

/// An execution of a measurement before this session.
pub(super) struct Past {
    earlier: Earlier,
    known_by: KnownBy,
}

/// The source of an execution.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KnownBy {
    /// The lock: the execution belongs to this study.
    Lock,
    /// The store's history: the execution belongs to this study if its recipe is the cell's.
    Store,
}

/// The maximum number of a stage's executions read from the store.
const MOST_PAST: usize = 1 << 20;

/// Collects the executions of measurements, oldest first: those in the lock, then those that only the store knows.
pub(super) fn past(
    graph: &Graph<'_>,
    lock: Option<&Lock>,
    lines: &TiSlice<CellId, Option<(u32, u32)>>,
    store: Option<&Store>,
) -> Result<HashMap<CellId, Vec<Past>>, PipelineError> {
    let mut past: HashMap<CellId, Vec<Past>> = HashMap::new();
    for node in graph
        .nodes
        .iter()
        .filter(|n| n.class == LockClass::Measurement)
    {
        let cells: HashMap<&str, CellId> = node
            .texts
            .iter_enumerated()
            .map(|(i, text)| (&**text, node.cell(i)))
            .collect();
        let mut add = |cell: CellId, earlier: Earlier, known_by: KnownBy| {
            let of_cell = past.entry(cell).or_default();
            if of_cell.iter().all(|p| p.earlier.record != earlier.record) {
                of_cell.push(Past { earlier, known_by });
            }
        };
        let mut in_order: Vec<&CellId> = cells.values().collect();
        in_order.sort_unstable();
        for cell in in_order {
            let line = lines[*cell].and_then(|(stage, line)| {
                lock.map(|lock| &lock.stages[stage as usize].cells[line as usize])
            });
            let Some(line) = line else { continue };
            for earlier in &line.earlier {
                add(*cell, earlier.clone(), KnownBy::Lock);
            }
            if let (Some(key), Some(record)) = (line.key, line.record) {
                let status = line.status;
                add(
                    *cell,
                    Earlier {
                        status,
                        key,
                        record,
                    },
                    KnownBy::Lock,
                );
            }
        }
        let Some(store) = store else { continue };
        let name = &graph.experiment.name;
        let history = store.history(name, &node.stage.name, None, MOST_PAST)?;
        for line in history.into_iter().rev() {
            let (Some(cell), Some(status)) = (
                cells.get(line.coordinates.as_str()),
                CellStatus::parse(&line.status),
            ) else {
                continue;
            };
            let (key, record) = (line.key, line.record);
            add(
                *cell,
                Earlier {
                    status,
                    key,
                    record,
                },
                KnownBy::Store,
            );
        }
    }
    Ok(past)
}

impl Session<'_> {
    /// Returns the executions of a measurement other than the one in use: those in the lock, and those of the same
    /// recipe in the store's history.
    pub(super) fn earlier(&self, cell: CellId, line: &LockCell) -> Vec<Earlier> {
        let past = self.past.get(&cell).map(Vec::as_slice).unwrap_or_default();
        past.iter()
            .filter(|p| Some(p.earlier.record) != line.record)
            .filter(|p| p.known_by == KnownBy::Lock || Some(p.earlier.key) == line.key)
            .map(|p| p.earlier.clone())
            .collect()
    }

    /// Returns the number of executions of a settled measurement under its recipe, and the records of the ok results
    /// that are not in use.
    pub(crate) fn executions(&self, cell: CellId) -> (usize, Vec<Digest>) {
        let Some(outcome) = self.settled(cell) else {
            return (0, Vec::new());
        };
        let mut line = lock_cell("", outcome);
        line.earlier = self.earlier(cell, &line);
        (line.executions(), line.discarded().collect())
    }
}
