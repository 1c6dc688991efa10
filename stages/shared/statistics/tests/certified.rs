//! Compares mean, standard deviation and nonlinear fits with the certified values of NIST's
//! Statistical Reference Datasets (<https://www.itl.nist.gov/div898/strd>). NIST computed them from
//! the same published numbers in arithmetic of 500 digits, and printed 11 to 15 of them.

use statistics::{Model, Sample, fit};

/// Compares to a relative tolerance.
#[track_caller]
fn agree(what: &str, ours: f64, certified: f64, tolerance: f64) {
    assert!(
        (ours - certified).abs() <= tolerance * certified.abs(),
        "{what}: {ours:e}, certified {certified:e}"
    );
}

#[track_caller]
fn univariate(name: &str, values: Vec<f64>, mean: f64, std: f64, tolerance: f64) {
    let sample = Sample::new(values).unwrap();
    agree(&format!("{name}: mean"), sample.mean(), mean, 1e-14);
    agree(
        &format!("{name}: standard deviation"),
        sample.std().unwrap(),
        std,
        tolerance,
    );
}

/// Returns a value followed by two alternating others, `pairs` times.
fn alternating(first: f64, low: f64, high: f64, pairs: usize) -> Vec<f64> {
    std::iter::once(first)
        .chain([low, high].into_iter().cycle().take(2 * pairs))
        .collect()
}

#[test]
fn constant_leading_digits_do_not_spoil_the_standard_deviation() {
    univariate(
        "NumAcc1",
        vec![10_000_001.0, 10_000_003.0, 10_000_002.0],
        10_000_002.0,
        1.0,
        1e-14,
    );
    univariate("NumAcc2", alternating(1.2, 1.1, 1.3, 500), 1.2, 0.1, 1e-14);
    // The decimal values have no exact double. What remains of them after the leading digits is
    // accurate to 6e-11 and 9e-10, and the tolerances are ten times that relative to 0.1.
    univariate(
        "NumAcc3",
        alternating(1_000_000.2, 1_000_000.1, 1_000_000.3, 500),
        1_000_000.2,
        0.1,
        6e-9,
    );
    univariate(
        "NumAcc4",
        alternating(10_000_000.2, 10_000_000.1, 10_000_000.3, 500),
        10_000_000.2,
        0.1,
        9e-8,
    );
}

#[test]
fn mean_and_standard_deviation_of_measured_series_are_the_certified_ones() {
    // Mavro: transmittance of a filter.
    let mavro = [
        2.00180, 2.00170, 2.00180, 2.00190, 2.00180, 2.00170, 2.00150, 2.00140, 2.00150,
        2.00150, //
        2.00170, 2.00180, 2.00180, 2.00190, 2.00190, 2.00210, 2.00200, 2.00160, 2.00140,
        2.00130, //
        2.00130, 2.00150, 2.00150, 2.00160, 2.00150, 2.00140, 2.00130, 2.00140, 2.00150,
        2.00140, //
        2.00150, 2.00160, 2.00150, 2.00160, 2.00190, 2.00200, 2.00200, 2.00210, 2.00220,
        2.00230, //
        2.00240, 2.00250, 2.00270, 2.00260, 2.00260, 2.00260, 2.00270, 2.00260, 2.00250, 2.00240,
    ];
    univariate(
        "Mavro",
        mavro.to_vec(),
        2.001_856,
        0.000_429_123_454_003_053,
        1e-12,
    );
    // Michelso: the speed of light, Mm/s; hundredths above 299.
    let michelson = [
        85, 74, 90, 107, 93, 85, 95, 98, 98, 88, 100, 98, 93, 65, 76, 81, 100, 100, 96, 96, 96, 94,
        96, 94, 88, //
        80, 85, 88, 90, 84, 83, 79, 81, 88, 88, 83, 80, 79, 76, 80, 88, 88, 88, 86, 72, 72, 62, 86,
        97, 95, 88, //
        91, 85, 87, 84, 84, 85, 84, 84, 84, 89, 81, 81, 82, 80, 77, 76, 74, 75, 76, 91, 92, 89, 86,
        88, 72, 84, //
        85, 85, 78, 89, 84, 78, 81, 76, 81, 79, 81, 82, 85, 87, 87, 81, 74, 81, 94, 95, 80, 81, 87,
    ];
    let michelson = michelson.map(|hundredths| f64::from(29_900 + hundredths) / 100.0);
    univariate(
        "Michelso",
        michelson.to_vec(),
        299.8524,
        0.079_010_547_819_051_8,
        1e-12,
    );
}

#[test]
fn a_power_law_has_the_certified_parameters_and_errors() {
    // DanWood: y = b1 · x^b2.
    let points = [
        (1.309, 2.138),
        (1.471, 3.421),
        (1.490, 3.597),
        (1.565, 4.340),
        (1.611, 4.882),
        (1.680, 5.660),
    ];
    let fitted = fit(Model::PowerLaw, &points).unwrap();
    agree("b1", fitted.values[0], 7.688_622_617_6e-1, 1e-10);
    agree("b2", fitted.values[1], 3.860_405_587_1, 1e-10);
    agree(
        "error of b1",
        fitted.error(0).unwrap(),
        1.828_197_386_0e-2,
        1e-9,
    );
    agree(
        "error of b2",
        fitted.error(1).unwrap(),
        5.172_661_091_3e-2,
        1e-9,
    );
    agree(
        "residual sum of squares",
        fitted.rss,
        4.317_308_408_3e-3,
        1e-10,
    );
    assert_eq!(fitted.df, 4);
}

#[test]
fn a_saturation_curve_has_the_certified_parameters_and_errors() {
    // Misra1d: y = b1 · b2 · x ÷ (1 + b2 · x), which is Vmax · x ÷ (K + x) with K = 1 ÷ b2, whose
    // standard error is that of b2 ÷ b2².
    let points = [
        (77.6, 10.07),
        (114.9, 14.73),
        (141.1, 17.94),
        (190.8, 23.93),
        (239.9, 29.61),
        (289.0, 35.18),
        (332.8, 40.02),
        (378.4, 44.82),
        (434.8, 50.76),
        (477.3, 55.05),
        (536.8, 61.01),
        (593.1, 66.40),
        (689.1, 75.47),
        (760.0, 81.78),
    ];
    let (b2, error_of_b2) = (3.022_732_444_9e-4, 2.933_435_447_9e-6);
    let fitted = fit(Model::MichaelisMenten, &points).unwrap();
    agree("Vmax", fitted.values[0], 4.373_697_075_4e2, 1e-10);
    agree("K", fitted.values[1], 1.0 / b2, 1e-10);
    agree(
        "error of Vmax",
        fitted.error(0).unwrap(),
        3.648_917_434_5,
        1e-9,
    );
    agree(
        "error of K",
        fitted.error(1).unwrap(),
        error_of_b2 / (b2 * b2),
        1e-9,
    );
    agree(
        "residual sum of squares",
        fitted.rss,
        5.641_929_528_3e-2,
        1e-10,
    );
    assert_eq!(fitted.df, 12);
}
