//! The completion of a cell: the one small object that declares a result complete.

use artifacts::{ActionKey, Digest, Maker};
use serde::{Deserialize, Serialize};

/// The largest completion in bytes.
pub(crate) const MOST_BYTES: u64 = 1 << 20;

/// The version of the document.
const FORMAT: u32 = 1;

/// A result of an action key, complete in the shared store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// The version of the document.
    format: u32,
    /// The action key.
    pub key: ActionKey,
    /// The record's digest.
    pub record: Digest,
    /// The experiment's name.
    pub experiment: String,
    /// The stage's name.
    pub stage: String,
    /// The cell's coordinates as text.
    pub coordinates: String,
    /// The cell's status word.
    pub status: String,
    /// The digest of the summary of the outputs: equal for equal outputs.
    pub outputs: Digest,
    /// Who executed it.
    pub maker: Maker,
}

impl Completion {
    /// Describes a record that will be entered.
    pub(crate) fn of(commit: &artifacts::Commit, maker: Maker) -> Self {
        Self {
            format: FORMAT,
            key: commit.key,
            record: commit.record,
            experiment: commit.experiment.clone(),
            stage: commit.stage.clone(),
            coordinates: commit.coordinates.clone(),
            status: commit.status.clone(),
            outputs: Digest::of(commit.outputs.as_bytes()),
            maker,
        }
    }

    /// Parses a completion; `None` for other bytes.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let read: Self = serde_json::from_slice(bytes).ok()?;
        (read.format == FORMAT).then_some(read)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        artifacts::json::pretty(self)
    }

    /// Returns whether the cell ended ok, so that the result may be reused.
    pub fn is_ok(&self) -> bool {
        self.status == "ok"
    }
}

/// What remains of a completion after a collection removed its result. Its number is never used again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Retired {
    format: u32,
    /// The collection that removed it.
    retired_by: u32,
}

impl Retired {
    pub(crate) fn new(collection: u32) -> Self {
        Self {
            format: FORMAT,
            retired_by: collection,
        }
    }
}

/// One of the completions of a key.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    /// A result that exists.
    Complete(Box<Completion>),
    /// A result that was removed.
    Retired,
    /// What cannot be read: one sentence. Its number is taken.
    Damaged(String),
}

impl Entry {
    /// Parses an entry; `None` for other bytes.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        if let Some(completion) = Completion::parse(bytes) {
            return Some(Self::Complete(Box::new(completion)));
        }
        let retired: Retired = serde_json::from_slice(bytes).ok()?;
        (retired.format == FORMAT).then_some(Self::Retired)
    }
}
