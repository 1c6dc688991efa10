//! Rules: the conditions that statements and claims put on the rows of a table.

use std::collections::BTreeMap;

use contract::Better;
use pipeline::place::Condition;
use pipeline::stage::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::predicate::{Predicate, PredicateError};
use crate::language::declared;
use crate::settings::OneOrMany;

/// A condition that selects rows: columns, and the allowed value or values of each.
pub(crate) type Only = BTreeMap<String, OneOrMany>;

/// A statement about the rows of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Every row meets the predicate.
    Every(That),
    /// No row meets it.
    NoRow(That),
    /// The one row meets it.
    Holds(That),
    /// At least `count` rows meet it.
    AtLeast(Counted),
    /// At most `count` rows meet it, and all others are known not to.
    AtMost(Counted),
    /// Exactly `count` rows meet it.
    Exactly(Counted),
    /// The rows that meet it are exactly those of `are`.
    OnlyThese(OnlyThese),
    /// One row has the largest value of a column; `are` describes it.
    Largest(Extremum),
    /// One row has the smallest value of a column; `are` describes it.
    Smallest(Extremum),
    /// All values of a column are in a range; without bounds, the range that they span.
    Between(Between),
    /// All values of a column are close to a number or to another column.
    Within(Within),
    /// A column rises or falls from step to step in every series.
    Monotone(Steps),
    /// One step is the steepest of all series; `are` describes the row to which it leads.
    Steepest(Steps),
    /// Every row has the verdict `different`, on the side stated.
    Different(Tested),
    /// Every row has the verdict `equivalent`.
    Equivalent(Tested),
    /// Every row has the verdict `no evidence`.
    NoEvidence(Tested),
    /// In every row, a is shown not to be worse than b by more than the margin.
    NotWorse(NotWorse),
    /// A column is on the same side of a reference in all rows, across the levels of an axis.
    Consistent(Consistent),
    /// All of these hold. For claims.
    AllOf(Vec<Rule>),
    /// At least one of these holds. For claims.
    AnyOf(Vec<Rule>),
}

contract::words! {
    /// Which rule it is: the key of a claim's rule. Everything that names rules names these.
    pub enum RuleKind: "rule" {
        /// [`Rule::Every`].
        Every = "every",
        /// [`Rule::NoRow`].
        NoRow = "no-row",
        /// [`Rule::Holds`].
        Holds = "holds",
        /// [`Rule::AtLeast`].
        AtLeast = "at-least",
        /// [`Rule::AtMost`].
        AtMost = "at-most",
        /// [`Rule::Exactly`].
        Exactly = "exactly",
        /// [`Rule::OnlyThese`].
        OnlyThese = "only-these",
        /// [`Rule::Largest`].
        Largest = "largest",
        /// [`Rule::Smallest`].
        Smallest = "smallest",
        /// [`Rule::Between`].
        Between = "between",
        /// [`Rule::Within`].
        Within = "within",
        /// [`Rule::Monotone`].
        Monotone = "monotone",
        /// [`Rule::Steepest`].
        Steepest = "steepest",
        /// [`Rule::Different`].
        Different = "different",
        /// [`Rule::Equivalent`].
        Equivalent = "equivalent",
        /// [`Rule::NoEvidence`].
        NoEvidence = "no-evidence",
        /// [`Rule::NotWorse`].
        NotWorse = "not-worse",
        /// [`Rule::Consistent`].
        Consistent = "consistent",
        /// [`Rule::AllOf`].
        AllOf = "all-of",
        /// [`Rule::AnyOf`].
        AnyOf = "any-of",
    }
}

/// A predicate over rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct That {
    /// The table, as `stage.output`.
    pub table: String,
    /// Only rows with these values.
    #[serde(default, rename = "where", skip_serializing_if = "BTreeMap::is_empty")]
    pub only: Only,
    /// The predicate, for example `breakdown_n >= 8`.
    pub that: String,
}

/// A predicate and a number of rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Counted {
    /// The table, as `stage.output`.
    pub table: String,
    /// Only rows with these values.
    #[serde(default, rename = "where", skip_serializing_if = "BTreeMap::is_empty")]
    pub only: Only,
    /// The predicate.
    pub that: String,
    /// How many rows.
    pub count: u64,
}

/// A predicate and the rows that alone meet it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OnlyThese {
    /// The table, as `stage.output`.
    pub table: String,
    /// Only rows with these values.
    #[serde(default, rename = "where", skip_serializing_if = "BTreeMap::is_empty")]
    pub only: Only,
    /// The predicate.
    pub that: String,
    /// The rows that meet it.
    pub are: Only,
}

