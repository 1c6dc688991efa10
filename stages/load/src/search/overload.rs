//! How long requests must arrive at a rate to show that it is above the capacity.
//!
//! If a server answers μ requests per second and (1 + s) μ arrive, s μ t requests wait after t
//! seconds, which take it s t seconds: the wait grows by s seconds each second. A bound B is
//! passed after at most B / s seconds, and of the requests due within D seconds the share that
//! keeps it is at most B / (s D). That is below the attainment a from D = B / (s a) on; shorter
//! probes call such a rate kept. With the resolution as s this is [`Overload::needed_s`].
//!
//! Until the first answers are complete nothing leaves the server, however high the rate: this
//! *warm-in* comes before, and the requests due in it are not judged.
//!
//! A trend of the latencies would not decide sooner. Near the capacity a queue is a random walk,
//! in which tests that take neighbours as independent (Mann–Kendall, Theil–Sen) find trends that are
//! none; and the slope is known to s only after (cv / s)² arrivals, 400 of a Poisson
//! process for a twentieth, which at the rates of language models takes longer than B / (s a).

use std::fmt;

use super::bisect::{Level, Tried};

/// The time a probe of an open loop takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overload {
    /// The warm-in expected before any was seen, s: the bound, within which answers begin or end.
    pub warm_in_s: f64,
    /// For this many seconds beyond the warm-in requests must arrive before a rate can be kept.
    pub needed_s: f64,
    /// The most seconds in which the requests of one probe arrive.
    pub longest_s: f64,
}

impl Overload {
    /// Returns the time after which a rate too high by the share `resolution` misses `bound_s`;
    /// no time at all for bounds that know no wait.
    pub fn of(bound_s: Option<f64>, attainment: f64, resolution: f64, longest_s: f64) -> Self {
        let warm_in_s = bound_s.unwrap_or(0.0);
        Self {
            warm_in_s,
            needed_s: warm_in_s / (resolution * attainment),
            longest_s,
        }
    }
}

/// A rate at which the arrivals ended before an overload would have shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Undecided {
    /// The rate.
    pub level: Level,
    /// For how long requests arrived, s.
    pub arrivals_s: f64,
    /// How much of that was warm-in, s.
    pub warm_in_s: f64,
    /// How much would have had to follow it, s.
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

/// What is known of a request: when it was due and, if it was answered, how long that took, ns;
/// and whether it is good.
pub(super) type Seen = (i64, Option<i64>, bool);

impl Tried {
    /// Judges the requests of a probe: of a closed loop all, of an open loop those due after the
    /// warm-in.
    ///
    /// The warm-in is the time in which nine of ten answers were complete. Of a server so
    /// overloaded that this is most of the probe, the second half is judged all the same: it shows
    /// no less.
    pub(super) fn at(level: Level, seen: &[Seen]) -> Self {
        let sent = seen.len() as u64;
        let count = |of: &dyn Fn(&Seen) -> bool| seen.iter().filter(|seen| of(seen)).count() as u64;
        if let Level::Clients(_) = level {
            return Self {
                sent,
                requests: sent,
                good: count(&|seen| seen.2),
                warm_in_s: 0.0,
            };
        }
        let mut took: Vec<i64> = seen.iter().filter_map(|(_, took, _)| *took).collect();
        took.sort_unstable();
        let warm_in = took.get(took.len() * 9 / 10).copied().unwrap_or(0);
        let due = || seen.iter().map(|(due, ..)| *due);
        let (first, last) = (due().min().unwrap_or(0), due().max().unwrap_or(0));
        let from = first.saturating_add(warm_in.min((last - first) / 2));
        Self {
            sent,
            requests: count(&|seen| seen.0 >= from),
            good: count(&|seen| seen.0 >= from && seen.2),
            warm_in_s: warm_in as f64 / 1e9,
        }
    }
}
