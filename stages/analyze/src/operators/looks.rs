//! How often a study looks at its results, and what that costs its tests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{ANYTIME_SPREAD, Interval, UnitEffect, anytime_level, e_value};

/// How often a study looks at what it found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Looks {
    /// Once, after the last block.
    #[default]
    Once,
    /// After each block, as in a design with `until`. P values and intervals then hold at every
    /// look, and intervals are wider.
    AfterEachBlock,
}

/// The operators that test effects of units.
pub(crate) const TESTING: [&str; 4] = [
    "paired-comparison",
    "unpaired-comparison",
    "crossover",
    "ranking",
];

/// The remedy for a test that does not hold at every look.
pub(crate) const INSTEAD: &str =
    "use `paired-comparison` with its test `paired-t`, or remove `until` from the design";

/// Explains why a test is invalid in a study that looks at its data after each block; `None` if it holds at every look.
/// `operator` and `test` are the names in the table's parameters.
pub(crate) fn refusal(operator: &str, test: &str) -> Option<String> {
    let holds = match operator {
        "paired-comparison" => test == "paired-t",
        operator => operator != "unpaired-comparison",
    };
    (!holds).then(|| {
        format!(
            "the test `{test}` is not valid for a study that looks at its data after each block"
        )
    })
}

impl Looks {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde calls it with a reference"
    )]
    pub(crate) fn is_once(&self) -> bool {
        *self == Self::Once
    }

    /// Returns the level of a plain t test of `n` units that holds at `alpha` over all looks; `None` if this few units
    /// can never decide.
    pub(crate) fn level(self, n: usize, alpha: f64) -> Option<f64> {
        match self {
            Self::Once => Some(alpha),
            Self::AfterEachBlock => anytime_level(n, alpha),
        }
    }

    /// Returns the p value of the hypothesis that the effect is `value`.
    fn p_against(self, effect: &UnitEffect, value: f64) -> f64 {
        (1.0 / e_value(effect, value, ANYTIME_SPREAD)).min(1.0)
    }

    /// Returns the p value of "there is no effect".
    pub(crate) fn p(self, effect: &UnitEffect) -> f64 {
        match self {
            Self::Once => effect.p,
            Self::AfterEachBlock => self.p_against(effect, 0.0),
        }
    }

    /// Returns the p value of "the effect is not within ±margin", and whether it is at most `alpha`.
    pub(crate) fn equivalence(self, effect: &UnitEffect, margin: f64, alpha: f64) -> (f64, bool) {
        match self {
            Self::Once => {
                let test = effect.equivalence((-margin, margin), alpha);
                (test.p, test.equivalent)
            }
            Self::AfterEachBlock if effect.mean.abs() >= margin => (1.0, false),
            Self::AfterEachBlock => {
                let p = [-margin, margin].map(|end| self.p_against(effect, end));
                let p = p[0].max(p[1]);
                (p, p <= alpha)
            }
        }
    }

    /// Returns the bounds of an effect, each of which holds with confidence 1 − `alpha`; `None` if this few units have
    /// none.
    pub(crate) fn bounds(self, effect: &UnitEffect, alpha: f64) -> Option<Interval> {
        Some(match self {
            Self::Once => effect.interval(1.0 - 2.0 * alpha),
            Self::AfterEachBlock => effect.interval(1.0 - anytime_level(effect.n, alpha)?),
        })
    }

    /// Returns the p value of "the effect is at most `value`".
    pub(crate) fn p_above(self, effect: &UnitEffect, value: f64) -> f64 {
        match self {
            Self::Once => effect.p_above(value),
            Self::AfterEachBlock if effect.mean <= value => 1.0,
            Self::AfterEachBlock => self.p_against(effect, value),
        }
    }

    /// Returns the p value of "the effect is at least `value`".
    pub(crate) fn p_below(self, effect: &UnitEffect, value: f64) -> f64 {
        match self {
            Self::Once => effect.p_below(value),
            Self::AfterEachBlock if effect.mean >= value => 1.0,
            Self::AfterEachBlock => self.p_against(effect, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use statistics::unit_effect;

    use super::*;

    #[test]
    fn p_and_interval_hold_at_every_look_and_agree() {
        let effect = unit_effect(&[0.021, 0.034, 0.012, 0.028, 0.019]).unwrap();
        // The e-value of these effects is 29.8827, according to the oracle of `statistics`.
        let p = Looks::AfterEachBlock.p(&effect);
        assert!((p - 1.0 / 29.8827).abs() < 1e-6, "{p}");
        assert!(Looks::Once.p(&effect) < p);
        for alpha in [0.01, 0.03, 0.04, 0.2] {
            let level = Looks::AfterEachBlock.level(5, alpha).unwrap();
            assert_eq!(effect.interval(1.0 - level).excludes(0.0), p <= alpha);
        }
        assert_eq!(Looks::AfterEachBlock.level(2, 0.05), None);
    }

    #[test]
    fn equivalence_is_harder_to_show_with_looks() {
        let effect = unit_effect(&[0.001, -0.002, 0.0015, -0.001, 0.0005]).unwrap();
        let (once, shown) = Looks::Once.equivalence(&effect, 0.01, 0.05);
        let (each, also) = Looks::AfterEachBlock.equivalence(&effect, 0.01, 0.05);
        assert!(once < each && shown && also);
        assert_eq!(
            Looks::AfterEachBlock.equivalence(&effect, 0.0001, 0.05),
            (1.0, false)
        );
    }
}
