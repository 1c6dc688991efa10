//! TGI's `/generate_stream` and `/generate`: one event per token; the count is in `details`.

use serde_json::{Map, Value, json};

use super::{Generation, Reading, count, insert, new_text, not_object, not_text, reason};

pub(super) fn body(generation: &Generation<'_>) -> Map<String, Value> {
    let mut parameters = Map::new();
    insert(
        &mut parameters,
        "max_new_tokens",
        Some(generation.output_tokens),
    );
    // Temperature 0 is refused; greedy means not to sample.
    let greedy = generation.sampling.temperature == 0.0;
    insert(&mut parameters, "do_sample", Some(!greedy));
    insert(
        &mut parameters,
        "temperature",
        (!greedy).then_some(generation.sampling.temperature),
    );
    // It refuses 1, which cuts nothing.
    let cut = generation.sampling.top_p.filter(|top_p| *top_p < 1.0);
    insert(&mut parameters, "top_p", cut);
    insert(&mut parameters, "seed", generation.sampling.seed);
    insert(&mut parameters, "details", Some(true));
    insert(
        &mut parameters,
        "grammar",
        generation
            .schema
            .map(|schema| json!({"type": "json", "value": schema})),
    );
    let mut body = Map::new();
    insert(&mut body, "inputs", Some(generation.text()));
    body.insert("parameters".to_owned(), json!(parameters));
    body
}

pub(super) fn read(event: &Value) -> Reading {
    let token = &event["token"];
    let details = &event["details"];
    let special = token["special"].as_bool() == Some(true);
    let text = if token.is_object() {
        token["text"].as_str()
    } else {
        event["generated_text"].as_str()
    };
    let finish_reason = reason(&details["finish_reason"]).map(str::to_owned);
    let prefill = details["prefill"].as_array().filter(|p| !p.is_empty());
    Reading {
        text: if special { None } else { new_text(text) },
        tokens: token.is_object().then_some(1),
        output_tokens: count(&details["generated_tokens"]),
        // Streams give the number, whole answers the tokens themselves, if the request asked for them.
        prompt_tokens: count(&details["input_length"]).or(prefill.map(|p| p.len() as i64)),
        last: finish_reason.is_some(),
        wrong: not_object("token", token)
            .or_else(|| not_text(token, &["text"]))
            .or_else(|| not_text(event, &["generated_text"])),
        finish_reason,
        ..Reading::default()
    }
}
