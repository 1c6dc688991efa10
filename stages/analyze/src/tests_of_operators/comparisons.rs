//! Comparisons of two sides: units, tests, families and margins.

use artifacts::Scalar;
use contract::synthetic;
use pipeline::{CellStatus, Json};
use serde_json::json;

use super::{float, grid};
use crate::frame::{Frame, Row, Spec};
use crate::published::{column, run};
use crate::tests::{analyze, everything, inputs, store, table};

#[test]
fn a_cluster_is_one_unit_in_test_and_interval_and_three_are_needed() {
    // Six clusters of five repetitions that agree: counted as thirty values, they overstate the evidence.
    let repeated = |clusters: i64| {
        let rows = [("a", 1.5), ("b", 1.0)].map(|(side, base)| {
            (0..5 * clusters)
                .map(move |i| {
                    let cluster = (i / 5) as f64;
                    (
                        side,
                        i,
                        Some(base * (1.0 + 0.3 * cluster) + 0.001 * (i % 5) as f64),
                    )
                })
                .collect::<Vec<_>>()
        });
        let mut frame = grid(&rows.concat());
        frame.keys.push("rep".to_owned());
        for row in &mut frame.rows {
            let Scalar::Int(i) = row.key[1] else {
                panic!("n is whole")
            };
            row.key
                .splice(1.., [Scalar::Int(i / 5), Scalar::Int(i % 5)]);
        }
        frame
    };
    let compare = |clusters: i64, unit: Json| {
        let parameters = json!({"from": "t", "pair": {"axis": "side", "a": "a", "b": "b"},
            "over": ["n", "rep"], "columns": ["y"], "unit": unit});
        run("unpaired-comparison", &parameters, repeated(clusters))
    };
    let read = |table: &Frame| {
        ["n_a", "verdict", "unit_of_replication"]
            .map(|name| column(table, &["y"], name).to_string())
    };
    let (rows, clusters) = (compare(6, json!(["n", "rep"])), compare(6, json!(["n"])));
    assert_eq!(read(&rows), ["30", "different", "n × rep (declared)"]);
    assert_eq!(read(&clusters), ["6", "no evidence", "n (declared)"]);
    let p = |table: &Frame| float(table, &["y"], "p").unwrap();
    assert!(
        p(&rows) < 0.001 && p(&clusters) > 0.05,
        "{} {}",
        p(&rows),
        p(&clusters)
    );
    let width = |table: &Frame| {
        float(table, &["y"], "ci_high").unwrap() - float(table, &["y"], "ci_low").unwrap()
    };
    assert!(width(&clusters) > 1.8 * width(&rows));
    let few = compare(2, json!(["n"]));
    assert_eq!(read(&few), ["2", "undecidable", "n (declared)"]);
    assert_eq!(
        column(&few, &["y"], "verdict_reason").to_string(),
        "2 units, and at least 3 are needed"
    );
}

