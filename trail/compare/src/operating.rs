//! Counts how often the gate between two studies fails, passes and does not judge, for equal and for different designs.
//! Designs are data, and every pair of studies follows from its number, so the counts are reproducible.
//! `cargo bench -p compare --bench gate` prints them.

use crate::gate::{Column, Lost, Outcome, judge, outcome};
use crate::results::{Direction, Rule};
use crate::units::Values;

/// The cells that a study has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measured {
    /// Every coordinate in every unit.
    All,
    /// All except a share of the cells, which failed at random.
    Random(f64),
    /// All except the cells that are slower than typical by a share, which timed out.
    UnlessSlow(f64),
    /// Each coordinate in one unit, as when block numbers continue across several hosts.
    OneUnitEach,
    /// Every second coordinate in every second unit; the other coordinates in the other units.
    Turns,
    /// The first coordinates, up to this number.
    First(usize),
}

/// Two studies of one latency.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// What is unusual about the pair.
    pub name: &'static str,
    /// The numbers of units of the older and the newer study.
    pub units: [usize; 2],
    /// The number of coordinates.
    pub coordinates: usize,
    /// The cells that each study has.
    pub measured: [Measured; 2],
    /// The standard deviation of a launch's logarithm in each study.
    pub launch: [f64; 2],
    /// Whether the logarithms of launches have an exponential tail instead of a normal distribution.
    pub tail: bool,
    /// The number of columns judged together. The first one is worse by the factor.
    pub columns: usize,
}

/// Counts of gate outcomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The number of gates that failed.
    pub fail: u64,
    /// The number of gates that passed.
    pub pass: u64,
    /// The number of gates that did not judge.
    pub undecidable: u64,
}

const PLAIN: Pair = Pair {
    name: "five blocks against five",
    units: [5, 5],
    coordinates: 4,
    measured: [Measured::All; 2],
    launch: [0.03; 2],
    tail: false,
    columns: 1,
};

/// Returns all pairs.
pub fn pairs() -> Vec<Pair> {
    use Measured::{All, First, OneUnitEach, Random, Turns, UnlessSlow};
    let with = |name: &'static str, change: &dyn Fn(&mut Pair)| {
        let mut pair = Pair { name, ..PLAIN };
        change(&mut pair);
        pair
    };
    vec![
        PLAIN,
        with("three columns", &|p| p.columns = 3),
        with("three blocks against eight", &|p| p.units = [3, 8]),
        with("eight blocks against three", &|p| p.units = [8, 3]),
        with("two blocks against eight", &|p| p.units = [2, 8]),
        with("three blocks against twelve, long tails", &|p| {
            (p.units, p.tail) = ([3, 12], true);
        }),
        with("twelve blocks against three, long tails", &|p| {
            (p.units, p.tail) = ([12, 3], true);
        }),
        with("twenty blocks against five, long tails", &|p| {
            (p.units, p.tail) = ([20, 5], true);
        }),
        with("a newer study three times as noisy", &|p| {
            p.launch = [0.02, 0.06];
        }),
        with("the newer study has two of four coordinates", &|p| {
            p.measured = [All, First(2)];
        }),
        with("a fifth of the cells missing in each study", &|p| {
            p.measured = [Random(0.2); 2];
        }),
        with("half of the cells missing in each study", &|p| {
            p.measured = [Random(0.5); 2];
        }),
        with("a fifth of the cells missing in the newer study", &|p| {
            p.measured = [All, Random(0.2)];
        }),
        with("slow cells failed in the newer study", &|p| {
            p.measured = [All, UnlessSlow(0.02)];
        }),
        with("blocks take turns over the coordinates", &|p| {
            (p.units, p.measured) = ([6, 6], [Turns; 2]);
        }),
        with("each coordinate in one block", &|p| {
            (p.coordinates, p.measured) = (5, [OneUnitEach; 2]);
        }),
        with("each coordinate in one block of the newer study", &|p| {
            (p.coordinates, p.measured) = (5, [All, OneUnitEach]);
        }),
    ]
}

impl Pair {
    /// Counts the outcomes of the gate over this many pairs of studies. The first column of the newer studies is worse
    /// by a factor.
    pub fn count(&self, factor: f64, rule: &Rule, studies: u64) -> Said {
        let mut said = Said::default();
        for number in 0..studies {
            match outcome(&judge(&self.drawn(number, factor), rule)) {
                Outcome::Fail => said.fail += 1,
                Outcome::Pass => said.pass += 1,
                Outcome::Undecidable => said.undecidable += 1,
            }
        }
        said
    }

    /// Draws the columns of one pair of studies.
    pub(crate) fn drawn(&self, number: u64, factor: f64) -> Vec<Column> {
        let mut noise = Noise((number + 1).wrapping_mul(0xd134_2543_de82_ef95));
        (0..self.columns)
            .map(|column| self.column(&mut noise, if column == 0 { factor } else { 1.0 }))
            .collect()
    }

