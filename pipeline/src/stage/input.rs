//! A cell's inputs: the cells of earlier stages, and the whole study.

use std::collections::BTreeMap;

use artifacts::Digest;
use serde::{Deserialize, Serialize};

use super::output::Artifact;
use super::settings::Json;
use super::status::CellStatus;
use crate::design::Place;
use crate::name::OutputName;
use crate::place::Coordinates;

/// One cell of an input stage, as its reader sees it.
#[derive(Clone, Debug)]
pub struct InputCell {
    /// The cell's full coordinates.
    pub coordinates: Coordinates,
    /// Its status.
    pub status: CellStatus,
    /// The reason if it is not ok.
    pub reason: Option<String>,
    /// The cell's canonical parameters.
    pub parameters: Json,
    /// Its outputs, by name. A cell that is not ok has none, except for a reader that also
    /// [reads evidence](super::StageKind::reads_evidence): it gets what the cell left behind.
    pub outputs: BTreeMap<String, Artifact>,
    /// The digest of its record.
    pub record: Option<Digest>,
    /// For live resources: how to reach them.
    pub live: Option<Json>,
}

/// An input of a cell: the cells of one needed stage that share its coordinates.
#[derive(Clone, Debug)]
pub struct Input {
    /// The stage's name in the experiment.
    pub stage: String,
    /// The stage's kind.
    pub kind: String,
    /// The stages that it needs itself, such as the server of a load.
    pub needs: Vec<String>,
    /// Every planned cell in axis order, including those left out or failed.
    pub cells: Vec<InputCell>,
}

/// One line of the ledger: the status of a planned cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedgerLine {
    /// The stage's name.
    pub stage: String,
    /// The cell's coordinates.
    pub coordinates: Coordinates,
    /// Its status.
    pub status: CellStatus,
    /// The reason, unless ok.
    pub reason: Option<String>,
    /// The digests of its evidence.
    pub evidence: BTreeMap<OutputName, Artifact>,
    /// For an executed measurement: data on its execution, from its record and the lock.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub execution: Option<Execution>,
}

/// The execution of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    /// Its place in the execution order of its run, from 1.
    pub order: u64,
    /// Its place in the design.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub place: Option<Place>,
    /// The number of executions under its recipe, including failures.
    pub executions: usize,
    /// The records of ok results under its recipe that are not in use.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub discarded: Vec<Digest>,
    /// Why the machine was not quiet when its run began.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub loud: Option<String>,
    /// The host that measured it, by a name that distinguishes hosts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub host: Option<String>,
    /// The person who measured it, if they chose to be named.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub by: Option<String>,
    /// When the measurement began: RFC 3339, UTC. Known if the host is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started: Option<String>,
}

/// A cell that should have contributed to a table and did not. The note `missing` of a table from `analyze` is a JSON
/// list of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MissingCell {
    /// The cell's coordinates.
    pub coordinates: Coordinates,
    /// Its status in the ledger, or the gate that excluded it, with the reason.
    pub reason: String,
}

impl MissingCell {
    /// Returns the status or the gate, without the reason.
    pub fn cause(&self) -> &str {
        self.reason.split(": ").next().unwrap_or(&self.reason)
    }

    /// Returns whether a report gives the reason as this text: in full, or as the status or gate alone.
    pub fn is_given_as(&self, text: &str) -> bool {
        text == self.reason || text == self.cause()
    }
}

/// The parts of the whole study that a stage writing about it may see.
#[derive(Clone, Debug)]
pub struct Study {
    /// The experiment in canonical form: parameters, axes, stages, exclusions, seed.
    pub spec: Json,
    /// The trail digest over every cell except those of stages that see the study.
    pub trail: Digest,
    /// The ledger over the same cells.
    pub ledger: Vec<LedgerLine>,
}
