//! Families of tests: which tests share a level, within a table and over the tables of a study.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::{Scalar, counted};
use contract::LevelScope;
use pipeline::{Failure, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{HolmDecision, SharedTest, benjamini_hochberg, shared_decisions};

use crate::frame::{Frame, SourceRows, rows_of};
use crate::operator::Context;
use crate::operators::one_launch;
use crate::operators::units::{Scale, Units, short};

/// Which tests share a level: the chance of any false verdict among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Family {
    /// All tests of the study in any table, except those of other families.
    #[default]
    Study,
    /// All tests of the table: the chance holds for the table by itself and adds to that of the study.
    Table,
    /// The tests of one column: the chance holds for each column by itself and adds to that of the study.
    PerColumn,
    /// Checks, whose sides should not differ, such as those of the design's A/A arm. They share a
    /// separate level.
    Check,
}

/// A test with its place in its family.
#[derive(Clone, Debug, Default)]
pub(crate) struct Adjusted {
    pub(crate) decision: Option<HolmDecision>,
    pub(crate) bh: Option<f64>,
    pub(crate) family: Option<String>,
}

/// A test before it is decided. A test that could not be made has no p value, and belongs to no family.
#[derive(Clone, Debug)]
pub(crate) struct Hypothesis {
    /// The position of its column.
    pub(crate) column: usize,
    pub(crate) p: Option<f64>,
    /// The sides, sorted by label.
    pub(crate) sides: [String; 2],
    /// The rows behind it, in order.
    pub(crate) rows: Vec<usize>,
    /// The mean that it tests, in words, if every row contributes alike to this mean of effects. Such a mean is 0 if it
    /// is 0 in every part.
    pub(crate) mean_of: Option<String>,
}

impl Hypothesis {
    pub(crate) fn new(
        column: usize,
        p: Option<f64>,
        (a, b): (&str, &str),
        used: &[SourceRows],
    ) -> Self {
        Self {
            column,
            p,
            sides: [a.min(b).to_owned(), a.max(b).to_owned()],
            rows: rows_of(used),
            mean_of: None,
        }
    }

    /// Marks it as a t test of the mean effect of pairs on a scale, over units.
    pub(crate) fn of_pairs(self, scale: Scale, units: &Units) -> Self {
        let mean_of = units
            .words()
            .map(|units| format!("{} {units}", scale.word()));
        Self { mean_of, ..self }
    }
}

/// The tests that a table puts to its family.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) family: Family,
    pub(crate) alpha: f64,
    pub(crate) columns: Vec<String>,
    /// The axes whose values have separate tests.
    pub(crate) by: Vec<String>,
    /// The source table.
    pub(crate) from: String,
    /// The axis of the sides.
    pub(crate) axis: String,
    /// Whether the sides are contenders in a ranking, whose order is a result even between two that should not differ.
    pub(crate) contest: bool,
    pub(crate) tests: Vec<Hypothesis>,
}

impl Asked {
    /// Describes tests for people: their columns and number.
    fn words(&self, column: Option<usize>, tests: usize) -> String {
        let what = match (column, self.columns.as_slice()) {
            (Some(column), columns) => &columns[column],
            (None, [one]) => one,
            (None, _) => "all columns",
        };
        let over = match self.by.as_slice() {
            [] => String::new(),
            axes => format!(" by {}", axes.join(", ")),
        };
        format!("{what}{over} ({})", counted(tests, "test"))
    }
}

/// Makes the rows of a table after its tests are decided.
type Finish = Box<dyn FnOnce(Vec<Adjusted>, &Context<'_>) -> Result<Frame, Failure>>;

/// A table that waits for the decisions on its tests.
pub(crate) struct Pending {
    pub(crate) asked: Asked,
    finish: Finish,
}

impl Pending {
    pub(crate) fn new(
        asked: Asked,
        finish: impl FnOnce(Vec<Adjusted>, &Context<'_>) -> Result<Frame, Failure> + 'static,
    ) -> Self {
        let finish = Box::new(finish);
        Self { asked, finish }
    }

    /// Makes the table.
    ///
    /// # Errors
    /// If its inputs cannot be read.
    pub(crate) fn finish(
        self,
        adjusted: Vec<Adjusted>,
        context: &Context<'_>,
    ) -> Result<Frame, Failure> {
        (self.finish)(adjusted, context)
    }
}

/// The A/A arm of the design.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Arm {
    axis: String,
    label: String,
    stands_for: String,
}

/// What the verdicts of a cell share with those of the rest of the study, as read from its parameters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shares {
    /// The number of cells that share the level; 0 counts as 1.
    cells: usize,
    control: Option<Arm>,
    /// For each load stage, the axes along which its cells are measured on one launch.
    on_one_launch: BTreeMap<String, BTreeSet<String>>,
}

