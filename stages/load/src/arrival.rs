//! When requests arrive: a pure schedule, drawn in advance.
//!
//! Open-loop arrivals are absolute offsets from the start of the measured phase. They are never rescaled to hit a
//! total: vLLM's `bench serve` does that, and a Poisson draw is then no longer one. They are never relative to the
//! previous send: SGLang's client does that, and drifts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::random::Stream;
use crate::span::TimeSpan;
use crate::trace::{Replay, read_trace, times};
use pipeline::sources::NamedFiles;

/// How requests arrive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-other-words" = {
    "open-loop": "`poisson: {rate: R}`, `constant: {rate: R}` or another process with a rate",
    "rate": "`poisson: {rate: R}`; all requests at once are `burst`",
    "request-rate": "`poisson: {rate: R}`; all requests at once are `burst`",
    "concurrency": "`closed-loop: {clients: N}`",
    "max-concurrency": "`closed-loop: {clients: N}`; beside a rate, the stage's `max-in-flight: N`",
    "clients": "`closed-loop: {clients: N}`",
    "concurrent": "`closed-loop: {clients: N}`",
    "uniform": "`constant: {rate: R}`",
    "inf": "`burst`: all requests at once",
    "throughput": "`burst`: all requests at once",
    "synchronous": "`sequential`",
    "replay": "`trace: {file: FILE}`",
}))]
pub enum Arrival {
    /// One request at a time, the next as soon as the last is done.
    Sequential,
    /// Every request at once.
    Burst,
    /// A fixed number of clients, each sending its next request when its last is done.
    ClosedLoop(ClosedLoop),
    /// Evenly spaced arrivals, whatever the server does.
    Constant(Rate),
    /// Exponential gaps between arrivals, whatever the server does.
    Poisson(Rate),
    /// Gamma-distributed gaps between arrivals, whatever the server does.
    Gamma(Gamma),
    /// A ladder of rates, one after the other, whatever the server does.
    Steps(Steps),
    /// A rate that changes evenly with time, whatever the server does.
    Ramp(Ramp),
    /// The times of a recorded trace, whatever the server does.
    Trace(Replay),
}

/// A closed loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-other-words" = {
    "concurrency": "`clients`", "max-concurrency": "`clients`", "users": "`clients`", "n": "`clients`",
}))]
pub struct ClosedLoop {
    /// The number of clients, which is also the largest number of requests in flight.
    #[schemars(range(min = 1, max = 65536))]
    pub clients: u32,
    /// How long a client waits between an answer and its next request.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub think_time: TimeSpan,
}

fn is_zero(span: &TimeSpan) -> bool {
    span.nanoseconds() == 0
}

/// A mean rate of arrivals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-other-words" = {
    "request-rate": "`rate`", "qps": "`rate`", "rps": "`rate`", "burstiness": "a key of `gamma`, with `rate`",
}))]
pub struct Rate {
    /// Requests per second, above 0.
    #[schemars(extend(
        "exclusiveMinimum" = 0,
        "x-other-words" = { "inf": "`arrival: burst`, which sends all requests at once" },
    ))]
    pub rate: f64,
}

/// A mean rate of arrivals and how bursty they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Gamma {
    /// Requests per second, above 0.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub rate: f64,
    /// Shape of the gamma distribution, above 0: 1 is Poisson, smaller comes in bursts, larger
    /// is more even (the convention of vLLM's `--burstiness`).
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub burstiness: f64,
}

/// A ladder of rates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Steps {
    /// The steps in order. If there are more requests than the ladder has room for, the last step continues.
    #[schemars(length(min = 1))]
    pub levels: Vec<Level>,
    /// How arrivals are spaced within the rate.
    #[serde(default)]
    pub process: Process,
}

/// One step of a ladder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Level {
    /// Requests per second; 0 is a pause.
    #[schemars(range(min = 0))]
    pub rate: f64,
    /// The rate at the end of the step. The rate changes evenly, up or down (even to 0). By default, it stays
    /// constant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64", range(min = 0))]
    pub to: Option<f64>,
    /// How long, in seconds.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub seconds: f64,
}

/// A rate that changes evenly with time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Ramp {
    /// Requests per second at the beginning.
    #[schemars(range(min = 0))]
    pub from: f64,
    /// Requests per second at the end. If there are more requests than the ramp has room for, this rate continues. A
    /// ramp down to 0 ends the load.
    #[schemars(range(min = 0))]
    pub to: f64,
    /// How long, in seconds.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub seconds: f64,
    /// How arrivals are spaced within the rate.
    #[serde(default)]
    pub process: Process,
}

