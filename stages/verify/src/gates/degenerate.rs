//! `degenerate`: success that is none — no rows, no tokens, no time, all durations alike.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::{TypedGate, Verdict, each, some};
use crate::study::Stage;

pub(crate) struct Degenerate;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// From how many ok rows on equal durations are suspicious.
    #[serde(default = "four")]
    equal_durations_from: u32,
}

fn four() -> u32 {
    4
}

impl TypedGate for Degenerate {
    type Parameters = Parameters;
    const NAME: &'static str = "degenerate";
    const SUMMARY: &'static str =
        "Each cell has ok rows with tokens, takes time, and its durations are not all the same.";
    const SEVERITY: Severity = Severity::Fail;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        each(stage, |_, rows| {
            let ok: Vec<_> = rows.measured().filter(|r| r.is_ok()).collect();
            let empty: Vec<i64> =
                ok.iter().filter(|r| r.output_tokens.unwrap_or(0) <= 0).map(|r| r.request_id).collect();
            let first = rows.measured().filter_map(|r| r.sent_ns).min();
            let last = rows.measured().filter_map(|r| r.done_ns).max();
            let timed = first.zip(last).is_some_and(|(a, b)| b > a);
            let mut durations: Vec<i64> = ok.iter().filter_map(|r| Some(r.done_ns? - r.sent_ns?)).collect();
            let counted = durations.len();
            durations.sort_unstable();
            durations.dedup();
            let alike = counted >= parameters.equal_durations_from.max(2) as usize && durations.len() == 1;
            let mut wrong = Vec::new();
            if ok.is_empty() {
                wrong.push("no ok row".to_owned());
            }
            if !empty.is_empty() {
                wrong.push(format!("{} ok rows without output tokens", empty.len()));
            }
            if !timed {
                wrong.push("no time passed, throughput is undefined".to_owned());
            }
            if alike {
                wrong.push(format!("all {counted} durations are {} ns", durations[0]));
            }
            let expected = "ok rows with tokens, time passed, durations that differ";
            let observed = if wrong.is_empty() { format!("{} ok rows", ok.len()) } else { wrong.join("; ") };
            Verdict::new(wrong.is_empty(), observed, expected).evidence(some(&empty))
        })
    }
}
