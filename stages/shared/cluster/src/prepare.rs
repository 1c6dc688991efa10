//! Prepares the shared store before a run submits jobs, and deals with an earlier run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use artifacts::{Digest, counted};
use pipeline::Experiment;

use crate::coordinate::Asked;
use crate::document::{FORMAT, StudyDocument};
use crate::error::ClusterError;
use crate::journal::Jobs;
use crate::queue::{JobPhase, Scheduler};

/// Returns a unique name for a run.
#[expect(
    clippy::disallowed_methods,
    reason = "the clock and the process make the name unique"
)]
pub(crate) fn new_run(lock: &Path) -> String {
    let now = jiff::Timestamp::now();
    let text = format!("{now} {} {}", std::process::id(), lock.display());
    format!("r{}", &Digest::of(text.as_bytes()).hex()[..12])
}

/// Returns the digest of an experiment. It does not depend on where the files are.
pub(crate) fn digest_of(experiment: &Experiment) -> Digest {
    let mut experiment = experiment.clone();
    experiment.file = PathBuf::new();
    experiment
        .sources
        .iter_mut()
        .for_each(|source| source.path = PathBuf::new());
    let text = serde_json::to_vec(&experiment).expect("an experiment always serializes");
    Digest::of(&text)
}

/// Puts the study with its files into the shared store; returns the digest of its document.
pub(crate) fn upload_study(asked: &Asked<'_>) -> Result<Digest, ClusterError> {
    for source in &asked.experiment.sources {
        let bytes = fs::read(&source.path).map_err(|e| ClusterError::Io(source.path.clone(), e))?;
        if Digest::of(&bytes) != source.digest {
            return Err(ClusterError::Broken(format!(
                "{} has changed since the plan was made; run again",
                source.path.display()
            )));
        }
        asked.store.put(&bytes)?;
        asked.remote.upload(asked.store, &source.digest)?;
    }
    let folder = asked.experiment.file.parent().unwrap_or(Path::new(""));
    // An empty path stands for the working directory.
    let folder = std::path::absolute(Path::new(".").join(folder))
        .map_err(|e| ClusterError::Io(folder.to_owned(), e))?;
    let document = StudyDocument {
        format: FORMAT,
        experiment: asked.experiment.clone(),
        folder,
        permit: asked.permit.clone(),
    };
    let bytes = serde_json::to_vec(&document).expect("a study always serializes");
    let digest = asked.store.put(&bytes)?;
    asked.remote.upload(asked.store, &digest)?;
    Ok(digest)
}

/// Cancels the jobs of an earlier run of another version of the study. Their records stay in the shared store.
pub(crate) fn drop_left(asked: &Asked<'_>, left: &Jobs) -> Result<(), ClusterError> {
    // Work on hosts of a pool ended with that run.
    let mut names: BTreeMap<Scheduler, BTreeSet<String>> = BTreeMap::new();
    for job in left.active() {
        if let Some(scheduler) = job.scheduler() {
            let name = format!("benchtrail-{}-{}", left.run, job.name);
            names.entry(scheduler).or_default().insert(name);
        }
    }
    for (scheduler, names) in names {
        let states = scheduler.jobs(&left.run)?.map_err(|silence| {
            let said = match silence.said.as_str() {
                "" => format!("{} does not answer", scheduler.server()),
                said => said.to_owned(),
            };
            ClusterError::Refused(silence.command.to_owned(), said)
        })?;
        let living = states
            .into_iter()
            .filter(|state| state.phase() == JobPhase::Active && names.contains(&state.name));
        let living: Vec<String> = living.map(|state| state.job).collect();
        if !living.is_empty() {
            (asked.tell)(&format!(
                "cancelling {} of an earlier run: the study or the shared store has changed",
                counted(living.len(), "job")
            ));
            scheduler.cancel(&living)?;
        }
    }
    Ok(())
}
