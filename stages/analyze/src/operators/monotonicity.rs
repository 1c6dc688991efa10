//! `monotonicity`: does a curve go one way, where is its steepest step, does it come back?

use artifacts::Scalar;
use pipeline::{Failure, Json, Problem};
use rows::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frame::{Frame, Level, Row, Spec, count, number, spans, text};
use crate::operator::{Context, Operator, Plan, Scope, at, parameters};
use crate::operators::pairs::rung;

pub(crate) struct Monotonicity;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Parameters {
    /// The table that holds the curve.
    from: String,
    /// The axis along which it runs.
    ladder: String,
    /// The column.
    column: String,
    /// The way it should go.
    expect: Way,
    /// A step against that way counts only if it is larger than this, in the column's unit.
    #[serde(default)]
    tolerance: f64,
    /// A value whose crossings are listed.
    #[serde(default)]
    threshold: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Way {
    Rising,
    Falling,
}

fn columns(of: &Spec, given: &Parameters) -> Vec<Spec> {
    let (unit, name, ladder) = (
        of.unit.as_deref().unwrap_or_default(),
        &of.name,
        &given.ladder,
    );
    let way = if given.expect == Way::Rising {
        "rises"
    } else {
        "falls"
    };
    let threshold = given
        .threshold
        .map_or_else(|| "the threshold".to_owned(), |t| t.to_string());
    vec![
        Spec::int(
            "n",
            "1",
            format!("values of {ladder} with a value of {name}"),
        ),
        Spec::boolean(
            "monotone",
            format!(
                "whether {name} {way} or stays from each value to the next, within {}; null for fewer than two",
                given.tolerance
            ),
        ),
        Spec::boolean(
            "strictly",
            format!("whether it {way} at every step; null for fewer than two"),
        ),
        Spec::text("against", "the steps that go the other way; null if none"),
        Spec::float(
            "steepest_from",
            "1",
            format!("{ladder} at which the largest step starts, the first of equals"),
        ),
        Spec::float("steepest_to", "1", format!("{ladder} at which it ends")),
        Spec::float(
            "steepest_step",
            unit,
            format!("{name} there less {name} before"),
        ),
        Spec::int(
            "steepest_ties",
            "1",
            "other steps of exactly that size and sign",
        ),
        Spec::text(
            "crossings",
            format!(
                "{ladder} at which {name} is on the other side of {threshold} than before; null if none"
            ),
        ),
        Spec::int("n_crossings", "1", "their number; null without a threshold"),
        Spec::boolean(
            "recrosses",
            "whether it comes back: more than one crossing; null without a threshold",
        ),
        Spec::text(
            "missing",
            "cells that should have contributed and did not; null if none",
        ),
    ]
}

impl Operator for Monotonicity {
    fn name(&self) -> &'static str {
        "monotonicity"
    }

    fn summary(&self) -> &'static str {
        "Whether a column goes one way along a ladder, its steepest step, and every crossing of a threshold."
    }

    fn source(&self) -> &'static str {
        "A step is the difference of neighbouring values of the ladder. A first crossing says little where the curve comes back: read it with `recrosses`. A value equal to the threshold is not below it."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let given: Parameters = settings.read()?;
        let wanted = [(at("column"), given.column.as_str())];
        let found = scope.numbers(settings, (&at("from"), &given.from), &wanted)?;
        if given.tolerance.is_nan() || given.tolerance < 0.0 {
            return Err(vec![
                settings.problem(&at("tolerance"), "a tolerance is not negative"),
            ]);
        }
        Ok(Plan {
            columns: columns(&found[0], &given),
            parameters: rows::canonical(&given),
        })
    }

    fn run(&self, given: &Json, context: &Context<'_>) -> Result<Frame, Failure> {
        let given: Parameters = parameters(given)?;
        let from = context.table(&given.from)?;
        let ladder = from.key_position(&given.ladder, &given.from)?;
        let spec = from
            .spec(&given.column)
            .cloned()
            .ok_or_else(|| Failure::failed("the column is gone"))?;
        let others: Vec<usize> = (0..from.keys.len()).filter(|p| *p != ladder).collect();
        let keys: Vec<String> = others.iter().map(|p| from.keys[*p].clone()).collect();
        let mut rows = Vec::new();
        for (key, members) in from.groups(&others) {
            let mut curve = Vec::new();
            for row in &members {
                let n = rung(&from.rows[*row].key[ladder], &given.ladder)?;
                curve.extend(from.number(*row, &given.column).map(|v| (n, v)));
            }
            curve.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut values = judge(&given, &curve);
            values.push(from.missing_at(&keys, &key));
            rows.push(Row {
                key,
                values,
                lineage: spans(&given.from, members),
            });
        }
        let specs = columns(&spec, &given);
        Ok(Frame {
            level: Level::Marginal,
            keys,
            specs,
            rows,
            missing: from.missing.clone(),
        })
    }
}

fn judge(given: &Parameters, curve: &[(f64, f64)]) -> Vec<Scalar> {
    let steps: Vec<(f64, f64, f64)> = curve
        .windows(2)
        .map(|w| (w[0].0, w[1].0, w[1].1 - w[0].1))
        .collect();
    let along = |step: f64| {
        if given.expect == Way::Rising {
            step
        } else {
            -step
        }
    };
    let against: Vec<String> = steps
        .iter()
        .filter(|s| along(s.2) < -given.tolerance)
        .map(|(from, to, _)| format!("{from} → {to}"))
        .collect();
    let judged = |truth: bool| {
        if steps.is_empty() {
            Scalar::Null
        } else {
            Scalar::Bool(truth)
        }
    };
    let listed = |items: &[String]| {
        if items.is_empty() {
            Scalar::Null
        } else {
            text(items.join(", "))
        }
    };
    let largest = steps.iter().map(|s| s.2.abs()).reduce(f64::max);
    let steepest = steps.iter().find(|s| Some(s.2.abs()) == largest);
    let ties = steepest.map(|one| steps.iter().filter(|s| s.2 == one.2).count() - 1);
    let crossings: Vec<String> = given.threshold.map_or_else(Vec::new, |t| {
        let crossed = curve.windows(2).filter(|w| (w[0].1 < t) != (w[1].1 < t));
        crossed.map(|w| w[1].0.to_string()).collect()
    });
    let bounded = given.threshold.is_some() && !curve.is_empty();
    vec![
        count(curve.len()),
        judged(against.is_empty()),
        judged(steps.iter().all(|s| along(s.2) > 0.0)),
        listed(&against),
        number(steepest.map(|s| s.0)),
        number(steepest.map(|s| s.1)),
        number(steepest.map(|s| s.2)),
        ties.map_or(Scalar::Null, count),
        listed(&crossings),
        if bounded {
            count(crossings.len())
        } else {
            Scalar::Null
        },
        if bounded {
            Scalar::Bool(crossings.len() > 1)
        } else {
            Scalar::Null
        },
    ]
}
