//! How shards end: normally, early, or because the user stops the run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use artifacts::counted;
use pipeline::{AwayFailure, CellStatus, Media, ShardCell};

use super::{Cluster, FIRST_WAIT, News, Search, cells_text};
use crate::document::{End, Ended, name, parse};
use crate::error::ClusterError;
use crate::queue::{JobPhase, JobState, Scheduler, Trouble};
use crate::reach::Reach;
use crate::tail;

/// How long cancelled jobs may take to end.
const CANCEL_WAIT: Duration = Duration::from_secs(90);

/// How many bytes of a job's output are kept as evidence.
const TAIL: usize = 16 << 10;

impl Cluster<'_> {
    /// Finds shards with a document of their end, whatever state the scheduler reports.
    pub(super) fn look_for_ends(&mut self) -> Result<bool, ClusterError> {
        let mut ends: Vec<(usize, End)> = Vec::new();
        let active = self.jobs.active_indices();
        let remote = self.asked.remote;
        let end_of = |index: &usize| {
            let job = &self.jobs.jobs[*index];
            name(&self.jobs.run, &format!("{}.end", job.name))
        };
        let names: Vec<String> = active.iter().map(end_of).collect();
        self.work.names += names.len() as u64;
        let documents = remote.read_documents(&names)?;
        for ((index, name), bytes) in active.into_iter().zip(&names).zip(documents) {
            if let Some(bytes) = bytes {
                ends.push((index, parse(remote, name, &bytes)?));
            }
        }
        if ends.is_empty() {
            return Ok(false);
        }
        // The records are complete before the end is written.
        self.take_in(Search::Next)?;
        if ends.iter().any(|(index, end)| self.lacks(*index, end)) {
            self.take_in(Search::Listed)?;
        }
        let closed: Vec<usize> = ends.iter().map(|(index, _)| *index).collect();
        for (index, end) in ends {
            self.close(index, end)?;
        }
        self.note(closed)?;
        Ok(true)
    }

    /// Returns whether a cell of an ended shard has no known result yet.
    fn lacks(&self, index: usize, end: &End) -> bool {
        let mut cells = self.jobs.jobs[index].cells.iter();
        cells.any(|cell| {
            let is_known = self.elsewhere.records.contains_key(&cell.name) || cell.record.is_some();
            !is_known && end.refused.is_none() && end.without.iter().all(|w| w.name != cell.name)
        })
    }

    /// Closes a shard whose end is known. The caller writes the job's state.
    fn close(&mut self, index: usize, end: End) -> Result<(), ClusterError> {
        let job = &self.jobs.jobs[index];
        for cell in &job.cells {
            let place = cell.name.clone();
            if self.elsewhere.records.contains_key(&place) {
                continue;
            }
            let without = end.without.iter().find(|w| w.name == cell.name);
            let failure = match (&end.refused, without, cell.record) {
                (Some(reason), _, _) => AwayFailure {
                    status: CellStatus::Failed,
                    reason: reason.clone(),
                    hint: end.hint.clone(),
                    evidence: Vec::new(),
                },
                (None, Some(without), _) => AwayFailure {
                    status: without.status,
                    reason: without.reason.clone(),
                    hint: None,
                    evidence: Vec::new(),
                },
                (None, None, Some(record)) => {
                    self.elsewhere.records.insert(place, record);
                    continue;
                }
                (None, None, None) => AwayFailure {
                    status: CellStatus::Failed,
                    reason: format!("job {} ended, but left no record of it", end.job),
                    hint: None,
                    evidence: Vec::new(),
                },
            };
            self.elsewhere.failures.insert(place, failure);
        }
        let job = &mut self.jobs.jobs[index];
        job.complete = true;
        job.node.clone_from(&end.node);
        let ended = Ended {
            job: end.job,
            state: "COMPLETED".to_owned(),
            node: end.node,
            ..Ended::default()
        };
        self.jobs.end(index, ended);
        self.note_end(index);
        self.charge(index)?;
        let job = &self.jobs.jobs[index];
        let what = end
            .refused
            .map_or("has executed".to_owned(), |_| "refused".to_owned());
        (self.asked.tell)(&format!(
            "{} {what} {}",
            match &job.host {
                Some(host) => format!("host {}", host.name),
                None => {
                    let number = job.job.as_deref().unwrap_or("?");
                    let scheduler = job.scheduler().map_or("", |scheduler| scheduler.name());
                    format!("{scheduler} job {number} on {}", job.node)
                }
            },
            cells_text(&job.cells)
        ));
        Ok(())
    }

    /// Decides about a shard whose job ended without the document of its end. The cells without a record are retried if
    /// their stages permit it. Otherwise they fail with the scheduler's reason.
    pub(super) fn ended_early(
        &mut self,
        index: usize,
        state: &JobState,
    ) -> Result<(), ClusterError> {
        let scheduler = self.jobs.jobs[index].scheduler();
        let replaced = scheduler
            .as_ref()
            .and_then(|scheduler| replaced(scheduler, state));
        let state = replaced.as_ref().unwrap_or(state);
        let details = scheduler.as_ref().map(|scheduler| scheduler.details(state));
        let details = details.unwrap_or_default();
        let reason = match details.get("Reason") {
            Some(reason) if state.reason.is_empty() && reason != "None" => reason.clone(),
            _ => state.reason.clone(),
        };
        let entry = &self.jobs.jobs[index];
        let missing: Vec<ShardCell> = entry
            .cells
            .iter()
            .filter(|cell| !self.elsewhere.records.contains_key(&cell.name))
            .cloned()
            .collect();
        let (again, what) = match &scheduler {
            None => self.end_of_host(index, state, &reason),
            Some(scheduler) => self.end_of_job(index, scheduler, state, &reason, &missing),
        };
        let ended = Ended {
            job: state.job.clone(),
            state: state.state.clone(),
            reason: reason.clone(),
            node: state.node.clone(),
            details,
        };
        if missing.is_empty() {
            (self.asked.tell)(&format!("{what}; all of its cells are complete"));
        } else if again {
            (self.asked.tell)(&format!("{what}; trying {} again", cells_text(&missing)));
            self.learn(News::Again);
        } else {
            (self.asked.tell)(&format!(
                "{what} and left {} incomplete",
                cells_text(&missing)
            ));
            self.fail(&missing, &what, &ended, index);
        }
        if let (Some(Scheduler::Kubernetes(target)), Trouble::Stuck) = (&scheduler, state.trouble) {
            // The pod would be tried forever. If the Job cannot be deleted now, the user finds it in the list of Jobs.
            let _left = target.delete(std::slice::from_ref(&state.job));
        }
        self.is_doubtful |= !missing.is_empty();
        let entry = &mut self.jobs.jobs[index];
        entry.complete = missing.is_empty();
        entry.seconds = entry.seconds.max(state.has_run());
        self.jobs.end(index, ended);
        self.charge(index)?;
        self.note([index])
    }

    /// Returns whether the shard of a job that ended early is retried, and a description of the job's end.
    fn end_of_job(
        &self,
        index: usize,
        scheduler: &Scheduler,
        state: &JobState,
        reason: &str,
        missing: &[ShardCell],
    ) -> (bool, String) {
        let jobs = self.jobs.with_cells(missing);
        let before: Vec<&Ended> = jobs.filter_map(|job| job.ended.as_ref()).collect();
        let retries = self.jobs.jobs[index].retries as usize;
        let again = match scheduler {
            // Slurm itself restarts the job of a lost or preempted machine.
            Scheduler::Slurm => before.len() < retries,
            Scheduler::Kubernetes(_) => is_retried(&state.state, &before, retries),
        };
        let because = match reason {
            "" | "None" => String::new(),
            reason => format!(" ({reason})"),
        };
        let on = match state.node.as_str() {
            "" => String::new(),
            node => format!(" on {node}"),
        };
        let what = format!(
            "{} job {}{on} ended as {}{because}",
            scheduler.name(),
            state.job,
            state.state
        );
        (again, what)
    }

    /// Returns the end of the output of a Slurm job.
    fn printed(&self, shard: &str, log: &Path) -> Vec<u8> {
        match &self.reach {
            Reach::Folder(_) => tail(log),
            // The job uploads its output, if it gets that far.
            Reach::Bucket(_) => {
                let document = name(&self.jobs.run, &format!("{shard}.log"));
                let kept = self.asked.remote.document(&document).ok().flatten();
                kept.unwrap_or_default()
            }
        }
    }

    /// Records why cells have no record: the first one failed, the others were not reached.
    fn fail(&mut self, missing: &[ShardCell], what: &str, ended: &Ended, index: usize) {
        let job = &self.jobs.jobs[index];
        let shard = job.name.as_str();
        let scheduler = job.scheduler();
        let (printed, advice) = match &scheduler {
            None => (
                tail(&self.file.log(&self.jobs.run, shard)),
                super::hosts::hint(&ended.state, &ended.node),
            ),
            Some(Scheduler::Slurm) => {
                let log = self.reach.log(&self.jobs.run, shard);
                (self.printed(shard, &log), hint(&ended.state, &log))
            }
            Some(Scheduler::Kubernetes(target)) => {
                let pod = ended.details.get("pod").map(String::as_str);
                let mut printed = target.log(&ended.job, pod);
                if printed.is_empty() {
                    let last = ended.details.get("container_message").cloned();
                    printed = last.unwrap_or_default().into_bytes();
                }
                (tail_of(&printed), hint_of_pod(&ended.state, &ended.job))
            }
        };
        let key = scheduler.map_or("pool", |scheduler| scheduler.key());
        let document = artifacts::json::pretty(ended);
        let status = match ended.state.as_str() {
            "TIMEOUT" | "DEADLINE" => CellStatus::Timeout,
            _ => CellStatus::Failed,
        };
        for (i, cell) in missing.iter().enumerate() {
            let failure = match i {
                0 => AwayFailure {
                    status,
                    reason: format!("{what} before this cell was complete"),
                    hint: advice.clone(),
                    evidence: vec![
                        (key.to_owned(), Media::Json, document.clone()),
                        (format!("{key}_log"), Media::Text, printed.clone()),
                    ],
                },
                _ => AwayFailure {
                    status: CellStatus::Skipped,
                    reason: format!("not reached: {what}"),
                    hint: None,
                    evidence: Vec::new(),
                },
            };
            self.elsewhere.failures.insert(cell.name.clone(), failure);
        }
    }

    /// Cancels all jobs, waits until they are gone, and takes in their records.
    pub(super) fn cancel(&mut self) -> Result<(), ClusterError> {
        if self.jobs.active().len() == 0 {
            return Ok(());
        }
        let hosts = self.jobs.active().filter(|job| job.host.is_some()).count();
        if hosts > 0 {
            (self.asked.tell)(&format!("stopping {}", counted(hosts, "host")));
            self.pool.stop();
        }
        let cancelled = self.cancel_jobs();
        while self
            .pool
            .jobs()
            .iter()
            .any(|job| job.phase() == JobPhase::Active)
        {
            std::thread::sleep(FIRST_WAIT);
        }
        cancelled?;
        self.take_in(Search::Listed)?;
        self.look_for_ends()?;
        let left = self.jobs.active_indices();
        for index in left.iter().copied() {
            let ended = Ended {
                job: self.jobs.jobs[index].job.clone().unwrap_or_default(),
                state: "CANCELLED".to_owned(),
                ..Ended::default()
            };
            self.jobs.end(index, ended);
            self.note_end(index);
            self.charge(index)?;
        }
        self.note(left)
    }

    /// Cancels the jobs of schedulers, and waits until they are gone.
    fn cancel_jobs(&mut self) -> Result<(), ClusterError> {
        let mut numbers: BTreeMap<Scheduler, Vec<String>> = BTreeMap::new();
        for job in self.jobs.active() {
            if let Some(scheduler) = job.scheduler() {
                let of_scheduler = numbers.entry(scheduler).or_default();
                of_scheduler.extend(job.job.clone());
            }
        }
        let mut cancelled = BTreeSet::new();
        for (scheduler, numbers) in &numbers {
            (self.asked.tell)(&format!(
                "cancelling {} in {}",
                counted(numbers.len(), "job"),
                scheduler.name()
            ));
            if scheduler.cancel(numbers)? {
                cancelled.insert(scheduler.clone());
            }
        }
        let end = Instant::now() + CANCEL_WAIT;
        while Instant::now() < end && !numbers.is_empty() {
            std::thread::sleep(FIRST_WAIT);
            let mut gone = Vec::new();
            for (scheduler, numbers) in &numbers {
                if !cancelled.contains(scheduler) && scheduler.cancel(numbers)? {
                    cancelled.insert(scheduler.clone());
                }
                let is_gone = self.is_gone(scheduler, numbers)?;
                if is_gone && cancelled.contains(scheduler) {
                    gone.push(scheduler.clone());
                }
            }
            numbers.retain(|scheduler, _| !gone.contains(scheduler));
        }
        for scheduler in numbers.keys() {
            (self.asked.tell)(&format!(
                "warning: jobs of the run {} may be left in {}",
                self.jobs.run,
                scheduler.name()
            ));
        }
        Ok(())
    }

    /// Returns whether no job of the run is left in a scheduler. Cancels jobs whose number was not known yet.
    fn is_gone(&self, scheduler: &Scheduler, numbers: &[String]) -> Result<bool, ClusterError> {
        let Ok(states) = scheduler.jobs(&self.jobs.run)? else {
            return Ok(false);
        };
        let names = self.jobs.active().map(|job| self.job_name(&job.name));
        let names: BTreeSet<String> = names.collect();
        let living: Vec<String> = states
            .into_iter()
            .filter(|state| state.phase() == JobPhase::Active)
            .filter(|state| numbers.contains(&state.job) || names.contains(&state.name))
            .map(|state| state.job)
            .collect();
        let unknown: Vec<String> = living
            .iter()
            .filter(|job| !numbers.contains(job))
            .cloned()
            .collect();
        scheduler.cancel(&unknown)?;
        Ok(living.is_empty())
    }
}

