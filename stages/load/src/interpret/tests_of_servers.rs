//! Answers of single servers that differ from their API in a detail.

use std::collections::BTreeMap;

use apis::Delivery;
use contract::{Api, RequestStatus};
use serde_json::{Value, json};

use super::tests::prompt;
use super::{Interpreted, interpret};
use crate::measure::{Attempt, End, Read};

const DONE: &str = "data: [DONE]\n\n";

fn answered(how: (Api, Delivery), media_type: &str, body: &str) -> Interpreted {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\n\r\n");
    let bytes = (head + body).into_bytes();
    let attempt = Attempt {
        reads: vec![Read {
            at_ns: 7,
            end: bytes.len(),
        }],
        bytes,
        end: End::Complete,
        ..Attempt::due(0, 1, None, 0)
    };
    interpret(&attempt, &prompt(), how, &BTreeMap::new(), None, None)
}

fn streamed(api: Api, body: &str) -> Interpreted {
    answered((api, Delivery::Streamed), "text/event-stream", body)
}

fn body(events: &[Value]) -> String {
    events.iter().map(|e| format!("data: {e}\n\n")).collect()
}

/// Interprets a stream of the chat API.
fn chat(events: &[Value]) -> Interpreted {
    streamed(Api::OpenaiChat, &(body(events) + DONE))
}

fn tokens(answer: &Interpreted) -> Vec<Option<i64>> {
    answer.chunks.iter().map(|chunk| chunk.tokens).collect()
}

fn sizes(answer: &Interpreted) -> Vec<i64> {
    let sizes = answer.chunks.iter().map(|chunk| chunk.bytes);
    sizes.flatten().collect()
}

/// Interprets a stream of SGLang's own API: the texts, and the tokens that it had counted by then.
fn sglang(parts: &[(&str, i64)]) -> Interpreted {
    let event = |(at, (text, count)): (usize, &(&str, i64))| {
        let end = (at + 1 == parts.len()).then(|| json!({"type": "length"}));
        json!({"text": text, "meta_info": {"completion_tokens": count, "finish_reason": end}})
    };
    let events: Vec<Value> = parts.iter().enumerate().map(event).collect();
    let answer = streamed(Api::SglangGenerate, &(body(&events) + DONE));
    assert_eq!(answer.row.status, RequestStatus::Ok, "{parts:?}");
    answer
}

#[test]
fn an_error_as_plain_json_under_the_media_type_of_a_stream_is_quoted() {
    let body = r#"{"error": {"message": "no such model", "code": 404}}"#;
    let answer = streamed(Api::OpenaiChat, body);
    assert_eq!(answer.row.status, RequestStatus::MalformedStream);
    let error = answer.row.error.unwrap();
    assert!(error.ends_with("no such model"), "{error}");
    // Comments and JSON that is not an error leave the stream as it is.
    for body in [": ping\n\n", "{}", ""] {
        let answer = streamed(Api::OpenaiChat, body);
        assert_eq!(answer.row.status, RequestStatus::TruncatedStream, "{body}");
    }
}

#[test]
fn segments_that_do_not_repeat_the_text_so_far_are_chunks() {
    for (parts, text, bytes) in [
        (
            &[(" the", 1), (" quick", 2), (" fox", 3)][..],
            " the quick fox",
            &[4, 6, 4][..],
        ),
        // Once it is clear what the server does, a repeated segment is one too.
        (
            &[(" a", 1), (" b", 2), (" b", 3), (" a", 4)],
            " a b b a",
            &[2, 2, 2, 2],
        ),
        (&[(" a", 1), (" b", 2), ("", 2)], " a b", &[2, 2]),
        (&[(" a", 1), ("", 1)], " a", &[2]),
        // The text so far, with an event at the end that has nothing new.
        (&[(" a", 1), (" a b", 2), (" a b", 2)], " a b", &[2, 2]),
        // A stop sequence is removed at the end.
        (&[(" a", 1), (" a ST", 2), (" a", 3)], " a", &[2, 3]),
        // Without further tokens, another text replaces the earlier one.
        (&[(" a", 1), (" b", 1)], " b", &[2]),
    ] {
        let answer = sglang(parts);
        assert_eq!(answer.text, text, "{parts:?}");
        assert_eq!(sizes(&answer), bytes, "{parts:?}");
        assert_eq!(tokens(&answer), vec![Some(1); bytes.len()], "{parts:?}");
    }
}

