//! The settings: the loads under which the generator is calibrated, and the load for a real server.

use load::TimeSpan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::account::Account;

/// The settings of a calibration: every concurrency and every rate with every gap. If the stage
/// needs a server, also the comparison with the times that the server reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Grid {
    /// Closed loops: how many clients.
    pub concurrency: Vec<u32>,
    /// Open loops: constant arrivals, requests per second.
    pub rate: Vec<f64>,
    /// Gaps between the tokens of an answer; `0 ms` sends them without waiting.
    pub gap: Vec<TimeSpan>,
    /// The time from a request's arrival to its first token.
    pub ttft: TimeSpan,
    /// The tokens of an answer, one per chunk.
    #[schemars(range(min = 2))]
    pub tokens: u32,
    /// Approximate time to measure each point; at least one answer per client.
    pub duration: TimeSpan,
    /// The largest errors with which a point counts as covered.
    pub bound: Bound,
    /// Whether the reference server uses TLS, with a temporary certificate.
    pub tls: bool,
    /// The requests to the server that the stage needs, if any.
    pub account: Account,
}

/// Bounds on the errors of TTFT and E2E latency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(extend("x-form" = "{p50: 2 ms, p99: 20 ms}"))]
pub struct Bound {
    /// On the median of |error|.
    pub p50: TimeSpan,
    /// On the 99th percentile of |error|.
    pub p99: TimeSpan,
}

impl Default for Bound {
    fn default() -> Self {
        Self {
            p50: TimeSpan::milliseconds(2),
            p99: TimeSpan::milliseconds(20),
        }
    }
}

impl Default for Grid {
    fn default() -> Self {
        Self {
            concurrency: vec![1, 16, 64, 256],
            rate: vec![50.0, 200.0],
            gap: vec![TimeSpan::milliseconds(10), TimeSpan::milliseconds(50)],
            ttft: TimeSpan::milliseconds(50),
            tokens: 64,
            duration: TimeSpan::seconds(3),
            bound: Bound::default(),
            tls: false,
            account: Account::default(),
        }
    }
}

/// One point of the grid: a number of clients or a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Clients of a closed loop.
    pub concurrency: Option<u32>,
    /// Requests per second of an open loop.
    pub rate: Option<f64>,
    /// The time between tokens.
    pub gap: TimeSpan,
    /// The number of measured requests.
    pub requests: u64,
}

/// The largest number of requests at a point.
const MOST: f64 = 1e6;

/// The most clients of a closed loop.
const MOST_CLIENTS: u32 = 65_536;

/// Returns the problem with too many clients: the setting and the reason.
pub(super) fn too_many_clients(concurrency: &[u32]) -> Option<(&'static str, String)> {
    let clients = concurrency
        .iter()
        .find(|clients| **clients > MOST_CLIENTS)?;
    let reason = format!("a concurrency is at most {MOST_CLIENTS}, got {clients}");
    Some(("concurrency", reason))
}

impl Grid {
    /// Returns a grid that takes a few seconds, for a first look.
    pub fn quick() -> Self {
        Self {
            concurrency: vec![1, 16, 64],
            rate: vec![50.0],
            gap: vec![TimeSpan::milliseconds(10)],
            duration: TimeSpan::seconds(1),
            ..Self::default()
        }
    }

    /// Returns the points, closed loops first.
    pub fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        let answers = |gap: TimeSpan| {
            let answer = self.ttft.nanoseconds() as f64
                + gap.nanoseconds() as f64 * f64::from(self.tokens.saturating_sub(1));
            // Without any waiting, an answer takes about a millisecond.
            (self.duration.nanoseconds() as f64 / answer.max(1e6))
                .ceil()
                .max(1.0)
        };
        for &clients in &self.concurrency {
            for &gap in &self.gap {
                let requests = (answers(gap) * f64::from(clients)).clamp(8.0, MOST) as u64;
                points.push(Point {
                    concurrency: Some(clients),
                    rate: None,
                    gap,
                    requests,
                });
            }
        }
        for &rate in &self.rate {
            for &gap in &self.gap {
                let requests = (rate * self.duration.nanoseconds() as f64 / 1e9)
                    .ceil()
                    .clamp(8.0, MOST);
                points.push(Point {
                    concurrency: None,
                    rate: Some(rate),
                    gap,
                    requests: requests as u64,
                });
            }
        }
        points
    }

    /// Returns the problems: the setting and the reason.
    pub(crate) fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        if self.concurrency.is_empty() && self.rate.is_empty() {
            problems.push((
                "concurrency",
                "give at least one concurrency or rate to calibrate".to_owned(),
            ));
        }
        if self.concurrency.contains(&0) {
            problems.push(("concurrency", "a concurrency is at least 1".to_owned()));
        }
        problems.extend(too_many_clients(&self.concurrency));
        if let Some(rate) = self
            .rate
            .iter()
            .find(|rate| !(rate.is_finite() && **rate > 0.0))
        {
            problems.push(("rate", format!("a rate is above 0, got {rate}")));
        }
        if self.gap.is_empty() {
            problems.push((
                "gap",
                "give at least one gap between tokens to calibrate".to_owned(),
            ));
        }
        if self.tokens < 2 {
            problems.push((
                "tokens",
                format!("an answer has at least 2 tokens, got {}", self.tokens),
            ));
        }
        if self.duration == TimeSpan::default() {
            problems.push(("duration", "a point is measured for some time".to_owned()));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_concurrency_and_every_rate_meets_every_gap() {
        let grid = Grid {
            concurrency: vec![1, 4],
            rate: vec![20.0],
            ..Grid::default()
        };
        let points = grid.points();
        assert_eq!(points.len(), 6);
        assert!(
            points
                .iter()
                .all(|p| p.concurrency.is_some() != p.rate.is_some())
        );
        // 50 ms and 63 gaps of 10 ms take 0.68 s: five times in three seconds for each client.
        assert_eq!(
            (points[0].requests, points[2].requests, points[4].requests),
            (8, 20, 60)
        );
    }

    #[test]
    fn the_error_for_an_empty_or_impossible_grid_names_what_it_lacks() {
        let grid = Grid {
            concurrency: vec![],
            rate: vec![],
            gap: vec![],
            tokens: 1,
            duration: TimeSpan::default(),
            ..Grid::default()
        };
        let wrong: Vec<&str> = grid
            .problems()
            .into_iter()
            .map(|(setting, _)| setting)
            .collect();
        assert_eq!(wrong, ["concurrency", "gap", "tokens", "duration"]);
        let many = Grid {
            concurrency: vec![1, 100_000],
            ..Grid::default()
        };
        let reason = "a concurrency is at most 65536, got 100000";
        assert_eq!(many.problems(), [("concurrency", reason.to_owned())]);
        assert_eq!(Grid::default().problems(), []);
        assert_eq!(Grid::quick().problems(), []);
    }
}
