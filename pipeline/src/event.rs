//! The events of a run, as one typed stream. Its consumers are the progress display and the JSON log.

use std::collections::BTreeMap;

use artifacts::Digest;
use serde::{Deserialize, Serialize};

use crate::stage::{CellStatus, Rates};

/// Why a run lets time pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rest {
    /// The machine works before the first launch, so that the first is like the others.
    WarmUp,
    /// The machine rests between two launches.
    CoolDown,
}

/// Something that happened during a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum Event {
    /// The run has planned its cells.
    PlanMade {
        /// Planned cells, excluding those that the experiment leaves out.
        cells: usize,
        /// Cells whose result is in the store.
        cached: usize,
        /// Cells that will execute.
        run: usize,
        /// Cells decided after others have run.
        after: usize,
        /// Cells that cannot run.
        blocked: usize,
    },
    /// The cells that have no result yet, after planning and whenever everything was planned again. Each of these cells
    /// ends once more, or is not reached.
    CellsLeft {
        /// The number of cells by stage; stages without such cells are left out.
        stages: BTreeMap<String, usize>,
    },
    /// A cell starts to execute.
    CellStarted {
        /// The cell.
        cell: String,
        /// The attempt, from 1; higher if an earlier attempt failed.
        attempt: u32,
    },
    /// A cell reports its progress.
    CellProgress {
        /// The cell.
        cell: String,
        /// Units done.
        done: u64,
        /// The total number of units, if known.
        total: Option<u64>,
        /// The name of the units.
        what: String,
        /// Rolling figures of a load in progress.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        rates: Option<Rates>,
        /// Lines that a starting engine wrote to its log since the last event.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        log: Vec<String>,
        /// Whether to show it at once.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        notice: bool,
    },
    /// A cell has ended.
    CellEnded {
        /// The cell.
        cell: String,
        /// Its stage.
        stage: String,
        /// Its status.
        status: CellStatus,
        /// The reason if it is not ok.
        reason: Option<String>,
        /// The remedy for the user.
        hint: Option<String>,
        /// Its duration in seconds.
        seconds: f64,
        /// Whether it did not execute because its result was cached.
        cached: bool,
    },
    /// A resource comes alive; for a cached one, this is not an execution of its cell.
    ResourceStarted {
        /// The cell.
        cell: String,
    },
    /// A resource was stopped.
    ResourceReleased {
        /// The cell.
        cell: String,
        /// What it left, for example logs. Its record names them as evidence.
        left: BTreeMap<String, Digest>,
    },
    /// A resource came up differently from its cached descriptor; everything that depends on it has been planned again.
    Replanned {
        /// The resource's cell.
        cell: String,
    },
    /// Another process holds an exclusive resource; the run waits for it.
    Waiting {
        /// The exclusive resource's name.
        exclusive: String,
    },
    /// The design requires time without a measurement.
    Resting {
        /// The kind of rest.
        rest: Rest,
        /// Its length in seconds.
        seconds: f64,
    },
    /// Something the user should know.
    Warning {
        /// The cell that it concerns, if any.
        cell: Option<String>,
        /// The message.
        message: String,
    },
    /// The run is over.
    RunEnded {
        /// Cells by status, including those that the experiment leaves out.
        counts: BTreeMap<String, usize>,
        /// The trail digest.
        trail: Digest,
    },
}
