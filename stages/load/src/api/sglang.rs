//! SGLang's `/generate`: each event repeats the whole text so far and counts its tokens.

use serde_json::{Map, Value, json};

use super::{Ask, Text, Told, insert};

pub(super) fn body(ask: &Ask<'_>) -> Map<String, Value> {
    let mut sampling = Map::new();
    insert(
        &mut sampling,
        "max_new_tokens",
        Some(ask.prompt.output_tokens),
    );
    insert(&mut sampling, "temperature", Some(ask.sampling.temperature));
    insert(&mut sampling, "top_p", ask.sampling.top_p);
    insert(&mut sampling, "sampling_seed", ask.sampling.seed);
    insert(&mut sampling, "ignore_eos", ask.exact().then_some(true));
    // The schema as text, not as an object.
    insert(
        &mut sampling,
        "json_schema",
        ask.schema.map(Value::to_string),
    );
    let mut body = Map::new();
    insert(&mut body, "text", Some(ask.text()));
    body.insert("sampling_params".to_owned(), json!(sampling));
    insert(&mut body, "stream", Some(ask.streamed()));
    body
}

pub(super) fn read(event: &Value) -> Told {
    let meta = &event["meta_info"];
    let reason = &meta["finish_reason"];
    let finish_reason = reason["type"]
        .as_str()
        .or_else(|| reason.as_str())
        .map(str::to_owned);
    let aborted = finish_reason.as_deref() == Some("abort");
    Told {
        text: event["text"].as_str().map(|t| Text::SoFar(t.to_owned())),
        output_tokens: meta["completion_tokens"].as_i64(),
        prompt_tokens: meta["prompt_tokens"].as_i64(),
        cached_prompt_tokens: meta["cached_tokens"].as_i64(),
        error: aborted.then(|| {
            reason["message"]
                .as_str()
                .unwrap_or("the server aborted")
                .to_owned()
        }),
        last: finish_reason.is_some(),
        finish_reason,
        ..Told::default()
    }
}
