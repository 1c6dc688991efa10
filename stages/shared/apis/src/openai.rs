//! The OpenAI completions and chat APIs, as implemented by vLLM, SGLang, TGI, llama.cpp and others.
//!
//! The usage may come in a chunk with or without `choices`, in its first choice (Moonshot), or under `x_groq`; llama.cpp
//! adds `timings` to the last one. Reasoning comes as `reasoning_content`, `reasoning` or `thinking`, or as a part of a
//! list (Mistral). A call of a tool and a refusal are generated text, too. A JSON Schema goes into `response_format`.

use serde_json::{Map, Value, json};

use super::{
    Generation, Reading, Server, Step, add_call, count, error_in, insert, is_first, new_reasoning,
    new_text, not_first, not_list, not_object, not_text, prompt_of, reason,
};

/// The names of reasoning. Servers may send several of them; the first with text counts.
const REASONING: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];

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
    generation.insert_sampling(&mut body);
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
    // Perplexity repeats the whole text so far as `message` beside each `delta`.
    let part = match &choice["delta"] {
        Value::Null => &choice["message"],
        delta => delta,
    };
    let groq = &event["x_groq"];
    let usage = first_given([&event["usage"], &choice["usage"], &groq["usage"]]);
    let (mut text, mut listed) = (String::new(), String::new());
    text.push_str(choice["text"].as_str().unwrap_or_default());
    add_content(&part["content"], &mut text, &mut listed);
    let reasoning = |name: &str| {
        let mut thought = String::new();
        add_reasoning(&part[name], &mut thought);
        Some(thought).filter(|thought| !thought.is_empty())
    };
    let thought: Option<String> = REASONING.into_iter().find_map(reasoning);
    let details = &usage["completion_tokens_details"];
    let finish_reason = reason(&choice["finish_reason"]).map(str::to_owned);
    Reading {
        text: new_text(Some(&text)),
        reasoning: new_reasoning(Some(&thought.unwrap_or(listed))),
        other: other_text(&part["refusal"], &part["tool_calls"]),
        step: step(choice.is_object(), !part["role"].is_null()),
        reasoning_tokens: count(&details["reasoning_tokens"]),
        output_tokens: count(&usage["completion_tokens"]),
        prompt_tokens: count(&usage["prompt_tokens"]),
        cached_prompt_tokens: count(&usage["prompt_tokens_details"]["cached_tokens"]),
        server: timings(&event["timings"]),
        last: finish_reason.is_some(),
        finish_reason,
        error: error_in(choice).or_else(|| error_in(groq)),
        wrong: wrong_form(event),
        ..Reading::default()
    }
}

/// Returns the first of several places that has a value.
pub(super) fn first_given(places: [&Value; 3]) -> &Value {
    let given = places.into_iter().find(|place| !place.is_null());
    given.unwrap_or(&Value::Null)
}

/// Returns the text of a refusal and of the calls of tools, if there is any.
pub(super) fn other_text(refusal: &Value, calls: &Value) -> Option<String> {
    let mut text = refusal.as_str().unwrap_or_default().to_owned();
    for call in calls.as_array().into_iter().flatten() {
        add_call(&call["function"], &mut text);
    }
    Some(text).filter(|text| !text.is_empty())
}

/// Returns which step of the generation an event is, by whether it has a choice and whether it names a role.
pub(super) fn step(has_choice: bool, has_role: bool) -> Step {
    match (has_choice, has_role) {
        (false, _) => Step::None,
        (true, true) => Step::Role,
        (true, false) => Step::Part,
    }
}

/// Adds the text of a content and the reasoning in it. The content is text or, as in Mistral's answers, a list of parts.
fn add_content(content: &Value, text: &mut String, thought: &mut String) {
    match content {
        Value::String(new) => text.push_str(new),
        Value::Array(parts) => {
            for part in parts {
                add_content(&part["text"], text, thought);
                add_reasoning(&part["thinking"], thought);
            }
        }
        _ => {}
    }
}

/// Adds all text of reasoning, which has the form of a content.
fn add_reasoning(content: &Value, thought: &mut String) {
    match content {
        Value::String(new) => thought.push_str(new),
        Value::Array(parts) => {
            for part in parts {
                add_reasoning(&part["text"], thought);
                add_reasoning(&part["thinking"], thought);
            }
        }
        _ => {}
    }
}

/// Returns whether a content is neither missing nor text nor a list of parts with such contents.
fn is_odd(content: &Value) -> bool {
    let odd =
        |part: &Value| !part.is_object() || is_odd(&part["text"]) || is_odd(&part["thinking"]);
    match content {
        Value::Null | Value::String(_) => false,
        Value::Array(parts) => parts.iter().any(odd),
        _ => true,
    }
}

/// Returns which part of an event has another form than the API says. A text that cannot be read is a chunk that is
/// missed, so that times would be wrong.
fn wrong_form(event: &Value) -> Option<String> {
    let choice = &event["choices"][0];
    let part = |name: &str| {
        let part = &choice[name];
        let mut texts = ["content"].into_iter().chain(REASONING);
        let odd = texts.find(|text| is_odd(&part[*text]));
        not_object(name, part)
            .or_else(|| odd.map(|text| format!("`{text}` in the answer is not text")))
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
