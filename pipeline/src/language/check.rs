//! Checks a spanned tree against a JSON Schema as `schemars` generates them.
//!
//! Every mistake is collected. Understood are `type`, `properties`, `required`, closed objects,
//! `enum`, `const`, `oneOf`/`anyOf` (externally, internally tagged, untagged enums, options),
//! `allOf`, `if` with `then` and `else`, `$ref`, `items`, `prefixItems`, the bounds of numbers, lengths of lists, texts and
//! maps, and the formats `duration`, `span` (a duration that may be as short as nanoseconds) and `percent`. `pattern` is for editors only.

use serde_json::Map;

use super::diagnostics::{Mistake, MistakeKind, Span};
use super::interpolate::merged;
use super::settings::{DurationText, PercentText};
use super::tree::{Node, Value};
use crate::stage::{Json, Step};
use crate::suggest::{list, remedy};

/// Words that other tools use for what a schema describes, each with the phrase that says what it is
/// called here. An extension of ours; editors ignore it.
const OTHER_WORDS: &str = "x-other-words";

/// Returns the remedy for a word of another tool, from the phrase that says what it is here.
fn instead(ours: &str) -> String {
    if ours.starts_with('`') {
        format!("write {ours}")
    } else {
        format!("it is {ours}")
    }
}

/// What a placeholder may stand for: every value, or why it stands for none.
pub(crate) type Expand<'a> = &'a dyn Fn(&str, Span, &[Step]) -> Result<Vec<Node>, Mistake>;

/// A check against one schema document.
#[derive(Clone, Copy)]
pub(crate) struct Checker<'a> {
    /// The document that `$ref`s refer to.
    pub(crate) document: &'a Json,
    /// How placeholders in texts are resolved; `None` where texts stand for themselves.
    pub(crate) expand: Option<Expand<'a>>,
    /// Keys known beside the schema's own at the top of the tree, for suggestions.
    pub(crate) other_keys: &'a [String],
}

/// A schema with everything it refers to, as parts that hold together.
struct View<'a> {
    parts: Vec<&'a Map<String, Json>>,
}

