//! Reasons why a query has no answer.

use std::fmt;
use std::ops::Range;

use crate::functions::{AGGREGATES, SCALARS};
use crate::sandbox::ALLOWED;
use crate::text::{place_of_name, word_at};

/// The reason why a query cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryError {
    /// The text is not a query: SQLite's message, with the line and column (from 1) if known.
    Sql(String, Option<(usize, usize)>),
    /// There is no table of this name.
    NoTable(String),
    /// There is no column of this name.
    NoColumn(String),
    /// A column in `using` does not exist in both tables.
    NoJoinColumn(String),
    /// The query attempts a forbidden operation.
    Refused(String),
    /// The query is well-formed, but its evaluation failed.
    Failed(String),
    /// The answer or the work exceeded a limit.
    Limit(String),
    /// The caller raised the stop flag, or time ran out.
    Stopped,
}

impl QueryError {
    /// Returns the bytes of the query that are at fault, if the error names them.
    pub fn part(&self, sql: &str) -> Option<Range<usize>> {
        match self {
            Self::NoTable(name) | Self::NoColumn(name) | Self::NoJoinColumn(name) => {
                place_of_name(sql, name)
            }
            Self::Sql(_, at) => at.and_then(|at| word_at(sql, at)),
            Self::Refused(_) | Self::Failed(_) | Self::Limit(_) | Self::Stopped => None,
        }
    }

    /// Returns the function that the query calls and that does not exist.
    pub(crate) fn unknown_function(&self) -> Option<&str> {
        match self {
            Self::Sql(message, _) => message.strip_prefix("no such function: "),
            _ => None,
        }
    }

    /// Returns the names of the functions that a query may call.
    pub(crate) fn functions() -> impl Iterator<Item = &'static str> {
        [AGGREGATES, SCALARS, ALLOWED]
            .into_iter()
            .flatten()
            .copied()
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sql(message, Some((1, column))) => {
                write!(f, "the query is not valid SQL: {message} (column {column})")
            }
            Self::Sql(message, Some((line, column))) => {
                write!(
                    f,
                    "the query is not valid SQL: {message} (line {line}, column {column})"
                )
            }
            Self::Sql(message, None) => write!(f, "the query is not valid SQL: {message}"),
            Self::NoTable(name) => {
                write!(
                    f,
                    "the query reads the table `{name}`, which does not exist"
                )
            }
            Self::NoColumn(name) => {
                write!(
                    f,
                    "the query reads the column `{name}`, which its tables do not have"
                )
            }
            Self::NoJoinColumn(name) => {
                write!(
                    f,
                    "the query joins using `{name}`, which is not a column of both tables"
                )
            }
            Self::Refused(message) | Self::Failed(message) | Self::Limit(message) => {
                f.write_str(message)
            }
            Self::Stopped => f.write_str("the query was stopped"),
        }
    }
}

impl std::error::Error for QueryError {}
