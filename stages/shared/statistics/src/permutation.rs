//! Permutation tests of a difference of means, enumerated where feasible, otherwise drawn.

use std::cmp::Ordering;

use rand_xoshiro::rand_core::Rng;

use crate::random;
use crate::sample::{Sample, sum};

/// The result of a two-sided permutation test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PermutationTest {
    /// The observed difference.
    pub statistic: f64,
    /// The p value: (extreme + 1)/(resamples + 1) if drawn, the exact share if enumerated.
    pub p: f64,
    /// The smallest p value that this many values can give: one arrangement and its mirror image,
    /// or 1/(resamples + 1) if that is larger.
    pub least: f64,
    /// Whether all arrangements were enumerated.
    pub exact: bool,
}

/// The largest number of differences for which all 2ⁿ signs are enumerated.
pub(crate) const MOST_SIGN_FLIPS: usize = 20;

/// The largest number of ways to choose a group that is enumerated.
pub(crate) const MOST_CHOICES: u64 = 1_000_000;

/// The slack within which two sums count as equal, relative to the sum of all absolute values.
/// Rounding is a thousand times smaller.
const SLACK: f64 = 1e-12;

/// Tests the mean of paired differences by flipping signs: enumerated for at most 20 differences,
/// otherwise with `resamples` random arrangements. Within a block of a randomised design, a flip is
/// the other order of the two sides, so the enumerated p holds for any distribution (Fisher, The
/// Design of Experiments, 1935, section 21). An arrangement counts if its mean is at least as far
/// from 0 as the observed one, up to rounding. `None` without differences.
pub fn sign_flip_test(differences: &[f64], resamples: usize, seed: u64) -> Option<PermutationTest> {
    let n = differences.len();
    let sample = Sample::new(differences.iter().copied()).ok()?;
    let statistic = sample.mean();
    let values = sample.values();
    let bound = bound(sum(values.iter().copied()), values);
    let moved = values.iter().filter(|v| **v != 0.0).count() as i32;
    let least = if moved == 0 {
        1.0
    } else {
        0.5_f64.powi(moved - 1)
    };
    if n <= MOST_SIGN_FLIPS {
        // The first sign is fixed: the other half of the arrangements is the mirror image.
        let (low, high) = values[1..].split_at((n - 1) / 2);
        let (low, high) = (signed_sums(low), signed_sums(high));
        let extreme = |far: &f64| {
            let part = values[0] + far;
            low.iter()
                .filter(|near| (part + **near).abs() >= bound)
                .count()
        };
        let count: usize = high.iter().map(extreme).sum();
        return Some(PermutationTest {
            statistic,
            p: count as f64 / (low.len() * high.len()) as f64,
            least,
            exact: true,
        });
    }
    let hits = random::chunks(resamples, seed, |rng, hits: &mut [bool]| {
        for hit in hits {
            // A word of the stream yields 64 signs.
            *hit = sum(values
                .chunks(64)
                .flat_map(|part| flipped(part, rng.next_u64())))
            .abs()
                >= bound;
        }
    });
    Some(drawn(statistic, &hits, least))
}

/// Returns the absolute sum from which an arrangement counts as extreme.
fn bound(observed: f64, values: &[f64]) -> f64 {
    observed.abs() - SLACK * values.iter().map(|v| v.abs()).sum::<f64>()
}

/// Returns the sums of the values under all signs; only 0 if there are no values.
fn signed_sums(values: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0];
    for value in values {
        sums = sums.iter().flat_map(|s| [s + value, s - value]).collect();
    }
    sums
}

/// Returns the values with the signs of the set bits flipped.
fn flipped(values: &[f64], bits: u64) -> impl Iterator<Item = f64> {
    values
        .iter()
        .enumerate()
        .map(move |(i, v)| f64::from_bits(v.to_bits() ^ (bits >> i & 1) << 63))
}

