//! `unpaired-comparison`: is one side better than the other, where nothing pairs them?

use std::collections::BTreeMap;

use artifacts::Scalar;
use pipeline::{Failure, Json, Problem, Step};
use rows::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{
    Bootstrap, Continuity, Interval, Sample, cliffs_delta, cohens_d, hedges_g, mann_whitney_u,
    permutation_test_means, pooled_t, tost_welch, welch_t,
};

use crate::frame::{Frame, Level, Row, Spec, count, number, spans, text};
use crate::operator::{Context, Operator, Plan, Scope, at, items, parameters};
use crate::operators::decision::{Adjusted, Family, Kind, Rule, adjust};
use crate::operators::pairs::{Sides, all_declared};

pub(crate) struct UnpairedComparison;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Parameters {
    /// The table that holds both sides.
    from: String,
    /// The two sides: axis and labels.
    pair: Sides,
    /// Axes whose rows are the values of a side, each by itself.
    over: Vec<String>,
    /// Axes compared separately, one row each.
    #[serde(default)]
    by: Vec<String>,
    /// The columns compared, one row each.
    columns: Vec<String>,
    /// The test whose p value is adjusted and decides.
    #[serde(default)]
    test: Test,
    /// Whether Mann–Whitney's normal approximation is corrected for continuity.
    #[serde(default)]
    continuity_correction: bool,
    /// The kind of bootstrap interval of the difference of means.
    #[serde(default)]
    bootstrap: Kind,
    /// The number of resamples; each side is resampled by itself, row by row.
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
    /// For a column, the largest difference of means that counts as none, in its unit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    equivalence: BTreeMap<String, f64>,
    /// Which tests form one family for the adjustment of p values.
    #[serde(default)]
    family: Family,
    /// The seed of the bootstrap and of the permutations; the experiment's if not given.
    #[serde(default)]
    seed: Option<u64>,
}

/// A test of two independent groups.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Test {
    #[default]
    MannWhitney,
    WelchT,
    StudentT,
    Permutation,
}

impl Test {
    fn word(self) -> &'static str {
        match self {
            Self::MannWhitney => "mann-whitney",
            Self::WelchT => "welch-t",
            Self::StudentT => "student-t",
            Self::Permutation => "permutation of labels",
        }
    }
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

impl Parameters {
    fn rule(&self) -> Rule {
        self.rule.clone().unwrap_or_else(|| Rule::usual(self.alpha))
    }
}

fn columns(given: &Parameters) -> Vec<Spec> {
    let (a, b) = given.pair.labels();
    let level = given.confidence;
    vec![
        Spec::text("unit", "the unit of the metric"),
        Spec::text("a", "the first side; differences are a − b"),
        Spec::text("b", "the second side, the base"),
        Spec::int("n_a", "1", format!("values of {a}")),
        Spec::int("n_b", "1", format!("values of {b}")),
        Spec::text("missing", "cells that should have contributed and did not; null if none"),
        Spec::float("mean_a", "", format!("mean of {a}, in the metric's unit")),
        Spec::float("mean_b", "", format!("mean of {b}, in the metric's unit")),
        Spec::float("mean_delta", "", "mean_a − mean_b, in the metric's unit"),
        Spec::float("ci_low", "", format!("lower end of the {level} bootstrap interval of mean_delta")),
        Spec::float("ci_high", "", format!("upper end of the {level} bootstrap interval of mean_delta")),
        Spec::text("ci_method", "kind of bootstrap interval, resamples, resampling unit, generator and seed"),
        Spec::text("test", "the test that decides, and its distribution"),
        Spec::float("statistic", "1", "U of a, or t; null for permutation"),
        Spec::float("df", "1", "degrees of freedom of t; null for the other tests"),
        Spec::float("p", "1", "two-sided p value; null where it is undefined"),
        Spec::float("holm_p", "1", "p adjusted by Holm's step-down within the family"),
        Spec::float("bh_p", "1", "p adjusted by Benjamini and Hochberg within the family"),
        Spec::text("family", "the family of tests and its size"),
        Spec::float("cohens_d", "1", "mean_delta ÷ pooled standard deviation; null without spread"),
        Spec::float("hedges_g", "1", "cohens_d with the exact small-sample factor"),
        Spec::float("cliffs_delta", "1", "P(a > b) − P(a < b) over all pairs of values"),
        Spec::text("higher", "the side with the higher mean; null if equal"),
        Spec::float("equivalence_margin", "", "the declared margin, in the metric's unit; null if none"),
        Spec::float(
            "tost_p",
            "1",
            "the larger p of two one-sided Welch tests against ±margin; null without one",
        ),
        Spec::boolean("equivalent", format!("whether tost_p < {}; null without a margin", given.alpha)),
        Spec::text("verdict", given.rule().words()),
    ]
}

