//! Executes pure cells again from the inputs in their records.
//!
//! Every pure cell of a lock is rebuilt from its record: the recipe has the parameters and the digests of the inputs,
//! the store has their bytes. Its outputs must have the digests that the record names. Each cell is checked against its
//! *recorded* inputs. By induction, this checks the whole chain from the raw rows to the report, and it names the first
//! cell that differs, not its followers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use artifacts::{Digest, Store, counted};
use serde::Serialize;

use super::attempt::digest_of_output;
use super::scratch::Scratch;
use super::study_document::StudyDocument;
use crate::error::PipelineError;
use crate::key::{Recipe, RecipeCell, value_digest};
use crate::lease::Leases;
use crate::lock::{Lock, LockCell, LockClass};
use crate::name::OutputName;
use crate::place::{WrittenCell, cell_text};
use crate::record::Record;
use crate::sources::{NamedFile, NamedFiles};
use crate::stage::{
    CellStatus, Class, Control, Failure, Input, InputCell, Job, Json, Registry, StageKind, Study,
};

/// An output that differs from the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The output's name.
    pub output: String,
    /// The digest in the record; `None` if the record has no such output.
    pub recorded: Option<Digest>,
    /// The digest now; `None` if the cell made no output with this name.
    #[serde(rename = "found")]
    pub reproduced: Option<Digest>,
}

/// The verdict on one pure cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Reproduction {
    /// Every output has the recorded bytes.
    Identical,
    /// Some outputs have different bytes.
    Different {
        /// The outputs that differ.
        outputs: Vec<Difference>,
    },
    /// It was made by a version of its kind that this program does not have.
    OtherVersion {
        /// The missing version, and the program that has it.
        reason: String,
    },
    /// It could not be completed: it reads artifacts that the store does not have.
    NotExecuted {
        /// The number of missing artifacts, and the cells they belong to.
        reason: String,
    },
    /// It could not be executed.
    Failed {
        /// The reason.
        reason: String,
    },
}

/// One re-executed pure cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reproduced {
    /// The cell.
    pub cell: String,
    /// Its kind.
    pub kind: String,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Reproduction,
}

/// Which pure cells to execute again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All of them.
    All,
    /// The cells that see the study: the reports.
    Reports,
}

/// What to execute again, and how.
#[derive(Clone, Copy, Debug)]
pub struct ReproduceOptions {
    /// The cells.
    pub which: Which,
    /// The number of threads, at least 1.
    pub jobs: usize,
}

impl Which {
    /// Whether cells of a stage of this class are executed again.
    pub fn holds(self, class: LockClass) -> bool {
        match self {
            Self::All => matches!(class, LockClass::Pure | LockClass::Study),
            Self::Reports => class == LockClass::Study,
        }
    }
}

