mod senders;

use artifacts::Scalar;
use contract::{Api, Phase, Request, RequestStatus, Word as _};
use pipeline::design::CONTROL;
use pipeline::stage::{Control, Coordinates, Json};
use proptest::prelude::*;
use serde_json::json;

use super::model::problems;
use super::rows::simulate;
use super::*;
use crate::random::Origin;
use crate::run::{Ending, LoadResult, LoadSpec};
use crate::settings::Settings;

const MS: i64 = 1_000_000;

/// Returns settings given as JSON on top of those of a plain run.
fn spec_of(change: &Json, noise: &Origin) -> (LoadSpec, Simulation) {
    let mut settings = json!({
        "workload": {"prompts": {"words": {"length": 10}}, "output": {"tokens": 5}},
        "arrival": {"closed-loop": {"clients": 2}},
        "requests": 8,
        "simulate": {"server": server(&json!({}))},
    });
    for (key, value) in change.as_object().unwrap() {
        settings[key] = value.clone();
    }
    let settings: Settings = serde_json::from_value(settings).unwrap();
    let simulation = settings.simulate.clone().unwrap();
    let spec = LoadSpec::new(settings, noise.keep(|name| name != CONTROL)).unwrap();
    (spec, simulation)
}

/// Simulates settings given as JSON on top of those of a plain run.
fn run_at(change: &Json, noise: &Origin) -> LoadResult {
    let (spec, simulation) = spec_of(change, noise);
    let SimulationChoice::Inline(server) = &simulation.server else {
        panic!("a name")
    };
    assert_eq!(problems(&simulation, server), []);
    let api = change["api"].as_str().map(|word| Api::parse(word).unwrap());
    simulate(&spec, &simulation, server, api, noise, &Control::quiet()).unwrap()
}

fn run_rep(change: &Json, rep: i64) -> LoadResult {
    run_at(change, &origin(&[("rep", Scalar::Int(rep))]))
}

fn origin(replicate: &[(&str, Scalar)]) -> Origin {
    let pairs = replicate
        .iter()
        .map(|(axis, label)| ((*axis).to_owned(), label.clone()));
    Origin {
        seed: 164,
        replicate: Coordinates(pairs.collect()),
    }
}

fn run(change: &Json) -> LoadResult {
    run_rep(change, 1)
}

/// Returns a server with one slot: 10 words are 10 tokens and 20 ms of prefill, a step takes 10 ms.
fn server(change: &Json) -> Json {
    let mut server = json!({
        "slots": 1, "tokens-per-word": 1.0,
        "prefill": {"fixed": "10 ms", "per-token": "1 ms"}, "decode": {"fixed": "10 ms"},
    });
    for (key, value) in change.as_object().unwrap() {
        server[key] = value.clone();
    }
    server
}

fn simulated(change: &Json) -> Json {
    json!({"server": server(change)})
}

fn measured(result: &LoadResult) -> Vec<&Request> {
    result
        .requests
        .iter()
        .filter(|r| r.phase == Phase::Measured)
        .collect()
}

/// The service time of the plain server: 20 ms of prefill, then four steps of 10 ms.
const SERVICE: i64 = 60 * MS;

#[test]
fn one_slot_in_a_closed_loop_is_busy_all_the_time() {
    let result = run(&json!({}));
    assert_eq!(result.ending, Ending::Complete);
    assert_eq!(result.cell.window, Some((0, 8 * SERVICE)));
    let rows = measured(&result);
    // The first request finds the slot free. Each later request of the two clients waits for a full service.
    let latencies: Vec<i64> = rows
        .iter()
        .map(|r| r.done_ns.unwrap() - r.sent_ns.unwrap())
        .collect();
    assert_eq!(
        latencies,
        [[SERVICE].as_slice(), &[2 * SERVICE; 7]].concat()
    );
    assert!(
        rows.iter()
            .all(|r| r.output_tokens == Some(5) && r.chunks == Some(5))
    );
}

