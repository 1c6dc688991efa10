//! `client-lag`: was the client itself slow?

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::quantile_of_sorted;

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, each};
use crate::study::Stage;

pub(crate) struct ClientLag;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The bound on the 99th percentile of the send lag, ms.
    #[serde(default = "ten")]
    #[schemars(range(min = 0))]
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
        each(stage, &|_, rows| {
            let mut lags: Vec<f64> = rows
                .measured()
                .filter_map(|r| Some(r.send_lag_ns? as f64 / 1e6))
                .collect();
            lags.sort_by(f64::total_cmp);
            let expected = format!("p99 at most {} ms", parameters.p99_ms);
            let Some(p99) = quantile_of_sorted(&lags, 0.99) else {
                return Assessment::not_judged("no row has a send lag", expected);
            };
            Assessment::new(
                p99 <= parameters.p99_ms,
                format!("p99 {p99:.3} ms"),
                expected,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use contract::synthetic;
    use serde_json::json;

    use super::*;
    use crate::finding::Outcome;
    use crate::one_cell;

    #[test]
    fn the_p99_is_that_of_the_analysis_to_the_last_bit() {
        let mut requests = vec![synthetic::request(0), synthetic::request(1)];
        requests[0].send_lag_ns = Some(6_000_000);
        requests[1].send_lag_ns = Some(33_000_000);
        let p99 = statistics::Sample::new([6.0, 33.0]).unwrap().quantile(0.99);
        let rows = synthetic::rows_of(requests);
        let judgement = one_cell::judge(&ClientLag, json!({"p99-ms": p99}), json!({}), rows);
        assert_eq!(judgement.outcome, Outcome::Pass, "{judgement:?}");
    }
}
