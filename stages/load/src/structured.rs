//! Checks answers against their JSON Schema.

use pipeline::stage::Json;

/// A compiled schema. It reads no file and fetches nothing: a `$ref` that leads out of the schema is refused.
#[derive(Debug)]
pub(crate) struct Validator(jsonschema::Validator);

impl Validator {
    /// Compiles a schema. Its `$schema` names the draft; the default is the newest.
    ///
    /// # Errors
    /// One sentence, if it is not a schema.
    pub(crate) fn new(schema: &Json) -> Result<Self, String> {
        jsonschema::validator_for(schema)
            .map(Self)
            .map_err(|e| format!("this is not a JSON Schema: {e}"))
    }

    /// Checks an answer.
    ///
    /// # Errors
    /// The problem in one sentence: the answer is not JSON, or where it violates the schema.
    pub(crate) fn check(&self, answer: &str) -> Result<(), String> {
        let value: Json =
            serde_json::from_str(answer).map_err(|e| format!("the output is not JSON: {e}"))?;
        self.0.validate(&value).map_err(|e| {
            let place = e.instance_path().to_string();
            let place = if place.is_empty() {
                "the top".to_owned()
            } else {
                place
            };
            format!("the output violates its schema at {place}: {e}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn person() -> Validator {
        Validator::new(&json!({
            "type": "object",
            "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
            "required": ["name", "age"],
            "additionalProperties": false,
        }))
        .unwrap()
    }

    #[test]
    fn an_answer_that_keeps_its_schema_is_valid_white_space_or_not() {
        assert_eq!(
            person().check(" {\"name\": \"Ada\",\n\"age\": 36} "),
            Ok(())
        );
    }

    #[test]
    fn mistakes_are_reported_with_their_places() {
        for (answer, part) in [
            ("{\"name\": \"Ada\", \"age\": -1}", "at /age"),
            ("{\"name\": \"Ada\"}", "at the top"),
            ("{\"name\": \"Ada\", \"age\": 3", "not JSON"),
            ("Sure! {\"name\": \"Ada\", \"age\": 3}", "not JSON"),
            ("", "not JSON"),
        ] {
            let error = person().check(answer).unwrap_err();
            assert!(error.contains(part), "{answer}: {error}");
        }
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        assert!(Validator::new(&json!({"type": "objct"})).is_err());
        assert!(Validator::new(&json!({"$ref": "https://example.org/schema.json"})).is_err());
    }
}
