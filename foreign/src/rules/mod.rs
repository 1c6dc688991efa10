//! The rules, a module for each family.

mod arith;
mod bind;
mod commands;
mod compare;
mod count;
mod formula;
mod identities;
mod quant;
mod refs;
mod rule;
mod same;
mod scope;
mod shape;
mod steps;
mod units;
mod words;

pub use rule::Rule;
pub(crate) use scope::{Scope, apply};
