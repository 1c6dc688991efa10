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
    /// How the parameters are found; the other methods are linearisations of Michaelis–Menten's
    /// law.
    #[serde(default)]
    method: Method,
    /// Values of the ladder at which the fitted curve is read, a row each.
    #[serde(default)]
    predict: Vec<f64>,
    /// How many times the largest value measured a prediction may lie at; beyond, it is refused.
    #[serde(default = "twice")]
    extrapolate: f64,
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

#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Method {
    #[default]
    Nonlinear,
    LineweaverBurk,
    HanesWoolf,
    EadieHofstee,
}

impl Method {
    fn linearisation(self) -> Option<statistics::Linearisation> {
        match self {
            Self::Nonlinear => None,
            Self::LineweaverBurk => Some(statistics::Linearisation::LineweaverBurk),
            Self::HanesWoolf => Some(statistics::Linearisation::HanesWoolf),
            Self::EadieHofstee => Some(statistics::Linearisation::EadieHofstee),
        }
    }

    fn words(self) -> String {
        match self.linearisation() {
            None => {
                "nonlinear least squares on the original scale (Levenberg–Marquardt)".to_owned()
            }
            Some(line) => format!("least-squares line of the {} transform", line.word()),
        }
    }
}

fn confidence() -> f64 {
    0.95
}

fn twice() -> f64 {
    2.0
}

fn columns(given: &Parameters) -> Vec<Spec> {
    let formula = given.model.statistics().formula();
    let (y, x, level) = (&given.column, &given.ladder, given.confidence);
    vec![
        Spec::text("model", format!("{y} = {formula} with x = {x}")),
        Spec::float(
            "value",
            "",
            "the parameter, or the curve at a value asked for; null if the points do not determine it, or the value lies too far beyond them",
        ),
        Spec::float(
            "std_error",
            "",
            "its standard error; null without degrees of freedom",
        ),
        Spec::float("ci_low", "", format!("lower end of its {level} t interval")),
        Spec::float(
            "ci_high",
            "",
            format!("upper end of its {level} t interval"),
        ),
        Spec::text(
            "covariances",
            "its covariances with the parameters in the order of the model, a space apart; null without degrees of freedom",
        ),
        Spec::int("n", "1", "points"),
        Spec::int(
            "df",
            "1",
            "points less parameters; 0 = the curve goes through every point",
        ),
        Spec::float("rss", "", "residual sum of squares"),
        Spec::float("r2", "1", "1 − RSS ÷ total sum of squares about the mean"),
        Spec::text("method", "how it was fitted, or why not"),
        Spec::text(
            "missing",
            "cells that should have contributed and did not; null if none",
        ),
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
        "Nonlinear least squares on the original scale (Levenberg–Marquardt). Linearised fits (Lineweaver–Burk, Hanes–Woolf, Eadie–Hofstee) of the same points give other parameters, so the method is named. A prediction further out than `extrapolate` times the largest value measured is refused; its row says so. USL after Gunther (1993)."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let given: Parameters = settings.read()?;
        let wanted = [(at("column"), given.column.as_str())];
        scope.numbers(settings, (&at("from"), &given.from), &wanted)?;
        let mut problems = Vec::new();
        if !(given.confidence > 0.0 && given.confidence < 1.0) {
            problems.push(
                settings.problem(&at("confidence"), "a confidence level lies between 0 and 1"),
            );
        }
        if given.method != Method::Nonlinear && !matches!(given.model, Model::MichaelisMenten) {
            problems.push(settings.problem(
                &at("method"),
                "a linearisation belongs to the model `michaelis-menten`",
            ));
        }
        if !(given.extrapolate >= 1.0 && given.extrapolate.is_finite()) {
            problems.push(settings.problem(
                &at("extrapolate"),
                "`extrapolate` is a factor of at least 1",
            ));
        }
        if given.predict.iter().any(|x| !(*x > 0.0 && x.is_finite())) {
            problems
                .push(settings.problem(&at("predict"), "a value of a ladder is a positive number"));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Plan {
            columns: columns(&given),
            parameters: rows::canonical(&given),
        })
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
            let fitted = match given.method.linearisation() {
                None => statistics::fit(model, &points),
                Some(line) => statistics::fit_linearised(line, &points),
            };
            let method = match &fitted {
                Ok(f) if f.df == 0 => format!(
                    "{}; no degree of freedom: the curve goes through every point",
                    given.method.words()
                ),
                Ok(_) => given.method.words(),
                Err(error) => format!("not fitted: {error}"),
            };
            let fitted = fitted.ok();
            let missing = from.missing_at(&keys, &key);
            for (i, name) in model.parameters().iter().enumerate() {
                let of = |f: &dyn Fn(&statistics::Fit) -> Option<f64>| {
                    number(fitted.as_ref().and_then(f))
                };
                let mut key = key.clone();
                key.push(text(*name));
                let values = vec![
                    text(model.formula()),
                    of(&|f| Some(f.values[i])),
                    of(&|f| f.error(i)),
                    of(&|f| Some(f.interval(i, given.confidence)?.0)),
                    of(&|f| Some(f.interval(i, given.confidence)?.1)),
                    covariances(fitted.as_ref(), i),
                    count(points.len()),
                    fitted.as_ref().map_or(Scalar::Null, |f| count(f.df)),
                    of(&|f| Some(f.rss)),
                    of(&|f| f.r2),
                    text(&method),
                    missing.clone(),
                ];
                rows.push(Row {
                    key,
                    values,
                    lineage: spans(&given.from, used.iter().copied()),
                });
            }
            rows.extend(predictions(&given, &key, fitted.as_ref(), &used, &missing));
        }
        keys.push("parameter".to_owned());
        let missing = from.missing.clone();
        Ok(Frame {
            level: Level::Marginal,
            keys,
            specs: columns(&given),
            rows,
            missing,
        })
    }
}

/// A row of the covariance matrix, each number so that it reads back the same.
fn covariances(fitted: Option<&statistics::Fit>, parameter: usize) -> Scalar {
    let row = fitted.and_then(|f| f.covariance.as_ref()?.get(parameter));
    row.map_or(Scalar::Null, |row| {
        text(row.iter().map(f64::to_string).collect::<Vec<_>>().join(" "))
    })
}

/// The curve at the values asked for, in rows like those of the parameters.
fn predictions(
    given: &Parameters,
    key: &[Scalar],
    fitted: Option<&statistics::Fit>,
    used: &[usize],
    missing: &Scalar,
) -> Vec<Row> {
    let Some(fitted) = fitted else {
        return Vec::new();
    };
    let row = |x: &f64| {
        let value = fitted.predict(*x, given.extrapolate);
        let told = match value {
            Some(_) if *x > fitted.largest_x => {
                format!(
                    "extrapolated to {} times the largest value",
                    x / fitted.largest_x
                )
            }
            Some(_) => "within the values measured".to_owned(),
            None => format!(
                "refused: {x} is {} times the largest value measured, more than {}",
                x / fitted.largest_x,
                given.extrapolate
            ),
        };
        let mut key = key.to_vec();
        key.push(text(format!("at {x}")));
        let values = vec![
            text(fitted.model.formula()),
            number(value),
            Scalar::Null,
            Scalar::Null,
            Scalar::Null,
            Scalar::Null,
            count(used.len()),
            count(fitted.df),
            number(Some(fitted.rss)),
            number(fitted.r2),
            text(told),
            missing.clone(),
        ];
        Row {
            key,
            values,
            lineage: spans(&given.from, used.iter().copied()),
        }
    };
    given.predict.iter().map(row).collect()
}
