//! Top-level keys under another tool's word, or misspelt. Each is reported once, and then read under our name, so that nothing else of
//! the file seems to be missing.

use super::check::key_meant;
use super::diagnostics::{Mistake, MistakeKind, Sink};
use super::tree::{Key, Node, Value};
use crate::stage::{Json, Step};
use crate::suggest::{closest, did_you_mean};

/// Returns the file with each key of another tool, or with a slip, under our name, unless the file has that key itself.
pub(super) fn with_our_keys(root: &Node, schema: &Json, sink: &Sink) -> Node {
    let mut entries: Vec<(Key, Node)> = Vec::new();
    for (key, node) in root.entries() {
        let is_ours = schema["properties"].get(&key.text).is_some();
        let other_word = key_meant(schema, &key.text);
        let meant = other_word
            .or_else(|| misspelt(schema, &key.text, node))
            .filter(|ours| !is_ours && root.get(ours).is_none())
            .filter(|ours| !entries.iter().any(|(key, _)| key.text == *ours));
        let Some(ours) = meant else {
            entries.push((key.clone(), node.clone()));
            continue;
        };
        let message = format!("unknown key `{}`", key.text);
        let mistake = Mistake::new(key.span, &[Step::Key(key.text.clone())], message);
        sink.add(
            mistake
                .kind(MistakeKind::UnknownKey)
                .hint(match other_word {
                    Some(ours) => format!("write `{ours}`"),
                    None => did_you_mean(ours),
                }),
        );
        let renamed = Key {
            text: ours.to_owned(),
            span: key.span,
        };
        entries.push((renamed, unwrapped(node, ours, schema).clone()));
    }
    Node {
        span: root.span,
        value: Value::Map(entries),
    }
}

/// Returns the section that a key with a mapping is meant for, but for a slip.
fn misspelt<'a>(schema: &'a Json, word: &str, node: &Node) -> Option<&'a str> {
    let ours = schema["properties"].as_object()?;
    let is_section = matches!(node.value, Value::Map(_));
    closest(word, ours.keys().map(String::as_str)).filter(|_| is_section)
}

/// Returns what is behind nested words for the same key: in `strategy: {matrix: {…}}`, the axes.
fn unwrapped<'a>(node: &'a Node, ours: &str, schema: &Json) -> &'a Node {
    match node.entries() {
        [(key, inner)] if key_meant(schema, &key.text) == Some(ours) => {
            unwrapped(inner, ours, schema)
        }
        _ => node,
    }
}
