//! Awkward studies, run through the operators: how often is a verdict false, how often does an interval contain the
//! truth, and what is detected? Designs are data. Every study follows from its number, so the counts are facts.
//! `cargo bench -p analyze --bench awkward` prints them.

mod designs;
pub(crate) mod draw;

use artifacts::Scalar;
use contract::{Verdict, Word as _};
use pipeline::Json;
use rayon::prelude::*;
use serde_json::json;

pub use designs::designs;
use draw::BASE;

use crate::frame::Frame;
use crate::make::made;
use crate::operators::units::Scale;

/// A design of studies of equal systems.
#[derive(Clone, Copy, Debug)]
pub struct Design {
    /// A description for people.
    pub name: &'static str,
    /// Blocks. Every system is launched once in each.
    blocks: usize,
    /// The number of systems.
    systems: usize,
    /// The number of levels at which each launch is measured.
    levels: usize,
    launch: Launch,
    /// The standard deviation of the logarithm of the part that the launches of a block share.
    together: f64,
    /// The standard deviation of the logarithm of a cell within its launch.
    cell: f64,
    metric: Metric,
    figure: Figure,
    lost: Lost,
    /// The number of blocks on each host; empty without hosts.
    hosts: &'static [usize],
    unit: Unit,
    scale: Scale,
    /// The margin, as a share of a value without noise.
    margin: f64,
    /// The questions put to the operators.
    pub questions: &'static [Question],
    /// The documented error rates.
    pub stated: Stated,
}

/// The rates that the documentation states for a design.
#[derive(Clone, Copy, Debug)]
pub struct Stated {
    /// The largest share of studies of equal systems with a false *different*.
    pub different: f64,
    /// The largest share of studies with a false *equivalent* or *not worse*, at the margin.
    pub at_margin: f64,
    /// The least coverage of a 95 % interval.
    pub coverage: f64,
}

/// The offset of a launch to the logarithm of all its values.
#[derive(Clone, Copy, Debug)]
enum Launch {
    /// Normal, with this standard deviation.
    Normal(f64),
    /// Normal, with a standard deviation for each side.
    Unlike(f64, f64),
    /// Student's t with three degrees of freedom, times this factor.
    HeavyTails(f64),
    /// A second state of the machine: its probability, how much slower it is, and the standard deviation.
    TwoStates(f64, f64, f64),
    /// A first-order autoregression over the launches in time order: correlation and standard deviation.
    Neighbours(f64, f64),
    /// The same over the launches of each side, as if each had its own machine.
    OwnNeighbours(f64, f64),
    /// Each launch is slower than the one before by the first share, and varies by the second.
    Drift(f64, f64),
    /// At full speed, or slower by an exponential time of this mean.
    Skewed(f64),
    /// As `Skewed` for the first side alone, centred on the mean of the others, which vary normally by the second.
    FirstSkewed(f64, f64),
    /// Two states of the first side alone, centred on the mean of the others: probability, distance, and the standard
    /// deviation of all launches.
    FirstInStates(f64, f64, f64),
}

/// The metric of a cell.
#[derive(Clone, Copy, Debug)]
enum Metric {
    /// A positive value.
    Value,
    /// A positive value, rounded to a multiple of this.
    Rounded(f64),
    /// A value near 10.4. The first side is printed in whole numbers, the others in full.
    Printed,
    /// Values near 10.4, 20.4 and 40.4, printed likewise.
    PrintedGrowing,
    /// Values near 10.04, 100.4 and 1,004. The first side is printed with this many significant digits, the others in full.
    Digits(usize),
    /// A count of rare events with this mean: mostly 0.
    Count(f64),
    /// The share of ok requests: the number of requests, and the probability that a request is ok.
    Share(usize, f64),
    /// A quantile (type 7): its probability, and the number of lognormal requests on each side.
    Quantile(f64, [usize; 2]),
}

/// The declared unit where there are hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    Host,
    /// Blocks within hosts. Those of one host resemble each other.
    BlockOfHost,
    /// Blocks, and the table does not have the hosts.
    Block,
}

