//! The design of a study: what is replicated, how often, and in which order.
//!
//! The unit of replication is a *launch*: one start of a server, or, for rows drawn from a model, the cells that share
//! a simulated launch. A *block* launches every configuration once. The axis `block` tells blocks apart; it is a
//! replicate coordinate of every cell it is added to, so each block has its own launches and measurements even if all
//! settings are the same.
//!
//! The design determines which cells exist and in which order they execute. Only the labels of blocks and of the A/A
//! arm are in keys. So a measured block stays measured when blocks are added or the order changes.

mod order;
mod quiet;
mod until;

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use typed_index_collections::TiVec;

pub(crate) use order::sequence;
pub use quiet::{Loud, Otherwise, Preflight, Quiet, Surroundings};
pub(crate) use until::ALPHA as UNTIL_ALPHA;
pub use until::Until;

use crate::experiment::{Experiment, Stage};
use crate::ids::{AxisId, LocalCell, StageId};

/// The name of the axis of blocks.
pub const BLOCK: &str = "block";

/// The name of the replicate coordinate of the A/A arm; its value is the arm's label.
pub const CONTROL: &str = "control";

/// The checked design of an experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Design {
    /// The axis [`BLOCK`].
    pub axis: AxisId,
    /// The number of blocks; with [`Design::until`], the maximum.
    pub blocks: usize,
    /// When to stop adding blocks.
    pub until: Option<Until>,
    /// The stage whose launch is the unit.
    pub unit: StageId,
    /// How launches are ordered within a block.
    pub order: UnitOrder,
    /// The A/A arm, if any.
    pub control: Option<Control>,
    /// How long the machine works before the first launch.
    pub warm_up: Duration,
    /// How long the machine rests between launches.
    pub cool_down: Duration,
    /// How quiet the machine must be before a measurement.
    pub quiet: Quiet,
    /// The expected standard deviation of the logarithm of a launch's result.
    pub noise: Option<f64>,
    /// The launches of a block: coordinates without the block, as text, in axis order.
    pub launches: Vec<String>,
    /// The block and the launch of each cell of the unit's stage, as positions.
    pub cells: TiVec<LocalCell, (usize, usize)>,
    /// The launches of each block, in execution order.
    pub sequence: Vec<Vec<usize>>,
}

/// The A/A arm: a label of an axis that stands for another label, so that both should agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// The axis.
    pub axis: AxisId,
    /// The index of the arm's label.
    pub label: u16,
    /// The index of the label it stands for.
    pub stands_for: u16,
}

/// How the launches of a block are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UnitOrder {
    /// Shuffled in each block, by the seed.
    #[default]
    Randomised,
    /// As declared in odd blocks, reversed in even blocks.
    Abba,
    /// Every launch takes every place equally often. The number of blocks must be a multiple of the number of
    /// launches.
    LatinSquare,
    /// As the axes are declared.
    Declared,
}

/// A cell's place in the design.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The number of the block, from 1.
    pub block: usize,
    /// The launch: coordinates without the block, as text.
    pub launch: String,
    /// The launch's place in its block, from 1.
    pub place: usize,
    /// The number of launches its run had started, including this one.
    pub launches: usize,
    /// The cell's place among the cells that its run measured on this launch, from 1; 0 for the launch itself.
    pub position: usize,
    /// The number of blocks that the design had at that time, at most; `None` in older records.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub planned: Option<usize>,
}

impl Design {
    /// Returns the place of a launch in its block, from 0.
    pub(crate) fn place(&self, block: usize, launch: usize) -> usize {
        let place = self.sequence[block].iter().position(|l| *l == launch);
        place.unwrap_or(launch)
    }

    /// Returns whether launches differ along an axis of the unit's stage, and the cells of one do not: every launch has one
    /// label of it. `position` is that of the axis in the stage's `over`.
    pub(crate) fn is_of_launch(&self, stage: &Stage, position: usize) -> bool {
        let launches = self.cells.iter().map(|(_, launch)| *launch);
        one_label_each(launches.zip(stage.cells.iter().map(|cell| cell.at[position])))
    }

    /// Returns the degrees of freedom of a comparison of two launches over the blocks.
    pub fn degrees_of_freedom(&self) -> usize {
        self.blocks.saturating_sub(1)
    }
}

impl Experiment {
    /// Returns whether a cell of a stage belongs to the A/A arm.
    pub(crate) fn is_control(&self, stage: StageId, at: &[u16]) -> bool {
        let Some(control) = self.design.as_ref().and_then(|d| d.control) else {
            return false;
        };
        let over = &self.stages[stage].over;
        let position = over.iter().position(|axis| *axis == control.axis);
        position.is_some_and(|p| at[p] == control.label)
    }
}

/// Returns whether all cells of a launch have the same label, for each launch. `cells` are the launches and the labels.
fn one_label_each(cells: impl Iterator<Item = (usize, u16)>) -> bool {
    let mut labels: BTreeMap<usize, u16> = BTreeMap::new();
    cells
        .into_iter()
        .all(|(launch, label)| *labels.entry(launch).or_insert(label) == label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_belongs_to_launches_if_no_launch_has_two_of_its_labels() {
        // Two loads on one launch, and two on launches of their own.
        assert!(!one_label_each([(0, 0), (0, 1), (1, 2)].into_iter()));
        assert!(one_label_each([(0, 0), (1, 1), (0, 0), (1, 1)].into_iter()));
    }
}
