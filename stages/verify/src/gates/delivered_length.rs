//! `delivered-length`: did answers have the requested length?

use artifacts::counted;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, each, some};
use crate::study::Stage;

pub(crate) struct DeliveredLength;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The share of the requested length by which an answer may differ.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    tolerance: f64,
}

impl TypedGate for DeliveredLength {
    type Parameters = Parameters;
    const NAME: &'static str = "delivered-length";
    const SUMMARY: &'static str =
        "Each ok answer has the requested number of tokens, within the tolerance.";
    const SEVERITY: Severity = Severity::Warn;
    const CELLS_ALONE: bool = true;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        each(stage, &|_, rows| {
            let lengths: Vec<(i64, i64, i64)> = rows
                .measured()
                .filter(|r| r.is_ok())
                .filter_map(|r| Some((r.request_id, r.output_tokens?, r.requested_output_tokens?)))
                .collect();
            let off: Vec<i64> = lengths
                .iter()
                .filter(|(_, got, asked)| {
                    (got - asked).abs() as f64 > parameters.tolerance * *asked as f64
                })
                .map(|(id, _, _)| *id)
                .collect();
            let expected = format!(
                "the requested length, within {} of it",
                parameters.tolerance
            );
            if lengths.is_empty() {
                return Assessment::not_judged("no ok row has both lengths", expected);
            }
            let (got, asked) = lengths
                .iter()
                .fold((0, 0), |(g, a), (_, got, asked)| (g + got, a + asked));
            let observed = format!(
                "{} of {} differ; {} for {asked} requested",
                off.len(),
                counted(lengths.len(), "row"),
                counted(got, "token")
            );
            Assessment::new(off.is_empty(), observed, expected).evidence(some(&off))
        })
    }
}
