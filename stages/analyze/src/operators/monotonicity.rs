//! `monotonicity`: does a curve go in one direction, where is its steepest step, does it turn back?

use artifacts::Scalar;
use pipeline::{Failure, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::columns::{Columns, listed, missing_spec};
use crate::frame::{Frame, Level, Spec, spans};
use crate::operator::{Context, Draft, TypedOperator};
use crate::operators::pairs::rung;

pub(crate) struct Monotonicity;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The table that holds the curve.
    from: String,
    /// The axis along which it runs.
    ladder: String,
    /// The column to read.
    column: String,
    /// The expected direction.
    expect: Way,
    /// A step in the other direction counts only if it is larger than this, in the column's unit.
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

/// A step from one value of the ladder to the next.
#[derive(Clone, Copy)]
struct Step {
    from: f64,
    to: f64,
    by: f64,
}

/// A column along one ladder.
struct Curve {
    points: usize,
    /// Null for fewer than two points.
    monotone: Option<bool>,
    strictly: Option<bool>,
    against: Vec<String>,
    steepest: Option<Step>,
    ties: Option<usize>,
    /// Undefined without a threshold.
    crossings: Option<Vec<String>>,
    missing: Scalar,
}

fn columns(spec: &Spec, given: &Parameters) -> Columns<'static, Curve> {
    let (name, ladder) = (&spec.name, &given.ladder);
    let unit = spec.unit.as_deref().unwrap_or_default();
    let way = if given.expect == Way::Rising {
        "rises"
    } else {
        "falls"
    };
    let threshold = given
        .threshold
        .map_or_else(|| "the threshold".to_owned(), |t| t.to_string());
    let monotone = format!(
        "whether {name} {way} or stays from each value to the next, within {}; null for fewer than two",
        given.tolerance
    );
    let strictly = format!("whether it {way} at every step; null for fewer than two");
    let from = format!("{ladder} at which the largest step starts, the first of equals");
    let crossings = format!(
        "{ladder} at which {name} is on the other side of {threshold} than before; null if none"
    );
    let recrosses = "whether it comes back: more than one crossing; null without a threshold";
    Columns::new()
        .with(
            Spec::int(
                "n",
                "1",
                format!("values of {ladder} with a value of {name}"),
            ),
            |c: &Curve| c.points,
        )
        .with(Spec::boolean("monotone", monotone), |c| c.monotone)
        .with(Spec::boolean("strictly", strictly), |c| c.strictly)
        .with(
            Spec::text("against", "the steps in the other direction; null if none"),
            |c| listed(&c.against),
        )
        .with(Spec::float("steepest_from", "1", from), |c| {
            c.steepest.map(|s| s.from)
        })
        .with(
            Spec::float("steepest_to", "1", format!("{ladder} at which it ends")),
            |c| c.steepest.map(|s| s.to),
        )
        .with(
            Spec::float(
                "steepest_step",
                unit,
                format!("{name} there less {name} before"),
            ),
            |c| c.steepest.map(|s| s.by),
        )
        .with(
            Spec::int(
                "steepest_ties",
                "1",
                "other steps of exactly that size and sign",
            ),
            |c| c.ties,
        )
        .with(Spec::text("crossings", crossings), |c| {
            c.crossings.as_deref().and_then(listed)
        })
        .with(
            Spec::int("n_crossings", "1", "their number; null without a threshold"),
            |c| c.crossings.as_ref().map(Vec::len),
        )
        .with(Spec::boolean("recrosses", recrosses), |c| {
            c.crossings.as_ref().map(|all| all.len() > 1)
        })
        .with(missing_spec(), |c| c.missing.clone())
}

impl TypedOperator for Monotonicity {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "monotonicity";
    const SUMMARY: &'static str = "Whether a column goes one way along a ladder, its steepest step, and every crossing of a threshold.";
    const SOURCE: &'static str = "\
        A step is the difference between neighbouring values of the ladder. If the curve comes back, the first \
        crossing means little: read it together with `recrosses`. A value equal to the threshold is not below it. The \
        operator compares values; it makes no test.";

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let spec = draft.column(&given.from, &given.column)?;
        if given.tolerance.is_nan() || given.tolerance < 0.0 {
            return Err(vec![
                draft.problem("tolerance", "a tolerance must not be negative"),
            ]);
        }
        Ok(columns(&spec, given).specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let from = context.table(&given.from)?;
        let ladder = from.key_position(&given.ladder, &given.from)?;
        let columns = columns(&from.declared(&given.column)?, given);
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
            let curve = judge(given, &curve, from.missing_at(&keys, &key));
            rows.push(columns.row(key, &curve, spans(&given.from, members)));
        }
        Ok(Frame {
            level: Level::Marginal,
            keys,
            specs: columns.specs(),
            rows,
            missing: from.missing.clone(),
        })
    }
}

fn judge(given: &Parameters, points: &[(f64, f64)], missing: Scalar) -> Curve {
    let steps: Vec<Step> = points
        .windows(2)
        .map(|w| Step {
            from: w[0].0,
            to: w[1].0,
            by: w[1].1 - w[0].1,
        })
        .collect();
    let along = |step: &Step| match given.expect {
        Way::Rising => step.by,
        Way::Falling => -step.by,
    };
    let against: Vec<String> = steps
        .iter()
        .filter(|step| along(step) < -given.tolerance)
        .map(|step| format!("{} → {}", step.from, step.to))
        .collect();
    let judged = |truth: bool| (!steps.is_empty()).then_some(truth);
    let largest = steps.iter().map(|s| s.by.abs()).reduce(f64::max);
    let steepest = steps.iter().copied().find(|s| Some(s.by.abs()) == largest);
    let threshold = given.threshold.filter(|_| !points.is_empty());
    Curve {
        points: points.len(),
        monotone: judged(against.is_empty()),
        strictly: judged(steps.iter().all(|s| along(s) > 0.0)),
        against,
        steepest,
        ties: steepest.map(|one| steps.iter().filter(|s| s.by == one.by).count() - 1),
        crossings: threshold.map(|t| {
            let crossed = points.windows(2).filter(|w| (w[0].1 < t) != (w[1].1 < t));
            crossed.map(|w| w[1].0.to_string()).collect()
        }),
        missing,
    }
}
