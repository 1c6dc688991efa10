//! Correlation, survival, unpaired procedures and fits.

use statistics::{
    Bootstrap, BootstrapKind, CorrelationKind, Linearisation, Model, cliffs_delta, cohens_d,
    correlation, fit, fit_linearised, kaplan_meier, permutation_test_means, pooled_t,
    sign_flip_test,
};

use crate::{agree, agree_to, cases, floats, near_interval, sample};

#[test]
fn correlations_agree_with_scipy() {
    for case in cases("correlation") {
        let kind = match case["kind"].as_str().unwrap() {
            "pearson" => CorrelationKind::Pearson,
            "spearman" => CorrelationKind::Spearman,
            _ => CorrelationKind::Kendall,
        };
        let pairs: Vec<(f64, f64)> = floats(&case["a"])
            .into_iter()
            .zip(floats(&case["b"]))
            .collect();
        let association = correlation(kind, &pairs);
        let expected = &case["expected"];
        agree(
            &case,
            "coefficient",
            association.map(|f| f.coefficient),
            &expected["coefficient"],
        );
        // An extreme p moves by many times the last bit of r. At p = 1e-100, a relative change of
        // 1e-16 in r becomes one of 1e-13 in p, still far below the tolerance.
        agree(&case, "p", association.and_then(|f| f.p), &expected["p"]);
    }
}

#[test]
fn unpaired_t_tests_agree_with_scipy() {
    for case in cases("pooled_t") {
        let test = pooled_t(&sample(&case["a"]), &sample(&case["b"]));
        agree(&case, "t", test.map(|t| t.t), &case["expected"]["t"]);
        agree(&case, "df", test.map(|t| t.df), &case["expected"]["df"]);
        agree(&case, "p", test.map(|t| t.p), &case["expected"]["p"]);
    }
}

#[test]
fn survival_curves_agree_with_statsmodels() {
    for case in cases("kaplan_meier") {
        let curve = kaplan_meier(&floats(&case["a"]), &floats(&case["b"])).unwrap();
        let expected = &case["expected"];
        assert_eq!(
            curve.steps.len(),
            expected["at"].as_array().unwrap().len(),
            "{}",
            case["name"]
        );
        for (i, step) in curve.steps.iter().enumerate() {
            agree_to(&case, "at", Some(step.at), &expected["at"][i], 0.0);
            agree_to(
                &case,
                "at risk",
                Some(step.at_risk as f64),
                &expected["at_risk"][i],
                0.0,
            );
            if step.survival > 0.0 {
                agree(
                    &case,
                    "survival",
                    Some(step.survival),
                    &expected["survival"][i],
                );
                agree(
                    &case,
                    "std error",
                    Some(step.std_error),
                    &expected["std_error"][i],
                );
            } else {
                // No observation remains. statsmodels has 0/0 there; the definition has no error at
                // all.
                assert!(expected["survival"][i].as_f64().unwrap().abs() < 1e-15);
                assert_eq!(step.std_error, 0.0);
            }
        }
        for pair in expected["quantiles"].as_array().unwrap() {
            agree_to(
                &case,
                "quantile",
                curve.quantile(pair[0].as_f64().unwrap()),
                &pair[1],
                0.0,
            );
        }
    }
}

#[test]
fn bootstrap_intervals_of_a_difference_agree_with_scipy_within_monte_carlo_error() {
    // As for one sample: 2 % of the width is about ten times the variation of an end.
    for case in cases("bootstrap_difference") {
        let kind = match case["name"].as_str().unwrap() {
            "percentile" => BootstrapKind::Percentile,
            "basic" => BootstrapKind::Basic,
            _ => BootstrapKind::Bca,
        };
        let bootstrap = Bootstrap {
            kind,
            resamples: 100_000,
            level: 0.95,
            seed: 164,
        };
        let ours = bootstrap
            .interval_of_difference(&sample(&case["a"]), &sample(&case["b"]))
            .unwrap();
        near_interval(&case, ours);
    }
}

#[test]
fn nonlinear_fits_agree_with_scipy() {
    // SciPy's gradients are differences, so its own answer is accurate to about 1e-7 of a standard
    // error and its covariance to about 1e-6. The tolerances follow.
    for case in cases("fit") {
        let model = match case["name"].as_str().unwrap() {
            "michaelis-menten" => Model::MichaelisMenten,
            "power-law" => Model::PowerLaw,
            "amdahl" => Model::Amdahl,
            _ => Model::Usl,
        };
        let points: Vec<(f64, f64)> = floats(&case["a"])
            .into_iter()
            .zip(floats(&case["b"]))
            .collect();
        let fitted = fit(model, &points).unwrap();
        let errors: Vec<f64> = (0..fitted.values.len())
            .map(|i| fitted.error(i).unwrap())
            .collect();
        for (i, expected) in floats(&case["expected"]["values"]).into_iter().enumerate() {
            let off = (fitted.values[i] - expected).abs();
            assert!(
                off <= 1e-5 * errors[i],
                "{} {i}: {} {expected}",
                case["name"],
                fitted.values[i]
            );
            agree_to(
                &case,
                "error",
                Some(errors[i]),
                &case["expected"]["errors"][i],
                1e-4,
            );
        }
    }
}

#[test]
fn linearised_fits_agree_with_scipys_line() {
    for case in cases("linearised") {
        let kind = match case["name"].as_str().unwrap() {
            "lineweaver-burk" => Linearisation::LineweaverBurk,
            "hanes-woolf" => Linearisation::HanesWoolf,
            _ => Linearisation::EadieHofstee,
        };
        assert_eq!(kind.word(), case["name"]);
        let points: Vec<(f64, f64)> = floats(&case["a"])
            .into_iter()
            .zip(floats(&case["b"]))
            .collect();
        let fitted = fit_linearised(kind, &points).unwrap();
        for (i, ours) in fitted.values.iter().enumerate() {
            agree(&case, "parameter", Some(*ours), &case["expected"][i]);
        }
    }
}

#[test]
fn enumerated_sign_flips_agree_with_scipys_permutation_test() {
    for case in cases("sign_flip") {
        let test = sign_flip_test(&floats(&case["a"]), 0, 0).unwrap();
        assert!(test.exact, "{}", case["name"]);
        agree(&case, "p", Some(test.p), &case["expected"]);
    }
}

#[test]
fn enumerated_exchanges_of_labels_agree_with_every_choice() {
    for case in cases("permutation") {
        let (a, b) = (floats(&case["a"]), floats(&case["b"]));
        let test = permutation_test_means(&a, &b, 0, 0).unwrap();
        assert!(test.exact, "{}", case["name"]);
        agree(&case, "p", Some(test.p), &case["expected"]);
    }
}

#[test]
fn effect_sizes_agree_with_their_formulas_in_numpy() {
    for case in cases("effect") {
        let (a, b) = (sample(&case["a"]), sample(&case["b"]));
        // A difference of shares near 0 has few digits of its own, so the floor is the weight of
        // one pair.
        let delta = cliffs_delta(&a, &b);
        let expected = case["expected"]["cliffs_delta"].as_f64().unwrap();
        assert!(
            (delta - expected).abs() <= 1e-12,
            "{}: {delta} {expected}",
            case["name"]
        );
        if !case["expected"]["cohens_d"].is_null() {
            agree(
                &case,
                "cohens_d",
                cohens_d(&a, &b),
                &case["expected"]["cohens_d"],
            );
        }
    }
}
