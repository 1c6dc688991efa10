//! What paired and unpaired comparisons share: families of tests, and the rule that turns
//! numbers into a verdict. The rule is data.

use pipeline::{Problem, Step};
use rows::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Interval, benjamini_hochberg, holm};

use crate::frame::Spec;

/// Which tests form one family for the adjustment of p values.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Family {
    /// The tests of one column.
    #[default]
    PerColumn,
    /// All tests of the table.
    Table,
}

/// The kind of bootstrap interval, in settings.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// The quantiles of the resamples.
    #[default]
    Percentile,
    /// Those quantiles reflected at the estimate.
    Basic,
    /// Bias-corrected and accelerated.
    Bca,
}

impl Kind {
    pub(crate) fn statistics(self) -> statistics::BootstrapKind {
        match self {
            Self::Percentile => statistics::BootstrapKind::Percentile,
            Self::Basic => statistics::BootstrapKind::Basic,
            Self::Bca => statistics::BootstrapKind::Bca,
        }
    }
}

/// When a difference is called directional.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Rule {
    /// Directional where all of these hold, ambiguous where only some do, no-evidence where
    /// none does.
    pub(crate) directional: Vec<Condition>,
}

/// One condition: on a column of the result, or on the interval.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Condition {
    /// A column of the result, such as `holm_p`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    column: Option<String>,
    /// Holds where the column is smaller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    below: Option<f64>,
    /// Holds where the column is this or larger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at_least: Option<f64>,
    /// Holds where the column's absolute value is this or larger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    magnitude_at_least: Option<f64>,
    /// Holds where the interval of the difference excludes this value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    interval_excludes: Option<f64>,
}

impl Rule {
    /// Returns the usual rule: the adjusted p below alpha, and the interval without 0.
    pub(crate) fn usual(alpha: f64) -> Self {
        let nothing = Condition {
            column: None,
            below: None,
            at_least: None,
            magnitude_at_least: None,
            interval_excludes: None,
        };
        Self {
            directional: vec![
                Condition {
                    column: Some("holm_p".to_owned()),
                    below: Some(alpha),
                    ..nothing.clone()
                },
                Condition {
                    interval_excludes: Some(0.0),
                    ..nothing
                },
            ],
        }
    }

    /// Says the rule in words, for a column's description.
    pub(crate) fn words(&self) -> String {
        let all: Vec<String> = self.directional.iter().map(ToString::to_string).collect();
        let some = match all.len() {
            1 => "",
            2 => "ambiguous if one of the two; ",
            _ => "ambiguous if only some of these; ",
        };
        format!(
            "directional if {}; {some}else no-evidence (of a difference: not evidence of equality), or equivalent if a \
             declared margin says so; null without values",
            all.join(" and ")
        )
    }

    /// Checks a rule a user wrote.
    pub(crate) fn check(&self, settings: &Settings<'_>, columns: &[Spec]) -> Vec<Problem> {
        let place = |i| {
            vec![
                Step::Key("rule".to_owned()),
                Step::Key("directional".to_owned()),
                Step::Index(i),
            ]
        };
        let known: Vec<&str> = columns
            .iter()
            .filter(|s| s.is_number())
            .map(|s| s.name.as_str())
            .collect();
        let mut problems = Vec::new();
        if self.directional.is_empty() {
            let at = [
                Step::Key("rule".to_owned()),
                Step::Key("directional".to_owned()),
            ];
            problems.push(settings.problem(
                &at,
                "a rule without a condition would call everything directional",
            ));
        }
        for (i, condition) in self.directional.iter().enumerate() {
            let bounds = [
                condition.below,
                condition.at_least,
                condition.magnitude_at_least,
            ];
            let bounds = bounds.iter().flatten().count();
            let fits = match (&condition.column, condition.interval_excludes) {
                (Some(_), None) => bounds == 1,
                (None, Some(_)) => bounds == 0,
                _ => false,
            };
            if !fits {
                problems.push(
                    settings
                        .problem(
                            &place(i),
                            "a condition is either a column with one bound, or `interval-excludes`",
                        )
                        .hint("for instance `{column: holm_p, below: 0.05}` or `{interval-excludes: 0}`"),
                );
            } else if let Some(strange) = condition.column.as_deref().filter(|c| !known.contains(c))
            {
                let message = format!("the result has no column of numbers `{strange}`");
                problems.push(
                    settings
                        .problem(&place(i), message)
                        .hint(rows::did_you_mean(strange, &known)),
                );
            }
        }
        problems
    }

