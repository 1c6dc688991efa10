//! The result of a run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use artifacts::Digest;
use serde::Serialize;

use super::drive::{Executor, Stop};
use crate::error::PipelineError;
use crate::ids::CellId;
use crate::lock::{Lock, LockClass};
use crate::name::OutputName;
use crate::plan::{Lack, Outcome, Session};
use crate::record::{Record, outputs_in_use};
use crate::stage::{Artifact, CellStatus, Class, Coordinates, Execution, LedgerLine, Study};

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunSummary {
    /// Cells by status word, including those that the experiment leaves out.
    pub counts: BTreeMap<&'static str, usize>,
    /// Cells executed by this run, including failed ones.
    pub executed: usize,
    /// The number of resource starts, whether or not they executed their cell.
    pub resource_starts: usize,
    /// Whether every requested cell is ok: all cells, or those that a selection names and those they need.
    pub done: bool,
    /// What cells need and this machine lacks; those cells were skipped.
    pub lacks: Vec<Lack>,
    /// Whether the user stopped the run.
    pub interrupted: bool,
    /// The path of the lock.
    pub lock: PathBuf,
    /// Whether the lock's text changed.
    pub lock_written: bool,
    /// The lock's content, if it comes from this run. Otherwise an earlier lock stayed, which knows more.
    #[serde(skip)]
    pub locked: Option<Lock>,
    /// The trail digest.
    pub trail: Digest,
    /// The results of the stages that see the study and that no other stage needs: the reports.
    pub results: Vec<StudyResult>,
    /// A line for every planned cell.
    pub ledger: Vec<LedgerLine>,
}

/// The outputs of one cell that sees the study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StudyResult {
    /// The stage's name.
    pub stage: String,
    /// The coordinates.
    pub coordinates: Coordinates,
    /// The record.
    pub record: Digest,
    /// The outputs, by name.
    pub outputs: BTreeMap<OutputName, Artifact>,
}

impl RunSummary {
    /// Returns whether every planned cell is ok or left out by the experiment.
    pub fn is_complete(&self) -> bool {
        let mut cells = self.ledger.iter();
        cells.all(|cell| matches!(cell.status, CellStatus::Ok | CellStatus::Excluded))
    }
}

pub(super) fn summary(
    executor: &mut Executor<'_, '_>,
    lock: PathBuf,
    lock_written: bool,
) -> Result<RunSummary, PipelineError> {
    let session = &mut executor.session;
    let mut ledger = ledger(session, Reader::User);
    let mut at = 0;
    for node in &session.graph.nodes {
        for (position, cell) in node.cells().enumerate() {
            if let Some(evidence) = executor.evidence.get(&cell) {
                ledger[at + position].evidence = evidence.clone();
            }
        }
        at += node.stage.cells.len() + node.stage.excluded.len();
    }
    let mut counts = BTreeMap::new();
    for line in &ledger {
        *counts.entry(line.status.word()).or_default() += 1;
    }
    let mut results = Vec::new();
    for (number, node) in session.graph.nodes.iter_enumerated() {
        if node.class != LockClass::Study || !node.readers.is_empty() {
            continue;
        }
        for (i, cell) in node.stage.cells.iter_enumerated() {
            let Some(Outcome::Ok {
                record, outputs, ..
            }) = session.settled(node.cell(i))
            else {
                continue;
            };
            results.push(StudyResult {
                stage: node.stage.name.clone(),
                coordinates: session.graph.experiment.coordinates(number, &cell.at),
                record: *record,
                outputs: outputs_in_use(outputs)
                    .into_iter()
                    .filter_map(|(name, artifact)| Some((OutputName::new(name).ok()?, artifact)))
                    .collect(),
            });
        }
    }
    let is_ok = |cell: CellId| match session.settled(cell) {
        Some(Outcome::Ok { .. }) => true,
        // A block that was not needed.
        Some(Outcome::Not { status, .. }) => *status == CellStatus::Excluded,
        None => false,
    };
    let done = session
        .selected
        .iter_enumerated()
        .all(|(cell, selected)| !selected || is_ok(cell));
    Ok(RunSummary {
        counts,
        done,
        executed: executor.executed,
        resource_starts: executor.resource_starts,
        lacks: session.lacks.iter().cloned().collect(),
        interrupted: matches!(executor.stopped, Some(Stop::Interrupted)),
        lock,
        lock_written,
        locked: None,
        trail: session.trail(),
        results,
        ledger,
    })
}

/// Returns what a stage that sees the study gets: the spec with sorted keys (their order is in no key), the trail, and
/// the ledger as far as the trail covers it.
pub(super) fn study_of(session: &mut Session<'_>) -> Study {
    let mut spec = session.graph.experiment.spec.clone();
    spec.sort_all_objects();
    Study {
        spec,
        trail: session.trail(),
        ledger: ledger(session, Reader::Study),
    }
}

/// Who reads the ledger.
#[derive(Clone, Copy, PartialEq)]
enum Reader {
    /// The user of a run, who sees every stage.
    User,
    /// A stage that sees the study. The study does not include such stages.
    Study,
}

/// Returns a line for every planned cell in stage and axis order, with excluded cells last in their stage. Only failed
/// measurements have evidence: the trail contains their records and no others.
fn ledger(session: &Session<'_>, reader: Reader) -> Vec<LedgerLine> {
    let experiment = session.graph.experiment;
    let mut lines = Vec::new();
    let nodes = session.graph.nodes.iter_enumerated();
    let is_in = |class: LockClass| reader == Reader::User || class != LockClass::Study;
    for (number, node) in nodes.filter(|(_, node)| is_in(node.class)) {
        for (i, cell) in node.stage.cells.iter_enumerated() {
            let (status, reason, record) = match session.settled(node.cell(i)) {
                Some(Outcome::Not {
                    status,
                    reason,
                    record,
                    ..
                }) => (*status, Some(reason.to_string()), record.as_ref()),
                _ => (CellStatus::Ok, None, None),
            };
            // Only the study needs to know how an ok cell was executed.
            let wanted = record.or(match session.settled(node.cell(i)) {
                Some(Outcome::Ok { record, .. }) if reader == Reader::Study => Some(record),
                _ => None,
            });
            let measurement = wanted
                .filter(|_| node.stage.class == Class::Measurement)
                .and_then(|record| Record::parse(&session.store.get_document(record).ok()?).ok());
            let (executions, discarded) = match measurement {
                Some(_) => session.executions(node.cell(i)),
                None => (0, Vec::new()),
            };
            let execution = measurement.as_ref().map(|record| Execution {
                order: record.order,
                place: record.place.clone(),
                executions,
                discarded,
                loud: record.preflight.as_ref().and_then(|p| p.loud.clone()),
                host: record.host.clone(),
                by: record.by.clone(),
                started: record.host.as_ref().map(|_| record.started.clone()),
            });
            lines.push(LedgerLine {
                stage: node.stage.name.clone(),
                coordinates: experiment.coordinates(number, &cell.at),
                status,
                reason,
                evidence: measurement
                    .map(|record| record.evidence)
                    .unwrap_or_default(),
                execution,
            });
        }
        for excluded in &node.stage.excluded {
            lines.push(LedgerLine {
                stage: node.stage.name.clone(),
                coordinates: experiment.coordinates(number, &excluded.at),
                status: CellStatus::Excluded,
                reason: Some(excluded.reason.clone()),
                evidence: BTreeMap::new(),
                execution: None,
            });
        }
    }
    lines
}