/// What is compared: the metric itself, or a figure computed from it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    Metric,
    /// Its mean over the levels of a launch.
    Mean,
    /// The cost of a million tokens, for a metric that is a throughput.
    Cost,
    /// Its ratio to the lowest level, over the level.
    Efficiency,
}

/// The cells that were not measured.
#[derive(Clone, Copy, Debug)]
enum Lost {
    Nothing,
    /// This many launches of the first side.
    LaunchesOfFirst(usize),
    /// The cells of either side that are slower than typical by this share, as if slowness made them fail.
    Slow(f64),
    /// As `Slow`, for the first side only.
    SlowOfFirst(f64),
    /// As `SlowOfFirst`, but the table has the rows without values.
    NullOfFirst(f64),
    /// As `SlowOfFirst`, but the table lacks the rows and gives no reason, like a published table.
    AbsentOfFirst(f64),
    /// The highest level of the first side, in this many of the last blocks.
    TopOfFirst(usize),
    /// Nothing, but each block has only this many levels, in turns.
    Turns(usize),
}

/// The question put to a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Do the sides differ, paired within blocks?
    Paired,
    /// The same question at each level.
    PairedByLevel,
    /// Do they differ, as independent launches?
    Unpaired,
    /// Which contenders differ?
    Ranking,
    /// At which level does the winner change?
    Crossover,
}

impl Question {
    /// Returns a name for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Paired => "paired",
            Self::PairedByLevel => "paired, by level",
            Self::Unpaired => "unpaired",
            Self::Ranking => "ranking",
            Self::Crossover => "crossover",
        }
    }

    /// Whether the answer has an interval and a margin.
    pub fn has_margin(self) -> bool {
        matches!(self, Self::Paired | Self::Unpaired)
    }
}

/// The findings in studies with one true effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The number of studies.
    pub studies: u64,
    /// Studies that found something *different*; for equal systems, falsely.
    pub different: u64,
    /// Studies with an interval.
    pub intervals: u64,
    /// Studies whose interval contains the true effect.
    pub covered: u64,
    /// Studies called *equivalent* within the margin.
    pub equivalent: u64,
    /// Studies whose first side was called *not higher* by more than the margin.
    pub not_higher: u64,
    /// Studies whose first side was called *not lower* by more than the margin.
    pub not_lower: u64,
    /// Studies in which nothing could be decided.
    pub undecidable: u64,
}

impl Counted {
    fn plus(self, other: Self) -> Self {
        Self {
            studies: self.studies + other.studies,
            different: self.different + other.different,
            intervals: self.intervals + other.intervals,
            covered: self.covered + other.covered,
            equivalent: self.equivalent + other.equivalent,
            not_higher: self.not_higher + other.not_higher,
            not_lower: self.not_lower + other.not_lower,
            undecidable: self.undecidable + other.undecidable,
        }
    }
}

/// Counts the findings of a number of studies in which the first side is larger by a share. No margin is declared, so
/// every effect counts.
pub fn count(design: &Design, question: Question, effect: f64, studies: u64) -> Counted {
    counted(design, (question, false), effect, studies)
}

/// Does the same with the margin of the design declared.
pub fn count_with_margin(
    design: &Design,
    question: Question,
    effect: f64,
    studies: u64,
) -> Counted {
    counted(design, (question, true), effect, studies)
}

fn counted(
    design: &Design,
    (question, margin): (Question, bool),
    effect: f64,
    studies: u64,
) -> Counted {
    let one = |number: u64| {
        let frame = design.drawn(number, effect);
        let (operator, mut parameters) = design.asked(question);
        if !margin && let Some(given) = parameters.as_object_mut() {
            given.remove("margin");
        }
        let mut tables = design.computed();
        tables.push(("made", operator, parameters));
        // A study that lost a whole side is rejected entirely.
        let Ok(mut tables) = made(&tables, frame, &Json::Null) else {
            return Counted {
                studies: 1,
                undecidable: 1,
                ..Counted::default()
            };
        };
        let table = tables.remove("made").expect("it was made");
        design.seen(question, &table, effect)
    };
    (0..studies)
        .into_par_iter()
        .map(one)
        .reduce(Counted::default, Counted::plus)
}

