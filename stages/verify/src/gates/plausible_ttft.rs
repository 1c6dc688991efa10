//! `plausible-ttft`: could the first token arrive this early?

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, each, show, some};
use crate::study::Stage;

pub(crate) struct PlausibleTtft;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The shortest time in which a request can go out and a first token come back, µs.
    #[serde(default = "fifty")]
    at_least_us: f64,
    /// A TTFT must be at least this share of the time per token, because the first token also takes
    /// a pass through the model.
    #[serde(default = "quarter")]
    share: f64,
}

fn fifty() -> f64 {
    50.0
}

fn quarter() -> f64 {
    0.25
}

impl TypedGate for PlausibleTtft {
    type Parameters = Parameters;
    const NAME: &'static str = "plausible-ttft";
    const SUMMARY: &'static str = "No answer begins before the server can have read the prompt. \
        TTFT is at least `at-least-us`. It is also at least `share` of the lower decile of the \
        cell's times per token, because the first token also takes a pass through the model. A \
        misplaced stamp, a first event without text, or a cache in front of the server violates \
        this bound. This is a bound, not a test.";
    const SEVERITY: Severity = Severity::Fail;
    const CELLS_ALONE: bool = true;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        each(stage, |_, rows| {
            let ok: Vec<_> = rows.measured().filter(|r| r.is_ok()).collect();
            let timed: Vec<(i64, f64)> = ok
                .iter()
                .filter_map(|r| Some((r.request_id, (r.first_token_ns? - r.sent_ns?) as f64)))
                .collect();
            let mut paces: Vec<f64> = ok
                .iter()
                .filter_map(|r| {
                    let steps = r.output_tokens.filter(|n| *n > 1)? - 1;
                    Some((r.last_token_ns? - r.first_token_ns?) as f64 / steps as f64)
                })
                .collect();
            paces.sort_by(f64::total_cmp);
            // An answer in one piece has no time per token.
            let pace = paces.get(paces.len() / 10).copied().unwrap_or(0.0);
            let floor = (parameters.at_least_us * 1e3).max(pace * parameters.share);
            let expected = format!("a TTFT of at least {} ms", show(floor / 1e6));
            if timed.is_empty() {
                return Assessment::not_judged(
                    "no ok row has the time of its first token",
                    expected,
                );
            }
            let early: Vec<i64> = timed
                .iter()
                .filter(|(_, ttft)| *ttft < floor)
                .map(|t| t.0)
                .collect();
            let shortest = timed.iter().map(|t| t.1).fold(f64::INFINITY, f64::min) / 1e6;
            let observed = if early.is_empty() {
                format!("shortest TTFT {} ms", show(shortest))
            } else {
                format!(
                    "{} of {} answers begin too early, the first after {} ms; a token takes {} \
                     ms. Check where the first token is stamped, and whether a cache is in front \
                     of the server",
                    early.len(),
                    timed.len(),
                    show(shortest),
                    show(pace / 1e6)
                )
            };
            Assessment::new(early.is_empty(), observed, expected).evidence(some(&early))
        })
    }
}
