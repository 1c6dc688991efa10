//! What can be known of a server that runs already: what you declare, and what it tells.

use std::collections::BTreeMap;

use pipeline::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What you know of a server that somebody else started. It is believed, not checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Facts {
    /// Its machine, by the names that facets of a host have (`cpu_model`, `gpus`, `gpu_driver`,
    /// `memory_gib`) or by names of your own.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub host: BTreeMap<String, Json>,
    /// How it was started, by the names that the settings of its engine have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, Json>,
}

impl Facts {
    /// Returns whether nothing is declared.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// One value that a server tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Probe {
    /// The path of the JSON document that tells it, for instance `/version`.
    pub path: String,
    /// Where in the document it is: a JSON pointer, for instance `/data/0/max_model_len`.
    pub pointer: String,
}
