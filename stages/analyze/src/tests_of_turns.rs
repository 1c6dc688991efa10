//! Sides that were measured one after the other: the verdict says so.

use artifacts::{Scalar, Store};
use contract::synthetic;
use pipeline::{Done, Input, InputCell, Json};
use serde_json::json;

use crate::tests::{analyze, store, table, verification};

/// Two systems in six repetitions at one client, of which `fast` is half as fast again. `second` gives the start of a cell in seconds by its
/// system and repetition; `None` if it is not recorded.
fn study(store: &Store, second: impl Fn(&str, i64) -> Option<i64>) -> Vec<Input> {
    let mut cells: Vec<InputCell> = Vec::new();
    for (system, window) in [("fast", 2_000), ("slow", 3_000)] {
        for rep in 1..=6 {
            let at = [
                ("system", Scalar::Text(system.to_owned())),
                ("rep", Scalar::Int(rep)),
                ("clients", Scalar::Int(1)),
            ];
            let rows = crate::tests_of_conditions::requests(window + (7 * rep * rep + window) % 31);
            let chunks: Vec<_> = rows.iter().flat_map(synthetic::even_chunks).collect();
            let mut tables = vec![
                ("requests", synthetic::requests_table(&rows).unwrap()),
                ("chunks", synthetic::chunks_table(&chunks).unwrap()),
            ];
            if let Some(second) = second(system, rep) {
                let facts = synthetic::facts_table(4, 0, second * 1_000_000_000).unwrap();
                tables.push(("cell", facts));
            }
            cells.push(synthetic::cell(store, &at, Json::Null, &tables).unwrap());
        }
    }
    vec![
        synthetic::input("ladder", "load", cells),
        verification(store, &[]),
    ]
}

fn judged(second: impl Fn(&str, i64) -> Option<i64>, margin: &Json) -> Done {
    let (_folder, store) = store();
    let inputs = study(&store, second);
    let pair = json!({"axis": "system", "a": "fast", "b": "slow"});
    let paired = json!({"operator": "paired-comparison", "from": "cells", "pair": pair, "unit": ["rep"],
                        "columns": ["output_throughput"], "margin": margin});
    let mut unpaired = paired.clone();
    unpaired["operator"] = json!("unpaired-comparison");
    unpaired["over"] = json!(["rep"]);
    unpaired["by"] = json!(["clients"]);
    let ranked = json!({"operator": "ranking", "from": "cells", "among": "system", "better": "higher",
                        "column": "output_throughput", "unit": ["rep"]});
    let crossed = json!({"operator": "crossover", "from": "cells", "pair": pair, "ladder": "clients", "unit": ["rep"],
                         "column": "output_throughput", "better": "higher"});
    let cells = json!({"operator": "cell-summary"});
    let tables = json!({"cells": cells, "paired": paired, "unpaired": unpaired, "ranked": ranked, "crossed": crossed});
    analyze(&store, &inputs, &tables).unwrap()
}

fn text(done: &Done, name: &str, column: &str) -> String {
    let column = table(done, name).text(column).unwrap()[0].map(str::to_owned);
    column.unwrap_or_default()
}

/// The systems in turns, the repetitions in order, and each system first in every other one.
fn in_turns(system: &str, rep: i64) -> Option<i64> {
    Some(2 * rep + i64::from((system == "slow") == (rep % 2 == 0)))
}

fn slow_after_fast(system: &str, rep: i64) -> Option<i64> {
    Some(rep + if system == "slow" { 100 } else { 0 })
}

const NOTE: &str = "fast was measured before slow, so the effect contains any drift of the machine";

#[test]
fn a_verdict_over_sides_measured_one_after_the_other_says_so_and_names_the_starts() {
    let done = judged(slow_after_fast, &json!({}));
    for name in ["paired", "unpaired"] {
        assert_eq!(text(&done, name, "verdict"), "different", "{name}");
        let reason = text(&done, name, "verdict_reason");
        assert!(reason.ends_with(NOTE), "{name}: {reason}");
    }
    assert!(text(&done, "ranked", "evidence").ends_with(NOTE));
    assert!(text(&done, "crossed", "resolution").ends_with(NOTE));
    for name in ["paired", "unpaired", "ranked", "crossed"] {
        let lineage = table(&done, &format!("{name}.lineage"));
        let outputs = lineage.text("source_output").unwrap();
        assert!(outputs.contains(&Some("cell")), "{name}");
    }
    // The other way round, and of equal sides: a drift can also hide a difference.
    let reversed = |system: &str, rep: i64| slow_after_fast(system, -rep).map(|second| -second);
    let done = judged(reversed, &json!({"output_throughput": 0.9}));
    let reason = text(&done, "paired", "verdict_reason");
    assert_eq!(text(&done, "paired", "verdict"), "equivalent");
    assert!(reason.contains("slow was measured before fast"), "{reason}");
}

/// Each table, and its column that has the note about the order.
const NOTED: [(&str, &str); 4] = [
    ("paired", "verdict_reason"),
    ("unpaired", "verdict_reason"),
    ("ranked", "evidence"),
    ("crossed", "resolution"),
];

#[test]
fn sides_measured_in_turns_or_at_unknown_times_have_no_note() {
    for second in [in_turns, |_: &str, _: i64| None, |_: &str, _: i64| Some(7)] {
        let done = judged(second, &json!({}));
        for (name, column) in NOTED {
            let said = text(&done, name, column);
            assert!(!said.contains("measured before"), "{name}: {said}");
        }
    }
}

#[test]
fn sides_that_are_nearly_apart_are_named_with_their_share() {
    // The first cell of `slow` started before the last one of `fast`: one of 36 pairs.
    let nearly = |system: &str, rep: i64| match (system, rep) {
        ("slow", 1) => Some(55),
        ("slow", _) => Some(1_000 + rep),
        _ => Some(10 * rep),
    };
    let done = judged(nearly, &json!({}));
    let reason = text(&done, "paired", "verdict_reason");
    let said = "fast was measured before slow (in 97 % of the pairs of cells)";
    assert!(reason.contains(said), "{reason}");
}

#[test]
fn a_side_that_came_first_in_each_unit_is_named_although_the_units_alternate() {
    let first = |system: &str, rep: i64| Some(2 * rep + i64::from(system == "slow"));
    let done = judged(first, &json!({}));
    let note = "fast was measured before slow in each of the 6 units (rep), so the effect contains any drift of the machine \
                within a unit";
    for (name, column) in NOTED {
        let said = text(&done, name, column);
        assert!(said.ends_with(note), "{name}: {said}");
        let lineage = table(&done, &format!("{name}.lineage"));
        let outputs = lineage.text("source_output").unwrap();
        assert!(outputs.contains(&Some("cell")), "{name}");
    }
    // One repetition the other way round is enough to separate the side from its place.
    let once = |system: &str, rep: i64| Some(2 * rep + i64::from((system == "slow") == (rep != 3)));
    let reason = text(&judged(once, &json!({})), "paired", "verdict_reason");
    assert!(!reason.contains("measured before"), "{reason}");
}
