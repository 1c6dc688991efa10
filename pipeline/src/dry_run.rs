//! The dry run: every pure stage executed over made-up inputs before anything is measured.
//!
//! A measurement that takes days ends in an analysis and a report; what is wrong with those
//! should show before it starts. Resources and measurements leave made-up outputs of the right
//! shape ([`StageKind::rehearse`]), pure stages execute as they are, in a store of their own that
//! is thrown away. Neither the real store nor the lock is opened.
//!
//! # What is an error
//!
//! A mistake in names, columns, units or syntax fails whatever the rows say; a lookup or a
//! statement may also fail only because of what was made up. They are told apart by trying: if
//! anything fails, everything is executed again over rows whose times rise along every axis, and
//! once more over rows whose times fall. What fails each time in the same words is an error; what
//! fails only sometimes is a doubt.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use artifacts::{Digest, Store};
use typed_index_collections::{TiSlice, TiVec};

use crate::effect::Effect;
use crate::error::PipelineError;
use crate::experiment::Experiment;
use crate::graph::{Graph, Member};
use crate::ids::{LocalCell, StageId};
use crate::language::{Place, place_in};
use crate::lease::Leases;
use crate::lock::LockClass;
use crate::plan::Plan;
use crate::sources::NamedFiles;
use crate::stage::{
    Artifact, CellStatus, Class, Content, Control, Coordinates, Failure, Input, InputCell, Job,
    Json, LedgerLine, Output, Registry, Step, Study,
};
use crate::temporary;

/// What its folders in the scratch space of a store are named after.
pub(crate) const SCRATCH: &str = "dry-run";

/// What a dry run found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DryRun {
    /// Cells of pure stages that were executed.
    pub executed: usize,
    /// What failed, errors first, in the order of the stages.
    pub findings: Vec<DryRunFinding>,
    /// Whether the user stopped it: what is not among the findings may still be wrong.
    pub interrupted: bool,
}

/// A pure cell that failed over made-up inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct DryRunFinding {
    /// The stage.
    pub stage: String,
    /// The cell's coordinates as text; empty without axes.
    pub coordinates: String,
    /// Whether it would fail whatever is measured. Otherwise it may be due to what was made up.
    pub certain: bool,
    /// What the stage said.
    pub reason: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Where in the experiment the stage, or the table it speaks of, is declared.
    pub place: Option<Place>,
}

impl DryRun {
    /// Returns what would fail whatever is measured.
    pub fn errors(&self) -> impl Iterator<Item = &DryRunFinding> {
        self.findings.iter().filter(|f| f.certain)
    }

    /// Returns what may be due to what was made up.
    pub fn doubts(&self) -> impl Iterator<Item = &DryRunFinding> {
        self.findings.iter().filter(|f| !f.certain)
    }
}

/// Returns whether a dry run before executing a plan is of use: something is to be measured or
/// started, and a pure stage is to be executed after it.
pub fn dry_run_is_due(plan: &Plan) -> bool {
    let active = |class: fn(Class) -> bool| {
        plan.stages
            .iter()
            .any(|s| class(s.class) && s.counts.run + s.counts.after > 0)
    };
    active(|c| c == Class::Measurement) && active(|c| c == Class::Pure)
}

/// Executes every pure stage over made-up inputs.
///
/// # Errors
/// If a kind is unknown, or the folder for the store that is thrown away cannot be made or written.
pub fn dry_run(
    experiment: &Experiment,
    registry: &Registry,
    store: &Path,
    cancelled: &Arc<AtomicBool>,
) -> Result<DryRun, PipelineError> {
    let graph = Graph::new(experiment, registry)?;
    let run = |tilt| rehearse(&graph, tilt, store, cancelled);
    let first = run(Tilt::Level)?;
    let mut dry_run = DryRun {
        executed: first.executed,
        ..DryRun::default()
    };
    if first.failures.is_empty() {
        dry_run.interrupted = cancelled.load(Ordering::Relaxed);
        return Ok(dry_run);
    }
    let others = [run(Tilt::Rising)?, run(Tilt::Falling)?];
    for failed in first.failures {
        let again = |other: &Rehearsed| other.failures.iter().any(|f| f.same(&failed));
        let certain = others.iter().all(again);
        dry_run.findings.push(failed.finding(&graph, certain));
    }
    dry_run.findings.sort_by_key(|f| !f.certain);
    dry_run.interrupted = cancelled.load(Ordering::Relaxed);
    Ok(dry_run)
}

/// Returns whether two reasons differ in nothing but numbers: those are made up.
fn same_words(one: &str, other: &str) -> bool {
    let words = |reason: &str| -> Vec<String> {
        let words = reason.split(|c: char| c.is_ascii_digit());
        words
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    };
    words(one) == words(other)
}

/// How made-up times differ between cells.
#[derive(Clone, Copy, Debug)]
enum Tilt {
    Level,
    Rising,
    Falling,
}

