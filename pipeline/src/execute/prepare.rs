//! The start of a run: the known state of every cell, protected from a sweep of the store.

use artifacts::{Digest, Hold, Store, counted};

use crate::error::PipelineError;
use crate::event::Event;
use crate::experiment::Experiment;
use crate::plan::{Plan, PlanOptions, Session, State, document};
use crate::sources::keep;
use crate::stage::Registry;

/// A plan with nothing left to execute. A run uses it instead of planning a second time: changes in the meantime cannot
/// invalidate a cached result, and a sweep of the store leaves it alone.
pub struct Prepared<'a> {
    pub(super) session: Session<'a>,
    pub(super) hold: Hold,
}

/// Plans an experiment that is about to run, without its design. The second part is present if nothing is left to
/// execute.
///
/// # Errors
/// If the store or the lock cannot be read, or an option names something that does not exist.
pub fn plan_to_run<'a>(
    experiment: &'a Experiment,
    registry: &'a Registry,
    store: &'a Store,
    options: &PlanOptions,
) -> Result<(Plan, Option<Prepared<'a>>), PipelineError> {
    let mut prepared = prepare(experiment, registry, store, options, &|_| ())?;
    let plan = document(&mut prepared.session)?;
    let idle = prepared.session.states.iter().all(State::is_settled);
    if !idle {
        return Ok((plan, None));
    }
    prepared.keep()?;
    Ok((plan, Some(prepared)))
}

/// Plans under a hold, after putting the files that settings name into the store.
pub(super) fn prepare<'a>(
    experiment: &'a Experiment,
    registry: &'a Registry,
    store: &'a Store,
    options: &PlanOptions,
    listener: &(dyn Fn(&Event) + Sync),
) -> Result<Prepared<'a>, PipelineError> {
    if store.needs_rebuild()? {
        let report = store.rebuild(crate::record::view)?;
        let message = format!(
            "the store's index was lost; rebuilding it from {}",
            counted(report.records, "record")
        );
        listener(&Event::Warning {
            cell: None,
            message,
        });
    }
    // A concurrent sweep of the store leaves alone everything this run depends on.
    let hold = store.hold()?;
    keep(experiment, store)?;
    let mut session = Session::new(experiment, registry, store, options)?;
    session.check_inputs()?;
    session.must_be_as_measured()?;
    Ok(Prepared { session, hold })
}

impl Prepared<'_> {
    /// Ends planning: a sweep of the store leaves alone everything the plan depends on.
    pub(super) fn keep(&mut self) -> Result<(), PipelineError> {
        let states = self.session.states.iter();
        let used: Vec<Digest> = states.filter_map(State::record).collect();
        Ok(self.hold.keep(&used)?)
    }
}
