//! GenAI-Perf's own file: its import, and what is refused.

use contract::{RequestStatus, TokenSource};
use serde_json::json;

use crate::rows::Clock;
use crate::settings::Tool;
use crate::tests::{mean, near, of, refused};

pub(super) const GENAI_PERF: &str = include_str!("../tests/files/genai-perf.json");

/// Returns a file with one request to the endpoint, sent at 1 ns, with responses at 3 ns, 5 ns, ….
fn genai_perf(endpoint: &str, payload: &serde_json::Value, responses: &[&str]) -> String {
    let outputs: Vec<_> = responses
        .iter()
        .map(|text| json!({"response": text}))
        .collect();
    let moments: Vec<_> = (0..responses.len()).map(|i| 3 + 2 * i).collect();
    let request = json!({
        "timestamp": 1, "request_inputs": {"payload": payload.to_string()},
        "response_timestamps": moments, "response_outputs": outputs,
    });
    let level = json!({"mode": "concurrency", "value": 10});
    json!({
        "service_kind": "openai", "endpoint": endpoint,
        "experiments": [{"experiment": level, "requests": [request]}],
    })
    .to_string()
}

#[test]
fn genai_perf_responses_become_rows_with_chunks_and_the_servers_usage() {
    let imported = of(Tool::GenaiPerf, GENAI_PERF);
    assert_eq!(imported.requests.len(), 8);
    for row in &imported.requests {
        assert_eq!(
            (row.status, row.output_tokens),
            (RequestStatus::Ok, Some(8))
        );
        assert_eq!(row.tokens_source, Some(TokenSource::Usage));
        assert_eq!(row.requested_output_tokens, Some(8));
        let chunks = row.chunks_ns.as_ref().unwrap();
        assert!(chunks.len() == 8 && chunks.is_sorted(), "{chunks:?}");
        assert!(
            row.first_token_ns == chunks.first().copied()
                && row.last_token_ns == chunks.last().copied()
        );
        assert!(row.done_ns >= row.last_token_ns && row.first_token_ns > row.sent_ns);
    }
    let facts = &imported.facts;
    assert_eq!(
        (facts.clients, facts.streamed, facts.clock),
        (Some(2), Some(true), Clock::Cell)
    );
    assert_eq!(
        (facts.model.as_deref(), facts.api.as_deref()),
        (Some("reference"), Some("v1/chat/completions"))
    );
    // The value that the sending script computed during the run.
    let ttft = mean(
        imported
            .requests
            .iter()
            .map(|row| row.first_token_ns.unwrap() - row.sent_ns.unwrap()),
    );
    assert!(near(ttft, 57.946_423_5), "{ttft}");
    let digest = artifacts::Digest::of(b"What is two and two").to_string();
    assert!(
        imported
            .requests
            .iter()
            .any(|row| row.prompt_digest.as_ref() == Some(&digest))
    );
}

