//! The usual table of a run, computed from its rows one by one, in bounded memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::path::Path;

use contract::{Chunk, Phase, Request, RequestStatus};

use crate::sample::Sample;
use crate::summary::{
    Arrivals, Slo, Summary, e2e, e2e_beyond_server, left_out, ms, tpot, ttft, ttft_beyond_server,
};

/// Receives the rows of a run and returns its [`Summary`].
#[derive(Debug)]
pub struct Summarizer {
    slo: Slo,
    statuses: BTreeMap<RequestStatus, u64>,
    window: (Option<i64>, Option<i64>),
    any_client: bool,
    output_tokens: Option<i64>,
    prompt_tokens: Option<i64>,
    good: u64,
    broken_session: Option<i64>,
    lost_turns: u64,
    structured: u64,
    valid: u64,
    ttft: Sample,
    ttft_scheduled: Sample,
    e2e_scheduled: Sample,
    tpot: Sample,
    icl: Sample,
    e2e_latency: Sample,
    send_lag: Sample,
    ttft_beyond_server: Sample,
    e2e_beyond_server: Sample,
    drawn: Gaps,
    sent: Gaps,
}

/// Adds a count to a sum. The sum is unknown if one of its parts is.
fn count(sum: &mut Option<i64>, more: Option<i64>) {
    *sum = sum.zip(more).map(|(sum, more)| sum.saturating_add(more));
}

