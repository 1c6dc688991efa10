//! Lines of cells as Markdown with aligned columns.

use minijinja::{Environment, Error};

use super::headings::Heads;
use crate::language::{World, missed};
use crate::pivot::Pivoted;
use crate::settings::{ColumnSettings, TableSettings};
use crate::trace::unmarked;
use crate::view::View;

/// Writes rows as a table, with `markers` after the first cell of each. Below it, names the sides of ratio columns
/// whose heading does not.
pub(super) fn grid(
    world: &World,
    environment: &Environment<'_>,
    settings: &TableSettings,
    view: &View,
    markers: &[String],
) -> Result<String, Error> {
    let mut heads = Heads::default();
    for column in &settings.columns {
        heads.add(world, environment, view, column)?;
    }
    let mut grid = Grid {
        numeric: std::mem::take(&mut heads.numeric),
        lines: vec![heads.texts.iter().map(|text| escape(text)).collect()],
    };
    match &settings.pivot {
        Some(pivot) => {
            let pivoted = Pivoted {
                world,
                environment,
                view,
                markers,
            };
            pivoted.fill(pivot, &settings.columns, &mut heads, &mut grid)?;
        }
        None => {
            for index in 0..view.rows.len() {
                let cells = settings.columns.iter();
                let cells = cells.map(|column| cell(world, view, index, column));
                let mut cells = cells.collect::<Result<Vec<String>, Error>>()?;
                if let (Some(first), Some(marker)) = (cells.first_mut(), markers.get(index)) {
                    first.push_str(marker);
                }
                grid.lines.push(cells);
            }
        }
    }
    let mut out = grid.text();
    if !heads.ratios.is_empty() {
        let notes: Vec<String> = heads.ratios.into_iter().map(|(_, note)| note).collect();
        out.push_str(&format!("\n\n{}.", notes.join("; ")));
    }
    Ok(out)
}

/// Shows one value, or an interval.
pub(crate) fn cell(
    world: &World,
    view: &View,
    index: usize,
    column: &ColumnSettings,
) -> Result<String, Error> {
    let (format, null) = (&column.format, &column.null);
    let text = match &column.to {
        Some(to) => world.interval(view, index, [&column.column, to], format, null),
        None => world.show(view, index, &column.column, format, null),
    };
    Ok(escape(&text.map_err(missed)?))
}

/// Lines of cells; the first line has the headings.
pub(crate) struct Grid {
    pub(crate) lines: Vec<Vec<String>>,
    pub(crate) numeric: Vec<bool>,
}

impl Grid {
    /// Writes the lines as Markdown with aligned columns.
    fn text(&self) -> String {
        let widths: Vec<usize> = (0..self.numeric.len())
            .map(|c| {
                self.lines
                    .iter()
                    .map(|l| width(&l[c]))
                    .max()
                    .unwrap_or(0)
                    .max(3)
            })
            .collect();
        let mut out = String::new();
        for (number, line) in self.lines.iter().enumerate() {
            for ((cell, width_wanted), right) in line.iter().zip(&widths).zip(&self.numeric) {
                let space = " ".repeat(width_wanted - width(cell));
                out.push_str(&if *right {
                    format!("| {space}{cell} ")
                } else {
                    format!("| {cell}{space} ")
                });
            }
            out.push_str("|\n");
            if number == 0 {
                for (width, right) in widths.iter().zip(&self.numeric) {
                    let dashes = "-".repeat(*width);
                    out.push_str(&if *right {
                        format!("| {}: ", &dashes[1..])
                    } else {
                        format!("| {dashes} ")
                    });
                }
                out.push_str("|\n");
            }
        }
        out.pop();
        out
    }
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('|', "\\|")
}

fn width(marked: &str) -> usize {
    unmarked(marked).chars().count()
}
