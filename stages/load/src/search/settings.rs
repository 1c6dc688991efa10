//! The settings of a search.

use apis::Delivery;
use artifacts::counted;
use pipeline::language::settings::percent_of_share;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bisect::{Level, Rules};
use super::overload::Overload;
use super::share::fewest;
use crate::arrival::{Arrival, ClosedLoop, Gamma, Rate};
use crate::span::TimeSpan;
use crate::summary::Slo;

/// Search for the highest level of the arrivals (clients of a closed loop, or requests per second) at which the
/// server meets the bounds. The level written in `arrival` is the lowest tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Search {
    /// The highest level tried.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub up_to: f64,
    /// The bounds that a good request must meet.
    pub bounds: Bounds,
    /// The share of requests that must be good. Failed requests are not good.
    #[serde(default = "attainment")]
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub attainment: f64,
    /// The search ends when the lowest missed level is at most this share, or one client, above the highest kept
    /// level.
    #[serde(default = "resolution")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub resolution: f64,
    /// The longest time during which requests may arrive in one probe of a rate. If a decision would need more time,
    /// the search ends.
    #[serde(default = "longest")]
    pub longest: TimeSpan,
}

fn longest() -> TimeSpan {
    TimeSpan::seconds(300)
}

fn attainment() -> f64 {
    0.95
}

fn resolution() -> f64 {
    0.05
}

/// Bounds on a request's latencies, ms; a request must meet all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-form" = "{ttft-ms: 500, tpot-ms: 50}"))]
pub struct Bounds {
    /// The largest time to the first token, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub ttft_ms: Option<f64>,
    /// The largest time per output token, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub tpot_ms: Option<f64>,
    /// The largest end-to-end latency, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub e2e_ms: Option<f64>,
    /// The largest time from the scheduled time of a request to its first token, in ms. Only for open arrivals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub ttft_scheduled_ms: Option<f64>,
    /// The largest time from the scheduled time of a request to its last token, in ms. Only for open arrivals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub e2e_scheduled_ms: Option<f64>,
}

impl Bounds {
    /// Returns the bounds for the summary.
    pub fn slo(&self) -> Slo {
        Slo {
            ttft_ms: self.ttft_ms,
            tpot_ms: self.tpot_ms,
            e2e_ms: self.e2e_ms,
            ttft_scheduled_ms: self.ttft_scheduled_ms,
            e2e_scheduled_ms: self.e2e_scheduled_ms,
        }
    }
}

impl Search {
    /// Returns the lowest level: that of the arrivals.
    ///
    /// # Errors
    /// If the arrivals have no level that can be varied, in words for the user.
    pub fn lowest(arrival: &Arrival) -> Result<Level, String> {
        match arrival {
            Arrival::ClosedLoop(ClosedLoop { clients, .. }) => Ok(Level::Clients(*clients)),
            Arrival::Constant(Rate { rate })
            | Arrival::Poisson(Rate { rate })
            | Arrival::Gamma(Gamma { rate, .. }) => Ok(Level::Rate(*rate)),
            _ => Err(format!(
                "`{}` arrivals have no level to search over",
                arrival.word()
            )),
        }
    }

    /// Returns the bounds by which requests are judged. With a limit on requests in flight, TTFT and E2E count from the scheduled
    /// time: requests that wait in line are sent late.
    pub(super) fn slo(&self, max_in_flight: Option<u32>) -> Slo {
        match max_in_flight {
            Some(_) => self.bounds.slo().from_schedule(),
            None => self.bounds.slo(),
        }
    }

    /// Returns the rules that judge levels, with at most `requests` each unless a rate needs more.
    pub fn rules(&self, requests: u64) -> Rules {
        let Self {
            attainment,
            resolution,
            ..
        } = *self;
        // Those that a wait in line or in the server's queue exceeds.
        let slo = self.bounds.slo().from_schedule();
        let bounds_ms = [slo.ttft_scheduled_ms, slo.e2e_scheduled_ms];
        let bound_ms = bounds_ms.into_iter().flatten().reduce(f64::min);
        let longest_s = self.longest.duration().as_secs_f64();
        let overload = Overload::of(
            bound_ms.map(|ms| ms / 1000.0),
            attainment,
            resolution,
            longest_s,
        );
        Rules {
            attainment,
            resolution,
            requests: requests.max(1),
            overload,
        }
    }

