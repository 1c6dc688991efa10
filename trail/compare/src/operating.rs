//! Counts how often the gate between two studies fails, passes and does not judge, for equal and for different designs.
//! Designs are data, and every pair of studies follows from its number, so the counts are reproducible.
//! `cargo bench -p compare --bench gate` prints them.

use contract::Better;
use statistics::Noise;

use crate::gate::{Column, Lost, Outcome, judge, outcome};
use crate::results::Rule;
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
    /// What is odd about the launches.
    pub odd: Odd,
    /// How each study prints its values.
    pub printed: [Printed; 2],
    /// The value at each coordinate, relative to the one before, and the first value.
    pub grows: (f64, f64),
    /// The largest share of false fails, and of passes at the allowed worsening, that the documentation states.
    pub stated: f64,
}

/// What the launches of a study have in common, or how they scatter besides their normal noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Odd {
    /// Nothing.
    Nothing,
    /// The launches of each study lie within days, with this many launches a day. Each day of each study has an offset with this
    /// standard deviation.
    Days(usize, f64),
    /// The same, but the two studies have no day in common, as if they were named by their dates.
    Dates(usize, f64),
    /// Each launch resembles the one before it, with this correlation.
    Neighbours(f64),
    /// One launch of each study is slower by this share.
    Outlier(f64),
    /// Launches are slower by the second share with the first probability.
    States(f64, f64),
}

/// How a study prints its values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Printed {
    /// In full.
    Full,
    /// In whole numbers.
    Whole,
    /// With this many significant digits.
    Digits(usize),
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
    odd: Odd::Nothing,
    printed: [Printed::Full; 2],
    grows: (1.6, 50.0),
    stated: 0.05,
};

/// Returns the plain pair under another name and with a change.
fn with(name: &'static str, change: &dyn Fn(&mut Pair)) -> Pair {
    let mut pair = Pair { name, ..PLAIN };
    change(&mut pair);
    pair
}

/// Returns all pairs.
pub fn pairs() -> Vec<Pair> {
    [plans(), launches(), prints()].concat()
}

/// Returns the pairs whose launches have something in common, or scatter oddly.
fn launches() -> Vec<Pair> {
    vec![
        with(
            "each study on three days of its own, four launches a day",
            &|p| {
                (p.units, p.odd, p.launch) = ([12, 12], Odd::Days(4, 0.05), [0.02; 2]);
            },
        ),
        with(
            "each study on six days of its own, three launches a day",
            &|p| {
                (p.units, p.odd, p.launch) = ([18, 18], Odd::Days(3, 0.05), [0.02; 2]);
            },
        ),
        with(
            "each study on three dates of its own, four launches a date",
            &|p| {
                (p.units, p.odd, p.launch) = ([12, 12], Odd::Dates(4, 0.05), [0.02; 2]);
            },
        ),
        with(
            "each study on six dates of its own, three launches a date",
            &|p| {
                (p.units, p.odd, p.launch) = ([18, 18], Odd::Dates(3, 0.05), [0.02; 2]);
            },
        ),
        with("six dates of three launches, and all dates alike", &|p| {
            (p.units, p.odd, p.launch) = ([18, 18], Odd::Dates(3, 0.0), [0.02; 2]);
        }),
        with("six days of three launches, and all days alike", &|p| {
            (p.units, p.odd, p.launch) = ([18, 18], Odd::Days(3, 0.0), [0.02; 2]);
        }),
        with("each launch like the one before (0.5), 5 blocks", &|p| {
            (p.odd, p.stated) = (Odd::Neighbours(0.5), 0.17);
        }),
        with("each launch like the one before (0.5), 12 blocks", &|p| {
            (p.units, p.odd, p.stated) = ([12, 12], Odd::Neighbours(0.5), 0.12);
        }),
        with("each launch like the one before (0.8), 12 blocks", &|p| {
            (p.units, p.odd, p.stated) = ([12, 12], Odd::Neighbours(0.8), 0.09);
        }),
        with("one launch of each study 40 % slower", &|p| {
            (p.odd, p.launch) = (Odd::Outlier(0.4), [0.01; 2]);
        }),
        with("launches in two states, 20 % apart", &|p| {
            (p.odd, p.launch) = (Odd::States(0.5, 0.2), [0.01; 2]);
        }),
        with("five against nine blocks in two states, 30 % apart", &|p| {
            (p.units, p.odd, p.launch) = ([5, 9], Odd::States(0.3, 0.3), [0.01; 2]);
        }),
        with("nine against five blocks in two states, 30 % apart", &|p| {
            (p.units, p.odd, p.launch) = ([9, 5], Odd::States(0.3, 0.3), [0.01; 2]);
        }),
        with("nine blocks against five, long tails", &|p| {
            (p.units, p.tail) = ([9, 5], true);
        }),
    ]
}

