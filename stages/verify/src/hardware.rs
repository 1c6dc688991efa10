//! The collection `hardware`: what accelerators can do at most, from their makers' data sheets.

use std::collections::BTreeMap;

use pipeline::Shipped;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an accelerator can do at most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Hardware {
    /// The name for people.
    pub title: String,
    /// Where the numbers are from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Peak TFLOP/s of dense matrix products (no sparsity) by type of the factors.
    #[serde(default)]
    pub peak_tflops: BTreeMap<String, f64>,
    /// Memory bandwidth in GB/s (1e9 bytes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_gb_per_s: Option<f64>,
    /// Memory in GB (1e9 bytes), rounded up where the maker counts otherwise: a bound from above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_gb: Option<f64>,
}

macro_rules! hardware {
    ($($name:literal),+ $(,)?) => {
        &[$(Shipped {
            collection: "hardware",
            name: $name,
            text: include_str!(concat!("../hardware/", $name, ".yaml")),
        }),+]
    };
}

const SHIPPED: &[Shipped] = hardware![
    "a10",
    "a100-pcie-80gb",
    "a100-sxm-40gb",
    "a100-sxm-80gb",
    "a40",
    "h100-sxm",
    "h200-sxm",
    "l4",
    "l40s",
];

/// Returns the definitions that ship with the binary.
pub fn shipped() -> Vec<Shipped> {
    SHIPPED.to_vec()
}

/// Returns the schema of one definition of each collection this kind reads.
pub fn collections() -> Vec<(&'static str, schemars::Schema)> {
    vec![("hardware", schemars::schema_for!(Hardware))]
}
