//! Structured output: the request, and the treatment of the answer.

use crate::canned::{Canned, document, events};
use crate::common::Run;
use contract::{Api, RequestStatus};
use load::{LoadResult, LoadSpec, Origin, Settings, Summary, Target, run_load};
use pipeline::stage::{Control, Coordinates, Json};
use serde_json::json;

fn schema() -> Json {
    json!({
        "type": "object",
        "properties": {"n": {"type": "integer", "maximum": 2}},
        "required": ["n"],
    })
}

fn send(url: String, api: Api, delivery: &str) -> (LoadResult, Summary) {
    let settings: Settings = serde_json::from_value(json!({
        "workload": {
            "prompts": {"words": {"length": 6}},
            "structured": {"schema": schema()},
            "output": {"tokens": 5},
        },
        "arrival": "sequential",
        "requests": 4,
        "delivery": delivery,
    }))
    .unwrap();
    let spec = LoadSpec::new(
        settings,
        Origin {
            seed: 7,
            replicate: Coordinates::default(),
        },
    )
    .unwrap();
    let target = Target {
        api,
        ..Run::default().target(url)
    };
    let result = run_load(&spec, &target, &Control::quiet()).unwrap();
    let summary = result.summary(&load::Slo::default()).unwrap();
    (result, summary)
}

/// Returns a server that answers `{"n": 0}`, `{"n": 1}`, … in two pieces. The last answers violate the schema.
fn counting() -> Canned {
    let count = std::sync::atomic::AtomicU32::new(0);
    Canned::start(move |_| {
        let n = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        events(&[
            json!({"choices": [{"delta": {"reasoning": "{not json"}}]}),
            json!({"choices": [{"delta": {"content": "{\"n\""}}]}),
            json!({"choices": [{"delta": {"content": format!(": {n}}}")}}]}),
            json!({"choices": [{"delta": {}, "finish_reason": "stop"}],
                "usage": {"completion_tokens": 7, "completion_tokens_details": {"reasoning_tokens": 3}}}),
        ])
    })
}

#[test]
fn an_answer_that_keeps_its_schema_is_ok_and_any_other_is_invalid_output() {
    let server = counting();
    let (result, summary) = send(server.url.clone(), Api::OpenaiChat, "streamed");
    use RequestStatus::{InvalidOutput, Ok};
    let rows: Vec<_> = result
        .requests
        .iter()
        .map(|r| (r.status, r.schema_valid))
        .collect();
    assert_eq!(rows[..3], [(Ok, Some(true)); 3]);
    assert_eq!(rows[3], (InvalidOutput, Some(false)));
    assert!(
        result.requests[3]
            .error
            .as_deref()
            .unwrap()
            .contains("at /n")
    );
    assert_eq!(result.requests[3].output_tokens, Some(7));
    assert_eq!(result.requests[3].reasoning_tokens, Some(3));
    assert_eq!(summary.schema_valid_rate, Some(0.75));
    let sent = server.bodies("/v1/chat/completions");
    assert!(
        sent.iter()
            .all(|body| body["response_format"]["json_schema"]["schema"] == schema())
    );
}

#[test]
fn an_answer_that_is_not_complete_is_not_judged_by_its_schema() {
    let server = Canned::start(|_| {
        let mut pieces = events(&[json!({"choices": [{"delta": {"content": "{\"n\""}}]})]);
        pieces.pop();
        pieces
    });
    let (result, summary) = send(server.url, Api::OpenaiChat, "streamed");
    for row in &result.requests {
        assert_eq!(
            (row.status, row.schema_valid),
            (RequestStatus::TruncatedStream, None)
        );
    }
    assert_eq!(summary.schema_valid_rate, None);
}

#[test]
fn an_answer_that_came_whole_is_checked_too() {
    let server = Canned::start(|asked| {
        assert_eq!(asked.body["format"], schema());
        document(&json!({"response": "{\"n\": 2}", "done": true, "eval_count": 4}))
    });
    let (result, _) = send(server.url, Api::OllamaGenerate, "whole");
    assert!(result.requests.iter().all(|r| r.schema_valid == Some(true)));
}
