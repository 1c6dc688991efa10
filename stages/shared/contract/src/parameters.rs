//! The parameters of an operator or a gate, read from the schema of their type: for the pages and for `list`.

use std::fmt::Write;

use pipeline::Json;

/// A parameter, for readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Whether it must be given.
    pub required: bool,
    /// The value without it, if that is not null.
    pub default: Option<Json>,
    /// What it means.
    pub meaning: String,
    /// The words that it accepts, each with its meaning or an empty text; empty if it accepts others.
    pub choices: Vec<(String, String)>,
    /// Its own keys, or those of each of its items.
    pub fields: Vec<Self>,
}

/// Returns the parameters of a schema, sorted as its properties are.
pub fn parameters(schema: &Json) -> Vec<Parameter> {
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Json::as_str)
        .collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties
        .map(|(name, property)| Parameter {
            name: name.clone(),
            required: required.contains(&name.as_str()),
            default: property
                .get("default")
                .filter(|value| !value.is_null())
                .cloned(),
            meaning: sentence(property),
            choices: choices(property),
            fields: fields(property),
        })
        .collect()
}

/// Returns the description of a schema in one line.
pub fn sentence(schema: &Json) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the alternatives of a schema, or the schema itself.
fn alternatives(schema: &Json) -> Vec<&Json> {
    let several = ["oneOf", "anyOf"]
        .iter()
        .find_map(|key| schema[*key].as_array());
    match several {
        Some(several) => several.iter().flat_map(alternatives).collect(),
        None => vec![schema],
    }
}

fn choices(schema: &Json) -> Vec<(String, String)> {
    let items = schema.get("items").unwrap_or(schema);
    let mut all = Vec::new();
    for one in alternatives(items) {
        if let Some(word) = one["const"].as_str() {
            all.push((word.to_owned(), sentence(one)));
        }
        let words = one["enum"].as_array().into_iter().flatten();
        all.extend(words.filter_map(|word| Some((word.as_str()?.to_owned(), String::new()))));
    }
    all
}

fn fields(schema: &Json) -> Vec<Parameter> {
    let inner = schema
        .get("items")
        .or_else(|| schema.get("additionalProperties"))
        .filter(|inner| inner.is_object())
        .unwrap_or(schema);
    let each: Vec<Vec<Parameter>> = alternatives(inner)
        .into_iter()
        .map(parameters)
        .filter(|fields| !fields.is_empty())
        .collect();
    let several = each.len() > 1;
    let mut all = Vec::new();
    for field in each.into_iter().flatten() {
        all.push(Parameter {
            required: field.required && !several,
            ..field
        });
    }
    all
}

impl Parameter {
    /// Returns the words that it accepts as a sentence, or an empty text; nothing if the meaning already names them.
    pub fn words(&self) -> String {
        let words: Vec<String> = self.choices.iter().map(|(w, _)| format!("`{w}`")).collect();
        match words.iter().all(|word| self.meaning.contains(word)) {
            true => String::new(),
            false => format!("One of {}.", words.join(", ")),
        }
    }

    /// Appends it to a list in Markdown; `show` writes a default value.
    pub fn write(&self, text: &mut String, depth: usize, show: &dyn Fn(&Json) -> String) {
        let state = match (&self.default, self.required) {
            (_, true) => "required".to_owned(),
            (Some(default), false) => format!("default `{}`", show(default)),
            (None, false) => "optional".to_owned(),
        };
        let indent = "  ".repeat(depth);
        let explained = self.choices.iter().any(|(_, meaning)| !meaning.is_empty());
        let words = if explained {
            String::new()
        } else {
            self.words()
        };
        let meaning = format!("{} {words}", self.meaning);
        writeln!(
            text,
            "{indent}- `{}` ({state}): {}",
            self.name,
            meaning.trim()
        )
        .expect("text");
        for (word, meaning) in self.choices.iter().filter(|_| explained) {
            match meaning.as_str() {
                "" => writeln!(text, "{indent}  - `{word}`").expect("text"),
                meaning => writeln!(text, "{indent}  - `{word}`: {meaning}").expect("text"),
            }
        }
        for field in &self.fields {
            field.write(text, depth + 1, show);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::inline_schema;

    #[derive(Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    enum Law {
        /// A line.
        Line,
        /// A curve.
        Curve,
    }

    #[derive(Deserialize, schemars::JsonSchema)]
    #[expect(dead_code, reason = "only used for its schema")]
    struct Bound {
        /// The metric.
        metric: String,
        /// The largest
        /// value.
        at_most: Option<f64>,
    }

    #[derive(Deserialize, schemars::JsonSchema)]
    #[expect(dead_code, reason = "only used for its schema")]
    struct Sample {
        /// The bounds.
        bounds: Vec<Bound>,
        /// The law.
        #[serde(default)]
        law: Option<Law>,
        /// Whether to count.
        #[serde(default)]
        count: bool,
    }

    #[test]
    fn a_page_lists_the_words_and_the_keys_that_a_parameter_accepts() {
        let mut text = String::new();
        for parameter in parameters(&inline_schema::<Sample>()) {
            parameter.write(&mut text, 0, &Json::to_string);
        }
        assert_eq!(
            text,
            "- `bounds` (required): The bounds.\n  - `metric` (required): The metric.\n  - `at_most` (optional): The \
             largest value.\n- `law` (optional): The law.\n  - `line`: A line.\n  - `curve`: A curve.\n- `count` (default \
             `false`): Whether to count.\n"
        );
    }

    #[test]
    fn words_are_listed_once() {
        let schema = json!({"properties": {
            "a": {"description": "Either `x` or `y`.", "enum": ["x", "y"]},
            "b": {"description": "The way.", "enum": ["x", "y"]},
            "c": {"description": "Any number."},
        }});
        let words: Vec<String> = parameters(&schema).iter().map(Parameter::words).collect();
        assert_eq!(words, ["", "One of `x`, `y`.", ""]);
    }
}
