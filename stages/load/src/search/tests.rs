//! The search against servers of known knees: shares given outright, and the simulated server.

use pipeline::stage::{Control, Coordinates};
use proptest::prelude::*;
use serde_json::json;

use super::settings::at_level;
use super::*;
use crate::random::Origin;
use crate::rows::{Phase, RequestStatus};
use crate::run::LoadSpec;
use crate::settings::Settings;
use crate::simulate::{SimulationChoice, simulate};

type Never = std::convert::Infallible;

/// A server that keeps every request up to a level and a share of them above.
fn knee(at: f64, above: f64) -> impl FnMut(usize, Level, u64) -> Result<Tried, Never> {
    move |_, level, requests| {
        let share = if level.number() <= at { 1.0 } else { above };
        Ok(Tried { requests, good: (share * requests as f64).round() as u64 })
    }
}

fn search(
    from: Level,
    up_to: f64,
    mut server: impl FnMut(usize, Level, u64) -> Result<Tried, Never>,
) -> Found {
    let (found, Ok(())) = bisect((from, up_to), 0.9, 0.05, 200, &mut server, &mut |_| {});
    found
}

#[test]
fn wilsons_interval_is_the_published_one() {
    // Newcombe 1998, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
    for ((good, n), (lower, upper)) in [
        ((81, 263), (0.2553, 0.3662)),
        ((15, 148), (0.0624, 0.1605)),
        ((0, 20), (0.0000, 0.1611)),
        ((1, 29), (0.0061, 0.1718)),
    ] {
        let found = wilson(good, n);
        assert!((found.0 - lower).abs() < 5e-5 && (found.1 - upper).abs() < 5e-5, "{good}/{n}: {found:?}");
    }
    assert_eq!(wilson(0, 0), (0.0, 1.0));
}

#[test]
fn the_last_client_kept_is_found_between_two_neighbours() {
    let found = search(Level::Clients(1), 64.0, knee(19.0, 0.2));
    assert_eq!((found.kept, found.missed), (Some(Level::Clients(19)), Some(Level::Clients(20))));
}

#[test]
fn even_the_lowest_level_may_be_missed_and_even_the_highest_kept() {
    let found = search(Level::Clients(8), 64.0, knee(2.0, 0.0));
    assert_eq!((found.kept, found.missed, found.probes.len()), (None, Some(Level::Clients(8)), 1));
    let found = search(Level::Clients(8), 60.0, knee(1e9, 0.0));
    assert_eq!((found.kept, found.missed), (Some(Level::Clients(60)), None));
}

#[test]
fn a_share_at_the_very_bound_is_decided_when_the_requests_are_spent() {
    let found = search(Level::Rate(1.0), 1.0, knee(0.0, 0.9));
    let last = found.probes.last().unwrap();
    assert!(last.by_share && last.pooled.requests == 200 && found.probes.len() > 1);
    assert_eq!(last.verdict, Verdict::Kept);
    assert!(found.probes[..found.probes.len() - 1].iter().all(|p| p.verdict == Verdict::Undecided));
}

#[test]
fn a_probe_that_fails_leaves_those_before_it() {
    let mut server = |number: usize, _: Level, requests: u64| {
        if number < 3 { Ok(Tried { requests, good: requests }) } else { Err("stopped") }
    };
    let (found, ended) = bisect((Level::Rate(1.0), 64.0), 0.9, 0.05, 40, &mut server, &mut |_| {});
    assert_eq!((ended, found.probes.len(), found.kept), (Err("stopped"), 2, Some(Level::Rate(2.0))));
}

#[test]
fn a_rate_decided_before_its_queue_could_grow_is_doubted() {
    let bounded = |bounds: serde_json::Value| -> Search {
        serde_json::from_value(json!({"up-to": 256, "bounds": bounds})).unwrap()
    };
    let found = search(Level::Rate(1.0), 256.0, knee(100.0, 0.0));
    let told = bounded(json!({"ttft-ms": 200})).doubt(&found).unwrap();
    assert!(told.contains("may be too high") && told.contains("allow"), "{told}");
    // A queue passes a bound of 1 ms at once; one on TPOT knows no queue.
    assert_eq!(bounded(json!({"ttft-ms": 1})).doubt(&found), None);
    assert_eq!(bounded(json!({"tpot-ms": 200})).doubt(&found), None);
    let clients = search(Level::Clients(1), 64.0, knee(19.0, 0.2));
    assert_eq!(bounded(json!({"ttft-ms": 200})).doubt(&clients), None);
}

