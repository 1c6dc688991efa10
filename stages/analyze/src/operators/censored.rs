//! `censored`: latencies of which some are only known to exceed the time at which they were
//! given up.

use artifacts::Scalar;
use pipeline::{Failure, Json, Problem};
use rows::{Settings, Timing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Sample, kaplan_meier};

use crate::frame::{Frame, Row, Spec, count, number, spans, text};
use crate::operator::{Context, Operator, Plan, Scope, parameters};
use crate::operators::cells::{Group, each_group};
use crate::operators::distribution::{improbable, quantile_name};

pub(crate) struct Censored;

/// Statuses of requests that were still running when they were given up.
const GIVEN_UP: &[&str] = &["timeout", "hung", "cancelled"];

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Parameters {
    /// The load stage, if several are needed.
    #[serde(default)]
    load: Option<String>,
    /// The latency.
    #[serde(default)]
    metric: Latency,
    /// What a request that was given up says about its latency.
    #[serde(default)]
    convention: Convention,
    /// The probabilities of the quantiles.
    #[serde(default = "quantiles")]
    quantiles: Vec<f64>,
    /// Axes whose cells are pooled, value by value; none: a row per cell.
    #[serde(default)]
    over: Vec<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Latency {
    #[default]
    E2eLatencyMs,
    TtftMs,
}

impl Latency {
    fn name(self) -> &'static str {
        match self {
            Self::E2eLatencyMs => "e2e_latency_ms",
            Self::TtftMs => "ttft_ms",
        }
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Convention {
    #[default]
    KaplanMeier,
    AtLeast,
}

impl Convention {
    fn word(self) -> &'static str {
        match self {
            Self::KaplanMeier => {
                "kaplan-meier: a request given up lasts longer than it was waited for"
            }
            Self::AtLeast => "at-least: a request given up counts with the time it was waited for",
        }
    }
}

fn quantiles() -> Vec<f64> {
    vec![0.5, 0.9, 0.95, 0.99]
}

fn columns(given: &Parameters) -> Vec<Spec> {
    let name = given.metric.name();
    let mut columns = vec![
        Spec::text(
            "level",
            "cell, or marginal or pooled where cells are taken together",
        ),
        Spec::text(
            "convention",
            "what a request that was given up says about its latency",
        ),
        Spec::int(
            "n_observed",
            "1",
            format!("measured requests whose {name} was seen in full"),
        ),
        Spec::int(
            "n_censored",
            "1",
            "measured requests given up (timeout, hung, cancelled) before it was",
        ),
        Spec::int(
            "n_failed",
            "1",
            "measured requests that ended otherwise: no latency, in no row here",
        ),
        Spec::float(
            "longest_wait_ms",
            "ms",
            "the largest value, seen in full or not",
        ),
        Spec::text(
            "cells_without_rows",
            "cells that left no rows, with the reason: in no value here; null if none",
        ),
    ];
    for p in &given.quantiles {
        let short = quantile_name(*p);
        let column = format!("{name}_{short}");
        let (how, bound) = match given.convention {
            Convention::KaplanMeier => (
                format!(
                    "smallest value beyond which the Kaplan–Meier estimate leaves at most {}; null if it does not come down that far",
                    round(1.0 - p)
                ),
                "whether it is unknown and longest_wait_ms its lower bound",
            ),
            Convention::AtLeast => (
                format!(
                    "quantile {p} (type 7), requests given up at the time they were waited for"
                ),
                "whether it is only a lower bound: a request was given up at or before it",
            ),
        };
        columns.push(Spec::float(&column, "ms", format!("{how}; {name}")));
        columns.push(Spec::boolean(format!("{column}_is_bound"), bound));
    }
    columns
}

fn round(share: f64) -> f64 {
    (share * 1e9).round() / 1e9
}

impl Operator for Censored {
    fn name(&self) -> &'static str {
        "censored"
    }

    fn summary(&self) -> &'static str {
        "Latency quantiles in which requests that hung or timed out count as what they are: larger than a bound."
    }

    fn source(&self) -> &'static str {
        "Kaplan & Meier (JASA 53, 1958), as statsmodels' SurvfuncRight; quantiles after the definition inf{t: S(t) ≤ 1 − p}. Dropping such requests makes a server that hangs look fast; a zero or the limit as a plain value is no latency either."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, _scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let given: Parameters = settings.read()?;
        let problems = improbable(settings, &given.quantiles);
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
        let load = context.load(given.load.as_deref())?;
        each_group(context, load, &given.over, columns(&given), |group| {
            describe(&given, group)
        })
    }
}

fn describe(given: &Parameters, group: Group<'_>) -> Result<Row, Failure> {
    let Group {
        key,
        cells,
        missing,
        level,
    } = group;
    let (mut observed, mut censored, mut failed) = (Vec::new(), Vec::new(), 0);
    let mut lineage = Vec::new();
    for cell in cells {
        let cell = cell.get()?;
        let timings = rows::timings(&cell);
        for t in &timings {
            match (full(given.metric, t), waited(t)) {
                (Some(value), _) => observed.push(value),
                (None, Some(bound)) => censored.push(bound),
                (None, None) => failed += 1,
            }
        }
        lineage.extend(spans(
            &cell.requests_digest.to_string(),
            timings.iter().map(|t| t.row),
        ));
    }
    let curve = kaplan_meier(&observed, &censored);
    let pooled = Sample::new(observed.iter().chain(&censored).copied()).ok();
    let first_bound = censored.iter().copied().reduce(f64::min);
    let mut values = vec![
        text(level.word()),
        text(given.convention.word()),
        count(observed.len()),
        count(censored.len()),
        count(failed),
        number(pooled.as_ref().map(Sample::max)),
        missing,
    ];
    for p in &given.quantiles {
        let (value, bound) = match given.convention {
            Convention::KaplanMeier => {
                let value = curve.as_ref().and_then(|c| c.quantile(*p));
                (value, curve.as_ref().map(|_| value.is_none()))
            }
            Convention::AtLeast => {
                let value = pooled.as_ref().map(|s| s.quantile(*p));
                (value, value.map(|v| first_bound.is_some_and(|b| b <= v)))
            }
        };
        values.extend([number(value), bound.map_or(Scalar::Null, Scalar::Bool)]);
    }
    Ok(Row {
        key,
        values,
        lineage,
    })
}

/// The latency where it was seen in full. A first token may have come before a request hung.
fn full(metric: Latency, t: &Timing<'_>) -> Option<f64> {
    let counts = t.request.is_ok()
        || (metric == Latency::TtftMs && GIVEN_UP.contains(&t.request.status.as_str()));
    rows::metric(metric.name())
        .filter(|_| counts)
        .and_then(|m| m.of(t))
}

/// How long a request that was given up had been waited for, ms.
fn waited(t: &Timing<'_>) -> Option<f64> {
    let given_up = GIVEN_UP.contains(&t.request.status.as_str());
    let (sent, done) = (t.request.sent_ns?, t.request.done_ns?);
    given_up.then_some((done - sent) as f64 / 1e6)
}
