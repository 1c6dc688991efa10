//! Every fault of a server, and the row that results.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use crate::common::{Run, closed, paced, statuses};
use contract::{Api, Request, RequestStatus, TokenSource, Word as _};
use load::reference::{Behaviour, Fault, Faults, ReferenceServer};
use load::{Delivery, Ending, LoadResult, TimeSpan, Timeouts, run_load};
use pipeline::stage::{CellStatus, Control};

/// Sends six requests that all meet a fault. All must become the same kind of row.
fn all_become(fault: Fault, status: RequestStatus) -> LoadResult {
    let result = Run::with(fault).result();
    assert_eq!(
        statuses(&result),
        [status; 6],
        "{:?}",
        result.requests[0].error
    );
    assert_eq!(result.ending, Ending::Complete);
    result
}

fn error(row: &Request) -> &str {
    row.error.as_deref().unwrap_or_default()
}

#[test]
fn a_refused_connection_is_refused_and_many_mean_the_server_is_gone() {
    let url = ReferenceServer::start(Behaviour::default()).unwrap().url();
    let run = Run {
        requests: 100,
        ..Run::default()
    };
    let result = run_load(&run.spec(), &run.target(url), &Control::quiet()).unwrap();
    assert_eq!(result.ending, Ending::Gone(0));
    assert!(result.requests.len() < 20);
    assert!(
        statuses(&result)
            .iter()
            .all(|s| *s == RequestStatus::Refused)
    );
    assert!(
        result
            .requests
            .iter()
            .all(|r| r.sent_ns.is_none() && r.send_lag_ns.is_none())
    );
}

#[test]
fn a_server_that_takes_no_connection_in_time_is_a_connect_timeout() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let _inside = runtime.enter();
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    // Nothing accepts connections: once the queue is full, the kernel no longer answers.
    let waiting: Vec<_> = std::iter::from_fn(|| {
        std::net::TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok()
    })
    .take(16)
    .collect();
    assert!(waiting.len() < 16);
    let run = Run {
        timeouts: Timeouts {
            connect: TimeSpan::milliseconds(50),
            ..Timeouts::default()
        },
        requests: 2,
        ..Run::default()
    };
    let result = run_load(
        &run.spec(),
        &run.target(format!("http://{address}")),
        &Control::quiet(),
    )
    .unwrap();
    assert_eq!(statuses(&result), [RequestStatus::Timeout; 2]);
    for row in &result.requests {
        assert_eq!(
            (error(row), row.sent_ns, row.send_lag_ns),
            ("connect timeout", None, None)
        );
    }
}

#[test]
fn overload_is_an_http_error_with_its_code_and_retry_after() {
    for code in [429, 503] {
        let result = all_become(Fault::Status(code), RequestStatus::HttpError);
        let row = &result.requests[0];
        assert_eq!(
            (row.http_status, row.retry_after_s),
            (Some(i64::from(code)), Some(7))
        );
        assert_eq!(error(row), format!("HTTP {code}: not now"));
    }
}

#[test]
fn a_client_error_has_no_tokens_and_keeps_its_message() {
    let result = all_become(Fault::Status(400), RequestStatus::HttpError);
    assert!(
        result
            .requests
            .iter()
            .all(|r| r.output_tokens.is_none() && r.first_token_ns.is_none())
    );
    assert!(result.chunks.is_empty());
}

#[test]
fn a_reset_in_the_stream_keeps_the_chunks_that_came() {
    let result = Run::with(Fault::ResetAfter(3)).result();
    for row in &result.requests {
        // A reset may overtake bytes that are still in the receive queue. It never changes the status.
        assert_eq!(row.status, RequestStatus::ConnectionReset);
        assert!(row.chunks.unwrap_or(0) <= 3);
        assert_eq!(row.finish_reason, None);
    }
}

#[test]
fn a_close_in_the_stream_is_a_truncated_stream() {
    let result = all_become(Fault::CloseAfter(3), RequestStatus::TruncatedStream);
    for row in &result.requests {
        assert_eq!((row.chunks, row.output_tokens), (Some(3), Some(3)));
        assert_eq!(row.tokens_source, Some(TokenSource::Chunks));
        assert!(row.first_token_ns.is_some());
    }
}

