//! The reference page of an experiment's keys.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use contract::sentence;
use pipeline::suggest::any_of;
use serde_json::{Map, Value};

use super::{cell, list};
use crate::registry::registry;

/// The keys whose choices have a separate page, with a link to it.
const PAGES: [(&str, &str); 2] = [
    ("operator", "[operators](operators.md)"),
    ("gate", "[gates](gates.md)"),
];

/// Keys that every stage has, listed once.
const COMMON: [&str; 8] = [
    "description",
    "needs",
    "over",
    "exclude",
    "include",
    "timeout",
    "retries",
    "exclusive",
];

/// The schema, and the names of its definitions on the page.
struct Schema {
    root: Value,
    /// The name on the page of each definition in the schema. Equal definitions share a name.
    titles: BTreeMap<String, String>,
}

pub(super) fn page() -> String {
    let root = pipeline::language::experiment_schema(&registry()).to_value();
    let schema = Schema {
        titles: titles(&root),
        root,
    };
    let mut page = String::from(
        "# The keys of an experiment\n\nThis page lists every key of an experiment's YAML file. It is generated from the types that read the file. \
         To learn how the keys work together, read [the language by example](experiments.md). \
         [Operators](operators.md), [gates](gates.md) and [settings of engines](engine-settings.md) have their own \
         pages. `benchtrail schema` prints the keys as a JSON Schema, for completion in an editor.\n\n\
         - A *duration* is a number with a unit, such as `500 ms`, `30 s`, `10 min` or `2 h`.\n\
         - A *percentage* is a number with its sign, such as `3 %`.\n\
         - *Literal* marks a word that you write as it is, such as `order: shuffled`.\n\
         - A setting may contain [placeholders](experiments.md#placeholders), such as `\"${clients}\"`.\n\n## The file\n\n",
    );
    let stages = &schema.root["properties"]["stages"]["additionalProperties"]["oneOf"];
    let stages = stages.as_array().expect("the stage kinds");
    page.push_str(&schema.table(&schema.root, &["stages"]));
    page.push_str(
        "\n`stages` maps the name of each stage to its keys, of which `kind` decides the others.\n",
    );
    page.push_str("\n## Keys of every stage\n\n");
    let first = stages[0].as_object().expect("a mapping");
    let common = first["properties"].as_object().expect("its keys");
    let common: Map<String, Value> = COMMON
        .iter()
        .map(|key| ((*key).to_owned(), common[*key].clone()))
        .collect();
    let common = Value::Object(Map::from_iter([(
        "properties".to_owned(),
        Value::Object(common),
    )]));
    page.push_str(&schema.table(&common, &[]));
    for stage in stages {
        let kind = stage["properties"]["kind"]["const"]
            .as_str()
            .unwrap_or_default();
        let _ = write!(page, "\n## `kind: {kind}`\n\n");
        let mut documented = COMMON.to_vec();
        documented.push("kind");
        page.push_str(&schema.table(stage, &documented));
    }
    let sections = schema.root["properties"].as_object().expect("keys");
    for (name, section) in sections {
        let definition = &section["additionalProperties"];
        if definition.get("then").is_some() {
            let _ = write!(
                page,
                "\n## Definitions under `{name}`\n\nA definition that `extends` another needs no other key.\n\n"
            );
            page.push_str(&schema.table(definition, &[]));
        }
    }
    page.push_str("\n## Parts\n");
    let mut done = BTreeSet::new();
    let definitions = schema.root["$defs"].as_object().expect("definitions");
    for (name, definition) in definitions {
        let title = &schema.titles[name];
        if !done.insert(title.clone()) || !has_section(definition) {
            continue;
        }
        let _ = write!(page, "\n### {title}\n\n{}\n\n", sentence(definition));
        page.push_str(&schema.table(definition, &[]));
    }
    page
}

