//! `unpaired-comparison`: is one side better than the other, when nothing pairs them?

use artifacts::Scalar;
use pipeline::suggest::remedy;
use pipeline::{Failure, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{
    Continuity, PermutationTest, Sample, UnitEffect, cliffs_delta, cohens_d, hedges_g,
    indirect_effect, mann_whitney_u, permutation_tails_welch, permutation_test_means,
    permutation_test_welch, pooled_t,
};

use crate::columns::{Columns, missing_spec};
use crate::frame::{Spec, spans};
use crate::operator::{Context, Draft, TypedOperator, items};
use crate::operators::alike::Alike;
use crate::operators::comparison::{Compared, Judged, Terms, corrected, own};
use crate::operators::family::Pending;
use crate::operators::one_launch;
use crate::operators::pairs::all_declared;
use crate::operators::resemblance::Doubt;
use crate::operators::units::Units;
use crate::operators::verdict::{LabelEnds, Labels};

pub(crate) mod groups;
mod sides;

use groups::{Groups, is_nested};
use sides::{Side, SideData};

pub(crate) struct UnpairedComparison;

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Parameters {
    #[serde(flatten)]
    terms: Terms,
    /// Axes whose rows together form a side, including the unit axes.
    over: Vec<String>,
    /// The test whose adjusted p value decides.
    #[serde(default)]
    test: Test,
    /// Whether Mann–Whitney's normal approximation, used for large groups, is corrected for continuity.
    #[serde(default = "corrected")]
    continuity_correction: bool,
}

/// A test of two independent groups of units.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Test {
    /// Welch's t of the units' values, on the scale.
    #[default]
    WelchT,
    /// Student's t with pooled variance.
    StudentT,
    /// The ranks of the units' values.
    MannWhitney,
    /// All choices of the labels of the units.
    Permutation,
}

impl Test {
    fn word(self) -> &'static str {
        match self {
            Self::WelchT => "welch-t",
            Self::StudentT => "student-t",
            Self::MannWhitney => "mann-whitney",
            Self::Permutation => "permutation of labels",
        }
    }
}

/// The part specific to an unpaired comparison.
struct Unpaired {
    a: Option<Sample>,
    b: Option<Sample>,
    /// The number of units of replication on each side.
    n: [usize; 2],
    test: String,
    statistic: Option<f64>,
    df: Option<f64>,
    permutation_p: Option<f64>,
}

impl Unpaired {
    fn both(&self) -> Option<(&Sample, &Sample)> {
        self.a.as_ref().zip(self.b.as_ref())
    }
}

fn columns(given: &Parameters) -> Columns<'static, Judged<Unpaired>> {
    let terms = &given.terms;
    let (a, b) = terms.pair.labels();
    let mean = |side: &str| format!("mean of {side} over its units, in the metric's unit");
    let units = |side: &str| format!("units of replication of {side}");
    let exact = "two-sided p value over all assignments of the units' labels, on the scale; \
        needs launches in a fully random order; null for more than a million assignments, and if units resemble each other";
    let columns = terms
        .sides()
        .with(Spec::int("n_a", "1", units(&a)), own(|u: &Unpaired| u.n[0]))
        .with(Spec::int("n_b", "1", units(&b)), own(|u: &Unpaired| u.n[1]))
        .with(missing_spec(), |j: &Judged<Unpaired>| {
            j.test.missing.clone()
        })
        .with(
            Spec::float("mean_a", "", mean(&a)),
            own(|u: &Unpaired| u.a.as_ref().map(Sample::mean)),
        )
        .with(
            Spec::float("mean_b", "", mean(&b)),
            own(|u: &Unpaired| u.b.as_ref().map(Sample::mean)),
        )
        .with(
            Spec::float("mean_delta", "", "mean_a − mean_b, in the metric's unit"),
            |j| j.test.delta,
        );
    let columns = terms
        .extremes(terms.effect(columns))
        .with(
            Spec::text("test", "the test that decides, and its distribution"),
            own(|u: &Unpaired| u.test.clone()),
        )
        .with(
            Spec::float("statistic", "1", "t, or U of a; null for permutation"),
            own(|u: &Unpaired| u.statistic),
        )
        .with(
            Spec::float(
                "df",
                "1",
                "degrees of freedom of t; null for the other tests",
            ),
            own(|u: &Unpaired| u.df),
        );
    let columns = Terms::p(columns)
        .with(
            Spec::float("permutation_p", "1", exact),
            own(|u: &Unpaired| u.permutation_p),
        )
        .with(
            Spec::float(
                "cohens_d",
                "1",
                "mean_delta ÷ pooled standard deviation of the units; null without spread",
            ),
            own(|u: &Unpaired| u.both().and_then(|(a, b)| cohens_d(a, b))),
        )
        .with(
            Spec::float(
                "hedges_g",
                "1",
                "cohens_d with the exact small-sample factor",
            ),
            own(|u: &Unpaired| u.both().and_then(|(a, b)| hedges_g(a, b))),
        )
        .with(
            Spec::float(
                "cliffs_delta",
                "1",
                "P(a > b) − P(a < b) over all pairs of units",
            ),
            own(|u: &Unpaired| u.both().map(|(a, b)| cliffs_delta(a, b))),
        );
    terms.decision(columns)
}

