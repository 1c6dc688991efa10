//! More than two systems in complete blocks: Friedman's test.

use std::collections::BTreeMap;

use crate::distribution::chi_squared_upper;
use crate::ranks::mid_ranks;
use crate::refusal::{Refusal, all_finite};
use crate::wilcoxon::{Method, doubled};

/// The largest numbers of blocks of three, four, five and six systems whose distribution is enumerated, in up to a few
/// million steps. More systems have too many orders.
const MOST_BLOCKS: [usize; 4] = [100, 33, 10, 4];

/// The result of Friedman's test.
#[derive(Clone, Debug, PartialEq)]
pub struct Friedman {
    /// χ², corrected for ties.
    pub chi_squared: f64,
    /// The p value of "the systems do not differ".
    pub p: f64,
    /// Exact where feasible (three systems up to 100 blocks, four up to 33, five up to 10, six up to 4), otherwise χ²
    /// with systems − 1 degrees of freedom.
    pub method: Method,
    /// The p value of the χ² approximation, which is far off with few blocks.
    pub asymptotic_p: f64,
    /// The mean rank of each system, 1 for the smallest value.
    pub mean_ranks: Vec<f64>,
    /// The number of blocks.
    pub blocks: usize,
}

/// Tests whether systems differ. `blocks[b][s]` is the value of system s in block b, ranked within its block (Friedman,
/// JASA 32, 1937). The exact p enumerates the orders within blocks, with the observed ties.
///
/// # Errors
/// If there are fewer than three systems or two blocks, a block lacks a value, a value is not finite, or all systems
/// are tied in every block.
pub fn friedman(blocks: &[Vec<f64>]) -> Result<Friedman, Refusal> {
    let k = complete(blocks)?;
    if blocks.len() < 2 {
        return Err(Refusal::TooFewUnits {
            n: blocks.len(),
            least: 2,
        });
    }
    let n = blocks.len() as f64;
    let ranked: Vec<_> = blocks.iter().map(|b| mid_ranks(b)).collect();
    let sums: Vec<f64> = (0..k)
        .map(|s| ranked.iter().map(|r| r.ranks[s]).sum())
        .collect();
    let (size, ties) = (k as f64, ranked.iter().map(|r| r.tie_term).sum::<f64>());
    let untied = 1.0 - ties / (n * (size * size * size - size));
    if untied <= 0.0 {
        return Err(Refusal::NoSpread { n: blocks.len() });
    }
    let centre = n * (size + 1.0) / 2.0;
    let spread: f64 = sums.iter().map(|r| (r - centre).powi(2)).sum();
    let chi_squared = 12.0 * spread / (n * size * (size + 1.0)) / untied;
    let asymptotic_p = chi_squared_upper(chi_squared, size - 1.0);
    let whole: Vec<Vec<usize>> = ranked
        .iter()
        .map(|r| r.ranks.iter().map(|rank| doubled(*rank)).collect())
        .collect();
    let exact = exact_p(&whole);
    Ok(Friedman {
        chi_squared,
        p: exact.unwrap_or(asymptotic_p),
        method: exact.map_or(Method::ChiSquared, |_| Method::Exact),
        asymptotic_p,
        mean_ranks: sums.iter().map(|sum| sum / n).collect(),
        blocks: blocks.len(),
    })
}

/// Checks that every block has a finite value for each system, and returns the number of systems.
fn complete(blocks: &[Vec<f64>]) -> Result<usize, Refusal> {
    let (k, least) = (blocks.first().map_or(0, Vec::len), 3);
    if k < least {
        return Err(Refusal::TooFewGroups { n: k, least });
    }
    for (at, block) in blocks.iter().enumerate() {
        all_finite(block)?;
        if block.len() != k {
            return Err(Refusal::Incomplete { at });
        }
    }
    Ok(k)
}

/// Returns the share of orders within blocks whose rank sums spread at least as far, or `None` if there are too many.
/// The systems are exchangeable, so only the sorted rank sums matter.
fn exact_p(ranks: &[Vec<usize>]) -> Option<f64> {
    let k = ranks[0].len();
    // Decided before enumeration, because a ranking of six systems needs this for every contest.
    if ranks.len() > *MOST_BLOCKS.get(k - 3)? {
        return None;
    }
    let spread = |sums: &[u64]| sums.iter().map(|s| s * s).sum::<u64>();
    let seen: Vec<u64> = (0..k)
        .map(|s| ranks.iter().map(|r| r[s] as u64).sum())
        .collect();
    let mut states: BTreeMap<u64, f64> = BTreeMap::from([(0, 1.0)]);
    for block in ranks {
        let orders: Vec<(Vec<usize>, f64)> = orders(block).into_iter().collect();
        let all: f64 = orders.iter().map(|(_, times)| times).sum();
        let mut next: BTreeMap<u64, f64> = BTreeMap::new();
        for (packed, chance) in &states {
            let before = unpacked(*packed);
            for (order, times) in &orders {
                let mut sums = before;
                for (sum, rank) in sums.iter_mut().zip(order) {
                    *sum += *rank as u64;
                }
                sums[..k].sort_unstable();
                *next.entry(packed_up(sums)).or_insert(0.0) += chance * times / all;
            }
        }
        states = next;
    }
    let bound = spread(&seen);
    let extreme = states
        .iter()
        .filter(|(packed, _)| spread(&unpacked(**packed)[..k]) >= bound);
    Some(extreme.map(|(_, chance)| chance).sum::<f64>().min(1.0))
}

