//! The contract between the pipeline and the stage kinds.
//!
//! A kind says how its settings look ([`StageKind::schema`]), what they mean in full
//! ([`StageKind::canonical`]: that is what enters the action key) and how to execute one cell
//! ([`StageKind::run`]). Everything a cell may see comes in through its [`Job`]; everything
//! it leaves goes out through [`Done`] or [`Failure`].

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::name::OutputName;
use artifacts::{Digest, FileDigest, Scalar, Store};
use serde::{Deserialize, Serialize};

use crate::cause::Cause;
use crate::design::Place;
use crate::effect::{Consent, Effect, Permit};
use crate::lease::Leases;
pub use crate::place::Coordinates;
use crate::sources::{MOST_BYTES, NamedFiles, Source};

/// A JSON value: settings, canonical parameters, descriptors.
pub type Json = serde_json::Value;

/// How a kind's results may be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Owns something alive; its descriptor is cached, the live thing starts only when a
    /// cell that needs it runs.
    Resource,
    /// Never reproducible: cached by key, replicated by an axis, re-measured on request.
    Measurement,
    /// Same inputs give the same bytes on any machine at any thread count.
    Pure,
}

/// One step of the route from a stage's settings to a place inside them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// A key of a mapping.
    Key(String),
    /// An index of a sequence.
    Index(usize),
}

/// A mistake in the settings of a stage: what is wrong, and the remedy. The pipeline adds
/// file, line and column from the route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Keys and indices from the stage's settings to the mistake; empty means the stage.
    pub route: Vec<Step>,
    /// What is wrong, in one sentence without a final stop.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The last key of the route is itself wrong, and not what stands behind it.
    pub of_key: bool,
}

impl Problem {
    /// Makes a problem at a place given as keys, for instance `["arrival", "clients"]`.
    pub fn at(keys: &[&str], message: impl Into<String>) -> Self {
        let route = keys.iter().map(|k| Step::Key((*k).to_owned())).collect();
        Self {
            route,
            message: message.into(),
            hint: None,
            of_key: false,
        }
    }

    /// Makes a problem with the last of the keys itself, such as a name that nothing has.
    pub fn at_key(keys: &[&str], message: impl Into<String>) -> Self {
        Self {
            of_key: true,
            ..Self::at(keys, message)
        }
    }

    /// Adds the remedy.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// A cell that a cell needs, as far as it is known while planning.
#[derive(Clone, Debug)]
pub struct Needed<'a> {
    /// The name of its stage.
    pub stage: &'a str,
    /// The kind of its stage.
    pub kind: &'a str,
    /// Its canonical parameters; null if they are wrong themselves, which is told already.
    pub parameters: &'a Json,
    /// What it needs itself.
    pub needs: Vec<Needed<'a>>,
}

impl<'a> Needed<'a> {
    /// Returns the first cell of a kind among those needed.
    pub fn of_kind<'n>(needs: &'n [Needed<'a>], kind: &str) -> Option<&'n Needed<'a>> {
        needs.iter().find(|needed| needed.kind == kind)
    }
}

/// A table that a stage is going to make of other stages' cells: known while planning, so that an axis
/// with the name of a column is told then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTable {
    /// The table, as the setting `tables` names it.
    pub name: String,
    /// What makes it, for people.
    pub operator: String,
    /// The kind of the stages whose coordinates it has columns for.
    pub of_kind: &'static str,
    /// Its columns, without those of coordinates.
    pub columns: Vec<String>,
}

