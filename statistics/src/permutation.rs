//! Permutation tests of a difference of means.

use rand_xoshiro::rand_core::Rng;

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
            .filter(|mask| extreme(sum(flipped(values, *mask))))
            .count();
        return Some(PermutationTest {
            statistic,
            p: count as f64 / all as f64,
            exact: true,
        });
    }
    let hits = random::chunks(resamples, seed, |rng, hits: &mut [bool]| {
        for hit in hits {
            // A word of the stream gives 64 signs.
            *hit = extreme(sum(values
                .chunks(64)
                .flat_map(|part| flipped(part, rng.next_u64()))));
        }
    });
    Some(drawn(statistic, &hits))
}

/// The values, those with a sign turned whose bit is set.
fn flipped(values: &[f64], bits: u64) -> impl Iterator<Item = f64> {
    values
        .iter()
        .enumerate()
        .map(move |(i, v)| f64::from_bits(v.to_bits() ^ (bits >> i & 1) << 63))
}

/// Tests the difference of two means by exchanging labels, with `resamples` random
/// arrangements. `None` if either group is empty.
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
    let total = sum(pooled.values().iter().copied());
    let (n, m) = (a.len(), b.len());
    let bound = statistic.abs() * (1.0 - SLACK);
    let hits = random::chunks(resamples, seed, |rng, hits: &mut [bool]| {
        let mut values = pooled.values().to_vec();
        for hit in hits {
            for i in 0..n {
                let j = i + random::below(rng, values.len() - i);
                values.swap(i, j);
            }
            let part = sum(values[..n].iter().copied());
            *hit = (part / n as f64 - (total - part) / m as f64).abs() >= bound;
        }
    });
    Some(drawn(statistic, &hits))
}

fn drawn(statistic: f64, hits: &[bool]) -> PermutationTest {
    let extreme = hits.iter().filter(|hit| **hit).count();
    PermutationTest {
        statistic,
        p: (extreme + 1) as f64 / (hits.len() + 1) as f64,
        exact: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_differences_of_one_sign_have_p_one_sixteenth() {
        let test = sign_flip_test(&[1.0, 2.0, 3.0, 4.0, 5.0], 10_000, 1).unwrap();
        assert_eq!(
            (test.statistic, test.p, test.exact),
            (3.0, 2.0 / 32.0, true)
        );
    }

    #[test]
    fn groups_far_apart_have_the_smallest_p_and_equal_groups_p_one() {
        let low: Vec<f64> = (0..12).map(f64::from).collect();
        let high: Vec<f64> = low.iter().map(|v| v + 100.0).collect();
        assert_eq!(
            permutation_test_means(&low, &high, 999, 3).unwrap().p,
            1.0 / 1000.0
        );
        assert_eq!(permutation_test_means(&low, &low, 999, 3).unwrap().p, 1.0);
    }
}
