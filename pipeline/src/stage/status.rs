//! The status of a cell, and why it did not become ok.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::output::Output;
use super::settings::{Json, Step};
use crate::cause::Cause;

/// The status of a planned cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CellStatus {
    /// Executed (now or earlier) and complete.
    Ok,
    /// Executed and failed; the reason and the evidence are in the ledger.
    Failed,
    /// No progress within the declared heartbeat.
    Hung,
    /// It exceeded its time limit.
    Timeout,
    /// Not executed, for a reason outside the experiment (a failed input, a missing capability).
    Skipped,
    /// Left out by the experiment, with the declared reason.
    Excluded,
    /// Stopped by the user before it ended.
    Interrupted,
}

impl CellStatus {
    /// Returns the word used in tables, files and messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Hung => "hung",
            Self::Timeout => "timeout",
            Self::Skipped => "skipped",
            Self::Excluded => "excluded",
            Self::Interrupted => "interrupted",
        }
    }

    /// Every status.
    pub const EACH: [Self; 7] = [
        Self::Ok,
        Self::Failed,
        Self::Hung,
        Self::Timeout,
        Self::Skipped,
        Self::Excluded,
        Self::Interrupted,
    ];

    /// Returns the status for a word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::EACH.into_iter().find(|status| status.word() == word)
    }
}

/// Why a cell did not become `ok`.
#[derive(Debug)]
pub struct Failure {
    /// `Failed`, `Hung`, `Timeout`, `Skipped` or `Interrupted`.
    pub status: CellStatus,
    /// The reason, in one sentence.
    pub reason: String,
    /// The remedy for the user.
    pub hint: Option<String>,
    /// The evidence: partial rows, the last log lines.
    pub evidence: Vec<Output>,
    /// Facts about this execution, for the record. Boxed, to keep results that contain failures small.
    pub observations: Box<BTreeMap<String, Json>>,
    /// Doubts, shown to the user and kept in the record.
    pub warnings: Box<[String]>,
    /// The subject of the failure, boxed for the same reason.
    pub subject: Box<Subject>,
}

/// The subject of a failure.
#[derive(Debug, Default)]
pub struct Subject {
    /// The part of the stage's settings; empty for the whole stage.
    pub settings: Vec<Step>,
    /// If the failure lists several findings, an identity for each: its place and the rule it breaks, without the
    /// values of one measurement. A dry run compares these between measurements.
    pub findings: Vec<String>,
}

impl Failure {
    /// Makes a failure with status `Failed`.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::new(CellStatus::Failed, reason)
    }

    /// Makes a failure for a cell that cannot work on this machine because a tool or a permission is missing. It is
    /// skipped, and stages that see the whole study run without it.
    pub fn blocked(reason: impl Into<String>) -> Self {
        Self::new(CellStatus::Skipped, Cause::blocked(reason).to_string())
    }

    /// Makes a failure with a given status.
    pub fn new(status: CellStatus, reason: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.into(),
            hint: None,
            evidence: Vec::new(),
            observations: Box::default(),
            warnings: Box::default(),
            subject: Box::default(),
        }
    }

    /// Names the part of the stage's settings that the failure concerns.
    #[must_use]
    pub fn about(mut self, keys: &[&str]) -> Self {
        let step = |key: &&str| Step::Key((*key).to_owned());
        self.subject.settings = keys.iter().map(step).collect();
        self
    }

    /// Sets the identities of the failure's findings.
    #[must_use]
    pub fn findings(mut self, findings: Vec<String>) -> Self {
        self.subject.findings = findings;
        self
    }

    /// Adds the remedy for the user.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds evidence.
    #[must_use]
    pub fn evidence(mut self, output: Output) -> Self {
        self.evidence.push(output);
        self
    }

    /// Sets the observations and doubts collected until the failure.
    #[must_use]
    pub fn observed(mut self, observations: BTreeMap<String, Json>, warnings: Vec<String>) -> Self {
        self.observations = Box::new(observations);
        self.warnings = warnings.into();
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Failure {}
