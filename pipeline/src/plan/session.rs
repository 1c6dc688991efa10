//! The current state of every cell, while planning and while running.
//!
//! A cell waits until all cells it reads are settled. Then its key is computed, and the cell is either settled at once
//! (cached, blocked, skipped) or ready to execute. Settling a cell may complete a group of inputs, which may wake the
//! group's readers.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use artifacts::{ActionKey, Digest, Lookup, Store};
use typed_index_collections::TiVec;

use super::damage::Damage;
use super::elsewhere::Alike;
use super::foreign::Foreign;
use super::lines::lock_lines;
use super::past::{Past, past};
use super::select::{self, Forced};
use super::until::Rule;
use super::{Lack, PlanOptions};
use crate::error::PipelineError;
use crate::experiment::Experiment;
use crate::graph::{Graph, Member, NO_GROUP, Node};
use crate::ids::{CellId, LocalCell, StageId};
use crate::key::value_digest;
use crate::lock::{Lock, LockClass, lock_path};
use crate::stage::{CellStatus, Json, Registry};

/// The result of a cell.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// It has its outputs.
    Ok {
        key: ActionKey,
        record: Digest,
        /// The summary of the outputs, as stored in the index.
        outputs: Box<str>,
    },
    /// It has no outputs.
    Not {
        status: CellStatus,
        reason: Box<str>,
        key: Option<ActionKey>,
        record: Option<Digest>,
    },
}

impl Outcome {
    pub(crate) fn status(&self) -> CellStatus {
        match self {
            Self::Ok { .. } => CellStatus::Ok,
            Self::Not { status, .. } => *status,
        }
    }

    pub(crate) fn skipped(reason: impl Into<Box<str>>) -> Self {
        Self::Not {
            status: CellStatus::Skipped,
            reason: reason.into(),
            key: None,
            record: None,
        }
    }
}

/// The state of a cell.
#[derive(Clone, Debug)]
pub(crate) enum State {
    /// At least one cell it reads is not settled.
    Waiting,
    /// Its inputs are settled and nothing is cached under its key, so it must execute.
    Ready(ActionKey),
    /// Nothing remains to be done.
    Settled(Outcome),
}

impl State {
    /// Returns whether nothing remains to be done.
    pub(crate) fn is_settled(&self) -> bool {
        matches!(self, Self::Settled(_))
    }

    /// Returns the record of an ok cell.
    pub(crate) fn record(&self) -> Option<Digest> {
        match self {
            Self::Settled(Outcome::Ok { record, .. }) => Some(*record),
            _ => None,
        }
    }
}

/// The state of planning or running.
pub(crate) struct Session<'a> {
    pub(crate) graph: Graph<'a>,
    pub(crate) store: &'a Store,
    pub(crate) lock: Option<Lock>,
    pub(crate) locked: bool,
    pub(crate) states: TiVec<CellId, State>,
    /// Results of this run; they take precedence over the lock's and the newest.
    pub(crate) results: HashMap<CellId, (ActionKey, Outcome)>,
    /// Cells settled permanently, whatever their key: not reached, or blocked by a dead resource.
    pub(crate) fixed: HashMap<CellId, Outcome>,
    pub(crate) forced: TiVec<CellId, Forced>,
    pub(crate) selected: TiVec<CellId, bool>,
    /// Cells whose cached outputs are missing or changed in the store.
    pub(crate) damaged: HashMap<CellId, Damage>,
    /// Cells settled by the plan, not by execution: the plan calls them blocked.
    pub(crate) blocked: HashSet<CellId>,
    /// Cells with several results under their key.
    pub(crate) several: HashMap<CellId, usize>,
    /// Results made by others.
    pub(super) foreign: Foreign,
    /// Cells that became ready since this list was last emptied.
    pub(crate) newly_ready: Vec<CellId>,
    /// Cells settled without executing since this list was last emptied.
    pub(crate) newly_settled: Vec<CellId>,
    pub(super) spec: Digest,
    /// The position of each cell's line in the lock: (stage, cell).
    pub(super) lock_lines: TiVec<CellId, Option<(u32, u32)>>,
    /// The executions of measurements that were known when this session began.
    pub(super) past: HashMap<CellId, Vec<Past>>,
    pub(super) facets: HashMap<(StageId, u32), Result<BTreeMap<String, Json>, Lack>>,
    /// The facets of the machines where placed cells execute, as far as records state them.
    pub(super) placed_facets: HashMap<Alike, BTreeMap<String, Json>>,
    /// The placed cells with the same parameters; computed on first use.
    pub(super) alike: Option<HashMap<Alike, Vec<LocalCell>>>,
    /// What cells need and this machine lacks, each once, with the remedy.
    pub(crate) lacks: BTreeSet<Lack>,
    progress: Progress,
    pub(super) rule: Rule,
}

