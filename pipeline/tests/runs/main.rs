//! Plans and runs of synthetic experiments.

#[path = "../common/mod.rs"]
mod common;

mod faults;
mod reproduce;
mod reuse;
