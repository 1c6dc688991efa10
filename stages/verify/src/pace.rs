//! The pace of a server under open arrivals: the time per token, independent of the queue.
//!
//! If requests arrive independently of answers, latency is mostly the queue that a request met, and all following
//! requests feel a burst. So neighbours are alike for as long as a busy period lasts, and a test for trend mistakes any
//! burst for a drift. The time per output token counts every service once, regardless of who waited for it. It still
//! depends on the number of answers generated at the same time, and on the prompts that the server reads meanwhile. Straight
//! lines remove these effects, and means over batches of requests (batch means, Law & Carson 1979, Operations Research 27,
//! 1011) leave little dependence between neighbours.

use contract::{CellRows, Request};

/// The smallest batch.
const SMALLEST: usize = 3;

/// Returns whether the measured requests arrived independently of answers: no client waited for an answer before
/// sending.
pub(crate) fn is_open(rows: &CellRows) -> bool {
    let mut measured = rows.measured().peekable();
    measured.peek().is_some() && measured.all(|r| r.client_id.is_none())
}

/// The time per token of an answer, and what the server did meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct Timed {
    /// The mean number of answers generated at the same time.
    with: f64,
    /// The tokens of other prompts that the server read, per ms.
    reading: f64,
    /// The time per token, ns.
    pace: f64,
}

/// Returns the paces of a cell's batches in the order of first tokens, relative to the expectation for the number of
/// concurrent answers and for the prompts that the server reads: 1 is as expected, 1.1 is 10 % slower. There are none if the
/// rows have no clock in common, because then their order is unknown.
pub(crate) fn paces(rows: &CellRows) -> Vec<f64> {
    if !rows.has_one_clock() {
        return Vec::new();
    }
    let points = timed(rows);
    let together = points.iter().map(|p| p.with).sum::<f64>() / points.len().max(1) as f64;
    let size = SMALLEST.max(together.round() as usize);
    factors(&points)
        .chunks_exact(size)
        .map(|batch| batch.iter().sum::<f64>() / size as f64)
        .collect()
}

/// Returns the times of each measured ok answer with several tokens, in the order of first tokens.
pub(crate) fn timed(rows: &CellRows) -> Vec<Timed> {
    let concurrency = Concurrency::generating(rows);
    let read = Reading::of(rows);
    let mut timed: Vec<(i64, Timed)> = rows
        .measured()
        .filter(|r| r.is_ok())
        .filter_map(|r| {
            let (first, last) = (r.first_token_ns?, r.last_token_ns?);
            let steps = r.output_tokens.filter(|n| *n > 1)? - 1;
            let timed = Timed {
                with: concurrency.over(first, last),
                reading: read.over(r, last),
                pace: (last - first) as f64 / steps as f64,
            };
            (timed.pace > 0.0).then_some((first, timed))
        })
        .collect();
    timed.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.pace.total_cmp(&b.1.pace)));
    timed.into_iter().map(|(_, timed)| timed).collect()
}

/// Returns the paces of answers relative to the expectation for the number of concurrent answers and for the prompts that
/// the server reads meanwhile.
pub(crate) fn factors(points: &[Timed]) -> Vec<f64> {
    let without_reading = |of_point: fn(&Timed) -> f64| {
        let points: Vec<(f64, f64)> = points.iter().map(|p| (p.reading, of_point(p))).collect();
        residuals(&points)
    };
    let with = without_reading(|p| p.with).into_iter();
    let off: Vec<(f64, f64)> = with.zip(without_reading(|p| p.pace)).collect();
    let factor = |(p, off): (&Timed, f64)| p.pace / (p.pace - off).max(p.pace * 0.01);
    points.iter().zip(residuals(&off)).map(factor).collect()
}

/// Returns the last attempts of the requests whose times can be compared with each other: none if each row counts from its
/// own send.
fn comparable(rows: &CellRows) -> impl Iterator<Item = &Request> {
    let one_clock = rows.has_one_clock();
    rows.requests
        .iter()
        .filter(move |r| one_clock && !r.superseded)
}

/// The prompts that a server reads. While it reads one, other answers pause.
pub(crate) struct Reading {
    /// The first token of each request, ns, and the tokens of this and all earlier prompts that were not cached.
    sums: Vec<(i64, f64)>,
}

impl Reading {
    /// A prompt of unknown length counts as one token. Without a common clock, nothing shows which prompts were read when.
    pub(crate) fn of(rows: &CellRows) -> Self {
        let prompt = |r: &Request| {
            let tokens = r.prompt_tokens.unwrap_or(1) - r.cached_prompt_tokens.unwrap_or(0);
            Some((r.first_token_ns?, tokens.max(1) as f64))
        };
        let mut sums: Vec<(i64, f64)> = comparable(rows).filter_map(prompt).collect();
        sums.sort_by_key(|(at, _)| *at);
        let mut sum = 0.0;
        for (_, tokens) in &mut sums {
            sum += *tokens;
            *tokens = sum;
        }
        Self { sums }
    }

