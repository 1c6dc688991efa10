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
