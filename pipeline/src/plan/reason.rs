//! Why a cell executes: how its recipe differs from the nearest earlier action.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

use artifacts::{ActionKey, Digest, HistoryLine, Scalar};
use serde::Serialize;

use super::select::Forced;
use super::session::Session;
use crate::error::PipelineError;
use crate::ids::{CellId, StageId};
use crate::key::Difference;
use crate::lock::LockCell;
use crate::place::same_label;
use crate::record::Record;
use crate::stage::{CellStatus, Coordinates, Json};

/// Artifacts larger than this (bytes) are not read to explain a difference.
const LOOK_INSIDE: u64 = 1 << 20;

/// The number of cells per stage that are explained field by field; the rest are only reported as changed.
const EXPLAINED: usize = 64;

/// The number of earlier executions of a stage among which the most similar one is looked for.
const COMPARED: usize = 256;

/// Returns the execution whose cell has the most labels in common with a place; of several, the first.
fn nearest<'a>(
    at: &Coordinates,
    earlier: &'a [(Coordinates, HistoryLine)],
) -> Option<&'a HistoryLine> {
    let common = |other: &Coordinates| {
        let labels = other.0.iter();
        let same = |(axis, label): &&(String, Scalar)| {
            at.get(axis).is_some_and(|own| same_label(own, label))
        };
        labels.filter(same).count()
    };
    // `max_by_key` returns the last of several.
    let all = earlier.iter().rev();
    all.max_by_key(|(other, _)| common(other))
        .map(|(_, line)| line)
}

/// The reason why a cell executes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "why")]
pub enum Reason {
    /// No similar cell was ever executed.
    NeverRun,
    /// `--fresh` names its stage.
    Fresh,
    /// Its stage is the one that `--from` names, or depends on it.
    From,
    /// The same recipe was executed and did not end ok.
    Failed {
        /// Its status.
        status: CellStatus,
        /// The reason.
        reason: String,
    },
    /// An output is no longer in the store.
    OutputMissing {
        /// The output's name.
        output: String,
    },
    /// The bytes of an output changed in the store.
    OutputDamaged {
        /// The output's name.
        output: String,
    },
    /// The same recipe was executed, but its result is no longer in the store.
    ResultGone,
    /// The recipe differs from that of the nearest earlier action.
    Changed {
        /// The cell of that action, if it is a different one.
        #[serde(skip_serializing_if = "Option::is_none")]
        than: Option<String>,
        /// The fields that differ.
        differences: Vec<Difference>,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverRun => f.write_str("never run before"),
            Self::Fresh => f.write_str("forced by --fresh"),
            Self::From => f.write_str("forced by --from"),
            Self::Failed { status, reason } => {
                write!(
                    f,
                    "the earlier attempt ended as {}: {reason}",
                    status.word()
                )
            }
            Self::OutputMissing { output } => {
                write!(f, "its output `{output}` is missing from the store")
            }
            Self::OutputDamaged { output } => {
                write!(f, "its output `{output}` is damaged in the store")
            }
            Self::ResultGone => f.write_str("its earlier result is missing from the store"),
            Self::Changed { than, differences } => {
                if let Some(than) = than {
                    write!(f, "compared with `{than}`: ")?;
                }
                if differences.is_empty() {
                    return f.write_str("its recipe changed");
                }
                for (i, difference) in differences.iter().take(3).enumerate() {
                    let comma = if i == 0 { "" } else { "; " };
                    write!(f, "{comma}{difference}")?;
                }
                match differences.len() {
                    0..=3 => Ok(()),
                    n => write!(f, "; and {} more", n - 3),
                }
            }
        }
    }
}

/// An execution that a cell is compared with.
struct EarlierExecution {
    key: ActionKey,
    record: Digest,
    status: CellStatus,
    /// The other cell that it belongs to, if it is not one of the cell itself.
    than: Option<String>,
}

/// Finds reasons, and caches the values it reads.
pub(super) struct Reasons {
    explained: HashMap<StageId, usize>,
    values: std::cell::RefCell<HashMap<Digest, Option<Json>>>,
    /// Earlier executions of each stage, newest first, with their coordinates.
    earlier: HashMap<StageId, Vec<(Coordinates, HistoryLine)>>,
}

impl Reasons {
    pub(super) fn new() -> Self {
        Self {
            explained: HashMap::new(),
            values: Default::default(),
            earlier: HashMap::new(),
        }
    }

