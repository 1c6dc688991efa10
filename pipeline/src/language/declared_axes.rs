//! The axes that a file declares, with the replacements of the profile in force.

use typed_index_collections::TiVec;

use super::axes::{AxisDraft, axis, is_plain_list, select};
use super::axis_forms::of_another_tool;
use super::check::Checker;
use super::check_name;
use super::diagnostics::{Mistake, Sink};
use super::interpolate::{Scope, Values};
use super::parameters::parameters;
use super::tree::{Node, Value};
use crate::ids::AxisId;
use crate::stage::Step;

/// Reads the axes. Each also records the labels that it has only without the profile and without the values `set` on
/// the command line.
pub(super) fn axes(
    root: &Node,
    profile: Option<(&str, &Node)>,
    set: &[(String, String)],
    values: &Values,
    checker: &Checker,
    sink: &Sink,
) -> TiVec<AxisId, AxisDraft> {
    let mut axes = declared(root, profile, values, checker, sink);
    if profile.is_some() || !set.is_empty() {
        // Mistakes in the defaults are already reported and do not matter here.
        let aside = Sink::default();
        let defaults = parameters(root, None, &[], checker, &aside);
        for parameters in [values, &defaults] {
            let declared = declared(root, None, parameters, checker, &aside);
            axes.iter_mut()
                .zip(&declared)
                .for_each(|(axis, declared)| axis.note_dropped(declared));
        }
    }
    axes
}

/// Reads an axis that a profile replaces.
pub(super) fn replaced(
    name: &str,
    declared: &Node,
    by: &Node,
    route: &[Step],
    out: &mut Vec<Mistake>,
) -> AxisDraft {
    let has_fields = !is_plain_list(declared) && declared.get("from").is_none();
    if has_fields && is_plain_list(by) {
        let own = [Step::Key("axes".into()), Step::Key(name.to_owned())];
        return select(&axis(name, declared, &own, &mut Vec::new()), by, route, out);
    }
    axis(name, by, route, out)
}

fn declared(
    root: &Node,
    profile: Option<(&str, &Node)>,
    values: &Values,
    checker: &Checker,
    sink: &Sink,
) -> TiVec<AxisId, AxisDraft> {
    let schema = checker
        .document
        .pointer("/$defs/Axis")
        .expect("the file's schema defines axes");
    let scope = Scope::of_parameters(values);
    let read = |node: &Node, route: &[Step], out: &mut Vec<Mistake>| -> Option<Node> {
        let before = out.len();
        scope.check(node, route, out);
        let broken = |text: &str| {
            scope
                .values(text, node.span, route)
                .is_ok_and(|values| values.is_empty())
        };
        if out.len() > before || any_text(node, &broken) {
            return None;
        }
        let node = scope.resolve(node, None).map_err(|m| out.push(m)).ok()?;
        match of_another_tool(&node, route) {
            Some(mistake) => out.push(mistake),
            None => out.extend(checker.check(schema, &node, route)),
        }
        (out.len() == before).then_some(node)
    };
    let mut axes = TiVec::new();
    let section = root.get("axes");
    if let Some(section) = section.filter(|s| !matches!(s.value, Value::Map(_))) {
        let message = format!("expected a mapping, found {}", section.describe());
        let hint = axes_for(section);
        sink.add(Mistake::new(section.span, &[Step::Key("axes".into())], message).hint(hint));
    }
    // The items of a list of mappings are read as well, so that a stage that names them has no further mistake.
    let entries = section
        .into_iter()
        .flat_map(|section| match &section.value {
            Value::List(items) => items.iter().flat_map(Node::entries).collect(),
            _ => section.entries().iter().collect::<Vec<_>>(),
        });
    for (key, node) in entries {
        let route = [Step::Key("axes".into()), Step::Key(key.text.clone())];
        let mut out = Vec::new();
        check_name(&key.text, "axis", key.span, &route, &mut out);
        if values.contains_key(&key.text) {
            let message = format!("`{}` is both a parameter and an axis", key.text);
            let hint = format!("rename one: `${{{}}}` could mean either", key.text);
            out.push(Mistake::new(key.span, &route, message).hint(hint));
        }
        let declared = read(node, &route, &mut out);
        let replacement =
            profile.and_then(|(name, p)| Some((name, p.get("axes")?.get(&key.text)?)));
        let draft = match (declared, replacement) {
            (Some(declared), Some((name, by))) => {
                let route = ["profiles", name, "axes", &key.text].map(|s| Step::Key(s.to_owned()));
                read(by, &route, &mut out)
                    .map(|by| replaced(&key.text, &declared, &by, &route, &mut out))
            }
            (Some(declared), None) => Some(axis(&key.text, &declared, &route, &mut out)),
            (None, _) => None,
        };
        let broken = AxisDraft {
            broken: true,
            ..AxisDraft::without_labels(&key.text)
        };
        axes.push(draft.filter(|_| out.is_empty()).unwrap_or(broken));
        out.into_iter().for_each(|m| sink.add(m));
    }
    let named = section.into_iter().flat_map(names_alone);
    let named = named.map(|name| AxisDraft {
        broken: true,
        ..AxisDraft::without_labels(name)
    });
    axes.extend(named);
    axes
}

/// Returns the axes that a section names without their labels, as `axes: [clients]` does.
fn names_alone(section: &Node) -> Vec<&str> {
    let mut names = match &section.value {
        Value::Text(text) => text.split(',').map(str::trim).collect(),
        Value::List(items) => items.iter().filter_map(Node::text).collect(),
        _ => Vec::new(),
    };
    names.sort_unstable();
    names.dedup();
    names
}

fn any_text(node: &Node, test: &dyn Fn(&str) -> bool) -> bool {
    match &node.value {
        Value::Text(text) => text.contains("${") && test(text),
        _ => {
            node.items().iter().any(|n| any_text(n, test))
                || node.entries().iter().any(|(_, n)| any_text(n, test))
        }
    }
}

/// Returns the remedy for a section `axes` that is not a mapping.
fn axes_for(section: &Node) -> String {
    if let Some((key, _)) = section
        .items()
        .iter()
        .find_map(|item| item.entries().first())
    {
        return format!(
            "axes are a mapping, not a list: remove the `- ` before `{}`",
            key.text
        );
    }
    let named = match &section.value {
        Value::Text(text) => Some(text.as_str()),
        Value::List(items) => items.iter().find_map(Node::text),
        _ => None,
    };
    let is_name = |text: &&str| {
        text.chars()
            .all(|c| c.is_alphanumeric() || "-_".contains(c))
    };
    match named {
        Some(text) if text.contains(": ") || text.contains(":[") => {
            format!("remove the quotes, and write `axes: {{{text}}}`")
        }
        Some(name) if is_name(&name) => {
            format!("name each axis with its labels: `axes: {{{name}: [1, 2, 4]}}`")
        }
        _ => "write axes as `axes: {name: [label, label]}`".to_owned(),
    }
}
