//! Judges a rule again outside a rendering, for audits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use artifacts::{Digest, Table, lock};
use pipeline::place::{Condition, Coordinates};
use serde::{Deserialize, Serialize};

use super::bound::{rows, values};
use super::judge::{judge_at, judge_claim};
use super::rule::Rule;
use crate::data::Miss;
use crate::trace::TraceSource;
use crate::view::{Opened, Part};

/// The table of one cell: its coordinates, digest and rows.
pub type TablePart = (Coordinates, Digest, Table);

/// The result of evaluating a rule, as in the table `statements`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejudged {
    /// `yes`, `no` or `unknown`.
    pub truth: &'static str,
    /// The number of rows examined; `None` for rules made of rules.
    pub n: Option<usize>,
    /// The number of those rows that meet the predicate.
    pub count: Option<usize>,
    /// Values of the evaluation, as JSON.
    pub values: String,
    /// The rows that contradict it, as JSON: digest of the table and row.
    pub against: String,
}

/// A rule as the column `rule` has it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Written {
    /// The number of sentences of its claim among which the level of its tests is divided.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub(super) alternatives: usize,
    /// Whether the values that it compares with bounds count with their intervals, as in a claim.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) intervals: bool,
    /// Whether its sentence has no restriction to an average, so that pooled findings count only if their direction does not
    /// change with the level.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) levels: bool,
    #[serde(flatten)]
    pub(super) rule: Rule,
}

fn one() -> usize {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_one(alternatives: &usize) -> bool {
    *alternatives == 1
}

/// The tables of an audit. Each is read and indexed once for all rules.
#[derive(Debug, Default)]
pub struct Judge(Mutex<BTreeMap<String, Arc<Opened>>>);

impl Judge {
    /// Judges a rule, given as the JSON of the column `rule`, over the tables that `read` returns.
    ///
    /// # Errors
    /// If the text is not a rule, a table cannot be read, or the rule does not fit its tables.
    pub fn judge_again(
        &self,
        rule: &str,
        read: &dyn Fn(&str) -> Result<Vec<TablePart>, String>,
    ) -> Result<Rejudged, String> {
        let written: Written =
            serde_json::from_str(rule).map_err(|e| format!("not a rule: {e}"))?;
        let look = |name: &str, condition: &Condition| self.open(name, read)?.choose(condition);
        let judge = match written.intervals {
            true => judge_claim,
            false => judge_at,
        };
        let judgement = judge(&written.rule, (written.alternatives, written.levels), &look)
            .map_err(|miss| match miss {
                Miss::Unread => "a table is not read".to_owned(),
                Miss::Wrong(message) => message,
            })?;
        Ok(Rejudged {
            truth: judgement.truth.word(),
            n: judgement.n(),
            count: judgement.count,
            values: values(&judgement),
            against: rows(&judgement),
        })
    }

    /// Returns the number of table rows that the rules have visited so far, including indexes.
    pub fn rows_visited(&self) -> u64 {
        lock(&self.0).values().map(|table| table.visited()).sum()
    }

    fn open(
        &self,
        name: &str,
        read: &dyn Fn(&str) -> Result<Vec<TablePart>, String>,
    ) -> Result<Arc<Opened>, Miss> {
        if let Some(opened) = lock(&self.0).get(name) {
            return Ok(opened.clone());
        }
        let part = |(coordinates, digest, table)| Part {
            coordinates,
            digest,
            content: Arc::new(table),
        };
        let parts = read(name)?.into_iter().map(part).collect();
        let place = name.split_once('.').unwrap_or(("", name));
        let opened = Arc::new(Opened::new(TraceSource::Table, place, parts, &[]));
        lock(&self.0).insert(name.to_owned(), opened.clone());
        Ok(opened)
    }
}
