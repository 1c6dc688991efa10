//! APIs that generate no text: embeddings (`POST /v1/embeddings`) and reranking (`POST /v1/rerank`, as implemented by
//! vLLM, SGLang, Jina and Cohere).
//!
//! An answer comes as a whole and has no output tokens. In a prompt for reranking, the first line is the query, and
//! every other line is a document.

use std::collections::BTreeMap;

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
            let documents = match extra.get("documents") {
                None => documents(prompt).count(),
                Some(given) => given.as_array()?.len(),
            };
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
    let items = answer["data"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let is_vector = |item: &Value| {
        let vector = &item["embedding"];
        vector.as_array().is_some_and(|v| !v.is_empty())
            || vector.as_str().is_some_and(|v| !v.is_empty())
    };
    let complete = !items.is_empty() && items.iter().all(is_vector);
    result(answer, items.len(), complete, "the answer has no embedding")
}

pub(super) fn read_rerank(answer: &Value) -> Reading {
    let items = answer["results"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let is_scored = |item: &Value| item["relevance_score"].is_number() || item["score"].is_number();
    let complete = !items.is_empty() && items.iter().all(is_scored);
    result(answer, items.len(), complete, "the answer has no scores")
}

fn result(answer: &Value, results: usize, complete: bool, missing: &str) -> Reading {
    let usage = &answer["usage"];
    let prompt = count(&usage["prompt_tokens"]).or(count(&usage["total_tokens"]));
    Reading {
        results: complete.then_some(results),
        prompt_tokens: prompt,
        // Nothing is generated, and the server need not report that.
        output_tokens: complete.then_some(0),
        error: (!complete && answer["error"].is_null()).then(|| missing.to_owned()),
        last: complete,
        ..Reading::default()
    }
}
