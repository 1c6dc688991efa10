//! The store under ordinary use and under faults.

mod basics;
mod collect;
mod faults;
mod sharing;
mod support;
