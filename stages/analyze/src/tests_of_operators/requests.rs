//! Quantities over request rows: censoring, the steady window, supported quantiles.

use artifacts::{Scalar, Store};
use contract::{Row as _, synthetic};
use pipeline::{CellStatus, Input};
use serde_json::json;

use super::{float, grid};
use crate::frame::{Absence, Missing};
use crate::published::{column, run};
use crate::tests::{analyze, cell, inputs, store, table, verification};

#[test]
fn hung_cells_count_as_larger_than_the_limit() {
    let mut frame = grid(&[
        ("a", 1, Some(10.0)),
        ("a", 2, Some(20.0)),
        ("b", 1, Some(5.0)),
    ]);
    use CellStatus::{Failed, Hung, Timeout};
    let missing = |side: &str, n: i64, status, why: &str| Missing {
        at: vec![
            ("side".to_owned(), Scalar::Text(side.to_owned())),
            ("n".to_owned(), Scalar::Int(n)),
        ],
        why: why.to_owned(),
        absence: Absence::Ended(status),
    };
    frame.missing = vec![
        missing("a", 3, Hung, "hung: no row for 60 s"),
        missing("a", 4, Failed, "failed: the server died"),
        missing("b", 2, Timeout, "timeout: 600 s"),
        missing("c", 1, Hung, "hung: no row for 60 s"),
    ];
    let parameters = json!({"from": "t", "column": "y", "over": ["n"], "limit": 100.0});
    let table = run("censored-cells", &parameters, frame);
    let values = |name: &str| ["a", "b", "c"].map(|side| column(&table, &[side], name).to_string());
    assert_eq!(values("n_observed"), ["2", "1", "0"]);
    assert_eq!(values("n_censored"), ["1", "1", "1"]);
    assert_eq!(values("n_missing"), ["1", "0", "0"]);
    assert_eq!(values("y_median"), ["20", "5", "null"]);
    assert_eq!(values("y_median_is_bound"), ["false", "false", "true"]);
    assert_eq!(float(&table, &["b"], "y_mean_at_least"), Some(52.5));
    assert_eq!(
        column(&table, &["c"], "censored_cells").to_string(),
        "n=1 (hung: no row for 60 s)"
    );
}

#[test]
fn rows_that_count_from_their_own_sends_have_no_throughput() {
    let (_folder, store) = store();
    let mut rows: Vec<_> = (0..10).map(synthetic::request).collect();
    for (row, lasts) in rows.iter_mut().zip((100_000_000..).step_by(1_000_000)) {
        (row.scheduled_ns, row.sent_ns) = (None, Some(0));
        (row.last_token_ns, row.done_ns) = (Some(lasts), Some(lasts));
    }
    let of_clock = |clock| {
        let facts = contract::Cell {
            source: contract::RowSource::Imported,
            clock: Some(clock),
            ..contract::Cell::default()
        };
        let tables = [
            ("requests", synthetic::requests_table(&rows).unwrap()),
            ("cell", contract::Cell::table(&[facts]).unwrap()),
        ];
        let at = [("rep", Scalar::Int(1))];
        let cell = synthetic::cell(&store, &at, json!(null), &tables).unwrap();
        let inputs = [
            synthetic::input("ladder", "load", vec![cell]),
            verification(&store, &[]),
        ];
        let bound = json!([{"metric": "e2e_latency_ms", "at-most": 1000}]);
        let settings = json!({
            "cells": {"operator": "cell-summary"},
            "good": {"operator": "goodput", "objectives": [{"name": "o", "all": bound}]},
            "steady": {"operator": "steady-state"},
            "vllm": {"operator": "compat", "tool": "vllm"},
            "hang": {"operator": "hang-signature"},
        });
        let done = analyze(&store, &inputs, &settings).unwrap();
        [
            ("cells", "request_throughput"),
            ("cells", "output_throughput"),
            ("good", "goodput"),
            ("steady", "window_s"),
            ("vllm", "request_throughput"),
            ("vllm", "max_concurrent_requests"),
            ("hang", "silence_ms"),
            // Times of single requests are known in any case.
            ("cells", "e2e_latency_ms_mean"),
            ("good", "slo_pass_rate"),
            ("vllm", "mean_e2el_ms"),
        ]
        .map(|(name, column)| table(&done, name).float(column).unwrap()[0])
    };
    let together = of_clock(contract::ImportClock::Cell);
    assert!(together.iter().all(Option::is_some), "{together:?}");
    let apart = of_clock(contract::ImportClock::Request);
    assert_eq!(apart[..7], [None; 7]);
    assert_eq!(apart[7..], together[7..]);
}

