//! `correlation`: do two columns go together?

use pipeline::{Failure, Json, Problem, Step};
use rows::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::CorrelationKind;

use crate::frame::{Frame, Level, Row, Spec, count, number, spans, text};
use crate::operator::{Context, Operator, Plan, Scope, at, parameters};
use crate::operators::pairs::{all_declared, named};

pub(crate) struct Correlation;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Parameters {
    /// The table that holds the columns; each of its rows is a point.
    from: String,
    /// The pairs of columns (or keys that are numbers).
    pairs: Vec<Both>,
    /// The coefficients.
    #[serde(default = "every")]
    coefficients: Vec<Coefficient>,
    /// Axes kept apart, a row each.
    #[serde(default)]
    by: Vec<String>,
    /// Axes whose rows are the points.
    over: Vec<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Both {
    /// One column.
    x: String,
    /// The other.
    y: String,
}

#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Coefficient {
    Pearson,
    Spearman,
    Kendall,
}

impl Coefficient {
    fn kind(self) -> CorrelationKind {
        match self {
            Self::Pearson => CorrelationKind::Pearson,
            Self::Spearman => CorrelationKind::Spearman,
            Self::Kendall => CorrelationKind::Kendall,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Pearson => "pearson",
            Self::Spearman => "spearman",
            Self::Kendall => "kendall",
        }
    }
}

fn every() -> Vec<Coefficient> {
    vec![
        Coefficient::Pearson,
        Coefficient::Spearman,
        Coefficient::Kendall,
    ]
}

fn columns() -> Vec<Spec> {
    vec![
        Spec::int("n", "1", "points with both values"),
        Spec::float(
            "correlation",
            "1",
            "the coefficient, in [−1, 1]; null without spread on a side",
        ),
        Spec::float(
            "p",
            "1",
            "two-sided p value of no association; null for fewer than three points (Kendall: two)",
        ),
        Spec::text(
            "missing",
            "cells that should have contributed and did not; null if none",
        ),
    ]
}

impl Operator for Correlation {
    fn name(&self) -> &'static str {
        "correlation"
    }

    fn summary(&self) -> &'static str {
        "Pearson's, Spearman's and Kendall's correlation of pairs of columns, with p values."
    }

    fn source(&self) -> &'static str {
        "Pearson's r = Σ(x − x̄)(y − ȳ) ÷ √(Σ(x − x̄)² Σ(y − ȳ)²); Spearman's ρ is r of mid-ranks; Kendall's τ-b after Knight (JASA 61, 1966). p as scipy.stats: r exact under normality, ρ by Student's t, τ exact without ties for at most 33 points, else normal. Points that share a server or a host are not independent; the p value does not know."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let given: Parameters = settings.read()?;
        let route = |i: usize, side: &str| {
            vec![
                Step::Key("pairs".to_owned()),
                Step::Index(i),
                Step::Key(side.to_owned()),
            ]
        };
        let mut wanted = Vec::new();
        for (i, pair) in given.pairs.iter().enumerate() {
            wanted.extend([
                (route(i, "x"), pair.x.as_str()),
                (route(i, "y"), pair.y.as_str()),
            ]);
        }
        // A name in `over` may be a key, which planning does not know.
        wanted.retain(|(_, name)| !given.over.iter().any(|axis| axis == name));
        scope.numbers(settings, (&at("from"), &given.from), &wanted)?;
        if given.pairs.is_empty() || given.coefficients.is_empty() {
            return Err(vec![settings.problem(
                &at("pairs"),
                "a correlation needs a pair and a coefficient",
            )]);
        }
        Ok(Plan {
            columns: columns(),
            parameters: rows::canonical(&given),
        })
    }

    fn run(&self, given: &Json, context: &Context<'_>) -> Result<Frame, Failure> {
        let given: Parameters = parameters(given)?;
        let from = context.table(&given.from)?;
        all_declared(from, &given.from, &[&given.by, &given.over])?;
        let by = from.key_positions(&given.by, &given.from)?;
        let mut rows = Vec::new();
        for (stratum, members) in from.groups(&by) {
            let missing = from.missing_at(&given.by, &stratum);
            for pair in &given.pairs {
                let both =
                    |m: &usize| Some((*m, (named(from, *m, &pair.x)?, named(from, *m, &pair.y)?)));
                let known: Vec<(usize, (f64, f64))> = members.iter().filter_map(both).collect();
                let points: Vec<(f64, f64)> = known.iter().map(|(_, p)| *p).collect();
                for coefficient in &given.coefficients {
                    let found = statistics::correlation(coefficient.kind(), &points);
                    let mut key = stratum.clone();
                    key.extend([text(&pair.x), text(&pair.y), text(coefficient.word())]);
                    let values = vec![
                        count(points.len()),
                        number(found.map(|f| f.coefficient)),
                        number(found.and_then(|f| f.p)),
                        missing.clone(),
                    ];
                    rows.push(Row {
                        key,
                        values,
                        lineage: spans(&given.from, known.iter().map(|(m, _)| *m)),
                    });
                }
            }
        }
        let mut keys = given.by.clone();
        keys.extend(["x", "y", "coefficient"].map(str::to_owned));
        let level = if given.by.is_empty() {
            Level::Pooled
        } else {
            Level::Marginal
        };
        Ok(Frame {
            level,
            keys,
            specs: columns(),
            rows,
            missing: from.missing.clone(),
        })
    }
}
