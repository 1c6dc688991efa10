//! Settings nested below a stage's own (one gate, one table), checked against the schema of
//! their Rust type: every mistake at its route, with the nearest known word.

use pipeline::suggest::closest;
use pipeline::{Json, Problem, Step};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A mapping to be read into a typed value.
pub struct Settings<'a> {
    /// The keys and values, without the one that names the kind.
    pub values: serde_json::Map<String, Json>,
    /// Where the mapping is.
    pub route: &'a [Step],
    /// What it is, for messages: "gate `census`".
    pub what: String,
}

impl Settings<'_> {
    /// Reads the mapping, defaults filled in.
    ///
    /// # Errors
    /// Every unknown key, missing key and value of the wrong type.
    pub fn read<T: DeserializeOwned + schemars::JsonSchema>(&self) -> Result<T, Vec<Problem>> {
        let schema = inline_schema::<T>();
        let properties = schema
            .get("properties")
            .and_then(Json::as_object)
            .cloned()
            .unwrap_or_default();
        let known: Vec<&str> = properties.keys().map(String::as_str).collect();
        let mut problems = Vec::new();
        for (key, value) in &self.values {
            match properties.get(key) {
                None => {
                    let message = format!("{} has no parameter `{key}`", self.what);
                    problems.push(
                        self.problem(&[Step::Key(key.clone())], message)
                            .hint(did_you_mean(key, &known)),
                    );
                }
                Some(schema) => self.check(
                    &mut vec![Step::Key(key.clone())],
                    value,
                    schema,
                    &mut problems,
                ),
            }
        }
        for key in schema
            .get("required")
            .and_then(Json::as_array)
            .into_iter()
            .flatten()
        {
            let key = key.as_str().unwrap_or_default();
            if !self.values.contains_key(key) {
                let meaning = properties
                    .get(key)
                    .and_then(|p| p.get("description"))
                    .and_then(Json::as_str);
                let problem =
                    self.problem(&[], format!("{} needs the parameter `{key}`", self.what));
                problems.push(match meaning {
                    Some(meaning) => problem.hint(format!("`{key}`: {meaning}")),
                    None => problem,
                });
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        serde_json::from_value(Json::Object(self.values.clone()))
            .map_err(|e| vec![self.problem(&[], format!("{}: {e}", self.what))])
    }

    /// Makes a problem at a place below the mapping.
    pub fn problem(&self, below: &[Step], message: impl Into<String>) -> Problem {
        let route = self.route.iter().chain(below).cloned().collect();
        Problem {
            route,
            ..Problem::at(&[], message)
        }
    }

    fn check(&self, at: &mut Vec<Step>, value: &Json, schema: &Json, problems: &mut Vec<Problem>) {
        if let Some(allowed) = words(schema) {
            let given = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            if !allowed.contains(&given) {
                let known: Vec<&str> = allowed.iter().map(String::as_str).collect();
                problems.push(
                    self.problem(at, format!("`{given}` is not a value of `{}`", name(at)))
                        .hint(did_you_mean(&given, &known)),
                );
            }
            return;
        }
        let types: Vec<&str> = match schema.get("type") {
            Some(Json::String(one)) => vec![one],
            Some(Json::Array(several)) => several.iter().filter_map(Json::as_str).collect(),
            _ => return,
        };
        if !types.iter().any(|t| is_a(value, t)) {
            let wanted = types
                .iter()
                .filter(|t| **t != "null")
                .copied()
                .collect::<Vec<_>>()
                .join(" or ");
            problems.push(self.problem(
                at,
                format!("`{}` must be of type {wanted}, got {value}", name(at)),
            ));
            return;
        }
        if let (Some(number), Some(least)) =
            (value.as_f64(), schema.get("minimum").and_then(Json::as_f64))
            && number < least
        {
            problems.push(self.problem(
                at,
                format!("`{}` must be at least {least}, got {value}", name(at)),
            ));
        }
        let below = schema
            .get("items")
            .or_else(|| schema.get("additionalProperties"));
        if let Some(below) = below.filter(|b| b.is_object()) {
            for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                at.push(Step::Index(i));
                self.check(at, item, below, problems);
                at.pop();
            }
            for (key, item) in value.as_object().into_iter().flatten() {
                at.push(Step::Key(key.clone()));
                self.check(at, item, below, problems);
                at.pop();
            }
        }
    }
}

