//! Studies with several tables of verdicts: they share one level, and lose as little power to that as possible.

use std::collections::BTreeMap;

use artifacts::Scalar;
use pipeline::{Json, StageKind};
use serde_json::json;

use crate::awkward::draw::Noise;
use crate::frame::{Frame, Level, Row, Spec};
use crate::make::made;
use crate::tests_of_nulls::{any, bound};

/// The name, operator and parameters of a table, for [`made`].
type Table = (&'static str, &'static str, Json);

fn pair() -> Json {
    json!({"axis": "system", "a": "a", "b": "b"})
}

fn compared(name: &'static str, columns: &[&str], by: &[&str]) -> Table {
    let parameters =
        json!({"from": "t", "pair": pair(), "columns": columns, "by": by, "family": "study"});
    (name, "paired-comparison", parameters)
}

/// Two comparisons, one of which repeats the other cell by cell, a crossover on the same ladder, a ranking of three
/// systems, and three tables of one metric each.
fn many() -> Vec<Table> {
    let crossing = json!({"from": "t", "pair": pair(), "ladder": "clients", "column": "m0",
        "better": "higher", "family": "study"});
    let order = json!({"from": "t", "among": "system", "column": "m1", "better": "lower",
        "family": "study"});
    vec![
        compared("whole", &["m0", "m1"], &[]),
        compared("cellwise", &["m0", "m1"], &["clients"]),
        ("crossing", "crossover", crossing),
        ("order", "ranking", order),
        compared("third", &["m2"], &[]),
        compared("fourth", &["m3"], &[]),
        compared("fifth", &["m4"], &["clients"]),
    ]
}

const SYSTEMS: [&str; 3] = ["a", "b", "c"];
const LADDER: [i64; 3] = [1, 4, 16];

/// One study of five blocks; `effect` returns the factor for a number by system, level and metric.
fn study(noise: &mut Noise, effect: impl Fn(&str, i64, usize) -> f64) -> Frame {
    let mut rows = Vec::new();
    for block in 1..=5 {
        for system in SYSTEMS {
            let launch: Vec<f64> = (0..5).map(|_| 0.03 * noise.normal()).collect();
            for clients in LADDER {
                let value = |(metric, launch): (usize, &f64)| {
                    let log = launch + 0.015 * noise.normal();
                    Scalar::Float(100.0 * log.exp() * effect(system, clients, metric))
                };
                let values = launch.iter().enumerate().map(value).collect();
                let key = vec![
                    Scalar::Text(system.to_owned()),
                    Scalar::Int(clients),
                    Scalar::Int(block),
                ];
                rows.push(Row::new(key, values, Vec::new()));
            }
        }
    }
    let frame = Frame {
        level: Level::Cell,
        keys: ["system", "clients", "block"].map(str::to_owned).to_vec(),
        specs: (0..5)
            .map(|i| Spec::float(format!("m{i}"), "ms", "a value"))
            .collect(),
        rows,
        missing: Vec::new(),
    };
    frame.settle().unwrap()
}

fn no_effect(_: &str, _: i64, _: usize) -> f64 {
    1.0
}

fn finds(tables: &BTreeMap<String, Frame>, name: &str) -> bool {
    let frame = &tables[name];
    let ranked = (0..frame.rows.len()).any(|row| frame.number(row, "rank_shown") > Some(1.0));
    let won = |row: usize| {
        frame
            .value(row, "first_winner")
            .is_some_and(|w| *w != Scalar::Null)
    };
    ranked || (0..frame.rows.len()).any(won) || {
        frame.spec("verdict").is_some() && any(frame, "verdict", "different")
    }
}

/// The share of studies in which any table finds something.
fn any_table(tables: &[Table], studies: u32) -> f64 {
    let mut noise = Noise(12);
    let count = (0..studies).filter(|_| {
        let made = made(tables, study(&mut noise, no_effect), &Json::Null).unwrap();
        tables.iter().any(|(name, ..)| finds(&made, name))
    });
    count.count() as f64 / f64::from(studies)
}

