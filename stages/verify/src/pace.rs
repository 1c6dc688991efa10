//! The pace of a server under open arrivals: the time per token, independent of the queue.
//!
//! If requests arrive independently of answers, latency is mostly the queue that a request met, and all following
//! requests feel a burst. So neighbours are alike for as long as a busy period lasts, and a test for trend mistakes any
//! burst for a drift. The time per output token counts every service once, regardless of who waited for it. It still
//! depends on the number of answers generated at the same time. A straight line removes that effect, and means over
//! batches of requests (batch means, Law & Carson 1979, Operations Research 27, 1011) leave little dependence between
//! neighbours.

use contract::CellRows;

/// The smallest batch.
const SMALLEST: usize = 3;

/// Returns whether the measured requests arrived independently of answers: no client waited for an answer before
/// sending.
pub(crate) fn is_open(rows: &CellRows) -> bool {
    let mut measured = rows.measured().peekable();
    measured.peek().is_some() && measured.all(|r| r.client_id.is_none())
}

/// Returns the paces of a cell's batches in the order of first tokens, relative to the expectation for the number of
/// concurrent answers: 1 is as expected, 1.1 is 10 % slower.
pub(crate) fn paces(rows: &CellRows) -> Vec<f64> {
    let points: Vec<(f64, f64)> = timed(rows);
    let together = points.iter().map(|p| p.0).sum::<f64>() / points.len().max(1) as f64;
    let size = SMALLEST.max(together.round() as usize);
    factors(&points)
        .chunks_exact(size)
        .map(|batch| batch.iter().sum::<f64>() / size as f64)
        .collect()
}

/// Returns for each measured ok answer with several tokens, in the order of first tokens, the number of concurrent
/// answers and its time per token, ns.
pub(crate) fn timed(rows: &CellRows) -> Vec<(f64, f64)> {
    let concurrency = Concurrency::generating(rows);
    let mut timed: Vec<(i64, f64, f64)> = rows
        .measured()
        .filter(|r| r.is_ok())
        .filter_map(|r| {
            let (first, last) = (r.first_token_ns?, r.last_token_ns?);
            let steps = r.output_tokens.filter(|n| *n > 1)? - 1;
            let pace = (last - first) as f64 / steps as f64;
            (pace > 0.0).then(|| (first, concurrency.over(first, last), pace))
        })
        .collect();
    timed.sort_by(|a, b| a.0.cmp(&b.0).then(a.2.total_cmp(&b.2)));
    timed
        .into_iter()
        .map(|(_, with, pace)| (with, pace))
        .collect()
}

/// Returns the paces of answers relative to the expectation for the number of concurrent answers.
pub(crate) fn factors(points: &[(f64, f64)]) -> Vec<f64> {
    let off = residuals(points);
    let factor = |((_, pace), off): (&(f64, f64), f64)| pace / (pace - off).max(pace * 0.01);
    points.iter().zip(off).map(factor).collect()
}

/// The number of requests that share the server, over any span of a cell.
pub(crate) struct Concurrency {
    /// Times at which the number changes, with its integral up to then and the number from then on.
    changes: Vec<(i64, f64, i64)>,
}

impl Concurrency {
    /// Counts requests from sending until the end of the answer.
    pub(crate) fn in_flight(rows: &CellRows) -> Self {
        let spans = rows.requests.iter().filter(|r| !r.superseded);
        Self::of(spans.filter_map(|r| Some((r.sent_ns?, r.done_ns?))))
    }

    /// Counts requests from the first token to the last.
    pub(crate) fn generating(rows: &CellRows) -> Self {
        let spans = rows.requests.iter().filter(|r| !r.superseded);
        Self::of(spans.filter_map(|r| Some((r.first_token_ns?, r.last_token_ns?))))
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
    let slope = if spread > 1e-6 * n && points.len() > 3 {
        points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>() / spread
    } else {
        0.0
    };
    points.iter().map(|p| p.1 - y - slope * (p.0 - x)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
