//! Compares every procedure that exists in R with `oracles/r.json`.

use serde_json::Value;
use statistics::{
    Continuity, CorrelationKind, Method, ZeroHandling, benjamini_hochberg, correlation, friedman,
    holm, kruskal_wallis, mann_whitney_u, permutation_test_means, power, quantile_ranks,
    smallest_detectable, unit_effect, wilcoxon_signed_rank,
};

use crate::{agree, floats, sample};

/// Returns the vectors of a procedure.
fn cases(procedure: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(include_str!("../../oracles/r.json")).unwrap();
    let cases = file["cases"].as_array().unwrap().iter();
    let chosen: Vec<Value> = cases
        .filter(|c| c["procedure"] == procedure)
        .cloned()
        .collect();
    assert!(!chosen.is_empty(), "no vector for {procedure}");
    chosen
}

fn rows(case: &Value) -> Vec<Vec<f64>> {
    case["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(floats)
        .collect()
}

#[test]
fn effects_of_units_agree_with_t_test() {
    for case in cases("unit") {
        let effect = unit_effect(&floats(&case["a"])).unwrap();
        let expected = &case["expected"];
        agree(&case, "t", Some(effect.t), &expected["t"]);
        agree(&case, "p", Some(effect.p), &expected["p"]);
        for (level, name) in [(0.95, "interval"), (0.9, "narrow")] {
            let interval = effect.interval(level);
            agree(&case, name, Some(interval.low), &expected[name][0]);
            agree(&case, name, Some(interval.high), &expected[name][1]);
        }
        agree(
            &case,
            "above",
            Some(effect.p_above(0.01)),
            &expected["above"],
        );
        agree(
            &case,
            "below",
            Some(effect.p_below(0.01)),
            &expected["below"],
        );
        agree(
            &case,
            "sign flip",
            effect.sign_flip_p,
            &expected["sign_flip"],
        );
    }
}

#[test]
fn power_agrees_with_power_t_test() {
    for case in cases("power") {
        let n = case["units"].as_u64().unwrap() as usize;
        let alpha = case["alpha"].as_f64().unwrap();
        for (i, effect) in floats(&case["effects"]).into_iter().enumerate() {
            agree(
                &case,
                "power",
                power(n, effect, alpha),
                &case["expected"]["power"][i],
            );
        }
        let detectable = smallest_detectable(n, alpha, 0.8);
        agree(
            &case,
            "detectable",
            detectable,
            &case["expected"]["detectable"],
        );
    }
}

#[test]
fn signed_ranks_agree_with_wilcox_test_and_with_all_signs() {
    let test = |case: &Value, zeros| {
        let test = wilcoxon_signed_rank(&floats(&case["a"]), zeros, Continuity::None).unwrap();
        assert_eq!(test.method, Method::Exact);
        Some(test.p)
    };
    for case in cases("signed_rank") {
        let p = test(&case, ZeroHandling::Wilcox);
        agree(&case, "p", p, &case["expected"]["p"]);
    }
    for case in cases("signed_rank_tied") {
        let expected = &case["expected"];
        let handlings = [
            (ZeroHandling::Wilcox, "wilcox"),
            (ZeroHandling::Pratt, "pratt"),
            // Half of the zeros' ranks on either side moves both sums but no p.
            (ZeroHandling::Zsplit, "pratt"),
        ];
        for (zeros, name) in handlings {
            agree(&case, name, test(&case, zeros), &expected[name]);
        }
    }
}

#[test]
fn two_groups_agree_with_every_choice_of_the_first() {
    for case in cases("two_groups") {
        let (a, b) = (floats(&case["a"]), floats(&case["b"]));
        let expected = &case["expected"];
        let u = mann_whitney_u(
            &sample(&case["a"]),
            &sample(&case["b"]),
            Continuity::Corrected,
        );
        agree(&case, "u", u.map(|u| u.p), &expected["u"]);
        let means = permutation_test_means(&a, &b, 0, 0).unwrap();
        assert!(means.exact);
        agree(&case, "means", Some(means.p), &expected["means"]);
    }
}

#[test]
fn exact_correlations_agree_with_cor_test() {
    for case in cases("order") {
        let (a, b) = (floats(&case["a"]), floats(&case["b"]));
        let pairs: Vec<(f64, f64)> = a.into_iter().zip(b).collect();
        for (kind, name) in [
            (CorrelationKind::Spearman, "spearman"),
            (CorrelationKind::Kendall, "kendall"),
        ] {
            let p = correlation(kind, &pairs).unwrap().p;
            agree(&case, name, p, &case["expected"][name]);
        }
    }
}

#[test]
fn systems_in_blocks_agree_with_friedman_test() {
    for case in cases("blocks") {
        let blocks = rows(&case);
        let expected = &case["expected"];
        let test = friedman(&blocks).unwrap();
        assert_eq!(test.method, Method::Exact);
        agree(
            &case,
            "chi",
            Some(test.chi_squared),
            &expected["chi_squared"],
        );
        agree(
            &case,
            "asymptotic",
            Some(test.asymptotic_p),
            &expected["asymptotic"],
        );
        agree(&case, "exact", Some(test.p), &expected["exact"]);
    }
}

#[test]
fn groups_agree_with_kruskal_test() {
    for case in cases("groups") {
        let test = kruskal_wallis(&rows(&case)).unwrap();
        let expected = &case["expected"];
        assert_eq!(test.method, Method::Exact);
        agree(&case, "h", Some(test.h), &expected["h"]);
        agree(
            &case,
            "asymptotic",
            Some(test.asymptotic_p),
            &expected["asymptotic"],
        );
        agree(&case, "exact", Some(test.p), &expected["exact"]);
    }
}

#[test]
fn families_agree_with_p_adjust() {
    for case in cases("family") {
        let p = floats(&case["a"]);
        for (i, (holm, bh)) in holm(&p).into_iter().zip(benjamini_hochberg(&p)).enumerate() {
            agree(&case, "holm", Some(holm), &case["expected"]["holm"][i]);
            agree(&case, "bh", Some(bh), &case["expected"]["bh"][i]);
        }
    }
}

#[test]
fn ranks_of_quantiles_agree_with_the_binomial_distribution() {
    for case in cases("quantile") {
        let (n, p) = (&case["units"], &case["quantile"]);
        let ranks = quantile_ranks(n.as_u64().unwrap() as usize, p.as_f64().unwrap(), 0.95).ok();
        let expected = &case["expected"];
        let (lower, upper) = (ranks.map(|r| r.lower as f64), ranks.map(|r| r.upper as f64));
        agree(&case, "lower", lower, &expected["ranks"][0]);
        agree(&case, "upper", upper, &expected["ranks"][1]);
        agree(
            &case,
            "coverage",
            ranks.map(|r| r.coverage),
            &expected["coverage"],
        );
    }
}