impl Summarizer {
    /// Starts a table. Data that does not fit into memory goes into unnamed files in `folder`.
    pub fn new(slo: Slo, folder: &Path) -> Self {
        let sample = || Sample::new(folder.to_owned());
        Self {
            slo,
            statuses: BTreeMap::new(),
            window: (None, None),
            any_client: false,
            output_tokens: Some(0),
            prompt_tokens: Some(0),
            good: 0,
            broken_session: None,
            lost_turns: 0,
            structured: 0,
            valid: 0,
            ttft: sample(),
            ttft_scheduled: sample(),
            e2e_scheduled: sample(),
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

    /// Returns the table of rows in memory. Both are sorted by request and attempt.
    ///
    /// # Errors
    /// If the number of rows requires files, and the disk refuses.
    pub(crate) fn of(requests: &[Request], chunks: &[Chunk], slo: &Slo) -> io::Result<Summary> {
        let mut summarizer = Self::new(*slo, &std::env::temp_dir());
        let mut rest = chunks;
        for row in requests {
            let place = (row.request_id, row.attempt);
            let (own, after) =
                rest.split_at(rest.partition_point(|c| (c.request_id, c.attempt) <= place));
            summarizer.add(row, own)?;
            rest = after;
        }
        summarizer.finish()
    }

    /// Adds an attempt and its chunks by time. Attempts come in the order of requests.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn add(&mut self, row: &Request, chunks: &[Chunk]) -> io::Result<()> {
        if row.phase != Phase::Measured || row.superseded {
            return Ok(());
        }
        *self.statuses.entry(row.status).or_default() += 1;
        self.follow_session(row);
        self.any_client |= row.client_id.is_some();
        let put =
            |sample: &mut Sample, value: Option<f64>| value.map_or(Ok(()), |v| sample.push(v));
        if let Some(sent) = row.sent_ns {
            let (from, to) = &mut self.window;
            *from = Some(from.map_or(sent, |from| from.min(sent)));
            *to = (*to).max(row.done_ns);
            if let Some(scheduled) = row.scheduled_ns {
                self.drawn.add(scheduled);
            }
            self.sent.add(sent);
        }
        put(
            &mut self.send_lag,
            row.send_lag_ns.map(|ns| ns as f64 / 1e6),
        )?;
        self.structured += u64::from(row.schema_valid.is_some());
        self.valid += u64::from(row.schema_valid == Some(true));
        if row.status != RequestStatus::Ok {
            return Ok(());
        }
        count(&mut self.output_tokens, row.output_tokens);
        count(&mut self.prompt_tokens, row.prompt_tokens);
        self.good += u64::from(self.slo.kept(row));
        put(&mut self.ttft, ttft(row))?;
        put(
            &mut self.ttft_scheduled,
            ms(row.scheduled_ns, row.first_token_ns),
        )?;
        put(
            &mut self.e2e_scheduled,
            ms(row.scheduled_ns, row.last_token_ns),
        )?;
        put(&mut self.tpot, tpot(row))?;
        put(&mut self.e2e_latency, e2e(row))?;
        put(&mut self.ttft_beyond_server, ttft_beyond_server(row))?;
        put(&mut self.e2e_beyond_server, e2e_beyond_server(row))?;
        chunks
            .windows(2)
            .try_for_each(|pair| put(&mut self.icl, ms(Some(pair[0].at_ns), Some(pair[1].at_ns))))
    }

    /// Counts a turn that was not sent because an earlier one failed. After a turn that its user cut off, the session just ends.
    fn follow_session(&mut self, row: &Request) {
        use RequestStatus::{Cancelled, InvalidOutput, Ok};
        match row.status {
            Cancelled if row.sent_ns.is_none() => {
                let is_lost = row.session_id.is_some() && row.session_id == self.broken_session;
                self.lost_turns += u64::from(is_lost);
            }
            Ok | InvalidOutput | Cancelled => self.broken_session = None,
            _ => self.broken_session = row.session_id,
        }
    }

    /// Returns the table.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn finish(self) -> io::Result<Summary> {
        let ok = self.statuses.get(&RequestStatus::Ok).copied().unwrap_or(0) as f64;
        let window_s = ms(self.window.0, self.window.1)
            .map(|ms| ms / 1000.0)
            .filter(|s| *s > 0.0);
        let rate = |count: f64| window_s.map(|s| count / s);
        let open = !self.any_client;
        let arrivals =
            self.drawn
                .rate_and_cv()
                .zip(self.sent.rate_and_cv())
                .map(|(drawn, sent)| Arrivals {
                    drawn_rate: drawn.0,
                    drawn_cv: drawn.1,
                    sent_rate: sent.0,
                    sent_cv: sent.1,
                });
        let of_schedule = |sample: Sample| match open {
            true => sample.distribution(),
            false => Ok(None),
        };
        let both = self.output_tokens.zip(self.prompt_tokens);
        let bounded = self.slo.any();
        let all: u64 = self.statuses.values().sum();
        let judged = all - left_out(&self.statuses, self.lost_turns);
        Ok(Summary {
            lost_turns: self.lost_turns,
            window_s,
            request_throughput: rate(ok),
            output_throughput: self.output_tokens.and_then(|n| rate(n as f64)),
            total_throughput: both.and_then(|(out, prompt)| rate(out as f64 + prompt as f64)),
            output_tokens: self.output_tokens,
            prompt_tokens: self.prompt_tokens,
            schema_valid_rate: (self.structured > 0)
                .then(|| self.valid as f64 / self.structured as f64),
            ttft: self.ttft.distribution()?,
            ttft_scheduled: of_schedule(self.ttft_scheduled)?,
            e2e_scheduled: of_schedule(self.e2e_scheduled)?,
            tpot: self.tpot.distribution()?,
            icl: self.icl.distribution()?,
            e2e_latency: self.e2e_latency.distribution()?,
            arrivals: arrivals.filter(|_| open),
            send_lag: self.send_lag.distribution()?,
            ttft_beyond_server: self.ttft_beyond_server.distribution()?,
            e2e_beyond_server: self.e2e_beyond_server.distribution()?,
            goodput: if bounded {
                rate(self.good as f64)
            } else {
                None
            },
            slo_pass_rate: (bounded && judged > 0).then(|| self.good as f64 / judged as f64),
            statuses: self.statuses,
        })
    }
}

/// If stamps are out of order by more places than this, the gaps are undefined.
const OUT_OF_ORDER: usize = 1 << 16;

