//! The usual table of a run, from its rows.
//!
//! The definitions are those of the analysis: per-request metrics over measured requests that
//! are ok, quantiles of type 7 on the exact values, throughput over the window from the first
//! `sent_ns` to the last `done_ns`. An undefined value is absent.

use std::collections::BTreeMap;

use crate::rows::{ChunkRow, Phase, RequestRow, RequestStatus};

/// A sample in figures; milliseconds unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distribution {
    /// How many values.
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
            p50: quantile(&values, 0.50)?,
            p90: quantile(&values, 0.90)?,
            p95: quantile(&values, 0.95)?,
            p99: quantile(&values, 0.99)?,
        })
    }
}

/// Returns quantile `q` (0–1) of values in ascending order: type 7 (Hyndman and Fan 1996),
/// linear interpolation, the default of NumPy and R. `None` without values.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let place = q.clamp(0.0, 1.0) * (sorted.len().checked_sub(1)?) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(below + (above - below) * (place - place.floor()))
}

/// Bounds a request must keep to count as good, ms. A bound on a value that is undefined for a
/// request is not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slo {
    /// On the time to the first token.
    pub ttft_ms: Option<f64>,
    /// On the time per output token.
    pub tpot_ms: Option<f64>,
    /// On the end-to-end latency.
    pub e2e_ms: Option<f64>,
}

/// The usual table of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Measured requests by status, superseded attempts left out.
    pub statuses: BTreeMap<RequestStatus, u64>,
    /// First `sent_ns` to last `done_ns` of measured requests, s.
    pub window_s: Option<f64>,
    /// Answered requests a second.
    pub request_throughput: Option<f64>,
    /// Output tokens of answered requests a second.
    pub output_throughput: Option<f64>,
    /// Prompt and output tokens of answered requests a second.
    pub total_throughput: Option<f64>,
    /// Output tokens of answered requests.
    pub output_tokens: i64,
    /// Prompt tokens of answered requests.
    pub prompt_tokens: i64,
    /// Share of structured answers that keep their schema; `None` if none was asked for.
    pub schema_valid_rate: Option<f64>,
    /// First token − sent, ms.
    pub ttft: Option<Distribution>,
    /// First token − scheduled, ms; only for open arrivals.
    pub ttft_scheduled: Option<Distribution>,
    /// Time per output token after the first chunk, ms.
    pub tpot: Option<Distribution>,
    /// Gaps between chunks with text, all requests pooled, ms.
    pub icl: Option<Distribution>,
    /// Last token − sent, ms.
    pub e2e_latency: Option<Distribution>,
    /// Open arrivals as drawn and as sent; `None` for closed loops and bursts.
    pub arrivals: Option<Arrivals>,
    /// Sent − scheduled, ms: the client's own delay.
    pub send_lag: Option<Distribution>,
    /// TTFT − the server's own time for the prompt, ms: what lies between server and client,
    /// with the server's queue. `None` unless the server tells its timings.
    pub ttft_beyond_server: Option<Distribution>,
    /// E2E latency − the server's own time for prompt and generation, ms; likewise.
    pub e2e_beyond_server: Option<Distribution>,
    /// Requests a second that keep every bound; `None` without bounds.
    pub goodput: Option<f64>,
    /// Share of answered requests that keep every bound; `None` without bounds.
    pub slo_pass_rate: Option<f64>,
}

/// Arrivals as drawn and as sent, by the gaps between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrivals {
    /// Requests a second by the schedule: 1 / mean gap.
    pub drawn_rate: f64,
    /// Coefficient of variation (sample standard deviation / mean) of the schedule's gaps.
    pub drawn_cv: f64,
    /// Requests a second as sent.
    pub sent_rate: f64,
    /// Coefficient of variation of the gaps as sent.
    pub sent_cv: f64,
}

