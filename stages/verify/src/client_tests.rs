//! Tests of the gates about the client itself.

use artifacts::{Column, Digest, Scalar, Store, Table};
use contract::synthetic;
use pipeline::{Artifact, CellStatus, Input, Json, Media};
use serde_json::json;

use crate::tests::{broken, store, verify};

/// Returns a load cell with these facts about its client.
fn load(store: &Store, verdict: Option<&str>, chunk_rate: f64, flying: i64) -> Input {
    let cell = Table::new(vec![
        Column::int("expected_requests", [Some(1)]),
        Column::text("client_verdict", [verdict]),
        Column::float("stamp_error_bound", [Some(3.0)]),
        Column::float("wake_lag_p50", [Some(0.1)]),
        Column::float("chunk_rate", [Some(chunk_rate)]),
        Column::int("peak_in_flight", [Some(flying)]),
    ]);
    let request = synthetic::request(1);
    let tables = [
        (
            "requests",
            synthetic::requests_table(std::slice::from_ref(&request)).unwrap(),
        ),
        (
            "chunks",
            synthetic::chunks_table(&synthetic::even_chunks(&request)).unwrap(),
        ),
        ("cell", cell.unwrap()),
    ];
    let cell = synthetic::cell(store, &[("rep", Scalar::Int(1))], Json::Null, &tables).unwrap();
    synthetic::input("ladder", "load", vec![cell])
}

fn calibration(store: &Store, instrument: &Json) -> Input {
    let bytes = serde_json::to_vec(instrument).unwrap();
    store.put(&bytes).unwrap();
    let artifact = Artifact {
        digest: Digest::of(&bytes),
        media: Media::Json,
        bytes: bytes.len() as u64,
        rows: None,
    };
    let mut cell = synthetic::cell(store, &[], Json::Null, &[]).unwrap();
    cell.status = CellStatus::Ok;
    cell.outputs.insert("instrument".to_owned(), artifact);
    synthetic::input("instrument", "calibrate", vec![cell])
}

fn health(more: &Json) -> Json {
    let mut gate = json!({"gate": "client-health", "reason": "the client was the bottleneck"});
    gate.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({ "gates": [gate] })
}

fn range() -> Json {
    json!({"gates": [{"gate": "calibrated-range"}]})
}

#[test]
fn a_cell_whose_client_was_the_bottleneck_is_excluded() {
    let (_folder, store) = store();
    let done = verify(
        &store,
        &[load(&store, Some("client_bound"), 1.0, 1)],
        &health(&json!({})),
    );
    assert_eq!(
        broken(&done),
        [("client-health".to_owned(), Some("rep=1".to_owned()))]
    );
    let excluded = done
        .outputs
        .iter()
        .find(|o| o.name == "exclusions")
        .unwrap();
    assert_eq!(excluded.rows, Some(1));
}

#[test]
fn a_healthy_client_passes_unless_its_stated_error_is_above_what_is_asked() {
    let (_folder, store) = store();
    let input = [load(&store, Some("client_ok"), 1.0, 1)];
    assert_eq!(broken(&verify(&store, &input, &health(&json!({})))), []);
    assert_eq!(
        broken(&verify(
            &store,
            &input,
            &health(&json!({"stamp-error-ms": 3.0}))
        )),
        []
    );
    assert_eq!(
        broken(&verify(
            &store,
            &input,
            &health(&json!({"stamp-error-ms": 2.9}))
        ))
        .len(),
        1
    );
}

#[test]
fn a_cell_that_says_nothing_of_its_client_is_not_judged() {
    let (_folder, store) = store();
    let done = verify(&store, &[load(&store, None, 1.0, 1)], &health(&json!({})));
    assert_eq!(broken(&done), []);
    assert!(done.warnings.is_empty());
}

#[test]
fn a_load_beyond_the_calibrated_range_is_flagged_in_either_direction() {
    let (_folder, store) = store();
    let covered = json!({"covered": {"chunk_rate": 1000.0, "concurrency": 16}});
    let flagged = |rate, flying, instrument: &Json| {
        let inputs = [
            load(&store, None, rate, flying),
            calibration(&store, instrument),
        ];
        broken(&verify(&store, &inputs, &range())).len()
    };
    assert_eq!(flagged(1000.0, 16, &covered), 0);
    assert_eq!(flagged(1000.5, 16, &covered), 1);
    assert_eq!(flagged(10.0, 17, &covered), 1);
    assert_eq!(flagged(10.0, 1, &json!({"covered": null})), 1);
}

#[test]
fn without_a_calibration_there_is_no_range_to_judge_by() {
    let (_folder, store) = store();
    let done = verify(&store, &[load(&store, None, 1e9, 1_000)], &range());
    assert_eq!(broken(&done), []);
}
