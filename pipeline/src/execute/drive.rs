//! Decides which cell of a run executes next.
//!
//! Measurements and resources execute one at a time on this thread, with no pure cell in parallel, so that this program
//! does not disturb the measurement. Ready cells go in the order of the design (block by block, launch by launch), then
//! those whose resources are already alive. Among equals, the order is shuffled by the experiment's seed, or as
//! declared, and recorded. Pure cells wait until no measurement is ready, unless a measurement waits for them; then
//! they run on several threads.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use artifacts::{ActionKey, Commit, Digest, Journal};
use typed_index_collections::TiVec;

use super::attempt::{Context, Finished};
use super::blocks::{Blocks, Seat};
use super::exclusive::Exclusives;
use super::live::{LiveSet, resources_of};
use super::options::{Committed, RunOptions};
use super::pure::PureCells;
use super::summary::{RunSummary, study_of, summary};
use super::task::Task;
use crate::cause::Cause;
use crate::error::PipelineError;
use crate::event::Event;
use crate::experiment::{Experiment, Order};
use crate::ids::{CellId, StageId};
use crate::lock::{LockClass, lock_path};
use crate::name::OutputName;
use crate::plan::{Elsewhere, Outcome, Session, State};
use crate::stage::{Artifact, CellStatus, Class, Study};

/// Why no further cell is started.
#[derive(Clone, Debug)]
pub(super) enum Stop {
    Interrupted,
    Failed(String),
}

/// The sort key of ready cells, least first: place in the design, number of starts needed, rank by the seed, cell
/// number.
type Urgency = (Option<Seat>, usize, Option<Digest>, CellId);

/// A run in progress.
pub(super) struct Executor<'a, 'l> {
    pub(super) session: Session<'a>,
    pub(super) context: Arc<Context<'l>>,
    pub(super) live: LiveSet,
    pub(super) exclusives: Exclusives,
    pub(super) blocks: Blocks,
    pub(super) jobs: usize,
    pub(super) keep_going: bool,
    /// Ready measurements and resources.
    pub(super) ready_bound: Vec<CellId>,
    /// Ready pure cells that a measurement or resource waits for.
    pub(super) ready_feeding: VecDeque<CellId>,
    /// Other ready pure cells.
    pub(super) ready_pure: VecDeque<CellId>,
    feeds: TiVec<StageId, bool>,
    ranks: HashMap<CellId, Digest>,
    order: u64,
    pub(super) stopped: Option<Stop>,
    /// Resources that did not come up, with the reason.
    pub(super) dead: HashMap<CellId, String>,
    /// The number of times a resource came up differently.
    pub(super) flips: HashMap<CellId, u32>,
    pub(super) commits: Vec<Commit>,
    journal: Journal,
    committed: Option<Committed>,
    /// Cells that ended elsewhere without a record.
    pub(super) elsewhere: Option<Arc<Elsewhere>>,
    /// For each resource, a cell that needed it and failed elsewhere; computed on first use.
    pub(super) failed_readers: Option<HashMap<CellId, CellId>>,
    pub(super) evidence: HashMap<CellId, BTreeMap<OutputName, Artifact>>,
    study: Option<Arc<Study>>,
    pub(super) executed: usize,
    pub(super) resource_starts: usize,
}

impl<'a, 'l> Executor<'a, 'l> {
    pub(super) fn new(
        session: Session<'a>,
        context: Context<'l>,
        options: &RunOptions,
        journal: Journal,
    ) -> Self {
        let feeds = feeding_stages(&session);
        let exclusives = Exclusives::new(session.store.root());
        let blocks = Blocks::new(&session.graph);
        Self {
            session,
            context: Arc::new(context),
            live: LiveSet::default(),
            exclusives,
            blocks,
            jobs: options.jobs.max(1),
            keep_going: options.keep_going,
            ready_bound: Vec::new(),
            ready_feeding: VecDeque::new(),
            ready_pure: VecDeque::new(),
            feeds,
            ranks: HashMap::new(),
            order: 0,
            stopped: None,
            dead: HashMap::new(),
            flips: HashMap::new(),
            commits: Vec::new(),
            journal,
            committed: options.committed.clone(),
            elsewhere: options.plan.elsewhere.clone(),
            failed_readers: None,
            evidence: HashMap::new(),
            study: None,
            executed: 0,
            resource_starts: 0,
        }
    }

