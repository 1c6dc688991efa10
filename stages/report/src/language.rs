//! The template language: lookups that render as traced texts, and plain values for conditions, which cannot be
//! rendered.
//!
//! A field of a row (`row.efficiency`) is a plain value: templates can compare it, sort by it and loop over it, and the
//! environment refuses to print it if it is a number. A *shown* value (`row.show("efficiency", "0.00")`, `value(…)`) is
//! a traced text: it can only be printed, and arithmetic on it is an error.

mod functions;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};

use artifacts::{Scalar, at_path};
use minijinja::value::{Enumerator, Kwargs, Object, ObjectRepr, Value};
use minijinja::{Environment, Error, ErrorKind, State};
use pipeline::place::Condition;
use pipeline::stage::Json;
use pipeline::suggest::remedy;

use crate::check::like_words;
use crate::data::{Data, Miss};
use crate::format::{beside_one, clean, format_value, of_label};
use crate::guard::{guarded, unguarded};
use crate::held::Spent;
use crate::ratios::check_factor;
use crate::settings::{OneOrMany, Parameters, not_available};
use crate::statement::Recorded;
use crate::template::instrument;
use crate::trace::{Entry, Ledger, TraceSource};
use crate::view::View;

/// The state shared by the functions of one rendering.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) data: Arc<Data>,
    pub(crate) parameters: Arc<Parameters>,
    pub(crate) trace: Ledger,
    pub(crate) figures: Mutex<BTreeSet<usize>>,
    /// The label of each table and figure by name: `Table 3` or `Figure 3`.
    pub(crate) labels: BTreeMap<String, (&'static str, i64)>,
    /// The names of the captions, titles and headings rendered so far, which are templates themselves.
    pub(crate) texts: Mutex<Vec<String>>,
    /// The reasons of missing cells that footnotes have printed in full so far.
    pub(crate) reasons: Mutex<BTreeSet<String>>,
    /// The statements and claims judged so far.
    pub(crate) statements: Mutex<Vec<Recorded>>,
    /// The column that a template last read and that does not exist, and the sentence about it. A template may test
    /// whether a column exists, so this is a mistake only if the value is used.
    pub(crate) absent: Mutex<Option<(String, String)>>,
    /// The resources used by the templates so far.
    pub(crate) spent: Arc<Spent>,
}

