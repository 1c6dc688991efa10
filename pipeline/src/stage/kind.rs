//! The contract that stage kinds implement.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use artifacts::Store;
use serde::{Deserialize, Serialize};

use super::control::Control;
use super::input::{Input, Study};
use super::output::{Adopted, Artifact, Done};
use super::settings::{
    Json, KnownAxis, KnownStage, KnownTable, Library, Needed, PlannedTable, Problem, Shipped,
};
use super::status::{CellStatus, Failure};
use crate::effect::Effect;
use crate::lease::Leases;
use crate::place::Coordinates;
use crate::sources::NamedFiles;

/// How a kind's results may be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Owns something alive. Its descriptor is cached, and the live thing starts only when a cell that needs it runs.
    Resource,
    /// Never reproducible: cached by key, replicated by an axis, measured again on request.
    Measurement,
    /// The same inputs give the same bytes on any machine with any number of threads.
    Pure,
}

/// The stage kinds and definitions that a binary knows.
#[derive(Default)]
pub struct Registry {
    /// The kinds, each under its own name.
    pub kinds: Vec<Box<dyn StageKind>>,
    /// The definitions that ship with the binary.
    pub shipped: Vec<Shipped>,
    /// The schema of one definition of each collection that an experiment may contain as a section.
    pub collections: Vec<(&'static str, schemars::Schema)>,
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
    /// The needed stages, in declaration order.
    pub inputs: &'a [Input],
    /// The store, for reading inputs. A kind returns its outputs and does not put them into the store.
    pub store: &'a Store,
    /// The files that settings name, whose digests are in the parameters.
    pub files: &'a NamedFiles,
    /// A private directory, removed afterwards; for a live resource, it stays until the run ends.
    pub scratch: &'a Path,
    /// Cancellation, time limit, progress.
    pub control: &'a Control,
    /// Where a kind registers a process that it starts, so that no crash leaves the process behind.
    pub leases: &'a Leases,
    /// The study, for kinds that [see it](StageKind::sees_study).
    pub study: Option<&'a Study>,
}

impl Job<'_> {
    /// Returns the input from a stage of a kind; the first one if the cell needs several such stages.
    pub fn input_of_kind(&self, kind: &str) -> Option<&Input> {
        self.inputs.iter().find(|i| i.kind == kind)
    }
}

/// What the verdicts of a pure cell share with the rest of the study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// The number of cells in the study that end in verdicts, including this one. All of them together share the error
    /// probability allowed for one.
    pub cells: usize,
    /// The axis of the design's A/A arm, the arm's label and the label it stands for.
    pub control: Option<(String, String, String)>,
    /// For each measured stage, the axes along which its cells are measured on one launch. Units of replication share
    /// launches exactly if one of their axes is among these.
    pub on_one_launch: BTreeMap<String, BTreeSet<String>>,
}

/// The load that a cell puts on a server, as far as its settings say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// The number of measured requests, or the expected number of random arrivals within a time; `None` if it depends on
    /// the server's answers.
    pub requests: Option<u64>,
    /// The time in which requests are sent, in seconds; `None` if a number of requests waits for answers.
    pub seconds: Option<f64>,
}

/// The numbers of requests that the cells of a stage measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredRequests {
    /// The fewest of a cell whose parameters say.
    pub fewest: u64,
    /// The most of a cell; `None` if the parameters of a cell do not say.
    pub most: Option<u64>,
}

/// A stage kind. One value serves all stages of the kind, on any thread.
pub trait StageKind: Send + Sync {
    /// Returns the name used in the experiment as `kind:`.
    fn name(&self) -> &'static str;

