//! Cells that a scheduler executes on other machines: how they are grouped, and their results.
//!
//! A *shard* is the cells that share a live server, with everything the server needs. A machine that a scheduler
//! chooses executes the shard with this program, and its records come back. The machine's facets are unknown in
//! advance, so the key of a placed cell is computed with the facets in its records.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use artifacts::{Digest, Store};
use serde::{Deserialize, Serialize};

use super::PlanOptions;
use super::select::Forced;
use super::session::{Outcome, Session, State};
use crate::error::PipelineError;
use crate::execute::resources_of;
use crate::experiment::Experiment;
use crate::graph::{Graph, Placement};
use crate::ids::{CellId, LocalCell, StageId};
use crate::key::value_digest;
use crate::place::WrittenCell;
use crate::record::{Record, outputs_text};
use crate::stage::{CellStatus, Class, Json, Media, Registry};

/// The number of executions of a stage that are searched for the facets of their machine.
const ASKED: usize = 64;

/// The results of other machines for a run.
#[derive(Clone, Debug, Default)]
pub struct Elsewhere {
    /// The records, which are in the store.
    pub records: BTreeMap<WrittenCell, Digest>,
    /// Cells that ended without a record.
    pub failures: BTreeMap<WrittenCell, AwayFailure>,
}

/// Why a placed cell has no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwayFailure {
    /// Its status.
    pub status: CellStatus,
    /// The reason, in one sentence.
    pub reason: String,
    /// The remedy for the user.
    pub hint: Option<String>,
    /// The evidence it left: name, media type, bytes.
    pub evidence: Vec<(String, Media, Vec<u8>)>,
}

/// What cells with the same facets share: stage, parameter set, placement.
pub(super) type Alike = (StageId, u32, Placement);

/// The sort key of a shard: the block, the place in it, the first cell.
type Turn = (Option<usize>, usize, CellId);

/// Cells that one machine executes together.
#[derive(Clone, Debug, PartialEq)]
pub struct Shard {
    /// The stage that declares the placement.
    pub stage: String,
    /// The placement; shards with the same placement share the value.
    pub placement: Arc<Json>,
    /// The block of the design, from 1.
    pub block: Option<usize>,
    /// The number of the replicate, from 1: the block, or, without a design, its number among the launches that differ
    /// only in their labels. Compared launches have the same numbers on each side.
    pub turn: usize,
    /// The cells without a result, in experiment order.
    pub cells: Vec<ShardCell>,
    /// The sum of the cells' time limits, including retries, if all cells have one.
    pub timeout: Option<Duration>,
    /// The least time in seconds that the rates and durations in the settings of the cells take.
    pub declared_s: f64,
    /// The number of times a shard that ended early may be tried again.
    pub retries: u32,
}

/// A cell of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardCell {
    /// The cell.
    #[serde(flatten)]
    pub name: WrittenCell,
    /// The stage's class.
    pub class: Class,
    /// The record in the lock. If its key turns out to be the same, the cell is not executed again.
    #[serde(rename = "known")]
    pub record: Option<Digest>,
}

/// Returns the shards of the cells that would execute elsewhere, in design order.
///
/// # Errors
/// If the store or the lock cannot be read, or placed cells need something that cannot be sent to them.
pub fn shards(
    experiment: &Experiment,
    registry: &Registry,
    store: &Store,
    options: &PlanOptions,
) -> Result<Vec<Shard>, PipelineError> {
    let mut stages = experiment.stages.iter();
    if stages.all(|stage| stage.placements.is_empty()) {
        return Ok(Vec::new());
    }
    let mut session = Session::new(experiment, registry, store, options)?;
    session.check_inputs()?;
    let graph = &session.graph;
    let open = |cell: CellId| !matches!(session.states[cell], State::Settled(_));
    let placed: Vec<CellId> = graph
        .cells()
        .filter(|cell| graph.placement(*cell).is_some())
        .collect();
    if !placed.iter().any(|cell| open(*cell)) {
        return Ok(Vec::new());
    }
    for cell in &placed {
        check_needs(graph, *cell)?;
    }
    let mut groups: BTreeMap<CellId, Vec<CellId>> = BTreeMap::new();
    let group_of = grouped(graph, &placed);
    for cell in placed.iter().copied().filter(|cell| open(*cell)) {
        // A resource that several groups share goes with each of them.
        if let Some(group) = group_of.get(&cell) {
            groups.entry(*group).or_default().push(cell);
        }
    }
    let replicates = replicates(graph, &group_of);
    let mut placements = HashMap::new();
    let mut shards: Vec<(Turn, Shard)> = groups
        .into_iter()
        .map(|(group, cells)| shard(&session, &cells, replicates[&group], &mut placements))
        .collect();
    shards.sort_by_key(|(seat, _)| *seat);
    Ok(shards.into_iter().map(|(_, shard)| shard).collect())
}

