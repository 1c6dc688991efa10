//! Remedies for lists: a mapping or a word where a list of mappings belongs, and items without commas or brackets.

use super::super::diagnostics::{Mistake, MistakeKind};
use super::super::parse::plain_scalar;
use super::super::tree::{Key, Node, Value};
use super::checker::Checker;
use super::remedies::instead;
use super::view::View;
use crate::stage::{Json, Step};
use crate::suggest::closest;

impl<'a> Checker<'a> {
    /// Returns the list that the user meant by a mapping, a word or a truth value. Each mapping of the list has a key that
    /// selects its form: `{error-rate: 0.01}` is `[{gate: row-status, tolerance: 0.01}]`.
    pub(super) fn list_meant(&self, view: &View<'a>, node: &Node) -> Option<String> {
        let items = self.view(view.keyword("items")?);
        let tag = items.selecting_key()?;
        let words: Vec<&str> = match &node.value {
            Value::Map(entries) => entries.iter().map(|(key, _)| key.text.as_str()).collect(),
            Value::Text(text) => vec![text],
            _ => return None,
        };
        let choices = self.view(items.property(tag)?);
        // A word without a form among ours has a sentence of its own.
        let said = |word: &&str| self.item_meant(&items, word, node).is_none();
        if let Some(said) = words
            .iter()
            .copied()
            .filter(said)
            .find_map(|word| choices.phrase(word))
        {
            return Some(instead(&said));
        }
        let list = match &node.value {
            Value::Map(_) if node.get(tag).is_some() => node.flow(),
            Value::Map(entries) => {
                let item = |(key, value): &(Key, Node)| self.item_meant(&items, &key.text, value);
                entries
                    .iter()
                    .map(item)
                    .collect::<Option<Vec<_>>>()?
                    .join(", ")
            }
            Value::Text(text) => {
                let words = text.trim_matches(['[', ']']).split(',');
                let nothing = Node {
                    span: node.span,
                    value: Value::Null,
                };
                let item = |word: &str| self.item_meant(&items, word.trim(), &nothing);
                words.map(item).collect::<Option<Vec<_>>>()?.join(", ")
            }
            _ => return None,
        };
        (!list.is_empty()).then(|| format!("write `[{list}]`"))
    }

    /// Returns the mapping that `word: value` stands for, if a key of the mapping selects its form and the word names one.
    pub(super) fn item_meant(&self, view: &View<'a>, word: &str, value: &Node) -> Option<String> {
        let tag = view.selecting_key()?;
        let choices = self.view(view.property(tag)?);
        let names = choices.constants();
        let name = match names.iter().find(|name| **name == word) {
            Some(name) => *name,
            None => match choices.other_word(word) {
                Some(_) => choices.key_of_other_word(word)?,
                None => closest(word, names.iter().copied())?,
            },
        };
        let mut parts = vec![format!("{tag}: {name}")];
        match &value.value {
            Value::Map(entries) => {
                parts.extend(
                    entries
                        .iter()
                        .map(|(key, value)| format!("{}: {}", key.text, value.flow())),
                );
            }
            Value::Null | Value::Bool(true) => {}
            _ => parts.push(self.parameter_meant(view, (tag, name), value)),
        }
        Some(format!("{{{}}}", parts.join(", ")))
    }

    /// Returns the mistake of a mapping that has the name of its form as a key: `{row-status: {tolerance: 0.01}}`.
    pub(super) fn form_as_key(
        &self,
        view: &View<'a>,
        node: &Node,
        route: &[Step],
    ) -> Option<Mistake> {
        let tag = view.selecting_key()?;
        let [(key, value)] = node.entries() else {
            return None;
        };
        let choices = self.view(view.property(tag)?);
        let is_form = choices.constants().contains(&key.text.as_str())
            || choices.key_of_other_word(&key.text).is_some();
        if view.property(&key.text).is_some() || !is_form {
            return None;
        }
        let meant = self.item_meant(view, &key.text, value)?;
        let mut route = route.to_vec();
        route.push(Step::Key(key.text.clone()));
        let message = format!("unknown key `{}`", key.text);
        let mistake = Mistake::new(key.span, &route, message).kind(MistakeKind::UnknownKey);
        Some(mistake.hint(format!("write `{meant}`")))
    }

    /// Returns the mapping that a word alone stands for, if the word is another tool's for one of its forms.
    pub(super) fn of_word(&self, view: &View<'a>, word: &str, node: &Node) -> Option<String> {
        let choices = self.view(view.property(view.selecting_key()?)?);
        let phrase = choices.phrase(word)?;
        let nothing = Node {
            span: node.span,
            value: Value::Null,
        };
        let meant = self.item_meant(view, word, &nothing);
        Some(meant.map_or_else(|| instead(&phrase), |meant| format!("write `{meant}`")))
    }

    /// Returns the parameter of a form that a value alone is meant for: the only one, if it may have the value.
    fn parameter_meant(&self, view: &View<'a>, (tag, name): (&str, &str), value: &Node) -> String {
        let node = Node::from_json(&serde_json::json!({ tag: name }), value.span);
        let mut form = View {
            parts: view.parts.clone(),
        };
        let settled = self.settle(&mut form, &node, &[]).is_ok();
        let common = view.property_names();
        let mut own = form.property_names();
        own.retain(|key| !common.contains(key));
        let fits = |key: &str| {
            let schema = form.property(key);
            schema.is_some_and(|schema: &'a Json| self.check(schema, value, &[]).is_empty())
        };
        match own.as_slice() {
            [key] if settled && fits(key) => format!("{key}: {}", value.flow()),
            [key] if settled => format!("{key}: …"),
            _ => "…".to_owned(),
        }
    }
}

/// Returns the list that a text such as `1 2 4`, `1; 2; 4` or `(1, 2, 4)` stands for; `None` if it is a single item.
pub(super) fn several(text: &str) -> Option<String> {
    let inner = text.trim();
    let inner = inner
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'))
        .unwrap_or(inner);
    let items = inner
        .split(|c: char| c == ',' || c == ';' || c == '|' || c.is_whitespace())
        .filter(|item| !item.is_empty());
    let items: Vec<&str> = items.collect();
    let word = |item: &&str| {
        item.chars()
            .all(|c| c.is_alphanumeric() || "-_.".contains(c))
    };
    (items.len() > 1 && items.iter().all(word)).then(|| format!("[{}]", items.join(", ")))
}

/// Returns the same for a text of numbers only.
pub(super) fn several_numbers(text: &str) -> Option<String> {
    let list = several(text)?;
    let number = |item: &str| matches!(plain_scalar(item), Value::Int(_) | Value::Float(_));
    let all = list.trim_matches(['[', ']']).split(", ").all(number);
    all.then_some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_without_commas_or_brackets_are_a_list() {
        for (text, list) in [
            ("1 2 4", Some("[1, 2, 4]")),
            ("1;2; 4", Some("[1, 2, 4]")),
            ("(1, 2, 4)", Some("[1, 2, 4]")),
            ("1,2,4", Some("[1, 2, 4]")),
            ("a | b", Some("[a, b]")),
            ("machine", None),
            ("a: b", None),
            ("", None),
        ] {
            assert_eq!(several(text).as_deref(), list, "{text}");
        }
        assert_eq!(several_numbers("a b"), None);
        assert_eq!(several_numbers("1 2.5").as_deref(), Some("[1, 2.5]"));
    }
}
