//! When a study has measured enough.

use serde::{Deserialize, Serialize};

use crate::cause::Cause;

/// Blocks go on until a figure of every launch is known closely enough. The rule looks after each
/// complete block from the least number on, at an interval that holds at every look.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Until {
    /// The largest relative half-width of the interval: 0.03 is 3 %.
    pub relative_half_width: f64,
    /// The figure, by its column's name.
    pub of: String,
    /// The number of blocks after which the rule looks first.
    pub at_least: usize,
}

/// The level of the interval that the rule looks at.
pub(crate) const ALPHA: f64 = 0.05;

impl Until {
    /// Says why blocks after the first `blocks` are left out, where the widest interval has this half-width.
    pub(crate) fn reason(&self, blocks: usize, half_width: f64) -> String {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let text = format!(
            "after {blocks} blocks `{}` of every launch is known to ± {}, within {}",
            self.of,
            percent(half_width),
            percent(self.relative_half_width)
        );
        Cause::not_needed(text).to_string()
    }
}
