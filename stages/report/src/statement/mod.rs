//! Checked statements: prose with a licence, and the rules that claims are decided by.
//!
//! - `predicate` (with `token`): what is said of one row;
//! - `rule`: what is said of the rows of a table, the same in a template and in YAML;
//! - `judge`: whether it holds, and the rows that refute it;
//! - `licence`: the words each rule allows;
//! - `bound`: the functions of templates and the record of what they found;
//! - `again`: a rule judged by an audit.

mod again;
mod bound;
mod judge;
mod licence;
mod predicate;
mod rule;
mod steps;
mod token;

pub use again::{Judge, Rejudged, TablePart};
pub(crate) use bound::{Outcome, Recorded, install, statements_table};
pub(crate) use judge::judge;
pub(crate) use licence::{FREE, allows, checked, is_checked_before_number};
pub(crate) use predicate::Truth;
pub use rule::Rule;
