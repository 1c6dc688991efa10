//! The coordinator's side: jobs submitted, looked after, and what they left taken in.

mod ends;
mod hosts;
mod money;
mod submit;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use artifacts::{Digest, Journal, Maker, Store};
use pipeline::lock::lock_path;
use pipeline::place::WrittenCell;
use pipeline::record::view;
use pipeline::{
    CellStatus, Elsewhere, Experiment, Permit, PlanOptions, Registry, Shard, ShardCell, shards,
};
use places::Placement;
use remote::{Progress, Remote, Watch};

use crate::budget::{Durations, Spent};
use crate::document::{DoneCell, Taken, name, read};
use crate::error::ClusterError;
use crate::journal::{Job, Jobs, JobsFile, look};
use crate::pool::Pool;
use crate::prepare::{digest_of, drop_left, new_run, upload_study};
use crate::queue::{JobState, Phase, Queue, is_there};
use crate::reach::{Program, Reach};

/// How long the coordinator waits before it looks again: at first, and at most.
const FIRST_WAIT: Duration = Duration::from_millis(300);
const LONGEST_WAIT: Duration = Duration::from_secs(20);
const LONGEST_WAIT_FOR_HOSTS: Duration = Duration::from_secs(1);

/// Looks in a row that must find a job over, or forgotten, and its shard without an end, before that is believed: a
/// shared file system may show a file late.
const LOOKS: u32 = 4;

/// What a run asks of the cluster.
pub struct Asked<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// The stage kinds.
    pub registry: &'a Registry,
    /// The local store.
    pub store: &'a Store,
    /// The store that the machines share.
    pub remote: &'a Remote,
    /// What is planned.
    pub options: PlanOptions,
    /// What the user consented to.
    pub permit: Permit,
    /// Who runs it, as the shared store tells.
    pub me: Maker,
    /// Their name in records, if they want one.
    pub by: Option<String>,
    /// Go on with other shards when one fails.
    pub keep_going: bool,
    /// Raised to stop.
    pub cancelled: &'a AtomicBool,
    /// Hears what happens to jobs.
    pub tell: &'a dyn Fn(&str),
    /// This program's own file, which the machines execute.
    pub binary: PathBuf,
    /// The search path, for a message that names what lacks.
    pub path: std::ffi::OsString,
}

/// What came back.
#[derive(Debug)]
pub struct Came {
    /// The records, and what has none.
    pub elsewhere: Arc<Elsewhere>,
    /// Held until the study's lock names the records.
    journal: Journal,
    file: JobsFile,
    run: String,
    shards: usize,
}

impl Came {
    /// Forgets the jobs: the study's lock names what they left.
    ///
    /// # Errors
    /// If the local store refuses.
    pub fn close(self) -> Result<(), ClusterError> {
        self.journal.close()?;
        self.file.remove(&self.run, self.shards)
    }
}

/// The coordinator of one run.
pub struct Cluster<'a> {
    asked: Asked<'a>,
    queue: Queue,
    pool: Pool,
    reach: Reach,
    program: Option<Program>,
    study: Digest,
    jobs: Jobs,
    file: JobsFile,
    journal: Journal,
    elsewhere: Elsewhere,
    /// Which shard the record of a cell came from.
    source: BTreeMap<WrittenCell, String>,
    /// Documents of records that have been read.
    read: BTreeSet<String>,
    /// Looks in a row that found a job over without an end.
    looks: BTreeMap<String, u32>,
    /// The controller did not answer at the last look, and that was told.
    unreachable: bool,
    spent: Spent,
    durations: Durations,
    /// Why the budget permits no other launch now.
    short: Option<String>,
}

