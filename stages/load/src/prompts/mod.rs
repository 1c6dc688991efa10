//! Prompt sets: generated once per cell, the same for every engine and concurrency.

mod context;
mod counter;
mod error;
mod files;
mod foreign;
mod maker;
mod patterns;
mod repeated;
mod set;
mod spool;
mod supply;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use context::too_long;
pub(crate) use counter::{Counter, FileCounter, ServerCounter};
pub use error::PromptError;
pub(crate) use set::{Amount, Gathered};
pub use set::{LengthSource, Prompt, PromptSet};
pub(crate) use supply::{Demand, NoSupply, check as check_supply};
