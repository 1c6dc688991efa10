//! The search, tested with servers whose knees are known: given shares, and the simulated server.

use contract::{Phase, ProbeVerdict, RequestStatus};
use pipeline::stage::{Control, Coordinates};
use proptest::prelude::*;
use rand::SeedableRng as _;
use serde_json::json;

use super::bisect::bisect;
use super::settings::at_level;
use super::*;
use crate::arrival::Arrival;
use crate::random::Origin;
use crate::run::LoadSpec;
use crate::settings::Settings;
use crate::simulate::{SimulationChoice, simulate};

type Never = std::convert::Infallible;

/// Returns a server whose requests are all good up to a level, and above it the given share.
fn knee(at: f64, above: f64) -> impl FnMut(usize, Level, u64) -> Result<Tried, Never> {
    move |_, level, requests| {
        let share = if level.number() <= at { 1.0 } else { above };
        Ok(tried(level, requests, share))
    }
}

/// Returns the result of a probe whose requests are independent of each other.
fn tried(level: Level, sent: u64, share: f64) -> Tried {
    let warm_in = match level {
        Level::Clients(clients) => u64::from(clients).min(sent - 1),
        Level::Rate(_) => 0,
    };
    let judged = (1..=sent - warm_in).map(|i| {
        let good = (share * i as f64).round() > (share * (i - 1) as f64).round();
        // 37 is coprime to 100, so the strains of neighbours differ.
        let spread = (i * 37 % 100) as f64 / 100.0;
        Judged {
            good,
            strain: Some(if good { spread } else { 1.01 + spread }),
        }
    });
    Tried {
        sent,
        judged: judged.collect(),
        warm_in_s: 0.0,
    }
}

/// Returns rules under which a rate needs no time.
fn timeless(attainment: f64, requests: u64) -> Rules {
    let overload = Overload {
        warm_in_s: 0.0,
        needed_s: 0.0,
        longest_s: 1e9,
    };
    Rules {
        attainment,
        resolution: 0.05,
        requests,
        overload,
    }
}

fn search(
    from: Level,
    up_to: f64,
    mut server: impl FnMut(usize, Level, u64) -> Result<Tried, Never>,
) -> Found {
    let (outcome, Ok(())) = bisect((from, up_to), &timeless(0.9, 200), &mut server, &mut |_| {});
    outcome
}

#[test]
fn the_last_client_kept_is_found_between_two_neighbours() {
    let outcome = search(Level::Clients(1), 64.0, knee(19.0, 0.2));
    assert_eq!(
        (outcome.kept, outcome.missed),
        (Some(Level::Clients(19)), Some(Level::Clients(20)))
    );
}

#[test]
fn even_the_lowest_level_may_be_missed_and_even_the_highest_kept() {
    let outcome = search(Level::Clients(8), 64.0, knee(2.0, 0.0));
    assert_eq!(
        (outcome.kept, outcome.missed, outcome.probes.len()),
        (None, Some(Level::Clients(8)), 1)
    );
    let outcome = search(Level::Clients(8), 60.0, knee(1e9, 0.0));
    assert_eq!(
        (outcome.kept, outcome.missed),
        (Some(Level::Clients(60)), None)
    );
}

#[test]
fn a_share_at_the_very_bound_is_decided_when_the_requests_are_spent() {
    let outcome = search(Level::Rate(1.0), 1.0, knee(0.0, 0.9));
    let last = outcome.probes.last().unwrap();
    assert!(last.by_share && last.pooled.requests == 200 && outcome.probes.len() > 1);
    assert_eq!(last.verdict, ProbeVerdict::Kept);
    assert!(
        outcome.probes[..outcome.probes.len() - 1]
            .iter()
            .all(|p| p.verdict == ProbeVerdict::Undecided)
    );
}

#[test]
fn a_probe_that_fails_leaves_those_before_it() {
    let mut server = |number: usize, level: Level, requests: u64| {
        if number < 3 {
            Ok(tried(level, requests, 1.0))
        } else {
            Err("stopped")
        }
    };
    let (outcome, ended) = bisect(
        (Level::Rate(1.0), 64.0),
        &timeless(0.9, 40),
        &mut server,
        &mut |_| {},
    );
    assert_eq!(
        (ended, outcome.probes.len(), outcome.kept),
        (Err("stopped"), 2, Some(Level::Rate(2.0)))
    );
}

