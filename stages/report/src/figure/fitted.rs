//! Fits: measured points, and the curve that the operator `fit` found for them.
//!
//! The curve is drawn from the parameters in the fit's table; nothing is fitted here. Its band is the confidence
//! interval of the curve at each x, computed from the covariances of the parameters (delta method) at the level of
//! their own intervals. If a parameter is the ceiling of the curve, its interval is reported. That interval is the band
//! if the table has no covariances.

use artifacts::Scalar;
use statistics::Model;

use super::Plot;
use super::error::FigureError;
use super::frame::{Frame, axes, legend, range, titles};
use super::scale::{Scale, ticks};
use super::svg::{Anchor, Svg, WIDTH};
use crate::data::Miss;
use crate::view::View;

const TOP: f64 = 62.0;
const HEIGHT: f64 = 300.0;
const STEPS: usize = 96;

const MODELS: [Model; 4] = [
    Model::MichaelisMenten,
    Model::PowerLaw,
    Model::Amdahl,
    Model::Usl,
];

/// The covariance of the parameters, and the half-width of an interval in standard errors.
type Spread = (Vec<Vec<f64>>, f64);

/// A fitted curve: its series, model, parameters, and the ceiling's value and interval.
struct Curve {
    series: String,
    model: Model,
    parameters: Vec<f64>,
    spread: Option<Spread>,
    ceiling: Option<Ceiling>,
}

impl Curve {
    /// The confidence interval of the curve at `x`.
    fn band(&self, x: f64) -> Option<(f64, f64)> {
        let (covariance, reach) = self.spread.as_ref()?;
        let half = reach * self.model.error_at(&self.parameters, covariance, x)?;
        let value = self.model.at(&self.parameters, x);
        (value + half)
            .is_finite()
            .then_some((value - half, value + half))
    }
}

/// The value that a curve approaches.
struct Ceiling {
    value: f64,
    band: Option<(f64, f64)>,
    /// The text with the value and its interval.
    text: String,
}

pub(super) fn draw(plot: &Plot<'_>, fit: &View, svg: &mut Svg) -> Result<(), FigureError> {
    let settings = plot.settings;
    let y = settings.y.as_deref().expect("checked: a fit has `y`");
    let series = plot.labels(settings.series.as_deref())?;
    let mut points = Vec::new();
    for row in 0..plot.view.rows.len() {
        if let Some((px, py)) = plot.number(row, &settings.x)?.zip(plot.number(row, y)?) {
            points.push((px, py, row));
        }
    }
    if points.is_empty() {
        return Err(FigureError::nothing_with("both coordinates"));
    }
    let curves = curves(plot, fit, &series)?;
    let (least, most) = range(points.iter().map(|p| p.0));
    let ends = curves.iter().filter_map(|c| c.ceiling.as_ref());
    let ends = ends
        .flat_map(|c| [Some(c.value), c.band.map(|b| b.1)])
        .flatten();
    // A ceiling far above the points would flatten them, so it is only written as text.
    let highest = range(points.iter().map(|p| p.1)).1;
    let (_, top) = range(
        points
            .iter()
            .map(|p| p.1)
            .chain(ends.filter(|v| *v <= highest * 2.5)),
    );
    let lowest = range(points.iter().map(|p| p.1)).0.min(0.0);
    legend(svg, &plot.named(settings.series.as_deref(), &series), None);
    let frame = Frame {
        left: 62.0,
        top: TOP,
        width: WIDTH - 72.0,
        height: HEIGHT,
    };
    let (right, bottom) = (frame.left + frame.width, TOP + HEIGHT);
    let x_ticks = ticks(least.min(0.0), most, 8);
    let x = Scale::linear(x_ticks[0], x_ticks[x_ticks.len() - 1], frame.left, right);
    let y_ticks = ticks(lowest, top, 5);
    let scale = Scale::linear(y_ticks[0], y_ticks[y_ticks.len() - 1], bottom, TOP);
    axes(svg, &frame, (&x, &x_ticks), (&scale, &y_ticks), true);
    let mut notes = Vec::new();
    for curve in &curves {
        let own = series.iter().position(|s| *s == curve.series).unwrap_or(0);
        let panel = Panel {
            frame: &frame,
            x: (&x, &x_ticks),
            y: (&scale, &y_ticks),
            color: own % 6,
        };
        if let Some(ceiling) = &curve.ceiling {
            panel.ceiling(svg, ceiling, curve.spread.is_none());
            notes.push(ceiling.text.clone());
        }
        panel.curve(svg, curve, (least, most));
    }
    for (px, py, row) in &points {
        let own = plot.label(*row, settings.series.as_deref())?;
        let color = series.iter().position(|s| *s == own).unwrap_or(0);
        let hover = format!("{}: {}", plot.key(*row), plot.written(*py, y));
        svg.mark(x.at(*px), scale.at(*py), color, &plot.mark(*row), &hover);
    }
    let across = plot.axis_label(settings.x_label.as_deref(), &settings.x);
    let upward = plot.axis_label(settings.y_label.as_deref(), y);
    titles(svg, &frame, &across, &upward);
    for (line, note) in notes.iter().enumerate() {
        svg.text(
            frame.left,
            bottom + 58.0 + 15.0 * line as f64,
            Anchor::Start,
            "small muted",
            note,
        );
    }
    svg.height = bottom + 54.0 + 15.0 * notes.len() as f64;
    Ok(())
}

