//! Rankings, crossovers, breakdowns and monotonicity.

use artifacts::Scalar;
use pipeline::CellStatus;
use serde_json::json;

use super::{float, grid};
use crate::frame::{Absence, Missing, Row};
use crate::published::{column, run};

#[test]
fn a_curve_that_comes_back_over_the_threshold_is_reported() {
    // Below 0.65 at 16, above it again at 32: "first N below" and "the value at 32" disagree.
    let curve = [(1, 1.0), (2, 0.9), (4, 0.8), (16, 0.64), (32, 0.651)];
    let rows: Vec<_> = curve.iter().map(|(n, y)| ("a", *n, Some(*y))).collect();
    let parameters =
        json!({"from": "t", "ladder": "n", "column": "y", "expect": "falling", "threshold": 0.65});
    let table = run("monotonicity", &parameters, grid(&rows));
    assert_eq!(column(&table, &["a"], "monotone"), Scalar::Bool(false));
    assert_eq!(column(&table, &["a"], "against").to_string(), "16 → 32");
    assert_eq!(column(&table, &["a"], "crossings").to_string(), "16, 32");
    assert_eq!(column(&table, &["a"], "recrosses"), Scalar::Bool(true));
    assert_eq!(
        (
            float(&table, &["a"], "steepest_from"),
            float(&table, &["a"], "steepest_to")
        ),
        (Some(4.0), Some(16.0))
    );
}

#[test]
fn a_contest_without_values_does_not_blame_its_units() {
    let rows = [
        ("a", 1, None),
        ("a", 2, None),
        ("b", 1, None),
        ("b", 2, None),
    ];
    let evidence = |parameters: &serde_json::Value, rows: &[(&str, i64, Option<f64>)]| {
        let table = run("ranking", parameters, grid(rows));
        column(&table, &["a"], "evidence").to_string()
    };
    let parameters =
        json!({"from": "t", "among": "side", "column": "y", "better": "higher", "unit": ["n"]});
    assert_eq!(
        evidence(&parameters, &rows),
        "no test: no contender has a value of y"
    );
    let one = [
        ("a", 1, Some(1.0)),
        ("a", 2, None),
        ("b", 1, None),
        ("b", 2, None),
    ];
    assert_eq!(
        evidence(&parameters, &one),
        "no test: of 2 contenders, only a has a value of y"
    );
}

#[test]
fn equal_values_share_a_rank_and_near_ones_are_named() {
    let rows = [
        ("a", 1, Some(100.0)),
        ("b", 1, Some(98.0)),
        ("c", 1, Some(98.0)),
        ("d", 1, Some(50.0)),
        ("e", 1, None),
    ];
    let parameters = json!({"from": "t", "among": "side", "column": "y", "better": "higher", "tie-within": 0.03});
    let table = run("ranking", &parameters, grid(&rows));
    let values = |name: &str| {
        ["a", "b", "c", "d", "e"].map(|side| column(&table, &[side, "1"], name).to_string())
    };
    assert_eq!(values("rank"), ["1", "2", "2", "4", "null"]);
    assert_eq!(values("mid_rank"), ["1", "2.5", "2.5", "4", "null"]);
    assert_eq!(values("rank_with_ties"), ["1", "1", "1", "4", "null"]);
    assert_eq!(
        values("tied_with"),
        ["b, c", "a, c", "a, b", "null", "null"]
    );
    assert_eq!(values("best"), ["a"; 5]);
    // One value per contender shows nothing.
    assert_eq!(values("rank_shown"), ["null"; 5]);
    assert_eq!(values("not_told_apart_from"), ["null"; 5]);
}

#[test]
fn contenders_differ_only_where_their_units_show_it() {
    // `a` and `b` are within their noise; `c` is far off.
    let noise = [0.0, 2.0, -1.0, 3.0, -2.0];
    let rows: Vec<_> = (0..5_usize)
        .flat_map(|i| {
            let n = i as i64 + 1;
            [
                ("a", n, Some(100.0 + noise[i])),
                ("b", n, Some(99.0 - noise[i])),
                ("c", n, Some(50.0 + noise[(i + 2) % 5] / 2.0)),
            ]
        })
        .collect();
    let parameters =
        json!({"from": "t", "among": "side", "column": "y", "better": "higher", "unit": ["n"]});
    let table = run("ranking", &parameters, grid(&rows));
    assert_eq!(table.keys, ["side"]);
    let values = |name: &str| ["a", "b", "c"].map(|side| column(&table, &[side], name).to_string());
    assert_eq!(values("rank"), ["1", "2", "3"]);
    assert_eq!(values("rank_shown"), ["1", "1", "3"]);
    assert_eq!(values("not_told_apart_from"), ["b", "a", "null"]);
    assert_eq!(values("rank_high"), ["2", "2", "3"]);
    assert_eq!(
        values("evidence"),
        ["n (declared): the study at 5 %: y (3 tests)"; 3]
    );
    let p: f64 = values("friedman_p")[0].parse().unwrap();
    assert!(p < 0.05, "{p}");
}

