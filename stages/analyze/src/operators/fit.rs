//! `fit`: a scaling model over a ladder.

use artifacts::Scalar;
use pipeline::{Failure, Json, Problem};
use rows::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frame::{Frame, Level, Row, Spec, count, number, spans, text};
use crate::operator::{Context, Operator, Plan, Scope, at, parameters};
use crate::operators::pairs::rung;

pub(crate) struct Fit;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Parameters {
    /// The table that holds the points.
    from: String,
    /// The axis of x.
    ladder: String,
    /// The column of y.
    column: String,
    /// The model.
    model: Model,
    /// The level of the parameters' t intervals.
    #[serde(default = "confidence")]
    confidence: f64,
}

#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Model {
    MichaelisMenten,
    PowerLaw,
    Amdahl,
    Usl,
}

impl Model {
    fn statistics(self) -> statistics::Model {
        match self {
            Self::MichaelisMenten => statistics::Model::MichaelisMenten,
            Self::PowerLaw => statistics::Model::PowerLaw,
            Self::Amdahl => statistics::Model::Amdahl,
            Self::Usl => statistics::Model::Usl,
        }
    }
}

fn confidence() -> f64 {
    0.95
}

fn columns(given: &Parameters) -> Vec<Spec> {
    let formula = given.model.statistics().formula();
    let (y, x, level) = (&given.column, &given.ladder, given.confidence);
    vec![
        Spec::text("model", format!("{y} = {formula} with x = {x}")),
        Spec::float("value", "", "the parameter; null if the points do not determine it"),
        Spec::float("std_error", "", "its standard error; null without degrees of freedom"),
        Spec::float("ci_low", "", format!("lower end of its {level} t interval")),
        Spec::float("ci_high", "", format!("upper end of its {level} t interval")),
        Spec::int("n", "1", "points"),
        Spec::int("df", "1", "points less parameters; 0 = the curve goes through every point"),
        Spec::float("rss", "", "residual sum of squares"),
        Spec::float("r2", "1", "1 − RSS ÷ total sum of squares about the mean"),
        Spec::text("method", "how it was fitted, or why not"),
        Spec::text("missing", "cells that should have contributed and did not; null if none"),
    ]
}

impl Operator for Fit {
    fn name(&self) -> &'static str {
        "fit"
    }

    fn summary(&self) -> &'static str {
        "A scaling model fitted over a ladder by nonlinear least squares, one row per parameter."
    }

    fn source(&self) -> &'static str {
        "Nonlinear least squares on the original scale (Levenberg–Marquardt). Linearised fits of the same points give other parameters. USL after Gunther (1993)."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let given: Parameters = settings.read()?;
        let wanted = [(at("column"), given.column.as_str())];
        scope.numbers(settings, (&at("from"), &given.from), &wanted)?;
        if !(given.confidence > 0.0 && given.confidence < 1.0) {
            return Err(vec![settings.problem(&at("confidence"), "a confidence level lies between 0 and 1")]);
        }
        Ok(Plan { columns: columns(&given), parameters: rows::canonical(&given) })
    }

    fn run(&self, given: &Json, context: &Context<'_>) -> Result<Frame, Failure> {
        let given: Parameters = parameters(given)?;
        let from = context.table(&given.from)?;
        let ladder = from.key_position(&given.ladder, &given.from)?;
        let others: Vec<usize> = (0..from.keys.len()).filter(|p| *p != ladder).collect();
        let mut keys: Vec<String> = others.iter().map(|p| from.keys[*p].clone()).collect();
        let model = given.model.statistics();
        let mut rows = Vec::new();
        for (key, members) in from.groups(&others) {
            let (mut points, mut used) = (Vec::new(), Vec::new());
            for row in members {
                let x = rung(&from.rows[row].key[ladder], &given.ladder)?;
                if let Some(y) = from.number(row, &given.column) {
                    points.push((x, y));
                    used.push(row);
                }
            }
            let fitted = statistics::fit(model, &points);
            let method = match &fitted {
                Ok(_) => "nonlinear least squares on the original scale (Levenberg–Marquardt)".to_owned(),
                Err(error) => format!("not fitted: {error}"),
            };
            let fitted = fitted.ok();
            let missing = from.missing_at(&keys, &key);
            for (i, name) in model.parameters().iter().enumerate() {
                let of = |f: &dyn Fn(&statistics::Fit) -> Option<f64>| number(fitted.as_ref().and_then(f));
                let mut key = key.clone();
                key.push(text(*name));
                let values = vec![
                    text(model.formula()),
                    of(&|f| Some(f.values[i])),
                    of(&|f| Some(f.errors.as_ref()?[i])),
                    of(&|f| Some(f.interval(i, given.confidence)?.0)),
                    of(&|f| Some(f.interval(i, given.confidence)?.1)),
                    count(points.len()),
                    fitted.as_ref().map_or(Scalar::Null, |f| count(f.df)),
                    of(&|f| Some(f.rss)),
                    of(&|f| f.r2),
                    text(&method),
                    missing.clone(),
                ];
                rows.push(Row { key, values, lineage: spans(&given.from, used.iter().copied()) });
            }
        }
        keys.push("parameter".to_owned());
        let missing = from.missing.clone();
        Ok(Frame { level: Level::Marginal, keys, specs: columns(&given), rows, missing })
    }
}
