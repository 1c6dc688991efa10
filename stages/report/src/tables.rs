//! Declared tables as Markdown: equal numbers of columns by construction, and every number traced.

use artifacts::{Ratio, Scalar};
use contract::IntervalEnd;
use minijinja::{Environment, Error};
use pipeline::place::Condition;

use crate::check::has_numeral;
use crate::footnotes;
use crate::format::clean;
use crate::guard::guarded;
use crate::language::{World, declared, missed, render_text};
use crate::pivot::Pivoted;
use crate::ratios::names_both;
use crate::settings::{ColumnSettings, TableSettings};
use crate::statement::checked;
use crate::trace::{Entry, TraceSource, unmarked};
use crate::view::View;

/// Returns the Markdown of a declared table with its caption, including marks.
pub(crate) fn render(
    world: &World,
    environment: &Environment<'_>,
    name: &str,
) -> Result<String, Error> {
    let label = world.label(name).map_err(missed)?;
    let found = world.parameters.tables.iter().find(|t| t.name == name);
    let settings = &found
        .ok_or_else(|| {
            missed(format!("`{name}` is a figure; show it with `figure(\"{name}\")`").into())
        })?
        .settings;
    let only = declared(&settings.only);
    let mut view = world.data.view(&settings.from, &only).map_err(missed)?;
    view.sort(&settings.order).map_err(missed)?;
    let caption = render_text(
        world,
        environment,
        &format!("caption of table {name}"),
        &settings.caption,
    )?;
    let lacks = footnotes::of(world, &settings.from, &view, &only).map_err(missed)?;
    let mut notes = lacks.of_table();
    let family = family_note(world, &view)?;
    let body = match (view.rows.is_empty(), &settings.no_footnotes) {
        (true, _) => settings
            .empty
            .clone()
            .unwrap_or_else(|| "No row.".to_owned()),
        (false, None) => grid(world, environment, settings, &view, &lacks.markers)?,
        (false, Some(_)) => grid(world, environment, settings, &view, &[])?,
    };
    if let Some(reason) = &settings.no_footnotes {
        notes = footnotes::left_out(world, environment, name, reason, &notes)?;
    }
    let head = vec![format!("**{label}.** {caption}"), body];
    let family = family.into_iter().collect();
    Ok([head, family, notes].concat().join("\n\n"))
}

/// The maximum number of columns and rows of a table whose columns are not declared.
const WHOLE: (usize, usize) = (12, 48);

/// The minimum number of telling columns that show what a table is about.
const TOLD: usize = 2;

/// The columns that a reader looks for first in a table too wide to show whole: of comparisons, then of cells. They
/// follow the columns that distinguish its rows.
const TELLING: &[&str] = &[
    "unit",
    "a",
    "b",
    "n",
    "n_a",
    "n_b",
    "mean_a",
    "mean_b",
    "effect",
    "adjusted_low",
    "verdict",
    "verdict_reason",
    "value",
    "std_error",
    "df",
    "r2",
    "n_ok",
    "output_throughput",
    "request_throughput",
    "ttft_ms_p50",
    "ttft_ms_p99",
    "tpot_ms_p50",
    "e2e_latency_ms_p50",
    "e2e_latency_ms_p99",
];

/// Latencies from the time of sending, which exclude the wait for it under open arrivals.
const FROM_SENDING: [(&str, &str); 2] = [
    ("ttft_ms", "ttft_scheduled_ms"),
    ("e2e_latency_ms", "e2e_scheduled_ms"),
];

/// Returns the telling columns; under open arrivals, latencies from the schedule come first.
fn telling(open: bool) -> Vec<String> {
    let named = |column: &&str| {
        let scheduled = FROM_SENDING.iter().find_map(|(sent, scheduled)| {
            let statistic = column.strip_prefix(sent)?;
            Some(format!("{scheduled}{statistic}"))
        });
        let scheduled = scheduled.filter(|_| open);
        scheduled.into_iter().chain([(*column).to_owned()])
    };
    TELLING.iter().flat_map(named).collect()
}

