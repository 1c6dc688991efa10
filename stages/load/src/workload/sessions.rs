//! Sessions: turns that build on each other, with time to think in between.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::definition::PromptSource;
use super::length::Range;
use crate::span::TimeSpan;

/// Several turns of one conversation. Each turn is sent with everything said before, the model's
/// own answers included: as messages to chat APIs, as one text to the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-form" = "{turns: 4, think-time: 2 s}"))]
pub struct Sessions {
    /// How many turns a session has. A `dataset` may leave it out: its conversations have as
    /// many as were recorded, or at most this many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<Turns>,
    /// How long a user thinks between an answer and the next turn.
    #[serde(default)]
    pub think_time: Think,
    /// Where the turns after the first come from, if not from `prompts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_up: Option<PromptSource>,
}

/// How many turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Turns {
    /// Always this many.
    Fixed(u32),
    /// Drawn evenly, both ends in it.
    Range(Range),
    /// From a distribution.
    Drawn(TurnsDrawn),
}

/// A distribution of numbers of turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum TurnsDrawn {
    /// Geometric from 1 on, of this mean: after each turn, the session continues with the same probability, 1 −
    /// 1/mean.
    Geometric(f64),
}

/// How long a user thinks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Think {
    /// A constant time.
    Fixed(TimeSpan),
    /// Drawn evenly between two times.
    Range(ThinkRange),
    /// From a distribution.
    Drawn(ThinkDrawn),
}

impl Default for Think {
    fn default() -> Self {
        Self::Fixed(TimeSpan::default())
    }
}

/// A range of times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThinkRange {
    /// The shortest time.
    pub from: TimeSpan,
    /// The longest time.
    pub to: TimeSpan,
}

/// A distribution of times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ThinkDrawn {
    /// Exponential of this mean.
    Exponential(TimeSpan),
}