impl Arrivals {
    /// Returns the figures of measured requests; `None` for fewer than three of them, or if they
    /// came all at once.
    fn of(counted: &[&RequestRow]) -> Option<Self> {
        let sent: Vec<&&RequestRow> = counted.iter().filter(|r| r.sent_ns.is_some()).collect();
        let (drawn_rate, drawn_cv) = rate_and_cv(sent.iter().map(|r| r.scheduled_ns).collect())?;
        let (sent_rate, sent_cv) = rate_and_cv(sent.iter().filter_map(|r| r.sent_ns).collect())?;
        Some(Self { drawn_rate, drawn_cv, sent_rate, sent_cv })
    }
}

fn rate_and_cv(mut stamps: Vec<i64>) -> Option<(f64, f64)> {
    stamps.sort_unstable();
    let gaps = Distribution::of(stamps.windows(2).map(|p| (p[1] - p[0]) as f64 / 1e9).collect())?;
    (gaps.mean > 0.0).then_some((1.0 / gaps.mean, gaps.std? / gaps.mean))
}

const MS: f64 = 1e6;

pub(crate) fn ms(from: Option<i64>, to: Option<i64>) -> Option<f64> {
    Some((to? - from?) as f64 / MS)
}

/// Returns a request's time to first token, ms; `None` if not streamed or no token came.
pub(crate) fn ttft(row: &RequestRow) -> Option<f64> {
    ms(row.sent_ns, row.first_token_ns)
}

/// Returns a request's end-to-end latency, ms; `None` if no token came.
pub(crate) fn e2e(row: &RequestRow) -> Option<f64> {
    ms(row.sent_ns, row.last_token_ns)
}

/// Returns what of a request's TTFT its server does not account for, ms; `None` if it tells nothing.
pub(crate) fn ttft_beyond_server(row: &RequestRow) -> Option<f64> {
    Some(ttft(row)? - row.server_prompt_ms?)
}

/// Returns what of a request's latency its server does not account for, ms; likewise.
pub(crate) fn e2e_beyond_server(row: &RequestRow) -> Option<f64> {
    Some(e2e(row)? - row.server_prompt_ms? - row.server_predicted_ms?)
}

/// Returns a request's time per output token, ms: (last − first) over the tokens after the first
/// chunk. Where the first chunk's tokens are not known they are taken to be one, as vLLM and
/// SGLang do. `None` if no token follows the first chunk.
pub(crate) fn tpot(row: &RequestRow) -> Option<f64> {
    let after_first = row.output_tokens? - row.first_chunk_tokens.unwrap_or(1);
    let span = ms(row.first_token_ns, row.last_token_ns)?;
    (after_first > 0 && row.chunks? > 1).then(|| span / after_first as f64)
}

impl Slo {
    pub(crate) fn kept(&self, row: &RequestRow) -> bool {
        let keeps = |bound: Option<f64>, value: Option<f64>| match bound {
            Some(bound) => value.is_some_and(|v| v <= bound),
            None => true,
        };
        keeps(self.ttft_ms, ttft(row)) && keeps(self.tpot_ms, tpot(row)) && keeps(self.e2e_ms, e2e(row))
    }

    pub(crate) fn any(&self) -> bool {
        self.ttft_ms.is_some() || self.tpot_ms.is_some() || self.e2e_ms.is_some()
    }
}

