//! Checks whether compared cells differ only in what was meant to differ.
//!
//! Cells that agree on all axes but one form pairs. Each pair is compared facet by facet, for the
//! table `comparability` and the gate of the same name.

mod cache;
mod facets;
mod matrix;
mod tokens;

pub(crate) use facets::{FACETS, is_running_already, split_facets};
pub(crate) use matrix::{Pair, PairVerdict, Status, comparability_table, pairs};
