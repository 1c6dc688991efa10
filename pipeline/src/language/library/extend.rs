//! Merges a definition over the one that it extends.

use std::collections::BTreeSet;

use crate::language::tree::{Key, Node, Value};
use crate::stage::Json;

/// The key of a form's schema with the places of the whole definition that the form cannot have, such as `launch.arguments`.
/// A definition that selects the form does not inherit them.
const DROPS: &str = "x-drops";

/// Merges a definition over the one that it extends.
pub(super) fn extend(schema: &Json, base: &Node, over: &Node) -> Node {
    let shape = Shape {
        schema,
        all: schema,
    };
    let mut places = BTreeSet::new();
    shape.dropped(base, over, &mut places);
    let base = places.into_iter().fold(base.clone(), without);
    shape.merge(&base, over)
}

/// Returns a mapping without what is at a place.
fn without(mut node: Node, place: &str) -> Node {
    let (key, rest) = match place.split_once('.') {
        Some((key, rest)) => (key, Some(rest)),
        None => (place, None),
    };
    if let Value::Map(entries) = &mut node.value {
        match rest {
            None => entries.retain(|(k, _)| k.text != key),
            Some(rest) => entries
                .iter_mut()
                .filter(|(k, _)| k.text == key)
                .for_each(|(_, below)| *below = without(below.clone(), rest)),
        }
    }
    node
}

/// The schema at one place in a definition.
#[derive(Clone, Copy)]
struct Shape<'a> {
    schema: &'a Json,
    /// The document that references resolve against.
    all: &'a Json,
}

impl<'a> Shape<'a> {
    /// Merges a definition over the one that it extends. If a key selects one of several forms (`program: {installed:
    /// …}`), a different key replaces the base's form instead of being added to it. A null removes what it stands for,
    /// unless null is one of the values there.
    fn merge(self, base: &Node, over: &Node) -> Node {
        let (Value::Map(below), Value::Map(above)) = (&base.value, &over.value) else {
            return over.clone();
        };
        if self.new_form(below, above).is_some() {
            return over.clone();
        }
        let mut entries = below.clone();
        for (key, node) in above {
            let Some(at) = entries.iter().position(|(k, _)| k.text == key.text) else {
                entries.push((key.clone(), node.clone()));
                continue;
            };
            if matches!(node.value, Value::Null) && self.is_removable(&key.text) {
                entries.remove(at);
                continue;
            }
            let below = &entries[at].1;
            let part = self.of(&key.text);
            let merged = part.map_or_else(|| merge(below, node), |part| part.merge(below, node));
            entries[at] = (key.clone(), merged);
        }
        Node {
            span: over.span,
            value: Value::Map(entries),
        }
    }

    /// Returns the key of the form that `above` selects, if `below` selects another one.
    fn new_form(self, below: &[(Key, Node)], above: &[(Key, Node)]) -> Option<&'a str> {
        let forms = self.forms();
        let chosen = |entries: &[(Key, Node)]| -> Vec<&'a str> {
            let keys = entries.iter();
            let forms = keys.filter_map(|(key, _)| forms.iter().find(|form| **form == key.text));
            forms.copied().collect()
        };
        let (old, new) = (chosen(below), chosen(above));
        let differs = !old.is_empty() && old != new;
        new.first().copied().filter(|_| differs)
    }

    /// Returns whether a null at a key of a mapping removes the key.
    fn is_removable(self, key: &str) -> bool {
        self.variants().into_iter().any(|one| {
            let Some(named) = one.schema["properties"].get(key) else {
                let others = one.schema.get("additionalProperties");
                return others.is_some_and(|others| *others != Json::Bool(false));
            };
            let required = one.schema["required"].as_array();
            let is_required = required.is_some_and(|all| all.iter().any(|one| one == key));
            !is_required && !one.at(named).takes_null()
        })
    }

    fn takes_null(self) -> bool {
        let takes = |one: Self| match &one.schema["type"] {
            Json::String(one) => one == "null",
            Json::Array(several) => several.iter().any(|one| one == "null"),
            // Any value, unless it is one of a list.
            _ => one.schema["enum"].is_null() && one.schema["const"].is_null(),
        };
        self.variants().into_iter().any(takes)
    }

    /// Collects the places that a definition does not inherit because it selects a form that cannot have them.
    fn dropped(self, base: &Node, over: &Node, places: &mut BTreeSet<&'a str>) {
        let (Value::Map(below), Value::Map(above)) = (&base.value, &over.value) else {
            return;
        };
        if let Some(form) = self.new_form(below, above) {
            let variants = self.variants().into_iter();
            let mut chosen = variants.filter(|one| one.schema["properties"].get(form).is_some());
            let drops = chosen.find_map(|one| one.schema[DROPS].as_array());
            places.extend(drops.into_iter().flatten().filter_map(Json::as_str));
            return;
        }
        for (key, node) in above {
            let below = below.iter().find(|(k, _)| k.text == key.text);
            if let (Some((_, below)), Some(part)) = (below, self.of(&key.text)) {
                part.dropped(below, node, places);
            }
        }
    }

    fn at(self, schema: &'a Json) -> Self {
        Self { schema, ..self }
    }

    /// Follows references, and resolves optional values to the value inside.
    fn variants(self) -> Vec<Self> {
        if let Some(place) = self.schema["$ref"].as_str() {
            let target = place.strip_prefix('#').and_then(|p| self.all.pointer(p));
            return target.map_or_else(Vec::new, |schema| self.at(schema).variants());
        }
        let several = ["oneOf", "anyOf"]
            .iter()
            .find_map(|key| self.schema[*key].as_array());
        match several {
            Some(several) => several
                .iter()
                .flat_map(|one| self.at(one).variants())
                .collect(),
            None => vec![self],
        }
    }

    /// Returns the keys that select the form; empty if there is only one form.
    fn forms(self) -> Vec<&'a str> {
        let variants = self.variants();
        let forms: Vec<&str> = variants
            .iter()
            .filter_map(|one| match one.schema["required"].as_array()?.as_slice() {
                [key] if one.schema["properties"].as_object()?.len() == 1 => key.as_str(),
                _ => None,
            })
            .collect();
        if variants.len() > 1 {
            forms
        } else {
            Vec::new()
        }
    }

    /// Returns the shape below a key.
    fn of(self, key: &str) -> Option<Self> {
        self.variants().into_iter().find_map(|one| {
            let named = one.schema["properties"].get(key);
            let any = one
                .schema
                .get("additionalProperties")
                .filter(|s| s.is_object());
            named.or(any).map(|schema| one.at(schema))
        })
    }
}