    /// Returns the verdict; an undefined number meets no condition.
    pub(crate) fn verdict(
        &self,
        value: &dyn Fn(&str) -> Option<f64>,
        interval: Option<Interval>,
        equivalent: bool,
    ) -> &'static str {
        let met = self
            .directional
            .iter()
            .filter(|c| c.holds(value, interval))
            .count();
        match met {
            _ if met == self.directional.len() => "directional",
            _ if equivalent => "equivalent",
            0 => "no-evidence",
            _ => "ambiguous",
        }
    }
}

impl Condition {
    fn holds(&self, value: &dyn Fn(&str) -> Option<f64>, interval: Option<Interval>) -> bool {
        if let Some(point) = self.interval_excludes {
            return interval.is_some_and(|i| i.excludes(point));
        }
        let Some(value) = self.column.as_deref().and_then(value) else {
            return false;
        };
        self.below.is_some_and(|b| value < b)
            || self.at_least.is_some_and(|b| value >= b)
            || self.magnitude_at_least.is_some_and(|b| value.abs() >= b)
    }
}

impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let column = self.column.as_deref().unwrap_or_default();
        match (
            self.interval_excludes,
            self.below,
            self.at_least,
            self.magnitude_at_least,
        ) {
            (Some(point), ..) => write!(f, "the interval excludes {point}"),
            (_, Some(bound), ..) => write!(f, "{column} < {bound}"),
            (_, _, Some(bound), _) => write!(f, "{column} ≥ {bound}"),
            (.., bound) => write!(f, "|{column}| ≥ {}", bound.unwrap_or(f64::NAN)),
        }
    }
}

/// An adjusted p value and the family it was adjusted in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Adjusted {
    pub(crate) holm: Option<f64>,
    pub(crate) bh: Option<f64>,
    pub(crate) family: Option<String>,
}

/// Adjusts the p values of tests, each given as (column, raw p), within their families.
pub(crate) fn adjust(
    tests: &[(usize, Option<f64>)],
    family: Family,
    columns: &[String],
    by: &[String],
) -> Vec<Adjusted> {
    let families: Vec<Option<usize>> = match family {
        Family::Table => vec![None],
        Family::PerColumn => (0..columns.len()).map(Some).collect(),
    };
    let over = if by.is_empty() {
        String::new()
    } else {
        format!(" by {}", by.join(", "))
    };
    let mut adjusted = vec![Adjusted::default(); tests.len()];
    for family in families {
        let members: Vec<(usize, f64)> = tests
            .iter()
            .enumerate()
            .filter(|(_, (column, _))| family.is_none_or(|c| c == *column))
            .filter_map(|(i, (_, p))| Some((i, (*p)?)))
            .collect();
        let raw: Vec<f64> = members.iter().map(|(_, p)| *p).collect();
        let what = family.map_or_else(
            || "all columns".to_owned(),
            |column| columns[column].clone(),
        );
        for ((i, _), (holm, bh)) in members
            .iter()
            .zip(holm(&raw).into_iter().zip(benjamini_hochberg(&raw)))
        {
            adjusted[*i] = Adjusted {
                holm: Some(holm),
                bh: Some(bh),
                family: Some(format!("{what}{over} ({} tests)", raw.len())),
            };
        }
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(rule: &str, p: f64, low: f64, high: f64) -> &'static str {
        let rule: Rule = serde_json::from_str(rule).unwrap();
        let value = |name: &str| (name == "holm_p").then_some(p);
        rule.verdict(&value, Some(Interval { low, high }), false)
    }

    #[test]
    fn the_rule_and_not_the_code_decides() {
        let both =
            r#"{"directional": [{"column": "holm_p", "below": 0.05}, {"interval-excludes": 0}]}"#;
        assert_eq!(verdict(both, 0.01, 0.5, 1.0), "directional");
        assert_eq!(verdict(both, 0.01, -0.5, 1.0), "ambiguous");
        assert_eq!(verdict(both, 0.2, -0.5, 1.0), "no-evidence");
        let interval_only = r#"{"directional": [{"interval-excludes": 0}]}"#;
        assert_eq!(verdict(interval_only, 0.2, 0.5, 1.0), "directional");
        let unknown = r#"{"directional": [{"column": "nothing", "at-least": 0}]}"#;
        assert_eq!(verdict(unknown, 0.2, 0.5, 1.0), "no-evidence");
    }

    #[test]
    fn the_usual_rule_is_said_in_words() {
        let words = Rule::usual(0.05).words();
        assert!(
            words
                .starts_with("directional if holm_p < 0.05 and the interval excludes 0; ambiguous"),
            "{words}"
        );
    }
}
