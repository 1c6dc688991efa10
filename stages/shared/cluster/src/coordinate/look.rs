//! The state of the jobs, as schedulers and the hosts report it.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::{Cluster, Search};
use crate::document::{Taken, name, read};
use crate::error::ClusterError;
use crate::journal::Job;
use crate::queue::{JobPhase, JobState, Scheduler, Trouble};

/// The number of looks in a row that must find a job over or forgotten, without its shard's end, before the job counts
/// as over. A shared file system may show a file late.
const LOOKS: u32 = 4;

/// The time that a job may have a machine without starting there. Its image may not be found because a registry is
/// briefly unavailable.
const PATIENCE: Duration = Duration::from_mins(2);

impl Cluster<'_> {
    /// Looks at all jobs; returns whether one ended.
    pub(super) fn look(&mut self) -> Result<bool, ClusterError> {
        // A shard's end may be known before its connection ends, and the host is free only after that.
        if self.jobs.active().len() == 0 && self.pool.is_idle() {
            return Ok(false);
        }
        self.work.looks += 1;
        let mut ended = self.look_for_ends()?;
        ended |= self.look_at_hosts()?;
        ended |= self.look_at_queues()?;
        let changed = std::mem::take(&mut self.changed);
        self.note(changed)?;
        Ok(ended)
    }

    /// Looks at the jobs of the schedulers; returns whether one ended.
    fn look_at_queues(&mut self) -> Result<bool, ClusterError> {
        let schedulers = self.jobs.active().filter_map(Job::scheduler);
        let schedulers: BTreeSet<Scheduler> = schedulers.collect();
        let mut ended = false;
        for scheduler in schedulers {
            ended |= self.look_at_queue(&scheduler)?;
        }
        Ok(ended)
    }

    /// Looks at the jobs of one scheduler; returns whether one ended.
    fn look_at_queue(&mut self, scheduler: &Scheduler) -> Result<bool, ClusterError> {
        let states = match scheduler.jobs(&self.jobs.run)? {
            Ok(states) => states,
            Err(silence) => {
                self.tell_unreachable(scheduler, &silence);
                return Ok(false);
            }
        };
        if self.unreachable.remove(scheduler) {
            (self.asked.tell)(&format!("{} answers again", scheduler.server()));
        }
        let by_job = states.iter().map(|state| (state.job.as_str(), state));
        let by_job: HashMap<&str, &JobState> = by_job.rev().collect();
        let by_name = states.iter().map(|state| (state.name.as_str(), state));
        let by_name: HashMap<&str, &JobState> = by_name.rev().collect();
        let mut over = Vec::new();
        for index in self.jobs.active_indices() {
            let entry = &self.jobs.jobs[index];
            if entry.scheduler().as_ref() != Some(scheduler) {
                continue;
            }
            match &entry.job {
                Some(job) => {
                    let reported = by_job.get(job.as_str()).copied();
                    let state = self.look_at(index, scheduler, reported.cloned())?;
                    over.extend(state.map(|state| (index, state)));
                }
                None => {
                    let name = self.job_name(&entry.name);
                    self.find_or_ask(index, by_name.get(name.as_str()).copied())?;
                }
            }
        }
        if over.is_empty() {
            return Ok(false);
        }
        self.take_in(Search::Listed)?;
        for (index, state) in over {
            self.ended_early(index, &state)?;
        }
        Ok(true)
    }

    /// Looks at one job with a number; returns its state if it is over without an end.
    fn look_at(
        &mut self,
        index: usize,
        scheduler: &Scheduler,
        reported: Option<JobState>,
    ) -> Result<Option<JobState>, ClusterError> {
        let entry = &self.jobs.jobs[index];
        let job = entry.job.clone().unwrap_or_default();
        let node = entry.node.clone();
        let state = match reported.or_else(|| scheduler.account(&job)) {
            Some(state) if self.is_stuck(index, &state) => JobState {
                state: "LAUNCH_FAILED".to_owned(),
                ..state
            },
            Some(state) if state.phase() == JobPhase::Active => {
                self.looks.remove(&job);
                self.note_state(index, state);
                return Ok(None);
            }
            Some(state) => state,
            None => {
                let (state, reason) = scheduler.forgotten();
                JobState {
                    job: job.clone(),
                    state: state.to_owned(),
                    reason: reason.to_owned(),
                    node,
                    ..JobState::default()
                }
            }
        };
        let looks = self.looks.entry(job).or_default();
        *looks += 1;
        Ok((*looks >= LOOKS).then_some(state))
    }

    /// Finds a job without a recorded number: the run was killed, or the controller failed, before the number was
    /// known.
    fn find_or_ask(
        &mut self,
        index: usize,
        reported: Option<&JobState>,
    ) -> Result<(), ClusterError> {
        let taken = name(
            &self.jobs.run,
            &format!("{}.taken", self.jobs.jobs[index].name),
        );
        let job = &self.jobs.jobs[index];
        let number = match (reported, &job.kubernetes) {
            (Some(state), _) => Some(state.job.clone()),
            (None, None) => read::<Taken>(self.asked.remote, &taken)?.map(|taken| taken.job),
            // The Job's pod took the shard, and the Job has been deleted since.
            (None, Some(_)) => {
                read::<Taken>(self.asked.remote, &taken)?.map(|_| self.job_name(&job.name))
            }
        };
        match number {
            Some(number) => {
                self.jobs.jobs[index].job = Some(number);
                self.note([index])
            }
            None => self.ask_for(index),
        }
    }

    /// Returns whether a job has had a machine for so long without starting that it never will.
    fn is_stuck(&mut self, index: usize, state: &JobState) -> bool {
        if state.trouble != Trouble::Stuck {
            self.stuck.remove(&index);
            return false;
        }
        match self.stuck.get(&index) {
            Some(since) => since.elapsed() > PATIENCE,
            None => {
                self.stuck.insert(index, Instant::now());
                self.tell_state(index, state, "does not start");
                false
            }
        }
    }

    /// Tells the user why a job waits, once for each reason.
    fn tell_trouble(&self, index: usize, state: &JobState) {
        let word = |reason: &str| reason.split(':').next().unwrap_or_default().to_owned();
        let before = &self.jobs.jobs[index].reason;
        if state.trouble == Trouble::Waits && word(before) != word(&state.reason) {
            self.tell_state(index, state, "waits");
        }
    }

    fn tell_state(&self, index: usize, state: &JobState, what: &str) {
        let scheduler = self.jobs.jobs[index].scheduler();
        (self.asked.tell)(&format!(
            "{} job {} {what}: {}",
            scheduler.map_or("", |scheduler| scheduler.name()),
            state.job,
            state.reason
        ));
    }

    /// Updates the state of a job; it is written after the look.
    fn note_state(&mut self, index: usize, state: JobState) {
        self.tell_trouble(index, &state);
        let entry = &mut self.jobs.jobs[index];
        let scheduler = entry.scheduler();
        let again = begins_again(&entry.state, &state.state);
        let changed =
            entry.state != state.state || entry.node != state.node || entry.reason != state.reason;
        if again {
            (self.asked.tell)(&format!(
                "{} job {} was put back into the queue ({})",
                scheduler.map_or("", |scheduler| scheduler.name()),
                state.job,
                match state.reason.as_str() {
                    "" => "no reason given",
                    reason => reason,
                }
            ));
        }
        entry.seconds = state.has_run();
        entry.began = state.began.or(entry.began);
        entry.reason = state.reason;
        entry.state = state.state;
        entry.node = state.node;
        entry.elapsed = state.elapsed;
        entry.waited = state.waited;
        if changed {
            self.changed.insert(index);
        }
    }
}

/// Returns whether a job went back into the queue between two looks. The earlier look may also have seen it ending.
fn begins_again(before: &str, now: &str) -> bool {
    !matches!(before, "" | "PENDING") && now == "PENDING"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_begins_again_if_it_waits_after_it_ran_or_while_it_ended() {
        for before in [
            "RUNNING",
            "COMPLETING",
            "PREEMPTED",
            "REQUEUED",
            "SUSPENDED",
        ] {
            assert!(begins_again(before, "PENDING"), "{before}");
        }
        for (before, now) in [
            ("", "PENDING"),
            ("PENDING", "PENDING"),
            ("PENDING", "RUNNING"),
            ("RUNNING", "COMPLETING"),
        ] {
            assert!(!begins_again(before, now), "{before}, {now}");
        }
    }
}