/// Merges deeply: mappings merge, and everything else is replaced.
pub(crate) fn merge(base: &Node, over: &Node) -> Node {
    let (Value::Map(below), Value::Map(above)) = (&base.value, &over.value) else {
        return over.clone();
    };
    let mut entries = below.clone();
    for (key, node) in above {
        match entries.iter_mut().find(|(k, _)| k.text == key.text) {
            Some((k, below)) => {
                *below = merge(below, node);
                *k = key.clone();
            }
            None => entries.push((key.clone(), node.clone())),
        }
    }
    Node {
        span: over.span,
        value: Value::Map(entries),
    }
}

#[cfg(test)]
mod tests {
    use schemars::{JsonSchema, schema_for};
    use serde_json::json;

    use super::*;
    use crate::language::parse;

    #[derive(JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Definition {
        title: String,
        #[serde(default)]
        files: Vec<String>,
        health: Option<String>,
        #[serde(default)]
        probes: std::collections::BTreeMap<String, Probe>,
        #[serde(default)]
        body: std::collections::BTreeMap<String, Json>,
        launch: Option<Launch>,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Probe {
        path: String,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Launch {
        program: Program,
        #[serde(default)]
        arguments: Vec<String>,
    }

    #[derive(JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    #[expect(dead_code, reason = "only its schema is used")]
    enum Program {
        Installed(String),
        #[schemars(extend("x-drops" = ["files", "launch.arguments"]))]
        Running(String),
    }

    const BASE: &str = "title: a\nfiles: [x]\nhealth: /health\nprobes: {v: {path: /v}, w: {path: /w}}\n\
        body: {stop: x}\nlaunch: {program: {installed: sh}, arguments: [-v]}\n";

    fn extended(over: &str) -> Json {
        let node = |text: &str| parse::parse(text, 0).unwrap_or_else(|_| panic!("{text}"));
        let schema = schema_for!(Definition).to_value();
        extend(&schema, &node(BASE), &node(over)).json()
    }

    #[test]
    fn null_removes_an_entry_of_a_mapping_and_a_field_with_a_default() {
        let all = extended("title: a\n");
        let without = |over: &str, route: &[&str]| {
            let merged = extended(over);
            let (last, above) = route.split_last().unwrap();
            let mut expected = all.clone();
            let mapping = above.iter().fold(&mut expected, |at, key| &mut at[*key]);
            assert!(mapping.as_object_mut().unwrap().remove(*last).is_some());
            assert_eq!(merged, expected, "{over}");
        };
        without("probes: {v: null}\n", &["probes", "v"]);
        without("body: {stop: null}\n", &["body", "stop"]);
        without("files: null\n", &["files"]);
        without("launch: {arguments: null}\n", &["launch", "arguments"]);
    }

    #[test]
    fn null_stays_where_it_is_a_value_and_where_nothing_can_be_removed() {
        assert!(extended("health: null\n")["health"].is_null());
        let kept = |over: &str, key: &str| extended(over).as_object().unwrap().contains_key(key);
        assert!(kept("health: null\n", "health"));
        assert!(kept("title: null\n", "title"), "it is required");
        let other = extended("probes: {u: null}\n");
        assert_eq!(other["probes"]["u"], Json::Null);
        assert!(other["probes"].as_object().unwrap().contains_key("u"));
    }

    #[test]
    fn a_form_does_not_inherit_what_it_cannot_have() {
        let running = extended("launch: {program: {running: u}}\n");
        assert_eq!(running["launch"], json!({"program": {"running": "u"}}));
        assert!(running.get("files").is_none());
        // What the definition itself says stays, and is a mistake.
        let own = extended("files: [y]\nlaunch: {program: {running: u}, arguments: [-x]}\n");
        assert_eq!(
            (&own["files"], &own["launch"]["arguments"]),
            (&json!(["y"]), &json!(["-x"]))
        );
        let same = extended("launch: {program: {installed: bash}}\n");
        assert_eq!(same["launch"]["arguments"], json!(["-v"]));
    }
}
