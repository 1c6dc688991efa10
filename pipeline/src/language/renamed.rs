//! Top-level keys under another tool's word. Each is reported once, and then read under our name, so that nothing else of
//! the file seems to be missing.

use super::check::key_meant;
use super::diagnostics::{Mistake, MistakeKind, Sink};
use super::tree::{Key, Node, Value};
use crate::stage::{Json, Step};

/// Returns the file with each key of another tool under our name, unless the file has that key itself.
pub(super) fn with_our_keys(root: &Node, schema: &Json, sink: &Sink) -> Node {
    let mut entries: Vec<(Key, Node)> = Vec::new();
    for (key, node) in root.entries() {
        let is_ours = schema["properties"].get(&key.text).is_some();
        let meant = key_meant(schema, &key.text)
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
                .hint(format!("write `{ours}`")),
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

/// Returns what is behind nested words for the same key: in `strategy: {matrix: {…}}`, the axes.
fn unwrapped<'a>(node: &'a Node, ours: &str, schema: &Json) -> &'a Node {
    match node.entries() {
        [(key, inner)] if key_meant(schema, &key.text) == Some(ours) => {
            unwrapped(inner, ours, schema)
        }
        _ => node,
    }
}
