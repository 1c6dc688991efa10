//! Sign test, t tests and the Mann–Whitney U test, all two-sided.

use crate::distribution::{ln_choose, normal_upper, student_upper};
use crate::ranks::mid_ranks;
use crate::sample::Sample;
use crate::wilcoxon::{Continuity, Method, doubled};

/// The result of a sign test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignTest {
    /// The number of positive differences.
    pub positive: usize,
    /// The number of negative differences; zeros are dropped.
    pub negative: usize,
    /// The two-sided exact binomial p value; 1 if every difference is 0.
    pub p: f64,
}

/// Tests whether positive and negative differences are equally likely.
pub fn sign_test(differences: &[f64]) -> SignTest {
    let positive = differences.iter().filter(|d| **d > 0.0).count();
    let negative = differences.iter().filter(|d| **d < 0.0).count();
    let n = (positive + negative) as u64;
    let few = positive.min(negative) as u64;
    let tail: f64 = (0..=few)
        .map(|k| (ln_choose(n, k) - n as f64 * std::f64::consts::LN_2).exp())
        .sum();
    SignTest {
        positive,
        negative,
        p: (2.0 * tail).min(1.0),
    }
}

/// The result of a t test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StudentTest {
    /// The t statistic.
    pub t: f64,
    /// The degrees of freedom.
    pub df: f64,
    /// The two-sided p value.
    pub p: f64,
}

/// Tests whether two independent groups have the same mean, assuming equal variances (Student
/// 1908); `None` with fewer than three values in total or without spread.
pub fn pooled_t(a: &Sample, b: &Sample) -> Option<StudentTest> {
    let (n, m) = (a.len() as f64, b.len() as f64);
    let df = n + m - 2.0;
    if df < 1.0 {
        return None;
    }
    let part = |s: &Sample| s.variance().unwrap_or(0.0) * (s.len() - 1) as f64;
    let pooled = (part(a) + part(b)) / df;
    if pooled == 0.0 {
        return None;
    }
    Some(student(
        (a.mean() - b.mean()) / (pooled * (1.0 / n + 1.0 / m)).sqrt(),
        df,
    ))
}

fn student(t: f64, df: f64) -> StudentTest {
    StudentTest {
        t,
        df,
        p: (2.0 * student_upper(t.abs(), df)).min(1.0),
    }
}

/// The result of a Mann–Whitney U test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MannWhitney {
    /// U of the first group: the number of pairs in which its value is larger; ties count ½.
    pub u: f64,
    /// The two-sided p value.
    pub p: f64,
    /// The smallest p value that groups of these sizes and ties can give.
    pub least: f64,
    /// Exact if the counting takes at most 2·10⁷ additions (two groups of 40, or 8 and 400),
    /// otherwise normal with tie correction.
    pub method: Method,
}

/// The largest number of additions for the exact distribution of U.
const EXACT_ADDITIONS: usize = 20_000_000;

/// Tests whether values of one group tend to be larger than those of the other; `None` if all
/// values are equal.
///
/// Exact where feasible: every choice of the first group among the observed mid-ranks is equally
/// likely, ties included. p is the share of choices whose U lies at least as far from its mean
/// n·m/2 as the observed one (Lehmann, Nonparametrics, 1975, section 1.4; like
/// `coin::wilcox_test`). Otherwise normal with tie correction, like
/// `scipy.stats.mannwhitneyu(method="asymptotic")`. Only this case uses `continuity`.
pub fn mann_whitney_u(a: &Sample, b: &Sample, continuity: Continuity) -> Option<MannWhitney> {
    let (n, m) = (a.len(), b.len());
    let pooled: Vec<f64> = a.values().iter().chain(b.values()).copied().collect();
    let ranked = mid_ranks(&pooled);
    let u = ranked.ranks[..n].iter().sum::<f64>() - (n * (n + 1)) as f64 / 2.0;
    let total = (n + m) as f64;
    let product = (n * m) as f64;
    let variance = product / 12.0 * ((total + 1.0) - ranked.tie_term / (total * (total - 1.0)));
    if variance <= 0.0 {
        return None;
    }
    // Count the choices of the smaller group: U of the other is n·m minus this one.
    let (fewer, u_of_fewer) = if n <= m { (n, u) } else { (m, product - u) };
    let top = fewer * (2 * (n + m) + 1 - fewer);
    if top.saturating_mul(fewer * (n + m)) <= EXACT_ADDITIONS {
        let (p, least) = exact_u(&ranked.ranks, fewer, u_of_fewer);
        let method = Method::Exact;
        return Some(MannWhitney {
            u,
            p,
            least,
            method,
        });
    }
    let half = match continuity {
        Continuity::None => 0.0,
        Continuity::Corrected => 0.5,
    };
    let normal =
        |u: f64| (2.0 * normal_upper((u - product / 2.0 - half) / variance.sqrt())).min(1.0);
    Some(MannWhitney {
        u,
        p: normal(u.max(product - u)),
        least: normal(product),
        method: Method::Normal,
    })
}

