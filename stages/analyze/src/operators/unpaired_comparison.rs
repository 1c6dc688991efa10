//! `unpaired-comparison`: is one side better than the other, where nothing pairs them?

use std::collections::BTreeMap;

use artifacts::Scalar;
use pipeline::{Failure, Json, Problem};
use rows::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{
    Bootstrap, Continuity, Sample, cliffs_delta, cohens_d, hedges_g, mann_whitney_u,
    permutation_test_means, pooled_t, tost_welch, welch_t,
};

use crate::frame::{Frame, Spec, count, number, spans, text};
use crate::operator::{Context, Operator, Plan, Scope, at, items, parameters};
use crate::operators::comparison::{
    Compared, Shared, Terms, alpha, clusters, confidence, resampled, resamples,
};
use crate::operators::decision::{Family, Kind, Rule};
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
    /// Axes among `over` whose labels are the resampling unit: rows of one label are drawn
    /// together. None: the unit is the row. Either way each side is resampled by itself.
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

impl Parameters {
    fn terms(&self) -> Terms<'_> {
        Terms {
            pair: &self.pair,
            by: &self.by,
            columns: &self.columns,
            bootstrap: self.bootstrap,
            unit: format!("{} of each side", resampled(&self.cluster, "rows")),
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
        Spec::text("a", "the first side; differences are a − b"),
        Spec::text("b", "the second side, the base"),
        Spec::int("n_a", "1", format!("values of {a}")),
        Spec::int("n_b", "1", format!("values of {b}")),
        Spec::text(
            "missing",
            "cells that should have contributed and did not; null if none",
        ),
        Spec::float("mean_a", "", format!("mean of {a}, in the metric's unit")),
        Spec::float("mean_b", "", format!("mean of {b}, in the metric's unit")),
        Spec::float("mean_delta", "", "mean_a − mean_b, in the metric's unit"),
    ];
    columns.extend(terms.interval_columns("mean_delta"));
    columns.extend([
        Spec::text("test", "the test that decides, and its distribution"),
        Spec::float("statistic", "1", "U of a, or t; null for permutation"),
        Spec::float(
            "df",
            "1",
            "degrees of freedom of t; null for the other tests",
        ),
    ]);
    columns.extend(Terms::p_columns());
    columns.extend([
        Spec::float(
            "cohens_d",
            "1",
            "mean_delta ÷ pooled standard deviation; null without spread",
        ),
        Spec::float(
            "hedges_g",
            "1",
            "cohens_d with the exact small-sample factor",
        ),
        Spec::float(
            "cliffs_delta",
            "1",
            "P(a > b) − P(a < b) over all pairs of values",
        ),
    ]);
    columns.extend(terms.decision_columns("Welch"));
    columns
}

impl Operator for UnpairedComparison {
    fn name(&self) -> &'static str {
        "unpaired-comparison"
    }

    fn summary(&self) -> &'static str {
        "Two sides whose values are independent: difference of means, a test with adjusted p, interval, effect sizes, equivalence, verdict."
    }

    fn source(&self) -> &'static str {
        "Mann–Whitney as scipy.stats.mannwhitneyu (exact if a side has at most 8 values and nothing is tied); Welch (Biometrika 34, 1947); Student with pooled variance; permutation of labels with (hits + 1) ÷ (resamples + 1); bootstrap after Efron & Tibshirani (1993), each side by itself, of clusters where rows are not independent. Where coordinates match, `paired-comparison` sees smaller differences. A key in none of `over`, `by` and `pair` is refused."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let given: Parameters = settings.read()?;
        let wanted = items("columns", &given.columns);
        scope.numbers(settings, (&at("from"), &given.from), &wanted)?;
        let mut problems = given.terms().check(settings, &columns(&given));
        for (place, axis) in items("cluster", &given.cluster) {
            if !given.over.iter().any(|over| over == axis) {
                let known: Vec<&str> = given.over.iter().map(String::as_str).collect();
                let message = format!("`{axis}` is not among `over`");
                problems.push(
                    settings
                        .problem(&place, message)
                        .hint(rows::did_you_mean(axis, &known)),
                );
            }
        }
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
        let sides = [given.pair.axis.clone()];
        all_declared(from, &given.from, &[&given.by, &given.over, &sides])?;
        let axis = from.key_position(&given.pair.axis, &given.from)?;
        let by = from.key_positions(&given.by, &given.from)?;
        given.pair.check(from, axis)?;
        let cluster = from.key_positions(&given.cluster, &given.from)?;
        let terms = given.terms();
        let bootstrap = terms.bootstrap(context.seed);
        let mut tests = Vec::new();
        for (stratum, members) in from.groups(&by) {
            for column in 0..given.columns.len() {
                context.control.check()?;
                let on = |label: &str| {
                    let rows = members.iter().copied();
                    rows.filter(|row| from.rows[*row].key[axis].to_string() == label)
                        .collect()
                };
                let side =
                    |label: &str| Side::new(from, on(label), &given.columns[column], &cluster);
                let (a, b) = given.pair.labels();
                tests.push(compare(
                    &given,
                    &stratum,
                    column,
                    (side(&a), side(&b)),
                    &bootstrap,
                ));
            }
        }
        Ok(terms.table(tests, columns(&given), (from, from), &bootstrap, values))
    }
}

