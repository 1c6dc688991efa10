//! Everything that a lock refers to: its cells with their records, and their artifacts.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::{Digest, Store};
use pipeline::lock::{Lock, LockCell, LockClass};
use pipeline::place::cell_text;
use pipeline::record::Record;
use pipeline::{Artifact, Media};

use crate::error::BundleError;

/// The output at the end of every number's trail.
const REQUESTS: &str = "requests";

/// An executed cell.
pub(crate) struct Cell {
    /// The cell's name, as in messages.
    pub(crate) name: String,
    pub(crate) class: LockClass,
    pub(crate) digest: Digest,
    pub(crate) record: Record,
}

/// The description of an object.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) media: Media,
    /// `CELL.OUTPUT` for the first cell that has the object.
    pub(crate) what: String,
    pub(crate) rows: Option<u64>,
}

/// Everything that a lock refers to.
pub(crate) struct Catalogue {
    /// The cells, in the order of the lock.
    pub(crate) cells: Vec<Cell>,
    /// The objects in the bundle, by digest.
    pub(crate) objects: BTreeMap<Digest, Object>,
    /// The objects that are not in the bundle, only their digests.
    pub(crate) left_out: BTreeMap<Digest, Object>,
    /// The records of earlier results that are no longer there, with the names of their cells.
    pub(crate) gone: BTreeMap<Digest, String>,
}

impl Catalogue {
    /// Reads every record of a lock. `without` names outputs of measurements that are left out.
    ///
    /// # Errors
    /// If a record is missing, damaged, or not the one in the lock, or if an output cannot be left out.
    pub(crate) fn read(
        lock: &Lock,
        store: &Store,
        without: &[String],
    ) -> Result<Self, BundleError> {
        let mut catalogue = Self {
            cells: Vec::new(),
            objects: BTreeMap::new(),
            left_out: BTreeMap::new(),
            gone: BTreeMap::new(),
        };
        let unwanted: BTreeSet<&str> = without.iter().map(String::as_str).collect();
        for stage in &lock.stages {
            for line in &stage.cells {
                let name = cell_text(&stage.name, &line.coordinates);
                catalogue.earlier(&name, line, store)?;
                let Some(digest) = line.record else { continue };
                let wrong = |e: &dyn std::fmt::Display| {
                    BundleError::Study(format!("{name}: its record {}: {e}", digest.short()))
                };
                let record = Record::parse(&store.get_document(&digest)?).map_err(|e| wrong(&e))?;
                if Some(record.key) != line.key {
                    return Err(wrong(&"its key differs from the lock's"));
                }
                catalogue.objects.insert(
                    digest,
                    Object {
                        media: Media::Json,
                        what: format!("{name} (record)"),
                        rows: None,
                    },
                );
                for (output, artifact) in &record.outputs {
                    let measured = stage.class == LockClass::Measurement;
                    let wanted = !(measured && unwanted.contains(output.as_str()));
                    catalogue.add(&format!("{name}.{output}"), artifact, wanted);
                }
                let attempts = record.attempts.iter().flat_map(|a| &a.evidence);
                for (output, artifact) in record.evidence.iter().chain(attempts) {
                    catalogue.add(&format!("{name}.{output} (evidence)"), artifact, true);
                }
                catalogue.cells.push(Cell {
                    name,
                    class: stage.class,
                    digest,
                    record,
                });
            }
        }
        // An object that another output also has is included anyway.
        let held = &catalogue.objects;
        catalogue
            .left_out
            .retain(|digest, _| !held.contains_key(digest));
        catalogue.check_inputs()?;
        catalogue.check_left_out(&unwanted)?;
        Ok(catalogue)
    }