/// Returns the column of the upper end of an interval, given that of the lower end.
fn upper_end(column: &str) -> Option<String> {
    let stem = column
        .strip_suffix("_low")
        .map(|stem| format!("{stem}_high"));
    stem.or_else(|| (column == "ci_low").then(|| "ci_high".to_owned()))
}

/// Returns the columns of a table that declares none: all of them if they are few, otherwise those that distinguish its
/// rows, followed by the most telling ones.
fn choose(known: &[String], keys: &[String], telling: &[String]) -> Vec<String> {
    let ends_interval = |c: &String| known.iter().any(|low| upper_end(low).as_ref() == Some(c));
    let mut shown: Vec<String> = known
        .iter()
        .filter(|c| !ends_interval(c))
        .cloned()
        .collect();
    if shown.len() > WHOLE.0 {
        // An aggregate has a mean for each of its source columns, with an interval if there are units.
        let aggregate = known.iter().any(|c| c == "interval_of");
        let of_means = |c: &&String| {
            let stem = c
                .strip_suffix("_mean")
                .or_else(|| c.strip_suffix("_ci_low"));
            stem.is_some_and(|stem| {
                let has = |end: &str| known.contains(&format!("{stem}_{end}"));
                has("ci_low") || aggregate && has("n")
            })
        };
        // Deltas and changes have both sides of each column, and the difference between them.
        let of_sides = |c: &&String| {
            let beside = |ends: &[&str], sign: &str| {
                let mut stems = ends.iter().filter_map(|end| c.strip_suffix(end));
                stems.any(|stem| known.contains(&format!("{stem}{sign}")))
            };
            beside(&["_a", "_b", "_ratio"], "_delta")
                || beside(&["_before", "_after", "_change_percent"], "_change")
        };
        let named = telling
            .iter()
            .filter_map(|name| shown.iter().find(|c| *c == name));
        let rest = shown.iter().filter(|c| !telling.contains(c));
        let telling: Vec<String> = named
            .chain(rest.filter(|c| of_means(c) || of_sides(c)))
            .cloned()
            .collect();
        // A table of another kind may have one of these columns by chance, such as the column that a ranking ranks by.
        let told = telling
            .iter()
            .filter(|c| !["n", "units"].contains(&c.as_str()));
        if told.count() >= TOLD {
            let is_key = |c: &&String| keys.contains(c) && !telling.contains(c);
            shown = [shown.iter().filter(is_key).cloned().collect(), telling].concat();
        }
        shown.truncate(WHOLE.0);
    }
    shown
}