fn one_cell(store: &Store, rows: &[contract::Request]) -> [Input; 2] {
    let cell = cell(store, &[("rep", Scalar::Int(1))], rows);
    [
        synthetic::input("ladder", "load", vec![cell]),
        verification(store, &[]),
    ]
}

#[test]
fn requests_that_were_given_up_are_bounds_and_failures_are_nothing() {
    let (_folder, store) = store();
    let mut rows: Vec<_> = (1..=4).map(synthetic::request).collect();
    for (row, end) in rows
        .iter_mut()
        .zip([100_000_000, 200_000_000, 300_000_000, 400_000_000])
    {
        (row.last_token_ns, row.done_ns) = (Some(end), Some(end));
    }
    rows[2].status = contract::RequestStatus::Timeout;
    rows[3].status = contract::RequestStatus::HttpError;
    let settings = json!({
        "km": {"operator": "censored", "quantiles": [0.5, 0.9]},
        "at_least": {"operator": "censored", "quantiles": [0.5, 0.9], "convention": "at-least"},
        "ttft": {"operator": "censored", "quantiles": [0.5], "metric": "ttft_ms"},
    });
    let done = analyze(&store, &one_cell(&store, &rows), &settings).unwrap();
    let (km, at_least, ttft) = (
        table(&done, "km"),
        table(&done, "at_least"),
        table(&done, "ttft"),
    );
    assert_eq!(
        (
            km.int("n_observed").unwrap()[0],
            km.int("n_censored").unwrap()[0],
            km.int("n_failed").unwrap()[0]
        ),
        (Some(2), Some(1), Some(1))
    );
    // Of three requests, one ended by 100 ms and two by 200 ms; the last is only known to exceed 300.
    assert_eq!(km.float("e2e_latency_ms_p50").unwrap()[0], Some(200.0));
    assert_eq!(km.float("e2e_latency_ms_p90").unwrap()[0], None);
    assert_eq!(
        km.boolean("e2e_latency_ms_p90_is_bound").unwrap()[0],
        Some(true)
    );
    assert_eq!(km.float("longest_wait_ms").unwrap()[0], Some(300.0));
    assert_eq!(
        at_least.float("e2e_latency_ms_p50").unwrap()[0],
        Some(200.0)
    );
    assert_eq!(
        at_least.float("e2e_latency_ms_p90").unwrap()[0],
        Some(280.0)
    );
    // The first token of the request that timed out had arrived.
    assert_eq!(
        (
            ttft.int("n_observed").unwrap()[0],
            ttft.int("n_censored").unwrap()[0]
        ),
        (Some(3), Some(0))
    );
}

#[test]
fn the_steady_window_lies_between_the_last_start_and_the_first_end() {
    let (_folder, store) = store();
    let second = 1_000_000_000;
    // Client 0 sends at 0 and ends at 8 s, in two requests; client 1 runs from 1 s to 6 s.
    let spans = [(0, 0, 4), (0, 4, 8), (1, 1, 3), (1, 3, 6)];
    let rows: Vec<_> = spans
        .iter()
        .zip(1..)
        .map(|((client, sent, done), id)| {
            let mut row = synthetic::request(id);
            row.client_id = Some(*client);
            row.sent_ns = Some(sent * second);
            row.first_token_ns = Some(sent * second + second / 2);
            (row.last_token_ns, row.done_ns) = (Some(done * second), Some(done * second));
            row
        })
        .collect();
    let done = analyze(
        &store,
        &one_cell(&store, &rows),
        &json!({"steady": {"operator": "steady-state"}}),
    )
    .unwrap();
    let steady = table(&done, "steady");
    let number = |name: &str| steady.float(name).unwrap()[0].unwrap();
    assert_eq!(
        (
            number("steady_start_s"),
            number("steady_end_s"),
            number("steady_window_s")
        ),
        (1.0, 6.0, 5.0)
    );
    // Ended inside: at 4, 3 and 6 s. Sent and ended inside: those of client 1.
    assert_eq!(
        (
            steady.int("steady_n_ok").unwrap()[0],
            steady.int("steady_n_inside").unwrap()[0]
        ),
        (Some(3), Some(2))
    );
    assert_eq!(number("steady_request_throughput"), 0.6);
    // Open arrivals have no clients, and therefore no such window.
    let mut open = rows;
    open.iter_mut().for_each(|r| r.client_id = None);
    let done = analyze(
        &store,
        &one_cell(&store, &open),
        &json!({"steady": {"operator": "steady-state"}}),
    )
    .unwrap();
    assert_eq!(
        table(&done, "steady").float("steady_window_s").unwrap()[0],
        None
    );
}

