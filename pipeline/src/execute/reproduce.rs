//! Pure cells executed again from what their records say they read.
//!
//! Every pure cell of a lock is built anew from its record: the recipe has the parameters and
//! the digests of the inputs, the store their bytes. Its outputs must have the digests that
//! the record names. Each cell is checked against its *recorded* inputs, so by induction the
//! whole chain from the raw rows to the report is checked, and the first cell that differs is
//! named, not its followers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use artifacts::{Digest, Store};
use serde::{Deserialize, Serialize};

use super::attempt::digest_of_output;
use super::scratch::{Scratch, remove};
use super::summary::study_of;
use crate::cell::{cell_text, coordinates_text};
use crate::error::PipelineError;
use crate::experiment::Experiment;
use crate::key::{Recipe, RecipeCell, value_digest};
use crate::lease::Leases;
use crate::lock::{Lock, LockCell, LockClass};
use crate::plan::{PlanOptions, Session, State};
use crate::record::Record;
use crate::stage::{
    Class, Control, Failure, Input, InputCell, Job, Json, LedgerLine, Registry, StageKind, Study,
};

/// What stages that see the study saw of it, as a document that can travel with the lock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyDocument {
    /// The experiment in canonical form.
    pub spec: Json,
    /// The trail digest.
    pub trail: Digest,
    /// The ledger, stages that see the study not in it.
    pub ledger: Vec<LedgerLine>,
    /// The kind of every stage.
    pub kinds: BTreeMap<String, String>,
    /// The parameters of measurements, by the digest that the recipes of their readers name.
    pub parameters: BTreeMap<Digest, Json>,
}

impl StudyDocument {
    /// Collects what a finished study is known by, from the experiment and its lock. Nothing is
    /// executed, and facets of this machine do not matter.
    ///
    /// # Errors
    /// If the store refuses, or a cell is neither done nor accounted for: then there is nothing
    /// to publish yet.
    pub fn collect(
        experiment: &Experiment,
        registry: &Registry,
        store: &Store,
    ) -> Result<Result<Self, String>, PipelineError> {
        let options = PlanOptions {
            locked: true,
            ..PlanOptions::default()
        };
        let mut session = Session::new(experiment, registry, store, &options)?;
        let open = session
            .states
            .iter()
            .position(|s| !matches!(s, State::Settled(_)));
        if let Some(cell) = open {
            let open = session
                .states
                .iter()
                .filter(|s| !matches!(s, State::Settled(_)))
                .count();
            return Ok(Err(format!(
                "{open} cells have yet to run, the first is {}",
                session.graph.name(cell)
            )));
        }
        if let Some(why) = otherwise(&session) {
            return Ok(Err(why));
        }
        if let Some(why) = edited(&session)? {
            return Ok(Err(why));
        }
        let study = study_of(&mut session);
        let kinds = experiment
            .stages
            .iter()
            .map(|s| (s.name.clone(), s.kind.clone()))
            .collect();
        let mut parameters = BTreeMap::new();
        for node in session
            .graph
            .nodes
            .iter()
            .filter(|n| n.class == LockClass::Measurement)
        {
            for (set, digest) in node.stage.parameter_sets.iter().zip(&node.parameters) {
                let mut set = set.clone();
                set.sort_all_objects();
                parameters.insert(*digest, set);
            }
        }
        Ok(Ok(Self {
            spec: study.spec,
            trail: study.trail,
            ledger: study.ledger,
            kinds,
            parameters,
        }))
    }

    fn kind_of(&self, stage: &str) -> Option<&str> {
        self.kinds.get(stage).map(String::as_str)
    }
}

