//! Names in `needs` and `over` that no stage and no axis has. A name that several stages use is one mistake: usually its
//! stage or its axis got another name.

use std::collections::BTreeMap;

use super::axes::Axes;
use super::diagnostics::{MOST, Mistake, Span};
use super::stages::Draft;
use crate::design::BLOCK;
use crate::ids::{AxisId, DraftId};
use crate::stage::Step;
use crate::suggest::{closest, did_you_mean, remedy};

/// The largest number of further places that a mistake lists.
const LISTED: usize = 4;

/// A name in a list of a stage that nothing has.
pub(super) struct UnknownName {
    /// The name of the stage whose list it is in.
    pub(super) user: String,
    pub(super) name: String,
    pub(super) span: Span,
    pub(super) route: Vec<Step>,
}

/// Returns the mistakes of unknown names in `needs`.
pub(super) fn of_stages(unknown: Vec<UnknownName>, drafts: &[Draft<'_>]) -> Vec<Mistake> {
    let names: Vec<&str> = drafts.iter().map(|draft| draft.name).collect();
    let meant = |users: &[&str]| stages_meant(drafts, users);
    mistakes(unknown, ("stage", "other stages"), &names, &meant)
}

/// Returns the mistakes of unknown names in `over`. One name can mean only an axis that none of its users has.
pub(super) fn of_axes(
    unknown: Vec<UnknownName>,
    drafts: &[Draft<'_>],
    axes: &Axes,
) -> Vec<Mistake> {
    let names: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
    let meant = |users: &[&str]| {
        let users = drafts.iter().filter(|draft| users.contains(&draft.name));
        let taken: Vec<AxisId> = users.flat_map(|draft| draft.over.clone()).collect();
        let free = axes.iter_enumerated();
        let free = free.filter(|(id, axis)| !taken.contains(id) && axis.name != BLOCK);
        free.map(|(_, axis)| axis.name.clone()).collect()
    };
    mistakes(unknown, ("axis", "axes"), &names, &meant)
}

/// Returns a mistake for each name, with its first place and the lines of the others.
fn mistakes(
    unknown: Vec<UnknownName>,
    (what, plural): (&str, &str),
    names: &[&str],
    meant: &dyn Fn(&[&str]) -> Vec<String>,
) -> Vec<Mistake> {
    let mut groups: Vec<Vec<UnknownName>> = Vec::new();
    let mut positions: BTreeMap<String, usize> = BTreeMap::new();
    for unknown in unknown {
        let position = positions.entry(unknown.name.clone());
        let position = *position.or_insert(groups.len());
        match groups.get_mut(position) {
            Some(group) => group.push(unknown),
            None => groups.push(vec![unknown]),
        }
    }
    let mistake = |(number, group): (usize, Vec<UnknownName>)| {
        let users: Vec<&str> = group.iter().map(|place| place.user.as_str()).collect();
        let first = &group[0];
        let name = first.name.as_str();
        let message = format!("unknown {what} `{name}`");
        // A remedy compares every name, and mistakes beyond these are counted, not listed.
        if number >= MOST {
            return Mistake::new(first.span, &first.route, message);
        }
        let others = names
            .iter()
            .copied()
            .filter(|other| what == "axis" || !users.contains(other));
        let possible = meant(&users);
        let hint = match possible.as_slice() {
            [only] if closest(name, others.clone()).is_none() => did_you_mean(only),
            _ => remedy(name, plural, others),
        };
        let hint = match again(&group) {
            Some(again) => format!("{hint} {again}"),
            None => hint,
        };
        Mistake::new(first.span, &first.route, message).hint(hint)
    };
    groups.into_iter().enumerate().map(mistake).collect()
}

/// Lists the places of a name behind the first.
fn again(group: &[UnknownName]) -> Option<String> {
    let (first, others) = group.split_first()?;
    if others.is_empty() {
        return None;
    }
    let place = |other: &UnknownName| match other.span.source == first.span.source {
        true => format!("line {}", other.span.line),
        false => super::diagnostics::route_text(&other.route),
    };
    let mut places: Vec<String> = others.iter().map(place).collect();
    places.dedup();
    if places.len() > LISTED {
        let more = format!("{} more places", places.len() - LISTED);
        places.truncate(LISTED);
        places.push(more);
    }
    let places = match places.split_last() {
        Some((last, before)) if !before.is_empty() => {
            format!("{} and {last}", before.join(", "))
        }
        _ => places.concat(),
    };
    Some(format!("(the name is also in {places})"))
}

/// Returns the stages that one stage name in the `needs` of all users can mean: none of the users, no stage that they
/// already need, and no stage that needs one of them.
fn stages_meant(drafts: &[Draft<'_>], users: &[&str]) -> Vec<String> {
    let is_user = |draft: &Draft<'_>| users.contains(&draft.name);
    let needed = |number: DraftId| {
        let mut users = drafts.iter().filter(|draft| is_user(draft));
        users.any(|user| user.needs.contains(&number))
    };
    let mut behind: Vec<bool> = drafts.iter().map(is_user).collect();
    // Each round goes at least one stage further.
    loop {
        let before = behind.clone();
        for (at, draft) in drafts.iter().enumerate() {
            behind[at] = behind[at] || draft.needs.iter().any(|need| behind[usize::from(*need)]);
        }
        if behind == before {
            break;
        }
    }
    let possible = drafts.iter().enumerate();
    let possible = possible.filter(|(at, _)| !behind[*at] && !needed(DraftId::from(*at)));
    possible.map(|(_, draft)| draft.name.to_owned()).collect()
}
