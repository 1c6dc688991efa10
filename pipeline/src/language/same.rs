//! Finds cells that would have one and the same result under two labels.

use std::collections::HashMap;

use super::axes::Axes;
use super::diagnostics::Mistake;
use super::stages::{Draft, Drafts, coordinates};
use super::variant::Sets;
use crate::experiment::Cell;
use crate::ids::{AxisId, DraftId};
use crate::stage::{Adopted, Step};
use crate::suggest::{all_of, any_of};

/// Finds two cells of a measurement that only their labels distinguish: their parameters are the same, and so are their
/// labels at the positions that matter in addition to the parameters. Skips cells that are included or overridden,
/// because they have a stated reason.
pub(super) fn twins<'c>(
    cells: &'c [Cell],
    decisive: &[usize],
    is_arm: &dyn Fn(&[u16]) -> bool,
) -> Option<(&'c Cell, &'c Cell)> {
    let mut seen: HashMap<(u32, Vec<u16>, bool), &Cell> = HashMap::new();
    cells
        .iter()
        .filter(|cell| cell.note.is_none())
        .find_map(|cell| {
            let labels = decisive.iter().map(|position| cell.at[*position]).collect();
            let key = (cell.parameters, labels, is_arm(&cell.at));
            Some((seen.insert(key, cell)?, cell))
        })
}

/// Finds two needed stages of a kind if the stage can use only one.
pub(super) fn needs_two(draft: &Draft, drafts: &Drafts<'_>) -> Option<Mistake> {
    let gives = |setting: &str| draft.node.entry(setting).is_some();
    draft.kind?.uses_one(&gives).iter().find_map(|(kind, what)| {
        let of_kind = |n: &&DraftId| drafts[**n].kind.is_some_and(|k| k.name() == *kind);
        let mut needed = draft.needs.iter().filter(of_kind).map(|n| drafts[*n].name);
        let (first, second) = (needed.next()?, needed.next()?);
        let message = format!(
            "the stage `{}` needs two stages of kind `{kind}`, `{first}` and `{second}`, but a cell \
             {what}",
            draft.name
        );
        let hint = format!(
            "make them one stage over an axis that this stage also has in `over`, or write a stage for each of \
             `{first}` and `{second}`"
        );
        let span = draft.node.entry("needs").map_or(draft.span, |(_, needs)| needs.span);
        Some(Mistake::new(span, &draft.route(&["needs"]), message).hint(hint))
    })
}

/// Finds cells that adopt the same result, for example a whole file whose name lacks an axis.
pub(super) fn adopted_twice(
    draft: &Draft,
    cells: &[Cell],
    sets: &Sets,
    axes: &Axes,
) -> Option<Mistake> {
    let kind = draft.kind?;
    let mut groups: Vec<(Adopted, Vec<&Cell>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for cell in cells {
        let Some(adopted) = kind.adopts(&sets.list[cell.parameters as usize]) else {
            continue;
        };
        let next = groups.len();
        let place = *places.entry(adopted.identity.clone()).or_insert(next);
        if place == next {
            groups.push((adopted, Vec::new()));
        }
        groups[place].1.push(cell);
    }
    let (adopted, group) = groups.into_iter().find(|(_, group)| group.len() > 1)?;
    let differ =
        (0..draft.over.len()).filter(|p| group.iter().any(|c| c.at[*p] != group[0].at[*p]));
    let missing: Vec<String> = differ
        .map(|position| format!("`${{{}}}`", axes[draft.over[position]].name))
        .collect();
    let text = |cell: &Cell| coordinates(&cell.at, &draft.over, axes);
    let others = match group.len() {
        2 => String::new(),
        n => format!(", {n} cells in all"),
    };
    let message = format!(
        "the cells {} and {} get the same result{others}",
        text(group[0]),
        text(group[1])
    );
    let keys: Vec<String> = adopted
        .chosen_by
        .iter()
        .map(|path| format!("`{}`", path.join(".")))
        .collect();
    let hint = format!(
        "put {} into {}, so that each cell has its own result, or remove the axis from `over`",
        all_of(&missing),
        any_of(&keys)
    );
    let path = adopted.chosen_by.into_iter().next().unwrap_or_default();
    let steps: Vec<Step> = path
        .iter()
        .map(|key| Step::Key((*key).to_owned()))
        .collect();
    let mut route = draft.route(&[]);
    route.extend(steps.iter().cloned());
    Some(Mistake::new(draft.settings.place(&steps), &route, message).hint(hint))
}

/// Returns whether a cell belongs to the A/A arm, so that it equals another one on purpose.
pub(super) fn is_arm(at: &[u16], over: &[AxisId], axes: &Axes) -> bool {
    let mut labels = over.iter().zip(at);
    labels.any(|(axis, label)| axes[*axis].arm.is_some_and(|arm| arm.label == *label))
}
