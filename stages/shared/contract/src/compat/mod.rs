//! The figures that other load generators would print, recomputed from the rows of a cell.
//!
//! Each tool has one file, with the formulas read from its source, under the tool's own names. The
//! rows do not hold what a tool takes from events without text (a role, a finish reason, the
//! usage); each file states what replaces it. Where a tool prints 0 because it has no values, the
//! figure is undefined here.

mod aiperf;
mod figures;
mod guidellm;
mod sglang;
#[cfg(test)]
mod tests;
mod vllm;

pub use figures::{Bounds, Figure, Tool, figures};
