//! The study: a machine, a server, two measured cells, gates, two tables, a report.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use artifacts::{Column, Digest, Scalar, Store, Table};
use contract::{LineageRow, LineageSource, SourceArtifact, TraceSource, lineage_table};
use pipeline::key::{Recipe, RecipeCell, RecipeInput};
use pipeline::lock::{Lock, LockCell, LockClass, LockStage};
use pipeline::place::CellName;
use pipeline::record::{Build, RECORD_FORMAT, Record, outputs_text};
use pipeline::{Artifact, CellStatus, Coordinates, Json, Media};
use serde_json::json;

use crate::{Audit, Document, Number, Provenance, audit};

pub(super) const REPORT: &str =
    "# Study\n\nThe mean is 15.5 tok/s of 2 cells; seed 164.\n\n| a | 10.5 | 20.5 |\n";

/// The files of the study on disk.
pub(super) struct Study {
    pub(super) folder: tempfile::TempDir,
    pub(super) store: Store,
    pub(super) lock: PathBuf,
    pub(super) report: PathBuf,
    pub(super) trace: PathBuf,
    /// Outputs by `CELL.OUTPUT`.
    pub(super) outputs: BTreeMap<String, Digest>,
}

struct Builder {
    store: Store,
    stages: Vec<LockStage>,
    outputs: BTreeMap<String, Digest>,
}

pub(super) fn coordinates(pairs: &[(&str, Scalar)]) -> Coordinates {
    Coordinates(
        pairs
            .iter()
            .map(|(axis, label)| ((*axis).to_owned(), label.clone()))
            .collect(),
    )
}

impl Builder {
    fn put(&self, bytes: &[u8], media: Media) -> Artifact {
        let digest = self.store.put(bytes).unwrap();
        Artifact {
            digest,
            media,
            bytes: bytes.len() as u64,
            rows: None,
        }
    }

    fn table(&self, table: &Table) -> Artifact {
        self.put(&table.to_parquet().unwrap(), Media::Parquet)
    }

    fn json(&self, json: &Json) -> Artifact {
        self.put(json.to_string().as_bytes(), Media::Json)
    }

    /// Adds a cell and returns it in the form that later stages read.
    fn cell(
        &mut self,
        (stage, class): (&str, LockClass),
        coordinates: Coordinates,
        inputs: Vec<RecipeInput>,
        outputs: Vec<(&str, Artifact)>,
    ) -> RecipeCell {
        let text = coordinates.to_string();
        let outputs: BTreeMap<pipeline::OutputName, Artifact> = outputs
            .into_iter()
            .map(|(name, artifact)| (pipeline::OutputName::new(name).unwrap(), artifact))
            .collect();
        let cell = pipeline::place::cell_text(stage, &text);
        self.outputs.extend(
            outputs
                .iter()
                .map(|(name, a)| (format!("{cell}.{name}"), a.digest)),
        );
        let recipe = Recipe {
            format: Recipe::current_format(),
            kind: stage.to_owned(),
            semantic_version: 1,
            seed: 164,
            parameters: json!({}),
            replicate: Coordinates::default(),
            inputs,
            facets: BTreeMap::new(),
            study: None,
        };
        let record = Record {
            format: RECORD_FORMAT,
            experiment: "study".to_owned(),
            stage: stage.to_owned(),
            coordinates: coordinates.clone(),
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
        let key = record.key;
        let digest = self.store.put(&record.to_bytes()).unwrap();
        let line = LockCell {
            coordinates: text,
            status: CellStatus::Ok,
            key: Some(key),
            record: Some(digest),
            outputs: Some(Digest::of(outputs_text(&outputs).as_bytes())),
            reason: None,
            earlier: Vec::new(),
        };
        match self.stages.iter_mut().find(|s| s.name == stage) {
            Some(existing) => existing.cells.push(line),
            None => self.stages.push(LockStage {
                name: stage.to_owned(),
                class,
                cells: vec![line],
            }),
        }
        RecipeCell {
            coordinates,
            status: CellStatus::Ok,
            reason: None,
            parameters: None,
            outputs: outputs
                .iter()
                .map(|(name, a)| (name.to_string(), a.digest))
                .collect(),
        }
    }
}

fn input(stage: &str, cells: &[RecipeCell]) -> RecipeInput {
    RecipeInput {
        stage: stage.to_owned(),
        cells: cells.to_vec(),
    }
}

/// Returns a lineage table of (row, source, first, end).
pub(super) fn lineage(rows: &[(usize, LineageSource, usize, usize)]) -> Table {
    let rows = rows.iter().map(|(row, source, start, end)| LineageRow {
        row: *row,
        source,
        start: *start,
        end: *end,
    });
    lineage_table(rows).unwrap()
}

fn gates(cells: &[RecipeCell]) -> Table {
    let places: Vec<Option<String>> = std::iter::once(None)
        .chain(cells.iter().map(|c| Some(c.coordinates.to_string())))
        .collect();
    let column = |text: &str| vec![Some(text.to_owned()); places.len()];
    Table::new(vec![
        Column::text("stage", column("ladder")),
        Column::text("cell", places.clone()),
        Column::text("gate", column("row-status")),
        Column::text("severity", column("warn")),
        Column::text("outcome", ["not judged", "pass", "fail"].map(Some)),
        Column::text("observed", column("7 ok rows")),
        Column::text("expected", column("8 ok rows")),
    ])
    .unwrap()
}

/// Returns a traced number that does not come from an artifact.
pub(super) fn traced(source: TraceSource, place: (usize, usize), text: &str) -> Number {
    Number {
        line: place.0,
        column_start: place.1,
        column_end: place.1 + text.chars().count(),
        text: text.to_owned(),
        source,
        stage: None,
        coordinates: None,
        output: None,
        artifact: None,
        row: None,
        row_key: None,
        column: None,
        value: Some(text.to_owned()),
        unit: None,
        ratio: None,
        format: String::new(),
    }
}

fn trace(means: Digest, cells: Digest) -> Table {
    let of_cell = |number: Number, (output, artifact): (&str, Digest), column: &str| Number {
        stage: Some("results".to_owned()),
        coordinates: Some(Coordinates::default()),
        output: Some(output.to_owned()),
        artifact: Some(artifact),
        row_key: Some("configuration=batched".parse().unwrap()),
        column: Some(column.to_owned()),
        ..number
    };
    let value = |place, text, from, row, column| Number {
        row: Some(row),
        unit: Some("tok/s".to_owned()),
        format: "0.0".to_owned(),
        ..of_cell(traced(TraceSource::Table, place, text), from, column)
    };
    let (means, cells) = (("ladder", means), ("cells", cells));
    contract::trace_table(&[
        value((3, 13), "15.5", means, 0, "throughput_mean"),
        of_cell(traced(TraceSource::Count, (3, 27), "2"), cells, "count"),
        Number {
            column: Some("seed".to_owned()),
            ..traced(TraceSource::Spec, (3, 41), "164")
        },
        value((5, 7), "10.5", cells, 0, "throughput"),
        value((5, 14), "20.5", cells, 1, "throughput"),
    ])
    .unwrap()
}

impl Study {
    /// Builds the study.
    pub(super) fn new() -> Self {
        Self::of([1, 2])
    }

