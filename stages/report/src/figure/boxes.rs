//! Boxes and strips: the spread of a column in each group, and the points themselves.

use statistics::Sample;

use super::Plot;
use super::error::FigureError;
use super::frame::{Frame, axes, legend, range, titles};
use super::scale::{Scale, log_ticks, ticks};
use super::svg::{Anchor, Svg, WIDTH};

const TOP: f64 = 62.0;
const HEIGHT: f64 = 280.0;

/// With fewer points than this there is no box: its quartiles would be the points themselves.
const LEAST: usize = 5;
/// With more points than this, only those beyond the whiskers are drawn.
const MOST: usize = 250;

pub(super) fn draw(plot: &Plot<'_>, svg: &mut Svg) -> Result<(), FigureError> {
    let settings = plot.settings;
    let y = settings.y.as_deref().expect("checked: a box plot has `y`");
    let (groups, series) = (
        plot.labels(Some(&settings.x))?,
        plot.labels(settings.series.as_deref())?,
    );
    let mut values: Vec<Vec<(f64, usize)>> = vec![Vec::new(); groups.len() * series.len()];
    for row in 0..plot.view.rows.len() {
        let Some(value) = plot.number(row, y)? else {
            continue;
        };
        if settings.log_y && value <= 0.0 {
            let because = "a logarithmic axis needs positive values";
            return Err(FigureError::out_of_range(y, value, because));
        }
        let (group, own) = (
            plot.label(row, Some(&settings.x))?,
            plot.label(row, settings.series.as_deref())?,
        );
        let at = |names: &[String], name: &str| names.iter().position(|n| n == name);
        if let Some((group, own)) = at(&groups, &group).zip(at(&series, &own)) {
            values[group * series.len() + own].push((value, row));
        }
    }
    let (low, high) = range(values.iter().flatten().map(|(v, _)| *v));
    if low > high {
        return Err(FigureError::nothing_with(format!("a `{y}`")));
    }
    legend(svg, &plot.named(settings.series.as_deref(), &series), None);
    let frame = Frame {
        left: 62.0,
        top: TOP,
        width: WIDTH - 72.0,
        height: HEIGHT,
    };
    let bottom = TOP + HEIGHT;
    let (scale, marks) = if settings.log_y {
        (
            Scale::logarithmic(low / 1.15, high * 1.15, bottom, TOP),
            log_ticks(low / 1.15, high * 1.15),
        )
    } else {
        let marks = ticks(low.min(0.0), high, 5);
        (
            Scale::linear(marks[0], marks[marks.len() - 1], bottom, TOP),
            marks,
        )
    };
    let x = Scale::linear(
        0.0,
        groups.len() as f64,
        frame.left,
        frame.left + frame.width,
    );
    axes(svg, &frame, (&x, &[]), (&scale, &marks), true);
    let slot = frame.width / (groups.len() * series.len()) as f64;
    for (number, points) in values.iter().enumerate() {
        let (group, own) = (number / series.len(), number % series.len());
        let center = frame.left
            + frame.width * group as f64 / groups.len() as f64
            + slot * (own as f64 + 0.5);
        let name = [groups[group].as_str(), series[own].as_str()].join(" ");
        one(
            plot,
            svg,
            points,
            (center, slot.min(90.0), own),
            &scale,
            name.trim(),
        );
    }
    for (number, name) in groups.iter().enumerate() {
        let at = frame.left + frame.width * (number as f64 + 0.5) / groups.len() as f64;
        let room = frame.width / groups.len() as f64 - 6.0;
        svg.label((at, bottom + 18.0), Anchor::Middle, "small", name, room);
    }
    let across = plot.axis_label(settings.x_label.as_deref(), &settings.x);
    let upward = scale.titled(plot.axis_label(settings.y_label.as_deref(), y));
    titles(svg, &frame, &across, &upward);
    let note = "Box: quartiles and median. Whiskers: the furthest points within one and a half boxes of it.";
    svg.text(
        frame.left,
        bottom + 58.0,
        Anchor::Start,
        "small muted",
        note,
    );
    svg.height = bottom + 68.0;
    Ok(())
}

/// Draws the points of one group and their box at `(center, width, series)`.
fn one(
    plot: &Plot<'_>,
    svg: &mut Svg,
    points: &[(f64, usize)],
    (center, width, series): (f64, f64, usize),
    scale: &Scale,
    name: &str,
) {
    let y = plot.settings.y.as_deref().unwrap_or_default();
    let class = |what: &str| format!("{what} c{}", series % 6);
    let sample = Sample::new(points.iter().map(|(v, _)| *v).collect::<Vec<_>>());
    let mut whiskers = (f64::NEG_INFINITY, f64::INFINITY);
    if let Some(sample) = sample.ok().filter(|_| points.len() >= LEAST) {
        let [q1, median, q3] = [0.25, 0.5, 0.75].map(|p| sample.quantile(p));
        let reach = 1.5 * (q3 - q1);
        let inside = points
            .iter()
            .map(|(v, _)| *v)
            .filter(|v| *v >= q1 - reach && *v <= q3 + reach);
        whiskers = range(inside);
        let text = |v: f64| plot.written(v, y);
        let hover = format!(
            "{name}: median {}, quartiles [{}, {}]",
            text(median),
            text(q1),
            text(q3)
        );
        let half = width * 0.32;
        for (from, to) in [(q1, whiskers.0), (q3, whiskers.1)] {
            svg.line(
                (center, scale.at(from)),
                (center, scale.at(to)),
                &class("whisker"),
            );
            svg.line(
                (center - half / 2.0, scale.at(to)),
                (center + half / 2.0, scale.at(to)),
                &class("whisker"),
            );
        }
        let (top, tall) = (scale.at(q3), scale.at(q1) - scale.at(q3));
        let attributes = format!("class=\"{}\"", class("box"));
        svg.rectangle(center - half, top, (half * 2.0, tall), &attributes, &hover);
        svg.line(
            (center - half, scale.at(median)),
            (center + half, scale.at(median)),
            &class("line"),
        );
    }
    let few = points.len() <= MOST;
    for (value, row) in points
        .iter()
        .filter(|(v, _)| few || *v < whiskers.0 || *v > whiskers.1)
    {
        // A row is always drawn at the same place.
        let shift = ((row * 37) % 101) as f64 / 100.0 - 0.5;
        let hover = format!("{}: {}", plot.key(*row), plot.written(*value, y));
        let at = (center + shift * width * 0.5, scale.at(*value));
        svg.dot(at, 2.2, &class("point"), &plot.mark(*row), &hover);
    }
}
