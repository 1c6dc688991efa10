//! Everything that a lock reaches: its cells with their records, and their artifacts.

use std::collections::BTreeMap;

use artifacts::{Digest, Store};
use pipeline::lock::{Lock, LockCell, LockClass};
use pipeline::place::cell_text;
use pipeline::record::Record;
use pipeline::{Artifact, Media};

use crate::error::BundleError;

/// A cell that was executed.
pub(crate) struct Cell {
    /// As messages write it.
    pub(crate) name: String,
    pub(crate) class: LockClass,
    pub(crate) digest: Digest,
    pub(crate) record: Record,
}

/// What an object is.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) media: Media,
    /// `CELL.OUTPUT`, of the first cell that has it.
    pub(crate) what: String,
    pub(crate) rows: Option<u64>,
}

/// Everything a lock reaches.
pub(crate) struct Catalogue {
    /// In the order of the lock.
    pub(crate) cells: Vec<Cell>,
    /// By digest.
    pub(crate) objects: BTreeMap<Digest, Object>,
}

impl Catalogue {
    /// Reads every record of a lock.
    ///
    /// # Errors
    /// If a record is missing, damaged, or not the one the lock means.
    pub(crate) fn read(lock: &Lock, store: &Store) -> Result<Self, BundleError> {
        let mut found = Self {
            cells: Vec::new(),
            objects: BTreeMap::new(),
        };
        for stage in &lock.stages {
            for line in &stage.cells {
                let name = cell_text(&stage.name, &line.coordinates);
                found.earlier(&name, line, store);
                let Some(digest) = line.record else { continue };
                let wrong = |e: &dyn std::fmt::Display| {
                    BundleError::Study(format!("{name}: its record {}: {e}", digest.short()))
                };
                let record = Record::parse(&store.get(&digest)?).map_err(|e| wrong(&e))?;
                if Some(record.key) != line.key {
                    return Err(wrong(&"its key differs from the lock's"));
                }
                found.objects.insert(
                    digest,
                    Object {
                        media: Media::Json,
                        what: format!("{name} (record)"),
                        rows: None,
                    },
                );
                for (output, artifact) in &record.outputs {
                    found.add(&format!("{name}.{output}"), artifact);
                }
                let attempts = record.attempts.iter().flat_map(|a| &a.evidence);
                for (output, artifact) in record.evidence.iter().chain(attempts) {
                    found.add(&format!("{name}.{output} (evidence)"), artifact);
                }
                found.cells.push(Cell {
                    name,
                    class: stage.class,
                    digest,
                    record,
                });
            }
        }
        found.check_inputs()?;
        Ok(found)
    }

    /// Adds the records of a cell's earlier results, as far as they are there: what they say, and not
    /// what they were made of.
    fn earlier(&mut self, name: &str, line: &LockCell, store: &Store) {
        for earlier in line.earlier.iter().filter(|e| store.contains(&e.record)) {
            let object = || Object {
                media: Media::Json,
                what: format!("{name} (record of an earlier result)"),
                rows: None,
            };
            self.objects.entry(earlier.record).or_insert_with(object);
        }
    }

    fn add(&mut self, what: &str, artifact: &Artifact) {
        let object = || Object {
            media: artifact.media,
            what: what.to_owned(),
            rows: artifact.rows,
        };
        self.objects.entry(artifact.digest).or_insert_with(object);
    }

    /// What a cell read must be what another one of the lock left.
    fn check_inputs(&self) -> Result<(), BundleError> {
        for cell in &self.cells {
            let inputs = cell.record.recipe.inputs.iter().flat_map(|i| &i.cells);
            for digest in inputs.flat_map(|c| c.outputs.values()) {
                if !self.objects.contains_key(digest) {
                    return Err(BundleError::Study(format!(
                        "{} read {}, which is not an output of any cell in the lock; run the \
                         experiment again",
                        cell.name,
                        digest.short()
                    )));
                }
            }
        }
        Ok(())
    }

    /// Returns a line for each artifact: stage, coordinates, output, media, rows, digest.
    pub(crate) fn listing(&self) -> String {
        let mut text = String::from("stage\tcell\toutput\tmedia\tbytes\trows\tdigest\tfile\n");
        for cell in &self.cells {
            let mut line = |output: &str, artifact: &Artifact| {
                let rows = artifact.rows.map_or_else(String::new, |n| n.to_string());
                let fields = [
                    cell.record.stage.clone(),
                    cell.name.clone(),
                    output.to_owned(),
                    media_type(artifact.media).to_owned(),
                    artifact.bytes.to_string(),
                    rows,
                    artifact.digest.to_string(),
                    crate::layout::object(&artifact.digest),
                ];
                text.push_str(&fields.join("\t"));
                text.push('\n');
            };
            for (output, artifact) in &cell.record.outputs {
                line(output, artifact);
            }
            for (output, artifact) in &cell.record.evidence {
                line(&format!("{output} (evidence)"), artifact);
            }
        }
        text
    }
}

/// Returns the media type of an artifact.
pub(crate) fn media_type(media: Media) -> &'static str {
    match media {
        Media::Parquet => "application/vnd.apache.parquet",
        Media::Json => "application/json",
        Media::Text => "text/plain",
        Media::Markdown => "text/markdown",
        Media::Svg => "image/svg+xml",
        Media::Html => "text/html",
        Media::Binary => "application/octet-stream",
    }
}

/// When a cell began and ended, RFC 3339.
pub(crate) fn times(record: &Record) -> (String, String) {
    let Ok(start) = record.started.parse::<jiff::Timestamp>() else {
        return (record.started.clone(), record.started.clone());
    };
    // Seconds of a record are a duration that was measured: neither negative nor huge.
    let length = jiff::SignedDuration::try_from_secs_f64(record.seconds).unwrap_or_default();
    let end = start.checked_add(length).unwrap_or(start);
    (start.to_string(), end.to_string())
}
