//! Lengths: a count and a unit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A count, fixed or drawn evenly from a range with both ends in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Count {
    /// Always this many.
    Fixed(u32),
    /// Between two counts.
    Range(Range),
}

/// A range of counts, both ends included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-other-words" = {
    "min": "`from`", "low": "`from`", "lower": "`from`", "start": "`from`", "minimum": "`from`",
    "max": "`to`", "high": "`to`", "upper": "`to`", "stop": "`to`", "end": "`to`", "maximum": "`to`",
    "mean": "`from` and `to`, the ends of a range from which lengths are drawn evenly",
    "average": "`from` and `to`, the ends of a range from which lengths are drawn evenly",
    "stddev": "`to`, the upper end of a range from which lengths are drawn evenly",
    "std": "`to`, the upper end of a range from which lengths are drawn evenly",
}))]
pub struct Range {
    /// The smallest count.
    pub from: u32,
    /// The largest count.
    pub to: u32,
}

impl Count {
    /// Returns the smallest and the largest count.
    pub(crate) fn ends(&self) -> (u32, u32) {
        match self {
            Self::Fixed(n) => (*n, *n),
            Self::Range(range) => (range.from, range.to),
        }
    }
}

/// The length of a text: in words (`120`, `{from: 60, to: 480}`), or in a named unit (`{tokens:
/// 512}`, `{characters: {from: 200, to: 300}}`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Length {
    /// In words.
    Words(Count),
    /// In another unit.
    In(Measure),
}

/// A length in a named unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Measure {
    /// In tokens of the workload's `tokenizer`, special tokens and chat template not counted.
    Tokens(Count),
    /// In Unicode scalar values.
    Characters(Count),
}

/// The unit that a length counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Words,
    Tokens,
    Characters,
}

impl Length {
    /// Returns the unit and the count.
    pub(crate) fn parts(&self) -> (Unit, &Count) {
        match self {
            Self::Words(count) => (Unit::Words, count),
            Self::In(Measure::Tokens(count)) => (Unit::Tokens, count),
            Self::In(Measure::Characters(count)) => (Unit::Characters, count),
        }
    }
}

impl From<Count> for Length {
    fn from(count: Count) -> Self {
        Self::Words(count)
    }
}