    /// Builds the study. Equal numbers give the two measured cells equal bytes.
    pub(super) fn of(rows: [i64; 2]) -> Self {
        Self::with_lineage(rows, |raw| {
            let [first, second] = raw;
            [
                vec![(0, first, 2, 10), (1, second, 2, 10)],
                vec![(0, "cells".into(), 0, 2)],
            ]
        })
    }

    /// Builds the study with these lineages of the tables `cells` and `ladder`, which are made from the two measured
    /// outputs.
    pub(super) fn with_lineage(
        rows: [i64; 2],
        lineages: impl Fn([LineageSource; 2]) -> [Vec<(usize, LineageSource, usize, usize)>; 2],
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("store")).unwrap();
        let mut b = Builder {
            store,
            stages: Vec::new(),
            outputs: BTreeMap::new(),
        };
        let batched = Scalar::Text("batched".to_owned());
        let environment = b.json(&json!({ "facets": { "cpu_model": "Abacus" } }));
        let machine = ("machine", LockClass::Resource);
        let machine = b.cell(
            machine,
            Coordinates::default(),
            Vec::new(),
            vec![("environment", environment)],
        );
        let descriptor = b.json(&json!({
            "engine": { "name": "llama-cpp", "version": "1.2" }, "model": { "name": "small" },
            "settings": { "parallel": 8 }, "facets": { "cpu_model": "Abacus" },
        }));
        let at = coordinates(&[("configuration", batched.clone())]);
        let server = ("server", LockClass::Resource);
        let server = b.cell(
            server,
            at,
            vec![input("machine", &[machine])],
            vec![("server", descriptor)],
        );
        let mut ladder = Vec::new();
        for (rep, first) in (1..).zip(rows) {
            let requests = Table::new(vec![Column::int(
                "request_id",
                (0..10).map(|i| Some(i + 100 * first)),
            )]);
            let requests = b.table(&requests.unwrap());
            let at = coordinates(&[
                ("configuration", batched.clone()),
                ("rep", Scalar::Int(rep)),
            ]);
            let needs = vec![input("server", std::slice::from_ref(&server))];
            ladder.push(b.cell(
                ("ladder", LockClass::Measurement),
                at,
                needs,
                vec![("requests", requests)],
            ));
        }
        let table = b.table(&gates(&ladder));
        let checks = ("checks", LockClass::Pure);
        let checks = b.cell(
            checks,
            Coordinates::default(),
            vec![input("ladder", &ladder)],
            vec![("gates", table)],
        );
        let key =
            || Column::text("configuration", [Some("batched"), Some("batched")]).describe("key");
        let throughput = Column::float("throughput", [Some(10.5), Some(20.5)]).unit("tok/s");
        let throughput = throughput.describe("tokens over the window");
        let cells =
            Table::with_metadata(vec![key(), throughput], &[("operator", "cell-summary")]).unwrap();
        let raw = |i: usize| {
            LineageSource::Artifact(Arc::new(SourceArtifact {
                cell: CellName {
                    stage: "ladder".to_owned(),
                    coordinates: ladder[i].coordinates.clone(),
                },
                output: "requests".to_owned(),
                digest: ladder[i].outputs["requests"],
            }))
        };
        let [of_cells, of_ladder] = lineages([raw(0), raw(1)]);
        let mean = Column::float("throughput_mean", [Some(15.5)])
            .unit("tok/s")
            .describe("mean over rep");
        let mean =
            Table::new(vec![Column::text("configuration", [Some("batched")]), mean]).unwrap();
        let outputs = vec![
            ("cells", b.table(&cells)),
            ("cells.lineage", b.table(&lineage(&of_cells))),
            ("ladder", b.table(&mean)),
            ("ladder.lineage", b.table(&lineage(&of_ladder))),
        ];
        let trace = trace(outputs[2].1.digest, outputs[0].1.digest);
        let needs = vec![input("ladder", &ladder), input("checks", &[checks])];
        let results = b.cell(
            ("results", LockClass::Pure),
            Coordinates::default(),
            needs,
            outputs,
        );
        let rendered = b.put(REPORT.as_bytes(), Media::Markdown);
        let traced = b.table(&trace);
        let outputs = vec![
            ("report", rendered),
            ("trace", traced),
            ("curve.svg", b.put(b"<svg/>", Media::Svg)),
            ("html", b.put(b"<html/>", Media::Html)),
        ];
        let needs = vec![input("results", &[results])];
        b.cell(
            ("report", LockClass::Study),
            Coordinates::default(),
            needs,
            outputs,
        );

