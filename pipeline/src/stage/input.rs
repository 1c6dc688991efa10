//! What a cell reads: the cells of earlier stages, and of the whole study.

use std::collections::BTreeMap;

use artifacts::Digest;
use serde::{Deserialize, Serialize};

use super::output::Artifact;
use super::settings::Json;
use super::status::CellStatus;
use crate::design::Place;
use crate::name::OutputName;
use crate::place::Coordinates;

/// One cell of an input stage, as the cell that reads it sees it.
#[derive(Clone, Debug)]
pub struct InputCell {
    /// The cell's full coordinates.
    pub coordinates: Coordinates,
    /// Its status; only `Ok` cells have outputs.
    pub status: CellStatus,
    /// Why it is not ok.
    pub reason: Option<String>,
    /// The cell's canonical parameters.
    pub parameters: Json,
    /// Its outputs by name.
    pub outputs: BTreeMap<String, Artifact>,
    /// The digest of its record.
    pub record: Option<Digest>,
    /// For resources that are alive now: how to reach them.
    pub live: Option<Json>,
}

/// An input of a cell: the cells of one needed stage that share its coordinates.
#[derive(Clone, Debug)]
pub struct Input {
    /// The stage's name in the experiment.
    pub stage: String,
    /// The stage's kind.
    pub kind: String,
    /// Every planned cell, in the order of its axes, including those left out or failed.
    pub cells: Vec<InputCell>,
}

/// One line of the ledger: the status of a planned cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedgerLine {
    /// The stage's name.
    pub stage: String,
    /// The cell's coordinates.
    pub coordinates: Coordinates,
    /// What became of it.
    pub status: CellStatus,
    /// Why, unless ok.
    pub reason: Option<String>,
    /// Digests of what is left as evidence.
    pub evidence: BTreeMap<OutputName, Artifact>,
    /// For a measurement that was executed: how that went, as its record and the lock tell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub execution: Option<Execution>,
}

/// How a measurement came about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    /// Its place in the order of execution of its run, from 1.
    pub order: u64,
    /// Where the design put it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub place: Option<Place>,
    /// How often it was executed under its recipe, failures included.
    pub executions: usize,
    /// The records of ok results under its recipe that are not the one in use.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub discarded: Vec<Digest>,
    /// Why the machine was not quiet when its run began.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub loud: Option<String>,
    /// The host that measured it: a name that tells hosts apart.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub host: Option<String>,
    /// Who measured it, if they chose to be named.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub by: Option<String>,
    /// When the measurement began: RFC 3339, UTC. Known where the host is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started: Option<String>,
}

/// A cell that should have contributed to a table and did not. The note `missing` of a table of
/// `analyze` is a JSON list of them.
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

    /// Returns whether a text is how a report gives the reason: all of it, or the status or gate alone.
    pub fn is_given_as(&self, text: &str) -> bool {
        text == self.reason || text == self.cause()
    }
}

/// What a stage that writes about the whole study may see.
#[derive(Clone, Debug)]
pub struct Study {
    /// The experiment in canonical form: parameters, axes, stages, exclusions, seed.
    pub spec: Json,
    /// The trail digest over every cell but those of stages that see the study.
    pub trail: Digest,
    /// The ledger over the same cells.
    pub ledger: Vec<LedgerLine>,
}
