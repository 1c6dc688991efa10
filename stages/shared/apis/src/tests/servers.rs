//! What single servers send otherwise than the API says.

use super::*;

/// Reads an event of the chat API, which the reader without a tree must read alike, if it reads it.
fn chat(event: &Value) -> Reading {
    let read = Api::OpenaiChat.read(event);
    let direct = Api::OpenaiChat.read_directly(event.to_string().as_bytes());
    assert!(direct.is_none_or(|direct| direct == read), "{event}");
    read
}

fn new(text: &str) -> Option<Text> {
    Some(Text::New(text.to_owned()))
}

#[test]
fn a_message_counts_only_without_a_delta() {
    // Perplexity.
    let both = json!({"choices": [{"delta": {"content": " b"}, "message": {"content": " a b"}}]});
    assert_eq!(chat(&both).text, new(" b"));
    let end = json!({"choices": [{"delta": {}, "message": {"content": " a b", "reasoning": "c"}}]});
    assert_eq!((chat(&end).text, chat(&end).reasoning), (None, None));
    for message in [
        json!({"choices": [{"message": {"content": " a b"}}]}),
        json!({"choices": [{"delta": null, "message": {"content": " a b"}}]}),
    ] {
        assert_eq!(chat(&message).text, new(" a b"), "{message}");
    }
    // Its whole answers have an empty delta too.
    let mut whole = json!({"choices": [{"delta": {"content": ""}, "message": {"content": " a"}}]});
    drop_delta(&mut whole);
    assert_eq!(chat(&whole).text, new(" a"));
    let mut streamed = json!({"choices": [{"delta": {"content": " a"}, "message": null}]});
    drop_delta(&mut streamed);
    assert_eq!(chat(&streamed).text, new(" a"));
}

#[test]
fn usage_is_read_where_moonshot_and_groq_put_it() {
    let usage = json!({"prompt_tokens": 7, "completion_tokens": 16});
    for event in [
        json!({"choices": [{"delta": {}, "finish_reason": "stop", "usage": usage}]}),
        json!({"choices": [{"delta": {}, "usage": usage}], "usage": null}),
        json!({"choices": [{"delta": {}}], "x_groq": {"id": "q", "usage": usage}}),
        json!({"choices": [], "usage": usage, "x_groq": {"usage": {"completion_tokens": 9}}}),
    ] {
        let read = chat(&event);
        let counts = (read.prompt_tokens, read.output_tokens);
        assert_eq!(counts, (Some(7), Some(16)), "{event}");
        assert!(
            Api::OpenaiChat
                .read_directly(event.to_string().as_bytes())
                .is_some()
        );
    }
}

#[test]
fn reasoning_is_read_under_each_of_its_names_and_in_lists() {
    let thinking = |content: Value| json!([{"type": "thinking", "thinking": content}]);
    for delta in [
        json!({"content": "", "reasoning_content": "", "reasoning": " a"}),
        json!({"reasoning_content": " a", "reasoning": " a"}),
        json!({"content": null, "thinking": " a"}),
        json!({"content": thinking(json!(" a"))}),
        // Mistral.
        json!({"content": thinking(json!([{"type": "text", "text": " a"}]))}),
        json!({"content": [], "reasoning": [{"type": "text", "text": " a"}]}),
    ] {
        let read = chat(&json!({"choices": [{"delta": delta}]}));
        let parts = (read.reasoning.as_deref(), read.text, read.wrong);
        assert_eq!(parts, (Some(" a"), None, None), "{delta}");
    }
    let both = json!([
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "reference", "reference_ids": [1]},
        {"type": "text", "text": "b"},
        {"type": "text", "text": "c"},
    ]);
    let read = chat(&json!({"choices": [{"message": {"content": both}}]}));
    assert_eq!(
        (read.reasoning.as_deref(), read.text, read.wrong),
        (Some("hm"), new("bc"), None)
    );
}

