//! When requests arrive: a pure schedule, drawn beforehand.
//!
//! Open-loop arrivals are absolute offsets from the start of the measured phase. They are never
//! rescaled to hit a total (vLLM's `bench serve` does that, after which a Poisson draw is none)
//! and never relative to the previous send (SGLang's client does that, and drifts).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::random::Stream;
use crate::span::Span;

/// How requests arrive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
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
}

/// A closed loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ClosedLoop {
    /// How many clients: the most requests in flight.
    #[schemars(range(min = 1, max = 65536))]
    pub clients: u32,
    /// How long a client waits between an answer and its next request.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub think_time: Span,
}

fn is_zero(span: &Span) -> bool {
    span.nanoseconds() == 0
}

/// A mean rate of arrivals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Rate {
    /// Requests a second, above 0.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub rate: f64,
}

/// A mean rate of arrivals and how bursty they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Gamma {
    /// Requests a second, above 0.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub rate: f64,
    /// Shape of the gamma distribution, above 0: 1 is Poisson, smaller comes in bursts, larger
    /// is more even (the convention of vLLM's `--burstiness`).
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub burstiness: f64,
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
        }
    }

    /// Returns how many clients a closed loop has (sequential has one); `None` for open arrivals.
    pub fn clients(&self) -> Option<u32> {
        match self {
            Self::Sequential => Some(1),
            Self::ClosedLoop(closed) => Some(closed.clients),
            _ => None,
        }
    }

    /// Returns the think time of a closed loop, 0 otherwise.
    pub fn think_time(&self) -> Span {
        match self {
            Self::ClosedLoop(closed) => closed.think_time,
            _ => Span::default(),
        }
    }

    /// Returns the mean rate, requests a second; `None` for closed loops and bursts.
    pub fn rate(&self) -> Option<f64> {
        match self {
            Self::Constant(r) | Self::Poisson(r) => Some(r.rate),
            Self::Gamma(g) => Some(g.rate),
            _ => None,
        }
    }

    /// Returns what is wrong with the numbers, if anything, with the keys that lead there.
    pub(crate) fn problem(&self) -> Option<(Vec<&'static str>, String)> {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        if let Some(rate) = self.rate()
            && !positive(rate)
        {
            return Some((vec![self.word(), "rate"], format!("rate must be above 0, got {rate}")));
        }
        match self {
            Self::ClosedLoop(c) if c.clients == 0 => {
                Some((vec![self.word(), "clients"], "a closed loop needs at least one client".to_owned()))
            }
            Self::Gamma(g) if !positive(g.burstiness) => Some((
                vec![self.word(), "burstiness"],
                format!("burstiness must be above 0, got {}", g.burstiness),
            )),
            _ => None,
        }
    }

    /// Returns the arrival offsets of `count` requests, ns from the start of the measured phase,
    /// never decreasing; `None` for closed loops, whose arrivals depend on the server.
    ///
    /// `constant` arrives at `i / rate`; `poisson` and `gamma` at the sum of `i + 1` gaps.
    pub(crate) fn offsets(&self, count: usize, stream: &Stream) -> Option<Vec<u64>> {
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
        match *self {
            Self::Sequential | Self::ClosedLoop(_) => None,
            Self::Burst => Some(vec![0; count]),
            Self::Constant(Rate { rate }) => Some((0..count).map(|i| nanoseconds(i as f64 / rate)).collect()),
            Self::Poisson(Rate { rate }) => Some(summed(Box::new(move |d| d.exponential() / rate))),
            Self::Gamma(Gamma { rate, burstiness }) => {
                Some(summed(Box::new(move |d| d.gamma(burstiness) / (burstiness * rate))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Origin;
    use pipeline::stage::{Coordinates, Json};
    use statrs::distribution::{ContinuousCDF, Exp, Gamma as GammaDistribution};

    fn stream(seed: u64) -> Stream {
        Origin { seed, replicate: Coordinates::default() }.stream("arrival", &Json::Null)
    }

    /// The Kolmogorov–Smirnov distance of a sample from a distribution, times √n.
    fn ks(gaps: &mut [f64], cdf: impl Fn(f64) -> f64) -> f64 {
        gaps.sort_by(f64::total_cmp);
        let n = gaps.len() as f64;
        let distance = gaps.iter().enumerate().fold(0.0_f64, |d, (i, &gap)| {
            let p = cdf(gap);
            d.max((p - i as f64 / n).abs()).max(((i + 1) as f64 / n - p).abs())
        });
        distance * n.sqrt()
    }

    fn gaps(offsets: &[u64]) -> Vec<f64> {
        let shifted = std::iter::once(&0).chain(offsets);
        offsets.iter().zip(shifted).map(|(b, a)| (b - a) as f64 / 1e9).collect()
    }

    /// √n·D exceeds this with probability 0.001.
    const KS_LIMIT: f64 = 1.95;

    #[test]
    fn constant_arrivals_are_exactly_i_over_rate() {
        let arrival = Arrival::Constant(Rate { rate: 3.0 });
        let offsets = arrival.offsets(5, &stream(1)).unwrap();
        assert_eq!(offsets, [0, 333_333_333, 666_666_667, 1_000_000_000, 1_333_333_333]);
    }

    #[test]
    fn a_burst_is_one_instant_and_closed_loops_have_no_schedule() {
        assert_eq!(Arrival::Burst.offsets(3, &stream(1)).unwrap(), [0, 0, 0]);
        assert!(Arrival::Sequential.offsets(3, &stream(1)).is_none());
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let arrival = Arrival::Poisson(Rate { rate: 200.0 });
        for seed in [1, 2, 3] {
            let mut gaps = gaps(&arrival.offsets(20_000, &stream(seed)).unwrap());
            let exponential = Exp::new(200.0).unwrap();
            assert!(ks(&mut gaps, |x| exponential.cdf(x)) < KS_LIMIT, "seed {seed}");
        }
    }

    #[test]
    fn gamma_gaps_follow_the_gamma_of_shape_burstiness() {
        for burstiness in [0.25, 1.0, 4.0] {
            let arrival = Arrival::Gamma(Gamma { rate: 50.0, burstiness });
            let mut gaps = gaps(&arrival.offsets(20_000, &stream(5)).unwrap());
            let gamma = GammaDistribution::new(burstiness, burstiness * 50.0).unwrap();
            assert!(ks(&mut gaps, |x| gamma.cdf(x)) < KS_LIMIT, "burstiness {burstiness}");
        }
    }

    #[test]
    fn the_first_arrivals_do_not_depend_on_how_many_follow() {
        let arrival = Arrival::Poisson(Rate { rate: 10.0 });
        let long = arrival.offsets(100, &stream(1)).unwrap();
        assert_eq!(arrival.offsets(10, &stream(1)).unwrap(), long[..10]);
    }
}