/// A text that carries its trace and can only be printed.
pub(crate) struct Shown(pub(crate) String);

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Object for Shown {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A row of a table. Fields are plain, `show` and `interval` are traced, and `only` is the condition that selects this
/// row.
#[derive(Debug)]
struct Row {
    world: Arc<World>,
    view: Arc<View>,
    index: usize,
}

impl Object for Row {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        match self.view.get(self.index, key) {
            Ok(value) => Some(plain(&value)),
            Err(Miss::Wrong(message)) => {
                let mut absent = self
                    .world
                    .absent
                    .lock()
                    .expect("no holder of this lock panics");
                *absent = Some((key.to_owned(), message));
                None
            }
            Err(Miss::Unread) => None,
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(
            self.view
                .table
                .columns
                .clone()
                .into_iter()
                .map(Value::from)
                .collect(),
        )
    }

    fn call_method(
        self: &Arc<Self>,
        _state: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        match method {
            "show" => {
                let (column, format, options): (&str, Option<&str>, Kwargs) =
                    minijinja::value::from_args(args)?;
                let null = null_word(&options)?;
                shown(
                    self.world
                        .show(&self.view, self.index, column, format.unwrap_or(""), &null),
                )
            }
            "interval" => {
                let (low, high, format, options): (&str, &str, Option<&str>, Kwargs) =
                    minijinja::value::from_args(args)?;
                let null = null_word(&options)?;
                shown(self.world.interval(
                    &self.view,
                    self.index,
                    [low, high],
                    format.unwrap_or(""),
                    &null,
                ))
            }
            "only" => {
                let () = minijinja::value::from_args(args)?;
                let only = self.view.only(self.index).map_err(missed)?;
                Ok(Value::from_pairs(
                    only.iter()
                        .map(|(column, value)| (column.as_str(), plain(value))),
                ))
            }
            _ => Err(Error::new(
                ErrorKind::UnknownMethod,
                format!("a row has no method `{method}`; it has `show`, `interval` and `only`"),
            )),
        }
    }
}

/// Returns whether a value is a row.
pub(crate) fn is_row(value: &Value) -> bool {
    value.downcast_object_ref::<Row>().is_some()
}

/// Returns a row in the form that templates use.
pub(crate) fn plain_row(world: &Arc<World>, view: &Arc<View>, index: usize) -> Value {
    Value::from_object(Row {
        world: world.clone(),
        view: view.clone(),
        index,
    })
}

impl World {
    /// Records a statement and returns its number, from 0.
    pub(crate) fn record(&self, statement: Recorded) -> usize {
        let mut statements = self
            .statements
            .lock()
            .expect("no holder of this lock panics");
        statements.push(statement);
        statements.len() - 1
    }

    /// Returns the marked text of a value.
    pub(crate) fn show(
        &self,
        view: &View,
        index: usize,
        column: &str,
        format: &str,
        null: &str,
    ) -> Result<String, Miss> {
        let value = view.get(index, column)?;
        let (unit, ratio) = (view.table.unit(column), view.table.ratio(column));
        let format = &match view.is_label(column) {
            true => of_label(&value, format),
            false => format.to_owned(),
        };
        let text = format_value(&value, unit.as_deref(), format, null)
            .map_err(|e| format!("column `{column}`: {e}"))?;
        check_factor(ratio.as_ref(), column, format)?;
        let (part, row) = view.rows[index];
        let (artifact, row) = match view.table.source {
            TraceSource::Ledger => (None, row),
            _ => (Some(view.table.parts[part].digest), row),
        };
        Ok(self.trace.mark(Entry {
            stage: view.table.stage.clone(),
            coordinates: view.table.cell(part),
            output: view.table.output.clone(),
            artifact,
            row: u64::try_from(row).ok(),
            row_key: view.row_key(index),
            unit,
            ratio,
            format: format.to_owned(),
            ..Entry::new(view.table.source, column, value, text)
        }))
    }

    /// Returns `[low, high]` with both ends marked. An end of ratios that would look like one has more decimals.
    pub(crate) fn interval(
        &self,
        view: &View,
        index: usize,
        ends: [&str; 2],
        format: &str,
        null: &str,
    ) -> Result<String, Miss> {
        if ends
            .iter()
            .all(|c| matches!(view.get(index, c), Ok(Scalar::Null)))
        {
            return self.show(view, index, ends[0], format, null);
        }
        let end = |column: &str| {
            let value = view.get(index, column)?;
            let unit = view.table.unit(column);
            let format = match view.table.ratio(column) {
                Some(_) => beside_one(&value, unit.as_deref(), format),
                None => format.to_owned(),
            };
            self.show(view, index, column, &format, null)
        };
        let (low, high) = (end(ends[0])?, end(ends[1])?);
        Ok(format!("[{low}, {high}]"))
    }

    fn json(
        &self,
        place: (&str, &str),
        path: &str,
        condition: &Condition,
        format: &str,
        null: &str,
    ) -> Result<String, Miss> {
        let (part, value) = self.data.document(place.0, place.1, condition, path)?;
        let (value, text) = json_text(&value, format, null, path)?;
        Ok(self.trace.mark(Entry {
            stage: place.0.to_owned(),
            coordinates: Some(part.coordinates.clone()),
            output: place.1.to_owned(),
            artifact: Some(part.digest),
            row_key: part.coordinates.into(),
            format: format.to_owned(),
            ..Entry::new(TraceSource::Json, path, value, text)
        }))
    }

    pub(crate) fn spec(&self, path: &str, format: &str) -> Result<String, Miss> {
        let study = self.data.study()?;
        let value = at_path(&study.spec, &unguarded(path))
            .ok_or_else(|| no_such_value(&study.spec, &unguarded(path)))?;
        let (value, text) = json_text(value, format, "none", path)?;
        let entry = Entry {
            format: format.to_owned(),
            ..Entry::new(TraceSource::Spec, path, value, text)
        };
        Ok(self.trace.mark(entry))
    }

    fn count(&self, view: &View, format: &str) -> Result<String, Miss> {
        let count = Scalar::Int(i64::try_from(view.rows.len()).map_err(|e| e.to_string())?);
        let text = format_value(&count, None, format, "")?;
        let (artifact, coordinates) = match (view.table.source, view.table.parts.as_slice()) {
            (TraceSource::Table, [only]) => (Some(only.digest), view.table.cell(0)),
            _ => (None, None),
        };
        Ok(self.trace.mark(Entry {
            stage: view.table.stage.clone(),
            coordinates,
            output: view.table.output.clone(),
            artifact,
            row_key: view.condition.clone(),
            format: format.to_owned(),
            ..Entry::new(TraceSource::Count, "count", count, text)
        }))
    }
}

/// Says which of the fields on the way to a value of the experiment does not exist, and what exists there.
fn no_such_value(spec: &Json, path: &str) -> String {
    let (mut parent, mut name) = ("", path);
    while let Some((before, after)) = name.split_once('.') {
        let next = &path[..parent.len() + usize::from(!parent.is_empty()) + before.len()];
        if at_path(spec, next).is_none() {
            name = before;
            break;
        }
        (parent, name) = (next, after);
    }
    let there = match parent {
        "" => Some(spec),
        parent => at_path(spec, parent),
    };
    let fields = there
        .and_then(Json::as_object)
        .into_iter()
        .flat_map(|fields| fields.keys());
    let hint = remedy(name, "fields there", fields.collect::<Vec<_>>());
    format!("the experiment has no `{path}`; {hint}")
}

fn json_text(value: &Json, format: &str, null: &str, path: &str) -> Result<(Scalar, String), Miss> {
    if let Json::Array(items) = value {
        let texts: Option<Vec<_>> = items.iter().map(Scalar::from_json).collect();
        let texts = texts.ok_or_else(|| format!("`{path}` is a list of lists or objects"))?;
        let shown: Result<Vec<_>, _> = texts
            .iter()
            .map(|t| format_value(t, None, format, null))
            .collect();
        return Ok((Scalar::Text(value.to_string()), shown?.join(", ")));
    }
    let value = Scalar::from_json(value)
        .ok_or_else(|| format!("`{path}` is an object: name one of its fields"))?;
    let text = format_value(&value, None, format, null)?;
    Ok((value, text))
}

/// Returns a scalar as a plain template value.
fn plain(value: &Scalar) -> Value {
    match value {
        Scalar::Null => Value::from(()),
        Scalar::Bool(v) => Value::from(*v),
        Scalar::Int(v) => Value::from(*v),
        Scalar::Float(v) => Value::from(*v),
        Scalar::Text(v) => Value::from(guarded(&clean(v))),
    }
}

/// Reads a template's `{"column": value, …}`, where a list of values means any of them.
fn condition(value: Option<&Value>) -> Result<Condition, Error> {
    let Some(value) = value.filter(|v| !v.is_undefined() && !v.is_none()) else {
        return Ok(Condition::default());
    };
    let mut names = Vec::new();
    for key in value.try_iter()? {
        let name = key
            .as_str()
            .ok_or_else(|| wrong("write a condition as {\"column\": value}"))?;
        let wanted = value.get_item(&key)?;
        let one = json_of(&wanted)?;
        let values = match one {
            Json::Array(items) => items.iter().filter_map(Scalar::from_json).collect(),
            other => Scalar::from_json(&other).into_iter().collect(),
        };
        names.push((name.to_owned(), values));
    }
    Ok(Condition(names))
}

pub(crate) fn json_of(value: &Value) -> Result<Json, Error> {
    if value.downcast_object_ref::<Shown>().is_some() {
        return Err(wrong("use plain values in a condition, not shown ones"));
    }
    let mut json = serde_json::to_value(value).map_err(|e| wrong(&e.to_string()))?;
    texts(&mut json, &|text| *text = unguarded(text));
    Ok(json)
}

/// Changes every string of a document; keys stay unchanged.
fn texts(json: &mut Json, change: &dyn Fn(&mut String)) {
    match json {
        Json::String(text) => change(text),
        Json::Array(items) => items.iter_mut().for_each(|item| texts(item, change)),
        Json::Object(fields) => fields.values_mut().for_each(|value| texts(value, change)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// Reads the condition of a declared table or figure.
pub(crate) fn declared(only: &BTreeMap<String, OneOrMany>) -> Condition {
    let values = |v: &OneOrMany| match v {
        OneOrMany::Many(items) => items.iter().filter_map(Scalar::from_json).collect(),
        OneOrMany::One(item) => Scalar::from_json(item).into_iter().collect(),
    };
    let pairs = only.iter().map(|(column, v)| (column.clone(), values(v)));
    Condition(pairs.collect())
}

pub(crate) fn wrong(message: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.to_owned())
}

pub(crate) fn missed(miss: Miss) -> Error {
    match miss {
        Miss::Unread => wrong("the artifact is not read yet"),
        Miss::Wrong(message) => wrong(&message),
    }
}

pub(crate) fn shown(text: Result<String, Miss>) -> Result<Value, Error> {
    Ok(Value::from_object(Shown(text.map_err(missed)?)))
}

fn null_word(options: &Kwargs) -> Result<String, Error> {
    let word: Option<String> = options.get("null")?;
    options.assert_all_used()?;
    Ok(word.unwrap_or_else(not_available))
}

fn only_row(view: &View, name: &str) -> Result<(), Miss> {
    match view.rows.len() {
        1 => Ok(()),
        0 => Err(format!(
            "no row of `{name}` matches {{{}}}{}",
            view.condition,
            view.table.unmet(&view.condition)
        )
        .into()),
        n => Err(format!(
            "{n} rows of `{name}` match {{{}}}; a value needs exactly one",
            view.condition
        )
        .into()),
    }
}

/// Renders a declared title or caption, which may look up numbers like the template.
pub(crate) fn render_text(
    world: &World,
    environment: &Environment<'_>,
    what: &str,
    text: &str,
) -> Result<String, Error> {
    let mut texts = world.texts.lock().expect("no holder of this lock panics");
    texts.push(what.to_owned());
    let number = world.parameters.templates.len() + texts.len() - 1;
    drop(texts);
    environment.render_named_str(what, &instrument(number, text), ())
}

/// Adds the functions to an environment.
pub(crate) fn install(environment: &mut Environment<'static>, world: &Arc<World>) {
    functions::install_values(environment, world);
    functions::install_documents(environment, world);
    functions::install_rows(environment, world);
    crate::parts::install(environment, world);
    crate::statement::install(environment, world);
    crate::claims::install(environment, world);
    crate::held::install(environment, world);
    let spent = Arc::clone(&world.spent);
    let (names, trace) = (like_words(&world.data), world.trace.clone());
    environment.set_formatter(move |out, _state, value| {
        if let Some(text) = value.as_str() {
            spent.print(text.len())?;
        } else if let Some(Shown(text)) = value.downcast_object_ref() {
            spent.print(text.len())?;
        }
        if value.is_undefined() {
            return Err(Error::new(ErrorKind::UndefinedError, "the value is undefined"));
        }
        if let Some((name, what)) = value.as_str().and_then(|text| {
            let name = unguarded(text);
            let what = names.get(&name)?;
            Some((name, *what))
        }) {
            let text = Scalar::Text(name.clone());
            let marked = trace.mark(Entry::new(TraceSource::Literal, what, text, name));
            return write!(out, "{marked}").map_err(|_| wrong("the output refuses to be written"));
        }
        if value.as_str().is_some() || value.downcast_object_ref::<Shown>().is_some() {
            return write!(out, "{value}").map_err(|_| wrong("the output refuses to be written"));
        }
        let kind = value.kind();
        Err(wrong(&format!(
            "a {kind} has no trace and cannot be printed; show it with `row.show(\"column\", \"format\")`, \
             `value(…)`, `count(…)` or `spec(…)`"
        )))
    });
}
