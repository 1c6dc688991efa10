//! Live resources: leases that start when a cell needs them to execute, and end when no ready cell does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use artifacts::Digest;

use super::attempt::{Context, execute, keep, take};
use super::drive::Executor;
use crate::error::PipelineError;
use crate::event::Event;
use crate::graph::Graph;
use crate::ids::CellId;
use crate::name::OutputName;
use crate::plan::{Outcome, State};
use crate::record::Record;
use crate::stage::{Artifact, CellStatus, Class, Content, Failure, Json, Lease, Output, Watch};

/// A live resource, with the exclusive names it holds.
pub(super) struct Live {
    pub(super) cell: CellId,
    lease: Box<dyn Lease>,
    exclusive: Vec<String>,
    /// The record of its start.
    record: Digest,
}

/// The live resources in start order. Dropping the set releases all of them, so that nothing stays alive however a run
/// ends.
#[derive(Default)]
pub(super) struct LiveSet(Vec<Live>);

impl LiveSet {
    pub(super) fn has(&self, cell: CellId) -> bool {
        self.0.iter().any(|l| l.cell == cell)
    }

    pub(super) fn json(&self, cell: CellId) -> Option<Json> {
        self.0
            .iter()
            .find(|l| l.cell == cell)
            .map(|l| l.lease.live().clone())
    }

    pub(super) fn cells(&self) -> Vec<CellId> {
        self.0.iter().map(|l| l.cell).collect()
    }
}

impl Drop for LiveSet {
    fn drop(&mut self) {
        while let Some(live) = self.0.pop() {
            live.lease.release();
        }
    }
}

/// The result of making alive everything that a cell needs.
pub(super) enum Alive {
    /// Everything is alive.
    Yes,
    /// A resource came up differently from its cached descriptor, or another run executed the cell meanwhile. The next
    /// step must be decided again.
    Replanned,
    /// A resource did not come up.
    No {
        resource: String,
        failure: Failure,
        evidence: BTreeMap<OutputName, Artifact>,
    },
}

impl Alive {
    /// A resource that did not come up and left no evidence.
    fn not(resource: String, failure: Failure) -> Self {
        Self::No {
            resource,
            failure,
            evidence: BTreeMap::new(),
        }
    }
}

/// Returns the resources that must be alive while a cell executes, dependencies first.
pub(crate) fn resources_of(graph: &Graph<'_>, cell: CellId) -> Vec<CellId> {
    let mut resources = Vec::new();
    for input in graph.inputs(cell) {
        if graph.class(input) == Class::Resource && !resources.contains(&input) {
            for deeper in resources_of(graph, input) {
                if !resources.contains(&deeper) {
                    resources.push(deeper);
                }
            }
            resources.push(input);
        }
    }
    resources
}

