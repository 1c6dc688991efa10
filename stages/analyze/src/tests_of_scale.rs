//! A whole study: the same bytes with any number of threads, whether rows are held or read again.

use artifacts::Store;
use contract::CellRows;
use contract::synthetic_grid::{Grid, verification};
use pipeline::{Content, Control, Done, Input, Json};
use serde_json::json;

use crate::intake::HOLD;
use crate::kind::run_holding;
use crate::tests::{canonical, everything, inputs, store, stored};

fn bytes(done: &Done) -> Vec<(String, Vec<u8>)> {
    let bytes_of = |content: &Content| match content {
        Content::Bytes(bytes) => bytes.clone(),
        Content::File(path) => panic!("{} is a file", path.display()),
    };
    done.outputs
        .iter()
        .map(|o| (o.name.clone(), bytes_of(&o.content)))
        .collect()
}

fn at(
    threads: usize,
    hold: u64,
    tables: &Json,
    inputs: &[Input],
    store: &Store,
) -> Vec<(String, Vec<u8>)> {
    let parameters = canonical(tables).unwrap();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .unwrap();
    let run = || {
        run_holding(
            &parameters,
            inputs,
            stored(store),
            164,
            &Control::quiet(),
            hold,
            false,
        )
        .unwrap()
    };
    bytes(&pool.install(run))
}

/// Returns the limit at which the answers of all cells are held, and nothing else.
fn answers_alone(inputs: &[Input]) -> u64 {
    let cells = inputs.iter().filter(|input| input.kind == "load");
    let cells = cells.flat_map(|input| &input.cells);
    let (all, answers) = cells.fold((0, 0), |(all, answers), cell| {
        let of_cell = CellRows::weight_of_answers(cell);
        (all + CellRows::weight(cell), answers + of_cell)
    });
    assert!(answers < all);
    answers
}

fn without_chunks(inputs: &mut [Input]) {
    for cell in &mut inputs[0].cells {
        cell.outputs.remove("chunks").unwrap();
    }
}

#[test]
fn a_grid_of_two_engines_gives_the_same_bytes_at_one_and_at_sixteen_threads_held_or_not() {
    let (_folder, store) = store();
    let grid = Grid {
        models: 2,
        rungs: 2,
        reps: 2,
        requests_per_client: 3,
    };
    let (load, rows) = grid.load(&store).unwrap();
    assert_eq!((load.cells.len(), rows), (160, 2 * 2 * 5 * 2 * 2 * (3 + 6)));
    let inputs = [load, verification(&store, "grid").unwrap()];
    let tables = json!({
        "cells": {"operator": "cell-summary"},
        "pooled": {"operator": "distribution", "over": ["rep", "phase"]},
        "means": {"operator": "aggregate", "from": "cells", "over": ["rep"], "columns": ["output_throughput"]},
        "efficiency": {"operator": "parallel-efficiency", "from": "means", "ladder": "clients",
            "column": "output_throughput_mean"},
        "comparison": {"operator": "paired-comparison", "from": "means", "by": ["workload"],
            "unit": ["model"], "pair": {"axis": "engine", "a": "alpha", "b": "beta"},
            "columns": ["output_throughput_mean"], "bootstrap": "percentile", "resamples": 500},
    });
    let one = at(1, HOLD, &tables, &inputs, &store);
    assert_eq!(one.len(), 10);
    let answers = answers_alone(&inputs);
    for (threads, hold) in [(16, HOLD), (1, 0), (16, 0), (1, answers), (16, answers)] {
        assert!(
            at(threads, hold, &tables, &inputs, &store) == one,
            "{threads} threads, {hold} held"
        );
    }
}

#[test]
fn every_operator_gives_the_same_bytes_from_rows_that_are_held_and_from_rows_read_again() {
    let (_folder, store) = store();
    let inputs = inputs(&store);
    let held = at(2, HOLD, &everything(), &inputs, &store);
    for hold in [0, answers_alone(&inputs)] {
        assert!(at(2, hold, &everything(), &inputs, &store) == held);
    }
}

#[test]
fn distributions_read_column_by_column_are_those_of_whole_rows() {
    let (_folder, store) = store();
    let mut inputs = inputs(&store);
    without_chunks(&mut inputs);
    let metrics: Vec<&str> = contract::METRICS
        .iter()
        .map(|m| m.name)
        .chain(["icl_ms", "itl_ms"])
        .collect();
    let tables = json!({
        "each": {"operator": "distribution", "metrics": metrics},
        "pooled": {"operator": "distribution", "metrics": metrics, "over": ["rep"]},
    });
    let held = at(2, HOLD, &tables, &inputs, &store);
    for threads in [1, 16] {
        assert!(
            at(threads, 0, &tables, &inputs, &store) == held,
            "{threads} threads"
        );
    }
}
