//! Begins shards: writes their order, writes the job down, then requests a machine.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use artifacts::Digest;
use pipeline::record::view;
use pipeline::{Json, Shard, ShardCell};
use places::kubernetes::Launch;
use places::{AT_ONCE, Kubernetes, Placement};

use super::{Cluster, cells_text, unwatched};
use crate::budget::terms_of;
use crate::document::{Ended, FORMAT, Order, name, put};
use crate::error::ClusterError;
use crate::journal::{Job, shard_name};
use crate::queue::{Scheduler, Silence, Target, submit_to_slurm};
use crate::reach::Program;

/// Shards that wait for a machine, in their order.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) shards: VecDeque<Shard>,
    /// Whether all of them have the same placement.
    is_uniform: bool,
}

impl Waiting {
    pub(super) fn new(shards: Vec<Shard>) -> Self {
        let mut pairs = shards.windows(2);
        let same = |pair: &[Shard]| Arc::ptr_eq(&pair[0].placement, &pair[1].placement);
        Self {
            is_uniform: pairs.all(same),
            shards: shards.into(),
        }
    }
}

impl Cluster<'_> {
    /// Submits shards while their schedulers have fewer jobs than the study permits, or hosts are free; returns the
    /// rest. If all shards have the same placement, it stops at the first shard that cannot begin.
    pub(super) fn submit_some(&mut self, mut waiting: Waiting) -> Result<Waiting, ClusterError> {
        let mut rest = Vec::new();
        let mut committed = self.committed();
        let mut queued: BTreeMap<&'static str, usize> = BTreeMap::new();
        for scheduler in self.jobs.active().filter_map(Job::scheduler) {
            *queued.entry(scheduler.key()).or_default() += 1;
        }
        // Shards for one scheduler keep their order.
        let mut full: BTreeSet<&'static str> = BTreeSet::new();
        let mut free: HashMap<usize, usize> = HashMap::new();
        while let Some(shard) = waiting.shards.pop_front() {
            self.work.shards += 1;
            let placement = self.placements.of(&shard)?;
            let can_begin = match &*placement {
                Placement::Slurm(_) | Placement::Kubernetes(_) => {
                    let key = key_of(&placement);
                    let count = queued.get(key).copied().unwrap_or_default();
                    if count >= at_once(&placement) {
                        full.insert(key);
                    }
                    usize::from(!full.contains(key))
                }
                Placement::Pool(pool) => *free
                    .entry(Arc::as_ptr(&placement).addr())
                    .or_insert_with(|| self.free_hosts(pool)),
            };
            if can_begin == 0 && waiting.is_uniform {
                rest.push(shard);
                break;
            }
            let terms = terms_of(&placement);
            if can_begin == 0 || !self.can_afford(&shard, terms.as_ref(), &committed)? {
                rest.push(shard);
                continue;
            }
            let (job, folder) = match &*placement {
                Placement::Slurm(slurm) => {
                    let options = slurm.options(slurm.node(shard.turn), shard.timeout);
                    let job = Job {
                        options,
                        terms,
                        ..Job::default()
                    };
                    (job, slurm.folder.clone())
                }
                Placement::Kubernetes(kubernetes) => {
                    let job = Job {
                        kubernetes: Some(Target::of(kubernetes)),
                        manifest: Some(self.manifest(kubernetes, &shard)?),
                        terms,
                        ..Job::default()
                    };
                    (job, kubernetes.folder.clone())
                }
                Placement::Pool(pool) => {
                    let Some(host) = self.free_host(pool, &shard) else {
                        rest.push(shard);
                        continue;
                    };
                    let job = Job {
                        host: Some(host),
                        terms,
                        config: pool.config.as_ref().map(|(file, _)| file.clone()),
                        ..Job::default()
                    };
                    (job, None)
                }
            };
            if job.host.is_none() {
                *queued.entry(key_of(&placement)).or_default() += 1;
            }
            self.submit(&shard, job, folder)?;
            let begun = self.jobs.jobs.last().expect("it was submitted");
            if let Some(terms) = &begun.terms {
                let cost = terms.cost(begun.expected);
                *committed.entry(terms.currency.clone()).or_default() += cost;
            }
            if begun.host.is_some() {
                free.entry(Arc::as_ptr(&placement).addr())
                    .and_modify(|free| *free = free.saturating_sub(1));
            }
        }
        for shard in rest.into_iter().rev() {
            waiting.shards.push_front(shard);
        }
        Ok(waiting)
    }

    /// Writes a shard's order, writes the job down, then submits it.
    fn submit(
        &mut self,
        shard: &Shard,
        job: Job,
        folder: Option<String>,
    ) -> Result<(), ClusterError> {
        let name_of = shard_name(self.jobs.jobs.len() + 1);
        let earlier: Vec<Ended> = self
            .jobs
            .with_cells(&shard.cells)
            .filter_map(|job| job.ended.clone())
            .collect();
        let measured = shard
            .cells
            .iter()
            .filter(|c| c.class == pipeline::Class::Measurement);
        let mut only: Vec<String> = measured.map(|c| c.name.to_string()).collect();
        if only.is_empty() {
            only = shard.cells.iter().map(|c| c.name.to_string()).collect();
        }
        let order = Order {
            format: FORMAT,
            study: self.study,
            only,
            cells: shard.cells.clone(),
            by: self.asked.by.clone(),
            told_by: self.asked.me.by.clone(),
            folder,
            program: self.sha256_for(&job)?,
            earlier: earlier
                .into_iter()
                .map(|ended| Ended {
                    details: BTreeMap::new(),
                    ..ended
                })
                .collect(),
        };
        let expected = self.expect(shard)?;
        self.upload_known(&shard.cells)?;
        put(
            self.asked.remote,
            &name(&self.jobs.run, &format!("{name_of}.json")),
            &order,
        )?;
        let index = self.jobs.push(Job {
            name: name_of,
            cells: shard.cells.clone(),
            block: shard.block,
            retries: shard.retries,
            expected,
            ..job
        });
        self.note([index])?;
        self.ask_for(index)
    }

    /// Puts records into the shared store that a machine may find still valid.
    fn upload_known(&self, cells: &[ShardCell]) -> Result<(), ClusterError> {
        let records: Vec<Digest> = cells.iter().filter_map(|cell| cell.record).collect();
        let whole = |record: &Digest| {
            let bytes = self.asked.store.get_document(record).ok()?;
            let view = view(record, &bytes)?;
            view.references()
                .all(|object| self.asked.store.contains(object))
                .then_some(*record)
        };
        let complete: Vec<Digest> = records.iter().filter_map(whole).collect();
        if complete.is_empty() {
            return Ok(());
        }
        let (remote, store, me) = (self.asked.remote, self.asked.store, &self.asked.me);
        unwatched(|watch| remote::push_records(remote, store, &complete, me, watch))?;
        Ok(())
    }

    pub(super) fn job_name(&self, shard: &str) -> String {
        format!("benchtrail-{}-{shard}", self.jobs.run)
    }

    /// Requests a machine for a shard.
    pub(super) fn ask_for(&mut self, index: usize) -> Result<(), ClusterError> {
        let job = &self.jobs.jobs[index];
        match (job.host.clone(), job.scheduler()) {
            (Some(host), _) => self.ask_host(index, host),
            (None, Some(Scheduler::Slurm)) => self.ask_slurm(index),
            (None, Some(Scheduler::Kubernetes(target))) => self.ask_kubernetes(index, &target),
            (None, None) => Ok(()),
        }
    }

    /// Requests a machine from Slurm, and writes down the job's number at once.
    fn ask_slurm(&mut self, index: usize) -> Result<(), ClusterError> {
        let shard = self.jobs.jobs[index].name.clone();
        let job_name = self.job_name(&shard);
        let log = self.reach.log(&self.jobs.run, &shard);
        let program = self.program()?;
        let script = self.reach.script(&program, &self.jobs.run, &shard);
        let mut arguments = vec![
            "--parsable".to_owned(),
            format!("--job-name={job_name}"),
            format!("--output={}", slurm_path(&log)),
            "--open-mode=append".to_owned(),
            "--chdir=/".to_owned(),
        ];
        arguments.extend(self.jobs.jobs[index].options.iter().cloned());
        arguments.push(format!("--wrap={script}"));
        // A missing answer does not mean that the job was not submitted. The next look finds it by its name, or submits
        // it again.
        let job = match submit_to_slurm(&arguments)? {
            Ok(job) => job,
            Err(silence) => {
                self.tell_unreachable(&Scheduler::Slurm, &silence);
                return Ok(());
            }
        };
        let entry = &mut self.jobs.jobs[index];
        let node = entry
            .options
            .iter()
            .find_map(|o| o.strip_prefix("--nodelist="));
        let node = node.map_or(String::new(), |node| format!(" for {node}"));
        let line = format!("Slurm job {job}{node}: {}", cells_text(&entry.cells));
        entry.job = Some(job);
        self.note([index])?;
        (self.asked.tell)(&line);
        Ok(())
    }

    /// Creates a Kubernetes Job. Its name is known in advance, so a lost answer loses nothing.
    fn ask_kubernetes(&mut self, index: usize, target: &Target) -> Result<(), ClusterError> {
        let entry = &self.jobs.jobs[index];
        let name = self.job_name(&entry.name);
        let Some(manifest) = &entry.manifest else {
            return Err(ClusterError::Broken(format!(
                "the manifest of the Job {name} is missing"
            )));
        };
        if let Err(silence) = target.create(manifest)? {
            self.tell_unreachable(&Scheduler::Kubernetes(target.clone()), &silence);
            return Ok(());
        }
        let line = format!("Kubernetes job {name}: {}", cells_text(&entry.cells));
        self.jobs.jobs[index].job = Some(name);
        self.note([index])?;
        (self.asked.tell)(&line);
        Ok(())
    }

    /// Returns the manifest of the next job.
    fn manifest(&mut self, kubernetes: &Kubernetes, shard: &Shard) -> Result<Json, ClusterError> {
        let name = shard_name(self.jobs.jobs.len() + 1);
        let program = self.program()?;
        Ok(kubernetes.manifest(&Launch {
            name: &self.job_name(&name),
            run: &self.jobs.run,
            shard: &name,
            experiment: &self.asked.experiment.name,
            node: kubernetes.node(shard.turn),
            limit: shard.timeout,
            command: &self.reach.command(&program, &self.jobs.run, &name),
        }))
    }

    /// Returns the SHA-256 that the program in a pod must have, if the image contains it.
    fn sha256_for(&mut self, job: &Job) -> Result<Option<String>, ClusterError> {
        Ok(match job.kubernetes {
            Some(_) => self.program()?.sha256().map(str::to_owned),
            None => None,
        })
    }

    /// Returns this program as the machines find it.
    fn program(&mut self) -> Result<Program, ClusterError> {
        Ok(match &self.program {
            Some(program) => program.clone(),
            None => {
                let program = self.reach.program(&self.asked.binary)?;
                self.program.insert(program).clone()
            }
        })
    }

    /// Tells the user once that a scheduler does not answer.
    pub(super) fn tell_unreachable(&mut self, scheduler: &Scheduler, silence: &Silence) {
        if self.unreachable.insert(scheduler.clone()) {
            (self.asked.tell)(&format!(
                "warning: {} does not answer `{}`{}; jobs continue without it, and Benchtrail asks it again",
                scheduler.server(),
                silence.command,
                match silence.said.as_str() {
                    "" => String::new(),
                    said => format!(" ({said})"),
                }
            ));
        }
    }
}

/// Returns the key of a placement's scheduler.
fn key_of(placement: &Placement) -> &'static str {
    Scheduler::of(placement).map_or("pool", |scheduler| scheduler.key())
}

/// Returns the largest number of jobs of a study that a scheduler has at once.
fn at_once(placement: &Placement) -> usize {
    let given = match placement {
        Placement::Slurm(slurm) => slurm.at_once,
        Placement::Kubernetes(kubernetes) => kubernetes.at_once,
        Placement::Pool(_) => None,
    };
    given.unwrap_or(AT_ONCE) as usize
}

/// Escapes a path for `--output`, where `%` starts one of Slurm's patterns.
fn slurm_path(path: &Path) -> String {
    path.display().to_string().replace('%', "%%")
}
