//! The mistakes that only a stage's kind finds, in settings of which a part has the wrong form.
//!
//! A kind reads settings as a whole, so it can read none if one value has the wrong form. Without that value it can read
//! the others, and their mistakes are reported in the same round.

use super::diagnostics::{Mistake, MistakeKind};
use super::expand::Context;
use super::interpolate::Scope;
use super::stages::Draft;
use super::tree::{Node, Value};
use super::variant::sort;
use crate::stage::{Problem, Step};

/// The most values with a wrong form beside which others are looked for. With more, enough is reported already.
const MOST: usize = 32;

/// Returns the routes of the values with a wrong form, from the settings on.
pub(super) fn routes(mistakes: &[Mistake]) -> Vec<Vec<Step>> {
    let in_settings =
        mistakes
            .iter()
            .filter_map(|mistake| match (mistake.kind, mistake.route.get(2..)) {
                // The mapping itself is fine, and only incomplete.
                (MistakeKind::MissingKey, _) | (_, None) => None,
                (_, Some(route)) => Some(route.to_vec()),
            });
    in_settings.collect()
}

/// Reports what the kind finds in the settings of a cell without the values at these routes.
pub(super) fn report(
    settings: &Node,
    wrong: &[Vec<Step>],
    at: &[u16],
    draft: &Draft,
    scope: &Scope,
    context: &Context,
) {
    let Some(kind) = draft.kind.filter(|_| (1..=MOST).contains(&wrong.len())) else {
        return;
    };
    // A mapping without its wrong value may be as unreadable, so each round removes one level more.
    let levels = wrong.iter().map(Vec::len).max().unwrap_or_default();
    for round in 0..levels {
        let mut rest = settings.clone();
        let removed: Option<Vec<Vec<Step>>> = wrong
            .iter()
            .map(|route| {
                let length = route.len().saturating_sub(round).max(1);
                let length = removable(route.get(..length)?)?;
                remove(&mut rest, &route[..length]).then(|| route[..length].to_vec())
            })
            .collect();
        let Some(removed) = removed.filter(|_| !scope.hides(&rest)) else {
            return;
        };
        let Ok(resolved) = scope.resolve(&rest, Some(at)) else {
            return;
        };
        let mut json = resolved.json();
        sort(&mut json, kind.ordered());
        let Err(problems) = kind.canonical(&json, context.library) else {
            return;
        };
        if context.library.take_broken() {
            return;
        }
        if problems.iter().all(|problem| problem.route.is_empty()) {
            continue;
        }
        for problem in problems {
            if problem.definition.is_none() && is_independent(&problem, &removed, &rest) {
                context.sink.add(draft.mistake(settings, problem));
            }
        }
        return;
    }
}

/// Returns the length of a route up to its last step that is a key: without an item, the others would move.
fn removable(route: &[Step]) -> Option<usize> {
    let key = route
        .iter()
        .rposition(|step| matches!(step, Step::Key(_)))?;
    Some(key + 1)
}

/// Removes the value at a route; returns false if there is none.
fn remove(node: &mut Node, route: &[Step]) -> bool {
    match (&mut node.value, route) {
        (Value::Map(entries), [Step::Key(key)]) => {
            // Two mistakes may be in the same value.
            entries.retain(|(name, _)| name.text != *key);
            true
        }
        (Value::Map(entries), [Step::Key(key), rest @ ..]) => {
            match entries.iter_mut().find(|(name, _)| name.text == *key) {
                Some((_, value)) => remove(value, rest),
                None => true,
            }
        }
        (Value::List(items), [Step::Index(index), rest @ ..]) if !rest.is_empty() => {
            items.get_mut(*index).is_some_and(|item| remove(item, rest))
        }
        _ => false,
    }
}

/// Returns whether a problem would also be there if the removed values were right: it concerns a value that is there,
/// contains none of them, and speaks of none of them.
fn is_independent(problem: &Problem, removed: &[Vec<Step>], rest: &Node) -> bool {
    let route = problem.route.as_slice();
    let mut names = removed.iter().filter_map(|route| match route.last() {
        Some(Step::Key(key)) => Some(format!("`{key}`")),
        _ => None,
    });
    let says = |name: &str| {
        let hint = problem.hint.as_deref().unwrap_or_default();
        problem.message.contains(name) || hint.contains(name)
    };
    !route.is_empty()
        && is_there(rest, route)
        && !removed.iter().any(|gone| gone.starts_with(route))
        && !names.any(|name| says(&name))
}

fn is_there(node: &Node, route: &[Step]) -> bool {
    match route {
        [] => true,
        [Step::Key(key), rest @ ..] => node.get(key).is_some_and(|value| is_there(value, rest)),
        [Step::Index(index), rest @ ..] => {
            let item = node.items().get(*index);
            item.is_some_and(|item| is_there(item, rest))
        }
    }
}
