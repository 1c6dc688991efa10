//! The binary as a job of Slurm starts it: `benchtrail __shard STORE RUN NAME`, on a machine that Slurm chose.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ::cluster::{Executed, Machine, execute};
use pipeline::Experiment;
use pipeline::design::{Loud, Otherwise, Preflight};
use pipeline::record::Build;

use crate::commands::listen_for_signals;
use crate::exit::Stop;
use crate::quiet;
use crate::registry::registry;
use crate::terminal::complain;

/// The exit code of a job that was stopped before its end.
const STOPPED: u8 = 130;

/// Executes what the arguments name; returns our exit code.
///
/// # Errors
/// If this is no job, or the shared store or the machine refuses.
#[expect(
    clippy::disallowed_methods,
    reason = "Slurm tells a job what it is by variables"
)]
pub(crate) fn answer(arguments: impl Iterator<Item = OsString>) -> Result<u8, Stop> {
    let words: Vec<String> = arguments
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let [store, run, name] = words.as_slice() else {
        return Err(Stop::usage("this command is for jobs of Slurm"));
    };
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let Some(job) = variable("SLURM_JOB_ID") else {
        return Err(Stop::usage(
            "this command is for jobs of Slurm: SLURM_JOB_ID is not set",
        ));
    };
    let cancelled = Arc::new(AtomicBool::new(false));
    listen_for_signals(&cancelled)?;
    let registry = registry();
    let stopped = Arc::clone(&cancelled);
    let machine = Machine {
        job,
        node: variable("SLURMD_NODENAME")
            .or_else(pipeline::this_host)
            .unwrap_or_else(|| "unknown".to_owned()),
        restarts: variable("SLURM_RESTART_COUNT")
            .and_then(|text| text.parse().ok())
            .unwrap_or_default(),
        temporary: variable("SLURM_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from),
        registry: &registry,
        build: Build {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            describe: None,
        },
        cancelled,
        look: &move |experiment| look(experiment, &stopped),
        tell: &complain,
    };
    match execute(store, run, name, &machine)? {
        Executed::Ended | Executed::NotOurs => Ok(0),
        Executed::Stopped => Ok(STOPPED),
    }
}

/// Looks at this machine before it measures.
fn look(experiment: &Experiment, cancelled: &Arc<AtomicBool>) -> Result<Option<Preflight>, String> {
    let quiet = experiment.quiet();
    let mut pause = |length: Duration, _: &Loud| quiet::rest(length, cancelled);
    let preflight = quiet.preflight(&mut || load::surroundings(quiet::LOOK), &mut pause);
    match (&preflight.loud, quiet.otherwise) {
        (Some(loud), Otherwise::Refuse) => Err(format!("the machine is not quiet: {loud}")),
        _ => Ok(Some(preflight)),
    }
}
