//! The machine's side: executes one shard in a separate store.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use artifacts::{Digest, Maker, Store, lock};
use pipeline::design::Preflight;
use pipeline::lock::Lock;
use pipeline::place::WrittenCell;
use pipeline::record::{Build, Record, view};
use pipeline::{
    CellStatus, Committed, Event, Experiment, Json, Listener, PlanOptions, Registry, RunOptions,
    placed_facets,
};
use remote::{Remote, push_records};
use serde_json::json;

use crate::coordinate::unwatched;
use crate::document::{DoneCell, End, Order, StudyDocument, Taken, Without, name, put, read};
use crate::error::ClusterError;
use crate::reach::{keep_log, sha256_of};

/// How long a job waits, after a failed cell, for a signal that would explain it.
const SIGNAL_WAIT: Duration = Duration::from_secs(2);

/// The machine that executes a shard, as its job knows it.
pub struct Machine<'a> {
    /// The number of the job.
    pub job: String,
    /// The machine's name.
    pub node: String,
    /// How often the scheduler restarted the job.
    pub restarts: u32,
    /// The key in records for the facts about the job: `slurm` or `pool`.
    pub fact: &'static str,
    /// The identifier of this start of the job, if another start must not continue it.
    pub start: Option<String>,
    /// More facts about the job for records.
    pub facts: BTreeMap<String, String>,
    /// This program's own file.
    pub binary: PathBuf,
    /// The folder for temporary files.
    pub temporary: PathBuf,
    /// The folder that keeps engines for the next job, if the order does not choose it.
    pub folder: Option<PathBuf>,
    /// The stage kinds.
    pub registry: &'a Registry,
    /// The build of the program.
    pub build: Build,
    /// Set to stop.
    pub cancelled: Arc<AtomicBool>,
    /// Examines the machine before it measures.
    pub look: &'a dyn Fn(&Experiment) -> Result<Option<Preflight>, String>,
    /// Receives messages.
    pub tell: &'a (dyn Fn(&str) + Sync),
}

/// The result of a shard here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executed {
    /// The shard's end is written.
    Ended,
    /// Another job executes the shard, or has done so.
    NotOurs,
    /// The shard was stopped before its end.
    Stopped,
}

/// Executes a shard of a run.
///
/// # Errors
/// If the shared store or the machine refuses. What was pushed stays.
pub fn execute(
    remote: &Arc<Remote>,
    run: &str,
    shard: &str,
    machine: &Machine<'_>,
) -> Result<Executed, ClusterError> {
    let at = |document: &str| name(run, &format!("{shard}.{document}"));
    let Some(order) = read::<Order>(remote, &at("json"))? else {
        return Err(ClusterError::Broken(format!(
            "{} is missing from {}",
            at("json"),
            remote.url()
        )));
    };
    let ours = Taken {
        job: machine.start.as_ref().unwrap_or(&machine.job).clone(),
    };
    let is_ours = put(remote, &at("taken"), &ours)?
        || read::<Taken>(remote, &at("taken"))?.as_ref() == Some(&ours);
    if !is_ours || read::<End>(remote, &at("end"))?.is_some() {
        (machine.tell)("another job has this shard; nothing is executed");
        return Ok(Executed::NotOurs);
    }
    if let Some(end) = other_program(&order, machine)? {
        put(remote, &at("end"), &end)?;
        return Ok(Executed::Ended);
    }
    let scratch = pipeline::temporary::folder(&machine.temporary, "benchtrail-job")
        .map_err(|e| ClusterError::Io(machine.temporary.clone(), e))?;
    let kept = order.folder.as_deref().map(Path::new);
    let root = match kept.or(machine.folder.as_deref()) {
        Some(folder) => folder.join("store"),
        None => scratch.path().join("store"),
    };
    let store = Store::open(&root)?;
    let shard = Shard {
        remote,
        run,
        name: shard,
        order: &order,
        machine,
        store,
        scratch: scratch.path(),
    };
    let executed = shard.execute();
    keep_log(remote, run, shard.name);
    let Some(end) = executed? else {
        return Ok(Executed::Stopped);
    };
    put(remote, &at("end"), &end)?;
    Ok(Executed::Ended)
}

