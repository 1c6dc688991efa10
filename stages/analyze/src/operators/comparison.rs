//! Code shared by paired and unpaired comparisons: settings, columns, families and verdicts.

use std::collections::BTreeMap;

use artifacts::Scalar;
use contract::{IntervalEnd, Verdict};
use pipeline::suggest::remedy;
use pipeline::{Failure, Problem, Step};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Bootstrap, BootstrapKind, GENERATOR, HolmDecision, Interval, UnitEffect};

use crate::columns::{Columns, Value};
use crate::frame::{Frame, Level, Missing, SourceRows, Spec, text};
use crate::lost_requests::LostRequests;
use crate::operator::{Context, Draft};
use crate::operators::family::{Adjusted, Asked as Question, Family, Hypothesis};
use crate::operators::looks::{self, Looks};
use crate::operators::pairs::Sides;
use crate::operators::units::{Scale, Units, outward};
use crate::operators::verdict::{Case, Ends, VERDICTS};
use crate::surroundings::{self, Asked, Judge, Unlike};

/// The settings of both kinds of comparison.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Terms {
    /// The table that holds both sides.
    pub(crate) from: String,
    /// The two sides: axis and labels.
    pub(crate) pair: Sides,
    /// Axes compared separately, one row each.
    #[serde(default)]
    pub(crate) by: Vec<String>,
    /// The columns compared, one row each.
    pub(crate) columns: Vec<String>,
    /// The axes whose labels are the units of replication, that is, separate starts. By default
    /// `block`, if the table has it. Values within a unit are averaged. Without units, every
    /// verdict is `undecidable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unit: Option<Vec<String>>,
    /// The scale of the effect: `ratio` needs values above 0, `difference` takes any.
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
    /// How often the study looks at its data. A design with `until` sets this.
    #[serde(default, skip_serializing_if = "Looks::is_once")]
    pub(crate) looks: Looks,
    /// The tests that share the level with those of this table, for the adjustment of p values and
    /// intervals.
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
    /// The number of resamples, of a bootstrap or of a permutation that is not enumerated.
    #[serde(default = "resamples")]
    pub(crate) resamples: u32,
    /// The seed of resamples; by default, that of the experiment.
    #[serde(default)]
    pub(crate) seed: Option<u64>,
}

/// Whether rank tests are corrected for continuity.
pub(crate) fn corrected() -> bool {
    true
}

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
    /// Whether the interval of the effect is the inverse of the deciding test.
    pub(crate) inverts: bool,
    /// The p value of the deciding test.
    pub(crate) p: Option<f64>,
    /// The smallest p value that the test can reach with this many units, if it is a test of ranks or signs.
    pub(crate) least: Option<f64>,
    pub(crate) bootstrap: Option<Interval>,
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
}

