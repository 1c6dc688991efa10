//! API keys that a server repeats, and keys that are words of its answers.

use crate::canned::{Asked, Canned, Pieces, events, head};
use crate::common::Run;
use contract::{Api, RequestStatus, TokenSource};
use load::{LoadResult, LoadSpec, Origin, Settings, Target, run_load};
use net::ApiKey;
use pipeline::stage::{Control, Coordinates, Json};
use serde_json::json;

const KEY: &str = "sk-repeated/0123456789abcdef";

fn send(url: &str, key: &str, more: &Json) -> LoadResult {
    let mut settings = json!({
        "workload": {"prompts": {"words": {"length": 6}}, "output": {"tokens": 5}},
        "arrival": "sequential",
        "requests": 4,
    });
    let object = settings.as_object_mut().unwrap();
    object.extend(more.as_object().unwrap().clone());
    let settings: Settings = serde_json::from_value(settings).unwrap();
    let origin = Origin {
        seed: 7,
        replicate: Coordinates::default(),
    };
    let target = Target {
        api: Api::OpenaiChat,
        api_key: ApiKey::new(key),
        ..Run::default().target(url.to_owned())
    };
    let spec = LoadSpec::new(settings, origin).unwrap();
    run_load(&spec, &target, &Control::quiet()).unwrap()
}

/// Returns an answer that repeats the key wherever a text of the server is kept, in pieces of five bytes.
fn repeating(number: usize) -> Pieces {
    let streamed = || {
        let pieces = events(&[
            json!({"model": format!("m-{KEY}"), "choices": [{"delta": {"content": KEY}}]}),
            json!({"choices": [{"delta": {}, "finish_reason": KEY}], "usage": {"completion_tokens": 3}}),
        ]);
        pieces.concat()
    };
    let padded = |length: usize| "x".repeat(length) + KEY;
    let bytes = match number {
        0 => streamed(),
        // A row keeps the first 300 characters of an error, which end within the key.
        1 => format!(
            "HTTP/1.1 401 No\r\nConnection: close\r\n\r\n{}",
            padded(280)
        )
        .into_bytes(),
        2 => [
            head("text/event-stream"),
            format!("data: no {KEY}\n\ndata: [DONE]\n\n").into_bytes(),
        ]
        .concat(),
        // Of a page, a message quotes the first 200 bytes.
        _ => [head("text/html"), padded(190).into_bytes()].concat(),
    };
    bytes.chunks(5).map(<[u8]>::to_vec).collect()
}

#[test]
fn a_key_that_the_server_repeats_is_in_nothing_that_is_stored() {
    let number = std::sync::atomic::AtomicUsize::new(0);
    let server = Canned::start(move |_: &Asked| {
        repeating(number.fetch_add(1, std::sync::atomic::Ordering::SeqCst))
    });
    let result = send(&server.url, KEY, &json!({}));
    let first = &result.requests[0];
    assert_eq!(
        (first.status, first.output_tokens),
        (RequestStatus::Ok, Some(3))
    );
    assert_eq!(first.output_characters, Some(KEY.len() as i64));
    assert_eq!(first.finish_reason.as_deref(), Some("[API key]"));
    let errors = result
        .requests
        .iter()
        .filter_map(|row| row.error.as_deref());
    let errors: Vec<&str> = errors.collect();
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(
        errors.iter().all(|error| error.ends_with("[API key]")),
        "{errors:?}"
    );
    assert!(
        result.warnings.iter().any(|w| w.contains("m-[API key]")),
        "{:?}",
        result.warnings
    );
    let all = format!(
        "{:?} {:?} {:?}",
        result.requests, result.warnings, result.cell
    );
    assert!(!all.contains(&KEY[..6]), "{all}");
}

#[test]
fn the_next_turn_repeats_what_the_server_answered() {
    let server = Canned::start(|_: &Asked| {
        events(&[json!({"choices": [{"delta": {"content": KEY}, "finish_reason": "stop"}]})])
    });
    let sessions = json!({
        "workload": {
            "prompts": {"words": {"length": 6}}, "output": {"tokens": 5}, "sessions": {"turns": 2, "think-time": "0s"},
        },
        "requests": null, "sessions": 1,
    });
    let result = send(&server.url, KEY, &sessions);
    assert_eq!(result.requests.len(), 2);
    let bodies = server.bodies("/v1/chat/completions");
    assert_eq!(bodies[1]["messages"][1]["content"], KEY);
}

#[test]
fn a_key_that_is_a_word_of_the_answers_changes_nothing() {
    let server = Canned::start(|_: &Asked| {
        events(&[
            json!({"choices": [{"delta": {"content": "a token"}}], "usage": null}),
            json!({"choices": [{"delta": {}, "finish_reason": "length"}], "usage": {"completion_tokens": 11}}),
        ])
    });
    for key in [
        "1",
        "null",
        "data",
        "token",
        "choices",
        "content",
        "completion_tokens",
    ] {
        let result = send(&server.url, key, &json!({}));
        for row in &result.requests {
            assert_eq!(row.status, RequestStatus::Ok, "{key}: {:?}", row.error);
            assert_eq!(row.output_tokens, Some(11), "{key}");
            assert_eq!(row.tokens_source, Some(TokenSource::Usage), "{key}");
            assert_eq!(row.finish_reason.as_deref(), Some("length"), "{key}");
        }
    }
}
