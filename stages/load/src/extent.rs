//! The extent of a load: how long new requests are begun, how many are in flight at once, and which of them their
//! senders give up.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arrival::Arrival;
use crate::generators::GeneratorsChoice;
use crate::random::Stream;
use crate::settings::Settings;
use crate::span::TimeSpan;

/// The prompts drawn per client of a closed loop and second of a duration, if the settings do not limit the number of
/// requests. How many requests a server will answer is unknown.
const PROMPTS_PER_CLIENT_SECOND: f64 = 20.0;

/// The most prompts drawn for a duration alone.
const MOST_PROMPTS: u64 = 100_000;

/// The extent of a load beside its number of requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extent {
    /// How long after the start of the measured phase new requests and sessions are begun.
    pub duration: Option<TimeSpan>,
    /// The most requests in flight for open arrivals.
    pub max_in_flight: Option<u32>,
    /// Which requests their senders give up, and when.
    pub cancel: Option<Cancel>,
}

/// Requests to abandon, as users do who close a page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Cancel {
    /// The time after its first byte was sent at which a request is abandoned, unless it is
    /// answered by then.
    pub after: TimeSpan,
    /// The share of requests to abandon, drawn by the seed; by default, all. 0 abandons none, as the control of an axis
    /// over the share.
    #[serde(default = "all", skip_serializing_if = "is_all")]
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
}

fn all() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_all(share: &f64) -> bool {
    (*share - 1.0).abs() < f64::EPSILON
}

impl Extent {
    /// Returns how long new requests are begun, in seconds; `None` if a number of requests bounds the load.
    pub(crate) fn seconds(&self, arrival: &Arrival, requests: u64) -> Option<f64> {
        let span = self.duration?;
        // Without a number of its own, a load has as many requests as the time has room for.
        let is_drawn_for_it = enough_for(arrival, span) == Some(requests);
        is_drawn_for_it.then(|| span.nanoseconds() as f64 / 1e9)
    }

    /// Returns the extent from the settings.
    pub(crate) fn of(settings: &Settings) -> Self {
        Self {
            duration: settings.duration,
            max_in_flight: settings.max_in_flight,
            cancel: settings.cancel.clone(),
        }
    }

    /// Returns when each measured request is given up, counted from its first byte, by its index.
    pub(crate) fn given_up(&self, count: usize, stream: &Stream) -> Vec<Option<Duration>> {
        let Some(cancel) = &self.cancel else {
            return Vec::new();
        };
        let draw = |i: usize| stream.at(i as u64).unit() < cancel.share;
        (0..count)
            .map(|i| draw(i).then(|| cancel.after.duration()))
            .collect()
    }
}

/// Returns how many requests or sessions are drawn for a duration if nothing else limits them. For open arrivals, this
/// covers all arrivals within the duration; for a closed loop, more than most servers answer. `None` if the arrivals do
/// not determine a number, for example a burst.
pub(crate) fn enough_for(arrival: &Arrival, duration: TimeSpan) -> Option<u64> {
    let seconds = duration.duration().as_secs_f64();
    if let Some(clients) = arrival.clients() {
        let clients = f64::from(clients);
        let some = (clients * seconds * PROMPTS_PER_CLIENT_SECOND).ceil();
        return Some((some as u64).clamp(clients as u64, MOST_PROMPTS.max(clients as u64)));
    }
    let (mean, spread) = arrival.expected_within(seconds)?;
    // Nine standard deviations of the count: more arrive in one of 10^18 draws.
    Some((mean + 9.0 * spread).ceil() as u64 + 1)
}

/// Returns the problems with the settings: the key, the problem, and what to do.
pub(crate) fn problems(
    settings: &Settings,
    arrival: &Arrival,
) -> Vec<(&'static str, String, String)> {
    let mut wrong = Vec::new();
    let mut say = |key, message: &str, hint: &str| {
        wrong.push((key, message.to_owned(), hint.to_owned()));
    };
    if let Some(duration) = settings.duration {
        if duration.nanoseconds() == 0 {
            say(
                "duration",
                "no request can be sent within 0 s",
                "write, for example, `60 s`",
            );
        }
        if *arrival == Arrival::Burst {
            say(
                "duration",
                "a burst sends all requests at once, so a duration has no effect",
                "remove `duration`, or use another arrival",
            );
        }
        if settings.search.is_some() {
            say(
                "duration",
                "a search ends each of its levels by itself",
                "remove `duration`; `requests` is the most sent at one level",
            );
        }
    }
    if let Some(most) = settings.max_in_flight {
        if most == 0 {
            say(
                "max-in-flight",
                "at least one request must be in flight",
                "write at least 1",
            );
        }
        if arrival.clients().is_some() {
            say(
                "max-in-flight",
                "a closed loop never has more in flight than it has clients",
                "use `clients`, or give the arrivals a rate",
            );
        }
    }
    if let Some(cancel) = &settings.cancel {
        if cancel.after.nanoseconds() == 0 {
            say(
                "cancel",
                "a request cannot be given up before it is sent",
                "write, for example, `after: 2 s`",
            );
        }
        if !(0.0..=1.0).contains(&cancel.share) {
            say(
                "cancel",
                "`share` must be between 0 and 1",
                "0.1 is one request in ten, and 0 is none",
            );
        }
    }
    if let Some(generators) = &settings.generators {
        of_generators(generators, settings, arrival, &mut say);
    }
    if settings.simulate.is_some() {
        if settings.duration.is_some() && arrival.clients().is_some() {
            say(
                "duration",
                "simulated servers do not support this setting for a closed loop",
                "give `requests`, or arrivals with a rate",
            );
        }
        let generators = settings.generators.as_ref();
        if generators.is_some_and(|choice| !choice.is_default()) {
            say(
                "generators",
                "simulated servers do not support this setting",
                "remove it, or measure a real server",
            );
        }
    }
    wrong
}

