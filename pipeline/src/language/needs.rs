//! Checks between a stage and the stages it needs, based on their axes and parameters, before anything runs.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use typed_index_collections::{TiSlice, TiVec};

use super::axes::Axes;
use super::diagnostics::{Mistake, Sink};
use super::expand::Expanded;
use super::library::Layers;
use super::stages::{Draft, Drafts};
use super::tree::{Node, Value};
use crate::experiment::Stage;
use crate::ids::{AxisId, LocalCell, StageId};
use crate::stage::{
    Class, Json, KnownAxis, KnownStage, KnownTable, Library, Needed, Problem, Step,
};

/// The stages of an experiment in order, with their drafts.
pub(super) struct Stages<'a> {
    pub(super) stages: &'a TiSlice<StageId, Stage>,
    pub(super) drafts: &'a TiSlice<StageId, &'a Draft<'a>>,
    /// The settings that each parameter set of each stage was made from.
    pub(super) written: &'a TiSlice<StageId, Vec<Rc<Node>>>,
    pub(super) axes: &'a Axes,
}

/// One combination that occurs among cells of a stage: their parameters, and those of the cells they need.
struct Way {
    parameters: u32,
    /// A needed stage, and the way of its cell.
    needs: Vec<(StageId, u32)>,
}

/// The ways that occur among the cells of a stage.
#[derive(Default)]
struct Ways {
    each: Vec<Way>,
    /// The way of each cell; `None` if a cell it needs is left out, or if it joins several.
    of_cell: TiVec<LocalCell, Option<u32>>,
}

/// Checks every resource and measurement against the resources and measurements it needs.
pub(super) fn check(all: &Stages<'_>, library: &Layers<'_>, sink: &Sink) {
    let mut ways: TiVec<StageId, Ways> = TiVec::with_capacity(all.stages.len());
    for (number, stage) in all.stages.iter_enumerated() {
        let own = if stage.class == Class::Pure {
            Ways::default()
        } else {
            ways_of(all, number, &ways, sink)
        };
        ways.push(own);
    }
    let mut lacking: BTreeSet<StageId> = BTreeSet::new();
    for (number, stage) in all.stages.iter_enumerated() {
        let mut near = std::iter::once(&number).chain(&stage.needs);
        let has_needs = near.all(|near| !needs_unknown(all.drafts[*near]));
        // A stage that needs one without its stages lacks them only for this reason.
        let follows = stage.needs.iter().any(|need| lacking.contains(need));
        if stage.class == Class::Pure && has_needs && !follows {
            check_axes(all, number, library, sink);
            if check_pure(all, number, library, sink) {
                lacking.insert(number);
            }
            check_names(all, number, library, sink);
        }
    }
    for (number, own) in ways.iter_enumerated() {
        let draft = all.drafts[number];
        let Some(kind) = draft.kind else { continue };
        if needs_unknown(draft) {
            continue;
        }
        for way in &own.each {
            let stage = &all.stages[number];
            let set = way.parameters as usize;
            let Some(parameters) = stage.parameter_sets.get(set) else {
                continue;
            };
            let needs: Vec<Needed<'_>> = way
                .needs
                .iter()
                .map(|(stage, way)| needed(all, &ways, *stage, *way))
                .collect();
            for problem in kind
                .fits(parameters, &needs, library)
                .err()
                .into_iter()
                .flatten()
            {
                sink.add(draft.mistake_in(&all.written[number][set], problem));
            }
        }
    }
}

/// Informs each pure stage of what the definitions state about the names used by the stages behind it. Returns the
/// parameter sets of each stage.
pub(super) fn informed(all: &Stages<'_>, library: &dyn Library) -> Vec<Vec<Json>> {
    let informed = |(number, stage): (StageId, &Stage)| {
        let sets = stage.parameter_sets.clone();
        match all.drafts[number].kind {
            Some(kind) if stage.class == Class::Pure => {
                let behind = behind(all, number);
                let informed = |set| kind.informed(set, &behind, library);
                sets.into_iter().map(informed).collect()
            }
            _ => sets,
        }
    };
    all.stages.iter_enumerated().map(informed).collect()
}

