//! Repeated looks, dependent series, launches.

use statistics::{
    Spending, batch_means, e_value, effective_size, jackknife, launch_quantile, look_levels,
    ratio_of_sums, unit_effect, warm_up_end,
};

use crate::{agree, agree_to, cases, floats};

#[test]
fn e_values_agree_with_the_integral_over_the_noncentral_t() {
    for case in cases("e_value") {
        let effect = unit_effect(&floats(&case["a"])).unwrap();
        let ours = e_value(&effect, 0.0, case["spread"].as_f64().unwrap());
        agree(&case, "e", Some(ours), &case["expected"]);
    }
}

#[test]
fn levels_of_looks_agree_with_nested_integrals() {
    for case in cases("look_levels") {
        let spending = match case["name"].as_str().unwrap() {
            "pocock" => Spending::Pocock,
            _ => Spending::ObrienFleming,
        };
        let looks = case["looks"].as_u64().unwrap() as usize;
        for (i, level) in look_levels(spending, looks, 0.05).into_iter().enumerate() {
            agree(&case, "level", Some(level), &case["expected"][i]);
        }
    }
}

#[test]
fn a_dependent_series_agrees_with_its_formulas_in_numpy() {
    for case in cases("series") {
        let (series, expected) = (floats(&case["a"]), &case["expected"]);
        let size = effective_size(&series).unwrap().size;
        agree(&case, "size", Some(size), &expected["size"]);
        let interval = batch_means(&series, 20).unwrap().interval(0.95).unwrap();
        agree(&case, "low", Some(interval.low), &expected["batches"][0]);
        agree(&case, "high", Some(interval.high), &expected["batches"][1]);
        let cut = warm_up_end(&series, 1).unwrap() as f64;
        agree(&case, "cut", Some(cut), &expected["cut"]);
    }
}

#[test]
fn a_ratio_of_sums_agrees_with_its_formulas_in_numpy() {
    for case in cases("ratio_of_sums") {
        let units: Vec<(f64, f64)> = floats(&case["a"])
            .into_iter()
            .zip(floats(&case["b"]))
            .collect();
        let (ours, expected) = (ratio_of_sums(&units).unwrap(), &case["expected"]);
        agree(&case, "ratio", Some(ours.ratio), &expected["ratio"]);
        agree(&case, "error", Some(ours.error), &expected["error"]);
        let left_out = jackknife(&units, |units| {
            units.iter().map(|u| u.0).sum::<f64>() / units.iter().map(|u| u.1).sum::<f64>()
        })
        .unwrap();
        agree(&case, "mean", Some(left_out.mean), &expected["mean"]);
        // Pseudo-values are differences of similar numbers, so both sides lose some digits.
        let error = Some(left_out.error);
        agree_to(&case, "jackknife", error, &expected["jackknife"], 1e-8);
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
