//! `paired-comparison`: is one side better than the other, over matched coordinates?

use artifacts::Scalar;
use pipeline::{Failure, Json, Problem, Step};
use rows::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{
    Bootstrap, Continuity, Interval, Sample, Tost, Wilcoxon, ZeroHandling, cohens_dz, paired_t,
    rank_biserial, sign_flip_test, sign_test, tost_paired, wilcoxon_signed_rank,
};
use std::collections::BTreeMap;

use crate::frame::{Frame, Level, Row, Span, Spec, count, number, spans, text};
use crate::operator::{Context, Operator, Plan, Scope, at, items, parameters};
use crate::operators::decision::{Adjusted, Family, Kind, Rule, adjust};
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

fn resamples() -> u32 {
    10_000
}

fn confidence() -> f64 {
    0.95
}

fn alpha() -> f64 {
    0.05
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

    fn bootstrap(&self, seed: u64) -> Bootstrap {
        let (kind, resamples) = (self.bootstrap.statistics(), self.resamples as usize);
        Bootstrap { kind, resamples, level: self.confidence, seed }
    }

    fn rule(&self) -> Rule {
        self.rule.clone().unwrap_or_else(|| Rule::usual(self.alpha))
    }

    fn unit(&self) -> String {
        if self.cluster.is_empty() {
            "pairs".to_owned()
        } else {
            format!("clusters of {}", self.cluster.join(", "))
        }
    }
}

fn columns(given: &Parameters) -> Vec<Spec> {
    let (a, b) = given.pair.labels();
    let level = given.confidence;
    vec![
        Spec::text("unit", "the unit of the metric"),
        Spec::text("a", "the first side; deltas are a − b, ratios a ÷ b"),
        Spec::text("b", "the second side, the base"),
        Spec::int("n", "1", "matched pairs with a value on both sides"),
        Spec::text("missing", "cells that should have contributed and did not; null if none"),
        Spec::float("mean_a", "", format!("mean of {a} over the pairs, in the metric's unit")),
        Spec::float("mean_b", "", format!("mean of {b} over the pairs, in the metric's unit")),
        Spec::float("mean_delta", "", "mean of a − b over the pairs, in the metric's unit"),
        Spec::float("median_delta", "", "median of a − b over the pairs, in the metric's unit"),
        Spec::float("geometric_mean_ratio", "1", "geometric mean of a ÷ b; null if a value is not positive")
            .over(&a, &b),
        Spec::float("ci_low", "", format!("lower end of the {level} bootstrap interval of the mean delta")),
        Spec::float("ci_high", "", format!("upper end of the {level} bootstrap interval of the mean delta")),
        Spec::text("ci_method", "kind of bootstrap interval, resamples, resampling unit, generator and seed"),
        Spec::float("wilcoxon_w", "1", "smaller rank sum of the two-sided Wilcoxon signed-rank test"),
        Spec::float("wilcoxon_p", "1", "its p value; null if every delta is 0"),
        Spec::float(
            "smallest_p",
            "1",
            "the smallest p this number of pairs can give in a test of ranks or signs, 2^(1 − n)",
        ),
        Spec::text("wilcoxon_method", "distribution (exact or normal) and zero handling"),
        Spec::text("test", "the test that decides: its p is the one adjusted"),
        Spec::float(
            "statistic",
            "1",
            "W of Wilcoxon, positive deltas of the sign test, t; null for permutation",
        ),
        Spec::float("p", "1", "two-sided p value of that test; null where it is undefined"),
        Spec::float("holm_p", "1", "p adjusted by Holm's step-down within the family"),
        Spec::float("bh_p", "1", "p adjusted by Benjamini and Hochberg within the family"),
        Spec::text("family", "the family of tests and its size"),
        Spec::float("cohens_dz", "1", "mean delta ÷ standard deviation of the deltas; null without spread"),
        Spec::float("rank_biserial", "1", "(W₊ − W₋) ÷ (W₊ + W₋); null if every delta is 0"),
        Spec::int("n_a_higher", "1", "pairs in which a is higher"),
        Spec::int("n_b_higher", "1", "pairs in which b is higher"),
        Spec::int("n_equal", "1", "pairs in which both are equal"),
        Spec::text("higher", "the side with the higher mean; null if equal"),
        Spec::float("equivalence_margin", "", "the declared margin, in the metric's unit; null if none"),
        Spec::float("tost_p", "1", "the larger p of two one-sided t tests against ±margin; null without one"),
        Spec::boolean("equivalent", format!("whether tost_p < {}; null without a margin", given.alpha)),
        Spec::text("verdict", given.rule().words()),
    ]
}

