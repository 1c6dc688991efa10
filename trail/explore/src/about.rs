//! Summarizes a study in one line of a list: its question, the verdicts on its claims, when it was measured, and on
//! what.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use artifacts::{Store, Table};
use pipeline::lock::{Lock, LockCell, LockClass};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::catalogue::record_of;
use crate::imported::{self, Origin};

/// The maximum number of resources read per stage; the others seldom have a different engine or machine.
const LOOKED_AT: usize = 24;

/// The fields of a record that show when it was made.
#[derive(Deserialize)]
struct Made {
    started: String,
    #[serde(default)]
    recipe: Origin,
}

/// Returns the list entry of a study. Unreadable parts are left out: a list must not fail because of one study.
pub(crate) fn about(lock: &Lock, file: &Path, store: &Store) -> Value {
    let mut engines = BTreeSet::new();
    let mut hosts = BTreeSet::new();
    let (mut first, mut last) = (None::<String>, None::<String>);
    for stage in &lock.stages {
        let cells = stage.cells.iter().filter(|cell| cell.record.is_some());
        if stage.class == LockClass::Resource {
            for cell in cells.take(LOOKED_AT) {
                described(&stage.name, cell, store, &mut engines, &mut hosts);
            }
        } else if stage.class == LockClass::Measurement {
            for started in cells.filter_map(|cell| started(&stage.name, cell, store)) {
                if first.as_ref().is_none_or(|first| started < *first) {
                    first = Some(started.clone());
                }
                last = last.filter(|last| *last >= started).or(Some(started));
            }
        }
    }
    let (question, title) = words(lock, file);
    let answers = answers(lock, store);
    json!({
        "question": question,
        "title": title,
        "claims": counted(&answers),
        "answers": answers,
        "measured_from": first,
        "measured_to": last,
        "engines": engines,
        "hosts": hosts,
    })
}

fn started(stage: &str, cell: &LockCell, store: &Store) -> Option<String> {
    let bytes = store.get_document(&cell.record?).ok()?;
    let made: Made = artifacts::json::parse(&bytes).ok()?;
    match made.recipe.is_imported() {
        true => imported::started(stage, cell, store),
        false => Some(made.started),
    }
}

/// Adds the engine and host of one resource.
fn described(
    stage: &str,
    cell: &LockCell,
    store: &Store,
    engines: &mut BTreeSet<String>,
    hosts: &mut BTreeSet<String>,
) {
    let Ok(Some(record)) = record_of(store, stage, cell) else {
        return;
    };
    for (name, artifact) in &record.outputs {
        if !["host", "environment", "server"].contains(&name.as_str()) {
            continue;
        }
        let bytes = store.get_document(&artifact.digest).unwrap_or_default();
        let document: Value = artifacts::json::parse(&bytes).unwrap_or_default();
        let text = |path: &str| document.pointer(path).and_then(Value::as_str);
        if let Some(engine) = text("/engine/title").or(text("/engine/name")) {
            let version = text("/engine/version")
                .or(text("/version"))
                .unwrap_or_default();
            engines.insert(format!("{engine} {version}").trim().to_owned());
        }
        let parts = [
            "/facets/cpu_model",
            "/facets/gpu_name",
            "/facets/gpu_model",
            "/facets/hostname",
        ];
        let facts: Vec<&str> = parts.iter().filter_map(|path| text(path)).collect();
        if name.as_str() == "host" && !facts.is_empty() {
            hosts.insert(facts.join(", "));
        }
    }
}

/// A claim of a report, as a reader needs it first.
#[derive(Serialize)]
struct Answer {
    claim: String,
    verdict: String,
    /// The sentence that the verdict permits; `None` if it permits none.
    may_say: Option<String>,
    /// The sentence that was declared.
    says: Option<String>,
    reason: Option<String>,
}

/// Returns the claims of the reports with their verdicts.
fn answers(lock: &Lock, store: &Store) -> Vec<Answer> {
    let mut documents = Vec::new();
    for stage in lock.stages.iter().filter(|s| s.class == LockClass::Study) {
        let Some(cell) = stage.cells.iter().find(|cell| cell.outputs.is_some()) else {
            continue;
        };
        let record = record_of(store, &stage.name, cell).ok().flatten();
        let table = record
            .as_ref()
            .and_then(|record| record.outputs.get("claims"));
        let bytes = table.and_then(|table| store.get(&table.digest).ok());
        let Some(table) = bytes.and_then(|bytes| Table::from_parquet(bytes).ok()) else {
            continue;
        };
        let column = |name: &str| table.text(name).unwrap_or_default();
        let [claims, verdicts] = [column("claim"), column("verdict")];
        let [may_say, says, reasons] = [column("may_say"), column("says"), column("reason")];
        for (row, verdict) in verdicts.iter().enumerate() {
            let text =
                |values: &[Option<&str>]| values.get(row).copied().flatten().map(str::to_owned);
            let Some(verdict) = verdict else { continue };
            documents.push(Answer {
                claim: text(&claims).unwrap_or_default(),
                verdict: (*verdict).to_owned(),
                may_say: text(&may_say),
                says: text(&says),
                reason: text(&reasons),
            });
        }
    }
    documents
}

/// Returns the number of claims with each verdict.
fn counted(answers: &[Answer]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for answer in answers {
        *counts.entry(answer.verdict.as_str()).or_default() += 1;
    }
    counts
}

/// Returns question and title from the experiment beside the lock.
fn words(lock: &Lock, file: &Path) -> (Option<String>, Option<String>) {
    let profile = lock.profile.as_deref();
    let plain = file.with_extension("");
    let plain = match profile {
        Some(profile) if plain.extension().is_some_and(|e| e == profile) => {
            plain.with_extension("")
        }
        _ => plain,
    };
    let read = |extension: &str| {
        let file = plain.with_extension(extension);
        let text = artifacts::regular::read_text(&file).ok()?;
        pipeline::language::json_of(&text, &file).ok()
    };
    let spec = read("yaml").or_else(|| read("yml")).unwrap_or_default();
    let text = |name: &str| spec[name].as_str().map(|text| text.trim().to_owned());
    (text("question"), text("title"))
}
