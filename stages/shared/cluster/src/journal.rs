//! The jobs of a run, kept beside the local store so that the next run finds them again.
//!
//! The file starts with a line for the run. After that, each change of a job adds a line with the job's new state. The
//! cost of a change therefore does not depend on the number of jobs. Only a job's first line contains its cells and its
//! manifest.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use artifacts::Digest;
use pipeline::place::WrittenCell;
use pipeline::{Json, ShardCell};
use places::{NamedHost, Terms};
use serde::{Deserialize, Serialize};

use crate::document::Ended;
use crate::error::ClusterError;
use crate::queue::{Scheduler, Target};

/// The version of the file. Version 1 was one document of all jobs.
const JOBS_FORMAT: u32 = 2;

/// The file is rewritten when the lines added since have this many times the bytes of those before.
const GROWTH: u64 = 2;

/// Files up to this size (bytes) are not rewritten.
const SMALL: u64 = 1 << 20;

/// A job of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The shard's name in the shared store. It is unique among the jobs.
    pub(crate) name: String,
    /// The scheduler's number or name of the job, once it is known.
    pub(crate) job: Option<String>,
    /// The cells that the coordinator waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) cells: Vec<ShardCell>,
    /// The block of the design.
    pub(crate) block: Option<usize>,
    /// How often a shard that ended early may be retried.
    pub(crate) retries: u32,
    /// The options of `sbatch` that the study decides.
    pub(crate) options: Vec<String>,
    /// The state and the machine that the scheduler reported last.
    pub(crate) state: String,
    pub(crate) node: String,
    pub(crate) elapsed: String,
    #[serde(default)]
    pub(crate) waited: String,
    /// The host of the pool; `None` for a job of a scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<NamedHost>,
    /// The Kubernetes cluster, for a Kubernetes job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kubernetes: Option<Target>,
    /// The manifest of a Kubernetes job. If an answer was lost, the job is created again from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) manifest: Option<Json>,
    /// The scheduler's reason for the state.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    /// The OpenSSH configuration file for the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) config: Option<PathBuf>,
    /// The price of its machine, if the study states one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) terms: Option<Terms>,
    /// Its expected duration, from earlier executions, s.
    #[serde(default)]
    pub(crate) expected: f64,
    /// How long it has run so far, as far as known, s.
    #[serde(default)]
    pub(crate) seconds: f64,
    /// When it began to run, in seconds since 1970, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) began: Option<i64>,
    /// How it ended.
    pub(crate) ended: Option<Ended>,
    /// Whether the results of all its cells are known.
    pub(crate) complete: bool,
}

impl Job {
    /// Returns the scheduler that has the job; `None` for the host of a pool.
    pub(crate) fn scheduler(&self) -> Option<Scheduler> {
        match (&self.host, &self.kubernetes) {
            (Some(_), _) => None,
            (None, Some(target)) => Some(Scheduler::Kubernetes(target.clone())),
            (None, None) => Some(Scheduler::Slurm),
        }
    }
}

/// The first line of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Head {
    format: u32,
    run: String,
    remote: PathBuf,
    experiment: Digest,
}

/// All jobs of a run of one study.
#[derive(Clone, Debug)]
pub(crate) struct Jobs {
    /// The name of the run in the shared store.
    pub(crate) run: String,
    /// The shared store.
    pub(crate) remote: PathBuf,
    /// The digest of the experiment.
    pub(crate) experiment: Digest,
    /// The jobs in the order of their submission. [`Jobs::push`] and [`Jobs::end`] update the indices.
    pub(crate) jobs: Vec<Job>,
    /// The jobs that have not ended.
    active: BTreeSet<usize>,
    /// The jobs of each cell.
    of_cell: HashMap<WrittenCell, Vec<usize>>,
}

impl Jobs {
    pub(crate) fn new(run: String, remote: PathBuf, experiment: Digest) -> Self {
        Self {
            run,
            remote,
            experiment,
            jobs: Vec::new(),
            active: BTreeSet::new(),
            of_cell: HashMap::new(),
        }
    }

    /// Adds a job; returns its index.
    pub(crate) fn push(&mut self, job: Job) -> usize {
        let index = self.jobs.len();
        for cell in &job.cells {
            let of_cell = self.of_cell.entry(cell.name.clone()).or_default();
            of_cell.push(index);
        }
        if job.ended.is_none() {
            self.active.insert(index);
        }
        self.jobs.push(job);
        index
    }

    /// Records how a job ended.
    pub(crate) fn end(&mut self, index: usize, ended: Ended) {
        self.active.remove(&index);
        self.jobs[index].ended = Some(ended);
    }