/// Names the definitions for the page: without their collection, unless two with the same name differ.
fn titles(root: &Value) -> BTreeMap<String, String> {
    let definitions = root["$defs"].as_object().expect("definitions");
    let mut contents: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut titles = BTreeMap::new();
    for (name, definition) in definitions {
        let short = name.rsplit('.').next().unwrap_or(name);
        let mut content = definition.to_string();
        // References from another collection lead to the same definition.
        for prefix in [
            "load.",
            "workloads.",
            "engines.",
            "models.",
            "simulated-servers.",
            "calibrate.",
        ] {
            content = content.replace(&format!("#/$defs/{prefix}"), "#/$defs/");
        }
        let variants = contents.entry(short.to_owned()).or_default();
        let at = variants
            .iter()
            .position(|c| *c == content)
            .unwrap_or_else(|| {
                variants.push(content);
                variants.len() - 1
            });
        let title = match at {
            0 => short.to_owned(),
            _ => name.replace('.', " "),
        };
        titles.insert(name.clone(), title);
    }
    titles
}

impl Schema {
    /// Returns a table of the keys of a schema, or of its choices.
    fn table(&self, schema: &Value, leave_out: &[&str]) -> String {
        let mut rows = Vec::new();
        self.rows(schema, &mut rows);
        let mut table =
            String::from("| key or value | type | default | meaning |\n|---|---|---|---|\n");
        for (key, row) in rows
            .iter()
            .filter(|(key, _)| !leave_out.contains(&key.as_str()))
        {
            let _ = writeln!(table, "| `{key}` | {row}");
        }
        table
    }

    /// Collects the keys of a schema and of its alternatives.
    fn rows(&self, schema: &Value, rows: &mut Vec<(String, String)>) {
        // If the schema may extend another, uses the form that does not.
        let lists = [
            schema["required"].as_array(),
            schema["else"]["required"].as_array(),
        ];
        let required: Vec<&str> = lists
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        // For a definition that may extend another, uses the form with every key.
        let parts = [schema, &schema["else"], &schema["then"]];
        for (key, value) in parts
            .iter()
            .filter_map(|p| p["properties"].as_object())
            .flatten()
        {
            if rows.iter().any(|(listed, _)| listed == key) {
                continue;
            }
            // A variant describes its own purpose; its key only names the variant.
            let description = match sentence(value) {
                said if said.is_empty() => sentence(schema),
                said => said,
            };
            let default = match () {
                () if required.contains(&key.as_str())
                    && parts.iter().any(|part| {
                        part["properties"].as_object().is_some_and(|p| p.len() > 1)
                    }) =>
                {
                    "required".to_owned()
                }
                () => default(value),
            };
            let row = format!(
                "{} | {default} | {} |",
                cell(&self.kind_of(value)),
                cell(&description)
            );
            rows.push((key.clone(), row));
        }
        for alternative in alternatives(schema) {
            match alternative["const"].as_str() {
                Some(word) => rows.push((
                    word.to_owned(),
                    format!("literal | | {} |", cell(&sentence(alternative))),
                )),
                None => self.rows(alternative, rows),
            }
        }
    }