#[test]
fn an_error_is_one_in_each_form_that_servers_give_it() {
    for (event, words) in [
        (
            json!({"object": "error", "message": "dead", "code": 500}),
            "dead",
        ),
        (json!({"text": "busy", "error_code": 50004}), "busy"),
        (json!({"error_code": "17", "error_msg": "busy"}), "busy"),
        (json!({"detail": "Internal"}), "Internal"),
        (json!({"detail": [{"msg": "no"}]}), r#"[{"msg":"no"}]"#),
        (
            json!({"choices": [{"delta": {}, "error": {"code": 502, "message": "gone"}}]}),
            "gone",
        ),
        (json!({"choices": [], "x_groq": {"error": "over"}}), "over"),
        (
            json!({"choices": [{"delta": {}, "finish_reason": "error"}]}),
            "it ended with the finish reason `error`",
        ),
        (
            json!({"choices": [{"text": "", "finish_reason": "abort"}]}),
            "it ended with the finish reason `abort`",
        ),
    ] {
        assert_eq!(chat(&event).error.as_deref(), Some(words), "{event}");
    }
    let delta = json!({"content": "a"});
    for event in [
        json!({"error": null, "choices": [{"delta": delta, "error": null}]}),
        json!({"object": "chat.completion.chunk", "choices": [{"delta": delta}], "detail": "low"}),
        json!({"error_code": 7, "choices": [{"delta": delta}]}),
        json!({"error_code": 0, "detail": null}),
        json!({"choices": [{"delta": {"object": "error"}, "object": "error"}], "error_code": ""}),
    ] {
        assert_eq!(chat(&event).error, None, "{event}");
    }
    let ping = json!({"type": "ping", "detail": "a"});
    assert_eq!(Api::AnthropicMessages.read(&ping), Reading::default());
    let error = json!({"type": "error", "code": "x", "message": "boom", "param": null});
    assert_eq!(words_of_error(&error).as_deref(), Some("boom"));
    assert_eq!(words_of_error(&json!({"status": "ok"})), None);
}

#[test]
fn parts_of_a_prompt_that_a_later_event_repeats_are_added_once() {
    let parts = |usages: &[Value]| {
        let mut parts = PromptParts::default();
        for usage in usages {
            let event = json!({"type": "message_delta", "delta": {}, "usage": usage});
            parts.update(Api::AnthropicMessages.read(&event).prompt_parts);
        }
        (parts.total(), parts.cached)
    };
    let start = json!({"input_tokens": 7, "cache_read_input_tokens": 90,
        "cache_creation_input_tokens": 3, "output_tokens": 1});
    let zero = json!({"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 5});
    for (later, expected) in [
        (json!({"output_tokens": 5}), (Some(100), Some(90))),
        (json!({"input_tokens": 7}), (Some(100), Some(90))),
        (json!({"input_tokens": 8}), (Some(101), Some(90))),
        (json!({"cache_read_input_tokens": 80}), (Some(90), Some(80))),
        (zero.clone(), (Some(100), Some(90))),
    ] {
        assert_eq!(parts(&[start.clone(), later.clone()]), expected, "{later}");
    }
    assert_eq!(parts(&[zero.clone(), start]), (Some(100), Some(90)));
    assert_eq!(parts(&[zero]), (Some(0), Some(0)));
    let wrong = json!({"type": "message_delta", "usage": {"cache_creation_input_tokens": -1}});
    let read = Api::AnthropicMessages.read(&wrong);
    assert_eq!(read.prompt_parts.written, Some(-1));
}

#[test]
fn a_message_is_complete_with_its_reason_and_a_block_may_begin_with_text() {
    let events = [
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 7, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "hm"}}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": " a"}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": " b"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 3}}),
    ];
    let counts = [Some(7), None, Some(3)];
    let expected = (
        "hm| a b".to_owned(),
        counts,
        Some("length".to_owned()),
        true,
    );
    assert_eq!(total_content(Api::AnthropicMessages, &events), expected);
    let open = json!({"type": "message_delta", "delta": {"stop_reason": null}});
    assert!(!Api::AnthropicMessages.read(&open).last);
}
