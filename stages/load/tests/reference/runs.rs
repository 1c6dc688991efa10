//! Runs against the reference server without faults.

use crate::common::{Run, closed, prompts, statuses};
use contract::{Api, Phase, RequestStatus, TokenSource, Word as _};
use load::reference::Behaviour;
use load::{Arrival, Delivery, Ending, Rate, tables};
use std::time::Duration;

#[test]
fn every_request_has_one_row_and_every_token_one_chunk() {
    let run = Run {
        warmup: 3,
        ..Run::default()
    };
    let (result, server) = run.send();
    assert_eq!(result.ending, Ending::Complete);
    assert_eq!(statuses(&result), [RequestStatus::Ok; 9]);
    let phases: Vec<Phase> = result.requests.iter().map(|r| r.phase).collect();
    assert_eq!(phases[..3], [Phase::Warmup; 3]);
    assert_eq!(phases[3..], [Phase::Measured; 6]);
    assert_eq!(result.chunks.len(), 9 * 5);
    assert_eq!(server.truth(9).len(), 9);
    for row in &result.requests {
        assert_eq!(
            (row.output_tokens, row.tokens_source),
            (Some(5), Some(TokenSource::Usage))
        );
        assert_eq!(
            (row.prompt_tokens, row.first_chunk_tokens),
            (Some(7), Some(1))
        );
        assert_eq!(row.finish_reason.as_deref(), Some("length"));
        let stamps = [
            row.scheduled_ns,
            row.sent_ns,
            row.headers_ns,
            row.first_token_ns,
            row.last_token_ns,
            row.done_ns,
        ];
        assert!(
            stamps.iter().all(Option::is_some) && stamps.is_sorted(),
            "{stamps:?}"
        );
    }
}

#[test]
fn measured_requests_begin_when_the_last_warm_up_request_is_done() {
    let result = Run {
        warmup: 2,
        ..Run::default()
    }
    .result();
    let warm = result
        .requests
        .iter()
        .filter(|r| r.phase == Phase::Warmup)
        .filter_map(|r| r.done_ns)
        .max();
    let measured = result
        .requests
        .iter()
        .filter(|r| r.phase == Phase::Measured);
    assert!(measured.clone().all(|r| r.scheduled_ns >= warm));
    assert_eq!(
        measured.filter_map(|r| r.sent_ns).min(),
        result.cell.window.map(|w| w.0)
    );
}

#[test]
fn what_does_not_fit_into_the_queue_is_rendered_while_the_load_runs() {
    for arrival in [closed(4), Arrival::Constant(Rate { rate: 2000.0 })] {
        // About 10 MiB of requests, of which 8 MiB may wait.
        let run = Run {
            words: 10_000,
            requests: 170,
            warmup: 3,
            arrival,
            ..Run::default()
        };
        let (result, server) = run.send();
        assert_eq!(result.ending, Ending::Complete);
        assert_eq!(statuses(&result), [RequestStatus::Ok; 173]);
        let sent: Vec<String> = server
            .truth(173)
            .into_iter()
            .map(|truth| String::from_utf8(truth.request).unwrap())
            .collect();
        let sizes: usize = sent.iter().map(String::len).sum();
        assert!(sizes > 9 * 1024 * 1024, "{sizes}");
        for prompt in prompts(&run.spec()) {
            assert_eq!(
                sent.iter()
                    .filter(|request| request.contains(&prompt.text))
                    .count(),
                1
            );
        }
    }
}

#[test]
fn a_closed_loop_never_has_more_in_flight_than_clients() {
    let run = Run {
        requests: 40,
        arrival: closed(4),
        ..Run::default()
    };
    let result = run.result();
    assert!(
        result
            .requests
            .iter()
            .all(|r| r.in_flight_at_send.unwrap() < 4)
    );
    assert!(result.requests.iter().all(|r| r.client_id.unwrap() < 4));
    assert_eq!(result.cell.connections, 4);
}

#[test]
fn sequential_requests_follow_one_another() {
    let result = Run {
        arrival: Arrival::Sequential,
        ..Run::default()
    }
    .result();
    for pair in result.requests.windows(2) {
        assert!(pair[1].sent_ns >= pair[0].done_ns);
    }
}

#[test]
fn open_arrivals_are_scheduled_as_drawn_and_never_sent_early() {
    let run = Run {
        arrival: Arrival::Constant(Rate { rate: 1000.0 }),
        requests: 50,
        ..Run::default()
    };
    let result = run.result();
    let from = result.cell.measured_from_ns.unwrap();
    for (i, row) in result.requests.iter().enumerate() {
        assert_eq!(row.scheduled_ns.unwrap() - from, 1_000_000 * i as i64);
        assert!(row.send_lag_ns.unwrap() >= 0);
    }
}

