//! The usual table of a run, from its rows.
//!
//! The definitions are those of the analysis: per-request metrics over measured requests that
//! are ok, quantiles of type 7 on the exact values, throughput over the window from the first
//! `sent_ns` to the last `done_ns`. An undefined value is absent.

use std::collections::BTreeMap;

use contract::{Request, RequestStatus};
use statistics::quantile_of_sorted;

use crate::search::Judged;

/// The figures of a sample; milliseconds unless stated otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distribution {
    /// The number of values.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// Their sample standard deviation (n − 1); `None` for one value.
    pub std: Option<f64>,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Quantiles of type 7.
    pub p50: f64,
    /// See `p50`.
    pub p90: f64,
    /// See `p50`.
    pub p95: f64,
    /// See `p50`.
    pub p99: f64,
}

impl Distribution {
    /// Returns the figures of a sample; `None` if it is empty.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let n = values.len();
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        Some(Self {
            n,
            mean,
            std: (n > 1).then(|| (squares / (n - 1) as f64).sqrt()),
            min: *values.first()?,
            max: *values.last()?,
            p50: quantile_of_sorted(&values, 0.50)?,
            p90: quantile_of_sorted(&values, 0.90)?,
            p95: quantile_of_sorted(&values, 0.95)?,
            p99: quantile_of_sorted(&values, 0.99)?,
        })
    }
}

/// Bounds that a good request must meet, ms. If the value is undefined for a request, the request does not meet the
/// bound.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slo {
    /// The largest time to the first token, in ms.
    pub ttft_ms: Option<f64>,
    /// The largest time per output token, in ms.
    pub tpot_ms: Option<f64>,
    /// The largest end-to-end latency, in ms.
    pub e2e_ms: Option<f64>,
    /// The largest time from the scheduled time to the first token, in ms. Only open arrivals have it.
    pub ttft_scheduled_ms: Option<f64>,
    /// The largest time from the scheduled time to the last token, in ms. Only open arrivals have it.
    pub e2e_scheduled_ms: Option<f64>,
}

/// The usual table of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Measured requests by status, superseded attempts left out.
    pub statuses: BTreeMap<RequestStatus, u64>,
    /// Turns of sessions that could not be sent because an earlier turn failed. They have the status cancelled.
    pub lost_turns: u64,
    /// First `sent_ns` to last `done_ns` of measured requests, s.
    pub window_s: Option<f64>,
    /// Answered requests per second.
    pub request_throughput: Option<f64>,
    /// Output tokens of answered requests per second; `None` if the count of one of them is unknown.
    pub output_throughput: Option<f64>,
    /// Prompt and output tokens of answered requests per second; `None` if the count of one of them is unknown.
    pub total_throughput: Option<f64>,
    /// Output tokens of answered requests; `None` if the count of one request is unknown, because a sum of the others
    /// would be too small.
    pub output_tokens: Option<i64>,
    /// Prompt tokens of answered requests; `None` as for output tokens.
    pub prompt_tokens: Option<i64>,
    /// Share of structured answers that match their schema; `None` if none was requested.
    pub schema_valid_rate: Option<f64>,
    /// First token − sent, ms.
    pub ttft: Option<Distribution>,
    /// First token − scheduled, ms; only for open arrivals.
    pub ttft_scheduled: Option<Distribution>,
    /// Last token − scheduled, ms; only for open arrivals.
    pub e2e_scheduled: Option<Distribution>,
    /// Time per output token after the first chunk, ms.
    pub tpot: Option<Distribution>,
    /// Gaps between chunks with text, all requests pooled, ms.
    pub icl: Option<Distribution>,
    /// Last token − sent, ms.
    pub e2e_latency: Option<Distribution>,
    /// Open arrivals, as drawn and as sent; `None` for closed loops and bursts.
    pub arrivals: Option<Arrivals>,
    /// Sent − scheduled, ms: the client's own delay. With a limit on requests in flight, from when a place was free.
    pub send_lag: Option<Distribution>,
    /// TTFT − the server's own time for the prompt, ms: the time between server and client, including the server's
    /// queue. `None` unless the server reports its timings.
    pub ttft_beyond_server: Option<Distribution>,
    /// E2E latency − the server's own time for prompt and generation, ms; `None` as above.
    pub e2e_beyond_server: Option<Distribution>,
    /// Requests per second that meet every bound; `None` without bounds.
    pub goodput: Option<f64>,
    /// Share of all measured requests that meet every bound; requests that failed, the turns after them, and requests that
    /// were due and never sent meet none. `None` without bounds.
    pub slo_pass_rate: Option<f64>,
}

/// Arrivals, as drawn and as sent, described by the gaps between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrivals {
    /// Requests per second by the schedule: 1 / mean gap.
    pub drawn_rate: f64,
    /// Coefficient of variation (sample standard deviation / mean) of the schedule's gaps.
    pub drawn_cv: f64,
    /// Requests per second as sent.
    pub sent_rate: f64,
    /// Coefficient of variation of the gaps as sent.
    pub sent_cv: f64,
}

