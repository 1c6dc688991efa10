//! The dry run: executes every pure stage over simulated inputs before anything is measured.
//!
//! A measurement that takes days ends in an analysis and a report, and their mistakes should show before it starts.
//! Resources and measurements leave simulated outputs of the right shape ([`StageKind::rehearse`]). Pure stages execute
//! unchanged, in a temporary store. Neither the real store nor the lock is opened.
//!
//! # What is an error
//!
//! A mistake in names, columns, units or syntax fails for all rows. A lookup or a statement may fail only because of
//! the simulated values. To tell them apart, a dry run with failures executes everything again over rows whose times
//! rise along every axis, and once more over rows whose times fall. A failure that occurs each time in the same words
//! is an error; one that occurs only sometimes is a doubt.

mod effects;
mod pass;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use artifacts::{Digest, Store};
use typed_index_collections::TiVec;

use self::pass::{Ended, Pass, Stopped};
use crate::error::PipelineError;
use crate::experiment::Experiment;
use crate::graph::Graph;
use crate::ids::{LocalCell, StageId};
use crate::language::{Place, place_in};
use crate::left_out::LeftOut;
use crate::lock::LockClass;
use crate::plan::Plan;
use crate::sources::NamedFiles;
use crate::stage::{CellStatus, Class, Failure, Json, LedgerLine, Registry, Step, Study};
use crate::temporary;

pub(crate) use self::effects::look_at_effects;

/// The prefix of a dry run's folders in the scratch space of a store.
pub(crate) const SCRATCH: &str = "dry-run";

/// The result of a dry run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DryRun {
    /// The number of executed cells of pure stages.
    pub executed: usize,
    /// The failures, errors first, in stage order.
    pub findings: Vec<DryRunFinding>,
    /// Whether the user stopped it. There may then be mistakes that are not among the findings.
    pub interrupted: bool,
}

/// A pure cell that failed over simulated inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct DryRunFinding {
    /// The stage.
    pub stage: String,
    /// The cell's coordinates as text; empty for a stage without axes.
    pub coordinates: String,
    /// Whether the cell fails for any measurements. Otherwise the simulated values may be the cause.
    pub certain: bool,
    /// The error from the stage.
    pub reason: String,
    /// The remedy.
    pub hint: Option<String>,
    /// Where the experiment declares the stage, or the table that the error concerns.
    pub place: Option<Place>,
}

impl DryRun {
    /// Returns the failures that occur for any measurements.
    pub fn errors(&self) -> impl Iterator<Item = &DryRunFinding> {
        self.findings.iter().filter(|f| f.certain)
    }

    /// Returns the failures that simulated values may cause.
    pub fn doubts(&self) -> impl Iterator<Item = &DryRunFinding> {
        self.findings.iter().filter(|f| !f.certain)
    }
}

/// Returns whether a dry run is useful before executing a plan: something will be measured or started, and a pure stage
/// executes after it.
pub fn dry_run_is_due(plan: &Plan) -> bool {
    let active = |class: fn(Class) -> bool| {
        plan.stages
            .iter()
            .any(|s| class(s.class) && s.counts.run + s.counts.after > 0)
    };
    active(|c| c == Class::Measurement) && active(|c| c == Class::Pure)
}

/// Executes every pure stage over simulated inputs.
///
/// # Errors
/// If a kind is unknown, or the folder of the temporary store cannot be created or written.
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

/// Returns whether two reasons differ only in numbers, which are simulated.
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

/// How simulated times differ between cells.
#[derive(Clone, Copy, Debug)]
enum Tilt {
    Level,
    Rising,
    Falling,
}

impl Tilt {
    /// Returns the factor by which everything takes longer at a cell: along each axis, each label takes a quarter more
    /// or less than the one before it.
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

/// The results of one pass over all stages.
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
    /// Returns whether both failed at the same place for the same reason, ignoring numbers. For failures that list
    /// findings, one shared finding is enough, because it does not depend on the simulated values.
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
        let set = node.stage.cells[self.cell].parameters as usize;
        let settings = below(
            &node.stage.parameter_sets[set],
            &self.failure.subject.settings,
        );
        let missing = LeftOut::of(graph.experiment, node, settings).into_iter();
        let hints = missing.map(|label| format!("{}: {}", label.text(), label.remedy()));
        let hints: Vec<String> = hints.chain(self.failure.hint).collect();
        route.extend(self.failure.subject.settings);
        DryRunFinding {
            place: place_in(&graph.experiment.file, &route),
            coordinates: node.texts[self.cell].to_string(),
            stage,
            certain,
            reason: self.failure.reason,
            hint: (!hints.is_empty()).then(|| hints.join("; ")),
        }
    }
}

/// Returns the settings at a route, or as far on the way to it as they go.
fn below<'a>(settings: &'a Json, route: &[Step]) -> &'a Json {
    route
        .iter()
        .try_fold(settings, |settings, step| {
            let next = match step {
                Step::Key(key) => settings.get(key),
                Step::Index(index) => settings.get(*index),
            };
            next.ok_or(settings)
        })
        .unwrap_or_else(|last| last)
}

/// Executes all stages in order over simulated inputs.
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

/// Makes a temporary folder in the scratch space of a store, because memory may be small and the next run removes a
/// killed process's leftovers. A store that is missing or not writable has no scratch space.
fn scratch_folder(store: &Path) -> Result<tempfile::TempDir, PipelineError> {
    let scratch = store.join("scratch");
    let own = match store.is_dir() {
        true => fs::create_dir_all(&scratch).and_then(|()| temporary::folder(&scratch, SCRATCH)),
        false => Err(io::ErrorKind::NotFound.into()),
    };
    own.or_else(|_| temporary::folder(&std::env::temp_dir(), "benchtrail-dry-run"))
        .map_err(|e| PipelineError::Io(scratch, e))
}

/// The study that a report sees, with every cell ok.
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

#[cfg(test)]
mod tests;