/// The counters that show when a cell's inputs are complete.
#[derive(Default)]
struct Progress {
    /// `[stage][need][group]`: the number of unsettled members.
    open: TiVec<StageId, Vec<Vec<u32>>>,
    /// `[stage][need][group]`: the digest of the complete list.
    digests: TiVec<StageId, Vec<Vec<Option<Digest>>>>,
    /// For each cell, the number of needs whose group is not complete.
    waiting: TiVec<CellId, u32>,
    /// The number of unsettled cells in stages that do not see the study.
    before_study: usize,
    woken: VecDeque<CellId>,
    trail: Option<Digest>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(
        experiment: &'a Experiment,
        registry: &'a Registry,
        store: &'a Store,
        options: &PlanOptions,
    ) -> Result<Self, PipelineError> {
        let graph = Graph::new(experiment, registry)?;
        let lock = Lock::of_experiment(experiment)?;
        adopt(store, experiment, lock.as_ref())?;
        let forced = select::forced(&graph, options)?;
        let selected = select::selected(&graph, options)?;
        let lock_lines = lock_lines(&graph, lock.as_ref());
        let of_store = (!options.locked).then_some(store);
        let past = past(&graph, lock.as_ref(), &lock_lines, of_store)?;
        let mut session = Self {
            store,
            lock,
            locked: options.locked,
            states: TiVec::new(),
            results: HashMap::new(),
            fixed: HashMap::new(),
            forced,
            selected,
            damaged: HashMap::new(),
            blocked: HashSet::new(),
            several: HashMap::new(),
            foreign: Foreign::of(
                store,
                options.reuse.unwrap_or(experiment.reuse),
                options.known_records.clone(),
            )?,
            newly_ready: Vec::new(),
            newly_settled: Vec::new(),
            spec: value_digest(&experiment.spec),
            lock_lines,
            past,
            facets: HashMap::new(),
            placed_facets: HashMap::new(),
            alike: None,
            lacks: BTreeSet::new(),
            progress: Progress::default(),
            rule: Rule::default(),
            graph,
        };
        if let Some(elsewhere) = &options.elsewhere {
            session.take_in(elsewhere)?;
        }
        session.restart()?;
        if session.stop_when_known() {
            session.restart()?;
        }
        Ok(session)
    }

    /// Resets the state of every cell and determines it again, from the index and the results of this run.
    pub(crate) fn restart(&mut self) -> Result<(), PipelineError> {
        self.states = vec![State::Waiting; self.graph.count].into();
        self.blocked.clear();
        self.lacks.clear();
        self.several.clear();
        self.foreign.restart();
        self.newly_ready.clear();
        self.newly_settled.clear();
        let progress = &mut self.progress;
        *progress = Progress::default();
        for node in &self.graph.nodes {
            let mut open = Vec::new();
            for need in &node.needs {
                let mut counts = vec![0; need.groups()];
                for group in need.group_of_member.iter().filter(|g| **g != NO_GROUP) {
                    counts[*group as usize] += 1;
                }
                open.push(counts);
            }
            progress.digests.push(
                open.iter()
                    .map(|c: &Vec<u32>| vec![None; c.len()])
                    .collect(),
            );
            for i in node.stage.cells.keys() {
                let incomplete = node.needs.iter().zip(&open);
                let waits = incomplete
                    .filter(|(need, c)| c[need.group_of_reader[i] as usize] > 0)
                    .count();
                progress
                    .waiting
                    .push(u32::try_from(waits).expect("few needs"));
            }
            progress.open.push(open);
            if node.class != LockClass::Study {
                progress.before_study += node.stage.cells.len();
            }
        }
        progress.woken = self
            .graph
            .cells()
            .filter(|c| progress.waiting[*c] == 0)
            .collect();
        self.resolve_woken()
    }

    /// Settles a cell and resolves the cells that this wakes.
    pub(crate) fn settle(&mut self, cell: CellId, outcome: Outcome) -> Result<(), PipelineError> {
        self.note(cell, outcome);
        self.resolve_woken()
    }

    fn resolve_woken(&mut self) -> Result<(), PipelineError> {
        if self.progress.woken.is_empty() {
            return Ok(());
        }
        let lookup = self.store.lookup()?;
        while let Some(cell) = self.progress.woken.pop_front() {
            self.resolve_one(cell, &lookup)?;
        }
        Ok(())
    }

