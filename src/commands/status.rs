//! `status`: what became of every cell, as the lock has it.

use std::collections::BTreeMap;

use pipeline::cell::cell_text;
use serde_json::json;

use crate::args::{Global, StatusArgs};
use crate::cells::read_lock;
use crate::columns::columns;
use crate::exit::Stop;
use crate::terminal::say;

pub(super) fn status(arguments: &StatusArgs, global: &Global) -> Result<(), Stop> {
    let lock = read_lock(
        &arguments.experiment.experiment,
        arguments.experiment.profile().as_deref(),
    )?;
    if global.json {
        let cells = lock.stages.iter().flat_map(|stage| {
            stage.cells.iter().map(move |cell| {
                json!({
                    "stage": stage.name, "coordinates": cell.coordinates, "status": cell.status,
                    "reason": cell.reason, "key": cell.key, "record": cell.record,
                })
            })
        });
        let cells: Vec<_> = cells.collect();
        say(
            &json!({ "experiment": lock.experiment, "trail": lock.trail(), "cells": cells })
                .to_string(),
        );
        return Ok(());
    }
    let mut rows = Vec::new();
    for stage in &lock.stages {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for cell in &stage.cells {
            *counts.entry(cell.status.word()).or_default() += 1;
        }
        let counts: Vec<String> = counts
            .iter()
            .map(|(word, n)| format!("{n} {word}"))
            .collect();
        rows.push(vec![
            stage.name.clone(),
            stage.cells.len().to_string(),
            counts.join(", "),
        ]);
    }
    say(&columns(&["stage", "cells", "status"], &rows, &[1]));
    for stage in &lock.stages {
        for cell in &stage.cells {
            let reason = cell
                .reason
                .as_deref()
                .map(|r| format!(": {r}"))
                .unwrap_or_default();
            if arguments.cells || cell.reason.is_some() {
                say(&format!(
                    "{} {}{reason}",
                    cell.status.word(),
                    cell_text(&stage.name, &cell.coordinates)
                ));
            }
        }
    }
    say(&format!("trail digest {}", lock.trail()));
    Ok(())
}
