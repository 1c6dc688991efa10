//! `expected-rows`: are there exactly as many rows as planned requests?

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, each};
use crate::study::Stage;

pub(crate) struct ExpectedRows;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The measured rows that a cell must have; by default, as many as the load stage planned.
    #[serde(default)]
    rows: Option<u32>,
}

impl TypedGate for ExpectedRows {
    type Parameters = Parameters;
    const NAME: &'static str = "expected-rows";
    const SUMMARY: &'static str = "Each cell has as many measured and warm-up rows as were planned. Requests that were not sent because the duration \
         was over have no row.";
    const SEVERITY: Severity = Severity::Fail;
    const CELLS_ALONE: bool = true;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        each(stage, |cell, rows| {
            let measured = rows.measured().count() as i64;
            let warmup = rows.requests.iter().filter(|r| !r.superseded).count() as i64 - measured;
            let planned = parameters
                .rows
                .map(i64::from)
                .or_else(|| cell.fact("expected_requests"));
            let planned_warmup = cell.fact("warmup_requests");
            let unsent = cell.fact("unsent_requests").unwrap_or(0);
            let mut observed = format!("{measured} measured and {warmup} warm-up rows");
            if unsent > 0 {
                observed +=
                    &format!("; {unsent} requests were not sent, because the duration was over");
            }
            let Some(planned) = planned else {
                return Assessment::not_judged(
                    "the cell does not record how many requests it planned",
                    "a number of rows",
                );
            };
            let expected = match planned_warmup {
                Some(w) => format!("{planned} measured and {w} warm-up rows"),
                None => format!("{planned} measured rows"),
            };
            let passed = measured + unsent == planned && planned_warmup.is_none_or(|w| w == warmup);
            Assessment::new(passed, observed, expected)
        })
    }
}
