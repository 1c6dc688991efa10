//! Effects of units of replication, the only source of verdicts.
//!
//! A unit is something that was started independently and could have come out otherwise: a block with one launch of
//! each side. It contributes one number, a log ratio or a difference. Requests and cells within it are averaged first.
//! Interval, p and equivalence come from the same t, so they cannot disagree.

use crate::bootstrap::Interval;
use crate::distribution::{student_critical, student_upper};
use crate::permutation::{MOST_SIGN_FLIPS, sign_flip_test};
use crate::power;
use crate::refusal::{Refusal, all_finite};
use crate::sample::Sample;

/// The smallest number of units for an interval. With two, the t interval extends 12.7 standard errors either way and
/// is useless.
pub const LEAST_UNITS: usize = 3;

/// The smallest number of clusters for an interval over their means. It is the first at which an effect of two standard
/// deviations of the clusters is found with chance 80 % (2.1 with four, 3.3 with three). The interval itself is valid
/// with fewer: see docs/operating-characteristics.md for the simulation.
pub const LEAST_CLUSTERS: usize = 5;

/// A standard deviation below this share of the largest effect is rounding.
const ROUNDING: f64 = 1e-9;

/// The sizes within which the fourth power of a standard error is a double: Satterthwaite's degrees of freedom need it.
const RANGE: std::ops::RangeInclusive<f64> = 1e-60..=1e60;

/// The mean effect of independent units, with everything that intervals, tests and bounds need.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnitEffect {
    /// The number of units.
    pub n: usize,
    /// The mean effect, in the unit of the effects.
    pub mean: f64,
    /// The standard deviation of the effects, divisor n − 1; above 0.
    pub sd: f64,
    /// The standard error of the mean.
    pub error: f64,
    /// The degrees of freedom: n − 1, Satterthwaite's for an indirect effect.
    pub df: f64,
    /// mean ÷ error.
    pub t: f64,
    /// The two-sided p value of "the mean is 0", from Student's t.
    pub p: f64,
    /// The two-sided p value from all sign flips, up to 20 units. It is exact under a randomised design for any
    /// distribution, and never below 2^(1 − n).
    pub sign_flip_p: Option<f64>,
}

/// Returns the mean effect of units, or the reason why it cannot be judged.
///
/// # Errors
/// If there are fewer than three units, a value is not finite, the largest is too large or too small to compute with, or all
/// units show the same effect. A spread of 0 would give p = 0.
pub fn unit_effect(effects: &[f64]) -> Result<UnitEffect, Refusal> {
    unit_effect_rounded(effects, 0.0)
}

/// Returns the mean effect of units whose values were rounded. Rounding by itself makes the effects vary by `rounding`
/// (a standard deviation, [`crate::rounding_of_ratios`]). Its variance is added to the observed one, which rounding may
/// have hidden. Without it, whole numbers near 100 that vary by 1 % make 24 % of null studies of ten metrics in three
/// blocks falsely *different*. The price is a wider interval if rounding is as coarse as the spread.
///
/// # Errors
/// As [`unit_effect`].
pub fn unit_effect_rounded(effects: &[f64], rounding: f64) -> Result<UnitEffect, Refusal> {
    all_finite(effects)?;
    let n = effects.len();
    if n < LEAST_UNITS {
        let least = LEAST_UNITS;
        return Err(Refusal::TooFewUnits { n, least });
    }
    let sample = Sample::new(effects.iter().copied()).map_err(|_| Refusal::NoSpread { n })?;
    let largest = sample.min().abs().max(sample.max().abs());
    if largest > 0.0 && !RANGE.contains(&largest) {
        let at = effects.iter().position(|effect| effect.abs() == largest);
        let at = at.unwrap_or_default();
        return Err(Refusal::OutOfRange { at });
    }
    let sd = sample.std().ok_or(Refusal::NoSpread { n })?;
    if sd <= ROUNDING * largest {
        return Err(Refusal::NoSpread { n });
    }
    let sd = if rounding > 0.0 {
        sd.hypot(rounding)
    } else {
        sd
    };
    let error = sd / (n as f64).sqrt();
    let mut effect = UnitEffect::new((n, (n - 1) as f64), sample.mean(), sd, error);
    if n <= MOST_SIGN_FLIPS {
        effect.sign_flip_p = sign_flip_test(effects, 0, 0).map(|test| test.p);
    }
    Ok(effect)
}