#[test]
fn a_simulation_writes_the_declared_tables() {
    let faulty = simulated(&json!({"slots": 2}));
    for change in [json!({}), json!({"warmup": 2, "simulate": faulty})] {
        let (spec, _) = spec_of(&change, &origin(&[]));
        for (name, table) in crate::tables::tables(&spec, &run(&change)).unwrap() {
            let declared = contract::declared(name).unwrap();
            assert_eq!(declared.differences(&table), [""; 0]);
        }
    }
}

#[test]
fn a_cell_that_needs_more_memory_or_more_time_than_there_is_is_refused_before_its_rows_are_made() {
    let refusal = |change: &Json| {
        let noise = origin(&[("rep", Scalar::Int(1))]);
        let (spec, simulation) = spec_of(change, &noise);
        let SimulationChoice::Inline(server) = &simulation.server else {
            panic!("a name")
        };
        let result = simulate(&spec, &simulation, server, None, &noise, &Control::quiet());
        result
            .err()
            .map(|failure| failure.reason)
            .unwrap_or_default()
    };
    let many = json!({
        "workload": {"prompts": {"words": {"length": 10}}, "output": {"tokens": 4_000_000_000_u32}},
        "requests": 200,
    });
    let reason = refusal(&many);
    assert!(
        reason.starts_with(
            "a simulated cell of 200 requests and 800000000000 tokens: it takes about"
        ),
        "{reason}"
    );
    let rare = json!({"arrival": {"constant": {"rate": 1e-10}}});
    assert_eq!(
        refusal(&rare),
        "the last request would be sent after more than 100 years"
    );
}

#[test]
fn as_many_slots_as_clients_serve_all_at_once() {
    // Without prefill time and a cost for batching, three clients are as fast as one.
    let free = simulated(&json!({"slots": 3, "prefill": {}}));
    let result = run(&json!({
        "arrival": {"closed-loop": {"clients": 3}}, "requests": 12, "simulate": free,
    }));
    assert_eq!(result.cell.window, Some((0, 4 * 40 * MS)));
    assert!(
        measured(&result)
            .iter()
            .all(|r| r.done_ns.unwrap() - r.sent_ns.unwrap() == 40 * MS)
    );
}

#[test]
fn prefills_go_one_by_one_and_a_step_costs_more_for_each_sequence() {
    let batching =
        simulated(&json!({"slots": 2, "decode": {"fixed": "10 ms", "per-sequence": "3 ms"}}));
    let result = run(&json!({"requests": 2, "simulate": batching}));
    let rows = measured(&result);
    let first: Vec<i64> = rows.iter().map(|r| r.first_token_ns.unwrap()).collect();
    assert_eq!(first, [20 * MS, 40 * MS]);
    // Both decode together, in four steps of 13 ms each.
    assert!(rows.iter().all(|r| r.done_ns == Some((40 + 4 * 13) * MS)));
}

#[test]
fn evenly_spaced_arrivals_above_capacity_queue_linearly() {
    // A request arrives every 40 ms and takes 60 ms, so the wait grows by 20 ms per request.
    let result = run(&json!({"arrival": {"constant": {"rate": 25.0}}, "requests": 20}));
    for (i, row) in measured(&result).iter().enumerate() {
        assert_eq!(row.sent_ns, Some(i as i64 * 40 * MS));
        assert_eq!(
            row.done_ns.unwrap() - row.sent_ns.unwrap(),
            SERVICE + i as i64 * 20 * MS
        );
        assert_eq!(row.client_id, None);
    }
}

#[test]
fn the_mean_wait_of_poisson_arrivals_is_that_of_pollaczek_and_khinchine() {
    // M/D/1 at load 0.6: ρ · s / (2 · (1 − ρ)).
    let result = run(&json!({"arrival": {"poisson": {"rate": 10.0}}, "requests": 40_000}));
    let rows = measured(&result);
    let waits: f64 = rows
        .iter()
        .map(|r| (r.done_ns.unwrap() - r.sent_ns.unwrap() - SERVICE) as f64)
        .sum();
    let mean_ms = waits / rows.len() as f64 / MS as f64;
    let expected = 0.6 * 60.0 / (2.0 * 0.4);
    assert!(
        (mean_ms / expected - 1.0).abs() < 0.05,
        "{mean_ms} ms, expected {expected}"
    );
}

