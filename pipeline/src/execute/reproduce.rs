//! Pure cells executed again from what their records say they read.
//!
//! Every pure cell of a lock is built anew from its record: the recipe has the parameters and
//! the digests of the inputs, the store their bytes. Its outputs must have the digests that
//! the record names. Each cell is checked against its *recorded* inputs, so by induction the
//! whole chain from the raw rows to the report is checked, and the first cell that differs is
//! named, not its followers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use artifacts::{Digest, Store};
use serde::{Deserialize, Serialize};

use super::attempt::digest_of_output;
use super::scratch::{Scratch, remove};
use super::summary::study_of;
use crate::error::PipelineError;
use crate::experiment::Experiment;
use crate::key::{Recipe, RecipeCell, value_digest};
use crate::lease::Leases;
use crate::lock::{Lock, LockCell, LockClass};
use crate::name::OutputName;
use crate::place::cell_text;
use crate::plan::{PlanOptions, Session, State};
use crate::record::Record;
use crate::sources::{NamedFiles, Source};
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
        // A copied store has an index that nobody believes: what is cached is found by records.
        if store.needs_rebuild()? {
            store.rebuild(crate::record::view)?;
        }
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
                "{open} cells have not run yet; the first is {}",
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

    /// Says in words where this document does not agree with a lock and with the records that the
    /// lock names. Empty: everything in it that lock and records determine is as they say.
    pub fn disagreements(&self, lock: &Lock, records: &[(LockClass, &Record)]) -> Vec<String> {
        let mut out = Vec::new();
        if self.trail != lock.trail() {
            out.push("its trail digest differs from the lock's".to_owned());
        }
        for (digest, value) in &self.parameters {
            if value_digest(value) != *digest {
                out.push(format!("the parameters {} were changed", digest.short()));
            }
        }
        for (class, record) in records {
            let name = cell_text(&record.stage, &record.coordinates.to_string());
            let kind = self.kind_of(&record.stage);
            if kind != Some(record.recipe.kind.as_str()) {
                out.push(format!(
                    "it gives {name} the kind `{}`, the record says `{}`",
                    kind.unwrap_or("none"),
                    record.recipe.kind
                ));
            }
            let seen = record.recipe.study.as_ref();
            if let Some(seen) = seen.filter(|_| *class == LockClass::Study)
                && (seen.spec != value_digest(&self.spec) || seen.trail != self.trail)
            {
                out.push(format!("it is not the study that {name} has seen"));
            }
        }
        out.extend(self.ledger_disagreement(lock, records));
        out
    }

    /// The ledger repeats the lock, and of measurements what their records say.
    fn ledger_disagreement(&self, lock: &Lock, records: &[(LockClass, &Record)]) -> Option<String> {
        let mut stated: BTreeMap<(&str, String), &LockCell> = BTreeMap::new();
        for stage in lock.stages.iter().filter(|s| s.class != LockClass::Study) {
            for cell in &stage.cells {
                stated.insert((&stage.name, cell.coordinates.clone()), cell);
            }
        }
        let records: HashMap<(&str, String), &(LockClass, &Record)> = records
            .iter()
            .map(|entry| {
                let record = entry.1;
                let place = (record.stage.as_str(), record.coordinates.to_string());
                (place, entry)
            })
            .collect();
        for line in &self.ledger {
            let place = (line.stage.as_str(), line.coordinates.to_string());
            let measured = records
                .get(&place)
                .filter(|(class, _)| *class == LockClass::Measurement)
                .map(|(_, record)| *record);
            let agrees = stated
                .remove(&place)
                .is_some_and(|cell| is_line_of(line, cell, measured));
            if !agrees {
                let name = cell_text(place.0, &place.1);
                return Some(format!(
                    "its ledger says something else of {name} than lock and record"
                ));
            }
        }
        let ((stage, coordinates), _) = stated.into_iter().next()?;
        let name = cell_text(stage, &coordinates);
        Some(format!("its ledger has no line for {name}"))
    }

    fn kind_of(&self, stage: &str) -> Option<&str> {
        self.kinds.get(stage).map(String::as_str)
    }
}

