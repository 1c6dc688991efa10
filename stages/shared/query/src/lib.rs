//! One SELECT over tables in memory.
//!
//! [`Database`] holds [`artifacts::Table`]s under names and answers one query with a table. The
//! engine is the bundled SQLite on one connection. The same tables and the same text give the same
//! bytes, because a query cannot read a clock, a file, the network or random numbers. The rows of a
//! query without a top-level `order by` are sorted by all columns, left to right. Quantiles and
//! deviations are those of the `statistics` crate.
//!
//! [`check`] decides during planning whether a query can work, from the columns alone.

mod check;
mod database;
mod error;
mod functions;
mod idioms;
mod limits;
mod sandbox;
mod text;
mod texts;

pub use check::{Checked, Expected, Kind, Shape, check, columns};
pub use database::{Answer, Database, quoted};
pub use error::QueryError;
pub use functions::{AGGREGATES, SCALARS};
pub use idioms::{hint, in_double_quotes};
pub use limits::Limits;
pub use sandbox::ALLOWED;
pub use text::{computes, mentioned, place_of_name, returns_all_columns, tables_with_dots};
