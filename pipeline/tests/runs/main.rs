//! Plans and runs of synthetic experiments.

#[path = "../common/mod.rs"]
mod common;

mod design;
mod dry_run;
mod faults;
mod kept_locks;
mod reproduce;
mod reuse;
