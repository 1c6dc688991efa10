//! The documents that coordinator and machines exchange through the shared store.

use std::collections::BTreeMap;
use std::path::PathBuf;

use artifacts::{Digest, Maker};
use pipeline::place::WrittenCell;
use pipeline::{CellStatus, Experiment, Permit, ShardCell};
use remote::Remote;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::ClusterError;

/// The hidden command by which a job starts the binary.
pub const COMMAND: &str = "__shard";

/// The version of the documents.
pub(crate) const FORMAT: u32 = 1;

/// The study, as every machine of a run gets it. It is an object of the shared store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StudyDocument {
    pub(crate) format: u32,
    pub(crate) experiment: Experiment,
    /// The experiment's folder. Relative paths in parameters start there.
    pub(crate) folder: PathBuf,
    /// What the user consented to.
    pub(crate) permit: Permit,
}

/// The work of a shard.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) format: u32,
    pub(crate) study: Digest,
    /// The cells to execute, and those that they need.
    pub(crate) only: Vec<String>,
    /// All cells that the coordinator waits for.
    pub(crate) cells: Vec<ShardCell>,
    /// The name of the person who runs the study, if records may contain it.
    pub(crate) by: Option<String>,
    /// The person whom the shared store names as maker.
    pub(crate) told_by: Option<String>,
    /// The machine's folder that keeps engines, if the study names one.
    pub(crate) folder: Option<String>,
    /// The jobs that executed this shard earlier and ended early.
    pub(crate) earlier: Vec<Ended>,
    /// The SHA-256 that the program must have, if nothing checked it before the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) program: Option<String>,
}

/// How a job ended, with Slurm's names of states.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) job: String,
    pub(crate) state: String,
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub(crate) reason: String,
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub(crate) node: String,
    /// Everything that the scheduler reports about it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub(crate) details: BTreeMap<String, String>,
}

/// Which job executes a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Taken {
    pub(crate) job: String,
}

/// A record that is complete in the shared store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DoneCell {
    #[serde(flatten)]
    pub(crate) name: WrittenCell,
    pub(crate) record: Digest,
    pub(crate) status: CellStatus,
    pub(crate) maker: Maker,
}

impl DoneCell {
    /// Returns the last segment of the document's name: the shard's name, and a number.
    pub(crate) fn document(shard: &str, number: usize) -> String {
        format!("{shard}.{number:06}")
    }
}

/// The result of a shard.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct End {
    pub(crate) job: String,
    pub(crate) node: String,
    /// Cells without a record, with the reason.
    pub(crate) without: Vec<Without>,
    /// Why nothing was executed.
    pub(crate) refused: Option<String>,
    /// What to do about it.
    pub(crate) hint: Option<String>,
}

/// A cell without a record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Without {
    #[serde(flatten)]
    pub(crate) name: WrittenCell,
    pub(crate) status: CellStatus,
    pub(crate) reason: String,
}

/// Returns the name of a document of a run.
pub(crate) fn name(run: &str, document: &str) -> String {
    format!("jobs/{run}/{document}")
}

/// Reads a document; `None` if it does not exist.
pub(crate) fn read<T: DeserializeOwned>(
    remote: &Remote,
    name: &str,
) -> Result<Option<T>, ClusterError> {
    let Some(bytes) = remote.document(name)? else {
        return Ok(None);
    };
    parse(remote, name, &bytes).map(Some)
}

/// Parses a document.
pub(crate) fn parse<T: DeserializeOwned>(
    remote: &Remote,
    name: &str,
    bytes: &[u8],
) -> Result<T, ClusterError> {
    serde_json::from_slice(bytes).map_err(|e| {
        ClusterError::Broken(format!("{name} in {} cannot be read: {e}", remote.url()))
    })
}

/// Puts a document if its name is free; returns whether it was.
pub(crate) fn put<T: Serialize>(
    remote: &Remote,
    name: &str,
    document: &T,
) -> Result<bool, ClusterError> {
    Ok(remote.put_document(name, &artifacts::json::pretty(document))?)
}
