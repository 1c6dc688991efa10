//! Declared tables as Markdown: equal numbers of columns by construction, and every number traced.

mod choice;
mod grid;
mod headings;

use artifacts::Scalar;
use minijinja::{Environment, Error};
use pipeline::place::Condition;

pub(crate) use self::grid::{Grid, cell, escape};
pub(crate) use self::headings::{Heads, named};

use self::choice::{WHOLE, choose, telling, upper_end};
use self::grid::grid;
use self::headings::{interval_notes, own_heading, side};
use crate::footnotes;
use crate::language::{World, declared, missed, render_text};
use crate::settings::{ColumnSettings, TableSettings};
use crate::view::View;

/// Returns the Markdown of a declared table with its caption, including marks.
pub(crate) fn render(
    world: &World,
    environment: &Environment<'_>,
    name: &str,
) -> Result<String, Error> {
    let label = world.label(name).map_err(missed)?;
    let table = world.parameters.tables.iter().find(|t| t.name == name);
    let settings = &table
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
    let names: Vec<String> = view
        .table
        .columns
        .iter()
        .filter(|c| !is_empty(c))
        .cloned()
        .collect();
    let is_open = |i: usize| {
        view.value(i, "arrivals")
            .is_some_and(|a| a.to_string() == "open")
    };
    // Sides that are the same in all rows are shown in the headings, and leave their place to other columns.
    let in_headings = ["mean_a", "mean_b"]
        .iter()
        .all(|c| names.iter().any(|name| name == c) && side(&view, c).is_some());
    let columns: Vec<String> = names
        .iter()
        .filter(|c| !in_headings || *c != "a" && *c != "b")
        .cloned()
        .collect();
    let telling = telling((0..rows).any(is_open));
    let columns = choose(&columns, &view.keys, &telling);
    let empty = empty_notes(world, &view, &telling)?;
    view.rows.truncate(WHOLE.1);
    let lacks = footnotes::of(world, name, &view, &Condition::default()).map_err(missed)?;
    let mut settings = plain(name, columns.iter(), &crate::settings::not_available());
    for column in &mut settings.columns {
        let is_float = (0..view.rows.len())
            .any(|i| matches!(view.get(i, &column.column), Ok(Scalar::Float(_))));
        if column.format.is_empty() && is_float && !view.keys.contains(&column.column) {
            column.format = ",".to_owned();
        }
        column.to = upper_end(&column.column).filter(|high| names.contains(high));
    }
    let mut parts = vec![grid(world, environment, &settings, &view, &lacks.markers)?];
    let intervals = settings.columns.iter().filter(|c| c.to.is_some());
    parts.extend(interval_notes(world, &view, intervals));
    parts.extend(empty);
    let shown = columns.len() + settings.columns.iter().filter(|c| c.to.is_some()).count();
    if shown < names.len() || rows > WHOLE.1 {
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

/// Returns the notes under a table about the columns that a reader would look for and that have no value in any row,
/// each with the reason if the table has one, or with the column of the reasons if they differ.
fn empty_notes(world: &World, view: &View, telling: &[String]) -> Result<Vec<String>, Error> {
    let value = |row: usize, column: &str| view.value(row, column).unwrap_or(Scalar::Null);
    let first = |column: &str| (0..view.rows.len()).find(|i| value(*i, column) != Scalar::Null);
    let names = &view.table.columns;
    // An aggregate has no reasons: those are in the table from which it was made.
    let is_mean = |name: &str| name.ends_with("_mean") && names.iter().any(|c| c == "interval_of");
    // Columns with the same reason share a note. The numbers of a reason have places, so its text differs from column to column.
    let mut notes: Vec<((String, Scalar), String, Vec<String>)> = Vec::new();
    for name in names.iter().filter(|name| first(name).is_none()) {
        let stem = ["_mean", "_low"]
            .iter()
            .find_map(|end| name.strip_suffix(end));
        let own = [Some(name.as_str()), stem];
        let mut whys: Vec<String> = own.iter().flatten().map(|c| format!("{c}_why")).collect();
        let is_quantile = ["_p50", "_p90", "_p95", "_p99"]
            .iter()
            .any(|end| name.ends_with(end));
        if is_quantile && telling.contains(name) {
            whys.push("quantiles_refused".to_owned());
        }
        let why = whys.iter().find_map(|why| Some((first(why)?, why)));
        let column = plain("", std::iter::once(name), "").columns;
        let heading = own_heading(world, view, &column[0]);
        let reason = match why {
            None if is_mean(name) => (String::new(), Scalar::Null),
            None => continue,
            Some((row, why)) => {
                let reason = value(row, why);
                let differs = |other: &Scalar| *other != Scalar::Null && *other != reason;
                match (0..view.rows.len()).any(|i| differs(&value(i, why))) {
                    true => (why.clone(), Scalar::Null),
                    false => (String::new(), reason),
                }
            }
        };
        if let Some((_, _, headings)) = notes.iter_mut().find(|(other, ..)| *other == reason) {
            headings.push(heading);
            continue;
        }
        let end = match (why, &reason) {
            (Some((row, why)), (_, Scalar::Text(_))) => {
                let shown = world.show(view, row, why, "", "").map_err(missed)?;
                format!(": {shown}")
            }
            (Some((_, why)), _) => format!("; the column `{why}` has the reasons"),
            (None, _) => String::new(),
        };
        notes.push((reason, end, vec![heading]));
    }
    let note = |(_, end, headings): (_, String, Vec<String>)| {
        format!("No row has a value of *{}*{end}.", headings.join("*, *"))
    };
    Ok(notes.into_iter().map(note).collect())
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
