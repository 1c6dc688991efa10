//! What a number of units can detect: power and the smallest detectable effect.
//!
//! Effects are in standard deviations of the units' effects, so a table of them needs no data.

use statrs::function::gamma::ln_gamma;

use crate::distribution::{integral_points, normal_upper, root, student_critical};

/// Returns the chance that the two-sided t test of `n` units at level `alpha` detects a true mean of `effect` standard
/// deviations: both tails of the noncentral t with n − 1 degrees of freedom and noncentrality effect·√n (Cohen,
/// Statistical Power Analysis, 1988, chapter 2; like `power.t.test(strict = TRUE)` in R). `None` for fewer than two
/// units.
///
/// # Panics
/// If `alpha` is not strictly between 0 and 1.
pub fn power(n: usize, effect: f64, alpha: f64) -> Option<f64> {
    probability(alpha);
    if n < 2 || !effect.is_finite() {
        return None;
    }
    let test = StudentPower::new((n - 1) as f64, alpha);
    Some(test.at(effect * (n as f64).sqrt()))
}

/// Returns the smallest true mean, in standard deviations of the units' effects, that the two-sided t test of `n` units
/// at level `alpha` detects with chance `power`. `None` for fewer than two units.
///
/// # Panics
/// If `alpha` or `power` is not strictly between 0 and 1, or `power` is not above `alpha`.
pub fn smallest_detectable(n: usize, alpha: f64, power: f64) -> Option<f64> {
    if n < 2 {
        probability(alpha);
        return None;
    }
    let shift = smallest_detectable_shift((n - 1) as f64, alpha, power)?;
    Some(shift / (n as f64).sqrt())
}

/// Returns the smallest detectable shift in standard errors of the estimate, for a two-sided t test with `df` degrees
/// of freedom. Use those of Welch's test if each side has its own units. `None` for less than one degree of freedom.
///
/// # Panics
/// As [`smallest_detectable`].
pub(crate) fn smallest_detectable_shift(df: f64, alpha: f64, power: f64) -> Option<f64> {
    smallest_shift_beyond(df, alpha, power, 0.0)
}

/// Returns the same for a test that also needs an estimate of at least `margin` standard errors.
///
/// # Panics
/// As [`smallest_detectable`], or if `margin` is negative.
pub fn smallest_shift_beyond(df: f64, alpha: f64, power: f64, margin: f64) -> Option<f64> {
    assert!(margin >= 0.0, "a margin is not negative, got {margin}");
    probability(alpha);
    probability(power);
    assert!(power > alpha, "a power lies above alpha, got {power}");
    if !(df >= 1.0 && df.is_finite() && margin.is_finite()) {
        return None;
    }
    let test = StudentPower {
        margin,
        ..StudentPower::new(df, alpha)
    };
    let mut top = 1.0;
    while test.at(top) < power {
        top *= 2.0;
        if top > 1e6 {
            return None;
        }
    }
    Some(root(0.0, top, |effect| power - test.at(effect)))
}

fn probability(p: f64) {
    assert!(p > 0.0 && p < 1.0, "a level lies between 0 and 1, got {p}");
}

/// A two-sided t test with its power function.
struct StudentPower {
    critical: f64,
    /// The least estimate that counts, in standard errors.
    margin: f64,
    /// Ratios u of the observed to the true standard deviation, with their probabilities.
    spreads: Vec<(f64, f64)>,
}

impl StudentPower {
    /// Prepares the test with `df` ≥ 1 degrees of freedom.
    fn new(df: f64, alpha: f64) -> Self {
        let critical = student_critical(alpha / 2.0, df);
        // u² is χ² over its degrees of freedom.
        let scale = (df / 2.0).ln() * (df / 2.0) - ln_gamma(df / 2.0) + std::f64::consts::LN_2;
        let density = |u: f64| (scale + (df - 1.0) * u.ln() - df * u * u / 2.0).exp();
        let reach = 10.0 / df.sqrt();
        let (low, high) = ((1.0 - reach).max(0.0), 1.0 + reach);
        // The normal probability below changes within 1/critical.
        let panels = ((high - low) * critical).ceil().clamp(24.0, 4_000.0) as usize;
        let spreads = integral_points(low, high, panels)
            .map(|(u, weight)| (u, weight * density(u)))
            .filter(|(_, mass)| *mass > 1e-18)
            .collect();
        Self {
            critical,
            margin: 0.0,
            spreads,
        }
    }

    /// Returns the chance to reject at a true mean of `centre` standard errors. The noncentral t is (Z + centre)/u; its
    /// tails are the normal ones averaged over u (Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions 2,
    /// 1995, section 31.1).
    fn at(&self, centre: f64) -> f64 {
        let rejects = |(u, mass): &(f64, f64)| {
            let bound = (self.critical * u).max(self.margin);
            mass * (normal_upper(bound - centre) + normal_upper(bound + centre))
        };
        self.spreads.iter().map(rejects).sum::<f64>().min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_detectable_effects_are_the_published_ones() {
        for (n, expected) in [(3, 3.264), (5, 1.682), (8, 1.156), (10, 0.996), (20, 0.660)] {
            let effect = smallest_detectable(n, 0.05, 0.8).unwrap();
            assert!((effect - expected).abs() < 6e-4, "{n}: {effect}");
            assert!((power(n, effect, 0.05).unwrap() - 0.8).abs() < 1e-10);
        }
        assert_eq!(smallest_detectable(1, 0.05, 0.8), None);
    }

    #[test]
    fn two_sides_of_as_many_units_find_less_than_one_of_all_of_them() {
        // R: power.t.test(n = 5, sd = 1, power = 0.8, strict = TRUE)$delta is 2.0244 for two samples of five.
        let shift = smallest_detectable_shift(8.0, 0.05, 0.8).unwrap();
        let delta = shift * (2.0_f64 / 5.0).sqrt();
        assert!((delta - 2.0244).abs() < 1e-3, "{delta}");
        assert_eq!(smallest_detectable_shift(0.5, 0.05, 0.8), None);
    }

    #[test]
    fn an_estimate_that_must_exceed_a_margin_needs_a_larger_effect() {
        let plain = smallest_detectable_shift(4.0, 0.05, 0.8).unwrap();
        let beyond = |margin: f64| smallest_shift_beyond(4.0, 0.05, 0.8, margin).unwrap();
        assert_eq!(beyond(0.0), plain);
        assert!(beyond(plain) > plain);
        // Far beyond what the test needs, the estimate alone decides: R's qnorm(0.8) is 0.8416.
        assert!((beyond(40.0) - 40.8416).abs() < 1e-3, "{}", beyond(40.0));
    }

    #[test]
    fn without_an_effect_the_power_is_alpha() {
        for n in [3, 5, 30, 300] {
            for alpha in [0.05, 0.005, 0.0005] {
                let p = power(n, 0.0, alpha).unwrap();
                assert!((p / alpha - 1.0).abs() < 1e-9, "{n}, {alpha}: {p}");
            }
        }
    }
}