fn hint(state: &str, log: &Path) -> Option<String> {
    let does = match state {
        "OUT_OF_MEMORY" => "ask for more `memory` in `place: {slurm: …}`",
        "TIMEOUT" | "DEADLINE" => "raise `time` in `place: {slurm: …}`",
        "NODE_FAIL" | "PREEMPTED" | "BOOT_FAIL" => {
            "with `retries:`, the stage tries it again automatically"
        }
        _ => "check the job's output",
    };
    Some(format!("{does}; the job's output is {}", log.display()))
}

/// Returns the end of a job's output.
fn tail(log: &Path) -> Vec<u8> {
    // A job that never started has no output.
    let bytes = tail::read(log, TAIL).unwrap_or_default();
    tail_of(&bytes)
}

/// Returns the end of an output, as text.
fn tail_of(bytes: &[u8]) -> Vec<u8> {
    let from = bytes.len().saturating_sub(TAIL);
    String::from_utf8_lossy(&bytes[from..])
        .into_owned()
        .into_bytes()
}

/// Returns whether a shard whose pod ended early is retried. Kubernetes starts no pod twice. A failure that the node
/// caused is not the shard's fault. A pod that cannot start would fail again.
fn is_retried(state: &str, before: &[&Ended], retries: usize) -> bool {
    const MOVED: [&str; 3] = ["EVICTED", "NODE_FAIL", "PREEMPTED"];
    let before = before.iter().map(|ended| ended.state.as_str());
    let (moved, failed): (Vec<&str>, Vec<&str>) = before.partition(|state| MOVED.contains(state));
    match state {
        "LAUNCH_FAILED" => false,
        state if MOVED.contains(&state) => moved.len() < super::hosts::MOVES,
        _ => failed.len() < retries,
    }
}

