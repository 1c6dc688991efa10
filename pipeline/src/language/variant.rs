//! The settings of some cells of a stage, with overrides applied, and their canonical parameters.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use super::beside_mistakes;
use super::check::Checker;
use super::design::KEYS;
use super::diagnostics::{Mistake, MistakeKind, Span};
use super::expand::Context;
use super::grammar::{common_schema, file_keys};
use super::interpolate::{MERGE, Scope, merged};
use super::other_kinds::{is_stage, keys_of, kind_with};
use super::rules::reason;
use super::settings::DurationText;
use super::stages::{Draft, coordinates, path_remedy};
use super::tree::{Key, Node, Value};
use crate::stage::{Coordinates, Json, Step};

/// The settings of some cells, as written or with overrides applied.
pub(super) struct Variant {
    settings: Rc<Node>,
    timeout: Option<Node>,
    retries: Option<Node>,
    /// The reasons of the applied overrides.
    pub(super) note: Option<String>,
    /// Positions in `over` that the settings refer to, and parameter sets by the labels there.
    pub(super) refers: Vec<usize>,
    sets: HashMap<Vec<u16>, (u32, Option<u32>)>,
    /// The routes of values with a wrong form, from the settings on.
    wrong: Vec<Vec<Step>>,
    /// The same for the limits.
    limit_refers: Vec<usize>,
    limits: HashMap<Vec<u16>, (Option<Duration>, u32)>,
}

/// Leaves out settings whose placeholder is a field that the label lacks. A label may have a null for a whole setting, too.
fn without_absent(written: &Node, resolved: Node, lacks: &dyn Fn(&str) -> bool) -> Node {
    let inner = |source: &Node, value| without(source, value, lacks);
    kept(written, resolved, &|_| true, &inner)
}

/// Leaves out what is absent inside of a setting. There, a null of a label is a value.
fn without(written: &Node, resolved: Node, lacks: &dyn Fn(&str) -> bool) -> Node {
    let inner = |source: &Node, value| without(source, value, lacks);
    match resolved.value {
        Value::List(items) if items.len() == written.items().len() => {
            let items = items.into_iter().zip(written.items());
            let items = items.map(|(item, source)| inner(source, item)).collect();
            Node {
                span: resolved.span,
                value: Value::List(items),
            }
        }
        _ => kept(written, resolved, lacks, &inner),
    }
}

/// Leaves out the entries of a mapping that are null by an absent placeholder, and applies `inner` to the others.
fn kept(
    written: &Node,
    resolved: Node,
    absent: &dyn Fn(&str) -> bool,
    inner: &dyn Fn(&Node, Node) -> Node,
) -> Node {
    let Value::Map(entries) = resolved.value else {
        return resolved;
    };
    let entries = entries.into_iter().filter_map(|(key, value)| {
        let Some(source) = written.get(&key.text) else {
            return Some((key, value));
        };
        let is_null = matches!(value.value, Value::Null);
        let left_out = is_null && source.text().is_some_and(absent);
        (!left_out).then(|| (key, inner(source, value)))
    });
    Node {
        span: resolved.span,
        value: Value::Map(entries.collect()),
    }
}

/// The most bytes that all parameter sets of a stage may have, written out.
const MAX_SETTINGS: usize = 1 << 30;

/// The distinct parameter sets and placements of a stage.
#[derive(Default)]
pub(super) struct Sets {
    pub(super) list: Vec<Json>,
    /// The settings that each parameter set was first made from.
    pub(super) written: Vec<Rc<Node>>,
    index: HashMap<String, u32>,
    /// The bytes of all of them, written out.
    bytes: usize,
    pub(super) placements: Vec<Json>,
}

impl Sets {
    /// Returns the index of a placement.
    fn place(&mut self, placement: Json) -> u32 {
        let position = self.placements.iter().position(|p| *p == placement);
        let index = position.unwrap_or_else(|| {
            self.placements.push(placement);
            self.placements.len() - 1
        });
        u32::try_from(index).expect("a stage has at most a million cells")
    }
}