/// Returns the usual table of a run's rows.
pub fn summarize(requests: &[RequestRow], chunks: &[ChunkRow], slo: &Slo) -> Summary {
    let counted: Vec<&RequestRow> =
        requests.iter().filter(|r| r.phase == Phase::Measured && !r.superseded).collect();
    let ok: Vec<&RequestRow> = counted.iter().copied().filter(|r| r.status == RequestStatus::Ok).collect();
    let mut statuses = BTreeMap::new();
    for row in &counted {
        *statuses.entry(row.status).or_default() += 1;
    }
    let from = counted.iter().filter_map(|r| r.sent_ns).min();
    let to = counted.iter().filter(|r| r.sent_ns.is_some()).map(|r| r.done_ns).max();
    let window_s = ms(from, to).map(|ms| ms / 1000.0).filter(|s| *s > 0.0);
    let rate = |count: f64| window_s.map(|s| count / s);
    let output_tokens: i64 = ok.iter().filter_map(|r| r.output_tokens).sum();
    let prompt_tokens: i64 = ok.iter().filter_map(|r| r.prompt_tokens).sum();
    let over =
        |f: &dyn Fn(&RequestRow) -> Option<f64>| Distribution::of(ok.iter().copied().filter_map(f).collect());
    let good = ok.iter().filter(|r| slo.kept(r)).count() as f64;
    let judged: Vec<bool> = counted.iter().filter_map(|r| r.schema_valid).collect();
    let valid = judged.iter().filter(|valid| **valid).count() as f64;
    let open = counted.iter().all(|r| r.client_id.is_none());
    Summary {
        window_s,
        request_throughput: rate(ok.len() as f64),
        output_throughput: rate(output_tokens as f64),
        total_throughput: rate((output_tokens + prompt_tokens) as f64),
        output_tokens,
        prompt_tokens,
        schema_valid_rate: (!judged.is_empty()).then(|| valid / judged.len() as f64),
        ttft: over(&ttft),
        ttft_scheduled: if open { over(&|r| ms(Some(r.scheduled_ns), r.first_token_ns)) } else { None },
        tpot: over(&tpot),
        icl: Distribution::of(gaps(&ok, chunks)),
        e2e_latency: over(&e2e),
        arrivals: if open { Arrivals::of(&counted) } else { None },
        send_lag: Distribution::of(counted.iter().filter_map(|r| Some(r.send_lag_ns? as f64 / MS)).collect()),
        ttft_beyond_server: over(&ttft_beyond_server),
        e2e_beyond_server: over(&e2e_beyond_server),
        goodput: if slo.any() { rate(good) } else { None },
        slo_pass_rate: (slo.any() && !ok.is_empty()).then(|| good / ok.len() as f64),
        statuses,
    }
}

