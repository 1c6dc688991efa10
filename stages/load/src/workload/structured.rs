//! Structured output: the JSON Schema that answers must keep.

use pipeline::stage::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The form of answers: a JSON Schema, given here or in a file. Benchtrail sends it in the form of
/// each API, and checks each complete answer against it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-form" = "{file: schema.json}"))]
pub struct Structured {
    /// The schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
    /// A JSON file that holds the schema; read while planning, so that its content decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}