/// Returns how a shard ends if the order is for another program than this one.
fn other_program(order: &Order, machine: &Machine<'_>) -> Result<Option<End>, ClusterError> {
    let Some(expected) = &order.program else {
        return Ok(None);
    };
    let at = |e| ClusterError::Io(machine.binary.clone(), e);
    let digest = sha256_of(&machine.binary).map_err(at)?;
    if digest == *expected {
        return Ok(None);
    }
    let why = "the `benchtrail` in the image is not the program that submitted this job";
    (machine.tell)(why);
    Ok(Some(End {
        job: machine.job.clone(),
        node: machine.node.clone(),
        refused: Some(why.to_owned()),
        hint: Some(format!(
            "build the image with the file that you run (SHA-256 {expected}); the image has {digest}"
        )),
        ..End::default()
    }))
}

/// A shard in execution.
struct Shard<'a> {
    remote: &'a Arc<Remote>,
    run: &'a str,
    name: &'a str,
    order: &'a Order,
    machine: &'a Machine<'a>,
    store: Store,
    scratch: &'a Path,
}

impl Shard<'_> {
    /// Executes the shard; `None` if it was stopped.
    fn execute(&self) -> Result<Option<End>, ClusterError> {
        let study = self.study()?;
        if let Some(refused) = self.other_machine(&study.experiment)? {
            let hint = "machines of one stage must be of one kind: choose machines of one kind in `place`, or make \
                        the kind of machine an axis";
            return Ok(Some(self.refused(refused, Some(hint.to_owned()))));
        }
        let mut experiment = study.experiment;
        experiment.forget_placements();
        let preflight = match (self.machine.look)(&experiment) {
            Ok(preflight) => preflight,
            Err(why) => return Ok(Some(self.refused(why, None))),
        };
        let pushing = self.pushing()?;
        let options = RunOptions {
            plan: PlanOptions {
                only: self.order.only.clone(),
                // Records that another run left here do not belong to this study.
                known_records: Some(Arc::new(pushing.complete_records())),
                ..PlanOptions::default()
            },
            keep_going: true,
            cancelled: Arc::clone(&self.machine.cancelled),
            build: self.machine.build.clone(),
            preflight,
            permit: Some(Arc::new(study.permit)),
            by: self.order.by.clone(),
            host: Some(self.machine.node.clone()),
            folder: Some(study.folder),
            facts: BTreeMap::from([(self.machine.fact.to_owned(), self.facts())]),
            committed: Some(Committed(pushing.hook())),
            ..RunOptions::default()
        };
        let tell = self.machine.tell;
        let listener = |event: &Event| {
            if let Some(line) = line_of(event) {
                tell(&line);
            }
        };
        let summary = pipeline::run(
            &experiment,
            self.machine.registry,
            &self.store,
            &options,
            &listener,
        )?;
        let lock = Lock::of_experiment(&experiment)
            .map_err(|e| ClusterError::Pipeline(e.into()))?
            .map(|lock| lock.records().collect::<Vec<_>>());
        pushing.rest(&lock.unwrap_or_default())?;
        if summary.interrupted {
            return Ok(None);
        }
        let without = summary.ledger.iter().filter_map(|line| {
            let name = WrittenCell {
                stage: line.stage.clone(),
                coordinates: line.coordinates.to_string(),
            };
            let waited_for = self.order.cells.iter().any(|c| c.name == name);
            (waited_for && line.status != CellStatus::Ok).then(|| Without {
                name,
                status: line.status,
                reason: line.reason.clone().unwrap_or_default(),
            })
        });
        Ok(Some(End {
            without: without.collect(),
            ..self.end()
        }))
    }

    fn end(&self) -> End {
        End {
            job: self.machine.job.clone(),
            node: self.machine.node.clone(),
            ..End::default()
        }
    }

    fn refused(&self, why: String, hint: Option<String>) -> End {
        (self.machine.tell)(&why);
        End {
            refused: Some(why),
            hint,
            ..self.end()
        }
    }

    /// Downloads the study and its files.
    fn study(&self) -> Result<StudyDocument, ClusterError> {
        let digest = self.order.study;
        self.remote.download(&self.store, &digest)?;
        let study: Result<StudyDocument, _> =
            serde_json::from_slice(&self.store.get_document(&digest)?);
        let mut study = study
            .map_err(|e| ClusterError::Broken(format!("the study {digest} cannot be read: {e}")))?;
        for source in &mut study.experiment.sources {
            self.remote.download(&self.store, &source.digest)?;
            // The name is kept, because its extension may indicate the format.
            let file = source.path.file_name().unwrap_or_default().to_owned();
            let folder = self.scratch.join("sources").join(source.digest.hex());
            let path = folder.join(file);
            let copied = fs::create_dir_all(&folder)
                .and_then(|()| fs::copy(self.store.path(&source.digest), &path));
            copied.map_err(|e| ClusterError::Io(path.clone(), e))?;
            source.path = path;
        }
        let experiment = &mut study.experiment;
        experiment.file = self.scratch.join("study").join("study.yaml");
        fs::create_dir_all(self.scratch.join("study"))
            .map_err(|e| ClusterError::Io(self.scratch.to_owned(), e))?;
        Ok(study)
    }

    /// Returns how this machine differs from the first one that executed a part of the study.
    fn other_machine(&self, experiment: &Experiment) -> Result<Option<String>, ClusterError> {
        for (group, facets) in placed_facets(experiment, self.machine.registry, &self.order.cells)?
        {
            let document = name(self.run, &format!("facets/{group}"));
            if put(self.remote, &document, &facets)? {
                continue;
            }
            let first: BTreeMap<String, Json> = read(self.remote, &document)?.unwrap_or_default();
            let names: BTreeSet<&String> = first.keys().chain(facets.keys()).collect();
            let differ = names
                .into_iter()
                .find(|name| first.get(*name) != facets.get(*name));
            if let Some(facet) = differ {
                let text =
                    |value: Option<&Json>| value.map_or("nothing".to_owned(), Json::to_string);
                return Ok(Some(format!(
                    "the machine {} differs from those that execute the rest of the study: {facet} is {} here and {} there",
                    self.machine.node,
                    text(facets.get(facet)),
                    text(first.get(facet)),
                )));
            }
        }
        Ok(None)
    }

    /// Returns the facts about the job for records.
    fn facts(&self) -> Json {
        let mut facts = json!({"job": self.machine.job, "node": self.machine.node});
        for (name, value) in &self.machine.facts {
            facts[name] = json!(value);
        }
        if self.machine.restarts > 0 {
            facts["restarts"] = json!(self.machine.restarts);
        }
        if !self.order.earlier.is_empty() {
            let earlier = self.order.earlier.iter();
            let earlier = earlier.map(
                |e| json!({"job": e.job, "state": e.state, "reason": e.reason, "node": e.node}),
            );
            facts["earlier"] = earlier.collect();
        }
        facts
    }

    /// Downloads existing records, and prepares to push the rest.
    fn pushing(&self) -> Result<Arc<Pushing>, ClusterError> {
        let own = format!("{}.", self.name);
        let mut records: BTreeSet<Digest> = BTreeSet::new();
        let me = Maker {
            host: Some(self.machine.node.clone()),
            by: self.order.told_by.clone(),
            started: None,
        };
        let mut count = 0;
        for document in self.remote.documents(&name(self.run, "done"))? {
            if !document.starts_with(&own) {
                continue;
            }
            count += 1;
            if let Some(done) =
                read::<DoneCell>(self.remote, &name(self.run, &format!("done/{document}")))?
            {
                records.insert(done.record);
            }
        }
        records.extend(self.order.cells.iter().filter_map(|cell| cell.record));
        let records: Vec<Digest> = records.into_iter().collect();
        // The records name their makers, but they belong to this study. Incomplete ones are executed again.
        unwatched(|watch| self.remote.pull_own(&self.store, &records, view, watch))?;
        Ok(Arc::new(Pushing {
            remote: Arc::clone(self.remote),
            store: Store::open(self.store.root())?,
            run: self.run.to_owned(),
            name: self.name.to_owned(),
            me,
            cancelled: Arc::clone(&self.machine.cancelled),
            next: AtomicUsize::new(count),
            pushed: Mutex::new(records),
        }))
    }
}

