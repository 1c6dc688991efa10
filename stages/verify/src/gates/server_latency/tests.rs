use artifacts::{Column, Table};
use contract::RequestStatus;
use contract::synthetic::{self, ClosedLoop};
use pipeline::Json;
use serde_json::json;

use super::*;
use crate::finding::Outcome;
use crate::one_cell;

/// Returns a closed loop of four clients with 24 requests.
fn closed() -> Vec<Request> {
    let load = ClosedLoop {
        clients: 4,
        requests: 24,
        ..ClosedLoop::default()
    };
    load.requests()
}

/// Returns the mean latency of requests, s.
fn mean(requests: &[Request]) -> f64 {
    let latency = |r: &Request| (r.done_ns.unwrap() - r.sent_ns.unwrap()) as f64 / 1e9;
    requests.iter().map(latency).sum::<f64>() / requests.len() as f64
}

/// Returns two scrapes of a latency's sum and count, before the load and after it, of each source.
fn scrapes(name: &str, sources: &[(&str, f64, f64)]) -> Table {
    let (mut at, mut names, mut labels, mut values) = (vec![], vec![], vec![], vec![]);
    for (source, count, latency) in sources {
        for (time, share) in [(0, 0.0), (i64::MAX / 2, 1.0)] {
            for (part, rise) in [("count", *count), ("sum", count * latency)] {
                at.push(Some(time));
                names.push(Some(format!("{name}_{part}")));
                labels.push(Some((*source).to_owned()));
                values.push(Some(7.0 + share * rise));
            }
        }
    }
    Table::new(vec![
        Column::int("at_ns", at),
        Column::text("name", names),
        Column::text("labels", labels),
        Column::float("value", values),
    ])
    .unwrap()
}

fn judged(requests: Vec<Request>, parameters: Json, server: Option<Table>) -> Judgement {
    let rows = CellRows {
        server_metrics: server,
        ..synthetic::rows_of(requests)
    };
    one_cell::judge(&ServerLatency, parameters, json!({}), rows)
}

/// Judges a load whose server counts so many requests, with this share of the client's latency.
fn with(count: f64, share: f64) -> Judgement {
    let requests = closed();
    let latency = share * mean(&requests);
    let server = scrapes("vllm:e2e_request_latency_seconds", &[("", count, latency)]);
    judged(requests, json!({}), Some(server))
}

#[test]
fn a_server_that_measures_nearly_what_the_client_measures_passes() {
    let judgement = with(24.0, 0.95);
    assert_eq!(judgement.outcome, Outcome::Pass, "{judgement:?}");
    assert!(judgement.observed.starts_with("mean of 24 requests: "));
    assert!(
        judgement.observed.ends_with("; 5.00 % outside"),
        "{}",
        judgement.observed
    );
    // Clocks may differ by a little.
    assert_eq!(with(24.0, 1.005).outcome, Outcome::Pass);
}

#[test]
fn a_wait_in_front_of_the_server_is_found() {
    let judgement = with(24.0, 0.6);
    assert_eq!(judgement.outcome, Outcome::Fail, "{judgement:?}");
    assert!(
        judgement
            .observed
            .contains("40.0 % outside. Requests wait where the server does not measure")
    );
    let requests = closed();
    let server = scrapes(
        "vllm:e2e_request_latency_seconds",
        &[("", 24.0, 0.6 * mean(&requests))],
    );
    let judgement = judged(requests, json!({"outside": 0.5}), Some(server));
    assert_eq!(judgement.outcome, Outcome::Pass);
}

#[test]
fn a_server_cannot_measure_more_than_the_client() {
    let judgement = with(24.0, 1.05);
    assert_eq!(judgement.outcome, Outcome::Fail, "{judgement:?}");
    assert!(
        judgement
            .observed
            .contains("the stamps of one of them are wrong")
    );
}

#[test]
fn requests_of_others_are_counted() {
    let judgement = with(25.0, 0.95);
    assert_eq!(judgement.outcome, Outcome::Fail, "{judgement:?}");
    assert!(
        judgement
            .observed
            .starts_with("the server counts 25 requests, the client sent 24")
    );
    let fewer = with(20.0, 0.95);
    assert_eq!(fewer.outcome, Outcome::NotJudged, "{fewer:?}");
}

#[test]
fn failed_requests_are_left_out_if_the_server_leaves_them_out() {
    let mut requests = closed();
    for r in &mut requests[..4] {
        r.status = RequestStatus::Timeout;
        r.done_ns = r.done_ns.map(|t| t + 60_000_000_000);
    }
    let latency = 0.9 * mean(&requests[4..]);
    let name = "sglang:e2e_request_latency_seconds";
    let judgement = judged(
        requests.clone(),
        json!({}),
        Some(scrapes(name, &[("", 20.0, latency)])),
    );
    assert_eq!(judgement.outcome, Outcome::Pass, "{judgement:?}");
    assert!(judgement.observed.starts_with("mean of 20 requests"));
    let latency = 0.9 * mean(&requests);
    let judgement = judged(
        requests,
        json!({}),
        Some(scrapes(name, &[("", 24.0, latency)])),
    );
    assert_eq!(judgement.outcome, Outcome::Pass, "{judgement:?}");
}

#[test]
fn members_are_summed_and_a_named_metric_is_read() {
    let requests = closed();
    let latency = 0.9 * mean(&requests);
    let members = [
        ("member=\"a\"", 10.0, latency),
        ("member=\"b\"", 14.0, latency),
    ];
    let judgement = judged(
        requests.clone(),
        json!({}),
        Some(scrapes("x:e2e_request_latency_seconds", &members)),
    );
    assert_eq!(judgement.outcome, Outcome::Pass, "{judgement:?}");
    let own = || Some(scrapes("own_latency", &[("", 24.0, latency)]));
    let unnamed = judged(requests.clone(), json!({}), own());
    assert_eq!(unnamed.outcome, Outcome::NotJudged);
    assert!(unnamed.observed.contains("name them in `metric`"));
    let named = judged(requests.clone(), json!({"metric": "own_latency"}), own());
    assert_eq!(named.outcome, Outcome::Pass, "{named:?}");
    assert_eq!(
        judged(requests, json!({}), None).outcome,
        Outcome::NotJudged
    );
}