    /// Returns the jobs that have not ended.
    pub(crate) fn active(&self) -> impl ExactSizeIterator<Item = &Job> {
        self.active.iter().map(|index| &self.jobs[*index])
    }

    /// Returns the indices of the jobs that have not ended.
    pub(crate) fn active_indices(&self) -> Vec<usize> {
        self.active.iter().copied().collect()
    }

    /// Returns the jobs that have one of these cells, in the order of their submission.
    pub(crate) fn with_cells<'a>(
        &self,
        cells: impl IntoIterator<Item = &'a ShardCell>,
    ) -> impl Iterator<Item = &Job> {
        let indices = cells
            .into_iter()
            .filter_map(|cell| self.of_cell.get(&cell.name))
            .flatten();
        let indices: BTreeSet<usize> = indices.copied().collect();
        indices.into_iter().map(|index| &self.jobs[index])
    }

    fn head(&self) -> Head {
        Head {
            format: JOBS_FORMAT,
            run: self.run.clone(),
            remote: self.remote.clone(),
            experiment: self.experiment,
        }
    }
}

/// Returns the name of a shard by its number, from 1.
pub(crate) fn shard_name(number: usize) -> String {
    format!("{number:04}")
}

/// Returns the index of the job that has a shard of this name.
pub(crate) fn index_of(shard: &str) -> Option<usize> {
    shard.parse::<usize>().ok()?.checked_sub(1)
}

/// Returns whether a run of the study is looking after its jobs now.
pub(crate) fn is_held(store: &Path, lock: &Path) -> bool {
    let held = File::open(path_of(store, lock).with_extension("lock"));
    held.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// The file of jobs, held by one process at a time.
#[derive(Debug)]
pub(crate) struct JobsFile {
    path: PathBuf,
    _held: File,
    /// The file open for appending, once this process has rewritten it.
    open: Option<Lines>,
    written: u64,
}

/// A file to which lines are appended.
#[derive(Debug)]
struct Lines {
    file: File,
    /// The number of its jobs.
    jobs: usize,
    /// Its size when it was rewritten, and the bytes added since.
    whole: u64,
    added: u64,
}

/// Returns the path of a study's file of jobs.
fn path_of(store: &Path, lock: &Path) -> PathBuf {
    let absolute = std::path::absolute(lock).unwrap_or_else(|_| lock.to_owned());
    let name = Digest::of(absolute.as_os_str().as_encoded_bytes()).hex();
    store.join("clusters").join(format!("{}.json", &name[..32]))
}

/// Returns the folder for what hosts of a pool put and read if no store is shared. It is removed with the jobs.
pub fn own_store(store: &Path, lock: &Path) -> PathBuf {
    path_of(store, lock).with_extension("store")
}

/// Reads the jobs of a study without locking them; `None` if it has none.
pub(crate) fn look(store: &Path, lock: &Path) -> Result<Option<Jobs>, ClusterError> {
    read(&path_of(store, lock))
}

fn read(path: &Path) -> Result<Option<Jobs>, ClusterError> {
    let bytes = match fs::read(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|e| ClusterError::Io(path.to_owned(), e))?,
    };
    parse(&bytes).map(Some).map_err(|wrong| {
        ClusterError::Broken(match wrong {
            Wrong::Format(format) => format!(
                "{} was written in version {format} of its format, which this program does not know",
                path.display()
            ),
            Wrong::Json(e) => format!(
                "{} cannot be read: {e}; look for jobs named `benchtrail-…` with `squeue --me` or `kubectl get jobs`, then remove the file",
                path.display()
            ),
        })
    })
}

/// Why some bytes are not the jobs of a run.
enum Wrong {
    Format(u32),
    Json(serde_json::Error),
}

fn parse(bytes: &[u8]) -> Result<Jobs, Wrong> {
    #[derive(Deserialize)]
    struct Version {
        format: u32,
    }
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let head: Head = serde_json::from_slice(first).map_err(|e| {
        // An earlier version wrote one document of many lines.
        let version = serde_json::from_slice::<Version>(bytes);
        version.map_or(Wrong::Json(e), |version| Wrong::Format(version.format))
    })?;
    if head.format != JOBS_FORMAT {
        return Err(Wrong::Format(head.format));
    }
    let mut by_number: BTreeMap<usize, Job> = BTreeMap::new();
    // A power failure may have cut the last line; it has no line end then.
    for line in lines.filter(|line| line.ends_with(b"\n")) {
        let mut job: Job = serde_json::from_slice(line).map_err(Wrong::Json)?;
        let number = job.name.parse().map_err(|_| {
            Wrong::Json(serde::de::Error::custom(format!(
                "a job is called `{}`",
                job.name
            )))
        })?;
        if let Some(earlier) = by_number.remove(&number)
            && job.cells.is_empty()
        {
            job.cells = earlier.cells;
            job.manifest = earlier.manifest;
        }
        by_number.insert(number, job);
    }
    let mut jobs = Jobs::new(head.run, head.remote, head.experiment);
    for (number, job) in by_number {
        if jobs.push(job) + 1 != number {
            return Err(Wrong::Json(serde::de::Error::custom(format!(
                "the job before {number} is missing"
            ))));
        }
    }
    Ok(jobs)
}

