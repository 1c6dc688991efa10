//! One pass over the stages on simulated inputs: the cells' inputs and their results.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use artifacts::{Digest, Store};
use typed_index_collections::{TiSlice, TiVec};

use super::Tilt;
use crate::error::PipelineError;
use crate::graph::{Graph, Member};
use crate::ids::{LocalCell, StageId};
use crate::lease::Leases;
use crate::lock::LockClass;
use crate::sources::NamedFiles;
use crate::stage::{
    Artifact, CellStatus, Class, Content, Control, Coordinates, Failure, Input, InputCell, Job,
    Json, Output, Study,
};

/// The result of a cell: its outputs, or why it has none.
pub(super) type Ended = Result<BTreeMap<String, Artifact>, (CellStatus, String)>;

pub(super) type Kept = Result<BTreeMap<String, Artifact>, Stopped>;

/// The reason why a cell has no outputs.
pub(super) enum Stopped {
    /// It could not be executed, because something it needs has no outputs.
    Skipped(String),
    Failed(Failure),
}

/// One stage in one pass.
pub(super) struct Pass<'a> {
    pub(super) graph: &'a Graph<'a>,
    pub(super) store: &'a Store,
    pub(super) files: &'a NamedFiles,
    pub(super) ended: &'a TiSlice<StageId, TiVec<LocalCell, Ended>>,
    pub(super) study: Option<&'a Study>,
    pub(super) tilt: Tilt,
    pub(super) cancelled: &'a Arc<AtomicBool>,
}