/// Returns a server whose wait grows by the excess of the rate over its capacity. A request meets the bound if it is
/// due before the wait exceeds it. Its answers take `answer_s`.
fn fluid(
    capacity: f64,
    bound_s: f64,
    answer_s: f64,
) -> impl FnMut(usize, Level, u64) -> Result<Tried, Never> {
    move |_, level, requests| {
        let grows = (level.number() / capacity - 1.0).max(0.0);
        let seen: Vec<_> = (0..requests)
            .map(|i| {
                let due_s = i as f64 / level.number();
                let wait_s = grows * (due_s - answer_s).max(0.0);
                (
                    (due_s * 1e9) as i64,
                    Some(((wait_s + answer_s) * 1e9) as i64),
                    Judged {
                        good: wait_s <= bound_s,
                        strain: Some(wait_s / bound_s),
                    },
                )
            })
            .collect();
        Ok(Tried::at(level, seen))
    }
}

fn rules(bounds: &serde_json::Value, longest: &str) -> Rules {
    let search: Search =
        serde_json::from_value(json!({"up-to": 1e6, "bounds": bounds, "longest": longest}))
            .unwrap();
    search.rules(400)
}

#[test]
fn an_overload_shows_after_the_bound_by_resolution_and_attainment() {
    let needed = |bounds| rules(&bounds, "5 min").overload.needed_s;
    assert!((needed(json!({"ttft-ms": 190})) - 4.0).abs() < 1e-9);
    assert!((needed(json!({"ttft-ms": 190, "e2e-ms": 95})) - 2.0).abs() < 1e-9);
    // Waiting does not slow down the tokens of a request.
    assert!(needed(json!({"tpot-ms": 190})).abs() < 1e-9);
}

#[test]
fn a_rate_is_undecided_if_no_probe_may_outlast_the_warm_in() {
    // 42.1 s after answers that take 15 s do not fit into 50 s.
    let rules = rules(&json!({"ttft-ms": 2000}), "50 s");
    let (outcome, Ok(())) = bisect(
        (Level::Rate(2.0), 64.0),
        &rules,
        &mut fluid(10.0, 2.0, 15.0),
        &mut |_| {},
    );
    let undecided = outcome.undecided.unwrap();
    assert_eq!(
        (outcome.kept, outcome.missed, undecided.level),
        (None, None, Level::Rate(2.0))
    );
    assert!(
        outcome
            .probes
            .iter()
            .all(|p| p.verdict == ProbeVerdict::Undecided)
    );
    let message = undecided.to_string();
    assert!(
        message.starts_with("2 req/s is neither kept nor missed: requests arrived for 50.0 s"),
        "{message}"
    );
    assert!(
        message.contains("warm-in took 15.0 s") && message.ends_with("`longest: 73 s` or more"),
        "{message}"
    );
}

#[test]
fn a_probe_that_the_warm_in_took_up_is_sent_again_and_does_not_count() {
    let (outcome, Ok(())) = bisect(
        (Level::Rate(2.0), 64.0),
        &rules(&json!({"ttft-ms": 2000}), "5 min"),
        &mut fluid(10.0, 2.0, 15.0),
        &mut |_| {},
    );
    // The first probe has room for a warm-in of 4 s, but it takes 15 s; the second has room for 30 s.
    let first = &outcome.probes[..2];
    assert_eq!(first[0].verdict, ProbeVerdict::Undecided);
    assert_eq!(
        (first[1].verdict, first[1].pooled.requests),
        (ProbeVerdict::Kept, first[1].tried.requests())
    );
    assert!(first[1].tried.sent > first[0].tried.sent);
    let kept = outcome.kept.unwrap().number();
    assert!((kept - 10.0).abs() <= 0.5, "{kept} requests a second");
}

