//! Code shared by paired and unpaired comparisons: settings, families and verdicts.

mod columns;
mod extremes;

pub(crate) use columns::own;
pub(crate) use extremes::{AtCoordinate, Extremes};

use std::collections::BTreeMap;

use artifacts::Scalar;
use contract::Verdict;
use pipeline::suggest::{remedy, share};
use pipeline::{Failure, Problem, Step};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Bootstrap, BootstrapKind, HolmDecision, Interval, UnitEffect};

use crate::clock_steps::UnlikeSteps;
use crate::columns::Columns;
use crate::frame::{Frame, Level, Missing, SourceRows, text};
use crate::lost_requests::LostRequests;
use crate::operator::{Context, Draft};
use crate::operators::alike::{Kept, cells_behind};
use crate::operators::family::{Adjusted, Asked as Question, Family, Hypothesis};
use crate::operators::looks::{self, Looks};
use crate::operators::pairs::Sides;
use crate::operators::units::{Scale, Units};
use crate::operators::verdict::{Case, Ends, Labels};
use crate::surroundings::{self, Asked, Judge, Unlike};

/// How the two sides are written.
const PAIR: &str = "`pair: {axis: AXIS, a: LABEL, b: LABEL}`";

/// The settings of both kinds of comparison.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(extend("x-other-words" = {
    "axis": PAIR, "sides": PAIR, "labels": PAIR, "a": PAIR, "b": PAIR, "baseline": PAIR, "compare": PAIR, "across": PAIR,
    "metric": "`columns`", "metrics": "`columns`", "column": "`columns`",
}))]
pub(crate) struct Terms {
    /// The table that holds both sides.
    pub(crate) from: String,
    /// The two sides: an axis and two of its labels.
    pub(crate) pair: Sides,
    /// Axes compared separately, one row each.
    #[serde(default)]
    pub(crate) by: Vec<String>,
    /// The columns to compare, such as `output_throughput`. Each makes one row.
    pub(crate) columns: Vec<String>,
    /// The axes whose labels are the units of replication, that is, separate starts. By default
    /// `block`, if the table has it. Values within a unit are averaged. Without units, every
    /// verdict is `undecidable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unit: Option<Vec<String>>,
    /// The scale of the effect. `ratio` needs values above 0; `difference` accepts any.
    #[serde(default)]
    pub(crate) scale: Scale,
    /// For a column, the smallest effect that matters: a share (0.02 is 2 %) on the scale `ratio`, in the column's
    /// unit on the scale `difference`. A smaller effect is never `different`, and one shown to be smaller is
    /// `equivalent`. `not_lower` and `not_higher` say for each end of the margin whether a is on the near side of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) margin: BTreeMap<String, f64>,
    /// Measurement conditions in which the sides may differ, on purpose or because they do not
    /// matter. For two machines, these may be `frequency` and `temperature`. A difference in any
    /// other condition prevents a verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions_may_differ: Vec<String>,
    /// How often the study looks at its data. You need not set it: a design with `until` does.
    #[serde(default, skip_serializing_if = "Looks::is_once")]
    pub(crate) looks: Looks,
    /// The tests that share the level with those of this table. The adjustment of p values and intervals covers all of
    /// them.
    #[serde(default)]
    pub(crate) family: Family,
    /// The probability of any false `different` in the family. If the tables of a study declare
    /// different levels, the largest holds for the whole study, and each one for its tables.
    #[serde(default = "alpha")]
    pub(crate) alpha: f64,
    /// An additional bootstrap interval of the mean difference, for comparison with published
    /// intervals. With few units it is too narrow. It does not affect the verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bootstrap: Option<Kind>,
    /// The number of resamples of a bootstrap, or of a permutation test that is not enumerated.
    #[serde(default = "resamples")]
    pub(crate) resamples: u32,
    /// The seed of the resamples. By default, the seed of the experiment.
    #[serde(default)]
    pub(crate) seed: Option<u64>,
}

/// Whether rank tests are corrected for continuity.
pub(crate) fn corrected() -> bool {
    true
}

/// The level above which a one-sided bound of an effect would lie beyond its estimate.
const MOST_ALPHA: f64 = 0.5;

fn alpha() -> f64 {
    0.05
}

fn resamples() -> u32 {
    10_000
}

/// The kind of bootstrap interval, in settings.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// The quantiles of the resamples.
    Percentile,
    /// Those quantiles reflected at the estimate.
    Basic,
    /// Bias-corrected and accelerated.
    Bca,
}

