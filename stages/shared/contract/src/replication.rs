//! Sentences of tables that say how far a result rests on replicates. Operators write them; the report reads them.

use std::fmt;

use crate::Word as _;

/// Why a table has no intervals although none was withheld: its rows were never replicates of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotReplicated {
    /// No axis of the table separates launches.
    Launches,
    /// Every row is a launch by itself.
    Rows,
}

impl NotReplicated {
    const ALL: [Self; 2] = [Self::Launches, Self::Rows];

    /// Completes the sentence with what led to it.
    pub fn because(self, reason: impl fmt::Display) -> String {
        match self {
            Self::Launches => format!("{self}: {reason}"),
            Self::Rows => format!("{self}, because {reason}"),
        }
    }

    /// Reads from a sentence why a table has no intervals. Other words may precede it. Returns `None` for other reasons.
    pub fn read(sentence: &str) -> Option<Self> {
        let states = |reason: &Self| sentence.contains(reason.because("").trim_end());
        Self::ALL.into_iter().find(states)
    }
}

impl fmt::Display for NotReplicated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Launches => "no replication of launches",
            Self::Rows => "one unit per row",
        })
    }
}

crate::words! {
    /// The tests that share one level. The column `family` begins with this word.
    pub enum LevelScope: "scope of a level" {
        /// All tests of the study that do not belong to another scope.
        Study = "the study",
        /// The checks of the study.
        Checks = "checks",
        /// The tests of one table.
        Table = "this table",
        /// The tests of one column of one table.
        Column = "each column",
    }
}

impl LevelScope {
    /// Describes a family of tests: its scope, its level and what else `rest` says.
    pub fn family(self, level: impl fmt::Display, rest: impl fmt::Display) -> String {
        format!("{} at {level}{rest}", self.word())
    }

    /// Reads the scope from the column `family`. Returns `None` for other texts.
    pub fn read(family: &str) -> Option<Self> {
        let begins = |scope: &Self| family.starts_with(&scope.family("", ""));
        Self::ALL.iter().copied().find(begins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_that_is_written_is_read_as_what_it_is() {
        for reason in NotReplicated::ALL {
            let sentence = reason.because("`block` is a key");
            assert_eq!(NotReplicated::read(&sentence), Some(reason));
            assert_eq!(
                NotReplicated::read(&format!("none: {sentence}")),
                Some(reason)
            );
        }
        assert_eq!(
            NotReplicated::read("2 units, and at least 3 are needed"),
            None
        );
    }

    #[test]
    fn a_scope_that_is_written_is_read_as_what_it_is() {
        for scope in LevelScope::ALL {
            let family = scope.family("5 %", ": all columns (2 tests)");
            assert_eq!(LevelScope::read(&family), Some(*scope));
        }
        assert_eq!(
            LevelScope::Table.family("5 %", ": y (1 test)"),
            "this table at 5 %: y (1 test)"
        );
        assert_eq!(LevelScope::read(""), None);
        assert_eq!(LevelScope::read("checks of another kind"), None);
    }
}
