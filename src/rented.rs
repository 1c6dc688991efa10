//! Rented machines at both ends of a run: those left by an earlier run are destroyed before it, and those it made are
//! given back after it.

use pipeline::{Control, Event, PipelineError};
use places::cloud::{Returned, give_back_all, sweep};

/// Destroys machines that earlier runs with the store have left.
///
/// # Errors
/// If the store cannot be read.
pub(crate) fn sweep_left(
    store: &artifacts::Store,
    hear: &dyn Fn(&Event),
) -> Result<(), PipelineError> {
    let left = sweep(store.root(), &Control::quiet())
        .map_err(|e| PipelineError::Io(store.root().to_owned(), e))?;
    for machine in left {
        warn(
            hear,
            described("destroyed a machine that an earlier run left", &machine),
        );
    }
    Ok(())
}

/// Gives back the machines of this run, and returns their costs.
pub(crate) fn give_back(hear: &dyn Fn(&Event)) -> Vec<String> {
    let mut costs = Vec::new();
    for machine in give_back_all() {
        let said = described("destroyed the machines that the study had rented", &machine);
        if machine.stuck.is_some() {
            warn(hear, said);
        } else {
            costs.push(said);
        }
    }
    costs
}

fn described(done: &str, machine: &Returned) -> String {
    match &machine.stuck {
        None => format!("{done}: {:.2} {}", machine.cost, machine.currency),
        Some((why, command)) => format!(
            "a rented machine could not be destroyed and still costs money: {why}; its state is in {}; destroy it \
             yourself: {command}",
            machine.folder.display()
        ),
    }
}

fn warn(hear: &dyn Fn(&Event), message: String) {
    hear(&Event::Warning {
        cell: None,
        message,
    });
}
