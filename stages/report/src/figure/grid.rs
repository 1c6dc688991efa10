//! Heat maps: a coloured cell with a value for each pair of values of two columns.

use super::Plot;
use super::error::FigureError;
use super::svg::{Anchor, Svg, WIDTH};
use crate::format::format_value;
use artifacts::Scalar;

pub(super) fn draw(plot: &Plot<'_>, svg: &mut Svg) -> Result<(), FigureError> {
    let settings = plot.settings;
    let y = settings.y.as_deref().expect("checked: a heat map has `y`");
    let value = settings
        .value
        .as_deref()
        .expect("checked: a heat map has `value`");
    let (columns, rows) = (plot.labels(Some(&settings.x))?, plot.labels(Some(y))?);
    let mut cells = Vec::new();
    for row in 0..plot.view.rows.len() {
        let at = |names: &[String], label: &str| names.iter().position(|n| n == label);
        let place = at(&columns, &plot.label(row, Some(&settings.x))?)
            .zip(at(&rows, &plot.label(row, Some(y))?))
            .expect("labels come from the same rows");
        if cells.iter().any(|(p, _, _)| *p == place) {
            return Err(FigureError::TwoRows {
                place: format!("one {} and {y}", settings.x),
                has_series: true,
            });
        }
        cells.push((place, plot.number(row, value)?, row));
    }
    let values = || cells.iter().filter_map(|(_, v, _)| *v);
    let low = values().fold(f64::INFINITY, f64::min);
    let high = values().fold(f64::NEG_INFINITY, f64::max);
    let longest = rows.iter().map(|r| r.chars().count()).max().unwrap_or(0) as f64;
    let left = (longest * 7.0 + 12.0).clamp(60.0, 240.0);
    let width = (WIDTH - left) / columns.len() as f64;
    let (top, height) = (56.0, 34.0);
    let unit = plot.view.table.unit(value);
    for (number, name) in columns.iter().enumerate() {
        let x = left + width * (number as f64 + 0.5);
        svg.label((x, top - 8.0), Anchor::Middle, "small", name, width - 4.0);
    }
    for (number, name) in rows.iter().enumerate() {
        let y = top + height * (number as f64 + 0.5) + 4.0;
        svg.label((left - 8.0, y), Anchor::End, "", name, left - 8.0);
    }
    for (column, row_at) in (0..columns.len()).flat_map(|c| (0..rows.len()).map(move |r| (c, r))) {
        if !cells.iter().any(|(place, _, _)| *place == (column, row_at)) {
            let x = left + width * (column as f64 + 0.5);
            let y = top + height * (row_at as f64 + 0.5) + 4.0;
            svg.text(x, y, Anchor::Middle, "muted", GONE);
        }
    }
    for ((column, row_at), number, row) in &cells {
        let (x, y) = (left + width * *column as f64, top + height * *row_at as f64);
        let share = number.map_or(0.0, |v| {
            if high > low {
                (v - low) / (high - low)
            } else {
                0.5
            }
        });
        let opacity = if number.is_some() {
            0.06 + 0.5 * share
        } else {
            0.0
        };
        let scalar = number.map_or(Scalar::Null, Scalar::Float);
        let null = settings.null.as_deref().unwrap_or("n/a");
        let text = format_value(&scalar, unit.as_deref(), &settings.format, null)?;
        let attributes = format!(
            "class=\"mark c0\" fill-opacity=\"{opacity:.3}\" data-row=\"{}\"",
            plot.mark(*row)
        );
        let hover = format!("{}, {}: {text}", rows[*row_at], columns[*column]);
        svg.rectangle(
            x + 1.0,
            y + 1.0,
            (width - 2.0, height - 2.0),
            &attributes,
            &hover,
        );
        svg.inside((x + width / 2.0, y + height / 2.0), "", &text, width - 2.0);
    }
    close(plot, svg, left, top + height * rows.len() as f64);
    Ok(())
}

/// The mark of a cell without a row.
const GONE: &str = "\u{d7}";

/// Whether a pair of values of the two columns has no row.
///
/// # Errors
/// If the table lacks a column of the figure.
pub(super) fn has_gaps(plot: &Plot<'_>) -> Result<bool, FigureError> {
    let y = plot.settings.y.as_deref();
    let (columns, rows) = (plot.labels(Some(&plot.settings.x))?, plot.labels(y)?);
    let mut pairs = std::collections::BTreeSet::new();
    for row in 0..plot.view.rows.len() {
        pairs.insert((
            plot.label(row, Some(&plot.settings.x))?,
            plot.label(row, y)?,
        ));
    }
    Ok(pairs.len() < columns.len() * rows.len())
}

