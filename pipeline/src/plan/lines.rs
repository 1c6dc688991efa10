//! The lines of a lock for the cells of a session: read from an earlier lock, and written from the current states.

use std::collections::HashMap;

use artifacts::Digest;
use typed_index_collections::TiVec;

use super::session::{Outcome, Session};
use crate::graph::Graph;
use crate::ids::CellId;
use crate::lock::{Lock, LockCell, LockStage};
use crate::stage::CellStatus;

impl Session<'_> {
    /// Returns the lock's line for a cell.
    pub(crate) fn lock_line(&self, cell: CellId) -> Option<&LockCell> {
        let (stage, line) = self.lock_lines[cell]?;
        Some(&self.lock.as_ref()?.stages[stage as usize].cells[line as usize])
    }

    /// Returns the lock for the current state; unsettled cells have no line.
    pub(crate) fn to_lock(&self) -> Lock {
        let experiment = self.graph.experiment;
        let mut lock = Lock {
            experiment: experiment.name.clone(),
            profile: experiment.profile.clone(),
            seed: experiment.seed,
            stages: Vec::new(),
        };
        for (number, node) in self.graph.nodes.iter_enumerated() {
            let mut cells: Vec<LockCell> =
                Vec::with_capacity(node.stage.cells.len() + node.stage.excluded.len());
            for (i, text) in node.texts.iter_enumerated() {
                let number = node.cell(i);
                if let Some(outcome) = self.settled(number) {
                    let mut cell = lock_cell(text, outcome);
                    cell.earlier = self.earlier(number, &cell);
                    cells.push(cell);
                }
            }
            for excluded in &node.stage.excluded {
                let coordinates = experiment.coordinates(number, &excluded.at);
                cells.push(LockCell {
                    coordinates: coordinates.to_string(),
                    status: CellStatus::Excluded,
                    key: None,
                    record: None,
                    outputs: None,
                    reason: Some(excluded.reason.clone()),
                    earlier: Vec::new(),
                });
            }
            lock.stages.push(LockStage {
                name: node.stage.name.clone(),
                class: node.class,
                cells,
            });
        }
        lock.sort();
        lock
    }
}

/// The line of a settled cell, without its earlier executions.
pub(super) fn lock_cell(coordinates: &str, outcome: &Outcome) -> LockCell {
    let coordinates = coordinates.to_owned();
    match outcome {
        Outcome::Ok {
            key,
            record,
            outputs,
        } => LockCell {
            coordinates,
            status: CellStatus::Ok,
            key: Some(*key),
            record: Some(*record),
            outputs: Some(Digest::of(outputs.as_bytes())),
            reason: None,
            earlier: Vec::new(),
        },
        Outcome::Not {
            status,
            reason,
            key,
            record,
        } => LockCell {
            coordinates,
            status: *status,
            key: *key,
            record: *record,
            outputs: None,
            reason: Some(reason.to_string()),
            earlier: Vec::new(),
        },
    }
}

/// Finds the line of each cell in a lock: the positions of its stage and of the line.
pub(super) fn lock_lines(
    graph: &Graph<'_>,
    lock: Option<&Lock>,
) -> TiVec<CellId, Option<(u32, u32)>> {
    let mut lines = TiVec::from(vec![None; graph.count]);
    let Some(lock) = lock else { return lines };
    for node in &graph.nodes {
        let Some(s) = lock.stages.iter().position(|s| s.name == node.stage.name) else {
            continue;
        };
        let index: HashMap<&str, usize> = lock.stages[s]
            .cells
            .iter()
            .enumerate()
            .map(|(i, c)| (c.coordinates.as_str(), i))
            .collect();
        for (i, text) in node.texts.iter_enumerated() {
            let small = |i: usize| u32::try_from(i).expect("a lock has fewer than 2³² lines");
            lines[node.cell(i)] = index.get(&**text).map(|line| (small(s), small(*line)));
        }
    }
    lines
}
