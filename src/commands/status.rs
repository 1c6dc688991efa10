//! `status`: shows the status of every cell from the lock, and the cells of unfinished runs.

use std::collections::BTreeMap;
use std::path::Path;

use artifacts::{Digest, Store, StoreError};
use cluster::JobLine;
use pipeline::lock::{Earlier, Lock, LockCell, lock_file};
use pipeline::place::cell_text;
use pipeline::record::Record;
use serde_json::json;

use crate::args::{Global, StatusArgs};
use crate::cells::read_lock;
use crate::columns::columns;
use crate::commands::detach::{status_json, status_line};
use crate::detached::Detached;
use crate::exit::Stop;
use crate::project::{Project, again};
use crate::reasons::{self, Explained};
use crate::session::check_set;
use crate::terminal::{continued, say};

pub(super) fn status(arguments: &StatusArgs, global: &Global) -> Result<(), Stop> {
    check_set("status", &arguments.experiment, global)?;
    let (file, profile) = (
        &arguments.experiment.experiment,
        arguments.experiment.profile(),
    );
    let unfinished = unfinished(file, profile.as_deref(), global)?;
    let lock = lock_file(file, profile.as_deref());
    let store = Project::of(Some(file), global.store.as_deref())?.store;
    let jobs = cluster::jobs_of(&store, &lock)?;
    let detached = Detached::of(&store, &lock)?;
    let left = !unfinished.is_empty() || !jobs.is_empty();
    let tell_left = || {
        let again = again(file, profile.as_deref());
        tell_unfinished(&unfinished, &jobs, detached.as_ref(), &again, global)
    };
    if (left || detached.is_some()) && !lock.exists() {
        // A run was killed before it wrote its first lock, or is still running.
        if !global.json {
            tell_detached(detached.as_ref())?;
        }
        tell_left()?;
        return Ok(());
    }
    let lock = read_lock(file, profile.as_deref())?;
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
        say(&json!({
            "experiment": lock.experiment, "trail": lock.trail(), "cells": cells,
            "unfinished": unfinished.iter().map(Unfinished::json).collect::<Vec<_>>(),
            "jobs": jobs.iter().map(job_json).collect::<Vec<_>>(),
            "detached": detached.as_ref().map(status_json).transpose()?,
        })
        .to_string());
        return Ok(());
    }
    say(&stages_table(&lock));
    if arguments.cells {
        for (stage, cell) in cells_of(&lock) {
            let reason = cell.reason.as_deref();
            let reason = reason
                .map(|r| format!(": {}", continued(r)))
                .unwrap_or_default();
            let name = cell_text(stage, &cell.coordinates);
            say(&format!("{} {name}{reason}", cell.status.word()));
        }
    } else {
        let explained: Vec<Explained<'_>> = cells_of(&lock)
            .filter_map(|(stage, cell)| {
                Some(Explained {
                    word: cell.status.word(),
                    stage,
                    cell: cell_text(stage, &cell.coordinates),
                    reason: cell.reason.as_deref()?,
                })
            })
            .collect();
        reasons::lines(&explained)
            .iter()
            .for_each(|line| say(&continued(line)));
    }
    for line in marks(&lock, arguments.cells) {
        say(&line);
    }
    say(&format!("trail digest {}", lock.trail()));
    tell_detached(detached.as_ref())?;
    if left {
        tell_left()?;
    }
    Ok(())
}

/// Returns a table with a line for each stage: its cells by their status.
fn stages_table(lock: &Lock) -> String {
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
    columns(&["stage", "cells", "status"], &rows, &[1])
}

/// Prints the state of a detached run.
fn tell_detached(run: Option<&Detached>) -> Result<(), Stop> {
    if let Some(run) = run {
        say(&status_line(run)?);
    }
    Ok(())
}