#[test]
fn clients_think_and_warm_up_comes_before() {
    let result = run(&json!({
        "arrival": {"closed-loop": {"clients": 1, "think-time": "7 ms"}}, "requests": 3, "warmup": 2,
    }));
    assert_eq!(result.cell.measured_from_ns, Some(2 * SERVICE));
    let sent: Vec<i64> = measured(&result)
        .iter()
        .map(|r| r.sent_ns.unwrap())
        .collect();
    let from = 2 * SERVICE;
    assert_eq!(
        sent,
        [from, from + SERVICE + 7 * MS, from + 2 * (SERVICE + 7 * MS)]
    );
}

#[test]
fn the_same_settings_seed_and_repetition_give_the_same_rows() {
    let noisy = json!({"simulate": {"server": server(&json!({"noise": {"step": 0.1, "cell": 0.1}})), "name": "a"}});
    let rows = |change: &Json, rep| run_rep(change, rep).requests;
    assert_eq!(rows(&noisy, 1), rows(&noisy, 1));
    assert_ne!(rows(&noisy, 1), rows(&noisy, 2));
    let mut other = noisy.clone();
    other["simulate"]["name"] = json!("b");
    assert_ne!(rows(&noisy, 1), rows(&other, 1));
    // The prompts stay the same, because they do not depend on the server.
    let digests = |rows: Vec<Request>| {
        rows.into_iter()
            .map(|r| r.prompt_digest)
            .collect::<Vec<_>>()
    };
    assert_eq!(digests(rows(&noisy, 1)), digests(rows(&other, 1)));
}

#[test]
fn noise_has_mean_one_and_the_declared_spread() {
    let noisy = simulated(&json!({"noise": {"step": 0.2}}));
    let change = json!({"simulate": noisy, "requests": 4000, "arrival": "sequential"});
    let result = run(&change);
    let steps: Vec<f64> = result
        .chunks
        .windows(2)
        .filter(|c| c[0].request_id == c[1].request_id)
        .map(|c| (c[1].at_ns - c[0].at_ns) as f64 / 1e7)
        .collect();
    let n = steps.len() as f64;
    let mean = steps.iter().sum::<f64>() / n;
    let deviation = (steps.iter().map(|s| (s.ln() + 0.02).powi(2)).sum::<f64>() / n).sqrt();
    assert!((mean - 1.0).abs() < 0.01, "{mean}");
    assert!((deviation - 0.2).abs() < 0.01, "{deviation}");
}

#[test]
fn a_fault_strikes_exactly_its_share() {
    let faults = json!({"http-errors": {"share": 0.1}, "zero-tokens": {"share": 0.1}, "missing-rows": {"share": 0.05}});
    let result = run(&json!({
        "requests": 40, "simulate": {"server": server(&json!({})), "faults": faults},
    }));
    let rows = measured(&result);
    assert_eq!(rows.len(), 38);
    let result = run(&json!({
        "requests": 40,
        "simulate": {"server": server(&json!({})), "faults": {"http-errors": {"share": 0.1}, "zero-tokens": {"share": 0.1}}},
    }));
    let rows = measured(&result);
    let refused: Vec<_> = rows
        .iter()
        .filter(|r| r.status == RequestStatus::HttpError)
        .collect();
    assert_eq!(refused.len(), 4);
    assert!(
        refused
            .iter()
            .all(|r| r.http_status == Some(400) && r.output_tokens.is_none())
    );
    let empty: Vec<_> = rows.iter().filter(|r| r.output_tokens == Some(0)).collect();
    assert_eq!(empty.len(), 4);
    assert!(
        empty
            .iter()
            .all(|r| r.status == RequestStatus::Ok && r.first_token_ns.is_none())
    );
}

