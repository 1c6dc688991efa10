//! Sign test, t tests and the Mann–Whitney U test, all two-sided.

use crate::distribution::{ln_choose, normal_upper, student_upper};
use crate::ranks::mid_ranks;
use crate::sample::Sample;
use crate::wilcoxon::{Continuity, Method};

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

/// Tests whether the mean of paired differences is 0; `None` for fewer than two differences or
/// differences without spread.
pub fn paired_t(differences: &Sample) -> Option<StudentTest> {
    let std = differences.std()?;
    if std == 0.0 {
        return None;
    }
    let t = differences.mean() / (std / (differences.len() as f64).sqrt());
    Some(student(t, (differences.len() - 1) as f64))
}

/// Tests whether two independent groups have the same mean, variances not assumed equal
/// (Welch 1947); `None` if a group has one value or neither has spread.
pub fn welch_t(a: &Sample, b: &Sample) -> Option<StudentTest> {
    let (u, v) = (
        a.variance()? / a.len() as f64,
        b.variance()? / b.len() as f64,
    );
    if u + v == 0.0 {
        return None;
    }
    let t = (a.mean() - b.mean()) / (u + v).sqrt();
    let df = (u + v).powi(2) / (u * u / (a.len() - 1) as f64 + v * v / (b.len() - 1) as f64);
    Some(student(t, df))
}

/// Tests whether two independent groups have the same mean, variances assumed equal (Student
/// 1908); `None` with fewer than three values in all or without spread.
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
    /// U of the first group: the number of pairs in which its value is larger, ties count ½.
    pub u: f64,
    /// The two-sided p value.
    pub p: f64,
    /// Exact if one group has at most 8 values and nothing is tied, else normal with tie
    /// correction (`scipy.stats.mannwhitneyu(method="auto")`).
    pub method: Method,
}

/// Tests whether values of one group tend to be larger than those of the other; `None` if all
/// values are equal.
pub fn mann_whitney_u(a: &Sample, b: &Sample, continuity: Continuity) -> Option<MannWhitney> {
    let (n, m) = (a.len(), b.len());
    let pooled: Vec<f64> = a.values().iter().chain(b.values()).copied().collect();
    let ranked = mid_ranks(&pooled);
    let u = ranked.ranks[..n].iter().sum::<f64>() - (n * (n + 1)) as f64 / 2.0;
    if n.min(m) <= 8 && ranked.tie_term == 0.0 {
        let larger = u.max((n * m) as f64 - u) as usize;
        return Some(MannWhitney {
            u,
            p: exact_u(n, m, larger),
            method: Method::Exact,
        });
    }
    let total = (n + m) as f64;
    let product = (n * m) as f64;
    let variance = product / 12.0 * ((total + 1.0) - ranked.tie_term / (total * (total - 1.0)));
    if variance <= 0.0 {
        return None;
    }
    let half = match continuity {
        Continuity::None => 0.0,
        Continuity::Corrected => 0.5,
    };
    let z = (u.max(product - u) - product / 2.0 - half) / variance.sqrt();
    Some(MannWhitney {
        u,
        p: (2.0 * normal_upper(z)).min(1.0),
        method: Method::Normal,
    })
}

/// Returns 2·P(U ≥ u), capped at 1: arrangements counted by recurrence over group sizes.
fn exact_u(n: usize, m: usize, u: usize) -> f64 {
    // The share of arrangements of i and j values with a given U, built up by probability so
    // that nothing overflows: the largest value is of the first group with chance i/(i + j).
    let mut table: Vec<Vec<f64>> = vec![vec![1.0]; m + 1];
    for i in 1..=n {
        let mut next: Vec<Vec<f64>> = Vec::with_capacity(m + 1);
        for j in 0..=m {
            let mut counts = vec![0.0; i * j + 1];
            let of_first = i as f64 / (i + j) as f64;
            for (value, share) in table[j].iter().enumerate() {
                counts[value + j] += of_first * share;
            }
            if j > 0 {
                for (value, share) in next[j - 1].iter().enumerate() {
                    counts[value] += (1.0 - of_first) * share;
                }
            }
            next.push(counts);
        }
        table = next;
    }
    let tail: f64 = table[m].iter().skip(u).rev().sum();
    (2.0 * tail).min(1.0)
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
    fn tests_without_spread_are_undefined() {
        let constant = Sample::new([1.0; 12]).unwrap();
        assert_eq!(paired_t(&constant), None);
        assert_eq!(welch_t(&constant, &constant), None);
        assert_eq!(mann_whitney_u(&constant, &constant, Continuity::None), None);
    }
}
