//! Finds out what cells would start or contact, using simulated resources.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use artifacts::Store;
use typed_index_collections::TiVec;

use super::pass::{Ended, Pass, Stopped};
use super::{Tilt, scratch_folder};
use crate::effect::Effect;
use crate::error::PipelineError;
use crate::graph::Graph;
use crate::ids::{LocalCell, StageId};
use crate::sources::NamedFiles;
use crate::stage::{CellStatus, Class};

/// Returns what the cells of each stage do outside of this program, over simulated resources, with the number of cells
/// that do it: (stage, cells, effect). Cells that would fail before they start anything have no effect.
pub(crate) fn look_at_effects(
    graph: &Graph<'_>,
    store: &Path,
    cancelled: &Arc<AtomicBool>,
) -> Result<Vec<(StageId, usize, Effect)>, PipelineError> {
    let folder = scratch_folder(store)?;
    let store = Store::open(folder.path())?;
    let files = NamedFiles::of(graph.experiment, None);
    let mut ended: TiVec<StageId, TiVec<LocalCell, Ended>> =
        TiVec::with_capacity(graph.nodes.len());
    let mut effects = Vec::new();
    for (number, node) in graph.nodes.iter_enumerated() {
        let pass = Pass {
            graph,
            store: &store,
            files: &files,
            ended: &ended,
            study: None,
            tilt: Tilt::Level,
            cancelled,
        };
        let cells = match node.stage.class {
            Class::Resource | Class::Measurement => pass.distinct(number),
            Class::Pure => Vec::new(),
        };
        for (cell, cells) in cells {
            let Ok(inputs) = pass.inputs(number, cell) else {
                continue;
            };
            let set = node.stage.cells[cell].parameters as usize;
            let mut parameters = node.stage.parameter_sets[set].clone();
            parameters.sort_all_objects();
            let declared = node.kind.effects(&parameters, &inputs, &store, &files);
            let of_cell = declared.unwrap_or_default().into_iter();
            effects.extend(of_cell.map(|effect| (number, cells, effect)));
        }
        for (index, placement) in node.stage.placements.iter().enumerate() {
            let own = |cell: &&crate::experiment::Cell| cell.placement == u32::try_from(index).ok();
            let cells = node.stage.cells.iter().filter(own).count();
            let placing = node.kind.placing(placement).into_iter();
            effects.extend(placing.map(|effect| (number, cells, effect)));
        }
        let unknown = || Err((CellStatus::Skipped, "it is not made up".to_owned()));
        ended.push(match node.stage.class {
            Class::Resource => pass
                .stage(number)?
                .into_iter()
                .map(|kept| {
                    kept.map_err(|stopped| match stopped {
                        Stopped::Skipped(reason) => (CellStatus::Skipped, reason),
                        Stopped::Failed(failure) => (failure.status, failure.reason),
                    })
                })
                .collect(),
            Class::Measurement | Class::Pure => {
                node.stage.cells.iter().map(|_| unknown()).collect()
            }
        });
    }
    Ok(effects)
}