/// The row with the largest or smallest value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Extremum {
    /// The table, as `stage.output`.
    pub table: String,
    /// Only rows with these values.
    #[serde(default, rename = "where", skip_serializing_if = "BTreeMap::is_empty")]
    pub only: Only,
    /// The column to read.
    pub column: String,
    /// Which row it is.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub are: Only,
}

/// A range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Between {
    /// The table, as `stage.output`.
    pub table: String,
    /// Only rows with these values.
    #[serde(default, rename = "where", skip_serializing_if = "BTreeMap::is_empty")]
    pub only: Only,
    /// The column to read.
    pub column: String,
    /// The least value allowed, in the column's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The greatest value allowed, in the column's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

/// Closeness to a reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Within {
    /// The table, as `stage.output`.
    pub table: String,
    /// Only rows with these values.
    #[serde(default, rename = "where", skip_serializing_if = "BTreeMap::is_empty")]
    pub only: Only,
    /// The column to read.
    pub column: String,
    /// The reference: a number, or the name of a column.
    #[serde(rename = "of")]
    pub reference: Json,
    /// How far apart they may be, in the column's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<f64>,
    /// How far apart they may be, as a part of the reference: 0.05 is five percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
}

/// The direction of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Up.
    #[default]
    Rising,
    /// Down.
    Falling,
}

/// Steps of a column along another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Steps {
    /// The table, as `stage.output`.
    pub table: String,
    /// Only rows with these values.
    #[serde(default, rename = "where", skip_serializing_if = "BTreeMap::is_empty")]
    pub only: Only,
    /// The column along which the steps go.
    pub x: String,
    /// The column that rises or falls.
    pub y: String,
    /// The columns that separate series.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<String>,
    /// Its direction.
    #[serde(default)]
    pub direction: Direction,
    /// Whether a step without a change breaks monotony.
    #[serde(default)]
    pub strictly: bool,
    /// For the steepest step: the row it leads to.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub are: Only,
}

/// The side of a difference of a against b.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Either.
    #[default]
    Either,
    /// a is higher.
    Greater,
    /// a is lower.
    Less,
}

/// Rows that hold a verdict, as the comparisons of the analyze stage write it: in the columns
/// `verdict`, `higher` and `a`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tested {
    /// The table, as `stage.output`.
    pub table: String,
    /// Only rows with these values.
    #[serde(default, rename = "where", skip_serializing_if = "BTreeMap::is_empty")]
    pub only: Only,
    /// The side on which the difference must be (for `different`).
    #[serde(default)]
    pub side: Side,
}

/// Rows in which one side is not worse than the other by more than the margin of the comparison: its columns
/// `not_lower` or `not_higher`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NotWorse {
    /// The table, as `stage.output`.
    pub table: String,
    /// Only rows with these values.
    #[serde(default, rename = "where", skip_serializing_if = "BTreeMap::is_empty")]
    pub only: Only,
    /// Which values of the metric are better.
    pub better: Better,
}

/// The same side of a reference in all rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Consistent {
    /// The table, as `stage.output`.
    pub table: String,
    /// Only rows with these values.
    #[serde(default, rename = "where", skip_serializing_if = "BTreeMap::is_empty")]
    pub only: Only,
    /// The column to read.
    pub column: String,
    /// The columns across whose levels it is consistent; each must have two or more.
    pub across: Vec<String>,
    /// The reference: 0 for differences, 1 for ratios.
    #[serde(default)]
    pub reference: f64,
}

