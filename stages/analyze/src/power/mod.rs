//! Simulates the design of a study: how often would its verdicts be wrong, and what would they detect? The simulation
//! takes the study's cells, units, families, margins and stopping rule, and adds noise of launches, cells and requests.
//! The operators compare these numbers exactly as they compare measured rows.
//!
//! - `draw`: the numbers of the cells, and after how many blocks a study ends;
//! - `launches`: whether the units of a table share launches;
//! - `question`: the question behind a table, the effect it is given, and its findings.

mod draw;
mod launches;
mod question;

use std::collections::BTreeMap;

use pipeline::{Control, Coordinates, Failure, Json};
use rayon::prelude::*;
use serde::Serialize;
use statistics::Normals;

use crate::frame::Frame;
use crate::kind::{Planned, planned};
use crate::make::{Maker, Witness, shares_the_study};
use crate::operators::family::Shares;
use crate::power::draw::{Drawn, OF_CELLS, Step};
use crate::power::question::{Question, Seen};
use crate::surroundings::Surroundings;

/// A planned load stage.
#[derive(Clone, Debug)]
pub struct LoadStage {
    /// Its name.
    pub stage: String,
    /// Its cells.
    pub cells: Vec<LoadCell>,
}

/// A planned load cell.
#[derive(Clone, Debug)]
pub struct LoadCell {
    /// Its coordinates.
    pub at: Coordinates,
    /// Its block, from 0, and the number that distinguishes its launch from others of the block; `None` outside a design.
    pub seat: Option<(usize, usize)>,
    /// The number of its launch. Cells of the study with the same number are measured on one launch.
    pub launch: usize,
    /// The number of requests it measures; `None` if its settings do not state it, as for a load of a given duration.
    pub requests: Option<usize>,
}

/// The rule that ends a study.
#[derive(Clone, Debug)]
pub struct Until {
    /// The relative half-width that the figure of every launch must reach.
    pub relative_half_width: f64,
    /// The figure, by its column's name.
    pub figure: String,
    /// The number of blocks before the rule first looks.
    pub at_least: usize,
}

/// The simulated study.
#[derive(Clone, Debug)]
pub struct Study {
    /// The canonical parameters of the analyze stage.
    pub parameters: Json,
    /// The load stages that it needs.
    pub loads: Vec<LoadStage>,
    /// The standard deviation of the logarithm of a launch's result.
    pub launch_noise: f64,
    /// The standard deviation of the logarithm of a cell's result within its launch.
    pub cell_noise: f64,
    /// The standard deviation of the logarithm of a request's result within its cell. It makes quantiles vary.
    pub request_noise: f64,
    /// The rule that may end the study before its last block.
    pub until: Option<Until>,
    /// The seed of the noise.
    pub seed: u64,
}

/// The findings of the simulation for one table of comparisons.
#[derive(Clone, Debug, Serialize)]
pub struct Simulated {
    /// The table.
    pub table: String,
    /// Its operator.
    pub operator: String,
    /// The side that receives the effects.
    pub a: String,
    /// The side it is compared with; in a ranking, all others.
    pub b: String,
    /// Whether its sides should not differ, like those of the design's A/A arm.
    pub check: bool,
    /// Whether its level is separate from that of the study, and adds to it.
    pub level_of_its_own: bool,
    /// The reason why the table cannot be simulated, or why every verdict is `undecidable`; otherwise null.
    pub refused: Option<String>,
    /// Units of replication that share launches, so that `different` is false more often than the level says; `None` if
    /// each unit has its own launches, or if both sides of a unit are measured on the same ones.
    pub shared_launches: Option<SharedLaunches>,
    /// The number of comparisons in the table.
    pub rows: usize,
    /// The findings at each effect: first at 0, last at margins that are shares. Empty if the table cannot be
    /// simulated.
    pub at: Vec<AtEffect>,
}

/// Units of replication that share launches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SharedLaunches {
    /// The axes of the units.
    pub unit: Vec<String>,
    /// Those among them whose labels are measured on one launch.
    pub within: Vec<String>,
    /// Axes whose labels are units with launches of their own; empty if there are none.
    pub instead: Vec<String>,
    /// The number of units.
    pub units: usize,
    /// The number of launches of the side that has the fewest.
    pub launches: usize,
}

