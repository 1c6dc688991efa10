//! Passes information about the whole study to stages: that it checks its figures after each block, and what their
//! verdicts share with those of other stages.

use typed_index_collections::TiSlice;

use super::axes::Axes;
use super::diagnostics::Sink;
use super::stages::Draft;
use crate::experiment::Stage;
use crate::ids::StageId;
use crate::plan::Launches;
use crate::stage::{Class, Shared, StageKind};

/// Tells pure stages that the study checks its figures after each block.
pub(super) fn look_repeatedly(
    stages: &mut TiSlice<StageId, Stage>,
    kinds: &TiSlice<StageId, &dyn StageKind>,
    drafts: &TiSlice<StageId, &Draft<'_>>,
    sink: &Sink,
) {
    let all = stages.iter_mut().zip(kinds).zip(drafts);
    for ((stage, kind), draft) in all.filter(|((stage, _), _)| stage.class == Class::Pure) {
        for set in &mut stage.parameter_sets {
            match kind.looked_at_repeatedly(std::mem::take(set)) {
                Ok(informed) => *set = informed,
                // The other parameter sets have the same mistakes.
                Err(problems) => {
                    for problem in problems {
                        sink.add(draft.mistake(draft.node, problem));
                    }
                    break;
                }
            }
        }
    }
}

/// Returns the axis of the A/A arm, its label, and the label that it stands for.
pub(super) fn arm(design: &crate::design::Design, axes: &Axes) -> Option<(String, String, String)> {
    let control = design.control?;
    let axis = &axes[control.axis];
    let label = |at: u16| axis.labels[usize::from(at)].to_string();
    let (arm, stands_for) = (label(control.label), label(control.stands_for));
    Some((axis.name.clone(), arm, stands_for))
}

/// Tells each pure stage with verdicts what they share with those of other stages.
pub(super) fn share(
    stages: &mut TiSlice<StageId, Stage>,
    kinds: &TiSlice<StageId, &dyn StageKind>,
    control: Option<(String, String, String)>,
    launches: &Launches,
) {
    let decides = |stage: &Stage, kind: &&dyn StageKind, set: u32| {
        stage.class == Class::Pure && kind.decides(&stage.parameter_sets[set as usize])
    };
    let cells = stages.iter().zip(kinds).flat_map(|(stage, kind)| {
        let cells = stage.cells.iter();
        cells.filter(move |cell| decides(stage, kind, cell.parameters))
    });
    let cells = cells.count();
    let on_one_launch = stages.iter_enumerated().filter_map(|(id, stage)| {
        let axes = launches.shared_axes(id);
        (!axes.is_empty()).then(|| {
            let axes = axes.into_iter().map(str::to_owned).collect();
            (stage.name.clone(), axes)
        })
    });
    let shared = Shared {
        cells,
        control,
        on_one_launch: on_one_launch.collect(),
    };
    let pure = stages.iter_mut().zip(kinds);
    for (stage, kind) in pure.filter(|(stage, _)| stage.class == Class::Pure) {
        for set in &mut stage.parameter_sets {
            if kind.decides(set) {
                *set = kind.sharing(std::mem::take(set), &shared);
            }
        }
    }
}
