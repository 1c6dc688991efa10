//! One attempt at a cell, and the record of all attempts.
//!
//! The kind must enforce its time limit by calling [`Control::check`]. A thread cannot be stopped from outside, so a
//! kind that does not call it keeps running.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use std::time::Instant;

use artifacts::{Commit, Digest, Store};

use super::scratch::Scratch;
use super::task::{FacetsOf, Task};
use crate::design::Preflight;
use crate::effect::Permit;
use crate::error::PipelineError;
use crate::event::Event;
use crate::experiment::Order;
use crate::ids::CellId;
use crate::language::diagnostics::shortened;
use crate::lease::Leases;
use crate::name::OutputName;
use crate::plan::Outcome;
use crate::record::{Attempt, Build, RECORD_FORMAT, Record, outputs_text};
use crate::sources::NamedFiles;
use crate::stage::{
    Artifact, CellStatus, Content, Control, Done, Failure, Job, Json, Lease, Output, Progress,
};

/// The state that all attempts of a run share.
pub(super) struct Context<'a> {
    pub(super) store: &'a Store,
    pub(super) experiment: &'a str,
    pub(super) seed: u64,
    pub(super) order: Order,
    pub(super) cancelled: Arc<AtomicBool>,
    pub(super) listener: &'a (dyn Fn(&Event) + Sync),
    pub(super) progress: Sender<(String, Progress)>,
    pub(super) scratch: Scratch,
    pub(super) build: Build,
    pub(super) environment: Vec<String>,
    pub(super) claims: BTreeMap<String, Digest>,
    pub(super) claim_tests: BTreeMap<String, Digest>,
    pub(super) preflight: Option<Preflight>,
    pub(super) permit: Option<Arc<Permit>>,
    pub(super) host: Option<String>,
    pub(super) by: Option<String>,
    pub(super) files: NamedFiles,
    pub(super) facts: BTreeMap<String, Json>,
}

/// The attempts at a cell so far.
pub(super) struct Attempts {
    started: jiff::Timestamp,
    clock: Instant,
    list: Vec<Attempt>,
}

/// The result of a cell.
pub(super) struct Finished {
    pub(super) cell: CellId,
    pub(super) outcome: Outcome,
    pub(super) commit: Commit,
    pub(super) evidence: BTreeMap<OutputName, Artifact>,
    pub(super) hint: Option<String>,
    pub(super) lease: Option<Box<dyn Lease>>,
}

/// The length of the longest reason, in characters. Locks and reports repeat it, and the parts that it quotes from a
/// program or a server can be megabytes long.
const LONGEST_REASON: usize = 10_000;

impl Attempts {
    #[expect(
        clippy::disallowed_methods,
        reason = "the record states when a cell was executed"
    )]
    pub(super) fn new() -> Self {
        Self {
            started: jiff::Timestamp::now(),
            clock: Instant::now(),
            list: Vec::new(),
        }
    }

    /// Notes a failure; returns whether to try again.
    pub(super) fn again(
        &mut self,
        context: &Context<'_>,
        task: &Task<'_>,
        failure: &mut Failure,
        seconds: f64,
    ) -> Result<bool, PipelineError> {
        if matches!(failure.status, CellStatus::Ok | CellStatus::Excluded) {
            failure.status = CellStatus::Failed;
        }
        let evidence = match keep(context.store, std::mem::take(&mut failure.evidence))? {
            Ok(evidence) => evidence,
            Err(mistake) => {
                failure.reason = format!("{} (and {mistake})", failure.reason);
                BTreeMap::new()
            }
        };
        failure.reason = shortened(std::mem::take(&mut failure.reason), LONGEST_REASON);
        let reason = Some(failure.reason.clone());
        self.list.push(Attempt {
            status: failure.status,
            reason,
            seconds,
            evidence,
        });
        let retry = matches!(
            failure.status,
            CellStatus::Failed | CellStatus::Hung | CellStatus::Timeout
        );
        Ok(retry && self.list.len() <= task.retries as usize)
    }

    fn count(&self) -> u32 {
        u32::try_from(self.list.len()).unwrap_or(u32::MAX)
    }
}

/// Tries a cell, or the start of a resource, until it is ok or its retries are used up, and keeps the result.
pub(super) fn execute(context: &Context<'_>, task: &Task<'_>) -> Result<Finished, PipelineError> {
    let mut attempts = Attempts::new();
    loop {
        let (result, seconds) = attempt(context, task, &attempts)?;
        match result {
            Ok(done) => return succeed(context, task, attempts, done, seconds),
            Err(mut failure) => {
                if !attempts.again(context, task, &mut failure, seconds)? {
                    return fail(context, task, attempts, failure);
                }
            }
        }
    }
}

