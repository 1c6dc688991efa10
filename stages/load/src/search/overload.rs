//! How long requests must arrive at a rate to show that it is above the capacity.
//!
//! Suppose that a server answers μ requests per second and (1 + s) μ arrive. After t seconds, s μ t requests wait, and
//! the server needs s t seconds for them, so the wait grows by s seconds each second. A bound B is exceeded after at
//! most B / s seconds. At most the share B / (s D) of the requests due within D seconds meets it. That is
//! below the attainment a if D exceeds B / (s a); with shorter probes, such a rate would be kept. With the resolution
//! as s this is [`Overload::needed_s`].
//!
//! Until the first answers are complete, nothing leaves the server, however high the rate. This *warm-in* comes first,
//! and the requests due in it are not judged.
//!
//! A trend of the latencies would not decide sooner. Near the capacity a queue is a random walk. Tests that assume
//! independent neighbours (Mann–Kendall, Theil–Sen) find false trends in it. The slope is known with precision s only
//! after (cv / s)² arrivals, 400 of a Poisson process for a twentieth. At the rates of language models, this takes
//! longer than B / (s a).

use std::fmt;

use super::bisect::{Level, Tried};
use super::share::Judged;

/// The time that a probe of an open loop takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overload {
    /// The expected warm-in before any was measured, s: the bound, within which answers begin or end.
    pub warm_in_s: f64,
    /// How long requests must arrive after the warm-in before a rate can be kept, s.
    pub needed_s: f64,
    /// The longest time in which the requests of one probe arrive, s.
    pub longest_s: f64,
}

impl Overload {
    /// Returns the time after which a rate that is too high by the share `resolution` misses `bound_s`; 0 for bounds
    /// that do not depend on a wait.
    pub fn of(bound_s: Option<f64>, attainment: f64, resolution: f64, longest_s: f64) -> Self {
        let warm_in_s = bound_s.unwrap_or(0.0);
        Self {
            warm_in_s,
            needed_s: warm_in_s / (resolution * attainment),
            longest_s,
        }
    }
}

/// A rate whose arrivals ended before an overload would have become visible.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Undecided {
    /// The rate.
    pub level: Level,
    /// How long requests arrived, s.
    pub arrivals_s: f64,
    /// The part of that which was warm-in, s.
    pub warm_in_s: f64,
    /// The time needed after the warm-in, s.
    pub needed_s: f64,
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            level,
            arrivals_s,
            warm_in_s,
            needed_s,
        } = self;
        write!(
            f,
            "{level} is neither kept nor missed: requests arrived for {arrivals_s:.1} s, of which \
             the warm-in took {warm_in_s:.1} s, and an overload becomes visible only \
                 {needed_s:.1} s after that; allow \
             `longest: {:.0} s` or more",
            (needed_s + 2.0 * warm_in_s).ceil()
        )
    }
}

/// A request: when it was due; how long its answer took, if there was one, ns; and how it is judged.
pub(super) type Seen = (i64, Option<i64>, Judged);

impl Tried {
    /// Judges the requests of a probe that were due after the warm-in.
    ///
    /// For a rate, the warm-in is the time in which nine of ten answers were complete. If a server is so overloaded that
    /// this is most of the probe, the second half is still judged, because it also shows the overload. For clients, the
    /// warm-in is the first request of each: they all arrive at once, which happens only there.
    pub(super) fn at(level: Level, mut seen: Vec<Seen>) -> Self {
        // Requests that are due at the same time keep their order.
        seen.sort_by_key(|(due, ..)| *due);
        let (first, last) = (
            seen.first().map_or(0, |one| one.0),
            seen.last().map_or(0, |one| one.0),
        );
        let (after, warm_in) = match level {
            Level::Clients(clients) => {
                let after = (clients as usize).min(seen.len().saturating_sub(1));
                (after, seen.get(after).map_or(0, |one| one.0 - first))
            }
            Level::Rate(_) => {
                let mut took: Vec<i64> = seen.iter().filter_map(|(_, took, _)| *took).collect();
                took.sort_unstable();
                let warm_in = took.get(took.len() * 9 / 10).copied().unwrap_or(0);
                let from = first.saturating_add(warm_in.min((last - first) / 2));
                (seen.partition_point(|one| one.0 < from), warm_in)
            }
        };
        Self {
            sent: seen.len() as u64,
            judged: seen[after..].iter().map(|one| one.2).collect(),
            warm_in_s: warm_in as f64 / 1e9,
        }
    }
}