#[test]
fn the_t_test_of_units_decides_unless_another_is_chosen() {
    let rows: Vec<_> = (1..=8)
        .flat_map(|n| {
            [
                ("a", n, Some(10.0 + n as f64)),
                ("b", n, Some(9.0 + n as f64 + 0.01 * (n * 3 % 8) as f64)),
            ]
        })
        .collect();
    let compare = |more: Json| {
        let mut parameters = json!({"from": "t", "pair": {"axis": "side", "a": "a", "b": "b"}, "columns": ["y"],
                                    "unit": ["n"], "scale": "difference", "resamples": 1000});
        parameters
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        run("paired-comparison", &parameters, grid(&rows))
    };
    let said = |table: &Frame| column(table, &["y"], "verdict").to_string();
    let usual = compare(json!({}));
    assert_eq!(said(&usual), "different");
    assert_eq!(column(&usual, &["y"], "test").to_string(), "paired-t");
    let (low, high) = (
        float(&usual, &["y"], "ci_low").unwrap(),
        float(&usual, &["y"], "ci_high").unwrap(),
    );
    assert!(low > 0.0 && high > low);
    assert_eq!(float(&usual, &["y"], "adjusted_low"), Some(low));
    assert_eq!(float(&usual, &["y"], "sign_flip_p"), Some(2.0 / 256.0));
    // If another test decides, there is no interval, since it would not belong to that test.
    let ranks = compare(json!({"test": "wilcoxon"}));
    assert_eq!(
        float(&ranks, &["y"], "p"),
        float(&ranks, &["y"], "wilcoxon_p")
    );
    assert_eq!(float(&ranks, &["y"], "ci_low"), None);
    assert_eq!(said(&ranks), "different");
    let sign = compare(json!({"test": "sign"}));
    assert_eq!(
        (
            column(&sign, &["y"], "test").to_string(),
            float(&sign, &["y"], "statistic")
        ),
        ("sign".into(), Some(8.0))
    );
    assert!((float(&sign, &["y"], "p").unwrap() - 2.0 / 256.0).abs() < 1e-12);
    let flips = compare(json!({"test": "permutation"}));
    assert_eq!(float(&flips, &["y"], "p"), Some(2.0 / 256.0));
    // The margin is practical: an effect of 1 does not exceed a margin of 2, and is shown to be within it.
    let equal = compare(json!({"margin": {"y": 2.0}}));
    assert_eq!(said(&equal), "equivalent");
    assert_eq!(column(&equal, &["y"], "equivalent"), Scalar::Bool(true));
    let within = compare(json!({"margin": {"y": 0.5}}));
    assert_eq!(said(&within), "different");
    // A bootstrap interval is made only on request, and decides nothing.
    let beside = compare(json!({"bootstrap": "percentile"}));
    assert!(float(&beside, &["y"], "bootstrap_low").unwrap() > 0.0);
}

#[test]
fn a_test_of_ranks_or_signs_names_no_side_if_the_mean_points_the_other_way() {
    // `a` is lower in every unit but one, in which it is so much higher that its mean is, too.
    let rows = |outlier: f64| -> Vec<_> {
        let unit = |n: i64| {
            let a = if n == 5 {
                outlier
            } else {
                8.0 + 0.01 * (n * 5 % 12) as f64
            };
            [
                ("a", n, Some(a)),
                ("b", n, Some(9.0 + 0.01 * (n * 7 % 12) as f64)),
            ]
        };
        (1..=12).flat_map(unit).collect()
    };
    for (operator, test, more) in [
        ("paired-comparison", "wilcoxon", json!({})),
        ("paired-comparison", "sign", json!({})),
        (
            "unpaired-comparison",
            "mann-whitney",
            json!({"over": ["n"]}),
        ),
    ] {
        let judged = |outlier: f64| {
            let mut parameters = json!({"from": "t", "pair": {"axis": "side", "a": "a", "b": "b"}, "columns": ["y"],
                                        "unit": ["n"], "scale": "difference", "test": test});
            let own = more.as_object().unwrap().clone();
            parameters.as_object_mut().unwrap().extend(own);
            let table = run(operator, &parameters, grid(&rows(outlier)));
            let said = |name: &str| column(&table, &["y"], name).to_string();
            (said("verdict"), said("higher"), said("verdict_reason"))
        };
        let (verdict, higher, _) = judged(8.0);
        assert_eq!(
            (verdict.as_str(), higher.as_str()),
            ("different", "b"),
            "{test}"
        );
        let (verdict, _, reason) = judged(60.0);
        assert_eq!(verdict, "undecidable", "{test}");
        assert!(reason.contains("points the other way"), "{test}: {reason}");
    }
}

