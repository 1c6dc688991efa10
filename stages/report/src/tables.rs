//! Declared tables as Markdown: equal columns by construction, every number traced.

use artifacts::Scalar;
use minijinja::{Environment, Error};

use crate::data::View;
use crate::language::{World, declared, error_of, render_text};
use crate::settings::{ColumnSettings, TableSettings};
use crate::statement::checked;
use crate::trace::{Entry, Source, unmarked};

/// Returns the Markdown of a declared table with its caption, marks in it.
pub(crate) fn render(world: &World, environment: &Environment<'_>, name: &str) -> Result<String, Error> {
    let label = world.label(name).map_err(error_of)?;
    let found = world.parameters.tables.iter().find(|t| t.name == name);
    let settings = &found
        .ok_or_else(|| error_of(format!("`{name}` is a figure; show it with `figure(\"{name}\")`").into()))?
        .settings;
    let mut view = world.data.view(&settings.from, &declared(&settings.only)).map_err(error_of)?;
    view.sort(&settings.order).map_err(error_of)?;
    let caption = render_text(world, environment, &format!("caption of table {name}"), &settings.caption)?;
    let heading = format!("**{label}.** {caption}");
    if view.rows.is_empty() {
        let nothing = settings.empty.as_deref().unwrap_or("No row.");
        return Ok(format!("{heading}\n\n{nothing}"));
    }
    Ok(format!("{heading}\n\n{}", grid(world, environment, settings, &view)?))
}

/// The most columns and rows of a table that nobody chose.
const WHOLE: (usize, usize) = (9, 48);

/// Returns the first columns and rows of a table as they are: for reports that declare none.
pub(crate) fn whole(world: &World, environment: &Environment<'_>, name: &str) -> Result<String, Error> {
    let mut view = world.data.view(name, &Vec::new()).map_err(error_of)?;
    let rows = view.rows.len();
    if rows == 0 {
        return Ok("No row.".to_owned());
    }
    let is_empty = |column: &str| (0..rows).all(|i| matches!(view.get(i, column), Ok(Scalar::Null)));
    let columns: Vec<String> = view.columns().into_iter().filter(|c| !is_empty(c)).collect();
    let settings = TableSettings {
        from: name.to_owned(),
        columns: columns
            .iter()
            .take(WHOLE.0)
            .map(|column| ColumnSettings {
                column: column.clone(),
                heading: None,
                format: String::new(),
                null: crate::settings::not_available(),
                to: None,
            })
            .collect(),
        only: std::collections::BTreeMap::new(),
        order: Vec::new(),
        caption: String::new(),
        empty: None,
    };
    view.rows.truncate(WHOLE.1);
    let grid = grid(world, environment, &settings, &view)?;
    let more = columns.len() > WHOLE.0 || rows > WHOLE.1;
    let note =
        if more { format!("\n\nMore columns or rows: `benchtrail show {name}`.") } else { String::new() };
    Ok(format!("{grid}{note}"))
}

fn grid(
    world: &World,
    environment: &Environment<'_>,
    settings: &TableSettings,
    view: &View,
) -> Result<String, Error> {
    let mut lines: Vec<Vec<String>> = vec![Vec::new()];
    let mut numeric = Vec::new();
    for column in &settings.columns {
        view.require(&column.column).map_err(error_of)?;
        let values = (0..view.rows.len()).map(|i| view.get(i, &column.column));
        let values: Vec<_> = values.collect::<Result<_, _>>().map_err(error_of)?;
        numeric.push(values.iter().any(|v| v.as_f64().is_some()));
        let text = match &column.heading {
            Some(heading) => {
                render_text(world, environment, &format!("heading `{}`", column.column), heading)?
            }
            None => own_heading(world, view, column),
        };
        lines[0].push(escape(&text));
    }
    for index in 0..view.rows.len() {
        let mut cells = Vec::new();
        for column in &settings.columns {
            let (format, null) = (&column.format, &column.null);
            let text = match &column.to {
                Some(to) => world.interval(view, index, [&column.column, to], format, null),
                None => world.show(view, index, &column.column, format, null),
            };
            cells.push(escape(&text.map_err(error_of)?));
        }
        lines.push(cells);
    }
    let widths: Vec<usize> = (0..settings.columns.len())
        .map(|c| lines.iter().map(|l| width(&l[c])).max().unwrap_or(0).max(3))
        .collect();
    let mut out = String::new();
    for (number, line) in lines.iter().enumerate() {
        for ((cell, width_wanted), right) in line.iter().zip(&widths).zip(&numeric) {
            let space = " ".repeat(width_wanted - width(cell));
            out.push_str(&if *right { format!("| {space}{cell} ") } else { format!("| {cell}{space} ") });
        }
        out.push_str("|\n");
        if number == 0 {
            for (width, right) in widths.iter().zip(&numeric) {
                let dashes = "-".repeat(*width);
                out.push_str(&if *right { format!("| {}: ", &dashes[1..]) } else { format!("| {dashes} ") });
            }
            out.push_str("|\n");
        }
    }
    out.pop();
    Ok(out)
}

/// A heading made of the column's own name and unit, traced to the table's schema.
fn own_heading(world: &World, view: &View, column: &ColumnSettings) -> String {
    let words = column.column.replace('_', " ");
    let text = match view.unit(&column.column).as_deref() {
        None | Some("1") => words,
        Some(_) if column.format.ends_with('u') || column.format.ends_with('%') => words,
        Some(unit) => format!("{words} ({unit})"),
    };
    // A column may be called `monotone` or `p50`: its name is the table's, not the writer's.
    if !text.chars().any(char::is_numeric) && checked(&text).is_empty() {
        return text;
    }
    let artifact = view.parts.first().filter(|_| view.source == Source::Table).map(|p| p.digest);
    world.trace.mark(Entry {
        stage: view.stage.clone(),
        output: view.output.clone(),
        artifact,
        row_key: "heading".to_owned(),
        ..Entry::new(Source::Table, column.column.clone(), Scalar::Text(text.clone()), text)
    })
}

fn escape(text: &str) -> String {
    text.replace('|', "\\|")
}

fn width(marked: &str) -> usize {
    unmarked(marked).chars().count()
}
