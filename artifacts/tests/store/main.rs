//! The store under ordinary use and under faults.

mod basics;
mod support;
