//! The part of a schema that describes one value.

use std::borrow::Cow;

use serde_json::Map;

use super::super::diagnostics::Mistake;
use super::super::tree::{Node, Value};
use super::remedies::{bare, first_sentence, instead};
use crate::probability::probability;
use crate::stage::{Json, Step};
use crate::suggest::{any_of, closest, list, remedy, resembling, share};

/// Other tools' words for what a schema describes, each with the phrase for what it is called here. A phrase that begins
/// with a key in backticks, alone or with a value, stands for this key. The word `TIME` stands for every duration, and
/// `QUANTILE` for every name of a quantile, such as `p99`; both also in their phrases, `QUANTILE` as a probability. This is
/// our extension; editors ignore it.
pub(super) const OTHER_WORDS: &str = "x-other-words";

/// Parts of words that lead to a value, each with the phrase for it. This is our extension; editors ignore it.
const OTHER_PARTS: &str = "x-other-parts";

/// The command that lists the allowed values, where there are many: those that resemble a word by chance do not help. This
/// is our extension; editors ignore it.
const LISTED_BY: &str = "x-listed-by";

/// The key of a mapping that a value alone is meant for. This is our extension; editors ignore it.
const ALONE: &str = "x-alone";

/// A mapping as an example to copy, for one whose keys are all optional. This is our extension; editors ignore it.
const FORM: &str = "x-form";

/// Other tools' words for the keys that stages of every kind have.
const OF_STAGES: [(&[&str], &str); 9] = [
    (
        &[
            "settings",
            "params",
            "parameters",
            "with",
            "config",
            "options",
        ],
        "not needed: write its entries as keys of the stage itself",
    ),
    (
        &[
            "depends-on",
            "depends",
            "deps",
            "dependencies",
            "after",
            "requires",
            "input",
            "inputs",
        ],
        "`needs: [STAGE]`",
    ),
    (
        &["foreach", "matrix", "strategy", "axes", "sweep", "expand"],
        "`over: [AXIS]`, with the axis under `axes` at the top of the file",
    ),
    (&["uses", "type"], "`kind`"),
    (
        &["cmd", "command", "commands", "script", "shell", "run"],
        "a key of a stage of kind `run`: `program: …`",
    ),
    (
        &["if", "when", "only", "skip"],
        "`exclude: [{where: {AXIS: LABEL}, reason: TEXT}]`",
    ),
    (
        &["name", "id"],
        "the key of the stage itself: `stages: {NAME: …}`",
    ),
    (
        &[
            "timeout-minutes",
            "timeout-seconds",
            "time-limit",
            "max-runtime",
        ],
        "`timeout: 5 min`, the time limit of a cell",
    ),
    (
        &[
            "outs",
            "outputs",
            "produces",
            "artifacts",
            "metrics",
            "plots",
        ],
        "not needed: every output is stored",
    ),
];

/// Returns what a step's key in other tools is called in a stage.
pub(super) fn word_of_stages(key: &str) -> Option<&'static str> {
    let folded = key.to_lowercase().replace('_', "-");
    let entry = OF_STAGES
        .iter()
        .find(|(theirs, _)| theirs.contains(&folded.as_str()));
    entry.map(|(_, ours)| *ours)
}

/// Returns the phrase for a word that names a quantile, given other tools' words with their phrases.
pub(super) fn of_quantile(words: &Map<String, Json>, word: &str) -> Option<String> {
    let phrase = words.get("QUANTILE")?.as_str()?;
    Some(phrase.replace("QUANTILE", &probability(word)?))
}

/// Returns the key that a word of another tool means, if it means only this key.
pub(crate) fn key_meant<'a>(schema: &'a Json, word: &str) -> Option<&'a str> {
    let part = schema.as_object()?;
    let ours = View { parts: vec![part] }.other_word(word)?;
    let key = ours.strip_prefix('`')?.strip_suffix('`')?;
    schema["properties"].get(key).map(|_| key)
}

