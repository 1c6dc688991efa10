//! Checked statements: licensed prose, and the rules that decide claims.
//!
//! - `predicate` (with `token`): a condition on one row;
//! - `rule`: a condition on the rows of a table, the same in a template and in YAML;
//! - `judge`: whether a rule holds, and the rows that refute it (`judgement`), by kind of rule: `counting`, `values`,
//!   `steps`, `verdicts`;
//! - `share`: the levels of rules with alternatives;
//! - `chances`: what could license a sentence falsely;
//! - `confidence`: the levels of intervals;
//! - `interval`: the intervals of the values that claims compare;
//! - `levels`: pooled findings whose direction changes with the level;
//! - `licence`: the words that each rule allows;
//! - `bound`: the template functions, and the record of their results;
//! - `again`: rules judged again by an audit.

mod again;
mod bound;
mod chances;
mod confidence;
mod counting;
mod interval;
mod judge;
mod judgement;
mod levels;
mod licence;
mod predicate;
mod rule;
mod share;
mod steps;
#[cfg(test)]
mod tests_of_chances;
#[cfg(test)]
mod tests_of_intervals;
#[cfg(test)]
mod tests_of_levels;
#[cfg(test)]
mod tests_of_shares;
mod token;
mod values;
mod verdicts;

pub use again::{Judge, Rejudged, TablePart};
pub(crate) use bound::{Outcome, Recorded, install, statements_table};
pub(crate) use judge::{judge, judge_claim};
pub(crate) use levels::restricted;
pub(crate) use licence::{
    FREE, better_of_metric, checked, is_checked_before_number, licenses, needs_proof,
};
pub(crate) use predicate::Truth;
pub use rule::Rule;
pub(crate) use rule::{RuleKind, Side};
pub(crate) use share::{Share, claimed_alternatives};