/// How arrivals are spaced within a changing rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Process {
    /// A Poisson process of that rate.
    #[default]
    Poisson,
    /// Evenly.
    Constant,
}

/// A period in which the rate changes evenly, or stays constant.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from: f64,
    to: f64,
    seconds: f64,
}

impl Stretch {
    /// Returns the expected number of arrivals in it.
    fn arrivals(self) -> f64 {
        (self.from + self.to) / 2.0 * self.seconds
    }

    /// Returns when `count` arrivals are expected, in seconds from its start. This is the root of the equation
    /// `from · t + (to − from) / (2 · seconds) · t² = count`.
    fn when(self, count: f64) -> f64 {
        if count <= 0.0 {
            return 0.0;
        }
        let slope = (self.to - self.from) / self.seconds;
        // This form of the root loses no digits, and also holds for a slope of 0.
        2.0 * count
            / (self.from
                + (self.from * self.from + 2.0 * slope * count)
                    .max(0.0)
                    .sqrt())
    }
}

/// Returns when `count` arrivals are expected, in seconds from the start of the first stretch. The last rate continues
/// forever.
fn when(stretches: &[Stretch], mut count: f64) -> f64 {
    let mut begin = 0.0;
    for stretch in stretches {
        let room = stretch.arrivals();
        if count < room {
            return begin + stretch.when(count);
        }
        count -= room;
        begin += stretch.seconds;
    }
    match stretches.last().map_or(1.0, |s| s.to) {
        // No more arrivals.
        0.0 => f64::INFINITY,
        last => begin + count / last,
    }
}

