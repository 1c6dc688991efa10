//! The rows of one load cell.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use artifacts::{Digest, Store, Table, TableError, TableRow};
use pipeline::place::CellName;
use pipeline::{Failure, InputCell};

use crate::cell::ImportClock;
use crate::declare::Row as _;
use crate::lineage::{LineageSource, SourceArtifact};
use crate::possible::impossible_cell;
use crate::requests::{Chunk, Request};

/// Everything that the pure stages read from one load cell.
#[derive(Clone, Debug)]
pub struct CellRows {
    /// The cell.
    pub place: CellName,
    /// The digest of the artifact `requests`.
    pub requests_digest: Digest,
    /// Its rows.
    pub requests: Vec<Request>,
    /// The digest of the artifact `chunks`, if the cell has one.
    pub chunks_digest: Option<Digest>,
    /// Its rows.
    pub chunks: Vec<Chunk>,
    /// The row about the cell itself, if it has one.
    pub cell: Option<TableRow>,
    /// The scrapes of the server's own metrics, if it has any.
    pub server_metrics: Option<Table>,
    /// The tables sampled during the load that exist, each with its digest, by table name: `host_telemetry`,
    /// `process_telemetry`, `gpu_telemetry`, `server_host_telemetry`.
    pub beside: BTreeMap<&'static str, (Digest, Table)>,
}

/// The tables sampled during a load that the pure stages read.
const BESIDE: [&str; 4] = [
    "host_telemetry",
    "process_telemetry",
    "gpu_telemetry",
    "server_host_telemetry",
];

/// Approximate memory in bytes for a request, for a chunk, and for each byte of another table's file.
const REQUEST: u64 = 800;
const CHUNK: u64 = 72;
const PER_BYTE: u64 = 4;

/// Approximate memory in bytes for a table with almost no rows: a few dozen columns.
const TABLE: u64 = 16 << 10;

/// Approximate memory in bytes for the row about a cell: about a hundred values.
const ABOUT: u64 = 8 << 10;

/// Returns the number of rows of an output. An output that does not tell it has at most one row for each byte.
fn rows(cell: &InputCell, output: &str) -> u64 {
    let output = cell.outputs.get(output);
    output.map_or(0, |a| a.rows.unwrap_or(a.bytes))
}

impl CellRows {
    /// Returns whether the cell is an imported file that holds only aggregates.
    pub fn is_aggregate(&self) -> bool {
        let source = self.cell.as_ref().and_then(|cell| cell.text("source"));
        self.requests.is_empty() && source == Some("imported")
    }

    /// Reads the rows of an `ok` load cell.
    ///
    /// # Errors
    /// If the cell lacks its `requests`, an artifact is missing or damaged, or a column is not
    /// as the load stage writes it.
    pub fn read(store: &Store, stage: &str, cell: &InputCell) -> Result<Self, Failure> {
        let table = |name: &str| Self::table(store, cell, name);
        let mut rows = Self::read_answers(store, stage, cell)?;
        if let Some((digest, chunks)) = table("chunks")? {
            let chunks = Chunk::read(&chunks).map_err(|e| unreadable(cell, "chunks", &e))?;
            if let Some(message) = chunks.iter().find_map(Chunk::impossible) {
                return Err(unreadable(cell, "chunks", &message));
            }
            (rows.chunks_digest, rows.chunks) = (Some(digest), chunks);
        }
        for name in BESIDE {
            rows.beside
                .extend(table(name)?.map(|beside| (name, beside)));
        }
        rows.server_metrics = table("server_metrics")?.map(|(_, table)| table);
        Ok(rows)
    }

    /// Reads only the requests of an `ok` load cell and the row about the cell itself. It reads neither chunks nor the
    /// tables sampled during the load.
    ///
    /// # Errors
    /// As [`CellRows::read`].
    pub fn read_answers(store: &Store, stage: &str, cell: &InputCell) -> Result<Self, Failure> {
        let wrong = |e: &dyn std::fmt::Display| unreadable(cell, "requests", e);
        let (requests_digest, requests) = Self::table(store, cell, "requests")?
            .ok_or_else(|| wrong(&"the cell has no such output"))?;
        let requests = Request::read(&requests).map_err(|e| wrong(&e))?;
        if let Some(message) = requests.iter().find_map(Request::impossible) {
            return Err(wrong(&message));
        }
        let about = Self::about(store, cell)?;
        Ok(Self {
            place: CellName {
                stage: stage.to_owned(),
                coordinates: cell.coordinates.clone(),
            },
            requests_digest,
            requests,
            chunks_digest: None,
            chunks: Vec::new(),
            cell: about,
            server_metrics: None,
            beside: BTreeMap::new(),
        })
    }

    /// Reads the row about a load cell itself. Returns `None` if it has none.
    ///
    /// # Errors
    /// As [`CellRows::read`].
    pub fn about(store: &Store, cell: &InputCell) -> Result<Option<TableRow>, Failure> {
        let Some((_, table)) = Self::table(store, cell, "cell")? else {
            return Ok(None);
        };
        if let Some(message) = impossible_cell(&table) {
            return Err(unreadable(cell, "cell", &message));
        }
        TableRow::of(&table, 0).map_err(|e| unreadable(cell, "cell", &e))
    }

