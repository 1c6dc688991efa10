//! aiperf 0.13.0: the classes of `aiperf/metrics/types`, over records of requests that succeeded.
//!
//! aiperf counts tokens with its own tokenizer unless you pass `--use-server-token-count`. Here the
//! counts are those of the rows. If the rows hold the tokens of the first chunk, they count as
//! under `--per-chunk-usage`.

use super::figures::{Bounds, Described, List, ms};
use crate::metrics::Timing;

struct Record<'a> {
    timing: &'a Timing<'a>,
    ttft: Option<f64>,
    latency: Option<f64>,
}

impl<'a> Record<'a> {
    fn of(timing: &'a Timing<'a>) -> Self {
        let r = timing.request;
        Self {
            timing,
            ttft: ms(r.sent_ns, r.first_token_ns),
            latency: ms(r.sent_ns, r.last_token_ns),
        }
    }

    fn itl(&self) -> Option<f64> {
        let tokens = self.timing.request.output_tokens.filter(|n| *n >= 2)?;
        let first = self
            .timing
            .gaps
            .first_chunk_tokens
            .or(self.timing.request.first_chunk_tokens);
        let after = match first {
            Some(first) if first > 0 && first < tokens => tokens - first,
            _ => tokens - 1,
        };
        Some((self.latency? - self.ttft?) / after as f64)
    }
}

pub(super) fn figures(list: &mut List, timings: &[Timing<'_>], bounds: &Bounds) {
    let ok = timings.iter().filter(|t| t.request.is_ok());
    let records: Vec<Record<'_>> = ok.map(Record::of).collect();
    let from = records
        .iter()
        .filter_map(|r| r.timing.request.sent_ns)
        .min();
    let to = records
        .iter()
        .filter_map(|r| r.timing.request.last_token_ns)
        .max();
    let duration = ms(from, to).map(|ms| ms / 1e3).filter(|s| *s > 0.0);
    let rate = |count: f64| duration.map(|s| count / s);
    let tokens: i64 = records
        .iter()
        .filter_map(|r| r.timing.request.output_tokens)
        .sum();
    let prompts: i64 = records
        .iter()
        .filter_map(|r| r.timing.request.prompt_tokens)
        .sum();
    let good = records
        .iter()
        .filter(|r| bounds.met(r.ttft, r.itl(), r.latency) == Some(true))
        .count();
    list.put(
        "request_count",
        "1",
        "measured requests of status ok",
        Some(records.len() as f64),
    );
    list.put(
        "error_request_count",
        "1",
        "all other measured requests",
        Some((timings.len() - records.len()) as f64),
    );
    list.put(
        "benchmark_duration",
        "s",
        "first sent_ns to last last_token_ns of ok requests",
        duration,
    );
    list.put(
        "request_throughput",
        "req/s",
        "request_count ÷ benchmark_duration",
        rate(records.len() as f64),
    );
    list.put(
        "output_token_throughput",
        "tok/s",
        "output_tokens of ok requests ÷ benchmark_duration",
        rate(tokens as f64),
    );
    list.put(
        "total_token_throughput",
        "tok/s",
        "prompt_tokens and output_tokens of ok requests ÷ benchmark_duration",
        rate((prompts + tokens) as f64),
    );
    list.put(
        "goodput",
        "req/s",
        "ok requests within every bound ÷ benchmark_duration, the bound on TPOT held against \
         inter_token_latency; an undefined value is not within; null without bounds",
        if bounds.any() {
            rate(good as f64)
        } else {
            None
        },
    );
    distributions(list, &records);
}

/// The distribution of each metric over the ok requests.
fn distributions(list: &mut List, records: &[Record<'_>]) {
    let described =
        |f: &dyn Fn(&Record<'_>) -> Option<f64>| Described::of(records.iter().filter_map(f));
    let gaps = records
        .iter()
        .flat_map(|r| r.timing.gaps.gaps.iter().map(|(gap, _)| *gap));
    let positive = |v: &f64| *v > 0.0;
    for (name, unit, formula, values) in [
        (
            "time_to_first_token",
            "ms",
            "first_token_ns − sent_ns",
            described(&|r| r.ttft),
        ),
        (
            "time_to_second_token",
            "ms",
            "the first gap between chunks",
            described(&|r| r.timing.gaps.gaps.first().map(|(gap, _)| *gap)),
        ),
        (
            "request_latency",
            "ms",
            "last_token_ns − sent_ns",
            described(&|r| r.latency),
        ),
        (
            "inter_token_latency",
            "ms",
            "(last_token_ns − first_token_ns) ÷ (output_tokens − tokens of the first chunk, 1 where unknown), \
             one value a request; null below two tokens",
            described(&|r| r.itl()),
        ),
        (
            "inter_chunk_latency",
            "ms",
            "gaps between chunks with text, all requests pooled",
            Described::of(gaps),
        ),
        (
            "output_token_throughput_per_user",
            "tok/s",
            "1 ÷ inter_token_latency",
            described(&|r| r.itl().filter(positive).map(|itl| 1e3 / itl)),
        ),
        (
            "output_sequence_length",
            "tok",
            "output_tokens",
            described(&|r| r.timing.request.output_tokens.map(|n| n as f64)),
        ),
    ] {
        list.put(format!("{name}_avg"), unit, formula, values.mean());
        list.put(format!("{name}_std"), unit, formula, values.std());
        list.put(format!("{name}_min"), unit, formula, values.min());
        for p in [50_u32, 90, 95, 99] {
            list.put(
                format!("{name}_p{p}"),
                unit,
                formula,
                values.quantile(f64::from(p) / 100.0),
            );
        }
        list.put(format!("{name}_max"), unit, formula, values.max());
    }
}
