//! Timelines: a column over time, with the cells of the stage one after another, each marked.
//!
//! Telemetry counts time from the start of its cell, so cells are laid end to end; the space between two of them is not
//! time.

use super::Plot;
use super::error::FigureError;
use super::frame::{Frame, axes, legend, range, titles};
use super::scale::{Scale, ticks};
use super::svg::{Anchor, Svg, WIDTH};

const TOP: f64 = 74.0;
const HEIGHT: f64 = 220.0;
/// A line with more points than this is reduced to the smallest and largest value in each column of pixels.
const MOST: usize = 1500;
/// The width from which a line has a mark.
const MARKED: f64 = 40.0;

/// One cell: its name, its rows, its first and last second.
struct Stretch {
    name: String,
    rows: Vec<usize>,
    from: f64,
    to: f64,
}

pub(super) fn draw(plot: &Plot<'_>, svg: &mut Svg) -> Result<(), FigureError> {
    let settings = plot.settings;
    let y = settings.y.as_deref().expect("checked: a time line has `y`");
    let series = plot.labels(settings.series.as_deref())?;
    let seconds = seconds(plot)?;
    let stretches = stretches(plot, seconds)?;
    let mut values = Vec::new();
    for row in 0..plot.view.rows.len() {
        values.push(plot.number(row, y)?);
    }
    let (low, high) = range(values.iter().flatten().copied());
    if low > high || stretches.is_empty() {
        return Err(FigureError::nothing_with(format!(
            "both a time and a `{y}`"
        )));
    }
    legend(svg, &plot.named(settings.series.as_deref(), &series), None);
    let frame = Frame {
        left: 62.0,
        top: TOP,
        width: WIDTH - 72.0,
        height: HEIGHT,
    };
    let bottom = TOP + HEIGHT;
    let y_ticks = ticks(low.min(0.0), high, 5);
    let scale = Scale::linear(y_ticks[0], y_ticks[y_ticks.len() - 1], bottom, TOP);
    let nothing = Scale::linear(0.0, 1.0, frame.left, frame.left + frame.width);
    axes(svg, &frame, (&nothing, &[]), (&scale, &y_ticks), true);
    let gap = if stretches.len() > 1 { 4.0 } else { 0.0 };
    let long: f64 = stretches.iter().map(|s| s.to - s.from).sum();
    let room = frame.width - gap * (stretches.len() as f64 - 1.0);
    let mut left = frame.left;
    for (number, stretch) in stretches.iter().enumerate() {
        let width = if long > 0.0 {
            room * (stretch.to - stretch.from) / long
        } else {
            room / stretches.len() as f64
        };
        let x = Scale::linear(stretch.from, stretch.to, left, left + width);
        background(plot, svg, stretch, (left, width), number % 2 == 0);
        time_ticks(svg, stretch, &x, width);
        for (own, name) in series.iter().enumerate() {
            lines(
                plot,
                svg,
                stretch,
                (own, name),
                &values,
                (&x, &scale, seconds),
            )?;
        }
        left += width + gap;
    }
    let across = settings
        .x_label
        .clone()
        .unwrap_or_else(|| "time in the cell (s)".to_owned());
    let upward = plot.axis_label(settings.y_label.as_deref(), y);
    titles(svg, &frame, &across, &upward);
    svg.height = bottom + 48.0;
    Ok(())
}

/// The number of seconds in the unit of the column of times.
fn seconds(plot: &Plot<'_>) -> Result<f64, FigureError> {
    let column = &plot.settings.x;
    let unit = plot.view.table.unit(column);
    match unit.as_deref() {
        Some("ns") => Ok(1e-9),
        Some("us" | "µs") => Ok(1e-6),
        Some("ms") => Ok(1e-3),
        Some("s") => Ok(1.0),
        _ => Err(FigureError::NotATime {
            column: column.clone(),
            unit,
        }),
    }
}

/// Draws what is behind and above the lines of a cell: a background with a tooltip, and a bar with its name.
fn background(
    plot: &Plot<'_>,
    svg: &mut Svg,
    stretch: &Stretch,
    (left, width): (f64, f64),
    shaded: bool,
) {
    let opacity = if shaded { "0.05" } else { "0" };
    let (first, last) = (stretch.rows.first(), stretch.rows.last());
    let rows = first
        .zip(last)
        .map(|(a, b)| format!("{}..{}", plot.mark(*a), plot.mark(*b)));
    let attributes = format!(
        "class=\"mark\" fill-opacity=\"{opacity}\" data-row=\"{}\"",
        rows.unwrap_or_default()
    );
    svg.rectangle(left, TOP, (width, HEIGHT), &attributes, &stretch.name);
    svg.line((left, TOP - 4.0), (left + width, TOP - 4.0), "axis");
    let fits = (width / 6.2) as usize;
    if fits < 4 {
        return;
    }
    let name: String = match stretch.name.chars().count() <= fits {
        true => stretch.name.clone(),
        false => stretch.name.chars().take(fits - 1).chain(['…']).collect(),
    };
    let middle = left + width / 2.0;
    svg.text(middle, TOP - 9.0, Anchor::Middle, "small", &name);
}

