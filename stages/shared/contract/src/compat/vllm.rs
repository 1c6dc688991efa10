//! `vllm bench serve` 0.33.0: `calculate_metrics` of `vllm/benchmarks/serve.py` over the outputs
//! of `vllm/benchmarks/lib/endpoint_request_func.py`.
//!
//! In vLLM an event with `choices` is a chunk even without text; the rows hold only events with
//! text, and the first and the last event with a token. Against a server that ends with an empty event, the tool itself has one
//! more interval per request, and its end-to-end latency ends with that event.

use super::figures::{Bounds, Described, List, around_all, ms};
use crate::metrics::Timing;

struct Output {
    ttft: Option<f64>,
    latency: Option<f64>,
    tokens: i64,
}

impl Output {
    fn of(timing: &Timing<'_>) -> Self {
        let r = timing.request;
        Self {
            ttft: ms(r.sent_ns, r.first_silent_ns.or(r.first_token_ns)),
            latency: ms(r.sent_ns, r.last_token_ns),
            // Without a count and without a tokenizer, an answer counts as one token.
            tokens: r.output_tokens.filter(|n| *n > 0).unwrap_or(1),
        }
    }

    fn tpot(&self) -> Option<f64> {
        (self.tokens > 1).then_some(())?;
        Some((self.latency? - self.ttft?) / (self.tokens - 1) as f64)
    }
}

pub(super) fn figures(list: &mut List, timings: &[Timing<'_>], bounds: &Bounds) {
    // vLLM counts an answer without any chunk as failed.
    let completed = |t: &&Timing<'_>| {
        t.request.is_ok() && (t.request.first_token_ns.is_some() || t.request.chunks.is_none())
    };
    let ok: Vec<&Timing<'_>> = timings.iter().filter(completed).collect();
    let outputs: Vec<Output> = ok.iter().map(|t| Output::of(t)).collect();
    let duration = around_all(timings);
    let rate = |count: f64| duration.map(|s| count / s);
    let prompts: i64 = ok.iter().filter_map(|t| t.request.prompt_tokens).sum();
    let tokens: i64 = outputs.iter().map(|o| o.tokens).sum();
    // With one token or none, vLLM takes TPOT as 0, which any bound admits.
    let good = outputs.iter().filter(|o| {
        let tpot = if o.tokens > 1 { o.tpot() } else { Some(0.0) };
        bounds.met(o.ttft, tpot, o.latency) == Some(true)
    });
    list.put(
        "duration",
        "s",
        "first scheduled_ns to last done_ns of all measured requests",
        duration,
    );
    list.put(
        "completed",
        "1",
        "measured requests of status ok, with a chunk if streamed",
        Some(ok.len() as f64),
    );
    list.put(
        "failed",
        "1",
        "all other measured requests",
        Some((timings.len() - ok.len()) as f64),
    );
    list.put(
        "total_input_tokens",
        "tok",
        "prompt_tokens of completed requests",
        Some(prompts as f64),
    );
    list.put(
        "total_output_tokens",
        "tok",
        "output_tokens of completed requests, 1 where they are null or 0",
        Some(tokens as f64),
    );
    list.put(
        "request_throughput",
        "req/s",
        "completed ÷ duration",
        rate(ok.len() as f64),
    );
    let goodput = if bounds.any() {
        rate(good.count() as f64)
    } else {
        None
    };
    list.put(
        "request_goodput",
        "req/s",
        "completed requests within every bound ÷ duration; TPOT of one token is 0 and within; null without bounds",
        goodput,
    );
    list.put(
        "output_throughput",
        "tok/s",
        "total_output_tokens ÷ duration",
        rate(tokens as f64),
    );
    list.put(
        "total_token_throughput",
        "tok/s",
        "(total_input_tokens + total_output_tokens) ÷ duration",
        rate((prompts + tokens) as f64),
    );
    list.put_peaks(
        ok.iter()
            .filter_map(|t| Some((*t, t.request.last_token_ns?))),
    );
    distributions(list, &ok, &outputs);
}

/// The distribution of each latency over the completed requests.
fn distributions(list: &mut List, ok: &[&Timing<'_>], outputs: &[Output]) {
    let gaps = ok
        .iter()
        .flat_map(|t| t.gaps.gaps.iter().map(|(gap, _)| *gap));
    for (name, formula, values) in [
        (
            "ttft",
            "first_silent_ns, or else first_token_ns, − sent_ns",
            Described::of(outputs.iter().filter_map(|o| o.ttft)),
        ),
        (
            "tpot",
            "(last_token_ns − first_silent_ns, or else first_token_ns) ÷ (output_tokens − 1), of requests with more than \
             one token",
            Described::of(outputs.iter().filter_map(Output::tpot)),
        ),
        (
            "itl",
            "gaps between chunks, all requests pooled",
            Described::of(gaps),
        ),
        (
            "e2el",
            "last_token_ns − sent_ns",
            Described::of(outputs.iter().filter_map(|o| o.latency)),
        ),
    ] {
        list.put(format!("mean_{name}_ms"), "ms", formula, values.mean());
        list.put(
            format!("median_{name}_ms"),
            "ms",
            formula,
            values.quantile(0.5),
        );
        list.put(format!("std_{name}_ms"), "ms", formula, values.std());
        for p in [50_u32, 90, 95, 99] {
            list.put(
                format!("p{p}_{name}_ms"),
                "ms",
                formula,
                values.quantile(f64::from(p) / 100.0),
            );
        }
    }
}
