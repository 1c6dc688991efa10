//! Correlation of paired values: Pearson, Spearman, Kendall.

use std::collections::BTreeMap;

use crate::distribution::{beta_share, normal_upper, student_upper};
use crate::ranks::mid_ranks;
use crate::sample::sum;
use crate::wilcoxon::{Method, doubled};

/// A coefficient and its two-sided p value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Correlation {
    /// The coefficient, in \[−1, 1\].
    pub coefficient: f64,
    /// The p value of "no association"; `None` for two points, which leave nothing to test.
    pub p: Option<f64>,
    /// The distribution behind the p value.
    pub method: Method,
    /// The number of pairs.
    pub n: usize,
}

/// The kind of coefficient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CorrelationKind {
    /// Product-moment: a linear relation.
    Pearson,
    /// Pearson's coefficient of the mid-ranks: a monotone relation.
    Spearman,
    /// τ-b: concordant minus discordant pairs, corrected for ties on both sides.
    Kendall,
}

/// Returns the correlation of pairs (x, y), or `None` for fewer than two pairs, a side without
/// spread, or a value that is not finite.
///
/// Pearson's p comes from the exact distribution of r under normality. Spearman's and Kendall's p
/// are exact for at most 10 pairs, ties included: the share of the orders of y against x whose
/// coefficient lies at least as far from 0. Beyond that, Spearman's p comes from Student's t with n
/// − 2 degrees of freedom, but is at least the 2/n! of a perfect order. Kendall's p is exact
/// without ties for at most 33 pairs (or at most one discordant or concordant pair), and otherwise
/// normal with tie correction, as in `scipy.stats`.
pub fn correlation(kind: CorrelationKind, pairs: &[(f64, f64)]) -> Option<Correlation> {
    if pairs.len() < 2 || pairs.iter().any(|(x, y)| !(x.is_finite() && y.is_finite())) {
        return None;
    }
    let mut pairs: Vec<(f64, f64)> = pairs.iter().map(|(x, y)| (x + 0.0, y + 0.0)).collect();
    // The order of the input pairs must not affect the last bit.
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
    // Take norms before the product, because squares of tiny or huge values would leave the range.
    let scaled = |v: &dyn Fn(&(f64, f64)) -> f64| {
        let top = pairs.iter().map(|p| v(p).abs()).fold(0.0, f64::max);
        (
            top,
            top * sum(pairs.iter().map(|p| (v(p) / top).powi(2))).sqrt(),
        )
    };
    let ((_, norm_x), (_, norm_y)) = (scaled(&|p| p.0 - mx), scaled(&|p| p.1 - my));
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
            method: Method::StudentT,
            n,
        });
    }
    let shape = n as f64 / 2.0 - 1.0;
    let p = (2.0 * beta_share(shape, shape, (1.0 - r.abs()) / 2.0)).min(1.0);
    Some(Correlation {
        coefficient: r,
        p: Some(p),
        method: Method::StudentT,
        n,
    })
}

fn spearman(pairs: &[(f64, f64)]) -> Option<Correlation> {
    let n = pairs.len();
    let ranks = |coordinate: fn(&(f64, f64)) -> f64| {
        mid_ranks(&pairs.iter().map(coordinate).collect::<Vec<_>>()).ranks
    };
    let ranked: Vec<(f64, f64)> = ranks(|p| p.0).into_iter().zip(ranks(|p| p.1)).collect();
    let r = product_moment(&ranked)?;
    let (p, method) = if n <= EXACT_ORDERS {
        (spearman_exact(&ranked), Method::Exact)
    } else {
        let df = n as f64 - 2.0;
        let left = (1.0 - r) * (1.0 + r);
        let tail = if left <= 0.0 {
            0.0
        } else {
            2.0 * student_upper((r * (df / left).sqrt()).abs(), df)
        };
        // Only a perfect order comes close: two of n! orders are perfect.
        let least = 2.0 * (2..=n).map(|i| 1.0 / i as f64).product::<f64>();
        (tail.clamp(least, 1.0), Method::StudentT)
    };
    Some(Correlation {
        coefficient: r,
        p: Some(p),
        method,
        n,
    })
}

/// The largest number of pairs for which all orders of y are counted.
const EXACT_ORDERS: usize = 10;