/// Tries a cell once; a panic is a failure. Returns the result and its duration in seconds.
pub(super) fn attempt(
    context: &Context<'_>,
    task: &Task<'_>,
    earlier: &Attempts,
) -> Result<(Result<Done, Failure>, f64), PipelineError> {
    let attempt = earlier.count() + 1;
    (context.listener)(&Event::CellStarted {
        cell: task.name.clone(),
        attempt,
    });
    let path = context
        .scratch
        .make()
        .map_err(|e| PipelineError::Io(context.store.root().join("scratch"), e))?;
    let (progress, name) = (context.progress.clone(), task.name.clone());
    let tell = move |p: Progress| {
        // The receiver is gone only when the run is over.
        let _ = progress.send((name.clone(), p));
    };
    let control = Control::new(context.cancelled.clone(), task.timeout, Box::new(tell))
        .permitting(context.permit.clone())
        .watching(task.watches.clone());
    let leases = Leases::new(context.store.root(), context.experiment, &task.name);
    let job = Job {
        experiment: context.experiment,
        stage: &task.stage,
        coordinates: &task.coordinates,
        parameters: &task.parameters,
        seed: context.seed,
        replicate: &task.recipe.replicate,
        inputs: &task.inputs,
        store: context.store,
        files: &context.files,
        scratch: &path,
        control: &control,
        leases: &leases,
        study: task.study.as_deref(),
    };
    let clock = Instant::now();
    let result = control
        .check()
        .and_then(|()| unchanged(task))
        .and_then(|()| {
            catch_unwind(AssertUnwindSafe(|| task.kind.run(&job))).unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<&str>().map(|t| (*t).to_owned());
                let text = text
                    .or_else(|| panic.downcast_ref::<String>().cloned())
                    .unwrap_or_default();
                Err(Failure::failed(format!(
                    "the stage kind `{}` panicked: {text}",
                    task.kind.name()
                ))
                .hint("this is a bug in the stage kind; please report it"))
            })
        });
    let seconds = clock.elapsed().as_secs_f64();
    // Outputs may be files in the scratch directory, so store them before removing it.
    let result = match result {
        Ok(mut done) => take(context.store, &mut done.outputs)?.map(|()| done),
        Err(mut failure) => {
            take(context.store, &mut failure.evidence)?.map_or_else(Err, |()| Err(failure))
        }
    };
    // A live resource keeps writing, for example to its log, and other cells read that. So its directory stays until
    // the run ends.
    if !result.as_ref().is_ok_and(|done| done.lease.is_some()) {
        // What belongs to another user stays until somebody removes it. The result counts all the same.
        let _not_ours = crate::temporary::remove(&path);
    }
    Ok((result, seconds))
}

/// Checks that what identifies this machine and its programs is still what the cell's key contains. A program may have
/// been updated since the run began.
fn unchanged(task: &Task<'_>) -> Result<(), Failure> {
    if task.facets == FacetsOf::ItsPlacement {
        return Ok(());
    }
    let now = task.kind.facets(&task.parameters)?;
    let planned = &task.recipe.facets;
    let names: BTreeSet<&String> = planned.keys().chain(now.keys()).collect();
    let changed = names
        .into_iter()
        .find(|name| planned.get(*name) != now.get(*name));
    match changed {
        None => Ok(()),
        Some(name) => Err(Failure::failed(format!(
            "`facets.{name}` changed after the run began, so this cell would not be comparable with the others"
        ))
        .hint("run again: cells that have another key now are measured again")),
    }
}

/// Reads the files among the outputs into the store, and replaces them by their paths there.
pub(super) fn take(
    store: &Store,
    outputs: &mut [Output],
) -> Result<Result<(), Failure>, PipelineError> {
    for output in outputs {
        if let Content::File(path) = &output.content {
            if !path.is_file() {
                let reason = format!("output `{}` is not a file: {}", output.name, path.display());
                return Ok(Err(Failure::failed(reason)));
            }
            let digest = store.put_file(path)?;
            output.content = Content::File(store.path(&digest));
        }
    }
    Ok(Ok(()))
}

