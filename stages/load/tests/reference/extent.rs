//! Loads that end with time, that wait for a place in flight, or whose requests are given up.

use std::time::Duration;

use contract::RequestStatus;
use load::reference::{Behaviour, Fault};
use load::{Arrival, Cancel, Ending, Extent, Load, LoadResult, Rate, TimeSpan};
use pipeline::stage::StageKind;
use serde_json::{Value, json};

use crate::common::{Run, statuses};
use crate::stage::NoShelf;

fn lasting(duration: TimeSpan) -> Extent {
    Extent {
        duration: Some(duration),
        ..Extent::default()
    }
}

#[test]
fn a_closed_loop_of_a_duration_begins_nothing_after_it_and_finishes_what_it_began() {
    let run = Run {
        requests: 20_000,
        behaviour: Behaviour {
            ttft: Duration::from_millis(5),
            ..Behaviour::default()
        },
        extent: lasting(TimeSpan::milliseconds(300)),
        ..Run::default()
    };
    let result = run.result();
    assert_eq!(result.ending, Ending::Complete);
    let ends = result.cell.measured_from_ns.unwrap() + 300_000_000;
    for row in &result.requests {
        assert_eq!(row.status, RequestStatus::Ok);
        assert!(row.scheduled_ns.unwrap() < ends);
    }
    assert_eq!(result.cell.expected_requests, result.requests.len() as u64);
    assert!(result.requests.len() < 20_000 && ran_out(&result).is_none());
}

#[test]
fn a_closed_loop_that_runs_out_of_prompts_says_so() {
    let result = Run {
        requests: 3,
        extent: lasting(TimeSpan::seconds(3600)),
        ..Run::default()
    }
    .result();
    assert_eq!(statuses(&result), [RequestStatus::Ok; 3]);
    assert_eq!(result.cell.expected_requests, 3);
    let warning = ran_out(&result).unwrap();
    assert!(warning.contains("all 3 requests"), "{warning}");
}

/// Returns the warning of a load that ran out of requests before its time was over.
fn ran_out(result: &LoadResult) -> Option<&String> {
    let mut warnings = result.warnings.iter();
    warnings.find(|warning| warning.contains("raise `requests`"))
}

#[test]
fn of_open_arrivals_those_within_the_duration_are_sent() {
    let result = Run {
        requests: 40,
        arrival: Arrival::Constant(Rate { rate: 100.0 }),
        extent: lasting(TimeSpan::milliseconds(95)),
        ..Run::default()
    }
    .result();
    assert_eq!(statuses(&result), [RequestStatus::Ok; 10]);
    assert_eq!(result.cell.expected_requests, 10);
    assert_eq!(ran_out(&result), None);
}

#[test]
fn who_finds_all_places_taken_waits_in_line_and_its_schedule_counts_the_wait() {
    let run = Run {
        requests: 12,
        arrival: Arrival::Burst,
        behaviour: Behaviour {
            ttft: Duration::from_millis(30),
            ..Behaviour::default()
        },
        extent: Extent {
            max_in_flight: Some(3),
            ..Extent::default()
        },
        ..Run::default()
    };
    let result = run.result();
    assert_eq!(statuses(&result), [RequestStatus::Ok; 12]);
    let rows = &result.requests;
    assert!(rows.iter().all(|row| row.in_flight_at_send.unwrap() < 3));
    assert!(
        rows.is_sorted_by_key(|row| row.sent_ns),
        "first come, first served"
    );
    for (i, row) in rows.iter().enumerate() {
        let waited = row.sent_ns.unwrap() - row.scheduled_ns.unwrap();
        let lag = row.send_lag_ns.unwrap();
        if i < 3 {
            assert_eq!(lag, waited);
            continue;
        }
        // Another request had to end first, and that wait is not the client's own delay.
        let first_done = rows[..i]
            .iter()
            .filter_map(|row| row.done_ns)
            .min()
            .unwrap();
        assert!(row.sent_ns.unwrap() >= first_done);
        assert!(lag >= 0 && waited - lag >= 30_000_000, "{waited} {lag}");
    }
}

