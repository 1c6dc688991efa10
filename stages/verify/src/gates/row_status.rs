//! `row-status`: a cell is ok only if its rows are.

use std::collections::BTreeMap;

use artifacts::counted;
use contract::{Request, RequestStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, each, some};
use crate::study::Stage;

pub(crate) struct RowStatus;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The share of measured rows that need not be ok.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    tolerance: f64,
}

impl TypedGate for RowStatus {
    type Parameters = Parameters;
    const NAME: &'static str = "row-status";
    const SUMMARY: &'static str = "Every measured row is ok, except for at most the tolerated \
        share. Requests that the load abandons by its setting `cancel` do not count as failures.";
    const SEVERITY: Severity = Severity::Fail;
    const CELLS_ALONE: bool = true;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        each(stage, &|cell, rows| {
            let abandons = contract::abandons(&cell.input.parameters);
            let total = rows.measured().count();
            let other: Vec<_> = rows.measured().filter(|r| !r.is_ok()).collect();
            let is_declared = |r: &&Request| abandons && r.status == RequestStatus::Cancelled;
            let bad: Vec<_> = other.iter().copied().filter(|r| !is_declared(r)).collect();
            let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
            for row in &other {
                *kinds.entry(row.status.word()).or_default() += 1;
            }
            let kinds: Vec<String> = kinds
                .into_iter()
                .map(|(status, n)| format!("{n} {status}"))
                .collect();
            let observed = match kinds.len() {
                0 => format!("{total} of {} ok", counted(total, "row")),
                _ => format!(
                    "{} of {} ok; {}",
                    total - other.len(),
                    counted(total, "row"),
                    kinds.join(", ")
                ),
            };
            let ids: Vec<i64> = bad.iter().map(|r| r.request_id).collect();
            let expected = match abandons {
                true => format!(
                    "at most {} of the rows not ok and not cancelled by the load",
                    parameters.tolerance
                ),
                false => format!("at most {} of the rows not ok", parameters.tolerance),
            };
            if total == 0 {
                return Assessment::not_judged("no measured row", expected);
            }
            // The quotient of 29 and 100 is the number that 0.29 stands for; 100 times this number is below 29.
            let holds = bad.len() as f64 / total as f64 <= parameters.tolerance;
            Assessment::new(holds, observed, expected).evidence(some(&ids))
        })
    }
}