proptest! {
    #[test]
    fn no_rate_above_the_capacity_by_more_than_the_resolution_is_kept(
        capacity in 2.0_f64..1000.0, bound_ms in 20.0_f64..10_000.0, answer_s in 0.01_f64..20.0,
        from in 0.05_f64..3.0,
    ) {
        let mut server = fluid(capacity, bound_ms / 1000.0, answer_s);
        let range = (Level::Rate(capacity * from), capacity * 4.0);
        let (outcome, Ok(())) = bisect(range, &rules(&json!({"ttft-ms": bound_ms}), "1 h"), &mut server, &mut |_| {});
        prop_assert!(outcome.undecided.is_none());
        match outcome.kept {
            Some(kept) => {
                let off = kept.number() / capacity;
                prop_assert!((0.95..=1.05).contains(&off), "{off} times the capacity");
            }
            None => prop_assert!(from > 1.0, "missed at {from} times the capacity"),
        }
    }

    #[test]
    fn the_rate_found_is_within_the_resolution_and_costs_less_than_half_a_grid(
        at in 2.0_f64..200.0, above in 0.0_f64..0.7,
    ) {
        // A grid with the same resolution would need more than ten points of 200 requests.
        let outcome = search(Level::Rate(1.0), 256.0, knee(at, above));
        let (kept, missed) = (outcome.kept.unwrap().number(), outcome.missed.unwrap().number());
        prop_assert!(kept <= at && at < missed && missed <= kept * 1.05, "{} {} {}", kept, at, missed);
        prop_assert!(outcome.requests() <= 1000, "{} requests", outcome.requests());
    }

    #[test]
    fn no_search_spends_more_on_a_level_than_allowed(
        at in 1_u32..5000, above in 0.0_f64..1.0, requests in 1_u64..500,
    ) {
        let mut server = knee(f64::from(at), above);
        let range = (Level::Clients(1), 65_536.0);
        let (outcome, Ok(())) = bisect(range, &timeless(0.95, requests), &mut server, &mut |_| {});
        prop_assert!(outcome.probes.iter().all(|p| p.pooled.requests <= requests && p.tried.requests() > 0));
        let decided: Vec<f64> = outcome.probes.iter().filter(|p| p.verdict != ProbeVerdict::Undecided)
            .map(|p| p.level.number()).collect();
        let mut distinct = decided.clone();
        distinct.sort_by(f64::total_cmp);
        distinct.dedup();
        prop_assert_eq!(distinct.len(), decided.len());
    }
}

/// The waits of requests that arrive at random at a server with one slot and a fixed service time of 1, which is busy for a
/// share `load` of the time (Lindley's recursion). The first waits are left out, so the queue is not empty at the start.
fn waits(load: f64, count: usize, seed: u64) -> Vec<f64> {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let mut wait = 0.0_f64;
    let mut next = || {
        let uniform: f64 = rng.random();
        wait = (wait + 1.0 + (1.0 - uniform).ln() / load).max(0.0);
        wait
    };
    for _ in 0..5000 {
        next();
    }
    (0..count).map(|_| next()).collect()
}

/// Returns how often the interval keeps and misses a rate at which a share `good` of the requests waits within the bound, of
/// 300 queues. The attainment is 0.95.
fn verdicts_of_queues(load: f64, good: f64, requests: u64) -> (f64, f64) {
    let mut long = waits(load, 2_000_000, 1);
    long.sort_by(f64::total_cmp);
    let bound = long[(good * long.len() as f64) as usize];
    let (mut kept, mut missed) = (0, 0);
    for seed in 0..300 {
        let mut looks = 0;
        let mut server = |_: usize, level: Level, requests: u64| -> Result<Tried, Never> {
            looks += 1;
            let waits = waits(load, requests as usize, 1000 * (seed + 1) + looks);
            let seen = waits.iter().zip(0_i64..).map(|(wait, i)| {
                let judged = Judged {
                    good: *wait <= bound,
                    strain: Some((1.0 + wait) / (1.0 + bound)),
                };
                (i, None, judged)
            });
            Ok(Tried::at(level, seen.collect()))
        };
        let rules = timeless(0.95, requests);
        let level = Level::Rate(32.0);
        let (outcome, Ok(())) = bisect((level, 32.0), &rules, &mut server, &mut |_| {});
        let last = outcome.probes.last().unwrap();
        kept += u32::from(!last.by_share && last.verdict == ProbeVerdict::Kept);
        missed += u32::from(!last.by_share && last.verdict == ProbeVerdict::Missed);
    }
    (f64::from(kept) / 300.0, f64::from(missed) / 300.0)
}

#[test]
fn an_interval_rarely_decides_wrongly_where_requests_share_a_queue() {
    let mut all = Vec::new();
    for (load, requests) in [(0.5, 400), (0.8, 400), (0.9, 400), (0.9, 4000)] {
        let kept = verdicts_of_queues(load, 0.90, requests).0;
        let missed = verdicts_of_queues(load, 0.98, requests).1;
        all.push((load, requests, kept, missed));
    }
    assert!(
        all.iter()
            .all(|(_, _, kept, missed)| *kept <= 0.05 && *missed <= 0.1),
        "{all:?}"
    );
    // A rate that is far from the bound is still decided by the interval.
    let easy = verdicts_of_queues(0.3, 0.9999, 1600).0;
    let hard = verdicts_of_queues(0.8, 0.5, 1600).1;
    assert!(easy > 0.9 && hard > 0.9, "{easy} {hard}");
}

