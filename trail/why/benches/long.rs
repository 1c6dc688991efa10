//! The cost of reading a long report back: `audit` of 5,000 numbers in at most 2 s, and `why` for
//! one of them in at most 100 ms. Both grow linearly with the report. The report is the one that
//! the bench of the report stage renders.

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]

#[path = "../../../stages/report/benches/study/mod.rs"]
mod study;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use artifacts::{Digest, Scalar, Store};
use pipeline::key::{Recipe, RecipeCell, RecipeInput};
use pipeline::lock::{Lock, LockCell, LockClass, LockStage};
use pipeline::record::{Build, RECORD_FORMAT, Record, outputs_text};
use pipeline::stage::{Content, Input};
use pipeline::{Artifact, CellStatus, Coordinates};
use study::{Long, NUMBERS};
use why::{Document, Provenance};

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(&folder.path().join("store")).expect("a store");
    println!(
        "{:>8} {:>7} {:>9} {:>9} {:>9} {:>7}",
        "numbers", "cells", "open ms", "audit ms", "why ms", "ratio"
    );
    let mut before: Option<f64> = None;
    for pages in [25, 50, 100, 200] {
        let long = Long::new(&store, pages);
        let report = write(&store, folder.path(), &long);
        let mut least = [f64::INFINITY; 3];
        for _ in 0..3 {
            let times = read_back(
                &store,
                &report,
                &folder.path().join("long.lock"),
                pages * NUMBERS,
            );
            for (best, time) in least.iter_mut().zip(times) {
                *best = best.min(time);
            }
        }
        let [open, audit, why] = least;
        let cells: usize = long.inputs.iter().map(|i| i.cells.len()).sum();
        let ratio = before.map_or_else(String::new, |b| format!("{:.2}", audit / b));
        println!(
            "{:>8} {cells:>7} {open:>9.1} {audit:>9.1} {why:>9.1} {ratio:>7}",
            pages * NUMBERS
        );
        before = Some(audit);
    }
}

/// Opens, audits, and explains one number in the middle. Returns the three times in ms. `audit` and
/// `why` include finding the lock, without cached reads.
fn read_back(store: &Store, report: &Path, lock: &Path, numbers: usize) -> [f64; 3] {
    let ms = |start: Instant| start.elapsed().as_secs_f64() * 1e3;
    let start = Instant::now();
    let document =
        Document::open(report, &report.with_extension("trace.parquet")).expect("a report");
    let open = ms(start);
    assert_eq!(document.numbers.len(), numbers);
    let locks = [lock.to_owned()];
    let format = |value: &Scalar, unit: Option<&str>, format: &str| {
        report::format_value(value, unit, format, "n/a").map_err(|e| e.to_string())
    };
    let judge = |_: &str, _: why::Read<'_>| Err("the report has no statement".to_owned());
    let start = Instant::now();
    let provenance = Provenance::choose(store, &locks, &document);
    let audit = why::audit(&document, &provenance, &BTreeSet::new(), &format, &judge);
    let audited = ms(start);
    assert!(audit.holds() && audit.verified == numbers, "{audit}");
    let start = Instant::now();
    let provenance = Provenance::choose(store, &locks, &document);
    let number = document.numbers[numbers / 2..]
        .iter()
        .find(|n| n.source == contract::TraceSource::Table)
        .expect("a number");
    let answer = why::why(&document, &provenance, number, &[]).expect("an answer");
    let why = ms(start);
    assert_eq!(answer.raw.len(), 1);
    [open, audited, why]
}

