//! The ledger of planned cells, as far as the lock has it: stages and the status of each cell.

use artifacts::Scalar;
use pipeline::lock::{Lock, LockClass, LockStage};

use crate::condition::Condition;
use crate::document::Number;

/// The stages that a report knew of: all but those that see the study.
fn stages(lock: &Lock) -> impl Iterator<Item = &LockStage> {
    lock.stages.iter().filter(|s| s.class != LockClass::Study)
}

/// Returns a value of the table `ledger.stages`; `None` for what the lock does not have.
pub(crate) fn value(lock: &Lock, number: &Number) -> Option<Scalar> {
    if number.output.as_deref() != Some("ledger.stages") {
        return None;
    }
    let condition = Condition::parse(number.row_key.as_deref()?);
    let (_, names) = condition.0.iter().find(|(column, _)| column == "stage")?;
    let stage = stages(lock).find(|s| names.contains(&s.name))?;
    let words = || stage.cells.iter().map(|c| c.status.word());
    let count =
        match number.column.as_deref()? {
            "stage" => return Some(Scalar::Text(stage.name.clone())),
            "cells" => stage.cells.len(),
            "not_ok" => words().filter(|w| !matches!(*w, "ok" | "excluded")).count(),
            status @ ("ok" | "failed" | "hung" | "timeout" | "skipped" | "excluded"
            | "interrupted") => words().filter(|w| *w == status).count(),
            _ => return None,
        };
    i64::try_from(count).ok().map(Scalar::Int)
}

/// Counts lines of the ledger by stage and status; `None` for other conditions and tables.
pub(crate) fn count(lock: &Lock, table: &str, condition: &Condition) -> Option<Scalar> {
    let known = |(column, _): &(String, Vec<String>)| matches!(column.as_str(), "stage" | "status");
    if table != "ledger" || lock.stages.is_empty() || !condition.0.iter().all(known) {
        return None;
    }
    let lines =
        stages(lock).flat_map(|s| s.cells.iter().map(|c| (s.name.as_str(), c.status.word())));
    let meets = |(stage, status): &(&str, &str)| {
        condition.0.iter().all(|(column, wanted)| {
            let value = if column == "stage" { stage } else { status };
            wanted.iter().any(|w| w == value)
        })
    };
    i64::try_from(lines.filter(meets).count())
        .ok()
        .map(Scalar::Int)
}
