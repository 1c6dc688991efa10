//! Checks a tree against a schema, node by node.

use serde_json::Map;

use super::super::diagnostics::{Mistake, MistakeKind, Span};
use super::super::interpolate::merged;
use super::super::placeholders::{NO_ARITHMETIC, computes};
use super::super::settings::{DurationText, PercentText};
use super::super::tree::{Key, Node, Value};
use super::remedies::{duration, first_sentence, is_span, wrong_type};
use super::view::{OTHER_WORDS, View};
use crate::stage::{Json, Problem, Step};
use crate::suggest::{closest, list};

/// Returns every value that a placeholder may stand for, or the reason why it has none.
pub(crate) type Expand<'a> = &'a dyn Fn(&str, Span, &[Step]) -> Result<Vec<Node>, Mistake>;

/// Says where else a key with this value belongs; `None` if it belongs nowhere.
pub(crate) type Elsewhere<'a> = &'a dyn Fn(&str, &Node) -> Option<String>;

/// A check against one schema document.
#[derive(Clone, Copy)]
pub(crate) struct Checker<'a> {
    /// The document that `$ref`s refer to.
    pub(crate) document: &'a Json,
    /// The function that resolves placeholders in texts; `None` where texts are literal.
    pub(crate) expand: Option<Expand<'a>>,
    /// Additional keys at the top of the tree, for suggestions.
    pub(crate) other_keys: &'a [String],
    /// Says where else a key at the top of the tree belongs, for suggestions.
    pub(crate) elsewhere: Option<Elsewhere<'a>>,
    /// The keys of the levels around the settings, for suggestions: each level as a phrase, from the inside out.
    pub(crate) around: &'a [(&'a str, Vec<String>)],
    /// The keys at the top of the file that hold definitions, for suggestions.
    pub(crate) definitions: &'a [&'a str],
    /// The owner of the parameters at the top of the tree, such as "gate `census`".
    pub(crate) owner: Option<&'a str>,
}

/// Checks settings nested in those of a stage, such as the parameters of one gate, in the same way as the rest of the
/// YAML. `owner` names what the parameters belong to. Routes begin at the settings.
pub fn mistakes_in(settings: &Json, schema: &Json, owner: &str) -> Vec<Problem> {
    let node = Node::from_json(settings, Span::default());
    let checker = Checker {
        owner: Some(owner),
        ..Checker::of(schema)
    };
    let mistakes = checker.check(schema, &node, &[]).into_iter();
    mistakes
        .map(|mistake| Problem {
            of_key: mistake.kind == MistakeKind::UnknownKey,
            route: mistake.route,
            message: mistake.message,
            hint: mistake.hint,
            definition: None,
            part: None,
        })
        .collect()
}