const MS: f64 = 1e6;

pub(crate) fn ms(from: Option<i64>, to: Option<i64>) -> Option<f64> {
    Some((to? - from?) as f64 / MS)
}

/// Returns a request's time to first token, ms; `None` if not streamed or no token came.
pub(crate) fn ttft(row: &Request) -> Option<f64> {
    ms(row.sent_ns, row.first_token_ns)
}

/// Returns a request's end-to-end latency, ms; `None` if no token came.
pub(crate) fn e2e(row: &Request) -> Option<f64> {
    ms(row.sent_ns, row.last_token_ns)
}

/// Returns the part of a request's TTFT that its server does not account for, ms; `None` if the server reports nothing.
pub fn ttft_beyond_server(row: &Request) -> Option<f64> {
    Some(ttft(row)? - row.server_prompt_ms?)
}

/// Returns the part of a request's latency that its server does not account for, ms; `None` as above.
pub fn e2e_beyond_server(row: &Request) -> Option<f64> {
    Some(e2e(row)? - row.server_prompt_ms? - row.server_predicted_ms?)
}

/// Returns a request's time per output token, ms. `None` if no token follows the first chunk, or if everything came in one chunk.
pub(crate) fn tpot(row: &Request) -> Option<f64> {
    let goes_on = row.chunks? > 1 || row.last_token_ns > row.first_token_ns;
    row.tpot_ms().filter(|_| goes_on)
}

impl Slo {
    /// Returns whether a request was answered within every bound, and how close it came to one.
    pub(crate) fn judged(&self, row: &Request) -> Judged {
        // A bound on a latency that the request lacks is not met.
        let strain = self
            .bounds(row)
            .try_fold(0.0, |most: f64, (bound, value)| {
                Some(most.max(value? / bound))
            })
            .filter(|_| row.status == RequestStatus::Ok);
        Judged {
            good: strain.is_some() && self.kept(row),
            strain,
        }
    }

    pub(crate) fn kept(&self, row: &Request) -> bool {
        self.bounds(row)
            .all(|(bound, value)| value.is_some_and(|value| value <= bound))
    }

    pub(crate) fn any(&self) -> bool {
        *self != Self::default()
    }

    /// Returns the bound that no answer can meet because it does not arrive piece by piece; `None` if each can be met.
    pub fn unmet_by_whole_answers(&self) -> Option<&'static str> {
        let first = self.ttft_ms.or(self.ttft_scheduled_ms);
        first.map(|_| "ttft").or(self.tpot_ms.map(|_| "tpot"))
    }

    /// Returns each bound, ms, with the value of a request that must not be above it.
    fn bounds(&self, row: &Request) -> impl Iterator<Item = (f64, Option<f64>)> {
        // In a closed loop, a request is due when its client is free, so a wait is not seen.
        let due = row.scheduled_ns.filter(|_| row.client_id.is_none());
        let pairs = [
            (self.ttft_ms, ttft(row)),
            (self.tpot_ms, tpot(row)),
            (self.e2e_ms, e2e(row)),
            (self.ttft_scheduled_ms, ms(due, row.first_token_ns)),
            (self.e2e_scheduled_ms, ms(due, row.last_token_ns)),
        ];
        pairs
            .into_iter()
            .filter_map(|(bound, value)| Some((bound?, value)))
    }

    /// Returns the bounds with those on TTFT and E2E from the scheduled time. Requests that wait in line for a limit on requests
    /// in flight are sent late, so only the scheduled time shows their wait.
    #[must_use]
    pub fn from_schedule(self) -> Self {
        let lower =
            |one: Option<f64>, other: Option<f64>| one.into_iter().chain(other).reduce(f64::min);
        Self {
            ttft_ms: None,
            e2e_ms: None,
            ttft_scheduled_ms: lower(self.ttft_scheduled_ms, self.ttft_ms),
            e2e_scheduled_ms: lower(self.e2e_scheduled_ms, self.e2e_ms),
            ..self
        }
    }

    /// Returns the bounds in words, such as `TTFT ≤ 200 ms and TPOT ≤ 40 ms`.
    pub fn in_words(&self) -> String {
        let named = [
            ("TTFT", self.ttft_ms),
            ("TPOT", self.tpot_ms),
            ("E2E", self.e2e_ms),
            ("TTFT from its scheduled time", self.ttft_scheduled_ms),
            ("E2E from its scheduled time", self.e2e_scheduled_ms),
        ];
        let bounds = named.into_iter();
        let bounds = bounds.filter_map(|(name, ms)| Some(format!("{name} ≤ {} ms", ms?)));
        bounds.collect::<Vec<_>>().join(" and ")
    }
}

/// Returns the number of requests that the user cut off. They say nothing about bounds.
pub(crate) fn left_out(statuses: &BTreeMap<RequestStatus, u64>, lost_turns: u64) -> u64 {
    let cancelled = statuses.get(&RequestStatus::Cancelled).copied();
    cancelled.unwrap_or(0) - lost_turns
}

