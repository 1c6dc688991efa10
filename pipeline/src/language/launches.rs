//! Which stages a design launches again in each block.

use std::collections::{BTreeSet, HashMap};

use typed_index_collections::TiVec;

use super::axes::Axes;
use super::stages::{Draft, Drafts};
use crate::experiment::Stage;
use crate::ids::{AxisId, DraftId, LocalCell};
use crate::place::Condition;
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

/// Names a launch by the labels that all its cells share, except the block. If they share none, names it by all of them:
/// `rate=1|2`.
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
    let pairs: Vec<_> = (0..stage.over.len()).filter(agreed).map(label).collect();
    if !pairs.is_empty() {
        return Coordinates(pairs).to_string();
    }
    let all = |position: usize| {
        let axis = &axes[stage.over[position]];
        let labels: BTreeSet<u16> = members.iter().map(|at| at[position]).collect();
        let labels = labels.into_iter();
        let labels = labels.map(|label| axis.labels[usize::from(label)].clone());
        (axis.name.clone(), labels.collect())
    };
    let others = (0..stage.over.len()).filter(|position| *position != of_blocks);
    Condition(others.map(all).collect()).to_string()
}

#[cfg(test)]
mod tests {
    use artifacts::Scalar;

    use super::super::axes::AxisDraft;
    use super::*;

    #[test]
    fn a_launch_whose_cells_share_no_label_is_named_by_all_of_them() {
        let axis = |name: &str, labels: &[&str]| AxisDraft {
            labels: labels.iter().map(|l| Scalar::Text((*l).into())).collect(),
            ..AxisDraft::without_labels(name)
        };
        let axes: TiVec<AxisId, AxisDraft> = vec![
            axis("block", &["one", "two"]),
            axis("rate", &["low", "high"]),
        ]
        .into();
        let stage = Stage {
            name: "ask".to_owned(),
            kind: "load".to_owned(),
            class: Class::Measurement,
            needs: Vec::new(),
            over: vec![AxisId::from(0), AxisId::from(1)],
            replicate: Vec::new(),
            exclusive: Vec::new(),
            parameter_sets: Vec::new(),
            placements: Vec::new(),
            cells: TiVec::new(),
            excluded: Vec::new(),
        };
        let named = |members: &[&[u16]]| launch_name(members, &stage, &axes, 0);
        assert_eq!(named(&[&[0, 1], &[1, 1]]), "rate=high");
        assert_eq!(named(&[&[0, 0], &[0, 1], &[1, 0]]), "rate=low|high");
    }
}
