//! The part of the ledger of planned cells that the lock holds: the stages, and the status of each cell.

use artifacts::Scalar;
use pipeline::CellStatus;
use pipeline::lock::{Lock, LockCell, LockClass, LockStage};
use pipeline::place::Condition;

use crate::document::Number;

/// Returns the stages that a report knows: all except those that see the study.
fn stages(lock: &Lock) -> impl Iterator<Item = &LockStage> {
    lock.stages.iter().filter(|s| s.class != LockClass::Study)
}

/// Returns a value of the table `ledger.stages`; `None` if the lock does not have it.
pub(crate) fn value(lock: &Lock, number: &Number) -> Option<Scalar> {
    if number.output.as_deref() != Some("ledger.stages") {
        return None;
    }
    let names = number.row_key.as_ref()?.labels("stage")?;
    let is_named = |s: &&LockStage| names.iter().any(|n| n.as_str() == Some(&s.name));
    let stage = stages(lock).find(is_named)?;
    let statuses = || stage.cells.iter().map(|c| c.status);
    let is_trouble = |s: &CellStatus| !matches!(s, CellStatus::Ok | CellStatus::Excluded);
    let count = match number.column.as_deref()? {
        "stage" => return Some(Scalar::Text(stage.name.clone())),
        "cells" => stage.cells.len(),
        "not_ok" => statuses().filter(is_trouble).count(),
        column => {
            let status = CellStatus::parse(column)?;
            statuses().filter(|s| *s == status).count()
        }
    };
    i64::try_from(count).ok().map(Scalar::Int)
}

/// Counts lines of the ledger by stage, cell, status and reason; `None` for other conditions and tables.
pub(crate) fn count(lock: &Lock, table: &str, condition: &Condition) -> Option<Scalar> {
    let is_known = |column| matches!(column, "stage" | "cell" | "status" | "reason");
    if table != "ledger" || lock.stages.is_empty() || !condition.columns().all(is_known) {
        return None;
    }
    let lines = stages(lock).flat_map(|s| s.cells.iter().map(move |c| (s, c)));
    let meets = |(stage, cell): &(&LockStage, &LockCell)| {
        condition.0.iter().all(|(column, wanted)| {
            let value = match column.as_str() {
                "stage" => Some(stage.name.as_str()),
                "cell" => Some(cell.coordinates.as_str()),
                "status" => Some(cell.status.word()),
                _ => cell.reason.as_deref(),
            };
            wanted.iter().any(|w| match value {
                Some(value) => w.as_str() == Some(value),
                None => *w == Scalar::Null,
            })
        })
    };
    i64::try_from(lines.filter(meets).count())
        .ok()
        .map(Scalar::Int)
}
