//! Ladders and empirical distributions: curves in panels.

use super::Plot;
use super::error::FigureError;
use super::frame::{Frame, axes, legend, range};
use super::scale::{Scale, axis, log_ticks, ticks};
use super::svg::{Anchor, Svg, WIDTH};
use crate::format::format_value;
use crate::settings::FigureKind;
use artifacts::Scalar;
use pipeline::stage::Json;

struct Point {
    x: f64,
    y: f64,
    band: Option<(f64, f64)>,
    reference: Option<f64>,
    row: usize,
}

/// A rung of a ladder that has no mark because the cells are missing or the value is undefined.
pub(super) struct Gap {
    x: f64,
    series: usize,
    facet: usize,
    cell: String,
}

struct Curve {
    series: usize,
    points: Vec<Point>,
}

impl Curve {
    /// Returns the points with a mark: all of a ladder. A distribution has too many, so those at its quartiles tell the
    /// curves of several series apart.
    fn marked(&self, kind: FigureKind, series: usize) -> Vec<&Point> {
        if kind != FigureKind::Ecdf {
            return self.points.iter().collect();
        }
        let n = self.points.len();
        let mut ranks = [1, 2, 3].map(|quarter| (quarter * n).div_ceil(4)).to_vec();
        ranks.dedup();
        ranks.retain(|rank| series > 1 && *rank > 0);
        ranks.iter().map(|rank| &self.points[rank - 1]).collect()
    }
}

const HEIGHT: f64 = 260.0;
const TOP: f64 = 70.0;

pub(super) fn draw(plot: &Plot<'_>, svg: &mut Svg) -> Result<(), FigureError> {
    let settings = plot.settings;
    let series = plot.labels(settings.series.as_deref())?;
    let facets = plot.labels(settings.facet.as_deref())?;
    let panels = panels(plot, &series, &facets)?;
    let all = || panels.iter().flatten().flat_map(|c| &c.points);
    if all().next().is_none() {
        return Err(FigureError::nothing_with("both coordinates"));
    }
    let gaps = if settings.kind == FigureKind::Ladder {
        gaps(plot)?
    } else {
        Vec::new()
    };
    let reference = all().any(|p| p.reference.is_some());
    let series_shown = plot.named(settings.series.as_deref(), &series);
    let panels_shown = plot.named(settings.facet.as_deref(), &facets);
    let reference_label = settings.reference_label.as_deref().unwrap_or("reference");
    legend(svg, &series_shown, reference.then_some(reference_label));
    let columns = facets.len().min(3);
    let gap = 16.0;
    let width = (WIDTH - 62.0 - gap * (columns as f64 - 1.0)) / columns as f64;
    let rows = facets.len().div_ceil(columns);
    let (low, high) = range(all().map(|p| p.x).chain(gaps.iter().map(|g| g.x)));
    let y_values = all().flat_map(|p| {
        [
            Some(p.y),
            p.band.map(|b| b.0),
            p.band.map(|b| b.1),
            p.reference,
        ]
    });
    let (y_low, y_high) = range(y_values.flatten());
    for (number, curves) in panels.iter().enumerate() {
        let (row, column) = (number / columns, number % columns);
        let frame = Frame {
            left: 52.0 + (width + gap) * column as f64,
            top: TOP + (HEIGHT + 70.0) * row as f64,
            width,
            height: HEIGHT,
        };
        if let Some(name) = panels_shown.get(number) {
            let at = (frame.left, frame.top - 8.0);
            svg.label(at, Anchor::Start, "facet", name, width);
        }
        let few = columns > 1;
        let (x, x_ticks) = x_axis(plot, (&panels, &gaps), (low, high), &frame, few);
        let (y, y_ticks) = y_axis(plot, (y_low, y_high), &frame);
        axes(svg, &frame, (&x, &x_ticks), (&y, &y_ticks), column == 0);
        let names = match series_shown.is_empty() {
            true => &series,
            false => &series_shown,
        };
        panel(plot, svg, curves, &x, &y, names);
        for gap in gaps.iter().filter(|g| g.facet == number) {
            // Placed side by side if several series lack the same rung.
            let place = (
                x.at(gap.x) + 9.0 * gap.series as f64,
                frame.top + HEIGHT - 7.0,
            );
            svg.cross(place, gap.series, &gap.cell);
        }
        let label = x.titled(plot.axis_label(settings.x_label.as_deref(), &settings.x));
        let middle = (frame.left + width / 2.0, frame.top + HEIGHT + 38.0);
        svg.label(middle, Anchor::Middle, "", &label, width + 4.0 * gap);
        if column == 0 {
            let label = match (settings.kind, &settings.y, &settings.y_label) {
                (_, _, Some(label)) => label.clone(),
                (FigureKind::Ladder, Some(y), None) => plot.axis_label(None, y),
                _ => share_of(plot),
            };
            let middle = frame.top + HEIGHT / 2.0;
            svg.vertical_text(12.0, middle, &y.titled(label), HEIGHT);
        }
    }
    svg.height = TOP + (HEIGHT + 70.0) * rows as f64 - 22.0;
    Ok(())
}

