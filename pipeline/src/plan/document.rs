//! The plan as plain data, for people (rendered elsewhere) and for `--json`.

use artifacts::Digest;
use serde::Serialize;

use super::{DesignPlan, Reason};
use crate::place::WrittenCell;
use crate::stage::{CellStatus, Class};

/// What every cell of an experiment will do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The experiment's name.
    pub experiment: String,
    /// The profile, if any.
    pub profile: Option<String>,
    /// The cells in the order of the stages and axes, those left out by the experiment last in
    /// their stage.
    pub cells: Vec<PlannedCell>,
    /// The design, if the experiment declares one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub design: Option<DesignPlan>,
    /// The counts of each stage, in the order of the stages.
    pub stages: Vec<StageCounts>,
    /// The counts over all stages, taken over the cells; they equal the sums over `stages`.
    pub total: Counts,
    /// How long the cells that run will take, in seconds, from earlier executions; `None` if
    /// nothing is known of any of them. Cells decided later count as if they ran.
    pub estimate_s: Option<f64>,
    /// How many cells that may run have no estimate.
    pub without_estimate: usize,
    /// What the user should know: measurements to be replaced, several results under one key.
    pub notes: Vec<String>,
    /// What this machine lacks of what cells need; they are blocked.
    pub lacks: Vec<Lack>,
    /// The trail digest, if everything it covers is known already.
    pub trail: Option<Digest>,
}

/// Something that cells need and this machine does not have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Lack {
    /// What is missing.
    pub reason: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// One cell of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedCell {
    /// The cell.
    #[serde(flatten)]
    pub name: WrittenCell,
    /// What it will do.
    pub decision: Decision,
    /// How long it will take, in seconds, if it runs and anything is known.
    pub estimate_s: Option<f64>,
}

/// What a cell will do.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "decision")]
pub enum Decision {
    /// Nothing: its result is in the store.
    Cached {
        /// The record.
        record: Digest,
    },
    /// Execute.
    Run {
        /// Why it is not cached.
        reason: Reason,
    },
    /// Decided once the cells it reads have run; cached if their outputs are unchanged.
    After {
        /// The first of these cells.
        cell: String,
        /// How many there are; 0 for a cell that waits for the whole study.
        count: usize,
    },
    /// It cannot run.
    Blocked {
        /// The status it gets in the ledger.
        status: CellStatus,
        /// Why.
        reason: String,
    },
    /// The experiment leaves it out.
    Excluded {
        /// The declared reason.
        reason: String,
    },
}

/// How many cells do what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Cached.
    pub cached: usize,
    /// Will run.
    pub run: usize,
    /// Decided later.
    pub after: usize,
    /// Cannot run.
    pub blocked: usize,
    /// Left out by the experiment.
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
    /// The product of the lengths of its axes: cells before any is left out or added.
    pub product: usize,
    /// What its cells do; the sum is every planned cell, those left out included.
    pub counts: Counts,
}
