//! The jobs of a run, kept beside the local store so that the next run finds them again.

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use artifacts::Digest;
use pipeline::ShardCell;
use places::{NamedHost, Terms};
use serde::{Deserialize, Serialize};

use crate::document::{Ended, FORMAT};
use crate::error::ClusterError;

/// A job of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The shard's name in the shared store: no two jobs have the same.
    pub(crate) name: String,
    /// Slurm's number, once it is known.
    pub(crate) job: Option<String>,
    /// The cells that are waited for.
    pub(crate) cells: Vec<ShardCell>,
    /// The block of the design.
    pub(crate) block: Option<usize>,
    /// How often a shard that ended early may be tried again.
    pub(crate) retries: u32,
    /// The options of `sbatch` that the study decides.
    pub(crate) options: Vec<String>,
    /// The state and the machine that Slurm told last.
    pub(crate) state: String,
    pub(crate) node: String,
    pub(crate) elapsed: String,
    #[serde(default)]
    pub(crate) waited: String,
    /// The host of the pool, if it is not for Slurm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<NamedHost>,
    /// The configuration file of OpenSSH for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) config: Option<PathBuf>,
    /// What its machine costs, if the study says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) terms: Option<Terms>,
    /// How long it takes by earlier executions, s.
    #[serde(default)]
    pub(crate) expected: f64,
    /// How long it has run, s, as far as is known.
    #[serde(default)]
    pub(crate) seconds: f64,
    /// When it began to run, in seconds since 1970, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) began: Option<i64>,
    /// How it ended.
    pub(crate) ended: Option<Ended>,
    /// Whether all that it was to do is known.
    pub(crate) complete: bool,
}

/// All jobs of a run of one study.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Jobs {
    format: u32,
    /// The name of the run in the shared store.
    pub(crate) run: String,
    /// The shared store.
    pub(crate) remote: PathBuf,
    /// The digest of the experiment.
    pub(crate) experiment: Digest,
    pub(crate) jobs: Vec<Job>,
}

impl Jobs {
    pub(crate) fn new(run: String, remote: PathBuf, experiment: Digest) -> Self {
        Self {
            format: FORMAT,
            run,
            remote,
            experiment,
            jobs: Vec::new(),
        }
    }
}

/// Returns the name of a shard by its number, from 1.
pub(crate) fn shard_name(number: usize) -> String {
    format!("{number:04}")
}

/// Tells whether a run of the study looks after its jobs now.
pub(crate) fn is_held(store: &Path, lock: &Path) -> bool {
    let held = File::open(path_of(store, lock).with_extension("lock"));
    held.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// The file of jobs, held by one process at a time.
#[derive(Debug)]
pub(crate) struct JobsFile {
    path: PathBuf,
    _held: File,
}

/// Returns where the jobs of a study are kept.
fn path_of(store: &Path, lock: &Path) -> PathBuf {
    let absolute = std::path::absolute(lock).unwrap_or_else(|_| lock.to_owned());
    let name = Digest::of(absolute.as_os_str().as_encoded_bytes()).hex();
    store.join("clusters").join(format!("{}.json", &name[..32]))
}

/// Returns where a study's runs keep what hosts of a pool put and read, if no store is shared. It goes with the jobs.
pub fn own_store(store: &Path, lock: &Path) -> PathBuf {
    path_of(store, lock).with_extension("store")
}

/// Reads the jobs of a study without holding them; `None` if it has none.
pub(crate) fn look(store: &Path, lock: &Path) -> Result<Option<Jobs>, ClusterError> {
    read(&path_of(store, lock))
}

fn read(path: &Path) -> Result<Option<Jobs>, ClusterError> {
    let bytes = match fs::read(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|e| ClusterError::Io(path.to_owned(), e))?,
    };
    let jobs: Result<Jobs, _> = serde_json::from_slice(&bytes);
    match jobs {
        Ok(jobs) if jobs.format == FORMAT => Ok(Some(jobs)),
        Ok(jobs) => Err(ClusterError::Broken(format!(
            "{} was written in version {} of its format, which this program does not know",
            path.display(),
            jobs.format
        ))),
        Err(e) => Err(ClusterError::Broken(format!(
            "{} cannot be read: {e}; look for jobs named `benchtrail-…` with `squeue --me`, then remove the file",
            path.display()
        ))),
    }
}

impl JobsFile {
    /// Takes the file of a study's jobs, and reads what an earlier run left there.
    pub(crate) fn take(store: &Path, lock: &Path) -> Result<(Self, Option<Jobs>), ClusterError> {
        let path = path_of(store, lock);
        let folder = path.parent().unwrap_or(store).to_owned();
        fs::create_dir_all(&folder).map_err(|e| ClusterError::Io(folder.clone(), e))?;
        let held_path = path.with_extension("lock");
        let at = |e| ClusterError::Io(held_path.clone(), e);
        let held = File::options()
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
        Ok((Self { path, _held: held }, jobs))
    }

    /// Writes the jobs, durably.
    pub(crate) fn write(&self, jobs: &Jobs) -> Result<(), ClusterError> {
        let folder = self.path.parent().expect("a file lies in a folder");
        let write = || {
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(&serde_json::to_vec_pretty(jobs)?)?;
            file.as_file().sync_all()?;
            file.persist(&self.path).map_err(|e| e.error)?;
            File::open(folder)?.sync_all()
        };
        write().map_err(|e| ClusterError::Io(self.path.clone(), e))
    }

    /// Returns the file for what a shard prints that a host of a pool executes.
    pub(crate) fn log(&self, run: &str, shard: &str) -> PathBuf {
        self.path.with_file_name(format!("{run}-{shard}.log"))
    }

    /// Removes the file and the output of the run's shards: no job is left.
    pub(crate) fn remove(self, run: &str, shards: usize) -> Result<(), ClusterError> {
        for shard in 1..=shards {
            // Only a shard of a pool has one here.
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
