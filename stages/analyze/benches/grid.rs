//! The full analysis of a two-engine grid of 1,800 cells and 189,000 rows: from Parquet in the
//! store to Parquet in the store. Target: at most 1.0 s on two cores.
//!
//! `cargo bench -p analyze --bench grid`; a number after `--` is the number of threads (2).

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]

mod common;

use std::time::Instant;

use artifacts::Store;
use contract::synthetic_grid::{Grid, verification};
use pipeline::{Content, Input, Json};
use serde_json::json;

use crate::common::{analyze, cpu_seconds, peak_mib};

/// The tables of a published two-engine study.
fn tables() -> Json {
    json!({
        "cells": {"operator": "cell-summary", "quantiles": "all"},
        "means": {"operator": "aggregate", "from": "cells", "over": ["rep"],
            "columns": ["output_throughput", "ttft_ms_p50", "e2e_latency_ms_p95"]},
        "efficiency": {"operator": "parallel-efficiency", "from": "means", "ladder": "clients",
            "column": "output_throughput_mean"},
        "multipliers": {"operator": "latency-multipliers", "from": "means", "ladder": "clients",
            "columns": ["e2e_latency_ms_p95_mean"]},
        "by_model": {"operator": "aggregate", "from": "efficiency", "over": ["workload", "phase"],
            "columns": ["parallel_efficiency"]},
        "by_workload": {"operator": "aggregate", "from": "efficiency", "over": ["model", "phase"],
            "columns": ["parallel_efficiency"]},
        "boundary": {"operator": "breakdown", "rule": "efficiency below 0.65", "ladder": "clients",
            "any": [{"table": "efficiency", "column": "parallel_efficiency", "below": 0.65}]},
        "scaled": {"operator": "sql", "keys": ["engine", "model", "workload", "clients", "phase"],
            "query": "select engine, model, workload, clients, phase, parallel_efficiency from efficiency where clients > 1"},
        "comparison": {"operator": "paired-comparison", "from": "scaled", "by": ["workload"],
            "average": ["phase"], "unit": ["model"], "pair": {"axis": "engine", "a": "alpha", "b": "beta"},
            "columns": ["parallel_efficiency"], "bootstrap": "percentile", "resamples": 10_000},
        "wins": {"operator": "wins", "from": "scaled", "among": "engine", "by": ["workload"],
            "column": "parallel_efficiency", "better": "higher", "tie-within": 0.005},
    })
}

fn main() {
    // cargo passes `--bench`.
    let threads = std::env::args()
        .find_map(|a| a.parse::<usize>().ok())
        .unwrap_or(2);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .expect("threads start");
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(&folder.path().join("store")).expect("a store");
    let (load, rows) = Grid::FULL.load(&store).expect("the store takes the cells");
    let (cells, files) = (
        load.cells.len(),
        load.cells.iter().map(|c| c.outputs.len()).sum::<usize>(),
    );
    let bytes: u64 = load
        .cells
        .iter()
        .flat_map(|c| c.outputs.values())
        .map(|o| o.bytes)
        .sum();
    println!(
        "{cells} cells, {rows} measured rows, {files} Parquet files of {:.1} MB in all",
        bytes as f64 / 1e6
    );
    let inputs: Vec<Input> = vec![
        load,
        verification(&store, "grid").expect("the store takes it"),
    ];
    let mut walls = Vec::new();
    for _ in 0..7 {
        let (start, cpu) = (Instant::now(), cpu_seconds());
        let done = pool.install(|| analyze(&tables(), &inputs, &store, folder.path()));
        for output in &done.outputs {
            let Content::Bytes(bytes) = &output.content else {
                panic!("{} is a file", output.name)
            };
            store.put(bytes).expect("the store takes the table");
        }
        let wall = start.elapsed().as_secs_f64();
        walls.push(wall);
        println!(
            "  {wall:.3} s wall, {:.2} s CPU, {} outputs",
            cpu_seconds() - cpu,
            done.outputs.len()
        );
    }
    walls.sort_by(f64::total_cmp);
    println!(
        "{threads} threads: best {:.3} s, median {:.3} s, peak {:.0} MiB",
        walls[0],
        walls[walls.len() / 2],
        peak_mib()
    );
}
