//! Rank tests over several short series at once. Each series is compared only with itself.
//!
//! They answer "does it drift?" and "is the first part slower?" for many cells together, when no
//! single cell has enough rows.

use crate::distribution::normal_upper;
use crate::ranks::mid_ranks;
use crate::wilcoxon::Method;

/// The largest number of pairs of values for which the exact distribution is computed.
const EXACT_PAIRS: usize = 2_000;

/// The result of a test for trend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Pairs that rise minus pairs that fall, summed over the series.
    pub s: i64,
    /// The two-sided p value.
    pub p: f64,
    /// The smallest p value that series of these lengths can give.
    pub least: f64,
    /// Exact without ties and up to 2,000 pairs, otherwise normal with tie and continuity
    /// correction.
    pub method: Method,
}

/// Tests whether values tend to rise or to fall along each of several series: the seasonal Kendall
/// test (Hirsch, Slack & Smith 1982, Water Resources Research 18, 107), or with one series the
/// Mann–Kendall test. Under the hypothesis, every order within a series is equally likely. `None`
/// if no series has two different values.
pub fn kendall_trend(series: &[Vec<f64>]) -> Option<Trend> {
    let (mut s, mut pairs, mut variance, mut tied) = (0_i64, 0_usize, 0.0, false);
    for values in series {
        let n = values.len();
        for (i, a) in values.iter().enumerate() {
            s += values[i + 1..]
                .iter()
                .map(|b| i64::from(b > a) - i64::from(b < a))
                .sum::<i64>();
        }
        pairs += n * n.saturating_sub(1) / 2;
        let cubic = |t: f64| t * (t - 1.0) * (2.0 * t + 5.0);
        let mut ties = 0.0;
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        for group in sorted.chunk_by(|a, b| a == b).filter(|g| g.len() > 1) {
            ties += cubic(group.len() as f64);
            tied = true;
        }
        variance += (cubic(n as f64) - ties) / 18.0;
    }
    if variance <= 0.0 {
        return None;
    }
    if tied || pairs > EXACT_PAIRS {
        let normal = |s: f64| (2.0 * normal_upper((s - 1.0).max(0.0) / variance.sqrt())).min(1.0);
        return Some(Trend {
            s,
            p: normal(s.unsigned_abs() as f64),
            least: normal(pairs as f64),
            method: Method::Normal,
        });
    }
    let lengths: Vec<usize> = series.iter().map(Vec::len).collect();
    let chances = inversions(&lengths);
    // S = pairs − 2·inversions, symmetric about 0.
    let at_most = (pairs as u64 - s.unsigned_abs()) as usize / 2;
    let p = (2.0 * chances[..=at_most].iter().sum::<f64>()).min(1.0);
    Some(Trend {
        s,
        p,
        least: (2.0 * chances[0]).min(1.0),
        method: Method::Exact,
    })
}

/// Returns the probability of each total number of inversions in random orders of these lengths:
/// the convolution of uniform distributions on 0 … i − 1 for every place i of every series.
fn inversions(lengths: &[usize]) -> Vec<f64> {
    let mut chances = vec![1.0];
    for places in lengths.iter().flat_map(|n| 2..=*n) {
        let mut next = vec![0.0; chances.len() + places - 1];
        let mut window = 0.0;
        for (at, slot) in next.iter_mut().enumerate() {
            window += chances.get(at).copied().unwrap_or(0.0);
            if at >= places {
                window -= chances.get(at - places).copied().unwrap_or(0.0);
            }
            // What remains of an emptied window is rounding.
            *slot = f64::max(window, 0.0) / places as f64;
        }
        chances = next;
    }
    chances
}

/// The result of a stratified comparison of two groups.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StratifiedRanks {
    /// The standardised sum; above 0 if the first group tends to be larger.
    pub z: f64,
    /// The two-sided p value, from the normal distribution.
    pub p: f64,
    /// The number of strata with something to compare.
    pub strata: usize,
}

/// Tests whether the first group's values tend to be larger, with each stratum ranked separately:
/// van Elteren's test (1960, Bull. Inst. Int. Statist. 37, 351). Rank sums are weighted by 1/(N +
/// 1), and variances are corrected for ties. The normal approximation needs a handful of strata.
/// `None` if no stratum has two different values in two non-empty groups.
pub fn van_elteren(strata: &[(Vec<f64>, Vec<f64>)]) -> Option<StratifiedRanks> {
    let (mut sum, mut variance, mut used) = (0.0, 0.0, 0);
    for (a, b) in strata
        .iter()
        .filter(|(a, b)| !a.is_empty() && !b.is_empty())
    {
        let pooled: Vec<f64> = a.iter().chain(b).copied().collect();
        let ranked = mid_ranks(&pooled);
        let (n, total) = (a.len() as f64, pooled.len() as f64);
        let spread =
            n * b.len() as f64 / 12.0 * (total + 1.0 - ranked.tie_term / (total * (total - 1.0)));
        if spread <= 0.0 {
            continue;
        }
        let rank_sum: f64 = ranked.ranks[..a.len()].iter().sum();
        sum += (rank_sum - n * (total + 1.0) / 2.0) / (total + 1.0);
        variance += spread / ((total + 1.0) * (total + 1.0));
        used += 1;
    }
    if used == 0 {
        return None;
    }
    let z = sum / variance.sqrt();
    Some(StratifiedRanks {
        z,
        p: (2.0 * normal_upper(z.abs())).min(1.0),
        strata: used,
    })
}

