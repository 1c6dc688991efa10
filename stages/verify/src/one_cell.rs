//! Judges a single cell with one gate, for the tests of gates.

use std::sync::Arc;

use contract::{CellRows, synthetic};
use pipeline::Json;

use crate::finding::Judgement;
use crate::gate::TypedGate;
use crate::study::{Cell, Rows, Stage};

/// Returns the judgement of a gate over the only cell of a stage, whose parameters are `cell`.
pub(crate) fn judge<G: TypedGate>(
    gate: &G,
    parameters: Json,
    cell: Json,
    rows: CellRows,
) -> Judgement {
    let input = synthetic::bare(&[], cell);
    let stage = Stage {
        name: "ladder",
        axes: Vec::new(),
        cells: vec![Cell {
            input: &input,
            rows: Rows::Held(Arc::new(rows)),
            server: None,
            store: None,
        }],
        failure: Default::default(),
        instrument: None,
    };
    let parameters = serde_json::from_value(parameters).expect("parameters of the gate");
    TypedGate::judge(gate, &parameters, &stage).remove(0)
}

/// Returns answered requests that were sent one after another, each as soon as the one before it was done. `lasts` has
/// their latencies in ns; the first token comes after 10 ms.
pub(crate) fn one_after_another(lasts: impl IntoIterator<Item = i64>) -> CellRows {
    let mut at = 0;
    let requests = lasts.into_iter().zip(0..).map(|(lasts, i)| {
        let mut request = synthetic::request(i);
        request.sent_ns = Some(at);
        request.first_token_ns = Some(at + 10_000_000);
        (request.last_token_ns, request.done_ns) = (Some(at + lasts), Some(at + lasts));
        at += lasts;
        request
    });
    synthetic::rows_of(requests.collect())
}