impl Pass<'_> {
    /// Executes the cells of a stage in parallel.
    pub(super) fn stage(&self, number: StageId) -> Result<TiVec<LocalCell, Kept>, PipelineError> {
        let count = self.graph.nodes[number].stage.cells.len();
        let threads = std::thread::available_parallelism()
            .map_or(1, std::num::NonZero::get)
            .min(count.max(1));
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let cell = LocalCell::from(next.fetch_add(1, Ordering::Relaxed));
                if cell >= LocalCell::from(count) {
                    return Ok(done);
                }
                done.push((cell, self.cell(number, cell)?));
            }
        };
        let parts: Vec<Result<Vec<(LocalCell, Kept)>, PipelineError>> =
            std::thread::scope(|scope| {
                let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
                let join = |w: std::thread::ScopedJoinHandle<'_, _>| match w.join() {
                    Ok(result) => result,
                    Err(panic) => std::panic::resume_unwind(panic),
                };
                workers.into_iter().map(join).collect()
            });
        let mut all: Vec<(LocalCell, Kept)> = Vec::with_capacity(count);
        for part in parts {
            all.extend(part?);
        }
        all.sort_by_key(|(cell, _)| *cell);
        Ok(all.into_iter().map(|(_, result)| result).collect())
    }

    /// Returns the first of each set of cells in a stage with the same parameters and inputs, and the size of the set.
    pub(super) fn distinct(&self, number: StageId) -> Vec<(LocalCell, usize)> {
        let node = &self.graph.nodes[number];
        let mut seen: BTreeMap<_, (LocalCell, usize)> = BTreeMap::new();
        for (cell, planned) in node.stage.cells.iter_enumerated() {
            let mut reads = Vec::new();
            for need in &node.needs {
                for member in need.members(need.group_of_reader[cell]) {
                    let outputs = match member {
                        Member::Cell(i) => self.ended[need.stage][i].as_ref().ok(),
                        Member::Excluded(_) => None,
                    };
                    reads.extend(
                        outputs
                            .into_iter()
                            .flat_map(BTreeMap::values)
                            .map(|a| Some(a.digest)),
                    );
                    reads.push(None);
                }
            }
            let entry = seen.entry((planned.parameters, reads)).or_insert((cell, 0));
            entry.1 += 1;
        }
        let mut distinct: Vec<_> = seen.into_values().collect();
        distinct.sort_unstable();
        distinct
    }

    fn cell(&self, number: StageId, cell: LocalCell) -> Result<Kept, PipelineError> {
        let node = &self.graph.nodes[number];
        let planned = &node.stage.cells[cell];
        let experiment = self.graph.experiment;
        let inputs = match self.inputs(number, cell) {
            Ok(inputs) => inputs,
            Err(reason) => return Ok(Err(Stopped::Skipped(reason))),
        };
        let coordinates = experiment.coordinates(number, &planned.at);
        let replicate = experiment.replicate(number, &planned.at);
        let mut parameters = node.stage.parameter_sets[planned.parameters as usize].clone();
        parameters.sort_all_objects();
        let scratch = self
            .store
            .root()
            .join("scratch")
            .join(format!("{number}-{cell}"));
        fs::create_dir_all(&scratch).map_err(|e| PipelineError::Io(scratch.clone(), e))?;
        let control = Control::new(self.cancelled.clone(), None, Box::new(|_| ()));
        let leases = Leases::new(self.store.root(), &experiment.name, coordinates.to_string());
        let job = Job {
            experiment: &experiment.name,
            stage: &node.stage.name,
            coordinates: &coordinates,
            parameters: &parameters,
            seed: experiment.seed,
            replicate: &replicate,
            inputs: &inputs,
            store: self.store,
            files: self.files,
            scratch: &scratch,
            control: &control,
            leases: &leases,
            study: self.study,
        };
        let slowdown = self.tilt.slowdown(&planned.at);
        let result = control.check().and_then(|()| {
            catch_unwind(AssertUnwindSafe(|| node.kind.rehearse(&job, slowdown))).unwrap_or_else(
                |_| {
                    Err(
                        Failure::failed(format!("the stage kind `{}` panicked", node.kind.name()))
                            .hint("this is a bug in the stage kind; please report it"),
                    )
                },
            )
        });
        let kept = match result {
            Ok(done) => {
                if let Some(lease) = done.lease {
                    lease.release();
                }
                if node.class == LockClass::Measurement {
                    self.store.put(&record_of(&node.texts[cell]))?;
                }
                Ok(self.keep(done.outputs)?)
            }
            Err(failure) => Err(Stopped::Failed(failure)),
        };
        crate::temporary::remove(&scratch).map_err(|e| PipelineError::Io(scratch, e))?;
        Ok(kept)
    }

    fn keep(&self, outputs: Vec<Output>) -> Result<BTreeMap<String, Artifact>, PipelineError> {
        let mut kept = BTreeMap::new();
        for output in outputs {
            let digest = match &output.content {
                Content::Bytes(bytes) => self.store.put(bytes)?,
                Content::File(path) => self.store.put_file(path)?,
            };
            let bytes = self.store.size(&digest)?.unwrap_or(0);
            kept.insert(
                output.name,
                Artifact {
                    digest,
                    media: output.media,
                    bytes,
                    rows: output.rows,
                },
            );
        }
        Ok(kept)
    }

    /// Returns a cell's inputs, or why it cannot be executed.
    pub(super) fn inputs(&self, number: StageId, cell: LocalCell) -> Result<Vec<Input>, String> {
        let node = &self.graph.nodes[number];
        let mut inputs = Vec::with_capacity(node.needs.len());
        for need in &node.needs {
            let source = &self.graph.nodes[need.stage];
            let cells: Vec<InputCell> = need
                .members(need.group_of_reader[cell])
                .map(|m| self.input_cell(need.stage, m))
                .collect();
            let broken = cells
                .iter()
                .find(|c| matches!(c.status, CellStatus::Failed | CellStatus::Skipped));
            if source.stage.class == Class::Pure
                && let Some(broken) = broken
            {
                let name =
                    crate::place::cell_text(&source.stage.name, &broken.coordinates.to_string());
                return Err(format!("`{name}` has no outputs"));
            }
            inputs.push(Input {
                stage: source.stage.name.clone(),
                kind: source.stage.kind.clone(),
                needs: self.graph.needs_of(need.stage),
                cells,
            });
        }
        Ok(inputs)
    }

    fn input_cell(&self, stage: StageId, member: Member) -> InputCell {
        let node = &self.graph.nodes[stage];
        let coordinates =
            |at: &[u16]| -> Coordinates { self.graph.experiment.coordinates(stage, at) };
        match member {
            Member::Excluded(i) => InputCell {
                coordinates: coordinates(&node.stage.excluded[i].at),
                status: CellStatus::Excluded,
                reason: Some(node.stage.excluded[i].reason.clone()),
                parameters: Json::Null,
                outputs: BTreeMap::new(),
                record: None,
                live: None,
            },
            Member::Cell(i) => {
                let planned = &node.stage.cells[i];
                let measured = node.class == LockClass::Measurement;
                let mut parameters = Json::Null;
                if measured {
                    parameters = node.stage.parameter_sets[planned.parameters as usize].clone();
                    parameters.sort_all_objects();
                }
                let (status, reason, outputs) = match &self.ended[stage][i] {
                    Ok(outputs) => (CellStatus::Ok, None, outputs.clone()),
                    Err((status, reason)) => (*status, Some(reason.clone()), BTreeMap::new()),
                };
                let record = (measured && self.study.is_some() && status == CellStatus::Ok)
                    .then(|| Digest::of(&record_of(&node.texts[i])));
                InputCell {
                    coordinates: coordinates(&planned.at),
                    status,
                    reason,
                    parameters,
                    outputs,
                    record,
                    live: None,
                }
            }
        }
    }
}

/// The substitute for the record of a simulated cell; a report reads attempts and claims from it.
pub(super) fn record_of(cell: &str) -> Vec<u8> {
    serde_json::json!({ "cell": cell, "attempts": [], "claims": {} })
        .to_string()
        .into_bytes()
}
