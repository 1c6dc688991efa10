//! What a run begins with: everything that is known of every cell, held against a sweep of the store.

use artifacts::{Digest, Hold, Store};

use crate::error::PipelineError;
use crate::event::Event;
use crate::experiment::Experiment;
use crate::plan::{Plan, PlanOptions, Session, State, document};
use crate::sources::keep;
use crate::stage::Registry;

/// A plan with nothing left to execute. A run takes it over and does not plan a second time: what
/// changes meanwhile cannot make a cached result wrong, and a sweep of the store leaves it alone.
pub struct Prepared<'a> {
    pub(super) session: Session<'a>,
    pub(super) hold: Hold,
}

/// Plans an experiment that is about to run. The second part is there if nothing is left to execute.
///
/// # Errors
/// If the store or the lock cannot be read, or an option names what does not exist.
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

/// Plans under a hold, with the files that settings name put into the store first.
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
            "the store's index was lost; rebuilding it from {} records",
            report.records
        );
        listener(&Event::Warning {
            cell: None,
            message,
        });
    }
    // A sweep of the store that runs meanwhile leaves alone what this run rests on.
    let hold = store.hold()?;
    keep(experiment, store)?;
    let mut session = Session::new(experiment, registry, store, options)?;
    session.check_inputs()?;
    Ok(Prepared { session, hold })
}

impl Prepared<'_> {
    /// Ends planning: a sweep of the store leaves what the plan rests on alone.
    pub(super) fn keep(&mut self) -> Result<(), PipelineError> {
        let states = self.session.states.iter();
        let used: Vec<Digest> = states.filter_map(State::record).collect();
        Ok(self.hold.keep(&used)?)
    }
}
