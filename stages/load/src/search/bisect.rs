//! Chooses the next level to probe, and decides when the search ends.
//!
//! Levels double from the lowest until one is missed. Then the bracket is halved (in the middle for clients, at the
//! geometric mean for rates) until it is narrow enough. Each level is judged by the interval of its share of good
//! requests: kept if the interval is at or above the required share, missed if it is below. Requests that resemble each
//! other count as fewer independent ones (`share`). A level begins with a quarter of the requests allowed (half or all of
//! them if a quarter could not show it kept), and for a rate with at least as many as show an overload. While the interval
//! contains the required share, as many again are sent, until those allowed are spent. The looks at a level share the
//! chance of a wrong decision. At the end, the share itself decides. The number of requests is therefore bounded, and the
//! search ends by itself.

use std::fmt;

use super::overload::{Overload, Undecided};
use super::share::{Judged, first_look, independent, interval};
use contract::ProbeVerdict;

/// A level of load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Level {
    /// This many clients of a closed loop.
    Clients(u32),
    /// This many arrivals per second.
    Rate(f64),
}

impl Level {
    /// Returns clients, or requests per second.
    pub fn number(self) -> f64 {
        match self {
            Self::Clients(clients) => f64::from(clients),
            Self::Rate(rate) => rate,
        }
    }

    /// Returns the unit of [`Level::number`].
    pub fn unit(self) -> &'static str {
        match self {
            Self::Clients(_) => "clients",
            Self::Rate(_) => "req/s",
        }
    }

    fn doubled(self, up_to: f64) -> Self {
        match self {
            Self::Clients(clients) => Self::Clients(clients.saturating_mul(2).min(up_to as u32)),
            Self::Rate(rate) => Self::Rate((rate * 2.0).min(up_to)),
        }
    }

    /// Returns the level between two; `None` if they are close enough.
    fn between(self, above: Self, resolution: f64) -> Option<Self> {
        match (self, above) {
            (Self::Clients(low), Self::Clients(high)) => {
                let close = f64::from(high - low) <= (resolution * f64::from(low)).max(1.0);
                (!close).then_some(Self::Clients(low.midpoint(high)))
            }
            _ => {
                let (low, high) = (self.number(), above.number());
                (high > low * (1.0 + resolution)).then(|| Self::Rate((low * high).sqrt()))
            }
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clients(1) => f.write_str("1 client"),
            Self::Clients(clients) => write!(f, "{clients} clients"),
            Self::Rate(rate) => write!(f, "{} req/s", (rate * 1e4).round() / 1e4),
        }
    }
}

/// The result of sending requests at a level.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tried {
    /// Requests sent.
    pub sent: u64,
    /// The requests due after the warm-in, in the order in which they were due.
    pub(crate) judged: Vec<Judged>,
    /// How long the warm-in took, s.
    pub warm_in_s: f64,
}

impl Tried {
    /// Returns the number of judged requests.
    pub fn requests(&self) -> u64 {
        self.judged.len() as u64
    }

    /// Returns the number of judged requests answered within every bound.
    pub fn good(&self) -> u64 {
        self.judged.iter().filter(|one| one.good).count() as u64
    }
}

/// The judged requests of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pooled {
    /// Their number.
    pub requests: u64,
    /// The number of requests answered within every bound.
    pub good: u64,
    /// The number of independent requests that they are worth.
    pub independent: f64,
}

impl Pooled {
    fn of(level: Level, probes: &[Vec<Judged>]) -> Self {
        let all = || probes.iter().flatten();
        Self {
            requests: all().count() as u64,
            good: all().filter(|one| one.good).count() as u64,
            independent: independent(level, probes),
        }
    }

    fn share(&self) -> f64 {
        self.good as f64 / self.requests.max(1) as f64
    }
}

/// One run at one level.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// Its number, from 1.
    pub probe: usize,
    /// The level.
    pub level: Level,
    /// The result.
    pub tried: Tried,
    /// The result pooled with earlier probes of the level, except those that were too short.
    pub pooled: Pooled,
    /// The interval of the pooled share of good requests, at the level of this look.
    pub interval: (f64, f64),
    /// The verdict over the level so far.
    pub verdict: ProbeVerdict,
    /// Whether the share itself decided because the level's requests were spent.
    pub by_share: bool,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The highest level kept; `None` if even the lowest was missed.
    pub kept: Option<Level>,
    /// The lowest level missed; `None` if even the highest was kept.
    pub missed: Option<Level>,
    /// The rate between them at which the search ended, because no probe may last long enough.
    pub undecided: Option<Undecided>,
    /// Every probe, in order.
    pub probes: Vec<Probe>,
}

impl Found {
    /// Returns the number of requests sent.
    pub fn requests(&self) -> u64 {
        self.probes.iter().map(|p| p.tried.sent).sum()
    }
}

/// How levels are judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// The share of requests that must be good.
    pub attainment: f64,
    /// How close the levels kept and missed must be at the end, relative to the level kept.
    pub resolution: f64,
    /// The most requests spent on a level (not 0), unless a rate needs more to show an overload.
    pub requests: u64,
    /// The times for a probe of a rate.
    pub overload: Overload,
}

