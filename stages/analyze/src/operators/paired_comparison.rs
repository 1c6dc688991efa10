//! `paired-comparison`: is one side better than the other, over matched coordinates?

use artifacts::Scalar;
use pipeline::{Failure, Json, Problem};
use rows::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{
    Bootstrap, BootstrapKind, Continuity, Interval, Sample, Wilcoxon, ZeroHandling, cohens_dz, holm,
    rank_biserial, wilcoxon_signed_rank,
};

use crate::frame::{Frame, Level, Row, Span, Spec, count, number, spans, text};
use crate::operator::{Context, Operator, Plan, Scope, at, items, parameters};
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
    /// What becomes of zero deltas in Wilcoxon's test.
    #[serde(default)]
    zeros: Zeros,
    /// Whether the normal approximation is corrected for continuity.
    #[serde(default)]
    continuity_correction: bool,
    /// The kind of bootstrap interval of the mean delta.
    #[serde(default)]
    bootstrap: Kind,
    /// The number of resamples; the unit of resampling is the pair.
    #[serde(default = "resamples")]
    resamples: u32,
    /// The level of the interval.
    #[serde(default = "confidence")]
    confidence: f64,
    /// The bound on the adjusted p value.
    #[serde(default = "alpha")]
    alpha: f64,
    /// Which tests form one family for Holm's adjustment.
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

#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    #[default]
    Percentile,
    Basic,
    Bca,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Family {
    #[default]
    PerColumn,
    Table,
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
        let kind = match self.bootstrap {
            Kind::Percentile => BootstrapKind::Percentile,
            Kind::Basic => BootstrapKind::Basic,
            Kind::Bca => BootstrapKind::Bca,
        };
        Bootstrap { kind, resamples: self.resamples as usize, level: self.confidence, seed }
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
        Spec::float("geometric_mean_ratio", "1", "geometric mean of a ÷ b; null if a value is not positive"),
        Spec::float("ci_low", "", format!("lower end of the {level} bootstrap interval of the mean delta")),
        Spec::float("ci_high", "", format!("upper end of the {level} bootstrap interval of the mean delta")),
        Spec::text("ci_method", "kind of bootstrap interval, resamples, resampling unit, generator and seed"),
        Spec::float("wilcoxon_w", "1", "smaller rank sum of the two-sided Wilcoxon signed-rank test"),
        Spec::float("wilcoxon_p", "1", "its p value; null if every delta is 0"),
        Spec::float("smallest_p", "1", "the smallest p this number of pairs can give, 2^(1 − n)"),
        Spec::text("wilcoxon_method", "distribution (exact or normal) and zero handling"),
        Spec::float("holm_p", "1", "p adjusted by Holm's step-down within the family"),
        Spec::text("family", "the family of tests and its size"),
        Spec::float("cohens_dz", "1", "mean delta ÷ standard deviation of the deltas; null without spread"),
        Spec::float("rank_biserial", "1", "(W₊ − W₋) ÷ (W₊ + W₋); null if every delta is 0"),
        Spec::int("n_a_higher", "1", "pairs in which a is higher"),
        Spec::int("n_b_higher", "1", "pairs in which b is higher"),
        Spec::int("n_equal", "1", "pairs in which both are equal"),
        Spec::text("higher", "the side with the higher mean; null if equal"),
        Spec::text(
            "verdict",
            format!(
                "directional if holm_p < {} and the interval excludes 0; ambiguous if one of the two; else \
                 no-evidence (of a difference: not evidence of equality); null without pairs",
                given.alpha
            ),
        ),
    ]
}

impl Operator for PairedComparison {
    fn name(&self) -> &'static str {
        "paired-comparison"
    }

    fn summary(&self) -> &'static str {
        "Two sides over matched coordinates: deltas, Wilcoxon with Holm, bootstrap interval, effect sizes, verdict."
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
        let mut by = Vec::new();
        for axis in &given.by {
            by.push(matched.keys.iter().position(|k| k == axis).ok_or_else(|| {
                let known: Vec<&str> = matched.keys.iter().map(String::as_str).collect();
                Failure::failed(format!("`by` names `{axis}`, which is no key left after pairing"))
                    .hint(rows::did_you_mean(axis, &known))
            })?);
        }
        let mut strata: Vec<(Vec<Scalar>, Vec<&Pair>)> = Vec::new();
        for pair in &matched.pairs {
            let key: Vec<Scalar> = by.iter().map(|p| pair.key[*p].clone()).collect();
            match strata.iter_mut().find(|(k, _)| *k == key) {
                Some((_, pairs)) => pairs.push(pair),
                None => strata.push((key, vec![pair])),
            }
        }
        let bootstrap = given.bootstrap(given.seed.unwrap_or(context.seed));
        let mut tests = Vec::new();
        for (stratum, pairs) in &strata {
            for i in 0..given.columns.len() {
                context.control.check()?;
                tests.push(test(&given, stratum, pairs, i, &bootstrap));
            }
        }
        adjust(&given, &mut tests);
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