#[test]
fn a_text_so_far_that_is_corrected_is_no_segment() {
    let at_once = sglang(&[("Hello ,", 2), ("Hello, world", 4), ("Hello, world!", 5)]);
    assert_eq!(at_once.text, "Hello, world!");
    assert_eq!(sizes(&at_once), [7, 5, 1]);
    assert_eq!(tokens(&at_once), [Some(2), Some(2), Some(1)]);
    let later = sglang(&[(" a", 1), (" a b", 2), (" x y z", 3), (" x y z!", 4)]);
    assert_eq!(later.text, " x y z!");
    assert_eq!(sizes(&later), [2, 2, 2, 1]);
}

#[test]
fn a_completed_character_is_a_chunk_even_if_the_text_gets_no_longer() {
    let parts = [
        ("\u{fffd}", 1),
        ("漢", 2),
        ("漢\u{fffd}", 3),
        ("漢é", 4),
        ("漢é x", 5),
    ];
    let answer = sglang(&parts);
    assert_eq!(answer.text, "漢é x");
    assert_eq!(sizes(&answer), [3, 3, 3, 2, 2]);
    assert_eq!(tokens(&answer), [Some(1); 5]);
}

#[test]
fn tokens_of_events_without_text_belong_to_the_next_chunk() {
    let counted = |counts: &[(&str, i64)], total: Option<i64>| {
        let event = |(text, count): &(&str, i64)| {
            let usage = json!({"completion_tokens": count});
            json!({"choices": [{"delta": {"content": text}}], "usage": usage})
        };
        let mut events: Vec<Value> = counts.iter().map(event).collect();
        let usage = total.map(|total| json!({"completion_tokens": total}));
        events.push(json!({"choices": [], "usage": usage}));
        let answer = chat(&events);
        assert_eq!(answer.row.status, RequestStatus::Ok, "{counts:?}");
        let tokens = tokens(&answer);
        let first = answer.row.first_chunk_tokens;
        assert_eq!(first, tokens.first().copied().flatten());
        tokens
    };
    let one = Some(1);
    let hidden = [("", 0), ("", 1), ("", 10), (" a", 11), (" b", 12)];
    assert_eq!(counted(&hidden, None), [Some(11), one]);
    let between = [(" a", 1), (" b", 2), ("", 3), ("", 7), (" c", 8)];
    assert_eq!(counted(&between, None), [one, one, Some(6)]);
    assert_eq!(counted(&[(" a", 1), ("", 2)], Some(3)), [one]);
    // A chunk with text has a token. If the counts do not say so, only the total tells anything.
    for counts in [[(" a", 0), (" b", 0)], [(" a", 1), (" b", 1)]] {
        assert_eq!(counted(&counts, Some(2)), [one; 2], "{counts:?}");
        assert_eq!(counted(&counts, Some(3)), [None; 2], "{counts:?}");
    }
    // More than the total.
    assert_eq!(counted(&[(" a", 4), (" b", 8)], Some(7)), [None; 2]);
    let token = |text: &str| json!({"token": {"text": text, "special": false}});
    let last = json!({"token": {"text": "</s>", "special": true},
        "details": {"finish_reason": "eos_token", "generated_tokens": 4}});
    let events = [token(" a"), token(""), token("é"), last];
    let answer = streamed(Api::TgiGenerate, &body(&events));
    assert_eq!(tokens(&answer), [one, Some(2)]);
}

#[test]
fn usage_in_the_choice_or_beside_it_is_the_usage() {
    let text = json!({"choices": [{"delta": {"content": " w w w w"}}]});
    let usage = json!({"prompt_tokens": 7, "completion_tokens": 8});
    for end in [
        json!({"choices": [{"delta": {}, "finish_reason": "stop", "usage": usage}]}),
        json!({"choices": [{"delta": {}, "finish_reason": "stop"}], "x_groq": {"usage": usage}}),
    ] {
        let row = chat(&[text.clone(), text.clone(), end]).row;
        assert_eq!((row.output_tokens, row.prompt_tokens), (Some(8), Some(7)));
    }
}