#[test]
fn what_was_not_replicated_is_undecidable_and_says_why() {
    let rows = |values: [f64; 3]| -> Vec<(&'static str, i64, Option<f64>)> {
        (1..=3_i64)
            .zip(values)
            .flat_map(|(n, v)| [("a", n, Some(v)), ("b", n, Some(1.0))])
            .collect()
    };
    let said = |values: [f64; 3], more: Json| {
        let mut parameters =
            json!({"from": "t", "pair": {"axis": "side", "a": "a", "b": "b"}, "columns": ["y"]});
        parameters
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let table = run("paired-comparison", &parameters, grid(&rows(values)));
        ["n", "pairs", "verdict", "verdict_reason", "p"]
            .map(|name| column(&table, &["y"], name).to_string())
    };
    let none =
        "no replication of launches: the table has no key `block`, and no `unit` is declared";
    assert_eq!(
        said([2.0, 2.1, 2.2], json!({})),
        ["0", "3", "undecidable", none, "null"]
    );
    assert_eq!(
        said([2.0, 2.0, 2.0], json!({"unit": ["n"]})),
        [
            "3",
            "3",
            "undecidable",
            "3 units with the same effect: nothing says how far another would lie",
            "null"
        ]
    );
    assert_eq!(
        said([2.0, -2.1, 2.2], json!({"unit": ["n"]}))[3],
        "1 of 6 values of y is below 0 and has no ratio: declare `scale: difference`"
    );
    // A table with blocks needs no declaration.
    let mut blocks = grid(&rows([2.0, 2.1, 2.2]));
    blocks.keys[1] = "block".to_owned();
    let parameters =
        json!({"from": "t", "pair": {"axis": "side", "a": "a", "b": "b"}, "columns": ["y"]});
    let table = run("paired-comparison", &parameters, blocks);
    assert_eq!(column(&table, &["y"], "verdict").to_string(), "different");
    assert_eq!(
        column(&table, &["y"], "unit_of_replication").to_string(),
        "block"
    );
}

#[test]
fn one_family_for_the_table_unless_declared_otherwise_and_intervals_agree_with_holm() {
    // Two columns with the same sign; the second is noisier.
    let mut frame = grid(
        &(1..=5_i64)
            .flat_map(|n| [("a", n, Some(1.0)), ("b", n, Some(1.0))])
            .collect::<Vec<_>>(),
    );
    let wobble = [0.01, -0.012, 0.004, 0.009, -0.008];
    frame.specs.push(Spec::float("z", "ms", "another"));
    frame.rows = frame
        .rows
        .iter()
        .map(|row| {
            let Scalar::Int(n) = row.key[1] else {
                panic!("n is whole")
            };
            let w = wobble[n as usize - 1];
            let a = row.key[0].to_string() == "a";
            let value = |effect: f64, noise: f64| if a { 1.0 + effect + noise * w } else { 1.0 };
            Row::new(
                row.key.clone(),
                vec![
                    Scalar::Float(value(0.012, 1.0)),
                    Scalar::Float(value(0.1, 1.0)),
                ],
                Vec::new(),
            )
        })
        .collect();
    let frame = || Frame {
        level: frame.level,
        keys: frame.keys.clone(),
        specs: frame.specs.clone(),
        rows: frame
            .rows
            .iter()
            .enumerate()
            .map(|(i, row)| {
                let values = ["y", "z"].map(|c| frame.value(i, c).unwrap().clone());
                Row::new(row.key.clone(), values.to_vec(), Vec::new())
            })
            .collect(),
        missing: Vec::new(),
    };
    let compare = |family: &str| {
        let parameters = json!({"from": "t", "pair": {"axis": "side", "a": "a", "b": "b"},
            "columns": ["y", "z"], "unit": ["n"], "family": family});
        run("paired-comparison", &parameters, frame())
    };
    let (table, each) = (compare("table"), compare("per-column"));
    assert_eq!(
        column(&table, &["y"], "family").to_string(),
        "this table at 5 %: all columns (2 tests)"
    );
    assert_eq!(
        column(&each, &["y"], "family").to_string(),
        "each column at 5 %: y (1 test)"
    );
    for table in [&table, &each] {
        for metric in ["y", "z"] {
            let value = |name: &str| float(table, &[metric], name).unwrap();
            let excludes = value("adjusted_low") > 1.0 || value("adjusted_high") < 1.0;
            assert_eq!(excludes, value("holm_p") <= 0.05, "{metric}");
            let different = column(table, &[metric], "verdict").to_string() == "different";
            assert_eq!(excludes, different, "{metric}");
            assert!(value("adjusted_low") <= value("ci_low"));
            assert!(value("smallest_detectable") > 0.0);
        }
    }
}

