//! Determines which alternative of a schema a value was meant for.

use serde_json::Map;

use super::super::diagnostics::{Mistake, MistakeKind};
use super::super::tree::{Key, Node, Value};
use super::checker::{Checker, FORM_DEPTH};
use super::numbers::{number, range};
use super::remedies::{first_sentence, instead, list_of_texts, takes_text, wrong_type};
use super::view::{View, of_quantile};
use crate::stage::{Json, Step};
use crate::suggest::{any_of, closest, list, remedy};

/// The alternatives of a schema, and what distinguishes them.
struct Alternatives<'a, 'w> {
    views: Vec<(&'a Json, View<'a>)>,
    /// The alternatives, and their own alternatives, that are mappings.
    mappings: Vec<View<'a>>,
    /// The words that are complete alternatives.
    constants: Vec<&'a str>,
    /// The alternatives that are a mapping with one key.
    variants: Vec<(&'a str, &'a Json)>,
    /// The names that other tools' words have here.
    words: Option<&'w Map<String, Json>>,
}

/// The alternative that a value was meant for; `None` if this test does not show it.
type Chosen<'a> = Option<Result<&'a Json, Box<Mistake>>>;

impl<'a> Checker<'a> {
    /// Returns the alternative that a value was meant for.
    pub(super) fn choose(
        &self,
        all: &'a [Json],
        words: Option<&Map<String, Json>>,
        node: &Node,
        route: &[Step],
    ) -> Result<&'a Json, Box<Mistake>> {
        let views: Vec<(&'a Json, View<'a>)> = all.iter().map(|s| (s, self.view(s))).collect();
        let nested = views.iter().flat_map(|(_, view)| {
            let own = view.keyword("anyOf").and_then(Json::as_array);
            own.into_iter().flatten().map(|schema| self.view(schema))
        });
        let direct = all.iter().map(|schema| self.view(schema));
        let alternatives = Alternatives {
            mappings: direct
                .chain(nested)
                .filter(|v| v.types() == ["object"])
                .collect(),
            constants: views.iter().flat_map(|(_, v)| v.constants()).collect(),
            variants: views
                .iter()
                .filter_map(|(s, v)| Some((v.external_tag()?, *s)))
                .collect(),
            views,
            words,
        };
        let fitting: Vec<&(&Json, View)> = alternatives
            .views
            .iter()
            .filter(|(_, v)| self.accepts(v, node))
            .collect();
        let choice = match &node.value {
            Value::Text(text) => alternatives.by_word(self, text, &fitting, node, route),
            Value::Map(entries) => alternatives
                .by_key(entries, node, route)
                .or_else(|| alternatives.by_tag(node, route))
                .or_else(|| alternatives.of_no_key(entries, &fitting, node, route)),
            _ => None,
        };
        if let Some(chosen) = choice {
            return chosen;
        }
        match fitting.as_slice() {
            [] => Err(Box::new(alternatives.unfit(self, node, route))),
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
}

impl<'a> Alternatives<'a, '_> {
    fn names(&self) -> Vec<&'a str> {
        let variants = self.variants.iter().map(|(name, _)| *name);
        self.constants.iter().copied().chain(variants).collect()
    }

    fn remedy(&self, word: &str, what: &str, names: &[&str]) -> String {
        let ours = |word: &str| self.words.and_then(|words| words.get(word)?.as_str());
        if let Some(ours) = ours(word) {
            return instead(ours);
        }
        if let Some(ours) = self.words.and_then(|words| of_quantile(words, word)) {
            return instead(&ours);
        }
        match ours("TEXT")
            .filter(|_| what == "values" && closest(word, names.iter().copied()).is_none())
        {
            Some(form) => instead(&form.replace("TEXT", word)),
            None => remedy(word, what, names.iter().copied()),
        }
    }

    fn by_word(
        &self,
        checker: &Checker<'a>,
        text: &str,
        fitting: &[&(&'a Json, View<'a>)],
        node: &Node,
        route: &[Step],
    ) -> Chosen<'a> {
        let mut views = self.views.iter();
        if let Some((schema, _)) = views.find(|(_, v)| v.constants().contains(&text)) {
            return Some(Ok(schema));
        }
        if let Some((name, schema)) = self.variants.iter().find(|(name, _)| *name == text) {
            let message = format!("`{text}` needs settings");
            let mistake = Mistake::new(node.span, route, message);
            let settings = checker.view(schema).property(name);
            let settings = settings.map(|settings| checker.view(settings).example());
            let settings = settings.unwrap_or_else(|| "{…}".to_owned());
            return wrong(mistake.hint(format!("write `{{{text}: {settings}}}`")));
        }
        let words: Vec<&str> = fitting.iter().flat_map(|(_, v)| v.words()).collect();
        if fitting.iter().all(|(_, v)| !v.words().is_empty())
            && !is_like_a_word(text, &words)
            && let Some(hint) = self.in_a_mapping(checker, node).or_else(|| {
                let form = self.form(checker)?;
                Some(format!(
                    "write it as `{form}`, or one of {}",
                    list(words.iter().copied())
                ))
            })
        {
            let message = format!("expected a mapping, found {}", node.describe());
            return wrong(Mistake::new(node.span, route, message).hint(hint));
        }
        let open = fitting.iter().find(|(_, v)| v.constants().is_empty());
        if let Some((schema, _)) = open {
            return Some(Ok(schema));
        }
        let names = self.names();
        if names.is_empty() {
            return None;
        }
        if let Some(hint) = self.number_or_mapping(checker, text) {
            let message = format!("expected a number, found {}", node.describe());
            return wrong(Mistake::new(node.span, route, message).hint(hint));
        }
        let mistake = Mistake::new(node.span, route, format!("unknown value `{text}`"));
        wrong(mistake.hint(self.remedy(text, "values", &names)))
    }

    /// Returns the remedy for a text where a number belongs, or a mapping whose only key takes a text: `{column: price}`.
    /// Nothing else can be in its place.
    fn number_or_mapping(&self, checker: &Checker<'a>, text: &str) -> Option<String> {
        let ([], [(key, schema)]) = (self.constants.as_slice(), self.variants.as_slice()) else {
            return None;
        };
        let is_number = |view: &View<'_>| {
            let types = view.types();
            types.contains(&"number") || types.contains(&"integer")
        };
        let has_number = self.views.iter().any(|(_, view)| is_number(view));
        (has_number && takes_text(&checker.view(schema), key))
            .then(|| format!("write a number, or `{{{key}: {text}}}`"))
    }

    fn by_key(&self, entries: &[(Key, Node)], node: &Node, route: &[Step]) -> Chosen<'a> {
        let tagged: Vec<_> = entries
            .iter()
            .filter_map(|(k, _)| self.variants.iter().find(|(n, _)| *n == k.text))
            .collect();
        let units = entries
            .iter()
            .map(|(k, _)| k.text.as_str())
            .filter(|k| self.constants.contains(k));
        let named: Vec<&str> = tagged.iter().map(|(name, _)| *name).chain(units).collect();
        match tagged.as_slice() {
            [] => {}
            [(_, schema)] if named.len() == 1 => return Some(Ok(schema)),
            _ => {
                let message = format!("only one of {} can be given", list(named));
                let mistake = Mistake::new(node.span, route, message);
                return wrong(mistake.hint("keep one of them"));
            }
        }
        let mut keys = entries.iter().map(|(key, _)| key);
        let key = keys.find(|key| self.constants.contains(&key.text.as_str()))?;
        let message = format!("`{}` takes no settings", key.text);
        let mistake = Mistake::new(key.span, route, message);
        wrong(mistake.hint(format!("write just `{}`", key.text)))
    }

    fn by_tag(&self, node: &Node, route: &[Step]) -> Chosen<'a> {
        let tag = internal_tag(&self.views)?;
        let names = self.views.iter().filter_map(|(_, v)| v.tag_value(tag));
        let names: Vec<&str> = names.collect();
        let Some(value) = node.get(tag) else {
            let message = format!("missing key `{tag}`");
            let hint = format!("add `{tag}:`, one of {}", list(names));
            let mistake = Mistake::new(node.span, route, message).kind(MistakeKind::MissingKey);
            return wrong(mistake.hint(hint));
        };
        let text = value.text().unwrap_or_default();
        let mut views = self.views.iter();
        if let Some((schema, _)) = views.find(|(_, v)| v.tag_value(tag) == Some(text)) {
            return Some(Ok(schema));
        }
        let described = value.describe();
        let message = format!(
            "unknown {tag} {}",
            described.trim_start_matches("the text ")
        );
        let hint = self.remedy(text, &format!("values of `{tag}`"), &names);
        wrong(Mistake::new(value.span, route, message).hint(hint))
    }

    /// The mistake of a mapping in which one key must name the alternative, and no key does.
    fn of_no_key(
        &self,
        entries: &[(Key, Node)],
        fitting: &[&(&'a Json, View<'a>)],
        node: &Node,
        route: &[Step],
    ) -> Chosen<'a> {
        if self.variants.is_empty() || !fitting.iter().all(|(_, v)| v.external_tag().is_some()) {
            return None;
        }
        let names = self.names();
        let Some((key, _)) = entries.first() else {
            let hint = format!("give one of {}", list(names));
            return wrong(Mistake::new(node.span, route, "the mapping is empty").hint(hint));
        };
        let mistake = Mistake::new(key.span, route, format!("unknown key `{}`", key.text));
        if let Some(form) = self.named_inside(entries, &names) {
            return wrong(mistake.hint(format!("write `{form}`")));
        }
        wrong(mistake.hint(self.remedy(&key.text, "choices", &names)))
    }

    /// Returns the mapping that one means which names its choice beside the settings, as `{type: poisson, rate: 4}`.
    fn named_inside(&self, entries: &[(Key, Node)], names: &[&str]) -> Option<String> {
        let names_one = |(_, value): &&(Key, Node)| {
            let named = value
                .text()
                .map(|text| text.to_lowercase().replace('_', "-"));
            named.is_some_and(|named| names.contains(&named.as_str()))
        };
        let (key, value) = entries.iter().find(names_one)?;
        let name = value.text()?.to_lowercase().replace('_', "-");
        if self.constants.contains(&name.as_str()) {
            return Some(name);
        }
        let others = entries.iter().filter(|(other, _)| other.text != key.text);
        let others: Vec<String> = others
            .map(|(key, value)| format!("{}: {}", key.text, value.flow()))
            .collect();
        match others.is_empty() {
            true => Some(format!("{{{name}: {{…}}}}")),
            false => Some(format!("{{{name}: {{{}}}}}", others.join(", "))),
        }
    }

    /// Returns the mapping that a value alone, as `5 %`, stands for.
    fn in_a_mapping(&self, checker: &Checker<'a>, node: &Node) -> Option<String> {
        let value = match &node.value {
            Value::Int(number) => number.to_string(),
            Value::Float(number) => number.written.to_string(),
            Value::Text(text) => text.clone(),
            _ => return None,
        };
        let mut mappings = self.mappings.iter();
        let (view, key) = mappings.find_map(|view| Some((view, view.declared_alone()?)))?;
        let schema = view.property(key)?;
        let takes = node.text().is_none() || checker.check(schema, node, &[]).is_empty();
        takes.then_some(())?;
        Some(format!("write `{}`", view.with(key, &value)))
    }

    /// Returns the mapping that a list of texts stands for, if one alternative is a mapping with one list.
    fn wrapped(&self, node: &Node) -> Option<String> {
        let Value::List(items) = &node.value else {
            return None;
        };
        let mut views = self.views.iter();
        let key = views.find_map(|(_, view)| list_of_texts(items, view))?;
        Some(format!("write `{{{key}: {}}}`", node.json()))
    }

    /// Returns the range that a text such as `5-9` or a list of two numbers stands for, if a value may be a range.
    fn ends(&self, node: &Node) -> Option<String> {
        let (from, to) = match &node.value {
            Value::Text(text) => range(text)?,
            Value::List(items) => match items.as_slice() {
                [
                    Node {
                        value: Value::Int(from),
                        ..
                    },
                    Node {
                        value: Value::Int(to),
                        ..
                    },
                ] => (*from, *to),
                _ => return None,
            },
            _ => return None,
        };
        let has_ends =
            |view: &View<'_>| view.property("from").is_some() && view.property("to").is_some();
        // An alternative that has alternatives of its own may be one.
        let may = |view: &View<'_>| has_ends(view) || view.expected() == "nothing";
        (from <= to && self.views.iter().any(|(_, view)| may(view)))
            .then(|| format!("write `{{from: {from}, to: {to}}}`"))
    }

    /// Returns the number that a text such as `128 tokens` means, if a value may be a number.
    fn number(&self, node: &Node) -> Option<String> {
        let takes = |kind: &str| {
            let mut views = self.views.iter();
            views.find(|(_, view)| view.types().contains(&kind))
        };
        let fractions = takes("number").is_some();
        // An alternative that has alternatives of its own may be one.
        let nested = || {
            self.views
                .iter()
                .find(|(_, view)| view.expected() == "nothing")
        };
        let (_, view) = takes("integer")
            .or_else(|| takes("number"))
            .or_else(nested)?;
        let text = node.text()?;
        let hint = number(text, fractions)?;
        // The unit that was written may be another one.
        let has_unit =
            text.starts_with(|c: char| c.is_ascii_digit()) && text.contains(char::is_alphabetic);
        Some(match view.description().filter(|_| has_unit) {
            Some(about) => format!("{hint} ({})", first_sentence(about)),
            None => hint,
        })
    }

    /// The mistake of a value whose type no alternative has.
    fn unfit(&self, checker: &Checker<'a>, node: &Node, route: &[Step]) -> Mistake {
        let mut expected: Vec<String> = Vec::new();
        for (_, view) in &self.views {
            for text in view.expected_each() {
                if !expected.contains(&text) {
                    expected.push(text);
                }
            }
        }
        // A label may have nearly any type.
        let expected = match expected.len() {
            // The alternatives have alternatives of their own.
            0 if self.ends(node).or_else(|| self.number(node)).is_some() => {
                "a number or a range".to_owned()
            }
            0 => "another value".to_owned(),
            1..=5 => any_of(&expected),
            _ => "a value".to_owned(),
        };
        let message = format!("expected {expected}, found {}", node.describe());
        let mistake = Mistake::new(node.span, route, message);
        let (_, first) = self
            .views
            .first()
            .expect("a list of alternatives is not empty");
        if let Some(hint) = self.wrapped(node).or_else(|| self.ends(node)) {
            return mistake.hint(hint);
        }
        if let Some(hint) = self.number(node) {
            return mistake.hint(hint);
        }
        if let Value::Int(_) | Value::Float(_) = &node.value
            && let Some(hint) = self.in_a_mapping(checker, node)
        {
            return mistake.hint(hint);
        }
        match self.names() {
            names if names.is_empty() => wrong_type(mistake, first, None, node),
            names => {
                let form = self.form(checker);
                let form = form.map(|form| format!(", or a mapping such as `{form}`"));
                let form = form.unwrap_or_default();
                mistake.hint(format!("give one of {}{form}", list(names)))
            }
        }
    }

    /// Returns the form of the alternative that is declared with one.
    fn form(&self, checker: &Checker<'a>) -> Option<String> {
        let mut declared = self.mappings.iter().filter(|v| v.declared_form().is_some());
        declared.find_map(|view| checker.form(view, FORM_DEPTH))
    }
}

