//! Execution of a plan: cells, leases on live resources, the lock.

mod attempt;
mod blocks;
mod bound;
mod drive;
mod elsewhere;
mod exclusive;
mod live;
mod options;
mod prepare;
mod pure;
mod reproduce;
mod run;
mod scratch;
mod study_document;
mod summary;
mod task;

pub(crate) use live::resources_of;
pub use options::{Committed, Listener, RunOptions};
pub use prepare::{Prepared, plan_to_run};
pub use reproduce::{Difference, ReproduceOptions, Reproduced, Reproduction, Which, reproduce};
pub use run::{run, run_prepared};
pub use study_document::StudyDocument;
pub use summary::{RunSummary, StudyResult};