/// The title of the share in a distribution: what a row of the table stands for.
fn share_of(plot: &Plot<'_>) -> String {
    let table = &plot.view.table;
    let of_requests = table.output == "requests" || table.has_column("request_id");
    let what = if of_requests { "requests" } else { "rows" };
    format!("share of {what}")
}

/// The curves of each panel.
fn panels(
    plot: &Plot<'_>,
    series: &[String],
    facets: &[String],
) -> Result<Vec<Vec<Curve>>, FigureError> {
    let settings = plot.settings;
    let mut panels = Vec::new();
    for facet in facets {
        let mut curves = Vec::new();
        for (number, name) in series.iter().enumerate() {
            let rows: Vec<usize> = (0..plot.view.rows.len())
                .filter(|r| {
                    plot.label(*r, settings.series.as_deref()).as_ref() == Ok(name)
                        && plot.label(*r, settings.facet.as_deref()).as_ref() == Ok(facet)
                })
                .collect();
            let points = match settings.kind {
                FigureKind::Ecdf => distribution(plot, &rows)?,
                _ => rungs(plot, &rows)?,
            };
            if !points.is_empty() {
                curves.push(Curve {
                    series: number,
                    points,
                });
            }
        }
        panels.push(curves);
    }
    Ok(panels)
}

/// The horizontal axis of a panel and its ticks: the rungs of a ladder, otherwise round numbers.
fn x_axis(
    plot: &Plot<'_>,
    (panels, gaps): (&[Vec<Curve>], &[Gap]),
    (low, high): (f64, f64),
    frame: &Frame,
    few: bool,
) -> (Scale, Vec<f64>) {
    let (left, right) = (frame.left, frame.left + frame.width);
    if plot.settings.kind == FigureKind::Ladder {
        let scale = Scale::logarithmic(low, high, left + 12.0, right - 12.0);
        return (scale, rung_values(panels, gaps));
    }
    if plot.settings.log_x && low > 0.0 {
        let scale = Scale::logarithmic(low, high, left + 4.0, right - 8.0);
        return (scale, log_ticks(low, high));
    }
    let marks = ticks(low.min(0.0), high, if few { 4 } else { 8 });
    let inside = marks.into_iter().filter(|t| *t <= high * 1.0001);
    let scale = Scale::linear(low.min(0.0), high, left, right - 8.0);
    (scale, inside.collect())
}

/// The vertical axis of a panel and its ticks.
fn y_axis(plot: &Plot<'_>, (low, high): (f64, f64), frame: &Frame) -> (Scale, Vec<f64>) {
    let upwards = (frame.top + HEIGHT, frame.top);
    if plot.settings.log_y && low > 0.0 {
        return axis((low, high), true, upwards, 5);
    }
    let marks = ticks(low.min(0.0), high.max(0.0), 5);
    let ends = (marks[0], marks[marks.len() - 1]);
    (Scale::linear(ends.0, ends.1, upwards.0, upwards.1), marks)
}

