//! Tables of a report with the values of one column side by side.

use artifacts::Scalar;
use minijinja::{Environment, Error};

use crate::language::{World, missed};
use crate::settings::{ColumnSettings, Pivot};
use crate::tables::{Grid, Heads, cell, escape};
use crate::view::View;

/// The inputs of a pivoted table.
pub(crate) struct Pivoted<'a> {
    pub(crate) world: &'a World,
    pub(crate) environment: &'a Environment<'a>,
    pub(crate) view: &'a View,
    /// The footnote markers of each row.
    pub(crate) markers: &'a [String],
}

/// Distinct values, each with its first row.
#[derive(Default)]
struct Distinct {
    values: Vec<Vec<Scalar>>,
    rows: Vec<usize>,
}

impl Distinct {
    /// Returns the position of the values, which are added if they are new.
    fn position(&mut self, values: Vec<Scalar>, row: usize) -> usize {
        self.values
            .iter()
            .position(|v| *v == values)
            .unwrap_or_else(|| {
                self.values.push(values);
                self.rows.push(row);
                self.rows.len() - 1
            })
    }
}

impl Pivoted<'_> {
    /// Adds a line for each combination of values of `columns`, and for each value of the pivot's column the columns
    /// that it shows. The heading of such a column is the value, preceded by the name of the pivot's column if the
    /// value is a number. The heading of the shown column follows if there are several, otherwise the unit.
    ///
    /// # Errors
    /// If a column does not exist, or two rows would fall into one place.
    pub(crate) fn fill(
        &self,
        pivot: &Pivot,
        columns: &[ColumnSettings],
        heads: &mut Heads,
        grid: &mut Grid,
    ) -> Result<(), Error> {
        let view = self.view;
        for column in &pivot.values {
            heads.add(self.world, self.environment, view, column)?;
        }
        let (mut lines, mut across) = (Distinct::default(), Distinct::default());
        let mut places: Vec<(usize, usize)> = Vec::new();
        for row in 0..view.rows.len() {
            let value = |column: &str| view.get(row, column).map_err(missed);
            let line = columns.iter().map(|c| value(&c.column));
            let line = line.collect::<Result<Vec<Scalar>, Error>>()?;
            let place = (
                lines.position(line, row),
                across.position(vec![value(&pivot.by)?], row),
            );
            if let Some(first) = places.iter().position(|p| *p == place) {
                return Err(self.twice(pivot, columns, [first, row]));
            }
            places.push(place);
        }
        for row in &across.rows {
            let label = self.world.show(view, *row, &pivot.by, "", "none");
            let label = escape(&label.map_err(missed)?);
            let is_number = view.get(*row, &pivot.by).map_err(missed)?;
            let label = match is_number.as_f64() {
                Some(_) => format!("{} {label}", escape(&pivot.by.replace('_', " "))),
                None => label,
            };
            for (at, value) in pivot.values.iter().enumerate() {
                let what = &heads.texts[columns.len() + at];
                grid.lines[0].push(match (pivot.values.len(), unit_to_tell(view, value)) {
                    (1, None) => label.clone(),
                    (1, Some(unit)) => format!("{label} ({})", escape(&unit)),
                    _ => format!("{label} {}", escape(what)),
                });
                grid.numeric.push(heads.numeric[at]);
            }
        }
        for (line, first) in lines.rows.iter().enumerate() {
            let named = columns.iter().map(|c| cell(self.world, view, *first, c));
            let mut cells = named.collect::<Result<Vec<String>, Error>>()?;
            for column in 0..across.rows.len() {
                let row = places.iter().position(|p| *p == (line, column));
                for (at, value) in pivot.values.iter().enumerate() {
                    let mut text = match row {
                        Some(row) => cell(self.world, view, row, value)?,
                        None => escape(&pivot.absent),
                    };
                    if let (Some(marker), 0) = (row.and_then(|r| self.markers.get(r)), at) {
                        text.push_str(marker);
                    }
                    cells.push(text);
                }
            }
            grid.lines.push(cells);
        }
        Ok(())
    }

    /// Reports two rows in one place, and the columns that would distinguish them.
    fn twice(&self, pivot: &Pivot, columns: &[ColumnSettings], rows: [usize; 2]) -> Error {
        let view = self.view;
        let shown = |column: &str| view.get(rows[1], column).map(|v| v.to_string());
        let place = columns.iter().map(|c| &c.column).chain([&pivot.by]);
        let place = place.map(|c| format!("{c}={}", shown(c).unwrap_or_default()));
        let place: Vec<String> = place.collect();
        let differ = |column: &&String| {
            let (a, b) = (view.get(rows[0], column), view.get(rows[1], column));
            matches!((a, b), (Ok(a), Ok(b)) if a != b)
        };
        let differ: Vec<String> = view
            .keys
            .iter()
            .filter(differ)
            .map(|k| format!("`{k}`"))
            .collect();
        let remedy = match differ.is_empty() {
            true => "choose rows with `where`".to_owned(),
            false => format!(
                "add {} to `columns`, or choose rows with `where`",
                pipeline::suggest::any_of(&differ)
            ),
        };
        let message = format!(
            "two rows of the table have the place {}; {remedy}",
            place.join(", ")
        );
        missed(message.into())
    }
}

/// Returns the unit of a value's column, if neither a heading nor its format shows it.
fn unit_to_tell(view: &View, value: &ColumnSettings) -> Option<String> {
    let unit = view.table.unit(&value.column)?;
    let said = value.heading.is_some() || value.format.ends_with(['u', '%', '×', 'p']);
    (unit != "1" && !said).then_some(unit)
}