/// Returns every stage that a stage needs, directly or indirectly, once for each of its parameter sets.
fn behind<'a>(all: &Stages<'a>, number: StageId) -> Vec<Needed<'a>> {
    let (mut ancestors, mut next) = (BTreeSet::new(), all.stages[number].needs.clone());
    while let Some(other) = next.pop() {
        if ancestors.insert(other) {
            next.extend(&all.stages[other].needs);
        }
    }
    let each = ancestors.into_iter().flat_map(|other| {
        let stage = &all.stages[other];
        stage.parameter_sets.iter().map(|parameters| Needed {
            stage: &stage.name,
            kind: &stage.kind,
            parameters,
            needs: Vec::new(),
        })
    });
    each.collect()
}

/// Checks that a pure stage has the stages that its cells read. Returns whether it lacks one.
fn check_pure(all: &Stages<'_>, number: StageId, library: &dyn Library, sink: &Sink) -> bool {
    let (stage, draft) = (&all.stages[number], all.drafts[number]);
    let (Some(kind), Some(parameters)) = (draft.kind, stage.parameter_sets.first()) else {
        return false;
    };
    let problems = kind.fits(parameters, &stages_needed(all, number, 2), library);
    let mut lacks = false;
    for problem in problems.err().into_iter().flatten() {
        lacks |= problem.route == [Step::Key("needs".to_owned())];
        sink.add(draft.mistake(draft.node, problem));
    }
    lacks
}

/// Checks that the tables and columns that the settings of a pure stage name are those of the stages it needs.
fn check_names(all: &Stages<'_>, number: StageId, library: &Layers<'_>, sink: &Sink) {
    let (stage, draft) = (&all.stages[number], all.drafts[number]);
    let Some(kind) = draft.kind else { return };
    let stages: Vec<KnownStage> = stage
        .needs
        .iter()
        .map(|need| known_tables(all, *need, library))
        .collect();
    let axes: Vec<KnownAxis> = all
        .axes
        .iter()
        .filter(|axis| !axis.broken)
        .map(|axis| KnownAxis {
            name: axis.name.clone(),
            labels: axis.labels.clone(),
            left_out: axis.dropped.clone(),
        })
        .collect();
    let written = stage.parameter_sets.iter().zip(&all.written[number]);
    for (parameters, settings) in written {
        for problem in kind.unknown_names(parameters, &stages, &axes) {
            let in_definition = library.mistake(&problem);
            sink.add(in_definition.unwrap_or_else(|| draft.mistake_in(settings, problem)));
        }
    }
}

/// Returns the tables of a stage: those of all its parameter sets together.
fn known_tables(all: &Stages<'_>, number: StageId, library: &dyn Library) -> KnownStage {
    let (stage, kind) = (&all.stages[number], all.drafts[number].kind);
    let mut tables: Option<Vec<KnownTable>> = None;
    // Most parameter sets have the same tables.
    let mut seen: Vec<Vec<KnownTable>> = Vec::new();
    for parameters in &stage.parameter_sets {
        let Some(more) = kind.and_then(|kind| kind.tables_known(parameters, library)) else {
            tables = None;
            break;
        };
        if seen.contains(&more) {
            continue;
        }
        seen.push(more.clone());
        let all = tables.get_or_insert_default();
        for table in more {
            match all.iter_mut().find(|other| other.name == table.name) {
                None => all.push(table),
                Some(other) => {
                    other.axes.retain(|axis| table.axes.contains(axis));
                    other.columns =
                        other
                            .columns
                            .take()
                            .zip(table.columns)
                            .map(|(mut columns, more)| {
                                columns.extend(more);
                                columns
                            });
                }
            }
        }
    }
    let coordinates = || stage.over.iter().map(|axis| all.axes[*axis].name.clone());
    for table in tables.iter_mut().flatten() {
        if let Some(columns) = &mut table.columns {
            columns.extend(coordinates());
            table.axes.extend(coordinates());
        }
    }
    KnownStage {
        stage: stage.name.clone(),
        tables,
        parameters: match stage.class {
            Class::Pure => stage.parameter_sets.clone(),
            _ => Vec::new(),
        },
    }
}

