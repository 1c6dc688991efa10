//! Requests for several answers, whose tokens nobody could tell apart in one row.

use std::collections::BTreeMap;

use contract::Api;
use serde_json::Value;

/// Returns the field, among those added to the body of a request, that asks for several answers, as its path and its value.
pub fn several_answers(
    api: Api,
    extra: &BTreeMap<String, Value>,
) -> Option<(&'static str, &Value)> {
    let (numbers, texts): (&[&'static str], &[&'static str]) = match api {
        Api::OpenaiCompletions => (&["n", "best_of", "n_cmpl"], &["prompt"]),
        Api::OpenaiChat => (&["n", "best_of", "n_cmpl"], &[]),
        Api::LlamaCppCompletion => (&["n", "n_cmpl"], &["prompt"]),
        Api::TgiGenerate => (&["parameters.best_of"], &[]),
        Api::SglangGenerate => (&["sampling_params.n"], &["text", "input_ids"]),
        _ => return None,
    };
    let at = |path: &&'static str| {
        let mut parts = path.split('.');
        let first = extra.get(parts.next()?)?;
        let value = parts.try_fold(first, |value, part| value.get(part))?;
        Some((*path, value))
    };
    let more = |(_, value): &(&str, &Value)| !value.is_null() && value.as_f64() != Some(1.0);
    // A list of numbers is one text as tokens.
    let list = |(_, value): &(&str, &Value)| {
        let texts = value.as_array().filter(|texts| texts.len() > 1);
        texts.is_some_and(|texts| !texts.iter().all(Value::is_number))
    };
    let numbers = numbers.iter().filter_map(at).find(more);
    numbers.or_else(|| texts.iter().filter_map(at).find(list))
}