/// Checks that everything a placed cell needs is placed with it.
fn check_needs(graph: &Graph<'_>, cell: CellId) -> Result<(), PipelineError> {
    let own = graph.placement(cell);
    for input in graph.inputs(cell) {
        let wrong = match (graph.class(input), graph.placement(input)) {
            (Class::Pure, _) => "is computed from results of other cells",
            (_, None) => "executes on this machine",
            (_, theirs) if theirs != own => "has another place",
            _ => continue,
        };
        return Err(PipelineError::Selection {
            message: format!(
                "`{}` executes elsewhere, but needs `{}`, which {wrong}",
                graph.name(cell),
                graph.name(input)
            ),
            hint: "give both one `place`, or measure them in two experiments".to_owned(),
        });
    }
    Ok(())
}

/// Returns the group of each placed cell: a measurement goes with the last resources of its chain.
fn grouped(graph: &Graph<'_>, placed: &[CellId]) -> BTreeMap<CellId, CellId> {
    let mut parent: HashMap<CellId, CellId> = HashMap::new();
    fn root(parent: &HashMap<CellId, CellId>, mut cell: CellId) -> CellId {
        while parent[&cell] != cell {
            cell = parent[&cell];
        }
        cell
    }
    let measured = |cell: &&CellId| graph.class(**cell) == Class::Measurement;
    let mut shared: BTreeSet<CellId> = BTreeSet::new();
    for cell in placed.iter().filter(measured) {
        parent.entry(*cell).or_insert(*cell);
        let needed = resources_of(graph, *cell);
        let mut below: BTreeSet<CellId> = BTreeSet::new();
        for resource in &needed {
            below.extend(resources_of(graph, *resource));
        }
        let inputs = graph.inputs(*cell);
        let measured = inputs.filter(|input| graph.class(*input) == Class::Measurement);
        let tops = needed.iter().copied().filter(|r| !below.contains(r));
        for other in tops.chain(measured) {
            parent.entry(other).or_insert(other);
            let (a, b) = (root(&parent, *cell), root(&parent, other));
            parent.insert(a.max(b), a.min(b));
        }
        shared.extend(below);
    }
    // Resources that no measurement needs are separate shards.
    for cell in placed {
        if !shared.contains(cell) {
            parent.entry(*cell).or_insert(*cell);
        }
    }
    let cells: Vec<CellId> = parent.keys().copied().collect();
    cells
        .into_iter()
        .map(|cell| (cell, root(&parent, cell)))
        .collect()
}

/// Returns the number of each group, from 1, among the groups whose cells have the same parameters, including settled
/// ones.
fn replicates(graph: &Graph<'_>, group_of: &BTreeMap<CellId, CellId>) -> HashMap<CellId, usize> {
    let mut groups: BTreeMap<CellId, Vec<CellId>> = BTreeMap::new();
    for (cell, group) in group_of {
        groups.entry(*group).or_default().push(*cell);
    }
    let mut seen: HashMap<BTreeSet<(StageId, u32)>, usize> = HashMap::new();
    let mut numbers = HashMap::new();
    for (group, cells) in groups {
        let needed = cells.iter().flat_map(|cell| resources_of(graph, *cell));
        let all = cells.iter().copied().chain(needed);
        let parameters = all.map(|cell| {
            let (stage, i) = graph.place(cell);
            (stage, graph.nodes[stage].stage.cells[i].parameters)
        });
        let count = seen.entry(parameters.collect()).or_default();
        *count += 1;
        numbers.insert(group, *count);
    }
    numbers
}

