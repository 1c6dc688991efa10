//! The contract that stage kinds implement.

use std::collections::BTreeMap;
use std::path::Path;

use artifacts::Store;
use serde::{Deserialize, Serialize};

use super::control::Control;
use super::input::{Input, Study};
use super::output::{Adopted, Artifact, Done};
use super::settings::{Json, Library, Needed, PlannedTable, Problem, Shipped};
use super::status::{CellStatus, Failure};
use crate::effect::Effect;
use crate::lease::Leases;
use crate::place::Coordinates;
use crate::sources::NamedFiles;

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

    /// Returns where a scheduler is asked to execute a cell of these settings, which [`canonical`](Self::canonical)
    /// has accepted; `None` if it executes on this machine. It is in no key, and whatever needs such a cell alive
    /// executes where it does.
    fn placement(&self, _settings: &Json, _library: &dyn Library) -> Option<Json> {
        None
    }

    /// Tells whether whoever executes a placement needs a store that it shares with this machine.
    fn shares_store(&self, _placement: &Json) -> bool {
        true
    }

    /// Returns the effects of having a placement executed.
    fn placing(&self, _placement: &Json) -> Vec<Effect> {
        Vec::new()
    }

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
    /// would fail when it runs. A resource or a measurement is asked about the resources and measurements that
    /// its cells need. A pure stage is asked once, about the stages that it needs and those that they need; their
    /// parameters are null. Quick, and without side effects.
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
    ///
    /// # Errors
    /// What cannot hold at every look, each with its route from the stage's settings.
    fn looked_at_repeatedly(&self, parameters: Json) -> Result<Json, Vec<Problem>> {
        Ok(parameters)
    }

    /// Returns canonical parameters of a pure stage with what definitions say that the stages behind it
    /// name, and that decides nothing there. `behind` has all stages that it needs, directly or not, once
    /// for each of their parameter sets.
    fn informed(&self, parameters: Json, _behind: &[Needed<'_>], _library: &dyn Library) -> Json {
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