/// The waves of a closed loop.
#[derive(Clone, Copy, Debug)]
struct Waves {
    clients: u32,
    /// The share of the variance of a latency that is that of its wave.
    alike: f64,
    /// The correlation of neighbouring waves.
    rho: f64,
    /// The most requests at a level.
    requests: u64,
    /// The share of requests that must be good.
    attainment: f64,
}

/// Returns the shares of 500 searches at one level that keep it, and that miss it, by the interval. The bound is the quantile
/// `margin` of a standard normal distribution.
fn verdicts_of_waves(waves: Waves, margin: f64) -> (f64, f64) {
    let Waves {
        clients,
        alike,
        rho,
        requests,
        attainment,
    } = waves;
    let level = Level::Clients(clients);
    let normal = |rng: &mut rand_chacha::ChaCha8Rng| {
        let (a, b): (f64, f64) = (rng.random(), rng.random());
        (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    };
    let (mut kept, mut missed) = (0, 0);
    for seed in 0..500 {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let mut server = |_: usize, level: Level, requests: u64| -> Result<Tried, Never> {
            let mut wave = normal(&mut rng);
            let seen = (0..requests).map(|i| {
                if i % u64::from(clients) == 0 {
                    wave = rho * wave + (1.0 - rho * rho).sqrt() * normal(&mut rng);
                }
                let latency = alike.sqrt() * wave + (1.0 - alike).sqrt() * normal(&mut rng);
                let strain = (0.1 * (latency - margin)).exp();
                let judged = Judged {
                    good: strain <= 1.0,
                    strain: Some(strain),
                };
                (i64::try_from(i).unwrap(), None, judged)
            });
            Ok(Tried::at(level, seen.collect()))
        };
        let rules = timeless(attainment, requests);
        let (outcome, Ok(())) = bisect((level, level.number()), &rules, &mut server, &mut |_| {});
        let last = outcome.probes.last().unwrap();
        kept += u32::from(!last.by_share && last.verdict == ProbeVerdict::Kept);
        missed += u32::from(!last.by_share && last.verdict == ProbeVerdict::Missed);
    }
    (f64::from(kept) / 500.0, f64::from(missed) / 500.0)
}

#[test]
fn an_interval_rarely_decides_wrongly_where_the_requests_of_a_wave_share_their_fate() {
    // Bounds that 0.90 and 0.98 of the requests meet; 0.95 must.
    let (of_90, of_98) = (1.281_552, 2.053_749);
    let waves = |alike: f64| Waves {
        clients: 32,
        alike,
        rho: 0.0,
        requests: 400,
        attainment: 0.95,
    };
    for alike in [0.0, 0.5, 1.0] {
        let (kept, _) = verdicts_of_waves(waves(alike), of_90);
        let (_, missed) = verdicts_of_waves(waves(alike), of_98);
        assert!(kept <= 0.02 && missed <= 0.1, "{alike}: {kept} {missed}");
    }
    // A level that is far from the bound is still decided by the interval.
    assert!(verdicts_of_waves(waves(0.0), 3.1).0 > 0.95);
    assert!(verdicts_of_waves(waves(0.5), 0.0).1 > 0.95);
}

#[test]
fn an_interval_rarely_decides_wrongly_where_waves_resemble_their_neighbours() {
    let (of_90, of_98) = (1.281_552, 2.053_749);
    let mut all = Vec::new();
    for (clients, alike, rho, requests) in [
        (1, 1.0, 0.8, 400),
        (1, 1.0, 0.95, 400),
        (1, 1.0, 0.95, 2000),
        (4, 0.5, 0.9, 400),
        (4, 1.0, 0.9, 400),
        (4, 1.0, 0.9, 2000),
    ] {
        let waves = Waves {
            clients,
            alike,
            rho,
            requests,
            attainment: 0.95,
        };
        let kept = verdicts_of_waves(waves, of_90).0;
        let missed = verdicts_of_waves(waves, of_98).1;
        all.push((waves, kept, missed));
    }
    assert!(
        all.iter()
            .all(|(_, kept, missed)| *kept <= 0.05 && *missed <= 0.1),
        "{all:?}"
    );
}

#[test]
fn the_looks_at_a_level_err_together_in_at_most_five_percent() {
    // Exactly the share that must be good.
    let mut all = Vec::new();
    for (attainment, requests, margin) in [
        (0.95, 400, 1.644_854),
        (0.9, 400, 1.281_552),
        (0.9, 100, 1.281_552),
        (0.99, 100, 2.326_348),
        (0.99, 1600, 2.326_348),
    ] {
        let waves = Waves {
            clients: 1,
            alike: 0.0,
            rho: 0.0,
            requests,
            attainment,
        };
        let (kept, missed) = verdicts_of_waves(waves, margin);
        all.push((attainment, requests, kept, missed));
    }
    assert!(
        all.iter().all(|(_, _, kept, missed)| kept + missed <= 0.06),
        "{all:?}"
    );
}

#[test]
fn too_few_requests_to_keep_a_level_by_the_interval_get_a_warning() {
    let search: Search =
        serde_json::from_value(json!({"up-to": 8, "bounds": {"ttft-ms": 9}, "attainment": 0.99}))
            .unwrap();
    let arrival: Arrival = serde_json::from_value(json!({"closed-loop": {"clients": 1}})).unwrap();
    assert_eq!(
        search.warning(100, &arrival).unwrap(),
        "100 requests at a level are too few for an interval to keep it (attainment 99 %), so the share alone decides: allow \
         368 or more"
    );
    assert_eq!(search.warning(368, &arrival), None);
    // A rate is judged over a time, in which more requests arrive.
    let fast: Arrival = serde_json::from_value(json!({"constant": {"rate": 100000}})).unwrap();
    assert_eq!(search.warning(100, &fast), None);
}

/// A search for a TTFT bound over the rate or clients of `arrival`.
struct Searched {
    arrival: serde_json::Value,
    up_to: f64,
    slots: u32,
    max_in_flight: Option<u32>,
    ttft_ms: f64,
    attainment: f64,
    requests: u64,
    seed: u64,
}

/// Sends the probes of a search to a simulated server with `slots` slots, whose answers have ten steps of 10 ms each,
/// without noise. Its knee is at `slots` clients, and at `slots` · 10 requests per second.
fn simulated(searched: &Searched) -> Found {
    let settings: Settings = serde_json::from_value(json!({
        "workload": {"prompts": {"words": {"length": 10}}, "output": {"tokens": 11}},
        "arrival": searched.arrival,
        "requests": searched.requests, "max-in-flight": searched.max_in_flight,
        "search": {
            "up-to": searched.up_to, "bounds": {"ttft-ms": searched.ttft_ms}, "attainment": searched.attainment,
        },
        "simulate": {"server": {
            "slots": searched.slots, "tokens-per-word": 1.0,
            "prefill": {}, "decode": {"fixed": "10 ms"},
        }},
    }))
    .unwrap();
    let arrival = settings.arrival.clone().unwrap();
    let simulation = settings.simulate.clone().unwrap();
    let search = settings.search.clone().unwrap();
    let SimulationChoice::Inline(server) = &simulation.server else {
        panic!("a name")
    };
    let slo = search.slo(searched.max_in_flight);
    let mut probe = |number: usize, level: Level, requests: u64| -> Result<Tried, Never> {
        let settings = Settings {
            arrival: Some(at_level(&arrival, level)),
            requests: Some(requests),
            ..settings.clone()
        };
        let origin = Origin {
            seed: searched.seed + number as u64,
            replicate: Coordinates::default(),
        };
        let spec = LoadSpec::new(settings, origin).unwrap();
        let result = simulate(
            &spec,
            &simulation,
            server,
            None,
            &spec.origin,
            &Control::quiet(),
        )
        .unwrap();
        let rows = result
            .requests
            .iter()
            .filter(|r| r.phase == Phase::Measured);
        let seen: Vec<_> = rows
            .map(|r| {
                let ok = r.status == RequestStatus::Ok;
                (
                    r.scheduled_ns.unwrap(),
                    r.sent_ns
                        .filter(|_| ok)
                        .map(|sent| r.done_ns.unwrap() - sent),
                    slo.judged(r),
                )
            })
            .collect();
        Ok(Tried::at(level, seen))
    };
    let range = (Search::lowest(&arrival).unwrap(), search.up_to);
    let (outcome, Ok(())) = bisect(
        range,
        &search.rules(searched.requests),
        &mut probe,
        &mut |_| {},
    );
    outcome
}

#[test]
fn as_many_clients_as_slots_are_found_on_a_simulated_server() {
    let arrival = json!({"closed-loop": {"clients": 1}});
    let outcome = simulated(&Searched {
        arrival,
        up_to: 64.0,
        slots: 6,
        max_in_flight: None,
        ttft_ms: 25.0,
        attainment: 0.9,
        requests: 200,
        seed: 164,
    });
    // With seven clients one in six requests waits for a complete answer.
    assert_eq!(
        (outcome.kept, outcome.missed),
        (Some(Level::Clients(6)), Some(Level::Clients(7)))
    );
    assert!(
        outcome.requests() <= 1000,
        "{} requests",
        outcome.requests()
    );
}

#[test]
fn the_capacity_of_a_simulated_server_is_found_within_a_twentieth() {
    // Eight slots of 100 ms: 80 requests per second. Evenly spaced requests wait only for the next step.
    let arrival = json!({"constant": {"rate": 9}});
    let outcome = simulated(&Searched {
        arrival,
        up_to: 320.0,
        slots: 8,
        max_in_flight: None,
        ttft_ms: 25.0,
        attainment: 0.9,
        requests: 200,
        seed: 164,
    });
    let kept = outcome.kept.unwrap().number();
    assert!((kept - 80.0).abs() <= 4.0, "{kept} requests a second");
    assert!(
        outcome.requests() <= 1000,
        "{} requests",
        outcome.requests()
    );
}

#[test]
fn a_rate_beyond_what_the_places_in_flight_can_answer_is_missed() {
    // Two places of 100 ms: 20 requests per second. The server itself could answer 80.
    let outcome = simulated(&Searched {
        arrival: json!({"constant": {"rate": 3}}),
        up_to: 320.0,
        slots: 8,
        max_in_flight: Some(2),
        ttft_ms: 25.0,
        attainment: 0.9,
        requests: 200,
        seed: 164,
    });
    let kept = outcome.kept.unwrap().number();
    assert!((kept - 20.0).abs() <= 1.0, "{kept} requests a second");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn the_capacity_is_found_within_a_twentieth_with_default_settings(
        slots in 2_u32..=50, ttft_ms in 100.0_f64..2000.0, from in 0.2_f64..0.4, seed in 0_u64..1000,
    ) {
        let capacity = f64::from(slots) * 10.0;
        let arrival = json!({"constant": {"rate": capacity * from}});
        let up_to = capacity * 4.0;
        let searched = Searched { arrival, up_to, slots, max_in_flight: None, ttft_ms, attainment: 0.95, requests: 400, seed };
        let kept = simulated(&searched).kept.unwrap().number();
        prop_assert!((kept / capacity - 1.0).abs() <= 0.05, "{} of {} requests a second", kept, capacity);
    }
}

/// Returns the rates found by twenty searches with different Poisson arrivals for a TTFT of 200 ms, divided by the
/// capacity, in ascending order.
fn poisson(slots: u32) -> Vec<f64> {
    let capacity = f64::from(slots) * 10.0;
    let mut rates: Vec<f64> = (0..20)
        .map(|seed| {
            let arrival = json!({"poisson": {"rate": capacity * 0.28}});
            let (up_to, ttft_ms, seed) = (capacity * 4.0, 200.0, seed * 1000);
            let searched = Searched {
                arrival,
                up_to,
                slots,
                max_in_flight: None,
                ttft_ms,
                attainment: 0.95,
                requests: 400,
                seed,
            };
            simulated(&searched).kept.unwrap().number() / capacity
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates
}

#[test]
fn rates_of_poisson_arrivals_vary_with_the_draws_and_are_lower_the_fewer_arrive() {
    // Near the capacity the queue fluctuates. At 20 requests per second, a probe has 84.
    let (few, more) = (poisson(2), poisson(8));
    assert!(
        (0.8..=0.95).contains(&more[0]) && (0.95..=1.15).contains(&more[19]),
        "{more:?}"
    );
    assert!(
        (0.9..=1.0).contains(&more[5]) && (0.9..=1.0).contains(&more[14]),
        "{more:?}"
    );
    assert!(
        (0.5..=0.7).contains(&few[0]) && (0.7..=0.9).contains(&few[19]),
        "{few:?}"
    );
    assert!(few[19] < more[5], "{few:?} {more:?}");
}
