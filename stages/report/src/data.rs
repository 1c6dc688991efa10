//! The data available to a report: the outputs of the stages it needs, and the study.
//!
//! Tables have names of the form `stage.output`. If the stage has several cells, the table consists of the rows of all
//! its cells in order, with the cells' coordinates as columns. Artifacts are read only when needed. A lookup of an
//! artifact that is not in memory yet marks it as wanted, and the renderer fetches it and starts over, so that lookups
//! need no store.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

use artifacts::{Digest, Scalar, Store, Table, at_path, lock};
use pipeline::place::{Condition, same_label};
use pipeline::stage::{CellStatus, Coordinates, Input, Json, Media, Study};

use crate::format::FormatError;
use crate::ledger;
use crate::names::{Wrong, wrong_label};
use crate::trace::TraceSource;
use crate::view::{Opened, Part, View};

/// All data that lookups can access.
#[derive(Debug, Default)]
pub struct Data {
    stages: Vec<Input>,
    study: Option<Study>,
    tables: Mutex<BTreeMap<Digest, Arc<Table>>>,
    documents: Mutex<BTreeMap<Digest, Arc<Json>>>,
    wanted: Mutex<BTreeSet<Digest>>,
    known_parts: OnceLock<Known>,
    /// The name of the report's stage, to which the tables that it derives belong.
    own_stage: String,
    derived: Mutex<BTreeMap<String, (Digest, Arc<Table>)>>,
    opened: Mutex<BTreeMap<String, Arc<Opened>>>,
    /// Set when the user asks to stop.
    stop: Arc<AtomicBool>,
    /// Whether the rows are simulated, for a dry run.
    rehearsal: bool,
}

/// The digests of the inputs' tables and records: collected once, since thousands of lookups need them.
#[derive(Debug)]
struct Known {
    tables: BTreeSet<Digest>,
    records: BTreeSet<Digest>,
}

/// Returns the part of a record that reports read: the number of attempts, and the claims stated before, with their tests.
/// The rest of thousands of records is not kept.
fn what_is_read_of(record: &mut Json) -> Json {
    let attempts = record.get("attempts").and_then(Json::as_array);
    let attempts = vec![Json::Null; attempts.map_or(0, Vec::len)];
    let mut part = |key: &str| record.get_mut(key).map_or(Json::Null, Json::take);
    let (claims, tests) = (part("claims"), part("claim_tests"));
    serde_json::json!({ "attempts": attempts, "claims": claims, "claim_tests": tests })
}

/// Why a lookup has no answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Miss {
    /// The artifact must be fetched first.
    Unread,
    /// No such thing exists; the message lists what does.
    Wrong(String),
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unread => f.write_str("an artifact is not read yet"),
            Self::Wrong(message) => f.write_str(message),
        }
    }
}

impl From<FormatError> for Miss {
    fn from(error: FormatError) -> Self {
        Self::Wrong(error.to_string())
    }
}

impl From<String> for Miss {
    fn from(message: String) -> Self {
        Self::Wrong(message)
    }
}

/// Tables that a load cell may lack, depending on its machine and its server.
const SAMPLED: [&str; 12] = [
    "engine_events",
    "generators",
    "gpu_telemetry",
    "host_telemetry",
    "members",
    "process_telemetry",
    "request_generators",
    "request_servers",
    "server_host_telemetry",
    "server_info",
    "server_metrics",
    "slots",
];

impl Data {
    /// Creates the data from a cell's inputs and study, without reading anything yet.
    pub fn new(inputs: &[Input], study: Option<&Study>) -> Self {
        Self {
            stages: inputs.to_vec(),
            study: study.cloned(),
            ..Self::default()
        }
    }

    /// Sets the stage of the report, so that the tables it derives can be traced to its outputs.
    #[must_use]
    pub fn of_stage(mut self, stage: &str) -> Self {
        stage.clone_into(&mut self.own_stage);
        self
    }

    /// Sets the flag that tells the renderer to stop.
    #[must_use]
    pub fn stopped_by(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = stop;
        self
    }

    /// Marks the rows as simulated, for a dry run.
    #[must_use]
    pub fn of_rehearsal(mut self) -> Self {
        self.rehearsal = true;
        self
    }

    /// Returns whether the rows are simulated.
    pub(crate) fn is_rehearsal(&self) -> bool {
        self.rehearsal
    }

