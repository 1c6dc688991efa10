//! Everything one cell needs to execute, owned, so that any thread can take it.

use std::sync::Arc;
use std::time::Duration;

use artifacts::ActionKey;

use crate::design::Place;
use crate::graph::{Graph, Member};
use crate::ids::{CellId, StageId};
use crate::key::Recipe;
use crate::lock::LockClass;
use crate::plan::{Outcome, Session};
use crate::record::outputs_in_use;
use crate::stage::{Class, Coordinates, Input, InputCell, Json, StageKind, Study, Watch};

/// Whose facets a task's key contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FacetsOf {
    /// Those of this machine.
    ThisMachine,
    /// Those of the machine where the study places the cell.
    ItsPlacement,
}

/// One cell to execute.
pub(super) struct Task<'a> {
    pub(super) cell: CellId,
    pub(super) name: String,
    pub(super) kind: &'a dyn StageKind,
    pub(super) stage: String,
    pub(super) coordinates: Coordinates,
    pub(super) parameters: Json,
    pub(super) inputs: Vec<Input>,
    pub(super) study: Option<Arc<Study>>,
    pub(super) recipe: Recipe,
    pub(super) key: ActionKey,
    pub(super) timeout: Option<Duration>,
    pub(super) retries: u32,
    pub(super) order: u64,
    /// The cell's place in the design.
    pub(super) place: Option<Place>,
    /// Whether it measures this machine.
    pub(super) measures: bool,
    /// Whether its result depends on where it executes: it measures, or starts something.
    pub(super) bound: bool,
    /// Whose facets its key contains.
    pub(super) facets: FacetsOf,
    /// Whether it executes on this machine.
    pub(super) here: bool,
    /// Watches over resources that it uses and may lose while it executes.
    pub(super) watches: Vec<Watch>,
}

impl<'a> Task<'a> {
    /// Builds the task of a cell whose inputs are settled.
    pub(super) fn new(
        session: &mut Session<'a>,
        cell: CellId,
        key: ActionKey,
        order: u64,
        study: Option<Arc<Study>>,
    ) -> Self {
        let recipe = session.recipe(cell);
        let graph = &session.graph;
        let (number, i) = graph.place(cell);
        let node = &graph.nodes[number];
        let planned = &node.stage.cells[i];
        // Sorted, because the order of mapping keys is not in the key.
        let mut parameters = node.stage.parameter_sets[planned.parameters as usize].clone();
        parameters.sort_all_objects();
        let inputs = node.needs.iter().map(|need| {
            let source = &graph.nodes[need.stage].stage;
            let needs = graph.needs_of(need.stage);
            let members = need.members(need.group_of_reader[i]);
            let cells = members
                .map(|member| input_cell(session, (number, need.stage), member, study.is_some()))
                .collect();
            Input {
                stage: source.name.clone(),
                kind: source.kind.clone(),
                needs,
                cells,
            }
        });
        let measures =
            node.stage.class == Class::Measurement && node.kind.measures_here(&parameters);
        Self {
            cell,
            name: graph.name(cell),
            kind: node.kind,
            stage: node.stage.name.clone(),
            coordinates: graph.experiment.coordinates(number, &planned.at),
            parameters,
            inputs: inputs.collect(),
            study,
            key,
            timeout: planned.timeout,
            retries: planned.retries,
            order,
            place: None,
            measures,
            bound: node.stage.class != Class::Pure,
            facets: match graph.placement(cell) {
                None => FacetsOf::ThisMachine,
                Some(_) => FacetsOf::ItsPlacement,
            },
            here: true,
            watches: Vec::new(),
            recipe,
        }
    }

    /// Tells the inputs how to reach live resources.
    pub(super) fn connect(&mut self, graph: &Graph<'_>, live: impl Fn(CellId) -> Option<Json>) {
        let (number, i) = graph.place(self.cell);
        for (need, input) in graph.nodes[number].needs.iter().zip(&mut self.inputs) {
            let members = need.members(need.group_of_reader[i]);
            for (member, cell) in members.zip(&mut input.cells) {
                if let Member::Cell(m) = member {
                    cell.live = live(graph.nodes[need.stage].cell(m));
                }
            }
        }
    }
}

/// Returns an input cell as its reader sees it. Only stages that see the study get the digest of a record, and only of
/// a measurement, because no other key or trail contains it.
fn input_cell(
    session: &Session<'_>,
    (reader, stage): (StageId, StageId),
    member: Member,
    sees_study: bool,
) -> InputCell {
    let node = &session.graph.nodes[stage];
    let at = match member {
        Member::Cell(i) => &node.stage.cells[i].at,
        Member::Excluded(i) => &node.stage.excluded[i].at,
    };
    let coordinates = session.graph.experiment.coordinates(stage, at);
    let shown = session.shown_parameters(stage, member);
    let mut parameters = shown.map_or(Json::Null, |set| node.stage.parameter_sets[set].clone());
    parameters.sort_all_objects();
    let outcome = match member {
        Member::Cell(i) => session.settled(node.cell(i)),
        Member::Excluded(_) => None,
    };
    match outcome {
        Some(Outcome::Ok {
            record, outputs, ..
        }) => {
            let outputs = outputs_in_use(outputs);
            InputCell {
                coordinates,
                status: crate::stage::CellStatus::Ok,
                reason: None,
                parameters,
                outputs: outputs
                    .into_iter()
                    .map(|(name, artifact)| (name.to_owned(), artifact))
                    .collect(),
                record: (sees_study && node.class == LockClass::Measurement).then_some(*record),
                live: None,
            }
        }
        other => {
            let (status, reason) = session.missing(stage, member, other);
            let left = session.left_behind(reader, other).into_iter();
            InputCell {
                coordinates,
                status,
                reason: Some(reason.to_owned()),
                parameters,
                outputs: left.map(|(n, a)| (n.as_str().to_owned(), a)).collect(),
                record: None,
                live: None,
            }
        }
    }
}
