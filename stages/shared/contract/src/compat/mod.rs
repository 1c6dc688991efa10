//! The figures other load generators would print, recomputed from the rows of a cell.
//!
//! One file for each tool, its formulas as read in its source, under its own names. What a tool
//! takes from events that carry no text (a role, a finish reason, the usage) is not in the rows;
//! each file says what stands in for it. What a tool prints as 0 for want of values is undefined
//! here.

mod aiperf;
mod figures;
mod guidellm;
mod sglang;
#[cfg(test)]
mod tests;
mod vllm;

pub use figures::{Bounds, Figure, Tool, figures};
