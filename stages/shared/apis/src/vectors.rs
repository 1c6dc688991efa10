//! APIs that generate no text: embeddings (`POST /v1/embeddings`) and reranking (`POST /v1/rerank`, as implemented by
//! vLLM, SGLang, Jina and Cohere).
//!
//! An answer comes as a whole and has no output tokens. In a prompt for reranking, the first line is the query, and
//! every other line is a document.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::Api;
use serde_json::{Map, Value, json};

use super::{Generation, Reading, count, insert};

/// Returns how many vectors or scores a complete answer has; `None` for text, and if fields added to the body leave it
/// open. `texts` is the number of texts to embed, and `extra` has the fields that replace ours.
pub fn results_of(
    api: Api,
    prompt: &str,
    texts: usize,
    extra: &BTreeMap<String, Value>,
) -> Option<usize> {
    match api {
        Api::OpenaiEmbeddings => match extra.get("input") {
            None => Some(texts),
            Some(Value::String(_)) => Some(1),
            // An array of numbers is one text as tokens.
            Some(Value::Array(items)) if items.iter().all(Value::is_number) => Some(1),
            Some(Value::Array(items)) => Some(items.len()),
            Some(_) => None,
        },
        Api::Rerank => {
            let documents = documents_of(prompt, extra)?;
            // A server may return only the best.
            let best = match extra.get("top_n").filter(|best| !best.is_null()) {
                None => documents,
                Some(best) => usize::try_from(best.as_u64()?).ok()?,
            };
            Some(documents.min(best))
        }
        _ => None,
    }
}

/// Returns how many documents a request for reranking sends; `None` if fields added to the body leave it open.
pub fn documents_of(prompt: &str, extra: &BTreeMap<String, Value>) -> Option<usize> {
    match extra.get("documents") {
        None => Some(documents(prompt).count()),
        Some(given) => given.as_array().map(Vec::len),
    }
}

/// Returns the documents of a prompt for reranking.
fn documents(prompt: &str) -> impl Iterator<Item = &str> {
    let after_query = prompt.lines().skip(1);
    after_query.filter(|line| !line.trim().is_empty())
}

/// Returns what a reranker reads of a prompt: the query with each document.
pub fn pairs(prompt: &str) -> impl Iterator<Item = String> {
    let query = prompt.lines().next().unwrap_or_default();
    documents(prompt).map(move |document| format!("{query}\n{document}"))
}

pub(super) fn embeddings_body(generation: &Generation<'_>) -> Map<String, Value> {
    let mut body = Map::new();
    insert(&mut body, "model", Some(generation.model));
    match generation.texts {
        [] => insert(&mut body, "input", Some(generation.prompt)),
        texts => insert(&mut body, "input", Some(json!(texts))),
    }
    insert(&mut body, "encoding_format", Some("float"));
    body
}

pub(super) fn rerank_body(generation: &Generation<'_>) -> Map<String, Value> {
    let query = generation.prompt.lines().next().unwrap_or_default();
    let documents: Vec<&str> = documents(generation.prompt).collect();
    let mut body = Map::new();
    insert(&mut body, "model", Some(generation.model));
    insert(&mut body, "query", Some(query));
    body.insert("documents".to_owned(), json!(documents));
    body
}

pub(super) fn read_embeddings(answer: &Value) -> Reading {
    let items = items_of(&answer["data"]);
    let first = items.first().and_then(length).filter(|first| *first > 0);
    let complete = first.is_some() && items.iter().all(|item| length(item) == first);
    let wrong = if !complete {
        Some("the answer has no vectors of numbers of one length")
    } else if !are_distinct(items) || items.iter().any(|item| is_beyond(item, items.len())) {
        Some("`index` in the answer does not name each text once")
    } else {
        None
    };
    result(answer, items.len(), wrong)
}

pub(super) fn read_rerank(answer: &Value) -> Reading {
    let items = items_of(&answer["results"]);
    let is_scored = |item: &Value| item["relevance_score"].is_number() || item["score"].is_number();
    let wrong = if items.is_empty() || !items.iter().all(is_scored) {
        Some("the answer has no scores")
    } else if !are_distinct(items) || items[0]["index"].is_null() {
        // Nobody knows which document a score belongs to.
        Some("`index` in the answer does not name each document once")
    } else {
        None
    };
    let indices = items.iter().filter_map(|item| item["index"].as_u64());
    Reading {
        largest_index: indices.max().filter(|_| wrong.is_none()),
        ..result(answer, items.len(), wrong)
    }
}

/// Returns the number of numbers in an embedding; `None` if something else is in it.
fn length(item: &Value) -> Option<usize> {
    match &item["embedding"] {
        Value::Array(vector) => vector.iter().all(Value::is_number).then_some(vector.len()),
        // The bytes of the numbers, in base64.
        Value::String(vector) => {
            let bytes = STANDARD.decode(vector).ok()?;
            let (numbers, rest) = bytes.as_chunks::<4>();
            let finite = |number: &[u8; 4]| f32::from_le_bytes(*number).is_finite();
            (rest.is_empty() && numbers.iter().all(finite)).then_some(numbers.len())
        }
        _ => None,
    }
}

fn items_of(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Whether the items have different numbers, or none at all.
fn are_distinct(items: &[Value]) -> bool {
    let numbers: BTreeSet<u64> = items.iter().filter_map(|i| i["index"].as_u64()).collect();
    numbers.len() == items.len() || items.iter().all(|item| item["index"].is_null())
}

fn is_beyond(item: &Value, count: usize) -> bool {
    let number = item["index"].as_u64();
    number.is_some_and(|number| usize::try_from(number).map_or(true, |number| number >= count))
}

fn result(answer: &Value, results: usize, wrong: Option<&str>) -> Reading {
    let usage = &answer["usage"];
    let prompt = count(&usage["prompt_tokens"]).or(count(&usage["total_tokens"]));
    let complete = wrong.is_none();
    Reading {
        results: complete.then_some(results),
        prompt_tokens: prompt,
        // Nothing is generated, and the server need not report that.
        output_tokens: complete.then_some(0),
        wrong: wrong
            .filter(|_| answer["error"].is_null())
            .map(str::to_owned),
        last: complete,
        ..Reading::default()
    }
}
