//! One cell: its record, its outputs, its gates.

use artifacts::Store;
use pipeline::Artifact;
use pipeline::record::Record;
use serde_json::{Value, json};

use crate::catalogue::record_of;
use crate::error::Failure;
use crate::imported::{self, Origin};
use crate::reply::{Freshness, Reply};
use crate::study::Study;

/// The maximum number of input cells of each stage that the page of a cell lists.
const LEFT_OUT_OF_RECIPE: usize = 64;

/// Answers with a cell: its record, and the digests of its outputs and evidence.
pub(crate) fn cell(study: &Study, stage: &str, at: &str, store: &Store) -> Result<Reply, Failure> {
    let (declared, cell) = study.find(stage, at)?;
    let record = record_of(store, stage, cell)?;
    let mut value = json!({
        "stage": declared.name,
        "at": cell.coordinates,
        "status": cell.status.word(),
        "reason": cell.reason,
        "record_digest": cell.record,
        "earlier": cell.earlier.iter().map(|e| json!({
            "status": e.status.word(),
            "record": e.record,
            "same_recipe": Some(e.key) == cell.key,
        })).collect::<Vec<_>>(),
    });
    if let Some(record) = &record {
        value["outputs"] = artifacts_of(record.outputs.iter());
        value["evidence"] = artifacts_of(record.evidence.iter());
        value["record"] = shortened(record)?;
        value["inputs"] = inputs(record);
        let origin: Origin =
            serde_json::from_value(value["record"]["recipe"].clone()).unwrap_or_default();
        if origin.is_imported() {
            let started = imported::started(stage, cell, store);
            value["imported"] = json!({"tool": origin.tool(), "measured": started});
        }
        let own = record.coordinates.to_string();
        // Damaged gates must not hide the cell.
        match study.gates(store).and_then(|gates| gates.of(stage, &own)) {
            Ok(gates) => value["gates"] = gates,
            Err(failure) => value["unread"] = json!([format!("its gates: {}", failure.message)]),
        }
    }
    Ok(Reply::json(&value, Freshness::Tagged))
}

fn artifacts_of<'a, N: std::fmt::Display + 'a>(
    named: impl Iterator<Item = (N, &'a Artifact)>,
) -> Value {
    let line = |(name, artifact): (N, &Artifact)| {
        json!({
            "name": name.to_string(),
            "digest": artifact.digest,
            "media": artifact.media.word(),
            "bytes": artifact.bytes,
            "rows": artifact.rows,
        })
    };
    named.map(line).collect()
}

/// Returns the record without inputs, outputs and evidence, which the answer has elsewhere.
fn shortened(record: &Record) -> Result<Value, Failure> {
    let mut value = serde_json::to_value(record).map_err(Failure::store)?;
    if let Some(recipe) = value.get_mut("recipe").and_then(Value::as_object_mut) {
        recipe.remove("inputs");
    }
    if let Some(map) = value.as_object_mut() {
        map.remove("outputs");
        map.remove("evidence");
    }
    Ok(value)
}

/// Returns the cells that a cell read.
fn inputs(record: &Record) -> Value {
    let stages = record.recipe.inputs.iter().map(|input| {
        let cells = input.cells.iter().take(LEFT_OUT_OF_RECIPE);
        json!({
            "stage": input.stage,
            "cells": input.cells.len(),
            "first": cells.map(|c| c.coordinates.to_string()).collect::<Vec<_>>(),
        })
    });
    stages.collect()
}
