//! Execution of a plan: cells, leases on live resources, the lock.

mod attempt;
mod drive;
mod exclusive;
mod live;
mod pure;
mod scratch;
mod summary;
mod task;

pub use drive::{RunOptions, run};
pub use summary::{RunSummary, StudyResult};