/// The findings at one true effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct AtEffect {
    /// The share by which the first side is larger: 0.1 is 10 %.
    pub effect: f64,
    /// Studies in which any row is `different`; at an effect of 0, the false ones.
    pub any_different: u64,
    /// Studies in which any row is `different` in the wrong direction; at an effect of 0, none.
    pub any_wrong: u64,
    /// Rows, over all studies, that are `different` in the right direction; at an effect of 0, none.
    pub rows_found: u64,
    /// Rows, over all studies, that are `equivalent`.
    pub rows_equivalent: u64,
    /// Rows, over all studies, that are `undecidable`.
    pub rows_undecidable: u64,
    /// Rows, over all studies, that have a margin. By the rule `not-worse`, the first side is shown not to be lower
    /// than the second by more than the margin in `rows_not_lower` of them, and not to be higher in `rows_not_higher`.
    pub rows_with_margin: u64,
    /// See `rows_with_margin`.
    pub rows_not_lower: u64,
    /// See `rows_with_margin`.
    pub rows_not_higher: u64,
    /// Rows, over all studies, whose margin is a share that the effect reaches.
    pub rows_at_margin: u64,
    /// Rows at the margin that are falsely `equivalent`.
    pub false_equivalent: u64,
    /// Rows at the margin in which the first side is falsely called not higher.
    pub false_not_higher: u64,
}

/// The findings of the simulation of a study.
#[derive(Clone, Debug, Serialize)]
pub struct Power {
    /// The number of simulated studies.
    pub studies: u64,
    /// Studies without any effect in which any row of any table is `different`, excluding checks.
    pub any_different: u64,
    /// Studies without any effect in which any row of any check is `different`.
    pub any_check_different: u64,
    /// The findings for each table of comparisons.
    pub tables: Vec<Simulated>,
    /// The tables that are not simulated, because they do not end in the verdict of a test.
    pub others: Vec<Other>,
    /// The mean number of blocks of a study, if a rule ends it.
    pub blocks: Option<f64>,
}

/// A table that is not simulated.
#[derive(Clone, Debug, Serialize)]
pub struct Other {
    /// The table.
    pub table: String,
    /// Its operator.
    pub operator: String,
}

/// Simulates a number of studies, and counts the findings without an effect, at each of `effects`, and at each margin
/// that is a share. Every number of the cells is lognormal, with a part for the launch, shared by its cells, and a part
/// for the cell. Quantiles vary with the requests behind them, and shares are counts of requests. An effect multiplies
/// the compared columns of the first side; for a crossover, it multiplies the upper half of the ladder and divides the
/// lower.
///
/// # Errors
/// If the parameters are not canonical, or the user interrupted the simulation.
pub fn simulate(
    study: &Study,
    effects: &[f64],
    studies: u64,
    control: &Control,
) -> Result<Power, Failure> {
    let all = planned(&study.parameters)?;
    let questions = Question::all(study, &all);
    let mut effects: Vec<f64> = std::iter::once(0.0)
        .chain(effects.iter().copied())
        .collect();
    // At its margin, a verdict of being within it is false, and most likely.
    for margin in questions.iter().flat_map(Question::margins) {
        if !effects.contains(&margin) {
            effects.push(margin);
        }
    }
    let simulation = Simulation::new(study, &all, &questions, &effects, control);
    let seen: Vec<Result<_, Failure>> = (0..studies)
        .into_par_iter()
        .map(|number| simulation.study(number))
        .collect();
    let mut power = Power {
        studies,
        any_different: 0,
        any_check_different: 0,
        tables: questions.iter().map(|c| c.empty(&effects)).collect(),
        others: others(&all, &questions),
        blocks: study.until.is_some().then_some(0.0),
    };
    for study in seen {
        let (blocks, study) = study?;
        let any = |check: bool| {
            let pairs = questions.iter().zip(&study);
            let mut pairs = pairs.filter(|(question, _)| question.check == check);
            pairs.any(|(_, seen)| seen.as_ref().is_ok_and(|s| s[0].different > 0))
        };
        power.any_different += u64::from(any(false));
        power.any_check_different += u64::from(any(true));
        power.blocks = power.blocks.map(|b| b + blocks as f64 / studies as f64);
        for (sum, seen) in power.tables.iter_mut().zip(study) {
            sum.add(seen);
        }
    }
    for table in &mut power.tables {
        if table.refused.is_some() && table.at.iter().any(|at| at.decided(table.rows, studies)) {
            table.refused = None;
        }
    }
    Ok(power)
}