/// Returns the stages that a stage needs, and their needs up to the given number of levels.
fn stages_needed<'a>(all: &Stages<'a>, number: StageId, levels: usize) -> Vec<Needed<'a>> {
    if levels == 0 {
        return Vec::new();
    }
    let needed = |other: &StageId| Needed {
        stage: &all.stages[*other].name,
        kind: &all.stages[*other].kind,
        parameters: &Json::Null,
        needs: stages_needed(all, *other, levels - 1),
    };
    all.stages[number].needs.iter().map(needed).collect()
}

/// Returns whether `needs` is not a list, or an item of it names no stage, so that one of the stage's needs is unknown.
fn needs_unknown(draft: &Draft<'_>) -> bool {
    let Some(written) = draft.node.get("needs") else {
        return false;
    };
    !matches!(written.value, Value::List(_)) || draft.needs.len() < written.items().len()
}

/// Checks that no axis of the cells that a stage reads has the same name as a column of its tables.
fn check_axes(all: &Stages<'_>, number: StageId, library: &dyn Library, sink: &Sink) {
    let (stage, draft) = (&all.stages[number], all.drafts[number]);
    let (Some(kind), Some(parameters)) = (draft.kind, stage.parameter_sets.first()) else {
        return;
    };
    for table in kind.planned_tables(parameters, library) {
        let read = stage.needs.iter().map(|need| &all.stages[*need]);
        let read = read.filter(|other| other.kind == table.of_kind);
        let axes: BTreeSet<&str> = read
            .flat_map(|other| &other.over)
            .filter(|axis| !stage.over.contains(axis))
            .map(|axis| all.axes[*axis].name.as_str())
            .collect();
        for axis in axes {
            if table.columns.iter().any(|column| column == axis) {
                let operator = &table.operator;
                let message = format!("`{axis}` is both an axis and a column of `{operator}`");
                let problem = Problem::at(&["tables", &table.name], message);
                let problem = problem.hint("give the axis another name");
                sink.add(draft.mistake(draft.node, problem));
            }
        }
    }
}

/// Checks only that a stage needs stages of the right kinds, for an experiment in which other stages are wrong.
pub(super) fn check_alone(
    (stage, written): &Expanded,
    draft: &Draft<'_>,
    drafts: &Drafts<'_>,
    library: &dyn Library,
    sink: &Sink,
) {
    let Some(kind) = draft.kind.filter(|kind| kind.class() != Class::Pure) else {
        return;
    };
    if needs_unknown(draft) {
        return;
    }
    let needed = draft.needs.iter().map(|need| {
        let other = &drafts[*need];
        Some(Needed {
            stage: other.name,
            kind: other.kind?.name(),
            parameters: &Json::Null,
            needs: Vec::new(),
        })
    });
    // A needed stage whose kind is wrong may be of any kind.
    let Some(needs) = needed.collect::<Option<Vec<Needed<'_>>>>() else {
        return;
    };
    for (parameters, settings) in stage.parameter_sets.iter().zip(written) {
        for problem in kind
            .fits(parameters, &needs, library)
            .err()
            .into_iter()
            .flatten()
        {
            sink.add(draft.mistake_in(settings, problem));
        }
    }
}

fn needed<'a>(
    all: &Stages<'a>,
    ways: &TiSlice<StageId, Ways>,
    number: StageId,
    way: u32,
) -> Needed<'a> {
    let stage = &all.stages[number];
    let way = &ways[number].each[way as usize];
    let needs = way
        .needs
        .iter()
        .map(|(stage, way)| needed(all, ways, *stage, *way));
    Needed {
        stage: &stage.name,
        kind: &stage.kind,
        parameters: stage
            .parameter_sets
            .get(way.parameters as usize)
            .unwrap_or(&Json::Null),
        needs: needs.collect(),
    }
}