#[test]
fn a_message_that_repeats_the_text_beside_each_delta_adds_nothing() {
    let event = |new: &str, all: &str, end: Option<&str>| {
        let choice =
            json!({"delta": {"content": new}, "message": {"content": all}, "finish_reason": end});
        json!({"choices": [choice]})
    };
    let events = [
        event(" a", " a", None),
        event(" b", " a b", None),
        event("", " a b", Some("stop")),
    ];
    let answer = chat(&events);
    assert_eq!((answer.text.as_str(), answer.chunks.len()), (" a b", 2));
    let how = (Api::OpenaiChat, Delivery::Whole);
    let whole = answered(how, "application/json", &events[2].to_string());
    assert_eq!(whole.text, " a b");
    assert_eq!(whole.row.status, RequestStatus::Ok);
}

#[test]
fn an_error_in_any_form_ends_no_answer_well() {
    let text = json!({"choices": [{"delta": {"content": " a"}, "error": null}], "error": null});
    let failed = |event: Value, words: &str| {
        let row = chat(&[text.clone(), event]).row;
        assert_eq!(row.status, RequestStatus::MalformedStream, "{words}");
        let reason = format!("the server reports an error in the answer: {words}");
        assert_eq!(row.error, Some(reason));
    };
    failed(
        json!({"object": "error", "message": "dead", "code": 500}),
        "dead",
    );
    failed(json!({"text": "busy", "error_code": 50004}), "busy");
    failed(json!({"detail": "Internal"}), "Internal");
    let choice = json!({"delta": {}, "finish_reason": "error", "error": {"message": "gone"}});
    failed(json!({"choices": [choice]}), "gone");
    let aborted = json!({"choices": [{"delta": {}, "finish_reason": "abort"}]});
    failed(aborted, "it ended with the finish reason `abort`");
    let stop = json!({"choices": [{"delta": {}, "finish_reason": "stop", "error": null}]});
    assert_eq!(chat(&[text.clone(), stop]).row.status, RequestStatus::Ok);
    // The event of the responses API.
    let said = json!({"type": "response.output_text.delta", "delta": " a"});
    let error = json!({"type": "error", "code": "x", "message": "boom", "param": null});
    let events = format!("data: {said}\n\nevent: error\ndata: {error}\n\n");
    let row = streamed(Api::OpenaiResponses, &events).row;
    let reason = "the server reports an error in the answer: boom";
    assert_eq!(row.error.as_deref(), Some(reason));
}

#[test]
fn a_message_needs_no_event_after_its_stop_reason() {
    let input = json!({"input_tokens": 7, "cache_read_input_tokens": 90,
        "cache_creation_input_tokens": 3, "output_tokens": 1});
    let delta = json!({"type": "text_delta", "text": " b"});
    let text = json!({"type": "content_block_delta", "index": 0, "delta": delta});
    let events = [
        json!({"type": "message_start", "message": {"usage": input}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": " a"}}),
        text.clone(),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
            "usage": {"input_tokens": 7, "output_tokens": 5}}),
    ];
    let stop = json!({"type": "message_stop"});
    let of_events = |more: &[Value]| {
        let body = body(&events) + &body(more);
        streamed(Api::AnthropicMessages, &body)
    };
    for more in [Vec::new(), vec![stop.clone()]] {
        let answer = of_events(&more);
        assert_eq!(answer.text, " a b");
        let row = answer.row;
        assert_eq!(row.status, RequestStatus::Ok, "{more:?}");
        assert_eq!(row.finish_reason.as_deref(), Some("stop"));
        let counts = (row.prompt_tokens, row.cached_prompt_tokens);
        assert_eq!(counts, (Some(100), Some(90)));
        assert_eq!(row.output_tokens, Some(5));
    }
    let row = of_events(&[stop, text]).row;
    assert_eq!(row.error.unwrap(), "the answer goes on after its end");
    let cut = streamed(Api::AnthropicMessages, &body(&events[..3])).row;
    assert_eq!(cut.status, RequestStatus::TruncatedStream);
}

#[test]
fn half_of_a_character_in_an_event_breaks_no_answer() {
    let event = |text: &str| {
        format!("data: {{\"choices\": [{{\"delta\": {{\"content\": \"{text}\"}}}}]}}\n\n")
    };
    let halves = event(r"\ud83d") + &event(r"\ude00") + &event(r"\\ud800x\ud83e\udd80\udc00");
    let answer = streamed(Api::OpenaiChat, &(halves.clone() + DONE));
    assert_eq!(answer.row.status, RequestStatus::Ok);
    assert_eq!(answer.text, "\u{fffd}\u{fffd}\\ud800x\u{1f980}\u{fffd}");
    assert_eq!(answer.chunks.len(), 3);
    // What is not JSON for another reason remains malformed.
    let broken = halves + "data: {\"a\": \"\\ud83d\" 5}\n\n" + DONE;
    let row = streamed(Api::OpenaiChat, &broken).row;
    let reason = r#"an event is not JSON: {"a": "\ud83d" 5}"#;
    assert_eq!(row.error.as_deref(), Some(reason));
}

