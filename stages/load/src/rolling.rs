//! Rolling figures of a running load for the terminal and for a page, from the watching thread.
//!
//! Answers are parsed after the load, so that parsing takes no processor time from the client and the server. For these
//! figures a few are parsed immediately, at most [`A_SECOND`] each second. The others are only counted.

use std::collections::VecDeque;

use pipeline::stage::Rates;

use crate::measure::{Attempt, End};

/// The time that the figures cover.
const WINDOW_NS: u64 = 10_000_000_000;

/// The number of answers parsed each second.
pub(crate) const A_SECOND: u64 = 20;

/// The time between two reports of the figures.
const TELL_NS: u64 = 500_000_000;

/// The most request ends that are remembered. If more end in the window, the window becomes shorter.
const MOST_ENDS: usize = 200_000;

/// The figures of a parsed answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// From sending to the first token, ns.
    pub(crate) ttft_ns: Option<i64>,
    pub(crate) output_tokens: Option<i64>,
}

/// The measured requests of the last seconds.
#[derive(Debug, Default)]
pub(crate) struct Rolling {
    first_sent: Option<u64>,
    ends: VecDeque<u64>,
    looks: VecDeque<(u64, Look)>,
    looked: Option<u64>,
    last_sent: Option<u64>,
    errors: u64,
}

impl Rolling {
    /// Counts an ended measured attempt; returns whether its answer must be parsed.
    pub(crate) fn ended(&mut self, attempt: &Attempt, now: u64) -> bool {
        let start = attempt.sent_ns.unwrap_or(attempt.scheduled_ns);
        self.first_sent = Some(self.first_sent.map_or(start, |earlier| earlier.min(start)));
        self.errors += u64::from(!is_answered(attempt));
        if self.ends.len() == MOST_ENDS {
            self.ends.pop_front();
        }
        self.ends.push_back(now);
        let due = self
            .looked
            .is_none_or(|last| now >= last + 1_000_000_000 / A_SECOND);
        if due {
            self.looked = Some(now);
        }
        due
    }

    /// Adds the figures of a parsed answer.
    pub(crate) fn looked_into(&mut self, look: Look, now: u64) {
        self.looks.push_back((now, look));
    }

    /// Returns whether the figures are due for a report; if so, marks them as reported.
    pub(crate) fn is_due(&mut self, now: u64) -> bool {
        let due = self.last_sent.is_none_or(|last| now >= last + TELL_NS);
        if due {
            self.last_sent = Some(now);
        }
        due
    }

    /// Returns the figures of the last ten seconds, or of the time since the first request was sent.
    pub(crate) fn rates(&mut self, now: u64, in_flight: u32) -> Rates {
        let oldest = now.saturating_sub(WINDOW_NS);
        while self.ends.front().is_some_and(|end| *end < oldest) {
            self.ends.pop_front();
        }
        while self.looks.front().is_some_and(|(at, _)| *at < oldest) {
            self.looks.pop_front();
        }
        let full = self.ends.len() == MOST_ENDS;
        let since = match self.ends.front() {
            Some(end) if full => *end,
            _ => self.first_sent.unwrap_or(now).max(oldest),
        };
        let window_s = now.saturating_sub(since) as f64 / 1e9;
        let tokens: Vec<i64> = self
            .looks
            .iter()
            .filter_map(|(_, look)| look.output_tokens)
            .collect();
        let mean =
            (!tokens.is_empty()).then(|| tokens.iter().sum::<i64>() as f64 / tokens.len() as f64);
        let mut ttft: Vec<i64> = self
            .looks
            .iter()
            .filter_map(|(_, look)| look.ttft_ns)
            .collect();
        ttft.sort_unstable();
        let rank = |share: usize| {
            let at = (ttft.len() * share).div_ceil(100).saturating_sub(1);
            ttft.get(at).map(|ns| *ns as f64 / 1e6)
        };
        Rates {
            window_s,
            ended: self.ends.len() as u64,
            looked_into: self.looks.len() as u64,
            output_throughput: mean
                .filter(|_| window_s > 0.0)
                .map(|mean| mean * self.ends.len() as f64 / window_s),
            ttft_ms_p50: rank(50),
            ttft_ms_p95: rank(95),
            errors: self.errors,
            in_flight: u64::from(in_flight),
            elapsed_s: self
                .first_sent
                .map(|first| now.saturating_sub(first) as f64 / 1e9),
            planned_s: None,
        }
    }
}

/// Returns whether an answer is complete and its first line reports success: `HTTP/1.1 2…`.
fn is_answered(attempt: &Attempt) -> bool {
    attempt.end == End::Complete && attempt.bytes.get(9) == Some(&b'2')
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn attempt(status: &[u8]) -> Attempt {
        let mut attempt = Attempt::due(0, 1, None, 0);
        attempt.sent_ns = Some(0);
        attempt.bytes = [b"HTTP/1.1 ", status].concat();
        attempt.end = End::Complete;
        attempt
    }

    #[test]
    fn figures_are_of_the_last_seconds_and_errors_of_all() {
        let mut rolling = Rolling::default();
        for i in 0..40 {
            let now = i * SECOND / 2;
            let status: &[u8] = if i < 2 { b"500" } else { b"200" };
            if rolling.ended(&attempt(status), now) {
                let look = Look {
                    ttft_ns: Some(i as i64 * 1_000_000),
                    output_tokens: Some(10),
                };
                rolling.looked_into(look, now);
            }
        }
        let rates = rolling.rates(20 * SECOND, 3);
        assert_eq!(
            (rates.window_s, rates.ended, rates.looked_into),
            (10.0, 20, 20)
        );
        assert_eq!(rates.output_throughput, Some(20.0));
        assert_eq!(
            (rates.ttft_ms_p50, rates.ttft_ms_p95),
            (Some(29.0), Some(38.0))
        );
        assert_eq!((rates.errors, rates.in_flight), (2, 3));
    }

    #[test]
    fn of_many_answers_a_second_only_some_are_looked_into() {
        let mut rolling = Rolling::default();
        let looked = (0..10_000).filter(|i| rolling.ended(&attempt(b"200"), i * SECOND / 10_000));
        assert_eq!(looked.count() as u64, A_SECOND);
        // Unknown figures are absent.
        let rates = rolling.rates(SECOND, 0);
        assert_eq!((rates.output_throughput, rates.ttft_ms_p50), (None, None));
        assert_eq!(rates.ended, 10_000);
    }

    #[test]
    fn figures_are_sent_at_most_twice_a_second() {
        let mut rolling = Rolling::default();
        let last_sent = (0..=100)
            .filter(|i| rolling.is_due(i * SECOND / 50))
            .count();
        assert_eq!(last_sent, 5);
    }
}