proptest! {
    #[test]
    fn the_rate_found_is_within_the_resolution_and_costs_less_than_half_a_grid(
        at in 2.0_f64..200.0, above in 0.0_f64..0.7,
    ) {
        // A grid as fine would need more than its ten points of 200 requests.
        let found = search(Level::Rate(1.0), 256.0, knee(at, above));
        let (kept, missed) = (found.kept.unwrap().number(), found.missed.unwrap().number());
        prop_assert!(kept <= at && at < missed && missed <= kept * 1.05, "{} {} {}", kept, at, missed);
        prop_assert!(found.requests() <= 1000, "{} requests", found.requests());
    }

    #[test]
    fn no_search_spends_more_on_a_level_than_allowed(
        at in 1_u32..5000, above in 0.0_f64..1.0, requests in 1_u64..500,
    ) {
        let mut server = knee(f64::from(at), above);
        let range = (Level::Clients(1), 65_536.0);
        let (found, Ok(())) = bisect(range, 0.95, 0.05, requests, &mut server, &mut |_| {});
        prop_assert!(found.probes.iter().all(|p| p.pooled.requests <= requests && p.tried.requests > 0));
        let decided: Vec<f64> = found.probes.iter().filter(|p| p.verdict != Verdict::Undecided)
            .map(|p| p.level.number()).collect();
        let mut distinct = decided.clone();
        distinct.sort_by(f64::total_cmp);
        distinct.dedup();
        prop_assert_eq!(distinct.len(), decided.len());
    }
}

/// Sends the probes of a search to a simulated server: `slots` slots, each answer ten steps of
/// 10 ms long, without noise. Its knee is `slots` clients, and `slots` · 10 requests a second.
fn simulated(arrival: &serde_json::Value, up_to: f64, slots: u32) -> Found {
    let settings: Settings = serde_json::from_value(json!({
        "workload": {"prompts": {"words": {"length": 10}}, "output": {"tokens": 11}},
        "arrival": arrival,
        "requests": 200,
        "simulate": {"server": {
            "slots": slots, "tokens-per-word": 1.0,
            "prefill": {}, "decode": {"fixed": "10 ms"},
        }},
    }))
    .unwrap();
    let arrival = settings.arrival.clone().unwrap();
    let simulation = settings.simulate.clone().unwrap();
    let SimulationChoice::Inline(server) = &simulation.server else { panic!("a name") };
    let slo = Bounds { ttft_ms: Some(25.0), ..Bounds::default() }.slo();
    let mut probe = |_: usize, level: Level, requests: u64| -> Result<Tried, Never> {
        let settings = Settings {
            arrival: Some(at_level(&arrival, level)),
            requests: Some(requests),
            ..settings.clone()
        };
        let spec = LoadSpec::new(settings, Origin { seed: 164, replicate: Coordinates::default() }).unwrap();
        let result = simulate(&spec, &simulation, server, &Control::quiet()).unwrap();
        let rows = result.requests.iter().filter(|r| r.phase == Phase::Measured);
        let good = rows.clone().filter(|r| r.status == RequestStatus::Ok && slo.kept(r)).count();
        Ok(Tried { requests: rows.count() as u64, good: good as u64 })
    };
    let range = (Search::lowest(&arrival).unwrap(), up_to);
    let (found, Ok(())) = bisect(range, 0.9, 0.05, 200, &mut probe, &mut |_| {});
    found
}

#[test]
fn as_many_clients_as_slots_are_found_on_a_simulated_server() {
    let found = simulated(&json!({"closed-loop": {"clients": 1}}), 64.0, 6);
    // With seven clients one in six requests waits for a whole answer.
    assert_eq!((found.kept, found.missed), (Some(Level::Clients(6)), Some(Level::Clients(7))));
    assert!(found.requests() <= 1000, "{} requests", found.requests());
}

#[test]
fn the_capacity_of_a_simulated_server_is_found_within_a_twentieth() {
    // Eight slots of 100 ms: 80 requests a second; evenly spaced ones wait for the next step alone.
    let found = simulated(&json!({"constant": {"rate": 9}}), 320.0, 8);
    let kept = found.kept.unwrap().number();
    assert!((kept - 80.0).abs() <= 4.0, "{kept} requests a second");
    assert!(found.requests() <= 1000, "{} requests", found.requests());
}