impl Summary {
    /// Returns the number of requests that do not enter the share within bounds, because the user cut them off.
    pub fn left_out(&self) -> u64 {
        left_out(&self.statuses, self.lost_turns)
    }

    /// Counts requests that were due and never sent: they met no bound.
    #[must_use]
    pub fn with_unsent(mut self, unsent: u64) -> Self {
        let judged = self.statuses.values().sum::<u64>() - self.left_out();
        let share = judged as f64 / (judged + unsent).max(1) as f64;
        self.slo_pass_rate = self.slo_pass_rate.map(|rate| rate * share);
        self
    }
}

impl Summary {
    /// Returns the doubt about a bound that no answer could meet, because none has such a latency.
    pub fn unmeasured(&self, slo: &Slo) -> Option<String> {
        let answers = self.statuses.get(&RequestStatus::Ok);
        answers.filter(|answers| **answers > 0)?;
        let bounds = [
            ("TTFT", slo.ttft_ms.or(slo.ttft_scheduled_ms), self.ttft),
            ("TPOT", slo.tpot_ms, self.tpot),
            ("E2E", slo.e2e_ms.or(slo.e2e_scheduled_ms), self.e2e_latency),
        ];
        let (name, ..) = bounds
            .into_iter()
            .find(|(_, bound, sample)| bound.is_some() && sample.is_none())?;
        Some(format!(
            "no answer has a {name}, so none meets the bound on it, and goodput says nothing about the server; TTFT and TPOT take \
             streamed answers, and TPOT takes answers of several chunks; leave out the bound"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_on_a_latency_that_no_answer_has_is_doubted() {
        let row = |id: i64, chunks: i64| Request {
            chunks: Some(chunks),
            output_tokens: Some(chunks),
            first_token_ns: Some(45_000_000),
            last_token_ns: Some(45_000_000 + (chunks - 1) * 10_000_000),
            ..contract::synthetic::request(id)
        };
        let summary = |chunks: i64, slo: &Slo| {
            crate::summarizer::Summarizer::of(&[row(0, chunks)], &[], slo).unwrap()
        };
        let slo = Slo {
            tpot_ms: Some(40.0),
            ..Slo::default()
        };
        let doubt = summary(1, &slo).unmeasured(&slo).unwrap();
        assert!(doubt.starts_with("no answer has a TPOT"), "{doubt}");
        assert_eq!(summary(4, &slo).unmeasured(&slo), None);
        assert_eq!(summary(1, &slo).unmeasured(&Slo::default()), None);
        assert_eq!(slo.unmet_by_whole_answers(), Some("tpot"));
        let e2e = Slo {
            e2e_ms: Some(1.0),
            ..Slo::default()
        };
        assert_eq!(e2e.unmet_by_whole_answers(), None);
    }

    #[test]
    fn quantiles_are_of_type_7() {
        // numpy.quantile([1, 2, 3, 10], [.5, .9])
        let figures = Distribution::of(vec![10.0, 2.0, 1.0, 3.0]).unwrap();
        for (quantile, expected) in [(figures.p50, 2.5), (figures.p90, 7.9)] {
            assert!((quantile - expected).abs() < 1e-12);
        }
        assert_eq!(Distribution::of(Vec::new()), None);
    }

    #[test]
    fn a_wait_in_line_counts_against_bounds_from_the_schedule() {
        // Due at 0, sent after 1 s, answered 45 ms later.
        let row = Request {
            client_id: None,
            scheduled_ns: Some(0),
            sent_ns: Some(1_000_000_000),
            first_token_ns: Some(1_045_000_000),
            last_token_ns: Some(1_045_000_000),
            ..contract::synthetic::request(0)
        };
        let slo = Slo {
            ttft_ms: Some(100.0),
            e2e_ms: Some(500.0),
            e2e_scheduled_ms: Some(400.0),
            ..Slo::default()
        };
        assert!(
            !slo.judged(&row).good
                && slo.kept(&Request {
                    scheduled_ns: row.sent_ns,
                    ..row.clone()
                })
        );
        let moved = slo.from_schedule();
        assert_eq!(
            moved.in_words(),
            "TTFT from its scheduled time ≤ 100 ms and E2E from its scheduled time ≤ 400 ms"
        );
        let judged = moved.judged(&row);
        assert_eq!((judged.good, judged.strain), (false, Some(10.45)));
        // A client of a closed loop has no schedule.
        let closed = Request {
            client_id: Some(0),
            ..row
        };
        assert_eq!(moved.judged(&closed).strain, None);
    }

    #[test]
    fn quantiles_are_those_of_the_analysis_to_the_last_bit() {
        let values = [11.0, 1.0, 2.0];
        let sample = statistics::Sample::new(values).unwrap();
        let figures = Distribution::of(values.to_vec()).unwrap();
        assert_eq!(
            [figures.p50, figures.p90, figures.p95, figures.p99],
            [0.50, 0.90, 0.95, 0.99].map(|p| sample.quantile(p))
        );
    }
}
