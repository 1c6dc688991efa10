//! The template functions that look up values and rows.

use std::sync::Arc;

use artifacts::{Scalar, at_path};
use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error};
use pipeline::place::Condition;

use super::{World, condition, missed, null_word, only_row, plain, plain_row, shown, texts, wrong};
use crate::data::Miss;
use crate::format::clean;
use crate::guard::{guarded, unguarded};
use crate::trace::{Entry, TraceSource};

/// Adds the functions that look up a value of a table, or count its rows.
pub(super) fn install_values(environment: &mut Environment<'static>, world: &Arc<World>) {
    let w = world.clone();
    environment.add_function(
        "value",
        move |table: &str,
              only: Option<Value>,
              column: &str,
              format: Option<&str>,
              options: Kwargs| {
            let view = w
                .data
                .view(table, &condition(only.as_ref())?)
                .map_err(missed)?;
            only_row(&view, table).map_err(missed)?;
            shown(w.show(
                &view,
                0,
                column,
                format.unwrap_or(""),
                &null_word(&options)?,
            ))
        },
    );
    let w = world.clone();
    environment.add_function(
        "raw",
        move |table: &str, only: Option<Value>, column: &str| {
            let view = w
                .data
                .view(table, &condition(only.as_ref())?)
                .map_err(missed)?;
            only_row(&view, table).map_err(missed)?;
            Ok::<_, Error>(plain(&view.get(0, column).map_err(missed)?))
        },
    );
    let w = world.clone();
    environment.add_function(
        "count",
        move |table: &str, only: Option<Value>, format: Option<&str>| {
            let view = w
                .data
                .view(table, &condition(only.as_ref())?)
                .map_err(missed)?;
            shown(w.count(&view, format.unwrap_or("")))
        },
    );
}

/// Adds the functions that look into documents: the experiment, descriptors, facts about the host.
pub(super) fn install_documents(environment: &mut Environment<'static>, world: &Arc<World>) {
    let w = world.clone();
    environment.add_function("spec", move |path: &str, format: Option<&str>| {
        shown(w.spec(path, format.unwrap_or("")))
    });
    let w = world.clone();
    environment.add_function("plan", move |path: &str| {
        let study = w.data.study().map_err(missed)?;
        let value = at_path(&study.spec, &unguarded(path)).cloned();
        Ok::<_, Error>(value.map_or(Value::from(()), |mut json| {
            texts(&mut json, &|text| *text = guarded(&clean(text)));
            Value::from(minijinja::value::Serde(&json))
        }))
    });
    let w = world.clone();
    environment.add_function("trail", move || {
        let study = w.data.study().map_err(missed)?;
        let text = study.trail.to_string();
        let entry = Entry::new(
            TraceSource::Trail,
            "trail",
            Scalar::Text(text.clone()),
            text,
        );
        shown(Ok(w.trace.mark(entry)))
    });
    let w = world.clone();
    environment.add_function(
        "json",
        move |name: &str,
              path: &str,
              only: Option<Value>,
              format: Option<&str>,
              options: Kwargs| {
            let place = crate::data::split(name).map_err(missed)?;
            let null = null_word(&options)?;
            shown(w.json(
                place,
                path,
                &condition(only.as_ref())?,
                format.unwrap_or(""),
                &null,
            ))
        },
    );
    let w = world.clone();
    environment.add_function(
        "descriptor",
        move |stage: &str,
              path: &str,
              only: Option<Value>,
              format: Option<&str>,
              options: Kwargs| {
            let null = null_word(&options)?;
            let name = ["server", "environment"]
                .into_iter()
                .find(|o| w.data.has(&format!("{stage}.{o}")));
            let name = name.ok_or_else(|| wrong(&format!("stage `{stage}` has no descriptor")))?;
            shown(w.json(
                (stage, name),
                path,
                &condition(only.as_ref())?,
                format.unwrap_or(""),
                &null,
            ))
        },
    );
    let w = world.clone();
    environment.add_function(
        "host",
        move |path: &str, format: Option<&str>, options: Kwargs| {
            shown(host(&w, path, format.unwrap_or(""), &null_word(&options)?))
        },
    );
}

/// Adds the functions that return rows, and those that list what exists.
pub(super) fn install_rows(environment: &mut Environment<'static>, world: &Arc<World>) {
    let row = plain_row;
    let w = world.clone();
    environment.add_function(
        "rows",
        move |table: &str, only: Option<Value>, options: Kwargs| {
            let mut view = w
                .data
                .view(table, &condition(only.as_ref())?)
                .map_err(missed)?;
            let order: Option<Vec<String>> = options.get("order")?;
            options.assert_all_used()?;
            view.sort(&order.unwrap_or_default()).map_err(missed)?;
            let view = Arc::new(view);
            Ok::<_, Error>(
                (0..view.rows.len())
                    .map(|i| row(&w, &view, i))
                    .collect::<Value>(),
            )
        },
    );
    let w = world.clone();
    environment.add_function("row", move |table: &str, only: Option<Value>| {
        let view = w
            .data
            .view(table, &condition(only.as_ref())?)
            .map_err(missed)?;
        only_row(&view, table).map_err(missed)?;
        Ok::<_, Error>(row(&w, &Arc::new(view), 0))
    });
    for (name, descending) in [("lowest", false), ("highest", true)] {
        let w = world.clone();
        environment.add_function(
            name,
            move |table: &str, only: Option<Value>, column: &str| {
                let mut view = w
                    .data
                    .view(table, &condition(only.as_ref())?)
                    .map_err(missed)?;
                let sign = if descending { "-" } else { "" };
                view.sort(&[format!("{sign}{column}")]).map_err(missed)?;
                if view.rows.is_empty() || view.get(0, column).map_err(missed)? == Scalar::Null {
                    return Err(wrong(&format!(
                        "no row of `{table}` has a {column}: there is no {name}"
                    )));
                }
                Ok(row(&w, &Arc::new(view), 0))
            },
        );
    }
    let w = world.clone();
    environment.add_function("has", move |name: &str| w.data.has(name));
    let w = world.clone();
    environment.add_function("stage", move |kind: &str| {
        let input = w.data.stages().iter().find(|s| s.kind == kind);
        input.map_or(Value::from(()), |s| Value::from(s.stage.clone()))
    });
}

/// Returns what the first provision stage records about the host at a path, in whichever descriptor has it.
fn host(world: &World, path: &str, format: &str, null: &str) -> Result<String, Miss> {
    let mut stages = world.data.stages().iter();
    let stage = stages.find(|s| s.kind == "provision").ok_or_else(|| {
        let message = "the report does not need a provision stage, so it has no host";
        Miss::Wrong(message.to_owned())
    })?;
    let ways = [
        "facets.{}",
        "observations.{}.value",
        "observations.{}",
        "{}",
    ];
    let mut last = Miss::Unread;
    for way in ways {
        let path = way.replace("{}", path);
        let place = (stage.stage.as_str(), "host");
        match world.json(place, &path, &Condition::default(), format, null) {
            Err(Miss::Unread) => return Err(Miss::Unread),
            Err(miss) => last = miss,
            outcome => return outcome,
        }
    }
    Err(last)
}