/// Returns how the study as it stands differs from its lock, if it does.
fn otherwise(session: &Session<'_>) -> Option<String> {
    let Some(lock) = &session.lock else {
        return Some("it has not run yet".to_owned());
    };
    let now = session.to_lock();
    if now == *lock {
        return None;
    }
    let before = lock.index();
    let cells = now
        .stages
        .iter()
        .flat_map(|s| s.cells.iter().map(move |c| (s.name.as_str(), c)));
    let differs = |(stage, cell): &(&str, &LockCell)| {
        before
            .get(&(*stage, cell.coordinates.as_str()))
            .is_none_or(|line| line != cell)
    };
    let first = cells.into_iter().find(differs).map(|(stage, cell)| {
        let reason = cell
            .reason
            .as_deref()
            .map(|r| format!(": {r}"))
            .unwrap_or_default();
        format!(
            "{} is {}{reason}",
            cell_text(stage, &cell.coordinates),
            cell.status.word()
        )
    });
    Some(first.unwrap_or_else(|| "the lock has cells that the experiment no longer has".to_owned()))
}

/// Returns which cell taken from the lock was executed with other settings than the experiment
/// has now, if there is one: its readers may not show it.
fn edited(session: &Session<'_>) -> Result<Option<String>, PipelineError> {
    for node in session
        .graph
        .nodes
        .iter()
        .filter(|n| n.stage.class != Class::Pure)
    {
        for (i, cell) in node.stage.cells.iter().enumerate() {
            let Some(record) = session.states[node.first + i].record() else {
                continue;
            };
            let record = Record::parse(&session.store.get(&record)?);
            let same = record.is_ok_and(|r| {
                value_digest(&r.recipe.parameters) == node.parameters[cell.parameters as usize]
            });
            if !same {
                let name = session.graph.name(node.first + i);
                return Ok(Some(format!(
                    "{name} was executed with other settings than the experiment has now"
                )));
            }
        }
    }
    Ok(None)
}

/// An output that is not what the record says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The output's name.
    pub output: String,
    /// The digest in the record; `None` if it has no such output.
    pub recorded: Option<Digest>,
    /// The digest now; `None` if the cell made no such output.
    pub found: Option<Digest>,
}

/// What became of one pure cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Verdict {
    /// Every output has the bytes recorded.
    Identical,
    /// Some outputs have other bytes.
    Different {
        /// Which.
        outputs: Vec<Difference>,
    },
    /// It could not be executed.
    Failed {
        /// Why.
        reason: String,
    },
}

/// One pure cell executed again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reproduced {
    /// The cell.
    pub cell: String,
    /// Its kind.
    pub kind: String,
    /// What became of it.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// Executes every pure cell of a lock again and compares its outputs with its record.
/// `heard` is told of each cell as it ends. The results are in the order of the lock.
///
/// # Errors
/// If the scratch directory cannot be made. What does not reproduce is a verdict, no error.
pub fn reproduce(
    lock: &Lock,
    study: &StudyDocument,
    registry: &Registry,
    store: &Store,
    jobs: usize,
    cancelled: &Arc<AtomicBool>,
    heard: &(dyn Fn(&Reproduced) + Sync),
) -> Result<Vec<Reproduced>, PipelineError> {
    let scratch =
        Scratch::new(store.root()).map_err(|e| PipelineError::Io(store.root().to_owned(), e))?;
    let index = lock.index();
    let mut cells: Vec<(&str, &LockCell)> = Vec::new();
    for stage in lock
        .stages
        .iter()
        .filter(|s| matches!(s.class, LockClass::Pure | LockClass::Study))
    {
        cells.extend(
            stage
                .cells
                .iter()
                .filter(|c| c.outputs.is_some())
                .map(|c| (stage.name.as_str(), c)),
        );
    }
    let again = Again {
        lock,
        study,
        registry,
        store,
        scratch: &scratch,
        index,
        cancelled,
    };
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Reproduced)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, cells.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some((stage, cell)) = cells.get(i) else {
                        break;
                    };
                    if cancelled.load(Ordering::Relaxed) {
                        break;
                    }
                    let result = again.cell(stage, cell);
                    heard(&result);
                    done.lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner)
                        .push((i, result));
                }
            });
        }
    });
    let mut done = done
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(i, _)| *i);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