/// Named definitions a kind may refer to: `engines`, `models`, `workloads`, `templates`, …
///
/// Looked up in the experiment's own sections, then in folders of the same names beside the
/// experiment file and in the user's configuration, then among those shipped.
pub trait Library {
    /// Returns a definition, `extends` already merged. A template is a JSON string.
    fn find(&self, collection: &str, name: &str) -> Option<Json>;
    /// Returns the names in a collection, sorted.
    fn names(&self, collection: &str) -> Vec<String>;
    /// Says what a definition that is used amounts to; returns the other name under which the
    /// same content was used before in this experiment, if there is one. Where two names for
    /// one thing would pass as two things, a kind makes a problem of it.
    fn claim(&self, _collection: &str, _name: &str, _content: &Json) -> Option<String> {
        None
    }
    /// Returns the names of the axes.
    fn axes(&self) -> Vec<String> {
        Vec::new()
    }
    /// Returns the labels of an axis, each with its fields (null for a plain label); `None` if there is no such
    /// axis. The A/A arm has the fields of the label that it stands for.
    fn labels(&self, _axis: &str) -> Option<Vec<(Scalar, Json)>> {
        None
    }
    /// Returns where a file lies that settings or definitions name: a relative path begins at the
    /// experiment's folder. Without an experiment it begins at the working directory.
    fn path(&self, file: &str) -> PathBuf {
        PathBuf::from(file)
    }
    /// Returns the digest of a file that settings name.
    ///
    /// # Errors
    /// If it cannot be read, or is no regular file that may be named.
    fn digest(&self, path: &Path) -> io::Result<FileDigest> {
        FileDigest::of(path, MOST_BYTES)
    }
    /// Hears of a file that the plan read.
    fn reads(&self, _source: &Source) {}
    /// Returns the files that the plan has read so far.
    fn files(&self) -> NamedFiles {
        NamedFiles::default()
    }
}

/// A definition shipped with the binary.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// The collection it belongs to.
    pub collection: &'static str,
    /// Its name: the file name without `.yaml` (templates keep their full name).
    pub name: &'static str,
    /// The file's text: YAML, or a template as it is.
    pub text: &'static str,
}

/// The stage kinds and definitions a binary knows.
#[derive(Default)]
pub struct Registry {
    /// The kinds, each under its own name.
    pub kinds: Vec<Box<dyn StageKind>>,
    /// The definitions shipped.
    pub shipped: Vec<Shipped>,
    /// The schema of one definition of each collection an experiment may hold as a section.
    pub collections: Vec<(&'static str, schemars::Schema)>,
}

/// What became of a planned cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CellStatus {
    /// Executed (now or earlier) and complete.
    Ok,
    /// Executed and failed; the reason and the evidence are in the ledger.
    Failed,
    /// No progress for the declared heartbeat.
    Hung,
    /// Its time limit passed.
    Timeout,
    /// Not executed, for a reason beyond the experiment (an input failed, a capability lacks).
    Skipped,
    /// Left out by the experiment, with the reason it declares.
    Excluded,
    /// Stopped by the user before it ended.
    Interrupted,
}

impl CellStatus {
    /// Returns the word used in tables, files and messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Hung => "hung",
            Self::Timeout => "timeout",
            Self::Skipped => "skipped",
            Self::Excluded => "excluded",
            Self::Interrupted => "interrupted",
        }
    }

    /// Returns the status that a word stands for.
    pub fn parse(word: &str) -> Option<Self> {
        use CellStatus::{Excluded, Failed, Hung, Interrupted, Ok, Skipped, Timeout};
        [Ok, Failed, Hung, Timeout, Skipped, Excluded, Interrupted]
            .into_iter()
            .find(|status| status.word() == word)
    }
}

/// A result that was there before, and is adopted by a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// The same for the same result.
    pub identity: String,
    /// The settings that choose it, as paths from the stage's settings.
    pub chosen_by: Vec<Vec<&'static str>>,
}

/// What kind of bytes an artifact holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Media {
    /// A Parquet table.
    Parquet,
    /// A JSON document.
    Json,
    /// Plain text, for instance a log.
    Text,
    /// Markdown.
    Markdown,
    /// An SVG picture.
    Svg,
    /// An HTML page.
    Html,
    /// Anything else.
    Binary,
}

/// An artifact of a cell as its record names it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Artifact {
    /// The digest of the bytes.
    pub digest: Digest,
    /// What the bytes are.
    pub media: Media,
    /// How many bytes.
    pub bytes: u64,
    /// How many rows, for tables.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rows: Option<u64>,
}

/// The bytes of an output before they are stored.
#[derive(Debug)]
pub enum Content {
    /// In memory.
    Bytes(Vec<u8>),
    /// In a file of the job's scratch directory; moved into the store.
    File(PathBuf),
}

/// A named output of a cell.
#[derive(Debug)]
pub struct Output {
    /// The name under which later stages find it, unique in the cell.
    pub name: String,
    /// What the bytes are.
    pub media: Media,
    /// The bytes.
    pub content: Content,
    /// How many rows, for tables.
    pub rows: Option<u64>,
}