/// Returns the log ratios ln(a ÷ b) of units (a, b). 0 means no difference, and the interval of a ratio stays above 0.
///
/// # Errors
/// If a value is not finite or not positive.
pub fn log_ratios(units: &[(f64, f64)]) -> Result<Vec<f64>, Refusal> {
    let ratio = |(at, (a, b)): (usize, &(f64, f64))| {
        if !(a.is_finite() && b.is_finite()) {
            Err(Refusal::NotFinite { at })
        } else if *a <= 0.0 || *b <= 0.0 {
            Err(Refusal::NotPositive { at })
        } else {
            Ok(a.ln() - b.ln())
        }
    };
    units.iter().enumerate().map(ratio).collect()
}

/// Returns the effect of a over b when each was compared with the same anchor in *different* units: a's effect minus
/// b's, with the variances added and degrees of freedom after Satterthwaite (Biometrics Bulletin 2, 1946). If both were
/// compared with the anchor in the same blocks, take their difference within each block instead: it is direct and
/// narrower.
pub fn indirect_effect(a: &UnitEffect, b: &UnitEffect) -> UnitEffect {
    let (u, v) = (a.error * a.error, b.error * b.error);
    let df = (u + v).powi(2) / (u * u / a.df + v * v / b.df);
    let n = a.n.min(b.n);
    let sd = (a.sd * a.sd + b.sd * b.sd).sqrt();
    UnitEffect::new((n, df), a.mean - b.mean, sd, (u + v).sqrt())
}

impl UnitEffect {
    fn new((n, df): (usize, f64), mean: f64, sd: f64, error: f64) -> Self {
        let t = mean / error;
        Self {
            n,
            mean,
            sd,
            error,
            df,
            t,
            p: (2.0 * student_upper(t.abs(), df)).min(1.0),
            sign_flip_p: None,
        }
    }

    /// Returns the effect moved by an amount, with the same error. Its sign flips are unknown.
    #[must_use]
    pub fn shifted(&self, by: f64) -> Self {
        Self::new((self.n, self.df), self.mean + by, self.sd, self.error)
    }

    /// Returns the effect of units each of which resembles the one before it, with a correlation ρ from 0 to below one.
    /// As in a first-order autoregression, n such units count as n(1 − ρ)/(1 + ρ) independent ones (Bayley & Hammersley,
    /// J. R. Statist. Soc. Suppl. 8, 1946). At least one degree of freedom remains.
    #[must_use]
    pub fn dependent(&self, rho: f64) -> Self {
        let share = (1.0 - rho) / (1.0 + rho);
        let df = (self.n as f64 * share - 1.0).clamp(1.0, self.df);
        let error = self.error / share.sqrt();
        Self::new((self.n, df), self.mean, self.sd, error)
    }

    /// Returns the effect with a standard error that is larger by a factor.
    #[must_use]
    pub fn widened(&self, factor: f64) -> Self {
        Self::new((self.n, self.df), self.mean, self.sd, self.error * factor)
    }

    /// Returns mean ± t·error. It excludes 0 exactly if p < 1 − level.
    ///
    /// # Panics
    /// If `level` is not strictly between 0 and 1.
    pub fn interval(&self, level: f64) -> Interval {
        assert!(
            level > 0.0 && level < 1.0,
            "a confidence level lies between 0 and 1, got {level}"
        );
        let half = student_critical((1.0 - level) / 2.0, self.df) * self.error;
        Interval {
            low: self.mean - half,
            high: self.mean + half,
        }
    }

    /// Returns the one-sided p value of "the mean is at most `value`".
    pub fn p_above(&self, value: f64) -> f64 {
        student_upper((self.mean - value) / self.error, self.df)
    }

    /// Returns the one-sided p value of "the mean is at least `value`".
    pub fn p_below(&self, value: f64) -> f64 {
        student_upper((value - self.mean) / self.error, self.df)
    }

    /// Tests whether the mean lies strictly between two margins: two one-sided t tests, each at `alpha`, which is
    /// equivalent to the interval of level 1 − 2·alpha (Schuirmann, J. Pharmacokinet. Biopharm. 15, 1987). For a margin
    /// of a ratio, use ±ln(1 + margin).
    ///
    /// # Panics
    /// If the lower margin is not below the upper, or `alpha` is not between 0 and ½.
    pub fn equivalence(&self, (low, high): (f64, f64), alpha: f64) -> Equivalence {
        assert!(low < high, "margins ascend, got {low} and {high}");
        let interval = self.interval(1.0 - 2.0 * alpha);
        Equivalence {
            interval,
            p: self.p_above(low).max(self.p_below(high)),
            equivalent: interval.low > low && interval.high < high,
        }
    }

