//! `client-lag`: was the client itself slow?

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, each};
use crate::study::Stage;

pub(crate) struct ClientLag;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The bound on the 99th percentile of the send lag, ms.
    #[serde(default = "ten")]
    p99_ms: f64,
}

fn ten() -> f64 {
    10.0
}

impl TypedGate for ClientLag {
    type Parameters = Parameters;
    const NAME: &'static str = "client-lag";
    const SUMMARY: &'static str =
        "The client sent requests on time: the p99 of the send lag is within the bound.";
    const SEVERITY: Severity = Severity::Warn;
    const CELLS_ALONE: bool = true;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        each(stage, |_, rows| {
            let mut lags: Vec<f64> = rows
                .measured()
                .filter_map(|r| Some(r.send_lag_ns? as f64 / 1e6))
                .collect();
            lags.sort_by(f64::total_cmp);
            let expected = format!("p99 at most {} ms", parameters.p99_ms);
            let Some(last) = lags.len().checked_sub(1) else {
                return Assessment::not_judged("no row has a send lag", expected);
            };
            // Type 7, like every quantile here.
            let at = last as f64 * 0.99;
            let (low, high) = (lags[at.floor() as usize], lags[at.ceil() as usize]);
            let p99 = low + (high - low) * at.fract();
            Assessment::new(
                p99 <= parameters.p99_ms,
                format!("p99 {p99:.3} ms"),
                expected,
            )
        })
    }
}