/// Executes the pure cells of a lock again and compares their outputs with their records. Calls `heard` with each cell
/// as it ends. Returns the results in lock order.
///
/// Lock, study and records may come from another party. Only kinds that the registry itself lists as pure are executed,
/// whatever class the lock states. If any record names a kind that its lock and study do not allow, nothing is executed
/// at all.
///
/// # Errors
/// If the scratch directory cannot be created. A cell that does not reproduce is a verdict, not an error.
pub fn reproduce(
    options: ReproduceOptions,
    lock: &Lock,
    study: &StudyDocument,
    registry: &Registry,
    store: &Store,
    cancelled: &Arc<AtomicBool>,
    heard: &(dyn Fn(&Reproduced) + Sync),
) -> Result<Vec<Reproduced>, PipelineError> {
    let scratch =
        Scratch::new(store.root()).map_err(|e| PipelineError::Io(store.root().to_owned(), e))?;
    let index = lock.index();
    let mut cells: Vec<(&str, &LockCell)> = Vec::new();
    for stage in lock.stages.iter().filter(|s| options.which.holds(s.class)) {
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
    let refused = again.refused(&cells);
    if !refused.is_empty() {
        refused.iter().for_each(heard);
        return Ok(refused);
    }
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Reproduced)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.clamp(1, cells.len().max(1)) {
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
                    artifacts::lock(&done).push((i, result));
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
    index: HashMap<WrittenCell<&'a str>, &'a LockCell>,
    cancelled: &'a Arc<AtomicBool>,
}

impl Again<'_> {
    /// Returns a failure for every cell whose record names a kind that must not be executed here. Unreadable records
    /// fail separately later.
    fn refused(&self, cells: &[(&str, &LockCell)]) -> Vec<Reproduced> {
        let refusal = |(stage, cell): &(&str, &LockCell)| {
            let record = self.record(stage, cell).ok()?;
            let reason = self.pure_kind(stage, &record.recipe).err()?;
            Some(Reproduced {
                cell: cell_text(stage, &cell.coordinates),
                kind: record.recipe.kind,
                verdict: Reproduction::Failed { reason },
            })
        };
        cells.iter().filter_map(refusal).collect()
    }

    /// Returns the kind of a recipe if the registry lists it as pure, and if lock and study name the same kind for its
    /// stage.
    fn pure_kind(&self, stage: &str, recipe: &Recipe) -> Result<&dyn StageKind, String> {
        let name = &recipe.kind;
        let kind = self.registry.kinds.iter().find(|k| k.name() == name);
        let kind = kind.ok_or_else(|| format!("this program has no stage kind `{name}`"))?;
        if kind.class() != Class::Pure {
            return Err(format!(
                "its record names the kind `{name}`, which is not pure: it is never executed from \
                 a record"
            ));
        }
        if self.study.kind_of(stage) != Some(name.as_str()) {
            let said = self.study.kind_of(stage).unwrap_or("none");
            return Err(format!(
                "its record has the kind `{name}`, but the study has `{said}`"
            ));
        }
        let class = LockClass::of(kind.class(), kind.sees_study());
        let stated = self.lock.stages.iter().find(|s| s.name == stage);
        if stated.is_none_or(|s| s.class != class) {
            return Err(format!(
                "the lock gives the stage another class than the kind `{name}` has"
            ));
        }
        Ok(kind.as_ref())
    }

    fn cell(&self, stage: &str, cell: &LockCell) -> Reproduced {
        let name = cell_text(stage, &cell.coordinates);
        let (kind, verdict) = match self.record(stage, cell) {
            Ok(record) => {
                let verdict = self.execute(&record).unwrap_or_else(|reason| {
                    match self.absent_inputs(&record.recipe) {
                        Some(reason) => Reproduction::NotExecuted { reason },
                        None => Reproduction::Failed { reason },
                    }
                });
                (record.recipe.kind, verdict)
            }
            Err(reason) => (
                self.study.kind_of(stage).unwrap_or("?").to_owned(),
                Reproduction::Failed { reason },
            ),
        };
        Reproduced {
            cell: name,
            kind,
            verdict,
        }
    }

    /// Names the recipe's inputs that the store does not have; `None` if it has all of them.
    fn absent_inputs(&self, recipe: &Recipe) -> Option<String> {
        let inputs = recipe.inputs.iter().flat_map(|input| {
            let outputs = input.cells.iter().flat_map(|cell| &cell.outputs);
            outputs.map(move |(output, digest)| (&input.stage, output, digest))
        });
        let mut absent: BTreeMap<String, usize> = BTreeMap::new();
        for (stage, output, digest) in inputs {
            if !self.store.contains(digest) {
                *absent.entry(format!("{stage}.{output}")).or_default() += 1;
            }
        }
        let counts: Vec<String> = absent
            .iter()
            .map(|(output, cells)| format!("{output} ({})", counted(*cells, "cell")))
            .collect();
        (!counts.is_empty()).then(|| format!("its inputs are missing here: {}", counts.join(", ")))
    }

    fn record(&self, stage: &str, cell: &LockCell) -> Result<Record, String> {
        let digest = cell.record.ok_or("the lock does not name a record")?;
        let bytes = self
            .store
            .get_document(&digest)
            .map_err(|e| format!("its record: {e}"))?;
        let record =
            Record::parse(&bytes).map_err(|e| format!("its record {}: {e}", digest.short()))?;
        if record.stage != stage || record.coordinates.to_string() != cell.coordinates {
            return Err(format!("record {} belongs to another cell", digest.short()));
        }
        if Some(record.recipe.key()) != cell.key || record.recipe.key() != record.key {
            return Err(format!(
                "the recipe in record {} does not match the lock's key",
                digest.short()
            ));
        }
        Ok(record)
    }

    fn execute(&self, record: &Record) -> Result<Reproduction, String> {
        let recipe = &record.recipe;
        let kind = self.pure_kind(&record.stage, recipe)?;
        let version = kind.semantic_version_of(&recipe.parameters);
        if version != recipe.semantic_version {
            let reason = format!(
                "it was made by version {} of the kind `{}` (benchtrail {}), but this program has \
                 version {version}; use the program that made it",
                recipe.semantic_version, recipe.kind, record.build.version,
            );
            return Ok(Reproduction::OtherVersion { reason });
        }
        let inputs = recipe.inputs.iter().map(|input| {
            let cells = input
                .cells
                .iter()
                .map(|cell| self.input_cell(&input.stage, cell, kind));
            let declared = self.study.kind_of(&input.stage);
            let kind =
                declared.ok_or_else(|| format!("the study has no stage `{}`", input.stage))?;
            let (stage, kind) = (input.stage.clone(), kind.to_owned());
            Ok(Input {
                stage,
                kind,
                needs: self.study.needs_of(&input.stage),
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
        let name = cell_text(&record.stage, &record.coordinates.to_string());
        let leases = Leases::new(self.store.root(), &record.experiment, &name);
        let files = named_files(record, self.store);
        let job = Job {
            experiment: &record.experiment,
            stage: &record.stage,
            coordinates: &record.coordinates,
            parameters: &parameters,
            seed: recipe.seed,
            replicate: &recipe.replicate,
            inputs: &inputs,
            store: self.store,
            files: &files,
            scratch: &path,
            control: &control,
            leases: &leases,
            study: study.as_ref(),
        };
        let verdict = run(kind, &job).map(|outputs| compare(record, &outputs));
        crate::temporary::remove(&path).map_err(|e| format!("the scratch directory: {e}"))?;
        verdict
    }

    /// Builds an input cell in the same way as the executor, from its line in the lock and its record.
    fn input_cell(
        &self,
        stage: &str,
        cell: &RecipeCell,
        reader: &dyn StageKind,
    ) -> Result<InputCell, String> {
        let text = cell.coordinates.to_string();
        let parameters = match &cell.parameters {
            None => Json::Null,
            Some(digest) => {
                let stored = self.study.parameters.get(digest);
                stored.cloned().ok_or_else(|| {
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
        let written = WrittenCell {
            stage,
            coordinates: text.as_str(),
        };
        let line = self.index.get(&written);
        let line = line.ok_or_else(|| format!("the lock has no cell {written}"))?;
        let record = self
            .record(stage, line)
            .map_err(|e| format!("{}: {e}", cell_text(stage, &text)))?;
        let left = match cell.status {
            CellStatus::Ok => &record.outputs,
            _ => &record.evidence,
        };
        for (name, digest) in &cell.outputs {
            let artifact = left.get(name.as_str()).filter(|a| a.digest == *digest);
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

    /// Returns the study, if its digest matches the recipe.
    fn seen(&self, recipe: &Recipe) -> Result<Study, String> {
        let identity = recipe
            .study
            .as_ref()
            .ok_or("its recipe does not name a study")?;
        if value_digest(&self.study.spec) != identity.spec {
            return Err("the study's experiment differs from the one in its recipe".to_owned());
        }
        if self.study.trail != identity.trail || self.lock.trail() != identity.trail {
            return Err("the study's trail differs from the one in its recipe".to_owned());
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

/// Returns the files named by the settings of a recorded cell, if the store has them.
fn named_files(record: &Record, store: &Store) -> NamedFiles {
    let sources = record.files.iter().map(|(name, digest)| NamedFile {
        path: store.path(digest),
        name: name.clone(),
        digest: *digest,
        stamp: None,
        sent: None,
    });
    NamedFiles::new(sources, Path::new(""), Some(store))
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

fn compare(record: &Record, reproduced: &BTreeMap<String, Digest>) -> Reproduction {
    let recorded = record.outputs.keys().map(OutputName::as_str);
    let names: BTreeSet<&str> = recorded
        .chain(reproduced.keys().map(String::as_str))
        .collect();
    let outputs: Vec<Difference> = names
        .into_iter()
        .map(|name| Difference {
            output: name.to_owned(),
            recorded: record.outputs.get(name).map(|a| a.digest),
            reproduced: reproduced.get(name).copied(),
        })
        .filter(|d| d.recorded != d.reproduced)
        .collect();
    if outputs.is_empty() {
        Reproduction::Identical
    } else {
        Reproduction::Different { outputs }
    }
}