    pub(super) fn drive(&mut self) -> Result<(), PipelineError> {
        let count =
            |pick: fn(&State) -> bool| self.session.states.iter().filter(|s| pick(s)).count();
        let blocked = |s: &State| matches!(s, State::Settled(Outcome::Not { .. }));
        (self.context.listener)(&Event::PlanMade {
            cells: self.session.graph.count,
            cached: count(|s| matches!(s, State::Settled(Outcome::Ok { .. }))),
            run: count(|s| matches!(s, State::Ready(_))),
            after: count(|s| matches!(s, State::Waiting)),
            blocked: count(blocked),
        });
        self.session.newly_settled.clear();
        self.tell_cells_left();
        self.take_in_failures()?;
        self.collect();
        while self.stopped.is_none() {
            if self.session.stop_when_known() {
                self.replan()?;
            }
            if self.context.cancelled.load(Ordering::Relaxed) {
                self.interrupt();
            } else if !self.ready_feeding.is_empty() {
                self.pure_phase(PureCells::Feeding)?;
            } else if let Some(cell) = self.next_bound() {
                self.bound(cell)?;
            } else if !self.ready_pure.is_empty() {
                self.release_all()?;
                self.pure_phase(PureCells::Others)?;
            } else {
                break;
            }
        }
        self.release_all()?;
        self.commit()
    }

    /// Sorts newly ready cells into their queues, and reports those that turned out to need no execution.
    pub(super) fn collect(&mut self) {
        for cell in std::mem::take(&mut self.session.newly_ready) {
            let (stage, _) = self.session.graph.place(cell);
            if self.session.graph.nodes[stage].stage.class != Class::Pure {
                self.ready_bound.push(cell);
            } else if self.feeds[stage] {
                self.ready_feeding.push_back(cell);
            } else {
                self.ready_pure.push_back(cell);
            }
        }
        for cell in std::mem::take(&mut self.session.newly_settled) {
            let Some(outcome) = self.session.settled(cell) else {
                continue;
            };
            let reason = match outcome {
                Outcome::Ok { .. } => None,
                Outcome::Not { reason, .. } => Some(reason.to_string()),
            };
            (self.context.listener)(&Event::CellEnded {
                cell: self.session.graph.name(cell),
                stage: self.session.graph.stage_name(cell).to_owned(),
                status: outcome.status(),
                reason,
                hint: None,
                seconds: 0.0,
                cached: true,
            });
        }
    }

    /// Plans everything again from the store and the results of this run.
    pub(super) fn replan(&mut self) -> Result<(), PipelineError> {
        self.ready_bound.clear();
        self.ready_feeding.clear();
        self.ready_pure.clear();
        self.study = None;
        self.session.restart()?;
        self.session.newly_settled.clear();
        self.tell_cells_left();
        self.collect();
        Ok(())
    }

    /// Reports how many cells of each stage have no result yet.
    fn tell_cells_left(&self) {
        let mut stages: BTreeMap<String, usize> = BTreeMap::new();
        for cell in self.session.graph.cells() {
            // Cells that `--only` leaves out never execute.
            if self.session.selected[cell] && self.session.settled(cell).is_none() {
                let stage = self.session.graph.stage_name(cell).to_owned();
                *stages.entry(stage).or_default() += 1;
            }
        }
        (self.context.listener)(&Event::CellsLeft { stages });
    }

    pub(super) fn interrupt(&mut self) {
        self.stopped = Some(Stop::Interrupted);
    }

    /// Takes the next ready cell: first by design, then by the fewest starts, then by the required order.
    fn next_bound(&mut self) -> Option<CellId> {
        self.ready_bound
            .retain(|cell| matches!(self.session.states[*cell], State::Ready(_)));
        let mut best: Option<(Urgency, usize)> = None;
        for at in 0..self.ready_bound.len() {
            let cell = self.ready_bound[at];
            let graph = &self.session.graph;
            let starts = resources_of(graph, cell)
                .into_iter()
                .filter(|r| !self.live.has(*r))
                .count();
            let starts = starts + usize::from(graph.class(cell) == Class::Resource);
            let seed = self.context.seed;
            let rank = (self.context.order == Order::Shuffled).then(|| {
                let rank = || Digest::of(format!("{seed} {}", graph.name(cell)).as_bytes());
                *self.ranks.entry(cell).or_insert_with(rank)
            });
            let urgency = (self.blocks.seat(cell), starts, rank, cell);
            if best.is_none_or(|(earlier, _)| urgency < earlier) {
                best = Some((urgency, at));
            }
        }
        best.map(|(_, at)| self.ready_bound.remove(at))
    }

