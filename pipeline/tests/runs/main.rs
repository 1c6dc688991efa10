//! Plans and runs of synthetic experiments.

#[path = "../common/mod.rs"]
mod common;

mod design;
mod dry_run;
mod faults;
mod reproduce;
mod reuse;