/// Returns the key that a mapping lacks and into which all its unknown keys probably belong: `{clients: 4}`.
fn chooses_without(view: &View<'_>, node: &Node) -> Option<&'static str> {
    let required = view.required();
    let key = ["where", "coordinates"]
        .into_iter()
        .find(|key| required.contains(key) && node.get(key).is_none())?;
    let unknown = node.entries().iter();
    let mut unknown = unknown
        .filter(|(key, _)| view.property(&key.text).is_none())
        .peekable();
    let all =
        unknown.peek().is_some() && unknown.all(|(_, value)| !matches!(value.value, Value::Map(_)));
    all.then_some(key)
}

impl<'a> Checker<'a> {
    /// Makes a check in which texts are literal.
    pub(crate) fn of(document: &'a Json) -> Self {
        Self {
            document,
            expand: None,
            other_keys: &[],
            elsewhere: None,
            around: &[],
            definitions: &[],
            owner: None,
        }
    }

    /// Checks a tree against a schema of the document.
    pub(crate) fn check(&self, schema: &'a Json, node: &Node, route: &[Step]) -> Vec<Mistake> {
        let mut out = Vec::new();
        self.node(schema, node, &mut route.to_vec(), &mut out);
        out
    }

    fn node(&self, schema: &'a Json, node: &Node, route: &mut Vec<Step>, out: &mut Vec<Mistake>) {
        if let (Some(expand), Some(text)) = (self.expand, node.text())
            && text.contains("${")
        {
            self.each_value(expand, text, (schema, node), route, out);
            return;
        }
        if self.expand.is_some()
            && let Some(parts) = merged(node)
        {
            // Each part may have some of the keys; a key missing from all parts is reported for the whole.
            for part in parts {
                let mut mistakes = Vec::new();
                self.node(schema, part, route, &mut mistakes);
                let here = route.len();
                mistakes.retain(|m| m.kind != MistakeKind::MissingKey || m.route.len() > here);
                out.append(&mut mistakes);
            }
            return;
        }
        if schema.as_bool() == Some(false) {
            out.push(Mistake::new(node.span, route, "nothing is allowed here").hint("remove it"));
            return;
        }
        let mut view = self.view(schema);
        if let Err(mistake) = self.settle(&mut view, node, route) {
            out.push(*mistake);
            return;
        }
        if !view.accepts_type(node) {
            let message = format!("expected {}, found {}", view.expected(), node.describe());
            let mistake = Mistake::new(node.span, route, message);
            // Conditions on the keys of a mapping hold for everything else, so the view without them decides.
            let plain = self.view(schema);
            let hint = self
                .definitions_meant(node, route)
                .or_else(|| self.list_meant(&plain, node))
                .or_else(|| self.list_of(&view, node))
                .or_else(|| {
                    node.text()
                        .and_then(|word| self.of_word(&plain, word, node))
                })
                .or_else(|| self.wrapped_text(&plain, node));
            out.push(match hint {
                Some(hint) => mistake.hint(hint),
                None => {
                    let form = self
                        .form(&plain, FORM_DEPTH)
                        .filter(|_| !matches!(node.value, Value::Null));
                    wrong_type(mistake, &view, form, node)
                }
            });
            return;
        }
        if let Some(mistake) = view.constant_mistake(node, route) {
            out.push(mistake);
            return;
        }
        match &node.value {
            Value::Map(_) => self.map(&view, node, route, out),
            Value::List(items) => self.list(&view, items, node, route, out),
            Value::Text(text) => check_text(&view, text, node, route, out),
            Value::Int(value) => view.bounds(*value as f64, node, route, out),
            Value::Float(number) => view.bounds(number.value, node, route, out),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Checks every value that a placeholder may stand for.
    fn each_value(
        &self,
        expand: Expand<'a>,
        text: &str,
        (schema, node): (&'a Json, &Node),
        route: &[Step],
        out: &mut Vec<Mistake>,
    ) {
        let plain = Checker {
            expand: None,
            ..*self
        };
        match expand(text, node.span, route) {
            Ok(values) => {
                let mut mistakes: Vec<Mistake> = Vec::new();
                // A label may leave a field open.
                let given = values.iter().filter(|v| !matches!(v.value, Value::Null));
                let each: Vec<Vec<Mistake>> = given
                    .map(|value| plain.check(schema, value, route))
                    .collect();
                if let Some(mistake) = self
                    .of_every_value(schema, text, &each, route)
                    .or_else(|| of_arithmetic(text, &each, route))
                {
                    out.push(mistake);
                    return;
                }
                for mut mistake in each.into_iter().flatten() {
                    mistake.message = format!("{} (from `{text}`)", mistake.message);
                    // The place is that of the placeholder, not that of its value.
                    if mistake.route == route && mistake.kind == MistakeKind::Other {
                        let remedy = |hint| format!("where `{text}` gets this value: {hint}");
                        mistake.hint = mistake.hint.map(remedy);
                    }
                    if !mistakes.contains(&mistake) {
                        mistakes.push(mistake);
                    }
                }
                out.append(&mut mistakes);
            }
            Err(mistake) => out.push(mistake),
        }
    }

    /// Returns the one mistake of a placeholder that stands where a mapping belongs, whatever its label is.
    fn of_every_value(
        &self,
        schema: &'a Json,
        text: &str,
        each: &[Vec<Mistake>],
        route: &[Step],
    ) -> Option<Mistake> {
        let view = self.view(schema);
        let key = view.alone().filter(|_| each.len() > 1)?;
        let first = each.first()?.first()?;
        let here = |mistakes: &Vec<Mistake>| matches!(mistakes.as_slice(), [one] if one.route == route && one.kind == MistakeKind::Other);
        let value = format!("\"{text}\"");
        each.iter().all(here).then(|| {
            let message = format!(
                "expected {}, found the placeholder `{text}`",
                view.expected()
            );
            Mistake::new(first.span, route, message)
                .hint(format!("write `{}`", view.with(key, &value)))
        })
    }

    /// Chooses among alternatives, and adds the chosen ones to the view.
    pub(super) fn settle(
        &self,
        view: &mut View<'a>,
        node: &Node,
        route: &[Step],
    ) -> Result<(), Box<Mistake>> {
        let mut at = 0;
        while at < view.parts.len() {
            for keyword in ["oneOf", "anyOf"] {
                if let Some(alternatives) = view.parts[at].get(keyword).and_then(Json::as_array) {
                    let words = view.parts[at].get(OTHER_WORDS).and_then(Json::as_object);
                    let chosen = self.choose(alternatives, words, node, route)?;
                    self.collect(chosen, &mut view.parts, 0);
                }
            }
            let part = view.parts[at];
            if let Some(condition) = part.get("if") {
                let keyword = if self.check(condition, node, route).is_empty() {
                    "then"
                } else {
                    "else"
                };
                if let Some(schema) = part.get(keyword) {
                    self.collect(schema, &mut view.parts, 0);
                }
            }
            at += 1;
        }
        Ok(())
    }

    fn list(
        &self,
        view: &View<'a>,
        items: &[Node],
        node: &Node,
        route: &mut Vec<Step>,
        out: &mut Vec<Mistake>,
    ) {
        view.lengths(
            items.len(),
            "minItems",
            "maxItems",
            "item",
            node,
            route,
            out,
        );
        let below = self.below();
        let prefix = view.keyword("prefixItems").and_then(Json::as_array);
        for (i, item) in items.iter().enumerate() {
            let schema = prefix
                .and_then(|p| p.get(i))
                .or_else(|| view.keyword("items"));
            if let Some(schema) = schema {
                route.push(Step::Index(i));
                below.node(schema, item, route, out);
                route.pop();
            }
        }
    }

    fn below(&self) -> Self {
        Self {
            other_keys: &[],
            elsewhere: None,
            owner: None,
            ..*self
        }
    }

    fn map(&self, view: &View<'a>, node: &Node, route: &mut Vec<Step>, out: &mut Vec<Mistake>) {
        let entries = node.entries();
        if let Some(mistake) = self.form_as_key(view, node, route) {
            out.push(mistake);
            return;
        }
        let below = self.below();
        let mut meant = Vec::new();
        view.lengths(
            entries.len(),
            "minProperties",
            "maxProperties",
            "entry",
            node,
            route,
            out,
        );
        // Keys without the mapping around them are one mistake, and so are keys of which none is known.
        let inside = self
            .without_mapping(view, node)
            .or_else(|| self.all_unknown(view, node));
        if let Some((key, hint)) = &inside {
            route.push(Step::Key(key.text.clone()));
            let message = format!("unknown key `{}`", key.text);
            let mistake = Mistake::new(key.span, route, message).kind(MistakeKind::UnknownKey);
            out.push(mistake.hint(hint.clone()));
            route.pop();
        }
        for (key, value) in entries {
            if inside.is_some() && view.property(&key.text).is_none() {
                continue;
            }
            route.push(Step::Key(key.text.clone()));
            if let Some(schema) = view.property(&key.text) {
                below.node(schema, value, route, out);
            } else if let Some(schema) = view
                .keyword("additionalProperties")
                .filter(|s| s.is_object())
            {
                below.node(schema, value, route, out);
            } else if view.closed() || self.owner.is_some() || view.other_word(&key.text).is_some()
            {
                let (mistake, key_meant) = self.unknown(view, node, (key, value), route);
                out.push(mistake);
                meant.extend(key_meant);
            }
            route.pop();
        }
        // A key that is there under another tool's word is not missing as well.
        let has_other_word = |key: &str| {
            let mut unknown = entries
                .iter()
                .filter(|(k, _)| view.property(&k.text).is_none());
            inside.is_some()
                || unknown.any(|(k, _)| view.keys_of_other_word(&k.text).contains(&key))
        };
        // Nor is one that is there misspelt.
        let is_meant = |key: &str| meant.iter().any(|name| name == key);
        for key in view.required() {
            if node.get(key).is_none() && !has_other_word(key) && !is_meant(key) {
                let value = view.property(key).map(|schema| self.view(schema));
                let what = value
                    .as_ref()
                    .and_then(|value| value.description().map(first_sentence));
                let words = value.map(|value| value.words()).unwrap_or_default();
                let words = match words.len() {
                    0 | 7.. => String::new(),
                    _ => format!(", one of {}", list(words)),
                };
                let message = match self.owner {
                    Some(owner) => format!("{owner} needs the parameter `{key}`"),
                    None => format!("missing key `{key}`"),
                };
                let mistake = Mistake::new(node.span, route, message).kind(MistakeKind::MissingKey);
                out.push(mistake.hint(match what {
                    Some(what) => format!("add `{key}:`{words} ({what})"),
                    None => format!("add `{key}:`{words}"),
                }));
            }
        }
    }

    /// Returns the first of the keys that lack the mapping around them, and the whole as it is written.
    fn without_mapping<'n>(&self, view: &View<'a>, node: &'n Node) -> Option<(&'n Key, String)> {
        let inside = chooses_without(view, node)?;
        let unknown = |(key, _): &&'n (Key, Node)| view.property(&key.text).is_none();
        let entry = |(key, value): &(Key, Node)| match value.scalar() {
            Some(label) => format!("{}: {label}", key.text),
            None => format!("{}: …", key.text),
        };
        let keys: Vec<String> = node.entries().iter().filter(unknown).map(entry).collect();
        let (first, _) = node.entries().iter().find(unknown)?;
        let lacking = view.required().into_iter();
        let lacking = lacking.filter(|key| *key != inside && node.get(key).is_none());
        let lacking: String = lacking.map(|key| format!(", {key}: TEXT")).collect();
        let keys = keys.join(", ");
        let hint = match lacking.as_str() {
            "" => format!("write `{inside}: {{{keys}}}`"),
            lacking => format!("write `{{{inside}: {{{keys}}}{lacking}}}`"),
        };
        Some((first, hint))
    }

    /// Returns the first key of a mapping that lacks several required keys and has none that is known, and its form.
    fn all_unknown<'n>(&self, view: &View<'a>, node: &'n Node) -> Option<(&'n Key, String)> {
        let form = view.declared_form().filter(|_| view.closed())?;
        let names = view.property_names();
        let is_strange = |key: &str| {
            view.other_word(key).is_none() && closest(key, names.iter().copied()).is_none()
        };
        let all = node.entries().iter().all(|(key, _)| is_strange(&key.text));
        let several = view.required().len() > 1;
        let (first, _) = node.entries().first().filter(|_| all && several)?;
        Some((first, format!("write it as `{form}`")))
    }

    /// Returns the remedy for a text in place of a mapping with a key that takes this text: the only required one, or the
    /// declared one.
    fn wrapped_text(&self, view: &View<'a>, node: &Node) -> Option<String> {
        let text = node.text().filter(|_| view.types() == ["object"])?;
        let takes = |key: &&'a str| {
            // A text of any content may be meant for something else.
            view.property(key).is_some_and(|schema| {
                let value = self.view(schema);
                let limited = !value.words().is_empty() || value.format().is_some();
                limited && self.check(schema, node, &[]).is_empty()
            })
        };
        let required = view.required();
        let only = (required.len() == 1).then(|| required[0]);
        let key = only.into_iter().chain(view.declared_alone()).find(takes)?;
        Some(format!("write `{}`", view.with(key, text)))
    }

    /// Returns the remedy for a value in place of a list of mappings: the list with one mapping to copy. A text may be
    /// meant for an item that is a text.
    fn list_of(&self, view: &View<'a>, node: &Node) -> Option<String> {
        let item = self.view(view.keyword("items")?);
        let is_map = matches!(node.value, Value::Map(_));
        let wrong = is_map || (item.types() == ["object"] && !matches!(node.value, Value::Null));
        let form = (item.declared_form().map(str::to_owned)).or_else(|| {
            let entries = item.required().into_iter().map(|key| format!("{key}: …"));
            let entries: Vec<String> = entries.collect();
            (!entries.is_empty()).then(|| format!("{{{}}}", entries.join(", ")))
        });
        let form = form.filter(|_| wrong)?;
        Some(format!("write a list: `[{form}]`"))
    }

    /// Returns the form of a mapping to copy: the declared one, its required keys, or that of a mapping whose keys are
    /// names.
    pub(super) fn form(&self, view: &View<'a>, depth: usize) -> Option<String> {
        if view.types() != ["object"] || depth == 0 {
            return None;
        }
        if let Some(form) = view.declared_form() {
            return Some(form.to_owned());
        }
        let value = |schema: &'a Json| {
            let view = self.view(schema);
            let list = (view.types() == ["array"]).then(|| "[…]".to_owned());
            list.or_else(|| self.form(&view, depth - 1))
                .unwrap_or_else(|| "…".to_owned())
        };
        let alone = view.declared_alone().into_iter();
        let others = view.required().into_iter();
        let others = others.filter(|key| Some(*key) != view.declared_alone());
        let required = alone.chain(others);
        let required = required.filter_map(|key| Some((key, view.property(key)?)));
        let entries: Vec<String> = required
            .map(|(key, schema)| format!("{key}: {}", value(schema)))
            .collect();
        if !entries.is_empty() {
            return Some(format!("{{{}}}", entries.join(", ")));
        }
        let named = view.keyword("additionalProperties")?;
        // A name alone shows nothing.
        let inner = self.form(&self.view(named), depth - 1)?;
        view.property_names()
            .is_empty()
            .then(|| format!("{{NAME: {inner}}}"))
    }

    pub(super) fn accepts(&self, view: &View<'a>, node: &Node) -> bool {
        let alternatives = |keyword: &str| match view.keyword(keyword).and_then(Json::as_array) {
            Some(all) => all.iter().any(|s| self.accepts(&self.view(s), node)),
            None => true,
        };
        view.accepts_type(node) && alternatives("oneOf") && alternatives("anyOf")
    }

    pub(super) fn view(&self, schema: &'a Json) -> View<'a> {
        let mut parts = Vec::new();
        self.collect(schema, &mut parts, 0);
        View { parts }
    }

    fn collect(&self, schema: &'a Json, parts: &mut Vec<&'a Map<String, Json>>, depth: usize) {
        let Some(map) = schema.as_object() else {
            return;
        };
        parts.push(map);
        if depth > 32 {
            return;
        }
        let target = map
            .get("$ref")
            .and_then(Json::as_str)
            .and_then(|r| r.strip_prefix('#'));
        if let Some(target) = target.and_then(|pointer| self.document.pointer(pointer)) {
            self.collect(target, parts, depth + 1);
        }
        for schema in map
            .get("allOf")
            .and_then(Json::as_array)
            .into_iter()
            .flatten()
        {
            self.collect(schema, parts, depth + 1);
        }
    }
}

/// The largest number of mappings inside each other in a form to copy.
pub(super) const FORM_DEPTH: usize = 2;

/// Returns the one mistake of a text that computes with placeholders, if none of its values fits.
fn of_arithmetic(text: &str, each: &[Vec<Mistake>], route: &[Step]) -> Option<Mistake> {
    let first = each.first()?.first()?;
    let fails = |mistakes: &Vec<Mistake>| mistakes.iter().any(|one| one.route == route);
    (computes(text) && each.iter().all(fails)).then(|| {
        let message = format!("`{text}` is a text, not a number");
        Mistake::new(first.span, route, message).hint(NO_ARITHMETIC)
    })
}

/// Checks the length and the format of a text.
fn check_text(view: &View<'_>, text: &str, node: &Node, route: &[Step], out: &mut Vec<Mistake>) {
    let length = text.trim().chars().count();
    view.lengths(
        length,
        "minLength",
        "maxLength",
        "character",
        node,
        route,
        out,
    );
    let format = view.keyword("format").and_then(Json::as_str);
    if format == Some("percent")
        && let Err(message) = PercentText::parse(text)
    {
        let hint = "write a number and the sign: `3 %`";
        out.push(Mistake::new(node.span, route, message).hint(hint));
    }
    if format == Some("duration")
        && let Err(message) = DurationText::parse(text)
    {
        let hint = duration(text, "", |meant| DurationText::parse(meant).is_ok());
        out.push(Mistake::new(node.span, route, message).hint(hint));
    }
    if format == Some("span") && !is_span(text) && !text.contains("${") {
        let message = format!("`{text}` is not a duration");
        let hint = duration(text, "`500 us`, ", is_span);
        out.push(Mistake::new(node.span, route, message).hint(hint));
    }
}
