//! When a study has enough measurements.

use serde::{Deserialize, Serialize};

use crate::cause::Cause;

/// Adds blocks until a figure of every launch is known precisely enough. The rule checks after each complete block from
/// the minimum on, with an interval that holds at every check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Until {
    /// The largest relative half-width of the interval: 0.03 is 3 %.
    pub relative_half_width: f64,
    /// The column name of the figure.
    #[serde(rename = "of")]
    pub figure: String,
    /// The number of blocks before the first check.
    pub at_least: usize,
}

/// The error level of the interval that the rule checks.
pub(crate) const ALPHA: f64 = 0.05;

impl Until {
    /// Returns why blocks after the first `blocks` are left out, if the widest interval has this half-width.
    pub(crate) fn reason(&self, blocks: usize, half_width: f64) -> String {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let text = format!(
            "after {blocks} blocks `{}` of every launch is known to ± {}, within {}",
            self.figure,
            percent(half_width),
            percent(self.relative_half_width)
        );
        Cause::not_needed(text).to_string()
    }
}