/// Returns the share of the orders of the second ranks against the first whose sum of products lies
/// at least as far from its mean. The recurrence runs over the sets of y used so far.
fn spearman_exact(ranked: &[(f64, f64)]) -> f64 {
    let n = ranked.len();
    let xs: Vec<usize> = ranked.iter().map(|r| doubled(r.0)).collect();
    let ys: Vec<usize> = ranked.iter().map(|r| doubled(r.1)).collect();
    // The sum is largest if both ascend.
    let ascending = |ranks: &[usize]| {
        let mut sorted = ranks.to_vec();
        sorted.sort_unstable();
        sorted
    };
    let pairs = ascending(&xs).into_iter().zip(ascending(&ys));
    let top: usize = pairs.map(|(x, y)| x * y).sum();
    let mut chances: Vec<Vec<f64>> = vec![Vec::new(); 1 << n];
    chances[0] = vec![0.0; top + 1];
    chances[0][0] = 1.0;
    for used in 0..(1_usize << n) - 1 {
        let place = used.count_ones() as usize;
        let sums = std::mem::take(&mut chances[used]);
        for (j, y) in ys.iter().enumerate().filter(|(j, _)| used >> j & 1 == 0) {
            let next = &mut chances[used | 1 << j];
            next.resize(top + 1, 0.0);
            let by = xs[place] * y;
            for (sum, chance) in next[by.min(top)..].iter_mut().zip(&sums) {
                *sum += chance / (n - place) as f64;
            }
        }
    }
    // n times the sum minus the product of the totals is n²·4 times the covariance of the ranks.
    let totals = xs.iter().sum::<usize>() * ys.iter().sum::<usize>();
    let distance = |sum: usize| (n * sum).abs_diff(totals);
    let seen = distance(xs.iter().zip(&ys).map(|(x, y)| x * y).sum());
    let all = &chances[(1 << n) - 1];
    let extreme = all
        .iter()
        .enumerate()
        .filter(|(sum, _)| distance(*sum) >= seen);
    extreme.map(|(_, chance)| chance).sum::<f64>().min(1.0)
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

/// Pairs sorted by (x, y), so that discordance is the number of inversions of y (Knight 1966).
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
    let (p, method) = if untied && (n <= 33 || fewer <= 1.0) {
        (kendall_exact(n, fewer as usize), Method::Exact)
    } else if n <= EXACT_ORDERS {
        (kendall_exact_tied(pairs, difference as i64), Method::Exact)
    } else {
        let m = size * (size - 1.0);
        let triples = x.triples * y.triples / (9.0 * m * (size - 2.0));
        let variance = (m * (2.0 * size + 5.0) - x.spread - y.spread) / 18.0
            + 2.0 * x.pairs * y.pairs / m
            + triples;
        let p = (2.0 * normal_upper(difference.abs() / variance.sqrt())).min(1.0);
        (p, Method::Normal)
    };
    Some(Correlation {
        coefficient: tau,
        p: Some(p),
        method,
        n,
    })
}

/// Returns the share of the orders of y against x whose concordant minus discordant pairs are at
/// least `seen` in absolute value. The recurrence runs over the sets of y assigned to the lower x.
fn kendall_exact_tied(pairs: &[(f64, f64)], seen: i64) -> f64 {
    let n = pairs.len();
    // A lower x with the greater y is discordant: what a y adds against those already used.
    let against = |used: usize, j: usize| -> i64 {
        let others = (0..n).filter(|k| used >> k & 1 == 1);
        others
            .map(|k| match pairs[j].1.total_cmp(&pairs[k].1) {
                std::cmp::Ordering::Greater => 1,
                std::cmp::Ordering::Equal => 0,
                std::cmp::Ordering::Less => -1,
            })
            .sum()
    };
    let mut chances: BTreeMap<usize, BTreeMap<i64, f64>> = BTreeMap::new();
    chances.entry(0).or_default().insert(0, 1.0);
    for group in pairs.chunk_by(|a, b| a.0 == b.0) {
        let mut next: BTreeMap<usize, BTreeMap<i64, f64>> = BTreeMap::new();
        for (used, sums) in &chances {
            let free = !used & ((1 << n) - 1);
            let added: Vec<i64> = (0..n).map(|j| against(*used, j)).collect();
            let sets: Vec<usize> = (1..1_usize << n)
                .filter(|set| set & !free == 0 && set.count_ones() as usize == group.len())
                .collect();
            for set in &sets {
                let by: i64 = (0..n).filter(|j| set >> j & 1 == 1).map(|j| added[j]).sum();
                let sums_then = next.entry(used | set).or_default();
                for (sum, chance) in sums {
                    *sums_then.entry(sum + by).or_insert(0.0) += chance / sets.len() as f64;
                }
            }
        }
        chances = next;
    }
    let all = chances.into_values().flatten();
    let extreme = all.filter(|(sum, _)| sum.abs() >= seen.abs());
    extreme.map(|(_, chance)| chance).sum::<f64>().min(1.0)
}

/// Returns 2·P(at most `c` discordant pairs) of a random order of `n`, capped at 1.
fn kendall_exact(n: usize, c: usize) -> f64 {
    if n <= 2 || 4 * c == n * (n - 1) {
        return 1.0;
    }
    if n > 33 {
        // Only for c ≤ 1: one order has no inversion, and n − 1 orders have one.
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
        let tau = correlation(
            CorrelationKind::Kendall,
            &[(1.0, 1.0), (2.0, 3.0), (3.0, 5.0), (4.0, 9.0)],
        );
        assert_eq!(
            tau,
            Some(Correlation {
                coefficient: 1.0,
                p: Some(2.0 / 24.0),
                method: Method::Exact,
                n: 4
            })
        );
    }

    #[test]
    fn three_points_in_order_say_little() {
        for kind in [CorrelationKind::Spearman, CorrelationKind::Kendall] {
            let p = |pairs: &[(f64, f64)]| correlation(kind, pairs).unwrap().p.unwrap();
            let in_order = p(&[(1.0, 1.0), (2.0, 3.0), (3.0, 5.0)]);
            assert!((in_order - 1.0 / 3.0).abs() < 1e-15, "{kind:?} {in_order}");
            let two = p(&[(1.0, 1.0), (2.0, 3.0)]);
            assert!((two - 1.0).abs() < 1e-15, "{kind:?} {two}");
            // The five comes first, in the middle or last: two of these three lie as far out.
            let tied = p(&[(1.0, 1.0), (2.0, 1.0), (3.0, 5.0)]);
            assert!((tied - 2.0 / 3.0).abs() < 1e-15, "{kind:?} {tied}");
        }
    }

    #[test]
    fn a_perfect_order_of_many_never_has_p_zero() {
        let pairs: Vec<(f64, f64)> = (0..15).map(|i| (f64::from(i), f64::from(i * i))).collect();
        let rho = correlation(CorrelationKind::Spearman, &pairs).unwrap();
        let perfect = 2.0 / (2..=15).map(f64::from).product::<f64>();
        assert!((rho.p.unwrap() / perfect - 1.0).abs() < 1e-12);
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