    /// Returns the flag that tells the renderer to stop.
    pub(crate) fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Adds a table that the report derives itself and outputs.
    ///
    /// # Errors
    /// If the table cannot be written as Parquet.
    pub(crate) fn derive(&self, name: &str, table: Table) -> Result<(), Miss> {
        let digest = Digest::of(&table.to_parquet().map_err(|e| e.to_string())?);
        lock(&self.derived).insert(name.to_owned(), (digest, Arc::new(table)));
        lock(&self.opened).remove(name);
        Ok(())
    }

    /// Returns the tables derived so far, by name.
    pub(crate) fn derived(&self) -> Vec<(String, Arc<Table>)> {
        lock(&self.derived)
            .iter()
            .map(|(name, (_, table))| (name.clone(), table.clone()))
            .collect()
    }

    /// Returns the digests of the inputs' tables and records.
    fn known_digests(&self) -> &Known {
        self.known_parts.get_or_init(|| {
            let cells = || self.stages.iter().flat_map(|s| &s.cells);
            let outputs = cells().flat_map(|c| c.outputs.values());
            let tables = outputs.filter(|a| a.media == Media::Parquet);
            Known {
                tables: tables.map(|a| a.digest).collect(),
                records: cells().filter_map(|c| c.record).collect(),
            }
        })
    }

    /// Returns a document by its digest alone, for example a record.
    pub(crate) fn by_digest(&self, digest: &Digest) -> Result<Arc<Json>, Miss> {
        if let Some(document) = lock(&self.documents).get(digest) {
            return Ok(document.clone());
        }
        lock(&self.wanted).insert(*digest);
        Err(Miss::Unread)
    }

    /// Returns the study.
    ///
    /// # Errors
    /// If the report was started without one.
    pub(crate) fn study(&self) -> Result<&Study, Miss> {
        self.study
            .as_ref()
            .ok_or_else(|| "this report does not see the study".to_owned().into())
    }

    /// Returns whether a stage is needed and its ok cells have this output.
    pub(crate) fn has(&self, name: &str) -> bool {
        let Some((stage, output)) = name.split_once('.') else {
            return false;
        };
        let cells = self
            .stages
            .iter()
            .filter(|s| s.stage == stage)
            .flat_map(|s| &s.cells);
        cells.into_iter().any(|c| c.outputs.contains_key(output))
    }

    /// Returns the reason why a table sampled beside a load is empty: no cell of its stage has it. `None` if a cell has
    /// it, or if it is not such a table.
    pub(crate) fn unsampled(&self, name: &str) -> Option<String> {
        let (stage, output) = name.split_once('.')?;
        let loads = |s: &&Input| s.stage == stage && s.kind == "load";
        let input = self.stages.iter().find(loads)?;
        let mut ok = input.cells.iter().filter(|c| c.status == CellStatus::Ok);
        let nowhere = ok.clone().next().is_some() && !ok.any(|c| c.outputs.contains_key(output));
        (nowhere && SAMPLED.contains(&output)).then(|| match output {
            "gpu_telemetry" => "no GPU was sampled".to_owned(),
            _ => format!("no cell has the table `{output}`"),
        })
    }

    /// Returns the names of the tables of a needed stage, without lineage tables.
    pub(crate) fn tables_of(&self, stage: &str) -> Vec<String> {
        let cells = self
            .stages
            .iter()
            .filter(|s| s.stage == stage)
            .flat_map(|s| &s.cells);
        let mut names = BTreeSet::new();
        for (name, artifact) in cells.flat_map(|c| &c.outputs) {
            if artifact.media == Media::Parquet && !name.ends_with(".lineage") {
                names.insert(format!("{stage}.{name}"));
            }
        }
        names.into_iter().collect()
    }

    /// Returns a needed stage.
    ///
    /// # Errors
    /// If the report does not need it.
    pub(crate) fn input(&self, stage: &str) -> Result<&Input, Miss> {
        let input = self.stages.iter().find(|s| s.stage == stage);
        input.ok_or_else(|| format!("this report does not need a stage `{stage}`").into())
    }

    /// Returns the needed stages.
    pub(crate) fn stages(&self) -> &[Input] {
        &self.stages
    }

    /// Reads the artifacts that lookups failed to find in memory; returns whether there were any.
    ///
    /// # Errors
    /// If an artifact is missing, damaged, or not what its record says.
    pub(crate) fn fetch(&self, store: &Store) -> Result<bool, String> {
        let wanted = std::mem::take(&mut *lock(&self.wanted));
        for digest in &wanted {
            let bytes = store.get(digest).map_err(|e| e.to_string())?;
            let wrong = |e: &dyn fmt::Display| format!("{digest}: {e}");
            if self.known_digests().tables.contains(digest) {
                let table = Table::from_parquet(bytes).map_err(|e| wrong(&e))?;
                lock(&self.tables).insert(*digest, Arc::new(table));
            } else {
                let mut json: Json = serde_json::from_slice(&bytes).map_err(|e| wrong(&e))?;
                if self.known_digests().records.contains(digest) {
                    json = what_is_read_of(&mut json);
                }
                lock(&self.documents).insert(*digest, Arc::new(json));
            }
        }
        Ok(!wanted.is_empty())
    }