/// Describes the shard of these cells, with its place in the order.
fn shard(
    session: &Session<'_>,
    cells: &[CellId],
    replicate: usize,
    placements: &mut HashMap<Placement, Arc<Json>>,
) -> (Turn, Shard) {
    let graph = &session.graph;
    let seats = cells.iter().filter_map(|cell| {
        let design = graph.experiment.design.as_ref()?;
        let (block, launch) = graph.launch(design, *cell)?;
        Some((block, design.place(block, launch)))
    });
    let seat = seats.min();
    let at = graph
        .placement(cells[0])
        .expect("only placed cells are in shards");
    let stage = at.0;
    let placement = placements.entry(at).or_insert_with(|| {
        let placement = &graph.nodes[stage].stage.placements[at.1 as usize];
        Arc::new(placement.clone())
    });
    let mut all: BTreeSet<CellId> = cells.iter().copied().collect();
    all.extend(cells.iter().flat_map(|cell| resources_of(graph, *cell)));
    let limits = all.iter().map(|cell| {
        let (stage, i) = graph.place(*cell);
        let cell = &graph.nodes[stage].stage.cells[i];
        Some(cell.timeout? * (cell.retries + 1))
    });
    let retries = cells.iter().map(|cell| {
        let (stage, i) = graph.place(*cell);
        graph.nodes[stage].stage.cells[i].retries
    });
    let declared = cells.iter().filter_map(|cell| {
        let (stage, i) = graph.place(*cell);
        let node = &graph.nodes[stage];
        let set = node.stage.cells[i].parameters as usize;
        node.kind.demand(&node.stage.parameter_sets[set])?.seconds
    });
    let shard = Shard {
        stage: graph.nodes[stage].stage.name.clone(),
        placement: Arc::clone(placement),
        block: seat.map(|(block, _)| block + 1),
        turn: seat.map_or(replicate, |(block, _)| block + 1),
        cells: cells
            .iter()
            .map(|cell| ShardCell {
                name: graph.written(*cell).to_owned(),
                class: graph.class(*cell),
                record: usable_record(session, *cell),
            })
            .collect(),
        timeout: limits.sum(),
        declared_s: declared.sum(),
        retries: retries.max().unwrap_or_default(),
    };
    let at = (
        seat.map(|(block, _)| block),
        seat.map_or(0, |(_, place)| place),
        cells[0],
    );
    (at, shard)
}

/// Returns the lock's record of a cell that waits for others, unless the cell will be executed again in any case.
fn usable_record(session: &Session<'_>, cell: CellId) -> Option<Digest> {
    let line = session.lock_line(cell)?;
    let usable = session.forced[cell] == Forced::No && line.status == CellStatus::Ok;
    line.record.filter(|_| usable)
}