/// Returns the gaps between consecutive chunks of each of these requests, ms.
fn gaps(ok: &[&RequestRow], chunks: &[ChunkRow]) -> Vec<f64> {
    let wanted: std::collections::BTreeSet<(i64, i64)> =
        ok.iter().map(|r| (r.request_id, r.attempt)).collect();
    let pairs = chunks.windows(2).filter(|pair| {
        let (a, b) = (pair[0], pair[1]);
        (a.request_id, a.attempt) == (b.request_id, b.attempt) && wanted.contains(&(a.request_id, a.attempt))
    });
    pairs.map(|pair| (pair[1].at_ns - pair[0].at_ns) as f64 / MS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_type_7() {
        // numpy.quantile([1, 2, 3, 10], [0, .25, .5, .9, 1])
        let values = [1.0, 2.0, 3.0, 10.0];
        for (q, expected) in [(0.0, 1.0), (0.25, 1.75), (0.5, 2.5), (0.9, 7.9), (1.0, 10.0)] {
            assert!((quantile(&values, q).unwrap() - expected).abs() < 1e-12);
        }
        assert_eq!(quantile(&[], 0.5), None);
    }

    fn row(id: i64, status: RequestStatus, sent: i64, first: i64, last: i64) -> RequestRow {
        RequestRow {
            request_id: id,
            attempt: 1,
            superseded: false,
            phase: Phase::Measured,
            client_id: None,
            session_id: None,
            turn: None,
            prompt_index: id,
            prompt_digest: String::new(),
            scheduled_ns: sent - 1_000_000,
            connect_ns: None,
            sent_ns: Some(sent),
            headers_ns: Some(first),
            first_token_ns: Some(first),
            first_reasoning_ns: None,
            first_answer_ns: Some(first),
            last_token_ns: Some(last),
            done_ns: last,
            prompt_tokens: Some(10),
            cached_prompt_tokens: None,
            output_tokens: Some(3),
            reasoning_tokens: None,
            tokens_source: None,
            tokens_agree: None,
            requested_output_tokens: 3,
            chunks: Some(3),
            first_chunk_tokens: Some(1),
            finish_reason: None,
            status,
            http_status: Some(200),
            retry_after_s: None,
            error: None,
            schema_valid: None,
            send_lag_ns: Some(1_000_000),
            in_flight_at_send: Some(0),
            reads: 1,
            received_bytes: 1,
            output_characters: None,
            output_digest: None,
            server_prompt_ms: None,
            server_predicted_ms: None,
        }
    }

    #[test]
    fn the_table_follows_its_definitions() {
        let s = 1_000_000_000;
        let rows = [
            row(0, RequestStatus::Ok, 0, s / 10, s / 2),
            row(1, RequestStatus::Ok, s / 2, s, 2 * s),
            row(2, RequestStatus::Timeout, s, 3 * s, 4 * s),
        ];
        let chunk =
            |id, at_ns| ChunkRow { request_id: id, attempt: 1, at_ns, bytes: 1, tokens: None, read: 0 };
        let chunks = [
            chunk(0, s / 10),
            chunk(0, s / 2),
            chunk(1, s),
            chunk(1, 2 * s),
            chunk(2, 3 * s),
            chunk(2, 4 * s),
        ];
        let slo = Slo { ttft_ms: Some(200.0), tpot_ms: Some(200.0), e2e_ms: None };
        let summary = summarize(&rows, &chunks, &slo);
        assert_eq!(summary.window_s, Some(4.0));
        assert_eq!((summary.request_throughput, summary.output_throughput), (Some(0.5), Some(1.5)));
        assert_eq!(summary.total_throughput, Some(6.5));
        let ttft = summary.ttft.unwrap();
        assert_eq!((ttft.n, ttft.min, ttft.max, ttft.p50), (2, 100.0, 500.0, 300.0));
        assert_eq!(summary.ttft_scheduled.unwrap().min, 101.0);
        assert_eq!(summary.tpot.unwrap().max, 500.0);
        assert_eq!(summary.icl.unwrap().n, 2);
        assert_eq!((summary.goodput, summary.slo_pass_rate), (Some(0.25), Some(0.5)));
        assert_eq!(summary.statuses[&RequestStatus::Timeout], 1);
    }

    #[test]
    fn arrivals_as_sent_stand_beside_those_drawn() {
        let at = |id: i64, sent_ms: i64| {
            let sent = row(id, RequestStatus::Timeout, sent_ms * 1_000_000, 0, 0);
            RequestRow { scheduled_ns: id * 10_000_000, ..sent }
        };
        let rows = [at(0, 0), at(1, 15), at(2, 20), at(3, 45)];
        let arrivals = summarize(&rows, &[], &Slo::default()).arrivals.unwrap();
        assert!((arrivals.drawn_rate - 100.0).abs() < 1e-9 && arrivals.drawn_cv.abs() < 1e-9);
        // Gaps of 15, 5 and 25 ms: mean 15, sample standard deviation 10.
        assert!((arrivals.sent_rate - 1000.0 / 15.0).abs() < 1e-9);
        assert!((arrivals.sent_cv - 10.0 / 15.0).abs() < 1e-9);
        let one_by_one = rows.map(|r| RequestRow { client_id: Some(0), ..r });
        assert!(summarize(&one_by_one, &[], &Slo::default()).arrivals.is_none());
    }

    #[test]
    fn the_servers_own_account_is_taken_off_where_it_is_told() {
        let mut told = row(1, RequestStatus::Ok, 0, 30_000_000, 90_000_000);
        (told.server_prompt_ms, told.server_predicted_ms) = (Some(28.5), Some(60.0));
        let untold = row(2, RequestStatus::Ok, 0, 30_000_000, 90_000_000);
        let all = summarize(&[told, untold.clone()], &[], &Slo::default());
        let (ttft, e2e) = (all.ttft_beyond_server.unwrap(), all.e2e_beyond_server.unwrap());
        assert_eq!((ttft.n, ttft.p50, e2e.n, e2e.p50), (1, 1.5, 1, 1.5));
        assert_eq!(summarize(&[untold], &[], &Slo::default()).ttft_beyond_server, None);
    }
}