impl Tilt {
    /// Returns how many times longer everything takes at a cell: along each axis, each label by a
    /// quarter more or less than the one before it.
    fn slowdown(self, at: &[u16]) -> f64 {
        let product: f64 = at
            .iter()
            .map(|label| 1.0 + 0.25 * f64::from(*label))
            .product();
        match self {
            Self::Level => 1.0,
            Self::Rising => product,
            Self::Falling => 1.0 / product,
        }
    }
}

/// What one pass over all stages left.
struct Rehearsed {
    executed: usize,
    failures: Vec<Failed>,
}

struct Failed {
    stage: StageId,
    cell: LocalCell,
    failure: Failure,
}

impl Failed {
    /// Returns whether both failed at the same place for the same reason, numbers aside. Of failures that list findings,
    /// one that both list is enough: that one does not depend on what was made up.
    fn same(&self, other: &Self) -> bool {
        let (mine, theirs) = (
            &self.failure.subject.findings,
            &other.failure.subject.findings,
        );
        (self.stage, self.cell) == (other.stage, other.cell)
            && match mine.is_empty() && theirs.is_empty() {
                true => same_words(&self.failure.reason, &other.failure.reason),
                false => mine.iter().any(|finding| theirs.contains(finding)),
            }
    }

    fn finding(self, graph: &Graph<'_>, certain: bool) -> DryRunFinding {
        let node = &graph.nodes[self.stage];
        let stage = node.stage.name.clone();
        let key = |text: &str| Step::Key(text.to_owned());
        let mut route = vec![key("stages"), key(&stage)];
        route.extend(self.failure.subject.settings);
        DryRunFinding {
            place: place_in(&graph.experiment.file, &route),
            coordinates: node.texts[self.cell].to_string(),
            stage,
            certain,
            reason: self.failure.reason,
            hint: self.failure.hint,
        }
    }
}

/// What became of a cell: its outputs, or why it has none.
type Ended = Result<BTreeMap<String, Artifact>, (CellStatus, String)>;

/// Executes all stages in their order over made-up inputs.
fn rehearse(
    graph: &Graph<'_>,
    tilt: Tilt,
    store: &Path,
    cancelled: &Arc<AtomicBool>,
) -> Result<Rehearsed, PipelineError> {
    let folder = scratch_folder(store)?;
    let store = Store::open(folder.path())?;
    let files = NamedFiles::of(graph.experiment, None);
    let mut ended: TiVec<StageId, TiVec<LocalCell, Ended>> =
        TiVec::with_capacity(graph.nodes.len());
    let mut rehearsed = Rehearsed {
        executed: 0,
        failures: Vec::new(),
    };
    for number in graph.nodes.keys() {
        let node = &graph.nodes[number];
        let study = (node.class == LockClass::Study).then(|| study(graph));
        let pass = Pass {
            graph,
            store: &store,
            files: &files,
            ended: &ended,
            study: study.as_ref(),
            tilt,
            cancelled,
        };
        let results = pass.stage(number)?;
        let mut outcomes = TiVec::with_capacity(results.len());
        for (cell, result) in results.into_iter_enumerated() {
            let pure = node.stage.class == Class::Pure;
            rehearsed.executed += usize::from(pure && !matches!(result, Err(Stopped::Skipped(_))));
            outcomes.push(match result {
                Ok(outputs) => Ok(outputs),
                Err(Stopped::Skipped(reason)) => Err((CellStatus::Skipped, reason)),
                Err(Stopped::Failed(failure)) if !pure => {
                    Err((CellStatus::Skipped, failure.reason))
                }
                Err(Stopped::Failed(failure)) if failure.status == CellStatus::Interrupted => {
                    Err((failure.status, failure.reason))
                }
                Err(Stopped::Failed(failure)) => {
                    let reason = failure.reason.clone();
                    rehearsed.failures.push(Failed {
                        stage: number,
                        cell,
                        failure,
                    });
                    Err((CellStatus::Failed, reason))
                }
            });
        }
        ended.push(outcomes);
    }
    Ok(rehearsed)
}