    /// Draws a latency at every coordinate, of at least 50 ms.
    fn column(&self, noise: &mut Noise, factor: f64) -> Column {
        let mut at = vec![[Values::default(), Values::default()]; self.coordinates];
        let mut lost = [Lost::default(); 2];
        for side in 0..2 {
            let factor = if side == 1 { factor } else { 1.0 };
            for unit in 0..self.units[side] {
                let launch = match self.tail {
                    true => -noise.uniform().ln() - 1.0,
                    false => noise.normal(),
                };
                let launch = self.launch[side] * launch;
                for (coordinate, sides) in at.iter_mut().enumerate() {
                    let log = launch + 0.01 * noise.normal();
                    let value = 50.0 * 1.6_f64.powi(coordinate as i32) * factor * log.exp();
                    let chance = noise.uniform();
                    let planned = match self.measured[side] {
                        Measured::OneUnitEach => coordinate == unit,
                        Measured::Turns => coordinate % 2 == unit % 2,
                        Measured::First(n) => coordinate < n,
                        _ => true,
                    };
                    let failed = match self.measured[side] {
                        Measured::Random(share) => chance < share,
                        Measured::UnlessSlow(share) => factor * log.exp() > 1.0 + share,
                        _ => false,
                    };
                    lost[side].planned += usize::from(planned);
                    lost[side].cells += usize::from(planned && failed);
                    if planned && !failed {
                        let unit = format!("block={}", unit + 1);
                        sides[side].by_unit.insert(unit, value);
                    }
                }
            }
        }
        at.retain(|sides| sides.iter().all(|side| !side.by_unit.is_empty()));
        Column {
            table: "cells".to_owned(),
            name: "ttft_ms_p50".to_owned(),
            better: Direction::Lower,
            replicated: true,
            same: false,
            unlike: None,
            lost,
            at,
        }
    }
}

/// Random numbers from a seed: SplitMix64 (Steele, Lea & Flood 2014).
struct Noise(u64);

impl Noise {
    /// Returns a number in (0, 1).
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64 + 1e-17
    }

    /// Returns a standard normal number (Box & Muller 1958).
    fn normal(&mut self) -> f64 {
        let (u, v) = (self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Pair {
        let pair = pairs().into_iter().find(|pair| pair.name == name);
        pair.expect("it is there")
    }

    #[test]
    fn no_design_fails_equal_servers_or_passes_slower_ones_more_often_than_one_in_twenty() {
        let (studies, rule) = (200, Rule::default());
        // Ten of 200 at 5 %, plus four standard errors.
        let most = 22;
        for pair in pairs() {
            let [same, slower] = [1.0, 1.05].map(|factor| pair.count(factor, &rule, studies));
            assert!(same.fail <= most, "{}: {same:?}", pair.name);
            assert!(slower.pass <= most, "{}: {slower:?}", pair.name);
        }
    }

    #[test]
    fn a_change_no_larger_than_the_differences_between_coordinates_is_undecidable() {
        let rule = Rule::default();
        for name in [
            "two blocks against eight",
            "each coordinate in one block",
            "each coordinate in one block of the newer study",
        ] {
            let said = named(name).count(1.5, &rule, 50);
            assert_eq!(said.undecidable, 50, "{name}");
        }
        let column = &judge(&named("each coordinate in one block").drawn(1, 1.0), &rule)[0];
        let reason = column.reason.as_deref().unwrap();
        assert!(
            reason.starts_with("no coordinate was measured in at least half"),
            "{reason}"
        );
        assert_eq!(column.coordinates, 0);
    }

    #[test]
    fn a_study_that_lost_more_cells_than_the_older_one_cannot_pass() {
        let rule = Rule::default();
        let slow = named("slow cells failed in the newer study");
        assert_eq!(slow.count(1.05, &rule, 100).pass, 0);
        let lost = Pair {
            measured: [Measured::All, Measured::Random(0.2)],
            launch: [0.001; 2],
            ..PLAIN
        };
        let verdict = &judge(&lost.drawn(3, 1.0), &rule)[0];
        assert_eq!(verdict.outcome, Outcome::Undecidable);
        let reason = verdict.reason.as_deref().unwrap();
        assert!(
            reason.contains("of its 20 cells there, the older of 0 of 20"),
            "{reason}"
        );
        // A worsening is still detected.
        let said = lost.count(1.2, &rule, 50);
        assert_eq!(said.fail, 50);
    }

    #[test]
    fn five_blocks_flag_a_tenth_slower() {
        let rule = Rule::default();
        for name in ["five blocks against five", "three columns"] {
            assert!(named(name).count(1.1, &rule, 200).fail >= 160, "{name}");
        }
    }
}
