//! The jobs of an unfinished run, for people.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use artifacts::Digest;
use remote::Remote;

use crate::document::{DoneCell, name, read};
use crate::error::ClusterError;
use crate::journal::{Job, is_held, look};
use crate::pool::{LEFT, clock};
use crate::queue::{JobState, Scheduler};
use crate::reach::Reach;

/// A job of a study, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobLine {
    /// The scheduler's number or name of the job, or the host and the shard; `None` before submission.
    pub job: Option<String>,
    /// Its first cell.
    pub first: String,
    /// The number of its cells.
    pub cells: usize,
    /// The state that the scheduler reported last.
    pub state: String,
    /// The scheduler's reason for the state; empty if it gives none.
    pub reason: String,
    /// The machine.
    pub node: String,
    /// How long it has run.
    pub elapsed: String,
    /// How long it waited in the queue, or the time since which it waits.
    pub waited: String,
}

/// Returns the records that jobs of an unfinished run left in the shared store. The next run of the study takes them
/// in.
///
/// # Errors
/// If the file of jobs or the shared store cannot be read.
pub fn records_left(
    store: &Path,
    experiment_lock: &Path,
    remote: &Remote,
) -> Result<BTreeSet<Digest>, ClusterError> {
    let Some(jobs) = look(store, experiment_lock)? else {
        return Ok(BTreeSet::new());
    };
    if jobs.remote != Reach::of(remote)?.word() {
        return Ok(BTreeSet::new());
    }
    let mut records = BTreeSet::new();
    for document in remote.documents(&name(&jobs.run, "done"))? {
        let done = read::<DoneCell>(remote, &name(&jobs.run, &format!("done/{document}")))?;
        records.extend(done.map(|done| done.record));
    }
    Ok(records)
}

/// Returns the jobs of an unfinished run, with their present state from the scheduler if it can be asked.
///
/// # Errors
/// If the file of jobs cannot be read.
pub fn jobs_of(store: &Path, experiment_lock: &Path) -> Result<Vec<JobLine>, ClusterError> {
    let Some(jobs) = look(store, experiment_lock)? else {
        return Ok(Vec::new());
    };
    let schedulers = jobs.active().filter_map(Job::scheduler);
    let schedulers: BTreeSet<Scheduler> = schedulers.collect();
    // If a scheduler cannot be asked, the last known state is shown.
    let now = schedulers
        .iter()
        .filter_map(|scheduler| scheduler.jobs(&jobs.run).ok()?.ok());
    let now: Vec<JobState> = now.flatten().collect();
    // A host's work lasts only as long as the run.
    let is_held = is_held(store, experiment_lock);
    let line = |job: Job| {
        let reported = now
            .iter()
            .find(|state| Some(&state.job) == job.job.as_ref());
        let recorded = JobState {
            state: match &job.host {
                Some(_) if !is_held => LEFT.to_owned(),
                _ => job.state.clone(),
            },
            node: job.node.clone(),
            reason: job.reason.clone(),
            elapsed: match job.began {
                Some(began) if job.ended.is_none() && is_held => since(began),
                _ => job.elapsed.clone(),
            },
            waited: job.waited.clone(),
            ..JobState::default()
        };
        let state = reported.cloned().unwrap_or(recorded);
        let reason = job.ended.as_ref().map(|ended| ended.reason.clone());
        let ended = job.ended.as_ref().map(|ended| ended.state.clone());
        JobLine {
            job: job.job,
            first: job
                .cells
                .first()
                .map(|c| c.name.to_string())
                .unwrap_or_default(),
            cells: job.cells.len(),
            state: ended.unwrap_or(state.state),
            reason: reason.unwrap_or(state.reason),
            node: state.node,
            elapsed: state.elapsed,
            waited: state.waited,
        }
    };
    Ok(jobs.jobs.into_iter().map(line).collect())
}

/// Returns the time since a moment given in seconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "how long a shard has run is shown for the present moment"
)]
fn since(began: i64) -> String {
    let seconds = jiff::Timestamp::now().as_second().saturating_sub(began);
    clock(Duration::from_secs(
        u64::try_from(seconds).unwrap_or_default(),
    ))
}