/// Returns the canonical form of typed parameters.
///
/// # Panics
/// If the type does not serialize as a JSON value, which plain parameter structs always do.
pub fn canonical<T: Serialize>(parameters: &T) -> Json {
    serde_json::to_value(parameters).expect("parameters serialize")
}

/// Returns the schema of a type with everything in place instead of behind references.
pub fn inline_schema<T: schemars::JsonSchema>() -> Json {
    let mut settings = schemars::generate::SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

/// Returns "did you mean `…`?" for the nearest known word, else the known words.
pub fn did_you_mean(given: &str, known: &[&str]) -> String {
    match closest(given, known.iter().copied()) {
        Some(word) => format!("did you mean `{word}`?"),
        None if known.is_empty() => "it takes none".to_owned(),
        None => format!("there are: {}", known.join(", ")),
    }
}

fn words(schema: &Json) -> Option<Vec<String>> {
    if let Some(values) = schema.get("enum").and_then(Json::as_array) {
        return Some(
            values
                .iter()
                .filter_map(Json::as_str)
                .map(str::to_owned)
                .collect(),
        );
    }
    let options = schema.get("oneOf").and_then(Json::as_array)?;
    options
        .iter()
        .map(|o| o.get("const").and_then(Json::as_str).map(str::to_owned))
        .collect()
}

fn is_a(value: &Json, wanted: &str) -> bool {
    match wanted {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => true,
    }
}

fn name(at: &[Step]) -> String {
    let mut text = String::new();
    for step in at {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => text.push_str(&format!(".{key}")),
            Step::Index(i) => text.push_str(&format!("[{i}]")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    enum Word {
        FarAway,
        Near,
    }

    #[derive(Debug, Deserialize, schemars::JsonSchema)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case")]
    #[expect(dead_code, reason = "only read for its schema")]
    struct Sample {
        /// Which columns.
        columns: Vec<String>,
        #[serde(default)]
        word: Option<Word>,
        #[serde(default)]
        count: u32,
    }

    fn read(value: &Json) -> Vec<String> {
        let route = [Step::Key("tables".into()), Step::Key("x".into())];
        let values = value.as_object().unwrap().clone();
        let settings = Settings {
            values,
            route: &route,
            what: "table `x`".into(),
        };
        match settings.read::<Sample>() {
            Ok(_) => Vec::new(),
            Err(problems) => problems
                .into_iter()
                .map(|p| {
                    format!(
                        "{}: {} ({})",
                        p.route.len(),
                        p.message,
                        p.hint.unwrap_or_default()
                    )
                })
                .collect(),
        }
    }

    #[test]
    fn every_mistake_is_told_at_its_place() {
        assert_eq!(
            read(&json!({"colums": ["a"], "word": "nera", "count": -1})),
            [
                "3: table `x` has no parameter `colums` (did you mean `columns`?)",
                "3: `nera` is not a value of `word` (did you mean `near`?)",
                "3: `count` must be at least 0, got -1 ()",
                "2: table `x` needs the parameter `columns` (`columns`: Which columns.)",
            ]
        );
        assert_eq!(
            read(&json!({"columns": ["a", 3]})),
            ["4: `columns[1]` must be of type string, got 3 ()"]
        );
    }

    #[test]
    fn settings_without_a_mistake_are_read() {
        assert_eq!(
            read(&json!({"columns": [], "word": "far-away", "count": 3})),
            Vec::<String>::new()
        );
    }
}