/// One comparison of a column in a stratum, before its family is known.
pub(crate) struct Compared<T> {
    pub(crate) stratum: Vec<Scalar>,
    pub(crate) column: usize,
    /// Mean of a − mean of b, in the metric's unit; `None` without values.
    pub(crate) delta: Option<f64>,
    /// The mean effect on the scale.
    pub(crate) mean: Option<f64>,
    /// The effect of the units, or why it cannot be judged.
    pub(crate) effect: Result<UnitEffect, String>,
    /// Notes that the units are not independent, as far as their values show, and how the effect counts that.
    pub(crate) doubt: Option<String>,
    /// Whether the interval of the effect is the inverse of the deciding test.
    pub(crate) inverts: bool,
    /// The p value of the deciding test.
    pub(crate) p: Option<f64>,
    /// The smallest p value that the test can reach with this many units, if it is a test of ranks or signs.
    pub(crate) least: Option<f64>,
    /// For a test of ranks or signs: above 0 if it finds a higher, and below 0 if it finds b higher.
    pub(crate) leaning: Option<f64>,
    /// For sides with units of their own: the exact test of their labels.
    pub(crate) labels: Option<Labels>,
    pub(crate) bootstrap: Option<Interval>,
    /// The smallest and the largest effect among several pooled coordinates.
    pub(crate) extremes: Option<Extremes>,
    /// How far the mean effect would move, on the scale, if each pooled coordinate had the same weight. Without those that
    /// some units lack, it is 0.
    pub(crate) reweighed: f64,
    pub(crate) missing: Scalar,
    pub(crate) lineage: Vec<SourceRows>,
    /// The part that only one kind of comparison has.
    pub(crate) own: T,
}

/// A comparison with its place in its family: a row of the table.
pub(crate) struct Judged<T> {
    pub(crate) test: Compared<T>,
    unit: Option<String>,
    replication: Option<String>,
    adjusted: Adjusted,
    margin: Option<f64>,
    pub(super) equivalence: Option<(f64, bool)>,
    pub(super) ends: Option<Ends>,
    smallest_detectable: Option<f64>,
    pub(super) verdict: (Verdict, Option<String>),
    /// The most by which the true effect may lie below and above the recorded one because times or values were rounded, on the
    /// scale: −low and high.
    pub(super) rounded: (f64, f64),
}

impl Terms {
    /// Checks the settings.
    ///
    /// # Errors
    /// Every problem found.
    pub(crate) fn check(&self, draft: &Draft<'_>) -> Result<(), Vec<Problem>> {
        draft.columns(&self.from, &self.columns)?;
        let mut problems = draft.shares(&[("alpha", self.alpha)]);
        if problems.is_empty() && self.alpha >= MOST_ALPHA {
            let message = format!("`alpha` must be below {MOST_ALPHA}, got {}", self.alpha);
            problems.push(draft.problem("alpha", message));
        }
        problems.extend(surroundings::problems(draft, &self.conditions_may_differ));
        if self.resamples < 100 {
            let message = "a bootstrap needs at least 100 resamples";
            problems.push(draft.problem("resamples", message));
        }
        for (name, margin) in &self.margin {
            let place = [Step::Key("margin".to_owned()), Step::Key(name.clone())];
            if !self.columns.contains(name) {
                let message = format!("`{name}` is not among the columns compared");
                let problem = Problem {
                    of_key: true,
                    ..draft.settings.problem(&place, message)
                };
                problems.push(problem.hint(remedy(name, "compared columns", &self.columns)));
            }
            if !(*margin > 0.0 && margin.is_finite()) {
                let message = "a margin must be a positive number";
                problems.push(draft.settings.problem(&place, message));
            } else if self.scale == Scale::Ratio && *margin >= 1.0 {
                let message = "on the scale `ratio`, a margin is a share below 1";
                let problem = draft.settings.problem(&place, message);
                problems.push(Problem {
                    hint: share(*margin),
                    ..problem
                });
            }
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(problems)
        }
    }

    /// Returns the declared bootstrap.
    pub(crate) fn bootstrap(&self, seed: u64) -> Option<Bootstrap> {
        Some(Bootstrap {
            kind: match self.bootstrap? {
                Kind::Percentile => BootstrapKind::Percentile,
                Kind::Basic => BootstrapKind::Basic,
                Kind::Bca => BootstrapKind::Bca,
            },
            resamples: self.resamples as usize,
            level: 1.0 - self.alpha,
            seed: self.seed(seed),
        })
    }

    /// Rejects a test that does not keep its level in a study that looks at its data after each block.
    ///
    /// # Errors
    /// If the test is one of these.
    pub(crate) fn holds(&self, operator: &str, test: &str) -> Result<(), Failure> {
        match looks::refusal(operator, test).filter(|_| !self.looks.is_once()) {
            Some(refusal) => Err(Failure::failed(refusal).hint(looks::INSTEAD)),
            None => Ok(()),
        }
    }

    /// Returns the seed, by default the experiment's.
    pub(crate) fn seed(&self, seed: u64) -> u64 {
        self.seed.unwrap_or(seed)
    }