    /// Returns the rows of `stage.output` that meet a condition.
    ///
    /// # Errors
    /// If the stage, output or column does not exist, or the table is not read yet.
    pub(crate) fn view(&self, name: &str, condition: &Condition) -> Result<View, Miss> {
        let view = self.open(name)?.choose(condition)?;
        self.check_labels(&view)?;
        Ok(view)
    }

    /// Checks that the labels that a condition gives an axis exist. A profile leaves labels out, so under a profile any
    /// label may exist. The values of other columns depend on the data.
    fn check_labels(&self, view: &View) -> Result<(), Miss> {
        let Some(study) = &self.study else {
            return Ok(());
        };
        if study
            .spec
            .get("profile")
            .is_some_and(|profile| !profile.is_null())
        {
            return Ok(());
        }
        for (axis, wanted) in &view.condition.0 {
            let labels = study
                .spec
                .get("axes")
                .and_then(|axes| axes.get(axis)?.get("labels")?.as_array());
            let Some(labels) = labels else { continue };
            let labels: Vec<Scalar> = labels
                .iter()
                .filter_map(|label| Scalar::from_json(label.get("label")?))
                .collect();
            for label in wanted.iter().filter(|label| **label != Scalar::Null) {
                let exists = labels.iter().any(|other| same_label(other, label));
                if exists || view.table.holds(axis, label)? {
                    continue;
                }
                let Wrong { message, hint } = wrong_label(axis, label, &labels);
                return Err(format!("{message}; {hint}").into());
            }
        }
        Ok(())
    }

    /// Returns the number of table rows that lookups have visited so far, including indexes.
    pub fn rows_visited(&self) -> u64 {
        lock(&self.opened)
            .values()
            .map(|table| table.visited())
            .sum()
    }

    /// Opens a table of a stage, of the ledger, or one that the report derives; later calls reuse it.
    ///
    /// # Errors
    /// As [`Data::view`].
    pub(crate) fn open(&self, name: &str) -> Result<Arc<Opened>, Miss> {
        if let Some(opened) = lock(&self.opened).get(name) {
            return Ok(opened.clone());
        }
        let mut own = lock(&self.derived).get(name).cloned();
        if own.is_none()
            && let Some(table) = crate::derived::table(name, self)?
        {
            self.derive(name, table)?;
            own = lock(&self.derived).get(name).cloned();
        }
        let axes = self
            .study
            .as_ref()
            .and_then(|s| s.spec.get("axes"))
            .and_then(axis_names)
            .unwrap_or_default();
        let opened = match (ledger::table(name, self.study.as_ref())?, own) {
            (Some(part), _) => Opened::new(TraceSource::Ledger, ("", name), vec![part], &axes),
            (None, Some((digest, content))) => {
                let part = Part {
                    coordinates: Coordinates::default(),
                    digest,
                    content,
                };
                Opened::new(
                    TraceSource::Table,
                    (&self.own_stage, name),
                    vec![part],
                    &axes,
                )
            }
            (None, None) => {
                let (stage, output) = split(name)?;
                let parts = self.parts(stage, output, Media::Parquet, &lock(&self.tables))?;
                Opened::new(TraceSource::Table, (stage, output), parts, &axes).of_cells()
            }
        };
        let opened = Arc::new(opened);
        lock(&self.opened).insert(name.to_owned(), opened.clone());
        Ok(opened)
    }