/// The mean and the spread of the gaps between stamps that arrive nearly in order (Welford 1962).
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
        let Some(Reverse(stamp)) = self.waiting.pop() else {
            return;
        };
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
        let is_defined = self.n > 1 && self.mean > 0.0 && !self.lost;
        is_defined.then(|| {
            (
                1.0 / self.mean,
                (self.squares / (self.n - 1) as f64).sqrt() / self.mean,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::Distribution;

    /// Returns an answered measured request of open arrivals, by its id.
    fn row(id: i64) -> Request {
        Request {
            client_id: None,
            output_tokens: Some(3),
            ..contract::synthetic::request(id)
        }
    }

    fn of(rows: &[Request], chunks: &[Chunk], slo: &Slo) -> Summary {
        Summarizer::of(rows, chunks, slo).unwrap()
    }

    fn chunk(id: i64, at_ns: i64) -> Chunk {
        Chunk {
            request_id: id,
            attempt: 1,
            at_ns,
            bytes: Some(1),
            tokens: None,
            read: Some(0),
        }
    }

    fn answered(id: i64, status: RequestStatus, sent: i64, first: i64, last: i64) -> Request {
        Request {
            status,
            scheduled_ns: Some(sent - 1_000_000),
            sent_ns: Some(sent),
            first_token_ns: Some(first),
            last_token_ns: Some(last),
            done_ns: Some(last),
            send_lag_ns: Some(1_000_000),
            chunks: Some(3),
            first_chunk_tokens: Some(1),
            ..row(id)
        }
    }

    #[test]
    fn tokens_that_nobody_counted_are_not_zero() {
        let s = 1_000_000_000;
        let mut rows = [
            answered(0, RequestStatus::Ok, 0, s / 10, s / 2),
            answered(1, RequestStatus::Ok, s / 2, s, 2 * s),
            answered(2, RequestStatus::Timeout, s, 3 * s, 4 * s),
        ];
        rows[2].prompt_tokens = None;
        // Missing values of an unanswered request do not count either.
        assert!(of(&rows, &[], &Slo::default()).total_throughput.is_some());
        rows[1].prompt_tokens = None;
        let summary = of(&rows, &[], &Slo::default());
        assert_eq!(
            (summary.prompt_tokens, summary.total_throughput),
            (None, None)
        );
        assert!(summary.output_tokens.is_some() && summary.output_throughput.is_some());
        rows[0].output_tokens = None;
        let summary = of(&rows, &[], &Slo::default());
        assert_eq!(
            (summary.output_tokens, summary.output_throughput),
            (None, None)
        );
    }

    #[test]
    fn the_table_follows_its_definitions() {
        let s = 1_000_000_000;
        let rows = [
            answered(0, RequestStatus::Ok, 0, s / 10, s / 2),
            answered(1, RequestStatus::Ok, s / 2, s, 2 * s),
            answered(2, RequestStatus::Timeout, s, 3 * s, 4 * s),
        ];
        let chunks = [
            chunk(0, s / 10),
            chunk(0, s / 2),
            chunk(1, s),
            chunk(1, 2 * s),
            chunk(2, 3 * s),
            chunk(2, 4 * s),
        ];
        let slo = Slo {
            ttft_ms: Some(200.0),
            tpot_ms: Some(200.0),
            ..Slo::default()
        };
        let summary = of(&rows, &chunks, &slo);
        assert_eq!(summary.window_s, Some(4.0));
        assert_eq!(
            (summary.request_throughput, summary.output_throughput),
            (Some(0.5), Some(1.5))
        );
        assert_eq!(summary.total_throughput, Some(6.5));
        let ttft = summary.ttft.unwrap();
        assert_eq!(
            (ttft.n, ttft.min, ttft.max, ttft.p50),
            (2, 100.0, 500.0, 300.0)
        );
        assert_eq!(summary.ttft_scheduled.unwrap().min, 101.0);
        let (late, sent) = (summary.e2e_scheduled.unwrap(), summary.e2e_latency.unwrap());
        assert!(late.min > sent.min && late.n == sent.n);
        assert_eq!(summary.tpot.unwrap().max, 500.0);
        assert_eq!(summary.icl.unwrap().n, 2);
        assert_eq!(
            (summary.goodput, summary.slo_pass_rate),
            // One of the two answers is in time, and the third request was not answered.
            (Some(0.25), Some(1.0 / 3.0))
        );
        assert_eq!(summary.statuses[&RequestStatus::Timeout], 1);
    }

    #[test]
    fn arrivals_as_sent_stand_beside_those_drawn() {
        let at = |id: i64, sent_ms: i64| {
            let sent = answered(id, RequestStatus::Timeout, sent_ms * 1_000_000, 0, 0);
            Request {
                scheduled_ns: Some(id * 10_000_000),
                ..sent
            }
        };
        let rows = [at(0, 0), at(1, 15), at(2, 20), at(3, 45)];
        let arrivals = of(&rows, &[], &Slo::default()).arrivals.unwrap();
        assert!((arrivals.drawn_rate - 100.0).abs() < 1e-9 && arrivals.drawn_cv.abs() < 1e-9);
        // Gaps of 15, 5 and 25 ms: mean 15, sample standard deviation 10.
        assert!((arrivals.sent_rate - 1000.0 / 15.0).abs() < 1e-9);
        assert!((arrivals.sent_cv - 10.0 / 15.0).abs() < 1e-9);
        let one_by_one = rows.map(|r| Request {
            client_id: Some(0),
            ..r
        });
        assert!(of(&one_by_one, &[], &Slo::default()).arrivals.is_none());
    }

    #[test]
    fn the_servers_own_account_is_subtracted_where_it_is_given() {
        let mut accounted = answered(1, RequestStatus::Ok, 0, 30_000_000, 90_000_000);
        (accounted.server_prompt_ms, accounted.server_predicted_ms) = (Some(28.5), Some(60.0));
        let untold = answered(2, RequestStatus::Ok, 0, 30_000_000, 90_000_000);
        let all = of(&[accounted, untold.clone()], &[], &Slo::default());
        let (ttft, e2e) = (
            all.ttft_beyond_server.unwrap(),
            all.e2e_beyond_server.unwrap(),
        );
        assert_eq!((ttft.n, ttft.p50, e2e.n, e2e.p50), (1, 1.5, 1, 1.5));
        assert_eq!(of(&[untold], &[], &Slo::default()).ttft_beyond_server, None);
    }

    #[test]
    fn a_cancelled_request_counts_neither_for_nor_against_the_bounds() {
        let ended = |id: i64, status| Request {
            sent_ns: Some(0),
            first_token_ns: Some(1_000_000),
            last_token_ns: Some(2_000_000),
            done_ns: Some(2_000_000),
            phase: Phase::Measured,
            status,
            ..row(id)
        };
        let rows = [
            ended(0, RequestStatus::Ok),
            ended(1, RequestStatus::Timeout),
            ended(2, RequestStatus::Cancelled),
            ended(3, RequestStatus::Cancelled),
        ];
        let slo = Slo {
            ttft_ms: Some(5.0),
            ..Slo::default()
        };
        let summary = of(&rows, &[], &slo);
        assert_eq!(summary.slo_pass_rate, Some(0.5));
        // Requests that were due and never sent count against them.
        assert_eq!(summary.with_unsent(6).slo_pass_rate, Some(0.125));
        assert_eq!(of(&rows[2..], &[], &slo).slo_pass_rate, None);
    }

    #[test]
    fn turns_after_a_failed_one_count_against_the_bounds() {
        use RequestStatus::{Cancelled, HttpError, InvalidOutput, Ok};
        let turn = |id: i64, session: i64, status, sent_ns: Option<i64>| Request {
            session_id: Some(session),
            sent_ns,
            status,
            first_token_ns: sent_ns.map(|sent| sent + 1_000_000),
            last_token_ns: sent_ns.map(|sent| sent + 2_000_000),
            done_ns: sent_ns.map(|sent| sent + 2_000_000),
            ..row(id)
        };
        let slo = Slo {
            ttft_ms: Some(5.0),
            ..Slo::default()
        };
        let session = |first: i64, statuses: [RequestStatus; 3]| {
            let turns = (first..).zip(statuses);
            turns.map(move |(id, status)| {
                let is_sent = id == first || status != Cancelled;
                turn(id, first, status, is_sent.then_some(id))
            })
        };
        let share = |sessions: &[[RequestStatus; 3]]| {
            let rows: Vec<Request> = sessions
                .iter()
                .zip((0..).step_by(3))
                .flat_map(|(statuses, first)| session(first, *statuses))
                .collect();
            let summary = of(&rows, &[], &slo);
            (
                summary.slo_pass_rate,
                summary.lost_turns,
                summary.left_out(),
            )
        };
        let lost = [HttpError, Cancelled, Cancelled];
        assert_eq!(share(&[[Ok; 3], lost]), (Some(0.5), 2, 0));
        // The turns of a session that its user cut off say nothing about the bounds.
        assert_eq!(share(&[[Ok; 3], [Cancelled; 3]]), (Some(1.0), 0, 3));
        assert_eq!(share(&[lost, [Cancelled; 3]]), (Some(0.0), 2, 3));
        // A session goes on after an answer that violates its schema.
        assert_eq!(share(&[[InvalidOutput, Ok, Ok]]), (Some(2.0 / 3.0), 0, 0));
    }

    #[test]
    fn figures_are_over_measured_requests_that_were_answered_and_not_superseded() {
        for client in [None, Some(0)] {
            let rows: Vec<Request> = (0..40_i64)
                .map(|id| {
                    let sent = id * 1_000_000 + (id % 3) * 1_500_000;
                    Request {
                        client_id: client,
                        scheduled_ns: Some(id * 1_000_000),
                        sent_ns: Some(sent),
                        send_lag_ns: Some(sent - id * 1_000_000),
                        first_token_ns: Some(sent + 5_000_000 + id * 1000),
                        last_token_ns: Some(sent + 9_000_000 + id * 7000),
                        done_ns: Some(sent + 9_500_000),
                        phase: if id < 2 {
                            Phase::Warmup
                        } else {
                            Phase::Measured
                        },
                        status: if id % 9 == 4 {
                            RequestStatus::Timeout
                        } else {
                            RequestStatus::Ok
                        },
                        superseded: id == 11,
                        ..row(id)
                    }
                })
                .collect();
            let stamps = |r: &Request| [r.first_token_ns, r.last_token_ns].into_iter().flatten();
            let chunks: Vec<Chunk> = rows
                .iter()
                .flat_map(|r| stamps(r).map(|at| chunk(r.request_id, at)))
                .collect();
            let slo = Slo {
                ttft_ms: Some(5.02),
                tpot_ms: None,
                e2e_ms: Some(9.2),
                ..Slo::default()
            };
            let summary = of(&rows, &chunks, &slo);
            let counted: Vec<&Request> = rows
                .iter()
                .filter(|r| r.request_id >= 2 && !r.superseded)
                .collect();
            let ok: Vec<&Request> = counted
                .iter()
                .copied()
                .filter(|r| r.status == RequestStatus::Ok)
                .collect();
            let each =
                |f: &dyn Fn(&Request) -> f64| Distribution::of(ok.iter().map(|r| f(r)).collect());
            let id = |r: &Request| r.request_id as f64;
            let close = |a: Option<Distribution>, b: Option<Distribution>| {
                let (a, b) = (a.unwrap(), b.unwrap());
                let numbers = |d: Distribution| {
                    [
                        d.mean,
                        d.std.unwrap(),
                        d.min,
                        d.max,
                        d.p50,
                        d.p90,
                        d.p95,
                        d.p99,
                    ]
                };
                assert_eq!(a.n, b.n);
                numbers(a)
                    .into_iter()
                    .zip(numbers(b))
                    .for_each(|(a, b)| assert!((a - b).abs() < 1e-9, "{a} {b}"));
            };
            assert_eq!(
                summary.statuses,
                [(RequestStatus::Ok, 33), (RequestStatus::Timeout, 4)].into()
            );
            close(summary.ttft, each(&|r| 5.0 + id(r) / 1e3));
            close(summary.e2e_latency, each(&|r| 9.0 + id(r) * 7.0 / 1e3));
            close(summary.icl, each(&|r| 4.0 + id(r) * 6.0 / 1e3));
            let lags = counted
                .iter()
                .map(|r| (r.request_id % 3) as f64 * 1.5)
                .collect();
            close(summary.send_lag, Distribution::of(lags));
            let good = ok.iter().filter(|r| r.request_id <= 20).count() as f64;
            assert_eq!(summary.slo_pass_rate, Some(good / 37.0));
            let window_s = summary.window_s.unwrap();
            assert_eq!(summary.goodput, Some(good / window_s));
            let done = counted.iter().filter_map(|r| r.done_ns).max().unwrap();
            let sent = counted.iter().filter_map(|r| r.sent_ns).min().unwrap();
            assert!((window_s - (done - sent) as f64 / 1e9).abs() < 1e-12);
            assert_eq!(
                (
                    summary.ttft_scheduled.is_some(),
                    summary.e2e_scheduled.is_some(),
                    summary.arrivals.is_some()
                ),
                (client.is_none(), client.is_none(), client.is_none())
            );
        }
    }
}
