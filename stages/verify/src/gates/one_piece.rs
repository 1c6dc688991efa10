//! `one-piece`: are times between tokens meaningful for this server?

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, each, some};
use crate::study::Stage;

pub(crate) struct OnePiece;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The largest share of streamed answers that may arrive in one piece.
    #[serde(default = "half")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    share: f64,
}

fn half() -> f64 {
    0.5
}

impl TypedGate for OnePiece {
    type Parameters = Parameters;
    const NAME: &'static str = "one-piece";
    const SUMMARY: &'static str = "\
        Streamed answers arrive token by token. This is a count, not a test.\n\n\
        The gate counts the ok rows with more than one token whose first and last token arrived at the same time. It \
        fails if their share is above `share`. This happens if a proxy buffers answers, or if the server writes them \
        whole. TPOT is then 0 and TTFT is late, and neither describes the server.";
    const SEVERITY: Severity = Severity::Warn;
    const CELLS_ALONE: bool = true;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let expected = format!(
            "at most {} of streamed answers in one piece",
            parameters.share
        );
        each(stage, &|_, rows| {
            let several = rows
                .measured()
                .filter(|r| r.is_ok() && r.output_tokens > Some(1));
            let streamed: Vec<_> = several.filter(|r| r.first_token_ns.is_some()).collect();
            if streamed.is_empty() {
                return Assessment::not_judged(
                    "no streamed answer of more than one token",
                    &expected,
                );
            }
            let whole = streamed
                .iter()
                .filter(|r| r.last_token_ns == r.first_token_ns);
            let whole: Vec<i64> = whole.map(|r| r.request_id).collect();
            let passed = whole.len() as f64 <= parameters.share * streamed.len() as f64;
            let observed = format!("{} of {} came in one piece", whole.len(), streamed.len());
            let evidence = if passed { None } else { some(&whole) };
            Assessment::new(passed, observed, &expected).evidence(evidence)
        })
    }
}
