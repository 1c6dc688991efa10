//! SGLang 0.5.23: `calculate_metrics` of `sglang/benchmark/serving.py` and `goodput.py`.
//!
//! In SGLang the latency ends with the last line, `[DONE]` or the usage; `done_ns` is that moment.
//! SGLang's requests include connecting; here, connections are open before the request.

use super::figures::{Bounds, Described, List, around_all, ms};
use crate::metrics::Timing;
use crate::words::TokenSource;

struct Output {
    ttft: f64,
    latency: f64,
    tokens: i64,
}

impl Output {
    fn of(timing: &Timing<'_>) -> Option<Self> {
        let r = timing.request;
        let latency = ms(r.sent_ns, r.done_ns)?;
        let reported = r
            .output_tokens
            .filter(|_| r.tokens_source == Some(TokenSource::Usage));
        // The TTFT of an unstreamed answer is its latency. A stream without text has a TTFT of 0.
        let untold = if r.chunks.is_none() { latency } else { 0.0 };
        Some(Self {
            ttft: ms(r.sent_ns, r.first_token_ns).unwrap_or(untold),
            latency,
            tokens: reported.or(r.requested_output_tokens).unwrap_or(0),
        })
    }

    fn tpot(&self) -> Option<f64> {
        (self.tokens > 1).then(|| (self.latency - self.ttft) / (self.tokens - 1) as f64)
    }
}

pub(super) fn figures(list: &mut List, timings: &[Timing<'_>], bounds: &Bounds) {
    let ok: Vec<&Timing<'_>> = timings.iter().filter(|t| t.request.is_ok()).collect();
    let outputs: Vec<Output> = ok.iter().filter_map(|t| Output::of(t)).collect();
    let duration = around_all(timings);
    let rate = |count: f64| duration.map(|s| count / s);
    let prompts: i64 = ok.iter().filter_map(|t| t.request.prompt_tokens).sum();
    let tokens: i64 = outputs.iter().map(|o| o.tokens).sum();
    let good = outputs.iter().filter(|o| {
        bounds.met(Some(o.ttft), Some(o.tpot().unwrap_or(0.0)), Some(o.latency)) == Some(true)
    });
    let good = bounds.any().then(|| good.count() as f64);
    list.put(
        "duration",
        "s",
        "first scheduled_ns to last done_ns of all measured requests",
        duration,
    );
    list.put(
        "completed",
        "1",
        "measured requests of status ok",
        Some(outputs.len() as f64),
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
        "output_tokens if the server reported its usage, else requested_output_tokens",
        Some(tokens as f64),
    );
    list.put(
        "request_throughput",
        "req/s",
        "completed ÷ duration",
        rate(outputs.len() as f64),
    );
    list.put(
        "input_throughput",
        "tok/s",
        "total_input_tokens ÷ duration",
        rate(prompts as f64),
    );
    list.put(
        "output_throughput",
        "tok/s",
        "total_output_tokens ÷ duration",
        rate(tokens as f64),
    );
    list.put(
        "total_throughput",
        "tok/s",
        "(total_input_tokens + total_output_tokens) ÷ duration",
        rate((prompts + tokens) as f64),
    );
    let latencies = Described::of(outputs.iter().map(|o| o.latency));
    let concurrency = if outputs.is_empty() {
        None
    } else {
        rate(latencies.sum() / 1e3)
    };
    list.put(
        "concurrency",
        "1",
        "sum of (done_ns − sent_ns) ÷ duration",
        concurrency,
    );
    list.put_peaks(ok.iter().filter_map(|t| Some((*t, t.request.done_ns?))));
    list.put(
        "request_goodput",
        "req/s",
        "completed requests within every bound ÷ duration; TPOT of one token is 0 and within; null without bounds",
        good.and_then(rate),
    );
    list.put(
        "slo_attainment",
        "1",
        "completed requests within every bound ÷ all measured requests; null without bounds",
        good.filter(|_| !timings.is_empty())
            .map(|n| n / timings.len() as f64),
    );
    distributions(list, &ok, &outputs, latencies);
}

/// The distribution of each latency over the completed requests.
fn distributions(list: &mut List, ok: &[&Timing<'_>], outputs: &[Output], latencies: Described) {
    let gaps = ok
        .iter()
        .flat_map(|t| t.gaps.gaps.iter().map(|(gap, _)| *gap));
    let gaps = Described::of(gaps);
    let max_gap = gaps.max();
    for (name, formula, values) in [
        (
            "ttft",
            "first_token_ns − sent_ns, 0 for a stream without text",
            Described::of(outputs.iter().map(|o| o.ttft)),
        ),
        (
            "tpot",
            "(done_ns − first_token_ns) ÷ (tokens − 1), of requests with more than one token",
            Described::of(outputs.iter().filter_map(Output::tpot)),
        ),
        (
            "itl",
            "gaps between chunks with text, all requests pooled",
            gaps,
        ),
        ("e2e_latency", "done_ns − sent_ns", latencies),
    ] {
        list.put(format!("mean_{name}_ms"), "ms", formula, values.mean());
        list.put(
            format!("median_{name}_ms"),
            "ms",
            formula,
            values.quantile(0.5),
        );
        list.put(format!("std_{name}_ms"), "ms", formula, values.std());
        for p in [90_u32, 95, 99] {
            list.put(
                format!("p{p}_{name}_ms"),
                "ms",
                formula,
                values.quantile(f64::from(p) / 100.0),
            );
        }
        if name == "itl" {
            list.put("max_itl_ms", "ms", formula, max_gap);
        }
    }
}
