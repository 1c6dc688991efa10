//! The plan as plain data, for display (rendered elsewhere) and for `--json`.

use artifacts::Digest;
use serde::Serialize;

use super::{DesignPlan, Reason};
use crate::place::WrittenCell;
use crate::stage::{CellStatus, Class};

/// The decisions for every cell of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The experiment's name.
    pub experiment: String,
    /// The profile, if any.
    pub profile: Option<String>,
    /// The cells in stage and axis order, with excluded cells last in their stage.
    pub cells: Vec<PlannedCell>,
    /// The design, if the experiment declares one. [`plan_to_run`](crate::plan_to_run) leaves it out, because its noise
    /// takes a look into the table of each measured cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub design: Option<DesignPlan>,
    /// The counts of each stage, in stage order.
    pub stages: Vec<StageCounts>,
    /// The counts over all cells, which equal the sums over `stages`.
    pub total: Counts,
    /// The expected total duration of the cells that run, in seconds, from earlier executions; `None` if no duration is
    /// known. Cells decided later count as if they ran.
    pub estimate_s: Option<f64>,
    /// The number of cells that may run and have no estimate.
    pub without_estimate: usize,
    /// The load of the cells that run, are decided later or are blocked; `None` if none of them uses a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub demand: Option<PlannedDemand>,
    /// Notes for the user: measurements that will be replaced, several results under one key.
    pub notes: Vec<String>,
    /// Columns of results that will have no values, because cells measure too few requests.
    pub warnings: Vec<String>,
    /// What cells need and this machine lacks; these cells are blocked.
    pub lacks: Vec<Lack>,
    /// The trail digest, if everything it covers is already known.
    pub trail: Option<Digest>,
}

/// The load that cells without a cached result put on servers, as far as their settings say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PlannedDemand {
    /// The number of cells.
    pub cells: usize,
    /// The measured requests of the cells whose number is known.
    pub requests: u64,
    /// The number of cells whose requests depend on the server's answers.
    pub uncounted_cells: usize,
    /// The least time that the declared rates and durations take, in seconds. Cells that wait for answers count as 0.
    pub seconds: f64,
}

/// Something that cells need and this machine lacks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Lack {
    /// What is missing.
    pub reason: String,
    /// The remedy.
    pub hint: Option<String>,
}

/// One cell of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedCell {
    /// The cell.
    #[serde(flatten)]
    pub name: WrittenCell,
    /// The decision.
    pub decision: Decision,
    /// The expected duration in seconds, if the cell runs and a duration is known.
    pub estimate_s: Option<f64>,
}

/// A decision for a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "decision")]
pub enum Decision {
    /// The cell does nothing, because its result is in the store.
    Cached {
        /// The record.
        record: Digest,
    },
    /// The cell executes.
    Run {
        /// The reason why it is not cached.
        reason: Reason,
    },
    /// Decided after the cells it reads have run; cached if their outputs are unchanged.
    After {
        /// The first of these cells.
        cell: String,
        /// The number of these cells; 0 for a cell that waits for the whole study.
        count: usize,
    },
    /// The cell cannot run.
    Blocked {
        /// Its status in the ledger.
        status: CellStatus,
        /// The reason.
        reason: String,
    },
    /// The experiment leaves it out.
    Excluded {
        /// The declared reason.
        reason: String,
    },
}

/// The number of cells for each decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Cached cells.
    pub cached: usize,
    /// Cells that will run.
    pub run: usize,
    /// Cells decided later.
    pub after: usize,
    /// Cells that cannot run.
    pub blocked: usize,
    /// Cells left out by the experiment.
    pub excluded: usize,
}

impl Counts {
    /// Returns the sum.
    pub fn sum(&self) -> usize {
        self.cached + self.run + self.after + self.blocked + self.excluded
    }

    pub(super) fn count(&mut self, decision: &Decision) {
        *match decision {
            Decision::Cached { .. } => &mut self.cached,
            Decision::Run { .. } => &mut self.run,
            Decision::After { .. } => &mut self.after,
            Decision::Blocked { .. } => &mut self.blocked,
            Decision::Excluded { .. } => &mut self.excluded,
        } += 1;
    }
}

/// The counts of one stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageCounts {
    /// The stage's name.
    pub stage: String,
    /// Its class.
    pub class: Class,
    /// The product of the lengths of its axes: the number of cells before exclusions and inclusions.
    pub product: usize,
    /// The counts of its cells; their sum is the number of planned cells, including those left out.
    pub counts: Counts,
}