impl Arrival {
    /// Returns the word for the kind, as settings and tables write it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Burst => "burst",
            Self::ClosedLoop(_) => "closed-loop",
            Self::Constant(_) => "constant",
            Self::Poisson(_) => "poisson",
            Self::Gamma(_) => "gamma",
            Self::Steps(_) => "steps",
            Self::Ramp(_) => "ramp",
            Self::Trace(_) => "trace",
        }
    }

    /// Returns the number of clients of a closed loop (sequential has one); `None` for open arrivals.
    pub fn clients(&self) -> Option<u32> {
        match self {
            Self::Sequential => Some(1),
            Self::ClosedLoop(closed) => Some(closed.clients),
            _ => None,
        }
    }

    /// Returns the think time of a closed loop, 0 otherwise.
    pub fn think_time(&self) -> TimeSpan {
        match self {
            Self::ClosedLoop(closed) => closed.think_time,
            _ => TimeSpan::default(),
        }
    }

    /// Returns the mean rate, requests per second; `None` for closed loops, bursts and traces.
    pub fn rate(&self) -> Option<f64> {
        match self {
            Self::Constant(r) | Self::Poisson(r) => Some(r.rate),
            Self::Gamma(g) => Some(g.rate),
            Self::Steps(_) | Self::Ramp(_) => {
                let (stretches, _) = self.stretches()?;
                let arrivals: f64 = stretches.iter().map(|s| s.arrivals()).sum();
                Some(arrivals / stretches.iter().map(|s| s.seconds).sum::<f64>())
            }
            Self::Sequential | Self::Burst | Self::ClosedLoop(_) | Self::Trace(_) => None,
        }
    }

    /// Returns the highest rate, requests per second; `None` for closed loops and bursts.
    pub(crate) fn peak_rate(&self) -> Option<f64> {
        match self.stretches() {
            Some((stretches, _)) => stretches
                .iter()
                .flat_map(|s| [s.from, s.to])
                .reduce(f64::max),
            None => self.rate(),
        }
    }

    /// Returns the expected number of open arrivals within this many seconds, and its standard deviation; `None` for
    /// closed loops, bursts and traces.
    ///
    /// The count of a renewal process with gamma gaps has the variance mean / shape.
    pub(crate) fn expected_within(&self, seconds: f64) -> Option<(f64, f64)> {
        if let Some((stretches, process)) = self.stretches() {
            let (mut left, mut mean) = (seconds, 0.0);
            for stretch in &stretches {
                let part = left.min(stretch.seconds);
                let to = stretch.from + (stretch.to - stretch.from) * part / stretch.seconds;
                mean += (stretch.from + to) / 2.0 * part;
                left -= part;
            }
            mean += left * stretches.last().map_or(0.0, |last| last.to);
            let spread = match process {
                Process::Constant => 0.0,
                Process::Poisson => mean.sqrt(),
            };
            return Some((mean, spread));
        }
        let mean = self.rate()? * seconds;
        Some(match self {
            Self::Gamma(gamma) => (
                mean,
                (mean / gamma.burstiness).sqrt() + 1.0 / gamma.burstiness,
            ),
            Self::Poisson(_) => (mean, mean.sqrt()),
            _ => (mean, 0.0),
        })
    }

    /// Returns when this many open arrivals are expected, in seconds; `None` for closed loops, bursts and traces.
    pub(crate) fn expected_until(&self, requests: u64) -> Option<f64> {
        let requests = requests as f64;
        let Some((stretches, _)) = self.stretches() else {
            return Some(requests / self.rate()?);
        };
        let at = when(&stretches, requests);
        // Of arrivals that fade out, a rounded number may exceed all that are expected.
        let all = || stretches.iter().map(|s| s.seconds).sum();
        Some(if at.is_finite() { at } else { all() })
    }

    /// Returns the number of requests that fit. For ladders and ramps, these are the arrivals expected until their end. Of random
    /// arrivals, more or fewer may come by then, so [`Arrival::lasts`] limits them instead.
    pub(crate) fn room(&self) -> Option<u64> {
        let (stretches, _) = self.stretches()?;
        let arrivals: f64 = stretches.iter().map(|s| s.arrivals()).sum();
        // If a sum of fractions misses a whole number by a tiny amount, the whole number counts.
        Some((arrivals - 1e-9 * arrivals).ceil().max(1.0) as u64)
    }

    /// Returns the duration of a ladder or a ramp that ends by its time: at a rate of 0 and, unless a number of requests is
    /// given, after random arrivals. `None` for all others.
    pub(crate) fn lasts(&self, is_counted: bool) -> Option<TimeSpan> {
        let (stretches, process) = self.stretches()?;
        let is_random = process == Process::Poisson && !is_counted;
        stretches
            .last()
            .filter(|last| last.to == 0.0 || is_random)?;
        let seconds: f64 = stretches.iter().map(|s| s.seconds).sum();
        let duration = std::time::Duration::try_from_secs_f64(seconds).ok()?;
        Some(TimeSpan::of(duration))
    }

    fn stretches(&self) -> Option<(Vec<Stretch>, Process)> {
        match self {
            Self::Steps(steps) => {
                let flat = |l: &Level| Stretch {
                    from: l.rate,
                    to: l.to.unwrap_or(l.rate),
                    seconds: l.seconds,
                };
                Some((steps.levels.iter().map(flat).collect(), steps.process))
            }
            Self::Ramp(r) => Some((
                vec![Stretch {
                    from: r.from,
                    to: r.to,
                    seconds: r.seconds,
                }],
                r.process,
            )),
            _ => None,
        }
    }

    /// Returns the digest of the trace, if the arrivals are recorded.
    pub(crate) fn trace(&self) -> Option<String> {
        match self {
            Self::Trace(replay) => replay.digest.clone(),
            _ => None,
        }
    }

    /// Returns the problem with the numbers, if any: the keys that lead to them, a message and the remedy.
    pub(crate) fn problem(&self) -> Option<(Vec<&'static str>, String, &'static str)> {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        if let Some((stretches, _)) = self.stretches() {
            let problem = stretches_problem(&stretches);
            return problem.map(|(message, hint)| (vec![self.word()], message, hint));
        }
        if let Some(rate) = self.rate()
            && !positive(rate)
        {
            return Some((
                vec![self.word(), "rate"],
                format!("rate must be above 0, got {rate}"),
                "write the requests per second, such as `rate: 4`",
            ));
        }
        match self {
            Self::Trace(t) if !positive(t.speed) => Some((
                vec![self.word(), "speed"],
                format!("speed must be above 0, got {}", t.speed),
                "`speed: 2` replays a trace in half of its time",
            )),
            Self::ClosedLoop(c) if c.clients == 0 => Some((
                vec![self.word(), "clients"],
                "a closed loop needs at least one client".to_owned(),
                "write at least `clients: 1`",
            )),
            Self::Gamma(g) if !positive(g.burstiness) => Some((
                vec![self.word(), "burstiness"],
                format!("burstiness must be above 0, got {}", g.burstiness),
                "`burstiness: 1` is Poisson, and smaller values give bursts",
            )),
            _ => None,
        }
    }

    /// Returns the arrival offsets of `count` requests, ns from the start of the measured phase, never decreasing;
    /// `None` for closed loops, whose arrivals depend on the server.
    ///
    /// In `constant`, request `i` arrives at `i / rate`; in `poisson` and `gamma`, at the sum of `i + 1` gaps. If the
    /// rate changes, let `t(x)` be the time by which `x` arrivals are expected. With even arrivals, request `i` arrives
    /// at `t(i)`. With a Poisson process, it arrives at `t` of the sum of `i + 1` exponential draws of mean 1. That is
    /// the exact law (time change), not an approximation by short stretches.
    ///
    /// # Errors
    /// If a trace cannot be read, has changed, or is too short.
    pub(crate) fn offsets(
        &self,
        count: usize,
        stream: &Stream,
        files: &NamedFiles,
    ) -> Result<Option<Vec<u64>>, String> {
        if let Self::Trace(Replay {
            file,
            digest,
            speed,
        }) = self
        {
            let (rows, _) = read_trace(file, digest.as_deref(), files)?;
            if rows.len() < count {
                return Err(format!(
                    "the trace holds {} arrivals, but {count} are needed; use a longer trace, or lower the \
                     number of requests",
                    rows.len()
                ));
            }
            let at = |seconds: f64| (seconds / speed * 1e9).round() as u64;
            let times = times(&rows[..count])?;
            return Ok(Some(times.into_iter().map(at).collect()));
        }
        Ok(self.drawn(count, stream))
    }

    fn drawn(&self, count: usize, stream: &Stream) -> Option<Vec<u64>> {
        let nanoseconds = |seconds: f64| (seconds * 1e9).round() as u64;
        let mut draws = stream.at(0);
        let mut summed = |mut gap: Box<dyn FnMut(&mut crate::random::Draws) -> f64>| {
            let mut at = 0.0_f64;
            (0..count)
                .map(|_| {
                    at += gap(&mut draws);
                    nanoseconds(at)
                })
                .collect()
        };
        if let Some((stretches, process)) = self.stretches() {
            return Some(match process {
                Process::Constant => (0..count)
                    .map(|i| nanoseconds(when(&stretches, i as f64)))
                    .collect(),
                Process::Poisson => {
                    let mut expected = 0.0;
                    let mut next = || {
                        expected += draws.exponential();
                        nanoseconds(when(&stretches, expected))
                    };
                    (0..count).map(|_| next()).collect()
                }
            });
        }
        match *self {
            Self::Sequential | Self::ClosedLoop(_) => None,
            Self::Steps(_) | Self::Ramp(_) | Self::Trace(_) => unreachable!("handled before"),
            Self::Burst => Some(vec![0; count]),
            Self::Constant(Rate { rate }) => {
                Some((0..count).map(|i| nanoseconds(i as f64 / rate)).collect())
            }
            Self::Poisson(Rate { rate }) => Some(summed(Box::new(move |d| d.exponential() / rate))),
            Self::Gamma(Gamma { rate, burstiness }) => Some(summed(Box::new(move |d| {
                d.gamma(burstiness) / (burstiness * rate)
            }))),
        }
    }
}

/// Returns the problem with rates that change, and its remedy.
fn stretches_problem(stretches: &[Stretch]) -> Option<(String, &'static str)> {
    let fits = |rate: f64| rate.is_finite() && rate >= 0.0;
    for s in stretches {
        if !fits(s.from) || !fits(s.to) {
            return Some((
                format!("a rate must not be below 0, got {}", s.from.min(s.to)),
                "write the requests per second; 0 is a pause",
            ));
        }
        if !s.seconds.is_finite() || s.seconds <= 0.0 {
            return Some((
                format!("seconds must be above 0, got {}", s.seconds),
                "write how many seconds the rate lasts",
            ));
        }
    }
    match stretches.last() {
        None => Some((
            "a ladder needs at least one step".to_owned(),
            "write, for example, `levels: [{rate: 2, seconds: 30}, {rate: 4, seconds: 30}]`",
        )),
        _ if stretches.iter().all(|s| s.arrivals() <= 0.0) => Some((
            "at least one rate must be above 0".to_owned(),
            "raise a rate, because no request arrives at a rate of 0",
        )),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests;