impl Design {
    /// The effects at the lower and the upper end of the margin, as shares; `None` where a value cannot be so large.
    pub fn ends(&self) -> [Option<f64>; 2] {
        let low = match self.scale {
            Scale::Ratio => 1.0 / (1.0 + self.margin) - 1.0,
            Scale::Difference => -self.margin,
        };
        let bounded = matches!(self.metric, Metric::Share(..));
        [Some(low), (!bounded).then_some(self.margin)]
    }

    /// The tables that compute the figure.
    fn computed(&self) -> Vec<(&'static str, &'static str, Json)> {
        let column = self.column();
        let (operator, parameters) = match self.figure {
            Figure::Metric => return Vec::new(),
            Figure::Mean => (
                "aggregate",
                json!({"from": "t", "over": ["level"], "columns": [column], "confidence": 0.95}),
            ),
            Figure::Cost => (
                "cost",
                json!({"from": "t", "column": column, "devices": 1, "price-per-hour": 3.0, "currency": "USD",
                    "price-date": "2026-01-31", "price-source": "a list"}),
            ),
            Figure::Efficiency => (
                "parallel-efficiency",
                json!({"from": "t", "ladder": "level", "column": column}),
            ),
        };
        vec![("figures", operator, parameters)]
    }

    /// Returns the operator that answers a question, and its parameters.
    fn asked(&self, question: Question) -> (&'static str, Json) {
        let pair = json!({"axis": "system", "a": "s1", "b": "s2"});
        let scale = self.scale.word();
        let metric = match self.figure {
            Figure::Metric => self.column(),
            Figure::Mean => format!("{}_mean", self.column()),
            Figure::Cost => "cost_per_million_tokens".to_owned(),
            Figure::Efficiency => "parallel_efficiency".to_owned(),
        };
        let blocks = if self.figure == Figure::Mean {
            json!(["block"])
        } else if self.hosts.is_empty() {
            json!(["block", "level"])
        } else {
            json!(["block", "level", "host"])
        };
        let (operator, mut parameters) = match question {
            Question::Paired | Question::PairedByLevel => (
                "paired-comparison",
                json!({"columns": [metric], "pair": pair}),
            ),
            Question::Unpaired => (
                "unpaired-comparison",
                json!({"columns": [metric], "pair": pair, "over": blocks}),
            ),
            Question::Ranking => (
                "ranking",
                json!({"among": "system", "column": metric, "better": "lower"}),
            ),
            Question::Crossover => (
                "crossover",
                json!({"ladder": "level", "column": metric, "better": "lower", "pair": pair}),
            ),
        };
        parameters["from"] = json!(match self.figure {
            Figure::Metric => "t",
            _ => "figures",
        });
        if question != Question::Ranking {
            parameters["scale"] = json!(scale);
        }
        if question == Question::PairedByLevel {
            parameters["by"] = json!(["level"]);
        }
        if question.has_margin() {
            let margin = match self.scale {
                Scale::Ratio => self.margin,
                Scale::Difference => self.margin * self.centre(),
            };
            parameters["margin"] = json!({metric: margin});
        }
        if !self.hosts.is_empty() {
            parameters["unit"] = match self.unit {
                Unit::Host => json!(["host"]),
                Unit::BlockOfHost => json!(["host", "block"]),
                Unit::Block => json!(["block"]),
            };
        }
        (operator, parameters)
    }

    /// The value of a cell without noise.
    fn centre(&self) -> f64 {
        match self.metric {
            Metric::Count(mean) => mean,
            Metric::Share(_, chance) => chance,
            _ => BASE,
        }
    }

