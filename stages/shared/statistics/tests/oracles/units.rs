//! Repeated looks, dependent series, launches.

use statistics::{e_value, effective_size, launch_quantile, unit_effect};

use crate::{agree, cases, floats};

#[test]
fn e_values_agree_with_the_integral_over_the_noncentral_t() {
    for case in cases("e_value") {
        let effect = unit_effect(&floats(&case["a"])).unwrap();
        let ours = e_value(&effect, 0.0, case["spread"].as_f64().unwrap());
        agree(&case, "e", Some(ours), &case["expected"]);
    }
}

#[test]
fn a_dependent_series_agrees_with_its_formulas_in_numpy() {
    for case in cases("series") {
        let size = effective_size(&floats(&case["a"])).unwrap().size;
        agree(&case, "size", Some(size), &case["expected"]["size"]);
    }
}

#[test]
fn quantiles_over_launches_agree_with_woodruffs_interval() {
    for case in cases("launch_quantile") {
        let launches: Vec<Vec<f64>> = case["rows"]
            .as_array()
            .unwrap()
            .iter()
            .map(floats)
            .collect();
        let ours = launch_quantile(&launches, case["p"].as_f64().unwrap(), 0.95).unwrap();
        let expected = &case["expected"];
        agree(&case, "estimate", Some(ours.estimate), &expected[0]);
        agree(&case, "low", Some(ours.interval.low), &expected[1]);
        agree(&case, "high", Some(ours.interval.high), &expected[2]);
    }
}
