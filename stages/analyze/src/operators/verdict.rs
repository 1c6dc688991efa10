//! Verdicts on effects: the single place that assigns them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use contract::Verdict;
use statistics::{HolmDecision, Interval, UnitEffect, smallest_shift_beyond};

use crate::operators::looks::Looks;
use crate::operators::units::{POWER, Scale};

/// The description of columns of verdicts.
pub(crate) const VERDICTS: &str = "different (the adjusted interval excludes no effect, and the estimate exceeds the margin), equivalent (within a declared margin), no evidence (of a difference: no evidence of equality), or undecidable";

/// The smallest detectable effects in standard errors, by degrees of freedom and level. Each is computed once.
static FACTORS: Mutex<BTreeMap<(u64, u64), Option<f64>>> = Mutex::new(BTreeMap::new());

/// Returns the smallest detectable effect in standard errors, which follows from the degrees of freedom, the level, and the
/// margin in standard errors.
fn detectable(df: f64, alpha: f64, margin: f64) -> Option<f64> {
    if margin > 0.0 {
        return smallest_shift_beyond(df, alpha, POWER, margin);
    }
    let mut factors = FACTORS.lock().unwrap_or_else(PoisonError::into_inner);
    *factors
        .entry((df.to_bits(), alpha.to_bits()))
        .or_insert_with(|| smallest_shift_beyond(df, alpha, POWER, 0.0))
}

/// An effect with everything its verdict depends on.
pub(crate) struct Case<'a> {
    /// The effect over units, or the reason why there is none.
    pub(crate) effect: Result<&'a UnitEffect, &'a str>,
    pub(crate) decision: Option<HolmDecision>,
    pub(crate) scale: Scale,
    /// The declared margin: a share, or in the unit of the metric.
    pub(crate) margin: Option<f64>,
    pub(crate) alpha: f64,
    /// The mean effect where the deciding test does not need its spread.
    pub(crate) mean: Option<f64>,
    /// How the conditions of the sides differed, in words; `None` if the sides were measured alike.
    pub(crate) unlike: Option<&'a str>,
    pub(crate) looks: Looks,
    /// The mean of a − b in the unit of the metric, if known.
    pub(crate) delta: Option<f64>,
    /// The smallest p value that this many units can give, if a test of ranks or signs decides.
    pub(crate) least: Option<f64>,
    /// For a test of ranks or signs: above 0 if it finds a higher, and below 0 if it finds b higher.
    pub(crate) leaning: Option<f64>,
    /// For sides with units of their own: the exact test of their labels.
    pub(crate) labels: Option<Labels>,
}

/// The exact test of all assignments of the units' labels to two sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Labels {
    /// The numbers of units.
    pub(crate) units: [usize; 2],
    /// The smallest p value that they can give.
    pub(crate) least: f64,
    /// The p value; `None` with too many assignments to enumerate.
    pub(crate) p: Option<f64>,
    /// The p value of Welch's t over random assignments, if the numbers of units are unlike.
    pub(crate) studentised: Option<f64>,
    /// The same for each end of the margin, if there is one.
    pub(crate) ends: Option<LabelEnds>,
}

/// The one-sided p values of Welch's t over random assignments, after a shift by the margin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LabelEnds {
    /// The p values of "a lies below the lower end" and of "a lies above it".
    pub(crate) low: [f64; 2],
    /// The p values of "a lies above the upper end" and of "a lies below it".
    pub(crate) high: [f64; 2],
}

/// An effect relative to each end of the margin: one-sided findings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ends {
    /// The bounds of the effect, each of level 1 − alpha, on the scale.
    pub(crate) bounds: Interval,
    pub(crate) not_lower: End,
    pub(crate) not_higher: End,
}

/// One end of the margin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct End {
    /// The p value of "a lies beyond it".
    pub(crate) p: f64,
    /// Whether a is shown not to lie beyond it (`true`) or to lie beyond it (`false`); `None` where neither is shown.
    pub(crate) shown: Option<bool>,
}