impl Output {
    /// Makes a table output.
    ///
    /// # Errors
    /// If the table cannot be written as Parquet.
    pub fn table(name: impl Into<String>, table: &artifacts::Table) -> Result<Self, Failure> {
        let bytes = table
            .to_parquet()
            .map_err(|e| Failure::failed(e.to_string()))?;
        let rows = Some(table.rows() as u64);
        Ok(Self {
            name: name.into(),
            media: Media::Parquet,
            content: Content::Bytes(bytes),
            rows,
        })
    }

    /// Makes a JSON output: keys sorted, two-space indent, final newline.
    pub fn json(name: impl Into<String>, value: &Json) -> Self {
        let mut value = value.clone();
        value.sort_all_objects();
        let mut bytes = serde_json::to_vec_pretty(&value).expect("a JSON value always serializes");
        bytes.push(b'\n');
        Self {
            name: name.into(),
            media: Media::Json,
            content: Content::Bytes(bytes),
            rows: None,
        }
    }

    /// Makes a text output of the given kind.
    pub fn text(name: impl Into<String>, media: Media, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            media,
            content: Content::Bytes(text.into().into_bytes()),
            rows: None,
        }
    }
}

/// What an executed cell leaves.
#[derive(Default)]
pub struct Done {
    /// The outputs; names are unique.
    pub outputs: Vec<Output>,
    /// For resources: the live thing.
    pub lease: Option<Box<dyn Lease>>,
    /// Facts of this execution for the record, not for any key.
    pub observations: BTreeMap<String, Json>,
    /// Doubts about the result, shown to the user and kept in the record.
    pub warnings: Vec<String>,
}

/// Why a cell did not become `ok`.
#[derive(Debug)]
pub struct Failure {
    /// `Failed`, `Hung`, `Timeout`, `Skipped` or `Interrupted`.
    pub status: CellStatus,
    /// What happened, in one sentence.
    pub reason: String,
    /// What the user can do.
    pub hint: Option<String>,
    /// What is left as evidence: partial rows, the last log lines.
    pub evidence: Vec<Output>,
    /// Facts of this execution for the record; in a box, since results carry failures about and are to stay small.
    pub observations: Box<BTreeMap<String, Json>>,
    /// Doubts, shown to the user and kept in the record.
    pub warnings: Box<[String]>,
    /// The part of the stage's settings that it is about; empty for the stage as a whole.
    pub about: Box<[Step]>,
}

