//! Options of a run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use artifacts::{Digest, Store};

use crate::design::Preflight;
use crate::effect::Permit;
use crate::experiment::Experiment;
use crate::plan::PlanOptions;
use crate::record::Build;
use crate::sources::NamedFiles;
use crate::stage::Json;

/// What to run, and how.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The cells to execute.
    pub plan: PlanOptions,
    /// Whether to continue with other cells when one fails.
    pub keep_going: bool,
    /// Threads for pure cells, at least 1.
    pub jobs: usize,
    /// Set by the caller to stop: cells in flight end as interrupted.
    pub cancelled: Arc<AtomicBool>,
    /// The build of the program, for the records.
    pub build: Build,
    /// The check of the machine before the run, for the records of its measurements.
    pub preflight: Option<Preflight>,
    /// The effects allowed outside of this program; without a permit, all are allowed.
    pub permit: Option<Arc<Permit>>,
    /// The name of the person who runs it, for the records, if they want to be named.
    pub by: Option<String>,
    /// This host's name in records, if it differs from the default.
    pub host: Option<String>,
    /// The folder for relative paths in parameters, if it is not the experiment's folder.
    pub folder: Option<PathBuf>,
    /// Facts about this run for the records of its launches and measurements.
    pub facts: BTreeMap<String, Json>,
    /// Receives records once they are durable, between cells.
    pub committed: Option<Committed>,
}

/// Returns the files that the settings name.
pub(super) fn files_of(experiment: &Experiment, store: &Store, options: &RunOptions) -> NamedFiles {
    match &options.folder {
        Some(folder) => NamedFiles::new(experiment.sources.iter().cloned(), folder, Some(store)),
        None => NamedFiles::of(experiment, Some(store)),
    }
}

/// A function that receives the digests of records.
pub type Listener = dyn Fn(&[Digest]) + Send + Sync;

/// Receives records that have become durable.
#[derive(Clone)]
pub struct Committed(pub Arc<Listener>);

impl std::fmt::Debug for Committed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Committed").finish_non_exhaustive()
    }
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            plan: PlanOptions::default(),
            keep_going: false,
            jobs: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            cancelled: Arc::new(AtomicBool::new(false)),
            build: Build::default(),
            preflight: None,
            permit: None,
            by: None,
            host: None,
            folder: None,
            facts: BTreeMap::new(),
            committed: None,
        }
    }
}