        let mut lock = Lock {
            experiment: "study".to_owned(),
            profile: None,
            seed: 164,
            stages: b.stages,
        };
        lock.sort();
        let (report, lock_path) = (
            folder.path().join("report.md"),
            folder.path().join("study.lock"),
        );
        let trace_path = folder.path().join("report.trace.parquet");
        lock.write(&lock_path).unwrap();
        fs::write(&report, REPORT).unwrap();
        fs::write(folder.path().join("curve.svg"), "<svg/>").unwrap();
        fs::write(folder.path().join("report.html"), "<html/>").unwrap();
        fs::write(&trace_path, trace.to_parquet().unwrap()).unwrap();
        Self {
            folder,
            store: b.store,
            lock: lock_path,
            report,
            trace: trace_path,
            outputs: b.outputs,
        }
    }

    pub(super) fn document(&self) -> Document {
        Document::open(&self.report, &self.trace).unwrap()
    }

    pub(super) fn provenance(&self, document: &Document) -> Provenance<'_> {
        Provenance::choose(&self.store, std::slice::from_ref(&self.lock), document)
    }

    pub(super) fn audit(&self) -> Audit {
        let document = self.document();
        let format = |value: &Scalar, _: Option<&str>, format: &str| match (value.as_f64(), format)
        {
            (Some(value), "0.0") => Ok(format!("{value:.1}")),
            _ => Ok(value.to_string()),
        };
        let judge = |_: &str, _: crate::Read<'_>| Err("no statement is judged here".to_owned());
        audit(
            &document,
            &self.provenance(&document),
            &std::collections::BTreeSet::new(),
            &format,
            &judge,
        )
    }

    /// Writes the trace with one number changed.
    pub(super) fn change_trace(&self, line: usize, change: impl Fn(&str) -> String, column: &str) {
        let table = Table::from_parquet(fs::read(&self.trace).unwrap()).unwrap();
        let mut columns = Vec::new();
        for name in table.names() {
            let mut made = table.column(&name).unwrap();
            if name == column {
                let old = table.text(column).unwrap();
                let text = |(i, v): (usize, &Option<&str>)| {
                    v.map(|v| if i == line { change(v) } else { v.to_owned() })
                };
                made = Column::text(column, old.iter().enumerate().map(text).collect::<Vec<_>>());
            }
            columns.push(made);
        }
        let (format, version) = contract::TRACE.note();
        let changed = Table::with_metadata(columns, &[(format, &version)]).unwrap();
        fs::write(&self.trace, changed.to_parquet().unwrap()).unwrap();
    }

    /// Changes a byte of an object in the store.
    pub(super) fn damage(&self, output: &str) {
        let path = self.store.path(&self.outputs[output]);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::remove_file(&path).unwrap();
        fs::write(&path, bytes).unwrap();
    }
}

pub(super) fn number<'a>(document: &'a Document, text: &str) -> &'a Number {
    document.numbers.iter().find(|n| n.text == text).unwrap()
}