/// A panel with its axes and their ticks, and the colour of the curve drawn in it.
struct Panel<'a> {
    frame: &'a Frame,
    x: (&'a Scale, &'a [f64]),
    y: (&'a Scale, &'a [f64]),
    color: usize,
}

impl Panel<'_> {
    /// The ends of the vertical axis.
    fn ends(&self) -> (f64, f64) {
        let ticks = self.y.1;
        (ticks[0], ticks[ticks.len() - 1])
    }

    /// Draws a ceiling as a line, with its interval as a band if `with_band`. What lies outside of the panel is left
    /// out.
    fn ceiling(&self, svg: &mut Svg, ceiling: &Ceiling, with_band: bool) {
        let (left, width) = (self.frame.left, self.frame.width);
        let (lowest, highest) = self.ends();
        let at = |value: f64| self.y.0.at(value);
        let whole = ceiling
            .band
            .filter(|(low, high)| *high <= highest && *low >= lowest);
        if let Some((low, high)) = whole.filter(|_| with_band) {
            let attributes = format!("class=\"band c{}\"", self.color);
            let size = (width, at(low) - at(high));
            svg.rectangle(left, at(high), size, &attributes, &ceiling.text);
        }
        if ceiling.value <= highest {
            let height = at(ceiling.value);
            let class = format!("reference c{}", self.color);
            svg.line((left, height), (left + width, height), &class);
        }
    }

    /// Draws a curve, and its band where there are points, from the first of them to the end of the axis.
    fn curve(&self, svg: &mut Svg, curve: &Curve, (least, most): (f64, f64)) {
        let (x, x_ticks) = self.x;
        let scale = self.y.0;
        let (lowest, highest) = self.ends();
        let end = x_ticks[x_ticks.len() - 1];
        let from = least.min(end);
        let steps = (0..=STEPS).map(|i| from + (end - from) * i as f64 / STEPS as f64);
        let within = |v: f64| scale.at(v.clamp(lowest, highest));
        let measured = steps.clone().filter(|px| *px <= most);
        let ends =
            measured.filter_map(|px| curve.band(px).map(|b| (x.at(px), within(b.0), within(b.1))));
        let ends: Vec<(f64, f64, f64)> = ends.collect();
        if !ends.is_empty() {
            let upper = ends.iter().map(|(px, _, high)| (*px, *high));
            let lower = ends.iter().rev().map(|(px, low, _)| (*px, *low));
            let outline: Vec<(f64, f64)> = upper.chain(lower).collect();
            svg.path(&outline, &format!("band c{}", self.color), true);
        }
        let path = steps.map(|px| (px, curve.model.at(&curve.parameters, px)));
        let inside = path.filter(|(_, py)| py.is_finite() && *py <= highest && *py >= lowest);
        let path: Vec<(f64, f64)> = inside.map(|(px, py)| (x.at(px), scale.at(py))).collect();
        // Beyond the last point the curve is an extrapolation, and drawn as one.
        let measured = x.at(most);
        let split = path.partition_point(|p| p.0 <= measured);
        svg.path(&path[..split], &format!("line c{}", self.color), false);
        if path.len() > split {
            let class = format!("reference c{}", self.color);
            svg.path(&path[split.saturating_sub(1)..], &class, false);
        }
    }
}

