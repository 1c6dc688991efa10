//! What happens during a run, as one typed stream: the progress display and the JSON log are
//! its consumers.

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
    /// It is known what the run starts with.
    PlanMade {
        /// Planned cells, those left out by the experiment not counted.
        cells: usize,
        /// Cells whose result is in the store.
        cached: usize,
        /// Cells that will execute.
        run: usize,
        /// Cells decided when others have run.
        after: usize,
        /// Cells that cannot run.
        blocked: usize,
    },
    /// A cell starts to execute.
    CellStarted {
        /// The cell.
        cell: String,
        /// From 1; higher when an earlier attempt failed.
        attempt: u32,
    },
    /// A cell tells how far it has come.
    CellProgress {
        /// The cell.
        cell: String,
        /// Units done.
        done: u64,
        /// Units in all, if known.
        total: Option<u64>,
        /// What the units are.
        what: String,
        /// Rolling figures, of a load that goes on.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        rates: Option<Rates>,
        /// Lines that the engine wrote to its log since the last time, while it starts.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        log: Vec<String>,
    },
    /// Nothing more is to be done for a cell.
    CellEnded {
        /// The cell.
        cell: String,
        /// Its stage.
        stage: String,
        /// What became of it.
        status: CellStatus,
        /// Why it is not ok.
        reason: Option<String>,
        /// What the user can do.
        hint: Option<String>,
        /// How long it took, in seconds.
        seconds: f64,
        /// Whether it did not execute.
        cached: bool,
    },
    /// A resource starts to live; for a cached one this is not an execution of its cell.
    ResourceStarted {
        /// The cell.
        cell: String,
    },
    /// A resource was stopped.
    ResourceReleased {
        /// The cell.
        cell: String,
        /// What it left, for instance logs: its record names them as evidence.
        left: BTreeMap<String, Digest>,
    },
    /// A resource came up differently from its cached descriptor; everything that depends on it
    /// was planned again.
    Replanned {
        /// The resource's cell.
        cell: String,
    },
    /// Another process holds an exclusive resource; the run waits for it.
    Waiting {
        /// The exclusive resource's name.
        exclusive: String,
    },
    /// The design asks for time without a measurement.
    Resting {
        /// What for.
        rest: Rest,
        /// How long, in seconds.
        seconds: f64,
    },
    /// Something the user should know.
    Warning {
        /// The cell, if it is about one.
        cell: Option<String>,
        /// What.
        message: String,
    },
    /// The run is over.
    RunEnded {
        /// Cells by status, those left out by the experiment included.
        counts: BTreeMap<String, usize>,
        /// The trail digest.
        trail: Digest,
    },
}