impl Failure {
    /// Makes a failure of status `Failed`.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::new(CellStatus::Failed, reason)
    }

    /// Makes a failure of a cell that cannot do its work on this machine, because a tool or a permission is
    /// missing. It is skipped, and what sees the whole study is made without it.
    pub fn blocked(reason: impl Into<String>) -> Self {
        Self::new(CellStatus::Skipped, Cause::blocked(reason).to_string())
    }

    /// Makes a failure of a given status.
    pub fn new(status: CellStatus, reason: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.into(),
            hint: None,
            evidence: Vec::new(),
            observations: Box::default(),
            warnings: Box::default(),
            about: Box::default(),
        }
    }

    /// Names the part of the stage's settings that it is about.
    #[must_use]
    pub fn about(mut self, keys: &[&str]) -> Self {
        let step = |key: &&str| Step::Key((*key).to_owned());
        self.about = keys.iter().map(step).collect();
        self
    }

    /// Adds what the user can do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds evidence.
    #[must_use]
    pub fn evidence(mut self, output: Output) -> Self {
        self.evidence.push(output);
        self
    }

    /// Sets what was observed until then, and doubted.
    #[must_use]
    pub fn observed(mut self, observations: BTreeMap<String, Json>, warnings: Vec<String>) -> Self {
        self.observations = Box::new(observations);
        self.warnings = warnings.into();
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Failure {}

/// The live thing a resource cell owns: a prepared environment, a running server.
pub trait Lease: Send {
    /// Returns what the cells that use it need to reach it: URL, paths, pid. Never keyed.
    fn live(&self) -> &Json;
    /// Tells whether it is still alive.
    ///
    /// # Errors
    /// If it died, with its last log lines as evidence.
    fn check(&mut self) -> Result<(), Failure>;
    /// Tells whether it was alive to the end of a cell that used it.
    ///
    /// # Errors
    /// If it died, with its last log lines as evidence.
    fn check_after_use(&mut self) -> Result<(), Failure> {
        self.check()
    }
    /// Returns a watch over what may end while a cell uses it, if there is something to watch.
    /// Without one, the executor looks before and after each cell.
    fn watch(&self) -> Option<Watch> {
        None
    }
    /// Stops it with everything it started, and returns what it leaves behind (logs).
    fn release(self: Box<Self>) -> Vec<Output>;
}

/// Tells whether what a cell uses is still there, from any thread and at little cost: a cell under
/// way asks often. The failure says why it is gone.
pub type Watch = std::sync::Arc<dyn Fn() -> Result<(), Failure> + Send + Sync>;

/// The lease of something that does not run: it cannot die, and nothing stops it. A prepared
/// environment, for instance.
#[derive(Debug)]
pub struct Inert {
    /// What the cells that use it need to reach it. Never keyed.
    pub live: Json,
}

impl Lease for Inert {
    fn live(&self) -> &Json {
        &self.live
    }

    fn check(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn release(self: Box<Self>) -> Vec<Output> {
        Vec::new()
    }
}

/// One cell of an input stage, as the cell that reads it sees it.
#[derive(Clone, Debug)]
pub struct InputCell {
    /// The cell's full coordinates.
    pub coordinates: Coordinates,
    /// Its status; only `Ok` cells have outputs.
    pub status: CellStatus,
    /// Why it is not ok.
    pub reason: Option<String>,
    /// The cell's canonical parameters.
    pub parameters: Json,
    /// Its outputs by name.
    pub outputs: BTreeMap<String, Artifact>,
    /// The digest of its record.
    pub record: Option<Digest>,
    /// For resources that are alive now: how to reach them.
    pub live: Option<Json>,
}

/// An input of a cell: the cells of one needed stage that share its coordinates.
#[derive(Clone, Debug)]
pub struct Input {
    /// The stage's name in the experiment.
    pub stage: String,
    /// The stage's kind.
    pub kind: String,
    /// Every planned cell, in the order of its axes, including those left out or failed.
    pub cells: Vec<InputCell>,
}

/// One line of the ledger: the status of a planned cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedgerLine {
    /// The stage's name.
    pub stage: String,
    /// The cell's coordinates.
    pub coordinates: Coordinates,
    /// What became of it.
    pub status: CellStatus,
    /// Why, unless ok.
    pub reason: Option<String>,
    /// Digests of what is left as evidence.
    pub evidence: BTreeMap<OutputName, Artifact>,
    /// For a measurement that was executed: how that went, as its record and the lock tell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub execution: Option<Execution>,
}

/// How a measurement came about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    /// Its place in the order of execution of its run, from 1.
    pub order: u64,
    /// Where the design put it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub place: Option<Place>,
    /// How often it was executed under its recipe, failures included.
    pub executions: usize,
    /// The records of ok results under its recipe that are not the one in use.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub discarded: Vec<Digest>,
    /// Why the machine was not quiet when its run began.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub loud: Option<String>,
    /// The host that measured it: a name that tells hosts apart.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub host: Option<String>,
    /// Who measured it, if they chose to be named.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub by: Option<String>,
    /// When the measurement began: RFC 3339, UTC. Known where the host is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started: Option<String>,
}

/// A cell that should have contributed to a table and did not. The note `missing` of a table of
/// `analyze` is a JSON list of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MissingCell {
    /// The cell's coordinates.
    pub coordinates: Coordinates,
    /// Its status in the ledger, or the gate that excluded it, with the reason.
    pub reason: String,
}

/// What a stage that writes about the whole study may see.
#[derive(Clone, Debug)]
pub struct Study {
    /// The experiment in canonical form: parameters, axes, stages, exclusions, seed.
    pub spec: Json,
    /// The trail digest over every cell but those of stages that see the study.
    pub trail: Digest,
    /// The ledger over the same cells.
    pub ledger: Vec<LedgerLine>,
}

/// Progress of a running cell.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Units done.
    pub done: u64,
    /// Units in all, if known.
    pub total: Option<u64>,
    /// What the units are, for instance `requests`; or what is going on.
    pub what: String,
    /// Rolling figures, of a load that goes on.
    pub rates: Option<Rates>,
    /// Lines that the engine wrote to its log since the last time, while it starts.
    pub log: Vec<String>,
}