/// The bits of one rank sum. Twice the rank of each of 100 blocks of three systems, or of fewer blocks of more systems,
/// is below 2¹⁰.
const BITS: u32 = 10;

/// Packs up to six rank sums into one number.
fn packed_up(sums: [u64; 6]) -> u64 {
    sums.iter().rev().fold(0, |all, sum| all << BITS | sum)
}

fn unpacked(packed: u64) -> [u64; 6] {
    std::array::from_fn(|i| packed >> (BITS * i as u32) & ((1 << BITS) - 1))
}

/// Returns the distinct orders of some ranks, with the number of permutations that give each.
fn orders(ranks: &[usize]) -> BTreeMap<Vec<usize>, f64> {
    if ranks.is_empty() {
        return BTreeMap::from([(Vec::new(), 1.0)]);
    }
    let mut all = BTreeMap::new();
    for first in 0..ranks.len() {
        let rest = [&ranks[..first], &ranks[first + 1..]].concat();
        for (order, times) in orders(&rest) {
            *all.entry([vec![ranks[first]], order].concat())
                .or_insert(0.0) += times;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_blocks_of_three_systems_give_the_published_numbers() {
        let blocks = [
            vec![1.0, 1.1, 1.2],
            vec![1.1, 1.05, 1.3],
            vec![0.9, 1.0, 1.2],
            vec![1.0, 1.2, 1.1],
        ];
        let test = friedman(&blocks).unwrap();
        assert!((test.chi_squared - 4.5).abs() < 1e-12);
        assert!((test.asymptotic_p - 0.1054).abs() < 5e-5);
        assert_eq!(test.method, Method::Exact);
        assert!((test.p - 162.0 / 1296.0).abs() < 1e-14);
        assert_eq!(test.mean_ranks, [1.25, 2.0, 2.75]);
    }

    #[test]
    fn the_smallest_p_is_that_of_one_order_in_every_block() {
        for (n, least) in [(3, 1.0 / 36.0), (4, 1.0 / 216.0)] {
            let test = friedman(&vec![vec![1.0, 2.0, 3.0]; n]).unwrap();
            assert!((test.p - least).abs() < 1e-15, "{n}: {}", test.p);
        }
    }

    #[test]
    fn what_is_incomplete_or_all_tied_is_refused() {
        let gap = [vec![1.0, 2.0, 3.0], vec![1.0, 2.0]];
        assert_eq!(friedman(&gap), Err(Refusal::Incomplete { at: 1 }));
        let tied = vec![vec![1.0; 3]; 4];
        assert_eq!(friedman(&tied), Err(Refusal::NoSpread { n: 4 }));
        assert_eq!(
            friedman(&[vec![1.0, 2.0]]),
            Err(Refusal::TooFewGroups { n: 2, least: 3 })
        );
    }

    #[test]
    fn many_systems_get_the_approximation() {
        let blocks: Vec<Vec<f64>> = (0..9)
            .map(|b| (0..8).map(|s| f64::from((s * 7 + b * 3) % 8)).collect())
            .collect();
        let test = friedman(&blocks).unwrap();
        assert_eq!(
            (test.method, test.p),
            (Method::ChiSquared, test.asymptotic_p)
        );
    }

    #[test]
    fn six_systems_are_exact_for_four_blocks_and_approximated_for_five() {
        let rotated = |b: usize| (0..6).map(|s| ((s + b) % 6) as f64).collect::<Vec<f64>>();
        let test = |blocks: usize| friedman(&(0..blocks).map(rotated).collect::<Vec<_>>()).unwrap();
        assert_eq!(test(2).method, Method::Exact);
        assert_eq!(test(5).method, Method::ChiSquared);
        // The same order in every block: each further block has 720 orders.
        let same = friedman(&vec![rotated(0); 3]).unwrap();
        assert_eq!(same.method, Method::Exact);
        assert!((same.p - 1.0 / 720.0_f64.powi(2)).abs() < 1e-15);
    }

    #[test]
    fn the_largest_rank_sum_that_is_enumerated_fits() {
        for (k, blocks) in (3..).zip(MOST_BLOCKS) {
            assert!(2 * k * blocks < 1 << BITS, "{k} systems");
        }
        assert!(MOST_BLOCKS.len() as u32 * BITS < u64::BITS && 6 * BITS < u64::BITS);
        let sums = [0, 1, 2, 600, 1_000, 1_023];
        assert_eq!(unpacked(packed_up(sums)), sums);
    }
}
