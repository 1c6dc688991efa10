//! Ollama's `/api/generate` and `/api/chat`: JSON lines; counts and times come with `done`.

use serde_json::{Map, Value, json};

use super::{Ask, Server, Told, insert, new_reasoning, new_text};

pub(super) fn generate_body(ask: &Ask<'_>) -> Map<String, Value> {
    let mut body = common(ask);
    // The system message has a field of its own.
    insert(
        &mut body,
        "prompt",
        Some(
            Ask {
                system: None,
                ..*ask
            }
            .text(),
        ),
    );
    insert(&mut body, "system", ask.system);
    body
}

pub(super) fn chat_body(ask: &Ask<'_>) -> Map<String, Value> {
    let mut body = common(ask);
    body.insert("messages".to_owned(), ask.messages());
    body
}

fn common(ask: &Ask<'_>) -> Map<String, Value> {
    let mut options = Map::new();
    insert(&mut options, "num_predict", Some(ask.prompt.output_tokens));
    insert(&mut options, "temperature", Some(ask.sampling.temperature));
    insert(&mut options, "top_p", ask.sampling.top_p);
    insert(&mut options, "seed", ask.sampling.seed);
    let mut body = Map::new();
    insert(&mut body, "model", Some(ask.model));
    insert(&mut body, "stream", Some(ask.streamed()));
    insert(&mut body, "format", ask.schema.cloned());
    body.insert("options".to_owned(), json!(options));
    body
}

pub(super) fn read(event: &Value) -> Told {
    let message = &event["message"];
    let text = event["response"]
        .as_str()
        .or_else(|| message["content"].as_str());
    let thinking = event["thinking"]
        .as_str()
        .or_else(|| message["thinking"].as_str());
    let done = event["done"].as_bool() == Some(true);
    let ms = |key: &str| event[key].as_f64().map(|ns| ns / 1e6);
    Told {
        text: new_text(text),
        reasoning: new_reasoning(thinking),
        output_tokens: event["eval_count"].as_i64(),
        prompt_tokens: event["prompt_eval_count"].as_i64(),
        finish_reason: done.then(|| event["done_reason"].as_str().unwrap_or("stop").to_owned()),
        server: Server {
            prompt_ms: ms("prompt_eval_duration"),
            predicted_ms: ms("eval_duration"),
            ..Server::default()
        },
        last: done,
        ..Told::default()
    }
}
