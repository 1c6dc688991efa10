//! Reports numbers that a text would spell in another way than the file. A version `0.10` is read as the number 0.1, so
//! `vllm==${version}` would name another version.

use std::collections::BTreeSet;

use super::diagnostics::{Mistake, Sink, Span};
use super::interpolate::{each_text, written_out};
use super::tree::{Node, Value};
use crate::stage::{Json, Step};

/// Reports every label, field and parameter that is inserted into a longer text, and is written there with other digits.
pub(super) fn check(root: &Node, sink: &Sink) {
    let mut reported: BTreeSet<Span> = BTreeSet::new();
    each_text(root, &mut Vec::new(), &mut |text, _, _| {
        for placeholder in written_out(text) {
            let (name, path) = match placeholder.split_once('.') {
                Some((name, path)) => (name, Some(path)),
                None => (placeholder, None),
            };
            for (route, span, written, inserted) in respelt(root, name, path) {
                if !reported.insert(span) {
                    continue;
                }
                let message = format!("`{written}` becomes `{inserted}` in `{text}`");
                let hint = format!(
                    "put it in quotes if it is text, such as a version: \"{written}\"; write {inserted} if it is a number"
                );
                sink.add(Mistake::new(span, &route, message).hint(hint));
            }
        }
    });
}

/// A number with its place, its spelling in the file, and that in a text.
type Respelt = (Vec<Step>, Span, String, String);

/// Returns the numbers that a placeholder stands for and that a text would spell differently.
fn respelt(root: &Node, name: &str, path: Option<&str>) -> Vec<Respelt> {
    let mut numbers = Vec::new();
    let profiles = root.get("profiles").map(Node::entries).unwrap_or_default();
    let in_profiles = |section: &'static str| {
        profiles.iter().filter_map(move |(profile, node)| {
            let node = node.get(section)?.get(name)?;
            let route = ["profiles", &profile.text, section, name].map(key).to_vec();
            Some((route, node))
        })
    };
    let own = |section: &str| {
        let node = root.get(section)?.get(name)?;
        Some(([section, name].map(key).to_vec(), node))
    };
    for (route, axis) in own("axes").into_iter().chain(in_profiles("axes")) {
        of_axis(axis, &route, path, &mut numbers);
    }
    if let Some((mut route, parameter)) = own("parameters") {
        route.push(key("default"));
        numbers.extend(parameter.get("default").and_then(|d| one(d, &route)));
    }
    for (route, value) in in_profiles("set") {
        numbers.extend(one(value, &route));
    }
    numbers
}

fn key(text: &str) -> Step {
    Step::Key(text.to_owned())
}

/// Adds the labels of an axis, or a field of its labels.
fn of_axis(axis: &Node, route: &[Step], path: Option<&str>, numbers: &mut Vec<Respelt>) {
    let items = axis.items().iter().enumerate();
    let items = items.map(|(i, item)| (Step::Index(i), item));
    let Some(path) = path else {
        numbers.extend(items.filter_map(|(step, item)| one(item, &[route, &[step]].concat())));
        return;
    };
    // A label with fields is an entry of a mapping, or a mapping of one entry in a list.
    let listed = items.flat_map(|(step, item)| {
        let entries = item.entries().iter();
        entries.map(move |(label, fields)| (vec![step.clone(), key(&label.text)], fields))
    });
    let entries = axis.entries().iter();
    let mapped = entries.map(|(label, fields)| (vec![key(&label.text)], fields));
    for (at, fields) in mapped.chain(listed) {
        let field = path
            .split('.')
            .try_fold(fields, |node, part| node.get(part));
        let steps: Vec<Step> = path.split('.').map(key).collect();
        numbers.extend(field.and_then(|field| one(field, &[route, &at, &steps].concat())));
    }
}

/// Returns a number that a text would spell differently.
fn one(node: &Node, route: &[Step]) -> Option<Respelt> {
    let Value::Float(number) = &node.value else {
        return None;
    };
    let inserted = Json::from(number.value).to_string();
    let written = number.written.to_string();
    (inserted != written).then(|| (route.to_vec(), node.span, written, inserted))
}
