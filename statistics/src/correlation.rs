//! Correlation of paired values: Pearson, Spearman, Kendall.

use crate::distribution::{beta_share, normal_upper, student_upper};
use crate::ranks::mid_ranks;
use crate::sample::sum;

/// A coefficient and its two-sided p value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Correlation {
    /// The coefficient, in \[−1, 1\].
    pub coefficient: f64,
    /// The p value of "no association"; `None` where two points leave nothing to test.
    pub p: Option<f64>,
    /// The number of pairs.
    pub n: usize,
}

/// Which coefficient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CorrelationKind {
    /// Product-moment: a linear relation.
    Pearson,
    /// Pearson's of the mid-ranks: a monotone relation.
    Spearman,
    /// τ-b: concordant less discordant pairs, ties taken out of both sides.
    Kendall,
}

/// Returns the correlation of pairs (x, y); `None` for fewer than two pairs, a side without
/// spread, or a value that is not finite.
///
/// Pearson's p is from the exact distribution of r under normality, Spearman's from Student's t
/// with n − 2 degrees of freedom, Kendall's exact without ties for at most 33 pairs (or at most
/// one discordant or concordant pair), else normal with tie correction: as `scipy.stats`.
pub fn correlation(kind: CorrelationKind, pairs: &[(f64, f64)]) -> Option<Correlation> {
    if pairs.len() < 2 || pairs.iter().any(|(x, y)| !(x.is_finite() && y.is_finite())) {
        return None;
    }
    let mut pairs: Vec<(f64, f64)> = pairs.iter().map(|(x, y)| (x + 0.0, y + 0.0)).collect();
    // The order in which the pairs came must not reach the last bit.
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    match kind {
        CorrelationKind::Pearson => pearson(&pairs),
        CorrelationKind::Spearman => spearman(&pairs),
        CorrelationKind::Kendall => kendall(&pairs),
    }
}

fn product_moment(pairs: &[(f64, f64)]) -> Option<f64> {
    let n = pairs.len() as f64;
    if pairs.iter().all(|p| p.0 == pairs[0].0) || pairs.iter().all(|p| p.1 == pairs[0].1) {
        return None;
    }
    let (mx, my) = (
        sum(pairs.iter().map(|p| p.0)) / n,
        sum(pairs.iter().map(|p| p.1)) / n,
    );
    // Norms before the product: squares of tiny or huge values would leave the range.
    let of = |v: &dyn Fn(&(f64, f64)) -> f64| {
        let top = pairs.iter().map(|p| v(p).abs()).fold(0.0, f64::max);
        (
            top,
            top * sum(pairs.iter().map(|p| (v(p) / top).powi(2))).sqrt(),
        )
    };
    let ((_, norm_x), (_, norm_y)) = (of(&|p| p.0 - mx), of(&|p| p.1 - my));
    let r = sum(pairs
        .iter()
        .map(|p| ((p.0 - mx) / norm_x) * ((p.1 - my) / norm_y)));
    r.is_finite().then(|| r.clamp(-1.0, 1.0))
}

fn pearson(pairs: &[(f64, f64)]) -> Option<Correlation> {
    let n = pairs.len();
    let r = product_moment(pairs)?;
    if n == 2 {
        return Some(Correlation {
            coefficient: r.signum(),
            p: None,
            n,
        });
    }
    let shape = n as f64 / 2.0 - 1.0;
    let p = (2.0 * beta_share(shape, shape, (1.0 - r.abs()) / 2.0)).min(1.0);
    Some(Correlation {
        coefficient: r,
        p: Some(p),
        n,
    })
}

fn spearman(pairs: &[(f64, f64)]) -> Option<Correlation> {
    let n = pairs.len();
    let ranks =
        |of: fn(&(f64, f64)) -> f64| mid_ranks(&pairs.iter().map(of).collect::<Vec<_>>()).ranks;
    let ranked: Vec<(f64, f64)> = ranks(|p| p.0).into_iter().zip(ranks(|p| p.1)).collect();
    let r = product_moment(&ranked)?;
    let df = n as f64 - 2.0;
    let p = (df > 0.0).then(|| {
        let left = (1.0 - r) * (1.0 + r);
        if left <= 0.0 {
            0.0
        } else {
            (2.0 * student_upper((r * (df / left).sqrt()).abs(), df)).min(1.0)
        }
    });
    Some(Correlation {
        coefficient: r,
        p,
        n,
    })
}

/// Sums over groups of t tied values: t(t − 1)/2, t(t − 1)(t − 2), t(t − 1)(2t + 5).
#[derive(Default)]
struct Ties {
    pairs: f64,
    triples: f64,
    spread: f64,
}

fn ties(sorted: &[f64]) -> Ties {
    let mut ties = Ties::default();
    for group in sorted.chunk_by(|a, b| a == b) {
        let t = group.len() as f64;
        ties.pairs += t * (t - 1.0) / 2.0;
        ties.triples += t * (t - 1.0) * (t - 2.0);
        ties.spread += t * (t - 1.0) * (2.0 * t + 5.0);
    }
    ties
}