/// Reads the curves of the fit's table, one per series; a series that was not fitted has none.
fn curves(plot: &Plot<'_>, fit: &View, series: &[String]) -> Result<Vec<Curve>, FigureError> {
    let y = plot.settings.y.as_deref().unwrap_or_default();
    let get = |row: usize, column: &str| fit.get(row, column).map_err(FigureError::from);
    let mut fits = Vec::new();
    for name in series {
        let mut rows = Vec::new();
        for row in 0..fit.rows.len() {
            let own = match &plot.settings.series {
                Some(column) => get(row, column)?.to_string() == *name,
                None => true,
            };
            if own {
                rows.push((get(row, "parameter")?.to_string(), row));
            }
        }
        let Some((_, first)) = rows.first() else {
            continue;
        };
        let formula = get(*first, "model")?.to_string();
        let model = MODELS.into_iter().find(|m| m.formula() == formula);
        let model = model.ok_or(FigureError::UnknownModel { formula })?;
        let mut parameters = Vec::new();
        for parameter in model.parameters() {
            let mut named = rows.iter().filter(|(n, _)| n == parameter);
            let (Some((_, row)), None) = (named.next(), named.next()) else {
                return Err(FigureError::SeveralFits {
                    series: name.clone(),
                });
            };
            parameters.extend(get(*row, "value")?.as_f64());
        }
        if parameters.len() < model.parameters().len() {
            continue;
        }
        let mut ceiling = None;
        if let Some((parameter, row)) = rows.iter().find(|(n, _)| n == "vmax") {
            let ends = get(*row, "ci_low")?
                .as_f64()
                .zip(get(*row, "ci_high")?.as_f64());
            let text = |v: f64| plot.written(v, y);
            let band = ends.map(|(low, high)| format!(" [{}, {}]", text(low), text(high)));
            let name = if name.is_empty() {
                String::new()
            } else {
                format!("{name}: ")
            };
            let title = format!(
                "{name}{parameter} {}{}",
                text(parameters[0]),
                band.unwrap_or_default()
            );
            ceiling = Some(Ceiling {
                value: parameters[0],
                band: ends,
                text: title,
            });
        }
        let of_model = |p: &&str| rows.iter().find(|(n, _)| n == p).map(|(_, row)| *row);
        let in_order: Vec<usize> = model.parameters().iter().filter_map(of_model).collect();
        let spread = spread(fit, &in_order)?;
        fits.push(Curve {
            series: name.clone(),
            model,
            parameters,
            spread,
            ceiling,
        });
    }
    Ok(fits)
}

/// Reads from these rows the covariance of the parameters and the half-width of their intervals in standard errors;
/// `None` if the table has none.
fn spread(fit: &View, rows: &[usize]) -> Result<Option<Spread>, Miss> {
    if !fit.table.has_column("covariances") {
        return Ok(None);
    }
    let (mut matrix, mut reach) = (Vec::new(), None);
    for row in rows {
        let Scalar::Text(text) = fit.get(*row, "covariances")? else {
            return Ok(None);
        };
        let numbers: Result<Vec<f64>, _> = text.split(' ').map(str::parse).collect();
        matrix.push(numbers.map_err(|_| {
            format!(
                "`covariances` holds `{text}`, which is not a list of \
                numbers"
            )
        })?);
        let number = |column: &str| fit.get(*row, column).map(|v| v.as_f64());
        let (value, high, error) = (number("value")?, number("ci_high")?, number("std_error")?);
        if let (Some(value), Some(high), Some(error)) = (value, high, error.filter(|e| *e > 0.0)) {
            reach = Some((high - value) / error);
        }
    }
    Ok(reach.map(|reach| (matrix, reach)))
}
