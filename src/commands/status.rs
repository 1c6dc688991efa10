//! `status`: what became of every cell, as the lock has it.

use std::collections::BTreeMap;

use pipeline::lock::{Earlier, Lock};
use pipeline::place::cell_text;
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
                    "executions": cell.executions(), "discarded": cell.discarded().collect::<Vec<_>>(),
                    "earlier": cell.earlier.iter().map(earlier_json).collect::<Vec<_>>(),
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
    for line in marks(&lock, arguments.cells) {
        say(&line);
    }
    say(&format!("trail digest {}", lock.trail()));
    Ok(())
}

fn earlier_json(earlier: &Earlier) -> serde_json::Value {
    json!({ "status": earlier.status, "key": earlier.key, "record": earlier.record })
}

/// Measurements executed more than once that are named unless all cells are asked for.
const MARKS_SHOWN: usize = 10;

/// Returns a line for each measurement with earlier results, with their records.
fn marks(lock: &Lock, all: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for stage in &lock.stages {
        for cell in stage.cells.iter().filter(|c| !c.earlier.is_empty()) {
            let same = cell.earlier.iter().filter(|e| Some(e.key) == cell.key);
            let mut text = format!(
                "{} was executed {}",
                cell_text(&stage.name, &cell.coordinates),
                times(cell.executions())
            );
            let other = cell.earlier.len() - same.count();
            if other > 0 {
                text.push_str(&format!(", and {} under another recipe", times(other)));
            }
            let mark = |e: &Earlier| format!("{} {}", e.status.word(), e.record.short());
            let earlier: Vec<String> = cell.earlier.iter().map(mark).collect();
            lines.push(format!("{text}; earlier: {}", earlier.join(", ")));
        }
    }
    if !all && lines.len() > MARKS_SHOWN {
        let more = lines.len() - MARKS_SHOWN;
        lines.truncate(MARKS_SHOWN);
        lines.push(format!(
            "{more} more measurements have earlier results; `--cells` shows them all"
        ));
    }
    lines
}

fn times(count: usize) -> String {
    match count {
        1 => "once".to_owned(),
        n => format!("{n} times"),
    }
}