/// Pairs sorted by (x, y): discordance is then the number of inversions of y (Knight 1966).
fn kendall(pairs: &[(f64, f64)]) -> Option<Correlation> {
    let n = pairs.len();
    let xs: Vec<f64> = pairs.iter().map(|p| p.0).collect();
    let mut ys: Vec<f64> = pairs.iter().map(|p| p.1).collect();
    let discordant = inversions(&mut ys) as f64;
    let (x, y) = (ties(&xs), ties(&ys));
    let joint: f64 = pairs
        .chunk_by(|a, b| a == b)
        .map(|group| group.len() as f64 * (group.len() as f64 - 1.0) / 2.0)
        .sum();
    let size = n as f64;
    let all = size * (size - 1.0) / 2.0;
    if x.pairs == all || y.pairs == all {
        return None;
    }
    let difference = all - x.pairs - y.pairs + joint - 2.0 * discordant;
    let tau = (difference / (all - x.pairs).sqrt() / (all - y.pairs).sqrt()).clamp(-1.0, 1.0);
    let fewer = discordant.min(all - discordant);
    let untied = x.pairs == 0.0 && y.pairs == 0.0;
    let p = if untied && (n <= 33 || fewer <= 1.0) {
        kendall_exact(n, fewer as usize)
    } else {
        let m = size * (size - 1.0);
        let triples = if n > 2 {
            x.triples * y.triples / (9.0 * m * (size - 2.0))
        } else {
            0.0
        };
        let variance = (m * (2.0 * size + 5.0) - x.spread - y.spread) / 18.0
            + 2.0 * x.pairs * y.pairs / m
            + triples;
        (2.0 * normal_upper(difference.abs() / variance.sqrt())).min(1.0)
    };
    Some(Correlation {
        coefficient: tau,
        p: Some(p),
        n,
    })
}

/// Returns 2·P(at most `c` discordant pairs) of a random order of `n`, capped at 1.
fn kendall_exact(n: usize, c: usize) -> f64 {
    if n <= 2 || 4 * c == n * (n - 1) {
        return 1.0;
    }
    if n > 33 {
        // Only for c ≤ 1: one order has no inversion, n − 1 orders have one.
        let factorial = |k: usize| (2..=k).map(|i| i as f64).product::<f64>();
        return 2.0 / factorial(if c == 0 { n } else { n - 1 });
    }
    // Orders by inversions (Mahonian numbers), in integers: 33! < 2¹²³.
    let mut counts = vec![0_u128; c + 1];
    counts[0] = 1;
    for j in 2..=n {
        let mut next = vec![0_u128; c + 1];
        let mut running = 0_u128;
        for k in 0..=c {
            running += counts[k];
            if k >= j {
                running -= counts[k - j];
            }
            next[k] = running;
        }
        counts = next;
    }
    let few: u128 = counts.iter().sum();
    let all: u128 = (2..=n as u128).product();
    (2.0 * (few as f64 / all as f64)).min(1.0)
}

/// Sorts and returns the number of strict inversions, by merging.
fn inversions(values: &mut [f64]) -> u64 {
    let n = values.len();
    if n < 2 {
        return 0;
    }
    let (left, right) = values.split_at_mut(n / 2);
    let mut count = inversions(left) + inversions(right);
    let mut merged = Vec::with_capacity(n);
    let (mut i, mut j) = (0, 0);
    while i < left.len() && j < right.len() {
        if left[i] <= right[j] {
            merged.push(left[i]);
            i += 1;
        } else {
            merged.push(right[j]);
            j += 1;
            count += (left.len() - i) as u64;
        }
    }
    merged.extend_from_slice(&left[i..]);
    merged.extend_from_slice(&right[j..]);
    values.copy_from_slice(&merged);
    count
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KINDS: [CorrelationKind; 3] = [
        CorrelationKind::Pearson,
        CorrelationKind::Spearman,
        CorrelationKind::Kendall,
    ];

    #[test]
    fn a_side_without_spread_has_no_correlation() {
        for kind in KINDS {
            assert_eq!(
                correlation(kind, &[(1.0, 2.0), (1.0, 3.0), (1.0, 5.0)]),
                None
            );
            assert_eq!(correlation(kind, &[(1.0, 2.0)]), None);
        }
    }

    #[test]
    fn four_pairs_in_order_have_tau_one_and_p_one_twelfth() {
        let found = correlation(
            CorrelationKind::Kendall,
            &[(1.0, 1.0), (2.0, 3.0), (3.0, 5.0), (4.0, 9.0)],
        );
        assert_eq!(
            found,
            Some(Correlation {
                coefficient: 1.0,
                p: Some(2.0 / 24.0),
                n: 4
            })
        );
    }

    proptest! {
        #[test]
        fn correlation_does_not_depend_on_the_order_and_turns_with_a_sign(
            pairs in prop::collection::vec((-50i32..50, -50i32..50), 3..40), turn in 0usize..40,
        ) {
            let pairs: Vec<(f64, f64)> = pairs.iter().map(|(x, y)| (f64::from(*x), f64::from(*y))).collect();
            let mut turned = pairs.clone();
            turned.rotate_left(turn % pairs.len());
            let flipped: Vec<(f64, f64)> = pairs.iter().map(|(x, y)| (*x, -y)).collect();
            for kind in KINDS {
                let one = correlation(kind, &pairs);
                prop_assert_eq!(one, correlation(kind, &turned));
                let other = correlation(kind, &flipped);
                prop_assert_eq!(one.is_some(), other.is_some());
                if let (Some(one), Some(other)) = (one, other) {
                    prop_assert!((one.coefficient + other.coefficient).abs() < 1e-12);
                    prop_assert!(one.coefficient.abs() <= 1.0);
                    prop_assert!(one.p.is_none_or(|p| (0.0..=1.0).contains(&p)));
                }
            }
        }
    }
}