    fn resolve_one(&mut self, cell: CellId, lookup: &Lookup<'_>) -> Result<(), PipelineError> {
        if !matches!(self.states[cell], State::Waiting) {
            return Ok(());
        }
        let (stage, _) = self.graph.place(cell);
        if self.graph.nodes[stage].class == LockClass::Study && self.progress.before_study > 0 {
            return Ok(());
        }
        match self.resolve(cell, lookup)? {
            State::Settled(outcome) => {
                self.note(cell, outcome);
                self.newly_settled.push(cell);
            }
            state => {
                self.states[cell] = state;
                self.newly_ready.push(cell);
            }
        }
        Ok(())
    }

    /// Stores the outcome and wakes readers whose inputs are complete.
    fn note(&mut self, cell: CellId, outcome: Outcome) {
        debug_assert!(
            !matches!(self.states[cell], State::Settled(_)),
            "a cell settles once"
        );
        self.states[cell] = State::Settled(outcome);
        let (stage, i) = self.graph.place(cell);
        let node = &self.graph.nodes[stage];
        let progress = &mut self.progress;
        for (reader, n) in &node.readers {
            let need = &self.graph.nodes[*reader].needs[*n];
            let group = need.group_of_member[i];
            if group == NO_GROUP {
                continue;
            }
            let open = &mut progress.open[*reader][*n][group as usize];
            *open -= 1;
            if *open == 0 {
                let readers = &self.graph.nodes[*reader];
                for r in need.readers(group) {
                    let reader_cell = readers.cell(r);
                    progress.waiting[reader_cell] -= 1;
                    if progress.waiting[reader_cell] == 0 {
                        progress.woken.push_back(reader_cell);
                    }
                }
            }
        }
        if node.class != LockClass::Study {
            progress.before_study -= 1;
            if progress.before_study == 0 {
                let study = self
                    .graph
                    .nodes
                    .iter()
                    .filter(|n| n.class == LockClass::Study);
                for cell in study.flat_map(Node::cells) {
                    if progress.waiting[cell] == 0 {
                        progress.woken.push_back(cell);
                    }
                }
            }
        }
    }

    /// Returns the digest of a cell's input list, computed once for all readers of the group.
    pub(super) fn input_digest(&mut self, stage: StageId, need: usize, group: u32) -> Digest {
        if let Some(digest) = self.progress.digests[stage][need][group as usize] {
            return digest;
        }
        let digest = self.compute_input_digest(stage, need, group);
        self.progress.digests[stage][need][group as usize] = Some(digest);
        digest
    }

    /// Returns the trail digest; every cell it covers must be settled.
    pub(crate) fn trail(&mut self) -> Digest {
        if let Some(trail) = self.progress.trail {
            return trail;
        }
        let trail = self.to_lock().trail();
        if self.progress.before_study == 0 {
            self.progress.trail = Some(trail);
        }
        trail
    }

    pub(crate) fn settled(&self, cell: CellId) -> Option<&Outcome> {
        match &self.states[cell] {
            State::Settled(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Returns the number of the cell behind a member of a group; `None` for an excluded cell.
    pub(super) fn member_cell(&self, stage: StageId, member: Member) -> Option<CellId> {
        match member {
            Member::Cell(i) => Some(self.graph.nodes[stage].cell(i)),
            Member::Excluded(_) => None,
        }
    }
}

/// Ensures that the index knows the records in the lock, and those that an earlier run executed before it was killed:
/// an index that lost a row must not make a cell execute again.
fn adopt(store: &Store, experiment: &Experiment, lock: Option<&Lock>) -> Result<(), PipelineError> {
    let cells = lock
        .iter()
        .flat_map(|lock| &lock.stages)
        .flat_map(|s| &s.cells);
    let mut named: Vec<(Digest, Option<ActionKey>)> =
        cells.filter_map(|c| Some((c.record?, c.key))).collect();
    let root = store.root_of(&lock_path(experiment))?;
    let journals = root.iter().flat_map(|root| &root.journals);
    named.extend(
        journals
            .flat_map(|j| &j.records)
            .map(|record| (*record, None)),
    );
    match store.adopt(&named, crate::record::view) {
        // If nothing can be written, nothing is executed either.
        Err(error) if error.is_read_only() => Ok(()),
        other => other.map(|_| ()).map_err(PipelineError::from),
    }
}
