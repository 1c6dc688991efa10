//! `paired-comparison`: is one side better than the other, over matched coordinates?

mod levels;

use artifacts::Scalar;
use pipeline::{Failure, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{
    Continuity, Method, Sample, UnitEffect, Wilcoxon, ZeroHandling, cohens_dz, paired_differences,
    rank_biserial, sign_flip_test, sign_test, wilcoxon_signed_rank,
};

use crate::columns::{Columns, missing_spec};
use crate::frame::{Frame, Level, Spec, spans};
use crate::operator::{Context, Draft, TypedOperator};
use crate::operators::alike::Alike;
use crate::operators::comparison::{Compared, Judged, Terms, corrected, own, position};
use crate::operators::family::{Hypothesis, Pending};
use crate::operators::one_launch;
use crate::operators::pairs::{Pair, matched};
use crate::operators::repeated;
use crate::operators::resemblance::{self, Doubt};
use crate::operators::units::{Scale, Units, averaged, by_coordinate};

pub(crate) struct PairedComparison;

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Parameters {
    #[serde(flatten)]
    terms: Terms,
    /// Axes averaged on each side, over the labels that both sides have, before pairing; every other key is matched.
    #[serde(default)]
    average: Vec<String>,
    /// The test whose adjusted p value decides.
    #[serde(default)]
    test: Test,
    /// How Wilcoxon's test treats zero deltas.
    #[serde(default)]
    zeros: Zeros,
    /// Whether the normal approximation, used for more than 200 deltas, is corrected for continuity.
    #[serde(default = "corrected")]
    continuity_correction: bool,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Zeros {
    #[default]
    Wilcox,
    Pratt,
    Zsplit,
}

/// A test of paired units.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Test {
    /// Student's t of the units' effects, on the scale.
    #[default]
    PairedT,
    /// Wilcoxon's signed ranks of the units' differences.
    Wilcoxon,
    /// The signs of the units' differences.
    Sign,
    /// All flips of the signs of the units' effects, on the scale.
    Permutation,
}

impl Test {
    fn word(self) -> &'static str {
        match self {
            Self::PairedT => "paired-t",
            Self::Wilcoxon => "wilcoxon",
            Self::Sign => "sign",
            Self::Permutation => "permutation of signs",
        }
    }
}

impl Parameters {
    fn zeros(&self) -> ZeroHandling {
        match self.zeros {
            Zeros::Wilcox => ZeroHandling::Wilcox,
            Zeros::Pratt => ZeroHandling::Pratt,
            Zeros::Zsplit => ZeroHandling::Zsplit,
        }
    }

    fn continuity(&self) -> Continuity {
        if self.continuity_correction {
            Continuity::Corrected
        } else {
            Continuity::None
        }
    }
}

/// The part specific to a paired comparison.
struct Paired {
    /// The number of units of replication.
    n: usize,
    /// The number of matched coordinates.
    pairs: usize,
    /// The mean of each side in each unit; without units, in each pair.
    units: Vec<(f64, f64)>,
    deltas: Option<Sample>,
    ratio: Option<f64>,
    wilcoxon: Option<Wilcoxon>,
    statistic: Option<f64>,
    sign_flip_p: Option<f64>,
}

impl Paired {
    fn mean(&self, side: fn(&(f64, f64)) -> f64) -> Option<f64> {
        Sample::new(self.units.iter().map(side))
            .ok()
            .map(|s| s.mean())
    }

    fn differences(&self) -> Vec<f64> {
        paired_differences(&self.units)
    }

    fn signs(&self, keep: fn(f64) -> bool) -> usize {
        self.differences().into_iter().filter(|d| keep(*d)).count()
    }
}

