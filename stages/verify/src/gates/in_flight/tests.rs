use artifacts::Column;
use contract::synthetic::{self, ClosedLoop};
use pipeline::Json;
use serde_json::json;

use super::*;
use crate::finding::Outcome;
use crate::one_cell;

const MS: i64 = 1_000_000;

/// Returns a closed loop of four clients with 24 requests of about 100 ms.
fn closed() -> Vec<Request> {
    let load = ClosedLoop {
        clients: 4,
        requests: 24,
        ..ClosedLoop::default()
    };
    load.requests()
}

/// Makes every client send each request `by` ms later after its last answer. It thinks for `thinks` ms of that time.
fn later(requests: &mut [Request], by: i64, thinks: i64) {
    let mut sent_before: BTreeMap<Option<i64>, i64> = BTreeMap::new();
    requests.sort_by_key(|r| r.sent_ns);
    for r in requests {
        let turn = sent_before.entry(r.client_id).or_default();
        let shift = *turn * by * MS;
        let moved = |t: Option<i64>| t.map(|t| t + shift);
        r.scheduled_ns = r
            .sent_ns
            .map(|t| t + shift - (*turn).min(1) * (by - thinks) * MS);
        for t in [&mut r.sent_ns, &mut r.headers_ns, &mut r.first_token_ns] {
            *t = moved(*t);
        }
        (r.last_token_ns, r.done_ns) = (moved(r.last_token_ns), moved(r.done_ns));
        *turn += 1;
    }
}

/// Returns samples of two gauges of the server, one value every 40 ms.
fn samples(running: f64, waiting: f64) -> Table {
    let times: Vec<i64> = (1..=12).map(|i| i * 40 * MS).collect();
    let both = |i: usize| times.iter().map(move |t| Some([*t, *t][i]));
    let names = ["running", "waiting", "other"];
    let repeated = |name: &'static str| times.iter().map(move |_| Some(name));
    let value = |v: f64| times.iter().map(move |_| Some(v));
    Table::new(vec![
        Column::int("at_ns", both(0).chain(both(1)).chain(both(0))),
        Column::text(
            "name",
            repeated(names[0])
                .chain(repeated(names[1]))
                .chain(repeated(names[2])),
        ),
        Column::text("labels", [Some(""); 36]),
        Column::float(
            "value",
            value(running).chain(value(waiting)).chain(value(9.0)),
        ),
    ])
    .unwrap()
}

fn judged(
    requests: Vec<Request>,
    clients: Option<i64>,
    parameters: &Json,
    server: Option<Table>,
) -> Judgement {
    let rows = CellRows {
        cell: synthetic::about(vec![Column::int("clients", [clients])]),
        server_metrics: server,
        ..synthetic::rows_of(requests)
    };
    one_cell::judge(&InFlight, parameters.clone(), json!({}), rows)
}

#[test]
fn a_full_loop_passes_and_says_what_is_left_until_the_last_answer() {
    let judgement = judged(closed(), Some(4), &json!({}), None);
    assert_eq!(judgement.outcome, Outcome::Pass, "{judgement:?}");
    for part in [
        "of 4 requests in flight",
        "at most 4",
        "until the last answer",
    ] {
        assert!(judgement.observed.contains(part), "{}", judgement.observed);
    }
}

#[test]
fn clients_that_wait_to_send_fail_and_clients_that_think_do_not() {
    let mut requests = closed();
    later(&mut requests, 40, 0);
    let judgement = judged(requests, Some(4), &json!({}), None);
    assert_eq!(judgement.outcome, Outcome::Fail, "{judgement:?}");
    assert!(
        judgement
            .observed
            .contains(" clients wait to send. The client is too slow")
    );
    let mut requests = closed();
    later(&mut requests, 40, 40);
    let judgement = judged(requests, Some(4), &json!({}), None);
    assert_eq!(judgement.outcome, Outcome::Pass, "{judgement:?}");
    assert!(
        judgement.observed.contains(" clients think"),
        "{}",
        judgement.observed
    );
}

#[test]
fn a_client_that_never_sends_is_counted() {
    let judgement = judged(closed(), Some(5), &json!({}), None);
    assert_eq!(judgement.outcome, Outcome::Fail);
    assert!(
        judgement
            .observed
            .contains("clients that never sent a request: 1"),
        "{}",
        judgement.observed
    );
}

#[test]
fn fewer_requests_than_clients_never_reach_the_number() {
    let judgement = judged(closed()[..3].to_vec(), Some(4), &json!({}), None);
    assert_eq!(judgement.outcome, Outcome::Fail);
    assert!(
        judgement
            .observed
            .starts_with("3 measured requests for 4 clients"),
        "{}",
        judgement.observed
    );
    // One request for each client is enough, and has no average between sends.
    let judgement = judged(closed()[..4].to_vec(), Some(4), &json!({}), None);
    assert_eq!(judgement.outcome, Outcome::Pass, "{judgement:?}");
}

#[test]
fn requests_that_wait_in_front_of_the_server_are_seen_in_its_gauges() {
    let gauges = json!({"gauges": ["running", "waiting"]});
    let with =
        |running, waiting| judged(closed(), Some(4), &gauges, Some(samples(running, waiting)));
    let agrees = with(3.0, 1.0);
    assert_eq!(agrees.outcome, Outcome::Pass, "{agrees:?}");
    assert!(
        agrees.observed.contains(
            "the server counts 4.00 requests on average, at most 4.00 (running + waiting)"
        )
    );
    let serialised = with(1.0, 0.0);
    assert_eq!(serialised.outcome, Outcome::Fail);
    assert!(
        serialised
            .observed
            .contains("Requests wait in front of the server")
    );
    // Gauges lag behind: the mean of an engine that is late by a step shows nothing.
    assert_eq!(with(2.0, 0.5).outcome, Outcome::Pass);
    let dead = with(0.0, 0.0);
    assert_eq!(dead.outcome, Outcome::Pass, "the rows alone decide");
    assert!(dead.observed.contains("it does not count requests"));
    let shared = with(4.0, 3.0);
    assert_eq!(shared.outcome, Outcome::Fail);
    assert!(shared.observed.contains("The server has other clients"));
}

#[test]
fn open_arrivals_are_judged_by_gauges_alone() {
    let mut requests = closed();
    for r in &mut requests {
        r.client_id = None;
    }
    let alone = judged(requests.clone(), None, &json!({}), None);
    assert_eq!(alone.outcome, Outcome::NotJudged, "{alone:?}");
    let gauges = json!({"gauges": ["running"]});
    let judgement = judged(requests.clone(), None, &gauges, Some(samples(1.0, 0.0)));
    assert_eq!(judgement.outcome, Outcome::Fail, "{judgement:?}");
    let unsampled = judged(requests, None, &gauges, None);
    assert_eq!(unsampled.outcome, Outcome::NotJudged);
    assert_eq!(
        unsampled.observed,
        "running was not sampled during the load"
    );
}

#[test]
fn a_request_that_ends_as_another_begins_is_not_in_flight_with_it() {
    assert_eq!(peak(&[(0, 10), (10, 20), (5, 10)]), 2);
    assert_eq!(mean_of([(0, 10), (5, 30)], (0, 20)), 25.0 / 20.0);
}
