//! `expected-rows`: are there exactly as many rows as planned requests?

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, each};
use crate::study::Stage;

/// The largest share of the planned requests that may be unsent. With more, the cell shows only the requests that a slow
/// server let through.
const MOST_UNSENT: f64 = 0.01;

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
         was over have no row, and are at most 1 % of those planned.";
    const SEVERITY: Severity = Severity::Fail;
    const CELLS_ALONE: bool = true;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        each(stage, &|cell, rows| {
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
                    &format!("; {unsent} requests were not sent, because the duration had ended");
            }
            let Some(planned) = planned else {
                return Assessment::not_judged(
                    "the cell does not record how many requests it planned",
                    "a number of rows",
                );
            };
            let mut expected = match planned_warmup {
                Some(w) => format!("{planned} measured and {w} warm-up rows"),
                None => format!("{planned} measured rows"),
            };
            if unsent > 0 {
                expected += &format!("; at most {} % not sent", 100.0 * MOST_UNSENT);
            }
            let passed = measured.saturating_add(unsent) == planned
                && unsent as f64 <= MOST_UNSENT * planned as f64
                && planned_warmup.is_none_or(|w| w == warmup);
            Assessment::new(passed, observed, expected)
        })
    }
}

#[cfg(test)]
mod tests {
    use artifacts::{Column, Scalar, Table};
    use contract::{Request, synthetic};
    use pipeline::Json;
    use serde_json::json;

    use crate::tests::{broken, store, table, verify};

    /// Returns whether a cell with this many planned and unsent requests passes.
    fn passes(planned: i64, unsent: i64) -> bool {
        let (_folder, store) = store();
        let requests: Vec<Request> = (0..planned - unsent).map(synthetic::request).collect();
        let chunks: Vec<_> = requests.iter().flat_map(synthetic::even_chunks).collect();
        let cell = Table::new(vec![
            Column::int("expected_requests", [Some(planned)]),
            Column::int("unsent_requests", [Some(unsent)]),
        ]);
        let tables = [
            ("requests", synthetic::requests_table(&requests).unwrap()),
            ("chunks", synthetic::chunks_table(&chunks).unwrap()),
            ("cell", cell.unwrap()),
        ];
        let at = [("rep", Scalar::Int(1))];
        let cell = synthetic::cell(&store, &at, Json::Null, &tables).unwrap();
        let input = [synthetic::input("ladder", "load", vec![cell])];
        let settings = json!({"gates": [{"gate": "expected-rows"}]});
        let done = verify(&store, &input, &settings);
        let census = table(&done, "census");
        assert_eq!(census.int("rows_missing").unwrap(), [Some(0)]);
        broken(&done).is_empty()
    }

    #[test]
    fn a_cell_may_lack_few_requests_because_its_duration_was_over() {
        assert!(passes(25, 0));
        assert!(!passes(25, 22));
        assert!(passes(1000, 1));
    }
}