#[test]
fn who_still_waits_in_line_when_the_time_is_over_is_not_sent() {
    let run = Run {
        requests: 60,
        arrival: Arrival::Constant(Rate { rate: 100.0 }),
        behaviour: Behaviour {
            ttft: Duration::from_millis(100),
            ..Behaviour::default()
        },
        extent: Extent {
            max_in_flight: Some(1),
            ..lasting(TimeSpan::milliseconds(250))
        },
        ..Run::default()
    };
    let result = run.result();
    assert_eq!(result.ending, Ending::Complete);
    let ends = result.cell.measured_from_ns.unwrap() + 250_000_000;
    for row in &result.requests {
        assert_eq!(row.status, RequestStatus::Ok);
        assert!(row.sent_ns.unwrap() < ends, "{row:?}");
    }
    // One is answered each 100 ms. The others have no row, and were planned.
    assert!((1..=3).contains(&result.requests.len()), "{result:?}");
    assert_eq!(result.cell.expected_requests, 25);
    let rows = result.requests.len() as u64;
    assert_eq!(result.cell.unsent_requests + rows, 25);
}

#[test]
fn a_request_given_up_is_a_cancelled_row_and_one_answered_before_is_not() {
    let given_up = |behaviour, tokens| {
        Run {
            behaviour,
            tokens,
            extent: Extent {
                cancel: Some(Cancel {
                    after: TimeSpan::milliseconds(80),
                    share: 1.0,
                }),
                ..Extent::default()
            },
            ..Run::default()
        }
        .result()
    };
    let stalled = given_up(Run::with(Fault::StallAfter(2)).behaviour, 5);
    assert_eq!(statuses(&stalled), [RequestStatus::Cancelled; 6]);
    assert_eq!(stalled.ending, Ending::Complete);
    for row in &stalled.requests {
        assert_eq!(row.chunks, Some(2));
        assert!(row.done_ns.unwrap() - row.sent_ns.unwrap() >= 80_000_000);
        assert!(
            row.error
                .as_deref()
                .unwrap()
                .contains("given up by its sender after 80ms")
        );
    }
    let answered = Run {
        extent: Extent {
            cancel: Some(Cancel {
                after: TimeSpan::seconds(600),
                share: 1.0,
            }),
            ..Extent::default()
        },
        ..Run::default()
    };
    assert_eq!(statuses(&answered.result()), [RequestStatus::Ok; 6]);
}

fn canonical(more: &Value) -> Result<Value, Vec<String>> {
    let mut settings = json!({
        "workload": {"prompts": {"words": {"length": 9}}, "output": {"tokens": 4}},
        "arrival": {"closed-loop": {"clients": 4}},
    });
    for (key, value) in more.as_object().unwrap() {
        settings[key] = value.clone();
    }
    Load.canonical(&settings, &NoShelf::default())
        .map_err(|problems| problems.into_iter().map(|p| p.message).collect())
}

#[test]
fn a_duration_alone_says_how_many_requests_there_are_at_most() {
    let settings = |more: Value| canonical(&more).unwrap();
    assert_eq!(settings(json!({"duration": "30 s"}))["requests"], 2400);
    let poisson = json!({"poisson": {"rate": 10.0}});
    let open = settings(json!({"duration": "30 s", "arrival": poisson}));
    assert!(open["requests"].as_u64().unwrap() > 350, "{open}");
    let both = settings(json!({"duration": "30 s", "requests": 7}));
    assert_eq!(
        (&both["requests"], &both["duration"]),
        (&json!(7), &json!("30 s"))
    );
    let fading = json!({"ramp": {"from": 8.0, "to": 0.0, "seconds": 10.0}});
    let fading = settings(json!({"arrival": fading}));
    assert_eq!(fading["duration"], "10 s");
    let untouched = settings(json!({"requests": 7}));
    for key in ["duration", "max-in-flight", "cancel"] {
        assert!(
            untouched.get(key).is_none(),
            "{key} is in a recipe that does not use it"
        );
    }
}

#[test]
fn limits_that_mean_nothing_are_refused_with_what_to_do() {
    let rate = json!({"constant": {"rate": 1.0}});
    for (more, words) in [
        (
            json!({"duration": "0 s"}),
            "no request can be sent within 0 s",
        ),
        (
            json!({"duration": "9 s", "arrival": "burst", "requests": 4}),
            "a burst sends all requests at once",
        ),
        (
            json!({"max-in-flight": 4, "requests": 4}),
            "than it has clients",
        ),
        (
            json!({"max-in-flight": 0, "requests": 4, "arrival": rate}),
            "at least one request",
        ),
        (
            json!({"cancel": {"after": "1 s", "share": -0.1}, "requests": 4}),
            "`share` must be between 0 and 1",
        ),
        (
            json!({"cancel": {"after": "0 s"}, "requests": 4}),
            "before it is sent",
        ),
    ] {
        let problems = canonical(&more).unwrap_err();
        assert!(
            problems.iter().any(|p| p.contains(words)),
            "{more}: {problems:?}"
        );
    }
    assert!(canonical(&json!({"max-in-flight": 4, "requests": 4, "arrival": rate})).is_ok());
}
