//! Checks the sections of a file before any stage is expanded.

use super::check::{Checker, has_word};
use super::check_name;
use super::declared_axes::replaced;
use super::diagnostics::{Mistake, MistakeKind, Sink, Span};
use super::grammar::{common_schema, file_keys};
use super::interpolate::{Scope, Values};
use super::other_kinds::separated;
use super::parameters::check_profile_set;
use super::stages::common_keys;
use super::tree::{Node, Value};
use crate::stage::{Json, Registry, Step};
use crate::suggest::{closest, list, remedy};

/// Reports a file of another tool: one mistake, because each of its keys would be one.
pub(super) fn no_experiment(root: &Node, schema: &Json, registry: &Registry) -> Option<Mistake> {
    let needed = ["experiment", "seed", "stages"];
    let is_ours = |key: &str| {
        let mut collections = registry.collections.iter();
        schema["properties"].get(key).is_some()
            || collections.any(|(name, _)| *name == key)
            || closest(key, needed).is_some()
    };
    let (first, _) = root.entries().first()?;
    if root.entries().iter().any(|(key, _)| is_ours(&key.text)) {
        return None;
    }
    let others = [
        ("apiVersion", "a manifest of Kubernetes"),
        ("services", "a file of Docker Compose"),
        ("jobs", "a workflow of continuous integration"),
    ];
    let other = others.iter().find(|(key, _)| root.get(key).is_some());
    let message = match other {
        Some((_, what)) => format!("this is {what}, not an experiment"),
        None => format!(
            "this is not an experiment: the required keys {} are missing",
            list(needed)
        ),
    };
    let hint = "`benchtrail init NAME` writes an experiment, which you can change";
    Some(Mistake::new(first.span, &[], message).hint(hint))
}

/// Adds the place where an axis or a parameter belongs, if it is a key of a profile itself.
fn in_a_profile(mistake: Mistake, root: &Node) -> Mistake {
    let key = match mistake.route.as_slice() {
        [Step::Key(section), _, Step::Key(key)]
            if section == "profiles" && mistake.kind == MistakeKind::UnknownKey =>
        {
            key.clone()
        }
        _ => return mistake,
    };
    let is_in = |section: &str| {
        root.get(section)
            .is_some_and(|section| section.get(&key).is_some())
    };
    match (is_in("axes"), is_in("parameters")) {
        (true, _) => mistake.hint(format!("write `axes: {{{key}: [LABEL]}}`")),
        (_, true) => mistake.hint(format!("write `set: {{{key}: VALUE}}`")),
        _ => mistake,
    }
}

/// Returns whether a required key is missing for no other reason: it is not there misspelt, and no word of another tool
/// makes the file a change of another one, which has the key.
fn is_lacking(root: &Node, key: &str, names: &[&str]) -> bool {
    let mut unknown = root
        .entries()
        .iter()
        .map(|(key, _)| key.text.as_str())
        .filter(|key| !names.contains(key));
    !unknown.any(|written| {
        ["include", "import"].contains(&written)
            || closest(written, names.iter().copied()) == Some(key)
            || has_word(written, key)
    })
}

