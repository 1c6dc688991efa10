//! One SELECT over tables in memory.
//!
//! [`Database`] holds [`artifacts::Table`]s under names and answers one query with a table. The
//! engine is the bundled SQLite on one connection, so the same tables and the same text give
//! the same bytes: nothing that reads a clock, a file, the network or chance can be said. A
//! query without a top-level `order by` has its rows sorted by all columns, left to right.
//! Quantiles and deviations are those of the `statistics` crate.
//!
//! [`check`] says while planning whether a query can work, knowing only the columns.

mod check;
mod database;
mod error;
mod functions;
mod limits;
mod sandbox;
mod text;
mod texts;

pub use check::{Checked, Expected, Kind, Shape, check};
pub use database::{Answer, Database};
pub use error::QueryError;
pub use functions::{AGGREGATES, SCALARS};
pub use limits::Limits;
pub use sandbox::{ALLOWED, MEMORY};
pub use text::mentioned;
