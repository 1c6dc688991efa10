//! The t interval of a mean.

use crate::bootstrap::Interval;
use crate::distribution::{beta_share, root, student_critical};
use crate::sample::Sample;

/// A confidence interval of a mean with Student's t.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TInterval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The degrees of freedom, n − 1.
    pub df: usize,
}

/// Returns mean ± t(1 − (1 − level)/2, n − 1) · std/√n; `None` for one value.
///
/// # Panics
/// If `level` is not strictly between 0 and 1.
pub fn t_interval(sample: &Sample, level: f64) -> Option<TInterval> {
    assert!(
        level > 0.0 && level < 1.0,
        "a confidence level lies between 0 and 1, got {level}"
    );
    let std = sample.std()?;
    let df = sample.len() - 1;
    let half =
        student_critical((1.0 - level) / 2.0, df as f64) * std / (sample.len() as f64).sqrt();
    Some(TInterval {
        low: sample.mean() - half,
        high: sample.mean() + half,
        df,
    })
}

/// Returns the interval of a share, given that `part` of `whole` independent things were counted (Clopper & Pearson,
/// Biometrika 26, 1934). Each end is the share at which this count, or one farther out, has the chance (1 − level)/2.
///
/// # Panics
/// If `level` is not strictly between 0 and 1, or `part` is above `whole`.
pub fn share_interval(part: u64, whole: u64, level: f64) -> Interval {
    share_interval_of(part as f64, whole as f64, level)
}

/// As [`share_interval`], for numbers of independent things that need not be whole, as an effective number is. Nothing is
/// known of a whole of 0.
///
/// # Panics
/// If `level` is not strictly between 0 and 1, or `part` is not between 0 and `whole`.
pub fn share_interval_of(part: f64, whole: f64, level: f64) -> Interval {
    assert!(
        level > 0.0 && level < 1.0 && part >= 0.0 && part <= whole,
        "a part of a whole and a level between 0 and 1, got {part} of {whole} and {level}"
    );
    let tail = (1.0 - level) / 2.0;
    Interval {
        low: match part > 0.0 {
            true => root(0.0, 1.0, |p| {
                tail - (1.0 - beta_share(whole - part + 1.0, part, 1.0 - p))
            }),
            false => 0.0,
        },
        high: match part < whole {
            true => root(0.0, 1.0, |p| {
                beta_share(whole - part, part + 1.0, 1.0 - p) - tail
            }),
            false => 1.0,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_the_interval_of_clopper_and_pearson() {
        // scipy.stats.binomtest(k, n).proportion_ci(0.95), 1.17.1
        let references = [
            (0, 10, 0.0, 0.308_497_107_818_762_94),
            (10, 10, 0.691_502_892_181_237_1, 1.0),
            (39, 40, 0.868_414_141_517_234_3, 0.999_367_255_067_909_8),
            (120, 120, 0.969_727_027_422_579_9, 1.0),
        ];
        for (part, whole, low, high) in references {
            let ours = share_interval(part, whole, 0.95);
            assert!((ours.low - low).abs() < 1e-9, "{part} of {whole}: {ours:?}");
            assert!(
                (ours.high - high).abs() < 1e-9,
                "{part} of {whole}: {ours:?}"
            );
        }
        // scipy.stats.beta.ppf(0.025, 4.5, 8.75), ppf(0.975, 5.5, 7.75)
        let between = share_interval_of(4.5, 12.25, 0.95);
        assert!(
            (between.low - 0.121_708_139_219).abs() < 1e-9,
            "{between:?}"
        );
        assert!(
            (between.high - 0.678_176_112_965).abs() < 1e-9,
            "{between:?}"
        );
        let nothing = share_interval_of(0.0, 0.0, 0.95);
        assert_eq!((nothing.low, nothing.high), (0.0, 1.0));
    }
}