    /// Reads those of the named tables that pure stages made, where they exist and can be read. A later lookup reports
    /// any failure.
    pub(crate) fn read_ahead<'a>(&self, names: impl IntoIterator<Item = &'a str>, store: &Store) {
        for (stage, output) in names.into_iter().filter_map(|name| name.split_once('.')) {
            let stages = self
                .stages
                .iter()
                .filter(|s| s.stage == stage && s.kind != "load");
            let cells = stages
                .flat_map(|s| &s.cells)
                .filter(|c| c.status == CellStatus::Ok);
            let tables = cells
                .filter_map(|c| c.outputs.get(output))
                .filter(|a| a.media == Media::Parquet);
            for artifact in tables {
                let is_open = lock(&self.tables).contains_key(&artifact.digest);
                if !is_open
                    && let Ok(bytes) = store.get(&artifact.digest)
                    && let Ok(table) = Table::from_parquet(bytes)
                {
                    lock(&self.tables).insert(artifact.digest, Arc::new(table));
                }
            }
        }
    }

    /// Returns a value in a JSON output of the cell that meets the condition, at a path of keys and indices joined by
    /// full stops.
    ///
    /// # Errors
    /// If no cell or several cells meet the condition, or the document has no such path.
    pub(crate) fn document(
        &self,
        stage: &str,
        output: &str,
        condition: &Condition,
        path: &str,
    ) -> Result<(Part<Json>, Json), Miss> {
        let mut parts = self.parts(stage, output, Media::Json, &lock(&self.documents))?;
        parts.retain(|p| {
            let has = |axis: &str| p.coordinates.get(axis).is_some();
            condition.columns().all(has) && condition.agrees(&p.coordinates)
        });
        // Cells may agree, such as those of one server launched in several blocks.
        let first = parts.first().map(|p| at_path(&p.content, path));
        let agree = parts
            .iter()
            .all(|p| Some(at_path(&p.content, path)) == first);
        match parts.len() {
            0 => return Err(format!("no cell of `{stage}` matches {condition}").into()),
            n if !agree => {
                return Err(format!(
                    "{n} cells of `{stage}` match {{{condition}}} and differ; name one"
                )
                .into());
            }
            _ => {}
        }
        let part = parts.remove(0);
        let value = at_path(&part.content, path).cloned().ok_or_else(|| {
            let fields = part
                .content
                .as_object()
                .map(|o| o.keys().cloned().collect::<Vec<_>>().join(", "));
            format!(
                "`{stage}.{output}` has no `{path}`; its top-level keys are: {}",
                fields.unwrap_or_default()
            )
        })?;
        Ok((part, value))
    }

    fn parts<T>(
        &self,
        stage: &str,
        output: &str,
        media: Media,
        read: &BTreeMap<Digest, Arc<T>>,
    ) -> Result<Vec<Part<T>>, Miss> {
        let input = self
            .stages
            .iter()
            .find(|i| i.stage == stage)
            .ok_or_else(|| {
                let names: Vec<_> = self.stages.iter().map(|i| i.stage.as_str()).collect();
                format!(
                    "this report does not need the stage `{stage}`; it needs: {}",
                    names.join(", ")
                )
            })?;
        let mut parts = Vec::new();
        let mut unread = false;
        for cell in input.cells.iter().filter(|c| c.status == CellStatus::Ok) {
            let elsewhere = || input.cells.iter().any(|c| c.outputs.contains_key(output));
            if !cell.outputs.contains_key(output) && SAMPLED.contains(&output) && elsewhere() {
                continue;
            }
            let Some(artifact) = cell.outputs.get(output) else {
                let names: Vec<_> = cell.outputs.keys().map(String::as_str).collect();
                return Err(format!(
                    "stage `{stage}` has no output `{output}`; it has: {}",
                    names.join(", ")
                )
                .into());
            };
            if artifact.media != media {
                return Err(format!("`{stage}.{output}` is not {media:?}")
                    .to_lowercase()
                    .into());
            }
            match read.get(&artifact.digest) {
                Some(content) => parts.push(Part {
                    coordinates: cell.coordinates.clone(),
                    digest: artifact.digest,
                    content: content.clone(),
                }),
                None => {
                    lock(&self.wanted).insert(artifact.digest);
                    unread = true;
                }
            }
        }
        if unread {
            return Err(Miss::Unread);
        }
        if parts.is_empty() {
            return Err(
                format!("no cell of stage `{stage}` is ok, so there is no `{output}`").into(),
            );
        }
        Ok(parts)
    }
}

/// Splits `stage.output`.
///
/// # Errors
/// If the name contains no full stop.
pub(crate) fn split(name: &str) -> Result<(&str, &str), Miss> {
    name.split_once('.').ok_or_else(|| {
        format!(
            "`{name}` does not name an output; write it as \
            `stage.output`"
        )
        .into()
    })
}

fn axis_names(axes: &Json) -> Option<Vec<String>> {
    match axes {
        Json::Object(map) => Some(map.keys().cloned().collect()),
        Json::Array(items) => Some(
            items
                .iter()
                .filter_map(|a| a.get("name")?.as_str().map(str::to_owned))
                .collect(),
        ),
        _ => None,
    }
}
