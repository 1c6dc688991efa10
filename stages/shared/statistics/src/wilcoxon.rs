//! The Wilcoxon signed-rank test of paired differences, two-sided.

use crate::distribution::normal_upper;
use crate::ranks::mid_ranks;

/// The largest number of non-zero differences for which the exact distribution is used. The work
/// grows with its cube, and the normal approximation is accurate to three digits there.
const EXACT_LIMIT: usize = 200;

/// The treatment of differences that are 0.
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
    /// No correction.
    None,
    /// The statistic moves by ½.
    #[default]
    Corrected,
}

/// The distribution behind a p value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The exact null distribution: all arrangements of the observed values, including ties and
    /// zeros.
    Exact,
    /// The normal approximation with tie correction.
    Normal,
    /// Student's t.
    StudentT,
    /// The χ² approximation with tie correction.
    ChiSquared,
}

impl Method {
    /// Returns the word used in tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Normal => "normal",
            Self::StudentT => "student-t",
            Self::ChiSquared => "chi-squared",
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
    /// The smallest p value that this many non-zero differences can give, 2^(1 − n), at most 1.
    pub least: f64,
    /// The distribution used: exact for at most 200 non-zero differences.
    pub method: Method,
}

impl Wilcoxon {
    /// Returns min(W₊, W₋), the statistic that SciPy reports for the two-sided test.
    pub fn statistic(&self) -> f64 {
        self.w_plus.min(self.w_minus)
    }
}

/// Tests whether paired differences are symmetric about 0. `None` if there are no differences, all
/// are 0, or one is not finite.
///
/// Exact for at most 200 non-zero differences: every assignment of signs to the observed mid-ranks
/// is equally likely, so ties and zeros need no approximation (Lehmann, Nonparametrics, 1975,
/// section 3.2; Pratt, JASA 54, 1959). Otherwise normal with tie correction, like
/// `scipy.stats.wilcoxon(method="asymptotic")`. Only this case uses `continuity`.
pub fn wilcoxon_signed_rank(
    differences: &[f64],
    zeros: ZeroHandling,
    continuity: Continuity,
) -> Option<Wilcoxon> {
    if differences.iter().any(|d| !d.is_finite()) {
        return None;
    }
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
    let mut moved = Vec::with_capacity(n_nonzero);
    for (difference, rank) in kept.iter().zip(&ranked.ranks) {
        match difference.partial_cmp(&0.0) {
            Some(std::cmp::Ordering::Greater) => w_plus += rank,
            Some(std::cmp::Ordering::Less) => w_minus += rank,
            _ => zero_ranks += rank,
        }
        if *difference != 0.0 {
            moved.push(*rank);
        }
    }
    let smaller = f64::min(w_plus, w_minus);
    if zeros == ZeroHandling::Zsplit {
        w_plus += zero_ranks / 2.0;
        w_minus += zero_ranks / 2.0;
    }
    let (p, method) = if n_nonzero <= EXACT_LIMIT {
        (exact_two_sided(&moved, smaller), Method::Exact)
    } else {
        let n = (kept.len(), zero_count);
        let p = normal_two_sided(n, ranked.tie_term, w_plus, zeros, continuity);
        (p, Method::Normal)
    };
    Some(Wilcoxon {
        w_plus,
        w_minus,
        p,
        n_nonzero,
        least: 0.5_f64.powi(n_nonzero as i32 - 1),
        method,
    })
}

/// Returns the p value of the normal approximation, from the numbers of ranked differences and of
/// zeros.
fn normal_two_sided(
    (kept, zero_count): (usize, usize),
    mut tie_term: f64,
    w_plus: f64,
    zeros: ZeroHandling,
    continuity: Continuity,
) -> f64 {
    let n = kept as f64;
    let mut mean = n * (n + 1.0) / 4.0;
    let mut spread = n * (n + 1.0) * (2.0 * n + 1.0);
    if zeros == ZeroHandling::Pratt {
        // Normal approximation after Cureton (1967): the zeros' ranks are lost.
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
    (2.0 * normal_upper(distance / variance.sqrt())).min(1.0)
}

/// Returns 2·P(W ≤ w), capped at 1, where W sums a random half of the ranks.
fn exact_two_sided(ranks: &[f64], w: f64) -> f64 {
    let chances = sign_sums(ranks);
    let tail: f64 = chances[..=doubled(w)].iter().sum();
    (2.0 * tail).min(1.0)
}

/// Returns the probability of each doubled sum of mid-ranks when each joins the sum with
/// probability ½, by the recurrence over subsets. The distribution is symmetric about half the
/// total.
fn sign_sums(ranks: &[f64]) -> Vec<f64> {
    let whole: Vec<usize> = ranks.iter().map(|r| doubled(*r)).collect();
    let mut chances = vec![0.0_f64; whole.iter().sum::<usize>() + 1];
    chances[0] = 1.0;
    let mut top = 0;
    for rank in whole {
        top += rank;
        for sum in (0..=top).rev() {
            let without = chances[sum];
            let with = if sum >= rank {
                chances[sum - rank]
            } else {
                0.0
            };
            chances[sum] = (without + with) / 2.0;
        }
    }
    chances
}

/// Returns twice a sum of mid-ranks, which is a whole number.
pub(crate) fn doubled(rank: f64) -> usize {
    (2.0 * rank).round() as usize
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
    fn ties_and_zeros_are_enumerated() {
        let p = |differences: &[f64]| {
            let test =
                wilcoxon_signed_rank(differences, ZeroHandling::Wilcox, Continuity::Corrected);
            let test = test.unwrap();
            assert_eq!(test.method, Method::Exact);
            (test.p, test.least)
        };
        assert_eq!(p(&[2.0, 2.0, 2.0, 2.0]), (0.125, 0.125));
        assert_eq!(p(&[1.0, 1.0, 2.0, 2.0, 3.0]), (0.0625, 0.0625));
        // Zeros do not add to what a test can detect.
        let zeros = [5.0, 0.0, 3.0, 2.0, 0.0, 7.0, 1.0, 4.0, 0.0];
        assert_eq!(p(&zeros), (0.03125, 0.03125));
        assert_eq!(p(&[1.0, 0.0, 0.0]), (1.0, 1.0));
    }

    #[test]
    fn a_difference_that_is_no_number_is_refused() {
        let differences = [1.0, f64::NAN, 2.0];
        for zeros in [ZeroHandling::Wilcox, ZeroHandling::Pratt] {
            assert_eq!(
                wilcoxon_signed_rank(&differences, zeros, Continuity::None),
                None
            );
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
