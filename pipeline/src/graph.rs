//! Which cells read which. Numbers the experiment's cells, and groups the cells of every needed stage by the set of
//! readers they join with.
//!
//! All cells that agree on the shared axes share a group, so that a list of thousands of inputs is built and digested
//! once. All data is in flat arrays: ten thousand cells cost about a megabyte.

use std::collections::HashMap;
use std::fmt;

use artifacts::Digest;
use typed_index_collections::TiVec;

use crate::design::Design;
use crate::experiment::{Experiment, Stage};
use crate::ids::{CellId, LocalCell, StageId};
use crate::key::value_digest;
use crate::lock::LockClass;
use crate::place::{WrittenCell, push_label, push_name};
use crate::stage::{Class, Registry, StageKind};

/// A kind that the experiment names and the registry lacks. This is a mistake of the program, since the language checks
/// kinds.
#[derive(Debug)]
pub struct UnknownKind(pub String);

impl fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no stage kind is named `{}`", self.0)
    }
}

/// The experiment, with its cells numbered from 0 across all stages.
pub(crate) struct Graph<'a> {
    pub(crate) experiment: &'a Experiment,
    pub(crate) nodes: TiVec<StageId, Node<'a>>,
    /// The number of cells.
    pub(crate) count: usize,
    /// The stage and placement index of each cell; empty if every cell executes locally.
    placed: TiVec<CellId, Option<Placement>>,
}

/// A placement: the stage that declares it, and the index into [`Stage::placements`].
pub(crate) type Placement = (StageId, u32);

/// One stage.
pub(crate) struct Node<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) kind: &'a dyn StageKind,
    pub(crate) class: LockClass,
    /// The number of the stage's first cell.
    first: CellId,
    pub(crate) needs: Vec<Need>,
    /// (stage, position in its `needs`) of the stages that need this one.
    pub(crate) readers: Vec<(StageId, usize)>,
    /// The coordinates of each cell as text.
    pub(crate) texts: TiVec<LocalCell, Box<str>>,
    pub(crate) parameters: Vec<Digest>,
    /// Whether any of its cells reads what failed cells left behind. All of them then get it.
    pub(crate) reads_evidence: bool,
}

/// A stage that another stage needs.
pub(crate) struct Need {
    /// The needed stage.
    pub(crate) stage: StageId,
    /// The group of each reading cell.
    pub(crate) group_of_reader: TiVec<LocalCell, u32>,
    /// The group of each cell of the needed stage; [`NO_GROUP`] if no cell reads it.
    pub(crate) group_of_member: TiVec<LocalCell, u32>,
    members: Flat,
    readers: Flat,
}

pub(crate) const NO_GROUP: u32 = u32::MAX;

/// A list of lists in two arrays.
struct Flat {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Flat {
    /// Groups `(group, item)` pairs, keeping their order within a group.
    fn new(groups: usize, pairs: &[(u32, u32)]) -> Self {
        let mut starts = vec![0_u32; groups + 1];
        for (group, _) in pairs {
            starts[*group as usize + 1] += 1;
        }
        for i in 0..groups {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut items = vec![0; pairs.len()];
        for (group, item) in pairs {
            let at = &mut next[*group as usize];
            items[*at as usize] = *item;
            *at += 1;
        }
        Self { starts, items }
    }

    fn get(&self, group: u32) -> &[u32] {
        let group = group as usize;
        &self.items[self.starts[group] as usize..self.starts[group + 1] as usize]
    }

    fn len(&self) -> usize {
        self.starts.len() - 1
    }
}

/// A member of a group: a cell of the needed stage, or an excluded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Member {
    /// A cell of the needed stage.
    Cell(LocalCell),
    /// The index into [`Stage::excluded`].
    Excluded(usize),
}

const EXCLUDED: u32 = 1 << 31;

impl Member {
    fn pack(self) -> u32 {
        let small = |i: usize| u32::try_from(i).expect("a stage has fewer than 2³¹ cells");
        match self {
            Self::Cell(i) => small(i.into()),
            Self::Excluded(i) => small(i) | EXCLUDED,
        }
    }

    fn unpack(packed: u32) -> Self {
        if packed & EXCLUDED == 0 {
            Self::Cell(LocalCell::from(packed as usize))
        } else {
            Self::Excluded((packed & !EXCLUDED) as usize)
        }
    }
}

impl Need {
    /// Returns the members of a group in axis order.
    pub(crate) fn members(&self, group: u32) -> impl ExactSizeIterator<Item = Member> + '_ {
        self.members.get(group).iter().map(|m| Member::unpack(*m))
    }

