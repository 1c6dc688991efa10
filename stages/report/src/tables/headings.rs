//! The headings of columns, from the author or from the column's own name, and the words of the table's schema.

use artifacts::{Ratio, Scalar};
use contract::IntervalEnd;
use minijinja::{Environment, Error};

use crate::check::{contradicts_label, has_numeral};
use crate::data::Miss;
use crate::format::clean;
use crate::guard::guarded;
use crate::language::{World, missed, render_text};
use crate::ratios::names_both;
use crate::settings::ColumnSettings;
use crate::statement::checked;
use crate::trace::{Entry, TraceSource, unmarked};
use crate::view::View;

/// The sides of a ratio, and the headings of its columns.
pub(super) struct Sides {
    ratio: Ratio,
    headings: Vec<String>,
    sides: String,
}

impl Sides {
    /// Names the sides: `*Gain* is a ratio: batched ÷ serial`.
    pub(super) fn note(&self) -> String {
        let Self {
            headings, sides, ..
        } = self;
        match headings.as_slice() {
            [only] => format!("*{only}* is a ratio: {sides}"),
            all => format!("*{}* are ratios: {sides}", all.join("* and *")),
        }
    }
}

/// The headings of columns, which of them hold numbers, and the sides of ratios.
#[derive(Default)]
pub(crate) struct Heads {
    pub(crate) texts: Vec<String>,
    pub(crate) numeric: Vec<bool>,
    pub(super) ratios: Vec<Sides>,
}

impl Heads {
    /// Adds a column.
    pub(crate) fn add(
        &mut self,
        world: &World,
        environment: &Environment<'_>,
        view: &View,
        column: &ColumnSettings,
    ) -> Result<(), Error> {
        view.table.require(&column.column).map_err(missed)?;
        let values = (0..view.rows.len()).map(|i| view.get(i, &column.column));
        let values: Vec<_> = values.collect::<Result<_, _>>().map_err(missed)?;
        let text = match &column.heading {
            Some(heading) => render_text(
                world,
                environment,
                &format!("heading `{}`", column.column),
                heading,
            )?,
            None => own_heading(world, view, column),
        };
        let unit = view.table.unit(&column.column);
        if let (Some(_), Some(other)) = (
            &column.heading,
            contradicts_label(&unmarked(&text), unit.as_deref()),
        ) {
            return Err(missed(Miss::Wrong(format!(
                "the heading of `{}` says `{other}`, but the unit of the column is `{}`: write this unit",
                column.column,
                unit.unwrap_or_default()
            ))));
        }
        if let Some(ratio) = view.table.ratio(&column.column)
            && !names_both(&unmarked(&text), &ratio)
        {
            match self.ratios.iter_mut().find(|other| other.ratio == ratio) {
                Some(same) => same.headings.push(text.clone()),
                None => self.ratios.push(Sides {
                    ratio,
                    headings: vec![text.clone()],
                    sides: crate::ratios::sides(world, view, &column.column).map_err(missed)?,
                }),
            }
        }
        self.numeric
            .push(values.iter().any(|v| v.as_f64().is_some()));
        self.texts.push(text);
        Ok(())
    }
}

/// The side whose mean a column of a comparison holds, if all shown rows have the same.
pub(super) fn side(view: &View, column: &str) -> Option<String> {
    let name = column
        .strip_prefix("mean_")
        .filter(|name| ["a", "b"].contains(name))?;
    let mut sides = (0..view.rows.len()).map(|row| view.value(row, name).map(|v| v.to_string()));
    let first = sides.next()??;
    sides
        .all(|side| side.as_ref() == Some(&first))
        .then_some(first)
}

/// Returns the name of a column for people, as the headings of tables and the axes of figures show it, without its unit.
pub(crate) fn named(view: &View, column: &str) -> String {
    let unit = view.table.unit(column);
    side(view, column).unwrap_or_else(|| words(column, unit.as_deref()))
}

