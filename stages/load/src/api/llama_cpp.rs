//! llama.cpp's own `/completion`: no `[DONE]`; the event with `stop: true` is the last.

use serde_json::{Map, Value};

use super::{Ask, Told, insert, new_text, openai};

pub(super) fn body(ask: &Ask<'_>) -> Map<String, Value> {
    let mut body = Map::new();
    insert(&mut body, "prompt", Some(ask.text()));
    insert(&mut body, "n_predict", Some(ask.prompt.output_tokens));
    insert(&mut body, "temperature", Some(ask.sampling.temperature));
    insert(&mut body, "top_p", ask.sampling.top_p);
    insert(&mut body, "seed", ask.sampling.seed);
    insert(&mut body, "ignore_eos", ask.exact().then_some(true));
    insert(&mut body, "json_schema", ask.schema.cloned());
    insert(&mut body, "stream", Some(ask.streamed()));
    body
}

pub(super) fn read(event: &Value) -> Told {
    let stop = event["stop"].as_bool() == Some(true);
    Told {
        text: new_text(event["content"].as_str()),
        output_tokens: event["tokens_predicted"].as_i64(),
        prompt_tokens: event["tokens_evaluated"].as_i64(),
        cached_prompt_tokens: event["timings"]["cache_n"].as_i64(),
        finish_reason: stop.then(|| event["stop_type"].as_str().unwrap_or("stop").to_owned()),
        server: openai::timings(&event["timings"]),
        last: stop,
        ..Told::default()
    }
}
