//! Tails of the distributions the procedures need.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

fn normal() -> Normal {
    Normal::standard()
}

/// Returns P(Z > z) of the standard normal.
pub(crate) fn normal_upper(z: f64) -> f64 {
    normal().sf(z)
}

/// Returns P(Z ≤ z) of the standard normal.
pub(crate) fn normal_cdf(z: f64) -> f64 {
    normal().cdf(z)
}

/// Returns the quantile of the standard normal.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    normal().inverse_cdf(p)
}

/// Returns P(T > t) of Student's t with `df` > 0 degrees of freedom.
pub(crate) fn student_upper(t: f64, df: f64) -> f64 {
    let student = StudentsT::new(0.0, 1.0, df).expect("degrees of freedom are positive");
    // The upper tail keeps its digits where 1 − cdf would lose them.
    student.sf(t)
}

/// Returns the quantile of Student's t for an upper tail of `tail` in (0, 0.5).
pub(crate) fn student_critical(tail: f64, df: f64) -> f64 {
    // Newton on the upper tail, from the library's quantile: its bisection ends early.
    let student = StudentsT::new(0.0, 1.0, df).expect("degrees of freedom are positive");
    let mut t = -student.inverse_cdf(tail);
    for _ in 0..4 {
        let density = statrs::distribution::Continuous::pdf(&student, t);
        let step = (student_upper(t, df) - tail) / density;
        if !step.is_finite() {
            break;
        }
        t += step;
    }
    t
}

/// Returns ln C(n, k).
pub(crate) fn ln_choose(n: u64, k: u64) -> f64 {
    use statrs::function::gamma::ln_gamma;
    ln_gamma(n as f64 + 1.0) - ln_gamma(k as f64 + 1.0) - ln_gamma((n - k) as f64 + 1.0)
}

/// Returns the regularised incomplete beta function I_x(a, b) for positive a and b.
pub(crate) fn beta_share(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        0.0
    } else if x >= 1.0 {
        1.0
    } else {
        statrs::function::beta::beta_reg(a, b, x)
    }
}