    /// Returns the tokens of other prompts per ms that the server read between the first token of a request and its end.
    /// The rate, and not the sum: a slow answer meets more prompts, and its slowness must not hide behind them.
    pub(crate) fn over(&self, r: &Request, end: i64) -> f64 {
        let until = |at: i64| {
            let next = self.sums.partition_point(|(first, _)| *first <= at);
            next.checked_sub(1).map_or(0.0, |last| self.sums[last].1)
        };
        match r.first_token_ns {
            Some(first) if end > first => (until(end) - until(first)) * 1e6 / (end - first) as f64,
            _ => 0.0,
        }
    }
}

/// The number of requests that share the server, over any span of a cell.
pub(crate) struct Concurrency {
    /// Times at which the number changes, with its integral up to then and the number from then on.
    changes: Vec<(i64, f64, i64)>,
}

impl Concurrency {
    /// Counts requests from sending until the end of the answer.
    pub(crate) fn in_flight(rows: &CellRows) -> Self {
        Self::of(comparable(rows).filter_map(|r| Some((r.sent_ns?, r.done_ns?))))
    }

    /// Counts requests from the first token to the last.
    pub(crate) fn generating(rows: &CellRows) -> Self {
        Self::of(comparable(rows).filter_map(|r| Some((r.first_token_ns?, r.last_token_ns?))))
    }

    fn of(spans: impl Iterator<Item = (i64, i64)>) -> Self {
        let mut events: Vec<(i64, i64)> = Vec::new();
        for (from, to) in spans {
            events.extend([(from, 1), (to, -1)]);
        }
        events.sort_unstable();
        let (mut area, mut number) = (0.0, 0);
        let mut changes: Vec<(i64, f64, i64)> = Vec::with_capacity(events.len());
        for (at, change) in events {
            if let Some((before, ..)) = changes.last() {
                area += (at - before) as f64 * number as f64;
            }
            number += change;
            changes.push((at, area, number));
        }
        Self { changes }
    }

    /// Returns the mean number over a span, at least 1.
    pub(crate) fn over(&self, from: i64, to: i64) -> f64 {
        if to <= from {
            return 1.0;
        }
        ((self.area(to) - self.area(from)) / (to - from) as f64).max(1.0)
    }

    fn area(&self, at: i64) -> f64 {
        let next = self.changes.partition_point(|(t, ..)| *t <= at);
        match next.checked_sub(1).and_then(|i| self.changes.get(i)) {
            Some((t, area, number)) => area + (at - t) as f64 * *number as f64,
            None => 0.0,
        }
    }
}

/// Returns the residuals of the points' second coordinates about a straight line, or their distances from the mean if
/// the first coordinates barely differ.
pub(crate) fn residuals(points: &[(f64, f64)]) -> Vec<f64> {
    let n = points.len().max(1) as f64;
    let (x, y) = points
        .iter()
        .fold((0.0, 0.0), |(x, y), p| (x + p.0 / n, y + p.1 / n));
    let spread: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    // Relative to the size of the coordinate, which may be a count or a rate.
    let size: f64 = points.iter().map(|p| p.0.powi(2)).sum();
    let slope = if spread > 1e-6 * size && points.len() > 3 {
        points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>() / spread
    } else {
        0.0
    };
    points.iter().map(|p| p.1 - y - slope * (p.0 - x)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::one_cell;

    #[test]
    fn answers_that_pause_for_the_prompts_of_others_are_not_slower() {
        // Half of them take 29 % longer.
        let factors = factors(&timed(&one_cell::at_even_intervals()));
        assert_eq!(factors.len(), 80);
        assert!(
            factors.iter().all(|f| (0.9..1.1).contains(f)),
            "{factors:?}"
        );
    }

    #[test]
    fn a_line_leaves_nothing_and_a_step_in_time_stays() {
        let line: Vec<(f64, f64)> = (0..6)
            .map(|i| (f64::from(i), 3.0 - 2.0 * f64::from(i)))
            .collect();
        assert!(residuals(&line).iter().all(|r| r.abs() < 1e-12));
        let flat = [(1.0, 1.0), (1.0, 1.0), (1.0, 4.0), (1.0, 4.0)];
        assert_eq!(residuals(&flat), [-1.5, -1.5, 1.5, 1.5]);
        assert_eq!(residuals(&[]), [] as [f64; 0]);
    }
}
