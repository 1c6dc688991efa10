//! The design in the plan, before anything is measured: what will be launched, in which order, and the smallest effect
//! the study can find.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::launches::runs_already;
use super::session::{Outcome, Session, State};
use crate::design::{Design, UnitOrder, Until};
use crate::execute::resources_of;
use crate::ids::{AxisId, CellId};
use crate::record::parse_outputs;
use crate::stage::Class;

/// The level of the test behind the smallest detectable effect.
const ALPHA: f64 = 0.05;
/// The power of that test.
const POWER: f64 = 0.8;
/// The noise levels that effects are given for if the noise is unknown.
const USUAL_NOISE: [f64; 4] = [0.01, 0.02, 0.03, 0.05];
/// The figure whose spread between launches is used.
const FIGURE: &str = "output_throughput";

/// The design of an experiment in its plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DesignPlan {
    /// The stage whose launch is the unit of replication.
    pub unit: String,
    /// The number of blocks; with `until`, the maximum.
    pub blocks: usize,
    /// The rule that may end blocks early.
    pub until: Option<Until>,
    /// The launches of a block.
    pub launches: Vec<String>,
    /// The A/A arm: its coordinate, and the label it stands for.
    pub control: Option<(String, String)>,
    /// How launches are ordered within a block.
    pub order: UnitOrder,
    /// The launches of each block in execution order.
    pub sequence: Vec<Vec<String>>,
    /// The number of launches on which something remains to be measured.
    pub to_launch: usize,
    /// Launches that an earlier run measured in part; the rest will come from another start.
    pub in_part: Vec<String>,
    /// The degrees of freedom of a comparison of two launches over the blocks.
    pub degrees_of_freedom: usize,
    /// The source of the noise behind the effects.
    pub noise: NoiseSource,
    /// The standard deviation of the logarithm of a launch's result; `None` if unknown.
    pub launch_noise: Option<f64>,
    /// The smallest effect that a comparison of two launches finds in four out of five studies, at each noise level;
    /// empty for a single block.
    pub smallest: Vec<Smallest>,
}

/// The source of the noise of launches.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "from")]
pub enum NoiseSource {
    /// Blocks measured earlier.
    Measured {
        /// The figure.
        figure: &'static str,
        /// The number of blocks.
        blocks: usize,
    },
    /// The declaration in the experiment.
    Declared,
    /// None: the noise is unknown.
    Unknown,
}

/// The smallest effect at one noise level, both as shares: 0.03 is 3 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Smallest {
    /// The standard deviation of the logarithm of a launch's result.
    pub noise: f64,
    /// The smallest detectable ratio minus 1.
    pub effect: f64,
}

/// Returns the smallest ratio, minus 1, of two launches' results that a paired comparison over `blocks` finds with the
/// usual power at the usual level; `None` for fewer than three blocks, which allow no verdict.
pub(crate) fn smallest_effect(noise: f64, blocks: usize) -> Option<f64> {
    smallest_at(noise, blocks, Looks::Once)
}

/// How often a study checks its results.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looks {
    Once,
    AfterEachBlock,
}

fn smallest_at(noise: f64, blocks: usize, looks: Looks) -> Option<f64> {
    let level = match looks {
        Looks::Once => ALPHA,
        Looks::AfterEachBlock => statistics::anytime_level(blocks, ALPHA)?,
    };
    let standardised = (blocks >= statistics::LEAST_UNITS)
        .then(|| statistics::smallest_detectable(blocks, level, POWER))
        .flatten()?;
    // The difference of two logarithms has √2 times the standard deviation of one.
    Some((standardised * noise * std::f64::consts::SQRT_2).exp_m1())
}

