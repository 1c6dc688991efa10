//! `sglang.bench_serving [--output-details]`: `sglang/benchmark/serving.py`, one result per line.

use crate::agreement::{self, Figure, Over, output_tokens, ttft_ms};
use crate::arrays::{self, Gap};
use crate::json::{At, ImportError};
use crate::rows::Imported;
use crate::statistics::{Definition, flat};

/// The clients that read SGLang's own API, `/generate`.
const NATIVE: [&str; 2] = ["sglang", "sglang-native"];

/// SGLang's `itl` of its own API.
const ITL_OF_TOKENS: Definition = (
    "itl",
    "ms",
    "SGLang: gap between two chunks with text ÷ the new tokens of the second, once for each of these tokens, over all \
     requests; std is that of the population",
);

/// SGLang's `itl` of the other APIs.
const ITL_OF_CHUNKS: Definition = (
    "itl",
    "ms",
    "SGLang: gap between two chunks with text, over all requests: per chunk, or per token where `accept_length` is given; std is that of the population",
);

const DISTRIBUTIONS: [Definition; 3] = [
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

/// The figures that the lists give again.
const OF_LISTS: [Figure; 2] = [
    Figure {
        metric: "ttft",
        over: Over::Mean,
        part: ttft_ms,
    },
    Figure {
        metric: "total_output_tokens",
        over: Over::Total,
        part: output_tokens,
    },
];

/// Reads one result.
pub(crate) fn read(result: &At<'_>) -> Result<Imported, ImportError> {
    let mut imported = Imported::default();
    let completed = result.need("completed")?.count()?;
    let n = |metric: &str| matches!(metric, "ttft" | "e2e_latency").then_some(completed);
    let backend = result.get("backend").map(|v| v.text()).transpose()?;
    let gap = match backend.is_some_and(|backend| NATIVE.contains(&backend)) {
        true => Gap::OfAToken,
        false => Gap::OfAChunk,
    };
    let itl = match gap {
        Gap::OfAToken => ITL_OF_TOKENS,
        Gap::OfAChunk => ITL_OF_CHUNKS,
    };
    let [ttft, tpot, latency] = DISTRIBUTIONS;
    imported.summary = flat(result, &[ttft, tpot, itl, latency], FIGURES, n)?;
    let claimed = arrays::rows(result, gap, &mut imported)?;
    let facts = &mut imported.facts;
    facts.api = backend.map(str::to_owned);
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
    // The moments of such a trace may set the arrivals, and the file does not say so.
    let is_trace = result
        .get("dataset_name")
        .is_some_and(|name| name.value == "mooncake");
    match result.get("request_rate") {
        _ if is_trace => {}
        Some(rate) if rate.value.is_number() => {
            facts.arrival = Some("poisson".to_owned());
            facts.rate = Some(rate.number()?);
        }
        // Python writes `Infinity`, which is not JSON and was read as a text.
        Some(_) => arrays::without_a_rate(limit, facts),
        None => facts.clients = limit,
    }
    if !imported.requests.is_empty() {
        // A request that only the tool counts as completed is in its figures.
        if claimed == 0 {
            agreement::check(&mut imported, &OF_LISTS);
        }
        if gap == Gap::OfAToken {
            imported.warnings.push(
                "SGLang's client for `/generate` divides each gap between two chunks by the tokens of the second and \
                 writes it once for each token. The result does not show when chunks arrived, so the import writes no table \
                 `chunks`"
                    .to_owned(),
            );
        }
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
