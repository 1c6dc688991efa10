//! Repeated looks: intervals that hold at every look, and levels for looks planned in advance.
//!
//! A plain 5 % t test at each of 3 to 20 blocks reports an effect in 23 % of nulls.

use crate::bootstrap::Interval;
use crate::distribution::{integral_points, normal_upper, root, student_two_sided};
use crate::refusal::Refusal;
use crate::unit::UnitEffect;

/// The variance of the effects, in squared standard deviations, for which the anytime interval is optimal. It is fixed
/// before the first look.
pub const ANYTIME_SPREAD: f64 = 10.0;

/// The smallest number of units for a look.
pub const LEAST_LOOK: usize = 3;

/// Returns the critical t of the anytime interval of `n` units at level `alpha`: the t confidence sequence with the
/// right-Haar prior on the scale and N(0, spread) on the effect in standard deviations (Lai, Ann. Statist. 4, 1976;
/// Wang & Ramdas, Electron. J. Statist. 19, 2025). With r = 1 + n·spread and B = (r/α²)^(1/n): t² = (n − 1)(B − 1)/(1 −
/// B/r). `None` if B ≥ r, because this few units can never decide, and for fewer than two units.
///
/// # Panics
/// If `alpha` is not strictly between 0 and 1 or `spread` is not above 0.
pub(crate) fn anytime_critical(n: usize, spread: f64, alpha: f64) -> Option<f64> {
    check(spread, alpha);
    if n < 2 {
        return None;
    }
    let size = n as f64;
    let r = 1.0 + size * spread;
    let b = (r / (alpha * alpha)).powf(1.0 / size);
    (b < r).then(|| ((size - 1.0) * (b - 1.0) / (1.0 - b / r)).sqrt())
}

/// Returns the interval of the mean effect that holds at all looks jointly with chance 1 − `alpha`, for independent
/// normal effects.
///
/// # Errors
/// If there are fewer than three units.
///
/// # Panics
/// If `alpha` is not strictly between 0 and 1 or `spread` is not above 0.
pub fn anytime_interval(effect: &UnitEffect, spread: f64, alpha: f64) -> Result<Interval, Refusal> {
    let critical = anytime_critical(effect.n, spread, alpha);
    let (n, least) = (effect.n, LEAST_LOOK);
    let critical = critical.ok_or(Refusal::TooFewUnits { n, least })?;
    let half = critical * effect.error;
    Ok(Interval {
        low: effect.mean - half,
        high: effect.mean + half,
    })
}

/// Returns the level at which a single t test of `n` units has the critical t of the anytime interval at `alpha`: the
/// cost of the anytime interval at this look. `None` if this few units can never decide.
///
/// # Panics
/// If `alpha` is not strictly between 0 and 1.
pub fn anytime_level(n: usize, alpha: f64) -> Option<f64> {
    let critical = anytime_critical(n, ANYTIME_SPREAD, alpha)?;
    Some(student_two_sided(critical, (n - 1) as f64))
}

/// Returns the e-value of "the mean is `value`". At 1/α or more, it is rejected at α, however many looks came before.
/// √(1/r)·((1 + t²/(n − 1))/(1 + t²/(r(n − 1))))^(n/2).
///
/// # Panics
/// If `spread` is not above 0.
pub fn e_value(effect: &UnitEffect, value: f64, spread: f64) -> f64 {
    check(spread, 0.5);
    let size = effect.n as f64;
    let r = 1.0 + size * spread;
    let square = ((effect.mean - value) / effect.error).powi(2) / (size - 1.0);
    let ratio = (1.0 + square) / (1.0 + square / r);
    (size / 2.0 * ratio.ln() - r.ln() / 2.0).exp()
}

fn check(spread: f64, alpha: f64) {
    assert!(spread > 0.0, "a spread is above 0, got {spread}");
    assert!(
        alpha > 0.0 && alpha < 1.0,
        "a level lies between 0 and 1, got {alpha}"
    );
}

/// How planned looks divide the level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spending {
    /// The same level at every look (Pocock, Biometrika 64, 1977).
    Pocock,
    /// Almost nothing at the first looks, almost all at the last (O'Brien & Fleming, Biometrics 35,
    /// 1979).
    ObrienFleming,
}

/// The largest number of planned looks.
pub(crate) const MOST_LOOKS: usize = 20;

