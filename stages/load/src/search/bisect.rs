//! Which level is probed next, and when the search ends.
//!
//! Levels double from the lowest until one is missed, then the bracket is halved (in the middle
//! for clients, at the geometric mean for rates) until it is narrow enough. Each level is judged
//! by the 95 % Wilson interval of its share of good requests: kept if the interval lies at or
//! above the share wanted, missed if it lies below. A level begins with the fewest requests that
//! can show it kept (all of them good), at least a quarter of those allowed; while the interval
//! holds the share wanted, as many again are sent, up to those allowed for one level; then the
//! share itself decides. So the number of requests is bounded by that of levels times those
//! allowed for each, and the search ends by itself.

use std::fmt;

/// The two-sided 95 % quantile of the standard normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// A level of load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Level {
    /// So many clients of a closed loop.
    Clients(u32),
    /// So many arrivals a second.
    Rate(f64),
}

impl Level {
    /// Returns clients, or requests a second.
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

    /// The level between two; `None` if they are close enough.
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
            Self::Rate(rate) => write!(f, "{rate:.4} req/s"),
        }
    }
}

/// What a level was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The share of good requests is high enough.
    Kept,
    /// It is not.
    Missed,
    /// Not decided yet: more requests follow at the same level, or the search was stopped.
    Undecided,
}

impl Verdict {
    /// Returns the word in tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Missed => "missed",
            Self::Undecided => "undecided",
        }
    }
}

/// What came of sending requests at a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Requests sent.
    pub requests: u64,
    /// Those answered within every bound.
    pub good: u64,
}

/// One run at one level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// Its number, from 1.
    pub probe: usize,
    /// The level.
    pub level: Level,
    /// What came of it.
    pub tried: Tried,
    /// The same with earlier probes of the level.
    pub pooled: Tried,
    /// The Wilson interval of the pooled share of good requests.
    pub interval: (f64, f64),
    /// The verdict over the level so far.
    pub verdict: Verdict,
    /// Whether the share itself decided, the requests of the level being spent.
    pub by_share: bool,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The highest level kept; `None` if even the lowest was missed.
    pub kept: Option<Level>,
    /// The lowest level missed; `None` if even the highest was kept.
    pub missed: Option<Level>,
    /// Every probe, in order.
    pub probes: Vec<Probe>,
}

impl Found {
    /// Returns how many requests were sent.
    pub fn requests(&self) -> u64 {
        self.probes.iter().map(|p| p.tried.requests).sum()
    }
}

/// Returns the 95 % interval of a share (Wilson 1927); (0, 1) without trials.
pub fn wilson(good: u64, n: u64) -> (f64, f64) {
    if n == 0 {
        return (0.0, 1.0);
    }
    let (n, share) = (n as f64, good as f64 / n as f64);
    let middle = share + Z * Z / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    (((middle - half) / scale).max(0.0), ((middle + half) / scale).min(1.0))
}

/// Returns the fewest requests after which a level can be kept, all of them being good.
fn fewest(attainment: f64) -> u64 {
    (Z * Z * attainment / (1.0 - attainment)).ceil() as u64
}

/// Searches from a level up; at most `requests` (not 0) are spent on a level. `probe` gets the
/// number of the probe, its level, and how many requests to send; `watch` is shown it when it was
/// judged. If a probe fails, what was found until then comes back with its error.
pub fn bisect<E>(
    (from, up_to): (Level, f64),
    attainment: f64,
    resolution: f64,
    requests: u64,
    probe: &mut dyn FnMut(usize, Level, u64) -> Result<Tried, E>,
    watch: &mut dyn FnMut(&Probe),
) -> (Found, Result<(), E>) {
    let mut found = Found { kept: None, missed: None, probes: Vec::new() };
    let mut level = from;
    let ended = loop {
        match judge(level, attainment, requests, &mut found.probes, probe, watch) {
            Err(error) => break Err(error),
            Ok(true) => {
                found.kept = Some(level);
                if found.missed.is_none() && level.number() >= up_to {
                    break Ok(());
                }
            }
            Ok(false) => found.missed = Some(level),
        }
        level = match (found.kept, found.missed) {
            (Some(kept), None) => kept.doubled(up_to),
            (Some(kept), Some(missed)) => match kept.between(missed, resolution) {
                Some(level) => level,
                None => break Ok(()),
            },
            (None, _) => break Ok(()),
        };
    };
    (found, ended)
}

/// Probes a level until it is decided; returns whether it was kept.
fn judge<E>(
    level: Level,
    attainment: f64,
    requests: u64,
    probes: &mut Vec<Probe>,
    probe: &mut dyn FnMut(usize, Level, u64) -> Result<Tried, E>,
    watch: &mut dyn FnMut(&Probe),
) -> Result<bool, E> {
    let mut pooled = Tried { requests: 0, good: 0 };
    let mut next = fewest(attainment).max(requests / 4).min(requests);
    loop {
        let number = probes.len() + 1;
        let tried = probe(number, level, next)?;
        pooled = Tried { requests: pooled.requests + tried.requests, good: pooled.good + tried.good };
        let interval = wilson(pooled.good, pooled.requests);
        let spent = pooled.requests >= requests || tried.requests == 0;
        let share = pooled.good as f64 / pooled.requests.max(1) as f64;
        let (verdict, by_share) = if interval.0 >= attainment {
            (Verdict::Kept, false)
        } else if interval.1 < attainment {
            (Verdict::Missed, false)
        } else if !spent {
            (Verdict::Undecided, false)
        } else if share >= attainment {
            (Verdict::Kept, true)
        } else {
            (Verdict::Missed, true)
        };
        let judged = Probe { probe: number, level, tried, pooled, interval, verdict, by_share };
        watch(&judged);
        probes.push(judged);
        match verdict {
            Verdict::Kept => return Ok(true),
            Verdict::Missed => return Ok(false),
            Verdict::Undecided => next = pooled.requests.min(requests - pooled.requests),
        }
    }
}