impl TypedOperator for UnpairedComparison {
    type Parameters = Parameters;
    type Made = Pending;
    const NAME: &'static str = "unpaired-comparison";
    const SUMMARY: &'static str = "Two sides whose units of replication are independent: effect with interval, adjusted p, smallest detectable effect, verdict.";
    const SOURCE: &'static str = "\
        If both sides were started in the same blocks, `paired-comparison` finds smaller differences. Every key must \
        be in `over`, `by` or `pair`; otherwise, Benchtrail refuses the table.\n\n\
        **Units.** The operator averages the rows of a unit to one value, on the chosen scale. It uses only \
        coordinates that both sides have, and compares each row with the mean of its coordinate, so a missing \
        coordinate does not shift its unit. It ignores an axis if most of its labels occur in a single unit, or if \
        most units have a single label of it, as launches have a day. If the sides have more than 15 % of their units \
        at different labels of such a day, it refuses a verdict.\n\n\
        **Test.** Welch's t (Biometrika 34, 1947) of the units' logarithms or values, with at least three units on \
        each side. Its interval inverts the test. For rounded values, the variance of rounding is added to the \
        spread. The table also has the exact p over all assignments of labels.\n\n\
        **Unequal numbers of units.** A t test of few against many skewed launches finds too much. If one side has at \
        least twice as many units, `different`, `equivalent` and the ends of the margin therefore also need Welch's t \
        over random assignments of labels.\n\n\
        **Other tests.** For published data, you can choose another test: Student with pooled variance; Mann–Whitney \
        as in scipy.stats.mannwhitneyu, exact if feasible (two sides of 40), ties included; or a permutation of \
        labels, enumerated up to a million assignments, else (hits + 1) ÷ (resamples + 1). These have no interval.";

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        given.terms.check(draft)?;
        let mut problems = Vec::new();
        for (place, axis) in items("unit", given.terms.unit.as_deref().unwrap_or_default()) {
            if !given.over.iter().any(|over| over == axis) {
                let message = format!("`{axis}` is not among `over`");
                let problem = draft.settings.problem(&place, message);
                problems.push(problem.hint(remedy(axis, "axes in `over`", &given.over)));
            }
        }
        crate::operator::unless(problems, || columns(given).specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Pending, Failure> {
        let terms = &given.terms;
        terms.holds(Self::NAME, given.test.word())?;
        let from = context.table(&terms.from)?;
        let sides = [terms.pair.axis.clone()];
        all_declared(from, &terms.from, &[&terms.by, &given.over, &sides])?;
        let units = Units::of(terms.unit.as_deref(), from, &terms.from)?;
        if let Some(apart) = units.axes().iter().find(|axis| !given.over.contains(axis)) {
            return Err(Failure::failed(format!(
                "the unit `{apart}` is not in `over`, so each row would have a single unit"
            )));
        }
        let axis = from.key_position(&terms.pair.axis, &terms.from)?;
        let by = from.key_positions(&terms.by, &terms.from)?;
        terms.pair.check(from, axis)?;
        let unit = from.key_positions(units.axes(), &terms.from)?;
        let others = given
            .over
            .iter()
            .filter(|axis| !units.axes().contains(axis));
        let within = from.key_positions(&others.cloned().collect::<Vec<_>>(), &terms.from)?;
        let (nested, within): (Vec<usize>, Vec<usize>) = within
            .into_iter()
            .partition(|axis| is_nested(from, *axis, &unit));
        let (a, b) = terms.pair.labels();
        let apart = unit.iter().chain(&nested).map(|at| from.keys[*at].clone());
        let apart: Vec<String> = apart.collect();
        let alike = Alike::of_pair(context, (&terms.from, &terms.columns), &terms.pair, &apart)?;
        let from = alike.frame();
        let mut tests = Vec::new();
        for (stratum, members) in from.groups(&by) {
            let on = |label: &str| -> Vec<usize> {
                let rows = members.iter().copied();
                rows.filter(|row| from.rows[*row].key[axis].to_string() == label)
                    .collect()
            };
            let rows = [on(&a), on(&b)];
            // The last unit axis numbers the units within the others.
            let around = unit.split_last().map_or(&[][..], |(_, around)| around);
            let unlike = nested.iter().chain(around).find_map(|axis| {
                let groups = rows
                    .each_ref()
                    .map(|rows| Groups::of(from, rows, *axis, &unit));
                Groups::refusal(groups.each_ref(), [&a, &b], &from.keys[*axis])
            });
            for column in 0..terms.columns.len() {
                context.control.check()?;
                let source = SideData {
                    from,
                    column: &terms.columns[column],
                    scale: terms.scale,
                    unit: &unit,
                    units: &units,
                    within: &within,
                };
                let both = source.sides(&rows);
                let doubt = source.doubt(&both, &nested);
                let rule = (doubt.is_some(), terms.looks, terms.alpha);
                let extremes = source.extremes(&both, rule);
                let widening = source.widening(&both);
                let reweighed = source.reweighed(&both);
                let missing = from.missing_at(&terms.by, &stratum);
                let place = (stratum.clone(), column, missing);
                let refusal = unlike.clone();
                let test = compare(
                    given,
                    place,
                    both,
                    (&units, refusal),
                    (doubt, widening, context.seed),
                );
                tests.push(Compared {
                    extremes,
                    reweighed,
                    ..test
                });
            }
        }
        one_launch::note(context, &terms.pair.axis, units.axes(), &mut tests)?;
        let missing = from.missing.clone();
        let (given, alike) = (given.clone(), alike.kept());
        let question = given.terms.question(&tests);
        Ok(Pending::new(question, move |adjusted, context| {
            let (decided, columns) = ((tests, adjusted), columns(&given));
            given
                .terms
                .table(context, decided, &columns, (&units, &alike), missing)
        }))
    }
}

/// The number of random assignments of units to sides of unlike sizes.
const ASSIGNMENTS: usize = 1_999;

/// The number of ways to deal `a` + `b` units to two sides.
fn assignments(a: usize, b: usize) -> f64 {
    (1..=a).map(|i| (b + i) as f64 / i as f64).product()
}

fn effect(
    [a, b]: [&Side; 2],
    units: &Units,
    (doubt, widening): (Option<&Doubt>, f64),
) -> Result<UnitEffect, String> {
    if units.is_none() {
        return Err(units.none());
    }
    let side = |side: &Side| {
        let refusal = || side.refusal.clone().unwrap_or_default();
        let inward = side.inward.as_ref().ok_or_else(refusal)?;
        units.effect(inward, side.rounding)
    };
    let (a, b) = (side(a)?, side(b)?);
    match doubt {
        Some(doubt) => doubt.effect(&[a, b]),
        None => Ok(indirect_effect(&a, &b).widened(widening)),
    }
}

/// The result of the chosen test.
#[derive(Default)]
struct Tested {
    /// The test with its method.
    name: String,
    statistic: Option<f64>,
    df: Option<f64>,
    p: Option<f64>,
}

fn tested(
    given: &Parameters,
    effect: Option<&UnitEffect>,
    both: Option<(&Sample, &Sample)>,
    permuted: Option<&PermutationTest>,
) -> Tested {
    let name = given.test.word().to_owned();
    let tested = match given.test {
        Test::WelchT => effect.map(|e| (Some(e.t), Some(e.df), e.p)),
        Test::StudentT => {
            let t = both.and_then(|(a, b)| pooled_t(a, b));
            t.map(|t| (Some(t.t), Some(t.df), t.p))
        }
        Test::MannWhitney => {
            let continuity = if given.continuity_correction {
                Continuity::Corrected
            } else {
                Continuity::None
            };
            let ranks = both.and_then(|(a, b)| mann_whitney_u(a, b, continuity));
            if let Some(ranks) = ranks {
                return Tested {
                    name: format!("{name}, {}", ranks.method.word()),
                    statistic: Some(ranks.u),
                    df: None,
                    p: Some(ranks.p),
                };
            }
            None
        }
        Test::Permutation => permuted.map(|permuted| (None, None, permuted.p)),
    };
    let (statistic, df, p) = tested.map_or((None, None, None), |(s, df, p)| (s, df, Some(p)));
    Tested {
        name,
        statistic,
        df,
        p,
    }
}

/// Returns the tail probabilities of Welch's t over assignments of labels, with the effect at either end of the margin.
fn label_ends((a, b): (&Sample, &Sample), margin: f64, seed: u64) -> Option<LabelEnds> {
    let tails = |by: f64| {
        let a: Vec<f64> = a.values().iter().map(|v| v + by).collect();
        permutation_tails_welch(&a, b.values(), ASSIGNMENTS, seed)
    };
    let ([below, above], [under, over]) = tails(margin).zip(tails(-margin))?;
    Some(LabelEnds {
        low: [above, below],
        high: [under, over],
    })
}

fn compare(
    given: &Parameters,
    (stratum, column, missing): (Vec<Scalar>, usize, Scalar),
    [a, b]: [Side; 2],
    (units, refusal): (&Units, Option<String>),
    (doubt, widening, seed): (Option<Doubt>, f64, u64),
) -> Compared<Unpaired> {
    let terms = &given.terms;
    // Labels and resamples take the units for independent.
    let few = units.refusal(a.values.len().min(b.values.len()));
    let independent = refusal.is_none() && doubt.is_none() && few.is_none();
    let decides = refusal.is_none() && (doubt.is_none() || given.test == Test::WelchT);
    let effect = match refusal {
        Some(refusal) if !units.is_none() => Err(refusal),
        _ if given.test == Test::WelchT => effect([&a, &b], units, (doubt.as_ref(), widening)),
        _ => match &doubt {
            Some(doubt) => Err(doubt.refusal()),
            None => effect([&a, &b], units, (None, widening)),
        },
    };
    let doubt = doubt.filter(|_| given.test == Test::WelchT);
    let inward = a.inward.clone().zip(b.inward.clone());
    let samples = inward.as_ref().and_then(|(a, b)| {
        let sample = |values: &[f64]| Sample::new(values.iter().copied()).ok();
        sample(a).zip(sample(b))
    });
    let samples = samples.filter(|_| !units.is_none());
    let both = samples.as_ref().map(|(a, b)| (a, b));
    let permuted = both.filter(|_| independent).and_then(|(a, b)| {
        let resamples = terms.resamples as usize;
        permutation_test_means(a.values(), b.values(), resamples, terms.seed(seed))
    });
    let tested = tested(given, effect.as_ref().ok(), both, permuted.as_ref());
    let (sample_a, sample_b) = (a.sample(), b.sample());
    let of_values = sample_a.as_ref().zip(sample_b.as_ref());
    let mean = inward.and_then(|(a, b)| {
        let mean = |values: Vec<f64>| Sample::new(values).ok().map(|s| s.mean());
        Some(mean(a)? - mean(b)?)
    });
    let bootstrap = terms
        .bootstrap(seed)
        .filter(|_| independent && !units.is_none());
    let n = [&a, &b].map(|side| {
        if units.is_none() {
            0
        } else {
            side.values.len()
        }
    });
    let least = (2.0 / assignments(n[0], n[1])).min(1.0);
    let unlike = n[0].max(n[1]) >= 2 * n[0].min(n[1]) && given.test == Test::WelchT;
    let skewed = both.filter(|_| unlike);
    let studentised = skewed.and_then(|(a, b)| {
        permutation_test_welch(a.values(), b.values(), ASSIGNMENTS, terms.seed(seed))
    });
    let margin = terms.margin.get(&terms.columns[column]);
    let ends = skewed
        .zip(margin)
        .and_then(|(both, margin)| label_ends(both, terms.scale.margin(*margin), terms.seed(seed)));
    let exact = permuted.filter(|f| f.exact).map(|f| f.p);
    Compared {
        stratum,
        column,
        delta: of_values.map(|(a, b)| a.mean() - b.mean()),
        mean,
        doubt: doubt.map(|d| d.note()),
        inverts: given.test == Test::WelchT,
        effect,
        p: tested.p.filter(|_| mean.is_some() && decides),
        least: matches!(given.test, Test::MannWhitney | Test::Permutation).then_some(least),
        leaning: both
            .filter(|_| given.test == Test::MannWhitney)
            .map(|(a, b)| cliffs_delta(a, b)),
        labels: Some(Labels {
            units: n,
            least,
            p: exact,
            studentised,
            ends,
        }),
        bootstrap: bootstrap
            .zip(of_values)
            .and_then(|(bootstrap, (a, b))| bootstrap.interval_of_difference(a, b)),
        extremes: None,
        reweighed: 0.0,
        missing,
        lineage: spans(&terms.from, [a.rows, b.rows].concat()),
        own: Unpaired {
            a: sample_a,
            b: sample_b,
            n,
            test: tested.name,
            statistic: tested.statistic,
            df: tested.df,
            permutation_p: exact,
        },
    }
}
