//! Whether units resemble each other: within groups, such as days, and from one unit to the next.
//!
//! Every interval and test of this crate takes units for independent. These tests find units that are not.

use std::fmt;

use crate::distribution::fisher_upper;
use crate::random;
use crate::refusal::Refusal;
use crate::sample::{mean, sum};
use crate::significant::significant;
use crate::unit::{LEAST_CLUSTERS, UnitEffect, unit_effect};

/// A group of units: the values of the first side and those of the second, which is empty if the units have one value
/// each, such as the effect of a block.
pub type Group = (Vec<f64>, Vec<f64>);

/// Tests whether groups differ by more than the units within them (Fisher, Statistical Methods for Research Workers,
/// 1925, section 40). If all groups have a second side, the differences between the sides are compared, so that a level
/// that both sides of a group share does not count. Groups that lack a side which others have are left out. The p value
/// is that of F with groups − 1 degrees of freedom, and those within the sides of the groups; `None` if either is 0, or
/// if there is no spread within the groups.
pub fn group_resemblance(groups: &[Group]) -> Option<f64> {
    let sides = usize::from(groups.iter().any(|(_, b)| !b.is_empty())) + 1;
    let (mut pairs, mut within, mut df) = (Vec::new(), 0.0, 0);
    for (a, b) in groups {
        let used: Vec<&Vec<f64>> = [a, b].into_iter().filter(|v| !v.is_empty()).collect();
        if used.len() < sides {
            continue;
        }
        let means: Vec<f64> = used
            .iter()
            .map(|values| mean(values))
            .collect::<Option<_>>()?;
        for (values, mean) in used.iter().zip(&means) {
            within += sum(values.iter().map(|v| (v - mean).powi(2)));
            df += values.len() - 1;
        }
        let weight = 1.0 / used.iter().map(|v| 1.0 / v.len() as f64).sum::<f64>();
        pairs.push((weight, means[0] - means.get(1).unwrap_or(&0.0)));
    }
    let largest = groups.iter().flat_map(|(a, b)| a.iter().chain(b));
    let largest = largest.fold(0.0, |top: f64, v| top.max(v.abs()));
    if pairs.len() < 2 || df == 0 || within.sqrt() <= 1e-12 * largest {
        return None;
    }
    let weights: f64 = pairs.iter().map(|(w, _)| w).sum();
    let centre = pairs.iter().map(|(w, d)| w * d).sum::<f64>() / weights;
    let between = pairs.iter().map(|(w, d)| w * (d - centre).powi(2));
    let between = between.sum::<f64>() / (pairs.len() - 1) as f64;
    let residual = within / df as f64;
    Some(fisher_upper(
        between / residual,
        (pairs.len() - 1) as f64,
        df as f64,
    ))
}

/// Returns the effect whose units are the groups: the mean of each group, or the difference between the means of its two
/// sides. Groups have equal weight regardless of size. Those that lack a side which others have are left out.
///
/// # Errors
/// If there are fewer than five groups, or as [`unit_effect`].
pub fn group_effect(groups: &[Group]) -> Result<UnitEffect, Refusal> {
    let paired = groups.iter().any(|(_, b)| !b.is_empty());
    let effect = |(a, b): &Group| match paired {
        true => Some(mean(a)? - mean(b)?),
        false => mean(a),
    };
    let effects: Vec<f64> = groups.iter().filter_map(effect).collect();
    let (n, least) = (effects.len(), LEAST_CLUSTERS);
    if n < least {
        return Err(Refusal::TooFewClusters { n, least });
    }
    unit_effect(&effects)
}

/// What shows that units resemble each other. Its sentence accompanies what is withheld or judged by fewer units.
#[derive(Clone, Debug, PartialEq)]
pub enum Resemblance {
    /// Units with the same label of an axis, such as a day: the axis, and p of [`group_resemblance`].
    Grouped(String, f64),
    /// Each unit and the one before it: the axis that numbers the units, and p of [`neighbours`].
    InOrder(String, f64),
}

impl Resemblance {
    /// Returns the axis.
    pub fn axis(&self) -> &str {
        match self {
            Self::Grouped(axis, _) | Self::InOrder(axis, _) => axis,
        }
    }

    /// Returns the sentence, with how such units are counted.
    pub fn note(&self) -> String {
        match self {
            Self::Grouped(axis, _) => format!("{self}, so the labels of `{axis}` are the units"),
            Self::InOrder(..) => format!("{self}, so they count as fewer units"),
        }
    }
}

