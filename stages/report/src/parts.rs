//! The parts that make up a report: declared tables and figures, their numbers, whole tables, and the facets of
//! environments side by side.

use std::collections::BTreeMap;
use std::sync::Arc;

use artifacts::Scalar;
use minijinja::value::Value;
use minijinja::{Environment, Error, State};
use pipeline::place::Condition;
use pipeline::stage::Json;

use crate::data::Miss;
use crate::language::{Shown, World, declared, missed, render_text, shown, wrong};
use crate::settings::Parameters;
use crate::statement::Rule;
use crate::trace::{Entry, TraceSource};
use crate::{footnotes, ratios, tables};

/// Returns the word and number of each shown table and figure: `Table 3` or `Figure 3`.
pub(crate) fn labels(
    parameters: &Parameters,
    in_order: &[String],
) -> BTreeMap<String, (&'static str, i64)> {
    let words: BTreeMap<&str, &'static str> =
        (parameters.tables.iter().map(|t| (t.name.as_str(), "Table")))
            .chain(
                parameters
                    .figures
                    .iter()
                    .map(|f| (f.name.as_str(), "Figure")),
            )
            .collect();
    let mut last: BTreeMap<&str, i64> = BTreeMap::new();
    let mut numbered = BTreeMap::new();
    for name in in_order {
        if let Some(word) = words.get(name.as_str()) {
            let number = last.entry(word).or_default();
            *number += 1;
            numbered.insert(name.clone(), (*word, *number));
        }
    }
    numbered
}

impl World {
    /// Returns `Table 3` or `Figure 3` for a declared name, marked as the report's own number.
    pub(crate) fn label(&self, name: &str) -> Result<String, Miss> {
        let Some((word, number)) = self.labels.get(name) else {
            let Parameters {
                tables, figures, ..
            } = &*self.parameters;
            let names = tables
                .iter()
                .map(|t| t.name.as_str())
                .chain(figures.iter().map(|f| f.name.as_str()));
            let names: Vec<_> = names.collect();
            return Err(Miss::from(if names.contains(&name) {
                format!("`{name}` is referred to but never shown; show it with `table` or `figure`")
            } else if names.is_empty() {
                format!(
                    "no table or figure `{name}` is declared; the report stage declares none: {}",
                    self.declaration(name)
                )
            } else {
                format!(
                    "no table or figure `{name}` is declared; there are {}. {}",
                    names.join(", "),
                    self.declaration(name)
                )
            }));
        };
        let entry = Entry::new(
            TraceSource::Structure,
            name,
            Scalar::Int(*number),
            number.to_string(),
        );
        Ok(format!("{word} {}", self.trace.mark(entry)))
    }

    /// Returns how to declare what a template shows.
    fn declaration(&self, name: &str) -> String {
        match name.rsplit_once('.') {
            Some((_, own)) if self.data.has(name) => format!(
                "write `{{{{ whole_table(\"{name}\") }}}}`, or declare it there: `tables: {{{own}: {{from: {name}, caption: TEXT, \
                 columns: [{{column: NAME}}]}}}}`"
            ),
            _ => "declare it there, under `tables:` or `figures:`".to_owned(),
        }
    }

    /// Returns a declared figure: picture, caption, footnotes.
    fn figure(&self, environment: &Environment<'_>, name: &str) -> Result<String, Error> {
        let label = self.label(name).map_err(missed)?;
        let figures = &self.parameters.figures;
        let at = figures.iter().position(|f| f.name == name);
        let at = at.ok_or_else(|| {
            wrong(&format!(
                "`{name}` is a table; show it with `table(\"{name}\")`"
            ))
        })?;
        self.figures
            .lock()
            .expect("no holder of this lock panics")
            .insert(at);
        let settings = &figures[at].settings;
        let title = render_text(
            self,
            environment,
            &format!("title of figure {name}"),
            &settings.title,
        )?;
        let caption = render_text(
            self,
            environment,
            &format!("caption of figure {name}"),
            &settings.caption,
        )?;
        let shown = |text: &str| format!("![{title}](figures/{name}.svg)\n\n**{label}.** {text}");
        // A caption that only repeats the title is dropped.
        let words = if settings.caption == settings.title {
            format!("{title}.")
        } else {
            format!("{title}. {caption}")
        };
        let closed = match words.ends_with(['.', '!', '?', ':', ')']) {
            true => words.clone(),
            false => format!("{words}."),
        };
        if let Some(reason) = self.data.unsampled(&settings.table) {
            return Ok(shown(&format!("{closed} *No data: {reason}.*")));
        }
        let only = declared(&settings.only);
        let view = self.data.view(&settings.table, &only).map_err(missed)?;
        if let Some(reason) = crate::figure::without_values(&view, settings) {
            return Ok(shown(&format!("{closed} *No data: {reason}.*")));
        }
        let lacks = footnotes::of(self, &settings.table, &view, &only).map_err(missed)?;
        let marks =
            crate::figure::marks_of(&view, settings, &lacks).map_err(|e| missed(e.into()))?;
        let notes = lacks.of_figure();
        let notes = match &settings.no_footnotes {
            Some(reason) => footnotes::left_out(self, environment, name, reason, &notes)?,
            None => notes,
        };
        let notes: String = notes.iter().map(|note| format!("\n\n{note}")).collect();
        let words = if marks.is_empty() { words } else { closed };
        Ok(shown(&format!("{words}{marks}{notes}")))
    }
}