    /// Returns the tests that the table puts to its family.
    pub(crate) fn question<T>(&self, tests: &[Compared<T>]) -> Question {
        let (a, b) = self.pair.labels();
        let test = |t: &Compared<T>| Hypothesis::new(t.column, t.p, (&a, &b), &t.lineage);
        Question {
            family: self.family,
            alpha: self.alpha,
            columns: self.columns.clone(),
            by: self.by.clone(),
            from: self.from.clone(),
            axis: self.pair.axis.clone(),
            contest: false,
            tests: tests.iter().map(test).collect(),
        }
    }

    /// Makes the table of comparisons from decided tests.
    ///
    /// # Errors
    /// If the samples taken beside the cells cannot be read.
    pub(crate) fn table<T>(
        &self,
        context: &Context<'_>,
        (tests, adjusted): (Vec<Compared<T>>, Vec<Adjusted>),
        columns: &Columns<'_, Judged<T>>,
        (units, alike): (&Units, &Kept),
        missing: Vec<Missing>,
    ) -> Result<Frame, Failure> {
        let from = alike.frame(context.table(&self.from)?);
        let cells = self.columns.iter();
        let cells = cells.map(|column| cells_behind(context, &self.from, column));
        let cells: Vec<(&Frame, String)> = cells.collect::<Result<_, _>>()?;
        let mut judge = Judge::new(context)?;
        let unlike = self.unlike(&mut judge, &tests, units);
        let lost = self.lost(&mut judge, &tests, units)?;
        let steps = self.steps(&mut judge, &tests, units)?;
        let row = |((((mut test, adjusted), unlike), lost), steps): Decided<T>| {
            let uneven = self.uneven(from, &test);
            let column = test.column;
            let (refused, note) = self.unlike_levels(from, alike, &test);
            if let Some(unlike) = &unlike {
                test.lineage.extend(unlike.samples.iter().cloned());
                test.lineage.sort();
            }
            let reason = unlike.as_ref().map(Unlike::reason);
            if let Some(uneven) = uneven {
                // Its interval would also be biased.
                test.effect = Err(uneven);
            }
            if let Some(refused) = refused.filter(|_| test.effect.is_err()) {
                test.effect = Err(refused.to_owned());
            }
            let biased = test.effect.as_ref().err().cloned();
            let reason = reason.or(biased);
            let mut judged = self.judge(test, adjusted, reason.as_deref(), (from, units));
            let (cells, name) = &cells[column];
            self.with_losses((from, (cells, name)), units, &mut judged);
            let doubt = judged.test.doubt.take();
            for note in note
                .into_iter()
                .chain(doubt.filter(|_| judged.test.effect.is_ok()))
            {
                judged.add_reason(&note);
            }
            if let Some(lost) = lost {
                self.with_lost_requests(from, &lost, &mut judged);
            }
            if let Some(steps) = steps {
                self.with_clock_steps(&steps, &mut judged);
            }
            self.with_missing_levels(&mut judged);
            let extremes = judged.test.extremes.as_ref();
            let opposite = extremes.and_then(|extremes| extremes.note(self));
            if let Some(note) = opposite.filter(|_| judged.verdict.0 != Verdict::Undecidable) {
                judged.add_reason(&note);
            }
            if matches!(judged.verdict.0, Verdict::Different | Verdict::Equivalent) {
                let (a, b) = self.pair.labels();
                let sides = (self.pair.axis.as_str(), [a.as_str(), b.as_str()]);
                let rows = &judged.test.lineage;
                if let Some(order) = judge.out_of_turn(sides, units.axes(), rows) {
                    judged.add_reason(&order.note());
                    judged.test.lineage.extend(order.starts);
                    judged.test.lineage.sort();
                }
            }
            let mut key = judged.test.stratum.clone();
            key.push(text(&self.columns[judged.test.column]));
            columns.row(key, &judged, judged.test.lineage.clone())
        };
        let tests = tests
            .into_iter()
            .zip(adjusted)
            .zip(unlike)
            .zip(lost)
            .zip(steps);
        let rows = tests.map(row).collect();
        let mut keys = self.by.clone();
        keys.push("metric".to_owned());
        let level = if self.by.is_empty() {
            Level::Pooled
        } else {
            Level::Marginal
        };
        Ok(Frame {
            level,
            keys,
            specs: columns.specs(),
            rows,
            missing,
        })
    }

    /// Tests for each comparison whether its sides were measured under the same conditions: over all cells behind the
    /// table, where small differences show, then over its own cells.
    fn unlike<T>(
        &self,
        judge: &mut Judge<'_>,
        tests: &[Compared<T>],
        units: &Units,
    ) -> Vec<Option<Unlike>> {
        let (a, b) = self.pair.labels();
        let asked = Asked {
            axis: &self.pair.axis,
            labels: &[a, b],
            unit: units.axes(),
            may_differ: &self.conditions_may_differ,
        };
        let whole = judge.unlike(&asked, tests.iter().flat_map(|t| &t.lineage));
        let why = |test: &Compared<T>| {
            whole
                .clone()
                .or_else(|| judge.unlike(&asked, &test.lineage))
        };
        tests.iter().map(why).collect()
    }