/// Tests the difference of two means by exchanging labels, with Welch's t as the statistic, in `resamples` random
/// arrangements (Janssen, Statist. Probab. Lett. 36, 1997). It is exact if both groups have the same distribution,
/// however skewed and of whatever size, and unlike a permutation of means it also holds approximately if only their means
/// are equal and one group is noisier. `None` if a group has fewer than two values.
pub fn permutation_test_welch(a: &[f64], b: &[f64], resamples: usize, seed: u64) -> Option<f64> {
    let drawn = arrangements(a, b, resamples, seed)?;
    let bound = drawn.observed.abs() * (1.0 - SLACK);
    Some(drawn.p(|t| t.abs().partial_cmp(&bound) != Some(Ordering::Less)))
}

/// As [`permutation_test_welch`], one-sided: returns the p values of "the mean of `a` is at least that of `b`" and "… at most
/// that of `b`". To test a margin, shift `a` by it first.
pub fn permutation_tails_welch(
    a: &[f64],
    b: &[f64],
    resamples: usize,
    seed: u64,
) -> Option<[f64; 2]> {
    let drawn = arrangements(a, b, resamples, seed)?;
    let slack = SLACK * drawn.observed.abs();
    let (low, high) = (drawn.observed - slack, drawn.observed + slack);
    Some([
        drawn.p(|t| t.partial_cmp(&high) != Some(Ordering::Greater)),
        drawn.p(|t| t.partial_cmp(&low) != Some(Ordering::Less)),
    ])
}

/// Welch's t of two groups, observed and over random arrangements of their values.
struct Arrangements {
    observed: f64,
    drawn: Vec<f64>,
}

impl Arrangements {
    /// Returns the share of arrangements, with the observed one, that count as extreme. One without any spread has an
    /// infinite t, or none, and must count.
    fn p(&self, is_extreme: impl Fn(f64) -> bool) -> f64 {
        let hits = self.drawn.iter().filter(|t| is_extreme(**t)).count();
        (hits + 1) as f64 / (self.drawn.len() + 1) as f64
    }
}

/// Draws arrangements of the values of two groups; `None` if a group has fewer than two.
fn arrangements(a: &[f64], b: &[f64], resamples: usize, seed: u64) -> Option<Arrangements> {
    let t = |values: &[f64]| {
        let side = |values: &[f64]| {
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
            (mean, squares / (n - 1.0) / n)
        };
        let (first, second) = values.split_at(a.len());
        let ((first, u), (second, v)) = (side(first), side(second));
        (first - second) / (u + v).sqrt()
    };
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let all = [a, b].concat();
    let drawn = random::chunks(resamples, seed, |rng, drawn: &mut [f64]| {
        let mut values = all.clone();
        for one in drawn {
            for i in 0..a.len() {
                let j = i + random::below(rng, values.len() - i);
                values.swap(i, j);
            }
            *one = t(&values);
        }
    });
    Some(Arrangements {
        observed: t(&all),
        drawn,
    })
}

/// Tests the difference of two means by exchanging labels: enumerated if there are at most 10⁶ ways
/// to choose the smaller group, otherwise with `resamples` random arrangements. An arrangement
/// counts if its difference is at least as far from 0 as the observed one, up to rounding. `None`
/// if either group is empty.
pub fn permutation_test_means(
    a: &[f64],
    b: &[f64],
    resamples: usize,
    seed: u64,
) -> Option<PermutationTest> {
    let (first, second) = (
        Sample::new(a.iter().copied()).ok()?,
        Sample::new(b.iter().copied()).ok()?,
    );
    let statistic = first.mean() - second.mean();
    let pooled = Sample::new(a.iter().chain(b).copied()).ok()?;
    // After centring on the overall mean, the difference of means is one group's sum times a
    // constant.
    let centre = pooled.mean();
    let centred: Vec<f64> = pooled.values().iter().map(|v| v - centre).collect();
    let fewer = if a.len() <= b.len() { &first } else { &second };
    let bound = bound(sum(fewer.values().iter().map(|v| v - centre)), &centred);
    let (n, chosen) = (centred.len(), fewer.len());
    let all = choices(n, chosen);
    let mirrored = if 2 * chosen == n { 2.0 } else { 1.0 };
    let least = all.map_or(0.0, |all| (mirrored / all as f64).min(1.0));
    if let Some(all) = all.filter(|all| *all <= MOST_CHOICES) {
        return Some(PermutationTest {
            statistic,
            p: extreme_choices(&centred, chosen, 0.0, bound) as f64 / all as f64,
            least,
            exact: true,
        });
    }
    let hits = random::chunks(resamples, seed, |rng, hits: &mut [bool]| {
        let mut values = centred.clone();
        for hit in hits {
            for i in 0..chosen {
                let j = i + random::below(rng, values.len() - i);
                values.swap(i, j);
            }
            *hit = sum(values[..chosen].iter().copied()).abs() >= bound;
        }
    });
    Some(drawn(statistic, &hits, least))
}

