//! What is left of a side, or of a cell, that lost something may flatter it.

use artifacts::{Column, Scalar, Store, Table};
use contract::{Request, RequestStatus, synthetic};
use pipeline::{CellStatus, Json};
use serde_json::json;

use crate::frame::{Absence, Frame, Level, Missing, Row, Spec};
use crate::published::{column, run};
use crate::tests::{analyze, store, table, verification};

/// Throughputs of two sides in ten blocks. Side `a` has no value in the first `lost` of them.
fn study(lost: i64, unit: &str) -> Frame {
    let sides = [("a", 120.0, 7), ("b", 100.0, 3)];
    let rows = (1..=10).flat_map(|block| {
        sides.map(|(side, mean, step)| {
            let lacks = side == "a" && block <= lost;
            let value = mean + ((step * block) % 10) as f64 / 3.0;
            let key = vec![Scalar::Text(side.to_owned()), Scalar::Int(block)];
            let value = match lacks {
                true => Scalar::Null,
                false => Scalar::Float(value),
            };
            Row::new(key, vec![value], Vec::new())
        })
    });
    let frame = Frame {
        level: Level::Cell,
        keys: vec!["side".to_owned(), "block".to_owned()],
        specs: vec![Spec::float("y", unit, "a value")],
        rows: rows.collect(),
        missing: Vec::new(),
    };
    frame.settle().unwrap()
}

/// Whether the lower and the upper end of an interval are there, and the reason.
fn ends(frame: &Frame, key: &[&str], stem: &str) -> ([bool; 2], String) {
    let end = |end: &str| column(frame, key, &format!("{stem}_{end}")) != Scalar::Null;
    let why = column(frame, key, &format!("{stem}_why")).to_string();
    ([end("low"), end("high")], why)
}

const OF_TWO: &str = "2 cells of a and 0 of b gave no result: if they failed because they were slow, the others flatter that side";

#[test]
fn an_interval_of_deltas_lacks_the_end_in_favor_of_the_side_that_lost_cells() {
    let deltas = |frame: Frame, a: &str, b: &str| {
        let parameters =
            json!({"from": "t", "pair": {"axis": "side", "a": a, "b": b}, "columns": ["y"]});
        let made = run("paired-deltas", &parameters, frame);
        ["y_ratio", "y_delta"].map(|stem| ends(&made, &[], stem))
    };
    for (unit, there) in [
        ("tok/s", [false, true]),
        ("ms", [true, false]),
        ("1", [false, false]),
    ] {
        let there = (there, OF_TWO.to_owned());
        assert_eq!(
            deltas(study(2, unit), "a", "b"),
            [there.clone(), there],
            "{unit}"
        );
    }
    // The other way round, the side that lost cells is the denominator.
    let [(there, _), _] = deltas(study(2, "tok/s"), "b", "a");
    assert_eq!(there, [true, false]);
    for lost in [0, 1] {
        let [(there, why), _] = deltas(study(lost, "tok/s"), "a", "b");
        assert_eq!((there, &*why), ([true, true], "null"), "{lost}");
    }
}

#[test]
fn the_mean_of_one_side_lacks_the_end_in_its_favor_if_it_lost_cells() {
    let parameters = json!({"from": "t", "over": ["block"], "columns": ["y"]});
    let missing = |absence| {
        let mut frame = study(0, "tok/s");
        let lost = |row: &Row| row.key[0].to_string() == "a" && row.key[1].as_f64() <= Some(2.0);
        let key = |row: &Row| {
            ["side", "block"]
                .map(str::to_owned)
                .into_iter()
                .zip(row.key.clone())
        };
        let listed = frame
            .rows
            .iter()
            .filter(|row| lost(row))
            .map(|row| Missing {
                at: key(row).collect(),
                why: "hung".to_owned(),
                absence,
            });
        frame.missing = listed.collect();
        frame.rows.retain(|row| !lost(row));
        frame
    };
    let why = "2 cells gave no result: if they failed because they were slow, the others flatter the figure";
    for frame in [study(2, "tok/s"), missing(Absence::Ended(CellStatus::Hung))] {
        let made = run("aggregate", &parameters, frame);
        assert_eq!(ends(&made, &["a"], "y_ci"), ([false, true], why.to_owned()));
        assert_eq!(ends(&made, &["b"], "y_ci").0, [true, true]);
    }
    // Cells that the experiment excludes are not lost.
    let made = run(
        "aggregate",
        &parameters,
        missing(Absence::Ended(CellStatus::Excluded)),
    );
    assert_eq!(ends(&made, &["a"], "y_ci").0, [true, true]);
    // A mean that counts without an interval, because nothing was replicated, no longer does.
    let alone = json!({"from": "t", "over": ["block"], "columns": ["y"], "unit": []});
    let made = run(
        "aggregate",
        &alone,
        missing(Absence::Ended(CellStatus::Hung)),
    );
    assert_eq!(
        ends(&made, &["a"], "y_ci"),
        ([false, false], why.to_owned())
    );
}

fn one_cell(
    store: &Store,
    rows: &[Request],
    parameters: Json,
    about: Vec<Column>,
) -> [pipeline::Input; 2] {
    let mut tables = vec![("requests", synthetic::requests_table(rows).unwrap())];
    if !about.is_empty() {
        tables.push(("cell", Table::new(about).unwrap()));
    }
    let at = [("rep", Scalar::Int(1))];
    let cell = synthetic::cell(store, &at, parameters, &tables).unwrap();
    [
        synthetic::input("ladder", "load", vec![cell]),
        verification(store, &[]),
    ]
}