impl Variant {
    /// Applies overrides to a stage's settings and checks the result.
    pub(super) fn new(
        draft: &Draft,
        scope: &Scope,
        overrides: &[(&Node, usize)],
        context: &Context,
    ) -> Self {
        let mut settings = draft.settings.clone();
        let mapping = |text: &str| {
            let values = scope.values(text, draft.span, &[]).unwrap_or_default();
            values
                .iter()
                .any(|value| matches!(value.value, Value::Map(_)))
        };
        let mut limits = [
            draft.node.get("timeout").cloned(),
            draft.node.get("retries").cloned(),
        ];
        let mut reasons = Vec::new();
        for (node, index) in overrides {
            reasons.extend(reason(node));
            for (key, value) in node.get("set").map(Node::entries).unwrap_or_default() {
                let route = [
                    Step::Key("overrides".into()),
                    Step::Index(*index),
                    Step::Key("set".into()),
                    Step::Key(key.text.clone()),
                ];
                match key.text.as_str() {
                    "timeout" => limits[0] = Some(value.clone()),
                    "retries" => limits[1] = Some(value.clone()),
                    "kind" | "needs" | "over" | "exclude" | "include" | "exclusive"
                    | "description" => {
                        let message =
                            format!("`{}` cannot differ between the cells of a stage", key.text);
                        let hint = "change it in the stage, for all its cells";
                        context
                            .sink
                            .add(Mistake::new(key.span, &route, message).hint(hint));
                    }
                    path => {
                        let parts: Vec<&str> = path.split('.').collect();
                        if !put(&mut settings, &parts, key, value, &mapping) {
                            let message = format!("the path `{path}` does not exist");
                            context.sink.add(
                                Mistake::new(key.span, &route, message).hint(path_remedy(draft)),
                            );
                        }
                    }
                }
            }
        }
        let [timeout, retries] = limits;
        let limit_refers = timeout
            .iter()
            .chain(&retries)
            .flat_map(|node| scope.references(node))
            .collect();
        let mut variant = Self {
            wrong: Vec::new(),
            refers: scope.references(&settings).into_iter().collect(),
            settings: Rc::new(settings),
            timeout,
            retries,
            note: (!reasons.is_empty()).then(|| reasons.join("; ")),
            sets: HashMap::new(),
            limit_refers,
            limits: HashMap::new(),
        };
        variant.wrong = variant.check(draft, scope, context);
        variant
    }

    /// Reports what the kind finds in a cell's settings beside the values with a wrong form.
    pub(super) fn report_beside(
        &self,
        at: &[u16],
        draft: &Draft,
        scope: &Scope,
        context: &Context,
    ) {
        beside_mistakes::report(&self.settings, &self.wrong, at, draft, scope, context);
    }

    /// Reports the values with a wrong form, and returns their routes.
    fn check(&self, draft: &Draft, scope: &Scope, context: &Context) -> Vec<Vec<Step>> {
        let Some(kind) = draft.kind else {
            return Vec::new();
        };
        let expand = |text: &str, span: Span, route: &[Step]| scope.values(text, span, route);
        let common = common_schema();
        let keys = super::stages::common_keys(&common);
        let schema = kind.schema().to_value();
        let elsewhere = |key: &str, value: &Node| {
            let of_settings = kind.setting_meant(key, &value.json(), context.library);
            of_settings.or_else(|| kind_with(key, context.library.kinds()))
        };
        let of_stage = keys_of(kind).into_iter().chain(keys.iter().cloned());
        let around = [
            ("of the stage", of_stage.collect()),
            ("at the top of the file", file_keys()),
            (
                "of `design`, at the top of the file",
                KEYS.map(str::to_owned).to_vec(),
            ),
        ];
        let definitions = context.library.collections();
        let checker = Checker {
            definitions: &definitions,
            expand: Some(&expand),
            other_keys: &keys,
            elsewhere: Some(&elsewhere),
            around: &around,
            ..Checker::of(&schema)
        };
        let mut out = checker.check(&schema, &self.settings, &draft.route(&[]));
        for mistake in &mut out {
            let node = self
                .settings
                .nearest(mistake.route.get(2..).unwrap_or_default());
            if let (MistakeKind::UnknownKey, [_, _, Step::Key(key)]) =
                (mistake.kind, mistake.route.as_slice())
                && is_stage(node, context.library.kinds())
            {
                mistake.message = format!("the stage `{key}` is inside the stage `{}`", draft.name);
                mistake.hint = Some(format!("indent it like the stage `{}`", draft.name));
            }
            if let Some(name) = scope.named_without_sign(node)
                && mistake.kind == MistakeKind::Other
            {
                mistake.hint = Some(format!(
                    "to use the value of `{name}`, write `\"${{{name}}}\"`"
                ));
            }
        }
        scope.check(&self.settings, &draft.route(&[]), &mut out);
        let wrong = beside_mistakes::routes(&out);
        let checker = Checker {
            expand: Some(&expand),
            ..Checker::of(&common)
        };
        for (name, node) in [("timeout", &self.timeout), ("retries", &self.retries)] {
            if let Some(node) = node {
                out.extend(checker.check(&common["properties"][name], node, &draft.route(&[name])));
            }
        }
        if let Some(node) = &self.timeout
            && let Value::Text(text) = &node.value
            && DurationText::parse(text).is_ok_and(|span| span.0.is_zero())
        {
            let message = "no cell can end within 0 s";
            let hint = "give the longest time that a cell may take, or leave `timeout` out";
            out.push(Mistake::new(node.span, &draft.route(&["timeout"]), message).hint(hint));
        }
        out.into_iter().for_each(|m| context.sink.add(m));
        wrong
    }