    /// Builds the task of a cell and gives it the next place in the order.
    pub(super) fn task(&mut self, cell: CellId, key: ActionKey) -> Task<'a> {
        let (stage, _) = self.session.graph.place(cell);
        let study = if self.session.graph.nodes[stage].class == LockClass::Study {
            if self.study.is_none() {
                self.study = Some(Arc::new(study_of(&mut self.session)));
            }
            self.study.clone()
        } else {
            None
        };
        self.order += 1;
        let place = self.blocks.note(&self.session.graph, cell);
        let mut task = Task::new(&mut self.session, cell, key, self.order, study);
        task.place = place;
        task
    }

    /// Processes the result of a cell.
    pub(super) fn finish(&mut self, finished: Finished) -> Result<(), PipelineError> {
        let Finished {
            cell,
            outcome,
            commit,
            evidence,
            hint,
            lease: _,
        } = finished;
        self.executed += 1;
        if !evidence.is_empty() {
            self.evidence.insert(cell, evidence);
        }
        let seconds = commit.seconds;
        self.session
            .results
            .insert(cell, (commit.key, outcome.clone()));
        self.commits.push(commit);
        // A measurement must be durable before it is reported. Other processes that wait for the machine also ask the
        // index next.
        if self.session.graph.class(cell) != Class::Pure {
            self.commit()?;
        }
        self.ended(cell, &outcome, hint, seconds);
        self.session.settle(cell, outcome)?;
        self.collect();
        Ok(())
    }

    pub(super) fn ended(
        &mut self,
        cell: CellId,
        outcome: &Outcome,
        hint: Option<String>,
        seconds: f64,
    ) {
        let status = outcome.status();
        let name = self.session.graph.name(cell);
        match status {
            CellStatus::Interrupted => self.interrupt(),
            CellStatus::Failed | CellStatus::Hung | CellStatus::Timeout
                if !self.keep_going && self.stopped.is_none() =>
            {
                self.stopped = Some(Stop::Failed(name.clone()));
            }
            _ => {}
        }
        let reason = match outcome {
            Outcome::Ok { .. } => None,
            Outcome::Not { reason, .. } => Some(reason.to_string()),
        };
        (self.context.listener)(&Event::CellEnded {
            cell: name,
            stage: self.session.graph.stage_name(cell).to_owned(),
            status,
            reason,
            hint,
            seconds,
            cached: false,
        });
    }

    /// Makes everything executed since the last commit durable.
    pub(super) fn commit(&mut self) -> Result<(), PipelineError> {
        if !self.commits.is_empty() {
            self.journal.note(self.commits.iter().map(|c| &c.record))?;
            self.session.store.commit(&self.commits)?;
            if let Some(Committed(hears)) = &self.committed {
                let records: Vec<Digest> = self.commits.iter().map(|c| c.record).collect();
                hears(&records);
            }
            self.commits.clear();
        }
        Ok(())
    }

    /// Settles the cells that were not reached, writes the lock, and returns the summary.
    pub(super) fn end(mut self, experiment: &Experiment) -> Result<RunSummary, PipelineError> {
        let why = match &self.stopped {
            Some(Stop::Interrupted) => "the run was interrupted".to_owned(),
            Some(Stop::Failed(cell)) => format!("the run stopped when `{cell}` failed"),
            None => "the run ended".to_owned(),
        };
        let why = Cause::not_reached(why).to_string();
        for cell in self.session.graph.cells() {
            if self.session.settled(cell).is_none() {
                self.session.settle(cell, Outcome::skipped(why.as_str()))?;
            }
        }
        self.commit()?;
        let path = lock_path(experiment);
        let lock = self.session.to_lock();
        let keeps = path.exists() && self.keeps_lock();
        let written = !keeps && lock.write(&path)?;
        let mut summary = summary(&mut self, path, written)?;
        summary.locked = (!keeps).then_some(lock);
        self.journal.close()?;
        (self.context.listener)(&Event::RunEnded {
            counts: summary
                .counts
                .iter()
                .map(|(word, n)| ((*word).to_owned(), *n))
                .collect(),
            trail: summary.trail,
        });
        Ok(summary)
    }

    /// Returns whether an earlier lock knows more than this run: nothing is ok and nothing was tried, for example on a
    /// machine without the engine, or the store lacks results that the lock names.
    fn keeps_lock(&self) -> bool {
        let session = &self.session;
        let ok = |cell| matches!(session.settled(cell), Some(Outcome::Ok { .. }));
        // A result that came out otherwise is news; a launch that did not come up says nothing about a result.
        let tried = |cell| {
            use CellStatus::{Failed, Hung, Timeout};
            session.graph.class(cell) != Class::Resource
                && matches!(
                    session.results.get(&cell),
                    Some((
                        _,
                        Outcome::Not {
                            status: Failed | Hung | Timeout,
                            ..
                        }
                    ))
                )
        };
        let mut cells = session.graph.cells();
        cells.all(|cell| !ok(cell) && !tried(cell))
            || session
                .graph
                .cells()
                .any(|cell| session.lacks_locked_result(cell))
    }
}

/// Returns for each stage whether a measurement or resource depends on it, directly or indirectly.
fn feeding_stages(session: &Session<'_>) -> TiVec<StageId, bool> {
    let nodes = &session.graph.nodes;
    let mut feeds = TiVec::from(vec![false; nodes.len()]);
    for number in nodes.keys().rev() {
        feeds[number] = nodes[number]
            .readers
            .iter()
            .any(|(r, _)| feeds[*r] || nodes[*r].stage.class != Class::Pure);
    }
    feeds
}