#[test]
fn a_fresh_connection_closed_before_any_byte_is_not_replayed() {
    let result = Run::with(Fault::CloseBeforeAnswer).result();
    assert_eq!(
        result.statuses(),
        [(RequestStatus::ConnectionReset, 6)].into()
    );
    // The two connections opened in advance may have been closed for being idle, so only their requests are replayed.
    let superseded: Vec<_> = result.requests.iter().filter(|r| r.superseded).collect();
    assert_eq!((superseded.len(), result.requests.len()), (2, 8));
    assert!(superseded.iter().all(|r| r.connect_ns.is_none()));
}

#[test]
fn a_dead_kept_alive_connection_is_replayed_once_and_recorded() {
    for fault in [Fault::CloseBeforeAnswer, Fault::ResetBeforeAnswer] {
        // Request 1 arrives on a connection that served before, and meets a close.
        let behaviour = Behaviour {
            faults: Faults(vec![(1..2, fault)]),
            ..Behaviour::default()
        };
        let result = Run {
            behaviour,
            arrival: closed(1),
            ..Run::default()
        }
        .result();
        let attempts: Vec<_> = result
            .requests
            .iter()
            .filter(|r| r.request_id == 1)
            .collect();
        assert_eq!((attempts.len(), result.requests.len()), (2, 7));
        assert_eq!(
            (attempts[0].status, attempts[0].superseded),
            (RequestStatus::ConnectionReset, true)
        );
        assert_eq!(
            (attempts[1].status, attempts[1].attempt),
            (RequestStatus::Ok, 2)
        );
        assert_eq!(attempts[0].scheduled_ns, attempts[1].scheduled_ns);
        assert!(attempts[1].connect_ns.is_some());
        assert_eq!(result.statuses(), [(RequestStatus::Ok, 6)].into());
    }
}

/// Starts a server that answers the first request of a connection. It works on the second for this long, and closes.
fn closing_after(work: Duration) -> String {
    const BODY: &str =
        "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                // A request is one write, and short.
                let mut request = [0; 16_384];
                let Ok(1..) = stream.read(&mut request) else {
                    return;
                };
                let length = BODY.len();
                let _gone = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {length}\r\n\r\n{BODY}"
                );
                if let Ok(1..) = stream.read(&mut request) {
                    std::thread::sleep(work);
                }
            });
        }
    });
    url
}

#[test]
fn a_close_is_that_of_an_idle_connection_only_right_after_sending() {
    let run = Run {
        requests: 2,
        arrival: closed(1),
        ..Run::default()
    };
    let sent_to = |url| run_load(&run.spec(), &run.target(url), &Control::quiet()).unwrap();
    let result = sent_to(closing_after(Duration::from_millis(400)));
    let (ok, reset) = (RequestStatus::Ok, RequestStatus::ConnectionReset);
    assert_eq!(statuses(&result), [ok, reset]);
    assert!(!result.requests[1].superseded);
    assert!(error(&result.requests[1]).contains("before any byte"));

    let result = sent_to(closing_after(Duration::from_millis(20)));
    assert_eq!(statuses(&result), [ok, reset, ok]);
    let again = &result.requests[2];
    assert!(result.requests[1].superseded && again.attempt == 2);
    // The time of the first attempt is not the client's own delay.
    let waited = again.sent_ns.unwrap() - again.scheduled_ns.unwrap();
    let lag = again.send_lag_ns.unwrap();
    assert!(lag >= 0 && waited - lag >= 20_000_000, "{waited} {lag}");
}

#[test]
fn a_server_that_closes_at_once_gets_fresh_connections() {
    let run = Run {
        requests: 30,
        arrival: closed(1),
        ..Run::with(Fault::CloseAfterAnswer)
    };
    let result = run.result();
    assert_eq!(result.statuses(), [(RequestStatus::Ok, 30)].into());
    // Only the first reuse may have failed.
    assert!(result.requests.iter().filter(|r| r.superseded).count() <= 1);
    assert_eq!(result.cell.connections, 30);
}

