//! The coordinator's side: it submits jobs, looks after them, and takes in their records.

mod ends;
mod hosts;
mod look;
mod money;
mod submit;
mod take_in;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use artifacts::{Digest, Journal, Maker, Store, counted};
use pipeline::executable::find;
use pipeline::lock::lock_path;
use pipeline::place::WrittenCell;
use pipeline::{Elsewhere, Experiment, Permit, PlanOptions, Registry, Shard, ShardCell, shards};
use places::Placement;
use remote::{Progress, Remote, Watch};

use crate::budget::{Durations, Spent};
use crate::error::ClusterError;
use crate::journal::{Job, Jobs, JobsFile, look};
use crate::placements::Placements;
use crate::pool::Pool;
use crate::prepare::{digest_of, drop_left, new_run, upload_study};
use crate::queue::Scheduler;
use crate::reach::{Program, Reach};

use submit::Waiting;

/// How long the coordinator waits between two looks: at first, and at most.
const FIRST_WAIT: Duration = Duration::from_millis(300);
const LONGEST_WAIT: Duration = Duration::from_secs(20);
const LONGEST_WAIT_FOR_HOSTS: Duration = Duration::from_secs(1);

/// The additional wait between two looks for each active job. A look takes longer with more jobs, and must use only a
/// small part of one processor.
const WAIT_FOR_JOB: Duration = Duration::from_millis(1);

/// The request of a run to the cluster.
pub struct Asked<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// The stage kinds.
    pub registry: &'a Registry,
    /// The local store.
    pub store: &'a Store,
    /// The store that the machines share.
    pub remote: &'a Remote,
    /// The options of the plan.
    pub options: PlanOptions,
    /// The user's consent.
    pub permit: Permit,
    /// The person who runs it, as the shared store records them.
    pub me: Maker,
    /// Their name in records, if they want it there.
    pub by: Option<String>,
    /// Whether to go on with other shards when one fails.
    pub keep_going: bool,
    /// Set to stop the run.
    pub cancelled: &'a AtomicBool,
    /// Receives messages about jobs.
    pub tell: &'a dyn Fn(&str),
    /// This program's own file, which the machines execute.
    pub binary: PathBuf,
    /// The search path, for a message that names missing programs.
    pub path: std::ffi::OsString,
}

/// What happened since the study was planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum News {
    #[default]
    None,
    /// Records arrived, or jobs ended.
    Progress,
    /// A shard that ended early must be retried.
    Again,
}

/// Where to look for documents of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    /// Under the next number of each active job. Other names are ignored.
    Next,
    /// In the list of everything that the run's machines have put. This finds what the other search misses: documents
    /// after a number that a failed put left out, and those put after their job was considered over.
    Listed,
}

/// The result of a run.
#[derive(Debug)]
pub struct Came {
    /// The records, and the cells without one.
    pub elsewhere: Arc<Elsewhere>,
    /// Held until the study's lock names the records.
    journal: Journal,
    file: JobsFile,
    run: String,
    shards: usize,
    /// The work that it took.
    pub work: Work,
}

/// The operations of a coordinator, counted to show how its work grows with the study.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// How often the study was planned.
    pub plans: u64,
    /// How often the coordinator looked at its jobs.
    pub looks: u64,
    /// Names of documents in the shared store that were requested or listed.
    pub names: u64,
    /// Bytes written to the file of jobs.
    pub written: u64,
    /// Shards that were checked for whether they may begin.
    pub shards: u64,
}

impl Came {
    /// Forgets the jobs, because the study's lock names their records.
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
    pool: Pool,
    reach: Reach,
    program: Option<Program>,
    study: Digest,
    jobs: Jobs,
    file: JobsFile,
    journal: Journal,
    elsewhere: Elsewhere,
    /// The shard that the record of each cell came from.
    source: BTreeMap<WrittenCell, String>,
    /// Cells whose record in use is not ok.
    failed: BTreeSet<WrittenCell>,
    /// Documents of records read so far.
    read: BTreeSet<String>,
    /// The number of each job's next document of a record, by the job's index.
    next: HashMap<usize, u32>,
    /// The remaining shards of the study, if it was planned and nothing has happened since.
    planned: Option<Vec<Shard>>,
    news: News,
    /// Whether a job was considered over before its end was known. Its machine may still put documents.
    is_doubtful: bool,
    placements: Placements,
    /// Jobs with changes that are not written yet.
    changed: BTreeSet<usize>,
    work: Work,
    /// How many looks in a row found a job over without an end.
    looks: BTreeMap<String, u32>,
    /// Since when a job has a machine, but does not start there, by the job's index.
    stuck: HashMap<usize, Instant>,
    /// The schedulers that did not answer at the last look. The user already knows.
    unreachable: BTreeSet<Scheduler>,
    spent: Spent,
    durations: Durations,
    /// Why the budget permits no other launch now.
    short: Option<String>,
}

