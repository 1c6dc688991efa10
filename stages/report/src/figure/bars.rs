//! Grouped bars: a value for each group and series, starting at zero, with its interval as a whisker.
//!
//! Bars are vertical while every label fits below its group. Otherwise they are horizontal, one below the other, and
//! the figure grows. Each series has its own hatching in addition to its colour.

use super::Plot;
use super::error::FigureError;
use super::frame::{range, titles};
use super::scale::{Scale, tick_text, ticks};
use super::svg::{Anchor, Stroke, Svg, WIDTH};

/// The maximum width of a letter of the small size.
const LETTER: f64 = 6.2;
/// The height of the axis of vertical bars.
const TALL: f64 = 280.0;
/// The thickness of a horizontal bar, and the space between groups.
const THICK: f64 = 18.0;
const BETWEEN: f64 = 14.0;
/// The distance between two strokes of a hatching.
const STROKES: f64 = 6.0;

/// The bar of one series in one group.
#[derive(Clone, Copy)]
struct Bar {
    /// `None` if the row has no value.
    value: Option<f64>,
    ends: Option<(f64, f64)>,
    row: usize,
}

/// All bars with their names, group by group and then by series.
struct Bars {
    groups: Vec<String>,
    series: Vec<String>,
    bars: Vec<Option<Bar>>,
}

impl Bars {
    fn of(plot: &Plot<'_>) -> Result<Self, FigureError> {
        let settings = plot.settings;
        let y = column(plot);
        let groups = plot.labels(Some(&settings.x))?;
        let series = plot.labels(settings.series.as_deref())?;
        let mut bars = vec![None; groups.len() * series.len()];
        for row in 0..plot.view.rows.len() {
            let group = plot.label(row, Some(&settings.x))?;
            let own = plot.label(row, settings.series.as_deref())?;
            let at = |names: &[String], name: &str| names.iter().position(|n| n == name);
            let Some((at_group, at_series)) = at(&groups, &group).zip(at(&series, &own)) else {
                continue;
            };
            let bar = &mut bars[at_group * series.len() + at_series];
            if bar.is_some() {
                let pair = [group.as_str(), own.as_str()].join(" ");
                return Err(FigureError::TwoRows {
                    place: pair.trim().to_owned(),
                    has_series: settings.series.is_some(),
                });
            }
            let ends = match &settings.band {
                Some([low, high]) => plot.number(row, low)?.zip(plot.number(row, high)?),
                None => None,
            };
            let value = plot.number(row, y)?;
            *bar = Some(Bar { value, ends, row });
        }
        Ok(Self {
            groups,
            series,
            bars,
        })
    }

    /// Returns the smallest and largest drawn value; zero is always included.
    fn reach(&self) -> (f64, f64) {
        let drawn = self.bars.iter().flatten().flat_map(|bar| {
            let ends = bar.ends.map(|(low, high)| [low, high]);
            bar.value.into_iter().chain(ends.into_iter().flatten())
        });
        range(drawn.chain([0.0]))
    }
}

fn column<'p>(plot: &Plot<'p>) -> &'p str {
    plot.settings
        .y
        .as_deref()
        .expect("checked: a bar chart has `y`")
}

/// Whether a group has no row for a series, or a row has no value.
///
/// # Errors
/// If the table lacks a column of the figure.
pub(super) fn has_gaps(plot: &Plot<'_>) -> Result<bool, FigureError> {
    let missing = |bar: &Option<Bar>| bar.is_none_or(|bar| bar.value.is_none());
    Ok(Bars::of(plot)?.bars.iter().any(missing))
}

pub(super) fn draw(plot: &Plot<'_>, svg: &mut Svg) -> Result<(), FigureError> {
    let all = Bars::of(plot)?;
    if !all.bars.iter().flatten().any(|bar| bar.value.is_some()) {
        return Err(FigureError::nothing_with(format!("a `{}`", column(plot))));
    }
    let names = plot.named(plot.settings.series.as_deref(), &all.series);
    let top = legend(svg, &names) + 24.0;
    let slot = (WIDTH - 72.0) / all.groups.len() as f64;
    let longest = all
        .groups
        .iter()
        .map(|name| width_of(name))
        .fold(0.0, f64::max);
    let stands = longest + 8.0 <= slot && slot / all.series.len() as f64 >= 12.0;
    if stands {
        upright(plot, svg, &all, top);
    } else {
        lying(plot, svg, &all, top);
    }
    Ok(())
}

