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
    /// The larger of the two. Equivalence is claimed if it is below alpha.
    pub p: f64,
    /// The degrees of freedom: n − 1 when paired, Welch's when not.
    pub df: f64,
}

/// Tests whether the mean difference lies within ±`margin`; `None` for fewer than two differences,
/// or for differences without spread.
///
/// # Panics
/// If the margin is not a positive number.
pub fn tost_paired(differences: &Sample, margin: f64) -> Option<Tost> {
    assert!(
        margin > 0.0 && margin.is_finite(),
        "a margin is a positive number, got {margin}"
    );
    let std = differences.std()?;
    if std == 0.0 {
        return None;
    }
    let error = std / (differences.len() as f64).sqrt();
    Some(two_sides(
        differences.mean(),
        error,
        (differences.len() - 1) as f64,
        margin,
    ))
}

/// Tests whether the difference of two independent means, a − b, lies within ±`margin`, without
/// assuming equal variances; `None` if a group has one value or neither group has spread.
///
/// # Panics
/// If the margin is not a positive number.
pub fn tost_welch(a: &Sample, b: &Sample, margin: f64) -> Option<Tost> {
    assert!(
        margin > 0.0 && margin.is_finite(),
        "a margin is a positive number, got {margin}"
    );
    let (u, v) = (
        a.variance()? / a.len() as f64,
        b.variance()? / b.len() as f64,
    );
    if u + v == 0.0 {
        return None;
    }
    let df = (u + v).powi(2) / (u * u / (a.len() - 1) as f64 + v * v / (b.len() - 1) as f64);
    Some(two_sides(a.mean() - b.mean(), (u + v).sqrt(), df, margin))
}

fn two_sides(mean: f64, error: f64, df: f64, margin: f64) -> Tost {
    let p_lower = student_upper((mean + margin) / error, df);
    let p_upper = student_upper((margin - mean) / error, df);
    Tost {
        p_lower,
        p_upper,
        p: p_lower.max(p_upper),
        df,
    }
}