/// Interprets a stream whose events arrive every 10 ms, the first after 10 ms.
fn paced(api: Api, events: &[Value]) -> Interpreted {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    let mut attempt = Attempt {
        sent_ns: Some(0),
        bytes: head.into(),
        end: End::Complete,
        ..Attempt::due(0, 1, None, 0)
    };
    for (i, event) in events.iter().enumerate() {
        attempt.bytes.extend(format!("data: {event}\n\n").bytes());
        attempt.reads.push(Read {
            at_ns: (i as u64 + 1) * 10_000_000,
            end: attempt.bytes.len(),
        });
    }
    attempt.bytes.extend(DONE.bytes());
    let last = attempt.reads.last_mut().unwrap();
    last.end = attempt.bytes.len();
    attempt.done_ns = last.at_ns;
    let how = (api, Delivery::Streamed);
    interpret(&attempt, &prompt(), how, &BTreeMap::new(), None, None)
}

/// The number of the first and the last event with a token, TPOT in ms, and the events that nobody can place.
fn spans(answer: &Interpreted) -> (i64, i64, Option<f64>, Option<i64>) {
    let row = &answer.row;
    assert_eq!(row.status, RequestStatus::Ok, "{:?}", row.error);
    let (first, last) = (row.first_token_ns.unwrap(), row.last_token_ns.unwrap());
    let number = |ns: i64| ns / 10_000_000;
    (
        number(first),
        number(last),
        row.tpot_ms(),
        row.silent_events,
    )
}

fn said(text: &str, count: Option<i64>, end: Option<&str>) -> Value {
    let choice = json!({"index": 0, "text": text, "finish_reason": end});
    let usage = count.map(|count| json!({"completion_tokens": count}));
    json!({"choices": [choice], "usage": usage})
}

fn total(tokens: i64) -> Value {
    json!({"choices": [], "usage": {"completion_tokens": tokens}})
}

#[test]
fn tokens_without_text_at_the_end_belong_to_tpot_and_e2e() {
    let api = Api::OpenaiCompletions;
    let right = (1, 20, Some(10.0), Some(0));
    // Ten tokens with text and ten without, counted at the end.
    let text = |i: i64| if i < 10 { "a " } else { "" };
    let end = |i: i64| (i == 19).then_some("length");
    let mut events: Vec<Value> = (0..20).map(|i| said(text(i), None, end(i))).collect();
    events.push(total(20));
    assert_eq!(spans(&paced(api, &events)), right);
    // The reason for the end comes in an event of its own, which has no token.
    events[19] = said("", None, None);
    events.insert(20, said("", None, Some("length")));
    assert_eq!(spans(&paced(api, &events)), right);
    // A single event without text, and one that ends the answer, have none either.
    let mut few: Vec<Value> = (0..10).map(|_| said("a", None, None)).collect();
    few.extend([
        said("", None, None),
        said("", None, Some("stop")),
        total(10),
    ]);
    assert_eq!(spans(&paced(api, &few)), (1, 10, Some(10.0), Some(0)));
    // Nor have several of them, if every token has text.
    few.insert(10, said("", None, None));
    assert_eq!(spans(&paced(api, &few)), (1, 10, Some(10.0), Some(0)));
    // In every event.
    let counted = |i: i64| said(text(i), Some(i + 1), end(i));
    let events: Vec<Value> = (0..20).map(counted).collect();
    assert_eq!(spans(&paced(api, &events)), right);
    let words = |i: i64| "a ".repeat(10.min(i as usize + 1));
    let sglang = |i: i64| {
        let end = end(i).map(|end| json!({"type": end}));
        json!({"text": words(i), "meta_info": {"completion_tokens": i + 1, "finish_reason": end}})
    };
    let events: Vec<Value> = (0..20).map(sglang).collect();
    assert_eq!(spans(&paced(Api::SglangGenerate, &events)), right);
    let tgi = |i: i64| {
        let details = end(i).map(|end| json!({"finish_reason": end, "generated_tokens": 20}));
        json!({"token": {"text": "w", "special": i >= 10}, "details": details})
    };
    let events: Vec<Value> = (0..20).map(tgi).collect();
    assert_eq!(spans(&paced(Api::TgiGenerate, &events)), right);
}