impl<'a> Checker<'a> {
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
            let plain = Checker {
                expand: None,
                ..*self
            };
            match expand(text, node.span, route) {
                Ok(values) => {
                    let mut found: Vec<Mistake> = Vec::new();
                    for value in values {
                        // A field that a label leaves open.
                        if matches!(value.value, Value::Null) {
                            continue;
                        }
                        for mut mistake in plain.check(schema, &value, route) {
                            mistake.message = format!("{} (from `{text}`)", mistake.message);
                            if !found.contains(&mistake) {
                                found.push(mistake);
                            }
                        }
                    }
                    out.append(&mut found);
                }
                Err(mistake) => out.push(mistake),
            }
            return;
        }
        if self.expand.is_some()
            && let Some(parts) = merged(node)
        {
            // Each part may say some of it; what is missing in all is told of the whole.
            for part in parts {
                let mut found = Vec::new();
                self.node(schema, part, route, &mut found);
                let here = route.len();
                found.retain(|m| m.kind != MistakeKind::MissingKey || m.route.len() > here);
                out.append(&mut found);
            }
            return;
        }
        if schema.as_bool() == Some(false) {
            out.push(Mistake::new(node.span, route, "nothing is allowed here").hint("remove it"));
            return;
        }
        let mut view = self.view(schema);
        // Choose among alternatives, and let the chosen ones join in.
        let mut at = 0;
        while at < view.parts.len() {
            for keyword in ["oneOf", "anyOf"] {
                if let Some(alternatives) = view.parts[at].get(keyword).and_then(Json::as_array) {
                    let words = view.parts[at].get(OTHER_WORDS).and_then(Json::as_object);
                    match self.choose(alternatives, words, node, route) {
                        Ok(chosen) => self.collect(chosen, &mut view.parts, 0),
                        Err(mistake) => {
                            out.push(*mistake);
                            return;
                        }
                    }
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
        if !view.accepts_type(node) {
            let message = format!("expected {}, found {}", view.expected(), node.describe());
            out.push(wrong_type(
                Mistake::new(node.span, route, message),
                &view,
                node,
            ));
            return;
        }
        if let Some(mistake) = view.constant_mistake(node, route) {
            out.push(mistake);
            return;
        }
        match &node.value {
            Value::Map(_) => self.map(&view, node, route, out),
            Value::List(items) => {
                view.lengths(
                    items.len(),
                    "minItems",
                    "maxItems",
                    "item",
                    node,
                    route,
                    out,
                );
                let below = Checker {
                    other_keys: &[],
                    ..*self
                };
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
            Value::Text(text) => {
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
                    let hint = "write a number and a unit: `500 ms`, `30 s`, `10 min`, `2 h`";
                    out.push(Mistake::new(node.span, route, message).hint(hint));
                }
                if format == Some("span") && !is_span(text) && !text.contains("${") {
                    let message = format!("`{text}` is not a duration");
                    let hint =
                        "write a number and a unit: `500 us`, `500 ms`, `30 s`, `10 min`, `2 h`";
                    out.push(Mistake::new(node.span, route, message).hint(hint));
                }
            }
            Value::Int(value) => view.bounds(*value as f64, node, route, out),
            Value::Float(value) => view.bounds(*value, node, route, out),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn map(&self, view: &View<'a>, node: &Node, route: &mut Vec<Step>, out: &mut Vec<Mistake>) {
        let entries = node.entries();
        let below = Checker {
            other_keys: &[],
            ..*self
        };
        view.lengths(
            entries.len(),
            "minProperties",
            "maxProperties",
            "entry",
            node,
            route,
            out,
        );
        for (key, value) in entries {
            route.push(Step::Key(key.text.clone()));
            if let Some(schema) = view.property(&key.text) {
                below.node(schema, value, route, out);
            } else if let Some(schema) = view
                .keyword("additionalProperties")
                .filter(|s| s.is_object())
            {
                below.node(schema, value, route, out);
            } else if view.closed() {
                let names = view.property_names();
                let known = names
                    .iter()
                    .copied()
                    .chain(self.other_keys.iter().map(String::as_str));
                let message = format!("unknown key `{}`", key.text);
                let hint = view
                    .other_word(&key.text)
                    .map_or_else(|| remedy(&key.text, "keys here", known), instead);
                out.push(Mistake::new(key.span, route, message).hint(hint));
            }
            route.pop();
        }
        for key in view.required() {
            if node.get(key).is_none() {
                let what = view
                    .property(key)
                    .and_then(|s| self.view(s).description().map(first_sentence));
                let mistake = Mistake::new(node.span, route, format!("missing key `{key}`"))
                    .kind(MistakeKind::MissingKey);
                out.push(mistake.hint(match what {
                    Some(what) => format!("add `{key}:` ({what})"),
                    None => format!("add `{key}:`"),
                }));
            }
        }
    }

    /// Returns the alternative a value was meant for.
    fn choose(
        &self,
        all: &'a [Json],
        words: Option<&Map<String, Json>>,
        node: &Node,
        route: &[Step],
    ) -> Result<&'a Json, Box<Mistake>> {
        let remedy = |word: &str, what: &str, names: &[&str]| {
            let ours = words.and_then(|words| words.get(word)?.as_str());
            ours.map_or_else(|| remedy(word, what, names.iter().copied()), instead)
        };
        let views: Vec<(&'a Json, View<'a>)> = all.iter().map(|s| (s, self.view(s))).collect();
        let constants: Vec<&str> = views.iter().flat_map(|(_, v)| v.constants()).collect();
        let wrong = |span, message: String| Mistake::new(span, route, message);
        let fitting: Vec<&(&Json, View)> = views
            .iter()
            .filter(|(_, v)| self.accepts(v, node))
            .collect();
        let variants: Vec<(&str, &'a Json)> = views
            .iter()
            .filter_map(|(s, v)| Some((v.external_tag()?, *s)))
            .collect();
        let names = || {
            constants
                .iter()
                .copied()
                .chain(variants.iter().map(|(name, _)| *name))
        };
        if let Some(text) = node.text() {
            if let Some((schema, _)) = views.iter().find(|(_, v)| v.constants().contains(&text)) {
                return Ok(schema);
            }
            if variants.iter().any(|(name, _)| *name == text) {
                let message = format!("`{text}` needs settings");
                return Err(Box::new(
                    wrong(node.span, message).hint(format!("write `{text}: {{…}}`")),
                ));
            }
            let open = fitting.iter().find(|(_, v)| v.constants().is_empty());
            if let Some((schema, _)) = open {
                return Ok(schema);
            }
            if names().next().is_some() {
                let message = format!("unknown value `{text}`");
                let names: Vec<&str> = names().collect();
                return Err(Box::new(
                    wrong(node.span, message).hint(remedy(text, "values", &names)),
                ));
            }
        }
        if let Value::Map(entries) = &node.value {
            let tagged: Vec<_> = entries
                .iter()
                .filter_map(|(k, _)| variants.iter().find(|(n, _)| *n == k.text))
                .collect();
            let units = entries
                .iter()
                .map(|(k, _)| k.text.as_str())
                .filter(|k| constants.contains(k));
            let named: Vec<&str> = tagged.iter().map(|(name, _)| *name).chain(units).collect();
            match tagged.as_slice() {
                [] => {}
                [(_, schema)] if named.len() == 1 => return Ok(schema),
                _ => {
                    let message = format!("only one of {} can be given", list(named));
                    return Err(Box::new(wrong(node.span, message).hint("keep one of them")));
                }
            }
            if let Some((key, _)) = entries
                .iter()
                .find(|(k, _)| constants.contains(&k.text.as_str()))
            {
                let message = format!("`{}` takes no settings", key.text);
                return Err(Box::new(
                    wrong(key.span, message).hint(format!("write just `{}`", key.text)),
                ));
            }
            if let Some(tag) = internal_tag(&views) {
                let names: Vec<&str> = views.iter().filter_map(|(_, v)| v.tag_value(tag)).collect();
                let Some(value) = node.get(tag) else {
                    let message = format!("missing key `{tag}`");
                    let hint = format!("add `{tag}:`, one of {}", list(names));
                    let mistake = wrong(node.span, message).kind(MistakeKind::MissingKey);
                    return Err(Box::new(mistake.hint(hint)));
                };
                let text = value.text().unwrap_or_default();
                if let Some((schema, _)) =
                    views.iter().find(|(_, v)| v.tag_value(tag) == Some(text))
                {
                    return Ok(schema);
                }
                let message = format!(
                    "unknown {tag} {}",
                    value.describe().trim_start_matches("the text ")
                );
                let hint = remedy(text, &format!("values of `{tag}`"), &names);
                return Err(Box::new(wrong(value.span, message).hint(hint)));
            }
            if !variants.is_empty() && fitting.iter().all(|(_, v)| v.external_tag().is_some()) {
                let Some((key, _)) = entries.first() else {
                    let hint = format!("give one of {}", list(names()));
                    return Err(Box::new(
                        wrong(node.span, "the mapping is empty".to_owned()).hint(hint),
                    ));
                };
                let message = format!("unknown key `{}`", key.text);
                let names: Vec<&str> = names().collect();
                return Err(Box::new(
                    wrong(key.span, message).hint(remedy(&key.text, "choices", &names)),
                ));
            }
        }
        match fitting.as_slice() {
            [] => {
                let mut expected: Vec<String> = Vec::new();
                for (_, view) in &views {
                    let text = view.expected();
                    if text != "nothing" && !expected.contains(&text) {
                        expected.push(text);
                    }
                }
                let message = format!(
                    "expected {}, found {}",
                    expected.join(" or "),
                    node.describe()
                );
                let mistake = wrong(node.span, message);
                let (_, first) = views.first().expect("a list of alternatives is not empty");
                Err(Box::new(if names().next().is_some() {
                    mistake.hint(format!("give one of {}", list(names())))
                } else {
                    wrong_type(mistake, first, node)
                }))
            }
            [(schema, _)] => Ok(schema),
            several => {
                let mistakes = |schema: &'a Json| self.check(schema, node, route).len();
                let (schema, _) = several
                    .iter()
                    .min_by_key(|(s, _)| mistakes(s))
                    .expect("several fit");
                Ok(schema)
            }
        }
    }

    fn accepts(&self, view: &View<'a>, node: &Node) -> bool {
        let alternatives = |keyword: &str| match view.keyword(keyword).and_then(Json::as_array) {
            Some(all) => all.iter().any(|s| self.accepts(&self.view(s), node)),
            None => true,
        };
        view.accepts_type(node) && alternatives("oneOf") && alternatives("anyOf")
    }

    fn view(&self, schema: &'a Json) -> View<'a> {
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

impl<'a> View<'a> {
    fn keyword(&self, name: &str) -> Option<&'a Json> {
        self.parts.iter().find_map(|part| part.get(name))
    }

    /// Returns what a word of other tools, or of other places of the file, is called here.
    fn other_word(&self, key: &str) -> Option<&'a str> {
        self.parts
            .iter()
            .find_map(|part| part.get(OTHER_WORDS)?.get(key)?.as_str())
    }

    fn property(&self, key: &str) -> Option<&'a Json> {
        self.parts
            .iter()
            .find_map(|part| part.get("properties")?.get(key))
    }

    fn property_names(&self) -> Vec<&'a str> {
        let all = self
            .parts
            .iter()
            .filter_map(|part| part.get("properties")?.as_object());
        all.flat_map(|map| map.keys().map(String::as_str)).collect()
    }

    fn required(&self) -> Vec<&'a str> {
        let all = self
            .parts
            .iter()
            .filter_map(|part| part.get("required")?.as_array());
        all.flatten().filter_map(Json::as_str).collect()
    }

    fn description(&self) -> Option<&'a str> {
        self.keyword("description").and_then(Json::as_str)
    }

    fn closed(&self) -> bool {
        let no = |part: &&Map<String, Json>, key: &str| {
            part.get(key).and_then(Json::as_bool) == Some(false)
        };
        self.parts
            .iter()
            .any(|p| no(p, "additionalProperties") || no(p, "unevaluatedProperties"))
    }

    fn types(&self) -> Vec<&'a str> {
        match self.keyword("type") {
            Some(Json::String(one)) => vec![one],
            Some(Json::Array(several)) => several.iter().filter_map(Json::as_str).collect(),
            _ => Vec::new(),
        }
    }

    fn accepts_type(&self, node: &Node) -> bool {
        let types = self.types();
        let fits = |t: &&str| match &node.value {
            Value::Null => *t == "null",
            Value::Bool(_) => *t == "boolean",
            Value::Int(_) => *t == "integer" || *t == "number",
            Value::Float(_) => *t == "number",
            Value::Text(_) => *t == "string",
            Value::List(_) => *t == "array",
            Value::Map(_) => *t == "object",
        };
        types.is_empty() || types.iter().any(fits)
    }

    fn expected(&self) -> String {
        if self.is_duration() {
            return "a duration such as `30 s`".to_owned();
        }
        if self.format() == Some("percent") {
            return "a percentage such as `3 %`".to_owned();
        }
        let constants = self.constants();
        if !constants.is_empty() {
            return list(constants);
        }
        if let Some(tag) = self.external_tag() {
            return format!("`{tag}: …`");
        }
        let word = |t: &&str| match *t {
            "integer" => Some("an integer"),
            "number" => Some("a number"),
            "string" => Some("text"),
            "boolean" => Some("`true` or `false`"),
            "array" => Some("a list"),
            "object" => Some("a mapping"),
            _ => None,
        };
        let words: Vec<&str> = self.types().iter().filter_map(word).collect();
        if words.is_empty() {
            "nothing".to_owned()
        } else {
            words.join(" or ")
        }
    }

    fn format(&self) -> Option<&'a str> {
        self.keyword("format").and_then(Json::as_str)
    }

    fn is_duration(&self) -> bool {
        matches!(self.format(), Some("duration" | "span"))
    }

    /// Returns the texts an `enum` or `const` allows.
    fn constants(&self) -> Vec<&'a str> {
        let one = self
            .parts
            .iter()
            .filter_map(|part| part.get("const")?.as_str());
        let several = self
            .parts
            .iter()
            .filter_map(|part| part.get("enum")?.as_array())
            .flatten();
        one.chain(several.filter_map(Json::as_str)).collect()
    }

    /// Returns the one key of a variant of the form `variant: {…}`.
    fn external_tag(&self) -> Option<&'a str> {
        let required = self.required();
        let [tag] = required.as_slice() else {
            return None;
        };
        (self.closed() && self.property_names() == [*tag] && self.tag_value(tag).is_none())
            .then_some(*tag)
    }

    /// Returns what a key must be in this variant.
    fn tag_value(&self, tag: &str) -> Option<&'a str> {
        self.property(tag)?.get("const")?.as_str()
    }

    fn constant_mistake(&self, node: &Node, route: &[Step]) -> Option<Mistake> {
        let allowed: Vec<&Json> = match (self.keyword("const"), self.keyword("enum")) {
            (Some(one), _) => vec![one],
            (None, Some(several)) => several.as_array()?.iter().collect(),
            (None, None) => return None,
        };
        let value = node.json();
        if allowed.contains(&&value) {
            return None;
        }
        let mistake = Mistake::new(node.span, route, format!("unknown value {}", bare(node)));
        Some(mistake.hint(remedy(
            node.text().unwrap_or_default(),
            "values",
            self.constants(),
        )))
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "names of the two keywords and of what is counted"
    )]
    fn lengths(
        &self,
        length: usize,
        min: &str,
        max: &str,
        unit: &str,
        node: &Node,
        route: &[Step],
        out: &mut Vec<Mistake>,
    ) {
        let limit = |name: &str| self.keyword(name).and_then(Json::as_u64);
        let units = |n: u64| match (n, unit) {
            (1, _) => format!("1 {unit}"),
            (_, "entry") => format!("{n} entries"),
            _ => format!("{n} {unit}s"),
        };
        if let Some(least) = limit(min).filter(|least| (length as u64) < *least) {
            let what = match (length, unit) {
                (0, "character") => "the text is empty".to_owned(),
                (0, "item") => "the list is empty".to_owned(),
                (0, "entry") => "the mapping is empty".to_owned(),
                _ => format!("{} given", units(length as u64)),
            };
            let hint = self.description().map_or_else(
                || format!("give at least {}", units(least)),
                |d| format!("give at least {} ({})", units(least), first_sentence(d)),
            );
            out.push(Mistake::new(node.span, route, what).hint(hint));
        }
        if let Some(most) = limit(max).filter(|most| (length as u64) > *most) {
            let message = format!(
                "{} given, but at most {} are allowed",
                units(length as u64),
                units(most)
            );
            out.push(Mistake::new(node.span, route, message).hint("give fewer"));
        }
    }

    fn bounds(&self, value: f64, node: &Node, route: &[Step], out: &mut Vec<Mistake>) {
        let format = self
            .keyword("format")
            .and_then(Json::as_str)
            .unwrap_or_default();
        let (low, high) = match format {
            "uint8" => (0.0, f64::from(u8::MAX)),
            "uint16" => (0.0, f64::from(u16::MAX)),
            "uint32" => (0.0, f64::from(u32::MAX)),
            "uint64" | "uint" => (0.0, f64::INFINITY),
            "int32" => (f64::from(i32::MIN), f64::from(i32::MAX)),
            _ => (f64::NEG_INFINITY, f64::INFINITY),
        };
        let bound = |name: &str| self.keyword(name).and_then(Json::as_f64);
        let low = bound("minimum").unwrap_or(low).max(low);
        let high = bound("maximum").unwrap_or(high).min(high);
        let rule = if value < low {
            format!("at least {low}")
        } else if value > high {
            format!("at most {high}")
        } else if let Some(low) = bound("exclusiveMinimum").filter(|low| value <= *low) {
            format!("greater than {low}")
        } else if let Some(high) = bound("exclusiveMaximum").filter(|high| value >= *high) {
            format!("less than {high}")
        } else {
            return;
        };
        let name = match route.last() {
            Some(Step::Key(key)) => format!("`{key}`"),
            _ => "the value".to_owned(),
        };
        let mistake = Mistake::new(
            node.span,
            route,
            format!("{name} must be {rule}, found {value}"),
        );
        out.push(match self.description() {
            Some(text) => mistake.hint(format!(
                "`{}`: {}",
                name.trim_matches('`'),
                first_sentence(text)
            )),
            None => mistake.hint("change the value"),
        });
    }
}