    /// Reads a table of a load cell. Returns `None` if the cell has no table of this name.
    ///
    /// # Errors
    /// If the artifact is missing, damaged, or not a table.
    pub fn table(
        store: &Store,
        cell: &InputCell,
        name: &str,
    ) -> Result<Option<(Digest, Table)>, Failure> {
        let Some(artifact) = cell.outputs.get(name) else {
            return Ok(None);
        };
        let bytes = store
            .get(&artifact.digest)
            .map_err(|e| unreadable(cell, name, &e))?;
        let table = Table::from_parquet(bytes).map_err(|e| unreadable(cell, name, &e))?;
        Ok(Some((artifact.digest, table)))
    }

    /// Returns the approximate memory that the rows of a cell take, in bytes.
    pub fn weight(cell: &InputCell) -> u64 {
        let output = |name: &str| cell.outputs.get(name);
        let sampled = ["server_metrics"].into_iter().chain(BESIDE);
        let sampled = sampled.filter_map(output).map(|artifact| {
            let values = artifact.bytes.saturating_mul(PER_BYTE);
            values.saturating_add(TABLE)
        });
        Self::weight_of_answers(cell)
            .saturating_add(rows(cell, "chunks").saturating_mul(CHUNK))
            .saturating_add(sampled.fold(0, u64::saturating_add))
    }

    /// Returns the approximate memory that the answers of a cell take ([`CellRows::read_answers`]), in bytes.
    pub fn weight_of_answers(cell: &InputCell) -> u64 {
        rows(cell, "requests")
            .saturating_mul(REQUEST)
            .saturating_add(ABOUT)
    }

    /// Takes the tables `requests` and `chunks` as the load stage writes them.
    ///
    /// # Errors
    /// If a column is not as the load stage writes it.
    pub fn of(requests: (Digest, &Table), chunks: (Digest, &Table)) -> Result<Self, TableError> {
        Ok(Self {
            place: CellName::default(),
            requests_digest: requests.0,
            requests: Request::read(requests.1)?,
            chunks_digest: Some(chunks.0),
            chunks: Chunk::read(chunks.1)?,
            cell: None,
            server_metrics: None,
            beside: BTreeMap::new(),
        })
    }

    /// Returns the location of its requests, for a lineage.
    pub fn requests_source(&self) -> LineageSource {
        self.source("requests", self.requests_digest)
    }

    /// Returns the location of its chunks, if it has any.
    pub fn chunks_source(&self) -> Option<LineageSource> {
        Some(self.source("chunks", self.chunks_digest?))
    }

    /// Returns the location of an output of the cell.
    pub fn source(&self, output: &str, digest: Digest) -> LineageSource {
        LineageSource::Artifact(Arc::new(SourceArtifact {
            cell: self.place.clone(),
            output: output.to_owned(),
            digest,
        }))
    }

    /// Returns whether the times of different rows can be compared. In a file without start times, each row counts from its
    /// own send: its durations are known, but not which requests were in flight together, or how long all of them took.
    pub fn has_one_clock(&self) -> bool {
        let clock = self.cell.as_ref().and_then(|cell| cell.text("clock"));
        clock != Some(ImportClock::Request.word())
    }

    /// Returns the window of the measured requests, in ns: from the first byte sent to the end of the last answer. Returns
    /// `None` if its ends are unknown, or if the rows have no clock in common.
    pub fn window(&self) -> Option<(i64, i64)> {
        let from = self.measured().filter_map(|r| r.sent_ns).min()?;
        let to = self.measured().filter_map(|r| r.done_ns).max()?;
        self.has_one_clock().then_some((from, to))
    }

    /// Returns the length of [`CellRows::window`], in seconds. Returns `None` if it is unknown or 0, so that no rate is defined.
    pub fn window_s(&self) -> Option<f64> {
        let (from, to) = self.window()?;
        (to > from).then(|| (to - from) as f64 / 1e9)
    }

    /// Returns the mean number of measured requests in flight, rounded, at least 1: the sum of their durations over the
    /// window (Little's law). In a closed loop, so many consecutive requests are a *wave*: they share the server, so
    /// their latencies resemble each other. If the requests have no clock in common, all of several clients may have been in flight
    /// together. The number is 1 if no request has times.
    pub fn in_flight(&self) -> usize {
        if !self.has_one_clock() {
            let clients = self.cell.as_ref().and_then(|cell| cell.int("clients"));
            return if clients == Some(1) {
                1
            } else {
                self.measured().count().max(1)
            };
        }
        let spans = || {
            self.measured()
                .filter_map(|r| Some((r.sent_ns?, r.done_ns?)))
        };
        let window = spans()
            .map(|s| s.0)
            .min()
            .zip(spans().map(|s| s.1).max())
            .map_or(0, |(first, last)| last.saturating_sub(first));
        let busy: f64 = spans().map(|(from, to)| to as f64 - from as f64).sum();
        if window > 0 {
            ((busy / window as f64).round() as usize).max(1)
        } else {
            1
        }
    }

