//! The usual table of a run from its rows one by one, in memory of bounded size.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::path::Path;

use crate::rows::{ChunkRow, Phase, RequestRow, RequestStatus};
use crate::sample::Sample;
use crate::summary::{Arrivals, Slo, Summary, e2e, e2e_beyond_server, ms, tpot, ttft, ttft_beyond_server};

/// Takes the rows of a run and gives its [`Summary`], equal to that of
/// [`summarize`](crate::summarize) but for the last bits of means.
#[derive(Debug)]
pub struct Summarizer {
    slo: Slo,
    statuses: BTreeMap<RequestStatus, u64>,
    window: (Option<i64>, Option<i64>),
    any_client: bool,
    output_tokens: i64,
    prompt_tokens: i64,
    good: u64,
    structured: u64,
    valid: u64,
    ttft: Sample,
    ttft_scheduled: Sample,
    tpot: Sample,
    icl: Sample,
    e2e_latency: Sample,
    send_lag: Sample,
    ttft_beyond_server: Sample,
    e2e_beyond_server: Sample,
    drawn: Gaps,
    sent: Gaps,
}

impl Summarizer {
    /// Begins; what does not fit into memory goes into files without names in `folder`.
    pub fn new(slo: Slo, folder: &Path) -> Self {
        let sample = || Sample::new(folder.to_owned());
        Self {
            slo,
            statuses: BTreeMap::new(),
            window: (None, None),
            any_client: false,
            output_tokens: 0,
            prompt_tokens: 0,
            good: 0,
            structured: 0,
            valid: 0,
            ttft: sample(),
            ttft_scheduled: sample(),
            tpot: sample(),
            icl: sample(),
            e2e_latency: sample(),
            send_lag: sample(),
            ttft_beyond_server: sample(),
            e2e_beyond_server: sample(),
            drawn: Gaps::default(),
            sent: Gaps::default(),
        }
    }

    /// Takes an attempt and its chunks by time; attempts come in the order of requests.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn add(&mut self, row: &RequestRow, chunks: &[ChunkRow]) -> io::Result<()> {
        if row.phase != Phase::Measured || row.superseded {
            return Ok(());
        }
        *self.statuses.entry(row.status).or_default() += 1;
        self.any_client |= row.client_id.is_some();
        let put = |sample: &mut Sample, value: Option<f64>| value.map_or(Ok(()), |v| sample.push(v));
        if let Some(sent) = row.sent_ns {
            let (from, to) = &mut self.window;
            *from = Some(from.map_or(sent, |from| from.min(sent)));
            *to = (*to).max(Some(row.done_ns));
            self.drawn.add(row.scheduled_ns);
            self.sent.add(sent);
        }
        put(&mut self.send_lag, row.send_lag_ns.map(|ns| ns as f64 / 1e6))?;
        self.structured += u64::from(row.schema_valid.is_some());
        self.valid += u64::from(row.schema_valid == Some(true));
        if row.status != RequestStatus::Ok {
            return Ok(());
        }
        self.output_tokens += row.output_tokens.unwrap_or(0);
        self.prompt_tokens += row.prompt_tokens.unwrap_or(0);
        self.good += u64::from(self.slo.kept(row));
        put(&mut self.ttft, ttft(row))?;
        put(&mut self.ttft_scheduled, ms(Some(row.scheduled_ns), row.first_token_ns))?;
        put(&mut self.tpot, tpot(row))?;
        put(&mut self.e2e_latency, e2e(row))?;
        put(&mut self.ttft_beyond_server, ttft_beyond_server(row))?;
        put(&mut self.e2e_beyond_server, e2e_beyond_server(row))?;
        chunks
            .windows(2)
            .try_for_each(|pair| put(&mut self.icl, ms(Some(pair[0].at_ns), Some(pair[1].at_ns))))
    }

    /// Returns the table.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn finish(self) -> io::Result<Summary> {
        let ok = self.statuses.get(&RequestStatus::Ok).copied().unwrap_or(0) as f64;
        let window_s = ms(self.window.0, self.window.1).map(|ms| ms / 1000.0).filter(|s| *s > 0.0);
        let rate = |count: f64| window_s.map(|s| count / s);
        let open = !self.any_client;
        let arrivals = self.drawn.rate_and_cv().zip(self.sent.rate_and_cv()).map(|(drawn, sent)| Arrivals {
            drawn_rate: drawn.0,
            drawn_cv: drawn.1,
            sent_rate: sent.0,
            sent_cv: sent.1,
        });
        let bounded = self.slo.any();
        Ok(Summary {
            window_s,
            request_throughput: rate(ok),
            output_throughput: rate(self.output_tokens as f64),
            total_throughput: rate((self.output_tokens + self.prompt_tokens) as f64),
            output_tokens: self.output_tokens,
            prompt_tokens: self.prompt_tokens,
            schema_valid_rate: (self.structured > 0).then(|| self.valid as f64 / self.structured as f64),
            ttft: self.ttft.distribution()?,
            ttft_scheduled: if open { self.ttft_scheduled.distribution()? } else { None },
            tpot: self.tpot.distribution()?,
            icl: self.icl.distribution()?,
            e2e_latency: self.e2e_latency.distribution()?,
            arrivals: arrivals.filter(|_| open),
            send_lag: self.send_lag.distribution()?,
            ttft_beyond_server: self.ttft_beyond_server.distribution()?,
            e2e_beyond_server: self.e2e_beyond_server.distribution()?,
            goodput: if bounded { rate(self.good as f64) } else { None },
            slo_pass_rate: (bounded && ok > 0.0).then(|| self.good as f64 / ok),
            statuses: self.statuses,
        })
    }
}

