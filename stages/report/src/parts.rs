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
    let mut found = BTreeMap::new();
    for name in in_order {
        if let Some(word) = words.get(name.as_str()) {
            let number = last.entry(word).or_default();
            *number += 1;
            found.insert(name.clone(), (*word, *number));
        }
    }
    found
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
                format!("no table or figure `{name}` is declared; the report stage declares none")
            } else {
                format!(
                    "no table or figure `{name}` is declared; there are {}",
                    names.join(", ")
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
        if let Some(reason) = self.data.unsampled(&settings.table) {
            return Ok(shown(&format!("{words} *No data: {reason}.*")));
        }
        let only = declared(&settings.only);
        let view = self.data.view(&settings.table, &only).map_err(missed)?;
        if let Some(reason) = crate::figure::without_values(&view, settings) {
            return Ok(shown(&format!("{words} *No data: {reason}.*")));
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
                view.get(0, side)
                    .is_ok_and(|label| label.to_string() == arm)
            })
    })
}

/// Adds the functions that return parts of a report.
pub(crate) fn install(environment: &mut Environment<'static>, world: &Arc<World>) {
    let w = world.clone();
    environment.add_function("declared", move |section: &str| match section {
        "tables" => Ok(w
            .parameters
            .tables
            .iter()
            .map(|t| t.name.clone())
            .collect::<Vec<_>>()),
        "figures" => Ok(w
            .parameters
            .figures
            .iter()
            .map(|f| f.name.clone())
            .collect()),
        other => Err(wrong(&format!(
            "`declared` lists `tables` or `figures`, not `{other}`"
        ))),
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
            let columns = columns.unwrap_or_default();
            let mut names = Vec::new();
            for name in w.data.tables_of(stage) {
                if columns.is_empty()
                    || w.data
                        .view(&name, &Condition::default())
                        .map_err(missed)?
                        .table
                        .has(&columns)
                {
                    names.push(name);
                }
            }
            // The tables behind claims are the subject of the study; an A/A arm shows how far to trust it. Among tables
            // of a kind, the one with the fewest rows covers the whole study, the others its parts.
            let claimed = claimed(&w);
            let last = claimed.len();
            let rows = |name: &str| match w.data.view(name, &Condition::default()) {
                Ok(view) if !columns.is_empty() => view.rows.len(),
                _ => 0,
            };
            names.sort_by_cached_key(|name| {
                let place = claimed.iter().position(|table| table == name);
                (place.unwrap_or(last), of_control(&w, name), rows(name))
            });
            Ok::<_, Error>(names)
        },
    );
    let w = world.clone();
    environment.add_function("whole_table", move |state: &State, name: &str| {
        Ok::<_, Error>(Value::from_object(Shown(tables::whole(
            &w,
            state.env(),
            name,
        )?)))
    });
    let w = world.clone();
    environment.add_function("facets", move |state: &State, stage: &str| {
        let name = format!("{}{stage}", crate::environment::FACETS);
        Ok::<_, Error>(Value::from_object(Shown(tables::side_by_side(
            &w,
            state.env(),
            &name,
            &[],
        )?)))
    });
    let w = world.clone();
    environment.add_function("setup", move |state: &State, stage: &str| {
        let name = format!("{}{stage}", crate::setup::SETUP);
        Ok::<_, Error>(Value::from_object(Shown(tables::side_by_side(
            &w,
            state.env(),
            &name,
            &[],
        )?)))
    });
    let w = world.clone();
    environment.add_function("differences", move |state: &State, stage: &str| {
        let name = format!("{}{stage}", crate::environment::FACETS);
        let states = ["planned", "confound", "unmatched"];
        Ok::<_, Error>(Value::from_object(Shown(tables::side_by_side(
            &w,
            state.env(),
            &name,
            &states,
        )?)))
    });
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
    environment.add_function("table", move |state: &State, name: &str| {
        let text = tables::render(&w, state.env(), name)?;
        Ok::<_, Error>(Value::from_object(Shown(text)))
    });
    let w = world.clone();
    environment.add_function("title", move |state: &State| {
        let text = match &w.parameters.title {
            Some(title) => render_text(&w, state.env(), "title", title)?,
            None => {
                let titled = w.data.study().map_err(missed)?.spec["title"].is_string();
                w.spec(if titled { "title" } else { "name" }, "")
                    .map_err(missed)?
            }
        };
        Ok::<_, Error>(Value::from_object(Shown(text)))
    });
    let w = world.clone();
    environment.add_function("figure", move |state: &State, name: &str| {
        Ok::<_, Error>(Value::from_object(Shown(w.figure(state.env(), name)?)))
    });
}