#[test]
fn a_study_of_many_tables_has_a_false_verdict_in_some_table_as_rarely_as_one_of_one_table() {
    let shared = any_table(&many(), 300);
    assert!(shared <= bound(300), "{shared}");
    // The same tables, each at a separate level.
    let mut apart = many();
    for (_, _, parameters) in &mut apart {
        parameters["family"] = json!("table");
    }
    let apart = any_table(&apart, 300);
    assert!(apart > bound(300), "{apart}");
}

fn text(tables: &BTreeMap<String, Frame>, table: &str, row: usize, column: &str) -> String {
    tables[table].value(row, column).unwrap().to_string()
}

#[test]
fn a_table_of_parts_costs_the_whole_a_little_of_its_level_and_inherits_what_it_finds() {
    let mut noise = Noise(1);
    let all_rows = |_: &str, _: i64, _: usize| 1.0;
    let tables = [
        compared("whole", &["m0"], &[]),
        compared("cellwise", &["m0"], &["clients"]),
    ];
    let null = made(&tables, study(&mut noise, all_rows), &Json::Null).unwrap();
    let level = |tables: &BTreeMap<String, Frame>, table: &str| {
        tables[table].number(0, "family_level").unwrap()
    };
    assert!((level(&null, "whole") - 0.046).abs() < 1e-12);
    assert!((level(&null, "cellwise") - 0.004 / 3.0).abs() < 1e-12);
    assert_eq!(
        text(&null, "whole", 0, "family"),
        "the study at 5 %, 4 tests in whole, cellwise: m0 (1 test)"
    );
    assert_eq!(
        text(&null, "cellwise", 0, "family"),
        "the study at 5 %, 4 tests in whole, cellwise: m0 by clients (3 tests), parts of whole"
    );
    let faster = |system: &str, _: i64, _: usize| if system == "a" { 1.5 } else { 1.0 };
    let tables = made(&tables, study(&mut noise, faster), &Json::Null).unwrap();
    // The whole differs, so not all of its parts are equal, and the level is divided by two. After two parts are found,
    // the third has the whole level.
    let levels = (0..3).map(|row| tables["cellwise"].number(row, "family_level").unwrap());
    let mut levels: Vec<f64> = levels.collect();
    levels.sort_by(f64::total_cmp);
    for (level, expected) in levels.iter().zip([0.025, 0.025, 0.05]) {
        assert!((level - expected).abs() < 1e-12, "{levels:?}");
    }
}

#[test]
fn parts_that_do_not_make_up_their_whole_share_its_level_among_all_of_them() {
    let faster = |system: &str, _: i64, _: usize| if system == "a" { 1.5 } else { 1.0 };
    let first_level = |change: &dyn Fn(&mut Json)| {
        let mut cellwise = compared("cellwise", &["m0"], &["clients"]);
        change(&mut cellwise.2);
        let tables = [compared("whole", &["m0"], &[]), cellwise];
        let tables = made(&tables, study(&mut Noise(1), faster), &Json::Null).unwrap();
        let levels = (0..3).map(|row| tables["cellwise"].number(row, "family_level").unwrap());
        levels.fold(1.0, f64::min)
    };
    assert!((first_level(&|_| ()) - 0.025).abs() < 1e-12);
    // The mean of a difference is 0 where the mean of a log ratio may not be.
    let other_scale = first_level(&|given| given["scale"] = json!("difference"));
    assert!((other_scale - 0.05 / 3.0).abs() < 1e-12);
    // A rank test has no mean, and with five units it decides nothing.
    let ranks = first_level(&|given| given["test"] = json!("wilcoxon"));
    assert!((ranks - 0.05 / 3.0).abs() < 1e-12);
}

#[test]
fn effects_that_cancel_in_the_whole_are_found_in_its_parts() {
    let mut noise = Noise(5);
    let crossing = |system: &str, clients: i64, _: usize| match (system, clients) {
        ("a", 1) => 1.6,
        ("a", 16) => 1.0 / 1.6,
        _ => 1.0,
    };
    let tables = [
        compared("whole", &["m0"], &[]),
        compared("cellwise", &["m0"], &["clients"]),
    ];
    let tables = made(&tables, study(&mut noise, crossing), &Json::Null).unwrap();
    assert_eq!(text(&tables, "whole", 0, "verdict"), "no evidence");
    let verdicts = [0, 1, 2].map(|row| text(&tables, "cellwise", row, "verdict"));
    assert_eq!(verdicts, ["different", "no evidence", "different"]);
}