fn width_of(text: &str) -> f64 {
    LETTER * text.chars().count() as f64
}

/// Draws a hatched box for each series, in as many rows as needed; returns the end of the last row.
fn legend(svg: &mut Svg, series: &[String]) -> f64 {
    let (mut x, mut y) = (52.0, 26.0);
    for (number, name) in series.iter().enumerate() {
        let width = 46.0 + 7.0 * name.chars().count() as f64;
        if x + width > WIDTH && x > 52.0 {
            (x, y) = (52.0, y + 19.0);
        }
        body(svg, (x, y), (22.0, 13.0), number, "", name);
        svg.text(x + 28.0, y + 11.0, Anchor::Start, "", name);
        x += width;
    }
    if series.is_empty() { 20.0 } else { y + 13.0 }
}

/// Draws a bar with the hatching of its series.
fn body(
    svg: &mut Svg,
    (x, y): (f64, f64),
    (width, height): (f64, f64),
    series: usize,
    row: &str,
    hover: &str,
) {
    let row = match row {
        "" => String::new(),
        row => format!(" data-row=\"{row}\""),
    };
    let attributes = format!(
        "class=\"c{}\" fill=\"currentColor\" fill-opacity=\".32\" stroke=\"currentColor\" stroke-width=\"1.2\"{row}",
        series % 6
    );
    svg.rectangle(x, y, (width, height), &attributes, hover);
    let strokes = hatching(series, (x, y), (width, height));
    svg.strokes(&strokes, series);
}

/// Returns the strokes of a series' hatching inside a box: none, rising, falling, both, horizontal, or vertical.
fn hatching(series: usize, (x, y): (f64, f64), (width, height): (f64, f64)) -> Vec<Stroke> {
    let mut strokes = Vec::new();
    let steps = |length: f64| {
        (1..)
            .map(|i| f64::from(i) * STROKES)
            .take_while(move |at| *at < length)
    };
    // The seventh series has the colour of the first but a different hatching.
    let kind = (series + series / 6) % 6;
    if matches!(kind, 1 | 3) {
        // From the left edge or the bottom to the top or the right edge.
        strokes.extend(steps(width + height).map(|at| {
            let from = (x + (at - height).max(0.0), y + at.min(height));
            let to = (x + at.min(width), y + (at - width).max(0.0));
            (from, to)
        }));
    }
    if matches!(kind, 2 | 3) {
        strokes.extend(steps(width + height).map(|at| {
            let from = (x + (at - height).max(0.0), y + height - at.min(height));
            let to = (x + at.min(width), y + height - (at - width).max(0.0));
            (from, to)
        }));
    }
    if kind == 4 {
        strokes.extend(steps(height).map(|at| ((x, y + at), (x + width, y + at))));
    }
    if kind == 5 {
        strokes.extend(steps(width).map(|at| ((x + at, y), (x + at, y + height))));
    }
    strokes
}

/// Returns the text of a bar's value, and the text of its value and interval for the tooltip.
fn texts(plot: &Plot<'_>, all: &Bars, at: usize, bar: &Bar) -> (String, String) {
    let y = column(plot);
    let (group, series) = (
        &all.groups[at / all.series.len()],
        &all.series[at % all.series.len()],
    );
    let name = [group.as_str(), series.as_str()].join(" ");
    let Some(value) = bar.value else {
        return (String::new(), format!("{}: no value", name.trim()));
    };
    let written = plot.written(value, y);
    let ends = bar.ends.map_or_else(String::new, |(low, high)| {
        format!(" [{}, {}]", plot.written(low, y), plot.written(high, y))
    });
    let hover = format!("{}: {written}{ends}", name.trim());
    (written, hover)
}