/// Returns the cells of a lock, each with its stage.
fn cells_of(lock: &Lock) -> impl Iterator<Item = (&str, &LockCell)> {
    lock.stages
        .iter()
        .flat_map(|stage| stage.cells.iter().map(|cell| (stage.name.as_str(), cell)))
}

/// The cells executed by a run that has not written the lock, because it is still running or was killed.
struct Unfinished {
    live: bool,
    /// Counts of statuses by stage.
    stages: BTreeMap<String, BTreeMap<&'static str, usize>>,
}

impl Unfinished {
    fn json(&self) -> serde_json::Value {
        json!({ "live": self.live, "stages": self.stages })
    }
}

/// Returns the cells that runs have executed since the lock was written.
fn unfinished(
    experiment: &Path,
    profile: Option<&str>,
    global: &Global,
) -> Result<Vec<Unfinished>, Stop> {
    let project = Project::of(Some(experiment), global.store.as_deref())?;
    if !project.store.is_dir() {
        return Ok(Vec::new());
    }
    let store = project.open()?;
    let root = store.root_of(&lock_file(experiment, profile))?;
    let mut runs = Vec::new();
    for journal in root.map(|root| root.journals).unwrap_or_default() {
        let mut executed = Vec::new();
        for record in &journal.records {
            if let Some(record) = record_in(&store, record)? {
                let cell = cell_text(&record.stage, &record.coordinates.to_string());
                executed.push((record.stage, cell, record.status.word()));
            }
        }
        let stages = counts(executed);
        if !stages.is_empty() {
            let live = journal.live;
            runs.push(Unfinished { live, stages });
        }
    }
    Ok(runs)
}

/// Returns a record that a journal names; `None` if it was lost in a power failure, as the last ones may be.
fn record_in(store: &Store, record: &Digest) -> Result<Option<Record>, Stop> {
    let bytes = match store.get_document(record) {
        Err(StoreError::Missing(_)) => return Ok(None),
        // A power failure may also leave an empty or a cut file, but none that the index names.
        Err(StoreError::Damaged(..)) if !store.records()?.contains(record) => return Ok(None),
        read => read?,
    };
    let parsed = Record::parse(&bytes);
    parsed
        .map(Some)
        .map_err(|e| Stop::damaged(format!("the record {record}: {e}")))
}

/// Counts the cells of each stage by status, given stage, cell and status of each record in order. A cell has a record for
/// each attempt, and a launch has one when it is ready and another when it ends. The last one counts.
fn counts(
    records: Vec<(String, String, &'static str)>,
) -> BTreeMap<String, BTreeMap<&'static str, usize>> {
    let last: BTreeMap<(String, String), &'static str> = records
        .into_iter()
        .map(|(stage, cell, word)| ((stage, cell), word))
        .collect();
    let mut stages: BTreeMap<String, BTreeMap<&'static str, usize>> = BTreeMap::new();
    for ((stage, _), word) in last {
        *stages.entry(stage).or_default().entry(word).or_default() += 1;
    }
    stages
}