impl JobsFile {
    /// Locks the file of a study's jobs, and reads the jobs of an earlier run.
    pub(crate) fn take(store: &Path, lock: &Path) -> Result<(Self, Option<Jobs>), ClusterError> {
        let path = path_of(store, lock);
        let folder = path.parent().unwrap_or(store).to_owned();
        fs::create_dir_all(&folder).map_err(|e| ClusterError::Io(folder.clone(), e))?;
        let held_path = path.with_extension("lock");
        let at = |e| ClusterError::Io(held_path.clone(), e);
        let held = artifacts::regular::unlinked()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&held_path)
            .map_err(at)?;
        match held.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ClusterError::Busy(path)),
            Err(TryLockError::Error(e)) => return Err(at(e)),
        }
        let jobs = read(&path)?;
        let file = Self {
            path,
            _held: held,
            open: None,
            written: 0,
        };
        Ok((file, jobs))
    }

    /// Writes the current state of some jobs, durably. New jobs come in the order of their indices.
    pub(crate) fn note(
        &mut self,
        jobs: &mut Jobs,
        changed: impl IntoIterator<Item = usize>,
    ) -> Result<(), ClusterError> {
        let is_large = |lines: &Lines| lines.added > SMALL && lines.added > GROWTH * lines.whole;
        if self.open.as_ref().is_none_or(is_large) {
            return self.write(jobs);
        }
        let Some(lines) = &mut self.open else {
            return Ok(());
        };
        let mut text = Vec::new();
        for index in changed {
            let job = &mut jobs.jobs[index];
            let is_new = index >= lines.jobs;
            // The job's first line contains them, and they never change.
            let kept = (!is_new).then(|| (std::mem::take(&mut job.cells), job.manifest.take()));
            push_line(&mut text, job);
            if let Some((cells, manifest)) = kept {
                job.cells = cells;
                job.manifest = manifest;
            }
            lines.jobs = lines.jobs.max(index + 1);
        }
        lines.added += text.len() as u64;
        self.written += text.len() as u64;
        let appended = lines
            .file
            .write_all(&text)
            .and_then(|()| lines.file.sync_data());
        appended.map_err(|e| ClusterError::Io(self.path.clone(), e))
    }

    /// Rewrites the file with all jobs.
    fn write(&mut self, jobs: &Jobs) -> Result<(), ClusterError> {
        let folder = self.path.parent().expect("a file lies in a folder");
        let mut text = Vec::new();
        push_line(&mut text, &jobs.head());
        for job in &jobs.jobs {
            push_line(&mut text, job);
        }
        let write = || {
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(&text)?;
            file.as_file().sync_all()?;
            let file = file.persist(&self.path).map_err(|e| e.error)?;
            File::open(folder)?.sync_all()?;
            Ok(file)
        };
        let file = write().map_err(|e| ClusterError::Io(self.path.clone(), e))?;
        self.written += text.len() as u64;
        self.open = Some(Lines {
            file,
            jobs: jobs.jobs.len(),
            whole: text.len() as u64,
            added: 0,
        });
        Ok(())
    }

    /// Returns the number of bytes written so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Returns the file for the output of a shard that a host of a pool executes.
    pub(crate) fn log(&self, run: &str, shard: &str) -> PathBuf {
        self.path.with_file_name(format!("{run}-{shard}.log"))
    }

    /// Removes the file and the output of the run's shards, because no job is left.
    pub(crate) fn remove(self, run: &str, shards: usize) -> Result<(), ClusterError> {
        for shard in 1..=shards {
            // Only a pool's shard has a file here.
            let _not_there = fs::remove_file(self.log(run, &shard_name(shard)));
        }
        let own = self.path.with_extension("store");
        match fs::remove_dir_all(&own) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(ClusterError::Io(own, e));
            }
            _ => {}
        }
        match fs::remove_file(&self.path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(ClusterError::Io(self.path.clone(), e))
            }
            _ => Ok(()),
        }
    }
}

fn push_line(text: &mut Vec<u8>, line: &impl Serialize) {
    let line = serde_json::to_vec(line).expect("a job always serializes");
    text.extend_from_slice(&line);
    text.push(b'\n');
}

#[cfg(test)]
mod tests {
    use pipeline::Class;

    use super::*;

