//! llama.cpp's own `/completion`: no `[DONE]`; the event with `stop: true` is the last.

use serde_json::{Map, Value};

use super::{
    Generation, Reading, Step, count, insert, is_first, new_text, not_first, not_text, openai,
};

pub(super) fn body(generation: &Generation<'_>) -> Map<String, Value> {
    let mut body = Map::new();
    insert(&mut body, "prompt", Some(generation.text()));
    insert(&mut body, "n_predict", Some(generation.output_tokens));
    generation.insert_sampling(&mut body);
    insert(&mut body, "seed", generation.sampling.seed);
    insert(&mut body, "ignore_eos", generation.exact().then_some(true));
    insert(&mut body, "json_schema", generation.schema.cloned());
    insert(&mut body, "stream", Some(generation.streamed()));
    body
}

pub(super) fn read(event: &Value) -> Reading {
    let stop = event["stop"].as_bool() == Some(true);
    Reading {
        text: new_text(event["content"].as_str().filter(|_| is_first(event))),
        step: if event["content"].is_string() {
            Step::Part
        } else {
            Step::None
        },
        output_tokens: count(&event["tokens_predicted"]),
        prompt_tokens: count(&event["tokens_evaluated"]),
        cached_prompt_tokens: count(&event["timings"]["cache_n"]),
        finish_reason: stop.then(|| event["stop_type"].as_str().unwrap_or("stop").to_owned()),
        server: openai::timings(&event["timings"]),
        last: stop,
        wrong: not_text(event, &["content"]).or_else(|| not_first(event)),
        ..Reading::default()
    }
}
