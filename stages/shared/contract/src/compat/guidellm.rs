//! guidellm 0.8.1: `schemas/base/request_stats.py`, `schemas/base/statistics.py` and
//! `benchmark/schemas/metrics.py`, over successful requests.
//!
//! The window of the rates runs from the first `sent_ns` to the last `done_ns` of successful
//! requests. That is the whole of a run without warm-up and cool-down.

use super::figures::{Bounds, List, ms};
use crate::metrics::Timing;
use crate::words::TokenSource;

struct Stats<'a> {
    timing: &'a Timing<'a>,
    /// The usage, or the number of chunks with text if the usage is missing.
    tokens: Option<i64>,
    ttft: Option<f64>,
    itl: Option<f64>,
    latency: Option<f64>,
}

impl<'a> Stats<'a> {
    fn of(timing: &'a Timing<'a>) -> Self {
        let r = timing.request;
        let reported = r
            .output_tokens
            .filter(|_| r.tokens_source == Some(TokenSource::Usage));
        let tokens = reported.or(r.chunks.filter(|n| *n > 0));
        let span = ms(r.first_token_ns, r.last_token_ns);
        let itl = tokens
            .filter(|n| *n > 1)
            .and_then(|n| Some(span? / (n - 1) as f64));
        let ttft = ms(r.sent_ns, r.first_token_ns);
        Self {
            timing,
            tokens,
            ttft,
            itl,
            latency: ms(r.sent_ns, r.done_ns),
        }
    }

    fn tpot(&self) -> Option<f64> {
        let r = self.timing.request;
        let tokens = self.tokens.filter(|n| *n > 0)?;
        Some(ms(r.sent_ns, r.last_token_ns.or(r.done_ns))? / tokens as f64)
    }
}