    /// Warns if no interval can show a level kept with at most this many requests, so that only the share decides.
    pub fn warning(&self, requests: u64, arrival: &Arrival) -> Option<String> {
        // A rate is judged over a minimum time.
        let requests = match Self::lowest(arrival) {
            Ok(Level::Rate(rate)) => {
                requests.max((rate * self.rules(requests).overload.needed_s).ceil() as u64)
            }
            _ => requests,
        };
        let fewest = fewest(self.attainment);
        (requests < fewest).then(|| {
            format!(
                "{} at a level are too few for an interval to keep it (attainment {} %), so the share alone decides: allow \
                 {fewest} or more",
                counted(requests, "request"),
                percent_of_share(self.attainment)
            )
        })
    }

    /// Returns the problem with the settings: the key, a message and the remedy.
    pub fn problem(
        &self,
        arrival: &Arrival,
        delivery: Delivery,
    ) -> Option<(&'static str, String, &'static str)> {
        let from = match Self::lowest(arrival) {
            Ok(level) => level,
            Err(message) => {
                return Some((
                    "up-to",
                    message,
                    "use closed-loop, constant, poisson or gamma",
                ));
            }
        };
        if !self.bounds.slo().any() {
            return Some((
                "bounds",
                "without a bound, every level would be met".to_owned(),
                "give at least one, such as `ttft-ms: 200`",
            ));
        }
        if delivery == Delivery::Whole
            && let Some(bound) = self.bounds.slo().unmet_by_whole_answers()
        {
            return Some((
                "bounds",
                format!("whole answers have no {bound}, so no request would meet the bound on it"),
                "bound `e2e-ms`",
            ));
        }
        let whole = matches!(from, Level::Clients(_));
        let of_schedule = [self.bounds.ttft_scheduled_ms, self.bounds.e2e_scheduled_ms];
        if whole && of_schedule.iter().any(Option::is_some) {
            return Some((
                "bounds",
                "a closed loop has no schedule, so no request would meet a bound from its scheduled time".to_owned(),
                "bound `ttft-ms` or `e2e-ms`, or search over a rate",
            ));
        }
        if !self.up_to.is_finite() || self.up_to < from.number() {
            return Some((
                "up-to",
                format!("the search starts at {from}, which is above {}", self.up_to),
                "raise `up-to`, or start lower",
            ));
        }
        if whole && (self.up_to.fract() != 0.0 || self.up_to > 65_536.0) {
            return Some((
                "up-to",
                format!("{} is not a number of clients up to 65,536", self.up_to),
                "write a whole number; a search over rates can end at any number",
            ));
        }
        if !(self.attainment > 0.0 && self.attainment < 1.0) {
            return Some((
                "attainment",
                format!("{} is not between 0 and 1", self.attainment),
                "0.95 demands that 95 % of the requests meet the bounds",
            ));
        }
        if !(self.resolution > 0.0 && self.resolution.is_finite()) {
            return Some((
                "resolution",
                format!("{} is not above 0", self.resolution),
                "0.05 ends the search when the levels are 5 % apart",
            ));
        }
        let overload = self.rules(1).overload;
        if !whole && overload.longest_s < overload.needed_s {
            return Some((
                "longest",
                format!(
                    "a rate that is {} % too high becomes visible only after {:.1} s of arrivals \
                     (bound ÷ resolution ÷ attainment), but a probe may last only {}",
                    percent_of_share(self.resolution),
                    overload.needed_s,
                    self.longest
                ),
                "raise `longest`, or use a coarser `resolution`",
            ));
        }
        None
    }
}

/// Returns the arrivals at another level.
pub(super) fn at_level(arrival: &Arrival, level: Level) -> Arrival {
    match (arrival, level) {
        (Arrival::ClosedLoop(closed), Level::Clients(clients)) => Arrival::ClosedLoop(ClosedLoop {
            clients,
            ..closed.clone()
        }),
        (Arrival::Constant(_), Level::Rate(rate)) => Arrival::Constant(Rate { rate }),
        (Arrival::Poisson(_), Level::Rate(rate)) => Arrival::Poisson(Rate { rate }),
        (Arrival::Gamma(gamma), Level::Rate(rate)) => Arrival::Gamma(Gamma {
            rate,
            ..gamma.clone()
        }),
        (other, _) => other.clone(),
    }
}