    pub(super) fn parameters(
        &mut self,
        at: &[u16],
        draft: &Draft,
        scope: &Scope,
        context: &Context,
        sets: &mut Sets,
    ) -> (u32, Option<u32>) {
        let key: Vec<u16> = self.refers.iter().map(|position| at[*position]).collect();
        if let Some(index) = self.sets.get(&key) {
            return *index;
        }
        let index = self
            .canonical(at, draft, scope, context, sets)
            .unwrap_or_default();
        self.sets.insert(key, index);
        index
    }

    fn canonical(
        &self,
        at: &[u16],
        draft: &Draft,
        scope: &Scope,
        context: &Context,
        sets: &mut Sets,
    ) -> Option<(u32, Option<u32>)> {
        let kind = draft.kind?;
        if scope.hides(&self.settings) {
            return None;
        }
        let resolved = match scope.resolve(&self.settings, Some(at)) {
            Ok(settings) => without_absent(&self.settings, settings, &|text| scope.lacks(text, at)),
            Err(mistake) => {
                context.sink.add(Mistake {
                    route: draft.route(&[]),
                    ..mistake
                });
                return None;
            }
        };
        let mut settings = resolved.json();
        sort(&mut settings, kind.ordered());
        match kind.canonical(&settings, context.library) {
            Ok(mut parameters) => {
                parameters.sort_all_objects();
                let next =
                    u32::try_from(sets.list.len()).expect("a stage has at most a million cells");
                let written = parameters.to_string();
                let length = written.len();
                let index = *sets.index.entry(written).or_insert(next);
                if index == next {
                    sets.bytes += length;
                    // Once: every further set would say the same.
                    if sets.bytes > MAX_SETTINGS {
                        if sets.bytes - length <= MAX_SETTINGS {
                            let message = format!(
                                "with the labels inserted, the settings of the stage have more than {MAX_SETTINGS} bytes"
                            );
                            let mistake = Mistake::new(draft.span, &draft.route(&[]), message);
                            let hint = "use fewer labels, or put long texts into files";
                            context.sink.add(mistake.hint(hint));
                        }
                        return None;
                    }
                    sets.list.push(parameters);
                    sets.written.push(Rc::clone(&self.settings));
                }
                let placement = kind.placement(&settings, context.library);
                Some((index, placement.map(|placement| sets.place(placement))))
            }
            // A wrong definition is already reported at its own place.
            Err(_) if context.library.take_broken() => None,
            Err(_) if self.report_missing(&resolved, at, draft, scope, context) => None,
            Err(problems) => {
                for problem in problems {
                    let in_definition = context.library.mistake(&problem);
                    context.sink.add(in_definition.unwrap_or_else(|| {
                        Mistake {
                            labels: self
                                .labels(&problem.route, at, draft, scope)
                                .map(Into::into),
                            ..draft.mistake(&self.settings, problem)
                        }
                    }));
                }
                None
            }
        }
    }

    /// Reports keys that are missing because their placeholders are fields that the labels lack. Returns whether there are
    /// any.
    fn report_missing(
        &self,
        resolved: &Node,
        at: &[u16],
        draft: &Draft,
        scope: &Scope,
        context: &Context,
    ) -> bool {
        let (Some(kind), false) = (draft.kind, self.refers.is_empty()) else {
            return false;
        };
        let schema = kind.schema().to_value();
        let definitions = context.library.collections();
        let checker = Checker {
            definitions: &definitions,
            ..Checker::of(&schema)
        };
        let mut mistakes = checker.check(&schema, resolved, &[]);
        mistakes.retain(|mistake| mistake.kind == MistakeKind::MissingKey);
        let is_any = !mistakes.is_empty();
        for mistake in mistakes {
            let labels = self.labels(&mistake.route, at, draft, scope);
            let mut route = draft.route(&[]);
            route.extend(mistake.route);
            context.sink.add(Mistake {
                route,
                labels: labels.map(Into::into),
                hint: Some(
                    "its placeholder is a field that this label lacks: give the label the field"
                        .to_owned(),
                ),
                ..Mistake::new(mistake.span, &[], mistake.message)
            });
        }
        is_any
    }

