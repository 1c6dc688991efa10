//! The spanned tree: the content of a YAML text, each value with its place.

use artifacts::Scalar;

use super::diagnostics::Span;
use super::parse::plain_scalar;
use crate::stage::{Json, Step};

/// A value with its place. The place of a mapping or list under a key is the key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) value: Value,
}

/// A value of the YAML 1.2 core schema. Numbers are finite; keys are text and unique.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(Decimal),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// A number that is not written as an integer. Two are equal if their values are, however they are written.
#[derive(Clone, Debug)]
pub(crate) struct Decimal {
    pub(crate) value: f64,
    /// The number as the file spells it, for messages: `16.0`, `1e3`.
    pub(crate) written: Box<str>,
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// A key of a mapping with its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    pub(crate) text: String,
    pub(crate) span: Span,
}

impl Node {
    /// Returns the value of a key in a mapping.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|(_, node)| node)
    }

    /// Returns a key of a mapping and its value.
    pub(crate) fn entry(&self, key: &str) -> Option<&(Key, Node)> {
        self.entries().iter().find(|(k, _)| k.text == key)
    }

    /// Returns the entries of a mapping; empty for anything else.
    pub(crate) fn entries(&self) -> &[(Key, Node)] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// Returns the items of a list; empty for anything else.
    pub(crate) fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// Returns the text if it is text.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the place that a route leads to, as far as the tree matches it.
    pub(crate) fn place(&self, route: &[Step]) -> Span {
        self.nearest(route).span
    }

    /// Returns the node at the end of a route, or the last one on the way that exists.
    pub(crate) fn nearest(&self, route: &[Step]) -> &Self {
        let mut node = self;
        for step in route {
            let next = match step {
                Step::Key(key) => node.get(key),
                Step::Index(index) => node.items().get(*index),
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        node
    }

    /// Returns the place of the key at the end of a route, or the place the route leads to.
    pub(crate) fn place_of_key(&self, route: &[Step]) -> Span {
        let key = match route.split_last() {
            Some((Step::Key(key), before)) => self.at(before).and_then(|node| node.entry(key)),
            _ => None,
        };
        key.map_or_else(|| self.place(route), |(key, _)| key.span)
    }

    fn at(&self, route: &[Step]) -> Option<&Node> {
        route.iter().try_fold(self, |node, step| match step {
            Step::Key(key) => node.get(key),
            Step::Index(index) => node.items().get(*index),
        })
    }

    /// Returns the value without places.
    pub(crate) fn json(&self) -> Json {
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(value) => (*value).into(),
            Value::Int(value) => (*value).into(),
            Value::Float(number) => number.value.into(),
            Value::Text(value) => value.clone().into(),
            Value::List(items) => items.iter().map(Node::json).collect(),
            Value::Map(entries) => Json::Object(
                entries
                    .iter()
                    .map(|(k, v)| (k.text.clone(), v.json()))
                    .collect(),
            ),
        }
    }

    /// Writes the value on one line, in YAML's flow style.
    pub(crate) fn flow(&self) -> String {
        let word = |text: &str| {
            text.starts_with(|c: char| c.is_alphanumeric())
                && text
                    .chars()
                    .all(|c| c.is_alphanumeric() || "-_./".contains(c))
                && matches!(plain_scalar(text), Value::Text(_))
        };
        match &self.value {
            Value::Text(text) if word(text) => text.clone(),
            Value::Float(number) => number.written.to_string(),
            Value::List(items) => {
                let items: Vec<String> = items.iter().map(Node::flow).collect();
                format!("[{}]", items.join(", "))
            }
            Value::Map(entries) => {
                let entry = |(key, value): &(Key, Node)| format!("{}: {}", key.text, value.flow());
                let entries: Vec<String> = entries.iter().map(entry).collect();
                format!("{{{}}}", entries.join(", "))
            }
            _ => self.json().to_string(),
        }
    }

    /// Returns a tree for a value, with one place for every part.
    pub(crate) fn from_json(value: &Json, span: Span) -> Node {
        let value = match value {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => match number.as_i64() {
                Some(value) => Value::Int(value),
                None => Value::Float(Decimal {
                    value: number
                        .as_f64()
                        .expect("a JSON number is an integer or a double"),
                    written: number.to_string().into(),
                }),
            },
            Json::String(text) => Value::Text(text.clone()),
            Json::Array(items) => {
                Value::List(items.iter().map(|v| Node::from_json(v, span)).collect())
            }
            Json::Object(map) => Value::Map(
                map.iter()
                    .map(|(k, v)| {
                        (
                            Key {
                                text: k.clone(),
                                span,
                            },
                            Node::from_json(v, span),
                        )
                    })
                    .collect(),
            ),
        };
        Node { span, value }
    }

    /// Returns a text, number or Boolean value as a scalar.
    pub(crate) fn scalar(&self) -> Option<Scalar> {
        match &self.value {
            Value::Bool(value) => Some(Scalar::Bool(*value)),
            Value::Int(value) => Some(Scalar::Int(*value)),
            Value::Float(number) => Some(Scalar::Float(number.value)),
            Value::Text(value) => Some(Scalar::Text(value.clone())),
            Value::Null | Value::List(_) | Value::Map(_) => None,
        }
    }

    /// Describes the value for "found …".
    pub(crate) fn describe(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Bool(value) => format!("`{value}`"),
            Value::Int(value) => format!("the integer {value}"),
            Value::Float(number) => format!("the number {}", number.written),
            Value::Text(text) if text.chars().count() > 40 => "text".to_owned(),
            Value::Text(text) => format!("the text `{}`", text.escape_debug()),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
        }
    }
}