/// Requests sent one after the other, the last of which have another status.
fn requests(n: i64, last: usize, status: RequestStatus) -> Vec<Request> {
    let mut rows: Vec<Request> = (1..=n).map(synthetic::request).collect();
    for (row, i) in rows.iter_mut().zip(0..) {
        let end = (i * 60 + 40 + 7 * i % 13) * 1_000_000;
        row.sent_ns = Some(i * 60_000_000);
        row.first_token_ns = Some(i * 60_000_000 + 10_000_000);
        (row.last_token_ns, row.done_ns) = (Some(end), Some(end));
        row.client_id = Some(0);
    }
    let from = rows.len() - last;
    for row in &mut rows[from..] {
        row.status = status;
    }
    rows
}

#[test]
fn a_cell_that_lost_many_requests_has_no_upper_ends_of_times() {
    let (_folder, store) = store();
    let settings = json!({"cells": {"operator": "cell-summary"}});
    for (lost, there) in [(0, true), (6, true), (7, false)] {
        let rows = requests(60, lost, RequestStatus::Timeout);
        let done = analyze(
            &store,
            &one_cell(&store, &rows, Json::Null, Vec::new()),
            &settings,
        );
        let cells = table(&done.unwrap(), "cells");
        let value = |name: &str| cells.float(name).unwrap()[0];
        assert!(value("e2e_latency_ms_p50_low").is_some(), "{lost}");
        assert_eq!(value("e2e_latency_ms_p50_high").is_some(), there, "{lost}");
        let refused = cells.text("intervals_refused").unwrap()[0];
        let says = refused.is_some_and(|r| r.contains("7 of 60 requests were lost"));
        assert_eq!(says, !there, "{lost}");
    }
}

#[test]
fn requests_abandoned_on_purpose_neither_meet_nor_miss_an_objective() {
    let (_folder, store) = store();
    let settings = json!({"slo": {"operator": "goodput", "objectives": [
        {"name": "fast", "all": [{"metric": "ttft_ms", "at-most": 100.0}]},
    ]}});
    let rate = |lost: usize, parameters: Json, status| {
        let rows = requests(20, lost, status);
        let done = analyze(
            &store,
            &one_cell(&store, &rows, parameters, Vec::new()),
            &settings,
        );
        let slo = table(&done.unwrap(), "slo");
        (
            slo.float("slo_pass_rate").unwrap()[0],
            slo.int("n_abandoned").unwrap()[0],
        )
    };
    let cancel = || json!({"cancel": {"share": 0.5, "after": "1 s"}});
    for lost in [0, 4, 10] {
        let (share, abandoned) = rate(lost, cancel(), RequestStatus::Cancelled);
        assert_eq!((share, abandoned), (Some(1.0), Some(lost as i64)));
    }
    assert_eq!(
        rate(20, cancel(), RequestStatus::Cancelled),
        (None, Some(20))
    );
    // Without the setting, someone else ended them; other failures count in any case.
    assert_eq!(
        rate(5, Json::Null, RequestStatus::Cancelled),
        (Some(0.75), Some(0))
    );
    assert_eq!(
        rate(5, cancel(), RequestStatus::Timeout),
        (Some(0.75), Some(0))
    );
}

#[test]
fn requests_that_were_due_and_never_sent_meet_no_objective() {
    let (_folder, store) = store();
    let settings = json!({"slo": {"operator": "goodput", "objectives": [
        {"name": "fast", "all": [{"metric": "ttft_ms", "at-most": 100.0}]},
    ]}});
    let rows = requests(20, 0, RequestStatus::Ok);
    let about = vec![Column::int("unsent_requests", [Some(60)])];
    let cell = one_cell(&store, &rows, Json::Null, about);
    let slo = table(&analyze(&store, &cell, &settings).unwrap(), "slo");
    assert_eq!(slo.int("n_unsent").unwrap(), [Some(60)]);
    assert_eq!(slo.float("slo_pass_rate").unwrap(), [Some(0.25)]);
}

#[test]
fn the_row_about_a_cell_says_whether_clients_sent_in_turn() {
    let (_folder, store) = store();
    let settings = json!({"cells": {"operator": "cell-summary"}});
    let arrivals = |change: fn(&mut Request), about: Vec<Column>| {
        let mut rows = requests(20, 0, RequestStatus::Ok);
        rows.iter_mut().for_each(change);
        let done = analyze(
            &store,
            &one_cell(&store, &rows, Json::Null, about),
            &settings,
        );
        let cells = table(&done.unwrap(), "cells");
        cells.text("arrivals").unwrap()[0].map(str::to_owned)
    };
    let arrival = |word: &str| vec![Column::text("arrival", [Some(word)])];
    // Imported rows name no client, and some have no schedule.
    let bare = |row: &mut Request| row.client_id = None;
    let due = |row: &mut Request| (row.client_id, row.scheduled_ns) = (None, row.sent_ns);
    for (change, about, expected) in [
        (
            bare as fn(&mut Request),
            arrival("closed-loop"),
            Some("closed"),
        ),
        (bare, arrival("sequential"), Some("closed")),
        (
            bare,
            vec![Column::int("clients", [Some(4)])],
            Some("closed"),
        ),
        (bare, arrival("poisson"), Some("open")),
        (bare, vec![Column::float("rate", [Some(4.0)])], Some("open")),
        (bare, Vec::new(), None),
        (due, Vec::new(), Some("open")),
        (|_| {}, Vec::new(), Some("closed")),
    ] {
        let words = arrivals(change, about.clone());
        assert_eq!(words.as_deref(), expected, "{about:?}");
    }
}