fn tell_unfinished(
    runs: &[Unfinished],
    jobs: &[JobLine],
    detached: Option<&Detached>,
    study: &str,
    global: &Global,
) -> Result<(), Stop> {
    if global.json {
        let runs: Vec<_> = runs.iter().map(Unfinished::json).collect();
        let jobs: Vec<_> = jobs.iter().map(job_json).collect();
        let detached = detached.map(status_json).transpose()?;
        let all = json!({ "cells": [], "unfinished": runs, "jobs": jobs, "detached": detached });
        say(&all.to_string());
        return Ok(());
    }
    for run in runs {
        say(if run.live {
            "a run is active; it has executed so far:"
        } else {
            "a run ended before it could write the lock; it had executed:"
        });
        let row = |(stage, counts): (&String, &BTreeMap<&str, usize>)| {
            let counts = counts.iter().map(|(word, n)| format!("{n} {word}"));
            vec![stage.clone(), counts.collect::<Vec<_>>().join(", ")]
        };
        let rows: Vec<Vec<String>> = run.stages.iter().map(row).collect();
        say(&columns(&["stage", "cells"], &rows, &[]));
    }
    if !jobs.is_empty() {
        let row = |job: &JobLine| {
            vec![
                job.job
                    .clone()
                    .unwrap_or_else(|| "not submitted".to_owned()),
                job.state.clone(),
                job.node.clone(),
                job.waited.clone(),
                job.elapsed.clone(),
                job.cells.to_string(),
                job.first.clone(),
                job.reason.clone(),
            ]
        };
        let rows: Vec<Vec<String>> = jobs.iter().map(row).collect();
        let heading = [
            "job", "state", "machine", "waited", "has run", "cells", "first", "reason",
        ];
        say(&columns(&heading, &rows, &[5]));
    }
    if runs.iter().any(|run| !run.live) {
        say(&format!(
            "nothing is lost; continue with `benchtrail run {study}`"
        ));
    }
    Ok(())
}

fn job_json(job: &JobLine) -> serde_json::Value {
    json!({
        "job": job.job, "state": job.state, "machine": job.node, "waited": job.waited, "has_run": job.elapsed,
        "cells": job.cells, "first": job.first, "reason": job.reason,
    })
}

fn earlier_json(earlier: &Earlier) -> serde_json::Value {
    json!({ "status": earlier.status, "key": earlier.key, "record": earlier.record })
}

/// The number of measurements executed more than once that are named unless `--cells` is given.
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

#[cfg(test)]
mod tests {
    use std::fs;

    use artifacts::{ActionKey, Commit};

    use super::*;

    #[test]
    fn a_record_may_be_lost_but_a_damaged_one_that_the_index_names_is_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path()).expect("a store");
        let is_lost = |record: &Digest| record_in(&store, record).expect("no damage").is_none();
        let code = |record: &Digest| record_in(&store, record).expect_err("damage").code();
        assert!(is_lost(&Digest::of(b"lost")));
        let cut = store.put(b"cut in a power failure").expect("an object");
        assert_eq!(code(&cut), 3, "its bytes cannot be parsed as a record");
        let rewrite = |record: &Digest| {
            let path = store.path(record);
            fs::remove_file(&path).expect("its file");
            fs::write(&path, "cut").expect("its file");
            path
        };
        rewrite(&cut);
        assert!(is_lost(&cut));
        let durable = store.put(b"durable").expect("an object");
        let commit = Commit {
            experiment: "study".to_owned(),
            stage: "load".to_owned(),
            coordinates: "block=1".to_owned(),
            key: ActionKey(Digest::of(b"key")),
            record: durable,
            objects: Vec::new(),
            status: "ok".to_owned(),
            cacheable: true,
            seconds: 1.0,
            outputs: String::new(),
        };
        store.commit(&[commit]).expect("committed");
        let path = rewrite(&durable);
        assert_eq!(code(&durable), 3, "it has other bytes");
        // A folder at the path of a file prevents reading, but does not mean that the file was lost.
        fs::remove_file(&path).expect("its file");
        fs::create_dir(&path).expect("a folder");
        assert_eq!(code(&durable), 4, "it cannot be read");
    }

    #[test]
    fn a_cell_counts_once_by_its_last_record() {
        let record = |stage: &str, cell: &str, word| (stage.to_owned(), cell.to_owned(), word);
        let stages = counts(vec![
            record("server", "server[block=1]", "ok"),
            record("load", "load[block=1]", "failed"),
            record("load", "load[block=1]", "ok"),
            record("server", "server[block=1]", "ok"),
            record("server", "server[block=2]", "ok"),
        ]);
        assert_eq!(stages["server"]["ok"], 2);
        assert_eq!(stages["load"].get("failed"), None);
        assert_eq!(stages["load"]["ok"], 1);
    }
}
