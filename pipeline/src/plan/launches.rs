//! The launch that each measured cell is measured on.
//!
//! What varies between launches is the same for all cells of a launch. So this decides which cells can be units of
//! replication: the simulation of a study and the limits of its report both read it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use typed_index_collections::TiVec;

use crate::design::{BLOCK, CONTROL};
use crate::error::PipelineError;
use crate::execute::resources_of;
use crate::experiment::{Cell, Experiment, Stage};
use crate::graph::{Graph, Node};
use crate::ids::{CellId, LocalCell, StageId};
use crate::stage::{Class, Coordinates, Registry};

/// A planned cell of a measurement, with its launch.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchedCell {
    /// Its coordinates.
    pub at: Coordinates,
    /// Its block, from 0, and its launch within the design, as positions; `None` for a cell outside the design.
    pub seat: Option<(usize, usize)>,
    /// The number of its launch. Cells of the study with the same number are measured on one launch.
    pub launch: usize,
}

/// What the cells of a launch share.
#[derive(PartialEq, Eq, Hash)]
enum Common {
    /// What their kind says about the launch behind rows that are drawn from a model, with the block and the A/A arm.
    Model(String, Vec<(String, String)>),
    /// The resources that are alive while they are measured.
    Resources(Vec<CellId>),
    /// Their place in the design.
    Seat(usize, usize),
    /// Nothing: the cell has its own launch.
    Alone(CellId),
}

/// The planned cells of the measurements of an experiment, with their launches.
pub struct Launches {
    stages: TiVec<StageId, Vec<LaunchedCell>>,
}

impl Launches {
    /// Plans the launches of an experiment.
    ///
    /// # Errors
    /// If the experiment has a stage kind that the registry lacks.
    pub fn of(experiment: &Experiment, registry: &Registry) -> Result<Self, PipelineError> {
        let graph = Graph::new(experiment, registry)?;
        let mut numbers: HashMap<Common, usize> = HashMap::new();
        let mut stages = TiVec::with_capacity(graph.nodes.len());
        for (id, node) in graph.nodes.iter_enumerated() {
            let mut cells = Vec::new();
            if node.stage.class == Class::Measurement {
                let models = models(node);
                for (i, cell) in node.stage.cells.iter_enumerated() {
                    let (shared, seat) = shared(&graph, id, (i, cell), &models);
                    let next = numbers.len();
                    cells.push(LaunchedCell {
                        at: experiment.coordinates(id, &cell.at),
                        seat,
                        launch: *numbers.entry(shared).or_insert(next),
                    });
                }
            }
            stages.push(cells);
        }
        Ok(Self { stages })
    }

    /// Returns the cells of a stage, in order; none if it is not a measurement.
    pub fn of_stage(&self, stage: StageId) -> &[LaunchedCell] {
        &self.stages[stage]
    }

    /// Returns the axes of a stage along which cells share a launch: some launch has cells at two of their labels.
    /// Units of replication share launches exactly if one of their axes is among these.
    pub(crate) fn shared_axes(&self, stage: StageId) -> BTreeSet<&str> {
        let mut labels: BTreeMap<(usize, &str), String> = BTreeMap::new();
        let mut shared = BTreeSet::new();
        for cell in &self.stages[stage] {
            for (axis, label) in &cell.at.0 {
                let label = label.to_string();
                let first = labels.entry((cell.launch, axis));
                if *first.or_insert_with(|| label.clone()) != label {
                    shared.insert(axis.as_str());
                }
            }
        }
        shared
    }
}

/// Returns what the kind says about the launch of each parameter set, if rows are drawn from a model.
fn models(node: &Node<'_>) -> Vec<Option<String>> {
    let of_set = |set| {
        let mut launch = node.kind.launch(set)?;
        launch.sort_all_objects();
        Some(launch.to_string())
    };
    node.stage.parameter_sets.iter().map(of_set).collect()
}

/// Returns what a measured cell shares with the others of its launch, and its place in the design.
fn shared(
    graph: &Graph<'_>,
    id: StageId,
    (i, cell): (LocalCell, &Cell),
    models: &[Option<String>],
) -> (Common, Option<(usize, usize)>) {
    let node = &graph.nodes[id];
    let number = node.cell(i);
    let design = graph.experiment.design.as_ref();
    let seat = design.and_then(|design| graph.launch(design, number));
    let set = cell.parameters as usize;
    let shared = match (&models[set], seat) {
        (Some(model), _) => {
            let replicate = graph.experiment.replicate(id, &cell.at).0.into_iter();
            let of_launch = replicate.filter(|(axis, _)| axis == BLOCK || axis == CONTROL);
            let of_launch = of_launch.map(|(axis, label)| (axis, label.to_string()));
            Common::Model(model.clone(), of_launch.collect())
        }
        (None, seat) => match (servers(graph, node, number, set), seat) {
            (Some(servers), _) => Common::Resources(servers),
            (None, Some((block, launch))) => Common::Seat(block, launch),
            (None, None) => Common::Alone(number),
        },
    };
    (shared, seat)
}

/// Returns the resources that are alive while a cell is measured; `None` without any, or if nothing is measured on them.
/// Resources that the study does not start stand for all that are the same.
fn servers(graph: &Graph<'_>, node: &Node<'_>, cell: CellId, set: usize) -> Option<Vec<CellId>> {
    let Stage { parameter_sets, .. } = node.stage;
    let mut resources = resources_of(graph, cell);
    resources
        .iter_mut()
        .for_each(|resource| *resource = first_of_same(graph, *resource));
    resources.sort_unstable();
    let measured = node.kind.measures_here(&parameter_sets[set]);
    (measured && !resources.is_empty()).then_some(resources)
}

/// Returns the first cell with the same parameters as a resource, on inputs with the same parameters, if all that these prepare
/// runs already; otherwise the resource.
fn first_of_same(graph: &Graph<'_>, resource: CellId) -> CellId {
    if !runs_already(graph, resource) {
        return resource;
    }
    let parameters = |cell| parameters_of(graph, cell);
    let behind = |cell: CellId| graph.inputs(cell).map(parameters).collect::<Vec<_>>();
    let (own, inputs) = (parameters(resource), behind(resource));
    let node = &graph.nodes[own.0];
    let mut same = node.stage.cells.keys().map(|i| node.cell(i));
    same.find(|other| parameters(*other) == own && behind(*other) == inputs)
        .unwrap_or(resource)
}

/// Returns the stage of a cell and its parameter set.
fn parameters_of(graph: &Graph<'_>, cell: CellId) -> (StageId, u32) {
    let (stage, i) = graph.place(cell);
    (stage, graph.nodes[stage].stage.cells[i].parameters)
}

/// Returns whether the study does not start a resource, because all that it needs runs already.
pub(super) fn runs_already(graph: &Graph<'_>, resource: CellId) -> bool {
    let mut inputs = graph.inputs(resource).peekable();
    inputs.peek().is_some()
        && inputs.all(|input| {
            let (stage, set) = parameters_of(graph, input);
            let node = &graph.nodes[stage];
            node.kind
                .runs_already(&node.stage.parameter_sets[set as usize])
        })
}