#[test]
fn a_test_that_two_tables_make_counts_once() {
    let mut noise = Noise(1);
    let crossing = json!({"from": "t", "pair": pair(), "ladder": "clients", "column": "m0",
        "better": "higher", "family": "study"});
    let tables = [
        compared("cellwise", &["m0"], &["clients"]),
        ("crossing", "crossover", crossing),
    ];
    let tables = made(&tables, study(&mut noise, no_effect), &Json::Null).unwrap();
    assert_eq!(tables["cellwise"].number(0, "family_size"), Some(3.0));
    assert_eq!(
        text(&tables, "crossing", 0, "family"),
        "the study at 5 %, 3 tests in cellwise, crossing: m0 by clients (3 tests)"
    );
}

#[test]
fn checks_of_the_a_a_arm_have_a_level_of_their_own_and_take_none_from_the_study() {
    let mut noise = Noise(1);
    let mut control = compared("control", &["m0"], &[]);
    control.2["pair"] = json!({"axis": "system", "a": "c", "b": "b"});
    let tables = [compared("whole", &["m0"], &[]), control];
    let arm = json!({"control": {"axis": "system", "label": "c", "stands_for": "b"}});
    let made_tables = made(&tables, study(&mut noise, no_effect), &arm).unwrap();
    assert_eq!(
        text(&made_tables, "whole", 0, "family"),
        "the study at 5 %: m0 (1 test)"
    );
    assert_eq!(
        text(&made_tables, "control", 0, "family"),
        "checks at 5 %: m0 (1 test)"
    );
    for table in ["whole", "control"] {
        assert_eq!(made_tables[table].number(0, "family_level"), Some(0.05));
    }
    let without = made(&tables, study(&mut noise, no_effect), &Json::Null).unwrap();
    assert_eq!(without["whole"].number(0, "family_level"), Some(0.025));
}

#[test]
fn cells_that_decide_share_the_level_of_the_study() {
    let tables = json!({
        "cells": {"operator": "cell-summary"},
        "compared": {"operator": "paired-comparison", "from": "cells", "columns": ["output_throughput"],
                     "pair": {"axis": "system", "a": "a", "b": "b"}},
    });
    let parameters = crate::tests::canonical(&tables).unwrap();
    assert!(crate::Analyze.decides(&parameters));
    assert_eq!(parameters["tables"][1]["parameters"]["family"], "study");
    let summary = json!({"cells": {"operator": "cell-summary"}});
    assert!(!crate::Analyze.decides(&crate::tests::canonical(&summary).unwrap()));
    let shared = pipeline::Shared {
        cells: 2,
        control: None,
        on_one_launch: BTreeMap::new(),
    };
    let two = crate::Analyze.sharing(parameters, &shared);
    let mut noise = Noise(1);
    let whole = [compared("whole", &["m0"], &[])];
    let tables = made(&whole, study(&mut noise, no_effect), &two).unwrap();
    assert_eq!(tables["whole"].number(0, "family_level"), Some(0.025));
    assert_eq!(
        text(&tables, "whole", 0, "family"),
        "the study at 5 %, shared by 2 cells: m0 (1 test)"
    );
}

#[test]
fn a_comparison_made_of_verdicts_has_its_share_of_the_level() {
    let mut noise = Noise(1);
    let derived = json!({"query": "SELECT t.system, t.clients, t.block, t.m1 FROM t, whole",
        "keys": ["system", "clients", "block"]});
    let mut late = compared("late", &["m1"], &["clients"]);
    late.2["from"] = json!("derived");
    let whole = compared("whole", &["m0"], &[]);
    let tables = [whole, ("derived", "sql", derived), late];
    let tables = made(&tables, study(&mut noise, no_effect), &Json::Null).unwrap();
    assert_eq!(tables["whole"].number(0, "family_level"), Some(0.025));
    assert_eq!(tables["late"].number(0, "family_level"), Some(0.025 / 3.0));
    assert_eq!(
        text(&tables, "late", 0, "family"),
        "the study at 5 %, of which it has 2.5 %: m1 by clients (3 tests)"
    );
}
