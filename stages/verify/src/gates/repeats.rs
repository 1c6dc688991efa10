//! `repeats`: noise can only be spoken of where something was measured more than once.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::TypedGate;
use crate::study::Stage;

pub(crate) struct Repeats;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The axis of repetitions.
    #[serde(default = "rep")]
    axis: String,
    /// The smallest number of ok cells at each other coordinate.
    #[serde(default = "two")]
    at_least: u32,
}

fn rep() -> String {
    "rep".to_owned()
}

fn two() -> u32 {
    2
}

impl TypedGate for Repeats {
    type Parameters = Parameters;
    const NAME: &'static str = "repeats";
    const SUMMARY: &'static str = "Every coordinate was measured often enough to speak of noise.";
    const SEVERITY: Severity = Severity::Warn;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for cell in stage.cells.iter().filter(|c| c.rows.is_some()) {
            let others = cell.input.coordinates.0.iter().filter(|(name, _)| *name != parameters.axis);
            let key: Vec<String> = others.map(|(name, value)| format!("{name}={value}")).collect();
            *counts.entry(key.join(",")).or_default() += 1;
        }
        let few: Vec<String> = counts
            .iter()
            .filter(|(_, n)| **n < parameters.at_least as usize)
            .map(|(at, n)| format!("{at}: {n}"))
            .collect();
        let least = counts.values().min().copied();
        vec![Judgement {
            cell: None,
            passed: least.map(|_| few.is_empty()),
            observed: match least {
                Some(n) => format!("at least {n} at each of {} coordinates", counts.len()),
                None => "no cell is ok".to_owned(),
            },
            expected: format!("at least {} over {}", parameters.at_least, parameters.axis),
            evidence: (!few.is_empty()).then(|| few.join("; ")),
        }]
    }
}