/// Renders the report and writes it with its records and its lock.
fn write(store: &Store, folder: &Path, long: &Long) -> PathBuf {
    let mut stages = Vec::new();
    let mut read: Vec<RecipeInput> = Vec::new();
    for input in &long.inputs {
        let class = if input.kind == "load" {
            LockClass::Measurement
        } else {
            LockClass::Pure
        };
        let mut cells = Vec::new();
        for cell in &input.cells {
            let named = |(name, artifact): (&String, &Artifact)| {
                let name = pipeline::OutputName::new(name.as_str()).expect("a name of ours");
                (name, artifact.clone())
            };
            let outputs = cell.outputs.iter().map(named).collect();
            cells.push(record(
                store,
                &input.stage,
                cell.coordinates.clone(),
                read.clone(),
                &outputs,
            ));
        }
        stages.push(LockStage {
            name: input.stage.clone(),
            class,
            cells,
        });
        read.push(as_read(input));
    }
    let done = long.render(store, folder);
    let mut outputs = BTreeMap::new();
    let report = folder.join("long.md");
    for output in &done.outputs {
        let Content::Bytes(bytes) = &output.content else {
            continue;
        };
        let digest = store.put(bytes).expect("the store takes it");
        let artifact = Artifact {
            digest,
            media: output.media,
            bytes: bytes.len() as u64,
            rows: None,
        };
        let name = pipeline::OutputName::new(output.name.as_str()).expect("a name of ours");
        outputs.insert(name, artifact);
        let extension = match output.name.as_str() {
            "report" => "md".to_owned(),
            "html" => "html".to_owned(),
            other => format!("{other}.parquet"),
        };
        fs::write(report.with_extension(extension), bytes).expect("a file");
    }
    let cell = record(store, "report", Coordinates::default(), read, &outputs);
    stages.push(LockStage {
        name: "report".to_owned(),
        class: LockClass::Study,
        cells: vec![cell],
    });
    let mut lock = Lock {
        experiment: "long".to_owned(),
        profile: None,
        seed: 164,
        stages,
    };
    lock.sort();
    // The report's trail digest is synthetic, and no number of this report shows it.
    lock.write(&folder.join("long.lock")).expect("a lock");
    report
}

fn as_read(input: &Input) -> RecipeInput {
    let cell = |cell: &pipeline::stage::InputCell| RecipeCell {
        coordinates: cell.coordinates.clone(),
        status: CellStatus::Ok,
        reason: None,
        parameters: None,
        outputs: cell
            .outputs
            .iter()
            .map(|(name, a)| (name.clone(), a.digest))
            .collect(),
    };
    RecipeInput {
        stage: input.stage.clone(),
        cells: input.cells.iter().map(cell).collect(),
    }
}

fn record(
    store: &Store,
    stage: &str,
    coordinates: Coordinates,
    inputs: Vec<RecipeInput>,
    outputs: &BTreeMap<pipeline::OutputName, Artifact>,
) -> LockCell {
    let recipe = Recipe {
        format: Recipe::current_format(),
        kind: stage.to_owned(),
        semantic_version: 1,
        seed: 164,
        parameters: serde_json::json!({}),
        replicate: Coordinates::default(),
        inputs,
        facets: BTreeMap::new(),
        study: None,
    };
    let text = coordinates.to_string();
    let record = Record {
        format: RECORD_FORMAT,
        experiment: "long".to_owned(),
        stage: stage.to_owned(),
        coordinates,
        key: recipe.key(),
        status: CellStatus::Ok,
        reason: None,
        outputs: outputs.clone(),
        evidence: BTreeMap::new(),
        attempts: Vec::new(),
        started: "2026-01-01T00:00:00Z".to_owned(),
        seconds: 1.0,
        order: 1,
        place: None,
        preflight: None,
        observations: BTreeMap::new(),
        warnings: Vec::new(),
        host: None,
        by: None,
        build: Build::default(),
        environment: Vec::new(),
        claims: BTreeMap::new(),
        claim_tests: BTreeMap::new(),
        files: BTreeMap::new(),
        recipe,
    };
    let digest = store.put(&record.to_bytes()).expect("the store takes it");
    LockCell {
        coordinates: text,
        status: CellStatus::Ok,
        key: Some(record.key),
        record: Some(digest),
        outputs: Some(Digest::of(outputs_text(outputs).as_bytes())),
        reason: None,
        earlier: Vec::new(),
    }
}