/// Returns the values at the ends of a bar, including its whisker.
fn ends_of(bar: &Bar, value: f64) -> (f64, f64) {
    let (low, high) = bar.ends.unwrap_or((value, value));
    (low.min(value).min(0.0), high.max(value).max(0.0))
}

fn upright(plot: &Plot<'_>, svg: &mut Svg, all: &Bars, top: f64) {
    let settings = plot.settings;
    let (left, width, bottom) = (62.0, WIDTH - 72.0, top + TALL);
    let (low, high) = all.reach();
    let marks = ticks(low, high, 5);
    let scale = Scale::linear(marks[0], marks[marks.len() - 1], bottom, top);
    let frame = super::frame::Frame {
        left,
        top,
        width,
        height: TALL,
    };
    let none = Scale::linear(0.0, 1.0, left, left + width);
    super::frame::axes(svg, &frame, (&none, &[]), (&scale, &marks), true);
    let slot = width / all.groups.len() as f64;
    let thick = (slot * 0.84 / all.series.len() as f64).min(64.0);
    let zero = scale.at(0.0);
    let written: Vec<(String, String)> = (all.bars.iter().enumerate())
        .map(|(at, bar)| match bar {
            Some(bar) => texts(plot, all, at, bar),
            None => texts(
                plot,
                all,
                at,
                &Bar {
                    value: None,
                    ends: None,
                    row: 0,
                },
            ),
        })
        .collect();
    // Write all values or none: a bar without one would look like zero.
    let fit = written
        .iter()
        .all(|(text, _)| width_of(text) <= thick - 2.0);
    for (at, (bar, (text, hover))) in all.bars.iter().zip(&written).enumerate() {
        let (group, own) = (at / all.series.len(), at % all.series.len());
        let across = thick * all.series.len() as f64;
        let x = left + slot * (group as f64 + 0.5) - across / 2.0 + thick * own as f64;
        let (x, wide, middle) = (x + 1.0, thick - 2.0, x + thick / 2.0);
        let Some((bar, value)) = bar.as_ref().and_then(|bar| Some((bar, bar.value?))) else {
            svg.cross((middle, zero - 8.0), own, hover);
            continue;
        };
        let to = scale.at(value);
        let (y, height) = (to.min(zero), (to - zero).abs());
        body(svg, (x, y), (wide, height), own, &plot.mark(bar.row), hover);
        if let Some((low, high)) = bar.ends {
            let (from, to) = (scale.at(low), scale.at(high));
            svg.line((middle, from), (middle, to), "whisker");
            for end in [from, to] {
                svg.line((middle - 4.0, end), (middle + 4.0, end), "whisker");
            }
        }
        if fit {
            let (lowest, highest) = ends_of(bar, value);
            let y = match value < 0.0 {
                true => scale.at(lowest) + 13.0,
                false => scale.at(highest) - 5.0,
            };
            svg.text(middle, y, Anchor::Middle, "small", text);
        }
    }
    svg.line((left, zero), (left + width, zero), "axis");
    for (number, name) in all.groups.iter().enumerate() {
        let at = left + slot * (number as f64 + 0.5);
        svg.text(at, bottom + 18.0, Anchor::Middle, "small", name);
    }
    let across = plot.axis_label(settings.x_label.as_deref(), &settings.x);
    let upward = plot.axis_label(settings.y_label.as_deref(), column(plot));
    titles(svg, &frame, &across, &upward);
    svg.height = bottom + 48.0;
}