/// The requests and the expected times are from the tool's own tests
/// (`tests/test_data_parser/test_llm_profile_data_parser.py`, `openai_profile_data` and
/// `triton_profile_data`).
#[test]
fn genai_perf_times_are_those_its_own_tests_expect() {
    let chat =
        |delta: &str| format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n");
    let said = |text: &str| chat(&format!("{{\"content\":\"{text}\"}}"));
    let role = chat("{\"role\":\"assistant\"}");
    let events = [
        role,
        said("I"),
        said(" like"),
        said(" dogs"),
        chat("{}"),
        "data: [DONE]\n\n".to_owned(),
    ];
    let request = |sent: i64, moments: [i64; 6]| {
        let outputs: Vec<_> = events
            .iter()
            .map(|text| json!({"response": text}))
            .collect();
        json!({
            "timestamp": sent, "request_inputs": {"payload": "{\"stream\":true}"},
            "response_timestamps": moments, "response_outputs": outputs,
        })
    };
    let requests = [
        request(1, [3, 5, 8, 12, 13, 14]),
        request(2, [4, 7, 11, 15, 18, 19]),
    ];
    let triton = |sent: i64, moments: [i64; 3]| {
        json!({
            "timestamp": sent, "request_inputs": {"text_input": "This is test"}, "response_timestamps": moments,
            "response_outputs": [{"text_output": "I"}, {"text_output": " like"}, {"text_output": " dogs"}],
        })
    };
    let level = json!({"mode": "concurrency", "value": 10});
    for (kind, requests, ttft, latency) in [
        ("openai", requests, [4, 5], [11, 13]),
        (
            "triton",
            [triton(1, [3, 5, 8]), triton(2, [4, 7, 11])],
            [2, 2],
            [7, 9],
        ),
    ] {
        let file = json!({
            "service_kind": kind, "endpoint": "", "experiments": [{"experiment": level, "requests": requests}],
        });
        let imported = of(Tool::GenaiPerf, &file.to_string());
        for (row, (ttft, latency)) in imported.requests.iter().zip(ttft.into_iter().zip(latency)) {
            let sent = row.sent_ns.unwrap();
            assert_eq!(row.first_token_ns.unwrap() - sent, ttft, "{kind}");
            assert_eq!(row.last_token_ns.unwrap() - sent, latency, "{kind}");
            assert_eq!(
                (row.output_tokens, row.tokens_source),
                (Some(3), Some(TokenSource::Chunks))
            );
        }
        assert!(imported.warnings[0].contains("counted as chunks"));
    }
}

#[test]
fn genai_perf_events_may_lie_in_two_responses_and_several_in_one() {
    let payload = json!({"prompt": ["This is test"], "stream": true});
    let pieces = [
        "data: {\"choices\":[{\"text\":\" I\"}]}\n\ndata: {\"choices\":[{\"te",
        "xt\":\" like\"}]}\n\n",
        "data: {\"choices\":[{\"text\":\" dogs\"}]}",
        "data: [DONE]",
    ];
    let row = of(
        Tool::GenaiPerf,
        &genai_perf("v1/completions", &payload, &pieces),
    )
    .requests
    .remove(0);
    assert_eq!(row.chunks_ns, Some(vec![2, 4, 6]));
    assert_eq!((row.output_characters, row.done_ns), (Some(12), Some(8)));
    assert_eq!(
        row.prompt_digest,
        Some(artifacts::Digest::of(b"This is test").to_string())
    );
}

