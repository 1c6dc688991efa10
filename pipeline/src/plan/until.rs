//! Decides whether a study has enough measurements: applies the rule of its design to the settled cells.

use std::collections::BTreeMap;

use artifacts::Digest;
use statistics::{ANYTIME_SPREAD, Refusal, anytime_interval, unit_effect};

use super::session::{Outcome, Session, State};
use crate::design::{Design, UNTIL_ALPHA, Until};
use crate::ids::CellId;
use crate::record::parse_outputs;
use crate::stage::{CellStatus, Class};

/// The state of a design's rule while planning or running.
#[derive(Default)]
pub(super) struct Rule {
    /// Whether the rule has ended the study.
    held: bool,
    /// Figures, by the record they come from.
    figures: BTreeMap<Digest, Option<f64>>,
}

impl Session<'_> {
    /// Leaves out the blocks that the rule of the design no longer needs. Returns whether it did; the caller must then
    /// restart the session ([`Session::restart`]).
    pub(crate) fn stop_when_known(&mut self) -> bool {
        let experiment = self.graph.experiment;
        let Some((design, until)) = experiment
            .design
            .as_ref()
            .and_then(|design| Some((design, design.until.as_ref()?)))
        else {
            return false;
        };
        if self.rule.held {
            return false;
        }
        let Some((blocks, half_width)) = self.enough(design, until) else {
            return false;
        };
        self.rule.held = true;
        let outcome = Outcome::Not {
            status: CellStatus::Excluded,
            reason: until.reason(blocks, half_width).into(),
            key: None,
            record: None,
        };
        for node in &self.graph.nodes {
            let Some(position) = node.stage.over.iter().position(|a| *a == design.axis) else {
                continue;
            };
            for (i, cell) in node.stage.cells.iter_enumerated() {
                if usize::from(cell.at[position]) >= blocks {
                    self.fixed.insert(node.cell(i), outcome.clone());
                }
            }
        }
        true
    }

    /// Returns the number of blocks after which the rule first held, with the widest half-width there.
    fn enough(&mut self, design: &Design, until: &Until) -> Option<(usize, f64)> {
        let measured = self.measured_in_blocks(design);
        for blocks in until.at_least..design.blocks {
            let mut launches: BTreeMap<usize, BTreeMap<usize, Vec<Option<f64>>>> = BTreeMap::new();
            for (block, launch, cell) in measured.iter().filter(|(block, ..)| *block < blocks) {
                if !matches!(self.states[*cell], State::Settled(_)) {
                    return None;
                }
                let log = self.figure_of(*cell, &until.figure).map(f64::ln);
                let launch = launches.entry(*launch).or_default();
                launch.entry(*block).or_default().push(log);
            }
            let widths = launches.values().map(relative_half_width);
            // A launch with too little data keeps the study going.
            let Some(widths) = widths.collect::<Option<Vec<f64>>>() else {
                continue;
            };
            let widest = widths.into_iter().fold(0.0, f64::max);
            if !launches.is_empty() && widest <= until.relative_half_width {
                return Some((blocks, widest));
            }
        }
        None
    }

    /// Returns the measured cells with their block and launch.
    fn measured_in_blocks(&self, design: &Design) -> Vec<(usize, usize, CellId)> {
        let measured_in = |cell: CellId| {
            let measured = self.graph.class(cell) == Class::Measurement;
            let (block, launch) = self.graph.launch(design, cell).filter(|_| measured)?;
            Some((block, launch, cell))
        };
        self.graph.cells().filter_map(measured_in).collect()
    }

    /// Returns a figure of a settled cell; `None` if the cell is not ok or the figure is not above 0.
    fn figure_of(&mut self, cell: CellId, name: &str) -> Option<f64> {
        let State::Settled(Outcome::Ok {
            record, outputs, ..
        }) = &self.states[cell]
        else {
            return None;
        };
        if let Some(figure) = self.rule.figures.get(record) {
            return *figure;
        }
        let outputs = parse_outputs(outputs)?
            .into_iter()
            .map(|(name, artifact)| (name.to_owned(), artifact))
            .collect();
        let (stage, _) = self.graph.place(cell);
        let figure = self.graph.nodes[stage]
            .kind
            .figure(name, &outputs, self.store);
        let figure = figure.filter(|value| *value > 0.0);
        self.rule.figures.insert(*record, figure);
        figure
    }
}

/// Returns the relative half-width of the mean over blocks, at an interval that holds at every check. A block's value
/// is the mean logarithm of its cells. `None` with fewer than three blocks. A block with a cell without a figure has
/// another mixture of cells and does not count.
pub fn relative_half_width(blocks: &BTreeMap<usize, Vec<Option<f64>>>) -> Option<f64> {
    let mean = |cells: &Vec<Option<f64>>| {
        let logs: Option<Vec<f64>> = cells.iter().copied().collect();
        logs.map(|logs| logs.iter().sum::<f64>() / logs.len() as f64)
    };
    let means: Vec<f64> = blocks.values().filter_map(mean).collect();
    match unit_effect(&means) {
        Ok(effect) => {
            let interval = anytime_interval(&effect, ANYTIME_SPREAD, UNTIL_ALPHA).ok()?;
            Some(((interval.high - interval.low) / 2.0).exp_m1())
        }
        // If every block has the same value, the value is known exactly.
        Err(Refusal::NoSpread { .. }) => Some(0.0),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(logs: &[Option<f64>]) -> BTreeMap<usize, Vec<Option<f64>>> {
        logs.iter().map(|log| vec![*log]).enumerate().collect()
    }

    #[test]
    fn the_half_width_is_that_of_the_anytime_interval() {
        let logs = [0.021, 0.034, 0.012, 0.028, 0.019];
        let width = relative_half_width(&blocks(&logs.map(Some))).unwrap();
        // sd 0.008468, error 0.003787, critical t 5.41 at five blocks.
        assert!(
            (width - (5.41_f64 * 0.003_787).exp_m1()).abs() < 2e-5,
            "{width}"
        );
    }

    #[test]
    fn a_block_without_a_figure_does_not_count_and_two_say_nothing() {
        let logs = [Some(0.1), None, Some(0.2)];
        assert_eq!(relative_half_width(&blocks(&logs)), None);
        assert_eq!(relative_half_width(&blocks(&[Some(0.1); 3])), Some(0.0));
    }
}
