//! How a column's description marks it as one end of an interval, and where a table states the level of its intervals.
//! Operators write it; the report reads it.

use std::fmt;

/// Where a table states the level of its intervals, 0 to 1: in a note about all of them, which operators write, or in a
/// column, for each row.
pub const INTERVAL_LEVEL: &str = "interval_level";

/// One end of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntervalEnd {
    /// The smaller one.
    Lower,
    /// The larger one.
    Upper,
}

impl IntervalEnd {
    /// Describes a column that holds this end of an interval.
    pub fn of(self, interval: impl fmt::Display) -> String {
        format!("{self} end of {interval}")
    }

    /// Reads from a description which end the column holds, and of which interval. Returns `None` for other columns.
    pub fn read(description: &str) -> Option<(Self, &str)> {
        [Self::Lower, Self::Upper].into_iter().find_map(|end| {
            let interval = description.strip_prefix(end.of("").as_str())?;
            Some((end, interval))
        })
    }
}

impl fmt::Display for IntervalEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lower => "lower",
            Self::Upper => "upper",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_is_described_is_read_as_what_it_is() {
        for end in [IntervalEnd::Lower, IntervalEnd::Upper] {
            let description = end.of("the 0.95 interval of x");
            assert_eq!(
                IntervalEnd::read(&description),
                Some((end, "the 0.95 interval of x"))
            );
        }
        assert_eq!(
            IntervalEnd::Lower.of("its interval"),
            "lower end of its interval"
        );
        assert_eq!(IntervalEnd::read("the lower end of a rope"), None);
    }
}