#[test]
fn a_burst_is_in_flight_all_at_once() {
    let behaviour = Behaviour {
        ttft: Duration::from_millis(300),
        ..Behaviour::default()
    };
    let result = Run {
        arrival: Arrival::Burst,
        requests: 20,
        behaviour,
        ..Run::default()
    }
    .result();
    assert_eq!(
        result
            .requests
            .iter()
            .filter_map(|r| r.in_flight_at_send)
            .max(),
        Some(19)
    );
}

#[test]
fn no_stamp_is_earlier_than_what_the_server_sent() {
    let behaviour = Behaviour {
        ttft: Duration::from_millis(20),
        gap: Duration::from_millis(5),
        ..Behaviour::default()
    };
    let (result, server) = Run {
        behaviour,
        arrival: Arrival::Sequential,
        ..Run::default()
    }
    .send();
    for (row, truth) in result.requests.iter().zip(server.truth(6)) {
        // Only durations, because the two clocks start at different times. The client receives a token after it was
        // sent, and sent its request before it arrived.
        let ttft = row.first_token_ns.unwrap() - row.sent_ns.unwrap();
        assert!(ttft >= (truth.sent_ns[0] - truth.arrived_ns) as i64);
        assert_eq!(truth.sent_ns.len(), 5);
    }
}

#[test]
fn every_api_yields_the_same_rows_streamed() {
    for api in Api::ALL.iter().copied().filter(|api| api.generates()) {
        let result = Run {
            api,
            ..Run::default()
        }
        .result();
        assert_eq!(statuses(&result), [RequestStatus::Ok; 6], "{}", api.word());
        for row in &result.requests {
            let counted = (
                row.chunks,
                row.output_tokens,
                row.tokens_source,
                row.first_chunk_tokens,
            );
            assert_eq!(
                counted,
                (Some(5), Some(5), Some(TokenSource::Usage), Some(1)),
                "{}",
                api.word()
            );
            assert_eq!(row.output_characters, Some(19), "{}", api.word());
            assert_eq!(row.output_digest, result.requests[0].output_digest);
        }
    }
}

#[test]
fn every_api_answers_whole_too() {
    for api in Api::ALL.iter().copied().filter(|api| api.generates()) {
        let result = Run {
            api,
            delivery: Delivery::Whole,
            ..Run::default()
        }
        .result();
        assert_eq!(statuses(&result), [RequestStatus::Ok; 6], "{}", api.word());
        for row in &result.requests {
            assert_eq!(
                (row.first_token_ns, row.chunks),
                (None, None),
                "{}",
                api.word()
            );
            assert!(row.last_token_ns.is_some());
        }
        assert!(result.chunks.is_empty());
    }
}

#[test]
fn tokens_packed_into_chunks_are_counted_by_usage() {
    let behaviour = Behaviour {
        tokens_per_chunk: 2,
        ..Behaviour::default()
    };
    let result = Run {
        behaviour,
        ..Run::default()
    }
    .result();
    for row in &result.requests {
        assert_eq!(
            (row.chunks, row.output_tokens, row.first_chunk_tokens),
            (Some(3), Some(5), None)
        );
    }
    assert!(result.chunks.iter().all(|c| c.tokens.is_none()));
}

#[test]
fn a_run_states_how_late_its_stamps_may_be() {
    let run = Run {
        arrival: Arrival::Constant(Rate { rate: 200.0 }),
        requests: 40,
        ..Run::default()
    };
    let (result, _server) = run.send();
    let health = result.cell.health.clone().unwrap();
    // 40 arrivals over 195 ms: a probe every 5 ms has nearly as many ticks.
    assert!(health.probes >= 38, "{health:?}");
    let [p50, p99, max] = health.wake_lag_ms.unwrap();
    assert!(p50 <= p99 && p99 <= max);
    assert!(health.stamp_error_bound_ms.unwrap() >= p99);
    assert!(health.verdict.is_some());
    assert!(health.chunks_per_read.unwrap() >= 1.0);
    let cell = tables(&run.spec(), &result)
        .unwrap()
        .into_iter()
        .find(|(name, _)| *name == "cell")
        .unwrap()
        .1;
    assert_eq!(
        cell.float("stamp_error_bound").unwrap(),
        [health.stamp_error_bound_ms]
    );
    assert_eq!(
        cell.text("client_verdict").unwrap(),
        [health.verdict.map(|v| v.word())]
    );
    assert_eq!(cell.unit("wake_lag_p99").as_deref(), Some("ms"));
}