fn columns(given: &Parameters) -> Columns<'_, Judged<Paired>> {
    let terms = &given.terms;
    let columns = values(terms, terms.sides());
    let columns = tests(given, terms.extremes(terms.effect(columns)));
    let columns = Terms::p(columns);
    let exact = "two-sided p value of all flips of the units' signs, exact for any distribution; null for more \
        than 20 units, and if each unit resembles the one before it";
    let smallest =
        "the smallest p this number of units can give in a test of ranks or signs, 2^(1 − n)";
    let columns = columns
        .with(
            Spec::float("sign_flip_p", "1", exact),
            own(|p: &Paired| p.sign_flip_p),
        )
        .with(
            Spec::float("smallest_p", "1", smallest),
            own(|p: &Paired| (p.n > 0).then(|| 2.0_f64.powf(1.0 - p.n as f64))),
        )
        .with(
            Spec::float(
                "cohens_dz",
                "1",
                "mean delta ÷ standard deviation of the deltas; null without spread",
            ),
            own(|p: &Paired| p.deltas.as_ref().and_then(cohens_dz)),
        )
        .with(
            Spec::float(
                "rank_biserial",
                "1",
                "(W₊ − W₋) ÷ (W₊ + W₋); null if every delta is 0",
            ),
            own(|p: &Paired| rank_biserial(&p.differences())),
        )
        .with(
            Spec::int("n_a_higher", "1", "units in which a is higher"),
            own(|p: &Paired| p.signs(|d| d > 0.0)),
        )
        .with(
            Spec::int("n_b_higher", "1", "units in which b is higher"),
            own(|p: &Paired| p.signs(|d| d < 0.0)),
        )
        .with(
            Spec::int("n_equal", "1", "units in which both are equal"),
            own(|p: &Paired| p.signs(|d| d == 0.0)),
        );
    terms.decision(columns)
}

/// The columns of the compared values.
fn values<'a>(terms: &Terms, columns: Columns<'a, Judged<Paired>>) -> Columns<'a, Judged<Paired>> {
    let (a, b) = terms.pair.labels();
    let mean = |side: &str| format!("mean of {side} over the units, in the metric's unit");
    columns
        .with(
            Spec::int("n", "1", "units of replication with a value on both sides"),
            own(|p: &Paired| p.n),
        )
        .with(
            Spec::int("pairs", "1", "matched coordinates with a value on both sides, over all units"),
            own(|p: &Paired| p.pairs),
        )
        .with(missing_spec(), |j: &Judged<Paired>| j.test.missing.clone())
        .with(
            Spec::float("mean_a", "", mean(&a)),
            own(|p: &Paired| p.mean(|u| u.0)),
        )
        .with(
            Spec::float("mean_b", "", mean(&b)),
            own(|p: &Paired| p.mean(|u| u.1)),
        )
        .with(
            Spec::float("mean_delta", "", "mean of a − b over the units, in the metric's unit"),
            |j| j.test.delta,
        )
        .with(
            Spec::float(
                "median_delta",
                "",
                "median of a − b over the units, in the metric's unit",
            ),
            own(|p: &Paired| p.deltas.as_ref().map(Sample::median)),
        )
        .with(
            Spec::float(
                "geometric_mean_ratio",
                "1",
                "geometric mean of a ÷ b over the pairs, those of a unit first; null if a value is not positive",
            )
            .over(&a, &b),
            own(|p: &Paired| p.ratio),
        )
}