/// A grid of thresholds; smaller values are darker. Null, which lies beyond all of them, is a word on white.
pub(super) fn matrix(plot: &Plot<'_>, svg: &mut Svg) -> Result<(), FigureError> {
    let settings = plot.settings;
    let y = settings.y.as_deref().expect("checked: a matrix has `y`");
    let value = settings
        .value
        .as_deref()
        .expect("checked: a matrix has `value`");
    let null = settings.null.as_deref().unwrap_or("never");
    let (columns, rows) = (plot.labels(Some(&settings.x))?, plot.labels(Some(y))?);
    let mut cells: Vec<Option<(Option<f64>, usize)>> = vec![None; columns.len() * rows.len()];
    for row in 0..plot.view.rows.len() {
        let at = |names: &[String], label: &str| names.iter().position(|n| n == label);
        let (x, y) = (
            plot.label(row, Some(&settings.x))?,
            plot.label(row, Some(y))?,
        );
        let Some((column, line)) = at(&columns, &x).zip(at(&rows, &y)) else {
            continue;
        };
        let cell = &mut cells[line * columns.len() + column];
        if cell.is_some() {
            return Err(FigureError::TwoRows {
                place: format!("{x} and {y}"),
                has_series: true,
            });
        }
        *cell = Some((plot.number(row, value)?, row));
    }
    let mut steps: Vec<f64> = cells.iter().flatten().filter_map(|(v, _)| *v).collect();
    steps.sort_by(f64::total_cmp);
    steps.dedup();
    let longest = rows.iter().map(|r| r.chars().count()).max().unwrap_or(0) as f64;
    let left = (longest * 7.0 + 12.0).clamp(60.0, 240.0);
    let width = (WIDTH - left) / columns.len() as f64;
    let (top, height) = (56.0, 34.0);
    for (number, name) in columns.iter().enumerate() {
        let x = left + width * (number as f64 + 0.5);
        svg.label((x, top - 8.0), Anchor::Middle, "small", name, width - 4.0);
    }
    for (number, name) in rows.iter().enumerate() {
        let y = top + height * (number as f64 + 0.5) + 4.0;
        svg.label((left - 8.0, y), Anchor::End, "", name, left - 8.0);
    }
    for (number, cell) in cells.iter().enumerate() {
        let (column, line) = (number % columns.len(), number / columns.len());
        let (x, y) = (left + width * column as f64, top + height * line as f64);
        let middle = (x + width / 2.0, y + height / 2.0);
        // A missing row differs from a null: nothing was measured there.
        let Some((number, row)) = cell else {
            svg.text(middle.0, middle.1 + 4.0, Anchor::Middle, "muted", GONE);
            continue;
        };
        let rank = number.and_then(|v| steps.iter().position(|s| *s == v));
        let share = rank.map(|r| 1.0 - r as f64 / steps.len() as f64);
        let opacity = share.map_or(0.0, |s| 0.1 + 0.42 * s);
        let text = number.map_or_else(|| null.to_owned(), |v| plot.written(v, value));
        let attributes = format!(
            "class=\"mark c1\" fill-opacity=\"{opacity:.3}\" data-row=\"{}\"",
            plot.mark(*row)
        );
        let hover = format!("{}: {value} {text}", plot.key(*row));
        svg.rectangle(
            x + 1.0,
            y + 1.0,
            (width - 2.0, height - 2.0),
            &attributes,
            &hover,
        );
        let class = if number.is_some() { "facet" } else { "muted" };
        svg.inside(middle, class, &text, width - 2.0);
    }
    close(plot, svg, left, top + height * rows.len() as f64);
    Ok(())
}

/// Writes the title of the columns below a grid, and ends the figure there.
fn close(plot: &Plot<'_>, svg: &mut Svg, left: f64, bottom: f64) {
    let label = plot.axis_label(plot.settings.x_label.as_deref(), &plot.settings.x);
    let middle = left + (WIDTH - left) / 2.0;
    svg.text(middle, bottom + 20.0, Anchor::Middle, "", &label);
    svg.height = bottom + 30.0;
}