/// Writes the name of a column in the usual abbreviations, without a unit at its end.
fn words(column: &str, unit: Option<&str>) -> String {
    // A column of some cells is named by their coordinates, and the labels are those of the experiment.
    if column.contains('=') {
        return column.to_owned();
    }
    let unit = unit.and_then(|u| u.split('/').next());
    let word = |word: &str| match word {
        "ttft" | "tpot" | "itl" | "e2e" | "slo" | "mfu" => word.to_uppercase(),
        "holm" => "Holm".to_owned(),
        _ => word.to_owned(),
    };
    let parts = column
        .split('_')
        .enumerate()
        .filter(|(at, part)| *at == 0 || Some(*part) != unit);
    parts
        .map(|(_, part)| word(part))
        .collect::<Vec<_>>()
        .join(" ")
}

/// A heading from the column's own name and unit, traced to the table's schema.
pub(super) fn own_heading(world: &World, view: &View, column: &ColumnSettings) -> String {
    let unit = view.table.unit(&column.column);
    let stem = column.column.strip_suffix("ci_low");
    let words = match (
        &column.to,
        stem.or_else(|| column.column.strip_suffix("low")),
    ) {
        (Some(_), Some(stem)) => words(&format!("{stem}interval"), unit.as_deref()),
        _ => named(view, &column.column),
    };
    let text = match unit.as_deref() {
        None | Some("1") => words,
        Some(_) if column.format.ends_with('u') || column.format.ends_with('%') => words,
        Some(unit) => format!("{words} ({unit})"),
    };
    // A column may be called `monotone`, `p50` or `cost_per_million_tokens`: the table chose its name, not the author.
    if !has_numeral(&text) && checked(&text).is_empty() {
        return guarded(&clean(&text));
    }
    of_schema(world, view, &column.column, text)
}

/// Marks a text as part of the schema, not of the author's text.
pub(super) fn of_schema(world: &World, view: &View, column: &str, text: String) -> String {
    let part = view.table.parts.first();
    let part = part.filter(|_| view.table.source == TraceSource::Table);
    world.trace.mark(Entry {
        stage: view.table.stage.clone(),
        coordinates: part.and_then(|_| view.table.cell(0)),
        output: view.table.output.clone(),
        artifact: part.map(|p| p.digest),
        ..Entry::new(
            TraceSource::Heading,
            column,
            Scalar::Text(text.clone()),
            text,
        )
    })
}

/// Describes the intervals of a table, in the words of its schema for their lower ends. What they have in common stands
/// once, after them.
pub(super) fn interval_notes<'a>(
    world: &World,
    view: &View,
    columns: impl Iterator<Item = &'a ColumnSettings>,
) -> Option<String> {
    let table = &view.table.parts.first()?.content;
    let mut described: Vec<(&ColumnSettings, Vec<String>)> = columns
        .filter_map(|column| {
            let description = table.description(&column.column)?;
            let (IntervalEnd::Lower, interval) = IntervalEnd::read(&description)? else {
                return None;
            };
            let what = interval.strip_prefix("the ").unwrap_or(interval);
            Some((column, what.split("; ").map(str::to_owned).collect()))
        })
        .collect();
    let (first, _) = *described.first()?;
    let mut common = Vec::new();
    while described.len() > 1 && described.iter().all(|(_, parts)| parts.len() > 1) {
        let last = described[0].1.last().cloned().unwrap_or_default();
        if described
            .iter()
            .any(|(_, parts)| parts.last() != Some(&last))
        {
            break;
        }
        described
            .iter_mut()
            .for_each(|(_, parts)| parts.truncate(parts.len() - 1));
        common.insert(0, last);
    }
    let notes = described.iter().map(|(column, parts)| {
        format!(
            "*{}*: {}",
            own_heading(world, view, column),
            of_schema(world, view, &column.column, parts.join("; "))
        )
    });
    let notes = notes.collect::<Vec<_>>().join("; ");
    Some(match common.is_empty() {
        true => format!("{notes}."),
        false => {
            let common = of_schema(world, view, &first.column, common.join("; "));
            format!("{notes}. *Each of these intervals*: {common}.")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn a_column_of_cells_keeps_the_labels_of_the_experiment() {
        let cells = "model=a,workload=long_decode|short_decode";
        assert_eq!(words(cells, None), cells);
        assert_eq!(words("ttft_ms_p50", Some("ms")), "TTFT p50");
    }
}
