//! Cells as the user names them: `ladder`, `ladder[concurrency=8,rep=1]`, and with an output
//! `ladder[concurrency=8,rep=1].requests`, looked up in a lock.

use std::path::{Path, PathBuf};

use artifacts::Store;
use pipeline::lock::{Lock, LockCell, LockStage};
use pipeline::record::Record;

use crate::exit::Stop;
use crate::project::shown;

/// A pattern over cells: a stage, labels that must match, and possibly an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CellPattern {
    /// The stage.
    pub(crate) stage: String,
    /// Axis and label, as text.
    pub(crate) labels: Vec<(String, String)>,
    /// The output's name.
    pub(crate) output: Option<String>,
}

impl CellPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// If the text is none.
    pub(crate) fn parse(text: &str) -> Result<Self, Stop> {
        let wrong = |what: &str| {
            Stop::usage(format!("`{text}` names no cells: {what}"))
                .hint("write STAGE, STAGE[axis=label,…] or STAGE[axis=label,…].OUTPUT")
        };
        let (head, rest) = match text.find(['[', '.']) {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        let mut labels = Vec::new();
        let rest = if let Some(inside) = rest.strip_prefix('[') {
            let (inside, rest) = inside
                .split_once(']')
                .ok_or_else(|| wrong("`[` is never closed"))?;
            for pair in inside.split(',').filter(|p| !p.trim().is_empty()) {
                let (axis, label) = pair
                    .split_once('=')
                    .ok_or_else(|| wrong("expected axis=label"))?;
                labels.push((axis.trim().to_owned(), label.trim().to_owned()));
            }
            rest
        } else {
            rest
        };
        let output = match rest.strip_prefix('.') {
            Some("") => return Err(wrong("the output's name is missing")),
            Some(name) => Some(name.to_owned()),
            None if rest.is_empty() => None,
            None => return Err(wrong("expected `.OUTPUT` after `]`")),
        };
        if head.is_empty() {
            return Err(wrong("the stage's name is missing"));
        }
        Ok(Self {
            stage: head.to_owned(),
            labels,
            output,
        })
    }

    /// Returns whether a cell's coordinates text has all the labels.
    pub(crate) fn matches(&self, coordinates: &str) -> bool {
        self.labels.iter().all(|(axis, label)| {
            let plain = format!("{axis}={label}");
            let quoted = format!("{axis}={}", serde_json::Value::String(label.clone()));
            coordinates
                .split(',')
                .any(|pair| pair == plain || pair == quoted)
        })
    }

    /// Returns the stage and its matching cells.
    ///
    /// # Errors
    /// If there is no such stage or no cell matches.
    pub(crate) fn find<'lock>(
        &self,
        lock: &'lock Lock,
    ) -> Result<(&'lock LockStage, Vec<&'lock LockCell>), Stop> {
        let Some(stage) = lock.stages.iter().find(|s| s.name == self.stage) else {
            let names: Vec<&str> = lock.stages.iter().map(|s| s.name.as_str()).collect();
            return Err(
                Stop::nothing(format!("the lock has no stage `{}`", self.stage))
                    .hint(format!("it has: {}", names.join(", "))),
            );
        };
        let cells: Vec<&LockCell> = stage
            .cells
            .iter()
            .filter(|c| self.matches(&c.coordinates))
            .collect();
        if cells.is_empty() {
            let first = stage.cells.first().map_or("", |c| c.coordinates.as_str());
            return Err(
                Stop::nothing(format!("no cell of `{}` matches", self.stage)).hint(format!(
                    "its first cell is {}",
                    pipeline::cell::cell_text(&stage.name, first)
                )),
            );
        }
        Ok((stage, cells))
    }
}

/// Returns where the lock of an experiment lies: `NAME.lock`, with a profile `NAME.PROFILE.lock`.
pub(crate) fn lock_file(experiment: &Path, profile: Option<&str>) -> PathBuf {
    match profile {
        Some(profile) => experiment.with_extension(format!("{profile}.lock")),
        None => experiment.with_extension("lock"),
    }
}

/// Reads the lock of an experiment.
///
/// # Errors
/// If there is none yet, or it cannot be read.
pub(crate) fn read_lock(experiment: &Path, profile: Option<&str>) -> Result<Lock, Stop> {
    if !experiment.exists() {
        return Err(Stop::usage(format!(
            "{}: there is no such file",
            experiment.display()
        )));
    }
    let path = lock_file(experiment, profile);
    let lock = Lock::read(&path).map_err(Stop::failed)?;
    lock.ok_or_else(|| {
        Stop::nothing(format!(
            "{} is not there: this experiment has not run yet",
            shown(&path)
        ))
        .hint(format!("benchtrail run {}", shown(experiment)))
    })
}

/// Returns the record of an executed cell.
///
/// # Errors
/// If the cell was not executed, or its record is not in the store or damaged.
pub(crate) fn read_record(store: &Store, stage: &str, cell: &LockCell) -> Result<Record, Stop> {
    let name = pipeline::cell::cell_text(stage, &cell.coordinates);
    let Some(digest) = cell.record else {
        let reason = cell.reason.as_deref().unwrap_or("it never ran");
        return Err(Stop::nothing(format!(
            "{name} has no record: {} ({reason})",
            cell.status.word()
        )));
    };
    let bytes = store.get(&digest)?;
    Record::parse(&bytes).map_err(|e| Stop::damaged(format!("the record {digest} of {name}: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_a_stage_labels_and_an_output() {
        let pattern = CellPattern::parse("ladder[concurrency=8, rep=1].requests").unwrap();
        assert_eq!(pattern.stage, "ladder");
        assert_eq!(
            pattern.labels,
            [
                ("concurrency".into(), "8".into()),
                ("rep".into(), "1".into())
            ]
        );
        assert_eq!(pattern.output.as_deref(), Some("requests"));
        assert_eq!(
            CellPattern::parse("results.cells.lineage")
                .unwrap()
                .output
                .as_deref(),
            Some("cells.lineage")
        );
    }

    #[test]
    fn text_that_is_no_pattern_is_refused() {
        for text in [
            "",
            "[rep=1]",
            "ladder[rep=1",
            "ladder[rep]",
            "ladder.",
            "ladder[rep=1]requests",
        ] {
            assert!(CellPattern::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn labels_match_whole_and_quoted_labels() {
        let pattern = CellPattern::parse("ladder[rep=1]").unwrap();
        assert!(pattern.matches("concurrency=8,rep=1"));
        assert!(pattern.matches("rep=\"1\""));
        assert!(!pattern.matches("concurrency=8,rep=12"));
    }
}