/// Returns P(|U − E| ≥ |u − E|) of a random choice of `chosen` of the ranks, and the smallest
/// possible value of it.
fn exact_u(ranks: &[f64], chosen: usize, u: f64) -> (f64, f64) {
    let chances = choice_sums(ranks, chosen);
    // Twice the rank sum of the choice; its mean is chosen·(N + 1), a whole number.
    let centre = chosen * (ranks.len() + 1);
    let seen = doubled(u) + chosen * (chosen + 1);
    let beyond = |distance: usize| -> f64 {
        let chance =
            |(sum, chance): (usize, &f64)| (sum.abs_diff(centre) >= distance).then_some(*chance);
        chances
            .iter()
            .enumerate()
            .filter_map(chance)
            .sum::<f64>()
            .min(1.0)
    };
    let possible = chances.iter().enumerate().filter(|(_, c)| **c > 0.0);
    let farthest = possible
        .map(|(sum, _)| sum.abs_diff(centre))
        .max()
        .unwrap_or(0);
    (beyond(seen.abs_diff(centre)), beyond(farthest))
}

/// Returns the probability of each doubled sum of `chosen` mid-ranks drawn without replacement. The
/// recurrence works on probabilities so that nothing overflows.
fn choice_sums(ranks: &[f64], chosen: usize) -> Vec<f64> {
    let mut whole: Vec<usize> = ranks.iter().map(|r| doubled(*r)).collect();
    whole.sort_unstable();
    let top: usize = whole[whole.len() - chosen..].iter().sum();
    // Indexed by the number chosen so far.
    let mut chances = vec![vec![0.0_f64; top + 1]; chosen + 1];
    chances[0][0] = 1.0;
    for (seen, rank) in whole.iter().enumerate() {
        for size in (1..=chosen.min(seen + 1)).rev() {
            let (fewer, more) = chances.split_at_mut(size);
            // Among all ways to choose `size` of the first seen + 1, the share that includes this
            // one.
            let with = size as f64 / (seen + 1) as f64;
            for (sum, chance) in more[0].iter_mut().enumerate().rev() {
                let before = if sum >= *rank {
                    fewer[size - 1][sum - rank]
                } else {
                    0.0
                };
                *chance = with * before + (1.0 - with) * *chance;
            }
        }
    }
    chances.swap_remove(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_to_nothing_is_one_sixteenth() {
        let test = sign_test(&[1.0, 1.0, 2.0, 3.0, 1.0, 0.0]);
        assert_eq!((test.positive, test.negative), (5, 0));
        assert!((test.p - 0.0625).abs() < 1e-12);
    }

    #[test]
    fn groups_of_three_without_overlap_have_p_one_tenth() {
        let (a, b) = (
            Sample::new([1.0, 2.0, 3.0]).unwrap(),
            Sample::new([4.0, 5.0, 6.0]).unwrap(),
        );
        let test = mann_whitney_u(&a, &b, Continuity::None).unwrap();
        assert_eq!((test.u, test.method), (0.0, Method::Exact));
        assert!((test.p - 0.1).abs() < 1e-12);
    }

    #[test]
    fn ties_are_enumerated_too() {
        let (a, b) = (
            Sample::new([1.0, 1.0, 2.0]).unwrap(),
            Sample::new([3.0, 4.0, 4.0]).unwrap(),
        );
        for (x, y) in [(&a, &b), (&b, &a)] {
            let test = mann_whitney_u(x, y, Continuity::Corrected).unwrap();
            assert_eq!(test.method, Method::Exact);
            assert!((test.p - 0.1).abs() < 1e-15 && (test.least - 0.1).abs() < 1e-15);
        }
    }

    #[test]
    fn groups_too_large_to_enumerate_get_the_normal_approximation() {
        let group = |shift: f64| Sample::new((0..80).map(|i| f64::from(i) + shift)).unwrap();
        let test = mann_whitney_u(&group(0.5), &group(0.0), Continuity::Corrected).unwrap();
        assert_eq!(test.method, Method::Normal);
        assert!(test.least < test.p && test.p < 1.0);
    }

    #[test]
    fn tests_without_spread_are_undefined() {
        let constant = Sample::new([1.0; 12]).unwrap();
        assert_eq!(pooled_t(&constant, &constant), None);
        assert_eq!(mann_whitney_u(&constant, &constant, Continuity::None), None);
    }
}
