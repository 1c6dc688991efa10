//! SGLang's `/generate`: each event repeats the complete text so far and counts its tokens.

use serde_json::{Map, Value, json};

use super::{
    Generation, Reading, Step, Text, count, insert, is_first, not_first, not_text, reason,
};

pub(super) fn body(generation: &Generation<'_>) -> Map<String, Value> {
    let mut sampling = Map::new();
    insert(
        &mut sampling,
        "max_new_tokens",
        Some(generation.output_tokens),
    );
    generation.insert_sampling(&mut sampling);
    insert(&mut sampling, "sampling_seed", generation.sampling.seed);
    insert(
        &mut sampling,
        "ignore_eos",
        generation.exact().then_some(true),
    );
    // SGLang takes the schema as text, not as an object.
    insert(
        &mut sampling,
        "json_schema",
        generation.schema.map(Value::to_string),
    );
    let mut body = Map::new();
    insert(&mut body, "text", Some(generation.text()));
    body.insert("sampling_params".to_owned(), json!(sampling));
    insert(&mut body, "stream", Some(generation.streamed()));
    body
}

pub(super) fn read(event: &Value) -> Reading {
    let meta = &event["meta_info"];
    let ended = &meta["finish_reason"];
    let finish_reason = reason(&ended["type"])
        .or_else(|| reason(ended))
        .map(str::to_owned);
    let aborted = finish_reason.as_deref() == Some("abort");
    Reading {
        text: event["text"]
            .as_str()
            .filter(|_| is_first(event))
            .map(|t| Text::SoFar(t.to_owned())),
        step: if event["text"].is_string() {
            Step::Part
        } else {
            Step::None
        },
        output_tokens: count(&meta["completion_tokens"]),
        prompt_tokens: count(&meta["prompt_tokens"]),
        cached_prompt_tokens: count(&meta["cached_tokens"]),
        error: aborted.then(|| {
            ended["message"]
                .as_str()
                .unwrap_or("the server aborted")
                .to_owned()
        }),
        last: finish_reason.is_some(),
        wrong: not_text(event, &["text"]).or_else(|| not_first(event)),
        finish_reason,
        ..Reading::default()
    }
}