#[test]
fn a_declared_window_leaves_out_the_ramps_of_open_arrivals() {
    let (_folder, store) = store();
    let second = 1_000_000_000;
    // The measured phase of a synthetic cell begins with its first request. The request due at 2 s ends after the window.
    let spans = [(0, 1), (1, 2), (2, 5), (3, 4), (5, 6)];
    let rows: Vec<_> = spans
        .iter()
        .zip(1..)
        .map(|((due, done), id)| {
            let mut row = synthetic::request(id);
            row.client_id = None;
            (row.scheduled_ns, row.sent_ns) = (Some(due * second), Some(due * second));
            row.first_token_ns = Some(due * second + second / 2);
            (row.last_token_ns, row.done_ns) = (Some(done * second), Some(done * second));
            row
        })
        .collect();
    let steady = |from: f64, until: f64| {
        let settings = json!({"operator": "steady-state", "from-s": from, "until-s": until});
        let done = analyze(
            &store,
            &one_cell(&store, &rows),
            &json!({"steady": settings}),
        );
        table(&done.unwrap(), "steady")
    };
    let plateau = steady(1.0, 4.0);
    let number = |name: &str| plateau.float(name).unwrap()[0].unwrap();
    assert_eq!(
        (
            number("steady_start_s"),
            number("steady_end_s"),
            number("steady_window_s")
        ),
        (1.0, 4.0, 3.0)
    );
    // Ended inside: at 1, 2 and 4 s. Due inside: at 1, 2 and 3 s, with latencies of 1, 3 and 1 s.
    assert_eq!(
        (
            plateau.int("steady_n_ok").unwrap()[0],
            plateau.int("steady_n_inside").unwrap()[0]
        ),
        (Some(3), Some(3))
    );
    assert_eq!(number("steady_e2e_scheduled_ms_p50"), 1000.0);
    assert_eq!(number("steady_ttft_scheduled_ms_p50"), 500.0);
    // The load ends at 6 s: a longer window ends there, and a later one has no figures.
    let float = |table: &artifacts::Table, name: &str| table.float(name).unwrap()[0];
    assert_eq!(float(&steady(2.0, 60.0), "steady_window_s"), Some(4.0));
    assert_eq!(float(&steady(30.0, 60.0), "steady_window_s"), None);
    assert_eq!(
        float(&steady(30.0, 60.0), "steady_request_throughput"),
        None
    );
}

#[test]
fn a_quantile_that_so_few_requests_cannot_bound_is_left_out_and_counted() {
    let (_folder, store) = store();
    let cells = |quantiles: &str| {
        let settings = json!({"cells": {"operator": "cell-summary", "quantiles": quantiles}});
        table(
            &analyze(&store, &inputs(&store), &settings).unwrap(),
            "cells",
        )
    };
    let supported = cells("supported");
    for column in [
        "ttft_ms_p50",
        "ttft_ms_p99",
        "ttft_ms_p50_low",
        "client_lag_ms_p99",
    ] {
        assert!(
            supported.float(column).unwrap().iter().all(Option::is_none),
            "{column}"
        );
    }
    let refused = supported.text("quantiles_refused").unwrap()[0].unwrap();
    assert!(
        refused.starts_with("p50 needs 6 values, and ")
            && refused.contains(" metrics have at most 4"),
        "{refused}"
    );
    assert!(cells("all").float("ttft_ms_p99").unwrap()[0].is_some());
}
