//! `client-health`: was the client the bottleneck?

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, each};
use crate::study::Stage;

pub(crate) struct ClientHealth;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// A bound on the client's own estimate of its stamp error, ms; none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    stamp_error_ms: Option<f64>,
}

impl TypedGate for ClientHealth {
    type Parameters = Parameters;
    const NAME: &'static str = "client-health";
    const SUMMARY: &'static str = "The client was not the bottleneck: the cell's client verdict \
        is `client_ok`.";
    const SEVERITY: Severity = Severity::Exclude;
    const CELLS_ALONE: bool = true;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        each(stage, &|_, rows| {
            let expected = match parameters.stamp_error_ms {
                Some(bound) => format!("client_ok, stamps late by at most {bound} ms"),
                None => "client_ok".to_owned(),
            };
            let fact = |name: &str| rows.cell.as_ref()?.number(name);
            let verdict = rows
                .cell
                .as_ref()
                .and_then(|cell| cell.text("client_verdict"));
            let stated = fact("stamp_error_bound");
            let Some(verdict) = verdict else {
                let reason = match stated {
                    Some(_) => "the phase was too short to judge the client (fewer than 20 probes)",
                    None => "the cell does not report on its client",
                };
                return Assessment::not_judged(reason, expected);
            };
            let precise = match (parameters.stamp_error_ms, stated) {
                (Some(bound), Some(stated)) => stated <= bound,
                (Some(_), None) => false,
                (None, _) => true,
            };
            let shown =
                |name: &str| fact(name).map_or_else(|| "unknown".to_owned(), |v| format!("{v:.3}"));
            let observed = format!(
                "{verdict}: wake lag p50 {} ms, p99 {} ms, busy {}; stamps late by at most {} ms",
                shown("wake_lag_p50"),
                shown("wake_lag_p99"),
                shown("client_busy"),
                shown("stamp_error_bound")
            );
            Assessment::new(verdict == "client_ok" && precise, observed, expected)
        })
    }
}