/// One test before its p value is adjusted.
struct Test {
    stratum: Vec<Scalar>,
    column: usize,
    sides: Option<(Sample, Sample)>,
    deltas: Vec<f64>,
    ratio: Option<f64>,
    wilcoxon: Option<Wilcoxon>,
    interval: Option<Interval>,
    holm: Option<f64>,
    family: String,
    lineage: Vec<Span>,
}

fn test(
    given: &Parameters,
    stratum: &[Scalar],
    pairs: &[&Pair],
    column: usize,
    bootstrap: &Bootstrap,
) -> Test {
    let complete: Vec<(&Pair, f64, f64)> =
        pairs.iter().filter_map(|p| Some((*p, p.a[column]?, p.b[column]?))).collect();
    let deltas: Vec<f64> = complete.iter().map(|(_, a, b)| a - b).collect();
    let side = |of: fn(&(&Pair, f64, f64)) -> f64| Sample::new(complete.iter().map(of)).ok();
    let logs = complete.iter().map(|(_, a, b)| if *a > 0.0 && *b > 0.0 { (a / b).ln() } else { f64::NAN });
    let continuity = if given.continuity_correction { Continuity::Corrected } else { Continuity::None };
    Test {
        stratum: stratum.to_vec(),
        column,
        sides: side(|c| c.1).zip(side(|c| c.2)),
        ratio: Sample::new(logs).ok().map(|s| s.mean().exp()),
        wilcoxon: wilcoxon_signed_rank(&deltas, given.zeros(), continuity),
        interval: Sample::new(deltas.iter().copied()).ok().and_then(|s| bootstrap.interval_of_mean(&s)),
        holm: None,
        family: String::new(),
        lineage: spans(&given.from, complete.iter().flat_map(|(p, _, _)| p.rows.concat())),
        deltas,
    }
}

fn adjust(given: &Parameters, tests: &mut [Test]) {
    let families: Vec<Option<usize>> = match given.family {
        Family::Table => vec![None],
        Family::PerColumn => (0..given.columns.len()).map(Some).collect(),
    };
    for family in families {
        let members: Vec<usize> = (0..tests.len())
            .filter(|i| family.is_none_or(|column| tests[*i].column == column))
            .filter(|i| tests[*i].wilcoxon.is_some())
            .collect();
        let raw: Vec<f64> = members.iter().filter_map(|i| Some(tests[*i].wilcoxon?.p)).collect();
        let over = if given.by.is_empty() { String::new() } else { format!(" by {}", given.by.join(", ")) };
        let what = family.map_or_else(|| "all columns".to_owned(), |column| given.columns[column].clone());
        for (i, p) in members.iter().zip(holm(&raw)) {
            tests[*i].holm = Some(p);
            tests[*i].family = format!("{what}{over} ({} tests)", raw.len());
        }
    }
}

impl Test {
    fn row(self, given: &Parameters, unit: Option<String>, missing: Scalar, bootstrap: &Bootstrap) -> Row {
        let (a, b) = given.pair.labels();
        let sample = Sample::new(self.deltas.iter().copied()).ok();
        let signs = |keep: fn(f64) -> bool| count(self.deltas.iter().filter(|d| keep(**d)).count());
        let mean = sample.as_ref().map(Sample::mean);
        let higher = mean.filter(|m| *m != 0.0).map(|m| if m > 0.0 { a.clone() } else { b.clone() });
        let optional = |value: Option<String>| value.map_or(Scalar::Null, Scalar::Text);
        let ci_method = self.interval.map(|_| {
            format!(
                "{}, {} resamples of pairs, ChaCha20, seed {}",
                bootstrap.kind.word(),
                bootstrap.resamples,
                bootstrap.seed
            )
        });
        let method = self.wilcoxon.map(|w| {
            let corrected = if given.continuity_correction { ", continuity-corrected" } else { "" };
            format!("{}{corrected}, zeros: {}", w.method.word(), given.zeros().word())
        });
        let n = self.deltas.len();
        let values = vec![
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
            number(self.holm),
            optional(Some(self.family.clone()).filter(|f| !f.is_empty())),
            number(sample.as_ref().and_then(cohens_dz)),
            number(rank_biserial(&self.deltas)),
            signs(|d| d > 0.0),
            signs(|d| d < 0.0),
            signs(|d| d == 0.0),
            optional(higher),
            optional(self.verdict(given.alpha).map(str::to_owned)),
        ];
        let mut key = self.stratum;
        key.push(text(&given.columns[self.column]));
        Row { key, values, lineage: self.lineage }
    }

    fn verdict(&self, alpha: f64) -> Option<&'static str> {
        if self.deltas.is_empty() {
            return None;
        }
        let small = self.holm.is_some_and(|p| p < alpha);
        let excludes = self.interval.is_some_and(|i| i.excludes(0.0));
        Some(match (small, excludes) {
            (true, true) => "directional",
            (false, false) => "no-evidence",
            _ => "ambiguous",
        })
    }
}
