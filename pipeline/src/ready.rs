//! Checks before the start what cells need from their environment: a problem that can be found in the first second
//! should not surface after hours of a study.

use std::collections::BTreeSet;

use typed_index_collections::TiVec;

use crate::error::PipelineError;
use crate::experiment::Experiment;
use crate::graph::{Graph, Member, Node, Placement};
use crate::ids::{LocalCell, StageId};
use crate::language::{Diagnostic, Place, place_in};
use crate::place::WrittenCell;
use crate::plan::{Decision, Plan};
use crate::sources::NamedFiles;
use crate::stage::{Class, Problem, Registry, Step};

/// Returns what prevents the cells that a plan executes, and the resources they use, from starting: each problem once,
/// in stage order. Other cells are not checked.
///
/// # Errors
/// If a kind is unknown.
pub fn unready(
    experiment: &Experiment,
    registry: &Registry,
    plan: &Plan,
) -> Result<Vec<Diagnostic>, PipelineError> {
    if plan.is_idle() {
        return Ok(Vec::new());
    }
    let graph = Graph::new(experiment, registry)?;
    let files = NamedFiles::of(experiment, None);
    let mut problems = Vec::new();
    for (node, starts) in graph.nodes.iter().zip(starting(&graph, plan)) {
        // The machine that the scheduler chooses provides what a placed cell needs.
        let here = |((i, cell), starts): ((LocalCell, &crate::experiment::Cell), bool)| {
            (starts && graph.placement(node.cell(i)).is_none()).then_some(cell.parameters)
        };
        let cells = node.stage.cells.iter_enumerated().zip(starts);
        let sets: BTreeSet<u32> = cells.filter_map(here).collect();
        for set in sets {
            let Err(problem) = node
                .kind
                .ready(&node.stage.parameter_sets[set as usize], &files)
            else {
                continue;
            };
            let diagnostic = placed(experiment, &node.stage.name, problem);
            if !problems.contains(&diagnostic) {
                problems.push(diagnostic);
            }
        }
    }
    Ok(problems)
}

/// Returns the places of the stages whose cells a scheduler would execute, if a plan executes any of them. Such a run
/// needs a folder that all machines share.
///
/// # Errors
/// If a kind is unknown.
pub fn wants_shared_store(
    experiment: &Experiment,
    registry: &Registry,
    plan: &Plan,
) -> Result<Vec<Diagnostic>, PipelineError> {
    if plan.is_idle() {
        return Ok(Vec::new());
    }
    let graph = Graph::new(experiment, registry)?;
    let mut stages: BTreeSet<StageId> = BTreeSet::new();
    for (node, starts) in graph.nodes.iter().zip(starting(&graph, plan)) {
        let placed = starts.iter_enumerated().filter(|(_, starts)| **starts);
        let placed = placed.filter_map(|(i, _)| graph.placement(node.cell(i)));
        let placed: BTreeSet<Placement> = placed.collect();
        let shares = |(stage, placement): &Placement| {
            let node = &graph.nodes[*stage];
            node.kind
                .shares_store(&node.stage.placements[*placement as usize])
        };
        stages.extend(placed.into_iter().filter(shares).map(|(stage, _)| stage));
    }
    let problems = stages.into_iter().map(|stage| {
        let message = "the machines that a scheduler chooses need a store that they share with this one";
        let hint = "add `--remote FOLDER` with a folder at the same path on all machines, or `--remote s3://BUCKET/PREFIX`, \
                    or set BENCHTRAIL_REMOTE; without `place`, the study runs here";
        placed(
            experiment,
            &graph.nodes[stage].stage.name,
            Problem::at(&["place"], message).hint(hint),
        )
    });
    Ok(problems.collect())
}

/// Returns which cells of each stage start: the executed ones, and the resources, cached or not, that are alive for
/// them.
fn starting(graph: &Graph<'_>, plan: &Plan) -> TiVec<StageId, TiVec<LocalCell, bool>> {
    let executed: BTreeSet<WrittenCell<&str>> = plan
        .cells
        .iter()
        .filter(|cell| matches!(cell.decision, Decision::Run { .. } | Decision::After { .. }))
        .map(|cell| cell.name.as_ref())
        .collect();
    let starts = |node: &Node<'_>| {
        let cells = node.texts.keys();
        cells
            .map(|cell| executed.contains(&node.written(cell)))
            .collect()
    };
    let mut starting: TiVec<StageId, TiVec<LocalCell, bool>> =
        graph.nodes.iter().map(starts).collect();
    // A stage comes after those it needs; pure stages read from disk.
    for (number, node) in graph
        .nodes
        .iter_enumerated()
        .rev()
        .filter(|(_, n)| n.stage.class != Class::Pure)
    {
        let resources = node
            .needs
            .iter()
            .filter(|n| graph.nodes[n.stage].stage.class == Class::Resource);
        for need in resources {
            for cell in node.texts.keys() {
                if starting[number][cell] {
                    for member in need.members(need.group_of_reader[cell]) {
                        if let Member::Cell(i) = member {
                            starting[need.stage][i] = true;
                        }
                    }
                }
            }
        }
    }
    starting
}

fn placed(experiment: &Experiment, stage: &str, problem: Problem) -> Diagnostic {
    let mut route = vec![Step::Key("stages".to_owned()), Step::Key(stage.to_owned())];
    route.extend(problem.route);
    let place =
        place_in(&experiment.file, &route).unwrap_or_else(|| Place::File(experiment.file.clone()));
    Diagnostic {
        message: problem.message,
        place,
        hint: problem.hint,
    }
}