/// Pushes records as they become durable.
struct Pushing {
    remote: Arc<Remote>,
    store: Store,
    run: String,
    name: String,
    me: Maker,
    cancelled: Arc<AtomicBool>,
    next: AtomicUsize,
    pushed: Mutex<Vec<Digest>>,
}

impl Pushing {
    fn hook(self: &Arc<Self>) -> Arc<Listener> {
        let pushing = Arc::clone(self);
        Arc::new(move |records| {
            // A failed push is repeated at the end, which then reports the error.
            let _later = pushing.push(records);
        })
    }

    /// Returns the records that are complete in the shared store.
    fn complete_records(&self) -> BTreeSet<Digest> {
        let pushed = lock(&self.pushed);
        pushed.iter().copied().collect()
    }

    /// Pushes records, and adds a document about each to the shared store.
    fn push(&self, records: &[Digest]) -> Result<(), ClusterError> {
        let records: Vec<Digest> = records
            .iter()
            .filter(|digest| self.counts(digest))
            .copied()
            .collect();
        let records = records.as_slice();
        unwatched(|watch| push_records(&self.remote, &self.store, records, &self.me, watch))?;
        for digest in records {
            let Ok(record) = Record::parse(&self.store.get_document(digest)?) else {
                continue;
            };
            let done = DoneCell {
                name: WrittenCell {
                    stage: record.stage,
                    coordinates: record.coordinates.to_string(),
                },
                record: *digest,
                status: record.status,
                maker: self.me.clone(),
            };
            loop {
                let number = self.next.fetch_add(1, Ordering::Relaxed);
                let document = DoneCell::document(&self.name, number);
                let document = name(&self.run, &format!("done/{document}"));
                if put(&self.remote, &document, &done)? {
                    break;
                }
            }
        }
        lock(&self.pushed).extend(records);
        Ok(())
    }

