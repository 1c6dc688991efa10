//! Decides what one cell does, once everything it reads is settled.

use std::collections::BTreeMap;

use artifacts::{ActionKey, Digest, Lookup};

use super::Lack;
use super::damage::Damage;
use super::select::Forced;
use super::session::{Outcome, Session, State};
use crate::cause::Cause;
use crate::error::PipelineError;
use crate::graph::Member;
use crate::ids::{CellId, StageId};
use crate::key::{
    HeadParts, InputList, Recipe, RecipeCell, RecipeInput, StudyIdentity, facets_digest, key_of,
};
use crate::lock::LockClass;
use crate::name::OutputName;
use crate::record::{Record, are_outputs, outputs_in_use};
use crate::stage::{Artifact, CellStatus, Class, Json};

impl Session<'_> {
    /// Decides what a cell does; every cell it reads is settled.
    pub(super) fn resolve(
        &mut self,
        cell: CellId,
        lookup: &Lookup<'_>,
    ) -> Result<State, PipelineError> {
        if let Some(outcome) = self.fixed.get(&cell) {
            return Ok(State::Settled(outcome.clone()));
        }
        let (stage, _) = self.graph.place(cell);
        let class = self.graph.nodes[stage].stage.class;
        if self.locked && class != Class::Pure {
            return self.take_from_lock(cell);
        }
        if let Some(reason) = self.unusable_inputs(cell) {
            return Ok(self.block(cell, reason));
        }
        let key = match self.key(cell) {
            Ok(key) => key,
            Err(lack) => {
                let reason = lack.reason.clone();
                if self.selected[cell] {
                    self.lacks.insert(lack);
                }
                return Ok(self.block(cell, reason));
            }
        };
        if let Some((earlier_key, outcome)) = self.results.get(&cell)
            && *earlier_key == key
        {
            return Ok(State::Settled(outcome.clone()));
        }
        // A cell executed in this run is no longer forced, even if its key has changed since.
        let again = !self.results.contains_key(&cell) && self.forced[cell] != Forced::No;
        if !again
            && !self.damaged.contains_key(&cell)
            && let Some(outcome) = self.cached(cell, key, lookup)?
            && self.is_whole(cell, stage, &outcome)?
        {
            return Ok(State::Settled(outcome));
        }
        if !again && class != Class::Pure && !self.damaged.contains_key(&cell) {
            self.must_not_be_damaged(cell, key)?;
        }
        if !self.selected[cell] {
            return Ok(self.block(cell, "not selected by --only, and not cached".to_owned()));
        }
        Ok(State::Ready(key))
    }

    /// Returns whether a cached result can be used as it is. The result of a stage that sees the study goes to the
    /// user, and no executing cell would discover that a part of it is missing or damaged.
    fn is_whole(
        &mut self,
        cell: CellId,
        stage: StageId,
        outcome: &Outcome,
    ) -> Result<bool, PipelineError> {
        let Outcome::Ok { outputs, .. } = outcome else {
            return Ok(true);
        };
        if self.graph.nodes[stage].class != LockClass::Study {
            return Ok(true);
        }
        let damage = Damage::of(self.store, outputs)?;
        let whole = damage.is_none();
        self.damaged.extend(damage.map(|damage| (cell, damage)));
        Ok(whole)
    }

    /// Returns the result that another run has entered for a ready cell since it was planned.
    ///
    /// # Errors
    /// If the store's index returns an error.
    pub(crate) fn ask_again(
        &mut self,
        cell: CellId,
        key: ActionKey,
    ) -> Result<Option<Outcome>, PipelineError> {
        if self.forced[cell] != Forced::No
            || self.damaged.contains_key(&cell)
            || self.store.record_for(&key)?.is_none()
        {
            return Ok(None);
        }
        let store = self.store;
        self.cached(cell, key, &store.lookup()?)
    }

    fn block(&mut self, cell: CellId, reason: String) -> State {
        self.blocked.insert(cell);
        State::Settled(Outcome::skipped(reason))
    }

    /// Returns the result to use for a key: the lock's, if it is among them, otherwise the newest.
    fn cached(
        &mut self,
        cell: CellId,
        key: ActionKey,
        lookup: &Lookup<'_>,
    ) -> Result<Option<Outcome>, PipelineError> {
        let newest = match self.foreign.is_empty() {
            true => lookup.record_for(&key)?,
            false => {
                let all = lookup.records_for(&key)?;
                self.permitted(cell, all).into_iter().next()
            }
        };
        let Some(mut chosen) = newest else {
            return Ok(None);
        };
        let preferred = self
            .lock_line(cell)
            .filter(|l| l.key == Some(key))
            .and_then(|l| l.record);
        if let Some(record) = preferred
            && record != chosen.record
        {
            let all = self.store.records_for(&key)?;
            self.several.insert(cell, all.len());
            match all.into_iter().find(|c| c.record == record) {
                Some(cached) => chosen = cached,
                None if self.graph.class(cell) == Class::Pure => {}
                None => self.must_not_be_damaged(cell, key)?,
            }
        }
        if !are_outputs(&chosen.outputs) {
            return Ok(None);
        }
        Ok(Some(Outcome::Ok {
            key,
            record: chosen.record,
            outputs: chosen.outputs.into(),
        }))
    }

    fn take_from_lock(&mut self, cell: CellId) -> Result<State, PipelineError> {
        let name = self.graph.name(cell);
        let Some(line) = self.lock_line(cell).cloned() else {
            let reason = format!("`{name}` is not in the lock: run without --locked to execute it");
            return Ok(self.block(cell, reason));
        };
        let (Some(key), Some(record), CellStatus::Ok) = (line.key, line.record, line.status) else {
            let reason = line.reason.unwrap_or_default().into();
            let outcome = Outcome::Not {
                status: line.status,
                reason,
                key: line.key,
                record: line.record,
            };
            return Ok(State::Settled(outcome));
        };
        let cached = self
            .store
            .records_for(&key)?
            .into_iter()
            .find(|c| c.record == record);
        let complete = cached.filter(|c| {
            Some(Digest::of(c.outputs.as_bytes())) == line.outputs && are_outputs(&c.outputs)
        });
        // An output that will be read is missing, but executing the cell again is not allowed here.
        let Some(cached) = complete.filter(|_| !self.damaged.contains_key(&cell)) else {
            self.must_not_be_damaged(cell, key)?;
            let reason = format!(
                "record {} of `{name}` or one of its outputs is not in the store: copy the store \
                 that the lock was made with, or run without --locked",
                record.short()
            );
            return Ok(self.block(cell, reason));
        };
        Ok(State::Settled(Outcome::Ok {
            key,
            record,
            outputs: cached.outputs.into(),
        }))
    }

    /// Returns why a cell cannot execute: a measurement or resource needs every input ok, a pure cell at least one ok
    /// cell of every stage it needs, or one that left behind what the cell reads.
    fn unusable_inputs(&self, cell: CellId) -> Option<String> {
        let (stage, i) = self.graph.place(cell);
        let node = &self.graph.nodes[stage];
        for need in &node.needs {
            let source = &self.graph.nodes[need.stage];
            let name = &source.stage.name;
            let members = need.members(need.group_of_reader[i]);
            let count = members.len();
            let mut fine = 0;
            let mut bad: Option<(String, CellStatus, Cause)> = None;
            for member in members {
                let (text, status, reason) = match member {
                    Member::Cell(m) => match self.settled(source.cell(m)) {
                        Some(outcome @ Outcome::Not { status, reason, .. })
                            if self.left_behind(stage, Some(outcome)).is_empty() =>
                        {
                            (self.graph.name(source.cell(m)), *status, &**reason)
                        }
                        _ => {
                            fine += 1;
                            continue;
                        }
                    },
                    Member::Excluded(e) => {
                        let excluded = &source.stage.excluded[e];
                        let coordinates =
                            self.graph.experiment.coordinates(need.stage, &excluded.at);
                        let text = crate::place::cell_text(name, &coordinates.to_string());
                        (text, CellStatus::Excluded, &*excluded.reason)
                    }
                };
                bad.get_or_insert_with(|| (text, status, Cause::read(reason)));
            }
            match bad {
                // A report on the whole study also reports that a part of it was blocked here.
                Some((_, CellStatus::Skipped, cause))
                    if fine == 0 && node.class == LockClass::Study && cause.is_blocked() => {}
                Some((text, status, cause)) if count == 1 || node.stage.class != Class::Pure => {
                    return Some(cause.through_cell(&text, status).to_string());
                }
                _ if fine == 0 && count == 0 => {
                    return Some(format!("no cell of `{name}` has its coordinates"));
                }
                Some((_, CellStatus::Skipped, cause)) if fine == 0 && cause.is_blocked() => {
                    return Some(cause.through_stage(name).to_string());
                }
                _ if fine == 0 => return Some(format!("no cell of `{name}` is ok")),
                _ => {}
            }
        }
        None
    }

    /// Returns the key of a cell whose inputs are settled.
    ///
    /// # Errors
    /// If a facet of the machine cannot be read.
    fn key(&mut self, cell: CellId) -> Result<ActionKey, Lack> {
        let (stage, i) = self.graph.place(cell);
        let set = self.graph.nodes[stage].stage.cells[i].parameters;
        let facets = match self.graph.placement(cell) {
            Some(placement) => facets_digest(&self.facets_elsewhere(stage, set, placement)),
            None => facets_digest(self.facets(stage, set).as_ref().map_err(Lack::clone)?),
        };
        let study =
            (self.graph.nodes[stage].class == LockClass::Study).then(|| (self.spec, self.trail()));
        let groups: Vec<u32> = self.graph.nodes[stage]
            .needs
            .iter()
            .map(|n| n.group_of_reader[i])
            .collect();
        let lists: Vec<Digest> = groups
            .into_iter()
            .enumerate()
            .map(|(n, group)| self.input_digest(stage, n, group))
            .collect();
        let experiment = self.graph.experiment;
        let node = &self.graph.nodes[stage];
        let at = &node.stage.cells[i].at;
        let replicate = experiment.replicate(stage, at);
        let names = node
            .needs
            .iter()
            .map(|n| experiment.stages[n.stage].name.as_str());
        let set = node.stage.cells[i].parameters as usize;
        Ok(key_of(HeadParts {
            kind: &node.stage.kind,
            semantic_version: node
                .kind
                .semantic_version_of(&node.stage.parameter_sets[set]),
            seed: experiment.seed,
            parameters: &node.parameters[set],
            replicate: &replicate,
            inputs: names.zip(lists),
            facets: &facets,
            study,
        }))
    }

    /// Returns the facets of this machine, as they were when they were first asked for: the keys of all cells of a run
    /// contain the same ones.
    fn facets(&mut self, stage: StageId, set: u32) -> &Result<BTreeMap<String, Json>, Lack> {
        let node = &self.graph.nodes[stage];
        self.facets.entry((stage, set)).or_insert_with(|| {
            let facets = node.kind.facets(&node.stage.parameter_sets[set as usize]);
            facets.map_err(|failure| Lack {
                reason: failure.reason,
                hint: failure.hint,
            })
        })
    }

    pub(super) fn compute_input_digest(&self, stage: StageId, need: usize, group: u32) -> Digest {
        let reader = stage;
        let need = &self.graph.nodes[stage].needs[need];
        let source = &self.graph.nodes[need.stage];
        let members = need.members(group);
        let mut list = InputList::new(members.len());
        for member in members {
            let at = match member {
                Member::Cell(i) => &source.stage.cells[i].at,
                Member::Excluded(i) => &source.stage.excluded[i].at,
            };
            let coordinates = self.graph.experiment.coordinates(need.stage, at);
            let parameters = self
                .shown_parameters(need.stage, member)
                .map(|set| &source.parameters[set]);
            match self
                .member_cell(need.stage, member)
                .and_then(|c| self.settled(c))
            {
                Some(Outcome::Ok { outputs, .. }) => {
                    let outputs = outputs_in_use(outputs);
                    let outputs = outputs
                        .into_iter()
                        .map(|(name, artifact)| (name, artifact.digest));
                    list.push(&coordinates, CellStatus::Ok, None, parameters, outputs);
                }
                other => {
                    let (status, reason) = self.missing(need.stage, member, other);
                    let left = self.left_behind(reader, other);
                    let left = left.iter().map(|(name, a)| (name.as_str(), a.digest));
                    list.push(&coordinates, status, Some(reason), parameters, left);
                }
            }
        }
        list.finish()
    }

    /// Returns the status and reason of a member without outputs.
    pub(crate) fn missing<'s>(
        &'s self,
        stage: StageId,
        member: Member,
        outcome: Option<&'s Outcome>,
    ) -> (CellStatus, &'s str) {
        match (member, outcome) {
            (Member::Excluded(i), _) => (
                CellStatus::Excluded,
                self.graph.nodes[stage].stage.excluded[i].reason.as_str(),
            ),
            (_, Some(Outcome::Not { status, reason, .. })) => (*status, reason),
            _ => unreachable!("only settled cells without outputs are missing"),
        }
    }

    /// Returns what a cell without outputs left behind, if a stage reads that. A record that the store lacks leaves
    /// nothing: the reader's key then differs from the one under which its result is cached.
    pub(crate) fn left_behind(
        &self,
        reader: StageId,
        outcome: Option<&Outcome>,
    ) -> BTreeMap<OutputName, Artifact> {
        let Some(Outcome::Not {
            record: Some(record),
            ..
        }) = outcome.filter(|_| self.graph.nodes[reader].reads_evidence)
        else {
            return BTreeMap::new();
        };
        let bytes = self.store.get_document(record).ok();
        let record = bytes.and_then(|bytes| Record::parse(&bytes).ok());
        record.map(|record| record.evidence).unwrap_or_default()
    }

    /// Returns the parameter set that a reader of this cell may see. Only those of measurements whose readers need them
    /// are visible, because a reader's key must contain them. A change that affects only the parameters of another
    /// stage, not its bytes, must stop there.
    pub(crate) fn shown_parameters(&self, stage: StageId, member: Member) -> Option<usize> {
        let node = &self.graph.nodes[stage];
        match member {
            Member::Cell(i)
                if node.class == LockClass::Measurement && node.kind.shows_parameters() =>
            {
                Some(node.stage.cells[i].parameters as usize)
            }
            _ => None,
        }
    }

    /// Returns the full recipe of a cell whose inputs are settled.
    pub(crate) fn recipe(&mut self, cell: CellId) -> Recipe {
        let (stage, i) = self.graph.place(cell);
        let study = (self.graph.nodes[stage].class == LockClass::Study).then(|| StudyIdentity {
            spec: self.spec,
            trail: self.trail(),
        });
        let set = self.graph.nodes[stage].stage.cells[i].parameters;
        let facets = match self.graph.placement(cell) {
            Some(placement) => self.facets_elsewhere(stage, set, placement),
            None => self.facets(stage, set).clone().unwrap_or_default(),
        };
        let experiment = self.graph.experiment;
        let node = &self.graph.nodes[stage];
        let parameters: &Json = &node.stage.parameter_sets[node.stage.cells[i].parameters as usize];
        let mut inputs = Vec::with_capacity(node.needs.len());
        for need in &node.needs {
            let source = &self.graph.nodes[need.stage];
            let members = need.members(need.group_of_reader[i]);
            let cells = members
                .map(|member| self.recipe_cell(stage, need.stage, member))
                .collect();
            inputs.push(RecipeInput {
                stage: source.stage.name.clone(),
                cells,
            });
        }
        Recipe {
            format: Recipe::current_format(),
            kind: node.stage.kind.clone(),
            semantic_version: node.kind.semantic_version_of(parameters),
            seed: experiment.seed,
            parameters: parameters.clone(),
            replicate: experiment.replicate(stage, &node.stage.cells[i].at),
            inputs,
            facets,
            study,
        }
    }

    fn recipe_cell(&self, reader: StageId, stage: StageId, member: Member) -> RecipeCell {
        let node = &self.graph.nodes[stage];
        let at = match member {
            Member::Cell(i) => &node.stage.cells[i].at,
            Member::Excluded(i) => &node.stage.excluded[i].at,
        };
        let coordinates = self.graph.experiment.coordinates(stage, at);
        let parameters = self
            .shown_parameters(stage, member)
            .map(|set| node.parameters[set]);
        match self
            .member_cell(stage, member)
            .and_then(|c| self.settled(c))
        {
            Some(Outcome::Ok { outputs, .. }) => {
                let outputs = outputs_in_use(outputs);
                let outputs = outputs
                    .into_iter()
                    .map(|(n, a)| (n.to_owned(), a.digest))
                    .collect();
                RecipeCell {
                    coordinates,
                    status: CellStatus::Ok,
                    reason: None,
                    parameters,
                    outputs,
                }
            }
            other => {
                let (status, reason) = self.missing(stage, member, other);
                let reason = Some(reason.to_owned());
                let left = self.left_behind(reader, other).into_iter();
                RecipeCell {
                    coordinates,
                    status,
                    reason,
                    parameters,
                    outputs: left
                        .map(|(n, a)| (n.as_str().to_owned(), a.digest))
                        .collect(),
                }
            }
        }
    }
}
