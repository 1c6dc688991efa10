//! `paired-comparison`: is one side better than the other, over matched coordinates?

use std::collections::BTreeMap;

use artifacts::Scalar;
use pipeline::{Failure, Json, Problem};
use rows::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{
    Bootstrap, Continuity, Sample, Wilcoxon, ZeroHandling, cohens_dz, paired_t, rank_biserial,
    sign_flip_test, sign_test, tost_paired, wilcoxon_signed_rank,
};

use crate::frame::{Frame, Level, Spec, count, number, spans, text};
use crate::operator::{Context, Operator, Plan, Scope, at, items, parameters};
use crate::operators::comparison::{
    Compared, Shared, Terms, alpha, clusters, confidence, optional, resampled, resamples,
};
use crate::operators::decision::{Family, Kind, Rule};
use crate::operators::pairs::{Pair, Sides, matched};

pub(crate) struct PairedComparison;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Parameters {
    /// The table that holds both sides.
    from: String,
    /// The two sides: axis and labels.
    pair: Sides,
    /// Axes averaged on each side before pairing.
    #[serde(default)]
    average: Vec<String>,
    /// Axes compared separately, one row each; every other key is the pairing key.
    #[serde(default)]
    by: Vec<String>,
    /// The columns compared, one row each.
    columns: Vec<String>,
    /// The test whose p value is adjusted and decides.
    #[serde(default)]
    test: Test,
    /// What becomes of zero deltas in Wilcoxon's test.
    #[serde(default)]
    zeros: Zeros,
    /// Whether the normal approximation is corrected for continuity.
    #[serde(default)]
    continuity_correction: bool,
    /// The kind of bootstrap interval of the mean delta.
    #[serde(default)]
    bootstrap: Kind,
    /// Axes whose labels are the resampling unit: pairs of one label are drawn together. None:
    /// the unit is the pair.
    #[serde(default)]
    cluster: Vec<String>,
    /// The number of resamples.
    #[serde(default = "resamples")]
    resamples: u32,
    /// The level of the interval.
    #[serde(default = "confidence")]
    confidence: f64,
    /// The bound on p values.
    #[serde(default = "alpha")]
    alpha: f64,
    /// The rule of the verdict; by default Holm's p below alpha, and an interval without 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rule: Option<Rule>,
    /// For a column, the largest difference that counts as none, in its unit: two one-sided t
    /// tests then ask whether the sides are equivalent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    equivalence: BTreeMap<String, f64>,
    /// Which tests form one family for the adjustment of p values.
    #[serde(default)]
    family: Family,
    /// The seed of the bootstrap; the experiment's if not given.
    #[serde(default)]
    seed: Option<u64>,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Zeros {
    #[default]
    Wilcox,
    Pratt,
    Zsplit,
}

/// A test of paired differences.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Test {
    #[default]
    Wilcoxon,
    Sign,
    PairedT,
    Permutation,
}

impl Test {
    fn word(self) -> &'static str {
        match self {
            Self::Wilcoxon => "wilcoxon",
            Self::Sign => "sign",
            Self::PairedT => "paired-t",
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

    fn terms(&self) -> Terms<'_> {
        Terms {
            pair: &self.pair,
            by: &self.by,
            columns: &self.columns,
            bootstrap: self.bootstrap,
            unit: resampled(&self.cluster, "pairs"),
            resamples: self.resamples,
            confidence: self.confidence,
            alpha: self.alpha,
            rule: self.rule.as_ref(),
            equivalence: &self.equivalence,
            family: self.family,
            seed: self.seed,
        }
    }
}

fn columns(given: &Parameters) -> Vec<Spec> {
    let ((a, b), terms) = (given.pair.labels(), given.terms());
    let mut columns = vec![
        Spec::text("unit", "the unit of the metric"),
        Spec::text("a", "the first side; deltas are a − b, ratios a ÷ b"),
        Spec::text("b", "the second side, the base"),
        Spec::int("n", "1", "matched pairs with a value on both sides"),
        Spec::text(
            "missing",
            "cells that should have contributed and did not; null if none",
        ),
        Spec::float(
            "mean_a",
            "",
            format!("mean of {a} over the pairs, in the metric's unit"),
        ),
        Spec::float(
            "mean_b",
            "",
            format!("mean of {b} over the pairs, in the metric's unit"),
        ),
        Spec::float(
            "mean_delta",
            "",
            "mean of a − b over the pairs, in the metric's unit",
        ),
        Spec::float(
            "median_delta",
            "",
            "median of a − b over the pairs, in the metric's unit",
        ),
        Spec::float(
            "geometric_mean_ratio",
            "1",
            "geometric mean of a ÷ b; null if a value is not positive",
        )
        .over(&a, &b),
    ];
    columns.extend(terms.interval_columns("the mean delta"));
    columns.extend([
        Spec::float(
            "wilcoxon_w",
            "1",
            "smaller rank sum of the two-sided Wilcoxon signed-rank test",
        ),
        Spec::float("wilcoxon_p", "1", "its p value; null if every delta is 0"),
        Spec::float(
            "smallest_p",
            "1",
            "the smallest p this number of pairs can give in a test of ranks or signs, 2^(1 − n)",
        ),
        Spec::text(
            "wilcoxon_method",
            "distribution (exact or normal) and zero handling",
        ),
        Spec::text("test", "the test that decides: its p is the one adjusted"),
        Spec::float(
            "statistic",
            "1",
            "W of Wilcoxon, positive deltas of the sign test, t; null for permutation",
        ),
    ]);
    columns.extend(Terms::p_columns());
    columns.extend([
        Spec::float(
            "cohens_dz",
            "1",
            "mean delta ÷ standard deviation of the deltas; null without spread",
        ),
        Spec::float(
            "rank_biserial",
            "1",
            "(W₊ − W₋) ÷ (W₊ + W₋); null if every delta is 0",
        ),
        Spec::int("n_a_higher", "1", "pairs in which a is higher"),
        Spec::int("n_b_higher", "1", "pairs in which b is higher"),
        Spec::int("n_equal", "1", "pairs in which both are equal"),
    ]);
    columns.extend(terms.decision_columns("t"));
    columns
}