#[test]
fn a_margin_that_cannot_be_applied_is_reported_while_planning() {
    let message = |more: Json| {
        let mut made = json!({"operator": "paired-comparison", "from": "cells", "columns": ["ok_rate"],
                     "pair": {"axis": "configuration", "a": "x", "b": "y"}});
        made.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let problems = crate::tests::canonical(&json!({
            "cells": {"operator": "cell-summary"}, "made": made,
        }));
        problems
            .err()
            .unwrap_or_default()
            .into_iter()
            .map(|p| p.message)
            .collect::<Vec<_>>()
    };
    assert_eq!(message(json!({"margin": {"ok_rate": 0.02}})), [""; 0]);
    assert_eq!(
        message(json!({"margin": {"ok_rat": 0.02}})),
        ["`ok_rat` is not among the columns compared"]
    );
    assert_eq!(
        message(json!({"margin": {"ok_rate": 0}})),
        ["a margin must be a positive number"]
    );
    assert_eq!(
        message(json!({"alpha": 1})),
        ["`alpha` must be between 0 and 1, got 1"]
    );
    // The margin is judged by an interval of level 1 − 2α.
    assert_eq!(
        message(json!({"alpha": 0.6})),
        ["`alpha` must be below 0.5, got 0.6"]
    );
    assert_eq!(
        message(json!({"cluster": ["host"], "rule": {}})),
        [
            "table `made` has no parameter `cluster`",
            "table `made` has no parameter `rule`"
        ]
    );
}

#[test]
fn a_missing_side_is_a_failed_cell_and_not_a_wrong_label() {
    let (_folder, store) = store();
    let mut inputs = inputs(&store);
    for cell in &mut inputs[0].cells {
        if cell.coordinates.get("configuration") == Some(&Scalar::Text("serial".into())) {
            let at: Vec<(&str, Scalar)> = cell
                .coordinates
                .0
                .iter()
                .map(|(n, v)| (n.as_str(), v.clone()))
                .collect();
            *cell = synthetic::missing(&at, CellStatus::Hung, "no row for 60 s");
        }
    }
    let done = analyze(&store, &inputs, &everything()).unwrap();
    let independent = table(&done, "independent");
    assert_eq!(independent.int("n_b").unwrap(), [Some(0); 3]);
    assert_eq!(
        independent.text("verdict").unwrap(),
        [Some("undecidable"); 3]
    );
    assert_eq!(
        table(&done, "slow_cells").int("n_censored").unwrap(),
        [0, 0, 0, 3, 3, 3].map(Some)
    );
}

