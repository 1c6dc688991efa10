//! The t interval of a mean.

use crate::distribution::student_critical;
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
