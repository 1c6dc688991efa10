//! Determines which cells the options name.

use typed_index_collections::{TiSlice, TiVec};

use super::PlanOptions;
use crate::error::PipelineError;
use crate::graph::Graph;
use crate::ids::{CellId, LocalCell, StageId};
use crate::place::{CellPattern, Coordinates, PlaceError};
use crate::stage::Class;
use crate::suggest::{list, remedy};

/// The reason why a cell executes although it may be cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forced {
    No,
    Fresh,
    From,
}

/// Returns for each cell whether it executes although it may be cached.
pub(super) fn forced(
    graph: &Graph<'_>,
    options: &PlanOptions,
) -> Result<TiVec<CellId, Forced>, PipelineError> {
    let mut forced = TiVec::from(vec![Forced::No; graph.count]);
    if let Some(from) = &options.from {
        let first = stage_named(graph, from)?;
        let mut below: TiVec<StageId, bool> = vec![false; graph.nodes.len()].into();
        below[first] = true;
        for (number, node) in graph.nodes.iter_enumerated() {
            below[number] |= node.needs.iter().any(|n| below[n.stage]);
            if below[number] && node.stage.class != Class::Measurement {
                forced[node.range()].fill(Forced::From);
            }
        }
    }
    for name in &options.fresh {
        let node = &graph.nodes[stage_named(graph, name)?];
        forced[node.range()].fill(Forced::Fresh);
    }
    Ok(forced)
}

/// Returns for each cell whether it may execute: it is named, or a named cell needs it.
pub(super) fn selected(
    graph: &Graph<'_>,
    options: &PlanOptions,
) -> Result<TiVec<CellId, bool>, PipelineError> {
    if options.only.is_empty() {
        return Ok(vec![true; graph.count].into());
    }
    let mut selected = TiVec::from(vec![false; graph.count]);
    for selector in &options.only {
        select(graph, selector, &mut selected)?;
    }
    // Stages come after those they need, so one backward pass reaches everything.
    for cell in graph.cells().rev() {
        if selected[cell] {
            graph.inputs(cell).for_each(|input| selected[input] = true);
        }
    }
    Ok(selected)
}

fn stage_named(graph: &Graph<'_>, name: &str) -> Result<StageId, PipelineError> {
    graph
        .nodes
        .position(|n| n.stage.name == name)
        .ok_or_else(|| {
            let names = graph.nodes.iter().map(|n| n.stage.name.as_str());
            let hint = remedy(name, "stages", names);
            PipelineError::Selection {
                message: format!("no stage is named `{name}`"),
                hint,
            }
        })
}

fn select(
    graph: &Graph<'_>,
    selector: &str,
    selected: &mut TiSlice<CellId, bool>,
) -> Result<(), PipelineError> {
    let wrong = |what: String, hint: String| PipelineError::Selection {
        message: format!("`{selector}`: {what}"),
        hint,
    };
    let pattern: CellPattern = selector
        .parse()
        .map_err(|e: PlaceError| wrong(e.message, "write `STAGE[AXIS=LABEL]`".to_owned()))?;
    let name = &pattern.stage;
    let number = stage_named(graph, name)?;
    let node = &graph.nodes[number];
    if pattern.output.is_some() {
        let what = "a cell is chosen with all its outputs".to_owned();
        let output = pattern.output.as_deref().unwrap_or_default();
        let hint = match output.contains('=') {
            true => format!("write `{name}[{output}]`"),
            false => "leave out the name of the output".to_owned(),
        };
        return Err(wrong(what, hint));
    }
    let axes = node.stage.over.iter();
    let axes: Vec<&str> = axes
        .map(|a| graph.experiment.axes[*a].name.as_str())
        .collect();
    if let Some(axis) = pattern.axes().find(|axis| !axes.contains(axis)) {
        let hint = remedy(axis, &format!("axes of `{name}`"), axes.iter().copied());
        return Err(wrong(format!("`{name}` has no axis `{axis}`"), hint));
    }
    let cells = node.stage.cells.iter();
    let cells: Vec<Coordinates> = cells
        .map(|cell| graph.experiment.coordinates(number, &cell.at))
        .collect();
    let chosen = pattern.find(cells.iter());
    for position in &chosen {
        selected[node.cell(LocalCell::from(*position))] = true;
    }
    if !chosen.is_empty() {
        return Ok(());
    }
    let listed = || {
        let cells = list(node.texts.iter().map(|text| &**text));
        format!("the cells of `{name}` are {cells}")
    };
    let hint = pattern.remedy(cells.iter()).unwrap_or_else(listed);
    Err(wrong("no cell has these coordinates".to_owned(), hint))
}
