//! Columns that will have no values, because the cells measure too few requests for them. A study should say so before it
//! measures, not after.

use super::session::Session;
use super::{Decision, PlannedCell};
use crate::ids::StageId;
use crate::stage::{Class, Json, MeasuredRequests};

/// Returns a warning for each column that the study uses and that will be null in all rows or in some. Nothing is said
/// if nothing is measured, and about a profile without enough blocks for a verdict: it only tries the study out.
pub(super) fn warnings(session: &Session<'_>, cells: &[PlannedCell]) -> Vec<String> {
    let experiment = session.graph.experiment;
    let blocks = experiment.design.as_ref().map_or(0, |d| d.blocks);
    if experiment.profile.is_some() && blocks < statistics::LEAST_UNITS {
        return Vec::new();
    }
    let runs = |stage: &str| {
        cells.iter().any(|cell| {
            cell.name.stage == stage
                && matches!(
                    cell.decision,
                    Decision::Run { .. } | Decision::After { .. } | Decision::Blocked { .. }
                )
        })
    };
    let nodes = &session.graph.nodes;
    let mut warnings = Vec::new();
    for node in nodes {
        let Some(parameters) = node.stage.parameter_sets.first() else {
            continue;
        };
        let measured = node.needs.iter().map(|need| need.stage).filter(|stage| {
            nodes[*stage].stage.class == Class::Measurement && runs(&nodes[*stage].stage.name)
        });
        let measured: Vec<(&str, StageId)> = measured
            .map(|stage| (nodes[stage].stage.name.as_str(), stage))
            .collect();
        if measured.is_empty() {
            continue;
        }
        let readers: Vec<&Json> = node
            .readers
            .iter()
            .filter_map(|(reader, _)| nodes[*reader].stage.parameter_sets.first())
            .collect();
        let names: Vec<&str> = measured.iter().map(|(name, _)| *name).collect();
        let requests = |name: &str| {
            let (_, stage) = measured.iter().find(|(stage, _)| *stage == name)?;
            requests_of(session, *stage)
        };
        let own = (node.stage.name.as_str(), parameters);
        warnings.extend(node.kind.too_few_requests(own, &readers, &names, &requests));
    }
    warnings
}

/// Returns how many requests the cells of a measured stage measure; `None` if no cell's parameters say.
fn requests_of(session: &Session<'_>, stage: StageId) -> Option<MeasuredRequests> {
    let node = &session.graph.nodes[stage];
    let mut sets: Vec<u32> = node.stage.cells.iter().map(|c| c.parameters).collect();
    sets.sort_unstable();
    sets.dedup();
    let counts: Vec<Option<u64>> = sets
        .into_iter()
        .map(|set| {
            let parameters = &node.stage.parameter_sets[set as usize];
            node.kind.requests_planned(parameters)
        })
        .collect();
    Some(MeasuredRequests {
        fewest: counts.iter().flatten().copied().min()?,
        most: counts.into_iter().max_by_key(|n| n.unwrap_or(u64::MAX))?,
    })
}
