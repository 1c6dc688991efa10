//! Ollama's `/api/generate` and `/api/chat`: JSON lines; counts and times come with `done`.

use serde_json::{Map, Value, json};

use super::{
    Generation, Reading, Server, Step, count, insert, new_reasoning, new_text, not_object,
    not_text, openai,
};

pub(super) fn generate_body(generation: &Generation<'_>) -> Map<String, Value> {
    let mut body = common(generation);
    // The system message has a separate field.
    insert(
        &mut body,
        "prompt",
        Some(
            Generation {
                system: None,
                ..*generation
            }
            .text(),
        ),
    );
    insert(&mut body, "system", generation.system);
    body
}

pub(super) fn chat_body(generation: &Generation<'_>) -> Map<String, Value> {
    let mut body = common(generation);
    body.insert("messages".to_owned(), generation.messages());
    body
}

fn common(generation: &Generation<'_>) -> Map<String, Value> {
    let mut options = Map::new();
    insert(&mut options, "num_predict", Some(generation.output_tokens));
    generation.insert_sampling(&mut options);
    insert(&mut options, "seed", generation.sampling.seed);
    let mut body = Map::new();
    insert(&mut body, "model", Some(generation.model));
    insert(&mut body, "stream", Some(generation.streamed()));
    insert(&mut body, "format", generation.schema.cloned());
    // Otherwise Ollama answers a prompt that exceeds the context from a part of it, without a word.
    insert(&mut body, "truncate", Some(false));
    body.insert("options".to_owned(), json!(options));
    body
}

pub(super) fn read(event: &Value) -> Reading {
    let message = &event["message"];
    let text = event["response"]
        .as_str()
        .or_else(|| message["content"].as_str());
    let thinking = event["thinking"]
        .as_str()
        .or_else(|| message["thinking"].as_str());
    let done = event["done"].as_bool() == Some(true);
    let ms = |key: &str| event[key].as_f64().map(|ns| ns / 1e6);
    Reading {
        text: new_text(text),
        reasoning: new_reasoning(thinking),
        other: openai::other_text(&Value::Null, &message["tool_calls"]),
        step: if text.is_some() {
            Step::Part
        } else {
            Step::None
        },
        output_tokens: count(&event["eval_count"]),
        prompt_tokens: count(&event["prompt_eval_count"]),
        finish_reason: ended(&event["done_reason"], done),
        server: Server {
            prompt_ms: ms("prompt_eval_duration"),
            predicted_ms: ms("eval_duration"),
            ..Server::default()
        },
        last: done,
        wrong: not_object("message", message)
            .or_else(|| not_text(event, &["response", "thinking"]))
            .or_else(|| not_text(message, &["content", "thinking"])),
        ..Reading::default()
    }
}

/// Returns why generation ended. Older versions give no reason.
fn ended(reason: &Value, done: bool) -> Option<String> {
    let reason = match reason {
        Value::Null => Some("stop"),
        given => given.as_str(),
    };
    reason.filter(|_| done).map(str::to_owned)
}
