//! Single operators against values by hand, and what must hold for all of them.

use artifacts::{Scalar, Store};
use pipeline::{CellStatus, Content, Done, Input, Json};
use rows::synthetic;
use serde_json::json;

use crate::frame::{Frame, Level, Missing, Row, Spec};
use crate::published::{column, run};
use crate::tests::{analyze, cell, everything, inputs, store, table, verification};

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
    let row = |(side, n, value): &(&str, i64, Option<f64>)| Row {
        key: vec![Scalar::Text((*side).to_owned()), Scalar::Int(*n)],
        values: vec![value.map_or(Scalar::Null, Scalar::Float)],
        lineage: Vec::new(),
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
fn margins_reconcile_where_the_table_is_complete_and_say_by_how_much_where_it_is_not() {
    let full = [
        ("a", 1, Some(1.0)),
        ("a", 2, Some(3.0)),
        ("b", 1, Some(5.0)),
        ("b", 2, Some(11.0)),
    ];
    let parameters = json!({"from": "t", "axes": ["side", "n"], "columns": ["y"]});
    let margins = run("margins", &parameters, grid(&full));
    assert_eq!(margins.rows.len(), 4 + 2 + 2 + 1);
    assert_eq!(float(&margins, &["null", "null"], "y_mean"), Some(5.0));
    assert_eq!(float(&margins, &["a", "null"], "y_mean"), Some(2.0));
    assert_eq!(float(&margins, &["null", "2"], "y_mean"), Some(7.0));
    assert_eq!(
        column(&margins, &["null", "null"], "y_reconciles"),
        Scalar::Bool(true)
    );
    let level = |key: &[&str]| column(&margins, key, "level").to_string();
    assert_eq!(
        (level(&["a", "1"]), level(&["a", "null"])),
        ("cell".to_owned(), "marginal".to_owned())
    );
    assert_eq!(level(&["null", "null"]), "pooled");

    // Without (b, 2) the whole is 3; the margins over n are 2 and 5, over side 3 and 3.
    let margins = run("margins", &parameters, grid(&full[..3]));
    assert_eq!(
        column(&margins, &["null", "null"], "complete"),
        Scalar::Bool(false)
    );
    assert_eq!(
        float(&margins, &["null", "null"], "y_margin_gap"),
        Some(0.5)
    );
    assert_eq!(
        column(&margins, &["null", "null"], "y_reconciles"),
        Scalar::Bool(false)
    );
}

#[test]
fn pooling_that_was_not_declared_is_refused() {
    let (_folder, store) = store();
    let failed = |settings: Json| {
        let settings = json!({"cells": {"operator": "cell-summary"}, "made": settings});
        let failure = analyze(&store, &inputs(&store), &settings).err().unwrap();
        format!("{} ({})", failure.reason, failure.hint.unwrap_or_default())
    };
    let hint = "name the axis in `over` if its rows are to be taken together, in `by` if they are to stay apart";
    assert_eq!(
        failed(
            json!({"operator": "margins", "from": "cells", "axes": ["configuration"], "columns": ["ok_rate"],
                      "over": ["rep"]})
        ),
        format!(
            "table `made` (margins): rows of different `concurrency` would be pooled without saying so ({hint})"
        )
    );
    assert_eq!(
        failed(
            json!({"operator": "unpaired-comparison", "from": "cells", "over": ["rep"], "columns": ["ok_rate"],
                      "pair": {"axis": "configuration", "a": "batched", "b": "serial"}})
        ),
        format!(
            "table `made` (unpaired-comparison): rows of different `concurrency` would be pooled without saying so \
             ({hint})"
        )
    );
}

#[test]
fn sides_whose_values_come_in_clusters_are_resampled_by_cluster() {
    // Six clusters of five repetitions that agree: drawing rows overstates what is known.
    let repeated = || {
        let rows = [("a", 1.0), ("b", 0.0)].map(|(side, base)| {
            (0..30)
                .map(move |i| (side, i, Some(base + (i / 5) as f64)))
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
    let parameters = json!({"from": "t", "pair": {"axis": "side", "a": "a", "b": "b"}, "over": ["n", "rep"],
        "columns": ["y"], "resamples": 2000, "seed": 1});
    let width = |cluster: Json| {
        let mut parameters = parameters.clone();
        parameters["cluster"] = cluster;
        let found = run("unpaired-comparison", &parameters, repeated());
        let end = |name: &str| float(&found, &["y"], name).unwrap();
        (
            end("ci_high") - end("ci_low"),
            column(&found, &["y"], "ci_method").to_string(),
        )
    };
    let (by_row, by_cluster) = (width(json!([])), width(json!(["n"])));
    assert!(by_cluster.0 > 1.8 * by_row.0, "{by_cluster:?} {by_row:?}");
    assert_eq!(
        by_row.1,
        "percentile, 2000 resamples of rows of each side, xoshiro256++, seed 1"
    );
    assert_eq!(
        by_cluster.1,
        "percentile, 2000 resamples of clusters of n of each side, xoshiro256++, seed 1"
    );
}

#[test]
fn a_curve_that_comes_back_over_the_threshold_is_told() {
    // Below 0.65 at 16, above again at 32: "first N below" and "the value at 32" tell two stories.
    let curve = [(1, 1.0), (2, 0.9), (4, 0.8), (16, 0.64), (32, 0.651)];
    let rows: Vec<_> = curve.iter().map(|(n, y)| ("a", *n, Some(*y))).collect();
    let parameters =
        json!({"from": "t", "ladder": "n", "column": "y", "expect": "falling", "threshold": 0.65});
    let found = run("monotonicity", &parameters, grid(&rows));
    assert_eq!(column(&found, &["a"], "monotone"), Scalar::Bool(false));
    assert_eq!(column(&found, &["a"], "against").to_string(), "16 → 32");
    assert_eq!(column(&found, &["a"], "crossings").to_string(), "16, 32");
    assert_eq!(column(&found, &["a"], "recrosses"), Scalar::Bool(true));
    assert_eq!(
        (
            float(&found, &["a"], "steepest_from"),
            float(&found, &["a"], "steepest_to")
        ),
        (Some(4.0), Some(16.0))
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
    let found = run("ranking", &parameters, grid(&rows));
    let of = |name: &str| {
        ["a", "b", "c", "d", "e"].map(|side| column(&found, &[side, "1"], name).to_string())
    };
    assert_eq!(of("rank"), ["1", "2", "2", "4", "null"]);
    assert_eq!(of("mid_rank"), ["1", "2.5", "2.5", "4", "null"]);
    assert_eq!(of("rank_with_ties"), ["1", "1", "1", "4", "null"]);
    assert_eq!(of("tied_with"), ["b, c", "a, c", "a, b", "null", "null"]);
    assert_eq!(of("best"), ["a"; 5]);
}

#[test]
fn hung_cells_count_as_larger_than_the_limit() {
    let mut frame = grid(&[
        ("a", 1, Some(10.0)),
        ("a", 2, Some(20.0)),
        ("b", 1, Some(5.0)),
    ]);
    let missing = |side: &str, n: i64, why: &str| Missing {
        at: vec![
            ("side".to_owned(), Scalar::Text(side.to_owned())),
            ("n".to_owned(), Scalar::Int(n)),
        ],
        why: why.to_owned(),
    };
    frame.missing = vec![
        missing("a", 3, "hung: no row for 60 s"),
        missing("a", 4, "failed: the server died"),
        missing("b", 2, "timeout: 600 s"),
        missing("c", 1, "hung: no row for 60 s"),
    ];
    let parameters = json!({"from": "t", "column": "y", "over": ["n"], "limit": 100.0});
    let found = run("censored-cells", &parameters, frame);
    let of = |name: &str| ["a", "b", "c"].map(|side| column(&found, &[side], name).to_string());
    assert_eq!(of("n_observed"), ["2", "1", "0"]);
    assert_eq!(of("n_censored"), ["1", "1", "1"]);
    assert_eq!(of("n_missing"), ["1", "0", "0"]);
    assert_eq!(of("y_median"), ["20", "5", "null"]);
    assert_eq!(of("y_median_is_bound"), ["false", "false", "true"]);
    assert_eq!(float(&found, &["b"], "y_mean_at_least"), Some(52.5));
    assert_eq!(
        column(&found, &["c"], "censored_cells").to_string(),
        "n=1 (hung: no row for 60 s)"
    );
}

fn one_cell(store: &Store, rows: &[rows::Request]) -> [Input; 2] {
    let cell = cell(store, &[("rep", Scalar::Int(1))], rows);
    [
        synthetic::input("ladder", "load", vec![cell]),
        verification(store, &[]),
    ]
}

#[test]
fn requests_that_were_given_up_are_bounds_and_failures_are_nothing() {
    let (_folder, store) = store();
    let mut rows: Vec<_> = (1..=4).map(synthetic::request).collect();
    for (row, end) in rows
        .iter_mut()
        .zip([100_000_000, 200_000_000, 300_000_000, 400_000_000])
    {
        (row.last_token_ns, row.done_ns) = (Some(end), Some(end));
    }
    rows[2].status = "timeout".into();
    rows[3].status = "http_error".into();
    let settings = json!({
        "km": {"operator": "censored", "quantiles": [0.5, 0.9]},
        "at_least": {"operator": "censored", "quantiles": [0.5, 0.9], "convention": "at-least"},
        "ttft": {"operator": "censored", "quantiles": [0.5], "metric": "ttft_ms"},
    });
    let done = analyze(&store, &one_cell(&store, &rows), &settings).unwrap();
    let (km, at_least, ttft) = (
        table(&done, "km"),
        table(&done, "at_least"),
        table(&done, "ttft"),
    );
    assert_eq!(
        (
            km.int("n_observed").unwrap()[0],
            km.int("n_censored").unwrap()[0],
            km.int("n_failed").unwrap()[0]
        ),
        (Some(2), Some(1), Some(1))
    );
    // Of three, a third ended by 100 ms and two thirds by 200 ms; the last is only known to exceed 300.
    assert_eq!(km.float("e2e_latency_ms_p50").unwrap()[0], Some(200.0));
    assert_eq!(km.float("e2e_latency_ms_p90").unwrap()[0], None);
    assert_eq!(
        km.boolean("e2e_latency_ms_p90_is_bound").unwrap()[0],
        Some(true)
    );
    assert_eq!(km.float("longest_wait_ms").unwrap()[0], Some(300.0));
    assert_eq!(
        at_least.float("e2e_latency_ms_p50").unwrap()[0],
        Some(200.0)
    );
    assert_eq!(
        at_least.float("e2e_latency_ms_p90").unwrap()[0],
        Some(280.0)
    );
    // The first token of the request that timed out had been seen.
    assert_eq!(
        (
            ttft.int("n_observed").unwrap()[0],
            ttft.int("n_censored").unwrap()[0]
        ),
        (Some(3), Some(0))
    );
}

#[test]
fn the_steady_window_lies_between_the_last_start_and_the_first_end() {
    let (_folder, store) = store();
    let second = 1_000_000_000;
    // Client 0 sends at 0 and ends at 8 s in two requests; client 1 from 1 s to 6 s.
    let spans = [(0, 0, 4), (0, 4, 8), (1, 1, 3), (1, 3, 6)];
    let rows: Vec<_> = spans
        .iter()
        .zip(1..)
        .map(|((client, sent, done), id)| {
            let mut row = synthetic::request(id);
            row.client_id = Some(*client);
            row.sent_ns = Some(sent * second);
            row.first_token_ns = Some(sent * second + second / 2);
            (row.last_token_ns, row.done_ns) = (Some(done * second), Some(done * second));
            row
        })
        .collect();
    let done = analyze(
        &store,
        &one_cell(&store, &rows),
        &json!({"steady": {"operator": "steady-state"}}),
    )
    .unwrap();
    let steady = table(&done, "steady");
    let number = |name: &str| steady.float(name).unwrap()[0].unwrap();
    assert_eq!(
        (
            number("steady_start_s"),
            number("steady_end_s"),
            number("steady_window_s")
        ),
        (1.0, 6.0, 5.0)
    );
    // Ended inside: at 4, 3 and 6 s; sent and ended inside: those of client 1.
    assert_eq!(
        (
            steady.int("steady_n_ok").unwrap()[0],
            steady.int("steady_n_inside").unwrap()[0]
        ),
        (Some(3), Some(2))
    );
    assert_eq!(number("steady_request_throughput"), 0.6);
    // Open arrivals have no clients, so no such window.
    let mut open = rows;
    open.iter_mut().for_each(|r| r.client_id = None);
    let done = analyze(
        &store,
        &one_cell(&store, &open),
        &json!({"steady": {"operator": "steady-state"}}),
    )
    .unwrap();
    assert_eq!(
        table(&done, "steady").float("steady_window_s").unwrap()[0],
        None
    );
}

#[test]
fn a_pooled_quantile_is_that_of_all_values_and_not_a_mean_of_quantiles() {
    let (_folder, store) = store();
    let settings = json!({
        "requests": {"operator": "requests"},
        "cells": {"operator": "distribution", "metrics": ["e2e_latency_ms"], "quantiles": [0.9]},
        "pooled": {"operator": "distribution", "metrics": ["e2e_latency_ms"], "quantiles": [0.9],
                   "over": ["configuration", "concurrency", "rep"]},
    });
    let done = analyze(&store, &inputs(&store), &settings).unwrap();
    let all: Vec<f64> = table(&done, "requests")
        .float("e2e_latency_ms")
        .unwrap()
        .into_iter()
        .flatten()
        .collect();
    let expected = statistics::Sample::new(all).unwrap().quantile(0.9);
    let pooled = table(&done, "pooled");
    assert_eq!(
        pooled.float("e2e_latency_ms_p90").unwrap(),
        [Some(expected)]
    );
    assert_eq!(pooled.text("level").unwrap(), [Some("pooled")]);
    assert_eq!(pooled.int("n_cells").unwrap(), [Some(18)]);
    let each = table(&done, "cells").float("e2e_latency_ms_p90").unwrap();
    let mean = each.iter().flatten().sum::<f64>() / each.len() as f64;
    assert!((mean - expected).abs() > 1.0);
}

#[test]
fn the_chosen_test_the_cluster_and_the_rule_decide_and_are_named() {
    let rows: Vec<_> = (1..=8)
        .flat_map(|n| {
            [
                ("a", n, Some(10.0 + n as f64)),
                ("b", n, Some(9.0 + n as f64 * 1.01)),
            ]
        })
        .collect();
    let compare = |more: Json| {
        let mut parameters = json!({"from": "t", "pair": {"axis": "side", "a": "a", "b": "b"}, "columns": ["y"],
                                    "resamples": 1000, "confidence": 0.95, "alpha": 0.05});
        parameters
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        run("paired-comparison", &parameters, grid(&rows))
    };
    let usual = compare(json!({}));
    assert_eq!(column(&usual, &["y"], "verdict").to_string(), "directional");
    assert_eq!(
        float(&usual, &["y"], "p"),
        float(&usual, &["y"], "wilcoxon_p")
    );
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
    let strict = compare(
        json!({"rule": {"directional": [{"column": "holm_p", "below": 0.001}, {"interval-excludes": 0}]}}),
    );
    assert_eq!(column(&strict, &["y"], "verdict").to_string(), "ambiguous");
    let equal = compare(
        json!({"equivalence": {"y": 2.0}, "rule": {"directional": [{"column": "mean_delta", "magnitude-at-least": 5}]}}),
    );
    assert_eq!(column(&equal, &["y"], "verdict").to_string(), "equivalent");
    assert_eq!(column(&equal, &["y"], "equivalent"), Scalar::Bool(true));
    let clustered = compare(json!({"cluster": ["n"]}));
    let method = column(&clustered, &["y"], "ci_method").to_string();
    assert!(
        method.contains("1000 resamples of clusters of n"),
        "{method}"
    );
}

#[test]
fn a_rule_that_cannot_be_applied_is_told_while_planning() {
    let told = |rule: Json| {
        let problems = crate::tests::canonical(&json!({
            "cells": {"operator": "cell-summary"},
            "made": {"operator": "paired-comparison", "from": "cells", "columns": ["ok_rate"],
                     "pair": {"axis": "configuration", "a": "x", "b": "y"}, "rule": rule},
        }));
        problems
            .err()
            .unwrap_or_default()
            .into_iter()
            .map(|p| p.message)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        told(json!({"directional": [{"column": "holm_p", "below": 0.01}]})),
        [""; 0]
    );
    assert_eq!(
        told(json!({"directional": [{"column": "holms_p", "below": 0.01}]})),
        ["the result has no column of numbers `holms_p`"]
    );
    assert_eq!(
        told(json!({"directional": [{"column": "p", "below": 0.01, "at-least": 3}]})),
        ["a condition is either a column with one bound, or `interval-excludes`"]
    );
    assert_eq!(
        told(json!({"directional": []})),
        ["a rule without a condition would call everything directional"]
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
    assert_eq!(independent.text("verdict").unwrap(), [None; 3]);
    assert_eq!(
        table(&done, "slow_cells").int("n_censored").unwrap(),
        [0, 0, 0, 3, 3, 3].map(Some)
    );
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
