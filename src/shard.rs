//! Executes a shard: as a job of Slurm or Kubernetes (`benchtrail __shard STORE RUN NAME`), or on a host of a pool
//! (`benchtrail __place FOLDER shard RUN NAME HOST`).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{stdin, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ::cluster::{Executed, Machine, RUNNING, WAITING, execute};
use pipeline::Experiment;
use pipeline::design::{Loud, Otherwise, Preflight};
use pipeline::record::Build;
use places::SILENCE;
use places::kubernetes::variable;
use remote::{Heard, Remote, Wire};

use crate::exit::Stop;
use crate::quiet;
use crate::registry::registry;
use crate::signals::listen_for_signals;
use crate::terminal::complain;

/// The exit code of a job stopped before its end.
const STOPPED: u8 = 130;

/// Executes the shard that the arguments name; returns our exit code.
///
/// # Errors
/// If this is not a job, or the shared store or the machine returns an error.
pub(crate) fn answer(arguments: impl Iterator<Item = OsString>) -> Result<u8, Stop> {
    let words: Vec<String> = arguments
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let [store, run, name] = words.as_slice() else {
        return Err(Stop::usage(
            "this command is for jobs of Slurm and Kubernetes",
        ));
    };
    let Some(job) = Job::of_slurm().or_else(Job::of_kubernetes) else {
        return Err(Stop::usage(format!(
            "this command is for jobs of Slurm and Kubernetes: neither SLURM_JOB_ID nor {} is set",
            variable::JOB
        )));
    };
    let cancelled = Arc::new(AtomicBool::new(false));
    listen_for_signals(&cancelled)?;
    let remote = Arc::new(Remote::open(store)?);
    job.execute(&remote, run, name, &cancelled)
}

/// Returns an environment variable that is not empty.
#[expect(
    clippy::disallowed_methods,
    reason = "schedulers describe a job in its environment variables"
)]
fn given(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Executes a shard on a host of a pool; returns our exit code. The other end of the connection provides the shared
/// store and can stop the shard.
///
/// # Errors
/// If the other end or the machine returns an error.
pub(crate) fn on_host(folder: &Path, run: &str, name: &str, node: &str) -> Result<u8, Stop> {
    let cancelled = Arc::new(AtomicBool::new(false));
    listen_for_signals(&cancelled)?;
    let gone = Arc::new(AtomicBool::new(false));
    let life = Arc::new(AtomicU64::new(0));
    let hear = {
        let (cancelled, gone, life) =
            (Arc::clone(&cancelled), Arc::clone(&gone), Arc::clone(&life));
        move |heard: Heard| match heard {
            Heard::Life => {
                life.fetch_add(1, Ordering::Relaxed);
            }
            Heard::Stop => cancelled.store(true, Ordering::Relaxed),
            Heard::End => {
                gone.store(true, Ordering::Relaxed);
                cancelled.store(true, Ordering::Relaxed);
            }
        }
    };
    let url = "the run that asked for this";
    let wire = Wire::new(url, stdin(), stdout(), Arc::clone(&gone), hear);
    watch(Arc::clone(&life), Arc::clone(&gone), Arc::clone(&cancelled));
    // The lock is outside the scratch folders of shards. The kernel releases it when this process ends, however it
    // ends.
    let Some(_alone) = alone(folder, &wire, &cancelled)? else {
        return Ok(STOPPED);
    };
    wire.tell(RUNNING)?;
    let temporary = folder.join("temporary");
    let made = fs::create_dir_all(&temporary);
    made.map_err(|e| Stop::refused_at(temporary.display(), &e))?;
    let job = Job {
        job: format!("{node}/{name}"),
        node: node.to_owned(),
        restarts: 0,
        fact: "pool",
        start: None,
        facts: BTreeMap::new(),
        temporary,
        folder: Some(folder.to_owned()),
    };
    let remote = Arc::new(Remote::behind(wire));
    job.execute(&remote, run, name, &cancelled)
}

/// Stops this process's work if the other end of the connection is silent for too long, because a broken link may seem
/// open for hours.
fn watch(life: Arc<AtomicU64>, gone: Arc<AtomicBool>, cancelled: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        let mut last = (life.load(Ordering::Relaxed), Instant::now());
        while !gone.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(500));
            let now = life.load(Ordering::Relaxed);
            if now != last.0 {
                last = (now, Instant::now());
            } else if last.1.elapsed() > SILENCE {
                gone.store(true, Ordering::Relaxed);
                cancelled.store(true, Ordering::Relaxed);
            }
        }
    });
}

