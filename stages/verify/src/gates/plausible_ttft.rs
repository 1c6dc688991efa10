//! `plausible-ttft`: could the first token arrive this early?

use contract::Request;
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
    #[schemars(range(min = 0))]
    at_least_us: f64,
    /// A TTFT must be at least this share of the time per token, because the first token also takes
    /// a pass through the model.
    #[serde(default = "quarter")]
    #[schemars(range(min = 0, max = 1))]
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
    const SUMMARY: &'static str = "\
        No answer begins before the server can have read the prompt. This is a bound, not a test.\n\n\
        TTFT is at least `at-least-us`. It is also at least `share` of the cell's lower decile of the time per token, \
        because the first token also takes a pass through the model. An engine without batches shares its passes \
        among the requests, so a few answers may begin earlier. The gate fails if more than half of the answers do, \
        or if all tokens of such an answer come early.\n\n\
        A wrong stamp, a first event without text, or a cache in front of the server violates this bound.";
    const SEVERITY: Severity = Severity::Fail;
    const CELLS_ALONE: bool = true;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        each(stage, &|_, rows| {
            let answers: Vec<Answer> = rows.measured().filter_map(Answer::of).collect();
            let mut paces: Vec<f64> = answers.iter().filter_map(|a| a.pace_ns).collect();
            paces.sort_by(f64::total_cmp);
            // An answer in one piece has no time per token.
            let pace = paces.get(paces.len() / 10).copied().unwrap_or(0.0);
            let least = parameters.at_least_us * 1e3;
            let pass = pace * parameters.share;
            let expected = format!("a TTFT of at least {} ms", show(least.max(pass) / 1e6));
            if answers.is_empty() {
                return Assessment::not_judged(
                    "no ok row has the time of its first token",
                    expected,
                );
            }
            let early: Vec<&Answer> = answers
                .iter()
                .filter(|a| a.ttft_ns < least.max(pass))
                .collect();
            let impossible = early
                .iter()
                .any(|a| a.ttft_ns < least || a.pace_ns.is_some_and(|own| own < pass));
            let failed = impossible || early.len() * 2 > answers.len();
            let shortest = answers
                .iter()
                .map(|a| a.ttft_ns)
                .fold(f64::INFINITY, f64::min)
                / 1e6;
            let observed = match (early.len(), failed) {
                (0, _) => format!("shortest TTFT {} ms", show(shortest)),
                (n, false) => format!(
                    "{n} of {} answers begin early, the first after {} ms, as in an engine without \
                     batches; a token takes {} ms",
                    answers.len(),
                    show(shortest),
                    show(pace / 1e6)
                ),
                (n, true) => format!(
                    "{n} of {} answers begin too early, the first after {} ms; a token takes {} \
                     ms. Check where the first token is stamped, and whether a cache is in front \
                     of the server",
                    answers.len(),
                    show(shortest),
                    show(pace / 1e6)
                ),
            };
            let evidence: Vec<i64> = early.iter().map(|a| a.request_id).collect();
            Assessment::new(!failed, observed, expected).evidence(some(&evidence))
        })
    }
}

/// An ok answer with the time of its first token.
struct Answer {
    request_id: i64,
    ttft_ns: f64,
    /// The time per token after the first, ns; `None` for a single token.
    pace_ns: Option<f64>,
}

impl Answer {
    fn of(row: &Request) -> Option<Self> {
        let first = row.first_token_ns.filter(|_| row.is_ok())?;
        let pace_ns = || {
            let steps = row.output_tokens.filter(|n| *n > 1)? - 1;
            Some((row.last_token_ns? - first) as f64 / steps as f64)
        };
        Some(Self {
            request_id: row.request_id,
            ttft_ns: (first - row.sent_ns?) as f64,
            pace_ns: pace_ns(),
        })
    }
}
