//! `fit`: a scaling model over a ladder.

use std::rc::Rc;

use artifacts::Scalar;
use contract::IntervalEnd;
use pipeline::{Failure, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Interval, Sample};

use crate::columns::{Columns, missing_spec};
use crate::frame::{Bounds, Frame, Level, Row, Spec, spans, text};
use crate::operator::{Context, Draft, TypedOperator, unless};
use crate::operators::pairs::rung;
use crate::operators::units::{Mean, Units, WHY, short};

pub(crate) struct Fit;

#[cfg(test)]
mod tests;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The table that holds the points.
    from: String,
    /// The axis of x, such as `concurrency`.
    ladder: String,
    /// The column of y, such as `output_throughput`.
    column: String,
    /// The scaling model to fit.
    model: Model,
    /// The fitting method. The others are least-squares lines of a transform: of the Michaelis–Menten law, and `log-log` of a
    /// power law.
    #[serde(default)]
    method: Method,
    /// Values of the ladder at which to evaluate the fitted curve, one row each.
    #[serde(default)]
    predict: Vec<f64>,
    /// The largest prediction, as a multiple of the largest measured value. Predictions beyond it
    /// are refused.
    #[serde(default = "twice")]
    extrapolate: f64,
    /// The axes whose labels are the units of replication; by default `block`, if the table has it. The
    /// curve is fitted to the means over the units. The interval comes from separate curves of the
    /// units. If some units lack values of the ladder, each parameter is the mean over these curves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unit: Option<Vec<String>>,
    /// The level of the intervals.
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
    LogLog,
}