/// Returns what the cells of each stage do outside of this program, over made-up resources, with
/// how many cells do it: (stage, cells, effect). Cells that would fail before they start anything
/// do nothing.
pub(crate) fn look_at_effects(
    graph: &Graph<'_>,
    store: &Path,
    cancelled: &Arc<AtomicBool>,
) -> Result<Vec<(StageId, usize, Effect)>, PipelineError> {
    let folder = scratch_folder(store)?;
    let store = Store::open(folder.path())?;
    let files = NamedFiles::of(graph.experiment, None);
    let mut ended: TiVec<StageId, TiVec<LocalCell, Ended>> =
        TiVec::with_capacity(graph.nodes.len());
    let mut effects = Vec::new();
    for (number, node) in graph.nodes.iter_enumerated() {
        let pass = Pass {
            graph,
            store: &store,
            files: &files,
            ended: &ended,
            study: None,
            tilt: Tilt::Level,
            cancelled,
        };
        let cells = match node.stage.class {
            Class::Resource | Class::Measurement => pass.distinct(number),
            Class::Pure => Vec::new(),
        };
        for (cell, cells) in cells {
            let Ok(inputs) = pass.inputs(number, cell) else {
                continue;
            };
            let set = node.stage.cells[cell].parameters as usize;
            let mut parameters = node.stage.parameter_sets[set].clone();
            parameters.sort_all_objects();
            let found = node.kind.effects(&parameters, &inputs, &store, &files);
            let found = found.unwrap_or_default().into_iter();
            effects.extend(found.map(|effect| (number, cells, effect)));
        }
        for (index, placement) in node.stage.placements.iter().enumerate() {
            let own = |cell: &&crate::experiment::Cell| cell.placement == u32::try_from(index).ok();
            let cells = node.stage.cells.iter().filter(own).count();
            let found = node.kind.placing(placement).into_iter();
            effects.extend(found.map(|effect| (number, cells, effect)));
        }
        let unknown = || Err((CellStatus::Skipped, "it is not made up".to_owned()));
        ended.push(match node.stage.class {
            Class::Resource => pass
                .stage(number)?
                .into_iter()
                .map(|kept| {
                    kept.map_err(|stopped| match stopped {
                        Stopped::Skipped(reason) => (CellStatus::Skipped, reason),
                        Stopped::Failed(failure) => (failure.status, failure.reason),
                    })
                })
                .collect(),
            Class::Measurement | Class::Pure => {
                node.stage.cells.iter().map(|_| unknown()).collect()
            }
        });
    }
    Ok(effects)
}

/// Makes a folder that goes away, in the scratch space of a store: memory may be small, and what
/// a killed process left there is removed by the next. A store that cannot be written, or is not
/// there, has none.
fn scratch_folder(store: &Path) -> Result<tempfile::TempDir, PipelineError> {
    let scratch = store.join("scratch");
    let own = match store.is_dir() {
        true => fs::create_dir_all(&scratch).and_then(|()| temporary::folder(&scratch, SCRATCH)),
        false => Err(io::ErrorKind::NotFound.into()),
    };
    own.or_else(|_| temporary::folder(&std::env::temp_dir(), "benchtrail-dry-run"))
        .map_err(|e| PipelineError::Io(scratch, e))
}

/// What a report sees: every cell as if it were ok.
fn study(graph: &Graph<'_>) -> Study {
    let mut spec = graph.experiment.spec.clone();
    spec.sort_all_objects();
    let mut ledger = Vec::new();
    for (number, node) in graph
        .nodes
        .iter_enumerated()
        .filter(|(_, n)| n.class != LockClass::Study)
    {
        let cells = node
            .stage
            .cells
            .iter()
            .map(|c| (&c.at, CellStatus::Ok, None));
        let excluded = node
            .stage
            .excluded
            .iter()
            .map(|e| (&e.at, CellStatus::Excluded, Some(e.reason.clone())));
        ledger.extend(
            cells
                .chain(excluded)
                .map(|(at, status, reason)| LedgerLine {
                    execution: None,
                    stage: node.stage.name.clone(),
                    coordinates: graph.experiment.coordinates(number, at),
                    status,
                    reason,
                    evidence: BTreeMap::new(),
                }),
        );
    }
    Study {
        spec,
        trail: Digest::of(b"dry run"),
        ledger,
    }
}

/// What stands for the record of a made-up cell: a report reads attempts and claims there.
fn record_of(cell: &str) -> Vec<u8> {
    serde_json::json!({ "cell": cell, "attempts": [], "claims": {} })
        .to_string()
        .into_bytes()
}

/// Why a cell has no outputs.
enum Stopped {
    /// It could not be executed: something it needs has no outputs.
    Skipped(String),
    Failed(Failure),
}

/// One stage of one pass.
struct Pass<'a> {
    graph: &'a Graph<'a>,
    store: &'a Store,
    files: &'a NamedFiles,
    ended: &'a TiSlice<StageId, TiVec<LocalCell, Ended>>,
    study: Option<&'a Study>,
    tilt: Tilt,
    cancelled: &'a Arc<AtomicBool>,
}

type Kept = Result<BTreeMap<String, Artifact>, Stopped>;

impl Pass<'_> {
    /// Executes the cells of a stage, several at a time.
    fn stage(&self, number: StageId) -> Result<TiVec<LocalCell, Kept>, PipelineError> {
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

    /// Returns the first of the cells of a stage that have the same parameters and read the same,
    /// with how many they are.
    fn distinct(&self, number: StageId) -> Vec<(LocalCell, usize)> {
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
        fs::remove_dir_all(&scratch).map_err(|e| PipelineError::Io(scratch, e))?;
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

    /// Returns what a cell reads, or why it cannot be executed.
    fn inputs(&self, number: StageId, cell: LocalCell) -> Result<Vec<Input>, String> {
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

#[cfg(test)]
mod tests;