/// The findings of each question at each effect, or the reason why it was refused.
type Answers = Vec<Result<Vec<Seen>, String>>;

/// The part that all simulated studies have in common.
struct Simulation<'a> {
    study: &'a Study,
    questions: &'a [Question<'a>],
    effects: &'a [f64],
    control: &'a Control,
    /// The tables of cells to draw.
    cells: Vec<&'a Step<'a>>,
    /// The tables made from them, in order.
    made: Vec<&'a Planned>,
    /// Groups of questions with effects on the same numbers.
    groups: Vec<Vec<usize>>,
    shares: Shares,
    absent: usize,
}

impl<'a> Simulation<'a> {
    fn new(
        study: &'a Study,
        all: &'a [Planned],
        questions: &'a [Question<'a>],
        effects: &'a [f64],
        control: &'a Control,
    ) -> Self {
        let steps = || questions.iter().flat_map(|q| q.steps.iter().flatten());
        let mut cells: BTreeMap<&str, &Step<'_>> = BTreeMap::new();
        for step in steps() {
            if let Step::Cells { name, .. } = step {
                cells.entry(name).or_insert(step);
            }
        }
        let wanted = |table: &&Planned| {
            let between = |step: &Step<'_>| matches!(step, Step::Table(t) if t.name == table.name);
            let asks = |q: &Question<'_>| q.steps.is_ok() && q.table.name == table.name;
            questions.iter().any(asks) || steps().any(between)
        };
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (i, question) in questions
            .iter()
            .enumerate()
            .filter(|(_, q)| q.steps.is_ok())
        {
            let same = |group: &&mut Vec<usize>| questions[group[0]].changes_the_same(question);
            match groups.iter_mut().find(same) {
                Some(group) => group.push(i),
                None => groups.push(vec![i]),
            }
        }
        let absent = questions.iter().filter(|q| q.steps.is_err() && !q.check);
        Self {
            study,
            questions,
            effects,
            control,
            cells: cells.into_values().collect(),
            made: all.iter().filter(wanted).collect(),
            groups,
            shares: Shares::of(&study.parameters),
            absent: absent.filter(|q| shares_the_study(q.table)).count(),
        }
    }

    /// Simulates one study, and returns its number of blocks and the findings. All its tables use the same numbers and
    /// share its level.
    fn study(&self, number: u64) -> Result<(usize, Answers), Failure> {
        self.control.check()?;
        let mut normals = Normals::new(self.study.seed, number);
        let drawn = Drawn::new(self.study, &mut normals);
        let cells = drawn
            .cells(self.study, &self.cells, &mut normals)
            .map_err(Failure::failed)?;
        let refused = |q: &Question<'_>| match &q.steps {
            Ok(_) => Ok(Vec::new()),
            Err(why) => Err(why.clone()),
        };
        let mut answers: Answers = self.questions.iter().map(refused).collect();
        for effect in self.effects {
            // Without an effect, one study answers all questions.
            let all = [(0..self.questions.len()).collect::<Vec<_>>()];
            let groups = if *effect == 0.0 {
                &all[..]
            } else {
                &self.groups
            };
            for group in groups {
                let changed = Changed::new(self.questions, group, *effect);
                let made = self.tables(cells.clone(), changed)?;
                for question in group {
                    let Ok(seen) = &mut answers[*question] else {
                        continue;
                    };
                    match made.seen(&self.questions[*question], *effect) {
                        Ok(one) => seen.push(one),
                        Err(why) => answers[*question] = Err(why),
                    }
                }
            }
        }
        Ok((drawn.blocks, answers))
    }

    /// Makes all tables of one study.
    fn tables<'b>(
        &self,
        mut tables: BTreeMap<String, Frame>,
        mut changed: Changed<'b>,
    ) -> Result<Tables<'b>, Failure> {
        for (name, frame) in &mut tables {
            changed.made(name, frame);
        }
        let maker = Maker {
            loads: &[],
            programs: &[],
            surroundings: &Surroundings::new(&[]),
            seed: self.study.seed,
            control: self.control,
            files: None,
            shares: &self.shares,
            absent: self.absent,
            rehearsal: true,
        };
        maker.make(&self.made, &mut tables, &mut changed)?;
        Ok(Tables { tables, changed })
    }
}

