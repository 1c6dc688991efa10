//! Compares every procedure with the vectors of SciPy and statsmodels in `oracles/vectors.json` and
//! with those of R in `oracles/r.json`, and procedures that share a level with
//! `oracles/families.json`.

mod association;
mod families;
mod procedures;
mod r;
mod units;

use serde_json::Value;
use statistics::{Interval, Sample};

/// Returns the vectors of a procedure.
fn cases(procedure: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(include_str!("../../oracles/vectors.json")).unwrap();
    let cases = file["cases"].as_array().unwrap();
    let chosen: Vec<_> = cases
        .iter()
        .filter(|c| c["procedure"] == procedure)
        .cloned()
        .collect();
    assert!(!chosen.is_empty(), "no vector for {procedure}");
    chosen
}

fn floats(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_f64().unwrap())
        .collect()
}

fn sample(value: &Value) -> Sample {
    Sample::new(floats(value)).unwrap()
}

/// Compares to a relative 1e-9; `null` must be `None`.
#[track_caller]
fn agree(case: &Value, what: &str, ours: Option<f64>, theirs: &Value) {
    agree_to(case, what, ours, theirs, 1e-9);
}

/// Compares to a relative tolerance; `null` must be `None`.
#[track_caller]
fn agree_to(case: &Value, what: &str, ours: Option<f64>, theirs: &Value, tolerance: f64) {
    let name = (&case["procedure"], &case["name"], &case["kind"]);
    match (ours, theirs.as_f64()) {
        (None, None) => {}
        (Some(a), Some(b)) => {
            assert!(
                (a - b).abs() <= tolerance * b.abs(),
                "{name:?} {what}: {a:e}, expected {b:e}: {case}"
            );
        }
        (a, b) => panic!("{name:?} {what}: {a:?}, expected {b:?}"),
    }
}

/// Asserts that an interval from resampling agrees with an oracle's up to the error of the resampling.
fn near_interval(case: &Value, ours: Interval) {
    let theirs = floats(&case["expected"]);
    let width = theirs[1] - theirs[0];
    for (end, oracle) in [ours.low, ours.high].into_iter().zip(&theirs) {
        assert!(
            (end - oracle).abs() < 0.02 * width,
            "{ours:?} {theirs:?} {case}"
        );
    }
}
