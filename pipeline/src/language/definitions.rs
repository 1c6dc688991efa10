//! The experiment's own definitions, with its parameters substituted, and its claims.

use std::collections::BTreeSet;

use super::axes::Axes;
use super::diagnostics::{MistakeKind, Sink};
use super::interpolate::{Scope, Values};
use super::library::Layers;
use super::tree::{Node, Value};
use crate::stage::{Json, Library as _, Registry, Step};

/// Returns the declared claims by name. They are stated before the measurement, so they belong to the experiment and
/// not to the stage that judges them.
pub(super) fn claims(library: &Layers<'_>, registry: &Registry) -> serde_json::Map<String, Json> {
    let registered = registry
        .collections
        .iter()
        .any(|(name, _)| *name == "claims");
    let names = if registered {
        library.names("claims")
    } else {
        Vec::new()
    };
    names
        .into_iter()
        .filter_map(|name| Some((name.clone(), library.find("claims", &name)?)))
        .collect()
}

/// Returns the tree with resolved parameters in the experiment's own definitions. Also returns the definitions that
/// cannot be checked because a placeholder in them, or the parameter behind it, is wrong. Axes have no label there: a
/// definition is the same for every cell that names it.
pub(super) fn with_definitions_resolved(
    root: &Node,
    values: &Values,
    axes: &Axes,
    registry: &Registry,
    sink: &Sink,
) -> (Node, BTreeSet<(String, String)>) {
    let scope = Scope {
        parameters: values,
        axes,
        over: &[],
        labels: &[],
    };
    let mut hidden = BTreeSet::new();
    let mut resolved = root.clone();
    let Value::Map(sections) = &mut resolved.value else {
        return (resolved, hidden);
    };
    for (collection, section) in sections {
        if !registry
            .collections
            .iter()
            .any(|(name, _)| *name == collection.text)
        {
            continue;
        }
        let Value::Map(definitions) = &mut section.value else {
            continue;
        };
        for (key, node) in definitions {
            let mut mistakes = Vec::new();
            scope.check(
                node,
                &[&collection.text, &key.text].map(|s| Step::Key(s.clone())),
                &mut mistakes,
            );
            match scope.resolve(node, None) {
                Ok(definition) if mistakes.is_empty() && !scope.hides(node) => *node = definition,
                _ => {
                    hidden.insert((collection.text.clone(), key.text.clone()));
                }
            }
            for mut mistake in mistakes {
                if mistake.kind == MistakeKind::NoValue {
                    let hint = "definitions may use only parameters; use axes in the settings of \
                        a stage";
                    mistake = mistake.hint(hint);
                }
                sink.add(mistake);
            }
        }
    }
    (resolved, hidden)
}