impl fmt::Display for Resemblance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Grouped(axis, p) | Self::InOrder(axis, p)) = self;
        let p = match *p < 0.001 {
            true => "p < 0.001".to_owned(),
            false => format!("p = {}", significant(*p, 3)),
        };
        match self {
            Self::Grouped(..) => {
                write!(f, "units with the same `{axis}` resemble each other ({p})")
            }
            Self::InOrder(..) => write!(f, "each `{axis}` resembles the one before it ({p})"),
        }
    }
}

/// Tests whether each value resembles the one before it, as in a drift or an autoregression: the share of orders in
/// which the sum of squared successive differences is at most the observed one (von Neumann, Ann. Math. Statist. 12,
/// 1941). Orders are drawn, so the p value is (hits + 1) ÷ (resamples + 1). `None` for fewer than three values, or
/// without spread.
pub(crate) fn successive_resemblance(values: &[f64], resamples: usize, seed: u64) -> Option<f64> {
    let squares = |values: &[f64]| sum(values.windows(2).map(|w| (w[1] - w[0]).powi(2)));
    let observed = squares(values);
    if values.len() < 3 || observed == 0.0 {
        return None;
    }
    let bound = observed * (1.0 + 1e-12);
    let hits = random::chunks(resamples, seed, |rng, hits: &mut [bool]| {
        let mut values = values.to_vec();
        for hit in hits {
            for i in (1..values.len()).rev() {
                values.swap(i, random::below(rng, i + 1));
            }
            *hit = squares(&values) <= bound;
        }
    });
    let hits = hits.iter().filter(|hit| **hit).count();
    Some((hits + 1) as f64 / (resamples + 1) as f64)
}

/// Returns the correlation of each value with the one before it, from 0 to 0.9. The estimate of a short series is too
/// low, by about (1 + 3ρ)/n (Kendall, Biometrika 41, 1954), and is corrected for that. 0 for fewer than five values, or
/// without spread.
pub(crate) fn lag_correlation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = sum(values.iter().copied()) / n;
    let squares = sum(values.iter().map(|v| (v - mean).powi(2)));
    if values.len() < 5 || squares == 0.0 {
        return 0.0;
    }
    let products = sum(values.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)));
    ((products / squares + 1.0 / n) / (1.0 - 3.0 / n)).clamp(0.0, 0.9)
}

/// The level at which groups of units count as unlike each other. A missed resemblance does more harm than one that is not
/// there.
pub const GROUPS_LEVEL: f64 = 0.1;

/// The level at which a unit counts as similar to the one before it.
const NEIGHBOURS: f64 = 0.05;

/// The smallest number of units in which such a similarity can be seen. With fewer, the test finds next to nothing.
const LEAST_IN_ORDER: usize = 8;

/// The number of orders drawn.
const ORDERS: usize = 999;

/// The smallest correlation with the unit before that matters.
const LEAST_CORRELATION: f64 = 0.2;