/// Finds the ways of a stage's cells, and reports a cell that joins several cells of a stage but can use only one.
fn ways_of(all: &Stages<'_>, number: StageId, ways: &TiSlice<StageId, Ways>, sink: &Sink) -> Ways {
    let stage = &all.stages[number];
    let joins: Vec<(StageId, Join)> = stage
        .needs
        .iter()
        .filter(|needed| all.stages[**needed].class != Class::Pure)
        .map(|needed| (*needed, Join::new(stage, &all.stages[*needed])))
        .collect();
    for (needed, join) in &joins {
        if let Some(mistake) = join.too_many(all, number, *needed) {
            sink.add(mistake);
        }
    }
    let mut index: HashMap<(u32, Vec<(StageId, u32)>), u32> = HashMap::new();
    let mut own = Ways::default();
    for cell in &stage.cells {
        let one = |(needed, join): &(StageId, Join)| match join.members(&cell.at) {
            [member] => Some((*needed, ways[*needed].of_cell.get(*member).copied()??)),
            _ => None,
        };
        let needs: Option<Vec<(StageId, u32)>> = joins.iter().map(one).collect();
        let way = needs.map(|needs| {
            let parameters = cell.parameters;
            let next = own.each.len() as u32;
            *index.entry((parameters, needs.clone())).or_insert_with(|| {
                own.each.push(Way { parameters, needs });
                next
            })
        });
        own.of_cell.push(way);
    }
    own
}

/// How the cells of a stage join with those of a needed stage.
struct Join {
    /// The position in the reader's `over` of each shared axis.
    shared: Vec<usize>,
    /// The needed cells, by their labels on the shared axes.
    groups: HashMap<Vec<u16>, Vec<LocalCell>>,
}

impl Join {
    fn new(reader: &Stage, needed: &Stage) -> Self {
        let position = |axis: &AxisId| reader.over.iter().position(|a| a == axis);
        let both: Vec<(usize, usize)> = needed
            .over
            .iter()
            .enumerate()
            .filter_map(|(at, axis)| Some((position(axis)?, at)))
            .collect();
        let mut groups: HashMap<Vec<u16>, Vec<LocalCell>> = HashMap::new();
        for (i, cell) in needed.cells.iter_enumerated() {
            let labels = both.iter().map(|(_, at)| cell.at[*at]).collect();
            groups.entry(labels).or_default().push(i);
        }
        Self {
            shared: both.into_iter().map(|(position, _)| position).collect(),
            groups,
        }
    }

    fn members(&self, at: &[u16]) -> &[LocalCell] {
        let labels: Vec<u16> = self.shared.iter().map(|position| at[*position]).collect();
        self.groups.get(&labels).map_or(&[], Vec::as_slice)
    }

    /// Returns the mistake of a cell that joins several cells of a stage but can use only one.
    fn too_many(&self, all: &Stages<'_>, reader: StageId, needed: StageId) -> Option<Mistake> {
        let (draft, stage, other) = (all.drafts[reader], &all.stages[reader], &all.stages[needed]);
        let gives = |setting: &str| draft.node.entry(setting).is_some();
        let kinds = draft.kind?.uses_one(&gives);
        let (_, what) = kinds.iter().find(|(kind, _)| *kind == other.kind)?;
        let most = stage
            .cells
            .iter()
            .map(|cell| self.members(&cell.at).len())
            .max()?;
        if most < 2 {
            return None;
        }
        let axes: Vec<String> = other
            .over
            .iter()
            .filter(|axis| !stage.over.contains(axis))
            .map(|axis| format!("`{}`", all.axes[*axis].name))
            .collect();
        let message = format!(
            "each cell of `{}` joins {most} cells of `{}`, but a cell {what}",
            stage.name, other.name
        );
        let hint = format!(
            "add {} to the `over` of `{}`",
            crate::suggest::all_of(&axes),
            stage.name
        );
        let span = draft
            .node
            .entry("over")
            .map_or(draft.span, |(_, over)| over.span);
        Some(Mistake::new(span, &draft.route(&["over"]), message).hint(hint))
    }
}
