//! The machines that the cells of a plan rent, and what the plan says about how long it needs them.

use std::collections::BTreeSet;
use std::time::Duration;

use artifacts::Store;

use super::PlanOptions;
use super::session::{Outcome, Session, State};
use crate::effect::What;
use crate::error::PipelineError;
use crate::execute::resources_of;
use crate::experiment::Experiment;
use crate::graph::Graph;
use crate::ids::CellId;
use crate::sources::NamedFiles;
use crate::stage::{CellStatus, Class, Registry};

/// A machine that the plan rents.
#[derive(Clone, Debug, PartialEq)]
pub struct RentedMachine {
    /// What renting it does: [`What::Rent`].
    pub rent: What,
    /// The stage of each cell that would execute on it.
    pub stages: Vec<String>,
    /// The least time in seconds that the rates and durations in the settings of these cells take.
    pub declared_s: f64,
    /// The most time that the limits of these cells allow, with all retries; `None` if one has no limit.
    pub timeout: Option<Duration>,
}

/// Returns the machines that the cells of a plan rent. Cells that need the same machine share it.
///
/// # Errors
/// If the store or the lock cannot be read.
pub fn rented_machines(
    experiment: &Experiment,
    registry: &Registry,
    store: &Store,
    options: &PlanOptions,
) -> Result<Vec<RentedMachine>, PipelineError> {
    let rents = rents(&Graph::new(experiment, registry)?, store);
    if rents.is_empty() {
        return Ok(Vec::new());
    }
    let mut session = Session::new(experiment, registry, store, options)?;
    session.check_inputs()?;
    let graph = &session.graph;
    let is_open = |cell: &CellId| match &session.states[*cell] {
        State::Settled(Outcome::Ok { .. }) => false,
        State::Settled(Outcome::Not { status, .. }) => *status != CellStatus::Excluded,
        _ => true,
    };
    let mut machines: Vec<(What, BTreeSet<CellId>)> = Vec::new();
    let measured = graph
        .cells()
        .filter(|cell| graph.class(*cell) == Class::Measurement);
    for cell in measured.filter(is_open) {
        let chain = resources_of(graph, cell);
        for (_, rent) in rents.iter().filter(|(renter, _)| chain.contains(renter)) {
            let at = machines.iter().position(|(other, _)| other == rent);
            let at = at.unwrap_or_else(|| {
                machines.push((rent.clone(), BTreeSet::new()));
                machines.len() - 1
            });
            machines[at].1.insert(cell);
            machines[at].1.extend(&chain);
        }
    }
    let machine = |(rent, cells): (What, BTreeSet<CellId>)| machine(graph, rent, &cells);
    Ok(machines.into_iter().map(machine).collect())
}

/// Returns the cells that rent a machine, each with what renting it does.
fn rents(graph: &Graph<'_>, store: &Store) -> Vec<(CellId, What)> {
    let files = NamedFiles::of(graph.experiment, None);
    let mut rents = Vec::new();
    // What a cell without inputs does follows from its parameters alone.
    let first = graph
        .cells()
        .filter(|cell| graph.class(*cell) == Class::Resource)
        .filter(|cell| graph.inputs(*cell).next().is_none());
    for cell in first {
        let (stage, i) = graph.place(cell);
        let node = &graph.nodes[stage];
        let set = node.stage.cells[i].parameters as usize;
        let mut parameters = node.stage.parameter_sets[set].clone();
        parameters.sort_all_objects();
        let effects = node.kind.effects(&parameters, &[], store, &files);
        let does = effects.unwrap_or_default().into_iter().map(|e| e.what);
        let rent = does.filter(|what| matches!(what, What::Rent { .. }));
        rents.extend(rent.map(|what| (cell, what)));
    }
    rents
}

fn machine(graph: &Graph<'_>, rent: What, cells: &BTreeSet<CellId>) -> RentedMachine {
    let limits = cells.iter().map(|cell| {
        let (stage, i) = graph.place(*cell);
        let cell = &graph.nodes[stage].stage.cells[i];
        Some(cell.timeout? * (cell.retries + 1))
    });
    let declared = cells.iter().filter_map(|cell| {
        let (stage, i) = graph.place(*cell);
        let node = &graph.nodes[stage];
        let set = node.stage.cells[i].parameters as usize;
        node.kind.demand(&node.stage.parameter_sets[set])?.seconds
    });
    let stages = cells.iter().map(|cell| graph.stage_name(*cell).to_owned());
    RentedMachine {
        rent,
        stages: stages.collect(),
        declared_s: declared.sum(),
        timeout: limits.sum(),
    }
}