/// Finds the rungs of a ladder that have no mark because the cells are missing or the value is undefined, without
/// duplicates. The line passes over them, so the figure must show them.
///
/// # Errors
/// If the table lacks a column of the figure.
pub(super) fn gaps(plot: &Plot<'_>) -> Result<Vec<Gap>, FigureError> {
    let settings = plot.settings;
    let series = plot.labels(settings.series.as_deref())?;
    let facets = plot.labels(settings.facet.as_deref())?;
    let mut marked: Vec<(f64, String, String)> = Vec::new();
    for row in 0..plot.view.rows.len() {
        let label = |column: &Option<String>| plot.label(row, column.as_deref());
        if let Some(x) = plot.number(row, &settings.x)? {
            marked.push((x, label(&settings.series)?, label(&settings.facet)?));
        }
    }
    let mut gaps: Vec<Gap> = Vec::new();
    for cell in &plot.lacks.gone {
        // Without a column, all cells have one empty label.
        let label = |column: &Option<String>| match column {
            None => Some(String::new()),
            Some(column) => cell.get(column).map(ToString::to_string),
        };
        let x = cell
            .get(&settings.x)
            .and_then(Scalar::as_f64)
            .filter(|x| *x > 0.0);
        let (Some(x), Some(own), Some(panel)) =
            (x, label(&settings.series), label(&settings.facet))
        else {
            continue;
        };
        let at = |labels: &[String], own: &String| labels.iter().position(|label| label == own);
        let (Some(series), Some(facet)) = (at(&series, &own), at(&facets, &panel)) else {
            continue;
        };
        let is_listed = gaps
            .iter()
            .any(|g| (g.x, g.series, g.facet) == (x, series, facet));
        if !is_listed && !marked.contains(&(x, own, panel)) {
            gaps.push(Gap {
                x,
                series,
                facet,
                cell: format!("no value: {cell}"),
            });
        }
    }
    for gap in undefined(plot, &series, &facets)? {
        let is_listed = gaps
            .iter()
            .any(|g| (g.x, g.series, g.facet) == (gap.x, gap.series, gap.facet));
        if !is_listed {
            gaps.push(gap);
        }
    }
    Ok(gaps)
}

/// Finds the rungs of a ladder whose rows have no value, such as a p99 of too few requests.
fn undefined(
    plot: &Plot<'_>,
    series: &[String],
    facets: &[String],
) -> Result<Vec<Gap>, FigureError> {
    let settings = plot.settings;
    let y = settings.y.as_deref().expect("checked: a ladder has `y`");
    let (mut gaps, mut marked) = (Vec::new(), Vec::new());
    for row in 0..plot.view.rows.len() {
        let at = |labels: &[String], column: &Option<String>| {
            let own = plot.label(row, column.as_deref())?;
            Ok::<_, FigureError>(labels.iter().position(|l| *l == own).unwrap_or(0))
        };
        let x = plot.number(row, &settings.x)?.filter(|x| *x > 0.0);
        let Some(x) = x else { continue };
        let place = (
            x,
            at(series, &settings.series)?,
            at(facets, &settings.facet)?,
        );
        match plot.number(row, y)? {
            Some(_) => marked.push(place),
            None => gaps.push(Gap {
                x,
                series: place.1,
                facet: place.2,
                cell: format!("no value: {}", plot.key(row)),
            }),
        }
    }
    gaps.retain(|gap| !marked.contains(&(gap.x, gap.series, gap.facet)));
    Ok(gaps)
}

