//! Lines of cells as Markdown with aligned columns.

use std::collections::BTreeMap;

use artifacts::Scalar;
use minijinja::{Environment, Error};

use super::headings::{Heads, Sides};
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
    let repeated = match &settings.pivot {
        Some(_) => Repeated::default(),
        None => Repeated::of(view, &settings.columns),
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
                let cells = settings.columns.iter().enumerate();
                let cells =
                    cells.map(
                        |(at, column)| match repeated.mark(view, index, at, column) {
                            Some(mark) => Ok(format!("note {mark}")),
                            None => cell(world, view, index, column),
                        },
                    );
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
        let notes: Vec<String> = heads.ratios.iter().map(Sides::note).collect();
        out.push_str(&format!("\n\n{}.", notes.join("; ")));
    }
    for (number, row, column) in repeated.in_order() {
        let text = cell(world, view, row, &settings.columns[column])?;
        let (heading, mark) = (&heads.texts[column], letters(number));
        out.push_str(&format!("\n\n*{heading}*, note {mark}: {text}"));
        if !text.ends_with('.') {
            out.push('.');
        }
    }
    Ok(out)
}

/// A text with more characters than this is written once, below the table, if several rows have it.
const LONG: usize = 80;

/// The long texts that several rows of a table have, by column and text: the number of the note, and the first row.
#[derive(Default)]
struct Repeated(BTreeMap<(usize, String), (usize, usize)>);

impl Repeated {
    /// Finds the texts, numbered in the order of the rows.
    fn of(view: &View, columns: &[ColumnSettings]) -> Self {
        let mut rows: BTreeMap<(usize, String), Vec<usize>> = BTreeMap::new();
        for index in 0..view.rows.len() {
            for (at, column) in columns.iter().enumerate() {
                if let Some(text) = long_text(view, index, column) {
                    rows.entry((at, text)).or_default().push(index);
                }
            }
        }
        rows.retain(|_, rows| rows.len() > 1);
        let mut first: Vec<_> = rows
            .into_iter()
            .map(|((at, text), rows)| (rows[0], at, text))
            .collect();
        first.sort();
        let numbered = first.into_iter().enumerate();
        Self(
            numbered
                .map(|(number, (row, at, text))| ((at, text), (number, row)))
                .collect(),
        )
    }

    /// Returns the number, the first row and the column of each note.
    fn in_order(&self) -> Vec<(usize, usize, usize)> {
        let notes = self.0.iter();
        let mut notes: Vec<_> = notes
            .map(|((column, _), (number, row))| (*number, *row, *column))
            .collect();
        notes.sort_unstable();
        notes
    }

    /// Returns the letters of the note that a cell refers to.
    fn mark(
        &self,
        view: &View,
        index: usize,
        at: usize,
        column: &ColumnSettings,
    ) -> Option<String> {
        let text = long_text(view, index, column).filter(|_| !self.0.is_empty())?;
        let (number, _) = self.0.get(&(at, text))?;
        Some(letters(*number))
    }
}

/// Returns the text of a cell if it is long.
fn long_text(view: &View, index: usize, column: &ColumnSettings) -> Option<String> {
    match view.get(index, &column.column) {
        Ok(Scalar::Text(text)) if text.chars().nth(LONG).is_some() => Some(text),
        _ => None,
    }
}

/// Writes a number in letters: `a` to `z`, then `aa`.
fn letters(number: usize) -> String {
    let last = char::from(b"abcdefghijklmnopqrstuvwxyz"[number % 26]);
    match number / 26 {
        0 => last.to_string(),
        more => format!("{}{last}", letters(more - 1)),
    }
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

/// The widest column in characters that is aligned: one long list of packages would fill every line with spaces.
const WIDEST: usize = 72;

/// Lines of cells; the first line has the headings.
pub(crate) struct Grid {
    pub(crate) lines: Vec<Vec<String>>,
    pub(crate) numeric: Vec<bool>,
}

impl Grid {
    /// Writes the lines as Markdown with columns that are aligned up to [`WIDEST`].
    fn text(&self) -> String {
        let widths: Vec<usize> = (0..self.numeric.len())
            .map(|c| {
                self.lines
                    .iter()
                    .map(|l| width(&l[c]))
                    .max()
                    .unwrap_or(0)
                    .clamp(3, WIDEST)
            })
            .collect();
        let mut out = String::new();
        for (number, line) in self.lines.iter().enumerate() {
            for ((cell, width_wanted), right) in line.iter().zip(&widths).zip(&self.numeric) {
                let space = " ".repeat(width_wanted.saturating_sub(width(cell)));
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