impl Operator for UnpairedComparison {
    fn name(&self) -> &'static str {
        "unpaired-comparison"
    }

    fn summary(&self) -> &'static str {
        "Two sides whose values are independent: difference of means, a test with adjusted p, interval, effect sizes, equivalence, verdict."
    }

    fn source(&self) -> &'static str {
        "Mann–Whitney as scipy.stats.mannwhitneyu (exact if a side has at most 8 values and nothing is tied); Welch (Biometrika 34, 1947); Student with pooled variance; permutation of labels with (hits + 1) ÷ (resamples + 1). Where coordinates match, `paired-comparison` sees smaller differences. A key in none of `over`, `by` and `pair` is refused."
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
        let sides = [given.pair.axis.clone()];
        all_declared(from, &given.from, &[&given.by, &given.over, &sides])?;
        let axis = from.key_position(&given.pair.axis, &given.from)?;
        let by = from.key_positions(&given.by, &given.from)?;
        given.pair.check(from, axis)?;
        let bootstrap = Bootstrap {
            kind: given.bootstrap.statistics(),
            resamples: given.resamples as usize,
            level: given.confidence,
            seed: given.seed.unwrap_or(context.seed),
        };
        let mut tests = Vec::new();
        for (stratum, members) in from.groups(&by) {
            for column in 0..given.columns.len() {
                context.control.check()?;
                tests.push(compare(&given, from, axis, (&stratum, &members), column, &bootstrap));
            }
        }
        let raw: Vec<(usize, Option<f64>)> = tests.iter().map(|t| (t.column, t.p)).collect();
        for (test, adjusted) in tests.iter_mut().zip(adjust(&raw, given.family, &given.columns, &given.by)) {
            test.adjusted = adjusted;
        }
        let rows = tests
            .into_iter()
            .map(|test| {
                let unit = from.spec(&given.columns[test.column]).and_then(|s| s.unit.clone());
                let missing = from.missing_at(&given.by, &test.stratum);
                test.row(&given, unit, missing, &bootstrap)
            })
            .collect();
        let mut keys = given.by.clone();
        keys.push("metric".to_owned());
        let level = if given.by.is_empty() { Level::Pooled } else { Level::Marginal };
        Ok(Frame { level, keys, specs: columns(&given), rows, missing: from.missing.clone() })
    }
}

/// One comparison of a column in a stratum.
struct Comparison {
    stratum: Vec<Scalar>,
    column: usize,
    a: Option<Sample>,
    b: Option<Sample>,
    test: String,
    statistic: Option<f64>,
    df: Option<f64>,
    p: Option<f64>,
    interval: Option<Interval>,
    adjusted: Adjusted,
    lineage: Vec<crate::frame::Span>,
}