impl Operator for PairedComparison {
    fn name(&self) -> &'static str {
        "paired-comparison"
    }

    fn summary(&self) -> &'static str {
        "Two sides over matched coordinates: deltas, a paired test with adjusted p, bootstrap interval, effect sizes, equivalence, verdict."
    }

    fn source(&self) -> &'static str {
        "Wilcoxon (Biometrics 1, 1945) as scipy.stats.wilcoxon: exact for at most 50 deltas without ties or zeros, else normal with tie correction; sign test exact; paired t; permutation of signs, enumerated if 2ⁿ is at most the resamples. Holm (Scand. J. Statist. 6, 1979), Benjamini & Hochberg (JRSS B 57, 1995); bootstrap after Efron & Tibshirani (1993), of clusters where pairs are not independent; rank-biserial after Kerby (2014); equivalence by two one-sided t tests (Schuirmann 1987): without a declared margin a large p is no evidence of equality."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let given: Parameters = settings.read()?;
        let wanted = items("columns", &given.columns);
        scope.numbers(settings, (&at("from"), &given.from), &wanted)?;
        let mut problems = Vec::new();
        for (key, value) in [("confidence", given.confidence), ("alpha", given.alpha)] {
            if !(value > 0.0 && value < 1.0) {
                problems
                    .push(settings.problem(&at(key), format!("`{key}` lies between 0 and 1, got {value}")));
            }
        }
        if given.resamples < 100 {
            problems.push(settings.problem(&at("resamples"), "a bootstrap needs at least 100 resamples"));
        }
        for (name, margin) in &given.equivalence {
            let place = [Step::Key("equivalence".to_owned()), Step::Key(name.clone())];
            if !given.columns.contains(name) {
                let known: Vec<&str> = given.columns.iter().map(String::as_str).collect();
                let message = format!("`{name}` is not among the columns compared");
                problems.push(settings.problem(&place, message).hint(rows::did_you_mean(name, &known)));
            }
            if !(*margin > 0.0 && margin.is_finite()) {
                problems.push(settings.problem(&place, "a margin is a positive number"));
            }
        }
        if let Some(rule) = &given.rule {
            problems.extend(rule.check(settings, &columns(&given)));
        }
        if problems.is_empty() {
            Ok(Plan { columns: columns(&given), parameters: rows::canonical(&given) })
        } else {
            Err(problems)
        }
    }

    fn run(&self, given: &Json, context: &Context<'_>) -> Result<Frame, Failure> {
        let given: Parameters = parameters(given)?;
        let from = context.table(&given.from)?;
        let matched = matched(from, &given.from, &given.pair, &given.average, &given.columns)?;
        let position = |what: &str, axis: &String| {
            matched.keys.iter().position(|k| k == axis).ok_or_else(|| {
                let known: Vec<&str> = matched.keys.iter().map(String::as_str).collect();
                Failure::failed(format!("`{what}` names `{axis}`, which is no key left after pairing"))
                    .hint(rows::did_you_mean(axis, &known))
            })
        };
        let positions = |what: &str, axes: &[String]| -> Result<Vec<usize>, Failure> {
            axes.iter().map(|axis| position(what, axis)).collect()
        };
        let (by, cluster) = (positions("by", &given.by)?, positions("cluster", &given.cluster)?);
        let key = |pair: &Pair| -> Vec<Scalar> { by.iter().map(|p| pair.key[*p].clone()).collect() };
        let mut keyed: Vec<(Vec<Scalar>, &Pair)> = matched.pairs.iter().map(|p| (key(p), p)).collect();
        // Stable: pairs of a stratum stay in the order of their keys.
        keyed.sort_by(|a, b| rows::compare_all(&a.0, &b.0));
        let bootstrap = given.bootstrap(given.seed.unwrap_or(context.seed));
        let mut tests = Vec::new();
        for stratum in keyed.chunk_by(|a, b| a.0 == b.0) {
            let pairs: Vec<&Pair> = stratum.iter().map(|(_, p)| *p).collect();
            for i in 0..given.columns.len() {
                context.control.check()?;
                tests.push(test(&given, &stratum[0].0, &pairs, (i, &cluster), &bootstrap));
            }
        }
        let raw: Vec<(usize, Option<f64>)> = tests.iter().map(|t| (t.column, t.p)).collect();
        for (test, adjusted) in tests.iter_mut().zip(adjust(&raw, given.family, &given.columns, &given.by)) {
            test.adjusted = adjusted;
        }
        let around = Frame {
            level: Level::Marginal,
            keys: matched.keys.clone(),
            specs: Vec::new(),
            rows: Vec::new(),
            missing: matched.missing,
        };
        let rows = tests
            .into_iter()
            .map(|test| {
                let unit = from.spec(&given.columns[test.column]).and_then(|s| s.unit.clone());
                let missing = around.missing_at(&given.by, &test.stratum);
                test.row(&given, unit, missing, &bootstrap)
            })
            .collect();
        let mut keys = given.by.clone();
        keys.push("metric".to_owned());
        let level = if given.by.is_empty() { Level::Pooled } else { Level::Marginal };
        Ok(Frame { level, keys, specs: columns(&given), rows, missing: around.missing })
    }
}

