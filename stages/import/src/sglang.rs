//! `sglang.bench_serving [--output-details]`: `sglang/benchmark/serving.py`, one result per line.

use crate::arrays;
use crate::json::{At, ImportError};
use crate::rows::Imported;
use crate::statistics::{Definition, flat};

const DISTRIBUTIONS: &[Definition] = &[
    (
        "ttft",
        "ms",
        "SGLang: first chunk with text minus the sending, connecting included; std is that of the population",
    ),
    (
        "tpot",
        "ms",
        "SGLang: (latency − ttft) ÷ (output tokens − 1), over requests of more than one token; std is that of the population",
    ),
    (
        "itl",
        "ms",
        "SGLang: gap between two chunks with text, over all requests: per chunk, or per token where `accept_length` is given; std is that of the population",
    ),
    (
        "e2e_latency",
        "ms",
        "SGLang: last line of the answer, `[DONE]` included, minus the sending; std is that of the population",
    ),
];

const FIGURES: &[Definition] = &[
    (
        "duration",
        "s",
        "SGLang: from the first dispatch to the return of the last request",
    ),
    ("completed", "requests", "SGLang: requests that succeeded"),
    (
        "total_input_tokens",
        "tok",
        "SGLang: prompt tokens of completed requests",
    ),
    (
        "total_output_tokens",
        "tok",
        "SGLang: as usage says, else the tokens asked for, over completed requests",
    ),
    (
        "total_output_tokens_retokenized",
        "tok",
        "SGLang: the generated texts through the client's tokenizer",
    ),
    (
        "request_throughput",
        "req/s",
        "SGLang: completed ÷ duration",
    ),
    (
        "input_throughput",
        "tok/s",
        "SGLang: total_input_tokens ÷ duration",
    ),
    (
        "output_throughput",
        "tok/s",
        "SGLang: total_output_tokens ÷ duration",
    ),
    (
        "total_throughput",
        "tok/s",
        "SGLang: input and output tokens ÷ duration",
    ),
    (
        "concurrency",
        "requests",
        "SGLang: sum of latencies ÷ duration",
    ),
    (
        "accept_length",
        "tok",
        "SGLang: tokens accepted a step of speculative decoding, as the server says",
    ),
    (
        "max_output_tokens_per_s",
        "tok/s",
        "SGLang: the most chunks in a whole second of the run, counted as tokens",
    ),
    (
        "max_concurrent_requests",
        "requests",
        "SGLang: the most requests in flight in a whole second of the run",
    ),
];

/// Reads one result.
pub(crate) fn read(result: &At<'_>) -> Result<Imported, ImportError> {
    let mut imported = Imported::default();
    let completed = result.need("completed")?.count()?;
    let n = |metric: &str| matches!(metric, "ttft" | "e2e_latency").then_some(completed);
    imported.summary = flat(result, DISTRIBUTIONS, FIGURES, n)?;
    arrays::rows(result, &mut imported)?;
    let facts = &mut imported.facts;
    facts.api = result
        .get("backend")
        .map(|v| v.text().map(str::to_owned))
        .transpose()?;
    facts.model = result
        .get("server_info")
        .and_then(|info| info.get("model_path"))
        .map(|v| v.text().map(str::to_owned))
        .transpose()?;
    facts.tool_version = None;
    let limit = result
        .get("max_concurrency")
        .map(|v| v.small_count())
        .transpose()?;
    match result.get("request_rate") {
        // Python writes `Infinity`, which is not JSON and was read as a text.
        Some(rate) if rate.value.is_number() => facts.rate = Some(rate.number()?),
        _ => facts.clients = limit,
    }
    if !imported.requests.is_empty() {
        imported.map(&[(
            "done_ns",
            "nothing: the file holds no latency and no start time of a request",
        )]);
        imported.warnings.push(
            "SGLang writes the tokens asked for where the server sent no usage, and the file does not say \
             which: `tokens_source` is null"
                .to_owned(),
        );
    }
    Ok(imported)
}