impl Shares {
    /// Adds the shared properties of a cell to its parameters.
    pub(crate) fn put(shared: &pipeline::Shared, mut parameters: Json) -> Json {
        if shared.cells > 1 {
            parameters["cells_that_decide"] = shared.cells.into();
        }
        if let Some((axis, label, stands_for)) = shared.control.clone() {
            let arm = Arm {
                axis,
                label,
                stands_for,
            };
            parameters["control"] = contract::canonical(&arm);
        }
        let on_one_launch = one_launch::of_units(&shared.on_one_launch, &parameters);
        if !on_one_launch.is_empty() {
            parameters["on_one_launch"] = contract::canonical(&on_one_launch);
        }
        parameters
    }

    pub(crate) fn of(parameters: &Json) -> Self {
        let cells = parameters["cells_that_decide"].as_u64();
        Self {
            cells: cells.and_then(|n| usize::try_from(n).ok()).unwrap_or(1),
            control: serde_json::from_value(parameters["control"].clone()).ok(),
            on_one_launch: serde_json::from_value(parameters["on_one_launch"].clone())
                .unwrap_or_default(),
        }
    }

    /// Returns the axes along which the cells of each load stage are measured on one launch.
    pub(crate) fn on_one_launch(&self) -> &BTreeMap<String, BTreeSet<String>> {
        &self.on_one_launch
    }

    /// Whether the sides of a test are those of the A/A arm.
    pub(crate) fn is_control(&self, axis: &str, sides: &[String; 2]) -> bool {
        let is = |arm: &Arm| {
            arm.axis == axis && sides.contains(&arm.label) && sides.contains(&arm.stands_for)
        };
        self.control.as_ref().is_some_and(is)
    }

    /// Whether a label is that of the A/A arm.
    pub(crate) fn is_arm(&self, axis: &str, label: &Scalar) -> bool {
        let arm = self.control.as_ref().filter(|arm| arm.axis == axis);
        arm.is_some_and(|arm| arm.label == label.to_string())
    }

    fn cells(&self) -> f64 {
        self.cells.max(1) as f64
    }

    fn level(&self, alpha: f64) -> String {
        match self.cells {
            0 | 1 => percent(alpha),
            n => format!("{}, shared by {n} cells", percent(alpha)),
        }
    }
}

fn percent(share: f64) -> String {
    // Drops the digits that come from dividing by the number of tables.
    format!(
        "{} %",
        short((1e5 * share).round() / 1e3)
            .trim_end_matches('0')
            .trim_end_matches('.')
    )
}

/// Decides the tests of tables that wait together, each given with its name. Another `others` tables have tests that
/// are not known yet; the second value is the share of the level reserved for each of them.
pub(crate) fn decide(
    tables: &[(&str, &Asked)],
    others: usize,
    shares: &Shares,
) -> (Vec<Vec<Adjusted>>, f64) {
    let empty = |(_, asked): &(&str, &Asked)| vec![Adjusted::default(); asked.tests.len()];
    let mut adjusted: Vec<Vec<Adjusted>> = tables.iter().map(empty).collect();
    let (mut study, mut checks) = (Joint::default(), Joint::default());
    for (table, (_, asked)) in tables.iter().enumerate() {
        match asked.family {
            Family::Table | Family::PerColumn => adjusted[table] = alone(asked, 1.0, None),
            Family::Study | Family::Check => {
                for (i, test) in asked
                    .tests
                    .iter()
                    .enumerate()
                    .filter(|(_, t)| t.p.is_some())
                {
                    let check = asked.family == Family::Check
                        || !asked.contest && shares.is_control(&asked.axis, &test.sides);
                    let joint = if check { &mut checks } else { &mut study };
                    joint.add(asked, (table, i), shares);
                }
                screened(asked, &mut adjusted[table]);
            }
        }
    }
    let other = study.decide(tables, others, (LevelScope::Study, shares), &mut adjusted);
    checks.decide(tables, 0, (LevelScope::Checks, shares), &mut adjusted);
    (adjusted, other)
}