/// Runs a transfer that reports no progress and cannot be stopped.
pub(crate) fn unwatched<T>(transfer: impl FnOnce(Watch<'_>) -> T) -> T {
    transfer(Watch {
        cancelled: &AtomicBool::new(false),
        listener: &|_: Progress| (),
    })
}

impl<'a> Cluster<'a> {
    /// Prepares the shared store, and finds the jobs of an earlier run of the study. Returns `None` if nothing is to be
    /// executed elsewhere, and no jobs were left.
    ///
    /// # Errors
    /// If the study cannot be planned, or a store or a scheduler refuses.
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
        let left_jobs = left.iter().flat_map(Jobs::active);
        let mut schedulers: BTreeSet<Scheduler> = left_jobs.filter_map(Job::scheduler).collect();
        let mut placements = Placements::default();
        for shard in &todo {
            schedulers.extend(Scheduler::of(&*placements.of(shard)?));
        }
        for program in schedulers.iter().flat_map(Scheduler::programs) {
            if find(program, std::env::split_paths(&asked.path)).is_none() {
                let said = "it is not on the search path".to_owned();
                return Err(ClusterError::Refused((*program).to_owned(), said));
            }
        }
        let reach = Reach::of(asked.remote)?;
        for shard in &todo {
            if let Placement::Kubernetes(kubernetes) = &*placements.of(shard)? {
                reach.check_pod(kubernetes)?;
            }
        }
        // Jobs of an earlier run are waited for, whatever their scheduler answers now.
        if left.is_none() {
            schedulers.iter().try_for_each(Scheduler::greet)?;
        }
        let (file, left) = JobsFile::take(asked.store.root(), &lock)?;
        let program = match schedulers.is_empty() {
            false => Some(reach.program(&asked.binary)?),
            true => None,
        };
        let study = upload_study(&asked)?;
        let experiment = digest_of(asked.experiment);
        let jobs = match left {
            Some(jobs) if jobs.experiment == experiment && jobs.remote == reach.word() => jobs,
            Some(other) => {
                drop_left(&asked, &other)?;
                Jobs::new(new_run(&lock), reach.word(), experiment)
            }
            None => Jobs::new(new_run(&lock), reach.word(), experiment),
        };
        let journal = asked.store.journal(&lock)?;
        let spent = Spent::read(asked.store.root(), &lock)?;
        Ok(Some(Self {
            asked,
            pool: Pool::default(),
            reach,
            program,
            study,
            jobs,
            file,
            journal,
            elsewhere: Elsewhere::default(),
            source: BTreeMap::new(),
            failed: BTreeSet::new(),
            read: BTreeSet::new(),
            next: HashMap::new(),
            planned: Some(todo),
            news: News::None,
            is_doubtful: false,
            placements,
            changed: BTreeSet::new(),
            work: Work {
                plans: 1,
                ..Work::default()
            },
            looks: BTreeMap::new(),
            stuck: HashMap::new(),
            unreachable: BTreeSet::new(),
            spent,
            durations: Durations::default(),
            short: None,
        }))
    }

    /// Executes elsewhere everything that can be; returns the result.
    ///
    /// # Errors
    /// If a store or a scheduler refuses. Submitted jobs are then cancelled; their records stay.
    pub fn run(mut self) -> Result<Came, ClusterError> {
        let done = self.work();
        let cancelled = match done.is_err() || self.is_cancelled() {
            true => self.cancel(),
            false => Ok(()),
        };
        // The first error explains more.
        done?;
        cancelled?;
        Ok(Came {
            elsewhere: Arc::new(self.elsewhere),
            journal: self.journal,
            work: Work {
                written: self.file.written(),
                ..self.work
            },
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
        self.take_in(Search::Listed)?;
        let mut wait = FIRST_WAIT;
        let mut waiting = Waiting::default();
        let mut is_planned = false;
        loop {
            let mut changed = self.take_in(Search::Next)?;
            changed |= self.look()?;
            if changed {
                self.learn(News::Progress);
            }
            if self.is_cancelled() {
                return Ok(());
            }
            if let Some(reason) = self.overspent() {
                (self.asked.tell)(&reason);
                self.cancel()?;
                let rest = self.todo()?;
                self.skip(rest.iter(), &reason);
                is_planned = false;
                continue;
            }
            if changed {
                wait = FIRST_WAIT;
            }
            if self.has_failed() && !self.asked.keep_going {
                waiting = Waiting::default();
                is_planned = true;
                self.news = News::None;
            }
            let is_due = match self.news {
                News::None => false,
                News::Progress => waiting.shards.is_empty() && self.may_go_on(),
                News::Again => true,
            };
            if !is_planned || is_due {
                waiting = Waiting::new(self.todo()?);
                is_planned = true;
            }
            if waiting.shards.is_empty() && self.jobs.active().len() == 0 {
                if std::mem::take(&mut self.is_doubtful) && self.take_in(Search::Listed)? {
                    continue;
                }
                return Ok(());
            }
            waiting = self.submit_some(waiting)?;
            let is_idle = self.jobs.active().len() == 0;
            if let (Some(reason), true) = (self.short.take(), is_idle) {
                (self.asked.tell)(&reason);
                self.skip(waiting.shards.iter(), &reason);
                is_planned = false;
                continue;
            }
            // Hosts of a pool report their state; a scheduler must be asked.
            let mut schedulers = self.jobs.active().filter_map(Job::scheduler);
            let longest = match schedulers.next().is_some() {
                true => LONGEST_WAIT,
                false => LONGEST_WAIT_FOR_HOSTS,
            };
            let at_work = u32::try_from(self.jobs.active().len()).unwrap_or(u32::MAX);
            self.pause((wait + WAIT_FOR_JOB.saturating_mul(at_work)).min(longest));
            wait = wait.mul_f64(1.5).min(longest);
        }
    }

    /// Returns whether planning again may find something to begin after everything planned has begun. Planning a large
    /// study takes long, so the run does not plan again while jobs are active that the plan would wait for.
    fn may_go_on(&self) -> bool {
        let design = self.asked.experiment.design.as_ref();
        match design.is_some_and(|design| design.until.is_some()) {
            // A study that may stop early decides after each block.
            true => self.jobs.active().all(|job| job.block.is_none()),
            false => self.jobs.active().len() == 0,
        }
    }

    fn learn(&mut self, news: News) {
        self.news = self.news.max(news);
    }

    /// Returns whether a failure stops the run.
    fn has_failed(&self) -> bool {
        !self.elsewhere.failures.is_empty() || !self.failed.is_empty()
    }

    /// Returns the shards that no job executes yet, in their order.
    fn todo(&mut self) -> Result<Vec<Shard>, ClusterError> {
        if std::mem::take(&mut self.news) != News::None {
            self.planned = None;
        }
        if self.has_failed() && !self.asked.keep_going {
            return Ok(Vec::new());
        }
        let mut todo = match self.planned.take() {
            Some(todo) => todo,
            None => self.plan()?,
        };
        let active = self.jobs.active();
        let busy: HashSet<WrittenCell<&str>> = active
            .flat_map(|job| job.cells.iter().map(|cell| cell.name.as_ref()))
            .collect();
        let failures = &self.elsewhere.failures;
        // A study that may stop early decides after each block.
        let design = self.asked.experiment.design.as_ref();
        let until = design.is_some_and(|d| d.until.is_some());
        if until && let Some(first) = todo.iter().filter_map(|shard| shard.block).min() {
            todo.retain(|shard| shard.block.is_none_or(|block| block == first));
        }
        todo.retain(|shard| {
            let mut cells = shard.cells.iter().map(|cell| &cell.name);
            cells.all(|cell| !busy.contains(&cell.as_ref()) && !failures.contains_key(cell))
        });
        Ok(todo)
    }

    /// Plans with everything known so far.
    fn plan(&mut self) -> Result<Vec<Shard>, ClusterError> {
        self.work.plans += 1;
        // Moved into the plan and back, because a copy would be as large as the study.
        let elsewhere = Arc::new(std::mem::take(&mut self.elsewhere));
        let options = PlanOptions {
            elsewhere: Some(Arc::clone(&elsewhere)),
            ..self.asked.options.clone()
        };
        let asked = &self.asked;
        let todo = shards(asked.experiment, asked.registry, asked.store, &options);
        drop(options);
        self.elsewhere = Arc::unwrap_or_clone(elsewhere);
        Ok(todo?)
    }

    /// Takes over the jobs of an earlier run. Work on hosts of a pool ended with that run.
    fn find_again(&mut self) -> Result<(), ClusterError> {
        self.let_go()?;
        let mut left: BTreeMap<&str, usize> = BTreeMap::new();
        for scheduler in self.jobs.active().filter_map(Job::scheduler) {
            *left.entry(scheduler.name()).or_default() += 1;
        }
        for (scheduler, count) in left {
            (self.asked.tell)(&format!(
                "an earlier run left {} in {scheduler}; this run takes them over",
                counted(count, "job")
            ));
        }
        Ok(())
    }

    /// Writes the current state of some jobs.
    fn note(&mut self, changed: impl IntoIterator<Item = usize>) -> Result<(), ClusterError> {
        self.file.note(&mut self.jobs, changed)
    }

    fn pause(&self, length: Duration) {
        let end = Instant::now() + length;
        while Instant::now() < end && !self.is_cancelled() {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Returns the names of cells for messages.
fn cells_text(cells: &[ShardCell]) -> String {
    match cells {
        [] => "nothing".to_owned(),
        [one] => one.name.to_string(),
        [first, rest @ ..] => format!("{} and {}", first.name, counted(rest.len(), "more cell")),
    }
}