/// Stamps out of order by more places than this leave the gaps undefined.
const OUT_OF_ORDER: usize = 1 << 16;

/// Mean and spread of the gaps between stamps that come nearly in order (Welford 1962).
#[derive(Debug, Default)]
struct Gaps {
    waiting: BinaryHeap<Reverse<i64>>,
    last: Option<i64>,
    n: u64,
    mean: f64,
    squares: f64,
    lost: bool,
}

impl Gaps {
    fn add(&mut self, stamp: i64) {
        self.waiting.push(Reverse(stamp));
        if self.waiting.len() > OUT_OF_ORDER {
            self.next();
        }
    }

    fn next(&mut self) {
        let Some(Reverse(stamp)) = self.waiting.pop() else { return };
        if let Some(last) = self.last.replace(stamp) {
            self.lost |= stamp < last;
            let gap = (stamp - last) as f64 / 1e9;
            self.n += 1;
            let from_mean = gap - self.mean;
            self.mean += from_mean / self.n as f64;
            self.squares += from_mean * (gap - self.mean);
        }
    }

    /// Returns the rate (1 / mean gap) and the coefficient of variation.
    fn rate_and_cv(mut self) -> Option<(f64, f64)> {
        while !self.waiting.is_empty() {
            self.next();
        }
        let known = self.n > 1 && self.mean > 0.0 && !self.lost;
        known.then(|| (1.0 / self.mean, (self.squares / (self.n - 1) as f64).sqrt() / self.mean))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::samples::row;
    use crate::summarize;

    #[test]
    fn row_by_row_gives_the_table_of_all_rows() {
        for client in [None, Some(0)] {
            let rows: Vec<RequestRow> = (0..40_i64)
                .map(|id| {
                    let sent = id * 1_000_000 + (id % 3) * 1_500_000;
                    RequestRow {
                        client_id: client,
                        scheduled_ns: id * 1_000_000,
                        sent_ns: Some(sent),
                        send_lag_ns: Some(sent - id * 1_000_000),
                        first_token_ns: Some(sent + 5_000_000 + id * 1000),
                        last_token_ns: Some(sent + 9_000_000 + id * 7000),
                        done_ns: sent + 9_500_000,
                        phase: if id < 2 { Phase::Warmup } else { Phase::Measured },
                        status: if id % 9 == 4 { RequestStatus::Timeout } else { RequestStatus::Ok },
                        superseded: id == 11,
                        ..row(id)
                    }
                })
                .collect();
            let of = |r: &RequestRow| {
                let chunk = |at_ns| ChunkRow {
                    request_id: r.request_id,
                    attempt: 1,
                    at_ns,
                    bytes: 1,
                    tokens: None,
                    read: 0,
                };
                [r.first_token_ns, r.last_token_ns].into_iter().flatten().map(chunk).collect::<Vec<_>>()
            };
            let slo = Slo { ttft_ms: Some(5.02), tpot_ms: None, e2e_ms: Some(9.2) };
            let folder = tempfile::tempdir().unwrap();
            let mut summarizer = Summarizer::new(slo, folder.path());
            rows.iter().for_each(|r| summarizer.add(r, &of(r)).unwrap());
            let mut found = summarizer.finish().unwrap();
            let chunks: Vec<ChunkRow> = rows.iter().flat_map(of).collect();
            let expected = summarize(&rows, &chunks, &slo);
            if let (Some(a), Some(b)) = (found.arrivals, expected.arrivals) {
                for (a, b) in [
                    (a.drawn_rate, b.drawn_rate),
                    (a.drawn_cv, b.drawn_cv),
                    (a.sent_rate, b.sent_rate),
                    (a.sent_cv, b.sent_cv),
                ] {
                    assert!((a - b).abs() <= 1e-9 * b.abs().max(1.0), "{a} {b}");
                }
                found.arrivals = expected.arrivals;
            }
            assert_eq!(found, expected);
        }
    }
}