/// Returns the two-sided level of each of this many equally spaced looks, which together keep `alpha`. Compare it with
/// the *p value of the t test*, not t with a normal quantile. With looks at 3, 6 and 9 units, the p values keep 5.5 %
/// (Pocock) and 5.3 % (O'Brien–Fleming); the raw comparison gives 20 % and 16 %.
///
/// # Panics
/// If `looks` is not between 1 and 20 or `alpha` is not strictly between 0 and 1.
pub fn look_levels(spending: Spending, looks: usize, alpha: f64) -> Vec<f64> {
    assert!(
        (1..=MOST_LOOKS).contains(&looks),
        "a plan has 1 to {MOST_LOOKS} looks, got {looks}"
    );
    check(1.0, alpha);
    let bounds = |constant: f64| -> Vec<f64> {
        let bound = |look: usize| match spending {
            Spending::Pocock => constant,
            Spending::ObrienFleming => constant * (looks as f64 / look as f64).sqrt(),
        };
        (1..=looks).map(bound).collect()
    };
    let constant = root(0.5, 8.0, |constant| crossing(&bounds(constant)) - alpha);
    bounds(constant)
        .into_iter()
        .map(|z| 2.0 * normal_upper(z))
        .collect()
}

/// Returns the chance that a sum of standard normals S ever has |S_k| ≥ z_k·√k. It carries the density of the sums that
/// have not crossed from look to look (Armitage, McPherson & Rowe, JRSS A 132, 1969).
fn crossing(z: &[f64]) -> f64 {
    let density = |x: f64| (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    // Points, weights and densities of the remaining sums.
    let mut left: Vec<(f64, f64)> = vec![(0.0, 1.0)];
    for (look, z) in z.iter().enumerate() {
        let bound = z * ((look + 1) as f64).sqrt();
        let panels = (bound * 2.0).ceil().max(2.0) as usize;
        left = integral_points(-bound, bound, panels)
            .map(|(x, weight)| {
                let reached: f64 = left
                    .iter()
                    .map(|(from, mass)| mass * density(x - from))
                    .sum();
                (x, weight * reached)
            })
            .collect();
    }
    1.0 - left.iter().map(|(_, mass)| mass).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit_effect;

    #[test]
    fn the_critical_values_are_the_published_ones() {
        let published = [
            (3, 13.2, 0.05),
            (4, 6.54, 0.005),
            (5, 5.41, 0.005),
            (6, 4.90, 0.005),
            (8, 4.42, 0.005),
            (10, 4.18, 0.005),
            (15, 3.92, 0.005),
            (20, 3.81, 0.005),
        ];
        for (n, expected, digits) in published {
            let critical = anytime_critical(n, 10.0, 0.05).unwrap();
            assert!((critical - expected).abs() <= digits, "{n}: {critical}");
        }
        assert_eq!(anytime_critical(2, 10.0, 0.05), None);
    }

    #[test]
    fn the_level_of_a_look_gives_the_anytime_interval() {
        let effect = unit_effect(&[0.021, 0.034, 0.012, 0.028, 0.019]).unwrap();
        let level = anytime_level(5, 0.05).unwrap();
        let (plain, anytime) = (
            effect.interval(1.0 - level),
            anytime_interval(&effect, ANYTIME_SPREAD, 0.05).unwrap(),
        );
        assert!((plain.low - anytime.low).abs() < 1e-12);
        assert!((plain.high - anytime.high).abs() < 1e-12);
        assert_eq!(anytime_level(2, 0.05), None);
    }

    #[test]
    fn the_e_value_is_the_published_one_and_agrees_with_the_interval() {
        let effect = unit_effect(&[0.021, 0.034, 0.012, 0.028, 0.019]).unwrap();
        assert!((e_value(&effect, 0.0, 10.0) - 29.8827).abs() < 5e-5);
        let interval = anytime_interval(&effect, 10.0, 0.05).unwrap();
        for end in [interval.low, interval.high] {
            assert!((e_value(&effect, end, 10.0) - 20.0).abs() < 1e-8);
        }
        assert_eq!(interval.excludes(0.0), e_value(&effect, 0.0, 10.0) >= 20.0);
    }

    #[test]
    fn the_levels_of_planned_looks_are_the_published_ones() {
        let pocock = [(2, 2.178), (3, 2.289), (4, 2.361), (5, 2.413), (6, 2.453)];
        for (looks, z) in pocock {
            let levels = look_levels(Spending::Pocock, looks, 0.05);
            let expected = 2.0 * normal_upper(z);
            assert!(levels.iter().all(|l| (l / expected - 1.0).abs() < 0.002));
        }
        for (looks, c) in [(3, 2.004), (4, 2.024), (5, 2.040), (6, 2.053)] {
            let levels = look_levels(Spending::ObrienFleming, looks, 0.05);
            for (k, level) in levels.iter().enumerate() {
                let z = c * (looks as f64 / (k + 1) as f64).sqrt();
                let expected = 2.0 * normal_upper(z);
                assert!(
                    (level / expected - 1.0).abs() < 0.01,
                    "{looks} {k}: {level}"
                );
            }
        }
        assert!((look_levels(Spending::Pocock, 1, 0.05)[0] - 0.05).abs() < 1e-10);
        assert_eq!(
            look_levels(Spending::ObrienFleming, MOST_LOOKS, 0.05).len(),
            20
        );
    }
}