/// The tables of a study, and the failures while making them.
struct Tables<'a> {
    tables: BTreeMap<String, Frame>,
    changed: Changed<'a>,
}

impl Tables<'_> {
    fn seen(&self, question: &Question<'_>, effect: f64) -> Result<Seen, String> {
        match self.changed.failures.get(&question.table.name) {
            Some(why) => Err(why.clone()),
            None => question.seen(&self.tables, effect),
        }
    }
}

/// Applies an effect to the numbers that some questions read.
struct Changed<'a> {
    /// The question that selects the rows, and the columns of all questions; `None` without an effect.
    question: Option<(&'a Question<'a>, Vec<String>)>,
    effect: f64,
    /// The reasons why tables could not be made, by name.
    failures: BTreeMap<String, String>,
}

impl<'a> Changed<'a> {
    fn new(questions: &'a [Question<'a>], group: &[usize], effect: f64) -> Self {
        let first = group.first().filter(|_| effect != 0.0);
        let columns = || {
            let all = group.iter().flat_map(|q| questions[*q].columns());
            let mut all: Vec<String> = all.cloned().collect();
            all.sort();
            all.dedup();
            all
        };
        Self {
            question: first.map(|first| (&questions[*first], columns())),
            effect,
            failures: BTreeMap::new(),
        }
    }
}

impl Witness for Changed<'_> {
    fn made(&mut self, name: &str, frame: &mut Frame) {
        let reads = |q: &&(&Question<'_>, Vec<String>)| q.0.reads(name);
        if let Some((question, columns)) = self.question.as_ref().filter(reads)
            && let Err(why) = question.change(frame, columns, self.effect)
        {
            self.failures.insert(question.table.name.clone(), why);
        }
    }

    fn failed(&mut self, table: &Planned, failure: Failure) -> Result<(), Failure> {
        self.failures.insert(table.name.clone(), failure.reason);
        Ok(())
    }
}

/// Returns the tables that are not simulated.
fn others(planned: &[Planned], questions: &[Question<'_>]) -> Vec<Other> {
    let simulated = |table: &&Planned| {
        OF_CELLS.contains(&table.operator.as_str())
            || questions.iter().any(|q| q.table.name == table.name)
    };
    let other = |table: &Planned| Other {
        table: table.name.clone(),
        operator: table.operator.clone(),
    };
    let rest = planned.iter().filter(|table| !simulated(table));
    rest.map(other).collect()
}

impl AtEffect {
    /// Whether any row of any study was decided.
    fn decided(&self, rows: usize, studies: u64) -> bool {
        self.rows_undecidable < rows as u64 * studies
    }
}

impl Simulated {
    fn add(&mut self, seen: Result<Vec<Seen>, String>) {
        let seen = match seen {
            Ok(seen) => seen,
            Err(why) => {
                self.refused = Some(why);
                self.at.clear();
                return;
            }
        };
        for (sum, seen) in self.at.iter_mut().zip(seen) {
            self.rows = self.rows.max(seen.rows);
            sum.any_different += u64::from(seen.different > 0);
            if sum.effect != 0.0 {
                sum.any_wrong += u64::from(seen.different > seen.detected);
                sum.rows_found += seen.detected;
            }
            sum.rows_equivalent += seen.equivalent;
            sum.rows_with_margin += seen.margins.all;
            sum.rows_not_lower += seen.margins.not_lower;
            sum.rows_not_higher += seen.margins.not_higher;
            sum.rows_at_margin += seen.margins.reached;
            sum.false_equivalent += seen.margins.false_equivalent;
            sum.false_not_higher += seen.margins.false_not_higher;
            sum.rows_undecidable += seen.undecidable;
            if let Some(why) = seen.refusal {
                self.refused.get_or_insert(why);
            }
        }
    }
}
