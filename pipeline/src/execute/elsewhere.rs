//! Placed cells: a scheduler executed them before this run, or they stay unexecuted.

use std::collections::HashMap;

use artifacts::ActionKey;

use super::attempt::{Attempts, fail, take};
use super::drive::{Executor, Stop};
use super::live::resources_of;
use crate::cause::Cause;
use crate::error::PipelineError;
use crate::graph::Graph;
use crate::ids::CellId;
use crate::plan::{AwayFailure, Elsewhere, Outcome};
use crate::record::Record;
use crate::stage::{CellStatus, Content, Failure, Output};

impl Executor<'_, '_> {
    /// Adds the evidence of cells that failed elsewhere. They stop a run just as local failures do.
    pub(super) fn take_in_failures(&mut self) -> Result<(), PipelineError> {
        let failed = self.session.results.iter();
        let mut failed: Vec<_> = failed
            .filter_map(|(cell, (_, outcome))| match outcome {
                Outcome::Not {
                    record: Some(record),
                    ..
                } => Some((*cell, *record)),
                _ => None,
            })
            .collect();
        failed.sort_unstable();
        for (cell, record) in &failed {
            if let Ok(record) = Record::parse(&self.session.store.get_document(record)?) {
                self.evidence.insert(*cell, record.evidence);
            }
        }
        if let (Some((cell, _)), false) = (failed.first(), self.keep_going) {
            self.stopped = Some(Stop::Failed(self.session.graph.name(*cell)));
        }
        Ok(())
    }

    /// Settles a placed cell without a result from what is known about it. Its failure becomes a ledger line like that
    /// of a local cell.
    pub(super) fn not_here(&mut self, cell: CellId, key: ActionKey) -> Result<(), PipelineError> {
        let failure = self.failure_elsewhere(cell);
        if failure.status == CellStatus::Skipped {
            let outcome = Outcome::skipped(failure.reason);
            return self.settle_without_executing(cell, outcome, failure.hint);
        }
        let mut failure_kept = Failure::new(failure.status, failure.reason);
        failure_kept.hint = failure.hint;
        failure_kept.evidence = failure
            .evidence
            .into_iter()
            .map(|(name, media, bytes)| Output {
                name,
                media,
                content: Content::Bytes(bytes),
                rows: None,
            })
            .collect();
        let mut task = self.task(cell, key);
        task.here = false;
        let mut attempts = Attempts::new();
        if let Err(wrong) = take(self.session.store, &mut failure_kept.evidence)? {
            failure_kept = wrong;
        }
        // Any retries happened where it failed.
        let _no_more = attempts.again(&self.context, &task, &mut failure_kept, 0.0)?;
        let finished = fail(&self.context, &task, attempts, failure_kept)?;
        self.finish(finished)?;
        self.commit()
    }

    /// Returns the failure of a cell that needs a resource: if no cell prepared the resource, that is why it is
    /// missing.
    fn failure_of_reader(&mut self, cell: CellId, elsewhere: &Elsewhere) -> Option<AwayFailure> {
        let graph = &self.session.graph;
        let failed = self
            .failed_readers
            .get_or_insert_with(|| failed_readers(graph, elsewhere));
        let reader = graph.written(*failed.get(&cell)?).to_owned();
        elsewhere.failures.get(&reader).cloned()
    }

    fn failure_elsewhere(&mut self, cell: CellId) -> AwayFailure {
        let written = self.session.graph.written(cell).to_owned();
        let failure = self.elsewhere.clone().and_then(|elsewhere| {
            let measured = elsewhere.records.contains_key(&written).then(|| AwayFailure {
                status: CellStatus::Failed,
                reason: "it was executed elsewhere, where the cells that it needs had other outputs"
                    .to_owned(),
                hint: Some(
                    "the machines prepared the engine differently: pin its parts, for example the packages of a venv \
                     with `lock`"
                        .to_owned(),
                ),
                evidence: Vec::new(),
            });
            let own = elsewhere.failures.get(&written).cloned();
            own.or(measured).or_else(|| self.failure_of_reader(cell, &elsewhere))
        });
        failure.unwrap_or_else(|| AwayFailure {
            status: CellStatus::Skipped,
            reason: Cause::not_reached("no machine has executed it").to_string(),
            hint: None,
            evidence: Vec::new(),
        })
    }
}

/// Maps each resource to the first cell that needs it and failed elsewhere, or to a skipped cell if none failed.
fn failed_readers(graph: &Graph<'_>, elsewhere: &Elsewhere) -> HashMap<CellId, CellId> {
    let mut readers: HashMap<CellId, (bool, CellId)> = HashMap::new();
    for reader in graph.cells().filter(|c| graph.placement(*c).is_some()) {
        let Some(failure) = elsewhere.failures.get(&graph.written(reader).to_owned()) else {
            continue;
        };
        let this = (failure.status == CellStatus::Skipped, reader);
        for resource in resources_of(graph, reader) {
            let chosen = readers.entry(resource).or_insert(this);
            *chosen = this.min(*chosen);
        }
    }
    let pairs = readers.into_iter();
    pairs
        .map(|(resource, (_, reader))| (resource, reader))
        .collect()
}
