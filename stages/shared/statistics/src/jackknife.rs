//! Statistics of several units together: leaving out one at a time, and the ratio of two sums.

use crate::bootstrap::Interval;
use crate::distribution::student_critical;
use crate::launches::LEAST_RESAMPLED;
use crate::refusal::Refusal;
use crate::sample::sum;
use crate::unit::{UnitEffect, unit_effect};

/// Returns the effect of a statistic of several units (an efficiency, a crossover, a parameter of a
/// fit) by the jackknife. The pseudo-values n·θ − (n − 1)·θ without one unit represent the units
/// (Tukey 1958; Efron & Tibshirani, 1993, section 11.5). `mean` is the estimate minus its bias.
///
/// # Errors
/// If there are fewer than five units, or as [`unit_effect`] for the pseudo-values. A statistic
/// that is undefined for a subset gives a NaN and is refused.
pub fn jackknife<T>(units: &[T], statistic: impl Fn(&[&T]) -> f64) -> Result<UnitEffect, Refusal> {
    let (n, least) = (units.len(), LEAST_RESAMPLED);
    if n < least {
        return Err(Refusal::TooFewUnits { n, least });
    }
    let all = statistic(&units.iter().collect::<Vec<_>>());
    let without = |left_out: usize| {
        let rest: Vec<&T> = (0..n)
            .filter(|i| *i != left_out)
            .map(|i| &units[i])
            .collect();
        n as f64 * all - (n - 1) as f64 * statistic(&rest)
    };
    unit_effect(&(0..n).map(without).collect::<Vec<_>>())
}

/// Σy ÷ Σx over units, such as tokens over seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatioOfSums {
    /// The ratio.
    pub ratio: f64,
    /// Its standard error, linearised: √(Σ(y − R·x)²/(n(n − 1))) ÷ mean x (Cochran, Sampling
    /// Techniques, 1977, section 6.4).
    pub error: f64,
    /// The number of units.
    pub n: usize,
}

/// Returns the ratio of sums of units (y, x). For a verdict, use the log ratio of each unit.
///
/// # Errors
/// If there are fewer than five units, a value is not finite, or an x is not positive.
pub fn ratio_of_sums(units: &[(f64, f64)]) -> Result<RatioOfSums, Refusal> {
    let (n, least) = (units.len(), LEAST_RESAMPLED);
    if n < least {
        return Err(Refusal::TooFewUnits { n, least });
    }
    for (at, (y, x)) in units.iter().enumerate() {
        if !(y.is_finite() && x.is_finite()) {
            return Err(Refusal::NotFinite { at });
        }
        if *x <= 0.0 {
            return Err(Refusal::NotPositive { at });
        }
    }
    let (top, bottom) = (
        sum(units.iter().map(|u| u.0)),
        sum(units.iter().map(|u| u.1)),
    );
    let ratio = top / bottom;
    let squares = sum(units.iter().map(|(y, x)| (y - ratio * x).powi(2)));
    let size = n as f64;
    let error = (squares / (size * (size - 1.0))).sqrt() / (bottom / size);
    Ok(RatioOfSums { ratio, error, n })
}

impl RatioOfSums {
    /// Returns ratio ± t·error with n − 1 degrees of freedom.
    ///
    /// # Panics
    /// If `level` is not strictly between 0 and 1.
    pub fn interval(&self, level: f64) -> Interval {
        assert!(level > 0.0 && level < 1.0, "a level lies between 0 and 1");
        let half = student_critical((1.0 - level) / 2.0, (self.n - 1) as f64) * self.error;
        Interval {
            low: self.ratio - half,
            high: self.ratio + half,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jackknife_of_a_mean_is_the_mean() {
        let units = [0.021, 0.034, 0.012, 0.028, 0.019];
        let mean = |units: &[&f64]| units.iter().copied().sum::<f64>() / units.len() as f64;
        let (ours, plain) = (
            jackknife(&units, mean).unwrap(),
            unit_effect(&units).unwrap(),
        );
        assert!((ours.mean - plain.mean).abs() < 1e-15);
        assert!((ours.error / plain.error - 1.0).abs() < 1e-9);
        assert_eq!(
            jackknife(&units[..4], mean),
            Err(Refusal::TooFewUnits { n: 4, least: 5 })
        );
        let undefined = jackknife(&units, |units| if units.len() < 5 { f64::NAN } else { 1.0 });
        assert_eq!(undefined, Err(Refusal::NotFinite { at: 0 }));
    }

    #[test]
    fn a_ratio_of_sums_weighs_its_units() {
        let units = [
            (1200.0, 10.0),
            (1180.0, 9.7),
            (1230.0, 10.4),
            (1190.0, 9.9),
            (1215.0, 10.1),
        ];
        let ours = ratio_of_sums(&units).unwrap();
        assert!((ours.ratio - 6015.0 / 50.1).abs() < 1e-9);
        // The jackknife finds nearly the same error.
        let left_out = jackknife(&units, |units| {
            units.iter().map(|u| u.0).sum::<f64>() / units.iter().map(|u| u.1).sum::<f64>()
        });
        assert!((left_out.unwrap().error / ours.error - 1.0).abs() < 0.02);
        assert!(!ours.interval(0.95).excludes(ours.ratio));
        assert_eq!(
            ratio_of_sums(&[(1.0, 0.0); 5]),
            Err(Refusal::NotPositive { at: 0 })
        );
    }
}