/// Rolling figures of a load that goes on, over the last seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// The time they are over, s.
    pub window_s: f64,
    /// Requests that ended in it.
    pub ended: u64,
    /// Of these, those whose answers were looked into: latencies and tokens are theirs.
    pub looked_into: u64,
    /// Requests ended a second × the mean output tokens of those looked into, tok/s.
    pub output_throughput: Option<f64>,
    /// The median time from sending to the first token, ms; the nearest rank.
    pub ttft_ms_p50: Option<f64>,
    /// The same at 95 %, ms.
    pub ttft_ms_p95: Option<f64>,
    /// Requests that got no whole answer of success since the measurement began.
    pub errors: u64,
    /// Requests in flight now.
    pub in_flight: u64,
}

/// How a cell hears of the user and tells of itself.
pub struct Control {
    cancelled: std::sync::Arc<AtomicBool>,
    deadline: Option<Instant>,
    permit: Option<std::sync::Arc<Permit>>,
    watches: Vec<Watch>,
    progress: Box<dyn Fn(Progress) + Send + Sync>,
}

impl Control {
    /// Makes a control over a shared stop flag, a time limit, and a listener.
    pub fn new(
        cancelled: std::sync::Arc<AtomicBool>,
        timeout: Option<Duration>,
        progress: Box<dyn Fn(Progress) + Send + Sync>,
    ) -> Self {
        Self {
            cancelled,
            deadline: timeout.map(|t| Instant::now() + t),
            permit: None,
            watches: Vec::new(),
            progress,
        }
    }

    /// Sets what the cell uses and may lose.
    #[must_use]
    pub(crate) fn watching(mut self, watches: Vec<Watch>) -> Self {
        self.watches = watches;
        self
    }

    /// Returns a control that stops when this one does and tells nobody how far it has come.
    #[must_use]
    pub fn silent(&self) -> Self {
        Self {
            cancelled: self.cancelled.clone(),
            deadline: self.deadline,
            permit: self.permit.clone(),
            watches: self.watches.clone(),
            progress: Box::new(|_| ()),
        }
    }

    /// Sets what may happen outside of this program; without a permit everything may.
    #[must_use]
    pub(crate) fn permitting(mut self, permit: Option<std::sync::Arc<Permit>>) -> Self {
        self.permit = permit;
        self
    }

    /// Looks whether something may happen outside of this program; a kind asks right before it
    /// starts something, since a plan may be older than what is started.
    ///
    /// # Errors
    /// If nobody consented to it.
    pub fn permits(&self, consent: &Consent) -> Result<(), Failure> {
        self.permit
            .as_ref()
            .map_or(Ok(()), |permit| permit.check(consent))
    }

    /// Makes a control for tests: never cancelled, no limit, nobody listens.
    pub fn quiet() -> Self {
        Self::new(
            std::sync::Arc::new(AtomicBool::new(false)),
            None,
            Box::new(|_| ()),
        )
    }

    /// Returns the moment by which the cell must have ended.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns the flag that is raised when the user asks to stop, for work that cannot call
    /// [`check`](Self::check).
    pub fn stop_flag(&self) -> std::sync::Arc<AtomicBool> {
        std::sync::Arc::clone(&self.cancelled)
    }

    /// Tells whether to go on; long work asks often.
    ///
    /// # Errors
    /// `Interrupted` if the user asked to stop, `Timeout` if the cell's time limit passed, or the failure
    /// of a resource that ended while the cell used it.
    pub fn check(&self) -> Result<(), Failure> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Failure::new(CellStatus::Interrupted, "stopped by the user"));
        }
        if self.deadline.is_some_and(|d| Instant::now() >= d) {
            return Err(Failure::new(
                CellStatus::Timeout,
                "the cell's time limit passed",
            ));
        }
        self.watches.iter().try_for_each(|watch| watch())
    }

    /// Tells how far the cell has come.
    pub fn progress(&self, done: u64, total: Option<u64>, what: impl Into<String>) {
        (self.progress)(Progress {
            done,
            total,
            what: what.into(),
            rates: None,
            log: Vec::new(),
        });
    }

    /// Tells how far a load has come, with its rolling figures.
    pub fn rates(&self, done: u64, total: u64, rates: Rates) {
        (self.progress)(Progress {
            done,
            total: Some(total),
            what: "requests".to_owned(),
            rates: Some(rates),
            log: Vec::new(),
        });
    }

    /// Tells what an engine that starts wrote to its log.
    pub fn log(&self, what: impl Into<String>, lines: Vec<String>) {
        (self.progress)(Progress {
            done: 1,
            total: Some(3),
            what: what.into(),
            rates: None,
            log: lines,
        });
    }
}

