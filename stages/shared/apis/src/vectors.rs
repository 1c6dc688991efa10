//! APIs that generate no text: embeddings (`POST /v1/embeddings`) and reranking (`POST /v1/rerank`, as implemented by
//! vLLM, SGLang, Jina and Cohere).
//!
//! An answer comes as a whole and has no output tokens. In a prompt for reranking, the first line is the query, and
//! every other line is a document.

use serde_json::{Map, Value, json};

use super::{Generation, Reading, count, insert};

pub(super) fn embeddings_body(generation: &Generation<'_>) -> Map<String, Value> {
    let mut body = Map::new();
    insert(&mut body, "model", Some(generation.model));
    insert(&mut body, "input", Some(generation.prompt));
    insert(&mut body, "encoding_format", Some("float"));
    body
}

pub(super) fn rerank_body(generation: &Generation<'_>) -> Map<String, Value> {
    let mut lines = generation.prompt.lines();
    let query = lines.next().unwrap_or_default();
    let documents: Vec<&str> = lines.filter(|line| !line.trim().is_empty()).collect();
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
    result(answer, complete, "the answer has no embedding")
}

pub(super) fn read_rerank(answer: &Value) -> Reading {
    let items = answer["results"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let is_scored = |item: &Value| item["relevance_score"].is_number() || item["score"].is_number();
    let complete = !items.is_empty() && items.iter().all(is_scored);
    result(answer, complete, "the answer has no scores")
}

fn result(answer: &Value, complete: bool, missing: &str) -> Reading {
    let usage = &answer["usage"];
    let prompt = count(&usage["prompt_tokens"]).or(count(&usage["total_tokens"]));
    Reading {
        result: complete,
        prompt_tokens: prompt,
        // Nothing is generated, and the server need not report that.
        output_tokens: complete.then_some(0),
        error: (!complete && answer["error"].is_null()).then(|| missing.to_owned()),
        last: complete,
        ..Reading::default()
    }
}