/// Returns the pairs of which one study prints rounded values.
fn prints() -> Vec<Pair> {
    vec![
        with("the older study in whole numbers near 10.4", &|p| {
            (p.printed, p.grows) = ([Printed::Whole, Printed::Full], (1.0, 10.4));
            p.launch = [0.01; 2];
        }),
        with("the newer study with three digits", &|p| {
            (p.printed, p.grows) = ([Printed::Full, Printed::Digits(3)], (10.0, 1.004));
            p.launch = [0.001; 2];
        }),
        with("both studies in whole numbers near 12", &|p| {
            (p.printed, p.grows) = ([Printed::Whole; 2], (1.0, 12.3));
            p.launch = [0.02; 2];
        }),
        with(
            "whole numbers, slow cells failed, eight blocks against five",
            &|p| {
                (p.printed, p.grows) = ([Printed::Whole, Printed::Full], (1.9, 10.4));
                (p.launch, p.units) = ([0.01; 2], [8, 5]);
                p.measured = [Measured::All, Measured::UnlessSlow(0.02)];
            },
        ),
    ]
}

/// Returns the pairs with unlike numbers of blocks, unlike coordinates, or lost cells.
fn plans() -> Vec<Pair> {
    use Measured::{All, First, OneUnitEach, Random, Turns, UnlessSlow};
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
            let odd = (noise.uniform() * self.units[side] as f64) as usize;
            let (mut day, mut last) = (0.0, noise.normal());
            for unit in 0..self.units[side] {
                let launch = match self.tail {
                    true => -noise.uniform().ln() - 1.0,
                    false => noise.normal(),
                };
                let mut launch = self.launch[side] * launch;
                match self.odd {
                    Odd::Nothing => {}
                    Odd::Days(launches, deviation) | Odd::Dates(launches, deviation) => {
                        if unit % launches == 0 {
                            day = deviation * noise.normal();
                        }
                        launch += day;
                    }
                    Odd::Neighbours(rho) => {
                        last = rho * last + (1.0 - rho * rho).sqrt() * noise.normal();
                        launch = self.launch[side] * last;
                    }
                    Odd::Outlier(far) => launch += if unit == odd { far } else { 0.0 },
                    Odd::States(chance, far) => {
                        launch += if noise.uniform() < chance { far } else { 0.0 };
                    }
                }
                for (coordinate, sides) in at.iter_mut().enumerate() {
                    let log = launch + 0.01 * noise.normal();
                    let typical = self.grows.1 * self.grows.0.powi(coordinate as i32);
                    let value = typical * factor * log.exp();
                    let value = match self.printed[side] {
                        Printed::Full => value,
                        Printed::Whole => value.round(),
                        Printed::Digits(n) => {
                            format!("{value:.*e}", n - 1).parse().unwrap_or(value)
                        }
                    };
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
                        let unit = match self.odd {
                            Odd::Days(launches, _) => format!(
                                "day={},launch={}",
                                unit / launches + 1,
                                unit % launches + 1
                            ),
                            // The newer study has other dates.
                            Odd::Dates(launches, _) => format!(
                                "day={},launch={}",
                                100 * side + unit / launches + 1,
                                unit % launches + 1
                            ),
                            _ => format!("block={}", unit + 1),
                        };
                        sides[side].by_unit.insert(unit, value);
                    }
                }
            }
        }
        at.retain(|sides| sides.iter().all(|side| !side.by_unit.is_empty()));
        Column {
            table: "cells".to_owned(),
            name: "ttft_ms_p50".to_owned(),
            better: Some(Better::Lower),
            replicated: true,
            same: false,
            unlike: None,
            lost,
            at,
            named: false,
            empty: None,
            flattered: None,
            note: None,
            requests: None,
            undirected: None,
        }
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
    fn no_design_fails_equal_servers_or_passes_slower_ones_more_often_than_stated() {
        let (studies, rule) = (200, Rule::default());
        for pair in pairs() {
            // Plus four standard errors: 22 of 200 at 5 %.
            let n = studies as f64;
            let error = (pair.stated * (1.0 - pair.stated) * n).sqrt();
            let most = (pair.stated * n + 4.0 * error) as u64;
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
    fn launches_that_resemble_each_other_count_as_fewer() {
        let rule = Rule::default();
        let reasons = |name: &str| {
            let judged = (0..40).map(|i| judge(&named(name).drawn(i, 1.0), &rule).remove(0));
            let reasons = judged.filter_map(|column| column.reason);
            reasons.collect::<Vec<String>>().join("\n")
        };
        let few = "too few: measure on 5 or more in each study";
        let (alike, units) = (
            "units with the same `day` resemble each other (p ",
            "so the labels of `day` are the units",
        );
        for (three, six) in [
            (
                "each study on three days of its own, four launches a day",
                "each study on six days of its own, three launches a day",
            ),
            (
                "each study on three dates of its own, four launches a date",
                "each study on six dates of its own, three launches a date",
            ),
        ] {
            let (three, six) = (reasons(three), reasons(six));
            assert!(three.contains(alike) && three.contains(few), "{three}");
            assert!(six.contains(units), "{six}");
        }
        let rows = reasons("each launch like the one before (0.8), 12 blocks");
        assert!(
            rows.contains("each `block` resembles the one before it (p "),
            "{rows}"
        );
        // Days that have nothing in common cost nothing.
        for alike in [
            "six days of three launches, and all days alike",
            "six dates of three launches, and all dates alike",
        ] {
            assert!(named(alike).count(1.1, &rule, 40).fail >= 38, "{alike}");
        }
    }

    #[test]
    fn five_blocks_flag_a_tenth_slower() {
        let rule = Rule::default();
        for name in ["five blocks against five", "three columns"] {
            assert!(named(name).count(1.1, &rule, 200).fail >= 160, "{name}");
        }
    }
}