#[test]
fn tokens_without_text_before_the_first_text_do_not_shorten_tpot() {
    let events = |count: i64| {
        let text = |i: i64| if i < 10 { "" } else { "a " };
        let mut events: Vec<Value> = (0..20).map(|i| said(text(i), None, None)).collect();
        events.push(total(count));
        paced(Api::OpenaiCompletions, &events)
    };
    // The first text, which the definition of TTFT asks for, and the first token.
    let answer = events(20);
    assert_eq!(spans(&answer), (11, 20, Some(10.0), Some(0)));
    assert_eq!(answer.row.first_silent_ns, Some(10_000_000));
    assert_eq!(answer.row.first_chunk_tokens, Some(11));
    // Several tokens in an event: nobody can tell how many there are before the first text.
    assert_eq!(spans(&events(39)), (11, 20, Some(190.0 / 38.0), Some(10)));
    // The role of the message is not a token.
    let chunk = |delta: Value| json!({"choices": [{"delta": delta}]});
    let mut chat = vec![chunk(json!({"role": "assistant", "content": ""}))];
    chat.extend((0..10).map(|_| chunk(json!({"content": ""}))));
    chat.extend((0..10).map(|_| chunk(json!({"content": "a"}))));
    chat.push(total(20));
    let answer = paced(Api::OpenaiChat, &chat);
    assert_eq!(spans(&answer), (12, 21, Some(10.0), Some(0)));
    assert_eq!(answer.row.first_silent_ns, Some(20_000_000));
}

#[test]
fn events_without_text_that_no_count_explains_are_counted() {
    let text = |i: i64| if i < 10 { "a " } else { "" };
    let events: Vec<Value> = (0..20).map(|i| said(text(i), None, None)).collect();
    let answer = paced(Api::OpenaiCompletions, &events);
    assert_eq!(answer.row.output_tokens, Some(10));
    assert_eq!(spans(&answer), (1, 10, Some(10.0), Some(10)));
}

#[test]
fn calls_of_tools_and_refusals_are_generated_text() {
    let delta = |delta: Value| json!({"choices": [{"delta": delta}]});
    let call = |name: Option<&str>, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        delta(json!({"tool_calls": [{"index": 0, "function": function}]}))
    };
    let mut events: Vec<Value> = (0..5).map(|_| delta(json!({"content": "a "}))).collect();
    events.push(call(Some("f"), ""));
    events.extend((0..14).map(|_| call(None, "{\"")));
    events.push(total(20));
    let answer = paced(Api::OpenaiChat, &events);
    assert_eq!(spans(&answer), (1, 20, Some(10.0), Some(0)));
    assert_eq!(
        (answer.row.chunks, answer.text.as_str()),
        (Some(20), "a a a a a ")
    );
    assert_eq!(answer.row.output_characters, Some(10 + 1 + 28));
    let mut events: Vec<Value> = (0..9).map(|_| delta(json!({"refusal": "no "}))).collect();
    events.push(total(9));
    assert_eq!(
        spans(&paced(Api::OpenaiChat, &events)),
        (1, 9, Some(10.0), Some(0))
    );
    let block = |delta: Value| json!({"type": "content_block_delta", "delta": delta});
    let begins = json!({"type": "tool_use", "id": "t", "name": "f", "input": {}});
    let mut events = vec![
        block(json!({"type": "text_delta", "text": "hi "})),
        json!({"type": "content_block_start", "content_block": begins}),
    ];
    events.extend((0..6).map(|_| block(json!({"type": "input_json_delta", "partial_json": "{"}))));
    events.push(
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"},
        "usage": {"output_tokens": 8}}),
    );
    let answer = paced(Api::AnthropicMessages, &events);
    assert_eq!(spans(&answer), (1, 8, Some(10.0), Some(0)));
    let part = |kind: &str| json!({"type": format!("response.{kind}.delta"), "delta": "x"});
    let mut events = vec![part("output_text")];
    events.extend((0..6).map(|_| part("function_call_arguments")));
    events.push(json!({"type": "response.completed", "response":
        {"status": "completed", "usage": {"output_tokens": 7}}}));
    let answer = paced(Api::OpenaiResponses, &events);
    assert_eq!(spans(&answer), (1, 7, Some(10.0), Some(0)));
}