struct Again<'a> {
    lock: &'a Lock,
    study: &'a StudyDocument,
    registry: &'a Registry,
    store: &'a Store,
    scratch: &'a Scratch,
    index: std::collections::HashMap<(&'a str, &'a str), &'a LockCell>,
    cancelled: &'a Arc<AtomicBool>,
}

impl Again<'_> {
    fn cell(&self, stage: &str, cell: &LockCell) -> Reproduced {
        let name = cell_text(stage, &cell.coordinates);
        let (kind, verdict) = match self.record(stage, cell) {
            Ok(record) => {
                let verdict = self
                    .execute(&record)
                    .unwrap_or_else(|reason| Verdict::Failed { reason });
                (record.recipe.kind, verdict)
            }
            Err(reason) => (
                self.study.kind_of(stage).unwrap_or("?").to_owned(),
                Verdict::Failed { reason },
            ),
        };
        Reproduced {
            cell: name,
            kind,
            verdict,
        }
    }

    fn record(&self, stage: &str, cell: &LockCell) -> Result<Record, String> {
        let digest = cell.record.ok_or("the lock names no record")?;
        let bytes = self
            .store
            .get(&digest)
            .map_err(|e| format!("its record: {e}"))?;
        let record =
            Record::parse(&bytes).map_err(|e| format!("its record {}: {e}", digest.short()))?;
        if record.stage != stage || coordinates_text(&record.coordinates) != cell.coordinates {
            return Err(format!("record {} is that of another cell", digest.short()));
        }
        if Some(record.recipe.key()) != cell.key || record.recipe.key() != record.key {
            return Err(format!(
                "record {} has another recipe than the lock's key says",
                digest.short()
            ));
        }
        Ok(record)
    }

    fn execute(&self, record: &Record) -> Result<Verdict, String> {
        let recipe = &record.recipe;
        let kind = self
            .registry
            .kinds
            .iter()
            .find(|k| k.name() == recipe.kind)
            .ok_or_else(|| format!("this program has no stage kind `{}`", recipe.kind))?;
        if kind.semantic_version() != recipe.semantic_version {
            return Err(format!(
                "it was made by version {} of the kind `{}` (benchtrail {}), this program has version {}: \
                 use the program that made it",
                recipe.semantic_version,
                recipe.kind,
                record.build.version,
                kind.semantic_version()
            ));
        }
        let inputs = recipe.inputs.iter().map(|input| {
            let cells = input
                .cells
                .iter()
                .map(|cell| self.input_cell(&input.stage, cell, kind.as_ref()));
            let found = self.study.kind_of(&input.stage);
            let kind = found.ok_or_else(|| format!("the study has no stage `{}`", input.stage))?;
            let (stage, kind) = (input.stage.clone(), kind.to_owned());
            Ok(Input {
                stage,
                kind,
                cells: cells.collect::<Result<_, String>>()?,
            })
        });
        let inputs = inputs.collect::<Result<Vec<_>, String>>()?;
        let study = if kind.sees_study() {
            Some(self.seen(recipe)?)
        } else {
            None
        };
        let mut parameters = recipe.parameters.clone();
        parameters.sort_all_objects();
        let path = self
            .scratch
            .make()
            .map_err(|e| format!("no scratch directory: {e}"))?;
        let control = Control::new(Arc::clone(self.cancelled), None, Box::new(|_| ()));
        let name = cell_text(&record.stage, &coordinates_text(&record.coordinates));
        let leases = Leases::new(self.store.root(), &record.experiment, &name);
        let job = Job {
            experiment: &record.experiment,
            stage: &record.stage,
            coordinates: &record.coordinates,
            parameters: &parameters,
            seed: recipe.seed,
            replicate: &recipe.replicate,
            inputs: &inputs,
            store: self.store,
            scratch: &path,
            control: &control,
            leases: &leases,
            study: study.as_ref(),
        };
        let verdict = run(kind.as_ref(), &job).map(|outputs| compare(record, &outputs));
        remove(&path).map_err(|e| format!("the scratch directory: {e}"))?;
        verdict
    }

    /// Builds an input cell as the executor would, from its line in the lock and its record.
    fn input_cell(
        &self,
        stage: &str,
        cell: &RecipeCell,
        reader: &dyn StageKind,
    ) -> Result<InputCell, String> {
        let text = coordinates_text(&cell.coordinates);
        let parameters = match &cell.parameters {
            None => Json::Null,
            Some(digest) => {
                let known = self.study.parameters.get(digest);
                known.cloned().ok_or_else(|| {
                    format!("the parameters of {} are missing", cell_text(stage, &text))
                })?
            }
        };
        let mut input = InputCell {
            coordinates: cell.coordinates.clone(),
            status: cell.status,
            reason: cell.reason.clone(),
            parameters,
            outputs: BTreeMap::new(),
            record: None,
            live: None,
        };
        if cell.outputs.is_empty() {
            return Ok(input);
        }
        let line = self.index.get(&(stage, text.as_str()));
        let line =
            line.ok_or_else(|| format!("the lock has no cell {}", cell_text(stage, &text)))?;
        let record = self
            .record(stage, line)
            .map_err(|e| format!("{}: {e}", cell_text(stage, &text)))?;
        for (name, digest) in &cell.outputs {
            let artifact = record.outputs.get(name).filter(|a| a.digest == *digest);
            let artifact = artifact.ok_or_else(|| {
                format!(
                    "{} has no output `{name}` with digest {}",
                    cell_text(stage, &text),
                    digest.short()
                )
            })?;
            input.outputs.insert(name.clone(), artifact.clone());
        }
        let measured = self
            .lock
            .stages
            .iter()
            .any(|s| s.name == stage && s.class == LockClass::Measurement);
        input.record = line.record.filter(|_| reader.sees_study() && measured);
        Ok(input)
    }

    /// Returns the study, if it is the one that the recipe names.
    fn seen(&self, recipe: &Recipe) -> Result<Study, String> {
        let identity = recipe.study.as_ref().ok_or("its recipe names no study")?;
        if value_digest(&self.study.spec) != identity.spec {
            return Err("the study's experiment is not the one that its recipe names".to_owned());
        }
        if self.study.trail != identity.trail || self.lock.trail() != identity.trail {
            return Err("the study's trail is not the one that its recipe names".to_owned());
        }
        let StudyDocument {
            spec,
            trail,
            ledger,
            ..
        } = self.study.clone();
        Ok(Study {
            spec,
            trail,
            ledger,
        })
    }
}

/// Executes a cell and returns the digests of its outputs; a panic is a failure.
fn run(kind: &dyn StageKind, job: &Job<'_>) -> Result<BTreeMap<String, Digest>, String> {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| kind.run(job)));
    let done = match result {
        Ok(result) => result.map_err(|Failure { reason, .. }| reason)?,
        Err(_) => return Err(format!("the stage kind `{}` panicked", kind.name())),
    };
    done.outputs
        .iter()
        .map(|output| {
            let digest =
                digest_of_output(output).map_err(|e| format!("output `{}`: {e}", output.name))?;
            Ok((output.name.clone(), digest))
        })
        .collect()
}

fn compare(record: &Record, found: &BTreeMap<String, Digest>) -> Verdict {
    let names: std::collections::BTreeSet<&String> =
        record.outputs.keys().chain(found.keys()).collect();
    let outputs: Vec<Difference> = names
        .into_iter()
        .map(|name| Difference {
            output: name.clone(),
            recorded: record.outputs.get(name).map(|a| a.digest),
            found: found.get(name).copied(),
        })
        .filter(|d| d.recorded != d.found)
        .collect();
    if outputs.is_empty() {
        Verdict::Identical
    } else {
        Verdict::Different { outputs }
    }
}
