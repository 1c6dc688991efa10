//! Checks the machine before a run measures on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pipeline::Plan;
use pipeline::design::{Loud, Otherwise, Preflight};

use crate::exit::Stop;
use crate::session::Session;
use crate::terminal::complain;

/// The duration of a check.
pub(crate) const LOOK: Duration = Duration::from_millis(300);

/// Checks the machine if the run measures on it; warns, waits or stops as the design requires.
pub(crate) fn look_before(
    session: &Session,
    plan: &Plan,
    cancelled: &Arc<AtomicBool>,
) -> Result<Option<Preflight>, Stop> {
    let experiment = &session.experiment;
    if !pipeline::measures_here(plan, experiment, &session.registry) {
        return Ok(None);
    }
    let quiet = experiment.quiet();
    let mut announced = false;
    let mut pause = |length: Duration, loud: &Loud| {
        if !std::mem::replace(&mut announced, true) {
            complain(&format!(
                "waiting up to {} s until the machine is quiet: {loud}",
                quiet.wait.as_secs()
            ));
        }
        rest(length, cancelled)
    };
    let preflight = quiet.preflight(&mut || load::surroundings(LOOK), &mut pause);
    if cancelled.load(Ordering::Relaxed) {
        return Err(Stop::interrupted());
    }
    if let Some(loud) = &preflight.loud {
        let message = format!("the machine is not quiet: {loud}");
        if quiet.otherwise == Otherwise::Refuse {
            return Err(Stop::machine(message).hint(
                "stop other programs on this machine, or let `design.quiet` wait longer or set `otherwise: warn`",
            ));
        }
        complain(&format!("warning: {message}"));
    }
    Ok(Some(preflight))
}

/// Lets time pass; returns false if the user stopped the run.
pub(crate) fn rest(length: Duration, cancelled: &AtomicBool) -> bool {
    let end = Instant::now() + length;
    while Instant::now() < end && !cancelled.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(50));
    }
    !cancelled.load(Ordering::Relaxed)
}