    /// Returns the smallest true mean that as many units with this spread detect with chance `power` at level `alpha`,
    /// in the unit of the effects. It uses this standard error and these degrees of freedom.
    ///
    /// # Panics
    /// As [`crate::smallest_detectable`].
    pub fn smallest_detectable(&self, alpha: f64, power: f64) -> f64 {
        let factor = power::smallest_detectable_shift(self.df, alpha, power);
        factor.map_or(f64::INFINITY, |factor| factor * self.error)
    }

    /// Returns the effect in the opposite direction: of b over a instead of a over b.
    #[must_use]
    pub fn negated(&self) -> Self {
        Self {
            mean: -self.mean,
            t: -self.t,
            ..*self
        }
    }

    /// Returns the verdict of a regression gate on a worsening: an effect above 0 is worse.
    ///
    /// # Panics
    /// If the gate's alpha is not between 0 and ½.
    pub fn regression(&self, gate: &RegressionGate) -> Regression {
        let worsening = self.interval(1.0 - 2.0 * gate.alpha);
        let outcome = if worsening.low > gate.fails_above {
            GateOutcome::Fail
        } else if worsening.high < gate.allowed {
            GateOutcome::Pass
        } else {
            GateOutcome::NotJudged
        };
        Regression {
            worsening,
            p_worse: self.p_above(gate.fails_above),
            p_fine: self.p_below(gate.allowed),
            outcome,
        }
    }
}

/// Returns a relative margin on the scale of log ratios: ln(1 + margin).
pub fn log_margin(margin: f64) -> f64 {
    margin.ln_1p()
}

/// Whether an effect lies within margins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Equivalence {
    /// The interval of level 1 − 2·alpha that decides.
    pub interval: Interval,
    /// The larger of the two one-sided p values.
    pub p: f64,
    /// Whether the interval lies strictly within the margins.
    pub equivalent: bool,
}

/// A one-sided gate against regressions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegressionGate {
    /// The gate passes if the upper bound of the worsening is below this, in the unit of the effects; 0 or more.
    pub allowed: f64,
    /// The gate fails if the lower bound of the worsening is above this: 0 for any worsening, `allowed` for a relevant
    /// one.
    pub fails_above: f64,
    /// The one-sided level of both bounds.
    pub alpha: f64,
}

/// The possible outcomes of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateOutcome {
    /// The worsening is below what is allowed.
    Pass,
    /// There is a worsening.
    Fail,
    /// The units do not decide.
    NotJudged,
}