/// Decides the tests of a table that was made from verdicts, at its share of the level.
pub(crate) fn decide_late(asked: &Asked, share: f64, shares: &Shares) -> Vec<Adjusted> {
    let share = share / shares.cells();
    match asked.family {
        Family::Study => {
            let part = format!(", of which it has {}", percent(asked.alpha * share));
            alone(asked, share, Some((LevelScope::Study, &part)))
        }
        Family::Check => alone(asked, 1.0, Some((LevelScope::Checks, ""))),
        Family::Table | Family::PerColumn => alone(asked, 1.0, None),
    }
}

/// Computes Benjamini–Hochberg adjustments within a table.
fn screened(asked: &Asked, adjusted: &mut [Adjusted]) {
    let made = asked.tests.iter().enumerate();
    let made: Vec<(usize, f64)> = made.filter_map(|(i, t)| Some((i, t.p?))).collect();
    let raw: Vec<f64> = made.iter().map(|(_, p)| *p).collect();
    for ((i, _), bh) in made.iter().zip(benjamini_hochberg(&raw)) {
        adjusted[*i].bh = Some(bh);
    }
}

/// Decides the tests of one table by Holm's procedure, at a share of its level.
fn alone(asked: &Asked, share: f64, scope: Option<(LevelScope, &str)>) -> Vec<Adjusted> {
    let mut adjusted = vec![Adjusted::default(); asked.tests.len()];
    let families: Vec<Option<usize>> = match asked.family {
        Family::PerColumn => (0..asked.columns.len()).map(Some).collect(),
        _ => vec![None],
    };
    for family in families {
        let is_in_family = |test: &Hypothesis| family.is_none_or(|column| column == test.column);
        let members = asked
            .tests
            .iter()
            .enumerate()
            .filter(|(_, t)| is_in_family(t));
        let members: Vec<(usize, f64)> = members.filter_map(|(i, t)| Some((i, t.p?))).collect();
        let tests = members.iter().map(|(_, p)| SharedTest {
            p: p / share,
            alpha: asked.alpha,
            table: 0,
            part_of: None,
            makes_up: false,
        });
        let (decisions, _) = shared_decisions(&tests.collect::<Vec<_>>(), 0);
        let raw: Vec<f64> = members.iter().map(|(_, p)| *p).collect();
        let (scope, part) = scope.unwrap_or(match family {
            None => (LevelScope::Table, ""),
            Some(_) => (LevelScope::Column, ""),
        });
        let tests = asked.words(family, members.len());
        let words = scope.family(percent(asked.alpha), format_args!("{part}: {tests}"));
        let decided = members.iter().zip(decisions).zip(benjamini_hochberg(&raw));
        for (((i, _), decision), bh) in decided {
            adjusted[*i] = Adjusted {
                decision: Some(HolmDecision {
                    alpha: decision.alpha * share,
                    ..decision
                }),
                bh: Some(bh),
                family: Some(words.clone()),
            };
        }
    }
    adjusted
}

/// The subject of a test: the source table, the axis of the sides, the sides, the column.
type Of<'a> = (&'a str, &'a str, &'a [String; 2], &'a str);

/// Tests that share a level across tables.
#[derive(Default)]
struct Joint<'a> {
    tests: Vec<SharedTest>,
    /// The hypothesis behind each test.
    hypotheses: Vec<&'a Hypothesis>,
    /// The tests of each subject.
    by_question: BTreeMap<Of<'a>, Vec<usize>>,
    /// The test behind each row of a table.
    places: Vec<((usize, usize), usize)>,
}

impl<'a> Joint<'a> {
    /// Adds a test. An earlier test of the same values with the same result counts as the same test.
    fn add(&mut self, asked: &'a Asked, place: (usize, usize), shares: &Shares) {
        let test = &asked.tests[place.1];
        let Some(p) = test.p else { return };
        let alpha = asked.alpha / shares.cells();
        let question = (
            asked.from.as_str(),
            asked.axis.as_str(),
            &test.sides,
            asked.columns[test.column].as_str(),
        );
        let same_question = self.by_question.entry(question).or_default();
        let same = same_question.iter().copied().find(|k| {
            let other = &self.tests[*k];
            let agrees = (other.p - p).abs() <= 1e-9 * p.max(other.p);
            agrees && other.alpha == alpha && self.hypotheses[*k].rows == test.rows
        });
        let number = same.unwrap_or_else(|| {
            same_question.push(self.tests.len());
            self.tests.push(SharedTest {
                p,
                alpha,
                table: place.0,
                part_of: None,
                makes_up: false,
            });
            self.hypotheses.push(test);
            self.tests.len() - 1
        });
        self.places.push((place, number));
    }

