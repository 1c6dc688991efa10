//! A run: sets up everything the cells share, then lets the executor drive.

use std::sync::mpsc::channel;

use artifacts::{Journal, Store};

use super::attempt::Context;
use super::drive::Executor;
use super::options::{RunOptions, files_of};
use super::prepare::{Prepared, prepare};
use super::scratch::Scratch;
use super::summary::RunSummary;
use crate::error::PipelineError;
use crate::event::Event;
use crate::experiment::Experiment;
use crate::lease::reap_orphans;
use crate::lock::{Lock, lock_path};
use crate::stage::{Progress, Registry};

/// Executes missing cells, and writes the lock.
///
/// # Errors
/// If the store, the lock or the machine fails, or an option names something that does not exist. A cell that fails is
/// not an error: it is a line of the ledger in the summary.
pub fn run(
    experiment: &Experiment,
    registry: &Registry,
    store: &Store,
    options: &RunOptions,
    listener: &(dyn Fn(&Event) + Sync),
) -> Result<RunSummary, PipelineError> {
    run_prepared(None, experiment, registry, store, options, listener)
}

/// Executes missing cells, and writes the lock. If a plan with the same options left nothing to execute, the run
/// continues with that plan.
///
/// # Errors
/// Same as [`run`].
#[expect(
    clippy::disallowed_methods,
    reason = "the plan's readiness depends only on which variables exist; no value is read"
)]
pub fn run_prepared<'a>(
    prepared: Option<Prepared<'a>>,
    experiment: &'a Experiment,
    registry: &'a Registry,
    store: &'a Store,
    options: &RunOptions,
    listener: &(dyn Fn(&Event) + Sync),
) -> Result<RunSummary, PipelineError> {
    let at_root = |e| PipelineError::Io(store.root().to_owned(), e);
    for reaped in reap_orphans(store.root())
        .map_err(at_root)?
        .into_iter()
        .filter(|r| r.stopped)
    {
        let cell = reaped.document.cell;
        listener(&Event::Warning {
            cell: None,
            message: format!("stopped what an earlier run left behind for {cell}"),
        });
    }
    let prepared = match prepared {
        Some(prepared) => prepared,
        None => {
            let mut prepared = prepare(experiment, registry, store, &options.plan, listener)?;
            prepared.session.set_damaged_aside()?;
            prepared.keep()?;
            prepared
        }
    };
    // The hold lasts as long as the run.
    let Prepared {
        session,
        hold: _hold,
    } = prepared;
    // Check now that the lock can be written: a study that takes hours must not find out at its end.
    if session.states.iter().any(|state| state.record().is_none()) {
        Lock::try_place(&lock_path(experiment))?;
    }
    // From here on, every execution is noted, so that it survives if the run is killed.
    let mut journal: Journal = store.journal(&lock_path(experiment))?;
    if let Some(elsewhere) = &options.plan.elsewhere {
        journal.note(elsewhere.records.values())?;
    }
    let (progress, updates) = channel();
    let context = Context {
        store,
        experiment: &experiment.name,
        seed: experiment.seed,
        order: experiment.order,
        cancelled: options.cancelled.clone(),
        listener,
        progress,
        scratch: Scratch::new(store.root()).map_err(at_root)?,
        build: options.build.clone(),
        environment: std::env::vars_os()
            .map(|(name, _)| name.to_string_lossy().into_owned())
            .collect(),
        claims: crate::claims_digests(&experiment.spec),
        claim_tests: crate::tests_digests(&experiment.spec),
        preflight: options.preflight.clone(),
        permit: options.permit.clone(),
        host: options.host.clone().or_else(crate::reuse::this_host),
        by: options.by.clone(),
        files: files_of(experiment, store, options),
        facts: options.facts.clone(),
    };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for (cell, p) in updates {
                let Progress {
                    done,
                    total,
                    what,
                    rates,
                    log,
                    notice,
                } = p;
                listener(&Event::CellProgress {
                    cell,
                    done,
                    total,
                    what,
                    rates,
                    log,
                    notice,
                });
            }
        });
        // The executor holds the other end of the channel, so it must be dropped before the scope ends.
        let mut executor = Executor::new(session, context, options, journal);
        executor.drive()?;
        executor.end(experiment)
    })
}