impl<'a> Executor<'a, '_> {
    /// Returns the exclusive names that a cell holds while it executes.
    pub(super) fn exclusive_names(&self, cell: CellId) -> Vec<String> {
        let (stage, _) = self.session.graph.place(cell);
        let stage = self.session.graph.nodes[stage].stage;
        if stage.exclusive.is_empty() && stage.class == Class::Measurement {
            return vec!["host".to_owned()];
        }
        stage.exclusive.clone()
    }

    /// Makes alive everything that a cell needs.
    pub(super) fn ensure_live(&mut self, cell: CellId) -> Result<Alive, PipelineError> {
        let needed = resources_of(&self.session.graph, cell);
        self.drop_dead(&needed)?;
        for resource in &needed {
            if self.live.has(*resource) {
                continue;
            }
            self.make_room(*resource, &needed)?;
            match self.start(*resource, cell)? {
                Alive::Yes => {}
                other => return Ok(other),
            }
        }
        Ok(Alive::Yes)
    }

    /// Checks whether the needed leases are alive, and releases dead ones.
    fn drop_dead(&mut self, needed: &[CellId]) -> Result<(), PipelineError> {
        let mut dead = Vec::new();
        for live in self.live.0.iter_mut().filter(|l| needed.contains(&l.cell)) {
            if let Err(failure) = live.lease.check() {
                dead.push((live.cell, failure.reason));
            }
        }
        for (cell, reason) in dead {
            let name = self.session.graph.name(cell);
            (self.context.listener)(&Event::Warning {
                cell: Some(name.clone()),
                message: format!("{name} died and is being restarted: {reason}"),
            });
            self.release_with_dependants(cell)?;
        }
        Ok(())
    }

    /// Returns the watches over the resources of a cell.
    pub(super) fn watches(&self, cell: CellId) -> Vec<Watch> {
        let needed = resources_of(&self.session.graph, cell);
        let used = self.live.0.iter().filter(|l| needed.contains(&l.cell));
        used.filter_map(|live| {
            let watch = live.lease.watch()?;
            let name = self.session.graph.name(live.cell);
            let named: Watch = Arc::new(move || watch().map_err(|why| died(&name, why)));
            Some(named)
        })
        .collect()
    }

    /// Returns the failure of a cell if a resource it used died before the cell ended.
    pub(super) fn died_meanwhile(&mut self, cell: CellId) -> Option<Failure> {
        let needed = resources_of(&self.session.graph, cell);
        for live in self.live.0.iter_mut().filter(|l| needed.contains(&l.cell)) {
            if let Err(failure) = live.lease.check_after_use() {
                return Some(died(&self.session.graph.name(live.cell), failure));
            }
        }
        None
    }

    /// Releases what must not be alive together with a resource about to start: other cells of its stage, and holders
    /// of its exclusive names, unless they are also needed.
    pub(super) fn make_room(
        &mut self,
        resource: CellId,
        needed: &[CellId],
    ) -> Result<(), PipelineError> {
        let names = self.exclusive_names(resource);
        let stage = self.session.graph.place(resource).0;
        for cell in self.live.cells() {
            let other = self.exclusive_names(cell);
            let conflicts = self.session.graph.place(cell).0 == stage
                || other.iter().any(|name| names.contains(name));
            if conflicts && !needed.contains(&cell) {
                self.release_with_dependants(cell)?;
            }
        }
        Ok(())
    }

    /// Starts a resource with a known descriptor for a cell that needs it, and compares the descriptors.
    fn start(&mut self, cell: CellId, reader: CellId) -> Result<Alive, PipelineError> {
        let name = self.session.graph.name(cell);
        let Some(Outcome::Ok { key, outputs, .. }) = self.session.settled(cell).cloned() else {
            let failure = Failure::failed(format!("`{name}` has no descriptor"));
            return Ok(Alive::not(name, failure));
        };
        let exclusive = self.exclusive_names(cell);
        if !self
            .exclusives
            .acquire(&exclusive, &self.context.cancelled, self.context.listener)?
        {
            let failure = Failure::new(CellStatus::Interrupted, "stopped by the user");
            return Ok(Alive::not(name, failure));
        }
        // Another run may have executed the reader while this one waited for the machine.
        if let State::Ready(wanted) = self.session.states[reader]
            && self.answered(reader, wanted)?
        {
            self.exclusives.release(&exclusive);
            return Ok(Alive::Replanned);
        }
        (self.context.listener)(&Event::ResourceStarted { cell: name.clone() });
        self.resource_starts += 1;
        let mut task = self.task(cell, key);
        task.connect(&self.session.graph, |c| self.live.json(c));
        let finished = execute(&self.context, &task)?;
        match finished.outcome {
            Outcome::Ok {
                outputs: ref fresh, ..
            } if *fresh == outputs => {
                // The descriptor is the same, so the cell keeps the record that it has. The record of this start enters
                // the index only with what the resource leaves.
                self.hold(cell, finished.lease, exclusive, finished.commit.record);
                Ok(Alive::Yes)
            }
            Outcome::Ok { .. } => {
                let flips = self.flips.entry(cell).or_default();
                *flips += 1;
                if *flips > 1 {
                    if let Some(lease) = finished.lease {
                        lease.release();
                    }
                    self.exclusives.release(&exclusive);
                    let failure = Failure::failed(
                        "its descriptor differs each time it starts",
                    )
                    .hint("a descriptor must not contain anything ephemeral, such as a port or a pid");
                    return Ok(Alive::not(name, failure));
                }
                self.hold(cell, finished.lease, exclusive, finished.commit.record);
                self.commits.push(finished.commit);
                self.commit()?;
                self.session.results.insert(cell, (key, finished.outcome));
                (self.context.listener)(&Event::Replanned { cell: name });
                self.replan()?;
                Ok(Alive::Replanned)
            }
            Outcome::Not { status, reason, .. } => {
                self.exclusives.release(&exclusive);
                self.commits.push(finished.commit);
                self.commit()?;
                let mut failure = Failure::new(status, reason.to_string());
                failure.hint = finished.hint;
                Ok(Alive::No {
                    resource: name,
                    failure,
                    evidence: finished.evidence,
                })
            }
        }
    }

    /// Keeps the lease of a started resource, or releases its exclusive names if it left none.
    fn hold(
        &mut self,
        cell: CellId,
        lease: Option<Box<dyn Lease>>,
        exclusive: Vec<String>,
        record: Digest,
    ) {
        match lease {
            Some(lease) => self.adopt(cell, lease, exclusive, record),
            None => self.exclusives.release(&exclusive),
        }
    }

    /// Keeps the lease of a resource that was just executed.
    pub(super) fn adopt(
        &mut self,
        cell: CellId,
        lease: Box<dyn Lease>,
        exclusive: Vec<String>,
        record: Digest,
    ) {
        self.live.0.push(Live {
            cell,
            lease,
            exclusive,
            record,
        });
    }

    /// Releases resources that neither a ready cell nor `keep` needs.
    pub(super) fn release_idle(&mut self, keep: &[CellId]) -> Result<(), PipelineError> {
        if self.live.0.is_empty() {
            return Ok(());
        }
        let mut needed: BTreeSet<CellId> = keep.iter().copied().collect();
        for cell in &self.ready_bound {
            if matches!(self.session.states[*cell], State::Ready(_)) {
                needed.extend(resources_of(&self.session.graph, *cell));
            }
        }
        for cell in self
            .live
            .cells()
            .into_iter()
            .rev()
            .filter(|c| !needed.contains(c))
        {
            self.release_with_dependants(cell)?;
        }
        Ok(())
    }

    pub(super) fn release_all(&mut self) -> Result<(), PipelineError> {
        for cell in self.live.cells().into_iter().rev() {
            self.release_with_dependants(cell)?;
        }
        Ok(())
    }

    /// Adds what a stopped resource left to its record, so that the log of a server that ended well is available like
    /// that of a failed one.
    fn name_left(
        &mut self,
        cell: CellId,
        start: Digest,
        left: BTreeMap<OutputName, Artifact>,
    ) -> Result<(), PipelineError> {
        let Some(Outcome::Ok { key, outputs, .. }) = self.session.settled(cell).cloned() else {
            return Ok(());
        };
        let store = self.session.store;
        let mut record = match Record::parse(&store.get_document(&start)?) {
            Ok(record) if record.key == key && !left.is_empty() => record,
            _ => return Ok(()),
        };
        record.evidence = left;
        let digest = store.put(&record.to_bytes())?;
        self.commits.push(record.commit(digest));
        self.commit()?;
        let outcome = Outcome::Ok {
            key,
            record: digest,
            outputs,
        };
        self.session.states[cell] = State::Settled(outcome.clone());
        self.session.results.insert(cell, (key, outcome));
        Ok(())
    }

    /// Releases a resource after the resources that need it.
    pub(super) fn release_with_dependants(&mut self, cell: CellId) -> Result<(), PipelineError> {
        let others = self.live.cells();
        let dependants: Vec<CellId> = others
            .into_iter()
            .filter(|c| *c == cell || resources_of(&self.session.graph, *c).contains(&cell))
            .collect();
        for dependant in dependants.into_iter().rev() {
            let Some(at) = self.live.0.iter().position(|l| l.cell == dependant) else {
                continue;
            };
            let live = self.live.0.remove(at);
            let left = left_behind(&self.context, live.lease.release())?;
            let name = self.session.graph.name(dependant);
            let digests = left.iter().map(|(name, a)| (name.to_string(), a.digest));
            (self.context.listener)(&Event::ResourceReleased {
                cell: name,
                left: digests.collect(),
            });
            self.name_left(dependant, live.record, left)?;
            // Another run that waits for the machine asks the index as soon as it has the machine.
            self.exclusives.release(&live.exclusive);
        }
        Ok(())
    }

    /// Takes over what another run's resources left, for a cell that the other run executed: this run knows their
    /// records from before they stopped.
    pub(super) fn take_in_left(&mut self, cell: CellId) -> Result<(), PipelineError> {
        for resource in resources_of(&self.session.graph, cell) {
            let Some(Outcome::Ok {
                key,
                record,
                outputs,
            }) = self.session.settled(resource).cloned()
            else {
                continue;
            };
            if self.live.has(resource) {
                continue;
            }
            let store = self.session.store;
            let earlier = Record::parse(&store.get_document(&record)?).ok();
            let Some(earlier) = earlier.filter(|record| record.evidence.is_empty()) else {
                continue;
            };
            for later in store.records_for(&key)? {
                let Ok(mut ended) = Record::parse(&store.get_document(&later.record)?) else {
                    continue;
                };
                let left = !std::mem::take(&mut ended.evidence).is_empty();
                if left && ended == earlier {
                    let outcome = Outcome::Ok {
                        key,
                        record: later.record,
                        outputs,
                    };
                    self.session.states[resource] = State::Settled(outcome.clone());
                    self.session.results.insert(resource, (key, outcome));
                    break;
                }
            }
        }
        Ok(())
    }
}

fn died(name: &str, mut failure: Failure) -> Failure {
    failure.reason = format!("`{name}` died during the cell: {}", failure.reason);
    failure
}

/// Stores what a resource left.
fn left_behind(
    context: &Context<'_>,
    mut outputs: Vec<Output>,
) -> Result<BTreeMap<OutputName, Artifact>, PipelineError> {
    // A file that disappeared with the resource's folder is left out.
    outputs.retain(|output| match &output.content {
        Content::Bytes(_) => true,
        Content::File(path) => path.is_file(),
    });
    let _all_are_files = take(context.store, &mut outputs)?;
    match keep(context.store, outputs)? {
        Ok(kept) => Ok(kept),
        // If the kind's outputs are invalid, nothing is kept.
        Err(_mistake) => Ok(BTreeMap::new()),
    }
}