/// The columns of the tests.
fn tests<'a>(
    given: &'a Parameters,
    columns: Columns<'a, Judged<Paired>>,
) -> Columns<'a, Judged<Paired>> {
    let wilcoxon_w =
        "smaller rank sum of the two-sided Wilcoxon signed-rank test of the units' deltas";
    let statistic = "t, W of Wilcoxon, or positive deltas of the sign test; null for permutation";
    let method = move |w: Wilcoxon| {
        let corrected = match (w.method, given.continuity()) {
            (Method::Normal, Continuity::Corrected) => ", continuity-corrected",
            _ => "",
        };
        let zeros = given.zeros().word();
        format!("{}{corrected}, zeros: {zeros}", w.method.word())
    };
    columns
        .with(
            Spec::text("test", "the deciding test, whose p is adjusted"),
            |_| given.test.word(),
        )
        .with(
            Spec::float("statistic", "1", statistic),
            own(|p: &Paired| p.statistic),
        )
        .with(
            Spec::float("wilcoxon_w", "1", wilcoxon_w),
            own(|p: &Paired| p.wilcoxon.map(|w| w.statistic())),
        )
        .with(
            Spec::float(
                "wilcoxon_p",
                "1",
                "its p value; null if every delta is 0, and if units resemble each other",
            ),
            own(|p: &Paired| p.wilcoxon.map(|w| w.p)),
        )
        .with(
            Spec::text(
                "wilcoxon_method",
                "distribution (exact or normal) and zero handling",
            ),
            own(move |p: &Paired| p.wilcoxon.map(method)),
        )
}

impl TypedOperator for PairedComparison {
    type Parameters = Parameters;
    type Made = Pending;
    const NAME: &'static str = "paired-comparison";
    const SUMMARY: &'static str = "Two sides over matched coordinates, paired within units of replication: effect with interval, adjusted p, smallest detectable effect, verdict.";
    const SOURCE: &'static str = "\
        A unit is, for example, a block in which both sides were started; n is the number of units. Within a unit, \
        the operator averages the values of a side over `average`. It then averages the log ratios or differences of \
        the pairs, over the keys that are not in `by`. If the two sides were not started in the same blocks, use \
        `unpaired-comparison`.\n\n\
        **Test.** Student's t of the units' effects. Its interval inverts the test, so the two agree. For rounded \
        values, the variance of rounding is added to the spread. The table also has the exact p of all sign flips.\n\n\
        **Family.** Holm (Scand. J. Statist. 6, 1979) adjusts p values within the family, with intervals at the level \
        of each step. `bh_p` is adjusted by Benjamini & Hochberg (JRSS B 57, 1995).\n\n\
        **Levels of opposite directions.** `direction_changes` needs a one-sided t test of each direction, at `alpha` ÷ the \
        number of pooled coordinates each: the intersection–union test (Berger, Technometrics 24, 1982) of a qualitative \
        interaction (Gail & Simon, Biometrics 41, 1985).\n\n\
        **Smallest detectable effect.** It uses the noncentral t at a power of 80 %.\n\n\
        **Equivalence.** It needs two one-sided t tests (Schuirmann 1987). Without a declared margin, a large p is \
        not evidence of equality.\n\n\
        **Other tests.** For published data, you can choose another test: Wilcoxon (Biometrics 1, 1945) as in \
        scipy.stats.wilcoxon, exact for at most 200 nonzero deltas, ties included; the exact sign test; or a \
        permutation of signs, enumerated for at most 20 units. These have no interval.\n\n\
        **Bootstrap.** A bootstrap interval (Efron & Tibshirani 1993; xoshiro256++, Blackman & Vigna, ACM TOMS 47, \
        2021) is computed on request and does not affect the verdict. Rank-biserial is Kerby's (2014).";

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        given.terms.check(draft)?;
        Ok(columns(given).specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Pending, Failure> {
        let terms = &given.terms;
        terms.holds(Self::NAME, given.test.word())?;
        let compared = (terms.from.as_str(), terms.columns.as_slice());
        let alike = Alike::of_pair(context, compared, &terms.pair, &given.average)?;
        let from = alike.frame();
        let units = Units::of(terms.unit.as_deref(), from, &terms.from)?;
        let matched = matched(
            from,
            &terms.from,
            &terms.pair,
            &given.average,
            &terms.columns,
        )?;
        let positions = |setting: &str, axes: &[String]| -> Result<Vec<usize>, Failure> {
            axes.iter()
                .map(|axis| position(setting, axis, &matched.keys))
                .collect()
        };
        let by = positions("by", &terms.by)?;
        let unit = positions("unit", units.axes())?;
        if let Some(kept) = units.axes().iter().find(|axis| terms.by.contains(axis)) {
            return Err(Failure::failed(format!(
                "`{kept}` is a unit and also in `by`, so each row would have a single unit"
            )));
        }
        let key =
            |pair: &Pair| -> Vec<Scalar> { by.iter().map(|p| pair.key[*p].clone()).collect() };
        let mut keyed: Vec<(Vec<Scalar>, &Pair)> =
            matched.pairs.iter().map(|p| (key(p), p)).collect();
        // The sort is stable: pairs of a stratum keep the order of their keys.
        keyed.sort_by(|a, b| contract::compare_all(&a.0, &b.0));
        let around = Frame {
            level: Level::Marginal,
            keys: matched.keys.clone(),
            specs: Vec::new(),
            rows: Vec::new(),
            missing: matched.missing,
        };
        let mut tests = Vec::new();
        for stratum in keyed.chunk_by(|a, b| a.0 == b.0) {
            let pairs: Vec<&Pair> = stratum.iter().map(|(_, p)| *p).collect();
            let missing = around.missing_at(&terms.by, &stratum[0].0);
            for column in 0..terms.columns.len() {
                context.control.check()?;
                let place = Place {
                    stratum: &stratum[0].0,
                    column,
                    unit: &unit,
                    units: &units,
                    keys: &matched.keys,
                    missing: missing.clone(),
                };
                tests.push(compare(given, &place, &pairs, context.seed));
            }
        }
        one_launch::note(context, &terms.pair.axis, units.axes(), &mut tests)?;
        let (given, alike) = (given.clone(), alike.kept());
        let mut question = given.terms.question(&tests);
        // A mean of raw values over axes is not a mean of effects, and tests of ranks and signs have no mean.
        if given.test == Test::PairedT && given.average.is_empty() {
            let of_pairs = |test: Hypothesis| test.of_pairs(terms.scale, &units);
            question.tests = question.tests.into_iter().map(of_pairs).collect();
        }
        Ok(Pending::new(question, move |adjusted, context| {
            let (decided, columns) = ((tests, adjusted), columns(&given));
            given
                .terms
                .table(context, decided, &columns, (&units, &alike), around.missing)
        }))
    }
}

/// The column, stratum and units of a comparison.
struct Place<'a> {
    stratum: &'a [Scalar],
    column: usize,
    /// The positions of the unit axes among the keys of a pair.
    unit: &'a [usize],
    units: &'a Units,
    /// The names of the keys of a pair.
    keys: &'a [String],
    missing: Scalar,
}