/// Returns that each unit resembles the one before it: the smallest p of any side, and the correlation of each side. A side
/// has its values in order; `None` where its units have no order. `None` if no side shows it.
pub fn neighbours<const N: usize>(sides: [Option<Vec<f64>>; N]) -> Option<(f64, [f64; N])> {
    let present = sides.iter().flatten().filter(|side| !side.is_empty());
    let level = NEIGHBOURS / present.count().max(1) as f64;
    let by_side = sides.map(|side| {
        let values = side.filter(|values| values.len() >= LEAST_IN_ORDER)?;
        let rho = lag_correlation(&values);
        let worth = rho >= LEAST_CORRELATION;
        let p = worth.then(|| successive_resemblance(&values, ORDERS, 0))??;
        Some((p, rho))
    });
    let least = by_side.iter().flatten().map(|(p, _)| *p).reduce(f64::min)?;
    (least <= level).then(|| (least, by_side.map(|side| side.map_or(0.0, |(_, rho)| rho))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Normals;

    #[test]
    fn f_is_that_of_a_one_way_analysis_of_variance() {
        let groups = [
            vec![1.0, 2.0, 3.0],
            vec![2.0, 4.0, 6.0, 5.0],
            vec![9.0, 7.0],
        ];
        let groups = groups.map(|values| (values, Vec::new()));
        let p = group_resemblance(&groups).unwrap();
        // By hand: Σ n (mean − grand mean)² = 43.25, and 12.75 within the groups.
        let f: f64 = (43.25 / 2.0) / (12.75 / 6.0);
        // With two degrees of freedom above, P(F > f) = (1 + 2f/6)^(−3).
        assert!(
            (p / (1.0 + 2.0 * f / 6.0).powi(-3) - 1.0).abs() < 1e-9,
            "{p}"
        );
    }

    #[test]
    fn a_level_that_both_sides_share_does_not_count() {
        let group = |level: f64, difference: f64| {
            let a = [0.0, 1.0].map(|v| level + difference + v).to_vec();
            let b = [0.0, 1.0].map(|v| level + v).to_vec();
            (a, b)
        };
        let alike = group_resemblance(&[group(0.0, 0.0), group(50.0, 0.0), group(90.0, 0.0)]);
        assert!((alike.unwrap() - 1.0).abs() < 1e-9);
        let apart = group_resemblance(&[group(0.0, 0.0), group(0.0, 50.0), group(0.0, -50.0)]);
        assert!(apart.unwrap() < 1e-4);
        assert_eq!(group_resemblance(&[group(0.0, 1.0)]), None);
        assert_eq!(
            group_resemblance(&[(vec![1.0], vec![]), (vec![2.0], vec![])]),
            None
        );
    }

    #[test]
    fn groups_are_the_units_and_few_of_them_are_refused() {
        let effects = [0.021, 0.034, 0.012, 0.028, 0.019];
        let spread = |d: &f64| vec![d - 0.5, d + 0.5];
        let single: Vec<Group> = effects.iter().map(|d| (spread(d), Vec::new())).collect();
        let effect = group_effect(&single).unwrap();
        assert!((effect.mean - 0.0228).abs() < 1e-12 && effect.df == 4.0);
        let few = Refusal::TooFewClusters { n: 4, least: 5 };
        assert_eq!(group_effect(&single[..4]), Err(few));
        // A group that lacks the side which others have says nothing.
        let sides = effects.iter().map(|d| (spread(d), vec![-1.0, 0.0, 1.0]));
        let mut paired: Vec<Group> = sides.collect();
        paired.push((vec![9.0], Vec::new()));
        assert_eq!(group_effect(&paired), Ok(effect));
        paired.pop();
        paired[0].0.clear();
        assert_eq!(group_effect(&paired), Err(few));
    }

    #[test]
    fn a_resemblance_says_what_shows_it_and_how_the_units_count() {
        assert_eq!(
            Resemblance::Grouped("day".to_owned(), 0.012_345).note(),
            "units with the same `day` resemble each other (p = 0.0123), so the labels of `day` are the units"
        );
        assert_eq!(
            Resemblance::InOrder("block".to_owned(), 1e-4).note(),
            "each `block` resembles the one before it (p < 0.001), so they count as fewer units"
        );
    }

    /// The share of simulated series in which a test finds something at 5 %.
    fn share_of_findings(rho: f64, n: usize, test: impl Fn(&[f64]) -> Option<f64>) -> f64 {
        let estimate_of = |study: &u64| {
            let mut normal = Normals::new(11, *study);
            let mut last = normal.draw();
            let series = (0..n).map(|_| {
                let value = last;
                last = rho * last + (1.0 - rho * rho).sqrt() * normal.draw();
                value
            });
            let series: Vec<f64> = series.collect();
            test(&series).is_some_and(|p| p <= 0.05)
        };
        (0..600).filter(estimate_of).count() as f64 / 600.0
    }

    #[test]
    fn both_keep_their_level_and_find_what_they_look_for() {
        let groups = |x: &[f64]| {
            let groups: Vec<Group> = x.chunks(4).map(|g| (g.to_vec(), Vec::new())).collect();
            group_resemblance(&groups)
        };
        let next = |x: &[f64]| successive_resemblance(x, 199, 1);
        for null in [
            share_of_findings(0.0, 12, groups),
            share_of_findings(0.0, 12, next),
        ] {
            assert!((0.02..=0.09).contains(&null), "{null}");
        }
        let strong = [
            share_of_findings(0.8, 20, groups),
            share_of_findings(0.8, 20, next),
        ];
        assert!(strong[1] > 0.85, "{strong:?}");
        assert!(strong[0] > 0.5, "{strong:?}");
        assert_eq!(successive_resemblance(&[1.0, 1.0, 1.0], 99, 1), None);
        assert_eq!(successive_resemblance(&[1.0, 2.0], 99, 1), None);
        assert_eq!(lag_correlation(&[1.0, -1.0, 1.0, -1.0, 1.0]), 0.0);
        // (0 + 0.25 + … of the deviations −2 to 2): products 2 + 0 + 0 + 2 over squares 10, then (0.4 + 0.2)/0.4.
        assert_eq!(lag_correlation(&[1.0, 2.0, 3.0, 4.0, 5.0]), 0.9);
    }
}
