//! `vllm bench serve --save-result [--save-detailed]`: `vllm/benchmarks/serve.py`.

use contract::RequestStatus;

use crate::agreement::{self, Figure, Over, gaps_ms, output_tokens, ttft_ms};
use crate::arrays::{self, Gap};
use crate::json::{At, ImportError};
use crate::rows::Imported;
use crate::statistics::{Definition, flat};

const DISTRIBUTIONS: &[Definition] = &[
    (
        "ttft",
        "ms",
        "vLLM: first chunk with `choices`, whose text may be empty, minus the sending; std is that of the population",
    ),
    (
        "tpot",
        "ms",
        "vLLM: (latency − ttft) ÷ (output tokens − 1), over requests of more than one token; std is that of the population",
    ),
    (
        "itl",
        "ms",
        "vLLM: gap between two chunks with `choices`, over all requests: per chunk, not per token; std is that of the population",
    ),
    (
        "e2el",
        "ms",
        "vLLM: last chunk with `choices` minus the sending; std is that of the population",
    ),
    (
        "client_queue_time",
        "ms",
        "vLLM: wait for the client's own concurrency limit, in no other metric",
    ),
    (
        "e2el_including_client_queue",
        "ms",
        "vLLM: e2el and client_queue_time",
    ),
];

const FIGURES: &[Definition] = &[
    (
        "duration",
        "s",
        "vLLM: from the first dispatch to the return of the last request",
    ),
    ("completed", "requests", "vLLM: requests that succeeded"),
    ("failed", "requests", "vLLM: requests that did not"),
    (
        "total_input_tokens",
        "tok",
        "vLLM: prompt tokens of completed requests",
    ),
    (
        "total_output_tokens",
        "tok",
        "vLLM: output tokens of completed requests",
    ),
    ("request_throughput", "req/s", "vLLM: completed ÷ duration"),
    (
        "request_goodput",
        "req/s",
        "vLLM: completed requests within every bound ÷ duration; TPOT of one token counts as 0",
    ),
    (
        "output_throughput",
        "tok/s",
        "vLLM: total_output_tokens ÷ duration",
    ),
    (
        "total_token_throughput",
        "tok/s",
        "vLLM: prompt and output tokens ÷ duration",
    ),
    (
        "max_output_tokens_per_s",
        "tok/s",
        "vLLM: the most chunks in a whole second of the run, counted as tokens",
    ),
    (
        "max_concurrent_requests",
        "requests",
        "vLLM: the most requests in flight",
    ),
];