/// One comparison of a column in a stratum.
struct Comparison {
    stratum: Vec<Scalar>,
    column: usize,
    sides: Option<(Sample, Sample)>,
    deltas: Vec<f64>,
    ratio: Option<f64>,
    wilcoxon: Option<Wilcoxon>,
    statistic: Option<f64>,
    p: Option<f64>,
    interval: Option<Interval>,
    tost: Option<Tost>,
    adjusted: Adjusted,
    lineage: Vec<Span>,
}

fn test(
    given: &Parameters,
    stratum: &[Scalar],
    pairs: &[&Pair],
    (column, cluster): (usize, &[usize]),
    bootstrap: &Bootstrap,
) -> Comparison {
    let complete: Vec<(&Pair, f64, f64)> =
        pairs.iter().filter_map(|p| Some((*p, p.a[column]?, p.b[column]?))).collect();
    let deltas: Vec<f64> = complete.iter().map(|(_, a, b)| a - b).collect();
    let sample = Sample::new(deltas.iter().copied()).ok();
    let side = |of: fn(&(&Pair, f64, f64)) -> f64| Sample::new(complete.iter().map(of)).ok();
    let logs = complete.iter().map(|(_, a, b)| if *a > 0.0 && *b > 0.0 { (a / b).ln() } else { f64::NAN });
    let continuity = if given.continuity_correction { Continuity::Corrected } else { Continuity::None };
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
        Test::Permutation => {
            (None, sign_flip_test(&deltas, bootstrap.resamples, bootstrap.seed).map(|test| test.p))
        }
    };
    let interval = if cluster.is_empty() {
        sample.as_ref().and_then(|s| bootstrap.interval_of_mean(s))
    } else {
        let label = |p: &Pair| cluster.iter().map(|c| p.key[*c].clone()).collect::<Vec<_>>();
        let mut keyed: Vec<(Vec<Scalar>, f64)> =
            complete.iter().zip(&deltas).map(|((p, ..), d)| (label(p), *d)).collect();
        keyed.sort_by(|a, b| rows::compare_all(&a.0, &b.0));
        let clusters: Vec<Vec<f64>> =
            keyed.chunk_by(|a, b| a.0 == b.0).map(|g| g.iter().map(|(_, d)| *d).collect()).collect();
        bootstrap.interval_of_clusters(&clusters)
    };
    let margin = given.equivalence.get(&given.columns[column]);
    Comparison {
        stratum: stratum.to_vec(),
        column,
        sides: side(|c| c.1).zip(side(|c| c.2)),
        ratio: Sample::new(logs).ok().map(|s| s.mean().exp()),
        wilcoxon,
        statistic,
        p,
        interval,
        tost: sample.as_ref().zip(margin).and_then(|(s, margin)| tost_paired(s, *margin)),
        adjusted: Adjusted::default(),
        lineage: spans(&given.from, complete.iter().flat_map(|(p, _, _)| p.rows.concat())),
        deltas,
    }
}