impl Case<'_> {
    /// Returns the finding at each end of the margin; `None` without a margin, and where the verdict is `undecidable`.
    pub(crate) fn ends(&self) -> Option<Ends> {
        if self.judge().0 == Verdict::Undecidable {
            return None;
        }
        let margin = self.scale.margin(self.margin?);
        let effect = self.effect.ok()?;
        let bounds = self.looks.bounds(effect, self.alpha)?;
        // Where the numbers of units are unlike, exchanging labels must show the same.
        let labels = self.label_ends();
        let shown = |p: f64| p <= self.alpha;
        let either = |not: bool, beyond: bool, [other, own]: [f64; 2]| match (not, beyond) {
            (true, _) if shown(other) => Some(true),
            (_, true) if shown(own) => Some(false),
            _ => None,
        };
        let low = labels.map_or([0.0; 2], |labels| labels.low);
        let high = labels.map_or([0.0; 2], |labels| labels.high);
        Some(Ends {
            bounds,
            not_lower: End {
                p: self.looks.p_above(effect, -margin).max(low[0]),
                shown: either(bounds.low > -margin, bounds.high < -margin, low),
            },
            not_higher: End {
                p: self.looks.p_below(effect, margin).max(high[0]),
                shown: either(bounds.high < margin, bounds.low > margin, high),
            },
        })
    }

    fn label_ends(&self) -> Option<LabelEnds> {
        self.labels?.ends
    }

    /// Returns the p value of equivalence within the margin, and whether equivalence was shown.
    pub(crate) fn equivalence(&self) -> Option<(f64, bool)> {
        let (p, shown) = self.equivalence_by_t()?;
        let labels = self.label_ends();
        let of_labels = labels.map_or(0.0, |labels| labels.low[0].max(labels.high[0]));
        Some((p.max(of_labels), shown && of_labels <= self.alpha))
    }

    /// As [`Case::equivalence`], by the t test alone.
    fn equivalence_by_t(&self) -> Option<(f64, bool)> {
        let margin = self.scale.margin(self.margin?);
        let effect = self.effect.ok()?;
        Some(self.looks.equivalence(effect, margin, self.alpha))
    }

    /// Returns the smallest effect that the same number of units would call `different` by a t test, at the level of this
    /// test's step and beyond the margin.
    pub(crate) fn smallest_detectable(&self) -> Option<f64> {
        if self.least.is_some() {
            return None;
        }
        let alpha = self.decision.map_or(self.alpha, |d| d.alpha);
        let effect = self.effect.ok()?;
        let alpha = self.looks.level(effect.n, alpha)?;
        let margin = self.margin.map_or(0.0, |margin| self.scale.margin(margin));
        let margin = margin / effect.error;
        let size = self
            .scale
            .size(detectable(effect.df, alpha, margin)? * effect.error);
        Some(size).filter(|size| size.is_finite())
    }

    /// Returns the verdict, with a reason where it needs one.
    pub(crate) fn judge(&self) -> (Verdict, Option<String>) {
        let Some((decision, mean)) = self.decision.zip(self.mean) else {
            let reason = self.effect.err().unwrap_or("the test is undefined");
            return (Verdict::Undecidable, Some(reason.to_owned()));
        };
        if let Some(reason) = self.unlike {
            return (Verdict::Undecidable, Some(reason.to_owned()));
        }
        let margin = self.margin.map_or(0.0, |margin| self.scale.margin(margin));
        if decision.rejected && mean.abs() > margin {
            let refused = self
                .unlike_numbers()
                .or_else(|| self.leans_the_other_way(mean));
            if let Some(reason) = refused {
                return (Verdict::Undecidable, Some(reason));
            }
            let reasons = [self.opposed(mean), self.caution()];
            let reasons: Vec<String> = reasons.into_iter().flatten().collect();
            return (
                Verdict::Different,
                Some(reasons.join("; ")).filter(|r| !r.is_empty()),
            );
        }
        if let Some(least) = self.least.filter(|least| *least > decision.alpha) {
            let (least, level) = (
                super::units::short(least),
                super::units::short(decision.alpha),
            );
            let reason = format!(
                "the smallest p of so few units is {least}, above the level of this test, {level}: it could not find anything"
            );
            return (Verdict::Undecidable, Some(reason));
        }
        if let Some((p, shown)) = self.equivalence() {
            if shown {
                return (Verdict::Equivalent, None);
            }
            if self.equivalence_by_t().is_some_and(|(_, shown)| shown) {
                let reason = self.unlike_numbers_at(p);
                return (Verdict::Undecidable, reason);
            }
        }
        let reason = if decision.rejected {
            "the effect is not 0, and not above the margin either".to_owned()
        } else {
            match self.smallest_detectable() {
                Some(size) => format!("smallest detectable effect {}", self.scale.show(size)),
                None => "no difference was shown".to_owned(),
            }
        };
        (Verdict::NoEvidence, Some(reason))
    }

    /// Warns that ratios and sums point in opposite directions: one side is better at most coordinates, and the other
    /// is better by more where values are large.
    fn opposed(&self, mean: f64) -> Option<String> {
        let delta = self.delta?;
        (mean * delta < 0.0).then(|| {
            "the means point the other way: the effect weighs every coordinate alike, and the means weigh large values \
             more"
                .to_owned()
        })
    }

    /// Explains why a test of ranks or signs names no side: it finds that one side is mostly higher, and the mean effect says the
    /// other, because of a few units.
    fn leans_the_other_way(&self, mean: f64) -> Option<String> {
        (self.leaning? * mean < 0.0).then(|| {
            "the test finds one side higher in most units, and the mean effect points the other way because of a few: \
             look at those units, or compare a median"
                .to_owned()
        })
    }

    /// Explains why Welch's t does not decide between sides with unlike numbers of units: the mean of a few skewed launches
    /// lies below that of many more often than above it. With equal numbers, the skew of the sides cancels.
    fn unlike_numbers(&self) -> Option<String> {
        let p = self.labels?.studentised.filter(|p| *p > self.alpha)?;
        self.unlike_numbers_at(p)
    }

    fn unlike_numbers_at(&self, p: f64) -> Option<String> {
        let [a, b] = self.labels?.units;
        let p = super::units::short(p);
        Some(format!(
            "with {a} against {b} units, a t test finds too much if launches are skewed, and the permutation p is {p}: \
             measure similar numbers of units"
        ))
    }

    /// A caution for readers of the verdict `different`.
    fn caution(&self) -> Option<String> {
        let effect = self.effect.ok()?;
        if self.looks == Looks::AfterEachBlock {
            return Some("assumes normality, and holds at every look".to_owned());
        }
        let n = effect.n;
        let (units, least, exact, test) = match self.labels {
            None => (
                format!("{n} units"),
                0.5_f64.powi(i32::try_from(n).ok()? - 1),
                effect.sign_flip_p,
                "sign-flip",
            ),
            Some(Labels {
                units: [a, b],
                least,
                p,
                ..
            }) => (format!("{a} against {b} units"), least, p, "permutation"),
        };
        if least > self.alpha {
            let least = statistics::significant_without_zeros(least, 3);
            return Some(format!(
                "assumes normality: the exact {test} p of {units} is never below {least}"
            ));
        }
        let exact = exact.filter(|p| *p > self.alpha)?;
        Some(format!(
            "the exact {test} p is {}",
            super::units::short(exact)
        ))
    }
}