/// Returns C(n, k), or `None` beyond 2⁶³.
pub(crate) fn choices(n: usize, k: usize) -> Option<u64> {
    let k = k.min(n - k) as u64;
    let mut all = 1_u64;
    for i in 0..k {
        // The product of this many consecutive numbers is divisible by their count.
        all = all.checked_mul(n as u64 - i)? / (i + 1);
    }
    Some(all)
}

/// Counts the choices of `chosen` of the values whose sum, added to `before`, is extreme.
fn extreme_choices(values: &[f64], chosen: usize, before: f64, bound: f64) -> u64 {
    if chosen == 0 {
        return u64::from(before.abs() >= bound);
    }
    (0..=values.len() - chosen)
        .map(|i| extreme_choices(&values[i + 1..], chosen - 1, before + values[i], bound))
        .sum()
}

fn drawn(statistic: f64, hits: &[bool], least: f64) -> PermutationTest {
    let extreme = hits.iter().filter(|hit| **hit).count();
    let all = (hits.len() + 1) as f64;
    PermutationTest {
        statistic,
        p: (extreme + 1) as f64 / all,
        least: least.max(1.0 / all),
        exact: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_differences_of_one_sign_have_p_one_sixteenth() {
        let test = sign_flip_test(&[1.0, 2.0, 3.0, 4.0, 5.0], 0, 1).unwrap();
        assert_eq!(
            (test.statistic, test.p, test.least, test.exact),
            (3.0, 2.0 / 32.0, 2.0 / 32.0, true)
        );
    }

    #[test]
    fn groups_of_three_are_enumerated_whatever_the_seed() {
        let test = permutation_test_means(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], 999, 3).unwrap();
        assert_eq!((test.p, test.least, test.exact), (0.1, 0.1, true));
        let uneven = permutation_test_means(&[9.0], &[4.0, 5.0, 6.0], 999, 3).unwrap();
        assert_eq!((uneven.p, uneven.least, uneven.exact), (0.25, 0.25, true));
    }

    #[test]
    fn sums_that_differ_by_rounding_count_as_equal() {
        // 0.1 + 0.2 − 0.3 is 5.6e-17 and not 0: every arrangement is at least as extreme.
        assert_eq!(sign_flip_test(&[0.1, 0.2, -0.3], 0, 1).unwrap().p, 1.0);
        let tied = permutation_test_means(&[0.1, 0.6], &[0.3, 0.4], 0, 1).unwrap();
        assert_eq!(tied.p, 1.0);
    }

    #[test]
    fn what_is_too_much_to_enumerate_is_drawn() {
        let low: Vec<f64> = (0..12).map(f64::from).collect();
        let high: Vec<f64> = low.iter().map(|v| v + 100.0).collect();
        let apart = permutation_test_means(&low, &high, 999, 3).unwrap();
        assert_eq!(
            (apart.p, apart.least, apart.exact),
            (1.0 / 1000.0, 1.0 / 1000.0, false)
        );
        assert_eq!(permutation_test_means(&low, &low, 999, 3).unwrap().p, 1.0);
        assert!(!sign_flip_test(&high[..1].repeat(21), 999, 3).unwrap().exact);
    }

    #[test]
    fn the_largest_enumeration_ends() {
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        let test = sign_flip_test(&values, 0, 1).unwrap();
        assert_eq!((test.p, test.exact), (0.5_f64.powi(19), true));
        assert_eq!(choices(22, 11), Some(705_432));
        assert_eq!(choices(3_000, 1_500), None);
    }
}