/// Searches from a level up. `probe` receives the number of the probe, its level, and the number of requests to send.
/// `watch` receives each judged probe. If a probe fails, the result so far is returned with its error.
pub(crate) fn bisect<E>(
    (from, up_to): (Level, f64),
    rules: &Rules,
    probe: &mut dyn FnMut(usize, Level, u64) -> Result<Tried, E>,
    watch: &mut dyn FnMut(&Probe),
) -> (Found, Result<(), E>) {
    let mut outcome = Found {
        kept: None,
        missed: None,
        undecided: None,
        probes: Vec::new(),
    };
    let (mut level, mut warm_in_s) = (from, rules.overload.warm_in_s);
    let ended = loop {
        match judge(level, warm_in_s, rules, &mut outcome.probes, probe, watch) {
            Err(error) => break Err(error),
            Ok(Outcome::Kept { warm_in_s: seen }) => {
                (outcome.kept, warm_in_s) = (Some(level), seen);
                if outcome.missed.is_none() && level.number() >= up_to {
                    break Ok(());
                }
            }
            Ok(Outcome::Missed) => outcome.missed = Some(level),
            Ok(Outcome::Undecided(undecided)) => {
                outcome.undecided = Some(undecided);
                break Ok(());
            }
        }
        level = match (outcome.kept, outcome.missed) {
            (Some(kept), None) => kept.doubled(up_to),
            (Some(kept), Some(missed)) => match kept.between(missed, rules.resolution) {
                Some(level) => level,
                None => break Ok(()),
            },
            (None, _) => break Ok(()),
        };
    };
    (outcome, ended)
}

/// The final verdict on a level.
enum Outcome {
    Kept { warm_in_s: f64 },
    Missed,
    Undecided(Undecided),
}

/// Returns the verdict of a look, and whether the share alone decides. A look that was too short can show only a level missed;
/// the last one decides in any case.
fn decided(
    (low, high): (f64, f64),
    (share, attainment): (f64, f64),
    (is_short, is_last): (bool, bool),
) -> (ProbeVerdict, bool) {
    if high < attainment {
        (ProbeVerdict::Missed, false)
    } else if is_short {
        (ProbeVerdict::Undecided, false)
    } else if low >= attainment {
        (ProbeVerdict::Kept, false)
    } else if !is_last {
        (ProbeVerdict::Undecided, false)
    } else if share >= attainment {
        (ProbeVerdict::Kept, true)
    } else {
        (ProbeVerdict::Missed, true)
    }
}

/// Probes a level until it is decided, expecting the warm-in measured at lower levels.
fn judge<E>(
    level: Level,
    warm_in_s: f64,
    rules: &Rules,
    probes: &mut Vec<Probe>,
    probe: &mut dyn FnMut(usize, Level, u64) -> Result<Tried, E>,
    watch: &mut dyn FnMut(&Probe),
) -> Result<Outcome, E> {
    let Rules {
        attainment,
        requests,
        overload,
        ..
    } = *rules;
    // Arrivals per second; 0 for a closed loop, whose clients wait for the server. Its first wave is the warm-in.
    let (rate, wave) = match level {
        Level::Rate(rate) => (rate, 0),
        Level::Clients(clients) => (0.0, u64::from(clients)),
    };
    let least = (rate * overload.needed_s).ceil() as u64;
    let allowed = requests.max(least);
    let longest = if rate > 0.0 {
        ((rate * overload.longest_s) as u64).max(1)
    } else {
        u64::MAX
    };
    // More load lengthens answers, and therefore the warm-in, so twice the warm-in is planned.
    let with_warm_in = |judged: u64, warm_in_s: f64| {
        (judged + wave + (2.0 * rate * warm_in_s).ceil() as u64).min(longest)
    };
    // The judged requests of the probes that were long enough.
    let mut so_far: Vec<Vec<Judged>> = Vec::new();
    let mut judged = first_look(requests, attainment).max(least);
    let mut next = with_warm_in(judged, warm_in_s);
    // The requests of the looks before, without those that were too short.
    let (mut looked, mut unbooked) = (0, 0);
    loop {
        let number = probes.len() + 1;
        let tried = probe(number, level, next)?;
        let arrivals_s = if rate > 0.0 { next as f64 / rate } else { 0.0 };
        // Rounding to whole arrivals may have removed one.
        let short = rate > 0.0 && (arrivals_s - tried.warm_in_s - overload.needed_s) * rate <= -1.0;
        so_far.push(tried.judged.clone());
        let pooled = Pooled::of(level, &so_far);
        let new = pooled
            .requests
            .min(allowed)
            .saturating_sub(looked + unbooked);
        let interval = interval((pooled.share(), pooled.independent), (new, allowed));
        let spent =
            allowed.saturating_sub(pooled.requests) < least.max(1) || tried.judged.is_empty();
        let (verdict, by_share) = decided(interval, (pooled.share(), attainment), (short, spent));
        let warm_in_s = tried.warm_in_s;
        let seen = Probe {
            probe: number,
            level,
            tried,
            pooled,
            interval,
            verdict,
            by_share,
        };
        watch(&seen);
        probes.push(seen);
        match verdict {
            ProbeVerdict::Kept => {
                return Ok(Outcome::Kept { warm_in_s });
            }
            ProbeVerdict::Missed => return Ok(Outcome::Missed),
            ProbeVerdict::Undecided if short && next == longest => {
                let needed_s = overload.needed_s;
                return Ok(Outcome::Undecided(Undecided {
                    level,
                    arrivals_s,
                    warm_in_s,
                    needed_s,
                }));
            }
            ProbeVerdict::Undecided => {
                if short {
                    // Its verdict *missed* would have counted.
                    unbooked += new;
                    so_far.pop();
                } else {
                    looked = pooled.requests;
                    judged = pooled.requests.min(allowed - pooled.requests).max(least);
                }
                next = with_warm_in(judged, warm_in_s);
            }
        }
    }
}
