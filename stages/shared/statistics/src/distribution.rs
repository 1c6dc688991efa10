//! Tails of the distributions that the procedures use.

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
pub fn normal_quantile(p: f64) -> f64 {
    normal().inverse_cdf(p)
}

/// Returns P(T > t) of Student's t with `df` > 0 degrees of freedom.
pub(crate) fn student_upper(t: f64, df: f64) -> f64 {
    let student = StudentsT::new(0.0, 1.0, df).expect("degrees of freedom are positive");
    // The upper tail keeps the digits that 1 − cdf would lose.
    student.sf(t)
}

/// Returns P(|T| ≥ |t|) of Student's t with `df` degrees of freedom.
///
/// # Panics
/// If `df` is not above 0.
pub fn student_two_sided(t: f64, df: f64) -> f64 {
    (2.0 * student_upper(t.abs(), df)).min(1.0)
}

/// Returns the quantile of Student's t for an upper tail of `tail` in (0, 0.5).
///
/// # Panics
/// If `df` is not above 0.
pub fn student_critical(tail: f64, df: f64) -> f64 {
    // Newton's method on the upper tail, starting from the library's quantile, because its
    // bisection stops early.
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

/// Returns P(X > x) of χ² with `df` > 0 degrees of freedom.
pub(crate) fn chi_squared_upper(x: f64, df: f64) -> f64 {
    if x <= 0.0 {
        1.0
    } else {
        statrs::function::gamma::gamma_ur(df / 2.0, x / 2.0)
    }
}

/// Returns P(X ≥ count) of the Poisson distribution of a finite mean. Small tails keep their digits, also where e^−mean is
/// too small for a double.
pub fn poisson_upper(count: u64, mean: f64) -> f64 {
    if count == 0 {
        1.0
    } else if mean <= 0.0 {
        0.0
    } else {
        statrs::function::gamma::gamma_lr(count as f64, mean).clamp(0.0, 1.0)
    }
}

/// Returns P(F > f) of Fisher's F with `df1` and `df2` degrees of freedom.
pub(crate) fn fisher_upper(f: f64, df1: f64, df2: f64) -> f64 {
    beta_share(df2 / 2.0, df1 / 2.0, df2 / (df2 + df1 * f))
}

/// Returns P(X ≤ k) of the binomial distribution of `n` draws with probability `p`.
pub(crate) fn binomial_cdf(k: u64, n: u64, p: f64) -> f64 {
    if k >= n {
        1.0
    } else {
        beta_share((n - k) as f64, k as f64 + 1.0, 1.0 - p)
    }
}

/// Returns the point between two others at which a falling function crosses 0, by Ridders' method
/// (IEEE Trans. Circuits Syst. 26, 1979). If it does not cross 0, returns the nearer end.
pub(crate) fn root(mut low: f64, mut high: f64, falling: impl Fn(f64) -> f64) -> f64 {
    let (mut above, mut below) = (falling(low), falling(high));
    if above <= 0.0 {
        return low;
    }
    if below >= 0.0 {
        return high;
    }
    let mut last = f64::NAN;
    for _ in 0..100 {
        let middle = low + (high - low) / 2.0;
        let at_middle = falling(middle);
        let scale = (at_middle * at_middle - above * below).sqrt();
        let next = (middle + (middle - low) * at_middle / scale).clamp(low, high);
        let at_next = falling(next);
        for (x, y) in [(middle, at_middle), (next, at_next)] {
            if y >= 0.0 && x > low {
                (low, above) = (x, y);
            } else if y < 0.0 && x < high {
                (high, below) = (x, y);
            }
        }
        if at_next == 0.0 || (next - last).abs() <= 1e-15 * next.abs() || high - low <= 1e-300 {
            return next;
        }
        last = next;
    }
    last
}

/// Returns the points and weights of Gauss–Legendre quadrature over an interval, with ten points in each of `panels`
/// equal panels.
pub(crate) fn integral_points(
    from: f64,
    to: f64,
    panels: usize,
) -> impl Iterator<Item = (f64, f64)> {
    // Abramowitz & Stegun, table 25.4.
    const NODES: [(f64, f64); 5] = [
        (0.148_874_338_981_631_2, 0.295_524_224_714_752_9),
        (0.433_395_394_129_247_2, 0.269_266_719_309_996_35),
        (0.679_409_568_299_024_4, 0.219_086_362_515_982_04),
        (0.865_063_366_688_984_5, 0.149_451_349_150_580_6),
        (0.973_906_528_517_171_7, 0.066_671_344_308_688_14),
    ];
    let half = (to - from) / (2.0 * panels as f64);
    (0..panels).flat_map(move |at| {
        let centre = from + (2 * at + 1) as f64 * half;
        NODES.into_iter().flat_map(move |(node, weight)| {
            [-1.0, 1.0].map(|side| (centre + side * half * node, half * weight))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poisson_tails_agree_with_scipy_and_do_not_vanish_for_large_means() {
        // scipy.stats.poisson.sf(count − 1, mean)
        for (count, mean, expected) in [
            (0, 3.0, 1.0),
            (1, 1e-6, 9.999_995_000_001_667e-7),
            (3, 0.01, 1.654_216_528_074_877e-7),
            (20, 5.0, 3.452_135_820_914_46e-7),
            (5, 20.0, 0.999_983_055_256_07),
            (700, 650.0, 0.027_170_055_634_622_8),
            (1000, 900.0, 5.499_022_657_117_83e-4),
            (900, 1000.0, 0.999_377_402_215_725),
            (3200, 2658.0, 1.256_725_687_276_04e-24),
        ] {
            let upper = poisson_upper(count, mean);
            let slack = 1e-9 * expected;
            assert!(
                (upper - expected).abs() <= slack,
                "{count} {mean}: {upper} {expected}"
            );
        }
        assert_eq!(poisson_upper(20_645, 2658.0), 0.0);
        assert_eq!(poisson_upper(3, 0.0), 0.0);
    }

    #[test]
    fn roots_are_found_to_the_last_digits() {
        let check = |(low, high): (f64, f64), falling: fn(f64) -> f64, expected: f64| {
            let x = root(low, high, falling);
            let slack = 1e-13 * expected.abs().max(1e-2);
            assert!((x - expected).abs() <= slack, "{x} {expected}");
        };
        check((0.0, 2.0), |x| 2.0 - x * x, 2.0_f64.sqrt());
        check((0.0, 40.0), |x| (-x).exp() - 1e-9, 1e9_f64.ln());
        check((-5.0, 5.0), |x| -x.powi(3), 0.0);
        check((1.0, 2.0), |x| -x, 1.0);
    }
}
