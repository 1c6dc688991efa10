//! The mistake of a key that nothing reads, with the place where it belongs.

use super::super::diagnostics::{Mistake, MistakeKind};
use super::super::tree::{Key, Node, Value};
use super::checker::Checker;
use super::remedies::{instead, without_space};
use super::view::{View, word_of_stages};
use crate::stage::{Json, Step};
use crate::suggest::{closest, did_you_mean, list, remedy};

/// The remedy for a key that only holds a value with an anchor, as files of Docker Compose have it.
const ANCHORS: &str = "remove it: write `&NAME` before the first value that is used, and `*NAME` where it is repeated";

/// The largest number of mappings inside each other in which a key is searched.
const DEPTH: usize = 3;

/// The step into a mapping whose keys are names.
const ANY_NAME: &str = "NAME";

/// The remedy for a definition inside of a setting.
const EXTENDS: &str = "give the definition a name in a section at the top of the file, such as `workloads` or `engines`, and \
                       write the name here";

/// The step into a list.
const ITEM: &str = "[]";

/// The largest number of places that a remedy lists.
const PLACES: usize = 3;

impl<'a> Checker<'a> {
    /// Returns the mistake of an unknown key, and the key that it is a misspelling of.
    pub(super) fn unknown(
        &self,
        view: &View<'a>,
        node: &Node,
        (key, value): (&Key, &Node),
        route: &[Step],
    ) -> (Mistake, Option<String>) {
        let text = key.text.as_str();
        let names = view.property_names();
        // A key of every form of a value is a property of each of them.
        let mut seen = std::collections::BTreeSet::new();
        let names: Vec<&str> = names
            .iter()
            .copied()
            .chain(self.other_keys.iter().map(String::as_str))
            .filter(|name| seen.insert(*name))
            .collect();
        let names = names.iter().copied();
        let (message, keys) = match self.owner {
            Some(owner) => (format!("{owner} has no parameter `{text}`"), "parameters"),
            None => (format!("unknown key `{text}`"), "keys here"),
        };
        let hint = view
            .other_word(text)
            // Only stages have keys in addition to those of the schema.
            .or_else(|| word_of_stages(text).filter(|_| self.is_of_a_stage()))
            .map(instead)
            .or_else(|| self.beside(view, node, text))
            .or_else(|| (text == "extends" && !route.is_empty()).then(|| EXTENDS.to_owned()))
            .or_else(|| self.outside(text))
            .or_else(|| self.defined_outside(text, value))
            .or_else(|| holds_an_anchor(text).then(|| ANCHORS.to_owned()))
            .or_else(|| without_space(text, names.clone()));
        let misspelt = match hint {
            Some(_) => None,
            None => closest(text, names.clone())
                .or_else(|| missing_part(view, node, text))
                .map(str::to_owned),
        };
        let hint = hint
            .or_else(|| match misspelt {
                Some(_) => None,
                None => self
                    .deeper(view, text)
                    .or_else(|| self.elsewhere.and_then(|says| says(text, value))),
            })
            .or_else(|| misspelt.as_deref().map(did_you_mean))
            .unwrap_or_else(|| remedy(text, keys, names));
        let mistake = Mistake::new(key.span, route, message).kind(MistakeKind::UnknownKey);
        (mistake.hint(hint), misspelt)
    }

    /// Returns whether the keys are those of a stage.
    fn is_of_a_stage(&self) -> bool {
        self.other_keys.iter().any(|key| key == "needs")
    }

    /// Returns the remedy for a key that belongs into a mapping beside it.
    fn beside(&self, view: &View<'a>, node: &Node, key: &str) -> Option<String> {
        let mut names = view.property_names().into_iter();
        let inside = names.find(|name| {
            let below = view.property(name).map(|schema| self.view(schema));
            // A node may have very many keys, so look for the key in the schema first.
            below.is_some_and(|below| below.property(key).is_some())
                && (node.get(name)).is_some_and(|given| matches!(given.value, Value::Map(_)))
        })?;
        Some(format!("`{key}` is a key of `{inside}`: move it there"))
    }

    /// Returns the remedy for a key that belongs to a level around this one.
    fn outside(&self, key: &str) -> Option<String> {
        let (level, _) = self
            .around
            .iter()
            .find(|(_, keys)| keys.iter().any(|name| name == key))?;
        Some(format!("`{key}` is a key {level}: move it there"))
    }