impl Session<'_> {
    /// Takes in the results of other machines.
    pub(super) fn take_in(&mut self, elsewhere: &Elsewhere) -> Result<(), PipelineError> {
        for cell in self.graph.cells() {
            let Some(placement) = self.graph.placement(cell) else {
                continue;
            };
            let written = self.graph.written(cell).to_owned();
            let Some(digest) = elsewhere.records.get(&written) else {
                continue;
            };
            let Ok(record) = Record::parse(&self.store.get_document(digest)?) else {
                continue;
            };
            let (stage, i) = self.graph.place(cell);
            let set = self.graph.nodes[stage].stage.cells[i].parameters;
            let outcome = match record.status {
                CellStatus::Ok => Outcome::Ok {
                    key: record.key,
                    record: *digest,
                    outputs: outputs_text(&record.outputs).into(),
                },
                status => Outcome::Not {
                    status,
                    reason: record.reason.unwrap_or_default().into(),
                    key: Some(record.key),
                    record: Some(*digest),
                },
            };
            self.placed_facets
                .entry((stage, set, placement))
                .or_insert(record.recipe.facets);
            self.results.insert(cell, (record.key, outcome));
        }
        Ok(())
    }

    /// Returns the facets of the machine where the cells of a parameter set execute: from this run's records, the
    /// lock's, or the newest, in this order. Before the first record, they are unknown.
    pub(super) fn facets_elsewhere(
        &mut self,
        stage: StageId,
        set: u32,
        placement: Placement,
    ) -> BTreeMap<String, Json> {
        let at = (stage, set, placement);
        if let Some(facets) = self.placed_facets.get(&at) {
            return facets.clone();
        }
        let declared = self.declared_facets(stage, set, placement);
        let facets = declared.unwrap_or_else(|| {
            BTreeMap::from([(
                "host".to_owned(),
                Json::from("not known before it executes"),
            )])
        });
        self.placed_facets.insert(at, facets.clone());
        facets
    }

    fn declared_facets(
        &mut self,
        stage: StageId,
        set: u32,
        placement: Placement,
    ) -> Option<BTreeMap<String, Json>> {
        if self.alike.is_none() {
            self.alike = Some(alike(&self.graph));
        }
        let cells = self.alike.as_ref()?.get(&(stage, set, placement))?;
        let node = &self.graph.nodes[stage];
        if cells
            .iter()
            .any(|i| self.forced[node.cell(*i)] != Forced::No)
        {
            return None;
        }
        let locked = cells
            .iter()
            .filter_map(|i| self.lock_line(node.cell(*i))?.record);
        let name = &self.graph.experiment.name;
        let history = self.store.history(name, &node.stage.name, None, ASKED);
        let texts: BTreeSet<&str> = cells.iter().map(|i| &*node.texts[*i]).collect();
        let newest = history
            .unwrap_or_default()
            .into_iter()
            .filter(|line| line.cacheable && texts.contains(line.coordinates.as_str()))
            .map(|line| line.record);
        let fits = |record: Digest| {
            let record = Record::parse(&self.store.get_document(&record).ok()?).ok()?;
            let recipe = record.recipe;
            let same = recipe.kind == node.stage.kind
                && recipe.semantic_version == node.kind.semantic_version_of(&recipe.parameters)
                && value_digest(&recipe.parameters) == node.parameters[set as usize];
            same.then_some(recipe.facets)
        };
        locked.take(ASKED).chain(newest).find_map(fits)
    }
}

/// Returns a stage's cells for each parameter set at each place.
fn alike(graph: &Graph<'_>) -> HashMap<Alike, Vec<LocalCell>> {
    let mut alike: HashMap<Alike, Vec<LocalCell>> = HashMap::new();
    for cell in graph.cells() {
        if let Some(placement) = graph.placement(cell) {
            let (stage, i) = graph.place(cell);
            let set = graph.nodes[stage].stage.cells[i].parameters;
            alike.entry((stage, set, placement)).or_default().push(i);
        }
    }
    alike
}

/// Returns the local facets of a shard's cells and their needs, by stage, parameter set and placement. They must agree
/// between the machines that execute one study.
///
/// # Errors
/// If a kind is unknown.
pub fn placed_facets(
    experiment: &Experiment,
    registry: &Registry,
    shard: &[ShardCell],
) -> Result<BTreeMap<String, BTreeMap<String, Json>>, PipelineError> {
    let graph = Graph::new(experiment, registry)?;
    let named: BTreeSet<WrittenCell<&str>> = shard.iter().map(|c| c.name.as_ref()).collect();
    let is_named = |cell: &CellId| named.contains(&graph.written(*cell));
    let mut cells: BTreeSet<CellId> = graph.cells().filter(is_named).collect();
    for cell in cells.clone() {
        cells.extend(resources_of(&graph, cell));
    }
    let mut placements = BTreeMap::new();
    for cell in cells {
        let Some((asking, placement)) = graph.placement(cell) else {
            continue;
        };
        let (stage, i) = graph.place(cell);
        let node = &graph.nodes[stage];
        let set = node.stage.cells[i].parameters;
        let name = format!("{}.{set}.{asking}.{placement}", node.stage.name);
        if placements.contains_key(&name) {
            continue;
        }
        // If facets cannot be read, the cell reports it.
        if let Ok(facets) = node.kind.facets(&node.stage.parameter_sets[set as usize])
            && !facets.is_empty()
        {
            placements.insert(name, facets);
        }
    }
    Ok(placements)
}

impl Experiment {
    /// Makes every cell execute in this process.
    pub fn forget_placements(&mut self) {
        for stage in &mut self.stages {
            stage.placements.clear();
            stage
                .cells
                .iter_mut()
                .for_each(|cell| cell.placement = None);
        }
    }
}
