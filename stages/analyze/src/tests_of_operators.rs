//! Operators against values computed by hand, a file for each family. This file has the properties of all operators.

mod comparisons;
mod contests;
mod losses;
mod pooling;
mod requests;

use artifacts::Scalar;
use contract::synthetic;
use pipeline::{Content, Done};
use serde_json::json;

use crate::frame::{Frame, Level, Row, Spec};
use crate::published::column;
use crate::tests::{analyze, cell, everything, inputs, store, verification};

fn every_byte(done: &Done) -> Vec<(String, Vec<u8>)> {
    done.outputs
        .iter()
        .map(|o| match &o.content {
            Content::Bytes(bytes) => (o.name.clone(), bytes.clone()),
            _ => panic!("{} is a file", o.name),
        })
        .collect()
}

#[test]
fn a_whole_analysis_gives_the_same_bytes_at_one_and_at_sixteen_threads_twice_in_a_row() {
    let (_folder, store) = store();
    let inputs = inputs(&store);
    let at = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| every_byte(&analyze(&store, &inputs, &everything()).unwrap()))
    };
    let one = at(1);
    assert!(one.len() >= 2 * crate::pages().len());
    for threads in [16, 1, 16] {
        assert!(at(threads) == one, "{threads} threads");
    }
}

/// A table of one column over two axes.
fn grid(values: &[(&str, i64, Option<f64>)]) -> Frame {
    let row = |(side, n, value): &(&str, i64, Option<f64>)| {
        let key = vec![Scalar::Text((*side).to_owned()), Scalar::Int(*n)];
        Row::new(
            key,
            vec![value.map_or(Scalar::Null, Scalar::Float)],
            Vec::new(),
        )
    };
    let frame = Frame {
        level: Level::Cell,
        keys: vec!["side".to_owned(), "n".to_owned()],
        specs: vec![Spec::float("y", "ms", "a value")],
        rows: values.iter().map(row).collect(),
        missing: Vec::new(),
    };
    frame.settle().unwrap()
}

fn float(frame: &Frame, key: &[&str], name: &str) -> Option<f64> {
    column(frame, key, name).as_f64()
}

#[test]
fn an_axis_named_like_a_column_is_refused_with_a_remedy() {
    let (_folder, store) = store();
    let cells = vec![cell(
        &store,
        &[("n_ok", Scalar::Int(1))],
        &[synthetic::request(1)],
    )];
    let inputs = [
        synthetic::input("ladder", "load", cells),
        verification(&store, &[]),
    ];
    let failure = analyze(
        &store,
        &inputs,
        &json!({"cells": {"operator": "cell-summary"}}),
    )
    .err()
    .unwrap();
    assert_eq!(
        failure.reason,
        "`n_ok` is both an axis and a column of `cell-summary`"
    );
    assert_eq!(failure.hint.as_deref(), Some("give the axis another name"));
}

#[test]
fn an_axis_may_have_the_name_of_a_column_of_results() {
    let rows = [
        ("small", 1, 10.0),
        ("small", 2, 16.0),
        ("small", 4, 22.0),
        ("small", 8, 27.0),
    ];
    let row = |(model, clients, y): (&str, i64, f64)| {
        let key = vec![Scalar::Text(model.to_owned()), Scalar::Int(clients)];
        Row::new(key, vec![Scalar::Float(y)], Vec::new())
    };
    let frame = Frame {
        level: Level::Cell,
        keys: vec!["model".to_owned(), "clients".to_owned()],
        specs: vec![Spec::float("y", "tok/s", "throughput")],
        rows: rows.map(row).to_vec(),
        missing: Vec::new(),
    };
    let given =
        json!({"from": "t", "ladder": "clients", "column": "y", "model": "michaelis-menten"});
    let made = crate::make::made(&[("law", "fit", given)], frame, &json!(null)).unwrap();
    let law = &made["law"];
    assert_eq!(law.keys, ["model", "parameter"]);
    assert_eq!(
        law.value(0, "fit_model").unwrap().to_string(),
        "vmax · x ÷ (k + x)"
    );
    assert!(law.tables("fit", "{}").is_ok());
}