/// Waits until no other shard is running in a folder of this host, and locks it; `None` if the user stops the wait.
fn alone(folder: &Path, wire: &Wire, cancelled: &AtomicBool) -> Result<Option<File>, Stop> {
    let path = folder.join("shard.lock");
    let at = |e: std::io::Error| Stop::refused_at(path.display(), &e);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(at)?;
    let mut announced = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::Error(e)) => return Err(at(e)),
            Err(TryLockError::WouldBlock) => {}
        }
        if !std::mem::replace(&mut announced, true) {
            wire.tell(WAITING)?;
        }
        if cancelled.load(Ordering::Relaxed) {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A shard that this process executes, and the data of its machine.
struct Job {
    job: String,
    node: String,
    restarts: u32,
    fact: &'static str,
    start: Option<String>,
    facts: BTreeMap<String, String>,
    temporary: PathBuf,
    folder: Option<PathBuf>,
}

impl Job {
    fn of_slurm() -> Option<Self> {
        Some(Self {
            job: given("SLURM_JOB_ID")?,
            node: given("SLURMD_NODENAME")
                .or_else(pipeline::this_host)
                .unwrap_or_else(|| "unknown".to_owned()),
            restarts: given("SLURM_RESTART_COUNT")
                .and_then(|text| text.parse().ok())
                .unwrap_or_default(),
            fact: "slurm",
            start: None,
            facts: BTreeMap::new(),
            temporary: given("SLURM_TMPDIR").map_or_else(tempfile::env::temp_dir, PathBuf::from),
            folder: None,
        })
    }

    fn of_kubernetes() -> Option<Self> {
        let facts = [("pod", variable::POD), ("image", variable::IMAGE)];
        let facts = facts.into_iter();
        let facts = facts.filter_map(|(name, variable)| Some((name.to_owned(), given(variable)?)));
        Some(Self {
            job: given(variable::JOB)?,
            node: given(variable::NODE)
                .or_else(pipeline::this_host)
                .unwrap_or_else(|| "unknown".to_owned()),
            restarts: 0,
            fact: "kubernetes",
            // Two pods of one Job may run at the same time: on a lost node, and on another one.
            start: given(variable::UID),
            facts: facts.collect(),
            temporary: tempfile::env::temp_dir(),
            folder: None,
        })
    }

    fn execute(
        self,
        remote: &Arc<Remote>,
        run: &str,
        name: &str,
        cancelled: &Arc<AtomicBool>,
    ) -> Result<u8, Stop> {
        let registry = registry();
        let stopped = Arc::clone(cancelled);
        let machine = Machine {
            job: self.job,
            node: self.node,
            restarts: self.restarts,
            fact: self.fact,
            start: self.start,
            facts: self.facts,
            binary: std::env::current_exe()
                .map_err(|e| Stop::refused_at("this program cannot find its own file", &e))?,
            temporary: self.temporary,
            folder: self.folder,
            registry: &registry,
            build: Build {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                describe: None,
            },
            cancelled: Arc::clone(cancelled),
            look: &move |experiment| look(experiment, &stopped),
            tell: &complain,
        };
        match execute(remote, run, name, &machine)? {
            Executed::Ended | Executed::NotOurs => Ok(0),
            Executed::Stopped => Ok(STOPPED),
        }
    }
}

/// Checks this machine before it measures.
fn look(experiment: &Experiment, cancelled: &Arc<AtomicBool>) -> Result<Option<Preflight>, String> {
    let quiet = experiment.quiet();
    let mut pause = |length: Duration, _: &Loud| quiet::rest(length, cancelled);
    let preflight = quiet.preflight(&mut || load::surroundings(quiet::LOOK), &mut pause);
    match (&preflight.loud, quiet.otherwise) {
        (Some(loud), Otherwise::Refuse) => Err(format!("the machine is not quiet: {loud}")),
        _ => Ok(Some(preflight)),
    }
}