impl Operator for PairedComparison {
    fn name(&self) -> &'static str {
        "paired-comparison"
    }

    fn summary(&self) -> &'static str {
        "Two sides over matched coordinates: deltas, a paired test with adjusted p, bootstrap interval, effect sizes, equivalence, verdict."
    }

    fn source(&self) -> &'static str {
        "Wilcoxon (Biometrics 1, 1945) as scipy.stats.wilcoxon: exact for at most 50 deltas without ties or zeros, else normal with tie correction; sign test exact; paired t; permutation of signs, enumerated if 2ⁿ is at most the resamples. Holm (Scand. J. Statist. 6, 1979), Benjamini & Hochberg (JRSS B 57, 1995); bootstrap after Efron & Tibshirani (1993), of clusters where pairs are not independent; what is drawn comes from xoshiro256++ (Blackman & Vigna, ACM TOMS 47, 2021), which is fast and even, a stream for each block of 250 resamples that follows from the seed and the block alone, so that the threads decide nothing; rank-biserial after Kerby (2014); equivalence by two one-sided t tests (Schuirmann 1987): without a declared margin a large p is no evidence of equality."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let given: Parameters = settings.read()?;
        let wanted = items("columns", &given.columns);
        scope.numbers(settings, (&at("from"), &given.from), &wanted)?;
        let problems = given.terms().check(settings, &columns(&given));
        if problems.is_empty() {
            Ok(Plan {
                columns: columns(&given),
                parameters: rows::canonical(&given),
            })
        } else {
            Err(problems)
        }
    }

    fn run(&self, given: &Json, context: &Context<'_>) -> Result<Frame, Failure> {
        let given: Parameters = parameters(given)?;
        let from = context.table(&given.from)?;
        let matched = matched(
            from,
            &given.from,
            &given.pair,
            &given.average,
            &given.columns,
        )?;
        let position = |what: &str, axis: &String| {
            matched.keys.iter().position(|k| k == axis).ok_or_else(|| {
                let known: Vec<&str> = matched.keys.iter().map(String::as_str).collect();
                Failure::failed(format!(
                    "`{what}` names `{axis}`, which is no key left after pairing"
                ))
                .hint(rows::did_you_mean(axis, &known))
            })
        };
        let positions = |what: &str, axes: &[String]| -> Result<Vec<usize>, Failure> {
            axes.iter().map(|axis| position(what, axis)).collect()
        };
        let (by, cluster) = (
            positions("by", &given.by)?,
            positions("cluster", &given.cluster)?,
        );
        let key =
            |pair: &Pair| -> Vec<Scalar> { by.iter().map(|p| pair.key[*p].clone()).collect() };
        let mut keyed: Vec<(Vec<Scalar>, &Pair)> =
            matched.pairs.iter().map(|p| (key(p), p)).collect();
        // Stable: pairs of a stratum stay in the order of their keys.
        keyed.sort_by(|a, b| rows::compare_all(&a.0, &b.0));
        let terms = given.terms();
        let bootstrap = terms.bootstrap(context.seed);
        let mut tests = Vec::new();
        for stratum in keyed.chunk_by(|a, b| a.0 == b.0) {
            let pairs: Vec<&Pair> = stratum.iter().map(|(_, p)| *p).collect();
            for column in 0..given.columns.len() {
                context.control.check()?;
                tests.push(compare(
                    &given,
                    &stratum[0].0,
                    &pairs,
                    (column, &cluster),
                    &bootstrap,
                ));
            }
        }
        let around = Frame {
            level: Level::Marginal,
            keys: matched.keys.clone(),
            specs: Vec::new(),
            rows: Vec::new(),
            missing: matched.missing,
        };
        let values = |test: &Compared<Paired>, shared| values(&given, test, shared);
        Ok(terms.table(tests, columns(&given), (from, &around), &bootstrap, values))
    }
}

