//! Compares decisions that share a level with closed testing over every set of hypotheses, and rank tests over several
//! series with SciPy and enumeration.

use serde_json::Value;
use statistics::{SharedTest, kendall_trend, shared_decisions, van_elteren};

use crate::floats;

fn cases(procedure: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(include_str!("../../oracles/families.json")).unwrap();
    let all = file["cases"].as_array().unwrap().clone();
    let chosen: Vec<Value> = all
        .into_iter()
        .filter(|c| c["procedure"] == procedure)
        .collect();
    assert!(!chosen.is_empty(), "no vector for {procedure}");
    chosen
}

fn rows(value: &Value) -> Vec<Vec<f64>> {
    value.as_array().unwrap().iter().map(floats).collect()
}

#[track_caller]
fn close(ours: f64, theirs: &Value, case: &Value) {
    let theirs = theirs.as_f64().unwrap();
    assert!(
        (ours - theirs).abs() <= 1e-9 * theirs.abs(),
        "{ours:e}, expected {theirs:e}: {case}"
    );
}

#[test]
fn comparisons_and_their_cells_are_decided_as_closed_testing_over_every_set_decides() {
    for case in cases("shared") {
        let wholes = floats(&case["wholes"]);
        let parts = rows(&case["parts"]);
        let makes_up = case["makes_up"].as_bool().unwrap();
        let test = |p: f64, table, part_of| SharedTest {
            p,
            alpha: 0.05,
            table,
            part_of,
            makes_up: makes_up && part_of.is_some(),
        };
        let mut tests: Vec<SharedTest> = wholes.iter().map(|p| test(*p, 0, None)).collect();
        for (whole, parts) in parts.iter().enumerate() {
            tests.extend(parts.iter().map(|p| test(*p, 1, Some(whole))));
        }
        let (decisions, _) = shared_decisions(&tests, 0);
        let rejected: Vec<bool> = decisions.iter().map(|d| d.rejected).collect();
        let expected = case["expected"].as_array().unwrap();
        let expected: Vec<bool> = expected.iter().map(|e| e.as_bool().unwrap()).collect();
        assert_eq!(rejected, expected, "{case}");
    }
}

#[test]
fn trends_agree_with_scipys_exact_tau_and_with_every_order() {
    for case in cases("kendall_trend") {
        let trend = kendall_trend(&rows(&case["rows"])).unwrap();
        close(trend.p, &case["expected"], &case);
    }
}

#[test]
fn stratified_rank_sums_agree_with_the_moments_of_every_arrangement() {
    for case in cases("van_elteren") {
        let strata = case["rows"].as_array().unwrap().iter().map(|pair| {
            let mut pair = rows(pair).into_iter();
            (pair.next().unwrap(), pair.next().unwrap())
        });
        let test = van_elteren(&strata.collect::<Vec<_>>()).unwrap();
        close(test.z, &case["expected"][0], &case);
        close(test.p, &case["expected"][1], &case);
    }
}
