//! Margins and pooled quantiles.

use artifacts::Scalar;
use pipeline::Json;
use serde_json::json;

use super::{float, grid};
use crate::published::{column, run};
use crate::tests::{analyze, inputs, store, table};

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
            let is_of_launch = |i: &usize| system[*i] == Some("fast") && block[*i] == Some(launch);
            (0..rows.rows())
                .filter(is_of_launch)
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
