//! Cells that a stage includes beyond the product of its axes.

use super::axes::Axes;
use super::diagnostics::{Mistake, Sink, Span};
use super::interpolate::{Scope, Values};
use super::rules::reason;
use super::stages::{Draft, Drafts, included};
use super::tree::{Key, Node, Value};
use crate::design::BLOCK;
use crate::ids::{AxisId, DraftId};
use crate::stage::{Json, Step};

/// An included cell beyond the product: its position on each axis, the reason, and its place in the file.
pub(crate) type Inclusion = (Vec<u16>, String, Span);

/// Adds the labels of included cells to the axes, and returns the cells.
pub(crate) fn inclusions(
    draft: &Draft,
    axes: &mut Axes,
    parameters: &Values,
    sink: &Sink,
) -> Vec<Inclusion> {
    let mut inclusions = Vec::new();
    for (i, include) in draft
        .node
        .get("include")
        .map(Node::items)
        .unwrap_or_default()
        .iter()
        .enumerate()
    {
        let Some((key, coordinates)) = include.entry("coordinates") else {
            continue;
        };
        if !matches!(coordinates.value, Value::Map(_)) {
            continue;
        }
        let reason = reason(include).unwrap_or_default();
        let mut route = draft.route(&["include"]);
        route.extend([Step::Index(i), Step::Key("coordinates".into())]);
        let scope = Scope {
            parameters,
            axes,
            over: &[],
            labels: &[],
        };
        if scope.hides(coordinates) {
            continue;
        }
        let mut out = Vec::new();
        match scope.resolve(coordinates, None) {
            Ok(coordinates) => {
                for coordinates in in_every_block(coordinates, draft, axes) {
                    if let Some(at) = included(&coordinates, &draft.over, axes, &route, &mut out) {
                        inclusions.push((at, reason.clone(), key.span));
                    }
                }
            }
            Err(mistake) => out.push(Mistake { route, ..mistake }),
        }
        out.into_iter().for_each(|m| sink.add(m));
    }
    inclusions
}

/// Returns the coordinates of an included cell for each block, unless they name a block.
fn in_every_block(coordinates: Node, draft: &Draft, axes: &Axes) -> Vec<Node> {
    let blocks = axes
        .iter()
        .find(|axis| draft.in_blocks && axis.name == BLOCK);
    let Some(blocks) = blocks.filter(|_| coordinates.get(BLOCK).is_none()) else {
        return vec![coordinates];
    };
    let key = Key {
        text: BLOCK.to_owned(),
        span: coordinates.span,
    };
    let in_block = |label: &artifacts::Scalar| {
        let node = Node::from_json(&Json::from(label), coordinates.span);
        let mut entries = coordinates.entries().to_vec();
        entries.push((key.clone(), node));
        Node {
            span: coordinates.span,
            value: Value::Map(entries),
        }
    };
    blocks.labels.iter().map(in_block).collect()
}

/// Returns a needed stage whose axes cannot have a cell for labels beyond the declared ones.
pub(super) fn lonely<'a>(
    draft: &Draft,
    at: &[u16],
    drafts: &Drafts<'a>,
    axes: &Axes,
) -> Option<&'a str> {
    let beyond = |axis: &AxisId| {
        let position = draft.over.iter().position(|a| a == axis);
        position.is_some_and(|p| usize::from(at[p]) >= axes[*axis].declared)
    };
    let lacks = |needed: &&DraftId| {
        let needed = &drafts[**needed];
        needed.over.iter().any(beyond) && needed.node.get("include").is_none()
    };
    draft
        .needs
        .iter()
        .find(lacks)
        .map(|needed| drafts[*needed].name)
}