/// The figures that the lists give again.
const OF_LISTS: [Figure; 3] = [
    Figure {
        metric: "ttft",
        over: Over::Mean,
        part: ttft_ms,
    },
    Figure {
        metric: "itl",
        over: Over::Mean,
        part: gaps_ms,
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
    let n = |metric: &str| matches!(metric, "ttft" | "e2el").then_some(completed);
    imported.summary = flat(result, DISTRIBUTIONS, FIGURES, n)?;
    let claimed = arrays::rows(result, Gap::OfAChunk, &mut imported)?;
    facts(result, &mut imported)?;
    if imported.requests.is_empty() {
        return Ok(imported);
    }
    check_planned(result, claimed, &mut imported)?;
    scheduled(result, &mut imported)?;
    if result.get("latencies").is_some() {
        imported.map(&[(
            "done_ns",
            "sent_ns + latencies: vLLM's end of a request, its last chunk with `choices`",
        )]);
    } else {
        imported.map(&[(
            "done_ns",
            "last_token_ns: vLLM's end of a request, its last chunk with `choices`",
        )]);
        for row in imported
            .requests
            .iter_mut()
            .filter(|row| row.status == RequestStatus::Ok)
        {
            row.done_ns = row.last_token_ns;
        }
    }
    // A request that only the tool counts as completed is in its figures.
    if claimed == 0 {
        agreement::check(&mut imported, &OF_LISTS);
    }
    uncounted(result, &mut imported);
    Ok(imported)
}

/// Compares the rows with the counts that the file states beside them.
fn check_planned(
    result: &At<'_>,
    claimed: usize,
    imported: &mut Imported,
) -> Result<(), ImportError> {
    let rows = imported.requests.len() as i64;
    let failed = imported
        .requests
        .iter()
        .filter(|row| row.status != RequestStatus::Ok);
    let failed = (failed.count() - claimed) as i64;
    if let Some(stated) = result.get("failed").filter(|v| v.value != failed) {
        return Err(ImportError::at(
            stated.path,
            format!(
                "{} requests failed, but {failed} in the lists",
                stated.value
            ),
            "the lists and figures are from different runs; import the file that the tool wrote",
        ));
    }
    let Some(planned) = imported.facts.expected_requests.filter(|n| *n != rows) else {
        return Ok(());
    };
    if planned < rows {
        return Err(ImportError::at(
            format!("{}.num_prompts", result.path),
            format!("{planned} requests were planned, but the lists have {rows}"),
            "the lists and figures are from different runs; import the file that the tool wrote",
        ));
    }
    // A data set with fewer prompts has this effect, too.
    imported.warnings.push(format!(
        "the file says that {planned} requests were planned (`num_prompts`), and it has only {rows}: if the others were \
         lost, every figure leaves them out"
    ));
    Ok(())
}

fn facts(result: &At<'_>, imported: &mut Imported) -> Result<(), ImportError> {
    let facts = &mut imported.facts;
    facts.model = result
        .get("model_id")
        .map(|v| v.text().map(str::to_owned))
        .transpose()?;
    facts.api = result
        .get("backend")
        .map(|v| v.text().map(str::to_owned))
        .transpose()?;
    facts.expected_requests = result
        .get("num_prompts")
        .map(|v| v.small_count())
        .transpose()?;
    let limit = result
        .get("max_concurrency")
        .map(|v| v.small_count())
        .transpose()?;
    // With a ramp, the file says `inf` for the rate.
    let is_ramp = result.get("ramp_up_strategy").is_some();
    match result.get("request_rate") {
        _ if is_ramp => facts.arrival = Some("ramp".to_owned()),
        Some(rate) if rate.value == "inf" => arrays::without_a_rate(limit, facts),
        Some(rate) if rate.value.is_number() => {
            facts.rate = Some(rate.number()?);
            facts.arrival = result
                .get("burstiness")
                .map(|shape| match shape.value.as_f64() {
                    Some(shape) if shape.total_cmp(&1.0).is_eq() => "poisson".to_owned(),
                    Some(_) => "gamma".to_owned(),
                    // Python writes `Infinity` for equal gaps.
                    None => "constant".to_owned(),
                });
        }
        _ => {}
    }
    facts.waits_in_line = limit.is_some();
    Ok(())
}

/// Reads when requests were due: `queue_times` holds how long each waited for the client's own limit. In a closed loop,
/// none is due before its client is free.
fn scheduled(result: &At<'_>, imported: &mut Imported) -> Result<(), ImportError> {
    let Some(waits) = result.get("queue_times") else {
        return Ok(());
    };
    if result.get("start_times").is_none() || imported.facts.clients.is_some() {
        return Ok(());
    }
    let waits_ns = waits.spans(1_000_000_000)?;
    if waits_ns.len() != imported.requests.len() {
        return Err(ImportError::at(
            waits.path,
            format!(
                "{} entries, but `ttfts` has {}",
                waits_ns.len(),
                imported.requests.len()
            ),
            "the tool writes one entry per request into each list; the file has been changed",
        ));
    }
    for (row, wait) in imported.requests.iter_mut().zip(waits_ns) {
        row.scheduled_ns = row.sent_ns.map(|sent| sent - wait.round() as i64);
    }
    // The moments count from the first send, which itself may have waited.
    let first = imported.requests.iter().filter_map(|row| row.scheduled_ns);
    if let Some(early) = first.min().filter(|first| *first < 0) {
        for row in &mut imported.requests {
            let times = [
                &mut row.scheduled_ns,
                &mut row.sent_ns,
                &mut row.first_token_ns,
                &mut row.last_token_ns,
                &mut row.done_ns,
            ];
            let chunks = row.chunks_ns.iter_mut().flatten();
            let times = times.into_iter().flatten().chain(chunks);
            times.for_each(|at| *at -= early);
        }
    }
    imported.map(&[("scheduled_ns", "sent_ns − queue_times")]);
    Ok(())
}

/// Removes token counts that nothing counted. Without the server's usage and without a tokenizer,
/// vLLM writes 1 as the number of output tokens; a stream of several chunks disproves it.
fn uncounted(result: &At<'_>, imported: &mut Imported) {
    if result.get("tokenizer_id").is_some() {
        return;
    }
    let mut forgotten = 0;
    for row in &mut imported.requests {
        let chunks = row.chunks_ns.as_ref().map_or(0, Vec::len);
        // The last chunk may be empty, so two chunks may be one token.
        if row.output_tokens == Some(1) && chunks > 2 {
            row.output_tokens = None;
            forgotten += 1;
        }
    }
    if forgotten > 0 {
        imported.warnings.push(format!(
            "{forgotten} requests have 1 output token in more than two chunks: vLLM had neither usage nor a \
             tokenizer, so their count is unknown"
        ));
    }
}