    /// Describes the type of a value.
    fn kind_of(&self, schema: &Value) -> String {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.trim_start_matches("#/$defs/");
            let definition = &self.root["$defs"][name];
            if has_section(definition) {
                let title = &self.titles[name];
                let anchor: String = title.to_lowercase().replace(' ', "-");
                return format!("[{title}](#{anchor})");
            }
            return self.kind_of(definition);
        }
        if let Some(word) = schema["const"].as_str() {
            return format!("`{word}`");
        }
        if let Some(words) = schema["enum"].as_array() {
            return list(words.iter().filter_map(Value::as_str));
        }
        any_of(&self.kinds_of(schema))
    }

    /// Describes the types that a value may have, each for itself.
    fn kinds_of(&self, schema: &Value) -> Vec<String> {
        let mut choices = alternatives(schema).peekable();
        if choices.peek().is_some() {
            let mut kinds: Vec<String> = Vec::new();
            for kind in choices.flat_map(|choice| match is_plain(choice) {
                true => self.kinds_of(choice),
                false => vec![self.kind_of(choice)],
            }) {
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
            return kinds;
        }
        let types: Vec<&str> = match &schema["type"] {
            Value::String(one) => vec![one],
            Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let words = types.iter().flat_map(|t| match *t {
            "boolean" => vec!["`true`".to_owned(), "`false`".to_owned()],
            t => self.word(t, schema).into_iter().collect(),
        });
        let words: Vec<String> = words.collect();
        match words.is_empty() {
            true => vec!["any value".to_owned()],
            false => words,
        }
    }

    /// Returns the word for one type of a schema.
    fn word(&self, kind: &str, schema: &Value) -> Option<String> {
        Some(match kind {
            "null" => return None,
            "integer" => format!("whole number{}", bounds(schema)),
            "number" => format!("number{}", bounds(schema)),
            "string" => match schema["format"].as_str() {
                Some("duration" | "span") => "duration".to_owned(),
                Some("percent") => "percentage".to_owned(),
                _ => "text".to_owned(),
            },
            "array" => match schema.get("items") {
                Some(items) => format!("list of {}", self.kind_of(items)),
                None => "list".to_owned(),
            },
            "object" => self.mapping(schema),
            _ => return None,
        })
    }

    fn mapping(&self, schema: &Value) -> String {
        let tag = |tag: &str| schema["properties"].get(tag).is_some();
        if let Some((key, page)) = PAGES.iter().find(|(key, _)| tag(key)) {
            return format!("`{{{key}: …}}`: see {page}");
        }
        if let Some(keys) = schema["properties"].as_object() {
            return format!("mapping of {}", list(keys.keys().map(String::as_str)));
        }
        match schema.get("additionalProperties") {
            Some(values) if values.get("then").is_some() => {
                "mapping from names to definitions: see below".to_owned()
            }
            Some(values) if values.is_object() => {
                format!("mapping from names to {}", self.kind_of(values))
            }
            _ => "mapping".to_owned(),
        }
    }
}

/// Returns whether a schema lists its types itself, and neither refers to a definition nor lists words.
fn is_plain(schema: &Value) -> bool {
    ["$ref", "const", "enum"]
        .iter()
        .all(|keyword| schema[*keyword].is_null())
}

/// Returns whether a definition has keys or choices to list.
fn has_section(definition: &Value) -> bool {
    let parts = [definition, &definition["then"], &definition["else"]];
    let keys = parts.iter().any(|part| part["properties"].is_object());
    keys || alternatives(definition)
        .any(|choice| choice["const"].is_string() || has_section(choice))
}

/// Returns the alternatives of a schema, except placeholders and null.
fn alternatives(schema: &Value) -> impl Iterator<Item = &Value> {
    let all = ["oneOf", "anyOf"]
        .iter()
        .filter_map(|key| schema[*key].as_array());
    all.flatten().filter(|choice| {
        let placeholder = choice["pattern"]
            .as_str()
            .is_some_and(|p| p.contains("\\$\\{"));
        !placeholder && choice["type"] != "null"
    })
}

fn bounds(schema: &Value) -> String {
    let bound = |name: &str| schema[name].as_f64();
    if let Some(only) = bound("minimum").filter(|low| bound("maximum") == Some(*low)) {
        return format!(" {only}");
    }
    let mut limits = Vec::new();
    limits.extend(bound("minimum").map(|n| format!("≥ {n}")));
    limits.extend(bound("exclusiveMinimum").map(|n| format!("> {n}")));
    limits.extend(bound("maximum").map(|n| format!("≤ {n}")));
    limits.extend(bound("exclusiveMaximum").map(|n| format!("< {n}")));
    match limits.is_empty() {
        true => String::new(),
        false => format!(" {}", limits.join(" and ")),
    }
}

/// Returns the default of a key, which may be in the alternative that is not a placeholder.
fn default(schema: &Value) -> String {
    let own = schema.get("default");
    let within = || alternatives(schema).find_map(|choice| choice.get("default"));
    match own.or_else(within) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => format!("`{text}`"),
        Some(value) if value.as_array().is_some_and(Vec::is_empty) => String::new(),
        Some(value) if value.as_object().is_some_and(Map::is_empty) => String::new(),
        Some(value) => format!("`{value}`"),
    }
}