    /// Finds for each test the smallest test of the same subject that includes its values.
    fn find_parts(&mut self) {
        let rows = |test: usize| self.hypotheses[test].rows.as_slice();
        for same_question in self.by_question.values_mut() {
            same_question.sort_by_key(|k| (rows(*k).len(), *k));
            for (i, part) in same_question.iter().enumerate() {
                let larger = same_question[i..]
                    .iter()
                    .filter(|k| rows(**k).len() > rows(*part).len());
                let holds = |k: &&usize| {
                    let whole = rows(**k);
                    rows(*part)
                        .iter()
                        .all(|row| whole.binary_search(row).is_ok())
                };
                self.tests[*part].part_of = larger.into_iter().find(holds).copied();
            }
        }
        self.find_what_is_made_up();
    }

    /// Finds the tests whose rows are exactly covered by their parts in one table and whose effect is a mean of the
    /// parts' effects.
    fn find_what_is_made_up(&mut self) {
        let mut parts: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for (test, part_of) in self.tests.iter().map(|t| t.part_of).enumerate() {
            if let Some(whole) = part_of {
                let group = parts.entry((whole, self.tests[test].table));
                group.or_default().push(test);
            }
        }
        for ((whole, _), parts) in parts {
            let whole = self.hypotheses[whole];
            let alike = |test: &usize| self.hypotheses[*test].mean_of == whole.mean_of;
            let rows = parts.iter().flat_map(|t| &self.hypotheses[*t].rows);
            let rows: BTreeSet<usize> = rows.copied().collect();
            // Every part's rows are among the whole's.
            if whole.mean_of.is_some() && parts.iter().all(alike) && rows.len() == whole.rows.len()
            {
                for part in parts {
                    self.tests[part].makes_up = true;
                }
            }
        }
    }

    /// Decides all tests, and returns the share of the level reserved for each other table.
    fn decide(
        mut self,
        tables: &[(&str, &Asked)],
        others: usize,
        (scope, shares): (LevelScope, &Shares),
        adjusted: &mut [Vec<Adjusted>],
    ) -> f64 {
        self.find_parts();
        let (decisions, other) = shared_decisions(&self.tests, others);
        let mut names: Vec<usize> = self.places.iter().map(|((table, _), _)| *table).collect();
        names.dedup();
        let among = match names.len() + others {
            0 | 1 => String::new(),
            _ => {
                let listed: Vec<&str> = names.iter().map(|t| tables[*t].0).collect();
                let later = match others {
                    0 => String::new(),
                    n => format!(" and {n} more"),
                };
                format!(
                    ", {} in {}{later}",
                    counted(self.tests.len(), "test"),
                    listed.join(", ")
                )
            }
        };
        for table in names {
            let asked = tables[table].1;
            let mine = || self.places.iter().filter(|((t, _), _)| *t == table);
            let wholes = mine().filter_map(|(_, test)| self.tests[*test].part_of);
            let mut wholes: Vec<usize> = wholes.map(|whole| self.tests[whole].table).collect();
            wholes.sort_unstable();
            wholes.dedup();
            let wholes: Vec<&str> = wholes.iter().map(|t| tables[*t].0).collect();
            let parts = match wholes.as_slice() {
                [] => String::new(),
                wholes => format!(", parts of {}", wholes.join(", ")),
            };
            let tests = asked.words(None, mine().count());
            let words = scope.family(
                shares.level(asked.alpha),
                format_args!("{among}: {tests}{parts}"),
            );
            for ((_, row), test) in mine() {
                let decision = decisions[*test];
                let place = &mut adjusted[table][*row];
                place.decision = Some(HolmDecision {
                    // Relative to the level of the whole study, which its cells share.
                    adjusted_p: (decision.adjusted_p * shares.cells()).min(1.0),
                    ..decision
                });
                place.family = Some(words.clone());
            }
        }
        other
    }
}