#[test]
fn a_server_that_goes_silent_leaves_a_hung_cell_with_rows() {
    let result = run(&json!({
        "heartbeat": "5 s",
        "simulate": {"server": server(&json!({})), "faults": {"hang": {"after": 3}}},
    }));
    assert_eq!(result.ending, Ending::Hung);
    let rows = measured(&result);
    let ok = rows
        .iter()
        .filter(|r| r.status == RequestStatus::Ok)
        .count();
    let hung: Vec<_> = rows
        .iter()
        .filter(|r| r.status == RequestStatus::Hung)
        .collect();
    assert_eq!((ok, hung.len()), (3, 2));
    // The last sign of life is the third answer.
    assert!(
        hung.iter()
            .all(|r| r.done_ns == Some(3 * SERVICE + 5000 * MS))
    );
}

#[test]
fn requests_that_pass_a_time_limit_are_given_up() {
    let result = run(&json!({
        "timeouts": {"first-token": "50 ms"}, "arrival": "burst", "requests": 3,
    }));
    let rows = measured(&result);
    assert_eq!(rows[0].status, RequestStatus::Ok);
    for row in &rows[1..] {
        assert_eq!(
            (row.status, row.done_ns),
            (RequestStatus::Timeout, Some(50 * MS))
        );
        assert_eq!(row.error.as_deref(), Some("first-token timeout"));
    }
    let result =
        run(&json!({"timeouts": {"total": "45 ms"}, "arrival": "sequential", "requests": 1}));
    let row = measured(&result)[0];
    assert_eq!(
        (row.status, row.done_ns, row.output_tokens),
        (RequestStatus::Timeout, Some(45 * MS), Some(3))
    );
}

#[test]
fn a_prompt_beyond_the_context_is_refused() {
    let small = simulated(&json!({"context": 14}));
    let result = run(&json!({"simulate": small, "requests": 2}));
    let row = measured(&result)[0];
    assert_eq!(
        row.error.as_deref(),
        Some("HTTP 400: 15 tokens exceed the context of 14")
    );
}

