//! Which stages a design launches again in each block.

use std::collections::HashMap;

use typed_index_collections::TiVec;

use super::axes::Axes;
use super::stages::{Draft, Drafts};
use crate::experiment::Stage;
use crate::ids::{AxisId, DraftId, LocalCell};
use crate::stage::{Class, Coordinates, StageKind};

pub(super) fn class(draft: &Draft) -> Option<Class> {
    draft.kind.map(StageKind::class)
}

/// Returns the stages that could be the unit if the design names none: resources on which something is measured and
/// that carry no other such resource. Without resources, returns measurements.
pub(super) fn candidates(drafts: &Drafts<'_>) -> Vec<DraftId> {
    let is = |i: &DraftId, wanted: Class| class(&drafts[*i]) == Some(wanted);
    let measurements: Vec<DraftId> = drafts
        .keys()
        .filter(|i| is(i, Class::Measurement))
        .collect();
    let mut used: Vec<DraftId> = Vec::new();
    for needed in measurements.iter().flat_map(|m| &drafts[*m].needs) {
        if is(needed, Class::Resource) && !used.contains(needed) {
            used.push(*needed);
        }
    }
    let carries = |i: &DraftId| used.iter().any(|other| drafts[*other].needs.contains(i));
    let top: Vec<DraftId> = used.iter().copied().filter(|i| !carries(i)).collect();
    if top.is_empty() { measurements } else { top }
}

/// Groups the cells of the unit by launch. Each cell of a resource is a launch. Cells of a measurement share a launch
/// if their kind states that they run on the same one.
pub(super) fn launches(
    stage: &Stage,
    kind: &dyn StageKind,
    axes: &Axes,
    blocks: AxisId,
) -> (Vec<String>, TiVec<LocalCell, (usize, usize)>) {
    let of_blocks = stage.over.iter().position(|a| *a == blocks).unwrap_or(0);
    let stands_on: Vec<Option<String>> = stage
        .parameter_sets
        .iter()
        .map(|set| (stage.class == Class::Measurement).then(|| kind.launch(set))?)
        .map(|launch| {
            launch.map(|mut l| {
                l.sort_all_objects();
                l.to_string()
            })
        })
        .collect();
    let arm = |at: &[u16]| -> Vec<bool> {
        let is =
            |(axis, label): (&AxisId, &u16)| axes[*axis].arm.is_some_and(|arm| arm.label == *label);
        stage.over.iter().zip(at).map(is).collect()
    };
    // The values that a launch's cells share: the kind's own key, the labels in use, and whether each label is an arm.
    type Shared = (Option<String>, Vec<u16>, Vec<bool>);
    let mut index: HashMap<Shared, usize> = HashMap::new();
    let mut members: Vec<Vec<&[u16]>> = Vec::new();
    let mut cells = TiVec::with_capacity(stage.cells.len());
    for cell in &stage.cells {
        let shared = stands_on[cell.parameters as usize].clone();
        let mut at = cell.at.to_vec();
        at[of_blocks] = 0;
        let labels = if shared.is_some() { Vec::new() } else { at };
        let launch = *index
            .entry((shared, labels, arm(&cell.at)))
            .or_insert_with(|| {
                members.push(Vec::new());
                members.len() - 1
            });
        members[launch].push(&cell.at);
        cells.push((usize::from(cell.at[of_blocks]), launch));
    }
    (
        members
            .iter()
            .map(|all| launch_name(all, stage, axes, of_blocks))
            .collect(),
        cells,
    )
}

/// Names a launch by the labels that all its cells share, except the block.
pub(super) fn launch_name(
    members: &[&[u16]],
    stage: &Stage,
    axes: &Axes,
    of_blocks: usize,
) -> String {
    let agreed = |position: &usize| {
        *position != of_blocks
            && members
                .iter()
                .all(|at| at[*position] == members[0][*position])
    };
    let label = |position: usize| {
        let axis = &axes[stage.over[position]];
        (
            axis.name.clone(),
            axis.labels[usize::from(members[0][position])].clone(),
        )
    };
    let pairs = (0..stage.over.len()).filter(agreed).map(label).collect();
    Coordinates(pairs).to_string()
}