    /// Returns whether a record shows the result of its cell. Stopping a job also signals the engine. A failure then
    /// does not describe the cell, and the coordinator learns the reason from the scheduler.
    fn counts(&self, digest: &Digest) -> bool {
        let read = |bytes: Vec<u8>| Record::parse(&bytes).ok();
        let status = self.store.get(digest).ok().and_then(read);
        let status = status.map(|record| record.status);
        tells_of_cell(status, || is_stopped(&self.cancelled, SIGNAL_WAIT))
    }

    /// Pushes those of the records that were not pushed yet.
    fn rest(&self, records: &[Digest]) -> Result<(), ClusterError> {
        let pushed = lock(&self.pushed).clone();
        let rest: Vec<Digest> = records
            .iter()
            .filter(|record| !pushed.contains(record))
            .copied()
            .collect();
        self.push(&rest)
    }
}

/// Returns an event as a line of the job's output.
fn line_of(event: &Event) -> Option<String> {
    match event {
        Event::CellStarted { cell, attempt } => Some(format!("{cell}: attempt {attempt}")),
        Event::CellEnded {
            cell,
            status,
            reason,
            seconds,
            cached: false,
            ..
        } => {
            let reason = reason
                .as_ref()
                .map_or(String::new(), |reason| format!(": {reason}"));
            Some(format!(
                "{cell}: {} after {seconds:.1} s{reason}",
                status.word()
            ))
        }
        Event::Warning { message, .. } => Some(format!("warning: {message}")),
        _ => None,
    }
}

/// Returns whether a status shows the result of a cell, not only that its job is being stopped.
fn tells_of_cell(status: Option<CellStatus>, is_stopped: impl FnOnce() -> bool) -> bool {
    match status {
        Some(CellStatus::Ok) => true,
        Some(CellStatus::Interrupted) => false,
        _ => !is_stopped(),
    }
}

/// Returns whether a job is being stopped. Its signal may come shortly after the engine's.
fn is_stopped(cancelled: &AtomicBool, wait: Duration) -> bool {
    let end = Instant::now() + wait;
    while Instant::now() < end && !cancelled.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(20));
    }
    cancelled.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_that_fails_while_its_job_is_stopped_tells_nothing() {
        for failed in [CellStatus::Failed, CellStatus::Timeout, CellStatus::Hung] {
            assert!(!tells_of_cell(Some(failed), || true));
            assert!(tells_of_cell(Some(failed), || false));
        }
        assert!(tells_of_cell(Some(CellStatus::Ok), || true));
        assert!(!tells_of_cell(Some(CellStatus::Interrupted), || false));
    }

    #[test]
    fn a_signal_that_comes_after_the_failure_is_waited_for() {
        let cancelled = AtomicBool::new(false);
        assert!(!is_stopped(&cancelled, Duration::ZERO));
        std::thread::scope(|scope| {
            // Far longer than the signal takes. The wait ends with the signal.
            let waits = scope.spawn(|| is_stopped(&cancelled, Duration::from_secs(3600)));
            cancelled.store(true, Ordering::Relaxed);
            assert!(waits.join().expect("it ends"));
        });
    }
}