    /// Returns the cells of the reading stage that read a group.
    pub(crate) fn readers(&self, group: u32) -> impl Iterator<Item = LocalCell> + '_ {
        let readers = self.readers.get(group).iter();
        readers.map(|reader| LocalCell::from(*reader as usize))
    }

    pub(crate) fn groups(&self) -> usize {
        self.members.len()
    }
}

impl Node<'_> {
    /// Returns the number of a cell of the stage.
    pub(crate) fn cell(&self, cell: LocalCell) -> CellId {
        CellId::from(usize::from(self.first) + usize::from(cell))
    }

    /// Returns a cell of the stage in its written form.
    pub(crate) fn written(&self, cell: LocalCell) -> WrittenCell<&str> {
        WrittenCell {
            stage: &self.stage.name,
            coordinates: &self.texts[cell],
        }
    }

    /// Returns the numbers of the stage's cells, as a range for lists over all cells.
    pub(crate) fn range(&self) -> std::ops::Range<CellId> {
        self.first..self.cell(LocalCell::from(self.stage.cells.len()))
    }

    /// Returns the numbers of the stage's cells.
    pub(crate) fn cells(&self) -> impl Iterator<Item = CellId> + use<> {
        let first = usize::from(self.first);
        (first..first + self.stage.cells.len()).map(CellId::from)
    }
}

impl<'a> Graph<'a> {
    pub(crate) fn new(
        experiment: &'a Experiment,
        registry: &'a Registry,
    ) -> Result<Self, UnknownKind> {
        let mut nodes: TiVec<StageId, Node<'a>> = TiVec::with_capacity(experiment.stages.len());
        let mut count = 0;
        for (number, stage) in experiment.stages.iter_enumerated() {
            let kind = registry.kinds.iter().find(|k| k.name() == stage.kind);
            let kind = kind
                .ok_or_else(|| UnknownKind(stage.kind.clone()))?
                .as_ref();
            let needs: Vec<Need> = stage
                .needs
                .iter()
                .map(|needed| need(experiment, number, *needed))
                .collect();
            for (i, needed) in stage.needs.iter().enumerate() {
                nodes[*needed].readers.push((number, i));
            }
            nodes.push(Node {
                stage,
                kind,
                class: LockClass::of(stage.class, kind.sees_study()),
                first: CellId::from(count),
                needs,
                readers: Vec::new(),
                texts: texts(experiment, stage),
                parameters: stage.parameter_sets.iter().map(value_digest).collect(),
                reads_evidence: (stage.parameter_sets.iter()).any(|set| kind.reads_evidence(set)),
            });
            count += stage.cells.len();
        }
        let mut graph = Self {
            experiment,
            nodes,
            count,
            placed: TiVec::new(),
        };
        graph.place_cells();
        Ok(graph)
    }

    /// Determines where cells execute: where they declare it, or where the resources they need are alive.
    fn place_cells(&mut self) {
        if self.nodes.iter().all(|n| n.stage.placements.is_empty()) {
            return;
        }
        for cell in self.cells() {
            let (stage, i) = self.place(cell);
            let own = self.nodes[stage].stage.cells[i].placement;
            let placement = match self.class(cell) {
                Class::Pure => None,
                _ => own
                    .map(|placement| (stage, placement))
                    .or_else(|| self.inputs(cell).find_map(|input| self.placed[input])),
            };
            self.placed.push(placement);
        }
    }

    /// Returns the numbers of all cells.
    pub(crate) fn cells(&self) -> impl DoubleEndedIterator<Item = CellId> + use<> {
        (0..self.count).map(CellId::from)
    }

    /// Returns the placement of a cell; `None` if it executes locally.
    pub(crate) fn placement(&self, cell: CellId) -> Option<Placement> {
        self.placed.get(cell).copied().flatten()
    }

    /// Returns the names of the stages that a stage needs.
    pub(crate) fn needs_of(&self, stage: StageId) -> Vec<String> {
        let needs = self.nodes[stage].needs.iter();
        needs
            .map(|need| self.nodes[need.stage].stage.name.clone())
            .collect()
    }

    /// Returns the stage of a cell, and the cell's position in it.
    pub(crate) fn place(&self, cell: CellId) -> (StageId, LocalCell) {
        // Stages without cells share their first number with the next stage; the last of these stages contains the
        // cell.
        let after = usize::from(self.nodes.partition_point(|n| n.first <= cell));
        let stage = StageId::from(after - 1);
        let first = usize::from(self.nodes[stage].first);
        (stage, LocalCell::from(usize::from(cell) - first))
    }

    pub(crate) fn name(&self, cell: CellId) -> String {
        self.written(cell).to_string()
    }