impl Place<'_> {
    /// The label of a pair's unit. Without units, each pair is its own label.
    fn label(&self, pair: &Pair) -> Vec<Scalar> {
        if self.units.is_none() {
            return pair.key.clone();
        }
        self.unit.iter().map(|p| pair.key[*p].clone()).collect()
    }

    /// The coordinate of a pair within its unit.
    fn coordinate(&self, pair: &Pair) -> Vec<Scalar> {
        let others = (0..pair.key.len()).filter(|p| !self.unit.contains(p));
        others.map(|p| pair.key[p].clone()).collect()
    }

    /// Explains why the effects of the units are not independent, as far as they show it.
    fn doubt(&self, complete: &[(&Pair, f64, f64)], scale: Scale) -> Option<Doubt> {
        if self.units.is_none() {
            return None;
        }
        // Where a value has no place on the scale, the differences can still show it.
        let on_scale = complete
            .iter()
            .all(|(_, a, b)| scale.effect(*a, *b).is_some());
        let scale = if on_scale { scale } else { Scale::Difference };
        let effect =
            |(pair, a, b): &(&Pair, f64, f64)| Some((self.label(pair), scale.effect(*a, *b)?));
        let effects: Option<Vec<_>> = complete.iter().map(effect).collect();
        let effects = averaged(effects?).into_iter();
        let side = |value: fn(&(&Pair, f64, f64)) -> f64| {
            let values = complete.iter().map(|row| (self.label(row.0), value(row)));
            averaged(values)
                .into_iter()
                .map(|(_, v)| v)
                .collect::<Vec<f64>>()
        };
        let of_sides = vec![side(|row| row.1), side(|row| row.2)];
        let values = effects.clone().map(|(_, value)| value).collect();
        if let Some(doubt) = resemblance::shared(&[(values, of_sides)]) {
            return Some(doubt);
        }
        let unit = |(label, value)| resemblance::Unit {
            label,
            side: 0,
            value,
        };
        let rows = complete.iter();
        let rows = rows.map(|(pair, ..)| (self.label(pair), pair.key.clone()));
        let groupings = resemblance::groupings(self.keys, &rows.collect::<Vec<_>>());
        let effects: Vec<resemblance::Unit> = effects.map(unit).collect();
        resemblance::doubt(self.units, &groupings, &effects)
    }

    /// Keeps a value that depends on units; `None` without units.
    fn replicated<T>(&self, value: Option<T>) -> Option<T> {
        value.filter(|_| !self.units.is_none())
    }
}

