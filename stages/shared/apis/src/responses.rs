//! OpenAI's responses API (`POST /v1/responses`), as implemented by vLLM, SGLang and others.
//!
//! The stream has events of many types, each with its `type` in the data; the last one has the usage. The system
//! message is `instructions`, and a JSON Schema goes into `text.format`. There is no seed, and no way to make a server
//! ignore the end of sequence.

use serde_json::{Map, Value, json};

use super::{
    Generation, Reading, Step, add_call, count, insert, new_reasoning, new_text, not_text,
};

pub(super) fn body(generation: &Generation<'_>) -> Map<String, Value> {
    let mut body = Map::new();
    insert(&mut body, "model", Some(generation.model));
    insert(&mut body, "instructions", generation.system);
    body.insert(
        "input".to_owned(),
        generation.turns(
            |image| json!({"type": "input_image", "image_url": image}),
            "input_text",
        ),
    );
    insert(
        &mut body,
        "max_output_tokens",
        Some(generation.output_tokens),
    );
    generation.insert_sampling(&mut body);
    insert(&mut body, "stream", Some(generation.streamed()));
    insert(&mut body, "store", Some(false));
    insert(
        &mut body,
        "text",
        generation.schema.map(|schema| {
            json!({"format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": true}})
        }),
    );
    body
}

pub(super) fn read(event: &Value) -> Reading {
    match event["type"].as_str() {
        Some("response.output_text.delta") => Reading {
            text: new_text(event["delta"].as_str()),
            step: Step::Part,
            wrong: not_text(event, &["delta"]),
            ..Reading::default()
        },
        // Servers name their reasoning differently: `reasoning_text`, `reasoning_summary_text`, `reasoning`.
        Some(kind) if kind.starts_with("response.reasoning") && kind.ends_with(".delta") => {
            Reading {
                reasoning: new_reasoning(part_of(&event["delta"])),
                wrong: wrong_part(event),
                ..Reading::default()
            }
        }
        // Audio arrives as Base64, which is not generated text.
        Some("response.audio.delta") => Reading::default(),
        // Arguments of calls, code, refusals: whatever comes piece by piece is generated.
        Some(kind) if kind.ends_with(".delta") => Reading {
            other: new_reasoning(part_of(&event["delta"])),
            // An event of a server's own may have a piece of any form.
            wrong: wrong_part(event)
                .filter(|_| kind == "response.refusal.delta" || kind.contains("_call")),
            ..Reading::default()
        },
        // A call begins with the name of its tool.
        Some("response.output_item.added") => {
            let mut name = String::new();
            add_call(&json!({"name": event["item"]["name"]}), &mut name);
            Reading {
                other: new_reasoning(Some(&name)),
                ..Reading::default()
            }
        }
        Some("response.completed" | "response.incomplete" | "response.failed") => {
            // The text has already arrived, piece by piece.
            Reading {
                text: None,
                reasoning: None,
                other: None,
                ..response(&event["response"])
            }
        }
        Some("error") => Reading {
            error: event["message"].as_str().map(str::to_owned),
            ..Reading::default()
        },
        Some(_) => Reading::default(),
        None => response(event),
    }
}

/// Returns the text of a piece: a text, or an object with one.
fn part_of(delta: &Value) -> Option<&str> {
    delta.as_str().or_else(|| delta["text"].as_str())
}

/// Returns the problem with a piece that is neither.
fn wrong_part(event: &Value) -> Option<String> {
    not_text(event, &["delta"]).filter(|_| !event["delta"].is_object())
}

/// Parses a complete response.
fn response(response: &Value) -> Reading {
    let (mut text, mut reasoning, mut other) = (String::new(), String::new(), String::new());
    for item in response["output"].as_array().into_iter().flatten() {
        add_call(item, &mut other);
        for part in item["content"].as_array().into_iter().flatten() {
            let said = part["text"].as_str().unwrap_or_default();
            match part["type"].as_str() {
                Some("output_text") => text.push_str(said),
                Some("reasoning_text") => reasoning.push_str(said),
                Some("refusal") => {
                    other.push_str(part["refusal"].as_str().unwrap_or_default());
                }
                _ => {}
            }
        }
    }
    let usage = &response["usage"];
    let status = response["status"].as_str();
    let why = response["incomplete_details"]["reason"].as_str();
    let why = why.map(|why| {
        if why == "max_output_tokens" {
            "length"
        } else {
            why
        }
    });
    let ended = matches!(status, Some("completed" | "incomplete"));
    Reading {
        text: new_text(Some(&text)),
        reasoning: new_reasoning(Some(&reasoning)),
        other: new_reasoning(Some(&other)),
        reasoning_tokens: count(&usage["output_tokens_details"]["reasoning_tokens"]),
        output_tokens: count(&usage["output_tokens"]),
        prompt_tokens: count(&usage["input_tokens"]),
        cached_prompt_tokens: count(&usage["input_tokens_details"]["cached_tokens"]),
        finish_reason: ended.then(|| why.unwrap_or("stop").to_owned()),
        error: super::error_in(response),
        last: ended,
        ..Reading::default()
    }
}