/// The values of one side.
struct Side {
    /// The rows that have a value.
    rows: Vec<usize>,
    sample: Option<Sample>,
    /// The values of each resampling unit; none if that is the row.
    clusters: Vec<Vec<f64>>,
}

impl Side {
    fn new(from: &Frame, rows: Vec<usize>, column: &str, cluster: &[usize]) -> Self {
        let valued: Vec<(usize, f64)> = rows
            .into_iter()
            .filter_map(|row| Some((row, from.number(row, column)?)))
            .collect();
        let label = |row: usize| {
            cluster
                .iter()
                .map(|c| from.rows[row].key[*c].clone())
                .collect()
        };
        let labelled = || {
            valued
                .iter()
                .map(|(row, value)| (label(*row), *value))
                .collect()
        };
        Self {
            sample: Sample::new(valued.iter().map(|(_, value)| *value)).ok(),
            clusters: if cluster.is_empty() {
                Vec::new()
            } else {
                clusters(labelled())
            },
            rows: valued.into_iter().map(|(row, _)| row).collect(),
        }
    }
}

/// What only an unpaired comparison has.
struct Unpaired {
    a: Option<Sample>,
    b: Option<Sample>,
    test: String,
    statistic: Option<f64>,
    df: Option<f64>,
}

fn compare(
    given: &Parameters,
    stratum: &[Scalar],
    column: usize,
    (a, b): (Side, Side),
    bootstrap: &Bootstrap,
) -> Compared<Unpaired> {
    let both = a.sample.as_ref().zip(b.sample.as_ref());
    let mut test = given.test.word().to_owned();
    let (mut statistic, mut df, mut p) = (None, None, None);
    match given.test {
        Test::MannWhitney => {
            let continuity = if given.continuity_correction {
                Continuity::Corrected
            } else {
                Continuity::None
            };
            if let Some(found) = both.and_then(|(a, b)| mann_whitney_u(a, b, continuity)) {
                (statistic, p) = (Some(found.u), Some(found.p));
                test = format!("{test}, {}", found.method.word());
            }
        }
        Test::WelchT | Test::StudentT => {
            let of = if given.test == Test::WelchT {
                welch_t
            } else {
                pooled_t
            };
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
    let interval = if given.cluster.is_empty() {
        both.and_then(|(a, b)| bootstrap.interval_of_difference(a, b))
    } else {
        bootstrap.interval_of_difference_of_clusters(&a.clusters, &b.clusters)
    };
    let margin = given.terms().margin(column);
    Compared {
        stratum: stratum.to_vec(),
        column,
        delta: both.map(|(a, b)| a.mean() - b.mean()),
        interval,
        p,
        tost_p: both
            .zip(margin)
            .and_then(|((a, b), margin)| tost_welch(a, b, margin))
            .map(|t| t.p),
        lineage: spans(&given.from, [a.rows, b.rows].concat()),
        own: Unpaired {
            a: a.sample,
            b: b.sample,
            test,
            statistic,
            df,
        },
    }
}

/// The values of a comparison before the last five.
fn values(test: &Compared<Unpaired>, shared: Shared) -> Vec<Scalar> {
    let Unpaired {
        a,
        b,
        test: name,
        statistic,
        df,
    } = &test.own;
    let size = |s: &Option<Sample>| count(s.as_ref().map_or(0, Sample::len));
    let mean = |s: &Option<Sample>| number(s.as_ref().map(Sample::mean));
    let both = a.as_ref().zip(b.as_ref());
    let mut values = shared.sides.to_vec();
    values.extend([
        size(a),
        size(b),
        shared.missing,
        mean(a),
        mean(b),
        number(test.delta),
    ]);
    values.extend(shared.interval);
    values.extend([text(name), number(*statistic), number(*df)]);
    values.extend(shared.p);
    values.extend([
        number(both.and_then(|(a, b)| cohens_d(a, b))),
        number(both.and_then(|(a, b)| hedges_g(a, b))),
        number(both.map(|(a, b)| cliffs_delta(a, b))),
    ]);
    values
}
