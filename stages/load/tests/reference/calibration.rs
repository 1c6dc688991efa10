//! Calibration against the reference server as a process, and what a run says of its client.

use std::path::PathBuf;

use load::calibrate::{Bound, Calibration, Grid, Launcher, calibrate};
use load::{Arrival, Calibrate, Origin, Rate, Span, tables};
use pipeline::stage::{Control, Coordinates, StageKind};
use serde_json::json;

use crate::common::Run;

fn launcher() -> Launcher {
    Launcher {
        program: PathBuf::from(env!("CARGO_BIN_EXE_reference-server")),
        arguments: Vec::new(),
        ca_file: None,
    }
}

fn small(bound: Bound) -> Calibration {
    let grid = Grid {
        concurrency: vec![1, 4],
        rate: vec![40.0],
        gap: vec![Span::milliseconds(2)],
        ttft: Span::milliseconds(5),
        tokens: 8,
        duration: Span::milliseconds(300),
        bound,
    };
    let origin = Origin { seed: 3, replicate: Coordinates::default() };
    calibrate(&grid, &launcher(), &origin, &Control::quiet()).unwrap()
}

fn wide() -> Bound {
    Bound { p50: Span::seconds(100), p99: Span::seconds(100) }
}

#[test]
fn every_request_is_found_in_the_servers_log_and_compared_one_by_one() {
    let calibration = small(wide());
    assert_eq!(calibration.points.len(), 3);
    for point in &calibration.points {
        assert_eq!((point.joined, point.lost), (point.point.requests, 0));
        let n = |metric: &str| point.errors_of(metric).unwrap().absolute.n as u64;
        let requests = point.point.requests;
        assert_eq!((n("ttft"), n("e2e"), n("send_lag")), (requests, requests, requests));
        assert_eq!((n("stamp"), n("icl")), (requests * 8, requests * 7));
        // What the server did is known: it waits at least so long, whatever the machine does.
        assert!(point.errors_of("ttft").unwrap().truth.min >= 5.0);
        // A chunk cannot be there before it was sent; the two readings of the shared clock that
        // tie the processes' clocks to it may be off by some microseconds.
        let stamp = point.errors_of("stamp").unwrap();
        assert!(stamp.bias > -0.05, "{stamp:?}");
    }
}

#[test]
fn the_covered_range_is_what_keeps_the_bound_and_nothing_keeps_an_impossible_one() {
    let calibration = small(wide());
    let covered = calibration.covered().unwrap();
    assert_eq!(calibration.instrument()["points_within_bound"], json!(3));
    assert!(covered.chunk_rate > 0.0 && covered.concurrency >= 4, "{covered:?}");
    let nothing = Calibration { bound: Bound { p50: Span::default(), p99: Span::default() }, ..calibration };
    assert_eq!(nothing.covered(), None);
    assert_eq!(nothing.instrument()["covered"], json!(null));
}

#[test]
fn the_table_has_a_row_for_each_point_and_metric_with_the_machine() {
    let table = small(wide()).table().unwrap();
    assert_eq!(table.rows(), 15);
    let metrics: Vec<_> = table.text("metric").unwrap().into_iter().take(5).flatten().collect();
    assert_eq!(metrics, ["ttft", "e2e", "icl", "stamp", "send_lag"]);
    assert_eq!(table.unit("cpu_per_chunk").as_deref(), Some("us"));
    assert!(table.names().iter().all(|name| table.description(name).is_some()));
    assert!(table.boolean("within_bound").unwrap().iter().all(|kept| *kept == Some(true)));
}

#[test]
fn a_calibrate_stage_checks_its_grid_and_fills_in_what_is_not_said() {
    struct NoShelf;
    impl pipeline::stage::Library for NoShelf {
        fn find(&self, _: &str, _: &str) -> Option<serde_json::Value> {
            None
        }
        fn names(&self, _: &str) -> Vec<String> {
            Vec::new()
        }
    }
    let kind = Calibrate::default();
    let full = kind.canonical(&json!({"concurrency": [2], "gap": ["1000 us"]}), &NoShelf).unwrap();
    assert_eq!((&full["gap"], &full["bound"]["p99"]), (&json!(["1 ms"]), &json!("20 ms")));
    assert_eq!(kind.canonical(&full, &NoShelf).unwrap(), full);
    let wrong = kind.canonical(&json!({"rate": [0.0], "tokens": 1}), &NoShelf).unwrap_err();
    assert_eq!(wrong.len(), 2);
}

#[test]
fn a_run_states_how_late_its_stamps_may_be() {
    let run = Run { arrival: Arrival::Constant(Rate { rate: 200.0 }), requests: 40, ..Run::default() };
    let (result, _server) = run.send();
    let health = result.cell.health.clone().unwrap();
    // 40 arrivals over 195 ms: a probe every 5 ms has nearly as many ticks.
    assert!(health.probes >= 38, "{health:?}");
    let [p50, p99, max] = health.wake_lag_ms.unwrap();
    assert!(p50 <= p99 && p99 <= max);
    assert!(health.stamp_error_bound_ms.unwrap() >= p99);
    assert!(health.verdict.is_some());
    assert!(health.chunks_per_read.unwrap() >= 1.0);
    let cell = tables(&run.spec(), &result).unwrap().into_iter().find(|(name, _)| *name == "cell").unwrap().1;
    assert_eq!(cell.float("stamp_error_bound").unwrap(), [health.stamp_error_bound_ms]);
    assert_eq!(cell.text("client_verdict").unwrap(), [health.verdict.map(|v| v.word())]);
    assert_eq!(cell.unit("wake_lag_p99").as_deref(), Some("ms"));
}

#[test]
fn an_unknown_argument_of_the_server_is_an_error_of_the_calibration() {
    let wrong = Launcher { arguments: vec!["--nonsense".into(), "1".into()], ..launcher() };
    let error = wrong.start(&[]).unwrap_err().to_string();
    assert!(error.ends_with("ended without telling where it serves"), "{error}");
}
