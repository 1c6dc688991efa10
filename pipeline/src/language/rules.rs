//! Rules that select cells by their labels: exclusions and overrides.

use super::axes::Axes;
use super::diagnostics::Span;
use super::expand::Context;
use super::stages::{Choice, Draft, choice};
use super::tree::{Key, Node, Value};
use crate::stage::Step;

/// A rule with the number of cells it has matched.
pub(super) struct Rule<'n> {
    pub(super) choice: Choice,
    pub(super) node: &'n Node,
    pub(super) index: usize,
    pub(super) hits: usize,
}

impl Rule<'_> {
    pub(super) fn place(&self, draft: &Draft, what: &str) -> (Span, Vec<Step>) {
        let span = self
            .node
            .entry("where")
            .map_or(self.node.span, |(key, _)| key.span);
        let mut route = match what {
            "override" => vec![Step::Key("overrides".into())],
            _ => draft.route(&["exclude"]),
        };
        route.extend([Step::Index(self.index), Step::Key("where".into())]);
        (span, route)
    }
}

/// Reads the exclusions of a stage, or the overrides that name it.
pub(super) fn rules<'n>(
    draft: &'n Draft,
    axes: &Axes,
    context: &Context<'n>,
    which: &str,
) -> Vec<Rule<'n>> {
    let own = draft
        .node
        .get("exclude")
        .map(Node::items)
        .unwrap_or_default();
    let (nodes, overriding) = if which == "exclude" {
        (own, false)
    } else {
        (context.overrides, true)
    };
    let mut rules = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let Some(place) = node.get("where") else {
            // A mistake that is already reported. Its labels are read, so that the user sees all mistakes at once.
            if !overriding {
                check_labels(node, draft, axes, context, index);
            }
            continue;
        };
        // Mistakes in the shape of a rule are already reported.
        if !matches!(&place.value, Value::Map(entries) if !entries.is_empty()) {
            continue;
        }
        let mut place = place.clone();
        if overriding {
            if place.get("stage").and_then(Node::text) != Some(draft.name) {
                continue;
            }
            if let Value::Map(entries) = &mut place.value {
                entries.retain(|(key, _)| key.text != "stage");
            }
        }
        let mut route = if overriding {
            vec![Step::Key("overrides".into())]
        } else {
            draft.route(&["exclude"])
        };
        route.extend([Step::Index(index), Step::Key("where".into())]);
        if let Some(choice) = checked_choice(&place, draft, axes, context, &route) {
            rules.push(Rule {
                choice,
                node,
                index,
                hits: 0,
            });
        }
    }
    rules
}

/// Reports labels that do not exist in an entry of `exclude` that lacks `where`.
fn check_labels(node: &Node, draft: &Draft, axes: &Axes, context: &Context, index: usize) {
    let over = |(key, _): &(Key, Node)| draft.over.iter().any(|axis| axes[*axis].name == key.text);
    let named = node.entries().iter().filter(|entry| over(entry)).cloned();
    let place = Node {
        span: node.span,
        value: Value::Map(named.collect()),
    };
    let mut route = draft.route(&["exclude"]);
    route.push(Step::Index(index));
    checked_choice(&place, draft, axes, context, &route);
}

/// Reads the labels that a rule of a stage selects, and reports what is wrong with them.
fn checked_choice(
    place: &Node,
    draft: &Draft,
    axes: &Axes,
    context: &Context,
    route: &[Step],
) -> Option<Choice> {
    let mut out = Vec::new();
    let choice = choice(
        place,
        &draft.over,
        axes,
        context.parameters,
        route,
        &mut out,
    );
    out.into_iter().for_each(|m| context.sink.add(m));
    choice
}

/// Returns the reason in an entry.
pub(super) fn reason(node: &Node) -> Option<String> {
    Some(node.get("reason")?.text()?.trim().to_owned())
}