/// Returns the remedy for a word that is not among the values of a schema but that other tools use, or that names a quantile.
pub fn remedy_for_other_word(schema: &Json, word: &str) -> Option<String> {
    let parts = vec![schema.as_object()?];
    View { parts }.phrase(word).map(|ours| instead(&ours))
}

/// A schema with everything it refers to, as parts that all apply.
pub(super) struct View<'a> {
    pub(super) parts: Vec<&'a Map<String, Json>>,
}

impl<'a> View<'a> {
    pub(super) fn keyword(&self, name: &str) -> Option<&'a Json> {
        self.parts.iter().find_map(|part| part.get(name))
    }

    /// Returns what a word from other tools, or from other places in the file, is called here.
    pub(super) fn other_word(&self, key: &str) -> Option<&'a str> {
        // Other tools, and users, write `num_prompts`.
        let folded = key.to_lowercase().replace('_', "-");
        let said = |word: &str| {
            let mut parts = self.parts.iter();
            parts.find_map(|part| part.get(OTHER_WORDS)?.get(word)?.as_str())
        };
        said(key).or_else(|| said(&folded))
    }

    /// Returns what a value is called here: a word from other tools, one of its parts, or the name of a quantile.
    pub(super) fn phrase(&self, word: &str) -> Option<Cow<'a, str>> {
        let quantile = || {
            let words = |part: &&'a Map<String, Json>| part.get(OTHER_WORDS)?.as_object();
            let mut words = self.parts.iter().filter_map(words);
            words.find_map(|words| of_quantile(words, word))
        };
        let whole = self.other_word(word).map(Cow::Borrowed);
        whole
            .or_else(|| quantile().map(Cow::Owned))
            .or_else(|| self.word_with_part(word).map(Cow::Borrowed))
    }

    /// Returns what a word is called here that resembles none of the values but has a known part, such as `p99-ttft`.
    fn word_with_part(&self, word: &str) -> Option<&'a str> {
        if closest(word, self.constants()).is_some() {
            return None;
        }
        let folded = word.to_lowercase();
        let mut parts = folded.split(['-', '_', ' ', '.']);
        parts.find_map(|part| self.keyword(OTHER_PARTS)?.get(part)?.as_str())
    }

    /// Returns the key that a word from other tools stands for, if it stands for one; the first if it stands for several.
    pub(super) fn key_of_other_word(&self, key: &str) -> Option<&'a str> {
        self.keys_of_other_word(key).into_iter().next()
    }

    /// Returns the keys that a word from other tools stands for, as `labels` does for `a: LABEL, b: LABEL`.
    pub(super) fn keys_of_other_word(&self, key: &str) -> Vec<&'a str> {
        let ours = self.other_word(key).and_then(|ours| ours.strip_prefix('`'));
        let Some(form) = ours.and_then(|ours| ours.split('`').next()) else {
            return Vec::new();
        };
        let mut depth = 0;
        let between = |c: char| {
            match c {
                '{' | '[' => depth += 1,
                '}' | ']' => depth -= 1,
                _ => {}
            }
            c == ',' && depth == 0
        };
        let keys = form.split(between);
        keys.filter_map(|entry| entry.trim().split(':').next())
            .collect()
    }

    /// Returns the mapping that is declared as an example to copy.
    pub(super) fn declared_form(&self) -> Option<&'a str> {
        self.keyword(FORM).and_then(Json::as_str)
    }

    /// Returns the key that is declared to be meant by a value in place of this mapping.
    pub(super) fn declared_alone(&self) -> Option<&'a str> {
        self.keyword(ALONE).and_then(Json::as_str)
    }

    /// Returns the key that a value in place of this mapping is meant for: the declared one, or the only required one.
    pub(super) fn alone(&self) -> Option<&'a str> {
        self.declared_alone()
            .or_else(|| match self.required().as_slice() {
                [key] => Some(*key),
                _ => None,
            })
    }

    /// Returns this mapping with a value at a key, and every other required key open.
    pub(super) fn with(&self, key: &str, value: &str) -> String {
        let mut entries = vec![format!("{key}: {value}")];
        let others = self.required().into_iter().filter(|other| *other != key);
        entries.extend(others.map(|other| format!("{other}: …")));
        format!("{{{}}}", entries.join(", "))
    }

    /// Returns the key whose value selects the form of this mapping: the only required one, or otherwise the only one, with
    /// a list of words.
    pub(super) fn selecting_key(&self) -> Option<&'a str> {
        let has_words = |key: &&str| {
            let words = self.property(key).and_then(|schema| schema.get("enum"));
            words.is_some_and(Json::is_array)
        };
        let keys = match self.required() {
            required if required.is_empty() => self.property_names(),
            required => required,
        };
        match keys.as_slice() {
            [key] => Some(*key).filter(has_words),
            _ => None,
        }
    }

    /// Returns whether this is a list of texts.
    pub(super) fn has_texts(&self) -> bool {
        let items = self.keyword("items").and_then(|items| items.get("type"));
        items.and_then(Json::as_str) == Some("string")
    }

    /// Returns this mapping with every required key open.
    pub(super) fn example(&self) -> String {
        match self.required().as_slice() {
            [] => "{…}".to_owned(),
            [first, ..] => self.with(first, "…"),
        }
    }

    pub(super) fn property(&self, key: &str) -> Option<&'a Json> {
        self.parts
            .iter()
            .find_map(|part| part.get("properties")?.get(key))
    }

    pub(super) fn property_names(&self) -> Vec<&'a str> {
        let all = self
            .parts
            .iter()
            .filter_map(|part| part.get("properties")?.as_object());
        all.flat_map(|map| map.keys().map(String::as_str)).collect()
    }

    pub(super) fn required(&self) -> Vec<&'a str> {
        let all = self
            .parts
            .iter()
            .filter_map(|part| part.get("required")?.as_array());
        all.flatten().filter_map(Json::as_str).collect()
    }

    pub(super) fn description(&self) -> Option<&'a str> {
        self.keyword("description").and_then(Json::as_str)
    }

    pub(super) fn closed(&self) -> bool {
        let no = |part: &&Map<String, Json>, key: &str| {
            part.get(key).and_then(Json::as_bool) == Some(false)
        };
        self.parts
            .iter()
            .any(|p| no(p, "additionalProperties") || no(p, "unevaluatedProperties"))
    }

    pub(super) fn types(&self) -> Vec<&'a str> {
        match self.keyword("type") {
            Some(Json::String(one)) => vec![one],
            Some(Json::Array(several)) => several.iter().filter_map(Json::as_str).collect(),
            _ => Vec::new(),
        }
    }

    pub(super) fn accepts_type(&self, node: &Node) -> bool {
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

    pub(super) fn expected(&self) -> String {
        match self.expected_each().as_slice() {
            [] => "nothing".to_owned(),
            each => any_of(each),
        }
    }

    /// Returns what is expected, each alternative for itself; empty if nothing is.
    pub(super) fn expected_each(&self) -> Vec<String> {
        if self.is_duration() {
            return vec!["a duration such as `30 s`".to_owned()];
        }
        if self.format() == Some("percent") {
            return vec!["a percentage such as `3 %`".to_owned()];
        }
        let constants = self.constants();
        if !constants.is_empty() {
            return vec![list(constants)];
        }
        if let Some(tag) = self.external_tag() {
            return vec![format!("`{tag}: …`")];
        }
        let words = |t: &&str| match *t {
            "integer" => vec!["an integer"],
            "number" => vec!["a number"],
            "string" => vec!["text"],
            "boolean" => vec!["`true`", "`false`"],
            "array" => vec!["a list"],
            "object" => vec!["a mapping"],
            _ => Vec::new(),
        };
        self.types()
            .iter()
            .flat_map(words)
            .map(str::to_owned)
            .collect()
    }

    pub(super) fn format(&self) -> Option<&'a str> {
        self.keyword("format").and_then(Json::as_str)
    }

    pub(super) fn is_duration(&self) -> bool {
        matches!(self.format(), Some("duration" | "span"))
    }

    /// Returns the texts that an `enum` or `const` allows.
    pub(super) fn constants(&self) -> Vec<&'a str> {
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

    /// Returns the texts that are the only values allowed, also those of its own alternatives; empty if there are other
    /// values.
    pub(super) fn words(&self) -> Vec<&'a str> {
        let own = self.constants();
        let nested = self.keyword("oneOf").and_then(Json::as_array);
        let word = |schema: &'a Json| schema.get("const").and_then(Json::as_str);
        match nested {
            Some(nested) if own.is_empty() => nested
                .iter()
                .map(word)
                .collect::<Option<Vec<_>>>()
                .unwrap_or_default(),
            _ => own,
        }
    }

    /// Returns the only key of a variant of the form `variant: {…}`.
    pub(super) fn external_tag(&self) -> Option<&'a str> {
        let required = self.required();
        let [tag] = required.as_slice() else {
            return None;
        };
        (self.closed() && self.property_names() == [*tag] && self.tag_value(tag).is_none())
            .then_some(*tag)
    }

    /// Returns the value that a key must have in this variant.
    pub(super) fn tag_value(&self, tag: &str) -> Option<&'a str> {
        self.property(tag)?.get("const")?.as_str()
    }

    pub(super) fn constant_mistake(&self, node: &Node, route: &[Step]) -> Option<Mistake> {
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
        let word = node.text().unwrap_or_default();
        let ours = self.phrase(word);
        let constants = self.constants();
        let hint = ours
            .map(|ours| instead(&ours))
            .or_else(|| resembling(word, "values", &constants))
            .or_else(|| {
                let command = self.keyword(LISTED_BY)?.as_str()?;
                Some(format!("`{command}` lists the {} values", constants.len()))
            });
        Some(mistake.hint(hint.unwrap_or_else(|| remedy(word, "values", constants))))
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "names of the two keywords and of what is counted"
    )]
    pub(super) fn lengths(
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

    /// Returns the least and the greatest number that the type and the schema allow.
    fn limits(&self) -> (f64, f64) {
        let (low, high) = match self.format().unwrap_or_default() {
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
        (low, high)
    }

    /// Describes the numbers that the type and the schema allow: `a whole number from 1 to 100`.
    fn range(&self) -> String {
        let (low, high) = self.limits();
        let bound = |name: &str| self.keyword(name).and_then(Json::as_f64);
        let what = match self.types().contains(&"number") {
            true => "a number",
            false => "a whole number",
        };
        let above = bound("exclusiveMinimum").map(|low| format!(" above {low}"));
        let from = above.or_else(|| low.is_finite().then(|| format!(" from {low}")));
        let below = bound("exclusiveMaximum").map(|high| format!(" below {high}"));
        // The greatest number of a type is not a limit that people know.
        let to = high.is_finite() && high < f64::from(u32::MAX);
        let to = below.or_else(|| to.then(|| format!(" to {high}")));
        match (&from, &to) {
            (Some(from), None) if from.starts_with(" from") => format!("{what}{from} on"),
            _ => format!(
                "{what}{}{}",
                from.unwrap_or_default(),
                to.unwrap_or_default()
            ),
        }
    }

    pub(super) fn bounds(&self, value: f64, node: &Node, route: &[Step], out: &mut Vec<Mistake>) {
        let (low, high) = self.limits();
        let bound = |name: &str| self.keyword(name).and_then(Json::as_f64);
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
        if let Some(hint) = share(value).filter(|_| high == 1.0) {
            return out.push(mistake.hint(hint));
        }
        if let Some(ours) = self.other_word(&value.to_string()) {
            return out.push(mistake.hint(instead(ours)));
        }
        let range = self.range();
        out.push(match self.description() {
            Some(text) => mistake.hint(format!("write {range} ({})", first_sentence(text))),
            None => mistake.hint(format!("write {range}")),
        });
    }
}