    /// Returns whether clients sent the requests in turn, as in a closed loop, instead of at moments of a schedule. The row about
    /// the cell decides before its requests, because those of other tools name no client. Returns `None` if neither says.
    pub fn is_closed_loop(&self) -> Option<bool> {
        let about = self.cell.as_ref();
        let has = |column: &str| about.is_some_and(|cell| cell.number(column).is_some());
        let in_turn = ["closed-loop", "sequential"];
        match about.and_then(|cell| cell.text("arrival")) {
            _ if has("clients") => Some(true),
            Some(arrival) => Some(in_turn.contains(&arrival)),
            None if has("rate") => Some(false),
            None if self.measured().any(|r| r.client_id.is_some()) => Some(true),
            None if self.measured().any(|r| r.scheduled_ns.is_some()) => Some(false),
            None => None,
        }
    }

    /// Returns the measured requests, in the order of the rows.
    pub fn measured(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(|r| r.is_measured())
    }
}

/// Returns whether a load with these parameters abandons requests on purpose, by its setting `cancel`.
pub fn abandons(parameters: &serde_json::Value) -> bool {
    let cancel = &parameters["cancel"];
    cancel.is_object() && cancel["share"].as_f64() != Some(0.0)
}

/// Makes the error for a table of a load cell that cannot be read.
pub(crate) fn unreadable(cell: &InputCell, name: &str, e: &dyn std::fmt::Display) -> Failure {
    let at = cell.coordinates.to_string();
    let space = if at.is_empty() { "" } else { " " };
    Failure::failed(format!(
        "`{name}` of the load cell{space}{at} cannot be read: {e}"
    ))
}

/// Returns the source of a row of `server_metrics`, as the start of its labels: `member="NAME"`, `exporter="NAME"`, or
/// empty for the server's own metrics.
pub fn metrics_source(labels: &str) -> &str {
    let named = ["member=\"", "exporter=\""];
    let Some(label) = named.into_iter().find(|label| labels.starts_with(label)) else {
        return "";
    };
    let name = &labels[label.len()..];
    name.find('"')
        .map_or("", |end| &labels[..=label.len() + end])
}

/// What the samples of a server counter show about its rise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ServerCounter {
    /// The counter rose by this much.
    Rose(f64),
    /// One of its series fell: a server restarted.
    BeganAnew,
    /// The counter is not known at both ends.
    Unknown,
}

/// Returns the rise of a server counter, summed over its series, from the first scrape of a cell to the last. The rise
/// includes the work of requests without a row. The table has the columns of `server_metrics`.
///
/// The rise is unknown if a series ended. It is also unknown if an address was not scraped both before the start and
/// after the end of `window` (ns since the cell's start). This holds for every address that has the counter and for all
/// of `members` (the members of a group that count).
pub fn server_counter(
    table: &Table,
    name: &str,
    window: (i64, i64),
    members: &[String],
) -> ServerCounter {
    counted(table, name, window, members).unwrap_or(ServerCounter::Unknown)
}

fn counted(
    table: &Table,
    name: &str,
    (from, to): (i64, i64),
    members: &[String],
) -> Option<ServerCounter> {
    let (names, values) = (table.text("name").ok()?, table.float("value").ok()?);
    let (times, labels) = (table.int("at_ns").ok()?, table.text("labels").ok()?);
    let mut scrapes: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
    let mut series: BTreeMap<&str, BTreeMap<i64, f64>> = BTreeMap::new();
    for i in 0..table.rows() {
        let (at, labels) = (times[i]?, labels[i]?);
        scrapes
            .entry(metrics_source(labels))
            .or_default()
            .insert(at);
        if names[i] == Some(name) {
            series.entry(labels).or_default().insert(at, values[i]?);
        }
    }
    if series.is_empty() {
        return None;
    }
    let members = members.iter().map(|member| format!("member=\"{member}\""));
    let members: Vec<String> = members.collect();
    let having = series.keys().map(|labels| metrics_source(labels));
    let mut ends: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for source in having.chain(members.iter().map(String::as_str)) {
        let scraped = scrapes.get(source)?;
        let (first, last) = (*scraped.first()?, *scraped.last()?);
        if first > from || last < to {
            return None;
        }
        ends.insert(source, (first, last));
    }
    let mut rise = 0.0;
    for (labels, samples) in &series {
        let (first, last) = ends[metrics_source(labels)];
        if samples.values().is_sorted() {
            // A series that appears during the load was at 0 before.
            rise += samples.get(&last)? - samples.get(&first).unwrap_or(&0.0);
        } else {
            return Some(ServerCounter::BeganAnew);
        }
    }
    Some(ServerCounter::Rose(rise))
}
