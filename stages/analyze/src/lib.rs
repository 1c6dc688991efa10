//! The analyze stage: named tables from rows.
//!
//! A stage holds tables in order. One operator makes each of them, from the rows of the load cells or from earlier
//! tables of the same stage. Rows of cells that verification excluded never enter, and rows of cells that failed enter only
//! operators that [diagnose failures](Reads::AlsoFailed). Beside each table is its
//! lineage, which leads from any row to the raw request rows behind it.

pub mod awkward;
mod clock_steps;
mod coarse_sources;
mod columns;
mod frame;
mod intake;
mod keys;
mod kind;
mod lost_requests;
mod make;
mod needed;
mod operator;
mod operators;
mod other_words;
mod outline;
pub mod power;
mod side_labels;
mod sources;
mod surroundings;
mod too_few;

#[cfg(test)]
mod examples;
#[cfg(test)]
mod manual;
#[cfg(test)]
mod published;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_alike;
#[cfg(test)]
mod tests_of_awkward_nulls;
#[cfg(test)]
mod tests_of_bounds;
#[cfg(test)]
mod tests_of_conditions;
#[cfg(test)]
mod tests_of_doubts;
#[cfg(test)]
mod tests_of_families;
#[cfg(test)]
mod tests_of_files;
#[cfg(test)]
mod tests_of_mfu;
#[cfg(test)]
mod tests_of_nulls;
#[cfg(test)]
mod tests_of_operators;
#[cfg(test)]
mod tests_of_published_studies;
#[cfg(test)]
mod tests_of_resemblance;
#[cfg(test)]
mod tests_of_scale;
#[cfg(test)]
mod tests_of_turns;

pub use kind::Analyze;
pub use operator::Reads;
pub use operators::{OperatorPage, pages};