    /// Returns what other tools call a stage of this kind, for the remedy of an unknown `kind:`.
    fn other_words(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the semantic version of the kind, which is part of every key. Raise it when the same parameters and
    /// inputs would mean something different.
    fn semantic_version(&self) -> u32;

    /// Returns the version for a cell with these canonical parameters, which is the one in its key. It differs from that
    /// of the kind where only some parameters changed their meaning, so that the other cells stay cached.
    fn semantic_version_of(&self, _parameters: &Json) -> u32 {
        self.semantic_version()
    }

    /// Returns how results may be reused.
    fn class(&self) -> Class;

    /// Returns the JSON Schema of the kind's own settings (without the common keys `kind`,
    /// `over`, `needs`, `timeout`, … that the pipeline reads).
    fn schema(&self) -> schemars::Schema;

    /// Returns the canonical parameters for settings with resolved placeholders: defaults filled in, names of
    /// definitions replaced by their content, and nothing that does not affect the result.
    ///
    /// # Errors
    /// Every problem found, each with its route. The schema has already been checked.
    fn canonical(&self, settings: &Json, library: &dyn Library) -> Result<Json, Vec<Problem>>;

    /// Returns where a scheduler should execute a cell with these settings, which [`canonical`](Self::canonical) has
    /// accepted; `None` if the cell executes on this machine. The placement is in no key. A cell that needs such a cell
    /// alive executes in the same place.
    fn placement(&self, _settings: &Json, _library: &dyn Library) -> Option<Json> {
        None
    }

    /// Returns whether executing a placement requires a store shared with this machine.
    fn shares_store(&self, _placement: &Json) -> bool {
        true
    }

    /// Returns the effects of executing a placement.
    fn placing(&self, _placement: &Json) -> Vec<Effect> {
        Vec::new()
    }

    /// Returns the settings that are mappings whose entry order matters to a reader. Only these reach
    /// [`canonical`](Self::canonical) in their written order.
    fn ordered(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the identity facets of this machine that enter the key (for example CPU model and GPU SKU). Called while
    /// planning: must be fast and without side effects.
    ///
    /// # Errors
    /// If a facet that must be known cannot be read.
    fn facets(&self, _parameters: &Json) -> Result<BTreeMap<String, Json>, Failure> {
        Ok(BTreeMap::new())
    }

    /// Checks that what a cell takes from its environment when it starts exists, for example an environment variable.
    /// Called before anything starts: must be fast and without side effects.
    ///
    /// # Errors
    /// If something is missing and the cell would fail without it.
    fn ready(&self, _parameters: &Json, _files: &NamedFiles) -> Result<(), Problem> {
        Ok(())
    }

    /// Returns what executing a cell does outside of this program, in the order in which it happens: programs it
    /// starts, files it fetches, servers it reaches. `inputs` are simulated, as left by [`rehearse`](Self::rehearse). A
    /// kind that starts something must also call [`Control::permits`] first.
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

    /// For a measurement that needs no resource, returns what identifies the launch behind rows of these parameters:
    /// cells of one block with the same value share a launch. `None` if every cell is its own launch.
    fn launch(&self, _parameters: &Json) -> Option<Json> {
        None
    }

    /// Returns whether what a cell of these parameters prepares runs already, for example a server at a URL. The study never starts
    /// it, so the resources on it are one launch in all blocks.
    fn runs_already(&self, _parameters: &Json) -> bool {
        false
    }

    /// Returns what cells of these parameters need from a machine, as text for people: programs, weights, devices. For
    /// the page of a study that was not run.
    fn requires(&self, _parameters: &Json) -> Vec<String> {
        Vec::new()
    }

    /// Returns the labels that these parameters name, each with its axis. A cell fails if one of them does not exist.
    fn labels_named(&self, _parameters: &Json) -> Vec<(String, Json)> {
        Vec::new()
    }

    /// Returns the axes whose labels these settings read without being expanded over them.
    fn axes_read(&self, _settings: &Json) -> Vec<String> {
        Vec::new()
    }

    /// Returns the load that a cell of these parameters puts on a server; `None` if it uses no server.
    fn demand(&self, _parameters: &Json) -> Option<Demand> {
        None
    }

    /// Returns the number of requests that a cell of these parameters measures, or the expected number of random arrivals;
    /// `None` if it depends on the answers, or the kind has no requests.
    fn requests_planned(&self, _parameters: &Json) -> Option<u64> {
        None
    }

    /// Returns a warning for each column of a pure stage's tables that is used and that will have no values, because the
    /// cells measure too few requests. `own` is the stage's name and its canonical parameters, `readers` are the
    /// parameters of the stages that read it, and `measured` are the stages with requests that it reads. `requests`
    /// returns the numbers of requests of one of them, if their parameters say.
    fn too_few_requests(
        &self,
        _own: (&str, &Json),
        _readers: &[&Json],
        _measured: &[&str],
        _requests: &dyn Fn(&str) -> Option<MeasuredRequests>,
    ) -> Vec<String> {
        Vec::new()
    }

    /// Returns whether a measurement of these parameters depends on this machine's other activity. It does not if rows
    /// are drawn from a model or read from a file.
    fn measures_here(&self, _parameters: &Json) -> bool {
        true
    }

    /// Returns the kinds of stage that a stage of this kind can need only once, each with what it does with the needed stage.
    /// Needing a second one is a mistake of the experiment. `gives` returns whether the stage has a setting.
    fn uses_one(&self, _gives: &dyn Fn(&str) -> bool) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Compares the canonical parameters of a cell with those of the cells that it needs, and reports what would fail
    /// at run time. For a resource or a measurement, these are the resources and measurements that its cells need. For
    /// a pure stage, the function is called once, with the stages that it needs and those that they need; their
    /// parameters are null. Must be fast and without side effects.
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

    /// Returns the tables of these canonical parameters whose columns are known. The tables also have columns for
    /// coordinates, so an axis cannot have the name of a known column.
    fn planned_tables(&self, _parameters: &Json, _library: &dyn Library) -> Vec<PlannedTable> {
        Vec::new()
    }

    /// Returns every table that a cell with these canonical parameters can write; `None` if planning cannot know them.
    fn tables_known(&self, _parameters: &Json, _library: &dyn Library) -> Option<Vec<KnownTable>> {
        None
    }

    /// Reports names in the canonical parameters of a pure stage that are not those of a table or a column that the
    /// needed stages can write, and labels that are not those of an axis.
    fn unknown_names(
        &self,
        _parameters: &Json,
        _stages: &[KnownStage],
        _axes: &[KnownAxis],
    ) -> Vec<Problem> {
        Vec::new()
    }

    /// Returns what a measurement of these parameters adopts instead of measuring, for example a part of a file. Two
    /// cells that adopt the same thing are one result under two labels. `None` if it measures.
    fn adopts(&self, _parameters: &Json) -> Option<Adopted> {
        None
    }

    /// Returns the remedy for a key of the stage that its schema does not have but that names a setting deeper inside, if
    /// only definitions say so.
    fn setting_meant(&self, _key: &str, _value: &Json, _library: &dyn Library) -> Option<String> {
        None
    }

    /// Returns the names of the figures that [`StageKind::figure`] knows.
    fn figures(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the canonical parameters of a pure stage for a study that checks its figures after each block and may
    /// stop: its intervals must hold at every check.
    ///
    /// # Errors
    /// Everything that cannot hold at every check, each with its route from the stage's settings.
    fn looked_at_repeatedly(&self, parameters: Json) -> Result<Json, Vec<Problem>> {
        Ok(parameters)
    }

    /// Adds information from definitions to the canonical parameters of a pure stage: what they state about the names
    /// used by the stages behind it, which does not affect those stages. `behind` contains all stages that it needs,
    /// directly or indirectly, once for each of their parameter sets.
    fn informed(&self, parameters: Json, _behind: &[Needed<'_>], _library: &dyn Library) -> Json {
        parameters
    }

    /// Returns whether a pure cell with these canonical parameters ends in verdicts that can be wrong by chance.
    fn decides(&self, _parameters: &Json) -> bool {
        false
    }

    /// Adds to the canonical parameters of a pure stage what its verdicts share with others of the study.
    fn sharing(&self, parameters: Json, _shared: &Shared) -> Json {
        parameters
    }

    /// Returns a figure of one measured cell by its column name, such as `output_throughput`; `None` if the kind or the
    /// cell does not have it.
    fn figure(
        &self,
        _name: &str,
        _outputs: &BTreeMap<String, Artifact>,
        _store: &Store,
    ) -> Option<f64> {
        None
    }

    /// Returns whether stages that read cells of this measurement see their parameters. If so, these are in the keys of
    /// the readers. If not, a changed setting that leaves the outputs as they were stops there.
    fn shows_parameters(&self) -> bool {
        true
    }

    /// Returns whether cells see the whole study. If so, they run last, and the spec and the trail digest are in their
    /// keys.
    fn sees_study(&self) -> bool {
        false
    }

    /// Returns whether cells with these canonical parameters also read what failed cells left behind. If so, it is in
    /// their keys, and a failed cell has its evidence as its [outputs](super::InputCell::outputs).
    fn reads_evidence(&self, _parameters: &Json) -> bool {
        false
    }

    /// Executes one cell.
    ///
    /// # Errors
    /// If the cell does not become `ok`. That makes a ledger line, never a cache entry.
    fn run(&self, job: &Job<'_>) -> Result<Done, Failure>;

    /// Simulates outputs of the shape that [`run`](Self::run) leaves, for a dry run: fast, without starting or fetching
    /// anything, and with all times multiplied by `slowdown`. No input is alive. A pure kind executes. A pure kind that
    /// leaves out inputs because of their values must not do so here, because the values are simulated.
    ///
    /// # Errors
    /// For a pure kind, if the cell would not become `ok`. For others, if outputs cannot be simulated: readers then see
    /// the cell as skipped.
    fn rehearse(&self, job: &Job<'_>, _slowdown: f64) -> Result<Done, Failure> {
        if self.class() == Class::Pure {
            return self.run(job);
        }
        let reason = format!("a stage of kind `{}` cannot be rehearsed", self.name());
        Err(Failure::new(CellStatus::Skipped, reason))
    }
}
