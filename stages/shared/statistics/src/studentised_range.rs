//! The range of several standard normals, the reference for the largest difference of mean ranks.

use crate::distribution::{integral, normal_cdf, root};

/// Returns P(range > q) of `k` ≥ 2 independent standard normals: the studentised range with infinite
/// degrees of freedom, 1 − k∫φ(z)·(Φ(z) − Φ(z − q))^(k−1) dz (as `ptukey(df = Inf)` of R).
pub(crate) fn range_upper(q: f64, k: usize) -> f64 {
    if q <= 0.0 {
        return 1.0;
    }
    let density = |z: f64| (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let within = integral(-9.0, 9.0 + q.min(9.0), 120, |z| {
        density(z) * (normal_cdf(z) - normal_cdf(z - q)).powi(k as i32 - 1)
    });
    (1.0 - k as f64 * within).clamp(0.0, 1.0)
}

/// Returns the quantile of that range for an upper tail in (0, 1).
pub(crate) fn range_critical(tail: f64, k: usize) -> f64 {
    root(0.0, 40.0, |q| range_upper(q, k) - tail)
}