/// Returns the effect over units, or why it cannot be judged.
fn effect(
    given: &Parameters,
    place: &Place<'_>,
    complete: &[(&Pair, f64, f64)],
    (effects, doubt): (Option<&[f64]>, Option<&Doubt>),
) -> Result<UnitEffect, String> {
    let (terms, units) = (&given.terms, place.units);
    if units.is_none() {
        return Err(units.none());
    }
    let Some(effects) = effects else {
        let values: Vec<f64> = complete.iter().flat_map(|(_, a, b)| [*a, *b]).collect();
        return Err(terms.scale.refusal(&terms.columns[place.column], &values));
    };
    let values = complete.iter();
    let values = values.map(|(pair, a, b)| (place.coordinate(pair), (*a, *b)));
    let rounding = terms.scale.rounding(&by_coordinate(values));
    let effect = units.effect(effects, rounding);
    match doubt {
        Some(doubt) if given.test == Test::PairedT => effect.and_then(|e| doubt.effect(&[e])),
        Some(doubt) => Err(doubt.refusal()),
        None => effect,
    }
}

/// Returns the smallest p value that the signs of these differences can give. A unit with no difference has no sign.
fn least_of_signs(deltas: &[f64]) -> f64 {
    let signs = deltas.iter().filter(|d| **d != 0.0).count();
    let power = 1 - i32::try_from(signs).unwrap_or(i32::MAX);
    2.0_f64.powi(power).min(1.0)
}

/// Returns the side that a test of ranks or signs finds higher: above 0 for a, below 0 for b.
fn leaning(test: Test, wilcoxon: Option<&Wilcoxon>, deltas: &[f64]) -> Option<f64> {
    match test {
        Test::PairedT | Test::Permutation => None,
        Test::Wilcoxon => wilcoxon.map(|w| w.w_plus - w.w_minus),
        Test::Sign => {
            let signs = sign_test(deltas);
            Some(signs.positive as f64 - signs.negative as f64)
        }
    }
}

