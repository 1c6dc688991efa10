//! Single operators against values computed by hand, and properties of all operators.

use artifacts::{Scalar, Store};
use contract::synthetic;
use pipeline::{CellStatus, Content, Done, Input, Json};
use serde_json::json;

use crate::frame::{Absence, Frame, Level, Missing, Row, Spec};
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

    // Without (b, 2) the total is 3; the margins over n are 2 and 5, over side 3 and 3.
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
    let hint = "name the axis in `over` to combine its rows, or in `by` to keep them separate";
    assert_eq!(
        failed(
            json!({"operator": "margins", "from": "cells", "axes": ["configuration"], "columns": ["ok_rate"],
                      "over": ["rep"]})
        ),
        format!(
            "table `made` (margins): rows of different `concurrency` would be pooled silently \
             ({hint})"
        )
    );
    assert_eq!(
        failed(
            json!({"operator": "unpaired-comparison", "from": "cells", "over": ["rep"], "columns": ["ok_rate"],
                      "pair": {"axis": "configuration", "a": "batched", "b": "serial"}})
        ),
        format!(
            "table `made` (unpaired-comparison): rows of different `concurrency` would be pooled \
             silently \
             ({hint})"
        )
    );
}

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
    let read = |found: &Frame| {
        ["n_a", "verdict", "unit_of_replication"]
            .map(|name| column(found, &["y"], name).to_string())
    };
    let (rows, clusters) = (compare(6, json!(["n", "rep"])), compare(6, json!(["n"])));
    assert_eq!(read(&rows), ["30", "different", "n × rep (declared)"]);
    assert_eq!(read(&clusters), ["6", "no evidence", "n (declared)"]);
    let p = |found: &Frame| float(found, &["y"], "p").unwrap();
    assert!(
        p(&rows) < 0.001 && p(&clusters) > 0.05,
        "{} {}",
        p(&rows),
        p(&clusters)
    );
    let width = |found: &Frame| {
        float(found, &["y"], "ci_high").unwrap() - float(found, &["y"], "ci_low").unwrap()
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
fn a_curve_that_comes_back_over_the_threshold_is_told() {
    // Below 0.65 at 16, above it again at 32: "first N below" and "the value at 32" disagree.
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
    // One value per contender shows nothing.
    assert_eq!(of("rank_shown"), ["null"; 5]);
    assert_eq!(of("not_told_apart_from"), ["null"; 5]);
}

#[test]
fn contenders_are_told_apart_only_where_their_units_show_it() {
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
    let found = run("ranking", &parameters, grid(&rows));
    assert_eq!(found.keys, ["side"]);
    let of = |name: &str| ["a", "b", "c"].map(|side| column(&found, &[side], name).to_string());
    assert_eq!(of("rank"), ["1", "2", "3"]);
    assert_eq!(of("rank_shown"), ["1", "1", "3"]);
    assert_eq!(of("not_told_apart_from"), ["b", "a", "null"]);
    assert_eq!(of("rank_high"), ["2", "2", "3"]);
    assert_eq!(
        of("evidence"),
        ["n (declared): the study at 5 %: y (3 tests)"; 3]
    );
    let p: f64 = of("friedman_p")[0].parse().unwrap();
    assert!(p < 0.05, "{p}");
}

#[test]
fn contenders_on_units_of_their_own_are_told_apart_as_independent_ones() {
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
    let found = run("ranking", &parameters, grid(&rows));
    let of = |name: &str| ["a", "b", "c"].map(|side| column(&found, &[side], name).to_string());
    // scipy.stats.ttest_ind of the logarithms, equal_var=False: 0.00068, 0.00053 and 0.000024.
    assert_eq!(of("rank_shown"), ["2", "1", "3"]);
    assert_eq!(of("not_told_apart_from"), ["null"; 3]);
    assert_eq!(of("friedman_p"), ["null"; 3]);
    // The 6 of 12! / 4!³ divisions of the ranks that separate the groups completely.
    let p: f64 = of("kruskal_p")[0].parse().unwrap();
    assert!((p - 6.0 / 34_650.0).abs() < 1e-12, "{p}");
}

#[test]
fn a_pooled_quantile_has_an_interval_over_launches() {
    let (_folder, store) = store();
    let inputs = crate::tests_of_conditions::study(&store, |_, _, _| 0.0);
    let settings = json!({
        "rows": {"operator": "requests"},
        "each": {"operator": "distribution", "metrics": ["e2e_latency_ms"], "quantiles": [0.5]},
        "pooled": {"operator": "distribution", "metrics": ["e2e_latency_ms"], "quantiles": [0.5, 0.9],
                   "over": ["block", "clients"]},
    });
    let done = analyze(&store, &inputs, &settings).unwrap();
    let rows = table(&done, "rows");
    let system = rows.text("system").unwrap();
    let (block, value) = (
        rows.int("block").unwrap(),
        rows.float("e2e_latency_ms").unwrap(),
    );
    let launches: Vec<Vec<f64>> = (1..=5)
        .map(|launch| {
            let of = |i: &usize| system[*i] == Some("fast") && block[*i] == Some(launch);
            (0..rows.rows())
                .filter(of)
                .filter_map(|i| value[i])
                .collect()
        })
        .collect();
    let expected = statistics::launch_quantile(&launches, 0.5, 0.95)
        .unwrap()
        .interval;
    let pooled = table(&done, "pooled");
    let at = |column: &str| pooled.float(column).unwrap()[0];
    assert_eq!(at("e2e_latency_ms_p50_low"), Some(expected.low));
    assert_eq!(at("e2e_latency_ms_p50_high"), Some(expected.high));
    assert!(expected.low < expected.high);
    // Eight requests of a launch bound no p90, and one launch gives no interval over launches.
    assert_eq!(at("e2e_latency_ms_p90_low"), None);
    assert!(
        table(&done, "each")
            .float("e2e_latency_ms_p50_low")
            .is_err()
    );
    let settings =
        json!({"pooled": {"operator": "distribution", "over": ["clients"], "unit": ["block"]}});
    let failure = analyze(&store, &inputs, &settings).err().unwrap();
    assert!(failure.reason.contains("the unit `block` is not in `over`"));
}

#[test]
fn hung_cells_count_as_larger_than_the_limit() {
    let mut frame = grid(&[
        ("a", 1, Some(10.0)),
        ("a", 2, Some(20.0)),
        ("b", 1, Some(5.0)),
    ]);
    use CellStatus::{Failed, Hung, Timeout};
    let missing = |side: &str, n: i64, status, why: &str| Missing {
        at: vec![
            ("side".to_owned(), Scalar::Text(side.to_owned())),
            ("n".to_owned(), Scalar::Int(n)),
        ],
        why: why.to_owned(),
        absence: Absence::Ended(status),
    };
    frame.missing = vec![
        missing("a", 3, Hung, "hung: no row for 60 s"),
        missing("a", 4, Failed, "failed: the server died"),
        missing("b", 2, Timeout, "timeout: 600 s"),
        missing("c", 1, Hung, "hung: no row for 60 s"),
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

fn one_cell(store: &Store, rows: &[contract::Request]) -> [Input; 2] {
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
    rows[2].status = contract::RequestStatus::Timeout;
    rows[3].status = contract::RequestStatus::HttpError;
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
    // Of three requests, one ended by 100 ms and two by 200 ms; the last is only known to exceed 300.
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
    // The first token of the request that timed out had arrived.
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
    // Client 0 sends at 0 and ends at 8 s, in two requests; client 1 runs from 1 s to 6 s.
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
    // Ended inside: at 4, 3 and 6 s. Sent and ended inside: those of client 1.
    assert_eq!(
        (
            steady.int("steady_n_ok").unwrap()[0],
            steady.int("steady_n_inside").unwrap()[0]
        ),
        (Some(3), Some(2))
    );
    assert_eq!(number("steady_request_throughput"), 0.6);
    // Open arrivals have no clients, and therefore no such window.
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
        "cells": {"operator": "distribution", "metrics": ["e2e_latency_ms"], "quantiles": [0.9], "print": "all"},
        "pooled": {"operator": "distribution", "metrics": ["e2e_latency_ms"], "quantiles": [0.9], "print": "all",
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
fn the_t_test_of_units_decides_unless_another_is_chosen() {
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
                                    "unit": ["n"], "scale": "difference", "resamples": 1000});
        parameters
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        run("paired-comparison", &parameters, grid(&rows))
    };
    let said = |found: &Frame| column(found, &["y"], "verdict").to_string();
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
        let found = run("paired-comparison", &parameters, grid(&rows(values)));
        ["n", "pairs", "verdict", "verdict_reason", "p"]
            .map(|name| column(&found, &["y"], name).to_string())
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
    let found = run("paired-comparison", &parameters, blocks);
    assert_eq!(column(&found, &["y"], "verdict").to_string(), "different");
    assert_eq!(
        column(&found, &["y"], "unit_of_replication").to_string(),
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
            let of = |effect: f64, noise: f64| if a { 1.0 + effect + noise * w } else { 1.0 };
            Row::new(
                row.key.clone(),
                vec![Scalar::Float(of(0.012, 1.0)), Scalar::Float(of(0.1, 1.0))],
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
    for found in [&table, &each] {
        for metric in ["y", "z"] {
            let of = |name: &str| float(found, &[metric], name).unwrap();
            let excludes = of("adjusted_low") > 1.0 || of("adjusted_high") < 1.0;
            assert_eq!(excludes, of("holm_p") <= 0.05, "{metric}");
            let different = column(found, &[metric], "verdict").to_string() == "different";
            assert_eq!(excludes, different, "{metric}");
            assert!(of("adjusted_low") <= of("ci_low"));
            assert!(of("smallest_detectable") > 0.0);
        }
    }
}

#[test]
fn a_margin_that_cannot_be_applied_is_told_while_planning() {
    let told = |more: Json| {
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
    assert_eq!(told(json!({"margin": {"ok_rate": 0.02}})), [""; 0]);
    assert_eq!(
        told(json!({"margin": {"ok_rat": 0.02}})),
        ["`ok_rat` is not among the columns compared"]
    );
    assert_eq!(
        told(json!({"margin": {"ok_rate": 0}})),
        ["a margin must be a positive number"]
    );
    assert_eq!(
        told(json!({"alpha": 1})),
        ["`alpha` must be between 0 and 1, got 1"]
    );
    assert_eq!(
        told(json!({"cluster": ["host"], "rule": {}})),
        [
            "table `made` has no parameter `cluster`",
            "table `made` has no parameter `rule`"
        ]
    );
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
        let found = run("crossover", &parameters, frame.settle().unwrap());
        [
            "crossover_at",
            "crossover_after",
            "winner_after",
            "resolution",
        ]
        .map(|name| column(&found, &[], name).to_string())
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
        let found = run("breakdown", &parameters, frame.settle().unwrap());
        ["breakdown_n", "observed_n", "resolution", "units"]
            .map(|name| column(&found, &[], name).to_string())
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
    let found = run("wins", &parameters, frame);
    let counts = |side: &str| {
        ["n", "incomplete", "wins"].map(|name| column(&found, &[side], name).to_string())
    };
    // `c` never ran, so no contest is complete and nobody wins one.
    assert_eq!(counts("a"), ["0", "2", "0"]);
    assert_eq!(counts("c"), ["0", "2", "0"]);
}

#[test]
fn a_quantile_that_so_few_requests_cannot_bound_is_left_out_and_counted() {
    let (_folder, store) = store();
    let cells = |quantiles: &str| {
        let settings = json!({"cells": {"operator": "cell-summary", "quantiles": quantiles}});
        table(
            &analyze(&store, &inputs(&store), &settings).unwrap(),
            "cells",
        )
    };
    let supported = cells("supported");
    for column in [
        "ttft_ms_p50",
        "ttft_ms_p99",
        "ttft_ms_p50_low",
        "client_lag_ms_p99",
    ] {
        assert!(
            supported.float(column).unwrap().iter().all(Option::is_none),
            "{column}"
        );
    }
    let refused = supported.text("quantiles_refused").unwrap()[0].unwrap();
    assert!(
        refused.starts_with("p50 of ") && refused.contains("6 values needed, at most 4 there"),
        "{refused}"
    );
    assert!(cells("all").float("ttft_ms_p99").unwrap()[0].is_some());
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
