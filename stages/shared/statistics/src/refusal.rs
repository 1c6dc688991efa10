//! Reasons why a procedure gives no result.

use std::fmt;

/// The reason why a procedure gives no result. Its sentence accompanies the verdict `undecidable`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Refusal {
    /// Fewer units of replication than the procedure needs.
    TooFewUnits {
        /// The number of units.
        n: usize,
        /// The smallest sufficient number.
        least: usize,
    },
    /// Fewer clusters than the procedure needs.
    TooFewClusters {
        /// The number of clusters.
        n: usize,
        /// The smallest sufficient number.
        least: usize,
    },
    /// Fewer systems, groups or strata than the procedure compares.
    TooFewGroups {
        /// The number of groups.
        n: usize,
        /// The smallest sufficient number.
        least: usize,
    },
    /// All units show the same effect, so the spread of other units is unknown.
    NoSpread {
        /// The number of units.
        n: usize,
    },
    /// The value at this position is NaN or infinite.
    NotFinite {
        /// The position, from 0.
        at: usize,
    },
    /// The value at this position is so large or so small that a double cannot hold its square.
    OutOfRange {
        /// The position, from 0.
        at: usize,
    },
    /// The value at this position has no logarithm.
    NotPositive {
        /// The position, from 0.
        at: usize,
    },
    /// A block, a launch or a stratum lacks values that the others have.
    Incomplete {
        /// The position of the first incomplete one, from 0.
        at: usize,
    },
    /// Too few values to bound the quantile on both sides.
    QuantileUnbounded {
        /// The number of values.
        n: usize,
        /// The smallest sufficient number.
        least: usize,
        /// The probability of the quantile.
        probability: f64,
    },
    /// Launches whose tails differ so much that they do not bound the quantile on both sides.
    LaunchesApart {
        /// The number of launches.
        n: usize,
        /// The probability of the quantile.
        probability: f64,
    },
    /// Fewer values than the procedure needs.
    TooFewValues {
        /// The number of values.
        n: usize,
        /// The smallest sufficient number.
        least: usize,
    },
}

/// What [`Refusal::NoSpread`] says about its units.
const NO_SPREAD: &str = "with the same effect: nothing says how far another would lie";

impl Refusal {
    /// Whether a sentence is that of [`Refusal::NoSpread`]. Other words may surround it.
    pub fn says_no_spread(sentence: &str) -> bool {
        sentence.contains(NO_SPREAD)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFewUnits { n, least } => {
                write!(f, "{}, and at least {least} are needed", count(*n, "unit"))
            }
            Self::TooFewClusters { n, least } => {
                write!(
                    f,
                    "{}, and at least {least} are needed",
                    count(*n, "cluster")
                )
            }
            Self::TooFewGroups { n, least } => {
                write!(f, "{}, and at least {least} are needed", count(*n, "group"))
            }
            Self::NoSpread { n } => write!(f, "{} {NO_SPREAD}", count(*n, "unit")),
            Self::NotFinite { at } => write!(f, "value {at} is not a finite number"),
            Self::OutOfRange { at } => write!(
                f,
                "value {at} is too large or too small to compute with: check it, or choose another unit"
            ),
            Self::NotPositive { at } => write!(f, "value {at} is not above 0 and has no ratio"),
            Self::Incomplete { at } => write!(f, "row {at} lacks values that the others have"),
            Self::QuantileUnbounded {
                n,
                least,
                probability,
            } => write!(
                f,
                "{} cannot bound the quantile {probability}: at least {least} are needed",
                count(*n, "value")
            ),
            Self::LaunchesApart { n, probability } => write!(
                f,
                "{n} launches cannot bound the quantile {probability}, because they differ too much: measure more launches"
            ),
            Self::TooFewValues { n, least } => {
                write!(f, "{}, and at least {least} are needed", count(*n, "value"))
            }
        }
    }
}

impl std::error::Error for Refusal {}

fn count(n: usize, what: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {what}{plural}")
}

/// Checks that every value is finite.
pub(crate) fn all_finite(values: &[f64]) -> Result<(), Refusal> {
    match values.iter().position(|v| !v.is_finite()) {
        Some(at) => Err(Refusal::NotFinite { at }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_without_spread_are_recognised_by_their_sentence() {
        let sentence = Refusal::NoSpread { n: 3 }.to_string();
        assert!(Refusal::says_no_spread(&sentence));
        assert!(Refusal::says_no_spread(&format!("none: {sentence}")));
        let few = Refusal::TooFewUnits { n: 2, least: 3 }.to_string();
        assert!(!Refusal::says_no_spread(&few));
    }

    #[test]
    fn a_refusal_says_what_there_is_and_what_is_needed() {
        assert_eq!(
            Refusal::TooFewUnits { n: 1, least: 3 }.to_string(),
            "1 unit, and at least 3 are needed"
        );
        let tail = Refusal::QuantileUnbounded {
            n: 24,
            least: 72,
            probability: 0.95,
        };
        assert_eq!(
            tail.to_string(),
            "24 values cannot bound the quantile 0.95: at least 72 are needed"
        );
    }
}