#[test]
fn a_stall_before_the_first_token_ends_with_its_limit() {
    for (fault, head) in [
        (Fault::StallBeforeHead, false),
        (Fault::StallBeforeFirstToken, true),
    ] {
        let timeouts = Timeouts {
            first_token: TimeSpan::milliseconds(50),
            ..Timeouts::default()
        };
        let result = Run {
            timeouts,
            requests: 2,
            ..Run::with(fault)
        }
        .result();
        assert_eq!(statuses(&result), [RequestStatus::Timeout; 2]);
        assert_eq!(error(&result.requests[0]), "first-token timeout");
        assert_eq!(result.requests[0].headers_ns.is_some(), head);
    }
}

#[test]
fn a_stall_between_tokens_ends_with_its_limit_and_keeps_the_chunks() {
    let timeouts = Timeouts {
        inter_token: TimeSpan::milliseconds(50),
        ..Timeouts::default()
    };
    let result = Run {
        timeouts,
        requests: 2,
        ..Run::with(Fault::StallAfter(2))
    }
    .result();
    assert_eq!(statuses(&result), [RequestStatus::Timeout; 2]);
    assert_eq!(error(&result.requests[0]), "inter-token timeout");
    assert_eq!(result.chunks.len(), 4);
}

#[test]
fn a_gap_beyond_a_limit_shorter_than_the_checks_ends_the_request() {
    let mut run = Run {
        timeouts: Timeouts {
            inter_token: TimeSpan::milliseconds(100),
            ..Timeouts::default()
        },
        requests: 2,
        tokens: 3,
        ..Run::default()
    };
    run.behaviour.ttft = Duration::from_millis(200);
    run.behaviour.gap = Duration::from_millis(400);
    let result = run.result();
    assert_eq!(statuses(&result), [RequestStatus::Timeout; 2]);
    for row in &result.requests {
        // The first token may take longer. Bytes that arrived after the limit do not belong to the answer.
        assert_eq!((error(row), row.chunks), ("inter-token timeout", Some(1)));
        assert!(row.done_ns.unwrap() - row.first_token_ns.unwrap() >= 100_000_000);
    }
}

#[test]
fn the_total_limit_ends_a_request_that_keeps_talking() {
    let timeouts = Timeouts {
        total: TimeSpan::milliseconds(60),
        ..Timeouts::default()
    };
    let mut run = Run {
        timeouts,
        requests: 2,
        tokens: 10_000,
        ..Run::default()
    };
    run.behaviour.gap = Duration::from_millis(5);
    let result = run.result();
    assert_eq!(statuses(&result), [RequestStatus::Timeout; 2]);
    assert_eq!(error(&result.requests[0]), "total timeout");
}

#[test]
fn the_total_limit_ends_a_request_whose_server_sends_without_a_pause() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut stream = stream;
                let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
                let mut sent = stream.write_all(head);
                while sent.is_ok() {
                    sent = stream.write_all(&b": nothing\n\n".repeat(6000));
                }
            });
        }
    });
    let run = Run {
        timeouts: Timeouts {
            total: TimeSpan::milliseconds(20),
            ..Timeouts::default()
        },
        requests: 2,
        ..Run::default()
    };
    let result = run_load(&run.spec(), &run.target(url), &Control::quiet()).unwrap();
    for row in &result.requests {
        assert_eq!(row.status, RequestStatus::Timeout, "{:?}", row.error);
    }
}

#[test]
fn silence_on_every_stream_for_the_heartbeat_is_hung() {
    let run = Run {
        heartbeat: TimeSpan::milliseconds(100),
        requests: 4,
        ..Run::with(Fault::StallAfter(2))
    };
    let result = run.result();
    assert_eq!(result.ending, Ending::Hung);
    assert_eq!(statuses(&result), [RequestStatus::Hung; 2]);
    assert_eq!(result.chunks.len(), 4);
}

#[test]
fn a_first_token_within_its_limit_may_take_longer_than_the_heartbeat() {
    let mut run = Run {
        heartbeat: TimeSpan::seconds(1),
        requests: 1,
        arrival: closed(1),
        ..Run::default()
    };
    run.behaviour.ttft = Duration::from_millis(2500);
    let result = run.result();
    assert_eq!(result.ending, Ending::Complete);
    assert_eq!(statuses(&result), [RequestStatus::Ok]);
}