#[test]
fn contenders_on_separate_units_are_compared_as_independent() {
    let values = [
        ("a", [100.0, 103.0, 98.0, 101.0]),
        ("b", [110.0, 108.0, 112.0, 109.0]),
        ("c", [90.0, 93.0, 88.0, 91.0]),
    ];
    let rows: Vec<_> = (0..3_usize)
        .flat_map(|side| (0..4_usize).map(move |i| (side, i)))
        .map(|(side, i)| {
            (
                values[side].0,
                (4 * side + i) as i64,
                Some(values[side].1[i]),
            )
        })
        .collect();
    let parameters =
        json!({"from": "t", "among": "side", "column": "y", "better": "higher", "unit": ["n"]});
    let table = run("ranking", &parameters, grid(&rows));
    let values = |name: &str| ["a", "b", "c"].map(|side| column(&table, &[side], name).to_string());
    // scipy.stats.ttest_ind of the logarithms, equal_var=False: 0.00068, 0.00053 and 0.000024.
    assert_eq!(values("rank_shown"), ["2", "1", "3"]);
    assert_eq!(values("not_told_apart_from"), ["null"; 3]);
    assert_eq!(values("friedman_p"), ["null"; 3]);
    // The 6 of 12! / 4!³ divisions of the ranks that separate the groups completely.
    let p: f64 = values("kruskal_p")[0].parse().unwrap();
    assert!((p - 6.0 / 34_650.0).abs() < 1e-12, "{p}");
}

#[test]
fn a_null_reports_no_crossover_and_a_shown_one_names_its_bracket() {
    let noise = [0.02, -0.015, 0.01, -0.02, 0.008];
    // Two sides on a ladder with the rungs 1, 2, 4, in five blocks.
    let course = |effects: [f64; 3]| {
        let mut frame = grid(&[]);
        frame.keys = vec!["side".to_owned(), "n".to_owned(), "block".to_owned()];
        for (rung, effect) in [1_i64, 2, 4].into_iter().zip(effects) {
            for (block, wobble) in noise.iter().enumerate() {
                let turned = noise[(block + rung as usize) % 5];
                for (side, value) in [
                    ("a", 100.0 * (1.0 + effect + wobble)),
                    ("b", 100.0 * (1.0 + turned)),
                ] {
                    let key = vec![
                        Scalar::Text(side.to_owned()),
                        Scalar::Int(rung),
                        Scalar::Int(block as i64),
                    ];
                    frame
                        .rows
                        .push(Row::new(key, vec![Scalar::Float(value)], Vec::new()));
                }
            }
        }
        let parameters = json!({"from": "t", "pair": {"axis": "side", "a": "a", "b": "b"}, "ladder": "n",
            "column": "y", "better": "higher"});
        let table = run("crossover", &parameters, frame.settle().unwrap());
        [
            "crossover_at",
            "crossover_after",
            "winner_after",
            "resolution",
        ]
        .map(|name| column(&table, &[], name).to_string())
    };
    assert_eq!(
        course([0.0, 0.001, -0.001]),
        [
            "null",
            "null",
            "null",
            "no evidence: no side is shown to be better anywhere"
        ]
    );
    assert_eq!(course([0.3, 0.0, -0.3]), ["4", "1", "b", "between 1 and 4"]);
    assert_eq!(
        course([0.3, 0.0, 0.0])[3],
        "no evidence: only a is shown to be better, at 1 of 3"
    );
}

#[test]
fn a_breakdown_is_resolved_only_where_the_units_tell() {
    let curve = |spread: f64| {
        let mut frame = grid(&[]);
        frame.keys = vec!["n".to_owned(), "block".to_owned()];
        let noise = [0.01, -0.012, 0.006, -0.007, 0.003];
        for (n, value) in [(1_i64, 1.0), (2, 0.9), (4, 0.64), (8, 0.4)] {
            for (block, wobble) in noise.iter().enumerate() {
                // At its anchor, an efficiency is 1 by definition.
                let value = if n == 1 {
                    value
                } else {
                    value * (1.0 + spread * wobble)
                };
                let key = vec![Scalar::Int(n), Scalar::Int(block as i64)];
                frame
                    .rows
                    .push(Row::new(key, vec![Scalar::Float(value)], Vec::new()));
            }
        }
        let parameters = json!({"rule": "below 0.65", "ladder": "n",
            "any": [{"table": "t", "column": "y", "below": 0.65}]});
        let table = run("breakdown", &parameters, frame.settle().unwrap());
        ["breakdown_n", "observed_n", "resolution", "units"]
            .map(|name| column(&table, &[], name).to_string())
    };
    assert_eq!(curve(0.1), ["4", "4", "at 4", "5"]);
    assert_eq!(
        curve(3.0),
        ["null", "4", "not resolved: between 4 and 8", "5"]
    );
}

#[test]
fn a_contest_without_one_contender_is_incomplete_wherever_its_row_is_missing() {
    let mut frame = grid(&[
        ("a", 1, Some(3.0)),
        ("b", 1, Some(2.0)),
        ("a", 2, Some(1.0)),
    ]);
    frame.missing = vec![Missing {
        at: vec![
            ("side".to_owned(), Scalar::Text("c".to_owned())),
            ("n".to_owned(), Scalar::Int(1)),
        ],
        why: "hung".to_owned(),
        absence: Absence::Ended(CellStatus::Hung),
    }];
    let parameters = json!({"from": "t", "among": "side", "column": "y", "better": "higher"});
    let table = run("wins", &parameters, frame);
    let counts = |side: &str| {
        ["n", "incomplete", "wins"].map(|name| column(&table, &[side], name).to_string())
    };
    // `c` never ran, so no contest is complete and nobody wins one.
    assert_eq!(counts("a"), ["0", "2", "0"]);
    assert_eq!(counts("c"), ["0", "2", "0"]);
}
