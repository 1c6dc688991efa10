//! The collection `hardware`: the limits of accelerators, from their makers' data sheets.

use std::collections::BTreeMap;

use pipeline::Shipped;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an accelerator can do at most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Hardware {
    /// The name for people.
    pub(crate) title: String,
    /// Where the numbers are from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<String>,
    /// Peak TFLOP/s of dense matrix products (no sparsity) by type of the factors.
    #[serde(default)]
    pub(crate) peak_tflops: BTreeMap<String, f64>,
    /// Memory bandwidth in GB/s (1e9 bytes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub(crate) bandwidth_gb_per_s: Option<f64>,
    /// Memory in GB (1e9 bytes), rounded up if the manufacturer counts differently, so that it is an upper bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub(crate) memory_gb: Option<f64>,
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

/// Returns the schema of a definition, for each collection that this kind reads.
pub fn collections() -> Vec<(&'static str, schemars::Schema)> {
    vec![("hardware", schemars::schema_for!(Hardware))]
}

#[cfg(test)]
mod tests {
    use pipeline::language::{NoFiles, Options, load_text};
    use pipeline::{Json, Registry};

    fn registry() -> Registry {
        let kinds: Vec<Box<dyn pipeline::StageKind>> =
            vec![Box::new(load::Load), Box::new(crate::Verify)];
        let mut shipped = super::shipped();
        shipped.extend(load::shipped());
        let mut collections = super::collections();
        collections.extend(load::collections());
        Registry {
            kinds,
            shipped,
            collections,
        }
    }

    /// Returns the canonical parameters of the gate, or the message about a mistake.
    fn roofs(hardware: &str) -> Result<Json, String> {
        let text = format!(
            "experiment: study\nseed: 1\nstages:\n  steps:\n    kind: load\n    workload: short-decode\n    \
             arrival: sequential\n    requests: 2\n    simulate: {{server: serial}}\n  checks:\n    kind: verify\n    needs: [steps]\n    gates: \
             [{{gate: physical-roofs, hardware: {hardware}}}]\n"
        );
        let file = std::path::Path::new("study.yaml");
        match load_text(&text, file, &registry(), &Options::default(), &NoFiles) {
            Ok(experiment) => {
                let checks = experiment
                    .stages
                    .iter()
                    .find(|s| s.name == "checks")
                    .unwrap();
                Ok(checks.parameter_sets[0]["gates"][0]["parameters"]["hardware"].clone())
            }
            Err(diagnostics) => Err(diagnostics.to_string()),
        }
    }

    #[test]
    fn every_hardware_that_ships_can_be_named_and_its_facts_are_in_the_parameters() {
        for shipped in super::shipped() {
            let facts: super::Hardware =
                serde_json::from_value(roofs(shipped.name).unwrap()).unwrap();
            assert!(shipped.text.contains("\nsource: "), "{}", shipped.name);
            // The source of the numbers has no effect.
            assert_eq!(facts.source, None);
            let [Some(bandwidth), Some(memory)] = [facts.bandwidth_gb_per_s, facts.memory_gb]
            else {
                panic!("{} lacks a fact", shipped.name)
            };
            // A wrong unit would be off by a thousand.
            assert!((200.0..10_000.0).contains(&bandwidth) && (10.0..300.0).contains(&memory));
            assert!(
                facts
                    .peak_tflops
                    .values()
                    .all(|t| (50.0..5_000.0).contains(t))
            );
        }
    }

    #[test]
    fn unknown_hardware_is_reported_with_the_nearest_name() {
        let error = roofs("a100-sxm-80g").unwrap_err();
        assert!(
            error.contains("no hardware is named `a100-sxm-80g`"),
            "{error}"
        );
        assert!(error.contains("did you mean `a100-sxm-80gb`?"), "{error}");
    }
}
