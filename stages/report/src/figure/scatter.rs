//! Two columns against each other: one mark per row, repetitions included. Marks that no other mark beats in both
//! columns stand out.

use contract::Better;

use super::Plot;
use super::error::FigureError;
use super::frame::{Frame, axes, legend, range};
use super::scale::axis;
use super::svg::{Anchor, Svg, WIDTH};

const TOP: f64 = 66.0;
const HEIGHT: f64 = 300.0;
/// The distance between two rows of panels: tick labels and the next heading.
const BETWEEN: f64 = 58.0;
const LEFT: f64 = 62.0;

/// A row with both coordinates.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: [f64; 2],
    row: usize,
    series: usize,
    panel: usize,
}

pub(super) fn draw(plot: &Plot<'_>, svg: &mut Svg) -> Result<(), FigureError> {
    let settings = plot.settings;
    let y = settings.y.as_deref().expect("checked: a scatter has `y`");
    let series = plot.labels(settings.series.as_deref())?;
    let panels = plot.labels(settings.facet.as_deref())?;
    let marks = marks(plot, y, &series, &panels)?;
    let rows = legend(svg, &plot.named(settings.series.as_deref(), &series), None);
    if rows > 1 && panels.len() > 1 {
        // The names of the panels are close to the legend.
        svg.lower(8.0);
    }
    let across = panels.len().min(3);
    let down = panels.len().div_ceil(3);
    let gap = 16.0;
    let width = (WIDTH - LEFT - 14.0 - gap * (across - 1) as f64) / across as f64;
    let height = if panels.len() > 1 {
        HEIGHT * 0.66
    } else {
        HEIGHT
    };
    let [columns, lines] = [0, 1].map(|axis| range(marks.iter().map(|m| m.at[axis])));
    let names = plot.named(settings.facet.as_deref(), &panels);
    let mut titles = [
        plot.axis_label(settings.x_label.as_deref(), &settings.x),
        plot.axis_label(settings.y_label.as_deref(), y),
    ];
    for number in 0..panels.len() {
        let (column, line) = (number % across, number / across);
        let frame = Frame {
            left: LEFT + (width + gap) * column as f64,
            top: TOP + (height + BETWEEN) * line as f64,
            width,
            height,
        };
        let (right, bottom) = (frame.left + width, frame.top + height);
        let few = if across > 1 { 4 } else { 8 };
        let (x, x_ticks) = axis(columns, settings.log_x, (frame.left, right), few);
        let (up, y_ticks) = axis(lines, settings.log_y, (bottom, frame.top), 5);
        axes(svg, &frame, (&x, &x_ticks), (&up, &y_ticks), column == 0);
        // All panels have the same scales.
        titles = [x.titled(titles[0].clone()), up.titled(titles[1].clone())];
        if let Some(name) = names.get(number) {
            let middle = frame.left + width / 2.0;
            let at = (middle, frame.top - 8.0);
            svg.label(at, Anchor::Middle, "small", name, width);
        }
        let own: Vec<Mark> = marks
            .iter()
            .copied()
            .filter(|m| m.panel == number)
            .collect();
        let place = |mark: &Mark| (x.at(mark.at[0]), up.at(mark.at[1]));
        if let Some(better) = settings.frontier {
            let mut best: Vec<&Mark> = own.iter().filter(|m| !is_beaten(m, &own, better)).collect();
            best.sort_by(|a, b| {
                a.at[0]
                    .total_cmp(&b.at[0])
                    .then(a.at[1].total_cmp(&b.at[1]))
            });
            let points: Vec<(f64, f64)> = best.iter().map(|mark| place(mark)).collect();
            for pair in points.windows(2) {
                svg.line(pair[0], pair[1], "reference");
            }
        }
        for mark in &own {
            let labelled = |value: f64, column: &str| {
                let label = plot.axis_label(None, column);
                format!("{label} {}", plot.written(value, column))
            };
            let labelled = [labelled(mark.at[0], &settings.x), labelled(mark.at[1], y)].join(", ");
            let hover = format!("{}: {labelled}", plot.key(mark.row));
            let (px, py) = place(mark);
            let row = plot.mark(mark.row);
            // A mark that another one beats in both columns is hollow.
            match settings
                .frontier
                .is_some_and(|better| is_beaten(mark, &own, better))
            {
                true => svg.hollow_mark(px, py, mark.series, &row, &hover),
                false => svg.mark(px, py, mark.series, &row, &hover),
            }
        }
    }
    let bottom = TOP + (height + BETWEEN) * down as f64 - BETWEEN;
    let middle = (LEFT + (WIDTH - LEFT) / 2.0, bottom + 38.0);
    svg.label(middle, Anchor::Middle, "", &titles[0], WIDTH - LEFT);
    svg.vertical_text(12.0, TOP + (bottom - TOP) / 2.0, &titles[1], bottom - TOP);
    svg.height = bottom + 50.0;
    Ok(())
}

fn marks(
    plot: &Plot<'_>,
    y: &str,
    series: &[String],
    panels: &[String],
) -> Result<Vec<Mark>, FigureError> {
    let settings = plot.settings;
    let mut marks = Vec::new();
    for row in 0..plot.view.rows.len() {
        let place = plot.number(row, &settings.x)?.zip(plot.number(row, y)?);
        let Some((x, y)) = place else { continue };
        let (own, panel) = (
            plot.label(row, settings.series.as_deref())?,
            plot.label(row, settings.facet.as_deref())?,
        );
        let find = |list: &[String], label: &String| list.iter().position(|l| l == label);
        marks.push(Mark {
            at: [x, y],
            row,
            series: find(series, &own).unwrap_or(0),
            panel: find(panels, &panel).unwrap_or(0),
        });
    }
    if marks.is_empty() {
        return Err(FigureError::nothing_with("both coordinates"));
    }
    Ok(marks)
}

/// Whether another mark is at least as good in both columns and better in one. Marks at the same place do not beat each
/// other.
fn is_beaten(mark: &Mark, all: &[Mark], better: [Better; 2]) -> bool {
    let gain = |other: &Mark, axis: usize| match better[axis] {
        Better::Higher => other.at[axis] - mark.at[axis],
        Better::Lower => mark.at[axis] - other.at[axis],
    };
    all.iter().any(|other| {
        let gains = [gain(other, 0), gain(other, 1)];
        gains.iter().all(|g| *g >= 0.0) && gains.iter().any(|g| *g > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_beaten_by_one_that_is_as_good_in_both_and_better_in_one() {
        let mark = |x: f64, y: f64| Mark {
            at: [x, y],
            row: 0,
            series: 0,
            panel: 0,
        };
        let all = [
            mark(1.0, 9.0),
            mark(2.0, 9.0),
            mark(3.0, 5.0),
            mark(3.0, 5.0),
            mark(2.5, 4.0),
        ];
        let beaten = |better| {
            all.iter()
                .map(|m| is_beaten(m, &all, better))
                .collect::<Vec<_>>()
        };
        let both = [Better::Higher, Better::Higher];
        // The first ties in one and loses in the other; equal marks are not beaten.
        assert_eq!(beaten(both), [true, false, false, false, true]);
        // Throughput against latency: left and up is better.
        let left = [Better::Lower, Better::Higher];
        assert_eq!(beaten(left), [false, true, true, true, true]);
    }
}
