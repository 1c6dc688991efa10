//! More than two systems without blocks: the Kruskal–Wallis test.

use crate::distribution::chi_squared_upper;
use crate::ranks::mid_ranks;
use crate::refusal::{Refusal, all_finite};
use crate::wilcoxon::{Method, doubled};

/// The largest number of ways to distribute the values that is enumerated.
const MOST_SHARINGS: f64 = 1e6;

/// The result of the Kruskal–Wallis test.
#[derive(Clone, Debug, PartialEq)]
pub struct KruskalWallis {
    /// H, corrected for ties.
    pub h: f64,
    /// The p value of "the groups do not differ".
    pub p: f64,
    /// Exact up to a million ways to distribute the values (three groups of five), otherwise χ²
    /// with groups − 1 degrees of freedom.
    pub method: Method,
    /// The p value of the χ² approximation.
    pub asymptotic_p: f64,
    /// The mean rank of each group, 1 for the smallest value.
    pub mean_ranks: Vec<f64>,
}

/// Tests whether independent groups differ (Kruskal & Wallis, JASA 47, 1952). It needs a fully
/// randomised order of the launches. If there are blocks, use [`crate::friedman()`].
///
/// # Errors
/// If there are fewer than two groups, a group is empty, a value is not finite, or all values are
/// equal.
pub fn kruskal_wallis(groups: &[Vec<f64>]) -> Result<KruskalWallis, Refusal> {
    if groups.len() < 2 {
        let n = groups.len();
        return Err(Refusal::TooFewGroups { n, least: 2 });
    }
    for (at, group) in groups.iter().enumerate() {
        all_finite(group)?;
        if group.is_empty() {
            return Err(Refusal::Incomplete { at });
        }
    }
    let ranked = mid_ranks(&groups.concat());
    let sizes: Vec<usize> = groups.iter().map(Vec::len).collect();
    let total = ranked.ranks.len() as f64;
    let untied = 1.0 - ranked.tie_term / (total * total * total - total);
    if total < 2.0 || untied <= 0.0 {
        return Err(Refusal::NoSpread { n: total as usize });
    }
    let mut rest = ranked.ranks.as_slice();
    let mut sums = Vec::with_capacity(groups.len());
    for size in &sizes {
        let (group, after) = rest.split_at(*size);
        sums.push(group.iter().sum::<f64>());
        rest = after;
    }
    let mean_ranks: Vec<f64> = sums
        .iter()
        .zip(&sizes)
        .map(|(s, n)| s / *n as f64)
        .collect();
    let centre = (total + 1.0) / 2.0;
    let spread: f64 = mean_ranks
        .iter()
        .zip(&sizes)
        .map(|(mean, n)| *n as f64 * (mean - centre).powi(2))
        .sum();
    // The variance of a single rank, corrected for ties.
    let h = spread / (total * (total + 1.0) / 12.0 * untied);
    let asymptotic_p = chi_squared_upper(h, (groups.len() - 1) as f64);
    let exact = exact_p(&ranked.ranks, &sizes, &sums);
    Ok(KruskalWallis {
        h,
        p: exact.unwrap_or(asymptotic_p),
        method: exact.map_or(Method::ChiSquared, |_| Method::Exact),
        asymptotic_p,
        mean_ranks,
    })
}

/// Returns the share of the ways to distribute the ranks whose rank sums spread at least as far, or
/// `None` if there are too many.
fn exact_p(ranks: &[f64], sizes: &[usize], sums: &[f64]) -> Option<f64> {
    let mut sharings = 1.0;
    let mut left = ranks.len();
    for size in sizes {
        let of_this = crate::permutation::choices(left, *size)?;
        sharings *= of_this as f64;
        left -= size;
    }
    if sharings > MOST_SHARINGS {
        return None;
    }
    let whole: Vec<usize> = ranks.iter().map(|r| doubled(*r)).collect();
    let spread = |sums: &[usize]| -> f64 {
        let parts = sums.iter().zip(sizes);
        parts.map(|(s, n)| (*s as f64).powi(2) / *n as f64).sum()
    };
    let seen: Vec<usize> = sums.iter().map(|s| doubled(*s)).collect();
    let bound = spread(&seen) * (1.0 - 1e-12);
    let mut state = Sharing {
        ranks: &whole,
        sums: vec![0; sizes.len()],
        left: sizes.to_vec(),
        extreme: 0,
    };
    state.share(0, &|sums| spread(sums) >= bound);
    Some(state.extreme as f64 / sharings)
}

/// The ranks distributed so far.
struct Sharing<'a> {
    ranks: &'a [usize],
    sums: Vec<usize>,
    left: Vec<usize>,
    extreme: u64,
}

impl Sharing<'_> {
    fn share(&mut self, at: usize, extreme: &impl Fn(&[usize]) -> bool) {
        if at == self.ranks.len() {
            self.extreme += u64::from(extreme(&self.sums));
            return;
        }
        for group in 0..self.sums.len() {
            if self.left[group] > 0 {
                self.left[group] -= 1;
                self.sums[group] += self.ranks[at];
                self.share(at + 1, extreme);
                self.sums[group] -= self.ranks[at];
                self.left[group] += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_without_overlap_have_the_share_of_their_orders() {
        let groups = [vec![1.0, 2.0], vec![3.0, 4.0], vec![5.0, 6.0]];
        let test = kruskal_wallis(&groups).unwrap();
        // Six of the 90 ways to distribute six values keep the groups apart.
        assert!((test.p - 6.0 / 90.0).abs() < 1e-15);
        assert_eq!(test.method, Method::Exact);
        assert_eq!(test.mean_ranks, [1.5, 3.5, 5.5]);
    }

    #[test]
    fn what_cannot_be_ranked_is_refused() {
        assert_eq!(
            kruskal_wallis(&[vec![1.0, 1.0], vec![1.0]]),
            Err(Refusal::NoSpread { n: 3 })
        );
        assert_eq!(
            kruskal_wallis(&[vec![1.0], vec![]]),
            Err(Refusal::Incomplete { at: 1 })
        );
    }

    #[test]
    fn many_values_get_the_approximation() {
        let group = |shift: usize| (0..8).map(|i| ((i * 3 + shift) % 8) as f64).collect();
        let test = kruskal_wallis(&[group(0), group(1), group(2)]).unwrap();
        assert_eq!(
            (test.method, test.p),
            (Method::ChiSquared, test.asymptotic_p)
        );
    }
}