fn rungs(plot: &Plot<'_>, rows: &[usize]) -> Result<Vec<Point>, FigureError> {
    let settings = plot.settings;
    let y = settings.y.as_deref().expect("checked: a ladder has `y`");
    let mut points = Vec::new();
    for row in rows {
        let (Some(x), Some(value)) = (plot.number(*row, &settings.x)?, plot.number(*row, y)?)
        else {
            continue;
        };
        if x <= 0.0 {
            let because = "a ladder needs positive values";
            return Err(FigureError::out_of_range(&settings.x, x, because));
        }
        let band = match &settings.band {
            Some([low, high]) => plot.number(*row, low)?.zip(plot.number(*row, high)?),
            None => None,
        };
        let reference = match &settings.reference {
            Some(Json::String(column)) => plot.number(*row, column)?,
            Some(Json::Number(number)) => number.as_f64(),
            _ => None,
        };
        points.push(Point {
            x,
            y: value,
            band,
            reference,
            row: *row,
        });
    }
    points.sort_by(|a: &Point, b: &Point| a.x.total_cmp(&b.x).then(a.row.cmp(&b.row)));
    if let Some(pair) = points.windows(2).find(|pair| pair[0].x == pair[1].x) {
        return Err(FigureError::TwoRows {
            place: format!(
                "{} {} of one curve ({} and {})",
                settings.x,
                pair[0].x,
                plot.key(pair[0].row),
                plot.key(pair[1].row)
            ),
            has_series: settings.series.is_some(),
        });
    }
    Ok(points)
}

fn distribution(plot: &Plot<'_>, rows: &[usize]) -> Result<Vec<Point>, FigureError> {
    let mut values = Vec::new();
    for row in rows {
        if let Some(x) = plot.number(*row, &plot.settings.x)? {
            values.push((x, *row));
        }
    }
    values.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let n = values.len() as f64;
    let points = values.into_iter().enumerate().map(|(i, (x, row))| Point {
        x,
        y: (i + 1) as f64 / n,
        band: None,
        reference: None,
        row,
    });
    Ok(points.collect())
}