/// Finds what several generators cannot share without talking to each other while they measure.
fn of_generators(
    choice: &GeneratorsChoice,
    settings: &Settings,
    arrival: &Arrival,
    say: &mut dyn FnMut(&'static str, &str, &str),
) {
    let generators = choice.count();
    if let Some(message) = choice.count_problem() {
        say(
            "generators",
            &message,
            "write, for example, `generators: 4`",
        );
    }
    if choice.is_default() || generators == 0 {
        return;
    }
    if settings.max_in_flight.is_some() && generators > 1 {
        say(
            "generators",
            "several generators cannot keep one limit of `max-in-flight`: each knows only its own requests",
            "remove `max-in-flight` or `generators`, or use a closed loop, whose clients are divided",
        );
    }
    if settings.search.is_some() {
        say(
            "generators",
            "a search runs with one generator on this machine",
            "remove `generators`, or measure the levels that you want with an axis",
        );
    }
    let enough = [
        ("clients", arrival.clients().map(u64::from)),
        ("requests", settings.requests),
        ("sessions", settings.sessions),
    ];
    for (what, count) in enough {
        if let Some(count) = count.filter(|count| *count < u64::from(generators)) {
            let message = format!(
                "{generators} generators need at least {generators} {what}, and this load has {count}"
            );
            let hint = format!("use fewer generators, or more {what}");
            say("generators", &message, &hint);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrival::{ClosedLoop, Gamma, Rate};
    use crate::random::Origin;
    use pipeline::sources::NamedFiles;
    use pipeline::stage::{Coordinates, Json};

    fn stream(seed: u64) -> Stream {
        Origin {
            seed,
            replicate: Coordinates::default(),
        }
        .stream("test", &Json::Null)
    }

    #[test]
    fn enough_are_drawn_that_arrivals_go_on_beyond_the_duration() {
        for arrival in [
            Arrival::Constant(Rate { rate: 3.0 }),
            Arrival::Poisson(Rate { rate: 40.0 }),
            Arrival::Gamma(Gamma {
                rate: 40.0,
                burstiness: 0.05,
            }),
        ] {
            let count = enough_for(&arrival, TimeSpan::seconds(20)).unwrap();
            for seed in 0..20 {
                let offsets = arrival
                    .offsets(count as usize, &stream(seed), &NamedFiles::default())
                    .unwrap()
                    .unwrap();
                assert!(
                    *offsets.last().unwrap() >= 20_000_000_000,
                    "{arrival:?}, seed {seed}"
                );
            }
        }
    }

    #[test]
    fn a_closed_loop_gets_prompts_by_its_clients_and_within_a_limit() {
        let closed = |clients| {
            Arrival::ClosedLoop(ClosedLoop {
                clients,
                think_time: TimeSpan::default(),
            })
        };
        assert_eq!(enough_for(&closed(8), TimeSpan::seconds(60)), Some(9_600));
        assert_eq!(
            enough_for(&closed(500), TimeSpan::seconds(3600)),
            Some(MOST_PROMPTS)
        );
        assert_eq!(enough_for(&closed(9), TimeSpan::milliseconds(1)), Some(9));
        assert_eq!(enough_for(&Arrival::Burst, TimeSpan::seconds(1)), None);
    }

    #[test]
    fn the_share_of_requests_given_up_is_drawn_for_each_request_alone() {
        let extent = Extent {
            cancel: Some(Cancel {
                after: TimeSpan::seconds(2),
                share: 0.25,
            }),
            ..Extent::default()
        };
        let long = extent.given_up(4000, &stream(3));
        let share = long.iter().flatten().count() as f64 / 4000.0;
        assert!((share - 0.25).abs() < 0.03, "{share}");
        assert_eq!(extent.given_up(10, &stream(3)), long[..10]);
        // The control of an axis over the share abandons none.
        let mut none = extent;
        none.cancel.as_mut().unwrap().share = 0.0;
        assert!(none.given_up(4000, &stream(3)).iter().all(Option::is_none));
    }
}
