//! Judges a few cells with one gate, for the tests of gates.

use std::sync::Arc;

use artifacts::Scalar;
use contract::{CellRows, Request, Settings, synthetic};
use pipeline::{InputCell, Json};

use crate::finding::Judgement;
use crate::gate::{Gate, TypedGate};
use crate::gates::one_mode::spread_evenly;
use crate::study::{Cell, Rows, Stage};

/// Returns the judgement of a gate over the only cell of a stage, whose parameters are `cell`.
pub(crate) fn judge<G: TypedGate>(
    gate: &G,
    parameters: Json,
    cell: Json,
    rows: CellRows,
) -> Judgement {
    let inputs = [synthetic::bare(&[], cell)];
    judge_stage(gate, parameters, &inputs, vec![rows]).remove(0)
}

/// Returns the judgements of a gate over the cells of a stage, and over the stage as a whole.
pub(crate) fn judge_cells<G: TypedGate>(
    gate: &G,
    parameters: Json,
    cells: Vec<CellRows>,
) -> Vec<Judgement> {
    let input = |at| synthetic::bare(&[("at", Scalar::Int(at))], Json::Null);
    let inputs: Vec<_> = (0..cells.len() as i64).map(input).collect();
    judge_stage(gate, parameters, &inputs, cells)
}

fn judge_stage<G: TypedGate>(
    gate: &G,
    parameters: Json,
    inputs: &[InputCell],
    rows: Vec<CellRows>,
) -> Vec<Judgement> {
    let axes = inputs[0].coordinates.0.iter();
    let axes = axes.map(|(axis, _)| axis.clone()).collect();
    let cells = inputs.iter().zip(rows).map(|(input, rows)| Cell {
        input,
        rows: Rows::Held(Arc::new(rows)),
        server: None,
        store: None,
    });
    let stage = Stage {
        name: "ladder",
        axes,
        cells: cells.collect(),
        failure: Default::default(),
        instrument: None,
    };
    let parameters = serde_json::from_value(parameters).expect("parameters of the gate");
    TypedGate::judge(gate, &parameters, &stage)
}

/// Returns the messages and hints of the problems with parameters of a gate.
pub(crate) fn refused<G: TypedGate>(gate: &G, parameters: Json) -> Vec<String> {
    let Json::Object(values) = parameters else {
        panic!("parameters are a mapping");
    };
    let settings = Settings {
        values,
        route: &[],
        what: "a gate".to_owned(),
    };
    let problems = Gate::plan(gate, &settings).err().unwrap_or_default();
    let text = |p: pipeline::Problem| format!("{} ({})", p.message, p.hint.unwrap_or_default());
    problems.into_iter().map(text).collect()
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

/// Returns answers of about 68 ms, sent every 88 ms to a server that needs 20 ms for a prompt, and decodes nothing
/// meanwhile. About half of the answers end before the next prompt, and the others pause for it.
pub(crate) fn at_even_intervals() -> CellRows {
    let answer = |i: usize| {
        let sent = 88.0 * i as f64;
        let own = 68.0 + 5.0 * (spread_evenly(7 * i) - 0.5) + 3.0 * (spread_evenly(3 * i) - 0.5);
        let last = sent + 20.0 + own + if own > 68.0 { 20.0 } else { 0.0 };
        let stamp = |ms: f64| Some((1e6 * ms) as i64);
        Request {
            client_id: None,
            sent_ns: stamp(sent),
            first_token_ns: stamp(sent + 20.0),
            last_token_ns: stamp(last),
            done_ns: stamp(last),
            output_tokens: Some(17),
            ..synthetic::request(i as i64)
        }
    };
    synthetic::rows_of((0..80).map(answer).collect())
}