fn lying(plot: &Plot<'_>, svg: &mut Svg, all: &Bars, top: f64) {
    let settings = plot.settings;
    let longest = all
        .groups
        .iter()
        .map(|name| width_of(name))
        .fold(0.0, f64::max);
    let left = (longest + 14.0).clamp(60.0, 250.0);
    let written: Vec<(String, String)> = (all.bars.iter().enumerate())
        .map(|(at, bar)| {
            texts(
                plot,
                all,
                at,
                &bar.unwrap_or(Bar {
                    value: None,
                    ends: None,
                    row: 0,
                }),
            )
        })
        .collect();
    let room = written
        .iter()
        .map(|(text, _)| width_of(text))
        .fold(0.0, f64::max);
    let (low, high) = all.reach();
    let marks = ticks(low, high, 5);
    // Values are written beyond the ends of their bars, on either side.
    let before = if low < 0.0 { room + 8.0 } else { 0.0 };
    let right = WIDTH - room - 12.0;
    let scale = Scale::linear(marks[0], marks[marks.len() - 1], left + before, right);
    let tall = THICK * all.series.len() as f64;
    let bottom = top + (tall + BETWEEN) * all.groups.len() as f64;
    let zero = scale.at(0.0);
    for tick in &marks {
        let at = scale.at(*tick);
        svg.line((at, top), (at, bottom), "grid");
        let text = tick_text(*tick, &marks);
        svg.text(at, bottom + 18.0, Anchor::Middle, "small muted", &text);
    }
    for (at, (bar, (text, hover))) in all.bars.iter().zip(&written).enumerate() {
        let (group, own) = (at / all.series.len(), at % all.series.len());
        let y = top + (tall + BETWEEN) * group as f64 + BETWEEN / 2.0 + THICK * own as f64;
        let middle = y + THICK / 2.0;
        let Some((bar, value)) = bar.as_ref().and_then(|bar| Some((bar, bar.value?))) else {
            svg.cross((zero + 8.0, middle), own, hover);
            continue;
        };
        let to = scale.at(value);
        let size = ((to - zero).abs(), THICK - 2.0);
        body(
            svg,
            (to.min(zero), y + 1.0),
            size,
            own,
            &plot.mark(bar.row),
            hover,
        );
        if let Some((low, high)) = bar.ends {
            let (from, to) = (scale.at(low), scale.at(high));
            svg.line((from, middle), (to, middle), "whisker");
            for end in [from, to] {
                svg.line((end, middle - 4.0), (end, middle + 4.0), "whisker");
            }
        }
        let (lowest, highest) = ends_of(bar, value);
        match value < 0.0 {
            true => svg.text(
                scale.at(lowest) - 5.0,
                middle + 4.0,
                Anchor::End,
                "small",
                text,
            ),
            false => svg.text(
                scale.at(highest) + 5.0,
                middle + 4.0,
                Anchor::Start,
                "small",
                text,
            ),
        }
    }
    svg.line((zero, top), (zero, bottom), "axis");
    for (number, name) in all.groups.iter().enumerate() {
        let y = top + (tall + BETWEEN) * (number as f64 + 0.5) + 4.0;
        svg.label((left - 8.0, y), Anchor::End, "small", name, left - 10.0);
    }
    let along = plot.axis_label(settings.y_label.as_deref(), column(plot));
    svg.text(
        (left + right) / 2.0,
        bottom + 38.0,
        Anchor::Middle,
        "",
        &along,
    );
    svg.height = bottom + 48.0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strokes_of_every_hatching_stay_inside_their_bar() {
        for (series, size) in
            (0..6).flat_map(|s| [(20.0, 90.0), (200.0, 12.0)].map(|size| (s, size)))
        {
            let strokes = hatching(series, (10.0, 5.0), size);
            assert_eq!(strokes.is_empty(), series == 0);
            let inside = |(x, y): (f64, f64)| {
                (10.0..=10.0 + size.0).contains(&x) && (5.0..=5.0 + size.1).contains(&y)
            };
            assert!(
                strokes
                    .iter()
                    .all(|(from, to)| inside(*from) && inside(*to)),
                "{series}"
            );
        }
    }

    #[test]
    fn no_two_of_six_series_are_hatched_alike() {
        let all: Vec<_> = (0..6)
            .map(|s| hatching(s, (0.0, 0.0), (40.0, 40.0)))
            .collect();
        assert_ne!(hatching(6, (0.0, 0.0), (40.0, 40.0)), all[0]);
        for (at, one) in all.iter().enumerate() {
            assert!(all[at + 1..].iter().all(|other| other != one));
        }
    }
}