/// Returns the key that tells the variants of an internally tagged enum apart.
fn internal_tag<'a>(views: &[(&'a Json, View<'a>)]) -> Option<&'a str> {
    let objects: Vec<&View> = views
        .iter()
        .map(|(_, v)| v)
        .filter(|v| !v.property_names().is_empty())
        .collect();
    let first = objects.first()?;
    let candidates = first.required();
    candidates
        .into_iter()
        .find(|key| objects.iter().all(|v| v.tag_value(key).is_some()))
}

fn wrong_type(mistake: Mistake, view: &View, node: &Node) -> Mistake {
    let types = view.types();
    let wants = |t: &str| types.contains(&t);
    let hint = match &node.value {
        Value::Text(text) if view.other_word(text).is_some() => {
            view.other_word(text).map(instead).unwrap_or_default()
        }
        Value::Text(text) if foreign_placeholder(text).is_some() => {
            let name = foreign_placeholder(text).unwrap_or_default();
            format!("a placeholder is written `\"${{{name}}}\"`")
        }
        Value::Text(text) if text.contains("${") => {
            "placeholders are not resolved here; write the value itself".to_owned()
        }
        Value::Text(text)
            if wants("boolean") && matches!(text.as_str(), "yes" | "on" | "Yes" | "On") =>
        {
            "write `true`".to_owned()
        }
        Value::Text(text)
            if wants("boolean") && matches!(text.as_str(), "no" | "off" | "No" | "Off") =>
        {
            "write `false`".to_owned()
        }
        Value::Text(text)
            if (wants("integer") || wants("number"))
                && text.trim().parse::<f64>().is_ok_and(|n| !n.is_finite()) =>
        {
            "use a finite number, or omit the key if there is no limit".to_owned()
        }
        Value::Text(text) if wants("object") && (text.contains(":[") || text.contains(":{")) => {
            "put a space after the colon".to_owned()
        }
        Value::Text(text)
            if (wants("integer") || wants("number")) && text.trim().parse::<f64>().is_ok() =>
        {
            format!("write {} without quotes", text.trim())
        }
        Value::Text(text)
            if (wants("integer") || wants("number")) && leading_number(text).is_some() =>
        {
            let number = leading_number(text).unwrap_or_default();
            format!("write the number alone: {number}")
        }
        Value::Float(value) if wants("integer") && value.fract() == 0.0 => format!("write {value}"),
        Value::Int(value) if view.is_duration() => {
            format!("add the unit: `{value} s`")
        }
        Value::Int(_) | Value::Float(_) if view.format() == Some("percent") => {
            "write the share in percent, with the sign: `3 %`".to_owned()
        }
        Value::Int(_) | Value::Float(_) | Value::Bool(_) if wants("string") => {
            "put it in quotes if it is text".to_owned()
        }
        Value::Null => "give a value, or remove the key".to_owned(),
        _ if wants("array") && !matches!(node.value, Value::Map(_)) => {
            "write it as `[…]`".to_owned()
        }
        _ => match view.description() {
            Some(text) => format!("what belongs here: {}", first_sentence(text)),
            None => format!("give {}", view.expected()),
        },
    };
    mistake.hint(hint)
}