/// Returns which hypotheses of a family can be rejected at all, from the smallest p value that each
/// can give: Tarone's family (1990, Biometrics 46, 515). With K the smallest number for which at
/// most K hypotheses can reach α/K, only those enter. A correction over these K keeps the chance of
/// any false rejection at α.
pub fn tarone_family(least: &[f64], alpha: f64) -> Vec<bool> {
    let within = |k: usize| least.iter().filter(|p| **p <= alpha / k as f64).count();
    let k = (1..=least.len().max(1))
        .find(|k| within(*k) <= *k)
        .unwrap_or(1);
    least.iter().map(|p| *p <= alpha / k as f64).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rising(n: usize) -> Vec<f64> {
        (0..n).map(|i| i as f64).collect()
    }

    #[test]
    fn a_strictly_rising_series_has_two_in_n_factorial() {
        for (n, orders) in [(3, 6.0), (4, 24.0), (5, 120.0), (8, 40_320.0)] {
            let trend = kendall_trend(&[rising(n)]).unwrap();
            assert_eq!(
                (trend.s, trend.method),
                ((n * (n - 1) / 2) as i64, Method::Exact)
            );
            assert!((trend.p - 2.0 / orders).abs() < 1e-15 && trend.p == trend.least);
        }
    }

    #[test]
    fn the_exact_tails_are_those_of_kendalls_table() {
        // Upper tails of S for n = 4, 5, 8 and 10 (Kendall, Rank Correlation Methods, table 1).
        let table = [
            (4, 4, 0.167),
            (5, 6, 0.117),
            (5, 8, 0.042),
            (8, 16, 0.031),
            (10, 21, 0.036),
            (10, 29, 0.0046),
        ];
        for (n, s, tail) in table {
            let chances = inversions(&[n]);
            let inverted = (n * (n - 1) / 2 - s) / 2;
            let exact: f64 = chances[..=inverted].iter().sum();
            assert!((exact - tail).abs() < 5.1e-4, "n {n}, S {s}: {exact}");
        }
    }

    #[test]
    fn series_too_short_one_by_one_tell_together() {
        let three = kendall_trend(&[rising(3)]).unwrap();
        assert!((three.p - 1.0 / 3.0).abs() < 1e-15);
        let six: Vec<Vec<f64>> = vec![rising(3); 6];
        let together = kendall_trend(&six).unwrap();
        assert!((together.p - 2.0 / 6.0_f64.powi(6)).abs() < 1e-15);
    }

    #[test]
    fn ties_and_long_series_take_the_normal_tail() {
        // n = 10 with two pairs of ties: Var S = (10·9·25 − 2·2·1·9)/18 = 123; S = 43.
        let tied = [1.0, 1.0, 2.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0].to_vec();
        let trend = kendall_trend(&[tied]).unwrap();
        let expected = 2.0 * normal_upper(42.0 / 123.0_f64.sqrt());
        assert_eq!((trend.s, trend.method), (43, Method::Normal));
        assert!((trend.p - expected).abs() < 1e-15);
        assert_eq!(
            kendall_trend(&[rising(200)]).unwrap().method,
            Method::Normal
        );
        assert_eq!(kendall_trend(&[vec![2.0; 9]]), None);
        assert_eq!(kendall_trend(&[]), None);
    }

    #[test]
    fn one_stratum_is_the_rank_sum_test_without_continuity_correction() {
        let (a, b) = (vec![1.0, 2.0, 6.0], vec![3.0, 4.0, 5.0, 7.0]);
        let stratified = van_elteren(&[(a.clone(), b.clone())]).unwrap();
        // Rank sum 9 of 3 against 4: mean 12, variance 8.
        assert!((stratified.z - -3.0 / 8.0_f64.sqrt()).abs() < 1e-12);
        let doubled = van_elteren(&[(a.clone(), b.clone()), (a, b)]).unwrap();
        assert!((doubled.z - stratified.z * 2.0_f64.sqrt()).abs() < 1e-12 && doubled.strata == 2);
        assert_eq!(van_elteren(&[(vec![1.0], vec![1.0])]), None);
    }

    #[test]
    fn a_hypothesis_that_can_never_be_rejected_costs_the_others_nothing() {
        let alpha = 0.05;
        assert_eq!(
            tarone_family(&[0.001, 0.3, 0.2], alpha),
            [true, false, false]
        );
        assert_eq!(tarone_family(&[0.02, 0.02], alpha), [true, true]);
        assert_eq!(tarone_family(&[0.03, 0.03], alpha), [false, false]);
        assert_eq!(tarone_family(&[], alpha), [] as [bool; 0]);
    }

    proptest! {
        #[test]
        fn the_exact_distribution_sums_to_one(lengths in prop::collection::vec(0_usize..9, 0..6)) {
            let total: f64 = inversions(&lengths).iter().sum();
            prop_assert!((total - 1.0).abs() < 1e-12);
        }

        #[test]
        fn turning_the_time_around_turns_the_sign_only(values in prop::collection::vec(0_i32..50, 2..30)) {
            let forth: Vec<f64> = values.iter().map(|v| f64::from(*v)).collect();
            let back: Vec<f64> = forth.iter().rev().copied().collect();
            let (a, b) = (kendall_trend(&[forth]), kendall_trend(&[back]));
            prop_assert_eq!(a.map(|t| (t.s, t.p)), b.map(|t| (-t.s, t.p)));
        }
    }
}
