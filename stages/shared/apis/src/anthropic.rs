//! Anthropic's messages API (`POST /v1/messages`), as implemented by Anthropic, vLLM, llama.cpp and others.
//!
//! The system message is separate from the messages. The first event has the input tokens, without those read from the
//! cache or written to it. The last event but one has the output tokens, and may have some of the input tokens again.
//! There is no seed, no JSON Schema, and no way to make a server ignore the end of sequence.

use serde_json::{Map, Value, json};

use super::{
    Generation, PromptParts, Reading, Step, add_call, count, insert, new_reasoning, new_text,
    not_text, reason,
};

pub(super) fn body(generation: &Generation<'_>) -> Map<String, Value> {
    let mut body = Map::new();
    insert(&mut body, "model", Some(generation.model));
    insert(&mut body, "max_tokens", Some(generation.output_tokens));
    insert(&mut body, "system", generation.system);
    body.insert("messages".to_owned(), generation.turns(|image| {
        let data = image.split_once(',').map_or(image, |(_, data)| data);
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}})
    }, "text"));
    generation.insert_sampling(&mut body);
    insert(&mut body, "stream", Some(generation.streamed()));
    body
}

pub(super) fn read(event: &Value) -> Reading {
    match event["type"].as_str() {
        Some("message_start") => usage(&event["message"]["usage"], Reading::default()),
        // A block begins empty in Anthropic's own streams, and with its first text in those of others.
        Some("content_block_start") => block(&event["content_block"]),
        Some("content_block_delta") => block(&event["delta"]),
        Some("message_delta") => {
            let finish_reason = reason(&event["delta"]["stop_reason"]).map(common_reason);
            usage(
                &event["usage"],
                Reading {
                    last: finish_reason.is_some(),
                    finish_reason,
                    ..Reading::default()
                },
            )
        }
        Some("message_stop") => Reading {
            last: true,
            ..Reading::default()
        },
        Some("message") => whole(event),
        _ => Reading::default(),
    }
}

fn block(part: &Value) -> Reading {
    Reading {
        text: new_text(part["text"].as_str()),
        reasoning: new_reasoning(part["thinking"].as_str()),
        other: call(part),
        step: if part["text"].is_string() {
            Step::Part
        } else {
            Step::None
        },
        wrong: not_text(part, &["text", "thinking", "partial_json"]),
        ..Reading::default()
    }
}

/// Returns the generated text of the call of a tool: its name where it begins, its input piece by piece, or both.
fn call(part: &Value) -> Option<String> {
    let mut text = part["partial_json"].as_str().unwrap_or_default().to_owned();
    // Tools of the client, of the server and of MCP: `tool_use`, `server_tool_use`, `mcp_tool_use`.
    let kind = part["type"].as_str();
    if kind.is_some_and(|kind| kind.ends_with("tool_use")) {
        let input = &part["input"];
        let empty = input.as_object().is_some_and(Map::is_empty);
        let input = if empty { &Value::Null } else { input };
        add_call(
            &json!({"name": part["name"], "arguments": input}),
            &mut text,
        );
    }
    new_reasoning(Some(&text))
}

fn whole(message: &Value) -> Reading {
    let blocks = || message["content"].as_array().into_iter().flatten();
    let text_of = |key: &str| blocks().filter_map(|b| b[key].as_str()).collect::<String>();
    let finish_reason = reason(&message["stop_reason"]).map(common_reason);
    let reading = Reading {
        text: new_text(Some(&text_of("text"))),
        reasoning: new_reasoning(Some(&text_of("thinking"))),
        other: new_reasoning(Some(&blocks().filter_map(call).collect::<String>())),
        last: finish_reason.is_some(),
        finish_reason,
        ..Reading::default()
    };
    usage(&message["usage"], reading)
}

/// Returns the other APIs' name for a reason to stop.
fn common_reason(reason: &str) -> String {
    match reason {
        "max_tokens" => "length",
        "end_turn" | "stop_sequence" => "stop",
        other => other,
    }
    .to_owned()
}

fn usage(usage: &Value, reading: Reading) -> Reading {
    let parts = PromptParts {
        new: count(&usage["input_tokens"]),
        cached: count(&usage["cache_read_input_tokens"]),
        written: count(&usage["cache_creation_input_tokens"]),
    };
    // At the start a message reports zero or one token. The final count comes at its end.
    let ended = reading.finish_reason.is_some();
    Reading {
        prompt_tokens: parts.total(),
        cached_prompt_tokens: parts.cached,
        prompt_parts: parts,
        output_tokens: count(&usage["output_tokens"]).filter(|_| ended),
        ..reading
    }
}
