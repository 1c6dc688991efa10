//! What the load stage writes is what the pure stages read: names and types of every column.

use artifacts::{Scalar, Store};
use load::{ChunkRow, MetricRow, Phase, RequestRow, RequestStatus, TokenSource};
use rows::{CellRows, METRICS, server_counter, synthetic};

fn row() -> RequestRow {
    RequestRow {
        request_id: 7,
        attempt: 1,
        superseded: false,
        phase: Phase::Measured,
        client_id: Some(3),
        session_id: Some(4),
        turn: Some(1),
        prompt_index: 2,
        prompt_digest: "b3:00".to_owned(),
        scheduled_ns: 5,
        connect_ns: None,
        sent_ns: Some(10),
        headers_ns: Some(20),
        first_token_ns: Some(1_000_010),
        first_reasoning_ns: None,
        first_answer_ns: Some(1_000_010),
        last_token_ns: Some(5_000_010),
        done_ns: 5_000_020,
        prompt_tokens: Some(9),
        cached_prompt_tokens: Some(1),
        output_tokens: Some(5),
        reasoning_tokens: None,
        tokens_source: Some(TokenSource::Usage),
        tokens_agree: Some(true),
        requested_output_tokens: 5,
        chunks: Some(2),
        first_chunk_tokens: Some(1),
        finish_reason: Some("length".to_owned()),
        status: RequestStatus::Ok,
        http_status: Some(200),
        retry_after_s: None,
        error: None,
        schema_valid: Some(true),
        send_lag_ns: Some(5),
        in_flight_at_send: Some(0),
        reads: 3,
        received_bytes: 400,
        output_characters: Some(20),
        output_digest: None,
        server_prompt_ms: Some(0.5),
        server_predicted_ms: Some(4.0),
    }
}

#[test]
fn the_columns_the_load_stage_writes_are_those_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let chunk = |at_ns, tokens, read| ChunkRow {
        request_id: 7,
        attempt: 1,
        at_ns,
        bytes: 3,
        tokens,
        read,
    };
    let chunks = [chunk(1_000_010, Some(1), 0), chunk(5_000_010, Some(4), 1)];
    let scrape = |at_ns, value| MetricRow {
        at_ns,
        name: "n".to_owned(),
        labels: String::new(),
        value,
    };
    let tables = [
        ("requests", load::requests_table(&[row()]).unwrap()),
        ("chunks", load::chunks_table(&chunks).unwrap()),
        (
            "server_metrics",
            load::metrics_table(&[scrape(0, 2.0), scrape(9, 7.0)]).unwrap(),
        ),
    ];
    let at = [("rep", Scalar::Int(1))];
    let cell = synthetic::cell(&store, &at, serde_json::Value::Null, &tables).unwrap();
    let read = CellRows::read(&store, &cell).unwrap();

    let request = &read.requests[0];
    let mut expected = synthetic::request(7);
    (expected.client_id, expected.session_id, expected.turn) = (Some(3), Some(4), Some(1));
    expected.prompt_digest = Some("b3:00".to_owned());
    (expected.scheduled_ns, expected.sent_ns, expected.headers_ns) = (Some(5), Some(10), Some(20));
    (expected.first_token_ns, expected.last_token_ns) = (Some(1_000_010), Some(5_000_010));
    expected.done_ns = Some(5_000_020);
    expected.schema_valid = Some(true);
    (expected.prompt_tokens, expected.cached_prompt_tokens) = (Some(9), Some(1));
    (expected.tokens_agree, expected.chunks, expected.send_lag_ns) = (Some(true), Some(2), Some(5));
    (expected.server_prompt_ms, expected.server_predicted_ms) = (Some(0.5), Some(4.0));
    assert_eq!(*request, expected);

    let timing = &rows::timings(&read)[0];
    assert_eq!(timing.gaps.gaps, [(4.0, Some(4))]);
    let value = |name: &str| rows::metric(name).unwrap().of(timing);
    assert_eq!(
        (value("ttft_ms"), value("e2e_latency_ms"), value("tpot_ms")),
        (Some(1.0), Some(5.0), Some(1.0))
    );
    assert_eq!(value("ttft_scheduled_ms"), None);
    assert_eq!(METRICS.len(), 7);
    assert_eq!(
        server_counter(read.server_metrics.as_ref().unwrap(), "n"),
        Some(5.0)
    );
}