#[cfg(test)]
mod tests {
    use statistics::{SharedTest, shared_decisions, unit_effect};

    use super::*;

    /// Returns a case of ratios at 0.05, without a margin, whose sides were measured alike.
    fn plain<'a>(
        effect: Result<&'a UnitEffect, &'a str>,
        decision: Option<HolmDecision>,
    ) -> Case<'a> {
        Case {
            effect,
            decision,
            scale: Scale::Ratio,
            margin: None,
            alpha: 0.05,
            mean: effect.ok().map(|e| e.mean),
            unlike: None,
            looks: Looks::Once,
            delta: None,
            least: None,
            leaning: None,
            labels: None,
        }
    }

    /// Returns the decision on a test that shares its table with others.
    fn decided(p: f64, others: &[f64], alpha: f64) -> HolmDecision {
        let test = |p: &f64| SharedTest {
            p: *p,
            alpha,
            table: 0,
            part_of: None,
            makes_up: false,
        };
        let tests: Vec<SharedTest> = [p].iter().chain(others).map(test).collect();
        shared_decisions(&tests, 0).0[0]
    }

    fn judged(effects: &[f64], margin: Option<f64>, family: &[f64]) -> (Verdict, String) {
        let effect = unit_effect(effects);
        let refusal = effect.as_ref().err().map(ToString::to_string);
        let p = effect.as_ref().ok().map(|e| e.p);
        let decision = p.map(|p| decided(p, family, 0.05));
        let effect = effect.as_ref().map_err(|_| refusal.as_deref().unwrap());
        let case = Case {
            margin,
            ..plain(effect, decision)
        };
        let (verdict, reason) = case.judge();
        (verdict, reason.unwrap_or_default())
    }

    const FIVE: [f64; 5] = [0.021, 0.034, 0.012, 0.028, 0.019];

    #[test]
    fn the_word_follows_from_interval_margin_and_family() {
        let normality = "assumes normality: the exact sign-flip p of 5 units is never below 0.0625";
        assert_eq!(
            judged(&FIVE, None, &[]),
            (Verdict::Different, normality.to_owned())
        );
        // p = 0.0038 survives in a family of 13 but not in one of 14.
        assert_eq!(judged(&FIVE, None, &[0.9; 12]).0, Verdict::Different);
        let (verdict, reason) = judged(&FIVE, None, &[0.9; 13]);
        assert_eq!(verdict, Verdict::NoEvidence);
        assert!(
            reason.starts_with("smallest detectable effect "),
            "{reason}"
        );
        // 2.3 % is below a margin of 3 %, and its interval of level 0.9 reaches 3.1 %.
        let (verdict, reason) = judged(&FIVE, Some(0.03), &[]);
        assert_eq!(verdict, Verdict::NoEvidence);
        assert_eq!(
            reason,
            "the effect is not 0, and not above the margin either"
        );
        assert_eq!(judged(&FIVE, Some(0.05), &[]).0, Verdict::Equivalent);
    }

    #[test]
    fn the_least_p_of_many_units_is_not_rounded_to_zero() {
        let effects: Vec<f64> = (0..20).map(|i| 1.0 + 0.001 * f64::from(i)).collect();
        let effect = unit_effect(&effects).unwrap();
        let case = Case {
            alpha: 1e-6,
            ..plain(Ok(&effect), Some(decided(effect.p, &[], 1e-6)))
        };
        let normality =
            "assumes normality: the exact sign-flip p of 20 units is never below 1.91e-6";
        assert_eq!(
            case.judge(),
            (Verdict::Different, Some(normality.to_owned()))
        );
    }

    #[test]
    fn what_has_no_spread_or_too_few_units_is_undecidable() {
        assert_eq!(
            judged(&[0.1, 0.2], None, &[]),
            (
                Verdict::Undecidable,
                "2 units, and at least 3 are needed".to_owned()
            )
        );
        assert_eq!(judged(&[0.0; 5], None, &[]).0, Verdict::Undecidable);
    }

    #[test]
    fn each_end_of_the_margin_is_a_one_sided_t_test() {
        // scipy.stats.ttest_1samp(x, ∓ln(1.03), alternative="greater" and "less"), 1.17.1; bounds:
        // scipy.stats.t.interval(0.9, 4, mean, sem).
        let ends = |margin: f64, sign: f64| {
            let effect = unit_effect(&FIVE.map(|x| sign * x)).unwrap();
            let case = Case {
                margin: Some(margin),
                ..plain(Ok(&effect), Some(decided(effect.p, &[], 0.05)))
            };
            case.ends().unwrap()
        };
        let near = |ours: f64, oracle: f64| {
            assert!((ours / oracle - 1.0).abs() < 1e-9, "{ours} {oracle}");
        };
        let tests = ends(0.03, 1.0);
        near(tests.not_lower.p, 7.929_864_422_934_1e-5);
        near(tests.not_higher.p, 0.074_422_722_237_066);
        near(tests.bounds.low, 0.014_727_081_560_543);
        near(tests.bounds.high, 0.030_872_918_439_457);
        // The bound reaches 3.1 %, so a margin of 3 % is undecided, 4 % is shown, and 1 % is exceeded.
        let shown = |ends: Ends| (ends.not_lower.shown, ends.not_higher.shown);
        assert_eq!(shown(tests), (Some(true), None));
        assert_eq!(shown(ends(0.04, 1.0)), (Some(true), Some(true)));
        assert_eq!(shown(ends(0.01, 1.0)), (Some(true), Some(false)));
        // The other side, mirrored.
        let mirrored = ends(0.03, -1.0);
        assert_eq!(shown(mirrored), (None, Some(true)));
        near(mirrored.not_lower.p, tests.not_higher.p);
        // Both ends together imply equivalence.
        let margin = 0.04_f64.ln_1p();
        let both = unit_effect(&FIVE)
            .unwrap()
            .equivalence((-margin, margin), 0.05);
        assert!(both.equivalent);
    }

    #[test]
    fn looking_after_each_block_moves_the_bounds_of_the_margin_outwards() {
        let effect = unit_effect(&FIVE).unwrap();
        let once = Looks::Once.bounds(&effect, 0.05).unwrap();
        let each = Looks::AfterEachBlock.bounds(&effect, 0.05).unwrap();
        assert!(each.low < once.low && once.high < each.high);
        let near = [
            each.low - 1e-6,
            each.low + 1e-6,
            each.high - 1e-6,
            each.high + 1e-6,
        ];
        for value in near.into_iter().chain([0.0]) {
            let above = Looks::AfterEachBlock.p_above(&effect, value);
            let below = Looks::AfterEachBlock.p_below(&effect, value);
            assert_eq!(above <= 0.05, each.low > value, "{value}");
            assert_eq!(below <= 0.05, each.high < value, "{value}");
        }
    }
}