/// Returns whether a text is probably meant as one of the words.
fn is_like_a_word(text: &str, words: &[&str]) -> bool {
    let off = ["no", "off", "false", "never"];
    off.contains(&text.to_lowercase().as_str()) || closest(text, words.iter().copied()).is_some()
}

fn wrong<'a>(mistake: Mistake) -> Chosen<'a> {
    Some(Err(Box::new(mistake)))
}

/// Returns the key that distinguishes the variants of an internally tagged enum.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::mistakes_in;

    #[test]
    fn a_text_for_a_number_or_a_column_gets_both_forms() {
        let column = json!({"type": "object", "required": ["column"], "additionalProperties": false,
            "properties": {"column": {"type": "string"}}});
        let price = json!({"anyOf": [{"type": "number"}, column]});
        let schema = json!({"type": "object", "properties": {"price": price}});
        let mistakes = mistakes_in(&json!({"price": "offer"}), &schema, "the table");
        assert_eq!(mistakes.len(), 1);
        assert_eq!(
            mistakes[0].message,
            "expected a number, found the text `offer`"
        );
        assert_eq!(
            mistakes[0].hint.as_deref(),
            Some("write a number, or `{column: offer}`")
        );
        assert!(mistakes_in(&json!({"price": {"column": "offer"}}), &schema, "x").is_empty());
    }
}