/// The verdict of a regression gate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Regression {
    /// The one-sided lower and upper bounds of the worsening, each of level 1 − alpha.
    pub worsening: Interval,
    /// The p value of "the worsening is at most `fails_above`".
    pub p_worse: f64,
    /// The p value of "the worsening is at least `allowed`".
    pub p_fine: f64,
    /// The outcome according to the bounds.
    pub outcome: GateOutcome,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BLOCKS: [f64; 5] = [0.021, 0.034, 0.012, 0.028, 0.019];

    #[test]
    fn five_blocks_give_the_published_numbers() {
        let effect = unit_effect(&BLOCKS).unwrap();
        let near = |ours: f64, published: f64, digits: f64| {
            assert!((ours - published).abs() < digits, "{ours} {published}");
        };
        near(effect.mean, 0.0228, 1e-15);
        near(effect.sd, 0.008_467_6, 5e-8);
        near(effect.t, 6.020_88, 5e-6);
        near(effect.p, 0.003_833_4, 5e-8);
        let (wide, narrow) = (effect.interval(0.95), effect.interval(0.90));
        near(wide.low, 0.012_286, 5e-7);
        near(wide.high, 0.033_314, 5e-7);
        near(narrow.low, 0.014_727, 5e-7);
        near(narrow.high, 0.030_873, 5e-7);
        assert_eq!(effect.sign_flip_p, Some(0.0625));
        assert_eq!(effect.df, 4.0);
    }

    #[test]
    fn what_cannot_be_judged_is_refused_and_never_has_p_zero() {
        assert_eq!(
            unit_effect(&[0.1, 0.2]),
            Err(Refusal::TooFewUnits { n: 2, least: 3 })
        );
        assert_eq!(unit_effect(&[0.1; 5]), Err(Refusal::NoSpread { n: 5 }));
        assert_eq!(unit_effect(&[0.0; 5]), Err(Refusal::NoSpread { n: 5 }));
        assert_eq!(
            unit_effect(&[1.0, 2.0, -1e300]),
            Err(Refusal::OutOfRange { at: 2 })
        );
        assert_eq!(
            unit_effect(&[1e-300, 2e-300, 0.0]),
            Err(Refusal::OutOfRange { at: 1 })
        );
        assert_eq!(
            unit_effect(&[0.1, f64::NAN, 0.2]),
            Err(Refusal::NotFinite { at: 1 })
        );
        // The same ratio at three sizes: their logarithms differ in the last bit.
        let ratios = log_ratios(&[(1.1, 1.0), (1.1e9, 1.0e9), (3.3e-4, 3.0e-4)]).unwrap();
        assert_eq!(unit_effect(&ratios), Err(Refusal::NoSpread { n: 3 }));
        assert_eq!(
            log_ratios(&[(1.0, 2.0), (0.0, 1.0)]),
            Err(Refusal::NotPositive { at: 1 })
        );
    }

    #[test]
    fn a_spread_below_the_rounding_of_the_values_is_not_believed() {
        let units = [(101.0, 100.0), (102.0, 101.0), (100.0, 99.0)];
        let effects = log_ratios(&units).unwrap();
        let believed = unit_effect(&effects).unwrap();
        assert!(believed.p < 1e-4);
        let rounded = unit_effect_rounded(&effects, crate::rounding_of_ratios(&units)).unwrap();
        assert!(rounded.p > 0.05);
        let fine = unit_effect_rounded(&BLOCKS, 1e-4).unwrap();
        assert!((fine.p / unit_effect(&BLOCKS).unwrap().p - 1.0).abs() < 1e-3);
    }

    #[test]
    fn an_effect_through_an_anchor_adds_the_variances() {
        let direct = unit_effect(&BLOCKS).unwrap();
        let indirect = indirect_effect(&direct, &direct);
        assert!((indirect.mean, indirect.df) == (0.0, 8.0));
        assert!((indirect.error / direct.error - 2.0_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn what_can_just_be_detected_lies_outside_the_interval() {
        for n in 3..=5 {
            let effect = unit_effect(&BLOCKS[..n]).unwrap();
            let half = effect.interval(0.95).high - effect.mean;
            assert!(effect.smallest_detectable(0.05, 0.8) > half);
        }
    }

    #[test]
    fn a_regression_gate_has_three_outcomes() {
        let gate = RegressionGate {
            allowed: 0.02,
            fails_above: 0.0,
            alpha: 0.05,
        };
        let slower = unit_effect(&BLOCKS).unwrap();
        assert_eq!(slower.regression(&gate).outcome, GateOutcome::Fail);
        let faster = slower.negated();
        assert_eq!(faster.regression(&gate).outcome, GateOutcome::Pass);
        assert_eq!((faster.p, faster.t), (slower.p, -slower.t));
        let matters = RegressionGate {
            fails_above: 0.02,
            ..gate
        };
        let verdict = slower.regression(&matters);
        assert_eq!(verdict.outcome, GateOutcome::NotJudged);
        // The bounds are the ends of the interval of level 1 − 2·alpha.
        assert_eq!(verdict.worsening, slower.interval(0.9));
    }

    proptest! {
        #[test]
        fn interval_and_p_agree_and_swapping_the_sides_negates(
            units in prop::collection::vec((0.5..2.0_f64, 0.5..2.0_f64), 3..12), alpha in 0.001..0.3_f64,
        ) {
            let there = unit_effect(&log_ratios(&units).unwrap()).unwrap();
            let swapped: Vec<(f64, f64)> = units.iter().map(|(a, b)| (*b, *a)).collect();
            let back = unit_effect(&log_ratios(&swapped).unwrap()).unwrap();
            prop_assert_eq!((there.mean, there.p, there.sign_flip_p), (-back.mean, back.p, back.sign_flip_p));
            if (there.p - alpha).abs() > 1e-9 {
                prop_assert_eq!(there.interval(1.0 - alpha).excludes(0.0), there.p < alpha);
            }
            let same = there.equivalence((-0.1, 0.1), alpha / 2.0);
            prop_assert!(same.equivalent == (same.p < alpha / 2.0) || (same.p - alpha / 2.0).abs() < 1e-9);
        }
    }
}
