//! The OpenAI completions and chat APIs, as implemented by vLLM, SGLang, TGI, llama.cpp and others.
//!
//! The usage may come in a chunk with or without `choices`; llama.cpp adds `timings` to the last one. Reasoning comes
//! as `reasoning_content` or `reasoning`. A JSON Schema goes into `response_format`.

use serde_json::{Map, Value, json};

use super::{
    Generation, Reading, Server, count, insert, is_first, new_reasoning, new_text, not_first,
    not_list, not_object, not_text, prompt_of, reason,
};

pub(super) fn completions_body(generation: &Generation<'_>) -> Map<String, Value> {
    let mut body = common(generation);
    body.insert("prompt".to_owned(), Value::from(generation.text()));
    body
}

pub(super) fn chat_body(generation: &Generation<'_>) -> Map<String, Value> {
    let mut body = common(generation);
    body.insert("messages".to_owned(), generation.messages());
    body
}

fn common(generation: &Generation<'_>) -> Map<String, Value> {
    let mut body = Map::new();
    insert(&mut body, "model", Some(generation.model));
    insert(&mut body, "max_tokens", Some(generation.output_tokens));
    insert(
        &mut body,
        "temperature",
        Some(generation.sampling.temperature),
    );
    insert(&mut body, "top_p", generation.sampling.top_p);
    insert(&mut body, "seed", generation.sampling.seed);
    insert(&mut body, "ignore_eos", generation.exact().then_some(true));
    insert(&mut body, "stream", Some(generation.streamed()));
    insert(
        &mut body,
        "response_format",
        generation.schema.map(|schema| {
            json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": true}})
        }),
    );
    insert(
        &mut body,
        "stream_options",
        generation
            .streamed()
            .then(|| json!({"include_usage": true})),
    );
    body
}

pub(super) fn read(event: &Value) -> Reading {
    // Text of another choice does not belong to this answer.
    let choice = match &event["choices"][0] {
        choice if is_first(choice) => choice,
        _ => &Value::Null,
    };
    let usage = &event["usage"];
    let parts = [&choice["delta"], &choice["message"]];
    let text_of = |keys: &[&str]| {
        let text = |part: &Value| {
            keys.iter()
                .find_map(|key| part[*key].as_str())
                .map(str::to_owned)
        };
        parts.into_iter().filter_map(text).collect::<String>()
    };
    let text = choice["text"].as_str().unwrap_or_default().to_owned() + &text_of(&["content"]);
    let details = &usage["completion_tokens_details"];
    let finish_reason = reason(&choice["finish_reason"]).map(str::to_owned);
    Reading {
        text: new_text(Some(&text)),
        reasoning: new_reasoning(Some(&text_of(&["reasoning_content", "reasoning"]))),
        reasoning_tokens: count(&details["reasoning_tokens"]),
        output_tokens: count(&usage["completion_tokens"]),
        prompt_tokens: count(&usage["prompt_tokens"]),
        cached_prompt_tokens: count(&usage["prompt_tokens_details"]["cached_tokens"]),
        server: timings(&event["timings"]),
        last: finish_reason.is_some(),
        finish_reason,
        wrong: wrong_form(event),
        ..Reading::default()
    }
}

/// Returns which part of an event has another form than the API says. A text that cannot be read is a chunk that is
/// missed, so that times would be wrong.
fn wrong_form(event: &Value) -> Option<String> {
    let choice = &event["choices"][0];
    let part = |name| {
        let texts = ["content", "reasoning_content", "reasoning"];
        not_object(name, &choice[name]).or_else(|| not_text(&choice[name], &texts))
    };
    not_list("choices", &event["choices"])
        .or_else(|| several(&event["choices"]))
        .or_else(|| not_object("choices", choice))
        .or_else(|| not_first(choice))
        .or_else(|| not_text(choice, &["text"]))
        .or_else(|| part("delta"))
        .or_else(|| part("message"))
}

/// Returns the problem with more than one choice. One is requested, and the times of others would be mixed into its own.
fn several(choices: &Value) -> Option<String> {
    let count = choices.as_array().map_or(0, Vec::len);
    (count > 1).then(|| format!("the answer has {count} choices, and one was requested"))
}

/// Parses llama.cpp's `timings` object.
pub(super) fn timings(timings: &Value) -> Server {
    let (new, cached) = (count(&timings["prompt_n"]), count(&timings["cache_n"]));
    Server {
        prompt_ms: timings["prompt_ms"].as_f64(),
        predicted_ms: timings["predicted_ms"].as_f64(),
        prompt_tokens: prompt_of(new, &[cached]),
        output_tokens: count(&timings["predicted_n"]),
        cached_prompt_tokens: cached,
    }
}
