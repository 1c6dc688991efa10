//! The rules, a module for each family.

mod arith;
mod bind;
mod boundary;
mod columns;
mod commands;
mod compare;
mod count;
mod derived;
mod estimates;
mod extremes;
mod formula;
mod grid;
mod hardware;
mod identities;
mod keyed;
mod keys;
mod labels;
mod ladder;
mod orderings;
mod pairing;
mod quantifiers;
mod refs;
mod restated;
mod rule;
mod same;
mod scaling;
mod scope;
mod sentence;
mod shape;
mod steps;
mod units;
mod verdicts;
mod words;

pub use rule::Rule;
pub(crate) use scope::{Scope, apply};