/// Describes the design of the session's experiment, if it has one.
pub(super) fn design_plan(session: &Session<'_>) -> Option<DesignPlan> {
    let experiment = session.graph.experiment;
    let design = experiment.design.as_ref()?;
    let launched = Launched::of(session, design);
    let label = |axis: AxisId, label: u16| {
        let axis = &experiment.axes[axis];
        format!("{}={}", axis.name, axis.labels[usize::from(label)])
    };
    // What runs already is one launch in all blocks, so their spread is that within a launch.
    let is_started = |(cell, _): &(CellId, (usize, usize))| {
        let resources = resources_of(&session.graph, *cell);
        !resources
            .into_iter()
            .any(|resource| runs_already(&session.graph, resource))
    };
    let measured = launched.noise(session, design);
    let measured = measured.filter(|_| launched.measured.iter().all(is_started));
    let (noise, values) = match (measured, design.noise) {
        (Some((sd, blocks)), _) => {
            let figure = FIGURE;
            (NoiseSource::Measured { figure, blocks }, vec![sd])
        }
        (None, Some(sd)) => (NoiseSource::Declared, vec![sd]),
        (None, None) => (NoiseSource::Unknown, USUAL_NOISE.to_vec()),
    };
    let smallest = |noise: f64| {
        let effect = match &design.until {
            None => smallest_effect(noise, design.blocks)?,
            Some(until) => smallest_at(noise, until.at_least, Looks::AfterEachBlock)?,
        };
        Some(Smallest { noise, effect })
    };
    let named = |block: &Vec<usize>| -> Vec<String> {
        block.iter().map(|l| design.launches[*l].clone()).collect()
    };
    Some(DesignPlan {
        unit: experiment.stages[design.unit].name.clone(),
        blocks: design.blocks,
        until: design.until.clone(),
        launches: design.launches.clone(),
        control: design
            .control
            .map(|c| (label(c.axis, c.label), label(c.axis, c.stands_for))),
        order: design.order,
        sequence: design.sequence.iter().map(named).collect(),
        to_launch: launched.open.values().filter(|open| open.todo > 0).count(),
        in_part: launched
            .open
            .iter()
            .filter(|(_, open)| open.todo > 0 && open.done > 0)
            .map(|((block, launch), _)| format!("block={},{}", block + 1, design.launches[*launch]))
            .collect(),
        degrees_of_freedom: design.degrees_of_freedom(),
        launch_noise: match noise {
            NoiseSource::Unknown => None,
            NoiseSource::Measured { .. } | NoiseSource::Declared => values.first().copied(),
        },
        noise,
        smallest: values.into_iter().filter_map(smallest).collect(),
    })
}

/// The numbers of measured and open cells on one launch.
#[derive(Default)]
struct Open {
    done: usize,
    todo: usize,
}

/// The state of each launch, by (block, launch).
struct Launched {
    open: BTreeMap<(usize, usize), Open>,
    /// The measured cells with their launch.
    measured: Vec<(CellId, (usize, usize))>,
}

impl Launched {
    fn of(session: &Session<'_>, design: &Design) -> Self {
        let mut all = Self {
            open: BTreeMap::new(),
            measured: Vec::new(),
        };
        for node in session
            .graph
            .nodes
            .iter()
            .filter(|n| n.stage.class == Class::Measurement)
        {
            for cell in node.cells() {
                let Some(launch) = session.graph.launch(design, cell) else {
                    continue;
                };
                let open = all.open.entry(launch).or_default();
                match &session.states[cell] {
                    State::Settled(Outcome::Ok { .. }) => {
                        open.done += 1;
                        all.measured.push((cell, launch));
                    }
                    State::Settled(Outcome::Not { .. }) => {}
                    State::Ready(_) | State::Waiting => open.todo += 1,
                }
            }
        }
        all
    }

    /// Returns the standard deviation of the logarithm of a launch's result from the measured blocks, and their number.
    /// It comes from the differences between launches within a block, pooled over pairs of launches, so that variation
    /// shared by a block does not count. If the design has an A/A arm, only that pair is used.
    fn noise(&self, session: &Session<'_>, design: &Design) -> Option<(f64, usize)> {
        let compared = self.compared(session, design);
        if compared.len() < 2 {
            return None;
        }
        let of_launches = axes_of_launches(session, design);
        let mut logs: BTreeMap<usize, BTreeMap<(usize, String), f64>> = BTreeMap::new();
        for (cell, (block, launch)) in &self.measured {
            if !compared.contains(launch) {
                continue;
            }
            if let Some(value) = figure(session, *cell).filter(|v| *v > 0.0) {
                let key = (*block, what_else(session, design, &of_launches, *cell));
                logs.entry(*launch).or_default().insert(key, value.ln());
            }
        }
        let launches: Vec<usize> = logs.keys().copied().collect();
        let (mut squares, mut freedom, mut most) = (0.0, 0, 0);
        for (i, a) in launches.iter().enumerate() {
            for b in &launches[i + 1..] {
                let differences = differences(&logs[a], &logs[b]);
                let n = differences.len();
                if n < 2 {
                    continue;
                }
                let mean = differences.iter().sum::<f64>() / n as f64;
                squares += differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>();
                freedom += n - 1;
                most = most.max(n);
            }
        }
        let variance = squares / freedom as f64;
        (freedom > 0 && variance > 0.0).then(|| ((variance / 2.0).sqrt(), most))
    }

    /// Returns the launches whose differences tell the noise: the A/A arm and its original if both are measured, or
    /// all that are measured.
    fn compared(&self, session: &Session<'_>, design: &Design) -> BTreeSet<usize> {
        let measured: BTreeSet<usize> = self.measured.iter().map(|(_, (_, l))| *l).collect();
        match arm(session, design) {
            Some((arm, original)) if [arm, original].iter().all(|l| measured.contains(l)) => {
                BTreeSet::from([arm, original])
            }
            _ => measured,
        }
    }
}

