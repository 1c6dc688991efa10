//! Permutation tests of a difference of means.

use rand_chacha::rand_core::Rng;

use crate::random;
use crate::sample::{Sample, sum};

/// The result of a permutation test, two-sided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PermutationTest {
    /// The difference observed.
    pub statistic: f64,
    /// The p value: (extreme + 1)/(resamples + 1) when drawn, the exact share when enumerated.
    pub p: f64,
    /// Whether all arrangements were enumerated.
    pub exact: bool,
}

/// The relative slack within which two statistics count as equal (as SciPy).
const SLACK: f64 = 1e-14 * 100.0;

/// Tests the mean of paired differences by flipping signs: enumerated if 2ⁿ ≤ `resamples`,
/// else that many random arrangements. `None` without differences.
pub fn sign_flip_test(differences: &[f64], resamples: usize, seed: u64) -> Option<PermutationTest> {
    let n = differences.len();
    let sample = Sample::new(differences.iter().copied()).ok()?;
    let statistic = sample.mean();
    let values = sample.values();
    let bound = statistic.abs() * (1.0 - SLACK);
    let extreme = |flipped: f64| (flipped / n as f64).abs() >= bound;
    if n < 60 && (1_u64 << n) <= resamples as u64 {
        let all = 1_u64 << n;
        let count = (0..all)
            .filter(|mask| {
                extreme(sum(values.iter().enumerate().map(|(i, v)| if mask >> i & 1 == 1 { -v } else { *v })))
            })
            .count();
        return Some(PermutationTest { statistic, p: count as f64 / all as f64, exact: true });
    }
    let hits = random::chunks(resamples, seed, |rng, size| {
        (0..size)
            .map(|_| extreme(sum(values.iter().map(|v| if rng.next_u32() & 1 == 1 { -v } else { *v }))))
            .collect()
    });
    Some(drawn(statistic, &hits))
}

/// Tests the difference of two means by exchanging labels, with `resamples` random
/// arrangements. `None` if either group is empty.
pub fn permutation_test_means(a: &[f64], b: &[f64], resamples: usize, seed: u64) -> Option<PermutationTest> {
    let (first, second) = (Sample::new(a.iter().copied()).ok()?, Sample::new(b.iter().copied()).ok()?);
    let statistic = first.mean() - second.mean();
    let pooled = Sample::new(a.iter().chain(b).copied()).ok()?;
    let total = sum(pooled.values().iter().copied());
    let (n, m) = (a.len(), b.len());
    let bound = statistic.abs() * (1.0 - SLACK);
    let hits = random::chunks(resamples, seed, |rng, size| {
        let mut values = pooled.values().to_vec();
        (0..size)
            .map(|_| {
                for i in 0..n {
                    let left = u32::try_from(values.len() - i).expect("a sample has fewer than 2³² values");
                    let j = i + random::below(rng, left);
                    values.swap(i, j);
                }
                let part = sum(values[..n].iter().copied());
                (part / n as f64 - (total - part) / m as f64).abs() >= bound
            })
            .collect()
    });
    Some(drawn(statistic, &hits))
}

fn drawn(statistic: f64, hits: &[bool]) -> PermutationTest {
    let extreme = hits.iter().filter(|hit| **hit).count();
    PermutationTest { statistic, p: (extreme + 1) as f64 / (hits.len() + 1) as f64, exact: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_differences_of_one_sign_have_p_one_sixteenth() {
        let test = sign_flip_test(&[1.0, 2.0, 3.0, 4.0, 5.0], 10_000, 1).unwrap();
        assert_eq!((test.statistic, test.p, test.exact), (3.0, 2.0 / 32.0, true));
    }

    #[test]
    fn groups_far_apart_have_the_smallest_p_and_equal_groups_p_one() {
        let low: Vec<f64> = (0..12).map(f64::from).collect();
        let high: Vec<f64> = low.iter().map(|v| v + 100.0).collect();
        assert_eq!(permutation_test_means(&low, &high, 999, 3).unwrap().p, 1.0 / 1000.0);
        assert_eq!(permutation_test_means(&low, &low, 999, 3).unwrap().p, 1.0);
    }
}
