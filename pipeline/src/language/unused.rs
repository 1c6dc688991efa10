//! Reports axes that no stage is expanded over, and whose labels no stage reads. An author who declares such an axis means to vary something, but
//! nothing would vary.

use std::collections::BTreeSet;

use typed_index_collections::TiSlice;

use super::axes::Axes;
use super::diagnostics::{Mistake, Sink};
use super::interpolate::{Scope, Values};
use super::stages::Draft;
use super::tree::{Node, Value};
use crate::design::BLOCK;
use crate::ids::{AxisId, DraftId};
use crate::stage::Step;

/// Reports every axis of the experiment's own file that no stage has in its `over`. Skips axes of an extended file,
/// because the extending file may not need them and cannot remove them.
///
/// Reports nothing where another mistake covers it: if an `over` is wrong, or if a stage uses the axis in a setting
/// without naming it in its `over`.
pub(super) fn check(
    root: &Node,
    drafts: &TiSlice<DraftId, Draft>,
    axes: &Axes,
    values: &Values,
    sink: &Sink,
) {
    if drafts.is_empty() || drafts.iter().any(has_wrong_over) {
        return;
    }
    let every: Vec<AxisId> = axes.keys().collect();
    let scope = Scope {
        parameters: values,
        axes,
        over: &every,
        labels: &[],
    };
    let mut used = BTreeSet::new();
    for draft in drafts {
        used.extend(draft.over.iter().copied());
        used.extend(scope.references(draft.node).into_iter().map(|at| every[at]));
        let read = draft
            .kind
            .map(|kind| kind.axes_read(&draft.settings.json()));
        for name in read.unwrap_or_default() {
            used.extend(
                axes.iter_enumerated()
                    .find(|(_, axis)| axis.name == name)
                    .map(|(at, _)| at),
            );
        }
    }
    let declared = root.get("axes").map(Node::entries).unwrap_or_default();
    // An axis with the design's own name already has a mistake.
    let own = declared
        .iter()
        .filter(|(key, _)| key.span.source == root.span.source && key.text != BLOCK);
    for (key, _) in own {
        let mut declared = axes.iter_enumerated();
        let axis = declared.find(|(_, axis)| axis.name == key.text);
        if axis.is_none_or(|(at, axis)| axis.broken || used.contains(&at)) {
            continue;
        }
        let route = ["axes", &key.text].map(|step| Step::Key(step.to_owned()));
        let message = format!("no stage has the axis `{}` in its `over`", key.text);
        let hint = "add it to the `over` of the stage that it varies, or remove it";
        sink.add(Mistake::new(key.span, &route, message).hint(hint));
    }
}

/// Returns whether the axes of a stage are unknown because its `over` has a mistake.
fn has_wrong_over(draft: &Draft) -> bool {
    draft.node.get("over").is_some_and(|over| {
        !matches!(over.value, Value::List(_)) || over.items().len() != draft.over.len()
    })
}