/// Returns the launch of the A/A arm and the launch it stands for, from the first such cells of the unit.
fn arm(session: &Session<'_>, design: &Design) -> Option<(usize, usize)> {
    let control = design.control?;
    let stage = &session.graph.experiment.stages[design.unit];
    let position = stage.over.iter().position(|axis| *axis == control.axis)?;
    let launch = |label: u16| {
        let at = stage.cells.position(|c| c.at[position] == label)?;
        Some(design.cells[at].1)
    };
    Some((launch(control.label)?, launch(control.stands_for)?))
}

/// Returns the difference of two launches in each block, averaged over the cells that both measured there.
fn differences(a: &BTreeMap<(usize, String), f64>, b: &BTreeMap<(usize, String), f64>) -> Vec<f64> {
    let mut blocks: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for (key, log) in a {
        if let Some(other) = b.get(key) {
            blocks.entry(key.0).or_default().push(log - other);
        }
    }
    // A partly measured block has another mixture of cells, so it is left out.
    let most = blocks.values().map(Vec::len).max().unwrap_or(0);
    blocks
        .values()
        .filter(|d| d.len() == most)
        .map(|d| d.iter().sum::<f64>() / d.len() as f64)
        .collect()
}

/// Returns the axes along which launches differ. Cells of the unit itself may share a launch, and then also differ in what a
/// launch does not fix.
fn axes_of_launches(session: &Session<'_>, design: &Design) -> BTreeSet<AxisId> {
    let unit = &session.graph.experiment.stages[design.unit];
    let axes = unit.over.iter().copied().enumerate();
    let axes = axes.filter(|(at, _)| design.is_of_launch(unit, *at));
    let arm = design.control.map(|c| c.axis);
    axes.map(|(_, axis)| axis).chain(arm).collect()
}

/// Returns the coordinates of a measured cell that belong neither to its block nor to its launch.
fn what_else(
    session: &Session<'_>,
    design: &Design,
    of_launches: &BTreeSet<AxisId>,
    cell: CellId,
) -> String {
    let (stage, i) = session.graph.place(cell);
    let experiment = session.graph.experiment;
    let node = &experiment.stages[stage];
    let mut coordinates = experiment.coordinates(stage, &node.cells[i].at);
    let mut position = 0;
    coordinates.0.retain(|_| {
        let axis = node.over[position];
        position += 1;
        axis != design.axis && !of_launches.contains(&axis)
    });
    format!("{}[{}]", node.name, coordinates)
}

/// Returns a figure of a measured cell, if its kind provides it.
fn figure(session: &Session<'_>, cell: CellId) -> Option<f64> {
    let Some(Outcome::Ok { outputs, .. }) = session.settled(cell) else {
        return None;
    };
    let outputs = parse_outputs(outputs)?
        .into_iter()
        .map(|(name, artifact)| (name.to_owned(), artifact))
        .collect();
    let (stage, _) = session.graph.place(cell);
    let kind = session.graph.nodes[stage].kind;
    kind.figure(FIGURE, &outputs, session.store)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_blocks_at_three_percent_find_about_eleven() {
        // R: power.t.test(n = 5, sd = 0.03*sqrt(2), power = 0.8, type = "paired")$delta is 0.0712
        // as a difference of logarithms... checked against smallest_detectable's own vectors.
        let effect = smallest_effect(0.03, 5).unwrap();
        assert!((0.06..0.09).contains(&effect), "{effect}");
        assert!(smallest_effect(0.03, 8).unwrap() < effect);
        assert!(smallest_effect(0.02, 5).unwrap() < effect);
    }

    #[test]
    fn fewer_than_three_blocks_find_nothing() {
        assert_eq!(
            (smallest_effect(0.01, 1), smallest_effect(0.01, 2)),
            (None, None)
        );
    }

    #[test]
    fn differences_are_averaged_within_a_block_and_incomplete_blocks_are_left_out() {
        let values = |pairs: &[(usize, &str, f64)]| {
            pairs
                .iter()
                .map(|(b, what, v)| ((*b, (*what).to_owned()), *v))
                .collect()
        };
        let a = values(&[
            (0, "x", 2.0),
            (0, "y", 4.0),
            (1, "x", 3.0),
            (1, "y", 3.0),
            (2, "x", 9.0),
        ]);
        let b = values(&[
            (0, "x", 1.0),
            (0, "y", 1.0),
            (1, "x", 1.0),
            (1, "y", 1.0),
            (2, "x", 1.0),
        ]);
        assert_eq!(differences(&a, &b), [2.0, 2.0]);
    }
}
