//! Equivalence within a declared margin: two one-sided t tests (Schuirmann 1987).

use crate::distribution::student_upper;
use crate::sample::Sample;

/// The result of two one-sided paired t tests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tost {
    /// The p value of "mean ≤ −margin".
    pub p_lower: f64,
    /// The p value of "mean ≥ +margin".
    pub p_upper: f64,
    /// The larger of the two: equivalence is claimed if it is below alpha.
    pub p: f64,
    /// The degrees of freedom, n − 1.
    pub df: usize,
}

/// Tests whether the mean difference lies within ±`margin`; `None` for fewer than two
/// differences or differences without spread.
///
/// # Panics
/// If the margin is not a positive number.
pub fn tost_paired(differences: &Sample, margin: f64) -> Option<Tost> {
    assert!(margin > 0.0 && margin.is_finite(), "a margin is a positive number, got {margin}");
    let std = differences.std()?;
    if std == 0.0 {
        return None;
    }
    let error = std / (differences.len() as f64).sqrt();
    let df = differences.len() - 1;
    let p_lower = student_upper((differences.mean() + margin) / error, df as f64);
    let p_upper = student_upper((margin - differences.mean()) / error, df as f64);
    Some(Tost { p_lower, p_upper, p: p_lower.max(p_upper), df })
}