pub(super) fn figures(list: &mut List, timings: &[Timing<'_>], bounds: &Bounds) {
    let stats: Vec<Stats<'_>> = timings
        .iter()
        .filter(|t| t.request.is_ok())
        .map(Stats::of)
        .collect();
    let failed = timings.len() - stats.len();
    list.put(
        "request_totals_successful",
        "1",
        "measured requests of status ok",
        Some(stats.len() as f64),
    );
    list.put(
        "request_totals_errored",
        "1",
        "all other measured requests",
        Some(failed as f64),
    );
    let ends = |wanted: &dyn Fn(&Stats<'_>) -> bool| -> Vec<i64> {
        stats
            .iter()
            .filter(|s| wanted(s))
            .filter_map(|s| s.timing.request.done_ns)
            .collect()
    };
    let window = stats
        .iter()
        .filter_map(|s| s.timing.request.sent_ns)
        .min()
        .zip(stats.iter().filter_map(|s| s.timing.request.done_ns).max());
    list.put(
        "requests_per_second_mean",
        "req/s",
        "ok requests ÷ the window, ends within 0.1 ms merged",
        window.and_then(|window| mean_rate(ends(&|_| true), window)),
    );
    // Undecided requests are left out; failed requests count as not conforming.
    let verdicts: Vec<Option<bool>> = stats
        .iter()
        .map(|s| bounds.met(s.ttft, s.itl, s.latency))
        .collect();
    let conforming = verdicts.iter().filter(|v| **v == Some(true)).count();
    let determined = verdicts.iter().filter(|v| v.is_some()).count() + failed;
    let judged = bounds.any() && determined > 0;
    list.put(
        "slo_attainment",
        "1",
        "ok requests within every bound, TPOT's held against inter_token_latency_ms ÷ (failed requests and ok \
         ones without an undefined value); null without bounds",
        judged.then(|| conforming as f64 / determined as f64),
    );
    let good = |s: &Stats<'_>| bounds.met(s.ttft, s.itl, s.latency) == Some(true);
    list.put(
        "request_goodput_mean",
        "req/s",
        "ok requests within every bound ÷ the window; null without bounds",
        window
            .filter(|_| judged)
            .and_then(|window| mean_rate(ends(&good), window)),
    );
    distributions(list, &stats);
}

/// The weighted distribution of each metric over the ok requests.
fn distributions(list: &mut List, stats: &[Stats<'_>]) {
    let once = |value: Option<f64>| (value.unwrap_or(0.0), 1.0);
    let with_first = stats
        .iter()
        .filter(|s| s.timing.request.first_token_ns.is_some());
    for (name, unit, formula, values) in [
        (
            "request_latency",
            "s",
            "done_ns − sent_ns",
            stats
                .iter()
                .map(|s| once(s.latency.map(|ms| ms / 1e3)))
                .collect::<Vec<_>>(),
        ),
        (
            "time_to_first_token_ms",
            "ms",
            "first_token_ns − sent_ns",
            with_first.clone().map(|s| once(s.ttft)).collect(),
        ),
        (
            "time_per_output_token_ms",
            "ms",
            "(last_token_ns − sent_ns) ÷ output tokens, weighted by output tokens: with the time to the first",
            stats
                .iter()
                .map(|s| (s.tpot().unwrap_or(0.0), s.tokens.unwrap_or(0) as f64))
                .collect(),
        ),
        (
            "inter_token_latency_ms",
            "ms",
            "(last_token_ns − first_token_ns) ÷ (output tokens − 1), one value a request, weighted by output \
             tokens − 1",
            // A request without a first token is in the range only at its end.
            stats
                .iter()
                .map(|s| {
                    let weight = s.tokens.filter(|n| *n > 0).unwrap_or(1) - 1;
                    (s.itl.unwrap_or(0.0), weight as f64)
                })
                .collect(),
        ),
        (
            "output_token_count",
            "tok",
            "output_tokens if the server reported its usage, else chunks with text",
            stats
                .iter()
                .map(|s| once(s.tokens.map(|n| n as f64)))
                .collect(),
        ),
    ] {
        let weighted = Weighted::of(values);
        list.put(format!("{name}_mean"), unit, formula, weighted.mean());
        list.put(
            format!("{name}_median"),
            unit,
            formula,
            weighted.quantile(0.5),
        );
        list.put(format!("{name}_std_dev"), unit, formula, weighted.std());
        for (word, q) in [("p90", 0.9), ("p95", 0.95), ("p99", 0.99)] {
            list.put(
                format!("{name}_{word}"),
                unit,
                formula,
                weighted.quantile(q),
            );
        }
    }
}

/// Returns the events per second, as `DistributionSummary.rate_distribution_from_timings` computes
/// them. Times are in ns. Moments within 0.1 ms of the first of a group are merged into it. The
/// mean weights every rate by its duration, so the result is the number of events over the window.
fn mean_rate(events: Vec<i64>, (from, to): (i64, i64)) -> Option<f64> {
    const THRESHOLD: i64 = 100_000;
    let count = events.len() as f64;
    let mut times = events;
    times.extend([from, to]);
    times.sort_unstable();
    let mut merged: Vec<i64> = Vec::with_capacity(times.len());
    for at in times {
        if merged.last().is_none_or(|first| at - first > THRESHOLD) {
            merged.push(at);
        }
    }
    let (first, last) = (merged.first()?, merged.last()?);
    (merged.len() > 1).then(|| count / ((last - first) as f64 / 1e9))
}

/// Values with weights, in ascending order of values. The weights add up to 1.
struct Weighted(Vec<(f64, f64)>);

impl Weighted {
    fn of(values: Vec<(f64, f64)>) -> Self {
        // If all weights are zero, the tool weights all values equally.
        let some = values.iter().map(|(_, w)| w).sum::<f64>() > 1e-6;
        let mut kept: Vec<(f64, f64)> = if some {
            values.into_iter().filter(|(_, w)| *w > 0.0).collect()
        } else {
            Vec::new()
        };
        kept.sort_by(|a, b| a.0.total_cmp(&b.0));
        // The tool merges equal values, which affects how the shares below add up.
        kept.dedup_by(|next, first| {
            let equal = next.0 == first.0;
            if equal {
                first.1 += next.1;
            }
            equal
        });
        let total: f64 = kept.iter().map(|(_, w)| w).sum();
        kept.iter_mut().for_each(|(_, w)| *w /= total);
        Self(kept)
    }

    fn mean(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.iter().map(|(v, w)| v * w).sum())
    }

    fn std(&self) -> Option<f64> {
        let mean = self.mean()?;
        Some(
            self.0
                .iter()
                .map(|(v, w)| (v - mean).powi(2) * w)
                .sum::<f64>()
                .sqrt(),
        )
    }

    /// Returns the smallest value whose cumulative share reaches `q`, without interpolation.
    fn quantile(&self, q: f64) -> Option<f64> {
        let mut share = 0.0;
        // By rounding, the sum of many shares may stay below the last quantile.
        let reached = self.0.iter().find(|(_, w)| {
            share += w;
            share >= q
        });
        reached.or(self.0.last()).map(|(v, _)| *v)
    }
}