fn compare(
    given: &Parameters,
    from: &Frame,
    axis: usize,
    (stratum, members): (&[Scalar], &[usize]),
    column: usize,
    bootstrap: &Bootstrap,
) -> Comparison {
    let labels = given.pair.labels();
    let name = &given.columns[column];
    let side = |label: &str| -> Vec<usize> {
        let on = |m: &usize| from.rows[*m].key[axis].to_string() == *label && from.number(*m, name).is_some();
        members.iter().copied().filter(on).collect()
    };
    let rows = [side(&labels.0), side(&labels.1)];
    let values = |rows: &[usize]| Sample::new(rows.iter().filter_map(|r| from.number(*r, name))).ok();
    let (a, b) = (values(&rows[0]), values(&rows[1]));
    let both = a.as_ref().zip(b.as_ref());
    let mut test = given.test.word().to_owned();
    let (mut statistic, mut df, mut p) = (None, None, None);
    match given.test {
        Test::MannWhitney => {
            let continuity =
                if given.continuity_correction { Continuity::Corrected } else { Continuity::None };
            if let Some(found) = both.and_then(|(a, b)| mann_whitney_u(a, b, continuity)) {
                (statistic, p) = (Some(found.u), Some(found.p));
                test = format!("{test}, {}", found.method.word());
            }
        }
        Test::WelchT | Test::StudentT => {
            let of = if given.test == Test::WelchT { welch_t } else { pooled_t };
            if let Some(found) = both.and_then(|(a, b)| of(a, b)) {
                (statistic, df, p) = (Some(found.t), Some(found.df), Some(found.p));
            }
        }
        Test::Permutation => {
            let found = both.and_then(|(a, b)| {
                permutation_test_means(a.values(), b.values(), bootstrap.resamples, bootstrap.seed)
            });
            p = found.map(|f| f.p);
        }
    }
    let interval = both.and_then(|(a, b)| bootstrap.interval_of_difference(a, b));
    let lineage = spans(&given.from, rows.concat());
    Comparison {
        stratum: stratum.to_vec(),
        column,
        a,
        b,
        test,
        statistic,
        df,
        p,
        interval,
        adjusted: Adjusted::default(),
        lineage,
    }
}

impl Comparison {
    fn row(self, given: &Parameters, unit: Option<String>, missing: Scalar, bootstrap: &Bootstrap) -> Row {
        let (name_a, name_b) = given.pair.labels();
        let optional = |value: Option<String>| value.map_or(Scalar::Null, Scalar::Text);
        let size = |s: &Option<Sample>| count(s.as_ref().map_or(0, Sample::len));
        let mean = |s: &Option<Sample>| s.as_ref().map(Sample::mean);
        let both = self.a.as_ref().zip(self.b.as_ref());
        let delta = both.map(|(a, b)| a.mean() - b.mean());
        let higher =
            delta.filter(|d| *d != 0.0).map(|d| if d > 0.0 { name_a.clone() } else { name_b.clone() });
        let margin = given.equivalence.get(&given.columns[self.column]);
        let tost_p = both.zip(margin).and_then(|((a, b), m)| tost_welch(a, b, *m)).map(|t| t.p);
        let ci_method = self.interval.map(|_| {
            format!(
                "{}, {} resamples of rows of each side, ChaCha20, seed {}",
                bootstrap.kind.word(),
                bootstrap.resamples,
                bootstrap.seed
            )
        });
        let mut values = vec![
            optional(unit),
            text(&name_a),
            text(&name_b),
            size(&self.a),
            size(&self.b),
            missing,
            number(mean(&self.a)),
            number(mean(&self.b)),
            number(delta),
            number(self.interval.map(|i| i.low)),
            number(self.interval.map(|i| i.high)),
            optional(ci_method),
            text(&self.test),
            number(self.statistic),
            number(self.df),
            number(self.p),
            number(self.adjusted.holm),
            number(self.adjusted.bh),
            optional(self.adjusted.family.clone()),
            number(both.and_then(|(a, b)| cohens_d(a, b))),
            number(both.and_then(|(a, b)| hedges_g(a, b))),
            number(both.map(|(a, b)| cliffs_delta(a, b))),
            optional(higher),
            number(margin.copied()),
            number(tost_p),
            tost_p.map_or(Scalar::Null, |p| Scalar::Bool(p < given.alpha)),
        ];
        let specs = columns(given);
        let of = |name: &str| values[specs.iter().position(|s| s.name == name)?].as_f64();
        let equivalent = tost_p.is_some_and(|p| p < given.alpha);
        let verdict = both.map(|_| given.rule().verdict(&of, self.interval, equivalent));
        values.push(optional(verdict.map(str::to_owned)));
        let mut key = self.stratum;
        key.push(text(&given.columns[self.column]));
        Row { key, values, lineage: self.lineage }
    }
}