    /// Returns why a cell that must execute under `key` is not cached.
    pub(super) fn find(
        &mut self,
        session: &mut Session<'_>,
        cell: CellId,
        key: ActionKey,
    ) -> Result<Reason, PipelineError> {
        match session.forced[cell] {
            Forced::Fresh => return Ok(Reason::Fresh),
            Forced::From => return Ok(Reason::From),
            Forced::No => {}
        }
        if let Some(damage) = session.damaged.get(&cell) {
            let output = damage.output.clone();
            return Ok(match damage.changed.is_empty() {
                true => Reason::OutputMissing { output },
                false => Reason::OutputDamaged { output },
            });
        }
        let Some(earlier) = self.earlier(session, cell)? else {
            return Ok(Reason::NeverRun);
        };
        let than = earlier.than;
        let (stage, _) = session.graph.place(cell);
        let explained = self.explained.entry(stage).or_default();
        *explained += 1;
        if *explained > EXPLAINED {
            return Ok(Reason::Changed {
                than,
                differences: Vec::new(),
            });
        }
        let bytes = session.store.get_document(&earlier.record).ok();
        let record = bytes.and_then(|bytes| Record::parse(&bytes).ok());
        if earlier.key == key {
            let failed = record.filter(|r| r.status != CellStatus::Ok);
            return Ok(match failed {
                Some(r) => Reason::Failed {
                    status: r.status,
                    reason: r.reason.unwrap_or_default(),
                },
                None if earlier.status != CellStatus::Ok => Reason::Failed {
                    status: earlier.status,
                    reason: "see its record".to_owned(),
                },
                None => Reason::ResultGone,
            });
        }
        let Some(record) = record else {
            return Ok(Reason::Changed {
                than,
                differences: Vec::new(),
            });
        };
        let recipe = session.recipe(cell);
        let differences = recipe.differences(&record.recipe, &|digest| self.value(session, digest));
        Ok(Reason::Changed { than, differences })
    }

    /// Returns the execution to compare a cell with: its own in the lock, its newest in the store, or that of the cell of
    /// its stage with the most labels in common, the newest of these.
    fn earlier(
        &mut self,
        session: &Session<'_>,
        cell: CellId,
    ) -> Result<Option<EarlierExecution>, PipelineError> {
        let of_lock = |line: &LockCell| {
            Some(EarlierExecution {
                key: line.key?,
                record: line.record?,
                status: line.status,
                than: None,
            })
        };
        if let Some(reason) = session.lock_line(cell).and_then(of_lock) {
            return Ok(Some(reason));
        }
        let (stage, i) = session.graph.place(cell);
        let node = &session.graph.nodes[stage];
        let name = &node.stage.name;
        let history = |coordinates: Option<&str>, most: usize| {
            let experiment = &session.graph.experiment.name;
            session.store.history(experiment, name, coordinates, most)
        };
        let of_store = |line: HistoryLine, than: Option<String>| EarlierExecution {
            key: line.key,
            record: line.record,
            status: match line.cacheable {
                true => CellStatus::Ok,
                false => CellStatus::Failed,
            },
            than,
        };
        if let Some(own) = history(Some(&node.texts[i]), 1)?.into_iter().next() {
            return Ok(Some(of_store(own, None)));
        }
        let others = match self.earlier.entry(stage) {
            Entry::Occupied(cached) => cached.into_mut(),
            Entry::Vacant(vacant) => {
                let lines = history(None, COMPARED)?.into_iter();
                let placed = |line: HistoryLine| Some((line.coordinates.parse().ok()?, line));
                vacant.insert(lines.filter_map(placed).collect())
            }
        };
        let at = session
            .graph
            .experiment
            .coordinates(stage, &node.stage.cells[i].at);
        Ok(nearest(&at, others).map(|line| {
            let than = crate::place::cell_text(name, &line.coordinates);
            of_store(line.clone(), Some(than))
        }))
    }

    /// Returns the value of a JSON artifact of moderate size.
    fn value(&self, session: &Session<'_>, digest: &Digest) -> Option<Json> {
        let read = || {
            let size = session.store.size(digest).ok()??;
            if size > LOOK_INSIDE {
                return None;
            }
            serde_json::from_slice(&session.store.get(digest).ok()?).ok()
        };
        self.values
            .borrow_mut()
            .entry(*digest)
            .or_insert_with(read)
            .clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_cell_is_compared_with_the_cell_that_has_the_most_labels_in_common() {
        let line = |text: &str| HistoryLine {
            seq: 0,
            coordinates: text.to_owned(),
            key: ActionKey(Digest::of(text.as_bytes())),
            record: Digest::of(text.as_bytes()),
            status: "ok".to_owned(),
            cacheable: true,
            seconds: 1.0,
        };
        let earlier: Vec<(Coordinates, HistoryLine)> = [
            "rate=8,workload=long,rep=2",
            "rate=4,workload=chat,rep=2",
            "rate=4,workload=chat,rep=1",
        ]
        .map(|text| (text.parse().unwrap(), line(text)))
        .into();
        let than = |at: &str| {
            let at: Coordinates = at.parse().unwrap();
            nearest(&at, &earlier).unwrap().coordinates.clone()
        };
        assert_eq!(
            than("rate=2,workload=chat,rep=1"),
            "rate=4,workload=chat,rep=1"
        );
        assert_eq!(
            than("rate=8,workload=chat,rep=2"),
            "rate=8,workload=long,rep=2"
        );
        // Nothing in common: the newest.
        assert_eq!(
            than("rate=1,workload=x,rep=9"),
            "rate=8,workload=long,rep=2"
        );
    }
}