    /// Counts for each comparison the requests that its sides lost within their cells.
    fn lost<T>(
        &self,
        judge: &mut Judge<'_>,
        tests: &[Compared<T>],
        units: &Units,
    ) -> Result<Vec<Option<LostRequests>>, Failure> {
        let (a, b) = self.pair.labels();
        let mut decide = |test: &Compared<T>| {
            let column = (self.columns[test.column].as_str(), self.scale);
            judge.lost(
                (&self.pair.axis, [&a, &b]),
                units.axes(),
                column,
                &test.lineage,
            )
        };
        tests.iter().map(&mut decide).collect()
    }

    /// Bounds for each comparison how far the steps in which its sides recorded times could move its effect.
    fn steps<T>(
        &self,
        judge: &mut Judge<'_>,
        tests: &[Compared<T>],
        units: &Units,
    ) -> Result<Vec<Option<UnlikeSteps>>, Failure> {
        let (a, b) = self.pair.labels();
        let mut bound = |test: &Compared<T>| {
            let column = (self.columns[test.column].as_str(), self.scale);
            judge.steps(
                (&self.pair.axis, [&a, &b]),
                units.axes(),
                column,
                &test.lineage,
            )
        };
        tests.iter().map(&mut bound).collect()
    }

    fn judge<T>(
        &self,
        test: Compared<T>,
        adjusted: Adjusted,
        unlike: Option<&str>,
        (from, units): (&Frame, &Units),
    ) -> Judged<T> {
        let name = &self.columns[test.column];
        let case = self.case(&test, &adjusted, unlike);
        let margin = case.margin;
        let verdict = case.judge();
        // An effect that cannot be judged cannot be shown to be equivalent either.
        let equivalence = case
            .equivalence()
            .filter(|_| verdict.0 != Verdict::Undecidable);
        Judged {
            unit: from.spec(name).and_then(|spec| spec.unit.clone()),
            replication: units.words(),
            margin,
            equivalence,
            ends: case.ends(),
            smallest_detectable: case.smallest_detectable(),
            rounded: (0.0, 0.0),
            verdict,
            adjusted,
            test,
        }
    }
}

impl Terms {
    fn case<'a, T>(
        &self,
        test: &'a Compared<T>,
        adjusted: &Adjusted,
        unlike: Option<&'a str>,
    ) -> Case<'a> {
        Case {
            effect: test.effect.as_ref().map_err(String::as_str),
            decision: adjusted.decision,
            scale: self.scale,
            margin: self.margin.get(&self.columns[test.column]).copied(),
            alpha: self.alpha,
            mean: test.mean,
            unlike,
            looks: self.looks,
            delta: test.delta,
            least: test.least,
            leaning: test.leaning,
            labels: test.labels,
        }
    }

    /// Returns the case of a comparison whose effect were another, decided at the same level.
    pub(super) fn worst_case<'a, T>(
        &self,
        judged: &'a Judged<T>,
        effect: &'a UnitEffect,
    ) -> Case<'a> {
        let decided = |decision: HolmDecision| HolmDecision {
            rejected: self.looks.p(effect) <= decision.alpha,
            ..decision
        };
        Case {
            effect: Ok(effect),
            decision: judged.adjusted.decision.map(decided),
            mean: Some(effect.mean),
            ..self.case(&judged.test, &judged.adjusted, None)
        }
    }
}

impl<T> Judged<T> {
    /// Adds a sentence to the reason of the verdict.
    pub(super) fn add_reason(&mut self, sentence: &str) {
        let before = self.verdict.1.take();
        self.verdict.1 = Some(match before {
            Some(reason) => format!("{reason}; {sentence}"),
            None => sentence.to_owned(),
        });
    }
}

/// A decided test, the conditions in which its sides differ, the requests that they lost, and the steps of their times.
type Decided<T> = (
    (
        ((Compared<T>, Adjusted), Option<Unlike>),
        Option<LostRequests>,
    ),
    Option<UnlikeSteps>,
);

/// Returns the position, among the keys, of an axis that a setting names.
///
/// # Errors
/// If the axis is not a key; the error names the nearest.
pub(crate) fn position(setting: &str, axis: &str, keys: &[String]) -> Result<usize, Failure> {
    keys.iter().position(|k| k == axis).ok_or_else(|| {
        Failure::failed(format!(
            "`{setting}` names `{axis}`, which is not a key after pairing"
        ))
        .hint(remedy(axis, "keys", keys))
    })
}
