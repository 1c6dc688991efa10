//! The jobs of an unfinished run, for people.

use std::path::Path;

use pipeline::ShardCell;

use crate::error::ClusterError;
use crate::journal::{Job, look};
use crate::queue::{JobState, Queue};

/// A job of a study, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobLine {
    /// Slurm's number; none before it was submitted.
    pub job: Option<String>,
    /// Its first cell.
    pub first: String,
    /// How many cells it executes.
    pub cells: usize,
    /// What Slurm told last.
    pub state: String,
    /// The machine.
    pub node: String,
    /// How long it has run.
    pub elapsed: String,
}

/// Returns the jobs of an unfinished run, with what Slurm says of them now if it can be asked.
///
/// # Errors
/// If the file of jobs cannot be read.
pub fn jobs_of(store: &Path, experiment_lock: &Path) -> Result<Vec<JobLine>, ClusterError> {
    let Some(jobs) = look(store, experiment_lock)? else {
        return Ok(Vec::new());
    };
    // Without Slurm's commands, what is known stands.
    let now = Queue.jobs().ok().flatten().unwrap_or_default();
    let line = |job: Job| {
        let found = now
            .iter()
            .find(|state| Some(&state.job) == job.job.as_ref());
        let known = JobState {
            state: job.state.clone(),
            node: job.node.clone(),
            elapsed: job.elapsed.clone(),
            ..JobState::default()
        };
        let state = found.cloned().unwrap_or(known);
        let ended = job.ended.as_ref().map(|ended| ended.state.clone());
        JobLine {
            job: job.job,
            first: job.cells.first().map(ShardCell::name).unwrap_or_default(),
            cells: job.cells.len(),
            state: ended.unwrap_or(state.state),
            node: state.node,
            elapsed: state.elapsed,
        }
    };
    Ok(jobs.jobs.into_iter().map(line).collect())
}
