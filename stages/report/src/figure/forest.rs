//! Forest plots: one estimate with its interval per row, relative to a reference.

use super::Plot;
use super::error::FigureError;
use super::frame::{Frame, range};
use super::scale::{Scale, tick_text, ticks};
use super::svg::{Anchor, Svg, WIDTH};
use crate::format::{beside_one, format_value};
use artifacts::Scalar;

/// A row with its estimate and the ends of its interval.
struct Line {
    name: String,
    estimate: Option<f64>,
    ends: Option<(f64, f64)>,
    row: usize,
}

impl Line {
    fn values(&self) -> impl Iterator<Item = f64> + use<> {
        let ends = self.ends.map(|(low, high)| [low, high]);
        self.estimate.into_iter().chain(ends.into_iter().flatten())
    }
}

pub(super) fn draw(plot: &Plot<'_>, svg: &mut Svg) -> Result<(), FigureError> {
    let settings = plot.settings;
    let label = settings
        .y
        .as_deref()
        .expect("checked: a forest plot has `y`");
    let [low, high] = settings
        .band
        .as_ref()
        .expect("checked: a forest plot has `band`");
    let reference = settings
        .reference
        .as_ref()
        .and_then(serde_json::Value::as_f64)
        .unwrap_or(0.0);
    let series = plot.labels(settings.series.as_deref())?;
    let unit = plot.view.table.unit(&settings.x);
    let lines = lines(plot, label, [low, high])?;
    let values = lines.iter().flat_map(Line::values).chain([reference]);
    let (least, most) = range(values);
    let longest = lines
        .iter()
        .map(|l| l.name.chars().count())
        .max()
        .unwrap_or(0) as f64;
    let left = (longest * 7.0 + 14.0).clamp(80.0, 260.0);
    let right = WIDTH - 170.0;
    let marks = ticks(least, most, 6);
    let x = Scale::linear(marks[0], marks[marks.len() - 1], left, right);
    let (top, height) = (44.0, 30.0);
    let bottom = top + height * lines.len() as f64;
    let frame = Frame {
        left,
        top,
        width: right - left,
        height: bottom - top,
    };
    axis(svg, &frame, (&x, &marks), reference);
    let text = |v: Option<f64>, format: &str| {
        let scalar = v.map_or(Scalar::Null, Scalar::Float);
        format_value(&scalar, unit.as_deref(), format, "n/a")
    };
    let end = |value: f64| {
        let format = match plot.view.table.ratio(&settings.x) {
            Some(_) => beside_one(&Scalar::Float(value), unit.as_deref(), &settings.format),
            None => settings.format.clone(),
        };
        text(Some(value), &format)
    };
    for (number, line) in lines.iter().enumerate() {
        let Line {
            name,
            estimate,
            ends,
            row,
        } = line;
        let y = top + height * (number as f64 + 0.5);
        let own = plot.label(*row, settings.series.as_deref())?;
        let color = series.iter().position(|s| *s == own).unwrap_or(0);
        svg.label((left - 8.0, y + 4.0), Anchor::End, "", name, left - 8.0);
        let mut written = text(*estimate, &settings.format)?;
        if let Some((low, high)) = ends {
            let class = format!("whisker c{}", color % 6);
            svg.line((x.at(*low), y), (x.at(*high), y), &class);
            for end in [low, high] {
                svg.line((x.at(*end), y - 4.0), (x.at(*end), y + 4.0), &class);
            }
            written = format!("{written} [{}, {}]", end(*low)?, end(*high)?);
        }
        if let Some(value) = estimate {
            svg.mark(
                x.at(*value),
                y,
                color,
                &plot.mark(*row),
                &format!("{name}: {written}"),
            );
        }
        svg.text(right + 12.0, y + 4.0, Anchor::Start, "small", &written);
    }
    let label = plot.axis_label(settings.x_label.as_deref(), &settings.x);
    svg.text(
        (left + right) / 2.0,
        bottom + 38.0,
        Anchor::Middle,
        "",
        &label,
    );
    svg.height = bottom + 48.0;
    Ok(())
}

/// Reads the rows; `ends` names the columns with the ends of the intervals.
fn lines(plot: &Plot<'_>, label: &str, ends: [&String; 2]) -> Result<Vec<Line>, FigureError> {
    let [low, high] = ends;
    let line = |row: usize| {
        Ok(Line {
            name: plot.label(row, Some(label))?,
            estimate: plot.number(row, &plot.settings.x)?,
            ends: plot.number(row, low)?.zip(plot.number(row, high)?),
            row,
        })
    };
    (0..plot.view.rows.len()).map(line).collect()
}

/// Draws the grid with its numbers below, and the line of the reference.
fn axis(svg: &mut Svg, frame: &Frame, (x, marks): (&Scale, &[f64]), reference: f64) {
    let (right, bottom) = (frame.left + frame.width, frame.top + frame.height);
    for tick in marks {
        svg.line((x.at(*tick), frame.top), (x.at(*tick), bottom), "grid");
        svg.text(
            x.at(*tick),
            bottom + 18.0,
            Anchor::Middle,
            "small muted",
            &tick_text(*tick, marks),
        );
    }
    svg.line((frame.left, bottom), (right, bottom), "axis");
    svg.line(
        (x.at(reference), frame.top - 4.0),
        (x.at(reference), bottom),
        "reference",
    );
}