/// Returns the most telling columns and the first rows of a table, for reports that declare none.
pub(crate) fn whole(
    world: &World,
    environment: &Environment<'_>,
    name: &str,
) -> Result<String, Error> {
    let mut view = world
        .data
        .view(name, &Condition::default())
        .map_err(missed)?;
    let rows = view.rows.len();
    if rows == 0 {
        return Ok("No row.".to_owned());
    }
    let is_empty =
        |column: &str| (0..rows).all(|i| matches!(view.get(i, column), Ok(Scalar::Null)));
    let known: Vec<String> = view
        .table
        .columns
        .iter()
        .filter(|c| !is_empty(c))
        .cloned()
        .collect();
    let is_open = |i: usize| {
        view.get(i, "arrivals")
            .is_ok_and(|a| a.to_string() == "open")
    };
    let mut columns = choose(&known, &view.keys, &telling((0..rows).any(is_open)));
    // Sides that are the same in all rows are shown in the headings.
    if ["mean_a", "mean_b"]
        .iter()
        .all(|c| columns.iter().any(|s| s == c) && side(&view, c).is_some())
    {
        columns.retain(|c| c != "a" && c != "b");
    }
    view.rows.truncate(WHOLE.1);
    let lacks = footnotes::of(world, name, &view, &Condition::default()).map_err(missed)?;
    let mut settings = plain(name, columns.iter(), &crate::settings::not_available());
    for column in &mut settings.columns {
        let is_float = (0..view.rows.len())
            .any(|i| matches!(view.get(i, &column.column), Ok(Scalar::Float(_))));
        if column.format.is_empty() && is_float && !view.keys.contains(&column.column) {
            column.format = ",".to_owned();
        }
        column.to = upper_end(&column.column).filter(|high| known.contains(high));
    }
    let mut parts = vec![grid(world, environment, &settings, &view, &lacks.markers)?];
    let intervals = settings.columns.iter().filter(|c| c.to.is_some());
    let intervals: Vec<String> = intervals
        .filter_map(|c| interval_note(world, &view, c))
        .collect();
    if !intervals.is_empty() {
        parts.push(format!("{}.", intervals.join("; ")));
    }
    let shown = columns.len() + settings.columns.iter().filter(|c| c.to.is_some()).count();
    if shown < known.len() || rows > WHOLE.1 {
        let experiment = world.spec("name", "").map_err(missed)?;
        // Without its profile, the command would look for a different study.
        let study = world.data.study().map_err(missed)?;
        let profile = match study.spec.get("profile") {
            Some(profile) if profile.is_string() => {
                format!(" --profile {}", world.spec("profile", "").map_err(missed)?)
            }
            _ => String::new(),
        };
        parts.push(format!(
            "More columns or rows: `benchtrail show {experiment}.yaml {name}{profile}`."
        ));
    }
    parts.extend(family_note(world, &view)?);
    parts.extend(lacks.of_table());
    Ok(parts.join("\n\n"))
}

/// Returns the note under a table of verdicts: the families in which its tests were adjusted, and the number of units
/// of replication behind each.
fn family_note(world: &World, view: &View) -> Result<Option<String>, Error> {
    let has = |columns: &[&str]| {
        let columns: Vec<String> = columns.iter().map(|c| (*c).to_owned()).collect();
        view.table.has(&columns)
    };
    if !has(&["verdict", "family", "unit_of_replication"]) {
        return Ok(None);
    }
    let distinct = |column: &str| -> Result<Vec<String>, Error> {
        let (mut seen, mut texts) = (Vec::new(), Vec::new());
        for row in 0..view.rows.len() {
            let value = view.get(row, column).map_err(missed)?;
            if value != Scalar::Null && !seen.contains(&value) {
                texts.push(world.show(view, row, column, "", "").map_err(missed)?);
                seen.push(value);
            }
        }
        Ok(texts)
    };
    let families = distinct("family")?;
    let units = distinct("unit_of_replication")?;
    if units.is_empty() {
        return Ok(Some(
            "Not tested: there are no units of replication.".to_owned(),
        ));
    }
    let tests = match families.is_empty() {
        true => "Not tested: no row allows a test.".to_owned(),
        false => format!("Family of tests (Holm): {}.", families.join("; ")),
    };
    let mut parts = vec![tests, format!("Unit of replication: {}.", units.join("; "))];
    for column in ["n", "n_a", "n_b"] {
        if has(&[column]) {
            parts.push(format!("{column} = {}.", distinct(column)?.join(", ")));
        }
    }
    Ok(Some(parts.join(" ")))
}

/// Returns a derived table with a column per group of agreeing cells (`facets-STAGE`, `setup-STAGE`), limited to the
/// rows in certain states if any are given.
pub(crate) fn side_by_side(
    world: &World,
    environment: &Environment<'_>,
    name: &str,
    states: &[&str],
) -> Result<String, Error> {
    let mut view = world
        .data
        .view(name, &Condition::default())
        .map_err(missed)?;
    let has_states = view.table.has(&["state".to_owned()]);
    if !states.is_empty() {
        let text = |state: &&str| Scalar::Text((*state).to_owned());
        let only = Condition(vec![(
            "state".to_owned(),
            states.iter().map(text).collect(),
        )]);
        if has_states {
            view = world.data.view(name, &only).map_err(missed)?;
        } else {
            view.rows.clear();
        }
    }
    if view.rows.is_empty() {
        return Ok(if states.is_empty() {
            "Nothing is recorded."
        } else {
            ""
        }
        .to_owned());
    }
    let settings = plain(name, view.table.columns.iter(), "absent");
    grid(world, environment, &settings, &view, &[])
}