impl Rule {
    /// Returns the word for it in YAML.
    pub(crate) fn word(&self) -> &'static str {
        self.kind().word()
    }

    /// Returns the kind of rule.
    pub(crate) fn kind(&self) -> RuleKind {
        match self {
            Self::Every(_) => RuleKind::Every,
            Self::NoRow(_) => RuleKind::NoRow,
            Self::Holds(_) => RuleKind::Holds,
            Self::AtLeast(_) => RuleKind::AtLeast,
            Self::AtMost(_) => RuleKind::AtMost,
            Self::Exactly(_) => RuleKind::Exactly,
            Self::OnlyThese(_) => RuleKind::OnlyThese,
            Self::Largest(_) => RuleKind::Largest,
            Self::Smallest(_) => RuleKind::Smallest,
            Self::Between(_) => RuleKind::Between,
            Self::Within(_) => RuleKind::Within,
            Self::Monotone(_) => RuleKind::Monotone,
            Self::Steepest(_) => RuleKind::Steepest,
            Self::Different(_) => RuleKind::Different,
            Self::Equivalent(_) => RuleKind::Equivalent,
            Self::NoEvidence(_) => RuleKind::NoEvidence,
            Self::NotWorse(_) => RuleKind::NotWorse,
            Self::Consistent(_) => RuleKind::Consistent,
            Self::AllOf(_) => RuleKind::AllOf,
            Self::AnyOf(_) => RuleKind::AnyOf,
        }
    }

    /// Returns the table and the condition; `None` for rules made of rules.
    pub(crate) fn place(&self) -> Option<(&str, &Only)> {
        Some(match self {
            Self::Every(r) | Self::NoRow(r) | Self::Holds(r) => (&r.table, &r.only),
            Self::AtLeast(r) | Self::AtMost(r) | Self::Exactly(r) => (&r.table, &r.only),
            Self::OnlyThese(r) => (&r.table, &r.only),
            Self::Largest(r) | Self::Smallest(r) => (&r.table, &r.only),
            Self::Between(r) => (&r.table, &r.only),
            Self::Within(r) => (&r.table, &r.only),
            Self::Monotone(r) | Self::Steepest(r) => (&r.table, &r.only),
            Self::Different(r) | Self::Equivalent(r) | Self::NoEvidence(r) => (&r.table, &r.only),
            Self::NotWorse(r) => (&r.table, &r.only),
            Self::Consistent(r) => (&r.table, &r.only),
            Self::AllOf(_) | Self::AnyOf(_) => return None,
        })
    }

    /// Returns the predicate over its rows; `None` for rules of other kinds.
    pub(crate) fn predicate(&self) -> Option<&str> {
        Some(match self {
            Self::Every(r) | Self::NoRow(r) | Self::Holds(r) => &r.that,
            Self::AtLeast(r) | Self::AtMost(r) | Self::Exactly(r) => &r.that,
            Self::OnlyThese(r) => &r.that,
            _ => return None,
        })
    }

    /// Returns the columns whose values it compares.
    ///
    /// # Errors
    /// If its predicate cannot be read.
    pub(crate) fn compared(&self) -> Result<Vec<String>, PredicateError> {
        if let Some(that) = self.predicate() {
            let predicate = Predicate::parse(that)?;
            return Ok(predicate
                .compared()
                .into_iter()
                .map(str::to_owned)
                .collect());
        }
        Ok(match self {
            Self::Largest(r) | Self::Smallest(r) => vec![r.column.clone()],
            Self::Between(r) => vec![r.column.clone()],
            Self::Within(r) => {
                let reference = r.reference.as_str().map(str::to_owned);
                std::iter::once(r.column.clone()).chain(reference).collect()
            }
            Self::Monotone(r) | Self::Steepest(r) => vec![r.y.clone()],
            Self::Consistent(r) => vec![r.column.clone()],
            _ => Vec::new(),
        })
    }

    /// Returns the condition that selects its rows.
    pub(crate) fn condition(&self) -> Condition {
        self.place()
            .map(|(_, only)| declared(only))
            .unwrap_or_default()
    }

    /// Performs the checks that need no data: predicates, bounds.
    ///
    /// # Errors
    /// What is wrong, in one sentence.
    pub(crate) fn check(&self) -> Result<(), String> {
        let finite = |value: Option<f64>| value.is_none_or(f64::is_finite);
        match self {
            Self::Every(That { that, .. })
            | Self::NoRow(That { that, .. })
            | Self::Holds(That { that, .. })
            | Self::AtLeast(Counted { that, .. })
            | Self::AtMost(Counted { that, .. })
            | Self::Exactly(Counted { that, .. })
            | Self::OnlyThese(OnlyThese { that, .. }) => {
                Predicate::parse(that).map(drop).map_err(|e| e.to_string())
            }
            Self::Between(r) if !finite(r.low) || !finite(r.high) => {
                Err("a bound must be finite".to_owned())
            }
            Self::Between(r) if r.low.zip(r.high).is_some_and(|(low, high)| low > high) => {
                Err("`low` is greater than `high`".to_owned())
            }
            Self::Within(r) => match (r.by, r.ratio) {
                (Some(by), None) | (None, Some(by)) if by >= 0.0 && by.is_finite() => {
                    match r.reference.is_number() || r.reference.is_string() {
                        true => Ok(()),
                        false => Err("`of` must be a number or the name of a column".to_owned()),
                    }
                }
                _ => Err(
                    "`within` needs one of `by` (in the column's unit) and `ratio` (a part of the \
                          reference), not negative"
                        .to_owned(),
                ),
            },
            Self::Equivalent(r) | Self::NoEvidence(r) if r.side != Side::Either => {
                Err("`side` belongs to `different`".to_owned())
            }
            Self::Consistent(r) if r.across.is_empty() => {
                Err("`across` does not name a column".to_owned())
            }
            Self::AllOf(rules) | Self::AnyOf(rules) => match rules.is_empty() {
                true => Err(format!("`{}` does not hold a rule", self.word())),
                false => rules.iter().try_for_each(Self::check),
            },
            _ => Ok(()),
        }
    }
}