fn compare(given: &Parameters, place: &Place<'_>, pairs: &[&Pair], seed: u64) -> Compared<Paired> {
    let (terms, column) = (&given.terms, place.column);
    let complete: Vec<(&Pair, f64, f64)> = pairs
        .iter()
        .filter_map(|p| Some((*p, p.a[column]?, p.b[column]?)))
        .collect();
    let within = |value: &dyn Fn(f64, f64) -> Option<f64>| -> Option<Vec<f64>> {
        let labelled = complete
            .iter()
            .map(|(pair, a, b)| Some((place.label(pair), value(*a, *b)?)));
        let labelled: Option<Vec<_>> = labelled.collect();
        Some(averaged(labelled?).into_iter().map(|(_, v)| v).collect())
    };
    let side = |value: fn(f64, f64) -> f64| within(&|a, b| Some(value(a, b))).unwrap_or_default();
    let units: Vec<(f64, f64)> = side(|a, _| a).into_iter().zip(side(|_, b| b)).collect();
    let deltas = paired_differences(&units);
    let logs = within(&|a, b| Scale::Ratio.effect(a, b)).and_then(|l| Sample::new(l).ok());
    let effects = within(&|a, b| terms.scale.effect(a, b));
    let doubt = place.doubt(&complete, terms.scale);
    let effect = effect(
        given,
        place,
        &complete,
        (effects.as_deref(), doubt.as_ref()),
    );
    let extremes = place.extremes(terms, &complete, doubt.as_ref());
    let reweighed = place.reweighed(&complete, terms.scale);
    let sample = Sample::new(units.iter().map(|(a, b)| a - b)).ok();
    let wilcoxon = wilcoxon_signed_rank(&deltas, given.zeros(), given.continuity());
    // Ranks, signs and resamples take the units for independent.
    let independent = doubt.is_none() && place.units.refusal(units.len()).is_none();
    let wilcoxon = place.replicated(wilcoxon).filter(|_| independent);
    let flips = effects
        .as_ref()
        .and_then(|e| sign_flip_test(e, terms.resamples as usize, terms.seed(seed)));
    let flips = place.replicated(flips).filter(|_| independent);
    let exact = match (&doubt, &effect) {
        (None, _) => flips.filter(|flips| flips.exact).map(|flips| flips.p),
        (Some(_), Ok(effect)) => effect.sign_flip_p,
        (Some(_), Err(_)) => None,
    };
    let (statistic, p) = match given.test {
        Test::PairedT => {
            let t = effect.as_ref().ok();
            (t.map(|t| t.t), t.map(|t| terms.looks.p(t)))
        }
        Test::Wilcoxon => (wilcoxon.map(|w| w.statistic()), wilcoxon.map(|w| w.p)),
        Test::Sign => {
            let signs = sign_test(&deltas);
            let any = signs.positive + signs.negative > 0 && !place.units.is_none();
            (any.then_some(signs.positive as f64), any.then_some(signs.p))
        }
        Test::Permutation => (None, flips.map(|f| f.p)),
    };
    let bootstrap = terms
        .bootstrap(seed)
        .and_then(|b| b.interval_of_mean(sample.as_ref()?));
    let bootstrap = place.replicated(bootstrap).filter(|_| independent);
    let doubted = doubt.is_some();
    let mean = effects.and_then(|e| Sample::new(e).ok()).map(|s| s.mean());
    Compared {
        stratum: place.stratum.to_vec(),
        column,
        delta: sample.as_ref().map(Sample::mean),
        mean,
        doubt: doubt
            .filter(|_| given.test == Test::PairedT)
            .map(|d| d.note())
            .or_else(|| repeated::reference(&units, &terms.pair)),
        inverts: given.test == Test::PairedT,
        effect,
        // A comparison without an effect on the scale belongs to no family. The same holds for too few clusters.
        p: p.filter(|_| {
            let doubted = doubted && given.test != Test::PairedT;
            mean.is_some() && place.units.refusal(units.len()).is_none() && !doubted
        }),
        least: (given.test != Test::PairedT).then(|| least_of_signs(&deltas)),
        leaning: leaning(given.test, wilcoxon.as_ref(), &deltas),
        labels: None,
        bootstrap,
        extremes,
        reweighed,
        missing: place.missing.clone(),
        lineage: spans(
            &terms.from,
            complete.iter().flat_map(|(p, _, _)| p.rows.concat()),
        ),
        own: Paired {
            n: place.replicated(Some(units.len())).unwrap_or(0),
            pairs: complete.len(),
            ratio: logs.map(|s| s.mean().exp()),
            sign_flip_p: exact,
            units,
            deltas: sample,
            wilcoxon,
            statistic,
        },
    }
}
