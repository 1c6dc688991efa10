//! Sides that were measured under different conditions get no verdict.

use artifacts::{Column, Scalar, Store, Table};
use contract::{Request, synthetic};
use pipeline::{Done, Input, InputCell, Json};
use serde_json::json;

use crate::tests::{analyze, canonical, store, table, verification};

/// Four measured requests of ten tokens each, the last of which ends after `window_ms`.
pub(crate) fn requests(window_ms: i64) -> Vec<Request> {
    (0..4_i64)
        .map(|id| {
            let end = window_ms * 1_000_000 * (id + 1) / 4;
            Request {
                first_token_ns: Some(1_000_000),
                last_token_ns: Some(end),
                done_ns: Some(end),
                output_tokens: Some(10),
                ..synthetic::request(id)
            }
        })
        .collect()
}

/// A machine with eight processors. The server keeps two of them busy, and other programs a share of all.
fn telemetry(foreign: f64) -> [(&'static str, Table); 2] {
    let at = || Column::int("at_ns", [Some(0), Some(100_000_000), Some(200_000_000)]);
    let busy = Some(0.25 + foreign);
    let host = Table::new(vec![
        at(),
        Column::float("cpu_busy", [None, busy, busy]),
        Column::int("runnable", [Some(2); 3]),
        Column::int("processors", [Some(8); 3]),
    ]);
    let processes = Table::new(vec![
        at(),
        Column::float("cpu", [None, Some(2.0), Some(2.0)]),
    ]);
    [
        ("host_telemetry", host.unwrap()),
        ("process_telemetry", processes.unwrap()),
    ]
}

/// Two systems at two levels in five blocks; `fast` is half as fast again. `foreign` gives the share that other
/// programs used beside a cell, by its system, level and block.
pub(crate) fn study(store: &Store, foreign: impl Fn(&str, i64, i64) -> f64) -> Vec<Input> {
    let mut cells: Vec<InputCell> = Vec::new();
    for (system, window) in [("fast", 2_000), ("slow", 3_000)] {
        for level in [1, 4] {
            for block in 1..=5 {
                let at = [
                    ("system", Scalar::Text(system.to_owned())),
                    ("clients", Scalar::Int(level)),
                    ("block", Scalar::Int(block)),
                ];
                let rows = requests(window + 20 * block + (7 * block * block + 3 * window) % 31);
                let mut tables = vec![("requests", synthetic::requests_table(&rows).unwrap())];
                let chunks: Vec<_> = rows.iter().flat_map(synthetic::even_chunks).collect();
                tables.push(("chunks", synthetic::chunks_table(&chunks).unwrap()));
                tables.extend(telemetry(foreign(system, level, block)));
                cells.push(synthetic::cell(store, &at, Json::Null, &tables).unwrap());
            }
        }
    }
    vec![
        synthetic::input("ladder", "load", cells),
        verification(store, &[]),
    ]
}

fn tables(may_differ: &Json) -> Json {
    let pair = json!({"axis": "system", "a": "fast", "b": "slow"});
    let compared = json!({"operator": "paired-comparison", "from": "cells", "pair": pair,
                          "columns": ["output_throughput"], "conditions-may-differ": may_differ});
    let mut cellwise = compared.clone();
    cellwise["by"] = json!(["clients"]);
    let mut unpaired = compared.clone();
    unpaired["operator"] = json!("unpaired-comparison");
    unpaired["over"] = json!(["block", "clients"]);
    json!({
        "cells": {"operator": "cell-summary"},
        "compared": compared,
        "cellwise": cellwise,
        "unpaired": unpaired,
        "ranked": {"operator": "ranking", "from": "cells", "among": "system", "better": "higher",
                   "column": "output_throughput", "conditions-may-differ": may_differ},
        "crossing": {"operator": "crossover", "from": "cells", "pair": pair, "ladder": "clients", "better": "higher",
                     "column": "output_throughput", "conditions-may-differ": may_differ},
    })
}

fn text(done: &Done, name: &str, column: &str, row: usize) -> String {
    let column = table(done, name).text(column).unwrap()[row].map(str::to_owned);
    column.unwrap_or_default()
}

/// The share that other programs use on a quiet machine, which varies slightly from cell to cell.
fn quiet(level: i64, block: i64) -> f64 {
    0.002 * ((level + 3 * block) % 5) as f64
}

#[test]
fn a_side_measured_beside_other_programs_has_no_verdict_and_the_samples_are_its_sources() {
    let (_folder, store) = store();
    let busy =
        |system: &str, level, block| quiet(level, block) + if system == "slow" { 0.3 } else { 0.0 };
    let inputs = study(&store, busy);
    let done = analyze(&store, &inputs, &tables(&json!([]))).unwrap();
    let said = "the sides were measured under different conditions: foreign-load: 0.00400 with fast, 0.304 with slow \
                (share of all processors that other programs used); p 0";
    for name in ["compared", "unpaired", "cellwise"] {
        assert_eq!(text(&done, name, "verdict", 0), "undecidable", "{name}");
        assert_eq!(text(&done, name, "verdict_reason", 0), said, "{name}");
    }
    assert_eq!(
        text(&done, "crossing", "resolution", 0),
        format!("undecidable: {said}")
    );
    let evidence = text(&done, "ranked", "evidence", 0);
    assert!(evidence.ends_with(said), "{evidence}");
    assert_eq!(text(&done, "ranked", "not_told_apart_from", 0), "slow");
    for name in ["compared", "unpaired", "cellwise", "crossing", "ranked"] {
        let lineage = table(&done, &format!("{name}.lineage"));
        let outputs = lineage.text("source_output").unwrap();
        assert!(outputs.contains(&Some("host_telemetry")), "{name}");
        assert!(outputs.contains(&Some("process_telemetry")), "{name}");
    }
}

#[test]
fn sides_measured_alike_are_judged_and_so_are_sides_that_may_differ() {
    let (_folder, store) = store();
    let alike = study(&store, |_, level, block| quiet(level, block));
    let shared = study(&store, |_, level, block| {
        quiet(level, block) + 0.1 * block as f64
    });
    let busy =
        |system: &str, level, block| quiet(level, block) + if system == "slow" { 0.3 } else { 0.0 };
    let declared = study(&store, busy);
    for (inputs, may_differ) in [
        (alike, json!([])),
        // Other programs came and went beside both sides of a block.
        (shared, json!([])),
        (declared, json!(["foreign-load"])),
    ] {
        let done = analyze(&store, &inputs, &tables(&may_differ)).unwrap();
        for name in ["compared", "unpaired", "cellwise"] {
            assert_eq!(text(&done, name, "verdict", 0), "different", "{name}");
        }
        assert_eq!(text(&done, "ranked", "not_told_apart_from", 0), "");
        let outputs = table(&done, "compared.lineage");
        let outputs = outputs.text("source_output").unwrap();
        assert!(!outputs.contains(&Some("host_telemetry")));
    }
}

#[test]
fn other_programs_beside_one_level_bar_the_verdict_of_that_level_alone() {
    let (_folder, store) = store();
    let busy = |system: &str, level, block| {
        let more = system == "slow" && level == 4;
        // At the other level the other side suffered slightly more, so that the total is balanced.
        let less = system == "fast" && level == 1;
        quiet(level, block)
            + if more {
                0.09
            } else if less {
                0.04
            } else {
                0.0
            }
    };
    let inputs = study(&store, busy);
    let done = analyze(&store, &inputs, &tables(&json!([]))).unwrap();
    assert_eq!(text(&done, "compared", "verdict", 0), "different");
    let verdicts = [0, 1].map(|row| text(&done, "cellwise", "verdict", row));
    assert_eq!(verdicts, ["different", "undecidable"]);
    let reason = text(&done, "cellwise", "verdict_reason", 1);
    assert!(reason.contains("foreign-load: 0.00"), "{reason}");
}

#[test]
fn a_condition_that_does_not_exist_is_reported_with_the_nearest_name() {
    let problems = canonical(&tables(&json!(["foreign-loads"]))).unwrap_err();
    assert_eq!(problems.len(), 5);
    assert_eq!(problems[0].message, "unknown condition `foreign-loads`");
    assert_eq!(
        problems[0].hint.as_deref(),
        Some("did you mean `foreign-load`?")
    );
}
