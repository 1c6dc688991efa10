//! What is known about a server that already runs: what you declare and what the server reports.

use std::collections::BTreeMap;

use pipeline::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What you know about a server that somebody else started. Benchtrail does not check it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(extend("x-form" = "{host: {gpus: 1x H100}, settings: {NAME: VALUE}}"))]
pub struct Facts {
    /// Its machine, with the names of host facets (`cpu_model`, `gpus`, `gpu_driver`, `memory_gib`)
    /// or your own names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub host: BTreeMap<String, Json>,
    /// How it was started, with the names of its engine's settings.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, Json>,
}

impl Facts {
    /// Returns whether nothing is declared.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A value that a server reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Probe {
    /// The path of the JSON document that contains it, for example `/version`.
    pub path: String,
    /// Where in the document it is: a JSON pointer, for example `/data/0/max_model_len`.
    pub pointer: String,
}
