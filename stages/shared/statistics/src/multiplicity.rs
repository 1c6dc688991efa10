//! Adjustment of the p values of a family of tests.

/// Returns Holm's step-down adjusted p values (Scand. J. Statist. 6, 1979), in input order: the
/// running maximum of (m − i)·p₍ᵢ₊₁₎, capped at 1.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut running = 0.0_f64;
    adjust(p, ascending(p), |i, p_i, m| {
        running = running.max(((m - i) as f64 * p_i).min(1.0));
        running
    })
}

/// Returns Benjamini and Hochberg's adjusted p values (JRSS B 57, 1995), in input order: the
/// running minimum from the largest of m·p₍ᵢ₎/i, capped at 1.
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let mut running = 1.0_f64;
    let mut order = ascending(p);
    order.reverse();
    adjust(p, order, |i, p_i, m| {
        // `i` counts from the largest; its rank from the smallest is m − i. The factor comes first:
        // it is at least 1, so rounding cannot take the adjusted value below the raw one.
        running = running.min(p_i * (m as f64 / (m - i) as f64));
        running
    })
}

/// The decision of Holm's procedure about one test of a family.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HolmDecision {
    /// The adjusted p value.
    pub adjusted_p: f64,
    /// Whether the hypothesis is rejected: adjusted p at most alpha.
    pub rejected: bool,
    /// The two-sided level at which this test was decided: α/(m − j + 1) at step j, and α/(m − k)
    /// for all remaining tests after k rejections. The interval of level 1 − alpha excludes the
    /// null value exactly if the hypothesis is rejected. The smallest detectable effect is the one
    /// at this alpha.
    pub alpha: f64,
    /// The number of tests in the family.
    pub family: usize,
}

/// Returns Holm's decisions (Scand. J. Statist. 6, 1979) at the family level `alpha`, in input
/// order, with the level of each decision. `None` is a test that was not possible; it is outside
/// the family.
///
/// The levels give intervals that agree with the decisions. They do not make the intervals of
/// rejected hypotheses hold jointly at `alpha` (Strassburger & Bretz, Statist. Med. 27, 2008). If
/// you need that, use level 1 − alpha/m for all (Bonferroni).
///
/// # Panics
/// If `alpha` is not strictly between 0 and 1.
pub fn holm_decisions(p: &[Option<f64>], alpha: f64) -> Vec<Option<HolmDecision>> {
    assert!(
        alpha > 0.0 && alpha < 1.0,
        "a level lies between 0 and 1, got {alpha}"
    );
    let made: Vec<f64> = p.iter().copied().flatten().collect();
    let (family, order) = (made.len(), ascending(&made));
    let adjusted = holm(&made);
    let mut decisions = vec![None; family];
    let mut left = family;
    for at in order {
        let level = alpha / left as f64;
        let rejected = left > 0 && adjusted[at] <= alpha && made[at] <= level;
        decisions[at] = Some(HolmDecision {
            adjusted_p: adjusted[at],
            rejected,
            alpha: level,
            family,
        });
        // Tests after the first unrejected one share its level.
        left -= usize::from(rejected);
    }
    let mut decisions = decisions.into_iter();
    let in_place = |p: &Option<f64>| p.and_then(|_| decisions.next().flatten());
    p.iter().map(in_place).collect()
}

fn ascending(p: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    order
}

fn adjust(
    p: &[f64],
    order: Vec<usize>,
    mut step: impl FnMut(usize, f64, usize) -> f64,
) -> Vec<f64> {
    let mut adjusted = vec![0.0; p.len()];
    for (i, at) in order.into_iter().enumerate() {
        adjusted[at] = step(i, p[at], p.len());
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_level_of_each_decision_is_that_of_its_step() {
        let p = [Some(0.01), None, Some(0.04), Some(0.03), Some(0.005)];
        let decisions = holm_decisions(&p, 0.05);
        let read = |i: usize| decisions[i].map(|d| (d.adjusted_p, d.rejected, d.alpha, d.family));
        // 0.005 ≤ 0.05/4 and 0.01 ≤ 0.05/3 are rejected; 0.03 > 0.05/2 and the tests after it are
        // not.
        assert_eq!(read(4), Some((0.02, true, 0.05 / 4.0, 4)));
        assert_eq!(read(0), Some((0.03, true, 0.05 / 3.0, 4)));
        assert_eq!(read(3), Some((0.06, false, 0.025, 4)));
        assert_eq!(read(2), Some((0.06, false, 0.025, 4)));
        assert_eq!(decisions[1], None);
        assert_eq!(holm_decisions(&[None, None], 0.05), [None, None]);
    }

    proptest! {
        #[test]
        fn a_hypothesis_is_rejected_exactly_where_its_own_interval_excludes(
            p in prop::collection::vec(prop_oneof![0.0..0.02_f64, 0.0..=1.0_f64], 1..20),
        ) {
            let given: Vec<Option<f64>> = p.iter().copied().map(Some).collect();
            for (p, decision) in p.iter().zip(holm_decisions(&given, 0.05)) {
                let decision = decision.unwrap();
                prop_assert_eq!(decision.rejected, *p <= decision.alpha);
                prop_assert!(decision.rejected == (decision.adjusted_p <= 0.05) || (decision.adjusted_p - 0.05).abs() < 1e-12);
            }
        }

        #[test]
        fn adjusted_p_values_keep_the_order_and_never_fall(p in prop::collection::vec(0.0..=1.0_f64, 0..20)) {
            for adjusted in [holm(&p), benjamini_hochberg(&p)] {
                for i in 0..p.len() {
                    prop_assert!(adjusted[i] >= p[i] && adjusted[i] <= 1.0);
                    for j in 0..p.len() {
                        prop_assert!(p[i] > p[j] || adjusted[i] <= adjusted[j]);
                    }
                }
            }
        }

        #[test]
        fn holm_is_never_more_liberal_than_benjamini_hochberg(p in prop::collection::vec(0.0..=1.0_f64, 1..20)) {
            for (h, b) in holm(&p).into_iter().zip(benjamini_hochberg(&p)) {
                prop_assert!(h >= b - 1e-15);
            }
        }
    }
}