fn rung_values(panels: &[Vec<Curve>], gaps: &[Gap]) -> Vec<f64> {
    let marks = panels
        .iter()
        .flatten()
        .flat_map(|c| c.points.iter().map(|p| p.x));
    let mut values: Vec<f64> = marks.chain(gaps.iter().map(|g| g.x)).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

fn panel(
    plot: &Plot<'_>,
    svg: &mut Svg,
    curves: &[Curve],
    x: &Scale,
    y: &Scale,
    series: &[String],
) {
    for curve in curves {
        let class = format!("c{}", curve.series % 6);
        for run in curve
            .points
            .split(|p| p.band.is_none())
            .filter(|run| !run.is_empty())
        {
            let ends = |p: &Point| p.band.expect("points without a band are split off");
            if let [only] = run {
                // A band needs two points, so draw a bar instead.
                let (low, high) = ends(only);
                let at = x.at(only.x);
                svg.line(
                    (at, y.at(low)),
                    (at, y.at(high)),
                    &format!("whisker {class}"),
                );
                continue;
            }
            let upper = run.iter().map(|p| (x.at(p.x), y.at(ends(p).1)));
            let lower = run.iter().rev().map(|p| (x.at(p.x), y.at(ends(p).0)));
            svg.path(
                &upper.chain(lower).collect::<Vec<_>>(),
                &format!("band {class}"),
                true,
            );
        }
    }
    for curve in curves {
        let class = format!("line c{}", curve.series % 6);
        let points: Vec<(f64, f64)> = match plot.settings.kind {
            FigureKind::Ecdf => {
                let mut steps = Vec::new();
                let mut before = 0.0;
                for p in &curve.points {
                    steps.push((x.at(p.x), y.at(before)));
                    steps.push((x.at(p.x), y.at(p.y)));
                    before = p.y;
                }
                steps
            }
            _ => curve
                .points
                .iter()
                .map(|p| (x.at(p.x), y.at(p.y)))
                .collect(),
        };
        svg.path(&points, &class, false);
    }
    // Above the lines: they are dashed, so a line below them shows.
    for (class, line) in references(curves) {
        let points: Vec<_> = line.iter().map(|(px, py)| (x.at(*px), y.at(*py))).collect();
        svg.path(&points, &class, false);
    }
    let kind = plot.settings.kind;
    for curve in curves {
        for p in curve.marked(kind, series.len()) {
            let hover = hover(plot, p, &series[curve.series]);
            let (x, y, row) = (x.at(p.x), y.at(p.y), plot.mark(p.row));
            if kind == FigureKind::Ladder && plot.lacks.partial.contains(&p.row) {
                svg.hollow_mark(x, y, curve.series, &row, &hover);
            } else {
                svg.mark(x, y, curve.series, &row, &hover);
            }
        }
    }
}

/// Returns the lines of the reference in a panel, each with its class: one for all curves if they agree, otherwise one in
/// the colour of each curve.
fn references(curves: &[Curve]) -> Vec<(String, Vec<(f64, f64)>)> {
    let of_curve = |curve: &Curve| -> Vec<(f64, f64)> {
        let points = curve.points.iter();
        points.filter_map(|p| Some((p.x, p.reference?))).collect()
    };
    let mut all: Vec<(f64, f64)> = curves.iter().flat_map(of_curve).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Means of equal values differ in their last digits.
    let is_same = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
    let agree = all
        .windows(2)
        .all(|w| w[0].0 != w[1].0 || is_same(w[0].1, w[1].1));
    let mut lines = Vec::new();
    if agree {
        all.dedup_by(|a, b| a.0 == b.0);
        lines.push(("reference".to_owned(), all));
    } else {
        for curve in curves {
            lines.push((format!("reference c{}", curve.series % 6), of_curve(curve)));
        }
    }
    lines.retain(|(_, line)| !line.is_empty());
    lines
}

fn hover(plot: &Plot<'_>, point: &Point, series: &str) -> String {
    let settings = plot.settings;
    if settings.kind == FigureKind::Ecdf {
        let value = plot.written(point.x, &settings.x);
        return format!("{series}: {value} at a share of {:.2}", point.y);
    }
    let y = settings.y.as_deref().unwrap_or_default();
    let unit = plot.view.table.unit(y);
    let text = |v: f64| {
        format_value(&Scalar::Float(v), unit.as_deref(), &settings.format, "")
            .unwrap_or_else(|_| v.to_string())
    };
    let band = point
        .band
        .map(|(low, high)| format!(" [{}, {}]", text(low), text(high)));
    let name = if series.is_empty() {
        String::new()
    } else {
        format!("{series}, ")
    };
    format!(
        "{name}{} {}: {}{}",
        settings.x,
        point.x,
        text(point.y),
        band.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(series: usize, points: &[(f64, f64)]) -> Curve {
        let point = |(row, (x, reference)): (usize, &(f64, f64))| Point {
            x: *x,
            y: 1.0,
            band: None,
            reference: Some(*reference),
            row,
        };
        Curve {
            series,
            points: points.iter().enumerate().map(point).collect(),
        }
    }

    #[test]
    fn a_reference_that_differs_between_series_is_drawn_for_each() {
        let (a, b) = ([(1.0, 1.0), (2.0, 0.5)], [(2.0, 0.5 + 1e-16), (4.0, 0.25)]);
        // Both series agree where both have a value, so they share one line.
        let shared = references(&[curve(0, &a), curve(1, &b)]);
        let line = vec![(1.0, 1.0), (2.0, 0.5), (4.0, 0.25)];
        assert_eq!(shared, [("reference".to_owned(), line)]);
        let other = [(1.0, 1.0), (2.0, 0.6)];
        let own = references(&[curve(0, &a), curve(7, &other)]);
        let expected = [
            ("reference c0".to_owned(), a.to_vec()),
            ("reference c1".to_owned(), other.to_vec()),
        ];
        assert_eq!(own, expected);
        assert_eq!(references(&[]), []);
    }

    #[test]
    fn the_distributions_of_several_series_have_marks_at_their_quartiles() {
        let rows = |n: usize, kind, series| -> Vec<usize> {
            let points = curve(0, &vec![(1.0, 1.0); n]);
            let marked = points.marked(kind, series);
            marked.iter().map(|p| p.row).collect()
        };
        assert_eq!(rows(100, FigureKind::Ecdf, 2), [24, 49, 74]);
        assert_eq!(rows(1, FigureKind::Ecdf, 2), [0]);
        assert_eq!(rows(100, FigureKind::Ecdf, 1), [0; 0]);
        assert_eq!(rows(0, FigureKind::Ecdf, 2), [0; 0]);
        assert_eq!(rows(3, FigureKind::Ladder, 1), [0, 1, 2]);
    }
}