/// Returns whether a line of the ledger says what the lock says of the cell and, for a
/// measurement, what its record says.
fn is_line_of(line: &LedgerLine, cell: &LockCell, measured: Option<&Record>) -> bool {
    let stated = line.status == cell.status && line.reason == cell.reason;
    let as_recorded = match (&line.execution, measured) {
        (Some(execution), Some(record)) => {
            let loud = record.preflight.as_ref().and_then(|p| p.loud.as_ref());
            let discarded: BTreeSet<Digest> = execution.discarded.iter().copied().collect();
            line.evidence == record.evidence
                && execution.order == record.order
                && execution.place == record.place
                && execution.loud.as_ref() == loud
                && execution.host == record.host
                && execution.by == record.by
                && execution
                    .started
                    .iter()
                    .all(|started| *started == record.started)
                && execution.executions == cell.executions()
                && discarded == cell.discarded().collect()
        }
        (None, None) => line.evidence.is_empty(),
        _ => false,
    };
    stated && as_recorded
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
    Some(first.unwrap_or_else(|| {
        "the lock has cells that are no longer in the \
        experiment"
            .to_owned()
    }))
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
                    "the experiment's settings for {name} have changed since it was executed"
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
    /// It was made by a version of its kind that this program does not have.
    OtherVersion {
        /// Which, and which program has it.
        reason: String,
    },
    /// It was not executed to its end: it reads artifacts that the store does not have.
    NotExecuted {
        /// How many, and whose.
        reason: String,
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

/// Which pure cells are executed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All of them.
    All,
    /// Those that see the study: the reports.
    Reports,
}

/// What to execute again, and how.
#[derive(Clone, Copy, Debug)]
pub struct ReproduceOptions {
    /// Which cells.
    pub which: Which,
    /// Threads, at least 1.
    pub jobs: usize,
}

impl Which {
    fn holds(self, class: LockClass) -> bool {
        match self {
            Self::All => matches!(class, LockClass::Pure | LockClass::Study),
            Self::Reports => class == LockClass::Study,
        }
    }
}

/// Executes the pure cells of a lock again and compares its outputs with its record.
/// `heard` hears of each cell as it ends. The results are in the order of the lock.
///
/// Lock, study and records may come from somebody else. Only kinds that the registry itself
/// calls pure are executed, whatever the lock says of their class. If one record names another
/// kind than its lock and study allow, nothing is executed at all.
///
/// # Errors
/// If the scratch directory cannot be made. What does not reproduce is a verdict, not an error.
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
    index: HashMap<(&'a str, &'a str), &'a LockCell>,
    cancelled: &'a Arc<AtomicBool>,
}

impl Again<'_> {
    /// Returns a failure for every cell whose record names a kind that must not be executed
    /// here. Records that cannot be read fail on their own later.
    fn refused(&self, cells: &[(&str, &LockCell)]) -> Vec<Reproduced> {
        let refusal = |(stage, cell): &(&str, &LockCell)| {
            let record = self.record(stage, cell).ok()?;
            let reason = self.pure_kind(stage, &record.recipe).err()?;
            Some(Reproduced {
                cell: cell_text(stage, &cell.coordinates),
                kind: record.recipe.kind,
                verdict: Verdict::Failed { reason },
            })
        };
        cells.iter().filter_map(refusal).collect()
    }

    /// Returns the kind of a recipe if the registry calls it pure, and if lock and study say the
    /// same of its stage.
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
                        Some(reason) => Verdict::NotExecuted { reason },
                        None => Verdict::Failed { reason },
                    }
                });
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

    /// Names the inputs of a recipe that the store does not have; `None` if it has all of them.
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
            .map(|(output, cells)| match cells {
                1 => format!("{output} (1 cell)"),
                _ => format!("{output} ({cells} cells)"),
            })
            .collect();
        (!counts.is_empty()).then(|| format!("it reads what is not here: {}", counts.join(", ")))
    }

    fn record(&self, stage: &str, cell: &LockCell) -> Result<Record, String> {
        let digest = cell.record.ok_or("the lock does not name a record")?;
        let bytes = self
            .store
            .get(&digest)
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

    fn execute(&self, record: &Record) -> Result<Verdict, String> {
        let recipe = &record.recipe;
        let kind = self.pure_kind(&record.stage, recipe)?;
        if kind.semantic_version() != recipe.semantic_version {
            let reason = format!(
                "it was made by version {} of the kind `{}` (benchtrail {}), but this program has \
                 version {}; use the program that made it",
                recipe.semantic_version,
                recipe.kind,
                record.build.version,
                kind.semantic_version()
            );
            return Ok(Verdict::OtherVersion { reason });
        }
        let inputs = recipe.inputs.iter().map(|input| {
            let cells = input
                .cells
                .iter()
                .map(|cell| self.input_cell(&input.stage, cell, kind));
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
        let text = cell.coordinates.to_string();
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
            let artifact = record
                .outputs
                .get(name.as_str())
                .filter(|a| a.digest == *digest);
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

/// Returns the files that the settings of a recorded cell named, as far as the store has them.
fn named_files(record: &Record, store: &Store) -> NamedFiles {
    let sources = record.files.iter().map(|(name, digest)| Source {
        path: store.path(digest),
        name: name.clone(),
        digest: *digest,
        stamp: None,
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

fn compare(record: &Record, found: &BTreeMap<String, Digest>) -> Verdict {
    let recorded = record.outputs.keys().map(OutputName::as_str);
    let names: BTreeSet<&str> = recorded.chain(found.keys().map(String::as_str)).collect();
    let outputs: Vec<Difference> = names
        .into_iter()
        .map(|name| Difference {
            output: name.to_owned(),
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