/// Puts outputs into the store; the inner error is a mistake of the kind.
pub(super) fn keep(
    store: &Store,
    outputs: Vec<Output>,
) -> Result<Result<BTreeMap<OutputName, Artifact>, String>, PipelineError> {
    let mut kept = BTreeMap::new();
    for output in outputs {
        let (digest, bytes) = match &output.content {
            Content::Bytes(bytes) => (store.put(bytes)?, bytes.len() as u64),
            Content::File(path) => {
                let digest = digest_of(path);
                (digest, store.size(&digest)?.unwrap_or(0))
            }
        };
        let name = match OutputName::new(output.name.as_str()) {
            Ok(name) => name,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let artifact = Artifact {
            digest,
            media: output.media,
            bytes,
            rows: output.rows,
        };
        if kept.insert(name, artifact).is_some() {
            return Ok(Err(format!("two outputs are named `{}`", output.name)));
        }
    }
    Ok(Ok(kept))
}

/// Returns the digest in an object's path.
fn digest_of(path: &std::path::Path) -> Digest {
    let part =
        |p: Option<&std::ffi::OsStr>| p.and_then(|p| p.to_str()).unwrap_or_default().to_owned();
    let hex = part(path.parent().and_then(|p| p.file_name())) + &part(path.file_name());
    format!("b3:{hex}")
        .parse()
        .expect("`take` returned a path in the store")
}

/// Returns the digest of an output's bytes, in memory or in a file.
pub(super) fn digest_of_output(output: &Output) -> std::io::Result<Digest> {
    match &output.content {
        Content::Bytes(bytes) => Ok(Digest::of(bytes)),
        Content::File(path) => Ok(Digest::of(&std::fs::read(path)?)),
    }
}

/// Keeps the outputs of a finished cell.
pub(super) fn succeed(
    context: &Context<'_>,
    task: &Task<'_>,
    mut attempts: Attempts,
    mut done: Done,
    seconds: f64,
) -> Result<Finished, PipelineError> {
    let outputs = match keep(context.store, std::mem::take(&mut done.outputs))? {
        Ok(outputs) => outputs,
        Err(mistake) => {
            let mut failure =
                Failure::failed(mistake).hint("this is a bug in the stage kind; please report it");
            attempts.again(context, task, &mut failure, seconds)?;
            if let Some(lease) = done.lease {
                lease.release();
            }
            return fail(context, task, attempts, failure);
        }
    };
    warn(context, task, &done.warnings);
    attempts.list.push(Attempt {
        status: CellStatus::Ok,
        reason: None,
        seconds,
        evidence: BTreeMap::new(),
    });
    let mut record = record(context, task, attempts);
    record.outputs = outputs;
    record.observations.extend(done.observations);
    record.warnings = done.warnings;
    let digest = context.store.put(&record.to_bytes())?;
    let text = outputs_text(&record.outputs).into();
    Ok(Finished {
        cell: task.cell,
        outcome: Outcome::Ok {
            key: task.key,
            record: digest,
            outputs: text,
        },
        commit: record.commit(digest),
        evidence: BTreeMap::new(),
        hint: None,
        lease: done.lease,
    })
}

/// Keeps what a cell that is not ok left behind; its last attempt is already noted.
pub(super) fn fail(
    context: &Context<'_>,
    task: &Task<'_>,
    attempts: Attempts,
    failure: Failure,
) -> Result<Finished, PipelineError> {
    let evidence = attempts
        .list
        .last()
        .map(|a| a.evidence.clone())
        .unwrap_or_default();
    warn(context, task, &failure.warnings);
    let mut record = record(context, task, attempts);
    record.status = failure.status;
    record.reason = Some(failure.reason.clone());
    record.evidence = evidence.clone();
    record.observations.extend(*failure.observations);
    record.warnings = failure.warnings.into_vec();
    let digest = context.store.put(&record.to_bytes())?;
    let reason = failure.reason.into();
    Ok(Finished {
        cell: task.cell,
        outcome: Outcome::Not {
            status: failure.status,
            reason,
            key: Some(task.key),
            record: Some(digest),
        },
        commit: record.commit(digest),
        evidence,
        hint: failure.hint,
        lease: None,
    })
}

fn warn(context: &Context<'_>, task: &Task<'_>, warnings: &[String]) {
    for warning in warnings {
        (context.listener)(&Event::Warning {
            cell: Some(task.name.clone()),
            message: format!("{}: {warning}", task.name),
        });
    }
}

fn record(context: &Context<'_>, task: &Task<'_>, attempts: Attempts) -> Record {
    Record {
        format: RECORD_FORMAT,
        experiment: context.experiment.to_owned(),
        stage: task.stage.clone(),
        coordinates: task.coordinates.clone(),
        key: task.key,
        status: CellStatus::Ok,
        reason: None,
        outputs: BTreeMap::new(),
        evidence: BTreeMap::new(),
        started: attempts.started.to_string(),
        seconds: attempts.clock.elapsed().as_secs_f64(),
        attempts: attempts.list,
        order: task.order,
        place: task.place.clone(),
        preflight: context.preflight.clone().filter(|_| task.measures),
        observations: match task.bound {
            true => context.facts.clone(),
            false => BTreeMap::new(),
        },
        warnings: Vec::new(),
        // A failure elsewhere did not happen on this host.
        host: context.host.clone().filter(|_| task.bound && task.here),
        by: context.by.clone().filter(|_| task.bound),
        build: context.build.clone(),
        environment: context.environment.clone(),
        claims: context.claims.clone(),
        claim_tests: context.claim_tests.clone(),
        files: context.files.named_in(&task.recipe.parameters),
        recipe: task.recipe.clone(),
    }
}