#[test]
fn a_pooled_comparison_says_how_far_its_effect_differs_among_the_coordinates() {
    // a ÷ b by clients, in two blocks each: 2 and 2, 1 and 1, 8 and 2.
    const VALUES: &str = "side,clients,block,y\n\
        a,1,1,4\nb,1,1,2\na,1,2,2\nb,1,2,1\n\
        a,2,1,3\nb,2,1,3\na,2,2,5\nb,2,2,5\n\
        a,4,1,8\nb,4,1,1\na,4,2,6\nb,4,2,3\n";
    let frame = || crate::published::table(VALUES, &["side", "clients", "block"], &["y"]);
    let pair = json!({"axis": "side", "a": "a", "b": "b"});
    let paired = json!({"from": "t", "pair": pair, "columns": ["y"], "unit": ["block"]});
    let unpaired = |over: Json| {
        let mut given = paired.clone();
        given["over"] = over;
        given
    };
    for (operator, given, mut apart) in [
        ("paired-comparison", paired.clone(), paired.clone()),
        (
            "unpaired-comparison",
            unpaired(json!(["block", "clients"])),
            unpaired(json!(["block"])),
        ),
    ] {
        let made = run(operator, &given, frame());
        let extreme = |which: &str| {
            let at = column(&made, &["y"], &format!("{which}_effect_at")).to_string();
            let effect = float(&made, &["y"], &format!("{which}_effect")).unwrap();
            (at, (effect * 1e9).round() / 1e9)
        };
        assert_eq!(
            extreme("smallest"),
            ("clients=2".to_owned(), 1.0),
            "{operator}"
        );
        assert_eq!(
            extreme("largest"),
            ("clients=4".to_owned(), 4.0),
            "{operator}"
        );
        // A single coordinate has no extremes.
        apart["by"] = json!(["clients"]);
        let made = run(operator, &apart, frame());
        assert_eq!(float(&made, &["1", "y"], "smallest_effect"), None);
    }
}

/// A table of two sides at 1, 2 and 4 clients in five blocks: `effects` has ln(a ÷ b) at each, to which a block adds a little.
fn at_three_levels(effects: [f64; 3]) -> String {
    let mut rows = "side,clients,block,y\n".to_owned();
    for (clients, effect) in [1, 2, 4].into_iter().zip(effects) {
        for (block, noise) in [-0.011, 0.007, 0.013, -0.004, -0.005]
            .into_iter()
            .enumerate()
        {
            let base = 100.0 + 7.3 * block as f64 + f64::from(clients);
            let a = base * f64::exp(effect + noise * (1.0 + 0.1 * f64::from(clients)));
            rows += &format!("a,{clients},{block},{a:.9}\nb,{clients},{block},{base:.9}\n");
        }
    }
    rows
}

#[test]
fn a_pooled_comparison_says_that_the_direction_changes_with_the_level() {
    let pair = json!({"axis": "side", "a": "a", "b": "b"});
    let paired = json!({"from": "t", "pair": pair, "columns": ["y"], "unit": ["block"]});
    let mut unpaired = paired.clone();
    unpaired["over"] = json!(["block", "clients"]);
    let judged = |operator: &str, given: &Json, effects: [f64; 3]| {
        let frame = crate::published::table(
            &at_three_levels(effects),
            &["side", "clients", "block"],
            &["y"],
        );
        let made = run(operator, given, frame);
        let changes = column(&made, &["y"], "direction_changes").clone();
        let [verdict, reason] =
            ["verdict", "verdict_reason"].map(|name| column(&made, &["y"], name).to_string());
        (changes, verdict, reason)
    };
    let opposite = [-0.3, 0.01, 0.8];
    let said = "the direction changes with the level: a is lower at clients=1 (0.741×) and higher at clients=4 (2.23×), so \
                what holds on average does not hold at each level";
    for (operator, given) in [
        ("paired-comparison", &paired),
        ("unpaired-comparison", &unpaired),
    ] {
        let (changes, verdict, reason) = judged(operator, given, opposite);
        assert_eq!(changes, Scalar::Bool(true), "{operator}");
        assert_eq!(verdict, "different", "{operator}");
        assert!(reason.contains(said), "{operator}: {reason}");
        // The levels differ, but in one direction; and a level whose direction is not shown.
        for effects in [[0.1, 0.3, 0.8], [-0.004, 0.3, 0.8]] {
            let (changes, _, reason) = judged(operator, given, effects);
            assert_eq!(changes, Scalar::Bool(false), "{operator}");
            assert!(!reason.contains("direction"), "{operator}: {reason}");
        }
    }
    // Opposite effects that cancel do not show equality either.
    let (_, verdict, reason) = judged("paired-comparison", &paired, [-0.3, 0.0, 0.3]);
    assert_eq!(verdict, "no evidence");
    assert!(reason.contains("the direction changes"), "{reason}");
}