#[test]
fn a_cache_holds_whatever_prompts_have_in_common_in_complete_blocks() {
    let words = |from: u32, to: u32| {
        let all: Vec<String> = (from..to).map(|n| format!("w{n:04}")).collect();
        all.join(" ")
    };
    // The third prompt has 70 words in common with the first, the second only 40.
    let texts = [
        words(0, 80),
        [words(0, 40), words(500, 540)].join(" "),
        [words(0, 70), words(600, 610)].join(" "),
        words(1000, 1080),
        [words(0, 10), words(2000, 2070)].join(" "),
        words(0, 80),
    ];
    let with = |cache: bool| {
        let result = run(&json!({
            "workload": {"prompts": {"pack": {"texts": texts}}, "output": {"tokens": 5}},
            "arrival": "sequential", "requests": 6,
            "simulate": simulated(&json!({"prefix-cache": cache})),
        }));
        let rows = measured(&result);
        rows.iter()
            .map(|r| {
                let ttft = r.first_token_ns.unwrap() - r.sent_ns.unwrap();
                (r.cached_prompt_tokens.unwrap(), ttft / MS)
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(with(false), [(0, 90); 6]);
    // In tokens of 5 or 6 bytes each. The same prompt again is cached except for its last token.
    let cached: Vec<i64> = with(true).iter().map(|(tokens, _)| *tokens).collect();
    assert_eq!(cached, [0, 32, 64, 0, 0, 79]);
    for (tokens, ttft) in with(true) {
        assert_eq!(ttft, 90 - tokens);
    }
}

#[test]
fn a_cached_prefix_takes_no_prefill() {
    let shared = json!({"prompts": {"shared-prefix": {"prefix": 90, "suffix": 10}}, "output": {"tokens": 5}});
    let with = |cache: bool| {
        let result = run(&json!({
            "workload": shared, "arrival": "sequential", "requests": 3,
            "simulate": simulated(&json!({"prefix-cache": cache})),
        }));
        let rows = measured(&result);
        rows.iter()
            .map(|r| {
                (
                    r.cached_prompt_tokens.unwrap(),
                    r.first_token_ns.unwrap() - r.sent_ns.unwrap(),
                )
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(with(false), [(0, 110 * MS); 3]);
    let cached = with(true);
    assert_eq!(cached[0], (0, 110 * MS));
    for (tokens, ttft) in &cached[1..] {
        assert!((85..95).contains(tokens), "{tokens}");
        assert_eq!(*ttft, (110 - tokens) * MS);
    }
}

#[test]
fn a_drifting_host_slows_with_the_simulated_clock() {
    let at = |start: &str| {
        let clock = json!({"start": start, "drift": 0.1});
        run(&json!({"simulate": {"server": server(&json!({})), "clock": clock}, "requests": 4}))
    };
    let (early, late) = (at("0 s"), at("2 h"));
    let window = |r: &LoadResult| r.cell.window.unwrap().1 as f64;
    assert!((window(&early) / (4 * SERVICE) as f64 - 1.0).abs() < 1e-4);
    assert!((window(&late) / window(&early) - 1.2).abs() < 1e-4);
    assert_eq!(
        late.cell.started_unix_ns - early.cell.started_unix_ns,
        2 * 3600 * 1000 * MS
    );
}

#[test]
fn numbers_that_mean_nothing_are_refused() {
    let mut simulation: Simulation = serde_json::from_value(simulated(&json!({}))).unwrap();
    let SimulationChoice::Inline(mut server) = simulation.server.clone() else {
        panic!("a name")
    };
    (server.tokens_per_word, server.decode.fixed) = (f64::NAN, crate::span::TimeSpan::default());
    simulation.slowdown = 0.0;
    simulation.faults.missing_rows = Some(Share { share: 1.5 });
    let messages: Vec<String> = problems(&simulation, &server)
        .into_iter()
        .map(|(keys, _)| keys.join("."))
        .collect();
    let expected = [
        "slowdown",
        "server.tokens-per-word",
        "server.decode.fixed",
        "faults.missing-rows.share",
    ];
    assert_eq!(messages, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_must_hold_of_rows_holds(
        slots in 1u32..6, clients in 1u32..9, requests in 1u64..40, tokens in 1u32..9,
        per_chunk in 1u32..4, noise in 0.0f64..0.5, rep in 0i64..1000,
    ) {
        let busy = json!({
            "slots": slots, "tokens-per-chunk": per_chunk, "noise": {"step": noise, "cell": noise},
            "decode": {"fixed": "10 ms", "per-sequence": "1 ms"},
        });
        let result = run_rep(&json!({
            "workload": {"prompts": {"words": {"length": {"from": 1, "to": 30}}}, "output": {"tokens": tokens}},
            "arrival": {"closed-loop": {"clients": clients}}, "requests": requests, "simulate": simulated(&busy),
        }), rep);
        let rows = measured(&result);
        prop_assert_eq!(rows.len() as u64, requests);
        for row in &rows {
            let times = [row.sent_ns, row.headers_ns, row.first_token_ns, row.last_token_ns, row.done_ns];
            let times: Vec<i64> = times.into_iter().flatten().collect();
            prop_assert!(times.len() == 5 && times.windows(2).all(|w| w[0] <= w[1]));
            let own: Vec<_> = result.chunks.iter().filter(|c| c.request_id == row.request_id).collect();
            prop_assert_eq!(own.iter().filter_map(|c| c.tokens).sum::<i64>(), i64::from(tokens));
            prop_assert!(row.in_flight_at_send.unwrap() < i64::from(clients));
            // A client has one request at a time, counted from the stamps and not from the column.
            let sent = row.sent_ns.unwrap();
            let others = rows.iter().filter(|o| o.sent_ns.unwrap() <= sent && o.done_ns > Some(sent));
            prop_assert!(others.count() <= clients as usize);
        }
        // First come, first served: first tokens arrive in the order of sending.
        let mut by_sending = rows.clone();
        by_sending.sort_by_key(|r| (r.sent_ns, r.request_id));
        let first: Vec<i64> = by_sending.iter().filter_map(|r| r.first_token_ns).collect();
        prop_assert!(first.windows(2).all(|w| w[0] <= w[1]));
    }
}

/// Returns the milliseconds of a step in a cell without other noise, which shows how slow its launch is.
fn step_ms(server_change: &Json, clients: u32, at: &[(&str, Scalar)]) -> f64 {
    let change = json!({
        "simulate": {"server": server(server_change)},
        "arrival": {"closed-loop": {"clients": clients}},
    });
    let result = run_at(&change, &origin(at));
    let gap = result.chunks[1].at_ns - result.chunks[0].at_ns;
    gap as f64 / MS as f64
}

fn block(number: i64) -> (&'static str, Scalar) {
    ("block", Scalar::Int(number))
}

fn arm() -> (&'static str, Scalar) {
    (CONTROL, Scalar::Text("serial-again".to_owned()))
}

#[test]
fn all_cells_of_a_launch_share_its_noise_and_launches_differ() {
    let noisy = json!({"noise": {"launch": 0.1}});
    let first = step_ms(&noisy, 1, &[block(1)]);
    for (clients, rep) in [(2, 1), (4, 1), (1, 2)] {
        let other = step_ms(&noisy, clients, &[("rep", Scalar::Int(rep)), block(1)]);
        assert!((first - other).abs() < 1e-5, "{first} {other}");
    }
    let faster = json!({"noise": {"launch": 0.1}, "slots": 2});
    let others = [
        step_ms(&noisy, 1, &[block(2)]),
        step_ms(&noisy, 1, &[block(1), arm()]),
        step_ms(&faster, 1, &[block(1)]),
    ];
    for other in others {
        assert!((first - other).abs() > 1e-3, "{first} {other}");
    }
}

#[test]
fn all_launches_of_a_block_share_its_noise_and_blocks_differ() {
    let noisy = json!({"noise": {"block": 0.1}});
    let wider = json!({"noise": {"block": 0.1}, "slots": 2});
    let first = step_ms(&noisy, 1, &[block(1)]);
    for same in [
        step_ms(&wider, 1, &[block(1)]),
        step_ms(&noisy, 1, &[block(1), arm()]),
    ] {
        assert!((first - same).abs() < 1e-5, "{first} {same}");
    }
    assert!((first - step_ms(&noisy, 1, &[block(2)])).abs() > 1e-3);
}

#[test]
fn the_noise_of_launches_has_the_spread_declared() {
    let noisy = json!({"noise": {"launch": 0.05}});
    let logs: Vec<f64> = (1..=400)
        .map(|n| step_ms(&noisy, 1, &[block(n)]).ln())
        .collect();
    let mean = logs.iter().sum::<f64>() / 400.0;
    let variance = logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / 399.0;
    assert!(
        (variance.sqrt() - 0.05).abs() < 0.006,
        "{}",
        variance.sqrt()
    );
}

#[test]
fn the_arm_of_a_control_sends_the_same_prompts_with_noise_of_its_own() {
    let noisy = json!({"simulate": {"server": server(&json!({"noise": {"step": 0.1}}))}});
    let (first, again) = (
        run_at(&noisy, &origin(&[block(1)])),
        run_at(&noisy, &origin(&[block(1), arm()])),
    );
    let digests = |r: &LoadResult| -> Vec<Option<String>> {
        r.requests.iter().map(|r| r.prompt_digest.clone()).collect()
    };
    assert_eq!(digests(&first), digests(&again));
    assert_ne!(first.chunks[3].at_ns, again.chunks[3].at_ns);
}

#[test]
fn vectors_and_scores_come_whole_at_the_end_of_the_prefill() {
    let words = json!({"prompts": {"words": {"length": 10}}});
    let ranked =
        json!({"prompts": {"words": {"length": 4}}, "documents": {"count": 2, "length": 3}});
    // A reranker reads the query with each document: two passes of the prefill on one slot.
    for (api, workload, tokens, took) in [
        ("openai-embeddings", words, 10, 20),
        ("rerank", ranked, 2 * (4 + 3), 34),
    ] {
        let result = run(&json!({"api": api, "workload": workload}));
        assert!(!result.cell.streamed && result.chunks.is_empty(), "{api}");
        for row in measured(&result) {
            assert_eq!(row.status, RequestStatus::Ok, "{api}");
            assert_eq!((row.first_token_ns, row.output_tokens), (None, Some(0)));
            assert_eq!(row.last_token_ns, row.done_ns);
            assert_eq!(row.prompt_tokens, Some(tokens), "{api}");
        }
        // One slot: eight answers, one after the other.
        let (from, to) = result.cell.window.unwrap();
        assert_eq!(to - from, 8 * took * MS, "{api}");
    }
}

#[test]
fn a_whole_answer_shows_nothing_before_its_end() {
    let streamed = run(&json!({}));
    let whole = run(&json!({"delivery": "whole"}));
    assert!(streamed.cell.streamed && !whole.cell.streamed);
    assert!(whole.chunks.is_empty());
    for (row, other) in measured(&whole).iter().zip(measured(&streamed)) {
        assert_eq!(row.status, RequestStatus::Ok);
        assert_eq!((row.first_token_ns, row.chunks), (None, None));
        assert_eq!(
            (row.last_token_ns, row.headers_ns),
            (row.done_ns, row.done_ns)
        );
        // The server takes as long, and counts the same.
        assert_eq!(
            (row.done_ns, row.output_tokens),
            (other.done_ns, other.output_tokens)
        );
    }
    let abandoned = run(&json!({"delivery": "whole", "cancel": {"after": "15 ms"}}));
    for row in measured(&abandoned) {
        assert_eq!(row.status, RequestStatus::Cancelled);
        assert_eq!((row.output_tokens, row.last_token_ns), (None, None));
    }
}

#[test]
fn cells_that_differ_in_how_they_are_sent_have_separate_noise() {
    let noisy = json!({"noise": {"step": 0.1, "cell": 0.1}});
    let took = |change: &Json| {
        let mut settings =
            json!({"simulate": simulated(&noisy), "arrival": {"constant": {"rate": 1}}});
        for (key, value) in change.as_object().unwrap() {
            settings[key] = value.clone();
        }
        let result = run(&settings);
        let first = measured(&result)[0];
        first.done_ns.unwrap() - first.sent_ns.unwrap()
    };
    let changes = [
        json!({}),
        json!({"api": "openai-chat"}),
        json!({"api": "openai-completions"}),
        json!({"delivery": "whole"}),
        json!({"max-in-flight": 4}),
        json!({"max-in-flight": 5}),
        json!({"cancel": {"after": "1 h"}}),
    ];
    let times: std::collections::BTreeSet<i64> = changes.iter().map(took).collect();
    assert_eq!(times.len(), changes.len(), "{times:?}");
}

#[test]
fn the_texts_of_a_batch_are_counted_and_prefilled_as_many_at_a_time_as_there_are_slots() {
    let batch = |server: Json| {
        let workload = json!({"prompts": {"words": {"length": 10}}, "batch-size": 5});
        let settings = json!({
            "api": "openai-embeddings", "workload": workload, "arrival": "sequential",
            "simulate": simulated(&server),
        });
        run(&settings)
    };
    // Each pass of the prefill takes 10 ms, and each token 1 ms. A context of 12 tokens has room for the longest text.
    for (slots, passes) in [(1, 5), (2, 3), (8, 1)] {
        for row in measured(&batch(json!({"slots": slots, "context": 12}))) {
            assert_eq!(row.status, RequestStatus::Ok);
            assert_eq!(row.prompt_tokens, Some(50));
            let took = row.done_ns.unwrap() - row.sent_ns.unwrap();
            assert_eq!(took, (10 * passes + 50) * MS, "{slots} slots");
        }
    }
    // A server counts each text by itself: 11.4 tokens are 11, five times.
    let row = batch(json!({"tokens-per-word": 1.14}));
    assert_eq!(measured(&row)[0].prompt_tokens, Some(5 * 11));
}

#[test]
fn each_text_of_a_batch_is_looked_up_in_the_prefix_cache() {
    let prompts = json!({"shared-prefix": {"prefix": 16, "suffix": 4}});
    let result = run(&json!({
        "api": "openai-embeddings", "arrival": "sequential",
        "workload": {"prompts": prompts, "batch-size": 2},
        "simulate": simulated(&json!({"prefix-cache": true})),
    }));
    let cached = measured(&result)
        .iter()
        .map(|row| row.cached_prompt_tokens.unwrap())
        .collect::<Vec<_>>();
    assert_eq!(cached[0], 0, "nothing was sent before");
    // The prefix of both texts, and not all of either.
    assert!(
        cached[1..].iter().all(|c| (30..40).contains(c)),
        "{cached:?}"
    );
}

#[test]
fn the_system_message_is_counted_and_cached_with_every_prompt() {
    let system = vec!["word"; 32].join(" ");
    let workload = json!({
        "system": system, "prompts": {"words": {"length": 10}}, "output": {"tokens": 1},
    });
    let result = run(&json!({
        "api": "openai-chat", "workload": workload, "arrival": "sequential",
        "simulate": simulated(&json!({"prefix-cache": true})),
    }));
    for (at, row) in measured(&result).iter().enumerate() {
        assert_eq!(row.prompt_tokens, Some(42));
        // The cache estimates tokens by the bytes in common, in blocks of 16.
        let cached = row.cached_prompt_tokens.unwrap();
        assert_eq!(cached >= 16, at > 0, "{at}: {cached}");
    }
}

#[test]
fn an_image_costs_the_tokens_that_the_server_declares() {
    let image = json!({"count": 2, "width": 8, "height": 8});
    let workload =
        json!({"prompts": {"words": {"length": 10}}, "output": {"tokens": 1}, "images": image});
    let result = run(&json!({
        "api": "openai-chat", "workload": workload, "arrival": "sequential",
        "simulate": simulated(&json!({"tokens-per-image": 5})),
    }));
    for row in measured(&result) {
        assert_eq!(row.prompt_tokens, Some(20));
        let prefill = row.first_token_ns.unwrap() - row.sent_ns.unwrap();
        assert_eq!(prefill, (10 + 20) * MS);
    }
}

#[test]
fn open_arrivals_end_with_the_duration() {
    let open = json!({"requests": 40, "duration": "2 s", "arrival": {"constant": {"rate": 10}}});
    let result = run(&open);
    let rows = measured(&result);
    assert_eq!(rows.len(), 20);
    assert_eq!(result.cell.expected_requests, 20);
    let last = rows.iter().filter_map(|r| r.sent_ns).max();
    assert_eq!(last, Some(1900 * MS));
    // A rate that falls to 0 ends the load there: 10 + 5 requests are due in the mean.
    let levels = json!([{"rate": 10, "seconds": 1}, {"rate": 10, "to": 0, "seconds": 1}]);
    let fading = json!({
        "requests": 40, "duration": "2 s", "arrival": {"steps": {"levels": levels, "process": "constant"}},
    });
    assert_eq!(measured(&run(&fading)).len(), 15);
}

#[test]
fn a_dry_run_has_rows_of_the_rarest_part_of_a_mixture() {
    let requests = |prompts: Json| {
        let workload = json!({"prompts": prompts, "output": {"tokens": 5}});
        let choice = serde_json::from_value(workload).unwrap();
        stage::rehearsed_requests(Some(&choice))
    };
    let words = json!({"words": {"length": 10}});
    assert_eq!(requests(words.clone()), 6);
    let part = |name: &str, weight: u32| json!({"name": name, "weight": weight, "prompts": words});
    let parts = json!([part("base", 6), part("legal", 3), part("support", 1)]);
    assert_eq!(requests(json!({"mixture": parts})), 120);
}