#[test]
fn a_genai_perf_answer_that_was_not_streamed_has_an_end_and_no_first_token() {
    let whole = json!({
        "choices": [{"message": {"content": "four"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 33, "completion_tokens": 2},
    });
    let payload =
        json!({"messages": [{"role": "user", "content": "What is 2+2?"}], "max_tokens": 32});
    let file = genai_perf("v1/chat/completions", &payload, &[&whole.to_string()]);
    let row = of(Tool::GenaiPerf, &file).requests.remove(0);
    assert_eq!((row.first_token_ns, row.chunks_ns), (None, None));
    assert_eq!((row.last_token_ns, row.done_ns), (Some(2), Some(2)));
    assert_eq!((row.prompt_tokens, row.output_tokens), (Some(33), Some(2)));
    assert_eq!(row.finish_reason.as_deref(), Some("stop"));
}

#[test]
fn genai_perf_requests_that_failed_are_rows_without_tokens() {
    let payload = json!({"prompt": "a", "stream": true});
    let first = "data: {\"choices\":[{\"text\":\" I\"}]}\n\n";
    for (pieces, part) in [
        (
            vec![first, "event: error: some error occurred.\n\n"],
            "some error occurred",
        ),
        (
            vec![first, "data: {\"error\":{\"message\":\"engine died\"}}\n\n"],
            "engine died",
        ),
        (vec!["<html>"], "not JSON"),
        (Vec::new(), "no response"),
    ] {
        let row = of(
            Tool::GenaiPerf,
            &genai_perf("v1/completions", &payload, &pieces),
        )
        .requests
        .remove(0);
        assert_eq!(
            (row.status, row.output_tokens),
            (RequestStatus::Failed, None),
            "{part}"
        );
        assert!(
            row.error.as_ref().is_some_and(|error| error.contains(part)),
            "{:?}",
            row.error
        );
    }
}

#[test]
fn genai_perf_aggregates_are_refused_with_the_file_to_give() {
    let json = json!({
        "request_throughput": {"unit": "requests/sec", "avg": 12.0},
        "request_latency": {"unit": "ms", "avg": 150.0, "p99": 160.0},
        "input_config": {"model_names": ["reference"]},
    });
    for text in [
        json.to_string(),
        "Metric,avg,min,max,p99\nTime To First Token (ms),50,49,51,51\n".to_owned(),
    ] {
        let error = refused(Tool::GenaiPerf, &text);
        assert!(error.message.contains("aggregates"), "{error}");
        assert!(
            error.hint.contains("`profile_export.json`"),
            "{}",
            error.hint
        );
    }
    let error = refused(Tool::Aiperf, &json.to_string());
    assert_eq!(
        error.message,
        "this file was written by genai-perf, not aiperf"
    );
}

#[test]
fn a_broken_genai_perf_file_is_refused_with_its_place() {
    let change = |from: &str, to: &str| {
        assert!(GENAI_PERF.contains(from), "{from}");
        GENAI_PERF.replacen(from, to, 1)
    };
    let first = "$.experiments[0].requests[0]";
    for (text, place, part) in [
        (
            change("\"response_timestamps\":[", "\"response_timestamps\":[1,"),
            format!("{first}.response_timestamps[0]"),
            "negative time",
        ),
        (
            change(
                "\"response_outputs\":[",
                "\"response_outputs\":[{\"response\":\"\"},",
            ),
            format!("{first}.response_outputs"),
            "8 entries, but `response_timestamps` has 7",
        ),
        (
            change("\"response\":", "\"text\":"),
            format!("{first}.response_outputs[0]"),
            "there is no `response`",
        ),
        (
            change("v1/chat/completions\"}", "v1/embeddings\"}"),
            "$.service_kind".to_owned(),
            "cannot read text from the answers",
        ),
        (
            change(
                "\"service_kind\":\"openai\"",
                "\"service_kind\":\"torchserve\"",
            ),
            "$.service_kind".to_owned(),
            "torchserve",
        ),
    ] {
        let error = refused(Tool::GenaiPerf, &text);
        assert!(
            error.place == place && error.message.contains(part),
            "{error} / {place} {part}"
        );
    }
}

#[test]
fn turns_of_genai_perf_sessions_are_numbered_in_the_order_of_sending() {
    let request = |sent: i64, session: &str| {
        json!({
            "timestamp": sent, "request_inputs": {"session_id": session, "payload": "{}"},
            "response_timestamps": [sent + 1], "response_outputs": [{"response": "{\"choices\":[{\"text\":\"a\"}]}"}],
        })
    };
    let requests = [
        request(30, "b"),
        request(10, "b"),
        request(20, "a"),
        request(40, "a"),
    ];
    let level = json!({"mode": "request_rate", "value": 0.0});
    let file = json!({
        "service_kind": "openai", "endpoint": "v1/completions",
        "experiments": [{"experiment": level, "requests": requests}],
    });
    let imported = of(Tool::GenaiPerf, &file.to_string());
    let turns: Vec<_> = imported
        .requests
        .iter()
        .map(|row| (row.session_id.unwrap(), row.turn.unwrap()))
        .collect();
    assert_eq!(turns, [(0, 2), (0, 1), (1, 1), (1, 2)]);
    assert_eq!(imported.facts.rate, None);
}