/// Whether the text is a number and a unit of time.
fn is_span(text: &str) -> bool {
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = text.split_at(split.unwrap_or(text.len()));
    let known = ["h", "min", "s", "ms", "us", "ns"].contains(&unit);
    known
        && number
            .trim()
            .parse::<f64>()
            .is_ok_and(|n| n.is_finite() && n >= 0.0)
}

/// Returns the name in a placeholder as shells (`$name`) and templates (`{{name}}`) write it.
fn foreign_placeholder(text: &str) -> Option<&str> {
    let text = text.trim();
    let name = match text.strip_prefix("{{") {
        Some(rest) => rest.strip_suffix("}}")?.trim(),
        None => text.strip_prefix('$')?,
    };
    let named = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    named.then_some(name)
}

/// Returns the number that a text begins with, where only a word follows: `16` of `16 requests`, `1.5` of `1.5x`.
fn leading_number(text: &str) -> Option<&str> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let (number, rest) = text.split_at(end);
    let word = rest.trim();
    let is_word = word.chars().all(|c| c.is_alphabetic() || "/%".contains(c));
    (is_word && number.parse::<f64>().is_ok()).then_some(number)
}

/// Describes a value without the word for its type.
fn bare(node: &Node) -> String {
    match node.text() {
        Some(text) => format!("`{text}`"),
        None => node.describe(),
    }
}

fn first_sentence(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = text.find(". ").unwrap_or(text.len());
    text[..end].trim_end_matches('.').to_owned()
}