/// Draws the ticks of a cell's own time.
fn time_ticks(svg: &mut Svg, stretch: &Stretch, x: &Scale, width: f64) {
    let bottom = TOP + HEIGHT;
    let count = ((width / 70.0) as u32).clamp(1, 8);
    let marks = ticks(stretch.from, stretch.to, count).into_iter();
    for tick in marks.filter(|t| *t >= stretch.from && *t <= stretch.to * 0.97) {
        let at = x.at(tick);
        svg.line((at, bottom), (at, bottom + 5.0), "axis");
        let text = super::scale::tick_text(tick, &[tick]);
        svg.text(at, bottom + 18.0, Anchor::Middle, "small muted", &text);
    }
}

/// The cells in the order of the table: by the column `facet`, or else by the cells of its stage.
fn stretches(plot: &Plot<'_>, seconds: f64) -> Result<Vec<Stretch>, FigureError> {
    let mut stretches: Vec<(usize, Stretch)> = Vec::new();
    for row in 0..plot.view.rows.len() {
        let Some(time) = plot.number(row, &plot.settings.x)? else {
            continue;
        };
        let time = time * seconds;
        let part = plot.view.rows[row].0;
        let (part, name) = match &plot.settings.facet {
            Some(column) => (0, plot.label(row, Some(column))?),
            None => (part, plot.view.table.parts[part].coordinates.to_string()),
        };
        match stretches
            .iter_mut()
            .rev()
            .find(|(p, s)| *p == part && s.name == name)
        {
            Some((_, stretch)) => {
                (stretch.from, stretch.to) = (stretch.from.min(time), stretch.to.max(time));
                stretch.rows.push(row);
            }
            None => stretches.push((
                part,
                Stretch {
                    name,
                    rows: vec![row],
                    from: time,
                    to: time,
                },
            )),
        }
    }
    let mut stretches: Vec<Stretch> = stretches.into_iter().map(|(_, s)| s).collect();
    for stretch in &mut stretches {
        stretch.from = stretch.from.min(0.0);
    }
    Ok(stretches)
}

/// Draws one series of one cell, with a gap in the line where a value is missing.
fn lines(
    plot: &Plot<'_>,
    svg: &mut Svg,
    stretch: &Stretch,
    (own, name): (usize, &str),
    values: &[Option<f64>],
    (x, y, seconds): (&Scale, &Scale, f64),
) -> Result<(), FigureError> {
    let mut points: Vec<(f64, Option<f64>)> = Vec::new();
    for row in &stretch.rows {
        if plot.label(*row, plot.settings.series.as_deref())? == name
            && let Some(time) = plot.number(*row, &plot.settings.x)?
        {
            points.push((x.at(time * seconds), values[*row].map(|v| y.at(v))));
        }
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    if points.len() > MOST {
        points = thinned(&points);
    }
    // A line has too many points for marks: one in the middle tells the lines of several series apart.
    let room = points.first().zip(points.last());
    let is_wide = room.is_some_and(|(first, last)| last.0 - first.0 >= MARKED);
    if plot.settings.series.is_some() && is_wide {
        let mut middle = points[points.len() / 2..].iter();
        if let Some((at, value)) = middle.find_map(|p| Some((p.0, p.1?))) {
            svg.mark(at, value, own, "", name);
        }
    }
    for run in points
        .split(|p| p.1.is_none())
        .filter(|run| !run.is_empty())
    {
        let path: Vec<(f64, f64)> = run.iter().filter_map(|p| Some((p.0, p.1?))).collect();
        match path.as_slice() {
            [one] => svg.mark(one.0, one.1, own, "", ""),
            _ => svg.path(&path, &format!("line c{}", own % 6), false),
        }
    }
    Ok(())
}

/// The smallest and the largest value in each column of pixels, in order of time.
fn thinned(points: &[(f64, Option<f64>)]) -> Vec<(f64, Option<f64>)> {
    let mut out = Vec::new();
    for column in
        points.chunk_by(|a, b| a.0.floor() == b.0.floor() && a.1.is_some() == b.1.is_some())
    {
        let extreme = |better: fn(&f64, &f64) -> std::cmp::Ordering| {
            (0..column.len())
                .filter_map(|i| Some((i, column[i].1?)))
                .min_by(|a, b| better(&a.1, &b.1))
                .map(|(i, _)| i)
        };
        let mut chosen: Vec<usize> = [extreme(f64::total_cmp), extreme(|a, b| b.total_cmp(a))]
            .into_iter()
            .flatten()
            .collect();
        chosen.sort_unstable();
        chosen.dedup();
        if chosen.is_empty() {
            chosen.push(0);
        }
        out.extend(chosen.into_iter().map(|i| column[i]));
    }
    out
}