    /// Counts the findings of one table, given the true effect as a share.
    fn seen(&self, question: Question, table: &Frame, effect: f64) -> Counted {
        let rows = || 0..table.rows.len();
        let text = |row: usize, column: &str| table.value(row, column).map(ToString::to_string);
        let word = |row: usize| Verdict::parse(&text(row, "verdict")?).ok();
        let is = |row: usize, column: &str| {
            u64::from(table.value(row, column) == Some(&Scalar::Bool(true)))
        };
        let mut seen = Counted {
            studies: 1,
            ..Counted::default()
        };
        if table.rows.is_empty() {
            // One side lost every cell.
            seen.undecidable = 1;
            return seen;
        }
        match question {
            Question::Ranking => {
                let rank = |row| table.number(row, "rank_shown");
                seen.different = u64::from(rows().any(|row| rank(row).is_some_and(|r| r > 1.0)));
                seen.undecidable = u64::from(rows().all(|row| rank(row).is_none()));
            }
            Question::Crossover => {
                let shown = |row| text(row, "first_winner").is_some_and(|w| w != "null");
                seen.different = u64::from(rows().any(shown));
            }
            _ => {
                let words: Vec<Option<Verdict>> = rows().map(word).collect();
                let undecided = |word: &Option<Verdict>| *word == Some(Verdict::Undecidable);
                seen.different = u64::from(words.contains(&Some(Verdict::Different)));
                seen.undecidable = u64::from(words.iter().all(undecided));
            }
        }
        if question.has_margin() {
            let inverse = self.figure == Figure::Cost;
            let truth = match self.scale {
                Scale::Ratio if inverse => 1.0 / (1.0 + effect),
                // Both rungs of an efficiency have the effect.
                Scale::Ratio if self.figure == Figure::Efficiency => 1.0,
                Scale::Ratio => 1.0 + effect,
                Scale::Difference => effect * self.centre(),
            };
            let ends = table.number(0, "ci_low").zip(table.number(0, "ci_high"));
            seen.intervals = u64::from(ends.is_some());
            let within = |(low, high): (f64, f64)| low <= truth && truth <= high;
            seen.covered = u64::from(ends.is_some_and(within));
            seen.equivalent = is(0, "equivalent");
            seen.not_higher = is(0, if inverse { "not_lower" } else { "not_higher" });
            seen.not_lower = is(0, if inverse { "not_higher" } else { "not_lower" });
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest count that a stated rate allows, with four standard errors of tolerance.
    fn most(stated: f64, studies: u64) -> u64 {
        let n = studies as f64;
        (stated * n + 4.0 * (stated * (1.0 - stated) * n).sqrt()) as u64
    }

    #[test]
    fn verdicts_of_awkward_studies_are_rarely_false() {
        // The bench draws a thousand studies of each design, and also tests the margins.
        let studies = 12;
        let mut wrong = Vec::new();
        for design in &designs() {
            for question in design.questions {
                let null = count(design, *question, 0.0, studies);
                if null.different > most(design.stated.different, studies) {
                    wrong.push(format!("{}, {question:?}: {null:?}", design.name));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn what_lost_its_slow_cells_is_never_called_better_equivalent_or_not_worse() {
        let designs = designs();
        let lost = designs
            .iter()
            .find(|d| d.name.contains("half of its cells"));
        let lost = lost.expect("it is there");
        for question in [Question::Paired, Question::Unpaired] {
            let counts = count_with_margin(lost, question, 0.05, 60);
            assert_eq!(counts.equivalent, 0, "{question:?}: {counts:?}");
            // The value is a time, so *not higher* means *not worse*.
            assert_eq!(counts.not_higher, 0, "{question:?}: {counts:?}");
        }
    }

    #[test]
    fn quantiles_of_unlike_numbers_of_requests_are_undecidable() {
        let designs = designs();
        let uneven = designs
            .iter()
            .find(|d| d.name == "p90 of 40 requests against 400");
        for question in [Question::Paired, Question::Unpaired] {
            assert_eq!(count(uneven.unwrap(), question, 0.0, 3).undecidable, 3);
        }
    }
}
