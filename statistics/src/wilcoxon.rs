//! The Wilcoxon signed-rank test of paired differences, two-sided.

use crate::distribution::normal_upper;
use crate::ranks::mid_ranks;

/// The largest number of non-zero differences for which the exact distribution is used.
const EXACT_LIMIT: usize = 50;

/// What becomes of differences that are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZeroHandling {
    /// Discarded before ranking (Wilcoxon 1945).
    #[default]
    Wilcox,
    /// Ranked, then their ranks dropped (Pratt 1959).
    Pratt,
    /// Ranked, their ranks split evenly between both sides.
    Zsplit,
}

impl ZeroHandling {
    /// Returns the word used in tables (SciPy's).
    pub fn word(self) -> &'static str {
        match self {
            Self::Wilcox => "wilcox",
            Self::Pratt => "pratt",
            Self::Zsplit => "zsplit",
        }
    }
}

/// Whether the normal approximation moves the statistic by ½ towards its mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Continuity {
    /// It does not.
    #[default]
    None,
    /// It does.
    Corrected,
}

/// Which distribution gave the p value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The exact null distribution.
    Exact,
    /// The normal approximation with tie correction.
    Normal,
}

impl Method {
    /// Returns the word used in tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Normal => "normal",
        }
    }
}

/// The result of a Wilcoxon signed-rank test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wilcoxon {
    /// The sum of the ranks of the positive differences.
    pub w_plus: f64,
    /// The sum of the ranks of the negative differences.
    pub w_minus: f64,
    /// The two-sided p value.
    pub p: f64,
    /// The number of differences that are not 0.
    pub n_nonzero: usize,
    /// Which distribution was used: exact for at most 50 differences without ties or zeros.
    pub method: Method,
}

impl Wilcoxon {
    /// Returns min(W₊, W₋), the statistic SciPy reports for the two-sided test.
    pub fn statistic(&self) -> f64 {
        self.w_plus.min(self.w_minus)
    }
}

/// Tests whether paired differences are symmetric about 0. `None` if there is no difference or
/// all are 0.
///
/// Exact where n ≤ 50 and there is neither tie nor zero; else normal with tie correction, as
/// `scipy.stats.wilcoxon(method="auto")`. Differences must be finite.
pub fn wilcoxon_signed_rank(
    differences: &[f64],
    zeros: ZeroHandling,
    continuity: Continuity,
) -> Option<Wilcoxon> {
    let zero_count = differences.iter().filter(|d| **d == 0.0).count();
    let n_nonzero = differences.len() - zero_count;
    if n_nonzero == 0 {
        return None;
    }
    let kept: Vec<f64> = differences
        .iter()
        .copied()
        .filter(|d| zeros != ZeroHandling::Wilcox || *d != 0.0)
        .collect();
    let sizes: Vec<f64> = kept.iter().map(|d| d.abs()).collect();
    let ranked = mid_ranks(&sizes);
    let (mut w_plus, mut w_minus, mut zero_ranks) = (0.0, 0.0, 0.0);
    for (difference, rank) in kept.iter().zip(&ranked.ranks) {
        match difference.partial_cmp(&0.0) {
            Some(std::cmp::Ordering::Greater) => w_plus += rank,
            Some(std::cmp::Ordering::Less) => w_minus += rank,
            _ => zero_ranks += rank,
        }
    }
    if zeros == ZeroHandling::Zsplit {
        w_plus += zero_ranks / 2.0;
        w_minus += zero_ranks / 2.0;
    }
    if zero_count == 0 && ranked.tie_term == 0.0 && n_nonzero <= EXACT_LIMIT {
        let p = exact_two_sided(n_nonzero, w_plus.min(w_minus) as usize);
        return Some(Wilcoxon {
            w_plus,
            w_minus,
            p,
            n_nonzero,
            method: Method::Exact,
        });
    }
    let n = kept.len() as f64;
    let mut mean = n * (n + 1.0) / 4.0;
    let mut spread = n * (n + 1.0) * (2.0 * n + 1.0);
    let mut tie_term = ranked.tie_term;
    if zeros == ZeroHandling::Pratt {
        // Normal approximation after Cureton (1967): the zeros' ranks can go nowhere.
        let z = zero_count as f64;
        mean -= z * (z + 1.0) / 4.0;
        spread -= z * (z + 1.0) * (2.0 * z + 1.0);
        tie_term -= z * z * z - z;
    }
    let variance = (spread - tie_term / 2.0) / 24.0;
    let distance = (w_plus - mean).abs();
    let distance = match continuity {
        Continuity::None => distance,
        Continuity::Corrected => distance - if distance > 0.0 { 0.5 } else { 0.0 },
    };
    let p = (2.0 * normal_upper(distance / variance.sqrt())).min(1.0);
    Some(Wilcoxon {
        w_plus,
        w_minus,
        p,
        n_nonzero,
        method: Method::Normal,
    })
}

/// Returns 2·P(W ≤ w), capped at 1, of the signed-rank statistic of `n` differences: the
/// subsets of 1..n by sum, counted by recurrence in doubles (n ≤ 50: all counts below 2⁵⁰).
fn exact_two_sided(n: usize, w: usize) -> f64 {
    let top = n * (n + 1) / 2;
    let mut counts = vec![0.0_f64; top + 1];
    counts[0] = 1.0;
    for rank in 1..=n {
        for sum in (rank..=top).rev() {
            counts[sum] += counts[sum - rank];
        }
    }
    let tail: f64 = counts[..=w].iter().sum();
    (2.0 * tail * 0.5_f64.powi(n as i32)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_differences_of_one_sign_have_p_one_thirtysecond() {
        let test = wilcoxon_signed_rank(
            &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            ZeroHandling::Wilcox,
            Continuity::None,
        )
        .unwrap();
        assert_eq!(
            (test.p, test.method, test.w_plus),
            (2.0 / 64.0, Method::Exact, 21.0)
        );
    }

    #[test]
    fn only_zeros_leave_nothing_to_test() {
        for zeros in [
            ZeroHandling::Wilcox,
            ZeroHandling::Pratt,
            ZeroHandling::Zsplit,
        ] {
            assert_eq!(
                wilcoxon_signed_rank(&[0.0, 0.0], zeros, Continuity::None),
                None
            );
            assert_eq!(wilcoxon_signed_rank(&[], zeros, Continuity::None), None);
        }
    }

    #[test]
    fn swapping_the_sides_keeps_p_and_swaps_the_rank_sums() {
        let there = [0.3, -1.2, 2.2, 0.7, -0.1, 1.9, 4.0];
        let back: Vec<f64> = there.iter().map(|d| -d).collect();
        let one = wilcoxon_signed_rank(&there, ZeroHandling::Wilcox, Continuity::None).unwrap();
        let other = wilcoxon_signed_rank(&back, ZeroHandling::Wilcox, Continuity::None).unwrap();
        assert_eq!((one.p, one.w_plus), (other.p, other.w_minus));
    }
}
