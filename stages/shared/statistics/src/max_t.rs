//! A family of strata tested together by flipping the signs of whole blocks.

use crate::refusal::{Refusal, all_finite};
use crate::sample::{Sample, sum};

/// The largest number of blocks whose signs are all enumerated.
const MOST_BLOCKS: usize = crate::permutation::MOST_SIGN_FLIPS;

/// The result for one stratum of a family.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaxT {
    /// The t statistic of the stratum.
    pub t: f64,
    /// The two-sided p value of this stratum alone, from the same flips.
    pub p: f64,
    /// The p value adjusted for the family.
    pub adjusted_p: f64,
    /// The smallest p that this many blocks can give, 2^(1 − n). With fewer than six blocks, no stratum can be rejected
    /// at 5 %.
    pub least: f64,
}

/// Tests strata that were measured in the same blocks: `strata[s][b]` is the effect of stratum s in block b. One flip
/// per block turns the signs of all its strata, which keeps their correlation. A stratum is rejected if its |t| is
/// large compared with the largest |t| of the strata not yet rejected, step by step; this is the closed test (Westfall
/// & Young, Resampling-Based Multiple Testing, 1993, algorithm 4.1). All 2ⁿ flips are enumerated. A stratum without
/// spread has t = ±∞ if its mean is not 0.
///
/// # Errors
/// If there is no stratum, there are fewer than three or more than 20 blocks, the strata have different numbers of
/// blocks, or a value is not finite.
pub fn max_t(strata: &[Vec<f64>]) -> Result<Vec<MaxT>, Refusal> {
    let Some(first) = strata.first() else {
        return Err(Refusal::TooFewGroups { n: 0, least: 1 });
    };
    let n = first.len();
    if n < crate::unit::LEAST_UNITS {
        let least = crate::unit::LEAST_UNITS;
        return Err(Refusal::TooFewUnits { n, least });
    }
    if n > MOST_BLOCKS {
        return Err(Refusal::TooMany {
            n,
            most: MOST_BLOCKS,
        });
    }
    for (at, stratum) in strata.iter().enumerate() {
        all_finite(stratum)?;
        if stratum.len() != n {
            return Err(Refusal::Incomplete { at });
        }
    }
    let squares: Vec<f64> = strata
        .iter()
        .map(|s| sum(s.iter().map(|d| d * d)))
        .collect();
    // |t| rises with the squared sum over the sum of squares, and no flip changes the latter.
    let share = |total: f64, stratum: usize| {
        if squares[stratum] == 0.0 {
            0.0
        } else {
            total * total / squares[stratum]
        }
    };
    let seen: Vec<f64> = strata
        .iter()
        .enumerate()
        .map(|(s, d)| share(sum(d.iter().copied()), s))
        .collect();
    let mut order: Vec<usize> = (0..strata.len()).collect();
    order.sort_by(|a, b| seen[*b].total_cmp(&seen[*a]));
    let (alone, together) = count(strata, &seen, &order, &share);
    let all = 2.0_f64.powi(n as i32 - 1);
    let mut results: Vec<MaxT> = strata
        .iter()
        .enumerate()
        .map(|(s, d)| MaxT {
            t: student_of(d),
            p: alone[s] as f64 / all,
            adjusted_p: 0.0,
            least: 1.0 / all,
        })
        .collect();
    let mut running = 0.0_f64;
    for at in order {
        running = running.max(together[at] as f64 / all);
        results[at].adjusted_p = running;
    }
    Ok(results)
}

/// Counts how often each stratum is as extreme as observed, over the flips that leave the first block alone. The first
/// count takes the stratum alone; the second takes the largest of it and those after it in the order.
fn count(
    strata: &[Vec<f64>],
    seen: &[f64],
    order: &[usize],
    share: &impl Fn(f64, usize) -> f64,
) -> (Vec<u64>, Vec<u64>) {
    let n = strata[0].len();
    let half = (n - 1) / 2;
    // A row for each flip of some of the blocks, a column for each stratum.
    let sums = |part: fn(&[f64], usize) -> &[f64]| -> Vec<Vec<f64>> {
        let signed = |d: &Vec<f64>| crate::permutation::signed_sums(part(&d[1..], half));
        let tables: Vec<Vec<f64>> = strata.iter().map(signed).collect();
        let row = |flip: usize| tables.iter().map(|sums| sums[flip]).collect();
        (0..tables[0].len()).map(row).collect()
    };
    let (low, high) = (sums(|d, half| &d[..half]), sums(|d, half| &d[half..]));
    let bounds: Vec<f64> = seen.iter().map(|s| s * (1.0 - 1e-9) - 1e-12).collect();
    let (mut alone, mut together) = (vec![0_u64; strata.len()], vec![0_u64; strata.len()]);
    for far in &high {
        for near in &low {
            let mut largest = f64::NEG_INFINITY;
            for s in order.iter().rev() {
                let flipped = share(strata[*s][0] + far[*s] + near[*s], *s);
                largest = largest.max(flipped);
                alone[*s] += u64::from(flipped >= bounds[*s]);
                together[*s] += u64::from(largest >= bounds[*s]);
            }
        }
    }
    (alone, together)
}

/// Returns the t statistic. It is infinite without spread, and 0 if every value is 0.
fn student_of(values: &[f64]) -> f64 {
    let Ok(sample) = Sample::new(values.iter().copied()) else {
        return 0.0;
    };
    let mean = sample.mean();
    if mean == 0.0 {
        return 0.0;
    }
    mean / (sample.std().unwrap_or(0.0) / (values.len() as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stratum_alone_has_the_p_of_its_sign_flips() {
        let effects = vec![0.3, -0.1, 0.4, 0.2, 0.6, 0.1, 0.5];
        let one = max_t(std::slice::from_ref(&effects)).unwrap()[0];
        let flips = crate::sign_flip_test(&effects, 0, 0).unwrap();
        assert_eq!((one.p, one.adjusted_p), (flips.p, flips.p));
        assert_eq!(one.least, 1.0 / 64.0);
    }

    #[test]
    fn copies_of_a_stratum_cost_nothing_and_independent_ones_do() {
        let effects = vec![0.3, 0.1, 0.4, 0.2, 0.6, 0.1, 0.5];
        let copies = max_t(&vec![effects.clone(); 5]).unwrap();
        assert!(
            copies
                .iter()
                .all(|c| c.adjusted_p == c.p && c.p == 1.0 / 64.0)
        );
        let other = vec![0.3, -0.2, 0.1, 0.25, -0.3, 0.1, -0.2];
        let family = max_t(&[other, effects]).unwrap();
        assert!(family[1].adjusted_p >= family[1].p);
        assert!(family[0].adjusted_p >= family[1].adjusted_p);
    }

    #[test]
    fn strata_of_different_lengths_are_refused() {
        let strata = [vec![1.0, 2.0, 3.0], vec![1.0, 2.0]];
        assert_eq!(max_t(&strata), Err(Refusal::Incomplete { at: 1 }));
        assert_eq!(
            max_t(&[vec![0.1; 21]]),
            Err(Refusal::TooMany { n: 21, most: 20 })
        );
    }
}