/// Describes an interval, in the words of the table's schema for its lower end.
fn interval_note(world: &World, view: &View, column: &ColumnSettings) -> Option<String> {
    let description = view
        .table
        .parts
        .first()?
        .content
        .description(&column.column)?;
    let (IntervalEnd::Lower, interval) = IntervalEnd::read(&description)? else {
        return None;
    };
    let what = interval.strip_prefix("the ").unwrap_or(interval).to_owned();
    Some(format!(
        "*{}*: {}",
        own_heading(world, view, column),
        of_schema(world, view, &column.column, what)
    ))
}

/// The settings of an undeclared table: columns without formatting.
fn plain<'a>(name: &str, columns: impl Iterator<Item = &'a String>, null: &str) -> TableSettings {
    let column = |column: &String| ColumnSettings {
        column: column.clone(),
        heading: None,
        format: if column == "p" || column.ends_with("_p") {
            "p"
        } else {
            ""
        }
        .to_owned(),
        null: null.to_owned(),
        to: None,
    };
    TableSettings {
        from: name.to_owned(),
        columns: columns.map(column).collect(),
        pivot: None,
        only: std::collections::BTreeMap::new(),
        order: Vec::new(),
        caption: String::new(),
        empty: None,
        no_footnotes: None,
    }
}

/// Writes rows as a table, with `markers` after the first cell of each. Below it, names the sides of ratio columns
/// whose heading does not.
fn grid(
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

/// The headings of columns, which of them hold numbers, and the sides of ratios.
#[derive(Default)]
pub(crate) struct Heads {
    pub(crate) texts: Vec<String>,
    pub(crate) numeric: Vec<bool>,
    ratios: Vec<(Ratio, String)>,
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
        if let Some(ratio) = view.table.ratio(&column.column)
            && !names_both(&unmarked(&text), &ratio)
        {
            match self.ratios.iter_mut().find(|(known, _)| *known == ratio) {
                Some((_, note)) => *note = format!("*{text}*, {note}"),
                None => {
                    let sides =
                        crate::ratios::sides(world, view, &column.column).map_err(missed)?;
                    self.ratios.push((ratio, format!("*{text}*: {sides}")));
                }
            }
        }
        self.numeric
            .push(values.iter().any(|v| v.as_f64().is_some()));
        self.texts.push(text);
        Ok(())
    }
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

/// The side whose mean a column of a comparison holds, if all shown rows have the same.
fn side(view: &View, column: &str) -> Option<String> {
    let name = column
        .strip_prefix("mean_")
        .filter(|name| ["a", "b"].contains(name))?;
    let mut sides = (0..view.rows.len()).map(|row| view.get(row, name).ok().map(|v| v.to_string()));
    let first = sides.next()??;
    sides
        .all(|side| side.as_ref() == Some(&first))
        .then_some(first)
}

/// Writes the name of a column in the usual abbreviations, without a unit at its end.
fn words(column: &str, unit: Option<&str>) -> String {
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
fn own_heading(world: &World, view: &View, column: &ColumnSettings) -> String {
    let unit = view.table.unit(&column.column);
    let stem = column.column.strip_suffix("ci_low");
    let words = match (
        &column.to,
        stem.or_else(|| column.column.strip_suffix("low")),
    ) {
        (Some(_), Some(stem)) => words(&format!("{stem}interval"), unit.as_deref()),
        _ => side(view, &column.column).unwrap_or_else(|| words(&column.column, unit.as_deref())),
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
fn of_schema(world: &World, view: &View, column: &str, text: String) -> String {
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

pub(crate) fn escape(text: &str) -> String {
    text.replace('|', "\\|")
}

fn width(marked: &str) -> usize {
    unmarked(marked).chars().count()
}

#[cfg(test)]
mod tests;
