//! The scales on which effects and means are computed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The scale of effects and of means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Scale {
    /// a ÷ b, averaged as logarithms: an interval never reaches 0. Values must be above 0.
    #[default]
    Ratio,
    /// a − b, in the unit of the metric.
    Difference,
}

impl Scale {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ratio => "ratio",
            Self::Difference => "difference",
        }
    }

    /// Returns a value on the scale on which effects are averaged; `None` where the value has no place on it.
    pub(crate) fn inward(self, value: f64) -> Option<f64> {
        match self {
            Self::Ratio => (value > 0.0).then(|| value.ln()),
            Self::Difference => Some(value),
        }
    }

    /// Converts an average on that scale back.
    pub(crate) fn outward(self, value: f64) -> f64 {
        match self {
            Self::Ratio => value.exp(),
            Self::Difference => value,
        }
    }

    /// Returns the effect of a over b, or `None` if the ratio is undefined.
    pub(crate) fn effect(self, a: f64, b: f64) -> Option<f64> {
        Some(self.inward(a)? - self.inward(b)?)
    }

    /// Returns the standard deviation that rounding alone gives to the effect of a unit; 0 for values that were not
    /// rounded. Each list has the pairs of one coordinate, and a unit is averaged over them.
    pub(crate) fn rounding(self, strata: &[Vec<(f64, f64)>]) -> f64 {
        match self {
            Self::Ratio => statistics::rounding_of_ratios_over(strata),
            Self::Difference => statistics::rounding_of_differences_over(strata),
        }
    }

    /// Returns the standard deviation that rounding alone gives to the value of a unit, on the scale; 0 for values that
    /// were not rounded. Each list has the values of one coordinate, and a unit is averaged over them.
    pub(crate) fn rounding_of(self, strata: &[Vec<f64>]) -> f64 {
        match self {
            Self::Ratio => statistics::rounding_of_logs_over(strata),
            Self::Difference => statistics::rounding_of_values_over(strata),
        }
    }

    /// Returns the size of an effect in ordinary terms: a share, or in the unit of the metric.
    pub(crate) fn size(self, effect: f64) -> f64 {
        match self {
            Self::Ratio => effect.exp_m1(),
            Self::Difference => effect,
        }
    }

    /// Returns the effect that corresponds to a margin: a share, or in the unit of the metric.
    pub(crate) fn margin(self, margin: f64) -> f64 {
        match self {
            Self::Ratio => statistics::log_margin(margin),
            Self::Difference => margin,
        }
    }

    /// Formats a size for people.
    pub(crate) fn show(self, size: f64) -> String {
        match self {
            Self::Ratio => format!("{} %", short(100.0 * size)),
            Self::Difference => short(size),
        }
    }

    /// Formats an effect for people: a factor, or in the unit of the metric.
    pub(crate) fn show_effect(self, effect: f64) -> String {
        match self {
            Self::Ratio => format!("{}×", short(effect.exp())),
            Self::Difference => short(effect),
        }
    }

    /// Explains that some values of a column have no place on the scale.
    pub(crate) fn refusal(self, column: &str, values: &[f64]) -> String {
        contract::without_ratio(column, values, "declare `scale: difference`")
    }
}

/// Formats a number with three significant digits.
pub(crate) fn short(value: f64) -> String {
    statistics::significant(value, 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_people_say_them() {
        assert_eq!(Scale::Ratio.show(0.0742), "7.42 %");
        assert_eq!(Scale::Difference.show(1234.5), "1234");
    }
}