impl Comparison {
    fn row(self, given: &Parameters, unit: Option<String>, missing: Scalar, bootstrap: &Bootstrap) -> Row {
        let (a, b) = given.pair.labels();
        let sample = Sample::new(self.deltas.iter().copied()).ok();
        let signs = |keep: fn(f64) -> bool| count(self.deltas.iter().filter(|d| keep(**d)).count());
        let mean = sample.as_ref().map(Sample::mean);
        let higher = mean.filter(|m| *m != 0.0).map(|m| if m > 0.0 { a.clone() } else { b.clone() });
        let optional = |value: Option<String>| value.map_or(Scalar::Null, Scalar::Text);
        let ci_method = self.interval.map(|_| {
            format!(
                "{}, {} resamples of {}, ChaCha20, seed {}",
                bootstrap.kind.word(),
                bootstrap.resamples,
                given.unit(),
                bootstrap.seed
            )
        });
        let method = self.wilcoxon.map(|w| {
            let corrected = if given.continuity_correction { ", continuity-corrected" } else { "" };
            format!("{}{corrected}, zeros: {}", w.method.word(), given.zeros().word())
        });
        let n = self.deltas.len();
        let margin = given.equivalence.get(&given.columns[self.column]);
        let tost_p = self.tost.map(|t| t.p);
        let mut values = vec![
            optional(unit),
            text(&a),
            text(&b),
            count(n),
            missing,
            number(self.sides.as_ref().map(|(a, _)| a.mean())),
            number(self.sides.as_ref().map(|(_, b)| b.mean())),
            number(mean),
            number(sample.as_ref().map(Sample::median)),
            number(self.ratio),
            number(self.interval.map(|i| i.low)),
            number(self.interval.map(|i| i.high)),
            optional(ci_method),
            number(self.wilcoxon.map(|w| w.statistic())),
            number(self.wilcoxon.map(|w| w.p)),
            number((n > 0).then(|| 2.0_f64.powf(1.0 - n as f64))),
            optional(method),
            text(given.test.word()),
            number(self.statistic),
            number(self.p),
            number(self.adjusted.holm),
            number(self.adjusted.bh),
            optional(self.adjusted.family.clone()),
            number(sample.as_ref().and_then(cohens_dz)),
            number(rank_biserial(&self.deltas)),
            signs(|d| d > 0.0),
            signs(|d| d < 0.0),
            signs(|d| d == 0.0),
            optional(higher),
            number(margin.copied()),
            number(tost_p),
            margin.map_or(Scalar::Null, |_| tost_p.map_or(Scalar::Null, |p| Scalar::Bool(p < given.alpha))),
        ];
        let specs = columns(given);
        let of = |name: &str| values[specs.iter().position(|s| s.name == name)?].as_f64();
        let equivalent = tost_p.is_some_and(|p| p < given.alpha);
        let verdict = (n > 0).then(|| given.rule().verdict(&of, self.interval, equivalent));
        values.push(optional(verdict.map(str::to_owned)));
        let mut key = self.stratum;
        key.push(text(&given.columns[self.column]));
        Row { key, values, lineage: self.lineage }
    }
}