impl Terms {
    /// Checks the settings.
    ///
    /// # Errors
    /// Every problem found.
    pub(crate) fn check(&self, draft: &Draft<'_>) -> Result<(), Vec<Problem>> {
        draft.columns(&self.from, &self.columns)?;
        let mut problems = draft.shares(&[("alpha", self.alpha)]);
        problems.extend(surroundings::problems(draft, &self.conditions_may_differ));
        if self.resamples < 100 {
            let message = "a bootstrap needs at least 100 resamples";
            problems.push(draft.problem("resamples", message));
        }
        for (name, margin) in &self.margin {
            let place = [Step::Key("margin".to_owned()), Step::Key(name.clone())];
            if !self.columns.contains(name) {
                let message = format!("`{name}` is not among the columns compared");
                let problem = draft.settings.problem(&place, message);
                problems.push(problem.hint(remedy(name, "compared columns", &self.columns)));
            }
            if !(*margin > 0.0 && margin.is_finite()) {
                let message = "a margin must be a positive number";
                problems.push(draft.settings.problem(&place, message));
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

    /// The first columns: the metric and its sides.
    pub(crate) fn sides<'a, T>(&self) -> Columns<'a, Judged<T>> {
        let (a, b) = self.pair.labels();
        let unit = "the axes whose labels are the units of replication, or `declared` if the \
            settings name them; null without any";
        Columns::new()
            .with(
                Spec::text("unit", "the unit of the metric"),
                |j: &Judged<T>| j.unit.clone(),
            )
            .with(
                Spec::text("a", "the first side; deltas are a − b, ratios a ÷ b"),
                move |_| a.clone(),
            )
            .with(Spec::text("b", "the second side, the base"), move |_| {
                b.clone()
            })
            .with(Spec::text("unit_of_replication", unit), |j| {
                j.replication.clone()
            })
    }

    /// The columns of the effect and its intervals.
    pub(crate) fn effect<'a, T: 'a>(
        &self,
        columns: Columns<'a, Judged<T>>,
    ) -> Columns<'a, Judged<T>> {
        let (scale, alpha) = (self.scale, self.alpha);
        let level = 1.0 - alpha;
        let (a, b) = self.pair.labels();
        let sided = |spec: Spec| match scale {
            Scale::Ratio => spec.over(&a, &b),
            Scale::Difference => spec,
        };
        let float = |name: &str, what: String| match scale {
            Scale::Ratio => sided(Spec::float(name, "1", what)),
            Scale::Difference => sided(Spec::float(name, "", what)),
        };
        let effect = match scale {
            Scale::Ratio => "geometric mean over the units of a ÷ b",
            Scale::Difference => "mean over the units of a − b, in the metric's unit",
        };
        let own = |which: IntervalEnd| {
            which.of(format!(
                "the {level} interval of this effect alone; null if the deciding \
                test has none"
            ))
        };
        let adjusted = |which: IntervalEnd| {
            which.of(format!("the interval at the level of this test's step in its family: it excludes no effect exactly where holm_p is at most {alpha}"))
        };
        let looks = self.looks;
        let interval = move |j: &Judged<T>, level: f64| {
            let effect = j.test.effect.as_ref().ok().filter(|_| j.test.inverts)?;
            let alpha = looks.level(effect.n, 1.0 - level)?;
            Some(outward(scale, effect, 1.0 - alpha))
        };
        let stepped = move |j: &Judged<T>| interval(j, 1.0 - j.adjusted.decision?.alpha);
        columns
            .with(
                Spec::text(
                    "scale",
                    "ratio or difference: of effect, intervals and margin",
                ),
                move |_| scale.word(),
            )
            .with(float("effect", effect.to_owned()), move |j| {
                j.test.mean.map(|mean| scale.outward(mean))
            })
            .with(float("ci_low", own(IntervalEnd::Lower)), move |j| {
                interval(j, level).map(|i| i.low)
            })
            .with(float("ci_high", own(IntervalEnd::Upper)), move |j| {
                interval(j, level).map(|i| i.high)
            })
            .with(
                float("adjusted_low", adjusted(IntervalEnd::Lower)),
                move |j| stepped(j).map(|i| i.low),
            )
            .with(
                float("adjusted_high", adjusted(IntervalEnd::Upper)),
                move |j| stepped(j).map(|i| i.high),
            )
            .with(
                Spec::text(
                    "ci_method",
                    "how both intervals were made, or why there are none",
                ),
                move |j| {
                    let effect = match &j.test.effect {
                        Ok(effect) if j.test.inverts => effect,
                        Ok(_) => return Some("none: a test of ranks or signs decides".to_owned()),
                        Err(why) => return Some(format!("none: {why}")),
                    };
                    let (n, df) = (effect.n, super::units::short(effect.df));
                    let holds = match looks {
                        Looks::Once => "",
                        Looks::AfterEachBlock => ", holds at every look",
                    };
                    Some(format!("t over {n} units, {df} degrees of freedom{holds}"))
                },
            )
    }

    /// The columns of the p values.
    pub(crate) fn p<'a, T: 'a>(columns: Columns<'a, Judged<T>>) -> Columns<'a, Judged<T>> {
        let p = "two-sided p value of the deciding test; null if undefined";
        let bh = "p adjusted by Benjamini and Hochberg within the table, of a family per column within the column, for screening";
        let level = "the two-sided level of this test: its share of the family's level";
        columns
            .with(Spec::float("p", "1", p), |j| j.test.p)
            .with(
                Spec::float(
                    "holm_p",
                    "1",
                    "p adjusted by Holm's step-down within the family, weighted where several tables share the level",
                ),
                |j| j.adjusted.decision.map(|d| d.adjusted_p),
            )
            .with(Spec::float("bh_p", "1", bh), |j| j.adjusted.bh)
            .with(
                Spec::text("family", "the family of tests, its level and its size"),
                |j| j.adjusted.family.clone(),
            )
            .with(Spec::float("family_level", "1", level), |j| {
                j.adjusted.decision.map(|d| d.alpha)
            })
            .with(Spec::int("family_size", "1", "tests in the family"), |j| {
                j.adjusted.decision.map(|d| d.family)
            })
    }

    /// The columns for each end of the margin.
    fn ends<'a, T: 'a>(&self, columns: Columns<'a, Judged<T>>) -> Columns<'a, Judged<T>> {
        let scale = self.scale;
        let (a, b) = self.pair.labels();
        let (unit, sided) = match scale {
            Scale::Ratio => ("1", true),
            Scale::Difference => ("", false),
        };
        let bound = |which: &str| {
            let what = format!(
                "{which} one-sided bound of this effect alone, of level {}; null without a margin",
                1.0 - self.alpha
            );
            let spec = Spec::float(format!("bound_{}", &which[..which.len() - 2]), unit, what);
            if sided { spec.over(&a, &b) } else { spec }
        };
        let shown = |word: &str, opposite: &str| {
            format!(
                "whether a is shown not to be {word} than b by more than the margin: true if bound_{opposite} lies within \
                 it, false if a is shown to be {word} by more, null if neither is shown"
            )
        };
        let p = |word: &str| {
            format!(
                "the one-sided p value of \"a is {word} than b by the margin or more\"; null without a margin"
            )
        };
        columns
            .with(bound("lower"), move |j| {
                j.ends.map(|e| scale.outward(e.bounds.low))
            })
            .with(bound("higher"), move |j| {
                j.ends.map(|e| scale.outward(e.bounds.high))
            })
            .with(Spec::float("not_lower_p", "1", p("lower")), |j| {
                j.ends.map(|e| e.not_lower.p)
            })
            .with(Spec::boolean("not_lower", shown("lower", "low")), |j| {
                j.ends.and_then(|e| e.not_lower.shown)
            })
            .with(Spec::float("not_higher_p", "1", p("higher")), |j| {
                j.ends.map(|e| e.not_higher.p)
            })
            .with(Spec::boolean("not_higher", shown("higher", "high")), |j| {
                j.ends.and_then(|e| e.not_higher.shown)
            })
    }

    /// The last columns.
    pub(crate) fn decision<'a, T: 'a>(
        &self,
        mut columns: Columns<'a, Judged<T>>,
    ) -> Columns<'a, Judged<T>> {
        let (a, b) = self.pair.labels();
        let of = match self.scale {
            Scale::Ratio => "as a share",
            Scale::Difference => "in the metric's unit",
        };
        let unit = if self.scale == Scale::Ratio { "1" } else { "" };
        let margin = format!("the declared margin, {of}; null if none");
        let equivalence =
            "the larger p of two one-sided t tests against the margin; null without one";
        let equivalent = format!(
            "whether equivalence_p < {}: the interval of level {} lies within the margin; null without a margin",
            self.alpha,
            1.0 - 2.0 * self.alpha
        );
        let smallest = format!(
            "the smallest true effect that this number of units with this spread finds in 80 % \
            of studies, {of}; null if a test of ranks or signs decides"
        );
        columns = self
            .ends(columns)
            .with(
                Spec::text(
                    "higher",
                    "the side that is higher by the effect; null if equal",
                ),
                move |j| {
                    let effect = j.test.mean.or(j.test.delta).filter(|d| *d != 0.0)?;
                    Some(if effect > 0.0 { a.clone() } else { b.clone() })
                },
            )
            .with(Spec::float("margin", unit, margin), |j| j.margin)
            .with(Spec::float("equivalence_p", "1", equivalence), |j| {
                j.equivalence.map(|(p, _)| p)
            })
            .with(Spec::boolean("equivalent", equivalent), |j| {
                j.equivalence.map(|(_, shown)| shown)
            })
            .with(Spec::float("smallest_detectable", unit, smallest), |j| {
                j.smallest_detectable
            })
            .with(Spec::text("verdict", VERDICTS), |j| j.verdict.0.word())
            .with(
                Spec::text(
                    "verdict_reason",
                    "why the verdict is that, or what limits it",
                ),
                |j| j.verdict.1.clone(),
            );
        if let Some(bootstrap) = self.bootstrap(0) {
            let (level, kind) = (bootstrap.level, bootstrap.kind.word());
            let seed = self.seed;
            let resamples = self.resamples;
            let end = |which: IntervalEnd| {
                which.of(format!(
                    "the {level} bootstrap interval of mean_delta; it decides nothing"
                ))
            };
            columns.push(
                Spec::float("bootstrap_low", "", end(IntervalEnd::Lower)),
                |j: &Judged<T>| j.test.bootstrap.map(|i| i.low),
            );
            columns.push(
                Spec::float("bootstrap_high", "", end(IntervalEnd::Upper)),
                |j: &Judged<T>| j.test.bootstrap.map(|i| i.high),
            );
            columns.push(
                Spec::text(
                    "bootstrap_method",
                    "kind of bootstrap interval, resamples of units, generator and seed",
                ),
                move |_| {
                    let seed =
                        seed.map_or_else(|| "of the experiment".to_owned(), |s| s.to_string());
                    format!("{kind}, {resamples} resamples of units, {GENERATOR}, seed {seed}")
                },
            );
        }
        columns
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
        units: &Units,
        missing: Vec<Missing>,
    ) -> Result<Frame, Failure> {
        let from = context.table(&self.from)?;
        let mut judge = Judge::new(context)?;
        let unlike = self.unlike(&mut judge, &tests, units);
        let lost = self.lost(&mut judge, &tests, units)?;
        let row = |(((mut test, adjusted), unlike), lost): Decided<T>| {
            let uneven = self.uneven(from, &test);
            if let Some(unlike) = &unlike {
                test.lineage.extend(unlike.samples.iter().cloned());
                test.lineage.sort();
            }
            let reason = unlike.as_ref().map(Unlike::reason);
            if let Some(uneven) = uneven {
                // Its interval would also be biased.
                test.effect = Err(uneven);
            }
            let biased = test.effect.as_ref().err().cloned();
            let reason = reason.or(biased);
            let mut judged = self.judge(test, adjusted, reason.as_deref(), (from, units));
            self.with_losses(from, units, &mut judged);
            if let Some(lost) = lost {
                self.with_lost_requests(from, &lost, &mut judged);
            }
            let mut key = judged.test.stratum.clone();
            key.push(text(&self.columns[judged.test.column]));
            columns.row(key, &judged, judged.test.lineage.clone())
        };
        let tests = tests.into_iter().zip(adjusted).zip(unlike).zip(lost);
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
        let of = |test: &Compared<T>| {
            whole
                .clone()
                .or_else(|| judge.unlike(&asked, &test.lineage))
        };
        tests.iter().map(of).collect()
    }

    /// Counts for each comparison the requests that its sides lost within their cells.
    fn lost<T>(
        &self,
        judge: &mut Judge<'_>,
        tests: &[Compared<T>],
        units: &Units,
    ) -> Result<Vec<Option<LostRequests>>, Failure> {
        let (a, b) = self.pair.labels();
        let mut of = |test: &Compared<T>| {
            let column = (self.columns[test.column].as_str(), self.scale);
            judge.lost(
                (&self.pair.axis, [&a, &b]),
                units.axes(),
                column,
                &test.lineage,
            )
        };
        tests.iter().map(&mut of).collect()
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

/// A decided test, the conditions in which its sides differ, and the requests that they lost.
type Decided<T> = (
    ((Compared<T>, Adjusted), Option<Unlike>),
    Option<LostRequests>,
);

/// Adapts a column that only one kind of comparison has.
pub(crate) fn own<T, V: Value>(read: impl Fn(&T) -> V) -> impl Fn(&Judged<T>) -> V {
    move |judged| read(&judged.test.own)
}

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