/// Everything one cell may see while it executes.
pub struct Job<'a> {
    /// The experiment's name.
    pub experiment: &'a str,
    /// The stage's name.
    pub stage: &'a str,
    /// The cell's coordinates.
    pub coordinates: &'a Coordinates,
    /// The canonical parameters, as [`StageKind::canonical`] returned them.
    pub parameters: &'a Json,
    /// The experiment's seed.
    pub seed: u64,
    /// The coordinates that distinguish replicates of one measurement (axes that neither the
    /// parameters nor an input depend on, such as `rep`). They are in the key.
    pub replicate: &'a Coordinates,
    /// The needed stages, in the order declared.
    pub inputs: &'a [Input],
    /// The store, for reading inputs. Outputs are returned, not put.
    pub store: &'a Store,
    /// The files that settings name, whose digests the parameters hold.
    pub files: &'a NamedFiles,
    /// A private directory, removed afterwards; that of a live resource stays until the run ends.
    pub scratch: &'a Path,
    /// Cancellation, time limit, progress.
    pub control: &'a Control,
    /// Where a kind that starts a process registers it, so that no crash leaves it behind.
    pub leases: &'a Leases,
    /// The study, for kinds that [see it](StageKind::sees_study).
    pub study: Option<&'a Study>,
}

impl Job<'_> {
    /// Returns the input of a kind; the first one if several stages of that kind are needed.
    pub fn input_of_kind(&self, kind: &str) -> Option<&Input> {
        self.inputs.iter().find(|i| i.kind == kind)
    }
}

/// What the verdicts of a pure cell share with the rest of the study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// The cells of the study that end in verdicts, this one among them: what one of them may get wrong by
    /// chance, all of them may together.
    pub cells: usize,
    /// The axis of the design's A/A arm, the arm's label and the label it stands for.
    pub control: Option<(String, String, String)>,
}

/// A stage kind. One value serves all stages of the kind, from any thread.
pub trait StageKind: Send + Sync {
    /// Returns the name used in the experiment as `kind:`.
    fn name(&self) -> &'static str;

    /// Returns the version of the kind's meaning; part of every key. Raise it when the same
    /// parameters and inputs would mean something else.
    fn semantic_version(&self) -> u32;

    /// Returns how results may be reused.
    fn class(&self) -> Class;

    /// Returns the JSON Schema of the kind's own settings (without the common keys `kind`,
    /// `over`, `needs`, `timeout`, … that the pipeline reads).
    fn schema(&self) -> schemars::Schema;

    /// Returns the canonical parameters for settings whose interpolations are resolved:
    /// defaults filled in, names of definitions replaced by what they stand for, nothing that
    /// does not decide the result.
    ///
    /// # Errors
    /// Every problem found, each with its route. The schema has been checked before.
    fn canonical(&self, settings: &Json, library: &dyn Library) -> Result<Json, Vec<Problem>>;

