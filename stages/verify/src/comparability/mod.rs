//! Whether cells that are compared differ in what was meant to differ, and in nothing else.
//!
//! Cells that agree on every axis but one are pairs. Each pair is looked at facet by facet;
//! what comes out is the table `comparability` and the gate of the same name.

mod cache;
mod facets;
mod matrix;
mod tokens;

pub(crate) use facets::{AS_DECLARED, FACETS, is_running_already};
pub(crate) use matrix::{Pair, PairVerdict, Status, comparability_table, pairs};
