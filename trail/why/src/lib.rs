//! Follows a number of a rendered report back to the raw request rows it was made from, and checks
//! that every number of a report still matches its artifacts.
//!
//! [`Document`] is the report with its trace, [`find`] finds numbers in it, and [`Provenance`] is
//! the lock that the report belongs to. [`why()`] explains one number; [`audit()`] checks all numbers.

mod audit;
mod check;
mod document;
mod error;
mod evidence;
mod explain;
mod index;
mod ledger;
mod lineage;
mod provenance;
mod query;
mod read;
mod render;
mod statement;
#[cfg(test)]
mod tests;

pub use audit::{Audit, Problem, audit};
pub use check::Format;
pub use document::{Document, Number};
pub use error::TrailError;
pub use evidence::{GateFinding, Gates, LoadCell, Server};
pub use explain::{Answer, TablePlace, why, why_value};
pub use lineage::{FileRows, MadeOf, RawRows, RowRange, TableRows};
pub use provenance::{Holder, Provenance, Seal};
pub use query::{Found, Query, find};
pub use statement::{Judge, Judged, Read, Statement, TablePart, statements};