    /// Checks that request rows stay, because numbers lead to them, and that every unwanted name occurs in a
    /// measurement.
    fn check_left_out(&self, unwanted: &BTreeSet<&str>) -> Result<(), BundleError> {
        let measured = self
            .cells
            .iter()
            .filter(|c| c.class == LockClass::Measurement);
        let names: BTreeSet<&str> = measured
            .flat_map(|c| c.record.outputs.keys().map(|name| name.as_str()))
            .collect();
        for name in unwanted {
            if *name == REQUESTS {
                return Err(BundleError::Study(format!(
                    "`{REQUESTS}` cannot be left out: every number of a report leads to its request rows"
                )));
            }
            if !names.contains(name) {
                let others: Vec<&str> = names.iter().copied().filter(|n| *n != REQUESTS).collect();
                return Err(BundleError::Study(format!(
                    "no measurement of the study has an output `{name}` to leave out; its outputs are {}",
                    others.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// Adds the records of a cell's earlier results, without their inputs, and notes those that are not there.
    ///
    /// # Errors
    /// If a record is damaged, or not the one in the lock.
    fn earlier(&mut self, name: &str, line: &LockCell, store: &Store) -> Result<(), BundleError> {
        for earlier in &line.earlier {
            if !store.contains(&earlier.record) {
                self.gone.insert(earlier.record, name.to_owned());
                continue;
            }
            let wrong = |e: &dyn std::fmt::Display| {
                BundleError::Study(format!(
                    "{name}: the record {} of an earlier result: {e}",
                    earlier.record.short()
                ))
            };
            let bytes = store.get_document(&earlier.record)?;
            let record = Record::parse(&bytes).map_err(|e| wrong(&e))?;
            if record.key != earlier.key {
                return Err(wrong(&"its key differs from the lock's"));
            }
            let object = || Object {
                media: Media::Json,
                what: format!("{name} (record of an earlier result)"),
                rows: None,
            };
            self.objects.entry(earlier.record).or_insert_with(object);
        }
        Ok(())
    }

    fn add(&mut self, what: &str, artifact: &Artifact, held: bool) {
        let object = || Object {
            media: artifact.media,
            what: what.to_owned(),
            rows: artifact.rows,
        };
        let objects = match held {
            true => &mut self.objects,
            false => &mut self.left_out,
        };
        objects.entry(artifact.digest).or_insert_with(object);
    }

    /// Checks that every input of a cell is an output of another cell in the lock.
    fn check_inputs(&self) -> Result<(), BundleError> {
        for cell in &self.cells {
            let inputs = cell.record.recipe.inputs.iter().flat_map(|i| &i.cells);
            for digest in inputs.flat_map(|c| c.outputs.values()) {
                if !self.objects.contains_key(digest) && !self.left_out.contains_key(digest) {
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

    /// Returns a line for each artifact: stage, coordinates, output, media, rows, digest, and its file. The file is
    /// empty if the bundle does not hold it.
    pub(crate) fn listing(&self) -> String {
        let mut text = String::from("stage\tcell\toutput\tmedia\tbytes\trows\tdigest\tfile\n");
        for cell in &self.cells {
            let mut line = |output: &str, artifact: &Artifact| {
                let rows = artifact.rows.map_or_else(String::new, |n| n.to_string());
                let file = match self.objects.contains_key(&artifact.digest) {
                    true => crate::layout::object(&artifact.digest),
                    false => String::new(),
                };
                let fields = [
                    cell.record.stage.clone(),
                    cell.name.clone(),
                    output.to_owned(),
                    media_type(artifact.media).to_owned(),
                    artifact.bytes.to_string(),
                    rows,
                    artifact.digest.to_string(),
                    file,
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

/// Returns when a cell began and ended, in RFC 3339.
pub(crate) fn times(record: &Record) -> (String, String) {
    let Ok(start) = record.started.parse::<jiff::Timestamp>() else {
        return (record.started.clone(), record.started.clone());
    };
    // A record's seconds are a measured duration: neither negative nor huge.
    let length = jiff::SignedDuration::try_from_secs_f64(record.seconds).unwrap_or_default();
    let end = start.checked_add(length).unwrap_or(start);
    (start.to_string(), end.to_string())
}
