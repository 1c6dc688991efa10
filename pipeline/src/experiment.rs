//! An experiment, checked and expanded into cells: the input of planning and execution.
//!
//! Only the language builds it (see `language`), so it is always valid: names resolve, the graph has no cycle, every
//! cell has canonical parameters. Cells are stored compactly (axis label indices, an index into the stage's distinct
//! parameter sets), so that ten thousand cells cost a few megabytes and their keys a few microseconds each.

use std::path::PathBuf;
use std::time::Duration;

use artifacts::Scalar;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use typed_index_collections::TiVec;

use crate::design::{CONTROL, Design, Quiet};
use crate::ids::{AxisId, LocalCell, StageId};
use crate::reuse::Reuse;
use crate::sources::NamedFile;
use crate::stage::{Class, Coordinates, Json};

/// A checked and expanded experiment. Its serialized form is the document from which another machine executes parts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Experiment {
    /// The name, as written in the lock and the ledger.
    pub name: String,
    /// The profile in force, if any (`smoke`).
    pub profile: Option<String>,
    /// The YAML file.
    pub file: PathBuf,
    /// The files it was read from: definitions, and files that settings name.
    pub sources: Vec<NamedFile>,
    /// The seed that every random stream derives from.
    pub seed: u64,
    /// The execution order of measurements that are ready at the same time.
    pub order: Order,
    /// Which measurements from other sources the study may use.
    pub reuse: Reuse,
    /// How the study is replicated, if declared.
    pub design: Option<Design>,
    /// The canonical form: the content of the YAML with interpolations and profile resolved, without comments and
    /// formatting. Reports may quote it.
    pub spec: Json,
    /// The axes in declaration order.
    pub axes: TiVec<AxisId, Axis>,
    /// The stages, ordered so that every stage follows the stages it needs.
    pub stages: TiVec<StageId, Stage>,
}

/// The order of the measurements on one running server. Keys do not contain it: a cell measured in one order is not
/// measured again for the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(extend("x-other-words" = {
    "random": "`shuffled`", "randomized": "`shuffled`", "randomised": "`shuffled`", "shuffle": "`shuffled`",
    "sequential": "`declared`", "fixed": "`declared`", "sorted": "`declared`", "none": "`declared`",
}))]
pub enum Order {
    /// Shuffled by the seed, so that a machine that changes with time favours no label.
    #[default]
    Shuffled,
    /// As the stages and axes are declared, the last axis varying fastest.
    Declared,
}

/// A named list of values that stages are expanded over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Axis {
    /// The name.
    pub name: String,
    /// The labels as coordinates show them: first the declared ones, then those that included cells add.
    pub labels: Vec<Scalar>,
    /// The number of declared labels; products range over these.
    pub declared: usize,
    /// The fields behind each label (`null` for a plain value).
    pub fields: Vec<Json>,
    /// The labels that it would have without the profile and without values set on the command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<Scalar>,
}

/// A stage with its cells.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stage {
    /// The name in the experiment.
    pub name: String,
    /// The kind's name.
    pub kind: String,
    /// The kind's class.
    pub class: Class,
    /// The needed stages, in declaration order.
    pub needs: Vec<StageId>,
    /// The axes it is expanded over.
    pub over: Vec<AxisId>,
    /// Positions in `over` of the axes whose labels distinguish replicates; these labels are in the key.
    pub replicate: Vec<usize>,
    /// Named exclusive resources that every cell holds while it executes.
    pub exclusive: Vec<String>,
    /// The distinct canonical parameter sets of the cells.
    pub parameter_sets: Vec<Json>,
    /// The distinct placements of the cells, which are requests to a scheduler. They are in no key.
    pub placements: Vec<Json>,
    /// The cells to execute, in axis order (last axis fastest), followed by included ones.
    pub cells: TiVec<LocalCell, Cell>,
    /// The cells that the experiment leaves out, with the declared reason.
    pub excluded: Vec<Excluded>,
}

/// One stage at one coordinate of its axes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// The label index for each axis in the stage's `over`.
    pub at: Box<[u16]>,
    /// The index into [`Stage::parameter_sets`].
    pub parameters: u32,
    /// The index into [`Stage::placements`]; `None` for a cell that executes locally.
    pub placement: Option<u32>,
    /// The cell's time limit.
    pub timeout: Option<Duration>,
    /// The number of retries of a failed cell.
    pub retries: u32,
    /// Why the cell exists although the product of the axes does not contain it, or why its settings differ from its
    /// neighbours'.
    pub note: Option<String>,
}

/// A cell left out by the experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Excluded {
    /// The label index for each axis in the stage's `over`.
    pub at: Box<[u16]>,
    /// The declared reason.
    pub reason: String,
}

impl Experiment {
    /// Returns the coordinates for label indices of a stage.
    pub fn coordinates(&self, stage: StageId, at: &[u16]) -> Coordinates {
        let axes = self.stages[stage].over.iter().map(|axis| &self.axes[*axis]);
        Coordinates(
            axes.zip(at)
                .map(|(axis, i)| (axis.name.clone(), axis.labels[usize::from(*i)].clone()))
                .collect(),
        )
    }

    /// Returns the coordinates that distinguish a cell's replicates: those of its replicate axes, and for the A/A arm
    /// its label under [`CONTROL`].
    pub fn replicate(&self, stage: StageId, at: &[u16]) -> Coordinates {
        let own = &self.stages[stage];
        let label = |position: usize| {
            let axis = &self.axes[own.over[position]];
            let label = axis.labels[usize::from(at[position])].clone();
            (axis.name.clone(), label)
        };
        let mut replicate: Vec<_> = own.replicate.iter().map(|i| label(*i)).collect();
        if own.class != Class::Pure
            && self.is_control(stage, at)
            && let Some(control) = self.design.as_ref().and_then(|d| d.control)
            && let Some(arm) = self.axes[control.axis]
                .labels
                .get(usize::from(control.label))
        {
            replicate.push((CONTROL.to_owned(), arm.clone()));
        }
        Coordinates(replicate)
    }

    /// Returns the pairs (position in `over` of `stage`, position in `over` of `needed`) of the axes that both are
    /// expanded over. Cells join where these labels agree.
    pub(crate) fn shared_axes(&self, stage: StageId, needed: StageId) -> Vec<(usize, usize)> {
        let theirs = &self.stages[needed].over;
        let ours = self.stages[stage].over.iter().enumerate();
        ours.filter_map(|(i, axis)| Some((i, theirs.iter().position(|a| a == axis)?)))
            .collect()
    }

    /// Returns how quiet the machine must be before a measurement.
    pub fn quiet(&self) -> Quiet {
        self.design.as_ref().map(|d| d.quiet).unwrap_or_default()
    }

    /// Returns the number of planned cells, without excluded ones.
    pub fn cell_count(&self) -> usize {
        self.stages.iter().map(|s| s.cells.len()).sum()
    }
}