    fn cell(number: usize) -> ShardCell {
        ShardCell {
            name: WrittenCell {
                stage: "ladder".to_owned(),
                coordinates: format!("rep={number}"),
            },
            class: Class::Measurement,
            record: None,
        }
    }

    fn job(number: usize) -> Job {
        Job {
            name: shard_name(number),
            cells: vec![cell(number), cell(number + 1)],
            ..Job::default()
        }
    }

    fn ended(state: &str) -> Ended {
        Ended {
            state: state.to_owned(),
            ..Ended::default()
        }
    }

    /// Returns a folder for a store, and the file of jobs of a study in it.
    fn begin(folder: &Path) -> (JobsFile, Jobs) {
        let (file, left) = JobsFile::take(folder, &folder.join("study.lock")).expect("it is free");
        assert!(left.is_none(), "nothing was left");
        let jobs = Jobs::new("r1".to_owned(), PathBuf::from("shared"), Digest::of(b""));
        (file, jobs)
    }

    fn read_back(folder: &Path) -> Jobs {
        let read = look(folder, &folder.join("study.lock")).expect("it can be read");
        read.expect("it is there")
    }

    #[test]
    fn what_was_noted_last_of_each_job_is_read_back_with_its_cells() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut file, mut jobs) = begin(folder.path());
        for number in 1..=12 {
            let index = jobs.push(job(number));
            file.note(&mut jobs, [index]).expect("noted");
            jobs.jobs[index].job = Some(number.to_string());
            file.note(&mut jobs, [index]).expect("noted");
        }
        jobs.end(3, ended("COMPLETED"));
        file.note(&mut jobs, [3]).expect("noted");
        let read = read_back(folder.path());
        assert_eq!((read.jobs.len(), read.active().len()), (12, 11));
        assert_eq!(read.jobs[3].ended, Some(ended("COMPLETED")));
        assert_eq!(read.jobs[11].job.as_deref(), Some("12"));
        assert!(read.jobs.iter().all(|job| job.cells.len() == 2));
        let of_cell: Vec<&str> = read
            .with_cells(&[cell(4)])
            .map(|j| j.name.as_str())
            .collect();
        assert_eq!(of_cell, ["0003", "0004"]);
    }

    #[test]
    fn a_change_costs_the_same_however_many_jobs_there_are_and_the_file_does_not_grow_for_ever() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut file, mut jobs) = begin(folder.path());
        let mut cost_of_change = |jobs: &mut Jobs| {
            let before = file.written();
            file.note(jobs, [0]).expect("noted");
            file.written() - before
        };
        let options = vec!["--comment=long".repeat(300)];
        jobs.push(Job { options, ..job(1) });
        cost_of_change(&mut jobs);
        let few = cost_of_change(&mut jobs);
        for number in 2..=500 {
            let index = jobs.push(job(number));
            file.note(&mut jobs, [index]).expect("noted");
        }
        let mut cost_of_change = |jobs: &mut Jobs| {
            let before = file.written();
            file.note(jobs, [0]).expect("noted");
            file.written() - before
        };
        assert_eq!(cost_of_change(&mut jobs), few);
        let mut largest = 0;
        for _ in 0..500 {
            largest = largest.max(cost_of_change(&mut jobs));
        }
        assert!(largest > 10 * few, "it was written anew: {largest}");
        let size = fs::metadata(&file.path).expect("the file").len();
        assert!(size < 2 * SMALL, "{size}");
        assert_eq!(read_back(folder.path()).jobs.len(), 500);
    }

    #[test]
    fn a_line_that_was_cut_is_left_out_and_what_is_not_ours_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut file, mut jobs) = begin(folder.path());
        for number in 1..=2 {
            let index = jobs.push(job(number));
            file.note(&mut jobs, [index]).expect("noted");
        }
        let path = file.path.clone();
        drop(file);
        let text = fs::read_to_string(&path).expect("the file");
        fs::write(&path, &text[..text.len() - 5]).expect("cut");
        assert_eq!(read_back(folder.path()).jobs.len(), 1);
        let refused = |text: &str| {
            fs::write(&path, text).expect("a file");
            let read = look(folder.path(), &folder.path().join("study.lock"));
            read.expect_err("it is refused").to_string()
        };
        let earlier = "{\n  \"format\": 1,\n  \"run\": \"r1\",\n  \"jobs\": []\n}\n";
        assert!(refused(earlier).contains("version 1 of its format"));
        let without_first: Vec<&str> = text.lines().collect();
        let without_first = format!("{}\n{}\n", without_first[0], without_first[2]);
        assert!(refused(&without_first).contains("the job before 2 is missing"));
        assert!(refused("nonsense\n").contains("cannot be read"));
        assert!(refused("").contains("cannot be read"));
    }
}