#[test]
fn a_server_that_says_nothing_for_a_whole_first_token_limit_has_only_the_heartbeat_left() {
    let mut run = Run {
        heartbeat: TimeSpan::seconds(1),
        requests: 4,
        arrival: closed(1),
        ..Run::with(Fault::StallBeforeHead)
    };
    run.timeouts.first_token = TimeSpan::seconds(2);
    let result = run.result();
    assert_eq!(result.ending, Ending::Hung);
    let (timeout, hung) = (RequestStatus::Timeout, RequestStatus::Hung);
    assert_eq!(statuses(&result), [timeout, hung]);
}

#[test]
fn the_user_may_stop_a_run_and_keeps_the_rows() {
    let behaviour = Behaviour {
        faults: Faults(vec![(2..9, Fault::StallAfter(1))]),
        ..Behaviour::default()
    };
    let run = Run {
        behaviour,
        ..Run::default()
    };
    let server = ReferenceServer::start(run.behaviour.clone()).unwrap();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let after_two = stop.clone();
    let listener = move |progress: pipeline::stage::Progress| {
        if progress.done == 2 {
            after_two.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    };
    let control = Control::new(stop, None, Box::new(listener));
    let result = run_load(&run.spec(), &run.target(server.url()), &control).unwrap();
    assert_eq!(
        result.ending,
        Ending::Stopped(CellStatus::Interrupted, "stopped by the user".into())
    );
    let statuses = result.statuses();
    assert_eq!(statuses.get(&RequestStatus::Ok), Some(&2));
    // The first client had sent its next request before the stop; the other one may not have.
    let cancelled = statuses
        .get(&RequestStatus::Cancelled)
        .copied()
        .unwrap_or_default();
    assert!(
        (1..=2).contains(&cancelled) && statuses.len() == 2,
        "{statuses:?}"
    );
}

#[test]
fn an_error_in_the_stream_is_no_success_even_with_200_and_done() {
    let result = all_become(Fault::ErrorEventAfter(2), RequestStatus::MalformedStream);
    for row in &result.requests {
        assert_eq!(row.http_status, Some(200));
        assert!(error(row).contains("engine died"), "{}", error(row));
        assert_eq!(row.chunks, Some(2));
    }
}

#[test]
fn an_event_that_is_no_json_makes_the_stream_malformed() {
    let result = all_become(Fault::BrokenJsonAfter(4), RequestStatus::MalformedStream);
    assert!(error(&result.requests[0]).starts_with("an event is not JSON"));
}

#[test]
fn what_is_no_http_is_malformed() {
    all_become(Fault::Nonsense, RequestStatus::MalformedStream);
}

#[test]
fn a_slow_drip_that_cuts_lines_and_characters_loses_nothing() {
    for api in Api::ALL.iter().copied().filter(|api| api.generates()) {
        let whole = Run {
            api,
            ..Run::default()
        }
        .result();
        let drip = Run {
            api,
            ..Run::with(Fault::Drip)
        }
        .result();
        for (a, b) in whole.requests.iter().zip(&drip.requests) {
            assert_eq!(
                (b.status, &b.output_digest),
                (RequestStatus::Ok, &a.output_digest),
                "{}",
                api.word()
            );
            assert_eq!((b.chunks, b.output_tokens), (Some(5), Some(5)));
        }
    }
}

#[test]
fn answers_that_come_in_one_piece_are_reported_because_their_tpot_is_not_the_servers() {
    let mut run = Run::with(Fault::OnePiece);
    (run.behaviour.ttft, run.behaviour.gap) = (Duration::from_millis(5), Duration::from_millis(5));
    let result = run.result();
    let message = "6 of 6 streamed answers arrived in one piece, so TPOT and the times between chunks do not \
                describe the server";
    assert!(
        result.warnings[0].starts_with(message),
        "{:?}",
        result.warnings
    );
    assert!(
        result
            .requests
            .iter()
            .all(|r| r.first_token_ns == r.last_token_ns && r.chunks == Some(5))
    );
}

#[test]
fn answers_that_come_token_by_token_or_have_one_token_are_not_reported() {
    for run in [
        Run {
            behaviour: paced(),
            ..Run::default()
        },
        Run {
            delivery: Delivery::Whole,
            ..Run::default()
        },
        Run {
            tokens: 1,
            ..Run::with(Fault::OnePiece)
        },
    ] {
        assert_eq!(run.result().warnings, Vec::<String>::new());
    }
}

#[test]
fn crlf_comments_and_data_over_several_lines_are_read() {
    for api in [
        Api::OpenaiCompletions,
        Api::OpenaiChat,
        Api::TgiGenerate,
        Api::SglangGenerate,
    ] {
        let result = Run {
            api,
            ..Run::with(Fault::Decorated)
        }
        .result();
        assert_eq!(
            statuses(&result),
            [RequestStatus::Ok; 6],
            "{:?}",
            result.requests[0].error
        );
        assert!(
            result
                .requests
                .iter()
                .all(|r| r.output_tokens == Some(5) && r.chunks == Some(5))
        );
    }
}

#[test]
fn a_missing_done_is_forgiven_where_a_finish_reason_came() {
    all_become(Fault::NoDone, RequestStatus::Ok);
}

#[test]
fn a_stream_without_any_end_is_truncated() {
    for fault in [Fault::NoEnd, Fault::EmptyReasons] {
        let result = all_become(fault, RequestStatus::TruncatedStream);
        let read = |r: &Request| r.chunks == Some(5) && r.finish_reason.is_none();
        assert!(result.requests.iter().all(read), "{fault:?}");
    }
}

#[test]
fn without_usage_chunks_are_counted_and_never_the_requested_length() {
    let mut run = Run::with(Fault::NoUsage);
    run.behaviour.tokens = Some(3);
    for row in &run.result().requests {
        assert_eq!(
            (row.output_tokens, row.tokens_source),
            (Some(3), Some(TokenSource::Chunks))
        );
        assert_eq!(
            (row.requested_output_tokens, row.prompt_tokens),
            (Some(5), None)
        );
    }
}

#[test]
fn a_claim_of_tokens_that_cannot_be_is_no_answer_and_enters_no_sum() {
    for claimed in [i64::MAX, i64::MIN, -1, 1 << 40, 100_000] {
        let result = all_become(Fault::Claims(claimed), RequestStatus::MalformedStream);
        for row in &result.requests {
            assert!(error(row).contains(&claimed.to_string()), "{}", error(row));
            assert_eq!(row.prompt_tokens.filter(|n| *n != 7), None);
            assert_ne!(row.output_tokens, Some(claimed));
        }
    }
    // Fewer than requested, and one more than arrived, as from servers that count the end.
    for claimed in [1, 6] {
        let result = all_become(Fault::Claims(claimed), RequestStatus::Ok);
        assert_eq!(result.requests[0].output_tokens, Some(claimed));
    }
}

#[test]
fn an_answer_without_tokens_is_ok_and_has_no_first_token() {
    let result = all_become(Fault::NoTokens, RequestStatus::Ok);
    for row in &result.requests {
        assert_eq!(
            (row.first_token_ns, row.last_token_ns, row.chunks),
            (None, None, Some(0))
        );
        assert_eq!(
            (row.output_tokens, row.output_digest.as_ref()),
            (Some(0), None)
        );
    }
}

#[test]
fn events_without_text_are_no_chunks() {
    let result = all_become(Fault::EmptyChunks, RequestStatus::Ok);
    assert_eq!(result.chunks.len(), 30);
    assert!(result.chunks.iter().all(|c| c.bytes > Some(0)));
}

#[test]
fn a_close_after_done_does_not_spoil_the_answer() {
    all_become(Fault::CloseInsteadOfEnd, RequestStatus::Ok);
}

#[test]
fn a_stop_before_the_requested_length_is_counted_as_it_was() {
    let mut run = Run {
        tokens: 64,
        ..Run::default()
    };
    run.behaviour.tokens = Some(5);
    for row in &run.result().requests {
        assert_eq!(
            (row.output_tokens, row.requested_output_tokens),
            (Some(5), Some(64))
        );
    }
}

#[test]
fn a_whole_answer_with_an_error_is_an_http_error() {
    let result = Run {
        delivery: Delivery::Whole,
        ..Run::with(Fault::Status(500))
    }
    .result();
    assert_eq!(statuses(&result), [RequestStatus::HttpError; 6]);
}
