//! A report of a study, from its record: the text, its numbers, the statements.

use artifacts::{Digest, Store};
use pipeline::lock::{Lock, LockCell, LockClass, LockStage};
use pipeline::place::cell_text;
use serde_json::{Value, json};
use why::{Document, Provenance};

use crate::catalogue::{Known, record_of};
use crate::error::Failure;
use crate::reply::{Freshness, Reply};
use crate::study::Study;

/// A report among the outputs of a study's cell.
pub(crate) struct Found {
    /// The cell that rendered it.
    pub(crate) cell: String,
    pub(crate) document: Document,
    /// Figures and other outputs by name.
    pub(crate) outputs: Vec<(String, Digest)>,
}

/// Returns the report of a cell, or the first report.
pub(crate) fn find(study: &Study, cell: Option<&str>, store: &Store) -> Result<Found, Failure> {
    let stages = study.lock.stages.iter();
    let stages = stages.filter(|s| s.class == LockClass::Study);
    let cells = stages.flat_map(|s| s.cells.iter().map(move |c| (s, c)));
    let wanted = |(stage, c): &(&LockStage, &LockCell)| {
        let name = cell_text(&stage.name, &c.coordinates);
        c.outputs.is_some() && cell.is_none_or(|wanted| wanted == name)
    };
    for (stage, c) in cells.filter(wanted) {
        let Some(record) = record_of(store, &stage.name, c)? else {
            continue;
        };
        let bytes = |name: &str| record.outputs.get(name).map(|a| store.get(&a.digest));
        let (Some(report), Some(trace)) = (bytes("report"), bytes("trace")) else {
            continue;
        };
        let path = std::path::Path::new("report.md");
        let document = Document::of(path, &report?, &trace?)
            .map_err(|e| Failure::store(format!("the trace of the report: {e}")))?;
        let outputs = record.outputs.iter();
        return Ok(Found {
            cell: cell_text(&stage.name, &c.coordinates),
            document,
            outputs: outputs.map(|(n, a)| (n.to_string(), a.digest)).collect(),
        });
    }
    Err(Failure::nothing(
        "this study has no report",
        "an experiment with a stage of kind `report` has one once it has run",
    ))
}

/// Returns whether a study has a rendered report: one that can be opened unless the store is damaged.
pub(crate) fn has_report(lock: &Lock, store: &Store, kept: &Known) -> bool {
    let stages = lock.stages.iter().filter(|s| s.class == LockClass::Study);
    let mut cells = stages.flat_map(|s| s.cells.iter().map(move |c| (s, c)));
    cells.any(|(stage, cell)| {
        let made = cell.outputs.is_some();
        match made.then(|| kept.outputs_of(store, &stage.name, cell)) {
            Some(Ok(Some(outputs))) => outputs.contains_key("report"),
            // Damage is reported where the report is opened.
            Some(Err(_)) => true,
            _ => false,
        }
    })
}

/// Answers with the report's text, the place of each number, and the checked statements.
pub(crate) fn report(study: &Study, cell: Option<&str>, store: &Store) -> Result<Reply, Failure> {
    let report = find(study, cell, store)?;
    let provenance = Provenance::choose(store, std::slice::from_ref(&study.path), &report.document);
    let numbers = report.document.numbers.iter().map(|n| {
        json!([
            n.line,
            n.column_start,
            n.column_end,
            n.text,
            n.source.to_string(),
        ])
    });
    let value = json!({
        "cell": report.cell,
        "digest": report.document.report,
        "markdown": report.document.markdown,
        "numbers": numbers.collect::<Vec<Value>>(),
        "statements": why::statements(&provenance)?,
        "outputs": report.outputs.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        "doubts": provenance.doubts,
    });
    Ok(Reply::json(&value, Freshness::Tagged))
}