    /// Returns the labels of a cell on the axes that the settings at a route refer to.
    fn labels(&self, route: &[Step], at: &[u16], draft: &Draft, scope: &Scope) -> Option<String> {
        let axes = scope.references(self.settings.nearest(route));
        let Coordinates(all) = coordinates(at, &draft.over, scope.axes);
        let of_axes = all.into_iter().enumerate();
        let labels: Vec<_> = of_axes
            .filter(|(position, _)| axes.contains(position))
            .map(|(_, label)| label)
            .collect();
        (!labels.is_empty()).then(|| Coordinates(labels).to_string())
    }

    pub(super) fn limits(&mut self, at: &[u16], scope: &Scope) -> (Option<Duration>, u32) {
        let key: Vec<u16> = self
            .limit_refers
            .iter()
            .map(|position| at[*position])
            .collect();
        if let Some(limits) = self.limits.get(&key) {
            return *limits;
        }
        let value = |node: &Option<Node>| {
            scope
                .resolve(node.as_ref()?, Some(at))
                .ok()
                .map(|n| n.value)
        };
        let timeout = match value(&self.timeout) {
            Some(Value::Text(text)) => DurationText::parse(&text).ok().map(|span| span.0),
            _ => None,
        };
        let retries = match value(&self.retries) {
            Some(Value::Int(retries)) => u32::try_from(retries).unwrap_or_default(),
            _ => 0,
        };
        self.limits.insert(key, (timeout, retries));
        (timeout, retries)
    }
}

/// Turns a mapping that is a placeholder or a merge into one that accepts a new key; the new key merges over the rest.
fn open(node: &mut Node, mapping: &dyn Fn(&str) -> bool) {
    let span = node.span;
    let empty = || Node {
        span,
        value: Value::Map(Vec::new()),
    };
    let parts = match (&node.value, merged(node)) {
        (Value::Text(text), _) if text.starts_with("${") && mapping(text) => {
            vec![node.clone(), empty()]
        }
        (_, Some(parts)) => {
            let mut parts = parts.to_vec();
            if !parts
                .last()
                .is_some_and(|last| matches!(last.value, Value::Map(_)))
            {
                parts.push(empty());
            }
            parts
        }
        _ => return,
    };
    let key = Key {
        text: MERGE.to_owned(),
        span,
    };
    let parts = Node {
        span,
        value: Value::List(parts),
    };
    node.value = Value::Map(vec![(key, parts)]);
}

/// Sets a value at a dotted path of settings; returns false if a part of the path is not a mapping. `mapping` returns
/// whether a placeholder stands for one.
fn put(
    node: &mut Node,
    path: &[&str],
    key: &Key,
    value: &Node,
    mapping: &dyn Fn(&str) -> bool,
) -> bool {
    if path.is_empty() {
        return false;
    }
    open(node, mapping);
    let Value::Map(entries) = &mut node.value else {
        return false;
    };
    let [first, rest @ ..] = path else {
        return false;
    };
    if first.is_empty() {
        return false;
    }
    if let [(only, parts)] = entries.as_mut_slice()
        && only.text == MERGE
        && let Value::List(parts) = &mut parts.value
        && let Some(last) = parts.last_mut()
    {
        return put(last, path, key, value, mapping);
    }
    let position = entries
        .iter()
        .position(|(k, _)| k.text == *first)
        .unwrap_or_else(|| {
            let empty = Node {
                span: key.span,
                value: Value::Map(Vec::new()),
            };
            entries.push((
                Key {
                    text: (*first).to_owned(),
                    span: key.span,
                },
                empty,
            ));
            entries.len() - 1
        });
    match rest {
        [] => {
            // Also the key's place: a mistake in it belongs to the override.
            entries[position].0.span = key.span;
            entries[position].1 = value.clone();
            true
        }
        rest => put(&mut entries[position].1, rest, key, value, mapping),
    }
}

/// Sorts the keys of all mappings except those of `ordered` settings; within those, the entries are sorted.
pub(super) fn sort(settings: &mut Json, ordered: &[&str]) {
    let Json::Object(map) = settings else {
        return settings.sort_all_objects();
    };
    for (name, value) in map.iter_mut() {
        match value {
            Json::Object(entries) if ordered.contains(&name.as_str()) => {
                entries.values_mut().for_each(Json::sort_all_objects);
            }
            _ => value.sort_all_objects(),
        }
    }
    map.sort_keys();
}
