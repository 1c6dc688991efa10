//! Sessions: the content of each turn, and when it is sent.

use crate::canned::{Canned, events};
use crate::common::{Run, closed, prompts};
use contract::{Api, RequestStatus, Word as _};
use load::reference::{Behaviour, Fault, Faults, ReferenceServer};
use load::{Arrival, LoadResult, LoadSpec, Origin, Rate, Settings, Target, run_load, tables};
use pipeline::stage::{Control, Coordinates, Json};
use serde_json::json;

/// Returns a spec of three sessions with two or more turns each.
fn spec(turns: &Json, think: &str, more: &Json) -> LoadSpec {
    let mut settings = json!({
        "workload": {
            "prompts": {"words": {"length": 6}},
            "sessions": {"turns": turns, "think-time": think},
            "output": {"tokens": 5},
        },
        "arrival": {"closed-loop": {"clients": 2}},
        "sessions": 3,
    });
    settings
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let settings: Settings = serde_json::from_value(settings).unwrap();
    LoadSpec::new(
        settings,
        Origin {
            seed: 7,
            replicate: Coordinates::default(),
        },
    )
    .unwrap()
}

fn target(url: String, api: Api) -> Target {
    Target {
        api,
        ..Run::default().target(url)
    }
}

fn send(spec: &LoadSpec, url: String, api: Api) -> LoadResult {
    run_load(spec, &target(url, api), &Control::quiet()).unwrap()
}

#[test]
fn each_turn_carries_what_was_said_and_answered_before() {
    let server = Canned::start(|asked| {
        let turn = asked.body["messages"].as_array().unwrap().len();
        events(&[
            json!({"choices": [{"delta": {"role": "assistant", "content": null}}]}),
            json!({"choices": [{"delta": {"reasoning_content": "let me see"}}]}),
            json!({"choices": [{"delta": {"content": format!("answer {turn}")}}]}),
            json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
        ])
    });
    let spec = spec(
        &json!(3),
        "0 s",
        &json!({"arrival": "sequential", "sessions": 1}),
    );
    let result = send(&spec, server.url.clone(), Api::OpenaiChat);
    assert_eq!(result.statuses(), [(RequestStatus::Ok, 3)].into());
    let said: Vec<String> = prompts(&spec).into_iter().map(|p| p.text).collect();
    let bodies = server.bodies("/v1/chat/completions");
    // Reasoning is not part of the conversation.
    let expected = json!([
        {"role": "user", "content": said[0]},
        {"role": "assistant", "content": "answer 1"},
        {"role": "user", "content": said[1]},
        {"role": "assistant", "content": "answer 3"},
        {"role": "user", "content": said[2]},
    ]);
    assert_eq!(bodies[2]["messages"], expected);
    assert_eq!(bodies[0]["messages"].as_array().unwrap().len(), 1);
    for row in &result.requests {
        assert!(row.first_reasoning_ns <= row.first_answer_ns && row.first_reasoning_ns.is_some());
        assert_eq!(row.first_token_ns, row.first_reasoning_ns);
    }
}

#[test]
fn every_api_plays_sessions_whose_later_prompts_begin_with_the_earlier_ones() {
    for api in Api::ALL.iter().copied().filter(|api| api.generates()) {
        let server = ReferenceServer::start(Behaviour::default()).unwrap();
        let spec = spec(&json!({"from": 2, "to": 4}), "0 s", &json!({}));
        let result = send(&spec, server.url(), api);
        let planned = prompts(&spec);
        let turns = planned.len();
        assert_eq!(
            result.statuses(),
            [(RequestStatus::Ok, turns as u64)].into(),
            "{}",
            api.word()
        );
        for (row, prompt) in result.requests.iter().zip(&planned) {
            assert_eq!(row.session_id, prompt.session.map(|s| s as i64));
            assert_eq!(row.turn, prompt.turn.map(i64::from));
        }
        // The reference server always answers "one zwölf 三 🦀 five".
        for truth in server.truth(turns) {
            let request = String::from_utf8(truth.request).unwrap();
            let said = |turn: u32| {
                planned
                    .iter()
                    .any(|p| p.turn == Some(turn) && request.contains(&p.text))
            };
            assert_eq!(
                said(2),
                request.contains("zwölf"),
                "{}: {request}",
                api.word()
            );
        }
    }
}