    /// Returns a cell in its written form.
    pub(crate) fn written(&self, cell: CellId) -> WrittenCell<&str> {
        let (stage, i) = self.place(cell);
        self.nodes[stage].written(i)
    }

    pub(crate) fn stage_name(&self, cell: CellId) -> &str {
        &self.nodes[self.place(cell).0].stage.name
    }

    /// Returns the numbers of all cells that a cell reads from its needed stages.
    pub(crate) fn inputs(&self, cell: CellId) -> impl Iterator<Item = CellId> + '_ {
        let (stage, i) = self.place(cell);
        self.nodes[stage].needs.iter().flat_map(move |need| {
            let source = &self.nodes[need.stage];
            need.members(need.group_of_reader[i])
                .filter_map(move |m| match m {
                    Member::Cell(index) => Some(source.cell(index)),
                    Member::Excluded(_) => None,
                })
        })
    }

    /// Returns the block and the launch (as positions in the design) that a cell is, or is measured on. If there are
    /// several launches, returns the last. `None` for a cell outside the design.
    pub(crate) fn launch(&self, design: &Design, cell: CellId) -> Option<(usize, usize)> {
        let (stage, i) = self.place(cell);
        if stage == design.unit {
            return Some(design.cells[i]);
        }
        let in_blocks = self.nodes[stage].stage.over.contains(&design.axis);
        if self.class(cell) == Class::Pure || !in_blocks {
            return None;
        }
        let inputs = self.inputs(cell);
        inputs.filter_map(|input| self.launch(design, input)).max()
    }

    pub(crate) fn class(&self, cell: CellId) -> Class {
        self.nodes[self.place(cell).0].stage.class
    }
}

fn texts(experiment: &Experiment, stage: &Stage) -> TiVec<LocalCell, Box<str>> {
    let labels: Vec<Vec<String>> = stage
        .over
        .iter()
        .map(|axis| {
            let axis = &experiment.axes[*axis];
            let write = |label| {
                let mut text = String::new();
                push_name(&mut text, &axis.name);
                text.push('=');
                push_label(&mut text, label);
                text
            };
            axis.labels.iter().map(write).collect()
        })
        .collect();
    let mut text = String::new();
    let cell = |at: &[u16]| {
        text.clear();
        for (labels, label) in labels.iter().zip(at) {
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(&labels[usize::from(*label)]);
        }
        text.as_str().into()
    };
    stage.cells.iter().map(|c| &*c.at).map(cell).collect()
}

fn need(experiment: &Experiment, stage: StageId, needed: StageId) -> Need {
    let shared = experiment.shared_axes(stage, needed);
    let (reader, source) = (&experiment.stages[stage], &experiment.stages[needed]);
    let mut members: Vec<(&[u16], Member)> =
        Vec::with_capacity(source.cells.len() + source.excluded.len());
    members.extend(
        source
            .cells
            .iter_enumerated()
            .map(|(i, c)| (&*c.at, Member::Cell(i))),
    );
    members.extend(
        source
            .excluded
            .iter()
            .enumerate()
            .map(|(i, e)| (&*e.at, Member::Excluded(i))),
    );
    if !members.is_sorted_by_key(|m| m.0) {
        members.sort_by_key(|m| m.0);
    }
    // The labels of the shared axes are packed into one number if they fit (four axes), because this map is the only
    // part that is not linear in memory order.
    let mut groups: HashMap<Vec<u16>, u32> = HashMap::new();
    let mut group_of = |labels: Vec<u16>| {
        let next = u32::try_from(groups.len()).expect("fewer than 2³² groups");
        *groups.entry(labels).or_insert(next)
    };
    let member_groups: Vec<u32> = members
        .iter()
        .map(|(at, _)| group_of(shared.iter().map(|(_, j)| at[*j]).collect()))
        .collect();
    let group_of_reader: TiVec<LocalCell, u32> = reader
        .cells
        .iter()
        .map(|c| group_of(shared.iter().map(|(i, _)| c.at[*i]).collect()))
        .collect();
    let count = groups.len();
    let mut group_of_member = TiVec::from(vec![NO_GROUP; source.cells.len()]);
    for ((_, member), group) in members.iter().zip(&member_groups) {
        if let Member::Cell(i) = member {
            group_of_member[*i] = *group;
        }
    }
    let pairs: Vec<(u32, u32)> = member_groups
        .iter()
        .zip(&members)
        .map(|(g, (_, m))| (*g, m.pack()))
        .collect();
    let reading: Vec<(u32, u32)> = group_of_reader.iter().copied().zip(0..).collect();
    Need {
        stage: needed,
        members: Flat::new(count, &pairs),
        readers: Flat::new(count, &reading),
        group_of_reader,
        group_of_member,
    }
}
