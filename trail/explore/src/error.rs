//! Why a question cannot be answered: an HTTP status and two sentences.

use std::fmt;

use artifacts::{StoreError, TableError};
use serde_json::json;
use why::TrailError;

use crate::catalogue::CatalogueError;
use crate::reply::{Freshness, Reply};
use crate::site::QUERY_TIME;

/// The remedy for a query that exceeds a limit of the explorer.
const CHEAPER: &str = "add a `limit`, or ask `benchtrail sql`";

/// The kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The question is invalid (400).
    Question,
    /// The named thing does not exist (404).
    Nothing,
    /// A required token was not given (403).
    Denied,
    /// The request is not possible at present (409).
    Conflict,
    /// The answer would be larger than a page can use (413).
    TooMuch,
    /// Too many questions wait (503).
    Busy,
    /// An object is missing or damaged, or the file system reports an error (500).
    Store,
}

/// Why a question cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) fault: Fault,
    pub(crate) message: String,
    pub(crate) hint: String,
}

impl Failure {
    pub(crate) fn new(fault: Fault, message: impl fmt::Display, hint: impl Into<String>) -> Self {
        Self {
            fault,
            message: message.to_string(),
            hint: hint.into(),
        }
    }

    pub(crate) fn question(message: impl fmt::Display, hint: impl Into<String>) -> Self {
        Self::new(Fault::Question, message, hint)
    }

    pub(crate) fn nothing(message: impl fmt::Display, hint: impl Into<String>) -> Self {
        Self::new(Fault::Nothing, message, hint)
    }

    pub(crate) fn store(message: impl fmt::Display) -> Self {
        Self::new(Fault::Store, message, "`benchtrail fsck` checks the store")
    }

    /// Returns the reply for the failure.
    pub(crate) fn reply(&self) -> Reply {
        let status = match self.fault {
            Fault::Question => 400,
            Fault::Denied => 403,
            Fault::Nothing => 404,
            Fault::Conflict => 409,
            Fault::TooMuch => 413,
            Fault::Store => 500,
            Fault::Busy => 503,
        };
        let body = json!({"error": self.message, "hint": self.hint});
        Reply {
            status,
            ..Reply::json(&body, Freshness::Never)
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::store(error)
    }
}

impl From<TableError> for Failure {
    fn from(error: TableError) -> Self {
        match error.lacks_column() {
            true => Self::question(error, "choose one of these columns"),
            false => Self::store(error),
        }
    }
}

impl From<TrailError> for Failure {
    fn from(error: TrailError) -> Self {
        match &error {
            TrailError::NoNumber { hint, .. } => Self::nothing(&error, hint.clone()),
            TrailError::NoReport(_) | TrailError::NoTrace(_) => {
                Self::nothing(error, "run the experiment again")
            }
            _ => Self::store(error),
        }
    }
}

impl From<CatalogueError> for Failure {
    fn from(error: CatalogueError) -> Self {
        match error {
            CatalogueError::Store(error) => error.into(),
            CatalogueError::Damaged(what) => Self::store(what),
            CatalogueError::Table(error) => error.into(),
            CatalogueError::Query(error, hint) => match error {
                query::QueryError::NoTable(_) => Self::nothing(error, hint),
                query::QueryError::Limit(_) => Self::new(Fault::TooMuch, error, CHEAPER),
                // If the client has left, nobody reads this.
                query::QueryError::Stopped => Self::new(
                    Fault::TooMuch,
                    format!("the query takes more than {} seconds", QUERY_TIME.as_secs()),
                    CHEAPER,
                ),
                _ => Self::question(error, hint),
            },
        }
    }
}
