//! Settings nested below a stage's own (one gate, one table), checked against the schema of their Rust type like the
//! rest of the YAML.

use pipeline::language::mistakes_in;
use pipeline::{Json, Problem, Step};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A mapping to read into a typed value.
pub struct Settings<'a> {
    /// The keys and values, without the key that names the kind.
    pub values: serde_json::Map<String, Json>,
    /// The location of the mapping.
    pub route: &'a [Step],
    /// What the mapping configures, for messages: "gate `census`".
    pub what: String,
}

impl Settings<'_> {
    /// Reads the mapping, defaults filled in.
    ///
    /// # Errors
    /// Every unknown key, missing key and value of a wrong type.
    pub fn read<T: DeserializeOwned + schemars::JsonSchema>(&self) -> Result<T, Vec<Problem>> {
        let schema = inline_schema::<T>();
        let values = Json::Object(self.values.clone());
        let problems: Vec<Problem> = mistakes_in(&values, &schema, &self.what)
            .into_iter()
            .map(|problem| Problem {
                route: self.route.iter().cloned().chain(problem.route).collect(),
                ..problem
            })
            .collect();
        if !problems.is_empty() {
            return Err(problems);
        }
        serde_json::from_value(values)
            .map_err(|e| vec![self.problem(&[], format!("{}: {e}", self.what))])
    }

    /// Returns a problem at a location below the mapping.
    pub fn problem(&self, below: &[Step], message: impl Into<String>) -> Problem {
        let route = self.route.iter().chain(below).cloned().collect();
        Problem {
            route,
            ..Problem::at(&[], message)
        }
    }
}

/// Returns the canonical form of typed parameters.
///
/// # Panics
/// If the type does not serialize to a JSON value. Plain parameter structs always do.
pub fn canonical<T: Serialize>(parameters: &T) -> Json {
    serde_json::to_value(parameters).expect("parameters serialize")
}

/// Returns the schema of a type with all references inlined.
pub fn inline_schema<T: schemars::JsonSchema>() -> Json {
    let mut settings = schemars::generate::SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
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
    #[expect(dead_code, reason = "only used for its schema")]
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
    fn every_mistake_is_reported_at_its_place() {
        assert_eq!(
            read(&json!({"colums": ["a"], "word": "nera", "count": -1})),
            [
                "3: table `x` has no parameter `colums` (did you mean `columns`?)",
                "3: unknown value `nera` (did you mean `near`?)",
                "3: `count` must be at least 0, found -1 (write a whole number from 0 on)",
            ]
        );
        // A misspelt required parameter is one mistake, a missing one another.
        assert_eq!(
            read(&json!({"word": "near"})),
            ["2: table `x` needs the parameter `columns` (add `columns:` (Which columns))"]
        );
        assert_eq!(
            read(&json!({"columns": ["a", 3]})),
            ["4: expected text, found the integer 3 (put it in quotes if it is text: `\"3\"`)"]
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