fn unwatched<T>(transfer: impl FnOnce(Watch<'_>) -> T) -> T {
    transfer(Watch {
        cancelled: &AtomicBool::new(false),
        listener: &|_: Progress| (),
    })
}

impl<'a> Cluster<'a> {
    /// Prepares the shared store, and finds the jobs of an earlier run of the study. `None` if there is nothing to do
    /// elsewhere, and nothing was left.
    ///
    /// # Errors
    /// If the study cannot be planned, or a store or Slurm refuses.
    pub fn open(asked: Asked<'a>) -> Result<Option<Self>, ClusterError> {
        let lock = lock_path(asked.experiment);
        let left = look(asked.store.root(), &lock)?;
        let todo = shards(
            asked.experiment,
            asked.registry,
            asked.store,
            &asked.options,
        )?;
        if left.is_none() && todo.is_empty() {
            return Ok(None);
        }
        let mut left_jobs = left.iter().flat_map(|left| &left.jobs);
        let mut is_slurm = left_jobs.any(|job| job.host.is_none() && job.ended.is_none());
        for shard in &todo {
            is_slurm |= matches!(placement_of(shard)?, Placement::Slurm(_));
        }
        let programs: &[&str] = match is_slurm {
            true => &["sbatch", "squeue", "scancel"],
            false => &[],
        };
        for program in programs {
            if !is_there(program, &asked.path) {
                let said = "it is not on the search path".to_owned();
                return Err(ClusterError::Slurm((*program).to_owned(), said));
            }
        }
        let (file, left) = JobsFile::take(asked.store.root(), &lock)?;
        let reach = Reach::of(asked.remote)?;
        let program = match is_slurm {
            true => Some(reach.program(&asked.binary)?),
            false => None,
        };
        let study = upload_study(&asked)?;
        let experiment = digest_of(asked.experiment);
        let queue = Queue;
        let jobs = match left {
            Some(jobs) if jobs.experiment == experiment && jobs.remote == reach.word() => jobs,
            Some(other) => {
                drop_left(&asked, &queue, &other)?;
                Jobs::new(new_run(&lock), reach.word(), experiment)
            }
            None => Jobs::new(new_run(&lock), reach.word(), experiment),
        };
        let journal = asked.store.journal(&lock)?;
        let spent = Spent::read(asked.store.root(), &lock)?;
        Ok(Some(Self {
            asked,
            queue,
            pool: Pool::default(),
            reach,
            program,
            study,
            jobs,
            file,
            journal,
            elsewhere: Elsewhere::default(),
            source: BTreeMap::new(),
            read: BTreeSet::new(),
            looks: BTreeMap::new(),
            unreachable: false,
            spent,
            durations: Durations::default(),
            short: None,
        }))
    }

    /// Has everything executed elsewhere that can be; returns what came of it.
    ///
    /// # Errors
    /// If a store or Slurm refuses. Jobs that were submitted are cancelled then; what they have done stays.
    pub fn run(mut self) -> Result<Came, ClusterError> {
        let done = self.work();
        let cancelled = match done.is_err() || self.is_cancelled() {
            true => self.cancel(),
            false => Ok(()),
        };
        // What went wrong first says more.
        done?;
        cancelled?;
        Ok(Came {
            elsewhere: Arc::new(self.elsewhere),
            journal: self.journal,
            file: self.file,
            run: self.jobs.run,
            shards: self.jobs.jobs.len(),
        })
    }

    fn is_cancelled(&self) -> bool {
        self.asked.cancelled.load(Ordering::Relaxed)
    }

    fn work(&mut self) -> Result<(), ClusterError> {
        self.find_again()?;
        let mut wait = FIRST_WAIT;
        let mut todo: Option<Vec<Shard>> = None;
        loop {
            let mut changed = self.take_in()?;
            changed |= self.look()?;
            if self.is_cancelled() {
                return Ok(());
            }
            if let Some(reason) = self.overspent() {
                (self.asked.tell)(&reason);
                self.cancel()?;
                let rest = self.todo()?;
                self.skip(&rest, &reason)?;
                continue;
            }
            if changed {
                todo = None;
                wait = FIRST_WAIT;
            }
            let waiting = match todo.take() {
                Some(shards) => shards,
                None => self.todo()?,
            };
            let active = self.active().count();
            if waiting.is_empty() && active == 0 {
                return Ok(());
            }
            let rest = self.submit_some(waiting)?;
            if let (Some(reason), true) = (self.short.take(), self.active().count() == 0) {
                (self.asked.tell)(&reason);
                self.skip(&rest, &reason)?;
                continue;
            }
            todo = Some(rest);
            self.pause(wait);
            // Hosts of a pool tell how they are by themselves; Slurm is asked.
            let longest = match self.active().any(|job| job.host.is_none()) {
                true => LONGEST_WAIT,
                false => LONGEST_WAIT_FOR_HOSTS,
            };
            wait = wait.mul_f64(1.5).min(longest);
        }
    }

    fn active(&self) -> impl Iterator<Item = &Job> {
        self.jobs.jobs.iter().filter(|job| job.ended.is_none())
    }

    /// Returns the shards that no job executes yet, in their order.
    fn todo(&self) -> Result<Vec<Shard>, ClusterError> {
        let failed = !self.elsewhere.failures.is_empty() || self.has_failed_record()?;
        if failed && !self.asked.keep_going {
            return Ok(Vec::new());
        }
        let options = PlanOptions {
            elsewhere: Some(Arc::new(self.elsewhere.clone())),
            ..self.asked.options.clone()
        };
        let asked = &self.asked;
        let mut todo = shards(asked.experiment, asked.registry, asked.store, &options)?;
        let busy: BTreeSet<WrittenCell> = self
            .active()
            .flat_map(|job| job.cells.iter().map(|c| c.name.clone()))
            .collect();
        let failures = &self.elsewhere.failures;
        // A study that may stop early decides after each block.
        let until = asked
            .experiment
            .design
            .as_ref()
            .is_some_and(|d| d.until.is_some());
        if until && let Some(first) = todo.iter().filter_map(|shard| shard.block).min() {
            todo.retain(|shard| shard.block.is_none_or(|block| block == first));
        }
        todo.retain(|shard| {
            let mut cells = shard.cells.iter().map(|c| c.name.clone());
            cells.all(|cell| !busy.contains(&cell) && !failures.contains_key(&cell))
        });
        Ok(todo)
    }

    fn has_failed_record(&self) -> Result<bool, ClusterError> {
        for digest in self.elsewhere.records.values() {
            let record = pipeline::record::Record::parse(&self.asked.store.get(digest)?);
            if record.is_ok_and(|record| record.status != CellStatus::Ok) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Finds the jobs of an earlier run again. What hosts of a pool executed ended with it.
    fn find_again(&mut self) -> Result<(), ClusterError> {
        self.let_go()?;
        let active = self.active().count();
        if active > 0 {
            let jobs = if active == 1 { "job" } else { "jobs" };
            (self.asked.tell)(&format!(
                "an earlier run left {active} {jobs} in Slurm; this run looks after them"
            ));
        }
        Ok(())
    }

    /// Takes in the records that are complete in the shared store; returns whether there are new ones.
    fn take_in(&mut self) -> Result<bool, ClusterError> {
        let documents = self.asked.remote.documents(&name(&self.jobs.run, "done"))?;
        let new: Vec<String> = documents
            .into_iter()
            .filter(|d| !d.starts_with('.') && !self.read.contains(d))
            .collect();
        let mut changed = false;
        for document in new {
            let whole = name(&self.jobs.run, &format!("done/{document}"));
            let Some(done) = read::<DoneCell>(self.asked.remote, &whole)? else {
                continue;
            };
            let (remote, store) = (self.asked.remote, self.asked.store);
            // They are this study's own, wherever they were made.
            let report =
                unwatched(|watch| remote.pull(store, &[done.record], &done.maker, view, watch))?;
            if let Some((_, error)) = report.broken.into_iter().next() {
                return Err(error.into());
            }
            self.journal.note([&done.record])?;
            let shard = document.split('.').next().unwrap_or_default().to_owned();
            let cell = done.name;
            // What several shards executed, such as the preparation of the engine, counts as the first left it.
            let of_other = self
                .source
                .get(&cell)
                .is_some_and(|source| *source != shard);
            let first_failed = of_other && self.has_failed(&cell)?;
            if !of_other || (first_failed && done.status == CellStatus::Ok) {
                self.elsewhere.records.insert(cell.clone(), done.record);
                self.elsewhere.failures.remove(&cell);
                self.source.insert(cell, shard);
            }
            self.read.insert(document);
            changed = true;
        }
        Ok(changed)
    }

    fn has_failed(&self, cell: &WrittenCell) -> Result<bool, ClusterError> {
        let Some(digest) = self.elsewhere.records.get(cell) else {
            return Ok(false);
        };
        let record = pipeline::record::Record::parse(&self.asked.store.get(digest)?);
        Ok(record.is_ok_and(|record| record.status != CellStatus::Ok))
    }

    /// Looks how the jobs are; returns whether one ended.
    fn look(&mut self) -> Result<bool, ClusterError> {
        if self.active().count() == 0 {
            return Ok(false);
        }
        let mut ended = self.look_for_ends()?;
        ended |= self.look_at_hosts()?;
        if self.active().all(|job| job.host.is_some()) {
            return Ok(ended);
        }
        let Some(states) = self.queue.jobs()? else {
            self.tell_unreachable("squeue", &[]);
            return Ok(ended);
        };
        if std::mem::take(&mut self.unreachable) {
            (self.asked.tell)("Slurm's controller answers again");
        }
        for index in 0..self.jobs.jobs.len() {
            let job = &self.jobs.jobs[index];
            if job.ended.is_none() && job.host.is_none() {
                ended |= self.look_at(index, &states)?;
            }
        }
        Ok(ended)
    }

    /// Looks at one job; returns whether it ended.
    fn look_at(&mut self, index: usize, states: &[JobState]) -> Result<bool, ClusterError> {
        let entry = &self.jobs.jobs[index];
        let job_name = self.job_name(&entry.name);
        let Some(job) = entry.job.clone() else {
            return self.find_or_ask(index, &job_name, states);
        };
        let found = states.iter().find(|state| state.job == job).cloned();
        let found = found.or_else(|| self.queue.account(&job));
        let state = match found {
            Some(state) if state.phase() == Phase::Active => {
                self.looks.remove(&job);
                self.note_state(index, state)?;
                return Ok(false);
            }
            Some(state) => state,
            None => JobState {
                job: job.clone(),
                state: "UNKNOWN".to_owned(),
                reason: "Slurm no longer knows it".to_owned(),
                node: entry.node.clone(),
                ..JobState::default()
            },
        };
        let looks = self.looks.entry(job.clone()).or_default();
        *looks += 1;
        if *looks < LOOKS {
            return Ok(false);
        }
        self.take_in()?;
        self.ended_early(index, &state)?;
        Ok(true)
    }

    /// Finds a job whose number was not noted: the run was killed, or the controller, before it was known.
    fn find_or_ask(
        &mut self,
        index: usize,
        job_name: &str,
        states: &[JobState],
    ) -> Result<bool, ClusterError> {
        let taken = name(
            &self.jobs.run,
            &format!("{}.taken", self.jobs.jobs[index].name),
        );
        let found = states.iter().find(|state| state.name == job_name);
        let number = match found {
            Some(state) => Some(state.job.clone()),
            None => read::<Taken>(self.asked.remote, &taken)?.map(|taken| taken.job),
        };
        match number {
            Some(number) => {
                self.jobs.jobs[index].job = Some(number);
                self.file.write(&self.jobs)?;
            }
            None => self.ask_for(index)?,
        }
        Ok(false)
    }

    fn note_state(&mut self, index: usize, state: JobState) -> Result<(), ClusterError> {
        let entry = &mut self.jobs.jobs[index];
        let again = begins_again(&entry.state, &state.state);
        let changed = entry.state != state.state || entry.node != state.node;
        if again {
            (self.asked.tell)(&format!(
                "Slurm job {} was put back into the queue ({})",
                state.job,
                match state.reason.as_str() {
                    "" => "no reason given",
                    reason => reason,
                }
            ));
        }
        entry.seconds = state.has_run();
        entry.state = state.state;
        entry.node = state.node;
        entry.elapsed = state.elapsed;
        entry.waited = state.waited;
        match changed {
            true => self.file.write(&self.jobs),
            false => Ok(()),
        }
    }

    fn pause(&self, length: Duration) {
        let end = Instant::now() + length;
        while Instant::now() < end && !self.is_cancelled() {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Tells whether a job was put back into the queue between two looks. It may have been seen while it ended, too.
fn begins_again(before: &str, now: &str) -> bool {
    !matches!(before, "" | "PENDING") && now == "PENDING"
}

/// Reads what a shard's placement asks for.
pub(crate) fn placement_of(shard: &Shard) -> Result<Placement, ClusterError> {
    serde_json::from_value(shard.placement.clone()).map_err(|e| {
        ClusterError::Broken(format!(
            "the place of `{}` cannot be read: {e}",
            shard.stage
        ))
    })
}

pub(crate) fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

/// Returns cells as messages name them.
fn cells_text(cells: &[ShardCell]) -> String {
    match cells {
        [] => "nothing".to_owned(),
        [one] => one.name.to_string(),
        [first, rest @ ..] => format!("{} and {}", first.name, counted(rest.len(), "more cell")),
    }
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