#[test]
fn a_turn_is_scheduled_when_the_one_before_is_done_and_thought_over() {
    let server = ReferenceServer::start(Behaviour::default()).unwrap();
    for arrival in [
        json!({"closed-loop": {"clients": 2}}),
        json!({"constant": {"rate": 200}}),
    ] {
        let spec = spec(&json!(3), "15 ms", &json!({"arrival": arrival}));
        let result = send(&spec, server.url(), Api::OpenaiCompletions);
        assert_eq!(result.requests.len(), 9);
        for pair in result
            .requests
            .windows(2)
            .filter(|p| p[0].session_id == p[1].session_id)
        {
            assert_eq!(
                pair[1].scheduled_ns,
                pair[0].done_ns.map(|done| done + 15_000_000)
            );
            assert!(pair[1].send_lag_ns.unwrap() >= 0);
        }
    }
}

#[test]
fn open_arrivals_are_of_sessions_and_keep_their_schedule() {
    let arrival = Arrival::Constant(Rate { rate: 100.0 });
    let server = ReferenceServer::start(Behaviour::default()).unwrap();
    let spec = LoadSpec {
        arrival,
        ..spec(&json!(2), "1 ms", &json!({}))
    };
    let result = send(&spec, server.url(), Api::OpenaiCompletions);
    let from = result.cell.measured_from_ns.unwrap();
    let first: Vec<i64> = result
        .requests
        .iter()
        .filter(|r| r.turn == Some(1))
        .map(|r| r.scheduled_ns.unwrap())
        .collect();
    assert_eq!(first, [from, from + 10_000_000, from + 20_000_000]);
    assert!(result.requests.iter().all(|r| r.client_id.is_none()));
}

#[test]
fn the_turns_after_one_that_failed_are_rows_that_were_not_sent() {
    let behaviour = Behaviour {
        faults: Faults(vec![(1..2, Fault::Status(500))]),
        ..Behaviour::default()
    };
    let server = ReferenceServer::start(behaviour).unwrap();
    let spec = spec(
        &json!(4),
        "0 s",
        &json!({"arrival": "sequential", "sessions": 2}),
    );
    let result = send(&spec, server.url(), Api::OpenaiCompletions);
    let statuses: Vec<RequestStatus> = result.requests.iter().map(|r| r.status).collect();
    use RequestStatus::{Cancelled, HttpError, Ok};
    assert_eq!(
        statuses,
        [Ok, HttpError, Cancelled, Cancelled, Ok, Ok, Ok, Ok]
    );
    for row in &result.requests[2..4] {
        assert_eq!((row.sent_ns, row.send_lag_ns), (None, None));
        assert!(
            row.error
                .as_deref()
                .unwrap()
                .contains("an earlier turn was not answered")
        );
    }
    let cell = tables(&spec, &result).unwrap().remove(2).1;
    assert_eq!(
        cell.value("sessions", 0).unwrap(),
        artifacts::Scalar::Int(2)
    );
}

#[test]
fn a_closed_loop_with_fewer_sessions_than_clients_warns() {
    let server = ReferenceServer::start(Behaviour::default()).unwrap();
    let message = |sessions: u64| {
        let spec = spec(&json!(2), "0 s", &json!({ "sessions": sessions }));
        let warnings = send(&spec, server.url(), Api::OpenaiCompletions).warnings;
        let mut warnings = warnings.into_iter();
        warnings.find(|warning| warning.contains("fewer sessions"))
    };
    let warning = message(1).unwrap();
    assert!(
        warning.contains("fewer sessions (1) than clients (2)"),
        "{warning}"
    );
    assert_eq!(message(2), None);
}

#[test]
fn a_closed_loop_of_sessions_has_no_more_in_flight_than_clients() {
    let server = ReferenceServer::start(Behaviour::default()).unwrap();
    let spec = LoadSpec {
        arrival: closed(2),
        ..spec(&json!(5), "0 s", &json!({"sessions": 6}))
    };
    let result = send(&spec, server.url(), Api::OpenaiChat);
    assert_eq!(result.requests.len(), 30);
    assert!(
        result
            .requests
            .iter()
            .all(|r| r.in_flight_at_send.unwrap() < 2)
    );
    // A client finishes its session.
    for pair in result
        .requests
        .windows(2)
        .filter(|p| p[0].session_id == p[1].session_id)
    {
        assert_eq!(pair[0].client_id, pair[1].client_id);
    }
}

#[test]
fn warm_up_requests_of_a_session_workload_stand_alone() {
    let server = ReferenceServer::start(Behaviour::default()).unwrap();
    let spec = spec(&json!(2), "0 s", &json!({"warmup": 3}));
    let result = send(&spec, server.url(), Api::OpenaiChat);
    assert_eq!(result.requests.len(), 9);
    assert!(
        result.requests[..3]
            .iter()
            .all(|r| r.session_id.is_none() && r.turn.is_none())
    );
    assert!(result.requests[3..].iter().all(|r| r.session_id.is_some()));
}
