//! An experiment, checked and expanded into cells: what planning and execution receive.
//!
//! Built only by the language (see `language`), so everything in it is already right: names
//! resolve, the graph has no cycle, every cell has canonical parameters. Cells are stored
//! compactly (axis label indices, an index into the stage's distinct parameter sets), so that
//! ten thousand of them cost a few megabytes and their keys a few microseconds each.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use artifacts::{Digest, Scalar};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use typed_index_collections::TiVec;

use crate::design::{CONTROL, Design, Quiet};
use crate::ids::{AxisId, LocalCell, StageId};
use crate::reuse::Reuse;
use crate::sources::NamedFile;
use crate::stage::{Class, Coordinates, Json};

/// A checked and expanded experiment. As a document, it is what another machine executes parts of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Experiment {
    /// The name, as the lock and the ledger write it.
    pub name: String,
    /// The profile in force, if any (`smoke`).
    pub profile: Option<String>,
    /// The YAML file.
    pub file: PathBuf,
    /// The files read to make it: definitions, and what settings name.
    pub sources: Vec<NamedFile>,
    /// The seed every random stream derives from.
    pub seed: u64,
    /// In which order measurements that could go next are executed.
    pub order: Order,
    /// Which measurements of others the study may use.
    pub reuse: Reuse,
    /// How the study is replicated, if it says so.
    pub design: Option<Design>,
    /// The canonical form: everything the YAML says, interpolations and profile resolved,
    /// comments and formatting gone. What a report may quote.
    pub spec: Json,
    /// The axes in the order declared.
    pub axes: TiVec<AxisId, Axis>,
    /// The stages in an order in which every stage follows those it needs.
    pub stages: TiVec<StageId, Stage>,
}

/// In which order measurements that could go next (those on one running server) are executed. It is
/// in no key: a cell measured in one order is not measured again for the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Shuffled by the seed, so that a machine that changes with time favours no label.
    #[default]
    Shuffled,
    /// As the stages and axes are declared, the last axis varying fastest.
    Declared,
}

/// A named list of values stages are expanded over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Axis {
    /// The name.
    pub name: String,
    /// The labels, as coordinates show them: those declared, then those that included cells add.
    pub labels: Vec<Scalar>,
    /// How many labels are declared; products range over these.
    pub declared: usize,
    /// For each label the fields behind it (`null` for a plain value).
    pub fields: Vec<Json>,
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
    /// The stages needed, in the order declared.
    pub needs: Vec<StageId>,
    /// The axes expanded over.
    pub over: Vec<AxisId>,
    /// Positions in `over` of the axes whose label distinguishes replicates; they are in the key.
    pub replicate: Vec<usize>,
    /// Named exclusive resources every cell holds while it executes.
    pub exclusive: Vec<String>,
    /// The distinct canonical parameter sets of the cells.
    pub parameter_sets: Vec<Json>,
    /// The distinct placements of the cells: what a scheduler is asked for. They are in no key.
    pub placements: Vec<Json>,
    /// The cells to execute, in the order of the axes (last axis fastest), included ones last.
    pub cells: TiVec<LocalCell, Cell>,
    /// The cells the experiment leaves out, with the reason it declares.
    pub excluded: Vec<Excluded>,
}

/// One stage at one coordinate of its axes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// For each axis of the stage's `over`, the index of the label.
    pub at: Box<[u16]>,
    /// The index into [`Stage::parameter_sets`].
    pub parameters: u32,
    /// The index into [`Stage::placements`]; `None` for a cell that executes here.
    pub placement: Option<u32>,
    /// The cell's time limit.
    pub timeout: Option<Duration>,
    /// How often a failed cell is retried.
    pub retries: u32,
    /// Why the cell is there although the product of the axes does not contain it, or why
    /// its settings differ from its neighbours'.
    pub note: Option<String>,
}

/// A cell left out by the experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Excluded {
    /// For each axis of the stage's `over`, the index of the label.
    pub at: Box<[u16]>,
    /// The declared reason.
    pub reason: String,
}

/// Returns the digest of each claim of an experiment's canonical form, by name.
///
/// A record carries them, so that a report can show which claims, in which words, were
/// declared before a cell was measured.
pub fn claims_digests(spec: &Json) -> BTreeMap<String, Digest> {
    let claims = spec.get("claims").and_then(Json::as_object);
    claims
        .into_iter()
        .flatten()
        .map(|(name, claim)| (name.clone(), claim_digest(claim)))
        .collect()
}

/// Returns the digest of one claim: of its JSON with sorted keys.
fn claim_digest(claim: &Json) -> Digest {
    let mut claim = claim.clone();
    claim.sort_all_objects();
    Digest::of(claim.to_string().as_bytes())
}

impl Experiment {
    /// Returns the coordinates that label indices of a stage stand for.
    pub fn coordinates(&self, stage: StageId, at: &[u16]) -> Coordinates {
        let axes = self.stages[stage].over.iter().map(|axis| &self.axes[*axis]);
        Coordinates(
            axes.zip(at)
                .map(|(axis, i)| (axis.name.clone(), axis.labels[usize::from(*i)].clone()))
                .collect(),
        )
    }

    /// Returns the coordinates that distinguish replicates of a cell: those of its replicate
    /// axes, and for the A/A arm its label under [`CONTROL`].
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

    /// Returns the pairs (position in `over` of `stage`, position in `over` of `needed`) of the
    /// axes both are expanded over: cells join where these labels agree.
    pub(crate) fn shared_axes(&self, stage: StageId, needed: StageId) -> Vec<(usize, usize)> {
        let theirs = &self.stages[needed].over;
        let ours = self.stages[stage].over.iter().enumerate();
        ours.filter_map(|(i, axis)| Some((i, theirs.iter().position(|a| a == axis)?)))
            .collect()
    }

    /// Returns what the machine should be like before anything is measured.
    pub fn quiet(&self) -> Quiet {
        self.design.as_ref().map(|d| d.quiet).unwrap_or_default()
    }

    /// Returns the number of planned cells, excluded ones not counted.
    pub fn cell_count(&self) -> usize {
        self.stages.iter().map(|s| s.cells.len()).sum()
    }
}