/// What only a paired comparison has.
struct Paired {
    sides: Option<(Sample, Sample)>,
    deltas: Vec<f64>,
    sample: Option<Sample>,
    ratio: Option<f64>,
    wilcoxon: Option<Wilcoxon>,
    statistic: Option<f64>,
}

fn compare(
    given: &Parameters,
    stratum: &[Scalar],
    pairs: &[&Pair],
    (column, cluster): (usize, &[usize]),
    bootstrap: &Bootstrap,
) -> Compared<Paired> {
    let complete: Vec<(&Pair, f64, f64)> = pairs
        .iter()
        .filter_map(|p| Some((*p, p.a[column]?, p.b[column]?)))
        .collect();
    let deltas: Vec<f64> = complete.iter().map(|(_, a, b)| a - b).collect();
    let sample = Sample::new(deltas.iter().copied()).ok();
    let side = |of: fn(&(&Pair, f64, f64)) -> f64| Sample::new(complete.iter().map(of)).ok();
    let logs = complete.iter().map(|(_, a, b)| {
        if *a > 0.0 && *b > 0.0 {
            (a / b).ln()
        } else {
            f64::NAN
        }
    });
    let continuity = if given.continuity_correction {
        Continuity::Corrected
    } else {
        Continuity::None
    };
    let wilcoxon = wilcoxon_signed_rank(&deltas, given.zeros(), continuity);
    let (statistic, p) = match given.test {
        Test::Wilcoxon => (wilcoxon.map(|w| w.statistic()), wilcoxon.map(|w| w.p)),
        Test::Sign => {
            let signs = sign_test(&deltas);
            let any = signs.positive + signs.negative > 0;
            (any.then_some(signs.positive as f64), any.then_some(signs.p))
        }
        Test::PairedT => {
            let t = sample.as_ref().and_then(paired_t);
            (t.map(|t| t.t), t.map(|t| t.p))
        }
        Test::Permutation => (
            None,
            sign_flip_test(&deltas, bootstrap.resamples, bootstrap.seed).map(|test| test.p),
        ),
    };
    let interval = if cluster.is_empty() {
        sample.as_ref().and_then(|s| bootstrap.interval_of_mean(s))
    } else {
        let label = |p: &Pair| {
            cluster
                .iter()
                .map(|c| p.key[*c].clone())
                .collect::<Vec<_>>()
        };
        let labelled = complete
            .iter()
            .zip(&deltas)
            .map(|((p, ..), d)| (label(p), *d))
            .collect();
        bootstrap.interval_of_clusters(&clusters(labelled))
    };
    let margin = given.terms().margin(column);
    Compared {
        stratum: stratum.to_vec(),
        column,
        delta: sample.as_ref().map(Sample::mean),
        interval,
        p,
        tost_p: sample
            .as_ref()
            .zip(margin)
            .and_then(|(s, margin)| tost_paired(s, margin))
            .map(|t| t.p),
        lineage: spans(
            &given.from,
            complete.iter().flat_map(|(p, _, _)| p.rows.concat()),
        ),
        own: Paired {
            sides: side(|c| c.1).zip(side(|c| c.2)),
            ratio: Sample::new(logs).ok().map(|s| s.mean().exp()),
            deltas,
            sample,
            wilcoxon,
            statistic,
        },
    }
}

/// The values of a comparison before the last five.
fn values(given: &Parameters, test: &Compared<Paired>, shared: Shared) -> Vec<Scalar> {
    let Paired {
        sides,
        deltas,
        sample,
        ratio,
        wilcoxon,
        statistic,
    } = &test.own;
    let signs = |keep: fn(f64) -> bool| count(deltas.iter().filter(|d| keep(**d)).count());
    let method = wilcoxon.map(|w| {
        let corrected = if given.continuity_correction {
            ", continuity-corrected"
        } else {
            ""
        };
        format!(
            "{}{corrected}, zeros: {}",
            w.method.word(),
            given.zeros().word()
        )
    });
    let n = deltas.len();
    let mut values = shared.sides.to_vec();
    values.extend([
        count(n),
        shared.missing,
        number(sides.as_ref().map(|(a, _)| a.mean())),
        number(sides.as_ref().map(|(_, b)| b.mean())),
        number(test.delta),
        number(sample.as_ref().map(Sample::median)),
        number(*ratio),
    ]);
    values.extend(shared.interval);
    values.extend([
        number(wilcoxon.map(|w| w.statistic())),
        number(wilcoxon.map(|w| w.p)),
        number((n > 0).then(|| 2.0_f64.powf(1.0 - n as f64))),
        optional(method),
        text(given.test.word()),
        number(*statistic),
    ]);
    values.extend(shared.p);
    values.extend([
        number(sample.as_ref().and_then(cohens_dz)),
        number(rank_biserial(deltas)),
        signs(|d| d > 0.0),
        signs(|d| d < 0.0),
        signs(|d| d == 0.0),
    ]);
    values
}