    /// Returns the remedy for definitions inside a stage: a mapping of mappings below the name of a collection.
    fn defined_outside(&self, key: &str, value: &Node) -> Option<String> {
        let entries = value.entries();
        let is_map = |(_, value): &(Key, Node)| matches!(value.value, Value::Map(_));
        let holds = self.definitions.contains(&key) && !entries.is_empty();
        (holds && entries.iter().all(is_map)).then(|| {
            format!("`{key}` are declared at the top of the file: move this mapping there")
        })
    }

    /// Returns the remedy for definitions where a stage lists the names of definitions.
    pub(super) fn definitions_meant(&self, node: &Node, route: &[Step]) -> Option<String> {
        let Some(Step::Key(key)) = route.last() else {
            return None;
        };
        let move_there = self.defined_outside(key, node)?;
        let names: Vec<&str> = node
            .entries()
            .iter()
            .map(|(key, _)| key.text.as_str())
            .collect();
        let names = names.join(", ");
        Some(format!(
            "{move_there}; here, `{key}: [{names}]` would choose among them"
        ))
    }

    /// Returns the remedy for a key that belongs into a mapping which is not there, or is there in another form.
    fn deeper(&self, view: &View<'a>, key: &str) -> Option<String> {
        let mut places = Vec::new();
        self.places(view, key, "", DEPTH, &mut places);
        match places.as_slice() {
            [] => None,
            [place] => Some(format!("write `{}`", nested(place, key))),
            places if places.len() <= PLACES => {
                let forms: Vec<String> = places.iter().map(|place| nested(place, key)).collect();
                let forms = list(forms.iter().map(String::as_str));
                Some(format!("it belongs into a mapping: {forms}"))
            }
            _ => None,
        }
    }

    /// Collects the routes below a view whose mappings have a key, the shortest ones only.
    fn places(
        &self,
        view: &View<'a>,
        key: &str,
        route: &str,
        depth: usize,
        places: &mut Vec<String>,
    ) {
        let mut below = Vec::new();
        let named = view.property_names().into_iter();
        let named = named.filter_map(|name| Some((name, view.property(name)?)));
        let entries = [(ANY_NAME, "additionalProperties"), (ITEM, "items")].into_iter();
        let entries = entries.filter_map(|(step, keyword)| Some((step, view.keyword(keyword)?)));
        for (step, schema) in named.chain(entries) {
            let route = match route {
                "" => step.to_owned(),
                route => format!("{route}.{step}"),
            };
            let forms = self.forms(schema);
            if forms.iter().any(|form| form.property(key).is_some()) {
                if !places.contains(&route) {
                    places.push(route);
                }
            } else if depth > 1 {
                below.extend(forms.into_iter().map(|form| (form, route.clone())));
            }
        }
        if places.is_empty() {
            for (form, route) in below {
                self.places(&form, key, &route, depth - 1, places);
            }
        }
    }

    /// Returns the forms that a value may have.
    fn forms(&self, schema: &'a Json) -> Vec<View<'a>> {
        let view = self.view(schema);
        let forms = ["oneOf", "anyOf"].into_iter();
        let forms = forms.filter_map(|keyword| view.keyword(keyword)?.as_array());
        let forms: Vec<View<'a>> = forms.flatten().map(|form| self.view(form)).collect();
        std::iter::once(view).chain(forms).collect()
    }
}

/// Returns the required key that a mapping lacks and that a key has as one of its words: `seed` in `random_seed`.
fn missing_part<'a>(view: &View<'a>, node: &Node, text: &str) -> Option<&'a str> {
    let mut lacking = view.required().into_iter();
    // A node may have very many keys, so it is searched last.
    lacking.find(|key| has_word(text, key) && node.get(key).is_none())
}

/// Returns whether one of the words of a key is this one.
pub(crate) fn has_word(key: &str, word: &str) -> bool {
    let key = key.to_lowercase();
    key.split(['-', '_']).any(|part| part == word)
}

/// Returns whether a key has the form that other tools reserve for values with anchors.
fn holds_an_anchor(key: &str) -> bool {
    key.starts_with("x-") || key.starts_with('.')
}

/// Returns a key inside mappings, with its value open.
fn nested(route: &str, key: &str) -> String {
    let inner = format!("{{{key}: …}}");
    let mut steps = route.rsplit('.').peekable();
    let mut text = inner;
    while let Some(step) = steps.next() {
        text = match (step, steps.peek()) {
            (ITEM, _) => format!("[{text}]"),
            (step, Some(_)) => format!("{{{step}: {text}}}"),
            (step, None) => format!("{step}: {text}"),
        };
    }
    text
}