/// Returns the tables that the rules of claims refer to, in the order of the claims.
fn claimed(world: &World) -> Vec<String> {
    fn add(rule: &Rule, tables: &mut Vec<String>) {
        if let Rule::AllOf(rules) | Rule::AnyOf(rules) = rule {
            rules.iter().for_each(|rule| add(rule, tables));
        } else if let Some((table, _)) = rule.place() {
            tables.push(table.to_owned());
        }
    }
    let mut tables = Vec::new();
    for claim in &world.parameters.claims {
        add(&claim.settings.rule, &mut tables);
        let narrower = &claim.settings.narrower;
        narrower.iter().for_each(|n| add(&n.rule, &mut tables));
    }
    tables
}

/// Whether a table compares an A/A arm.
fn of_control(world: &World, name: &str) -> bool {
    let Ok(study) = world.data.study() else {
        return false;
    };
    let arm = study.spec.pointer("/design/control/as");
    let Some(arm) = arm.and_then(Json::as_str) else {
        return false;
    };
    let view = world.data.view(name, &Condition::default());
    view.is_ok_and(|view| {
        !view.rows.is_empty()
            && ["a", "b"].iter().any(|side| {
                view.value(0, side)
                    .is_some_and(|label| label.to_string() == arm)
            })
    })
}

/// Adds the functions that return parts of a report.
pub(crate) fn install(environment: &mut Environment<'static>, world: &Arc<World>) {
    let w = world.clone();
    environment.add_function("declared", move |section: &str| {
        let parameters = &w.parameters;
        let names: Vec<String> = match section {
            "tables" => parameters.tables.iter().map(|t| t.name.clone()).collect(),
            "figures" => parameters.figures.iter().map(|f| f.name.clone()).collect(),
            other => {
                let message = format!("`declared` lists `tables` or `figures`, not `{other}`");
                return Err(wrong(&message));
            }
        };
        Ok(names)
    });
    let w = world.clone();
    environment.add_function("stages", move |kind: &str| {
        let stages = w.data.stages().iter().filter(|s| s.kind == kind);
        stages.map(|s| s.stage.clone()).collect::<Vec<_>>()
    });
    let w = world.clone();
    environment.add_function(
        "outputs",
        move |stage: &str, columns: Option<Vec<String>>| {
            outputs(&w, stage, &columns.unwrap_or_default())
        },
    );
    let w = world.clone();
    environment.add_function("sides", move |table: &str, column: &str| {
        shown(ratios::sides(
            &w,
            &w.data.view(table, &Condition::default()).map_err(missed)?,
            column,
        ))
    });
    let w = world.clone();
    environment.add_function("ref", move |name: &str| shown(w.label(name)));
    let w = world.clone();
    environment.add_function("title", move |state: &State| {
        title(&w, state.env()).map(|text| Value::from_object(Shown(text)))
    });
    add_part(environment, world, "table", tables::render);
    add_part(environment, world, "figure", |w, environment, name| {
        w.figure(environment, name)
    });
    add_part(environment, world, "whole_table", tables::whole);
    add_part(environment, world, "facets", |w, environment, stage| {
        let name = format!("{}{stage}", crate::environment::FACETS);
        tables::side_by_side(w, environment, &name, &[])
    });
    add_part(environment, world, "setup", |w, environment, stage| {
        let name = format!("{}{stage}", crate::setup::SETUP);
        tables::side_by_side(w, environment, &name, &[])
    });
    add_part(
        environment,
        world,
        "differences",
        |w, environment, stage| {
            let name = format!("{}{stage}", crate::environment::FACETS);
            let states = ["planned", "confound", "unmatched"];
            tables::side_by_side(w, environment, &name, &states)
        },
    );
}

/// Adds a function that takes the name of a part, and returns its Markdown.
fn add_part(
    environment: &mut Environment<'static>,
    world: &Arc<World>,
    function: &'static str,
    part: fn(&World, &Environment<'_>, &str) -> Result<String, Error>,
) {
    let world = world.clone();
    environment.add_function(function, move |state: &State, name: &str| {
        part(&world, state.env(), name).map(|text| Value::from_object(Shown(text)))
    });
}

/// Returns the tables of a stage, without those that lack one of `columns`, in the order for a reader.
///
/// The tables behind claims are the subject of the study; an A/A arm shows how far to trust it. Among tables of a kind,
/// the one with the fewest rows covers the whole study, the others its parts.
fn outputs(world: &World, stage: &str, columns: &[String]) -> Result<Vec<String>, Error> {
    let view = |name: &str| world.data.view(name, &Condition::default());
    let mut names = Vec::new();
    for name in world.data.tables_of(stage) {
        if columns.is_empty() || view(&name).map_err(missed)?.table.has(columns) {
            names.push(name);
        }
    }
    let claimed = claimed(world);
    let last = claimed.len();
    let rows = |name: &str| match view(name) {
        Ok(view) if !columns.is_empty() => view.rows.len(),
        _ => 0,
    };
    names.sort_by_cached_key(|name| {
        let place = claimed.iter().position(|table| table == name);
        (place.unwrap_or(last), of_control(world, name), rows(name))
    });
    Ok(names)
}

/// Returns the title of the report: its own, or the study's title or name.
fn title(world: &World, environment: &Environment<'_>) -> Result<String, Error> {
    if let Some(title) = &world.parameters.title {
        return render_text(world, environment, "title", title);
    }
    let study = world.data.study().map_err(missed)?;
    let key = match study.spec["title"].is_string() {
        true => "title",
        false => "name",
    };
    world.spec(key, "").map_err(missed)
}