impl Method {
    fn linearisation(self) -> Option<statistics::Linearisation> {
        match self {
            Self::Nonlinear => None,
            Self::LineweaverBurk => Some(statistics::Linearisation::LineweaverBurk),
            Self::HanesWoolf => Some(statistics::Linearisation::HanesWoolf),
            Self::EadieHofstee => Some(statistics::Linearisation::EadieHofstee),
            Self::LogLog => Some(statistics::Linearisation::LogLog),
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

/// One parameter, or the curve at one value.
struct Figure {
    value: Option<f64>,
    std_error: Option<f64>,
    interval: Option<(f64, f64)>,
    /// The mean over the curves of the units.
    over_units: Option<Mean>,
    /// The reason why it cannot be a property of a system; undefined for predictions.
    physical: Option<Result<(), String>>,
    covariances: Option<String>,
    curve: Rc<Curve>,
    method: String,
}

/// The curve through the points of one group.
struct Curve {
    /// The number of points.
    points: usize,
    /// The curve through the means over the units; `None` if it has none, or if the units have unlike rungs.
    fitted: Option<statistics::Fit>,
    /// Whether some units lack rungs that others have. A mean over those that are left at a rung has their level, so
    /// the means then have no curve of their own.
    unlike: bool,
    /// The curves of the units that have one, with the label of the unit.
    units: Vec<(Vec<Scalar>, statistics::Fit)>,
    /// The number of units, with or without a curve.
    all_units: usize,
    unit: Units,
    missing: Scalar,
}

impl Curve {
    fn of<T>(&self, read: impl Fn(&statistics::Fit) -> Option<T>) -> Option<T> {
        self.fitted.as_ref().and_then(read)
    }

    /// The mean, over the units' curves, of a value read from each.
    fn over_units(
        &self,
        (level, range): (f64, Bounds),
        read: impl Fn(&statistics::Fit) -> Option<f64>,
    ) -> Option<Mean> {
        let value = |(label, fit): &(Vec<Scalar>, _)| Some((label.clone(), read(fit)?));
        let values: Vec<(Vec<Scalar>, f64)> = self.units.iter().filter_map(value).collect();
        // A unit whose points have no curve is not a unit like the others.
        let complete = values.len() == self.all_units;
        let mean = self.unit.mean_of(values, level, range);
        mean.filter(|_| complete)
    }

    /// Returns a value of the curve with its mean over the curves of the units. With unlike rungs, the mean is the value.
    /// An interval that does not contain the value is withheld: the curve of the means may lie outside of it if many units
    /// vary much.
    fn both(&self, value: Option<f64>, mean: Option<Mean>) -> (Option<f64>, Option<Mean>) {
        let Some(mut mean) = mean else {
            return (value, None);
        };
        let value = value.or(self.unlike.then_some(mean.value));
        let outside = |interval: &Interval| {
            value.is_some_and(|value| value < interval.low || value > interval.high)
        };
        if mean.interval.as_ref().is_ok_and(outside) {
            mean.interval = Err("the curve of the means lies outside it".to_owned());
        }
        (value, Some(mean))
    }

    /// Returns the largest x up to which every curve behind a value was measured; `None` without a curve.
    fn largest_x(&self) -> Option<f64> {
        let units = self.units.iter().map(|(_, fit)| fit.largest_x);
        match &self.fitted {
            Some(fitted) => Some(fitted.largest_x),
            None if self.unlike && self.units.len() == self.all_units => units.reduce(f64::min),
            None => None,
        }
    }
}

fn columns(given: &Parameters) -> Columns<'static, Figure> {
    let formula = given.model.statistics().formula();
    let (y, x, level) = (&given.column, &given.ladder, given.confidence);
    let value = "the parameter, or the curve at a requested value; the mean over the curves of the units if they have unlike \
        values of the ladder, see method; null if the points do not determine it, or if the value is too far beyond them";
    let covariances = "its covariances with the parameters in the order of the model, a space apart; null without degrees of freedom, and for a mean over curves";
    let df = "points less parameters; 0 = the curve goes through every point";
    let end = |which: IntervalEnd| {
        which.of(format!(
            "its {level} t interval from the residuals of the curve; too narrow \
            if launches vary, see unit_low"
        ))
    };
    let over_units = |which: IntervalEnd| {
        which.of(format!(
            "its {level} interval over the curves of the units; null without three units, or five clusters"
        ))
    };
    let physical = "whether a system can have such a parameter: no negative rate, no share outside 0 to 1; null for predictions";
    Columns::new()
        .with(
            Spec::text("model", format!("{y} = {formula} with x = {x}")),
            move |_: &Figure| formula,
        )
        .with(Spec::float("value", "", value).at_level(level), |f| f.value)
        .with(
            Spec::float(
                "std_error",
                "",
                "its standard error; null without degrees of freedom, and for a mean over curves",
            ),
            |f| f.std_error,
        )
        .with(Spec::float("ci_low", "", end(IntervalEnd::Lower)), |f| {
            f.interval.map(|i| i.0)
        })
        .with(Spec::float("ci_high", "", end(IntervalEnd::Upper)), |f| {
            f.interval.map(|i| i.1)
        })
        .with(
            Spec::float("unit_low", "", over_units(IntervalEnd::Lower)),
            |f| f.over_units.as_ref().and_then(Mean::low),
        )
        .with(
            Spec::float("unit_high", "", over_units(IntervalEnd::Upper)),
            |f| f.over_units.as_ref().and_then(Mean::high),
        )
        .with(Spec::text("unit_why", WHY), |f| {
            let no_curve = || "not every unit has a curve that says this".to_owned();
            match f.over_units {
                Some(_) => Mean::why(f.over_units.as_ref()),
                None => f
                    .curve
                    .unit
                    .too_few(f.curve.units.len())
                    .or_else(|| Some(no_curve())),
            }
        })
        .with(
            Spec::int(
                "units",
                "1",
                "units of replication with a curve of their own",
            ),
            |f| f.curve.units.len(),
        )
        .with(
            Spec::text(
                "interval_of",
                "the units that unit_low and unit_high are over, or why there are none",
            ),
            |f| f.curve.unit.interval_of(f.curve.units.len()),
        )
        .with(Spec::boolean("physical", physical), |f| {
            f.physical.as_ref().map(Result::is_ok)
        })
        .with(
            Spec::text("unphysical", "why it is unphysical; null if it is not"),
            |f| f.physical.as_ref()?.as_ref().err().cloned(),
        )
        .with(Spec::text("covariances", covariances), |f| {
            f.covariances.clone()
        })
        .with(Spec::int("n", "1", "points"), |f| f.curve.points)
        .with(Spec::int("df", "1", df), |f| f.curve.of(|fit| Some(fit.df)))
        .with(Spec::float("rss", "", "residual sum of squares"), |f| {
            f.curve.of(|fit| Some(fit.rss))
        })
        .with(
            Spec::float("r2", "1", "1 − RSS ÷ total sum of squares about the mean"),
            |f| f.curve.of(|fit| fit.r2),
        )
        .with(Spec::text("method", "how it was fitted, or why not"), |f| {
            f.method.clone()
        })
        .with(missing_spec(), |f| f.curve.missing.clone())
}

impl TypedOperator for Fit {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "fit";
    const SUMMARY: &'static str =
        "A scaling model fitted over a ladder by nonlinear least squares, one row per parameter.";
    const SOURCE: &'static str = "\
        The fit is nonlinear least squares on the original scale (Levenberg–Marquardt). Linearised fits \
        (Lineweaver–Burk, Hanes–Woolf, Eadie–Hofstee) of the same points give other parameters, so the table names \
        the method. `log-log` fits a power law by the line through the logarithms: it weighs ratios, and the \
        nonlinear fit weighs differences. USL is Gunther's (1993).\n\n\
        The interval from residuals treats the misfit of the curve as the noise of launches. With units, each unit \
        has its own curve, and the interval is over their parameters. If some units lack values of the ladder, each value \
        is the mean over the units' curves too: at a rung that only some units have, the mean has the level of these \
        units, and a curve through such means would follow the units instead of the ladder.\n\n\
        The operator refuses a prediction beyond `extrapolate` times the largest measured value, and its row names it.";

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        draft.column(&given.from, &given.column)?;
        let mut problems = draft.shares(&[("confidence", given.confidence)]);
        let line = given.method.linearisation();
        if let Some(line) = line.filter(|line| line.model() != given.model.statistics()) {
            let model = match line.model() {
                statistics::Model::PowerLaw => "power-law",
                _ => "michaelis-menten",
            };
            let message = format!(
                "the method `{}` belongs to the model `{model}`",
                line.word()
            );
            let hint = "leave out `method`: every model has the nonlinear fit";
            problems.push(draft.problem("method", message).hint(hint));
        }
        if !(given.extrapolate >= 1.0 && given.extrapolate.is_finite()) {
            let message = "`extrapolate` is a factor of at least 1";
            problems.push(draft.problem("extrapolate", message));
        }
        if given.predict.iter().any(|x| !(*x > 0.0 && x.is_finite())) {
            problems
                .push(draft.problem("predict", "a value of a ladder must be a positive number"));
        }
        unless(problems, || columns(given).specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let from = context.table(&given.from)?;
        let ladder = from.key_position(&given.ladder, &given.from)?;
        let units = Units::of(given.unit.as_deref(), from, &given.from)?;
        let mut apart = units.axes().to_vec();
        apart.push(given.ladder.clone());
        let mut keys = from.keys_without(&apart);
        let others = from.key_positions(&keys, &given.from)?;
        let unit = from.key_positions(units.axes(), &given.from)?;
        let model = given.model.statistics();
        let columns = columns(given);
        let mut rows: Vec<Row> = Vec::new();
        for (key, members) in from.groups(&others) {
            let (mut points, mut used) = (Vec::new(), Vec::new());
            for row in members {
                let x = rung(&from.rows[row].key[ladder], &given.ladder)?;
                if let Some(y) = from.number(row, &given.column) {
                    points.push((from.key_at(row, &unit), (x, y)));
                    used.push(row);
                }
            }
            let of_units = by_unit(&points);
            let points = means(points.into_iter().map(|(_, point)| point).collect());
            let curves: Vec<_> = match units.is_none() {
                true => Vec::new(),
                false => of_units
                    .iter()
                    .filter_map(|(unit, p)| Some((unit.clone(), fitted(given, p).ok()?)))
                    .collect(),
            };
            // Each unit has at most one point at each rung of all.
            let unlike = !units.is_none() && of_units.iter().any(|(_, p)| p.len() < points.len());
            let fitted = (!unlike).then(|| fitted(given, &points));
            let method = match &fitted {
                None if curves.len() < of_units.len() => {
                    "not fitted: the units have unlike values of the ladder, and not every unit has a curve".to_owned()
                }
                None => format!(
                    "{}; the units have unlike values of the ladder, so this is the mean over their curves",
                    given.method.words()
                ),
                Some(Ok(f)) if f.df == 0 => format!(
                    "{}; no degree of freedom: the curve goes through every point",
                    given.method.words()
                ),
                Some(Ok(_)) => given.method.words(),
                Some(Err(error)) => format!("not fitted: {error}"),
            };
            let curve = Rc::new(Curve {
                points: points.len(),
                fitted: fitted.and_then(Result::ok),
                unlike,
                all_units: if units.is_none() { 0 } else { of_units.len() },
                units: curves,
                unit: units.clone(),
                missing: from.missing_at(&keys, &key),
            });
            let row = |name: String, figure: &Figure| {
                let mut key = key.clone();
                key.push(text(name));
                columns.row(key, figure, spans(&given.from, used.iter().copied()))
            };
            for (i, name) in model.parameters().iter().enumerate() {
                rows.push(row(
                    (*name).to_owned(),
                    &parameter(given, &curve, i, &method),
                ));
            }
            for x in &given.predict {
                rows.extend(predicted(given, &curve, *x).map(|f| row(format!("at {x}"), &f)));
            }
        }
        keys.push("parameter".to_owned());
        let missing = from.missing.clone();
        Ok(Frame {
            level: Level::Marginal,
            keys,
            specs: columns.specs(),
            rows,
            missing,
        })
    }
}

/// Fits the curve.
fn fitted(
    given: &Parameters,
    points: &[(f64, f64)],
) -> Result<statistics::Fit, statistics::FitError> {
    match given.method.linearisation() {
        None => statistics::fit(given.model.statistics(), points),
        Some(line) => statistics::fit_linearised(line, points),
    }
}

/// A unit's labels and its points.
type UnitPoints = (Vec<Scalar>, Vec<(f64, f64)>);

/// The points of each unit.
fn by_unit(points: &[(Vec<Scalar>, (f64, f64))]) -> Vec<UnitPoints> {
    let mut points = points.to_vec();
    points.sort_by(|a, b| contract::compare_all(&a.0, &b.0));
    let units = points.chunk_by(|a, b| a.0 == b.0);
    let curve = |unit: &[(Vec<Scalar>, (f64, f64))]| {
        let points = unit.iter().map(|(_, point)| *point);
        (unit[0].0.clone(), means(points.collect()))
    };
    units.map(curve).collect()
}

/// The mean at each x, in rising order of x.
fn means(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = points.chunk_by(|a, b| a.0 == b.0);
    let mean = |at: &[(f64, f64)]| {
        let sample = Sample::new(at.iter().map(|(_, y)| *y)).ok()?;
        Some((at[0].0, sample.mean()))
    };
    at.filter_map(mean).collect()
}

/// Explains why a parameter cannot be a property of a system.
fn physical(model: Model, parameter: usize, value: f64) -> Result<(), String> {
    let share = matches!((model, parameter), (Model::Amdahl | Model::Usl, 1));
    let coherence = matches!((model, parameter), (Model::Usl, 2));
    let exponent = matches!((model, parameter), (Model::PowerLaw, 1));
    if share && !(0.0..=1.0).contains(&value) {
        return Err(format!(
            "the share of serial work must be between 0 and 1, got {}",
            short(value)
        ));
    }
    if coherence && value < 0.0 {
        return Err(format!(
            "a cost of coherence is not negative, got {}",
            short(value)
        ));
    }
    if !share && !coherence && !exponent && value <= 0.0 {
        return Err(format!("it must be above 0, got {}", short(value)));
    }
    Ok(())
}

/// The values that the estimate of a parameter can have. One that may be 0 in truth is as often estimated below 0.
fn range(model: Model, parameter: usize) -> Bounds {
    match (model, parameter) {
        (Model::Amdahl | Model::PowerLaw, 1) | (Model::Usl, 1 | 2) => Bounds::Any,
        _ => Bounds::NotNegative,
    }
}

/// One parameter of a curve.
fn parameter(given: &Parameters, curve: &Rc<Curve>, i: usize, method: &str) -> Figure {
    let (value, over_units) = curve.both(
        curve.of(|f| Some(f.values[i])),
        curve.over_units((given.confidence, range(given.model, i)), |f| {
            Some(f.values[i])
        }),
    );
    Figure {
        value,
        std_error: curve.of(|f| f.error(i)),
        interval: curve.of(|f| f.interval(i, given.confidence)),
        over_units,
        physical: value.map(|value| physical(given.model, i, value)),
        covariances: curve.of(|f| covariances(f, i)),
        curve: Rc::clone(curve),
        method: method.to_owned(),
    }
}

/// A row of the covariance matrix, with each number printed so that it reads back unchanged.
fn covariances(fitted: &statistics::Fit, parameter: usize) -> Option<String> {
    let row = fitted.covariance.as_ref()?.get(parameter)?;
    Some(row.iter().map(f64::to_string).collect::<Vec<_>>().join(" "))
}

/// The curve at a requested value; `None` without a curve.
fn predicted(given: &Parameters, curve: &Rc<Curve>, x: f64) -> Option<Figure> {
    let beyond = x / curve.largest_x()?;
    let at = |f: &statistics::Fit| f.predict(x, given.extrapolate);
    let over_units = curve.over_units((given.confidence, Bounds::NotNegative), at);
    let (value, over_units) = curve.both(curve.of(at), over_units);
    let largest = match curve.unlike {
        true => "the largest value that every unit has",
        false => "the largest value measured",
    };
    let method = match value {
        Some(_) if beyond > 1.0 => format!("extrapolated to {beyond} times {largest}"),
        Some(_) => "within the values measured".to_owned(),
        None => format!(
            "refused: {x} is {beyond} times {largest}, more than {}",
            given.extrapolate
        ),
    };
    Some(Figure {
        value,
        std_error: None,
        interval: None,
        over_units,
        physical: None,
        covariances: None,
        curve: Rc::clone(curve),
        method,
    })
}