/// Returns the state of a Job whose first pod was deleted. Kubernetes then starts a second pod, which measures nothing and
/// completes the Job. Before version 1.26, nothing else shows that a pod was preempted.
fn replaced(scheduler: &Scheduler, state: &JobState) -> Option<JobState> {
    (matches!(scheduler, Scheduler::Kubernetes(_)) && state.state == "COMPLETED").then(|| {
        JobState {
            state: "EVICTED".to_owned(),
            reason: "its pod was deleted, and Kubernetes started another one".to_owned(),
            ..state.clone()
        }
    })
}

/// Returns what to do about a pod that ended early.
fn hint_of_pod(state: &str, job: &str) -> Option<String> {
    let does = match state {
        "OUT_OF_MEMORY" => {
            "ask for more `memory` in `place: {kubernetes: …}`; `shared-memory` counts, too"
        }
        "TIMEOUT" => "raise `time` in `place: {kubernetes: …}`",
        "LAUNCH_FAILED" => {
            "check `image`, `image-pull-secrets` and `secrets` in `place: {kubernetes: …}`; with a bucket, the image must \
             have `benchtrail` on its search path"
        }
        "EVICTED" | "NODE_FAIL" | "PREEMPTED" => {
            "it was started again on other nodes several times; choose nodes by `node-selector`, or a higher `priority`"
        }
        _ => "check the pod's output",
    };
    Some(format!(
        "{does}; `kubectl describe job {job}` shows the Job while it exists"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Target;

    #[test]
    fn a_complete_job_whose_shard_did_not_end_had_a_second_pod() {
        let state = JobState {
            state: "COMPLETED".to_owned(),
            ..JobState::default()
        };
        let state_of = |scheduler| replaced(&scheduler, &state).map(|state| state.state);
        assert_eq!(
            state_of(Scheduler::Kubernetes(Target::default())).as_deref(),
            Some("EVICTED")
        );
        assert_eq!(state_of(Scheduler::Slurm), None);
    }

    #[test]
    fn what_a_node_did_to_a_pod_costs_no_retry_and_what_cannot_start_gets_none() {
        let ended = |states: &[&str]| -> Vec<Ended> {
            let ended = states.iter().map(|state| Ended {
                state: (*state).to_owned(),
                ..Ended::default()
            });
            ended.collect()
        };
        for (state, before, retries, expected) in [
            ("OUT_OF_MEMORY", &[][..], 0, false),
            ("OUT_OF_MEMORY", &[][..], 1, true),
            ("OUT_OF_MEMORY", &["NODE_FAIL", "EVICTED"][..], 1, true),
            ("FAILED", &["TIMEOUT"][..], 1, false),
            ("NODE_FAIL", &["FAILED"][..], 0, true),
            ("PREEMPTED", &["NODE_FAIL", "EVICTED"][..], 0, true),
            (
                "EVICTED",
                &["NODE_FAIL", "EVICTED", "PREEMPTED"][..],
                9,
                false,
            ),
            ("LAUNCH_FAILED", &[][..], 9, false),
        ] {
            let before = ended(before);
            let before: Vec<&Ended> = before.iter().collect();
            assert_eq!(
                is_retried(state, &before, retries),
                expected,
                "{state}: {before:?}"
            );
        }
    }
}
