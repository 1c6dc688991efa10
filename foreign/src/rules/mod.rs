//! The rules, a module for each family.

mod arith;
mod bind;
mod columns;
mod commands;
mod compare;
mod count;
mod derived;
mod estimates;
mod extremes;
mod formula;
mod identities;
mod ladder;
mod orderings;
mod quantifiers;
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