    /// Names the settings that are mappings in the order in which a reader shall see their entries: they reach
    /// [`canonical`](Self::canonical) as written, and no other.
    fn ordered(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the identity facets of this machine that enter the key (for instance CPU model
    /// and GPU SKU). Called while planning: quick, and without side effects.
    ///
    /// # Errors
    /// If a facet that must be known cannot be read.
    fn facets(&self, _parameters: &Json) -> Result<BTreeMap<String, Json>, Failure> {
        Ok(BTreeMap::new())
    }

    /// Looks whether what a cell takes from its surroundings when it starts is there, such as a
    /// variable of the environment. Called before anything starts: quick, and without side effects.
    ///
    /// # Errors
    /// If something is missing that the cell would fail without.
    fn ready(&self, _parameters: &Json, _files: &NamedFiles) -> Result<(), Problem> {
        Ok(())
    }

    /// Returns what executing a cell does outside of this program, in the order in which it
    /// happens: programs it starts, files it fetches, servers it reaches. `inputs` are made up, as
    /// [`rehearse`](Self::rehearse) leaves them. A kind that starts something also asks
    /// [`Control::permits`] before it does.
    ///
    /// # Errors
    /// If the cell would fail before it starts anything.
    fn effects(
        &self,
        _parameters: &Json,
        _inputs: &[Input],
        _store: &Store,
        _files: &NamedFiles,
    ) -> Result<Vec<Effect>, Failure> {
        Ok(Vec::new())
    }

    /// Returns what the launch stands on that rows of these parameters are drawn from, for a
    /// measurement that needs no resource: cells of one block that agree in it share a launch.
    /// `None` if every cell is a launch of its own.
    fn launch(&self, _parameters: &Json) -> Option<Json> {
        None
    }

    /// Returns what cells of these parameters need of a machine, in words for people: programs, weights,
    /// devices. For the page of a study that was not run.
    fn requires(&self, _parameters: &Json) -> Vec<String> {
        Vec::new()
    }

    /// Returns whether what a measurement of these parameters finds depends on what else this
    /// machine does meanwhile: not where rows are drawn from a model or read from a file.
    fn measures_here(&self, _parameters: &Json) -> bool {
        true
    }

    /// Returns the kinds of which a stage of this kind can use one stage only, with what it would
    /// do with it: needing a second one is a mistake of the experiment. `gives` tells whether the
    /// stage gives a setting.
    fn uses_one(&self, _gives: &dyn Fn(&str) -> bool) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Holds the canonical parameters of a cell against those of the cells that it needs, and says what
    /// would fail when it runs. Asked of resources and measurements only, about the resources and
    /// measurements they need. Quick, and without side effects.
    ///
    /// # Errors
    /// Every problem found, each with its route from the stage's settings; `needs` is a key there.
    fn fits(
        &self,
        _parameters: &Json,
        _needs: &[Needed<'_>],
        _library: &dyn Library,
    ) -> Result<(), Vec<Problem>> {
        Ok(())
    }

    /// Returns the tables of these canonical parameters whose columns are known: beside them stand those
    /// of the coordinates, so an axis cannot have the name of one.
    fn planned_tables(&self, _parameters: &Json, _library: &dyn Library) -> Vec<PlannedTable> {
        Vec::new()
    }

    /// Returns what a measurement of these parameters adopts instead of measuring, such as a part
    /// of a file: two cells that adopt the same are one result under two labels. `None` if it
    /// measures.
    fn adopts(&self, _parameters: &Json) -> Option<Adopted> {
        None
    }

    /// Returns the names of the figures that [`StageKind::figure`] knows.
    fn figures(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns canonical parameters of a pure stage for a study that looks at its figures after each
    /// block and may stop: its intervals must hold at every look.
    fn looked_at_repeatedly(&self, parameters: Json) -> Json {
        parameters
    }

    /// Returns whether a pure cell of these canonical parameters ends in verdicts that can be wrong by chance.
    fn decides(&self, _parameters: &Json) -> bool {
        false
    }

    /// Tells the canonical parameters of a pure stage what its verdicts share with others of the study.
    fn sharing(&self, parameters: Json, _shared: &Shared) -> Json {
        parameters
    }

    /// Returns a figure of one measured cell by its column's name, such as `output_throughput`;
    /// `None` if the kind or the cell has none.
    fn figure(
        &self,
        _name: &str,
        _outputs: &BTreeMap<String, Artifact>,
        _store: &Store,
    ) -> Option<f64> {
        None
    }

    /// Returns whether cells see the whole study: they then run last, and the spec and the
    /// trail digest are in their keys.
    fn sees_study(&self) -> bool {
        false
    }

    /// Executes one cell.
    ///
    /// # Errors
    /// If the cell does not become `ok`: a ledger line, never a cache entry.
    fn run(&self, job: &Job<'_>) -> Result<Done, Failure>;

    /// Makes up outputs of the shape that [`run`](Self::run) leaves, for a dry run: quickly,
    /// starting nothing, fetching nothing, and with `slowdown` times the usual in whatever is
    /// a time. No input is alive. A pure kind executes; one that leaves inputs out by what it
    /// finds in them must not do so here, since what it finds is made up.
    ///
    /// # Errors
    /// For a pure kind, if the cell would not become `ok`. For others, if nothing can be made
    /// up: what reads the cell then sees it skipped.
    fn rehearse(&self, job: &Job<'_>, _slowdown: f64) -> Result<Done, Failure> {
        if self.class() == Class::Pure {
            return self.run(job);
        }
        let reason = format!("a stage of kind `{}` cannot be rehearsed", self.name());
        Err(Failure::new(CellStatus::Skipped, reason))
    }
}
