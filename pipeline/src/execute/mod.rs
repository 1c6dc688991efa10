//! Execution of a plan: cells, leases on live resources, the lock.

mod attempt;
mod blocks;
mod drive;
mod elsewhere;
mod exclusive;
mod live;
mod prepare;
mod pure;
mod reproduce;
mod scratch;
mod study_document;
mod summary;
mod task;

pub use drive::{Committed, Listener, RunOptions, run, run_prepared};
pub(crate) use live::resources_of;
pub use prepare::{Prepared, plan_to_run};
pub use reproduce::{Difference, ReproduceOptions, Reproduced, Verdict, Which, reproduce};
pub use study_document::StudyDocument;
pub use summary::{RunSummary, StudyResult};