/// Checks the sections in which placeholders may only be parameters.
pub(super) fn check_root(
    root: &Node,
    schema: &Json,
    values: &Values,
    registry: &Registry,
    sink: &Sink,
) {
    let scope = Scope::of_parameters(values);
    let expand = |text: &str, span: Span, route: &[Step]| scope.values(text, span, route);
    let collections: Vec<String> = registry
        .collections
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    let here =
        |key: &str| !["parameters", "profiles", "axes", "overrides", "experiment"].contains(&key);
    let is_collection = |key: &str| collections.iter().any(|c| c == key);
    let part = |keep: &dyn Fn(&str) -> bool| {
        let entries = root
            .entries()
            .iter()
            .filter(|(k, _)| keep(&k.text))
            .cloned()
            .collect();
        Node {
            span: root.span,
            value: Value::Map(entries),
        }
    };
    let around = [
        ("at the top of the file", file_keys()),
        (
            "of a stage, below its name in `stages`",
            common_keys(&common_schema()),
        ),
    ];
    let plain = Checker {
        other_keys: &collections,
        around: &around,
        ..Checker::of(schema)
    };
    let with_values = Checker {
        expand: Some(&expand),
        ..plain
    };
    let mut out = with_values.check(schema, &part(&|k| here(k) && !is_collection(k)), &[]);
    out.retain(|m| m.kind != MistakeKind::MissingKey || !m.route.is_empty());
    // A key of a stage beside the stages is reported as such.
    let stages = root.get("stages").map(Node::entries).unwrap_or_default();
    let (_, strays) = separated(stages, &common_keys(&common_schema()), registry);
    out.retain(|m| {
        strays
            .iter()
            .all(|stray| !m.route.starts_with(&stray.route()))
    });
    let mut rest = schema.clone();
    if let Some(properties) = rest["properties"].as_object_mut() {
        for (key, property) in properties.iter_mut() {
            if here(key) || ["parameters", "axes"].contains(&key.as_str()) {
                // Checked elsewhere; only the key's description is needed here.
                *property = serde_json::json!({ "description": property.get("description") });
            }
        }
        properties.extend(collections.iter().map(|c| (c.clone(), Json::Bool(true))));
    }
    let names: Vec<&str> = around[0]
        .1
        .iter()
        .chain(&collections)
        .map(String::as_str)
        .collect();
    if let Some(required) = rest["required"].as_array_mut() {
        required.retain(|key| key.as_str().is_none_or(|key| is_lacking(root, key, &names)));
    }
    let known_keys = part(&|k| schema["properties"].get(k).is_some() || is_collection(k));
    let others = Checker::of(&rest).check(&rest, &known_keys, &[]);
    out.extend(
        others
            .into_iter()
            .map(|mistake| in_a_profile(mistake, root)),
    );
    if let Some(seed) = root.get("seed").filter(|n| matches!(n.value, Value::Null)) {
        out.push(
            Mistake::new(seed.span, &[Step::Key("seed".into())], "the seed is empty")
                .hint("give a whole number"),
        );
    }
    if let Some(node) = root.get("experiment")
        && let Some(name) = node.text()
    {
        check_name(
            name,
            "experiment",
            node.span,
            &[Step::Key("experiment".into())],
            &mut out,
        );
    }
    out.into_iter().for_each(|m| sink.add(m));
}

/// Checks the profiles that are not in force; the one in force is checked when it is used.
pub(super) fn check_profiles(root: &Node, in_force: Option<&str>, values: &Values, sink: &Sink) {
    let scope = Scope::of_parameters(values);
    let declared = root.get("axes").map(Node::entries).unwrap_or_default();
    for (key, node) in root.get("profiles").map(Node::entries).unwrap_or_default() {
        let route = [Step::Key("profiles".into()), Step::Key(key.text.clone())];
        let mut out = Vec::new();
        // A profile's lock is `NAME.PROFILE.lock`.
        check_name(&key.text, "profile", key.span, &route, &mut out);
        out.into_iter().for_each(|m| sink.add(m));
        check_profile_set(node, root.get("parameters"), &route, sink);
        for (axis_key, replacement) in node.get("axes").map(Node::entries).unwrap_or_default() {
            let mut route = route.to_vec();
            route.extend([Step::Key("axes".into()), Step::Key(axis_key.text.clone())]);
            let Some((_, axis_node)) = declared.iter().find(|(k, _)| k.text == axis_key.text)
            else {
                let names = declared.iter().map(|(k, _)| k.text.as_str());
                let message = format!("unknown axis `{}`", axis_key.text);
                let hint = remedy(&axis_key.text, "axes", names);
                sink.add(Mistake::new(axis_key.span, &route, message).hint(hint));
                continue;
            };
            let has_placeholder = replacement.json().to_string().contains("${");
            if in_force != Some(key.text.as_str()) && !has_placeholder {
                // A mistake in the axis itself is reported where it is declared.
                let Ok(axis_node) = scope.resolve(axis_node, None) else {
                    continue;
                };
                let mut out = Vec::new();
                replaced(&axis_key.text, &axis_node, replacement, &route, &mut out);
                out.into_iter().for_each(|m| sink.add(m));
            }
        }
    }
}

pub(super) fn check_overridden(overrides: &[Node], stages: &[&str], sink: &Sink) {
    for (i, node) in overrides.iter().enumerate() {
        let Some(stage) = node.get("where").and_then(|w| w.get("stage")) else {
            continue;
        };
        let Some(name) = stage.text().filter(|name| !stages.contains(name)) else {
            continue;
        };
        let route = [
            Step::Key("overrides".into()),
            Step::Index(i),
            Step::Key("where".into()),
            Step::Key("stage".into()),
        ];
        let hint = remedy(name, "stages", stages.iter().copied());
        sink.add(Mistake::new(stage.span, &route, format!("unknown stage `{name}`")).hint(hint));
    }
}
