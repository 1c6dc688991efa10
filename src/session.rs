//! The common start of `plan` and `run`: the experiment, the registry, the project, the options.

use std::path::PathBuf;

use artifacts::{Store, counted};
use pipeline::language::Options;
use pipeline::lock::{Lock, LockClass, LockError};
use pipeline::stage::{CellStatus, Class};
use pipeline::{
    Diagnostics, Experiment, Lack, PipelineError, Plan, PlanOptions, Prepared, Registry, Reuse,
};

use crate::args::{ExperimentArgs, Global, Selection};
use crate::exit::Stop;
use crate::given::{Wanted, must_be};
use crate::project::Project;
use crate::registry::registry;
use crate::terminal::complain;

/// Checks the values of `--set` of a command that reads only the lock, and says that they change nothing there.
///
/// # Errors
/// If the experiment has no such parameter, or contains other mistakes.
pub(crate) fn check_set(
    command: &str,
    arguments: &ExperimentArgs,
    global: &Global,
) -> Result<(), Stop> {
    if !arguments.set.is_empty() {
        Session::open(arguments, global)?;
        complain(&format!(
            "note: `{command}` shows the last run, whatever values its parameters had; `--set` changes nothing here"
        ));
    }
    Ok(())
}

/// An experiment ready for planning.
pub(crate) struct Session {
    pub(crate) registry: Registry,
    pub(crate) experiment: Experiment,
    pub(crate) project: Project,
}

impl Session {
    /// Reads and checks the experiment.
    ///
    /// # Errors
    /// If the file is missing or contains mistakes; reports all of them.
    pub(crate) fn open(arguments: &ExperimentArgs, global: &Global) -> Result<Self, Stop> {
        must_be(&arguments.experiment, Wanted::Experiment)?;
        let registry = registry();
        let options = Options {
            set: arguments.set.clone(),
            profile: arguments.profile(),
            user_folders: user_folders(),
            ..Options::default()
        };
        let project = Project::of(Some(&arguments.experiment), global.store.as_deref())?;
        let files = project.known_files();
        let experiment =
            pipeline::language::load(&arguments.experiment, &registry, &options, files)
                .map_err(Stop::diagnostics)?;
        Ok(Self {
            registry,
            experiment,
            project,
        })
    }

    /// Returns the number of cells in the experiment.
    pub(crate) fn cells(&self) -> usize {
        self.experiment.stages.iter().map(|s| s.cells.len()).sum()
    }

    /// Returns the number of cells of each stage that is pure.
    pub(crate) fn pure_cells(&self) -> Vec<usize> {
        let stages = self.experiment.stages.iter();
        let pure = stages.filter(|stage| stage.class == Class::Pure);
        pure.map(|stage| stage.cells.len()).collect()
    }

    /// Plans, after putting the files that settings name into the store.
    ///
    /// # Errors
    /// If a file has changed since it was read, or the store or the lock cannot be read.
    pub(crate) fn plan(&self, store: &Store, options: &PlanOptions) -> Result<Plan, Stop> {
        if self.project.is_ours() {
            pipeline::sources::keep(&self.experiment, store)?;
        }
        Ok(pipeline::plan(
            &self.experiment,
            &self.registry,
            store,
            options,
        )?)
    }

    /// Plans a run, after putting the files that settings name into the store. The second part is present if nothing is
    /// left to execute.
    ///
    /// # Errors
    /// Same as [`Self::plan`].
    pub(crate) fn plan_to_run<'a>(
        &'a self,
        store: &'a Store,
        options: &PlanOptions,
    ) -> Result<(Plan, Option<Prepared<'a>>), Stop> {
        let (experiment, registry) = (&self.experiment, &self.registry);
        Ok(pipeline::plan_to_run(experiment, registry, store, options)?)
    }

    /// Checks that the cells that a plan executes can start.
    ///
    /// # Errors
    /// If something is missing; reports all of it.
    pub(crate) fn check_ready(&self, plan: &Plan) -> Result<(), Stop> {
        let missing = pipeline::unready(&self.experiment, &self.registry, plan)?;
        if missing.is_empty() {
            Ok(())
        } else {
            Err(Stop::machine_diagnostics(Diagnostics(missing)))
        }
    }

    /// Returns the end of a command whose cells need what this machine lacks. If the lock records measurements, which
    /// another machine may have made, the hint says how to analyze and report them here.
    pub(crate) fn lacking(&self, lacks: &[Lack], locked: bool) -> Stop {
        let stop = Stop::lacking(lacks);
        let measured = match Lock::of_experiment(&self.experiment) {
            Ok(Some(lock)) if !locked => measured_cells(&lock),
            // A lock that cannot be read was reported while planning.
            _ => 0,
        };
        if measured == 0 {
            return stop;
        }
        stop.further_hint(format!(
            "the lock records {}; add `--locked` to analyze and report what was measured",
            counted(measured, "measured cell"),
        ))
    }
}

/// Returns the number of successful measurements that a lock records.
fn measured_cells(lock: &Lock) -> usize {
    let measurements = lock
        .stages
        .iter()
        .filter(|stage| stage.class == LockClass::Measurement);
    measurements
        .flat_map(|stage| &stage.cells)
        .filter(|cell| cell.status == CellStatus::Ok)
        .count()
}

/// Returns the folder of a user's definitions for all projects.
pub(crate) fn user_folders() -> Vec<PathBuf> {
    places::user::configuration().into_iter().collect()
}

/// Returns the planning options from the command line.
pub(crate) fn plan_options(selection: &Selection) -> PlanOptions {
    PlanOptions {
        only: selection.only.clone(),
        from: selection.from.clone(),
        fresh: selection.fresh.clone(),
        locked: selection.locked,
        reuse: selection.reuse.as_deref().and_then(Reuse::parse),
        known_records: None,
        elsewhere: None,
    }
}

impl From<PipelineError> for Stop {
    fn from(error: PipelineError) -> Self {
        match error {
            PipelineError::Kind(_) => Self::usage(error),
            PipelineError::Selection { ref hint, .. } => Self::usage(&error).hint(hint),
            PipelineError::Store(error) => error.into(),
            PipelineError::Lock(LockError::Io(..) | LockError::Unreadable(..))
            | PipelineError::Io(..) => Self::refused(&error),
            PipelineError::Lock(_) => Self::failed(error),
            PipelineError::Changed(_) => Self::failed(error).hint("run again"),
        }
    }
}
