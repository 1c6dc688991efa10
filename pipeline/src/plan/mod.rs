//! The plan: what each cell will do and why, determined without starting anything.

mod build;
mod damage;
mod design;
mod document;
mod elsewhere;
mod foreign;
mod launches;
mod lines;
mod measured;
mod past;
mod reason;
mod rented;
mod resolve;
mod select;
mod session;
mod too_few;
mod until;

pub(crate) use build::document;
pub use build::{Wanted, measures_here, plan, wanted};
pub use design::{DesignPlan, NoiseSource, Smallest};
pub use document::{Counts, Decision, Lack, Plan, PlannedCell, PlannedDemand, StageCounts};
pub use elsewhere::{AwayFailure, Elsewhere, Shard, ShardCell, placed_facets, shards};
pub use launches::{LaunchedCell, Launches};
pub use reason::Reason;
pub use rented::{RentedMachine, rented_machines};
pub(crate) use session::{Outcome, Session, State};
pub use until::relative_half_width;

use std::collections::BTreeSet;
use std::sync::Arc;

use artifacts::Digest;

/// What to plan, and how.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// Selectors (`ladder`, `ladder[rep=1,workload=short-decode]`): execute only these cells and those they need. Empty
    /// means all. Cached cells count as done in either case.
    pub only: Vec<String>,
    /// Execute this stage and all that depend on it again, except measurements (name those in `fresh`).
    pub from: Option<String>,
    /// Stages to execute again although they are cached; their earlier results are kept.
    pub fresh: Vec<String>,
    /// Take resources and measurements from the lock, regardless of the machine.
    pub locked: bool,
    /// Which measurements of others may be used, overriding the experiment.
    pub reuse: Option<crate::reuse::Reuse>,
    /// Launches and measurements in the store that may be used, if not all: the store of a machine that works for
    /// several runs also contains results of others.
    pub known_records: Option<Arc<BTreeSet<Digest>>>,
    /// The results of a scheduler for this run.
    pub elsewhere: Option<Arc<Elsewhere>>,
}
